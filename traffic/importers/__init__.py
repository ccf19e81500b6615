"""Traces in other formats, converted to ours: a new format is an entry of ``IMPORTERS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...formats import AnyPath, InputError, did_you_mean
from ..rows import Source, Tally, bare, objects, table, tally_of
from ..times import ISO, UNITS, Times, expected, read_times
from ..trace import Trace
from . import azure, loadgen
from .counts import read_counts
from .layout import MORE, ImportedRows, Layout, arrange, read_rows

COLUMNS = ("arrival", "id", "slo", "exit", "deadline", "count", *MORE)
"""Contents of a column of a file."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Statements of the user about a file; each format takes some of them."""

    columns: Mapping[str, str] | None = None  # columns or keys, by :data:`COLUMNS`
    unit: str | None = None  # of all times: a key of ``times.UNITS``, or ``times.ISO``
    delimiter: str | None = None  # between the columns; a comma if absent
    seed: int | None = None  # of arrivals that are drawn; 0 if absent
    zero: str | None = None  # time zero on the file's clock, as the file writes times; the first arrival if absent
    slo_unit: str | None = None  # of objectives, a key of ``times.UNITS``; ``unit`` if absent, seconds with timestamps


@dataclass(frozen=True, slots=True)
class TraceImporter:
    """A format of traces."""

    assumes: str  # about the file's times; empty if it depends on the options
    read: Callable[[Tally, ImportOptions], ImportedRows]
    takes: tuple[str, ...] = ()  # options that the format has, by attribute


@dataclass(frozen=True, slots=True)
class ImportedTrace:
    """A trace, and how it was made of the file."""

    trace: Trace  # its first request arrives at 0
    assumes: str  # about the file's times
    tally: Tally  # rows of the file that were used, blank or bad
    rows_out_of_order: int  # that came after a row with a later arrival
    time_zero_s: float  # the first arrival on the file's own clock (timestamps: seconds since 1970)
    time_zero: str  # the same as text: a date, or a number
    ids: str  # their origin
    seed: int | None  # if arrivals were drawn


def parse_named_columns(text: str) -> dict[str, str]:
    """Read columns that a user wrote: ``arrival=NAME,id=NAME,slo=NAME,exit=NAME``, or some of them."""
    names: dict[str, str] = {}
    for pair in text.split(","):
        key, _, name = pair.partition("=")
        if key not in COLUMNS or key in names or not name:
            known = ",".join(f"{known}=NAME" for known in COLUMNS)
            raise InputError(f'columns: expected {known}, each at most once, found "{pair}"')
        names[key] = name
    return names


def _laid_out(source: Source, layout: Layout) -> Callable[[Tally, ImportOptions], ImportedRows]:
    return lambda tally, _: read_rows(source, layout, tally)


def _layout(options: ImportOptions, *, counted: bool = False) -> Layout:
    """The layout that the user described."""
    units = [*UNITS, ISO]
    columns, faults = options.columns or {}, []
    if not columns.get("arrival"):
        faults.append("columns: expected the column with the arrivals, found none; add arrival=NAME")
    if counted and columns.keys() != {"arrival", "count"}:
        faults.append("columns: expected arrival=NAME,count=NAME, the beginning of each interval and its requests")
    if not counted and "count" in columns:
        faults.append("columns: expected no count; intervals with counts are of the format counts")
    if "slo" in columns and "deadline" in columns:
        faults.append("columns: expected slo or deadline, found both")
    if options.unit not in units:
        unit = f'"{options.unit}"' if options.unit is not None else "none"
        faults.append(f"unit: expected the unit of the times, one of {', '.join(units)}, found {unit}")
    if options.slo_unit is not None and "slo" not in columns:
        faults.append("slo_unit: expected slo=NAME among the columns, found none; leave it out")
    if options.slo_unit is not None and options.slo_unit not in UNITS:
        faults.append(f'slo_unit: expected a unit of objectives, one of {", ".join(UNITS)}, found "{options.slo_unit}"')
    if faults:
        raise InputError(faults)
    return Layout(
        columns.get("arrival", ""),
        options.unit or "",
        identity=columns.get("id"),
        slo=columns.get("slo"),
        slo_unit=options.slo_unit or ("s" if options.unit == ISO else options.unit) or "",
        exit=columns.get("exit"),
        deadline=columns.get("deadline"),
        more={name: columns[name] for name in MORE if name in columns},
        count=columns.get("count"),
    )


def _cells(options: ImportOptions) -> Source:
    """A table with the delimiter that the user states."""
    given = options.delimiter if options.delimiter is not None else ","
    delimiter = "\t" if given == r"\t" else given
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise InputError(rf'delimiter: expected one character, or \t for a tab, found "{given}"')
    return lambda counts, names: table(counts, names, delimiter)


