"""The clairvoyant bound for every setting of the exits on one row of hardware, before it has latency tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...formats.array_types import Floats, Ints
from ...serving.bound import Trades, late_jobs
from .plan_traffic import JointTraffic, depths_of
from .rules import Limit
from .sources import Source

TimesOfParts = tuple[Ints, Floats]
"""Parts of a network, and their times by batch size, as of :meth:`Source.layer_times`."""


class Clairvoyant:
    """A scheduler that knows the future, on a row of hardware.

    ``steps``: most runs of the last stage of each network; ``lasts``: the last stages of all but the last network.
    """

    def __init__(self, source: Source, times: TimesOfParts, steps: Sequence[int], lasts: tuple[int, ...] = ()) -> None:
        self._steps, self._lasts, self._speedup = steps, (*lasts, source.stages), source.speedup
        self._part, self._time_s = times
        self._known: dict[tuple[tuple[int, ...], bool], list[Trades]] = {}

    def fails(self, kept: tuple[int, ...], traffic: JointTraffic, limits: Sequence[Limit], *, by_layer: bool) -> bool:
        """Whether even then too many requests are late; of clients, whose arrivals are not known, nothing is said.

        ``by_layer``: whether batches may change at every layer, not only where a stage ends.
        """
        return traffic.think_s is None and any(
            self.late(kept, traffic, limit.longer_than_s, limit.allowed, by_layer=by_layer) > limit.allowed
            for limit in limits
        )

    def late(
        self,
        kept: tuple[int, ...],
        traffic: JointTraffic,
        longer_than_s: Floats,
        most: int | None = None,
        *,
        by_layer: bool,
    ) -> int:
        """Requests that take longer than a time each, at least; with ``most`` any number on its side of it.

        ``kept``: the exits that are kept.
        """
        numbers = np.searchsorted(np.array([*kept, self._lasts[-1]]), self._lasts) + 1
        ends = depths_of(traffic, traffic.exits, np.diff(numbers, prepend=0).tolist(), self._steps)
        of_each, network = self._trades(kept, by_layer=by_layer), traffic.device.network
        bounded = np.flatnonzero(longer_than_s < np.inf)  # the others need no time to be late
        if len(bounded) < len(ends):
            ends, network, longer_than_s = ends[bounded], network[bounded], longer_than_s[bounded]
            traffic = replace(traffic, trace=traffic.trace.at(bounded))

        def work_of(limit_s: Floats) -> Floats:
            work_s = np.zeros(len(ends))
            for number, trades in enumerate(of_each):
                here = network == number
                work_s[here] = trades.work(ends[here], limit_s[here]) / self._speedup
            return work_s

        return late_jobs(traffic, longer_than_s, work_of, most=most)

    def _trades(self, kept: tuple[int, ...], *, by_layer: bool) -> list[Trades]:
        """What samples of each network need in the stages that end at the exits that are kept."""
        if (kept, by_layer) not in self._known:
            place, in_exit = self._part // 2 + 1, self._part % 2 > 0
            of_each = []
            for begin, last in pairwise((0, *self._lasts)):
                exits = np.array([*(exit_ for exit_ in kept if begin < exit_ < last), last])
                runs = (begin < place) & (place <= last) & (~in_exit | np.isin(place, exits))
                stage, time_s = 1 + np.searchsorted(exits, place[runs]), self._time_s[runs]
                if not by_layer:
                    whole_s = np.zeros((len(exits), time_s.shape[1]))
                    np.add.at(whole_s, stage - 1, time_s)
                    stage, time_s = np.arange(1, len(exits) + 1), whole_s
                of_each.append(Trades.of(stage, time_s))
            self._known[kept, by_layer] = of_each
        return self._known[kept, by_layer]
