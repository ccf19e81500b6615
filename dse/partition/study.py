"""What a partition is held against: one device, fewer devices, the best possible; for one cluster or a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...formats import InputError
from ...models.rows import RowNetwork
from ...platforms.cluster import Cluster
from ...tables.partition import PartitionOptions, PartitionTable
from .search import Partitioner


class Study(NamedTuple):
    """Partitions of a network over the first n devices of a cluster.

    Attributes
    ----------
    every : PartitionTable
        Over all n devices.
    alone : PartitionTable, optional
        On the device that holds the input, if it has a rate above 0 and room for the network.
    subset : PartitionTable, optional
        Over the fastest subset of the n devices, if that was asked for.
    """

    every: PartitionTable
    alone: PartitionTable | None
    subset: PartitionTable | None

    @property
    def chosen(self) -> PartitionTable:
        """The partition over the fastest subset, if that was asked for; else over all."""
        return self.every if self.subset is None else self.subset

    @property
    def speedup(self) -> float | None:
        """How many times faster the chosen devices are than one, on average over the exits."""
        return None if self.alone is None else self.alone.average_s / self.chosen.average_s


def study(
    network: RowNetwork,
    cluster: Cluster,
    options: PartitionOptions,
    counts: Sequence[int],
    *,
    subsets: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Study]:
    """Partition a network over the first n devices of a cluster.

    Parameters
    ----------
    network : RowNetwork
        The network.
    cluster : Cluster
        The cluster.
    options : PartitionOptions
        How to search.
    counts : sequence of int
        The numbers of devices.
    subsets : bool
        Search also the fastest subset of the devices: fewer can be faster.
    progress : callable, optional
        Called with the numbers that are done, and all.

    Returns
    -------
    list of Study
        One for each number.

    Raises
    ------
    InputError
        If there are too few devices, they have too little memory, or there are too many subsets.
    """
    search = Partitioner(network, cluster, options)
    alone = None
    with suppress(InputError):
        alone = search.partition([cluster.owner])
    found = []
    for done, count in enumerate(counts, 1):
        names = search.first_devices(count)
        every = search.partition(names)
        found.append(Study(every, alone, search.best_subset(names) if subsets else None))
        if progress is not None:
            progress(done, len(counts))
    return found
