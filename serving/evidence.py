"""Evidence that a load is not what it was: bets against it, whose gain is the evidence.

A bet on batch after batch multiplies its stake by a factor whose mean is at most 1 while the load is what it was. It
begins anew whenever it has lost (CUSUM). Then it reaches 1/a, of however many bets one, at most once in 1/a batches on
average, however often it is looked at (Shin, Ramdas and Rinaldo, 2024).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..formats.array_types import Floats, Ints

PARTS = 20
"""Parts of a time in which arrivals are counted, to see whether they come together."""


class Evidence:
    """Gains of several bets."""

    def __init__(self, bets: int, false_alarm: float, batches: int = 0) -> None:
        self.enough = math.log(bets / false_alarm)  # all together raise as many false alarms as one alone may
        self.gain = np.zeros(bets)  # logarithm of the stake
        self.since = np.full(bets, batches)  # the first batch that counts
        self.begin = self.batches = batches

    def add(self, gains: Floats) -> None:
        """Count batches. Shapes: ``gains`` (bets, batches), logarithms of the factors."""
        path = self.gain[:, None] + np.cumsum(gains, axis=1)
        least = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
        lost = path == least
        last = gains.shape[1] - np.argmax(lost[:, ::-1], axis=1)
        self.since = np.where(lost.any(axis=1), self.batches + last, self.since)
        self.gain = path[:, -1] - least[:, -1]
        self.batches += gains.shape[1]

    def found(self, fewest: int) -> Ints:
        """Bets that gained enough, on at least this number of batches."""
        return np.flatnonzero((self.gain >= self.enough) & (self.batches - self.since >= fewest))


def on_share(hits: ArrayLike, of: ArrayLike, share: Floats | float, odds: float) -> Floats:
    """Gains of a bet that the odds of a hit have changed by a factor."""
    other = odds * share / (1 - share + odds * share)
    hit, number = np.asarray(hits, dtype=np.float64), np.asarray(of, dtype=np.float64)
    return hit * np.log(other / share) + (number - hit) * np.log((1 - other) / (1 - share))


def on_mean(values: Floats, stake: float) -> Floats:
    """Gains of a bet that the mean of values from -1 to 1 is above 0."""
    return np.log1p(stake * values)


class Rate(NamedTuple):
    """Arrival rate of consecutive batches."""

    per_s: float
    together: float  # requests that come together, by the variance of their number; 1 if each comes by itself
    deviation: float  # standard deviation of its logarithm

    def alike(self, other: Rate, deviations: float) -> bool:
        """Whether another rate may be the same one, and differ by chance."""
        apart = abs(math.log(self.per_s / other.per_s))
        return apart <= deviations * math.hypot(self.deviation, other.deviation)


def rate_of(arrived: Ints, span_s: Floats) -> Rate | None:
    """Arrival rate of batches, by the requests of each and the time until the next one; none if all came at once."""
    count, took_s = int(arrived.sum()), float(span_s.sum())
    if not took_s:
        return None
    firsts = np.unique(np.arange(min(PARTS, len(arrived))) * len(arrived) // PARTS)
    surplus = np.add.reduceat(arrived - count / took_s * span_s, firsts)
    together = max(1.0, float((surplus**2).sum()) / count)
    return Rate(count / took_s, together, math.sqrt(together / count))


def on_rate(arrived: Ints, span_s: Floats, rate: Rate, factor: float, deviations: float) -> Floats:
    """Gains of a bet that the arrival rate has changed by a factor, even if the known one is some deviations off.

    Requests that come together count as one.
    """
    per_s = rate.per_s * math.exp(math.copysign(deviations * rate.deviation, factor - 1))
    return (arrived * math.log(factor) - (factor - 1) * per_s * span_s) / rate.together
