"""Parts of pages that benchmarks write."""

from __future__ import annotations

import textwrap
from pathlib import Path


def short_lines(line: str) -> str:
    """A line of prose as lines of at most 100 characters; a row of a table or a heading as it is."""
    fill = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False).fill
    return line if line.startswith(("|", "#", "*")) else fill(line)


def write_part(page: Path, name: str, text: str) -> None:
    """Put a text between the comments ``NAME: begin`` and ``NAME: end`` of a page."""
    text = "\n".join(map(short_lines, text.split("\n")))
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + text + end + after)
