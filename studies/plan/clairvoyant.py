"""The clairvoyant bound for every setting of the exits on one row of hardware, before it has latency tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...serving.bound import Trades, late_jobs
from ...serving.requirements import Requirement
from ...traffic.traffic import Traffic, places
from .rules import limits_of
from .sources import Source


class Clairvoyant:
    """A scheduler that knows the future, on a row of hardware; ``steps``: most runs of the last stage."""

    def __init__(self, source: Source, row: int, steps: int) -> None:
        self._stages, self._steps, self._speedup = source.stages, steps, source.speedup
        self._part, self._time_s = source.layer_times(row)
        self._known: dict[tuple[tuple[int, ...], bool], Trades] = {}

    def fails(
        self, kept: tuple[int, ...], traffic: Traffic, requirements: Sequence[Requirement], *, by_layer: bool
    ) -> bool:
        """Whether even then too many requests are late.

        ``by_layer``: whether batches may change at every layer, not only where a stage ends.
        """
        return any(
            self.late(kept, traffic, limit.longer_than_s, limit.allowed, by_layer=by_layer) > limit.allowed
            for limit in limits_of(requirements, traffic)
        )

    def late(
        self,
        kept: tuple[int, ...],
        traffic: Traffic,
        longer_than_s: NDArray[np.float64],
        most: int | None = None,
        *,
        by_layer: bool,
    ) -> int:
        """Requests that take longer than a time each, at least; above ``most`` any higher number.

        ``kept``: the exits that are kept.
        """
        steps = self._steps if traffic.trace.steps is None else traffic.trace.steps
        ends = places(traffic.exits, steps, len(kept) + 1)
        trades = self._trades(kept, by_layer=by_layer)
        return late_jobs(traffic, longer_than_s, lambda limit_s: trades.work(ends, limit_s) / self._speedup, most=most)

    def _trades(self, kept: tuple[int, ...], *, by_layer: bool) -> Trades:
        """What samples need in the stages that end at the exits that are kept."""
        if (kept, by_layer) not in self._known:
            exits = np.array([*kept, self._stages])
            place, in_exit = self._part // 2 + 1, self._part % 2 > 0
            runs = ~in_exit | np.isin(place, exits)
            stage, time_s = 1 + np.searchsorted(exits, place[runs]), self._time_s[runs]
            if not by_layer:
                whole_s = np.zeros((len(exits), time_s.shape[1]))
                np.add.at(whole_s, stage - 1, time_s)
                stage, time_s = np.arange(1, len(exits) + 1), whole_s
            self._known[kept, by_layer] = Trades.of(stage, time_s)
        return self._known[kept, by_layer]


def to_beat(below_s: float) -> list[Requirement]:
    """The requirement that a plan has a 99th percentile below a bound, if there is one."""
    return [] if math.isinf(below_s) else [Requirement(f"p99 < {below_s:g}s", "p99", "<", below_s)]
