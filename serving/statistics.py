"""Confidence intervals of the figures of a finite run, written out so that SciPy is no dependency."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""The confidence of every interval that is printed."""


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float

    def within(self, limits: Interval) -> Interval:
        """The part of it that lies within limits, e.g. from 0 to 1."""
        return Interval(*(min(max(end, limits.low), limits.high) for end in self))


SHARE = Interval(0.0, 1.0)
"""The limits of a share of a whole."""


def share_interval(share: float, count: float, t: float) -> Interval:
    """Wilson's interval of a share (Wilson, JASA 1927), with any multiple of the standard error."""
    weight = t * t / count
    centre = (share + weight / 2) / (1 + weight)
    half = t / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


# Student's t for 95 % and 1 to 30 degrees of freedom, from a printed table
_STUDENT_T: tuple[float, ...] = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_STUDENT_T += (2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
_STUDENT_T += (2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def student_t(degrees: int) -> float:
    """Student's t that leaves half of 1 - :data:`CONFIDENCE` on either side."""
    return _STUDENT_T[degrees - 1] if degrees <= len(_STUDENT_T) else 1.96 + 2.5 / degrees


def mean_interval(values: NDArray[np.float64]) -> Interval | None:
    """Student's interval of a mean of independent runs; ``None`` for fewer than two."""
    degrees = len(values) - 1
    if degrees < 1:
        return None
    half = student_t(degrees) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return Interval(mean - half, mean + half)


def welch_interval(values: NDArray[np.float64], others: NDArray[np.float64]) -> Interval | None:
    """Welch's interval of the mean of ``values`` less the mean of ``others``; ``None`` if either has fewer than two."""
    if min(len(values), len(others)) < 2:
        return None
    difference = float(values.mean() - others.mean())
    parts = [float(sample.var(ddof=1)) / len(sample) for sample in (values, others)]
    error = sum(parts)
    if error == 0.0:
        return Interval(difference, difference)
    # as shares of their sum: squares of variances would underflow
    degrees = 1 / ((parts[0] / error) ** 2 / (len(values) - 1) + (parts[1] / error) ** 2 / (len(others) - 1))
    half = student_t(max(1, int(degrees + 1e-9))) * math.sqrt(error)
    return Interval(difference - half, difference + half)


def warm_up(values: NDArray[np.float64]) -> int:
    """The number of observations in a start-up transient, by MSER-5 (White, Simulation, 1997).

    The transient ends at the group of five observations from which the standard error of the mean is smallest, at most
    at half of the groups.
    """
    count = len(values) // 5
    means = values[: 5 * count].reshape(-1, 5).mean(axis=1)
    if count < 4 or not np.all(np.isfinite(means)):
        return 0
    rest = count - np.arange(count)  # groups left, by groups left out
    totals, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    errors = (squares - totals**2 / rest) / rest.astype(np.float64) ** 2
    return 5 * int(np.argmin(errors[: count // 2]))
