"""The root of a function that grows."""

from __future__ import annotations

from collections.abc import Callable


def bisect(grows: Callable[[float], float], low: float, high: float) -> float:
    """Root of a non-decreasing function, by bisection to the last bit.

    Parameters
    ----------
    grows : callable
        At most 0 at ``low``, at least 0 at ``high``.
    low, high : float
        Ends of the interval that has the root.

    Returns
    -------
    float
        The point from which the function is at least 0.

    Examples
    --------
    >>> bisect(lambda x: x * x - 2, 0, 2) == 2**0.5
    True
    """
    while low < (middle := low + (high - low) / 2) < high:
        if grows(middle) < 0:
            low = middle
        else:
            high = middle
    return high
