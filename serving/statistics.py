"""Confidence intervals of the figures of a finite run.

The formulas are written out because SciPy is no dependency: a few of its functions are all we would use.  Tests compare
with SciPy.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""The confidence of every interval that is printed."""

_TAIL = (1 - CONFIDENCE) / 2


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


def requests_for(quantile: float) -> int:
    """The number of requests from which order statistics bound a quantile on both sides.

    The largest of n observations exceeds the q-quantile with probability 1 - q**n.

    Parameters
    ----------
    quantile : float
        In (0, 1).

    Returns
    -------
    int
        Least n with max(q, 1-q)**n at most half of 1 - :data:`CONFIDENCE`.
    """
    return math.ceil(math.log(_TAIL) / math.log(max(quantile, 1 - quantile)))


def quantile_interval(ordered: NDArray[np.float64], quantile: float) -> Interval | None:
    """Interval of a quantile between two order statistics, whatever the distribution.

    The number of observations below the q-quantile is binomial(count, q); the
    interval [x_(low), x_(high)] misses the quantile on either side with at most
    half of 1 - :data:`CONFIDENCE` (David and Nagaraja, Order Statistics, 7.1).

    Parameters
    ----------
    ordered : (N,) ndarray of float64
        Observations, sorted.
    quantile : float
        In (0, 1).

    Returns
    -------
    Interval or None
        ``None`` for fewer observations than :func:`requests_for` says.
    """
    count = len(ordered)
    if count < requests_for(quantile):
        return None
    mean, spread = count * quantile, math.sqrt(count * quantile * (1 - quantile))
    first, last = max(0, int(mean - 9 * spread - 9)), min(count, int(mean + 9 * spread + 9))
    whole = math.lgamma(count + 1)
    mass = np.exp(
        [
            whole - math.lgamma(i + 1) - math.lgamma(count - i + 1)
            + i * math.log(quantile) + (count - i) * math.log1p(-quantile)
            for i in range(first, last + 1)
        ]
    )  # fmt: skip
    below = np.cumsum(mass)
    # 1-based ranks. P(N < low) <= tail, with N observations at or below the quantile; P(N >= high) <= tail
    low = first + int(np.searchsorted(below, _TAIL, side="right"))
    high = first + int(np.searchsorted(below, 1 - _TAIL, side="left")) + 1
    return Interval(float(ordered[low - 1]), float(ordered[high - 1]))


def share_interval(hits: int, count: int) -> Interval:
    """Wilson's interval of a share (Wilson, JASA 1927), for independent observations.

    Parameters
    ----------
    hits, count : int
        Observations with the property, and all observations.

    Returns
    -------
    Interval
        Bounds in [0, 1].
    """
    z = NormalDist().inv_cdf(1 - _TAIL)
    share, weight = hits / count, z * z / count
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


# Student's t for 95 % and 1 to 30 degrees of freedom, from a printed table
_STUDENT_T: tuple[float, ...] = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_STUDENT_T += (2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
_STUDENT_T += (2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def _student_t(degrees: int) -> float:
    """Student's t that leaves half of 1 - :data:`CONFIDENCE` on either side."""
    return _STUDENT_T[degrees - 1] if degrees <= len(_STUDENT_T) else 1.96 + 2.5 / degrees


def mean_interval(values: NDArray[np.float64]) -> Interval | None:
    """Student's interval of a mean of independent runs; ``None`` for fewer than two."""
    degrees = len(values) - 1
    if degrees < 1:
        return None
    half = _student_t(degrees) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return Interval(mean - half, mean + half)


def welch_interval(values: NDArray[np.float64], others: NDArray[np.float64]) -> Interval | None:
    """Interval of the difference of two means, ``values`` less ``others``, of independent runs (Welch, 1947).

    Variances need not be equal; degrees of freedom are Satterthwaite's, rounded down.

    Parameters
    ----------
    values, others : (N,), (M,) ndarray
        A figure of each run.

    Returns
    -------
    Interval or None
        ``None`` if either has fewer than two runs.
    """
    if min(len(values), len(others)) < 2:
        return None
    difference = float(values.mean() - others.mean())
    parts = [float(item.var(ddof=1)) / len(item) for item in (values, others)]
    error = sum(parts)
    if error == 0.0:
        return Interval(difference, difference)
    # as shares of their sum: squares of variances would underflow
    degrees = 1 / ((parts[0] / error) ** 2 / (len(values) - 1) + (parts[1] / error) ** 2 / (len(others) - 1))
    half = _student_t(max(1, int(degrees + 1e-9))) * math.sqrt(error)
    return Interval(difference - half, difference + half)


def warm_up(values: NDArray[np.float64]) -> int:
    """The number of observations in a start-up transient, by MSER-5 (White, Simulation, 1997).

    The observations are averaged in groups of five.  The transient ends at the group
    from which the standard error of the mean is smallest, at most at half of the groups.

    Parameters
    ----------
    values : (N,) ndarray of float64
        Observations in order of time.

    Returns
    -------
    int
        Observations in the transient, a multiple of 5.
    """
    count = len(values) // 5
    means = values[: 5 * count].reshape(-1, 5).mean(axis=1)
    if count < 4 or not np.all(np.isfinite(means)):
        return 0
    rest = count - np.arange(count)  # groups left, by groups left out
    totals, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    errors = (squares - totals**2 / rest) / rest.astype(np.float64) ** 2
    return 5 * int(np.argmin(errors[: count // 2]))
