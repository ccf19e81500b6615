"""Markov-modulated Poisson arrivals: a rate that switches at random."""

from __future__ import annotations

import numpy as np

from ...formats import InputError
from ..randomness import MMPP, stream
from ..times import MAX_ARRIVAL_S
from ..trace import Trace
from .bounds import check_count, check_range, check_rate, trace_of
from .draws import integral, pass_through

MAX_DWELLS = 2e7
"""More changes of state would take much memory and make no difference to the requests."""


def mmpp(
    quiet_rate_per_s: float, burst_rate_per_s: float, quiet_s: float, burst_s: float, count: int, seed: int
) -> Trace:
    """Two-state Markov-modulated Poisson arrivals: quiet times and bursts alternate, each of exponential duration.

    With rates l1, l2, switching rates s1 = 1/quiet_s, s2 = 1/burst_s and s = s1 + s2,
    the mean rate is (l1 s2 + l2 s1)/s, and counts in a window of t seconds have
    the index of dispersion (variance/mean)

        1 + 2 s1 s2 (l1 - l2)^2 / (s^2 (l1 s2 + l2 s1)) * (1 - (1 - exp(-s t))/(s t))

    whose last factor goes to 1 as t grows (Fischer and Meier-Hellstern, The
    Markov-modulated Poisson process (MMPP) cookbook, Performance Evaluation
    18(2), 1993).  Gaps are correlated; ``docs/traffic.md`` gives their moments.

    Parameters
    ----------
    quiet_rate_per_s : float
        Arrival rate while quiet in requests/s; may be 0.
    burst_rate_per_s : float
        Arrival rate during a burst in requests/s, at least the quiet one.
    quiet_s, burst_s : float
        Mean duration of each state in seconds.
    count : int
        Requests.
    seed : int
        Same seed, same trace.

    Returns
    -------
    Trace
        Requests 0..count - 1; the state at time zero is drawn from the
        stationary distribution.

    Raises
    ------
    InputError
        If a parameter is out of bounds, or the state would change too often.
    """
    if quiet_rate_per_s != 0:
        check_rate(quiet_rate_per_s, "quiet_rate")
    check_rate(burst_rate_per_s, "burst_rate")
    if burst_rate_per_s < quiet_rate_per_s:
        raise InputError(
            f"burst_rate: expected at least the quiet rate {quiet_rate_per_s:g}, found {burst_rate_per_s:g}; swap them"
        )
    check_range("quiet_dwell", quiet_s, (1e-9, MAX_ARRIVAL_S), "a mean duration in seconds")
    check_range("burst_dwell", burst_s, (1e-9, MAX_ARRIVAL_S), "a mean duration in seconds")
    check_count(count)
    cycles = count / (quiet_rate_per_s * quiet_s + burst_rate_per_s * burst_s)
    if 2 * cycles > MAX_DWELLS:
        raise InputError(
            f"quiet_dwell, burst_dwell: expected at most {MAX_DWELLS:g} changes of state in the trace, "
            f"found about {2 * cycles:.3g}; ask for longer ones or fewer requests"
        )
    rng = stream(seed, MMPP)
    work = np.cumsum(rng.standard_exponential(count))
    order = [1, 0] if rng.random() * (quiet_s + burst_s) < burst_s else [0, 1]
    mean_s = np.array([quiet_s, burst_s])[order]
    rates = np.array([quiet_rate_per_s, burst_rate_per_s])[order]
    block = int(1.1 * cycles) + 64
    edges_s = np.zeros(1)
    while integral(edges_s, np.tile(rates, len(edges_s) // 2))[-1] <= work[-1]:
        dwells_s = rng.standard_exponential(2 * block) * np.tile(mean_s, block)
        edges_s = np.concatenate([edges_s, edges_s[-1] + np.cumsum(dwells_s)])
    return trace_of(pass_through(work, edges_s, np.tile(rates, len(edges_s) // 2))[0])
