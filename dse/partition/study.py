"""A partition beside its baselines: one device and fewer devices, for one cluster or a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...formats import InputError
from ...models.rows import RowNetwork
from ...platforms.cluster import Cluster
from ...tables.partition import FusionRule, PartitionOptions, PartitionTable
from .search import Partitioner


class Study(NamedTuple):
    """Partitions of a network over the first n devices of a cluster."""

    every: PartitionTable  # over all n devices
    alone: PartitionTable | None  # on the device with the input, if it has a rate above 0 and room for the network
    subset: PartitionTable | None  # over the fastest subset of the n devices, if that was searched

    @property
    def chosen(self) -> PartitionTable:
        """The partition over the fastest subset, if that was searched; else over all devices."""
        return self.every if self.subset is None else self.subset

    @property
    def speedup(self) -> float | None:
        """Speed-up of the chosen devices over one, on average over the exits."""
        return None if self.alone is None else self.alone.average_s / self.chosen.average_s


def with_fewer(
    plain: Study,
    network: RowNetwork,
    cluster: Cluster,
    rules: Sequence[FusionRule],
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """The study with the fastest subset of its devices, if one alone is faster than all of them.

    ``rules`` fuse the layers: the first one whose search takes no more than minutes is taken.
    """
    if plain.speedup is None or plain.speedup >= 1:
        return plain
    for rule in rules:
        options = plain.every.options.model_copy(update={"rule": rule})
        with suppress(InputError):  # too many subsets, or too many times of blocks
            subset = Partitioner(network, cluster, options).best_subset(plain.every.devices, progress)
            return plain._replace(subset=subset)
    return plain


def study(
    network: RowNetwork,
    cluster: Cluster,
    options: PartitionOptions,
    counts: Sequence[int],
    *,
    subsets: bool = False,
    left_out: Callable[[int, InputError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Study]:
    """Partition a network over the first n devices of a cluster, for each n; with ``subsets``, over the fastest too.

    ``left_out`` is called with each n of devices that cannot run the network, if others can; without it, they must.
    """
    search = Partitioner(network, cluster, options)
    alone = None
    with suppress(InputError):
        alone = search.partition([cluster.owner])
    studies: list[Study] = []
    for done, count in enumerate(counts, 1):
        try:
            names = search.first_devices(count)
            every = search.partition(names)
        except InputError as fault:
            if left_out is None or (done == len(counts) and not studies):
                raise
            left_out(count, fault)
        else:
            studies.append(Study(every, alone, search.best_subset(names, progress) if subsets else None))
        if progress is not None and not subsets:
            progress(done, len(counts))
    return studies
