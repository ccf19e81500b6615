"""``fluidb dse``: the kind of the platform decides on the search."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from ..declare import argument, refuse_others
from ..names import NETWORK_OR_SUPERNET, SEARCHED, named
from ..options import FolderOptions
from .searches.accelerator import AcceleratorSearch
from .searches.board import BoardSearch
from .searches.cluster import ClusterSearch
from .searches.engine import EngineSearch
from .searches.many import names_of_inputs


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

    On a board, the command searches all designs <T_R,T_P,T_C> that fit, and prints the best one
    with its shares of the board and its throughput. With -o it writes design.json and
    fbcb.json, which other commands read. With several networks or boards it searches a
    design for each pair; --scheduler does so on a cluster of computers. With --together it
    searches one design for all networks on each board, and writes a folder for each network.
    --force replaces the whole folder of a design, with the latency table of the old design.

    On an accelerator, it finds the SubGraphs of a SuperNet for the persistent buffer, and the
    size of this buffer (SUSHI, `fluidb docs sushi`). With -o it writes subgraphs.json and
    latency.json.

    For an engine of fixed shape, it finds the pixels, input and output channels with which the
    network is fastest, with no more multipliers than it has. With -o it writes engine.toml,
    latency.json and decisions.json.

    On a cluster of devices, it cuts maps into rows and fuses layers into blocks (EdgeSP,
    `fluidb docs edgesp`). With -o it writes partition.json and latency.json.
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
    of_kind: dict[type[Platform], str] = {}
    for name in names_of_inputs(platform, "PLATFORM"):
        with suppress(InputError):  # the search reports every fault of a file
            of_kind.setdefault(kind_of(name), name)
    searched = {kind: name for kind, name in of_kind.items() if kind in searches} or {Board: platform}
    if len(searched) > 1:
        kinds = " and ".join(f"the {kind.kind} {name}" for kind, name in searched.items())
        raise InputError(f"PLATFORM: expected platforms of one kind, found {kinds}; search each on its own")
    (kind,) = searched
    refuse_others(ctx, searches[kind], searches.values(), searched[kind])
    searches[kind].run(network, platform, written)
