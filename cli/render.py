"""Text and JSON of results: this module alone writes to a terminal."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ..formats.display import counted, printable

if TYPE_CHECKING:
    from ..serving.requirements import RequirementVerdict


def fail(lines: Sequence[str]) -> None:
    """Faults, on stderr."""
    from ..formats.errors import cut

    for line in lines:
        typer.echo(f"fluidb: {cut(printable(line))}", err=True)


@contextmanager
def every_fault() -> Iterator[None]:
    """Show every fault of an input; other commands show the first ones only."""
    from ..formats.errors import FileFaults, InputError

    try:
        yield
    except InputError as error:
        raise FileFaults(error.faults) from None


def warn(line: str) -> None:
    """Something that a user did not expect, on stderr."""
    typer.echo(f"fluidb: warning: {printable(line)}", err=True)


def note(line: str) -> None:
    """A remark on stderr, printed only to a terminal."""
    if sys.stderr.isatty():
        typer.echo(printable(line), err=True)


def plain(value: Any) -> Any:
    """A record as JSON holds it: fields by name, arrays as lists, ``None`` for numbers that are not finite."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def show(
    as_json: bool,
    schema: str,
    record: Mapping[str, Any],
    text: Iterable[str],
    wrote: Path | None = None,
    then: str = "",
    others: Sequence[Path | None] = (),
) -> None:
    """Print results as the JSON object of ``--json`` or as blocks of text; a terminal also gets what was written.

    ``then`` is what a user would do next with the file or folder ``wrote``.
    If one of the outputs is standard output, nothing else goes there.
    """
    from ..formats.outputs import STANDARD_OUTPUT

    if as_json:
        typer.echo(json.dumps({"schema": schema, **plain(record)}, indent=1, allow_nan=False))
    else:
        typer.echo("\n\n".join(text), err=STANDARD_OUTPUT in (wrote, *others))
    for output, next_step in ((wrote, then), *((other, "") for other in others)):
        if output not in (None, STANDARD_OUTPUT):
            note(f"wrote {output}; next: {next_step}" if next_step else f"wrote {output}")


def drawn(given: Mapping[str, Any]) -> dict[str, str | None]:
    """The columns that were drawn for requests, as facts."""
    from ..traffic.request_columns import REQUEST_COLUMNS

    stated = {column.heading: given[column.key] for column in REQUEST_COLUMNS}
    return {name: f"correlation {value:g}" if isinstance(value, float) else value for name, value in stated.items()}


def facts(lines: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> str:
    """Names and values, aligned; a fact whose value is ``None`` is left out, and a long one folds at a terminal."""
    given = lines.items() if isinstance(lines, Mapping) else lines
    pairs = [(name, value) for name, value in given if value is not None]
    before = max(len(name) for name, _ in pairs) + len(_GAP)
    folded = [(printable(name), folds(printable(value), _terminal() - before)) for name, value in pairs]
    return "\n".join(f"{name:<{before}}" + value.replace("\n", "\n" + before * " ") for name, value in folded)


def folds(text: str, room: float) -> str:
    """Text in lines that end between words, if it is longer than the room."""
    if len(text) <= room:
        return text
    return "\n".join(textwrap.wrap(text, max(int(room), _LEAST), break_long_words=False, break_on_hyphens=False))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, text: bool = False) -> str:
    """A table of formatted cells; a narrow terminal gets several, each with the first column, and long cells fold."""
    cells = [list(headers), *([printable(str(cell)) for cell in row] for row in rows)]
    room = _terminal() - _width([row[0] for row in cells])
    cells[1:] = [[row[0], *(folds(cell, room - len(_GAP)) for cell in row[1:])] for row in cells[1:]]
    widths = [_width(column) + len(_GAP) for column in zip(*cells, strict=True)]
    parts: list[list[int]] = [[]]
    for column, width in enumerate(widths[1:], 1):
        if parts[-1] and sum(widths[k] for k in parts[-1]) + width > room:
            parts.append([])
        parts[-1].append(column)
    return "\n\n".join(_table([[row[k] for k in (0, *part)] for row in cells], text=text) for part in parts)


