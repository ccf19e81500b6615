"""Figures in prose have a source, as printed blocks have.

A figure is a number with a unit, with decimals or with thousands. A test holds it against the printed blocks of its
page, the results to which its paragraph links, and the tests that the paragraph names. For all others
``tests/figures.toml`` says where they come from, and how often they stand on the page. Who changes a figure by hand
finds the new one without a source, or the old one less often.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from builders import ROOT

PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
SOURCES: dict[str, dict[str, str]] = tomllib.loads((ROOT / "tests" / "figures.toml").read_text())
STATED = ("paper", "data sheet", "setting", "example", "measured", "computed")
"""Kinds of sources that are no file: what a paper or a data sheet prints, what code or a command sets, what an example
assumes, what was measured by the named program, and what follows from figures beside it."""

NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNIT = (
    r"%|points|percentage points|ms|us|s|min|/s|GOP/s|images a second|requests/s|[kKMG]i?B|GB/s|Mb|DSPs|LUTs|"
    r"flip-flops|cycles|tables|entries|MHz|mJ|GMAC|MACs|hours|frames/s|times"
)
WITH_UNIT = re.compile(rf"x\b|(?:,? (?:and|to|or|against) {NUMBER}|, {NUMBER})*\s?(?:{UNIT})(?![\w/])")
PLACE = re.compile(
    r"(?:Sections?|Figs?\.|Tables?|Equations?|Appendix|Python|Yosys|SCALE-Sim|LoadGen|Apache|fluidb)[ -]"
    r"(?:[\d.]+(?:,| and| to)? )*\Z"
)
"""What stands before a number of a section, a figure or a version."""


def name_of(page: Path) -> str:
    """The name of a page in ``tests/figures.toml``."""
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def paragraphs(page: Path) -> list[str]:
    """The paragraphs of a page, without blocks and without what programs write into it."""
    text = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.split(r"\n\s*\n", text)


@cache
def figures(paragraph: str) -> list[str]:
    """Figures of a paragraph, outside of code, designs, links and formulas."""
    text = re.sub(r"^    .*$", "", paragraph, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", " ".join(re.sub(r"`[^`]*`", "`", text).split()))
    found = []
    for match in re.finditer(rf"(?<![\w.,<*/^#]){NUMBER}(?![\w.,]*\d)", text):
        number, rest = match[0].rstrip(","), text[match.start() :].removeprefix(match[0].rstrip(","))
        named = PLACE.search(text[max(0, match.start() - 40) : match.start()])
        if not named and (WITH_UNIT.match(rest) or {".", ","} & set(number)):
            found.append(number)
    return found


@cache
def numbers(text: str) -> set[Decimal]:
    """The numbers of a text."""
    return {Decimal(each.replace(",", "")) for each in re.findall(rf"(?<![\w.]){NUMBER}", text.replace("_", ","))}


def holds(text: str, figure: str) -> bool:
    """True if a text has a figure, or a number that is this figure when it is rounded to three digits or more."""
    wanted = Decimal(figure.replace(",", ""))
    exact = len(wanted.as_tuple().digits) < 3
    for value in numbers(text):
        if value == wanted or (
            not exact and abs(value - wanted) <= Decimal((0, (5,), int(wanted.as_tuple().exponent) - 1))
        ):
            return True
    return False


def share(figure: str) -> str:
    """A figure in per cent as code writes it."""
    return str(Decimal(figure.replace(",", "")) / 100)


@cache
def text_of_tests() -> dict[str, tuple[str, str]]:
    """The text of every test, with its decorators, and the text of its file, by the test's name."""
    found = {}
    for path in sorted(ROOT.glob("tests/**/*.py")):
        lines = path.read_text().splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, ast.FunctionDef):
                begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[node.name] = "\n".join(lines[begin - 1 : node.end_lineno]), "\n".join(lines)
    return found


@cache
def blocks(page: Path) -> str:
    """The printed blocks of a page."""
    return "\n".join(re.findall(r"^ *```text\n.*?^ *```$", page.read_text(), re.MULTILINE | re.DOTALL))


@cache
def is_beside(page: Path, tests: tuple[str, ...], links: tuple[str, ...], figure: str) -> bool:
    """True if a figure is in a block of its page, in a test that its paragraph names, or in results that this links to.

    Results have nearly every number of one or two digits, so that these need another source.
    """
    named = [text_of_tests()[name][0] for name in tests]
    results = [(page.parent / link).read_text() for link in links] if sum(map(str.isdigit, figure)) > 2 else []
    return holds("\n".join([blocks(page), *named, *results]), figure)


def faults(page: Path, told: list[str]) -> list[str]:
    """What is wrong with the figures of a page of these paragraphs: no source, or too few or too many of a figure."""
    stated = Counter(" ".join(SOURCES.get(name_of(page), {}).values()).split())
    known = {*stated, *" ".join(SOURCES["every page"].values()).split()}
    times, missing = Counter[str](), []
    for paragraph in told:
        tests = tuple(re.findall(r"`(test_\w+)`", paragraph))
        links = tuple(re.findall(r"\]\(([^)#]*results/[^)#]*\.md)", paragraph))
        for figure in figures(paragraph):
            times[figure] += 1
            if figure not in known and not is_beside(page, tests, links, figure):
                missing.append(f"{figure}: {' '.join(paragraph.split())[:60]}")
    return missing + [
        f"{figure}: {times[figure]} times, {stated[figure]} stated"
        for figure in stated
        if times[figure] != stated[figure]
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_figures_in_prose_have_a_source(page: Path) -> None:
    wrong = faults(page, paragraphs(page))
    assert wrong == [], (
        f"tests/figures.toml, {name_of(page)}: say where these figures come from, as often as they stand"
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_changed_digit_is_noticed(page: Path) -> None:
    """A figure that could be another one of its page stands in ``tests/figures.toml``, where it is counted."""
    unnoticed, told = [], paragraphs(page)
    for i, paragraph in enumerate(told):
        before = figures(paragraph)
        for digit in re.finditer(r"\d", paragraph):
            changed = paragraph[: digit.start()] + str(int(digit[0]) % 9 + 1) + paragraph[digit.end() :]
            after = figures(changed)
            if before != after and not faults(page, [*told[:i], changed, *told[i + 1 :]]):
                unnoticed += [
                    f"{x} for {y}: {' '.join(paragraph.split())[:60]}"
                    for x, y in zip(after, before, strict=False)
                    if x != y
                ]
    assert not unnoticed, "\n".join(unnoticed)


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) in SOURCES], ids=name_of)
def test_sources_of_figures_exist_and_have_them(page: Path) -> None:
    """A file has the figure, a test has it or reads the page."""
    for source, text in SOURCES[name_of(page)].items():
        name = source.partition(":")[0]
        if name.startswith("test_"):
            test, file = text_of_tests()[name]
            assert page.name in file or all(holds(test, figure) for figure in text.split()), source
        elif name not in STATED:
            held = (ROOT / name).read_text().replace(",", " " if name.endswith(".csv") else ",")
            assert all(holds(held, figure) or holds(held, share(figure)) for figure in text.split()), source


def test_a_changed_figure_is_found() -> None:
    found = figures(
        "It takes 35.08 ms, or 1.4 to 2 %, in Fig. 7.92 of <1024,7,128>, `9.9 %`, [12.3](b-4.5.md), 4,576 banks"
    )
    assert found == ["35.08", "1.4", "2", "12.3", "4,576"]
    assert holds("speed-up 49.78 images/s", "49.8")
    assert not holds("speed-up 49.78 images/s", "49.9")
    assert not holds("49.78", "50")
