"""What of a board a design is limited by, and what more of it would give."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from ...models import Network
from ...platforms import Board
from .evaluation import Evaluator, Progress
from .objectives import OBJECTIVES
from .options import SearchOptions
from .ports import words_of
from .resources import Resource, Supply
from .search import RankedDesign, search
from .side_by_side import by_banks
from .tiles import Tile
from .workload import Workload

MEMORY, BANDWIDTH = "on_chip_mbit", "bandwidth_gb_s"
"""Keys of a board's file for its memory on the chip, whatever it is made of, and off it."""

CYCLE = "cycle"
"""The key of the fit of its cycle; a slower clock is no more of anything."""

KEYS = {
    Resource.DSPS: "dsps",
    Resource.BUFFER_BITS: MEMORY,
    Resource.BLOCK_RAMS: "block_rams",
    Resource.LUTS: "luts",
    Resource.FLIP_FLOPS: "flip_flops",
    Resource.CYCLE: CYCLE,
    Resource.FITTED_LUTS: "luts",
}
"""The key of a board's file that states a resource."""

MORE_BANDWIDTH = 0.1
"""How much more bandwidth a design is tried with."""

LIMITS = {"dsps": "max_dsps", MEMORY: "max_ram_mbit", "luts": "max_luts"}
"""The limits of a user, by the key of what they limit."""


class LimitedBy(NamedTuple):
    """What of a board a design is limited by."""

    refuses: dict[str, dict[str, int]]  # by the key of a resource in the board's file: the larger sizes that it refuses
    with_bandwidth: float  # the objective of the design with more bandwidth, by the share of MORE_BANDWIDTH


class Gain(NamedTuple):
    """The best design with more of a board."""

    keys: tuple[str, ...]  # of the board's file, whose values grow
    best: RankedDesign
    ratio: float  # of its objective to the objective without


def limited_by(network: Network | Workload, platform: Board, options: SearchOptions, design: RankedDesign) -> LimitedBy:
    """The larger sizes that each resource refuses a design that fits, and its objective with a tenth more bandwidth.

    If one of its sizes is a step larger and the others are as they are, the design takes more of these resources than
    there is. With more bandwidth the port may become wider.  Whether the best design is better with more of a resource,
    :func:`gains` tells.
    """
    supply, refused = options.supply(network, platform), dict[str, dict[str, int]]()
    for size, value in _larger(supply, design.tile).items():
        demand = supply.demand(design.tile._replace(**{size: value}))
        for resource, most in supply.most.items():
            if not demand.within({resource: most}):
                refused.setdefault(KEYS[resource], {})[size] = value
    more = platform.model_copy(update={BANDWIDTH: (1 + MORE_BANDWIDTH) * platform.bandwidth_gb_s})
    ways, there = [design.tile], options.supply(network, more)
    if there.placed:  # the port as it is, and the whole port, which may be wider there, if that fits
        ways = [design.tile._replace(W=int(words_of(platform, design.tile))), *ways]
        ways = ways[: 1 + bool(there.demand(design.tile).within(there.most))]
    goal, tiles = OBJECTIVES[options.objective], np.concatenate([way.array for way in ways], axis=1)
    values = Evaluator(network, more, options).rate(tiles, [options.objective])[:, 0]
    return LimitedBy(refused, float(values[goal.losses(values).argmin()]))


def _larger(supply: Supply, tile: Tile) -> dict[str, int]:
    """Each size of a design one step larger, as far as its board allows it."""
    sizes = {"T_R": tile.T_R + 2, "T_P": tile.T_P + 1, "T_C": tile.T_C + 1}
    words, board = int(words_of(supply.board, tile)), supply.board
    if 2 * tile.V in supply.pixels and supply.needed.by(tile) <= by_banks(words, 2 * tile.V):
        sizes["V"] = 2 * tile.V
    wider = [other for other in (board.usual_port_words, *supply.ports) if other > words]
    if supply.placed and wider and words < board.words_per_cycle:  # it would carry more
        sizes["W"] = min(wider)
    return sizes


def gains(
    network: Network | Workload,
    platform: Board,
    options: SearchOptions,
    best: RankedDesign,
    share: float,
    progress: Progress | None = None,
) -> list[Gain]:
    """Search the best design with more of a board: of each resource that is judged alone, and of all of them.

    ``share`` is how much more: 0.1 is a tenth.  Numbers are rounded up, and a user's limits grow as well.  Memory is
    one resource, whatever it is made of.
    """
    judged = dict.fromkeys(KEYS[resource] for resource in options.supply(network, platform).most)
    judged |= {BANDWIDTH: None}
    memory = (MEMORY, *(key for key in ("block_rams", "ultra_rams") if getattr(platform, key) is not None))
    each = [memory if key == MEMORY else (key,) for key in judged if key not in ("block_rams", CYCLE)]
    every, gained = tuple(key for keys in each for key in keys), list[Gain]()
    for keys in (*each, every):
        better = search(network, *_with_more(platform, options, keys, share), top=1).best
        gained.append(Gain(keys, better, better.objective / best.objective))
        if progress:
            progress(len(gained), len(each) + 1)
    return gained


def _with_more(
    platform: Board, options: SearchOptions, keys: tuple[str, ...], share: float
) -> tuple[Board, SearchOptions]:
    """A board with more of some of its numbers, and options whose limits have grown alike."""

    def grown(number: float) -> float:
        return ceil(round(number * (1 + share), 6)) if isinstance(number, int) else number * (1 + share)

    stated = {key: getattr(platform, key) for key in keys}
    limits = {LIMITS[key]: getattr(options.limits, LIMITS[key]) for key in keys if key in LIMITS}
    board = platform.model_copy(update={key: grown(number) for key, number in stated.items() if number})
    limited = options.limits.model_copy(update={key: grown(number) for key, number in limits.items() if number})
    return board, options.model_copy(update={"limits": limited})
