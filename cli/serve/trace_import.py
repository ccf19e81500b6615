"""``fluidb trace import``: make a request trace of one that something else wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...formats.display import counted
from ..declare import argument, flag, option
from ..names import offering
from ..options import AsJson, Force, Output
from ..render import facts, show

if TYPE_CHECKING:
    from ...traffic.importers import ImportedTrace

FORMATS = (
    "azure-llm-2023", "azure-functions-2021", "azure-functions-2019", "burstgpt", "vidur", "perf-analyzer", "mlperf",
    "csv", "counts", "jsonl",
)  # fmt: skip
COLUMNS = (
    "For csv, counts and jsonl, required: names of columns or keys, at least of the arrivals; counts takes "
    "arrival=NAME,count=NAME. Exits count from 1."
)
NAMED = "arrival=NAME,slo=NAME,..."
ZERO = "For csv, counts and jsonl: time zero of the trace, as the file writes times; the first arrival if not given."


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the recording is read."""

    columns: Annotated[str | None, option(COLUMNS, NAMED)] = None
    unit: Annotated[
        str | None,
        option("For csv, counts and jsonl, required: unit of times, or iso for ISO 8601 timestamps.", "s|ms|us|ns|iso"),
    ] = None
    delimiter: Annotated[
        str | None, option("For csv and counts: what separates columns; a comma if not given.", "CHARACTER")
    ] = None
    slo_unit: Annotated[
        str | None, option("For csv and jsonl: unit of objectives; as --unit if not given, s with iso.", "s|ms|us|ns")
    ] = None
    zero: Annotated[str | None, option(ZERO, "TIME")] = None
    seed: Annotated[
        int | None,
        option("For azure-functions-2019 and counts: seed of the arrivals within each interval; 0 if not given."),
    ] = None


def _known(name: str) -> str:
    """Refuse a file in the place of the format, before the file is missed."""
    from ...traffic.importers import importer_of

    importer_of(name)
    return name


_OFFERED = offering(FORMATS) | {"callback": _known}


def command(
    format_: Annotated[
        str, argument(f"{', '.join(FORMATS[:-1])} or jsonl (`fluidb docs traffic`).", "FORMAT", **_OFFERED)
    ],
    file: Annotated[Path, argument("The file to import, also packed as .gz; - is standard input.", "FILE")],
    output: Output,
    *,
    how: ReadingOptions,
    skip_bad: Annotated[bool, flag("Leave out rows that cannot be used, and count them.", "--skip-bad")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a trace from a recording of real requests.

    The first request arrives at 0.
    """
    from ...formats import check_free
    from ...traffic.importers import ImportOptions, import_trace, parse_named_columns
    from ...traffic.trace import write_trace

    check_free(output, force, apart=[file])
    columns = None if how.columns is None else parse_named_columns(how.columns)
    options = ImportOptions(columns, how.unit, how.delimiter, how.seed, how.zero, how.slo_unit)
    made = import_trace(format_, file, options, skip_bad=skip_bad)
    write_trace(made.trace, output, replace=force)
    record = {
        "output": output,
        "format": format_,
        "seed": made.seed,
        "assumes": made.assumes,
        "rows_read": made.tally.read,
        "rows_kept": made.tally.kept,
        "rows_dropped": {"blank": made.tally.blank, "bad": made.tally.bad},
        "first_bad": made.tally.first_bad,
        "rows_out_of_order": made.rows_out_of_order,
        "time_zero_s": made.time_zero_s,
        "time_zero": made.time_zero,
        "ids": made.ids,
        "requests": len(made.trace),
        "last_arrival_s": made.trace.arrival_s[-1],
        "arrival_rate_per_s": made.trace.rate_per_s,
    }
    show(as_json, "fluidb.trace-import-output/1", record, _text(made, format_, how.zero), output)


def rate_text(rate_per_s: float) -> str:
    """A mean arrival rate as all commands that write a trace print it."""
    return f"{rate_per_s:{'.3f' if rate_per_s >= 1 else '.3g'}} /s" if rate_per_s else "none, all arrive at one time"


def _text(made: ImportedTrace, format_: str, zero: str | None) -> Iterator[str]:
    tally, unsorted = made.tally, made.rows_out_of_order
    dropped = [f"{count:,} {reason}" for count, reason in ((tally.blank, "blank"), (tally.bad, "bad")) if count]
    lines = {
        "format": format_,
        "times": made.assumes,
        "time zero": f"{made.time_zero}, {'the first arrival' if zero is None else 'as stated'}",
        "rows read": f"{tally.read:,}",
        "rows kept": f"{tally.kept:,}",
        "rows dropped": ", ".join(dropped) or "none",
        "first bad": tally.first_bad,
        "order": f"sorted: {counted(unsorted, 'row')} stood behind a later arrival" if unsorted else "as in the file",
        "ids": made.ids,
        "requests": f"{len(made.trace):,}",
        "rate": rate_text(made.trace.rate_per_s),
        "last arrival": f"{made.trace.arrival_s[-1]:,.3f} s",
    }
    yield facts(lines)
