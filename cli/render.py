"""The only place that knows a screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer


def fail(lines: Sequence[str]) -> None:
    """Faults, on stderr."""
    for line in lines:
        typer.echo(f"fluidb: {printable(line)}", err=True)


def note(line: str) -> None:
    """A remark, on stderr, for people only."""
    if sys.stderr.isatty():
        typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """Text without control characters: names come from files, and terminals obey escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def emit_json(schema: str, content: Mapping[str, Any]) -> None:
    """The one JSON object of a ``--json`` run."""
    typer.echo(json.dumps({"schema": schema, **content}, indent=1, allow_nan=False))


def emit_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Names and values, aligned."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{printable(name):<{width}}  {printable(value)}")


def emit_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; numbers come formatted, and right-aligned but for the first column."""
    from tabulate import tabulate

    text = [[printable(str(cell)) for cell in row] for row in rows]
    align = ["left"] + ["right"] * (len(headers) - 1)
    typer.echo(tabulate(text, headers, tablefmt="simple", colalign=align, disable_numparse=True))


def emit_list(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table of text, all columns to the left."""
    from tabulate import tabulate

    text = [[printable(str(cell)) for cell in row] for row in rows]
    typer.echo(tabulate(text, headers, tablefmt="simple", disable_numparse=True))


def blank() -> None:
    """An empty line."""
    typer.echo()


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar with count and time left on stderr, where that is a terminal; else ``None``."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def percent(share: float, digits: int = 2) -> str:
    """A share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def ms(seconds: float) -> str:
    """A duration in milliseconds."""
    value = 1e3 * seconds
    return f"{value:,.2f} ms" if value >= 10 else f"{value:.3g} ms"
