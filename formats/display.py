"""How results and texts are shown: a line, in a notebook the first rows of columns, and no control characters."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any

FIRST = 10
"""Rows that a notebook shows."""

LONGEST = 300
"""Characters of a record's text, about."""


def printable(text: str) -> str:
    """Text with control characters escaped: a name in a file must not control a terminal, or hide text beside it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(count: int, thing: str) -> str:
    """A number of things, e.g. "1 row" or "2 rows"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def as_word(path: object) -> str:
    """A path as a user types it in a shell: in quotes where it needs them, and never like an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def brief(record: Any) -> str:
    """A record in a line or two: the fields that it has, with sizes in place of long values."""
    shown: list[str] = []
    for name, value in _fields(record):
        if sum(map(len, shown)) >= LONGEST:
            shown.append("...")
            break
        if value is not None:
            shown.append(f"{name}={_value(value)}")
    return f"{type(record).__name__}({', '.join(shown)})"


def first_rows(record: Any) -> str:
    """The first rows of a record's ``columns()`` as HTML, for a notebook."""
    from html import escape

    columns = record.columns()
    count = len(next(iter(columns.values())))
    rows = islice(zip(*columns.values(), strict=True), FIRST)
    lines = [_row("th", columns), *(_row("td", (_cell(value) for value in row)) for row in rows)]
    shown = f"<p>the first {FIRST} of {count:,} rows</p>" if count > FIRST else ""
    return f"<p>{escape(brief(record))}</p>\n<table>\n{''.join(lines)}</table>\n{shown}"


def _row(kind: str, texts: Iterable[str]) -> str:
    from html import escape

    return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)}</tr>\n"


def _cell(value: Any) -> str:
    """A value as text, a number with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _fields(record: Any) -> Iterator[tuple[str, Any]]:
    kind = type(record)
    for places in ("_fields", "model_fields", "__dataclass_fields__"):
        for name in getattr(kind, places, ()):
            yield name, getattr(record, name)


def _value(value: Any) -> str:
    """A value in a few words."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{' x '.join(f'{size:,}' for size in value.shape)} {value.dtype}>"
    if next(_fields(value), None):
        name = getattr(value, "name", None)
        return f"<{type(value).__name__} {name}>" if isinstance(name, str) else f"<{type(value).__name__}>"
    text = repr(value)
    if len(text) <= 40:
        return text
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"<{len(value):,} items>"
    return f"{text[:37]}..."
