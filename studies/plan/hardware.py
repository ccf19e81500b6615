"""The networks and the hardware that a plan may take, by their names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...dse.device.tabulate import tabulate_file
from ...dse.npu.stated import DesignOptions
from ...dse.partition.study import study
from ...dse.partition.tabulate import tabulate_latency
from ...dse.subgraphs.search import find_subgraphs, latency_table
from ...formats import InputError, is_folder, is_input
from ...models import Network
from ...models.candidates import find_candidates, with_exits
from ...models.loader import build_network, read_network_file
from ...models.rows import cut_into_rows
from ...models.schema import NetworkFile
from ...models.supernets.catalogue import is_family, load_family
from ...platforms import Accelerator, Board, Cluster, Device, Platform, load_platform
from ...tables.latency import LatencyTable, read_latency
from ...tables.partition import PartitionOptions
from ...tables.reuse import SubNetEntry
from ...traffic.samples import Samples
from .sources import BoardSource, HardwareCost, Source, TableSource, subnet_sources


class PlanNetwork(NamedTuple):
    """A network that a plan may run; several are the SubNets of a SuperNet."""

    name: str  # as the user wrote it, or its SuperNet
    file: NetworkFile
    path: Path
    network: Network
    subnet: SubNetEntry | None


def find_networks(name: str, samples: Samples | None) -> list[PlanNetwork]:
    """The network of a name, or every SubNet of a SuperNet.

    A network has an exit at each of its candidates if the samples answer there.
    """
    if "," in name and ":" not in name and not is_input(name):
        raise InputError(
            f'network: expected one, found "{name}"; state several in a file of networks, each with its requests '
            "and requirements (`fluidb docs plan`)"
        )
    if is_family(name):
        networks = []
        for member in load_family(name).members():
            file, path = read_network_file(f"{name}:{member.name}")
            subnet = SubNetEntry(name=member.name, accuracy=member.accuracy)
            networks.append(PlanNetwork(name, file, path, build_network(file, path), subnet))
        return networks
    file, path = read_network_file(name)
    if samples is not None and file.candidates and samples.exits == len(find_candidates(file, path)) + 1:
        file = with_exits(file, path)
    return [PlanNetwork(name, file, path, build_network(file, path), None)]


def find_sources(networks: Sequence[PlanNetwork], name: str, designs: DesignOptions) -> list[Source]:
    """The hardware of a name for each of the networks.

    Parameters
    ----------
    networks : sequence of PlanNetwork
        One, or SubNets (:func:`find_networks`).
    name : str
        Of a board, a device, an accelerator or a cluster, or a folder with a latency table.
    designs : DesignOptions
        Which designs of a board are considered.

    Returns
    -------
    list of Source
        Every design of a board, a device, the first devices of a cluster, or the table of a folder; SubNets alone and
        together.

    Raises
    ------
    InputError
        If there is no such hardware, or it cannot run the network.
    """
    if is_folder(name):
        table = read_latency(name)
        if table.stage_s is not None and table.subnets is not None and table.widths is None:
            return subnet_sources(name, table)
        return [TableSource(name, [table])]
    platform = load_platform(name, kind=Platform)
    if isinstance(platform, Accelerator):
        return subnet_sources(name, latency_table(find_subgraphs(load_family(networks[0].name), platform)))
    return [source for network in networks for source in _sources(network, name, platform, designs)]


def _sources(network: PlanNetwork, name: str, platform: Platform, designs: DesignOptions) -> list[Source]:
    """The hardware of a platform for one network."""
    if isinstance(platform, Board):
        return [BoardSource(*designs.read(network.network, name), network.subnet)]
    if isinstance(platform, Device):
        return [TableSource(name, [tabulate_file(network.file, network.path, platform)], subnet=network.subnet)]
    assert isinstance(platform, Cluster)
    rows, last = cut_into_rows(network.file, network.path), len(platform.devices)
    studied = study(rows, platform, PartitionOptions(), range(1, last + 1), left_out=lambda _count, _fault: None)
    return [
        TableSource(
            f"{name}: {count} of {last} devices", [tabulate_latency(here)],
            HardwareCost("devices", count, count / last), network.subnet, here,
        )
        for here in [partition.every for partition in studied]
        for count in [len(here.devices)]
    ]  # fmt: skip


def multipliers_of(table: LatencyTable) -> int:
    """Multipliers of the NPU or the cores of a table: T_P x T_C, times the pixels side by side; 0 of a device."""
    if not table.npus:
        return 0
    numbers = [1] if table.cores is None else [table.cores.of.count(kind) for kind in range(len(table.npus))]
    tiles = [npu.tile for npu in table.npus]
    return sum(number * math.prod(tile[1:4]) for number, tile in zip(numbers, tiles, strict=True))