def spread(items: Sequence[_Item]) -> list[_Item]:
    """All items if there are few; else some, evenly spread from the first to the last."""
    if len(items) <= 2 * _FOLDED:
        return list(items)
    return [items[round(k * (len(items) - 1) / (_FOLDED - 1))] for k in range(_FOLDED)]


def folded_table(headers: Sequence[str], rows: Sequence[Sequence[object]], where: str, total: int | None = None) -> str:
    """A table that fits on a screen; if it leaves rows out, a line says where all of them are."""
    shown, total = spread(rows), total or len(rows)
    return table(headers, shown) + (f"\n{len(shown)} of {total:,} rows; {where} has all" if len(shown) < total else "")


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text for a page."""
    from tabulate import tabulate

    return str(tabulate(list(rows), headers, tablefmt="github", disable_numparse=True))


_GAP = "  "
"""The gap that tabulate puts between columns."""

_LEAST = 20
"""Characters of a folded line, at least."""

_FOLDED = 12
"""The number of rows that stand for many; up to twice as many rows are all shown."""

_Item = TypeVar("_Item")


def _terminal() -> float:
    """Characters of a line of the terminal; elsewhere no line is too long."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def _width(column: Sequence[str]) -> int:
    """Characters of a column, whose header has two more in tabulate."""
    header, *cells = [max(map(len, cell.split("\n"))) for cell in column]
    return max(header + 2, *cells)


def _table(cells: Sequence[Sequence[str]], *, text: bool) -> str:
    from tabulate import tabulate

    align = ["left"] + ["left" if text else "right"] * (len(cells[0]) - 1)
    return str(tabulate(cells[1:], cells[0], tablefmt="simple", colalign=align, disable_numparse=True))


def outcomes(texts: Sequence[str], verdicts: Sequence[RequirementVerdict]) -> str:
    """A table of requirements: the value found, by how much each holds or fails, and how certain that is."""
    rows = []
    for text, verdict in zip(texts, verdicts, strict=True):
        by = (
            f"{100 * abs(verdict.margin):.2f} points"
            if verdict.unit == "share"
            else quantity(abs(verdict.margin), verdict.unit)
        )
        sure = bounds(verdict.interval, verdict.more_requests_needed, verdict.unit)
        if verdict.interval is not None:
            sure = (
                "beyond doubt at 95 %" if verdict.certain else f"within the interval {sure}: more requests would decide"
            )
        rows.append(
            (text, quantity(verdict.value, verdict.unit), f"{'holds' if verdict.holds else 'FAILS'} by {by}", sure)
        )
    return table(["requirement", "found", "", ""], rows, text=True)


def bounds(interval: Sequence[float] | None, more_requests_needed: int, unit: str) -> str:
    """A 95 % interval, or how many more requests there must be for one; empty if there can be none."""
    if interval is not None:
        return " to ".join(quantity(bound, unit) for bound in interval)
    return f"{counted(more_requests_needed, 'more request')} needed" if more_requests_needed else ""


def quantity(value: float, unit: str) -> str:
    """A value with a unit of ``serving.requirements``."""
    if unit == "share":
        return percent(value)
    if unit == "s":
        return ms(value)
    if unit == "bytes":
        return megabytes(value)
    if unit == "J":
        return f"{1e3 * value:,.0f} mJ" if value >= 1 else f"{1e3 * value:.4g} mJ"
    if unit == "squared":
        return f"{value:,.4g}"
    return f"{value:,.3f} /s" if unit == "/s" else f"{value:,.0f}"


def megabytes(count: float) -> str:
    """Bytes in millions."""
    return f"{1e-6 * count:,.3f} MB"


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
    return "-" if share is None else f"{100 * share:z.{digits}f} %"


def percents(parts: Sequence[float]) -> list[str]:
    """Parts of a whole in per cent to one digit, rounded by largest remainder, so that they sum to 100.0."""
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
