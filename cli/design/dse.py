"""``fluidb dse``: the kind of the platform decides on the search."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from ..names import NETWORK_OR_SUPERNET, SEARCHED, named
from ..options import FolderOptions, argument, refuse_others
from .searches.accelerator import AcceleratorSearch
from .searches.board import BoardSearch
from .searches.cluster import ClusterSearch
from .searches.engine import EngineSearch
from .searches.many import names


def command(
    ctx: typer.Context,
    network: Annotated[
        str,
        argument(
            "Networks, with commas between, or a SuperNet: names from `fluidb models`, or TOML files.",
            "NETWORK",
            **named(NETWORK_OR_SUPERNET),
        ),
    ],
    platform: Annotated[
        str,
        argument(
            "Boards, with commas between; or an accelerator, an engine or a cluster: "
            "names from `fluidb platforms`, or files.",
            "PLATFORM",
            **named(SEARCHED),
        ),
    ],
    written: FolderOptions,
    board: BoardSearch,
    accelerator: AcceleratorSearch,
    cluster: ClusterSearch,
) -> None:
    """Search an NPU, SubGraphs, an engine's shape, or a partition.

    On a board, every design <T_R,T_P,T_C> that fits it counts. Prints the best one
    with its shares of the board and its throughput; with -o, writes design.json and
    fbcb.json, which the other commands read. Several networks or boards are all
    combined; --scheduler searches on a cluster of computers. --force replaces a
    design's folder whole: its latency table, which is of the old design, goes too.

    On an accelerator, finds the SubGraphs of a SuperNet for its persistent buffer, and
    the size of this buffer (SUSHI, `fluidb docs sushi`); with -o, writes subgraphs.json
    and latency.json.

    Of an engine of fixed shape, finds the pixels, input and output channels with as
    many multipliers on which the network is fastest; with -o, writes engine.toml,
    latency.json and decisions.json.

    On a cluster of devices, maps are cut into rows and layers fused into blocks
    (EdgeSP, `fluidb docs edgesp`); with -o, writes partition.json and latency.json.
    """
    from ...formats import InputError
    from ...platforms import Accelerator, Board, Cluster, Platform, kind_of
    from ...platforms.engine import Engine

    searches: dict[type[Platform], BoardSearch | AcceleratorSearch | EngineSearch | ClusterSearch] = {
        Board: board,
        Accelerator: accelerator,
        Engine: EngineSearch(),
        Cluster: cluster,
    }
    found: dict[type[Platform], str] = {}
    for name in names(platform, "PLATFORM"):
        with suppress(InputError):  # the search reports every fault of a file
            found.setdefault(kind_of(name), name)
    searched = {kind: name for kind, name in found.items() if kind in searches} or {Board: platform}
    if len(searched) > 1:
        kinds = " and ".join(f"the {kind.kind} {name}" for kind, name in searched.items())
        raise InputError(f"PLATFORM: expected platforms of one kind, found {kinds}; search each on its own")
    (kind,) = searched
    refuse_others(ctx, searches[kind], searches.values(), searched[kind])
    searches[kind].run(network, platform, written)
