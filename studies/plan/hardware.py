"""The hardware that a plan may take, by its names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...dse.device.tabulate import tabulate_file
from ...dse.npu.stated import DesignOptions
from ...dse.partition.study import study
from ...dse.partition.tabulate import tabulate_latency
from ...dse.subgraphs.search import find_subgraphs, latency_table
from ...formats import InputError, is_folder
from ...models.rows import cut_into_rows
from ...models.supernets.catalogue import load_family
from ...platforms import Accelerator, Board, Cluster, Device, Platform, load_platform
from ...tables.partition import PartitionOptions
from .given import subnet_sources
from .networks import AskedNetworks, PlanNetwork, one_behind_another
from .sources import BoardSource, HardwareCost, Source, TableSource


def find_sources(asked: AskedNetworks, names: Sequence[str], designs: DesignOptions) -> list[Source]:
    """The hardware of some names for all networks of a question.

    Every design of a board, a device, the first devices of a cluster, or the tables of a folder; SubNets alone and
    together.
    """
    sources = [source for name in names for source in _sources(asked, name, designs)]
    free = [source.name for source in sources if source.counted == "nothing"]
    if asked.alike and free and len(free) < len(sources):
        raise InputError(
            f"platforms: expected NPUs only or devices only, whose costs are alike, found both, e.g. {free[0]}"
        )
    return sources


def _sources(asked: AskedNetworks, name: str, designs: DesignOptions) -> list[Source]:
    """The hardware of a name."""
    if is_folder(name):
        return asked.in_folder(name)
    platform = load_platform(name, kind=Platform)
    unknown = [network.keys.name for network in asked.each if not network.members]
    if unknown:
        raise InputError(
            f"networks: {unknown[0]}: network: expected it, as designs for {name} are searched, found a table only; "
            'state e.g. network = "resnet50"'
        )
    if not isinstance(platform, asked.searched):
        raise InputError(
            f"{name}: expected a board, a device, or a folder with a latency table of each network, found another "
            "platform; several networks run on one device"
        )
    if isinstance(platform, Accelerator):
        (network,) = asked.each
        return subnet_sources(name, latency_table(find_subgraphs(load_family(network.members[0].name), platform)))
    each = product(*(network.members for network in asked.each))  # a SuperNet has many members, a network one
    return [source for members in each for source in _for_members(members, asked.names, platform, name, designs)]


def _for_members(
    members: Sequence[PlanNetwork], names: Sequence[str], platform: Platform, name: str, designs: DesignOptions
) -> list[Source]:
    """The hardware of a platform for one member of each network."""
    first = members[0]
    if isinstance(platform, Board):
        models = [member.network for member in members]
        return [BoardSource(*designs.read(one_behind_another(models, names), name), models, first.subnet)]
    if isinstance(platform, Device):
        tables = [tabulate_file(member.file, member.path, platform) for member in members]
        return [TableSource(name, tables, subnet=first.subnet)]
    assert isinstance(platform, Cluster)
    rows, last = cut_into_rows(first.file, first.path), len(platform.devices)
    studied = study(rows, platform, PartitionOptions(), range(1, last + 1), left_out=lambda _count, _fault: None)
    return [
        TableSource(
            f"{name}: {count} of {last} devices", [tabulate_latency(here)],
            HardwareCost("devices", count, count / last), first.subnet, here,
        )
        for here in [partition.every for partition in studied]
        for count in [len(here.devices)]
    ]  # fmt: skip
