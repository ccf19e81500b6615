"""The networks and clusters of the paper, and their partitions."""

from __future__ import annotations

from functools import cache

from ...dse.partition.baselines import StageHost
from ...dse.partition.study import Study, study
from ...models.branches import with_branches
from ...models.loader import read_network_file
from ...models.rows import RowNetwork, cut_into_rows
from ...platforms import Cluster, load_platform
from ...tables.partition import FusionRule, PartitionOptions
from ..rows import CALIBRATED

NETWORKS = {
    "AlexNet-32": "alexnet_cifar10",
    "ResNet-50-32": "resnet50_cifar10",
    "ResNet-50-224": "resnet50",
    "ResNet-101-224": "resnet101",
}
"""The networks of Fig. 5 and the size of their images; the paper does not say on which images ResNet-50 runs."""

PRESETS = {"A": "edgesp-a", "B": "edgesp-b"}
FITTED = {"A": "", "B": CALIBRATED}
"""Basis of speed-ups, empty for predictions: preset B's rates were chosen by the flat end of Fig. 5, A's by times."""

ALL = range(1, 11)
"""Numbers of devices."""

EDGE_GFLOP_S, CLOUD_GFLOP_S, WAN_MBIT_S = 60.0, 10_000.0, 100.0
"""Edge server (i5-8400), cloud (four RTX 3090) and the connection to both: assumed, as the paper states none."""


@cache
def network(name: str, *, exits: bool = True) -> RowNetwork:
    """A network of the zoo as rows, with EdgeSP's exits or with none."""
    file, path = read_network_file(name)
    plain = file.model_copy(update={"exits": [], "candidates": None})
    return cut_into_rows(with_branches(file, path) if exits else plain, path)


@cache
def cluster(preset: str) -> Cluster:
    """The cluster of a preset."""
    return load_platform(PRESETS[preset], kind=Cluster)


@cache
def over_devices(
    name: str,
    preset: str,
    rule: FusionRule = FusionRule.MARGINAL,
    counts: tuple[int, ...] = tuple(ALL),
    *,
    exits: bool = True,
) -> list[Study]:
    """The partitions of a network over the first devices of a preset."""
    return study(network(name, exits=exits), cluster(preset), PartitionOptions(rule=rule), counts)


def places(preset: str) -> tuple[StageHost, StageHost, StageHost]:
    """The end device, the edge server and the cloud."""
    owner = cluster(preset)
    device = next(device for device in owner.devices if device.name == owner.owner)
    return (
        StageHost(device.name, device.gflop_s, WAN_MBIT_S, device.layer_s),
        StageHost("edge", EDGE_GFLOP_S, WAN_MBIT_S),
        StageHost("cloud", CLOUD_GFLOP_S, WAN_MBIT_S),
    )
