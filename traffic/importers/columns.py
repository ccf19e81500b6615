"""From a file's columns to arrivals: parse, check, put in order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ..trace import MAX_ARRIVAL_S, Trace
from .rows import Batch, Source, Tally, quoted
from .times import ISO, UNITS, Times, expected, join, read_times, subtract, to_seconds

MAX_GAP_S = 1e8
"""Three years: a longer silence is a zero among dates, or a unit gone wrong."""

_Parsed = tuple[NDArray[Any], NDArray[np.bool_], str]
"""Values of a batch, which of them are bad, and what was expected."""

_Parse = Callable[[Sequence[str]], _Parsed]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column says what.

    Attributes
    ----------
    arrival : str
        Column with the time of arrival, or of the end if there is a duration,
        or since the arrival before if there are intervals.
    unit : str
        Unit of all times in the file, a key of ``times.UNITS``; or ``times.ISO``.
    duration : str, optional
        Column with a duration that ends at ``arrival``.
    identity, slo, exit : str, optional
        Columns with a whole number that names the request, with its latency
        objective (in seconds where the unit is ``times.ISO``), and with the
        exit, from 1, at which it leaves.
    intervals : bool
        Whether ``arrival`` holds intervals, in whole units.
    """

    arrival: str
    unit: str
    duration: str | None = None
    identity: str | None = None
    slo: str | None = None
    exit: str | None = None
    intervals: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of a file say, in its order.

    Attributes
    ----------
    times : (N,) ndarray of int64 or float64
        Arrivals on the file's own clock, in nanoseconds or seconds.
    stamped : bool
        Whether that clock is the calendar, which then starts in 1970.
    lines : (N,) ndarray of int64, optional
        The line of each.
    identity, exits, slo_s : (N,) ndarray, optional
        As in :class:`Trace`.
    """

    times: Times
    stamped: bool = False
    lines: NDArray[np.int64] | None = None
    identity: NDArray[np.int64] | None = None
    exits: NDArray[np.int64] | None = None
    slo_s: NDArray[np.float64] | None = None


def collect(source: Source, layout: Layout, tally: Tally) -> Rows:
    """Read a file's requests.

    Parameters
    ----------
    source : callable
        Reads the named columns.
    layout : Layout
        Which column says what.
    tally : Tally
        Counts rows, and knows the file.

    Returns
    -------
    Rows
        Those that can be used, in the file's order.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, no row is left, or a
        row is bad and none may be skipped.
    """
    columns = _wanted(layout)
    pieces: dict[str, list[NDArray[Any]]] = {role: [] for role, _, _ in columns}
    lines = []
    for batch in source(tally.path, tally, [name for _, name, _ in columns]):
        good = np.ones(len(batch.rows), dtype=bool)
        values = []
        for (_, name, parse), texts in zip(columns, batch.columns, strict=True):
            parsed, bad, wanted = parse(texts)
            _reject(batch, tally, bad & good, name, texts, wanted)
            good &= ~bad
            values.append(parsed)
        for (role, _, _), parsed in zip(columns, values, strict=True):
            pieces[role].append(parsed[good])
        lines.append(np.array(batch.lines, dtype=np.int64)[good])
    tally.check(sum(map(len, lines)))
    times = join(pieces["arrival"])
    if "duration" in pieces:
        times = subtract(times, join(pieces["duration"]))
    if layout.intervals:
        times = _accumulate(times, tally)
    return Rows(
        times,
        layout.unit == ISO,
        np.concatenate(lines),
        identity=np.concatenate(pieces["identity"]) if "identity" in pieces else None,
        exits=np.concatenate(pieces["exit"]) if "exit" in pieces else None,
        slo_s=to_seconds(join(pieces["slo"])) if "slo" in pieces else None,
    )


def _wanted(layout: Layout) -> list[tuple[str, str, _Parse]]:
    """Role, column and parser of each column that is read."""
    slo_unit = "s" if layout.unit == ISO else layout.unit
    columns = [
        ("arrival", layout.arrival, _intervals(layout.unit) if layout.intervals else _times(layout.unit)),
        ("duration", layout.duration, _spans(layout.unit, 0, MAX_GAP_S, "not negative")),
        ("identity", layout.identity, _whole(0, 2**63 - 1, "a whole number >= 0")),
        ("slo", layout.slo, _spans(slo_unit, 1e-12, MAX_ARRIVAL_S, "above 0")),
        ("exit", layout.exit, _whole(1, 10**6, "an exit, counted from 1")),
    ]
    return [(role, name, parse) for role, name, parse in columns if name is not None]


def _accumulate(intervals: Times, tally: Tally) -> Times:
    total_s = float(to_seconds(intervals).sum())
    if total_s > MAX_ARRIVAL_S:  # which also keeps nanoseconds within 64 bits
        raise InputError(f"{tally.path}: expected intervals of {MAX_ARRIVAL_S:g} s in all, found {total_s:g} s")
    return np.asarray(np.cumsum(intervals), dtype=intervals.dtype)


def arrange(rows: Rows, tally: Tally) -> tuple[Trace, float, int]:
    """Requests in order of arrival, the first at time zero.

    Parameters
    ----------
    rows : Rows
        In the file's order, at least one.
    tally : Tally
        Knows the file.

    Returns
    -------
    trace : Trace
        Rows that arrive at the same time keep their order.
    time_zero_s : float
        The first arrival on the file's own clock, in seconds.
    out_of_order : int
        Rows that stand behind a later arrival.

    Raises
    ------
    InputError
        If an id stands twice, or two successive arrivals lie absurdly far apart.
    """
    out_of_order = int(np.count_nonzero(rows.times < np.maximum.accumulate(rows.times)))
    order = np.argsort(rows.times, kind="stable") if out_of_order else np.arange(len(rows.times))
    times = rows.times[order]
    arrival = to_seconds(times - times[0])
    _check_gaps(arrival, None if rows.lines is None else rows.lines[order], tally)
    if rows.identity is None:
        identity = np.arange(len(arrival))
    else:
        identity = rows.identity[order]
        _check_unique(rows, tally)
    trace = Trace(
        identity,
        arrival,
        exits=None if rows.exits is None else rows.exits[order],
        slo_s=None if rows.slo_s is None else rows.slo_s[order],
    )
    return trace, float(to_seconds(times[:1])[0]), out_of_order


def _check_gaps(arrival: NDArray[np.float64], lines: NDArray[np.int64] | None, tally: Tally) -> None:
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


def _check_unique(rows: Rows, tally: Tally) -> None:
    assert rows.identity is not None
    assert rows.lines is not None
    first = np.unique(rows.identity, return_index=True)[1]
    if first.size < rows.identity.size:
        repeated = np.ones(rows.identity.size, dtype=bool)
        repeated[first] = False
        i = int(repeated.argmax())
        count = rows.identity.size - first.size
        more = f" (and {count - 1:,} more rows)" if count > 1 else ""
        raise InputError(
            f"{tally.path}: line {rows.lines[i]}: expected a new id, found {rows.identity[i]}{more}; "
            "without a column of ids requests are numbered as they arrive"
        )


def _reject(batch: Batch, tally: Tally, wrong: NDArray[np.bool_], name: str, texts: Sequence[str], wanted: str) -> None:
    for i in np.flatnonzero(wrong).tolist():
        fault = f"{name}: expected {wanted}, found {quoted(texts[i])}"
        tally.reject(batch.rows[i], batch.lines[i], fault)


def _times(unit: str) -> _Parse:
    def parse(texts: Sequence[str]) -> _Parsed:
        times, bad = read_times(texts, unit)
        return times, bad, expected(unit)

    return parse


def _spans(unit: str, low_s: float, high_s: float, sign: str) -> _Parse:
    """Spans of time between two bounds."""

    def parse(texts: Sequence[str]) -> _Parsed:
        spans, bad = read_times(texts, unit)
        seconds = to_seconds(spans)
        name = UNITS[unit][0]
        return spans, bad | ~((seconds >= low_s) & (seconds <= high_s)), f"{name}, {sign}, at most {high_s:g} s"

    return parse


def _intervals(unit: str) -> _Parse:
    """Spans of time in whole units."""
    spans = _spans(unit, 0, MAX_GAP_S, "not negative")

    def parse(texts: Sequence[str]) -> _Parsed:
        values, bad, wanted = spans(texts)
        return values, bad | np.array([not text.isdecimal() for text in texts]), f"whole {wanted}"

    return parse


def _whole(low: int, high: int, wanted: str) -> _Parse:
    def parse(texts: Sequence[str]) -> _Parsed:
        numbers = [_integer(text) for text in texts]
        bad = np.array([number is None or not low <= number <= high for number in numbers])
        values = [0 if no else number for number, no in zip(numbers, bad.tolist(), strict=True)]
        return np.array(values, dtype=np.int64), bad, wanted

    return parse


def _integer(text: str) -> int | None:
    try:
        return int(text) if "_" not in text else None
    except ValueError:
        return None
