"""Search of a partition over a cluster, by numbers of devices and of layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from fluidb.dse.partition.search import Partitioner
from fluidb.models.loader import read_network_file
from fluidb.models.rows import RowNetwork, cut_into_rows
from fluidb.platforms import Cluster, load_platform
from fluidb.tables.partition import FusionRule, PartitionOptions
from rounds import BenchmarkTable, Entrant, take_turns, timed

WIDTH = 256
"""Channels of the residual blocks."""


def deep(blocks: int) -> RowNetwork:
    """A network of equal residual blocks of two convolutions, on maps of 56 x 56."""
    file, path = read_network_file("resnet50")
    layers: list[dict[str, object]] = [{"name": "stem", "op": "conv", "out": WIDTH, "kernel": 3, "stride": 4, "pad": 1}]
    before = "stem"
    for n in range(blocks):
        layers += [
            {"name": f"{n}.a", "op": "conv", "out": WIDTH, "kernel": 3, "pad": 1, "from": before},
            {"name": f"{n}.b", "op": "conv", "out": WIDTH, "kernel": 3, "pad": 1},
            {"name": f"{n}", "op": "add", "from": [f"{n}.b", before]},
        ]
        before = f"{n}"
    layers += [{"name": "pool", "op": "globalavgpool"}, {"name": "fc", "op": "linear", "out": 1000}]
    content = file.model_dump(by_alias=True) | {
        "name": f"deep{blocks}",
        "layers": layers,
        "exits": [],
        "candidates": None,
    }
    return cut_into_rows(type(file).model_validate(content), path)


def searched(network: RowNetwork, cluster: Cluster, count: int, rule: FusionRule, *, subsets: bool = False) -> None:
    """Run one search, with nothing kept from earlier ones."""
    search = Partitioner(network, cluster, PartitionOptions(rule=rule))
    names = search.first_devices(count)
    best = search.best_subset(names) if subsets else search.partition(names)
    assert best.average_s > 0


def measure(
    rounds: int, devices: Sequence[int] = (1, 2, 4, 6, 10), blocks: Sequence[int] = (16, 32, 64, 128)
) -> BenchmarkTable:
    """Time of a search over devices, over layers, and over all subsets of the devices."""
    file, path = read_network_file("resnet101")
    resnet, cluster = cut_into_rows(file, path), load_platform("edgesp-a", kind=Cluster)
    most = max(devices)
    searched(resnet, cluster, most, FusionRule.OPTIMAL)  # compiles
    entrants = []
    for count in devices:
        for rule in (FusionRule.MARGINAL, FusionRule.OPTIMAL):
            name = f"ResNet-101, {count} devices, {rule}"
            entrants.append(_entrant(name, resnet, cluster, count, rule))
    entrants.append(
        _entrant(f"ResNet-101, subsets of {most} devices", resnet, cluster, most, FusionRule.MARGINAL, True)
    )
    for number in blocks:
        name = f"{number} residual blocks, {most} devices, optimal"
        entrants.append(_entrant(name, deep(number), cluster, most, FusionRule.OPTIMAL))
    rows = take_turns(entrants, rounds)
    remarks = []
    if len(blocks) > 1:
        medians = [row.median_s for row in rows[-len(blocks) :]]
        slope = np.polyfit(np.log(blocks), np.log(medians), 1)[0]
        remarks.append(f"Exponent of growth with residual blocks, by least squares of the logarithms: {slope:.2f}.")
    about = f"`fluidb dse NETWORK {cluster.name}` without reading and writing files."
    return BenchmarkTable("partition", "Partition over a cluster", about, rows, remarks=remarks)


def _entrant(
    name: str, network: RowNetwork, cluster: Cluster, count: int, rule: FusionRule, subsets: bool = False
) -> Entrant:
    return Entrant(name, timed(lambda: searched(network, cluster, count, rule, subsets=subsets)), ours=True)
