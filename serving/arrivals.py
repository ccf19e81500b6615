"""Arrival processes."""

from __future__ import annotations

import numpy as np

from ..formats import InputError
from .randomness import ARRIVALS, stream
from .traces import Trace


def poisson(rate_per_s: float, count: int, seed: int) -> Trace:
    """Poisson arrivals: independent exponential gaps.

    Parameters
    ----------
    rate_per_s : float
        Mean arrival rate in requests/s.
    count : int
        Requests.
    seed : int
        Same seed, same trace.

    Returns
    -------
    Trace
        Requests 0..count - 1; the first arrives after the first gap.

    Raises
    ------
    InputError
        If rate or count is not positive.
    """
    if not (rate_per_s > 0 and np.isfinite(rate_per_s)):
        raise InputError(f"rate: expected a positive number of requests a second, found {rate_per_s:g}")
    if count < 1:
        raise InputError(f"count: expected at least 1 request, found {count}")
    gaps = -np.log1p(-stream(seed, ARRIVALS).random(count)) / rate_per_s
    return Trace(np.arange(count), np.cumsum(gaps))
