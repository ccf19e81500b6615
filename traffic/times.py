"""Times as files write them: numbers in a unit, or ISO 8601 timestamps, exact to the nanosecond."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..formats import read_number
from ..formats.array_types import Bools, Floats

MAX_ARRIVAL_S = 1e10
"""Three centuries; a time beyond was written in another unit."""

Times = NDArray[np.int64 | np.float64]
"""Nanoseconds, exact (int64); or seconds (float64), where a number has finer digits or an exponent."""

UNITS = {
    "s": ("seconds", 9),
    "ms": ("milliseconds", 6),
    "us": ("microseconds", 3),
    "ns": ("nanoseconds", 0),
}
"""Name of each unit, and the decimal places that a nanosecond has in it."""

ISO = "iso"
"""In place of a unit: ISO 8601 timestamps."""

_MAX_EXACT_NS = 4 * 10**18
"""126 years in both directions, so that no difference of two times overflows."""

_STAMP = re.compile(
    r"((?:19|20)\d\d-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?([Zz]|[+-]\d\d(?::?[0-5]\d)?)?", re.ASCII
)


def expected(unit: str) -> str:
    """Form of a time in a unit, for faults."""
    if unit == ISO:
        return "a timestamp like 2023-11-16 18:17:03.979 of the years 1900 to 2099"
    return f"a time in {UNITS[unit][0]}, at most {MAX_ARRIVAL_S:g} s"


def read_times(texts: Sequence[str], unit: str) -> tuple[Times, Bools]:
    """Parse times."""
    return _timestamps(texts) if unit == ISO else _numbers(texts, UNITS[unit][1])


def to_seconds(times: Times) -> Floats:
    """The times in seconds."""
    return np.asarray(times / 1e9 if times.dtype == np.int64 else times, dtype=np.float64)


def join(parts: Sequence[Times]) -> Times:
    """The pieces of one column together: exact if all of them are."""
    if all(part.dtype == np.int64 for part in parts):
        return np.concatenate(parts)
    return np.concatenate([to_seconds(part) for part in parts])


def subtract(times: Times, durations: Times) -> Times:
    """Times minus durations: exact if both are."""
    if times.dtype == durations.dtype:
        return np.asarray(times - durations, dtype=times.dtype)
    return np.asarray(to_seconds(times) - to_seconds(durations))


def _number(text: str) -> float:
    try:
        return read_number(text)
    except ValueError:
        return np.nan


def _numbers(texts: Sequence[str], places: int) -> tuple[Times, Bools]:
    values = np.array([_number(text) for text in texts]) / 10.0 ** (9 - places)
    bad = ~(np.abs(values) <= MAX_ARRIVAL_S)
    try:
        exact = [0 if no else _nanoseconds(text, places) for text, no in zip(texts, bad.tolist(), strict=True)]
        nanoseconds = np.array(exact, dtype=np.int64)
    except (ValueError, OverflowError):
        return values, bad
    return (nanoseconds if np.abs(nanoseconds).max(initial=0) <= _MAX_EXACT_NS else values), bad


def _nanoseconds(text: str, places: int) -> int:
    """Nanoseconds of a number that ``float`` takes; ``ValueError`` if it has an exponent or finer digits."""
    whole, _, fraction = text.strip().partition(".")
    if len(fraction) > places:
        fraction, rest = fraction[:places], fraction[places:]
        if rest.strip("0"):
            raise ValueError(text)
    return int(whole + fraction.ljust(places, "0"))


def _timestamps(texts: Sequence[str]) -> tuple[Times, Bools]:
    plain, zones = [], []
    for i, text in enumerate(texts):
        match = _STAMP.fullmatch(text.strip())
        if match is None:
            plain.append("NaT")
            continue
        day, clock, zone = match.groups()
        plain.append(f"{day}T{clock}")
        if zone is not None and zone not in "Zz":
            zones.append((i, zone))
    try:
        stamps = np.array(plain, dtype="datetime64[ns]")
    except ValueError:  # a thirteenth month, a 30 February, a leap second
        stamps = np.array([_stamp(text) for text in plain])
    bad = np.isnat(stamps)
    nanoseconds = stamps.view(np.int64)
    nanoseconds[bad] = 0
    for i, zone in zones:
        minutes = 60 * int(zone[1:3]) + int(zone[3:].removeprefix(":") or 0)
        nanoseconds[i] -= (1 if zone[0] == "+" else -1) * minutes * 60_000_000_000
    return nanoseconds, bad


def _stamp(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT", "ns")
