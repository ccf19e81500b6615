"""What a reader sees of a page: on the site, on a git host, and by ``fluidb docs``."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
from builders import ROOT
from markdown_it import MarkdownIt

PAGES = [
    Path(name)
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
]
TAGS = set(
    "a blockquote br code del em h1 h2 h3 h4 hr img li ol p pre span strong table tbody td th thead tr ul".split()  # noqa: SIM905
)
BLOCKS = {"p", "li", "td", "th", "h1", "h2", "h3", "h4"}
EMPHASIS = {"em", "strong", "del"}
RENDERERS = {
    "CommonMark, as git hosts and `fluidb docs`": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    "Python-Markdown, as the site": lambda text: markdown.markdown(text, extensions=["tables", "fenced_code"]),
}


class Swallowed(HTMLParser):
    """Finds tags that are no Markdown, and emphasis that begins or ends inside a word: both were meant as text."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.ended, self.code, self.faults = "", False, False, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.faults.append(f"{self.before[-40:]} {self.get_starttag_text()}")
        if tag in EMPHASIS and re.search(r"\w\Z", self.before):
            self.faults.append(f"{self.before[-40:]} <{tag}>")
        if tag in BLOCKS:
            self.before = ""
        self.ended = False

    def handle_endtag(self, tag: str) -> None:
        self.ended = tag in EMPHASIS

    def handle_data(self, data: str) -> None:
        if self.ended and re.match(r"\w", data):
            self.faults.append(f"{self.before[-40:]}|{data[:40]}")
        self.before += data
        self.ended = False


def swallowed(html: str) -> list[str]:
    parser = Swallowed()
    parser.feed(html)
    return parser.faults


@pytest.mark.parametrize("renderer", RENDERERS)
def test_no_formula_is_swallowed(renderer):
    """Stars and angle brackets outside of code are emphasis and tags; formulas are code."""
    assert len(PAGES) > 30
    faults = {str(page): swallowed(RENDERERS[renderer]((ROOT / page).read_text())) for page in PAGES}
    assert {page: found for page, found in faults.items() if found} == {}


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_swallowed_formula_is_seen(renderer):
    assert swallowed(RENDERERS[renderer]("H*W becomes K_h*K_w\n"))
    assert swallowed(RENDERERS[renderer]("a <b> of c\n"))
    assert swallowed(RENDERERS[renderer]("*all* of `H*W*C` and <1024,7,128>, **two** words\n")) == []


def test_sections_that_the_source_names_exist():
    """``docs/model.md, Energy`` in a comment, a docstring or a file's sources is a heading, or bold, of that page."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = "".join((ROOT / name).read_text() for name in files if name.endswith((".py", ".pyi", ".toml", ".sv", ".in")))
    named = set(re.findall(r"\bdocs/([a-z-]+)\.md(?:``)?, ([A-Z][\w' ]*\w)", text))
    assert len(named) > 10
    missing = []
    for page, section in sorted(named):
        told = (ROOT / "docs" / f"{page}.md").read_text()
        if not re.search(rf"^(?:#+ {section}\b|\*\*{section}\b)", told, re.MULTILINE):
            missing.append(f"docs/{page}.md, {section}")
    assert missing == []


def test_no_file_has_both_sides_of_a_merge():
    """A marker of git at the begin of a line: `<` or `>`, seven times, and a space."""
    command = ["git", "grep", "-nIE", "^(<{7}|>{7}) "]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout == ""
