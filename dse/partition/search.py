"""The search of a partition: blocks by a rule, shares by Algorithm 1, over given devices or the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, product

import numpy as np

from ...formats import InputError
from ...models.rows import RowNetwork
from ...platforms.cluster import Cluster, Communication
from ...tables.layer_use import MAX_S
from ...tables.partition import FusionRule, PartitionOptions, PartitionTable
from .blocks import Blocks, Costs, Span
from .rules import BlockPlan, choose
from .tabulate import tabulate_partition

MOST_SUBSETS = 4096
"""Most subsets of devices that are compared."""

MOST_TIMES = 5_000_000
"""Most times of blocks that a search computes; more would take longer than some minutes."""


class Partitioner:
    """A search of partitions of one network over devices of one cluster."""

    def __init__(self, network: RowNetwork, cluster: Cluster, options: PartitionOptions) -> None:
        self.network, self.cluster, self.options = network, cluster, options
        self.blocks = Blocks(network, cluster.word_bits / 8)
        self.names = [device.name for device in cluster.devices]

    def partition(self, names: Sequence[str]) -> PartitionTable:
        """The partition over these devices, which are in the cluster's order."""
        self._check_times([names])
        return self._tabulated(*self.planned(names))

    def first_devices(self, count: int) -> list[str]:
        """The names of the first devices; the owner of the input must be among them."""
        first, owner = self.names[:count], self.cluster.owner
        if owner not in first:
            raise InputError(
                f"{self.cluster.name}: expected {owner}, which holds the input, among the first {count} devices, "
                f"found {', '.join(first)}; put it first"
            )
        return first

    def best_subset(self, names: Sequence[str], progress: Callable[[int, int], None] | None = None) -> PartitionTable:
        """The partition over the fastest subset of these devices; of equal subsets, a smallest with the first ones."""
        subsets = list(self._subsets(names))
        self._check_times(subsets)
        best_s, best = np.inf, self.planned(names)
        for done, subset in enumerate(subsets, 1):
            with suppress(InputError):  # too little memory in this subset
                costs, plan = self.planned(subset)
                average_s = _average_s(costs, plan)
                if average_s < best_s:
                    best_s, best = average_s, (costs, plan)
            if progress is not None:
                progress(done, len(subsets))
        return self._tabulated(*best)

    def _check_times(self, subsets: Sequence[Sequence[str]]) -> None:
        """Refuse a search over more subsets than some minutes allow, by about how many times it computes."""
        hosts, wide, times = sum(map(len, subsets)), len(subsets) > 1, 0
        for first, end in pairwise((0, *self.network.ends)):
            units = end - first
            if self.options.rule is not FusionRule.OPTIMAL:
                times += 3 * units
            else:  # every block; by halo behind every block that may be before it
                times += units**3 // 6 if self.cluster.communication is Communication.HALO else units**2 // 2
        if hosts * times > MOST_TIMES:
            remedies = ["fewer devices"] * wide + ["the rule marginal"] * (self.options.rule is FusionRule.OPTIMAL)
            raise InputError(
                f"rule: expected at most {MOST_TIMES:,} times of blocks to compute, found about {hosts * times:,} "
                f"with {self.options.rule}; use {' or '.join(remedies)}"
            )

    def planned(self, names: Sequence[str]) -> tuple[Costs, BlockPlan]:
        """The blocks, and the device with which they are fastest if it runs the layers on whole maps.

        It computes no row only if no device has room for both.
        """
        fitting = []
        for with_rows in (True, False):
            ways = []
            for host in self._hosts(names):
                costs = Costs(self.blocks, self.cluster, names, self.options.zeta, host, with_rows=with_rows)
                plan = choose(costs, self.options.rule) if costs.host_fits else None
                fitting += [costs] * costs.host_fits
                ways += [] if plan is None else [(costs, plan)]
            if ways:
                return min(ways, key=lambda way: _average_s(*way))
        raise self._no_room(names, fitting)

    def _hosts(self, names: Sequence[str]) -> list[int]:
        """Devices that may run layers on whole maps, the strongest first, which is taken where several are as fast."""
        strengths = [(device.gflop_s, -device.layer_s) for device in self.cluster.devices if device.name in names]
        return sorted(range(len(names)), key=lambda k: strengths[k], reverse=True)

    def _tabulated(self, costs: Costs, plan: BlockPlan) -> PartitionTable:
        end_s = _exit_s(costs, plan)[-1]
        if end_s > MAX_S:
            raise InputError(
                f"{self.cluster.name}: expected {self.network.name} to take at most {MAX_S:g} s, found {end_s:.3g} s; "
                "check gflop_s and mbit_s"
            )
        return tabulate_partition(costs, self.cluster, self.options, plan)

    def _no_room(self, names: Sequence[str], hosts: Sequence[Costs]) -> InputError:
        """The fault of devices with too little memory; ``hosts`` leave room for what needs a whole map."""
        network, devices = self.network, ", ".join(names)
        if not hosts or not hosts[0].devices.flop_s.any():
            return InputError(
                f"{self.cluster.name}: expected a device with a rate above 0 and room for the weights of "
                f"{network.name}, {sum(self.blocks.beside) / 1e9:.3g} GB with maps, among {devices}, found none"
            )
        units = [Span(n, i, i + 1) for n, chain in enumerate(network.chains) for i in range(len(chain.units))]
        span = next(span for span in units if not hosts[0].fits(span))
        return InputError(
            f"{self.cluster.name}: expected room for the maps of {network.name} in the memory of {devices}, found too "
            f"little for {self.blocks.units(span)[0].name}, {self.blocks.fused(span).map_end[-1] / 1e6:.3g} MB; use "
            "more devices, or some with more memory"
        )

    def _subsets(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Subsets of devices that differ in more than names, small ones first."""
        links = {link.device: link.model_dump(exclude={"device"}) for link in self.cluster.links}
        groups: dict[str, list[str]] = {}
        for device in self.cluster.devices:
            if device.name in names:
                facts = (device.model_dump(exclude={"name"}), links.get(device.name), device.name == self.cluster.owner)
                groups.setdefault(repr(facts), []).append(device.name)
        sizes = [range(len(group) + 1) for group in groups.values()]
        count = math.prod(map(len, sizes))
        if count > MOST_SUBSETS:
            raise InputError(
                f"devices: expected at most {MOST_SUBSETS:,} subsets of devices that differ, found {count:,}; "
                "use fewer devices, or equal ones"
            )
        for counts in sorted(product(*sizes), key=sum):
            taken = {name for group, n in zip(groups.values(), counts, strict=True) for name in group[:n]}
            if taken:
                yield [name for name in names if name in taken]


def _average_s(costs: Costs, plan: BlockPlan) -> float:
    """Average time over the exits."""
    return float(np.dot([exit_.rate for exit_ in costs.network.exits], _exit_s(costs, plan)))


def _exit_s(costs: Costs, plan: BlockPlan) -> list[float]:
    """Time to each exit, with all steps of a stage that repeats."""
    total, exit_s = 0.0, []
    stages = zip(plan.stages(costs.held_at_start()), costs.network.exits, strict=True)
    for number, ((steps, end), exit_) in enumerate(stages):
        stage_s = sum(costs.time_s(*step, held) for step, held in steps) + costs.wholes_s(number, end)
        total += exit_.steps * stage_s
        exit_s.append(total)
    return exit_s
