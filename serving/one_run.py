"""Intervals of the figures of one run, whose requests are not independent (``docs/intervals.md``).

A queue that is long for one request is long for the next, so that N requests are worth fewer independent ones.  The
variance of a mean follows from the means of long parts of the run (batch means: Law, Simulation Modeling and Analysis,
Section 9.5.3).  A part begins, where it can, with a request that finds the system empty (regenerative method, ibid.).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Bools, Floats, Ints
from .statistics import Interval, share_interval, standard_errors

Values = Floats | Bools

PARTS = 10
"""Parts that give the variance: few, because they must be long; Student's t with 9 degrees of freedom is 2.26."""

PIECES = 100
"""Parts that give the dependence of requests: many, because it then varies little from one run to the next."""

LEAST = 400
"""Least number of independent requests that a run must be worth to have intervals: 40 in each part."""

RARE = 10
"""Independent requests that must lie beyond a percentile, on either side, for it to have an interval."""

ROUNDING = 1e-9
"""Latencies that differ by less, as a share, are equal."""


def requests_for(quantile: float) -> int:
    """The least number of independent requests that bound a quantile on both sides."""
    return math.ceil(RARE / min(quantile, 1 - quantile) - 1e-9)


def _above(values: Values | float, others: Values | float) -> Bools:
    """Mask of values that are larger by more than rounding, in which equal times differ as the clock advances."""
    return np.asarray(values) > np.multiply(others, 1 + ROUNDING)


def nearest_rank(ordered: Floats, quantile: float) -> float:
    """Percentile of sorted values: the least of them that as large a share does not exceed."""
    return float(ordered[max(0, math.ceil(quantile * len(ordered) - 1e-9) - 1)])


class RunInterval(NamedTuple):
    """A figure of one run: its 95 % interval, or about how many more requests one needs; 0 if that is unknown."""

    interval: Interval | None
    more_requests_needed: int


