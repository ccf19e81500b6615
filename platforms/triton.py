"""Tables of Triton's tools, perf_analyzer and Model Analyzer: throughput by requests in flight.

Sources, each with the columns of its CSV: ``measurements_metrics.md`` among the pages of
https://github.com/triton-inference-server/perf_analyzer, and ``report.md`` among the pages of
https://github.com/triton-inference-server/model_analyzer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..formats import InputError, read_number, read_text
from ..formats.files import as_csv
from .device import MAX_BATCH, MAX_CELL_S


class ServerTable(NamedTuple):
    """A table with a row for each load that was tried."""

    tool: str
    concurrency: str  # requests in flight
    throughput: str  # samples in a second
    batch: str | None = None  # samples of a request; one if the table has no such column
    config: str | None = None  # the configuration of the server


TABLES = (
    ServerTable("perf_analyzer", "Concurrency", "Inferences/Second"),
    ServerTable("Model Analyzer", "Concurrency", "Throughput (infer/sec)", "Batch", "Model Config Path"),
)
"""Every table, by the columns that only it has."""


def table_of(header: Sequence[str]) -> ServerTable | None:
    """The table with these columns."""
    return next((table for table in TABLES if {table.concurrency, table.throughput} <= set(header)), None)


def header_of(path: Path) -> list[str]:
    """The columns of a CSV; none if it is no CSV."""
    try:
        return next(csv.reader(io.StringIO(read_text(path), newline="")), [])
    except csv.Error:
        return []


def describe(path: Path) -> str | None:
    """The table that a file holds, for people."""
    table = table_of(header_of(path))
    return table and f"a table of {table.tool}: b samples in flight take b / throughput"


def batch_times(path: Path) -> dict[int, float]:
    """Seconds for each number of samples b from 1 on: b samples in flight are answered in b / throughput.

    Between two numbers that were measured, times lie on a line.
    """
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    header = [*(reader.fieldnames or [])]
    table = table_of(header)
    assert table is not None  # the caller asked
    measured: dict[int, float] = {}
    configs, faults = set(), []
    if table.batch and table.batch not in header:
        raise InputError(f"{path}: line 1: expected a column {table.batch} of {table.tool}, found none")
    with as_csv(path, reader):
        rows = [(f"{path}: line {reader.line_num}", row) for row in reader]
    for line, row in rows:
        names = [table.concurrency, table.throughput, *filter(None, [table.batch])]
        values = [_positive(row[name]) for name in names]
        faults += [
            f'{line}: {name}: expected a number above 0, found "{" ".join((row[name] or "").split())[:40]}"'
            for name, value in zip(names, values, strict=True)
            if not value
        ]
        if not all(values):
            continue
        flight = values[0] * (values[2] if table.batch else 1)
        if flight % 1 or flight > MAX_BATCH:
            faults.append(f"{line}: expected at most {MAX_BATCH} samples in flight, found {flight:g}")
            continue
        seconds = flight / values[1]
        if not seconds <= MAX_CELL_S:
            faults.append(f"{line}: expected at most {MAX_CELL_S:g} s, found {seconds:g} s")
        measured[int(flight)] = min(seconds, measured.get(int(flight), seconds))
        configs.add(row[table.config] if table.config in header else "")
    if len(configs) > 1:
        faults.append(f"{path}: expected one {table.config}, found {len(configs)}; keep the rows of one")
    if not faults and 1 not in measured:
        faults.append(f"{path}: expected a row with one sample in flight, found none; measure with a concurrency of 1")
    if faults:
        raise InputError(faults)
    return _between(measured)


def _positive(text: str | None) -> float:
    """A number above 0, else 0."""
    try:
        value = read_number(text or "")
    except ValueError:
        return 0.0
    return value if 0 < value < 1e12 else 0.0


def _between(measured: dict[int, float]) -> dict[int, float]:
    """Times of all numbers up to the largest."""
    known = sorted(measured)
    times: dict[int, float] = {}
    for first, last in zip(known, [*known[1:], known[-1]], strict=True):
        slope = (measured[last] - measured[first]) / max(1, last - first)
        times |= {b: measured[first] + slope * (b - first) for b in range(first, max(last, first + 1))}
    return times
