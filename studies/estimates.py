"""A figure over several seeds, and the difference of two such figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..formats import JsonRecord
from ..formats.array_types import Floats
from ..serving.figures import Figure
from ..serving.requirements import Requirement
from ..serving.statistics import Interval, mean_interval, welch_interval

ROUNDING = 1e-9
"""A difference below this share of the figures is rounding, whatever its interval."""


class Difference(JsonRecord):
    """A figure less another one; ``beyond_noise`` if the 95 % interval (``None`` where there is none) excludes 0."""

    mean: float
    low: float | None
    high: float | None
    beyond_noise: bool | None

    @classmethod
    def of(cls, mean: float, interval: Interval | None, size: float) -> Difference:
        """The difference of two figures that are at most ``size`` together."""
        if interval is None:
            return cls(mean=mean, low=None, high=None, beyond_noise=None)
        beyond = (interval.low > 0 or interval.high < 0) and abs(mean) > ROUNDING * size
        return cls(mean=mean, low=interval.low, high=interval.high, beyond_noise=beyond)


class Estimate(JsonRecord):
    """A figure over seeds: its mean, its value by seed, and its 95 % interval, ``None`` if there is none.

    The interval is Student's over seeds, as far as the figure can be; with one seed it is the interval of the run.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: dict[str, float]

    @classmethod
    def of(
        cls,
        figure: Figure,
        values: Sequence[float],
        seeds: Iterable[int],
        intervals: Sequence[tuple[float, float] | None],
    ) -> Estimate:
        """The estimate of a figure from its value for each seed, and the interval of each run."""
        by_seed = np.array(values, dtype=np.float64)
        interval = mean_interval(by_seed) or intervals[0]
        low, high = (None, None) if interval is None else Interval(*interval).within(figure.limits)
        seeded = dict(zip(map(str, seeds), by_seed.tolist(), strict=True))
        return cls(mean=float(by_seed.mean()), low=low, high=high, seeds=seeded)

    @property
    def values(self) -> Floats:
        """The value of each seed."""
        return np.array(list(self.seeds.values()), dtype=np.float64)

    def side(self, requirement: Requirement) -> bool | None:
        """Whether the whole interval satisfies a requirement, or no part of it; ``None`` if only a part does."""
        if self.low is None or self.high is None:
            return requirement.allows(self.mean)
        return requirement.side(Interval(self.low, self.high))

    def paired(self, other: Estimate) -> bool:
        """True if both figures have the same seeds, so the same traffic."""
        return self.seeds.keys() == other.seeds.keys()

    def less(self, other: Estimate) -> Difference:
        """The difference to another figure: seed by seed where both have the same seeds, else by Welch's interval."""
        values, paired = self.values, self.paired(other)
        others = np.array([other.seeds[seed] for seed in (self.seeds if paired else other.seeds)])
        interval = mean_interval(values - others) if paired else welch_interval(values, others)
        mean = float((values - others).mean() if paired else values.mean() - others.mean())
        return Difference.of(mean, interval, float(np.abs(values).max() + np.abs(others).max()))
