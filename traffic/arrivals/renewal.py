"""Renewal processes: independent gaps of one distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..randomness import ARRIVALS, GAMMA, stream
from ..storage import allocate, blocks, release
from ..trace import Trace
from .bounds import check_count, check_range, check_rate, trace_of
from .draws import exponentials

CVS = (1e-3, 20.0)
"""Below, gaps are all but equal; above, a trace is one burst and one wait."""


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
        If a parameter is out of bounds.
    """
    check_rate(rate_per_s)
    check_count(count)
    rng = stream(seed, ARRIVALS)
    return _renewal(lambda number: exponentials(rng, number) / rate_per_s, count)


def gamma(rate_per_s: float, cv: float, count: int, seed: int) -> Trace:
    """Gamma renewal arrivals: independent gaps, more regular (cv < 1) or burstier (cv > 1) than Poisson's.

    Gaps have shape 1/cv^2 and mean 1/rate.  Counts in long windows have
    variance/mean cv^2 (Cox, Renewal Theory, 1962, Section 4.5).

    Parameters
    ----------
    rate_per_s : float
        Mean arrival rate in requests/s.
    cv : float
        Coefficient of variation of the gaps: standard deviation/mean, 0.001 to
        20; 1 is a Poisson process.
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
        If a parameter is out of bounds.
    """
    check_rate(rate_per_s)
    check_range("cv", cv, CVS, "a coefficient of variation of the gaps")
    check_count(count)
    shape = cv**-2
    rng = stream(seed, GAMMA)
    return _renewal(lambda number: rng.standard_gamma(shape, number) / (shape * rate_per_s), count)


def _renewal(gaps_s: Callable[[int], NDArray[np.float64]], count: int) -> Trace:
    """Arrivals after gaps, which are drawn block by block."""
    arrival_s = allocate(count, np.float64)
    last_s = 0.0
    for part in blocks(count):
        arrival_s[part] = np.cumsum(np.concatenate([[last_s], gaps_s(part.stop - part.start)]))[1:]
        last_s = arrival_s[part.stop - 1]
        release(arrival_s)
    return trace_of(arrival_s)
