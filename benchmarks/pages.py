"""Parts of pages that benchmarks write."""

from __future__ import annotations

from pathlib import Path


def write_part(page: Path, name: str, text: str) -> None:
    """Put a text between the comments ``NAME: begin`` and ``NAME: end`` of a page."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + text + end + after)
