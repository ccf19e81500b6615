"""From a file's columns to arrivals: parse them, check them, sort them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ..columns import Column, Name, Number, Parsed, collect, repeated
from ..reading import EXIT, NETWORK, REQUEST_ID
from ..request_columns import REQUEST_COLUMNS, SLO
from ..rows import Source, Tally, more
from ..times import MAX_ARRIVAL_S, UNITS, Times, expected, join, read_times, subtract, to_seconds
from ..trace import Trace

MAX_GAP_S = 1e8
"""Three years; a longer gap comes from a zero among dates, or from a wrong unit."""

CLOCK = {"arrival", "duration", "slo_s", "deadline"}
"""Columns of times."""

COUNT = Number(np.int64, 0, 10**9, "a count of requests")
MORE: dict[str, Number | Name] = {"network": NETWORK} | {
    column.name: column.values for column in REQUEST_COLUMNS if column.values is not SLO
}
"""Columns of a trace beside those that have a meaning of their own here."""

_How = tuple[str, Callable[[Sequence[str]], Parsed]]
"""Form of the values of a column, for faults, and the function that reads them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The meaning of a file's columns."""

    # column with the time of arrival, or of the end if there is a duration, or since the arrival before if there are
    # intervals
    arrival: str
    unit: str  # unit of all times in the file, a key of ``times.UNITS``; or ``times.ISO``
    duration: str | None = None  # column with a duration that ends at ``arrival``
    # columns with a whole number that names the request, with its latency objective, and with the exit, from 1, at
    # which it leaves
    identity: str | None = None
    slo: str | None = None
    slo_unit: str = "s"  # unit of latency objectives, a key of ``times.UNITS``
    exit: str | None = None
    deadline: str | None = None  # column with the time by which a request wants its answer, on the clock of arrivals
    more: Mapping[str, str] = field(default_factory=dict)  # columns of the file by the columns of a trace they hold
    count: str | None = None  # column with the number of requests in the interval that begins at ``arrival``
    intervals: bool = False  # whether ``arrival`` holds intervals, in whole units


@dataclass(frozen=True, slots=True)
class ImportedRows:
    """The requests of a file, in its order."""

    times: Times  # (N,): arrivals on the file's own clock, in nanoseconds or seconds
    unit: str = "s"  # of that clock: a key of ``times.UNITS``; or ``times.ISO``, the calendar, which starts in 1970
    lines: Ints | None = None  # (N,): the line of each
    # ids, exits and objectives, as far as the file has them, by their names in :class:`Trace`
    known: dict[str, NDArray[Any]] = field(default_factory=dict)


def read_rows(source: Source, layout: Layout, tally: Tally) -> ImportedRows:
    """The requests of a file that can be used, in its order; rows are counted in the tally."""
    columns = _columns(layout)
    wanted = list(columns.values())
    pieces, good, lines = collect(source(tally, [column.name for column in wanted]), wanted, tally)
    tally.check(int(good.sum()))
    values: dict[str, Any] = {
        role: (join if role in CLOCK else np.concatenate)(parts)[good]
        for role, parts in zip(columns, pieces, strict=True)
    }
    times = values.pop("arrival")
    if "duration" in values:
        times = subtract(times, values.pop("duration"))
    if layout.intervals:
        times = _accumulate(times, tally)
    if "slo_s" in values:
        values["slo_s"] = to_seconds(values["slo_s"])
    if "deadline" in values:
        values["slo_s"] = _until(values.pop("deadline"), times, lines[good], tally)
    return ImportedRows(times, layout.unit, lines[good], values)


def _until(deadlines: Times, times: Times, lines: Ints, tally: Tally) -> Floats:
    """Objectives from deadlines."""
    spans = to_seconds(subtract(deadlines, times))
    late = np.flatnonzero(~(spans >= SLO.low))
    if late.size:
        raise InputError(
            f"{tally.path}: line {lines[late[0]]}: expected a deadline after the arrival, found "
            f"one {-spans[late[0]]:g} s before it{more(late.size)}"
        )
    return spans


