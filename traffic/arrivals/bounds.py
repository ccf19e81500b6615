"""Checks of the parameters that several processes have, and the trace that is made of arrivals."""

from __future__ import annotations

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats
from ..times import MAX_ARRIVAL_S
from ..trace import Trace

RATES_PER_S = (1e-9, 1e9)
"""A rate outside of these bounds was meant in another unit."""

MAX_COUNT = 10**8
"""More requests would take hours."""


def check_range(name: str, value: float, bounds: tuple[float, float], expected: str) -> None:
    """Refuse a parameter outside of its bounds."""
    low, high = bounds
    if not low <= value <= high:
        raise InputError(f"{name}: expected {expected}, from {low:g} to {high:g}, found {value:g}")


def check_rate(rate_per_s: float, name: str = "rate") -> None:
    """Refuse a rate that is not positive, not finite or absurd."""
    check_range(name, rate_per_s, RATES_PER_S, "a positive number of requests a second")


def check_count(count: int, name: str = "count", most: int = MAX_COUNT, what: str = "request") -> None:
    """Refuse none, or too many."""
    if not 1 <= count <= most:
        raise InputError(f"{name}: expected at least 1 {what} and at most {most:,}, found {count}")


def trace_of(arrival_s: Floats) -> Trace:
    """Requests 0..N - 1 at the given times."""
    if arrival_s[-1] > MAX_ARRIVAL_S:
        raise InputError(
            f"rate: expected the last arrival within {MAX_ARRIVAL_S:g} s, found it at {arrival_s[-1]:g} s; "
            f"ask for a higher rate or fewer requests"
        )
    return Trace(np.arange(len(arrival_s)), arrival_s)
