"""``fluidb trace import``: make a request trace of one that something else wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force, Output
from ..render import facts, note, show

if TYPE_CHECKING:
    from ...traffic.importers import Imported

FORMATS = """azure-llm-2023, azure-functions-2021, azure-functions-2019, burstgpt, vidur, perf-analyzer, mlperf, csv
or jsonl (docs/import-traces.md)."""


def _column(what: str) -> typer.models.OptionInfo:
    """An option that names a column of a file, or a key."""
    return typer.Option(metavar="NAME", help=f"csv, jsonl: column or key with {what}.")


def command(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help=FORMATS)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to import.")],
    output: Output,
    arrival_column: Annotated[str | None, _column("the arrivals")] = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="s|ms|us|ns|iso", help="csv, jsonl: unit of all times; iso: ISO 8601 timestamps."),
    ] = None,
    id_column: Annotated[str | None, _column("whole numbers, each once")] = None,
    slo_column: Annotated[str | None, _column("latency objectives; seconds with iso")] = None,
    exit_column: Annotated[str | None, _column("exits, counted from 1")] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="csv: between columns; a comma if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="azure-functions-2019: same seed, same arrivals within each minute.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and count them.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a trace from a recording of real requests.

    The first request arrives at 0.
    """
    from ...formats import check_free
    from ...traffic.importers import Options, import_trace
    from ...traffic.trace import write_trace

    check_free(output, force)
    options = Options(arrival_column, unit, id_column, slo_column, exit_column, delimiter, seed)
    made = import_trace(format_, file, options, skip_bad=skip_bad)
    write_trace(made.trace, output)
    record = {
        "output": output,
        "format": format_,
        "seed": made.seed,
        "assumes": made.assumes,
        "rows_read": made.rows_read,
        "rows_kept": made.rows_kept,
        "rows_dropped": {"blank": made.rows_blank, "bad": made.rows_bad},
        "first_bad": made.first_bad,
        "rows_out_of_order": made.rows_out_of_order,
        "time_zero_s": made.time_zero_s,
        "time_zero": made.time_zero,
        "ids": made.ids,
        "requests": len(made.trace),
        "last_arrival_s": made.trace.arrival_s[-1],
        "arrival_rate_per_s": made.trace.rate_per_s,
    }
    show(as_json, "fluidb.trace-import-output/1", record, _text(made, format_))
    note(f"wrote {output}")


def _text(made: Imported, format_: str) -> Iterator[str]:
    dropped = [f"{count:,} {reason}" for count, reason in ((made.rows_blank, "blank"), (made.rows_bad, "bad")) if count]
    unsorted = made.rows_out_of_order
    found = {
        "format": format_,
        "times": made.assumes,
        "time zero": f"{made.time_zero}, the first arrival",
        "rows read": f"{made.rows_read:,}",
        "rows kept": f"{made.rows_kept:,}",
        "rows dropped": ", ".join(dropped) or "none",
        **({} if made.first_bad is None else {"first bad": made.first_bad}),
        "order": f"sorted: {unsorted:,} rows stood behind a later arrival" if unsorted else "as in the file",
        "ids": made.ids,
        "requests": f"{len(made.trace):,}",
        "rate": f"{made.trace.rate_per_s:.3f} /s",
        "last arrival": f"{made.trace.arrival_s[-1]:,.3f} s",
    }
    yield facts(found)
