"""Options of `dse` and `pareto`: the network, the board and what is best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...dse.npu.choices import GOALS, Objective
from ...dse.npu.stated import DesignOptions, Problem
from ..declare import argument, option
from ..names import BOARD, NETWORK, named, offering
from ..options import choice

if TYPE_CHECKING:
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

Persistent = Annotated[
    str | None,
    option("On-chip memory for weights that stay (4Mb, 20%; 1728KiB); search finds the best size.", "QUANTITY|search"),
]

BestBy = Annotated[
    str | None,
    option(
        "What to optimise: with a board GOP/s (Equation 2, the default), latency at b = 1, energy or GOP/s/W; "
        "with an accelerator the mean latency (the default), off-chip energy or hit ratio of the SubNets.",
        f"[{'|'.join(GOALS)}|hit_ratio]",
        **offering((*GOALS, "hit_ratio")),
    ),
]
SEARCH = "search"
"""The value of an option that asks for all sizes."""


@dataclass(frozen=True, kw_only=True)
class Search(DesignOptions):
    """The same options, and those that define which design is the best."""

    weights: Annotated[
        str | None,
        option("Weights w_b for b = 1..B_max, or results of `serve-sim --json`; all 1 if not given.", "W1,W2,...|FILE"),
    ] = None
    objective: Annotated[
        str | None,
        option(
            "What to optimise: GOP/s (Equation 2, the default), latency at b = 1, energy or GOP/s/W.",
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
        from ...formats import InputError, parse_numbers

        if self.weights is None or not self.weights.endswith(".json"):
            weights = parse_numbers(self.weights, "weights", float, "1,1,2, or a file whose name ends in .json")
            if weights and objective is Objective.LATENCY:
                raise InputError("weights: the objective latency has b = 1 only and takes none; leave them out")
            return {"weights": weights, "objective": objective}
        from ...tables.launches import read_launches

        if objective is not Objective.GOP_S:
            raise InputError(
                f"weights: expected the objective gop_s beside the runs of a simulation, found {objective}"
            )
        return {
            "weights": [],
            "objective": Objective.TRAFFIC,
            "launches": read_launches(Path(self.weights), self.b_max, network.name),
        }


def board_of(board: Board) -> str:
    """A board in one line, with the width of its words if it is not 16 bits."""
    words = "" if board.word_bits == 16 else f", {board.word_bits} bits"
    return f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s{words}"


RESOURCES = {
    "dsps": "DSPs",
    "on_chip_mbit": "on-chip memory",
    "block_rams": "block RAMs",
    "ultra_rams": "UltraRAMs",
    "luts": "LUTs",
    "flip_flops": "flip-flops",
    "cycle": "the clock",
    "port_words": "the port's width",
    "bandwidth_gb_s": "bandwidth",
}
"""Keys of a board's file as they are printed."""


def not_judged(unjudged: dict[str, str]) -> str | None:
    """What of a board no design is held against, and why; none if there is nothing."""
    by_reason: dict[str, list[str]] = {}
    for key, why in unjudged.items():
        by_reason.setdefault(why, []).append(RESOURCES[key])
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items()) or None


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
        "port_words": int(design.port.words) if design.options.placed else None,
        "carried_gb_s": design.carried_gb_s,
        "word_bits": design.platform.word_bits,
        "options": design.options,
        **best.model_dump(),
        "inferences_per_s": design.inferences_per_s,
        "objective_unit": OBJECTIVES[design.options.objective].unit,
        **shares,
        "flip_flop_share": board_use and board_use.flip_flop_share,
        "blocks": board_use and board_use.record,
        "unjudged": list(design.options.unjudged(design.platform)),
        "fbcb_register_bits": fbcb.register_bits,
        "fbcb_register_share": design.register_share(fbcb),
        "designs_evaluated": design.designs_evaluated,
        "designs_ruled_out": design.designs_ruled_out,
        "runners_up": others,
    } | ({"together": design.together} if design.together else {})
