"""Pages of which a benchmark writes a part."""

from __future__ import annotations

from pathlib import Path


def write_part(page: Path, name: str, text: str) -> None:
    """Put a text between the two comments of a page that have this name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + text + end + after)
