"""The only place that knows a screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..serving.requirements import Outcome


def fail(lines: Sequence[str]) -> None:
    """Faults, on stderr."""
    for line in lines:
        typer.echo(f"fluidb: {printable(line)}", err=True)


@contextmanager
def every_fault() -> Iterator[None]:
    """Show all faults, however many; elsewhere the first are enough."""
    from ..formats.errors import InputError

    try:
        yield
    except InputError as error:
        fail(error.faults)
        raise SystemExit(2) from None


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


def emit_outcomes(texts: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Requirements as the user wrote them: what was found, by how much each holds or fails, how surely."""
    rows = []
    for text, item in zip(texts, outcomes, strict=True):
        by = f"{100 * abs(item.margin):.2f} points" if item.unit == "share" else quantity(abs(item.margin), item.unit)
        sure = ""
        if item.interval is not None:
            low, high = (quantity(bound, item.unit) for bound in item.interval)
            sure = "beyond doubt at 95 %"
            if not item.certain:
                sure = f"within the interval {low} to {high}: more requests would tell"
        elif item.more_requests_needed:
            sure = f"{item.more_requests_needed:,} more requests needed"
        rows.append((text, quantity(item.value, item.unit), f"{'holds' if item.holds else 'FAILS'} by {by}", sure))
    emit_list(["requirement", "found", "", ""], rows)


def quantity(value: float, unit: str) -> str:
    """A value with a unit of ``serving.requirements``."""
    if unit == "share":
        return percent(value)
    if unit == "s":
        return ms(value)
    return f"{value:,.3f} /s" if unit == "/s" else f"{value:,.0f}"


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


def percent(share: float | None, digits: int = 2) -> str:
    """A share as a percentage, or a dash where there is nothing to share."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def percents(parts: Sequence[float]) -> list[str]:
    """Parts of a whole in per cent to one digit, rounded by largest remainder: what is printed sums to 100.0."""
    exact = [1000 * part / sum(parts) for part in parts]
    tenths = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: tenths[i] - exact[i])
    for i in by_remainder[: 1000 - sum(tenths)]:
        tenths[i] += 1
    return [f"{value / 10:.1f}" for value in tenths]


def ms(seconds: float) -> str:
    """A duration in milliseconds."""
    value = 1e3 * seconds
    return f"{value:,.2f} ms" if value >= 10 else f"{value:.3g} ms"
