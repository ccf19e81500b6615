"""Confidence intervals of the figures of a finite run."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..formats.array_types import Floats
from ..rules.quantiles import student_t

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


def standard_errors(degrees: int) -> float:
    """From a mean to an end of its interval: Student's t, to the three decimals of printed tables."""
    return round(student_t((1 + CONFIDENCE) / 2, degrees), 3)


def mean_interval(values: Floats) -> Interval | None:
    """Student's interval of a mean of independent runs; ``None`` for fewer than two."""
    degrees = len(values) - 1
    if degrees < 1:
        return None
    half = standard_errors(degrees) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return Interval(mean - half, mean + half)


def welch_interval(values: Floats, others: Floats) -> Interval | None:
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
    half = standard_errors(max(1, int(degrees + 1e-9))) * math.sqrt(error)
    return Interval(difference - half, difference + half)


def warm_up(values: Floats) -> int:
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
