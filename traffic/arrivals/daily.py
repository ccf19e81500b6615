"""Arrivals that follow the hours of the day."""

from __future__ import annotations

import numpy as np

from ...formats.array_types import Floats
from ..randomness import DAILY, stream
from ..roots import bisect
from ..trace import Trace
from .bounds import check_count, check_range, check_rate, trace_of
from .draws import integral, pass_through

DAY_S = 86400.0
PEAKS_TO_MEAN = (1.0, 24.0)
_PIECES = 96


def concentration(peak_to_mean: float) -> float:
    """Concentration kappa of the daily curve: exp(kappa)/I0(kappa) = peak-to-mean ratio."""
    # the peak of a von Mises curve is about sqrt(2 pi kappa) times its mean: 100 is enough for a ratio of 24
    return bisect(lambda kappa: kappa - float(np.log(np.i0(kappa))) - np.log(peak_to_mean), 0.0, 100.0)


def daily(rate_per_s: float, peak_to_mean: float, peak_hour: float, count: int, seed: int) -> Trace:
    """Non-homogeneous Poisson arrivals over a smooth daily curve.

    The rate at t is a von Mises curve, rate_per_s * peak_to_mean *
    exp(kappa (cos(2 pi (t - peak)/day) - 1)); kappa follows from the
    peak-to-mean ratio.  Arrivals are drawn by thinning (Lewis and Shedler, Naval
    Research Logistics 26(3), 1979) from a process whose rate is constant in each
    quarter of an hour, so that most are kept; this is exact.

    Parameters
    ----------
    rate_per_s : float
        Mean arrival rate over a day in requests/s.
    peak_to_mean : float
        Rate at the peak, divided by the mean rate, 1 to 24.
    peak_hour : float
        Hour of the day of the peak, 0 to 24.
    count : int
        Requests.
    seed : int
        Same seed, same trace.

    Returns
    -------
    Trace
        Requests 0..count - 1; time zero is midnight.

    Raises
    ------
    InputError
        If a parameter is out of bounds.
    """
    check_rate(rate_per_s)
    check_range("peak_to_mean", peak_to_mean, PEAKS_TO_MEAN, "the ratio of peak rate to mean rate")
    check_range("peak_hour", peak_hour, (0.0, 24.0), "an hour of the day")
    check_count(count)
    kappa, peak_s = concentration(peak_to_mean), 3600 * peak_hour

    def curve(times_s: Floats) -> Floats:
        return rate_per_s * peak_to_mean * np.exp(kappa * (np.cos(2 * np.pi / DAY_S * (times_s - peak_s)) - 1))

    # the peak is an edge too, so that each piece has its maximum at an edge
    edges_s = np.union1d(np.linspace(0, DAY_S, _PIECES + 1), peak_s)
    ceiling = np.maximum(curve(edges_s[:-1]), curve(edges_s[1:]))
    work_of_a_day = integral(edges_s, ceiling)[-1]
    rng = stream(seed, DAILY)
    kept: list[Floats] = []
    missing, done = count, 0.0
    while missing > 0:
        work = done + np.cumsum(rng.standard_exponential(int(1.1 * missing) + 64))
        done = work[-1]
        days, rest = np.divmod(work, work_of_a_day)
        times_s, pieces = pass_through(rest, edges_s, ceiling)
        keep = rng.random(len(work)) * ceiling[pieces] < curve(times_s)
        kept.append((days * DAY_S + times_s)[keep])
        missing -= len(kept[-1])
    return trace_of(np.concatenate(kept)[:count])
