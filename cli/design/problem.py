"""Options of `dse`, `pareto` and `plan`: the network, the board and the search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from ...dse.npu.choices import GOALS, MAX_DESIGN_BATCH, Batching, Objective, Overlap
from ..names import BOARD, NETWORK, named, offering
from ..options import argument, choice, flag, numbers, option

if TYPE_CHECKING:
    from ...dse import SearchOptions
    from ...dse.npu.design import DesignTable
    from ...dse.npu.fbcb import FbcbTable
    from ...models import Network
    from ...platforms import Board

NetworkName = Annotated[
    str, argument("A network: a name from `fluidb models`, or a TOML file.", "NETWORK", **named(NETWORK))
]
PlatformName = Annotated[
    str, argument("A board: a name from `fluidb platforms`, or a TOML file.", "PLATFORM", **named(BOARD))
]

Bandwidth = Annotated[
    str | None,
    option("Bandwidth instead of the platform's: off chip (3.2GB/s), or of a cluster's links (100Mb/s).", "QUANTITY"),
]

Persistent = Annotated[
    str | None, option("On-chip memory for weights that stay (4Mb, 20%; 1728KiB), or search it.", "QUANTITY|search")
]

BestBy = Annotated[
    str | None,
    option(
        "What is best: with a board GOP/s (Equation 2, the default), latency at b = 1, energy or GOP/s/W; "
        "with an accelerator the mean latency (the default), off-chip energy or hit ratio of the SubNets.",
        f"[{'|'.join(GOALS)}|hit_ratio]",
        **offering((*GOALS, "hit_ratio")),
    ),
]
_Layout = Literal[Batching.FLUID, Batching.ROW, Batching.COLUMN, Batching.FC, Batching.NONE]
"""All but Equation (1) as printed, a reading of the paper that only Python and ``papers/`` use."""

SEARCH = "search"
"""The value of an option that asks for all sizes."""


class Problem(NamedTuple):
    """A search as the user stated it."""

    network: Network
    platform: Board
    options: SearchOptions


@dataclass(frozen=True, kw_only=True)
class Space:
    """The options that define which designs a search considers."""

    batching: Annotated[_Layout, option("How the engine lays out a batch.")] = Batching.FLUID
    stacking: Annotated[bool, option("Stackable PEs: k in {1/2, 1, 2}, or k = 1 only.")] = True
    overlap: Annotated[
        Overlap,
        option("Time of a layer: tile by tile as built, its ideal (roofline), or the ideal with the paper's words."),
    ] = Overlap.TILES
    b_max: Annotated[int, option("Largest batch size B_max.", min=1, max=MAX_DESIGN_BATCH)] = 8
    bandwidth: Bandwidth = None
    int8: Annotated[bool, flag("Words of 8 bits, two MACs a DSP.", "--int8")] = False
    pixels: Annotated[
        str | None, option("Output pixels that a design may work on side by side, instead of the board's.", "V1,V2,...")
    ] = None
    max_dsp: Annotated[str | None, option("DSPs a design may take: 80% or 720DSPs.", "LIMIT")] = None
    max_ram: Annotated[str | None, option("On-chip memory it may take: 80% or 15Mb.", "LIMIT")] = None
    max_lut: Annotated[str | None, option("LUTs it may take: 76% or 166000LUTs.", "LIMIT")] = None

    def read(self, network: str | Network, platform: str, **given: Any) -> Problem:
        """Read the search of a network on a board; ``given`` are further fields of ``SearchOptions``."""
        from ...dse import SearchOptions
        from ...formats import parse_bandwidth, validate
        from ...models import load_network
        from ...platforms import LUT_KEYS, load_platform

        bandwidth = None if self.bandwidth is None else parse_bandwidth(self.bandwidth, "bandwidth")
        board = load_platform(platform, bandwidth)
        board = board.in_int8() if self.int8 else board
        if self.pixels is not None:
            board = board.with_pixels([int(V) for V in numbers(self.pixels, "pixels", int, "1,2,4")])
        limits = {
            "max_dsps": limit(self.max_dsp, "max_dsp", board.dsps, "DSPs", "80% or 720DSPs"),
            "max_ram_mbit": limit(self.max_ram, "max_ram", board.on_chip_mbit, "Mb", "80% or 15Mb"),
            "max_luts": limit(self.max_lut, "max_lut", board.luts, "LUTs", "76% or 166000LUTs"),
        }
        options = {key: value for key, value in vars(self).items() if key in SearchOptions.model_fields}
        options |= given | {"limits": limits}
        net = load_network(network) if isinstance(network, str) else network
        found = validate(SearchOptions, options, Path("options"))
        if self.max_lut is not None and not found.counts_logic(board):
            board.require(LUT_KEYS, "--max-lut")
        return Problem(net, board, found)


@dataclass(frozen=True, kw_only=True)
class Search(Space):
    """The same options, and those that define which design is the best."""

    weights: Annotated[
        str | None, option("w_b for b = 1..B_max, or `serve-sim --json` results (.json); else all 1.", "W1,W2,...|FILE")
    ] = None
    objective: Annotated[
        str | None,
        option(
            "What is best: GOP/s (Equation 2, the default), latency at b = 1, energy or GOP/s/W.",
            f"[{'|'.join(GOALS)}]",
            **offering(GOALS),
        ),
    ] = None

    def read(self, network: str | Network, platform: str, **given: Any) -> Problem:
        """Read the search, with its weights."""
        from ...models import load_network

        net = load_network(network) if isinstance(network, str) else network
        objective = choice(GOALS, self.objective or Objective.GOP_S, "objective")
        return super().read(net, platform, **given, **self._weighted(net, objective))

    def _weighted(self, network: Network, objective: Objective) -> dict[str, object]:
        """The weights w_b that the user typed, or the batches that a simulation ran, read from its results."""
        from ...formats import InputError

        if self.weights is None or not self.weights.endswith(".json"):
            found = numbers(self.weights, "weights", float, "1,1,2, or a file whose name ends in .json")
            if found and objective is Objective.LATENCY:
                raise InputError("weights: the objective latency is that of b = 1 and takes none; leave them out")
            return {"weights": found, "objective": objective}
        from ...tables.launches import read_launches

        if objective is not Objective.GOP_S:
            raise InputError(f"weights: a simulation's runs go with the objective gop_s, found {objective}")
        return {
            "weights": [],
            "objective": Objective.TRAFFIC,
            "launches": read_launches(Path(self.weights), self.b_max, network.name),
        }


def board_of(board: Board) -> str:
    """A board in one line, with the width of its words if it is not that of most."""
    words = "" if board.word_bits == 16 else f", {board.word_bits} bits"
    return f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s{words}"


def design_record(design: DesignTable, fbcb: FbcbTable) -> dict[str, object]:
    """The JSON of a design."""
    from ...dse.npu.costs import board_use_of
    from ...dse.npu.objectives import OBJECTIVES

    best, *others = design.ranking
    board_use = board_use_of(design, fbcb)
    shares = {
        key: getattr(design, key) for key in ("gop_s", "ideal_gop_s", "energy_j", "dsp_share", "ram_share", "lut_share")
    }
    if board_use and board_use.luts is not None:
        shares["lut_share"] = board_use.lut_share
    return {
        "network": design.network.name,
        "platform": design.platform.name,
        "bandwidth_gb_s": design.platform.bandwidth_gb_s,
        "word_bits": design.platform.word_bits,
        "options": design.options,
        **best.model_dump(),
        "objective_unit": OBJECTIVES[design.options.objective].unit,
        **shares,
        "flip_flop_share": board_use and board_use.flip_flop_share,
        "blocks": board_use and board_use.record,
        "fbcb_register_bits": fbcb.register_bits,
        "fbcb_register_share": design.register_share(fbcb),
        "designs_evaluated": design.designs_evaluated,
        "designs_ruled_out": design.designs_ruled_out,
        "runners_up": others,
    }


def limit(text: str | None, what: str, total: float | None, unit: str, example: str) -> float | None:
    """A limit that the user typed: an amount, or a share of the board's."""
    from ...formats import InputError, parse_quantity

    if text is None:
        return None
    units = {unit: 1.0} if total is None else {unit: 1.0, "%": total / 100}
    share = text.strip().endswith("%")
    value = round(parse_quantity(text, units, what, example), 9)  # 100 % is all of it
    if share and total is not None and value > total:
        raise InputError(f'{what}: expected at most 100% of the board, found "{text}"; write e.g. {example}')
    if unit == "Mb":
        return value
    if value < 1:
        raise InputError(f'{what}: expected room for at least 1, found "{text}"; write e.g. {example}')
    if not share and value != int(value):
        raise InputError(f'{what}: expected a whole number, found "{text}"; write e.g. {example}')
    return int(value)
