"""Hardware that is given by the latency tables in a folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ...formats import InputError
from ...serving.designs import NamedTable, check_one_npu
from ...tables.files import LATENCY_FILE
from ...tables.latency import LatencyTable, read_latency
from .sources import FREE, HardwareCost, Source, TableSource


def given_alone(name: str) -> list[Source]:
    """The hardware of the table in a folder, for whichever network it is; SubNets alone and together."""
    table = read_latency(name)
    if table.stage_s is not None and table.subnets is not None and table.widths is None:
        return subnet_sources(name, table)
    return [TableSource(name, [table])]


def given_of_each(networks: Sequence[str], name: str) -> list[Source]:
    """The hardware of the tables of networks in a folder and in its folders; it costs its multipliers, if it is an NPU.

    ``networks``: their names in the tables.
    """
    folder = Path(name)
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    tables = [read_latency(place) for place in places if (place / LATENCY_FILE).is_file()]
    taken = []
    for network in networks:
        own = [table for table in tables if table.network == network]
        if len(own) != 1:
            raise InputError(f"{folder}: expected one latency table of {network}, found {len(own)}")
        taken += own
    check_one_npu([NamedTable(table.network, table, 1.0) for table in taken])
    multipliers = multipliers_of(taken[0])
    return [TableSource(name, taken, HardwareCost("multipliers", multipliers) if multipliers else FREE)]


def subnet_sources(name: str, table: LatencyTable) -> list[Source]:
    """Each SubNet of a table alone, with its fastest content of the buffer; and all, for a policy to choose."""
    assert table.subnets is not None
    assert table.stage_s is not None
    sources: list[Source] = []
    states, subnets, _ = table.axes
    for number, subnet in enumerate(table.subnets):
        here = [table.stage_s[state * subnets + number] for state in range(states)]
        fastest = min(here, key=lambda stages: sum(times_s[0] for times_s in stages))
        alone = table.model_copy(update={"states": None, "reuse": None, "stage_s": [fastest]})
        sources.append(TableSource(name, [alone], subnet=subnet))
    return [*sources, TableSource(f"{name}: all SubNets", [table])]


def multipliers_of(table: LatencyTable) -> int:
    """Multipliers of the NPU or the cores of a table: T_P x T_C, times the pixels side by side; 0 of a device."""
    if not table.npus:
        return 0
    numbers = [1] if table.cores is None else [table.cores.of.count(kind) for kind in range(len(table.npus))]
    tiles = [npu.tile for npu in table.npus]
    return sum(number * math.prod(tile[1:4]) for number, tile in zip(numbers, tiles, strict=True))
