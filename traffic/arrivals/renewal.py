"""Renewal processes: independent gaps of one distribution."""

from __future__ import annotations

import numpy as np

from ..randomness import ARRIVALS, GAMMA, stream
from ..trace import Trace
from .bounds import check_count, check_range, check_rate, trace_of

CVS = (1e-3, 20.0)
"""Below, all gaps are nearly equal; above, a trace is one burst and one long gap."""


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
    return trace_of(np.cumsum(stream(seed, ARRIVALS).standard_exponential(count) / rate_per_s))


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
    return trace_of(np.cumsum(stream(seed, GAMMA).standard_gamma(shape, count) / (shape * rate_per_s)))