def _columns(layout: Layout) -> dict[str, Column]:
    """The columns that are read, by what they are: times, or a column of a :class:`Trace`."""
    times = partial(read_times, unit=layout.unit)
    spans = _spans(layout.unit, 0, MAX_GAP_S, "not negative", whole=layout.intervals)
    read = {
        "arrival": (layout.arrival, spans if layout.intervals else (expected(layout.unit), times)),
        "duration": (layout.duration, spans),
        "request_id": (layout.identity, (REQUEST_ID.expected, REQUEST_ID.parse)),
        "slo_s": (layout.slo, _spans(layout.slo_unit, 1e-12, MAX_ARRIVAL_S, "above 0")),
        "exits": (layout.exit, (EXIT.expected, EXIT.parse)),
        "deadline": (layout.deadline, (expected(layout.unit), times)),
        "count": (layout.count, (COUNT.expected, COUNT.parse)),
    }
    read |= {name: (layout.more.get(name), (values.expected, values.parse)) for name, values in MORE.items()}
    return {role: Column(name, *how) for role, (name, how) in read.items() if name is not None}


def _accumulate(intervals: Times, tally: Tally) -> Times:
    total_s = float(to_seconds(intervals).sum())
    if total_s > MAX_ARRIVAL_S:  # so that nanoseconds fit 64 bits
        raise InputError(f"{tally.path}: expected intervals of {MAX_ARRIVAL_S:g} s in all, found {total_s:g} s")
    return np.asarray(np.cumsum(intervals), dtype=intervals.dtype)


def arrange(rows: ImportedRows, tally: Tally, zero: Times | None = None) -> tuple[Trace, float, int]:
    """A trace in order of arrival; its time zero on the file's clock; the number of rows out of order.

    Time zero is the first arrival, or ``zero``.
    """
    out_of_order = int(np.count_nonzero(rows.times < np.maximum.accumulate(rows.times)))
    order = np.argsort(rows.times, kind="stable")
    times = rows.times[order]
    zero = times[:1] if zero is None else zero
    arrival = to_seconds(subtract(times, zero))
    if arrival[0] < 0:
        raise InputError(f"zero: expected a time up to the first arrival, found one {-arrival[0]:g} s after it")
    _check_gaps(arrival, None if rows.lines is None else rows.lines[order], tally)
    _check_unique(rows, tally)
    known: dict[str, Any] = {"request_id": np.arange(len(arrival))}
    known |= {name: column[order] for name, column in rows.known.items()}
    return Trace(arrival_s=arrival, **known), float(to_seconds(zero)[0]), out_of_order


def _check_gaps(arrival: Floats, lines: Ints | None, tally: Tally) -> None:
    gaps = np.diff(arrival)
    if gaps.size and gaps.max() > MAX_GAP_S:
        i = int(gaps.argmax())
        at = f"lines {lines[i]} and {lines[i + 1]}: " if lines is not None else ""
        raise InputError(
            f"{tally.path}: {at}expected at most {MAX_GAP_S:g} s between successive arrivals, found {gaps[i]:g} s; "
            "is a time missing there, or the unit wrong?"
        )
    if arrival[-1] > MAX_ARRIVAL_S:
        raise InputError(f"{tally.path}: expected arrivals within {MAX_ARRIVAL_S:g} s, found {arrival[-1]:g} s")


def _check_unique(rows: ImportedRows, tally: Tally) -> None:
    ids = rows.known.get("request_id", np.zeros(0, dtype=np.int64))
    again = repeated(ids)
    if again.size and rows.lines is not None:
        raise InputError(
            f"{tally.path}: line {rows.lines[again[0]]}: expected a new id, found {ids[again[0]]}{more(again.size)}; "
            "without a column of ids requests are numbered as they arrive"
        )


def _spans(unit: str, low_s: float, high_s: float, sign: str, *, whole: bool = False) -> _How:
    """Durations between two bounds, in whole units if asked for."""

    def parse(texts: Sequence[str]) -> Parsed:
        spans, bad = read_times(texts, unit)
        seconds = to_seconds(spans)
        bad |= [whole and not text.isdecimal() for text in texts]
        return spans, bad | ~((seconds >= low_s) & (seconds <= high_s))

    name = UNITS.get(unit, ("",))[0]
    return f"{'whole ' if whole else ''}{name}, {sign}, at most {high_s:g} s", parse