class OneRun:
    """One run, from which intervals of its figures are computed.

    ``latency_s`` is in order of arrival, and infinite if a request did not return; ``fresh`` is true for a request that
    found the system empty.  If all requests arrive ``at_once``, the run is a single observation and no figure has an
    interval.  ``independent`` is the number of independent requests that the run is worth for the median.
    """

    def __init__(self, latency_s: Floats, fresh: Bools, *, at_once: bool = False) -> None:
        self.latency_s = latency_s
        self.ordered_s = np.sort(latency_s)
        self._count = len(latency_s)
        self._fresh = fresh
        self._at_once = at_once
        self.independent = self._told = 1.0 if at_once else float(self._count)
        if at_once or self._count < LEAST:
            return
        self._starts = part_starts(fresh, PARTS)
        median = nearest_rank(self.ordered_s, 0.5)
        side = _above(latency_s, median).astype(np.float64) - _above(median, latency_s)
        pieces = np.arange(PIECES) * self._count // PIECES
        self.independent = self._count / dependence(side, pieces)
        self._t = standard_errors(PARTS - 1) * math.sqrt(1 + LEAST / self.independent)
        # pieces that are short beside the time a queue takes to forget show less dependence than there is
        self._told = min(self.independent, self._count / dependence(side, self._starts))

    def mean(self) -> RunInterval:
        """The mean latency: Student's interval, corrected for skewness (Hall, JRSS B, 1992)."""
        if self.independent < LEAST:
            return self._too_short(LEAST, self._told)
        if not math.isfinite(self.ordered_s[-1]):
            return RunInterval(None, 0)
        least = float(self.latency_s.var()) / self.independent
        low, high = _mean_of_parts(self.latency_s, self._starts, self._t, least)
        return RunInterval(Interval(max(0.0, low), high), 0)

    def less(self, other: OneRun, own: Values, others: Values) -> RunInterval:
        """The mean over requests of ``own`` less ``others``, which each has in this run and in another one: paired.

        What happens to both runs, such as a burst of arrivals, is in no difference.
        """
        if other.independent < min(LEAST, self.independent):
            return other._too_short(LEAST, other._told)
        if self.independent < LEAST:
            return self._too_short(LEAST, self._told)
        differences = own.astype(np.float64) - others
        differ, shares = _above(own, others) | _above(others, own), own.dtype == np.bool_
        if not np.isfinite(differences).all() or not (shares or differ.any()):
            return RunInterval(None, 0)
        # a few requests that differ may be one event, so they are bounded as if they were more
        square = float((differences[differ] ** 2).mean()) if differ.any() else 1.0
        starts = part_starts(self._fresh & other._fresh, PARTS)
        least = square * RARE / min(self.independent, other.independent) ** 2
        return RunInterval(_mean_of_parts(differences, starts, max(self._t, other._t), least), 0)

    def share(self, chosen: Bools) -> RunInterval:
        """The share of requests with a property: Wilson's interval, with the number of independent requests."""
        if self.independent < LEAST:
            return self._too_short(LEAST, self._told)
        count, share = self._worth(chosen), float(chosen.mean())
        # a few that come together may be one event, so a rare property is bounded as if it were less rare
        rare = RARE / self.independent
        low = share_interval(min(share, 1 - rare), count, self._t).low
        return RunInterval(Interval(low, share_interval(max(share, rare), count, self._t).high), 0)

    def quantile(self, quantile: float) -> RunInterval:
        """A percentile: the latencies at the ranks between which the share of requests below it lies."""
        need = max(LEAST, requests_for(quantile))
        if self.independent < need:
            return self._too_short(need, self._told)
        count, t = self._worth(_above(self.latency_s, nearest_rank(self.ordered_s, quantile))), self._t
        half = t * math.sqrt(quantile * (1 - quantile) / count)
        if half >= min(quantile, 1 - quantile):  # beyond the smallest or the largest latency
            return self._too_short(t**2 * max(quantile, 1 - quantile) / min(quantile, 1 - quantile), count)
        low, high = (min(int((quantile + side) * self._count), self._count - 1) for side in (-half, half))
        return RunInterval(Interval(float(self.ordered_s[low]), float(self.ordered_s[high])), 0)

    def _too_short(self, need: float, worth: float) -> RunInterval:
        """No interval, for a run that is worth fewer independent requests than it needs."""
        if self._at_once:
            return RunInterval(None, 0)
        more = math.ceil(self._count * (need / worth - 1))
        unit = 10 ** max(0, len(str(more)) - 2)
        return RunInterval(None, max(1, -(-more // unit)) * unit)

    def _worth(self, chosen: Bools) -> float:
        """Number of independent requests that the run is worth for a share; at most that for the median."""
        return min(self.independent, self._count / dependence(chosen, self._starts))


def part_starts(fresh: Bools, parts: int) -> Ints:
    """Cut a run into parts of about the same length, where the system was empty if it was."""
    equal = np.arange(parts + 1) * len(fresh) // parts
    fresh_at = np.append(np.flatnonzero(fresh), len(fresh))
    empty = fresh_at[np.searchsorted(fresh_at, equal[:-1])]
    starts = np.where(empty < equal[1:], empty, equal[:-1])
    starts[0] = 0
    return starts


def dependence(values: NDArray[np.generic], starts: Ints) -> float:
    """Factor by which the variance of a mean is larger than if the values were independent; at least 1."""
    numbers = values.astype(np.float64)
    alone = len(values) * float(numbers.var())
    if alone == 0.0:
        return 1.0
    parts = len(starts)
    return max(1.0, parts / (parts - 1) * float((_excess(numbers, starts) ** 2).sum()) / alone)


def _excess(values: Floats, starts: Ints) -> Floats:
    """Sum of each part, less what it would be if all parts had the same mean."""
    sizes = np.diff(starts, append=len(values))
    sums: Floats = np.add.reduceat(values, starts)
    return sums - float(values.mean()) * sizes


def _mean_of_parts(values: Floats, starts: Ints, t: float, least: float) -> Interval:
    """Student's interval of a mean, corrected for skewness, from its parts; its variance is at least ``least``."""
    count, mean = len(values), float(values.mean())
    excess = _excess(values, starts)
    square = float((excess**2).sum())
    skewness = float((excess**3).sum()) / square**1.5 if square else 0.0
    error = math.sqrt(max(PARTS / (PARTS - 1) * square / count**2, least))
    return Interval(mean - _unskewed(t, skewness) * error, mean - _unskewed(-t, skewness) * error)


def _unskewed(t: float, skewness: float) -> float:
    """Student's t for a mean whose distribution is skewed: Hall's cubic, inverted."""
    lag = skewness / 6
    return t if abs(lag) < 1e-6 else float(np.cbrt(1 + 6 * lag * (t - lag)) - 1) / (2 * lag)
