"""The root of a function that grows."""

from __future__ import annotations

from collections.abc import Callable


def bisect(grows: Callable[[float], float], low: float, high: float) -> float:
    """Root of a non-decreasing function, by bisection to the last bit."""
    while low < (middle := low + (high - low) / 2) < high:
        if grows(middle) < 0:
            low = middle
        else:
            high = middle
    return high