def _counted(tally: Tally, options: ImportOptions) -> ImportedRows:
    return read_counts(_cells(options), _layout(options, counted=True), tally, options.seed or 0)


def _delimited(tally: Tally, options: ImportOptions) -> ImportedRows:
    return read_rows(_cells(options), _layout(options), tally)


_DESCRIBED = ("columns", "unit", "zero")
_REQUESTS = (*_DESCRIBED, "slo_unit")
_UTC = "ISO 8601 timestamps, UTC where they name no zone; no leap seconds"

IMPORTERS: dict[str, TraceImporter] = {
    "azure-llm-2023": TraceImporter(_UTC, _laid_out(table, azure.LLM)),
    "azure-functions-2021": TraceImporter(
        "seconds; an arrival is end_timestamp less duration", _laid_out(table, azure.FUNCTIONS_2021)
    ),
    "azure-functions-2019": TraceImporter(
        "counts by minute; arrivals uniformly at random within the minute",
        lambda tally, options: azure.functions_2019(tally, options.seed or 0),
        takes=("seed",),
    ),
    "burstgpt": TraceImporter("seconds; failed requests arrived as well", _laid_out(table, Layout("Timestamp", "s"))),
    "vidur": TraceImporter("seconds", _laid_out(table, Layout("arrived_at", "s"))),
    "perf-analyzer": TraceImporter(
        "whole microseconds between requests, one a line", _laid_out(bare, loadgen.PERF_ANALYZER)
    ),
    "mlperf": TraceImporter(
        "microseconds; a sample arrives when it is scheduled", _laid_out(loadgen.samples, loadgen.MLPERF)
    ),
    "csv": TraceImporter("", _delimited, takes=(*_REQUESTS, "delimiter")),
    "counts": TraceImporter(
        "counts by interval; arrivals uniformly at random within the interval",
        _counted,
        takes=(*_DESCRIBED, "delimiter", "seed"),
    ),
    "jsonl": TraceImporter("", lambda tally, options: read_rows(objects, _layout(options), tally), takes=_REQUESTS),
}
"""Every format, by the name that a user gives; ``docs/traffic.md`` describes each.

Beside the Azure Public Dataset (``azure.py``) and load generators (``loadgen.py``):
BurstGPT, https://github.com/HPMLL/BurstGPT, README, Schema: ``Timestamp`` is seconds from 0:00:00 on the first day;
Vidur, https://github.com/microsoft/vidur, ``data/processed_traces/splitwise_code.csv``, which is the Azure LLM trace
2023 with arrivals in seconds.
"""


def _zero(text: str, unit: str) -> Times:
    """A time on the file's clock."""
    times, bad = read_times([text], unit)
    if bad[0]:
        raise InputError(f'zero: expected {expected(unit)}, as the file writes times, found "{text}"')
    return times


def importer_of(name: str) -> TraceImporter:
    """The importer of a format."""
    if name not in IMPORTERS:
        hint = did_you_mean(name, IMPORTERS, f"known: {', '.join(IMPORTERS)}")
        raise InputError(f'unknown format "{name}"; {hint}')
    return IMPORTERS[name]


def import_trace(
    name: str, path: AnyPath, options: ImportOptions | None = None, *, skip_bad: bool = False
) -> ImportedTrace:
    """Make a trace of a file that something else wrote."""
    options = options or ImportOptions()
    importer = importer_of(name)
    for option in ImportOptions.__dataclass_fields__:
        if getattr(options, option) is not None and option not in importer.takes:
            users = [other for other, known in IMPORTERS.items() if option in known.takes]
            raise InputError(f"{option}: expected with {' and '.join(users)} only, found {name}; leave it out")
    with tally_of(Path(path), skip_bad=skip_bad) as tally:
        rows = importer.read(tally, options)
    zero_at = None if options.zero is None else _zero(options.zero, rows.unit)
    trace, time_zero_s, out_of_order = arrange(rows, tally, zero_at)
    stamped = rows.unit == ISO
    zero = f"{time_zero_s:,.15g} s in the file"
    if stamped:
        exact = rows.times.min() if zero_at is None else zero_at[0]
        nanoseconds = int(exact if exact.dtype == np.int64 else exact * 1e9)
        zero = f"{np.datetime64(nanoseconds, 'ns')}Z"
    return ImportedTrace(
        trace,
        importer.assumes or (_UTC if stamped else UNITS[options.unit or ""][0]),
        tally,
        out_of_order,
        time_zero_s,
        zero,
        "from the file" if "request_id" in rows.known else "numbered in order of arrival",
        (options.seed or 0) if "seed" in importer.takes else None,
    )
