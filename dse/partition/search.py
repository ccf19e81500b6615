"""The search of a partition: blocks by a rule, shares by Algorithm 1, over given devices or the best of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ...formats import InputError
from ...models.rows import RowNetwork
from ...platforms.cluster import Cluster
from ...tables.latency import MAX_S
from ...tables.partition import PartitionOptions, PartitionTable
from .blocks import Blocks, Costs
from .rules import BlockPlan, choose
from .tabulate import tabulate_partition

MOST_SUBSETS = 4096
"""Most subsets of devices that are compared."""


class Partitioner:
    """A search of partitions of one network over devices of one cluster."""

    def __init__(self, network: RowNetwork, cluster: Cluster, options: PartitionOptions) -> None:
        self.network, self.cluster, self.options = network, cluster, options
        self.blocks = Blocks(network, cluster.word_bits / 8)
        self.names = [item.name for item in cluster.devices]

    def partition(self, names: Sequence[str]) -> PartitionTable:
        """The partition over these devices, which are in the cluster's order."""
        return self._tabulated(*self._planned(names))

    def first_devices(self, count: int) -> list[str]:
        """The names of the first devices; the owner of the input must be among them."""
        first, owner = self.names[:count], self.cluster.owner
        if owner not in first:
            raise InputError(
                f"{self.cluster.name}: expected {owner}, which holds the input, among the first {count} devices, "
                f"found {', '.join(first)}; put it first"
            )
        return first

    def best_subset(self, names: Sequence[str]) -> PartitionTable:
        """The partition over the fastest subset of these devices; of equal subsets, a smallest with the first ones."""
        best_s, best, fault = np.inf, None, None
        for subset in self._subsets(names):
            try:
                costs, plan = self._planned(subset)
            except InputError as error:  # too little memory in this subset
                fault = error
                continue
            average_s = _average_s(costs, plan)
            if average_s < best_s:
                best_s, best = average_s, (costs, plan)
        if best is None:
            raise fault or self._no_room()
        return self._tabulated(*best)

    def _planned(self, names: Sequence[str]) -> tuple[Costs, BlockPlan]:
        costs = Costs(self.blocks, self.cluster, names, self.options.zeta)
        return costs, choose(costs, self.options.rule)

    def _tabulated(self, costs: Costs, plan: BlockPlan) -> PartitionTable:
        end_s = _exit_s(costs, plan)[-1]
        if end_s == np.inf:
            raise self._no_room()
        if end_s > MAX_S:
            raise InputError(
                f"{self.cluster.name}: expected {self.network.name} to take at most {MAX_S:g} s, found {end_s:.3g} s; "
                "check gflop_s and mbit_s"
            )
        return tabulate_partition(costs, self.cluster, self.options, plan)

    def _no_room(self) -> InputError:
        return InputError(
            f"{self.cluster.name}: expected room for the maps of {self.network.name} in the devices' memory, found "
            "too little; use more devices, or the rule layerwise"
        )

    def _subsets(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Subsets of devices that differ in more than names, small ones first."""
        links = {link.device: link.model_dump(exclude={"device"}) for link in self.cluster.links}
        groups: dict[str, list[str]] = {}
        for item in self.cluster.devices:
            if item.name in names:
                facts = (item.model_dump(exclude={"name"}), links.get(item.name), item.name == self.cluster.owner)
                groups.setdefault(repr(facts), []).append(item.name)
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
    return float(np.dot([item.rate for item in costs.network.exits], _exit_s(costs, plan)))


def _exit_s(costs: Costs, plan: BlockPlan) -> list[float]:
    """Time to each exit; infinite if a device has too little memory."""
    total, found = 0.0, []
    for number, (steps, end) in enumerate(plan.stages(costs.held_at_start())):
        for step, held in steps:
            total += costs.time_s(*step, held)
        total += costs.gather(number, end).time_s
        found.append(total)
    return found
