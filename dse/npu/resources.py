"""What designs take of a board: one count of every resource, and the most that designs may take of each.

A search, a front, a plan and an explanation all ask :class:`Demand`, which counts arrays of designs, and compare it
with :class:`Supply`, which has a limit for each :class:`Resource` that is judged (docs/model.md, Resources).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property
from math import floor
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from ...formats import Strict
from ...formats.array_types import Bools, Ints
from ...platforms import LUT_KEYS, Board
from ...platforms.board import ONE_PIXEL
from ..engine import WORD_BITS
from . import logic
from .banks import Bank, Placed, banks_of, place, small
from .logic import NO_ENTRIES, Entries, Logic
from .ports import words_of
from .side_by_side import NONE_NEEDED, Needed, most_samples
from .tiles import Tile, Tiles, buffer_bits, macs_of

BLOCK_BITS, ULTRA_BITS = 36 * 1024, 288 * 1024
"""A block RAM, whose halves can be used apart, and an UltraRAM."""


LUT_SHARE = 0.8
"""Share of a board's look-up tables that a design takes at most, unless a user allows more: a router needs the rest."""


class Limits(Strict):
    """The most that a design may take of a board; ``None`` is all of it, but for look-up tables.

    Attributes
    ----------
    max_dsps : int, optional
        DSPs.
    max_ram_mbit : float, optional
        On-chip buffer memory in Mb of 2**20 bits.
    max_luts : int, optional
        Look-up tables: the NPU's, by default :data:`LUT_SHARE` of the board's; or where these are not counted all of
        :func:`paper_luts`.
    """

    max_dsps: Annotated[int, Field(ge=1)] | None = None
    max_ram_mbit: Annotated[float, Field(gt=0)] | None = None
    max_luts: Annotated[int, Field(ge=1)] | None = None

    def confine(self, platform: Board) -> Board:
        """The board with only what a design may take: of each kind of blocks the same share as of the memory."""
        luts = platform.luts and min(platform.luts, self.max_luts or floor(LUT_SHARE * platform.luts))
        on_chip_mbit = min(platform.on_chip_mbit, self.max_ram_mbit or platform.on_chip_mbit)
        blocks = {key: getattr(platform, key) for key in ("block_rams", "ultra_rams")}
        share = on_chip_mbit / platform.on_chip_mbit
        return platform.model_copy(
            update={
                "dsps": min(platform.dsps, self.max_dsps or platform.dsps),
                "on_chip_mbit": on_chip_mbit,
                "luts": luts,
                **{key: count and floor(share * count) for key, count in blocks.items()},
            }
        )


class Resource(StrEnum):
    """What a board has a number of, and a design takes some of."""

    DSPS = "DSPs"
    BUFFER_BITS = "bits of buffers"
    BLOCK_RAMS = "block RAMs"  # beside UltraRAMs, which take banks first
    LUTS = "look-up tables"
    FLIP_FLOPS = "flip-flops"
    CYCLE = "nanoseconds of a cycle by the board's fit"
    FITTED_LUTS = "look-up tables by the fit to the paper"


LOGIC = Resource.LUTS, Resource.FLIP_FLOPS
OF_WORDS = *LOGIC, Resource.CYCLE
"""What is counted for the engine's words."""

OF_SAMPLES = *OF_WORDS, Resource.BLOCK_RAMS
"""What more samples side by side take more of; fewer blocks only where a buffer moves into look-up tables."""

STATED = {
    "block_rams": Resource.BLOCK_RAMS,
    "ultra_rams": Resource.BLOCK_RAMS,
    "luts": Resource.LUTS,
    "flip_flops": Resource.FLIP_FLOPS,
    "cycle": Resource.CYCLE,
}
"""What is judged by an optional key of a board's file."""


def paper_luts(platform: Board, tiles: Tiles | Tile) -> Any:
    """Look-up tables by the fit to the paper: T_C trees have T_P - 1 adders each (docs/model.md, Resources)."""
    _, fixed, per_adder = platform.require(LUT_KEYS, "a figure of LUTs")
    _, T_P, T_C, V, _ = tiles
    return fixed + per_adder * (V * T_C * (T_P - 1))


class Demand:
    """What designs take of a board, counted for all of them at once, and each resource only when it is asked for.

    The board has the words of its port, their width, and its UltraRAMs, which take banks in place of block RAMs.
    ``samples`` is the largest power of two of them side by side in a tile of columns. Shapes: ``tiles`` (5, ...).
    """

    def __init__(
        self, board: Board, tiles: Tiles | Tile, samples: ArrayLike = 1, entries: Entries = NO_ENTRIES
    ) -> None:
        self.board, self.tiles, self.samples, self.entries = board, np.asarray(tiles, np.int64), samples, entries

    @cached_property
    def dsps(self) -> Ints:
        """DSPs; each makes one or several MACs in a cycle."""
        dsps: Ints = self.board.dsps_of(macs_of(self.tiles))
        return dsps

    @cached_property
    def banks(self) -> dict[str, Bank]:
        """The memories, by buffer."""
        return banks_of(self.board, self.tiles, self.samples)

    @cached_property
    def placed(self) -> Placed:
        """Blocks of each buffer."""
        return place(self.board, self.banks)

    @cached_property
    def parts(self) -> Logic:
        """Look-up tables and flip-flops of the parts that no larger T_R makes smaller: all but small banks."""
        parts = logic.npu(words_of(self.board, self.tiles), self.tiles, self.samples, self.entries)
        each = self.board.luts_per_lut6
        luts, unpaired = ({part: each * of for part, of in counts.items()} for counts in (parts.luts, parts.unpaired))
        return parts._replace(luts=luts, unpaired=unpaired)

    @cached_property
    def small_banks(self) -> tuple[Any, Any, Any]:
        """Look-up tables that hold banks that no block does, those that choose their rows, and their flip-flops."""
        of_cells, of_choosers, flip_flops = (each.astype(np.float64) for each in small(self.banks))
        each = self.board.luts_per_lut6
        return each * of_cells, each * of_choosers, flip_flops

    @cached_property
    def logic(self) -> Logic:
        """Look-up tables and flip-flops of all parts."""
        of_cells, of_choosers, flip_flops = self.small_banks
        luts = self.parts.luts | {"small banks": of_cells + of_choosers}
        return self.parts._replace(luts=luts, flip_flops=self.parts.flip_flops | {"small banks": flip_flops})

    @property
    def cycle_ns(self) -> Any:
        """Nanoseconds of a cycle by the board's fit; V pixels side by side make an array of V times the columns."""
        assert self.board.cycle is not None
        _, T_P, T_C, V, _ = self.tiles
        return self.board.cycle.of(words_of(self.board, self.tiles), np.asarray(self.samples), T_P, V * T_C)

    def within(
        self, most: Mapping[Resource, float], counts: Mapping[Resource, Callable[[Demand], Any]] | None = None
    ) -> Bools:
        """Tell which designs take no more than the most of each resource that is given."""
        counts, fits = counts or COUNTS, np.True_
        for resource, amount in most.items():
            fits = fits & (counts[resource](self) <= amount)
        return np.asarray(fits)


COUNTS: dict[Resource, Callable[[Demand], Any]] = {
    Resource.DSPS: lambda demand: demand.dsps,
    Resource.BUFFER_BITS: lambda demand: buffer_bits(demand.board.word_bits, demand.tiles),
    Resource.BLOCK_RAMS: lambda demand: demand.placed.block_rams,
    Resource.LUTS: lambda demand: demand.logic.total_luts,
    Resource.FLIP_FLOPS: lambda demand: demand.logic.total_flip_flops,
    Resource.CYCLE: lambda demand: demand.cycle_ns,
    Resource.FITTED_LUTS: lambda demand: paper_luts(demand.board, demand.tiles),
}
"""How each resource is counted."""

GROWING: dict[Resource, Callable[[Demand], Any]] = {
    Resource.LUTS: lambda demand: demand.parts.total_luts,
    Resource.FLIP_FLOPS: lambda demand: demand.parts.total_flip_flops,
    Resource.CYCLE: COUNTS[Resource.CYCLE],
    Resource.FITTED_LUTS: COUNTS[Resource.FITTED_LUTS],
}
"""What no larger size takes less of, beside DSPs and bits: small banks, which move into blocks, are left out."""


def logic_of(board: Board) -> dict[Resource, float]:
    """Look-up tables, flip-flops and the cycle of a board, as far as it states them.

    They are counted for the engine's words: wider words take more than that, narrower ones less.
    """
    stated = {resource: getattr(board, key) for key, resource in STATED.items() if resource in LOGIC}
    stated[Resource.CYCLE] = board.cycle and 1e3 / board.clock_mhz
    return {resource: most for resource, most in stated.items() if most is not None and board.word_bits >= WORD_BITS}


class Supply(NamedTuple):
    """What designs may take of a board, and what they must have, for one network."""

    platform: Board  # whole
    board: Board  # with only what a design may take
    most: dict[Resource, float]  # of each resource that is judged
    pixels: list[int]  # V that designs may have
    ports: list[int]  # and W
    placed: bool = True  # whether memories are counted as they are placed; the paper counts their bits
    entries: Entries = NO_ENTRIES  # of the control block
    needed: Needed = NONE_NEEDED  # samples side by side
    wanted: int = 1  # samples side by side that no layout exceeds
    limited: bool = False  # whether the limits are a user's

    @classmethod
    def of(cls, platform: Board, limits: Limits | None = None, *, placed: bool = True, **more: Any) -> Self:
        """What a board has within limits.

        Its memories are counted as they are placed, or in bits if not ``placed`` or the board states no block RAMs.
        """
        limits = limits or Limits()
        board = limits.confine(platform)
        most: dict[Resource, float] = {Resource.DSPS: board.dsps, Resource.BUFFER_BITS: board.on_chip_bits}
        if placed and board.block_rams is not None:
            most[Resource.BLOCK_RAMS] = board.block_rams
        if placed:
            most |= logic_of(board)
        if limits.max_luts is not None and Resource.LUTS not in most:
            most[Resource.FITTED_LUTS] = limits.max_luts
        pixels = board.pixels if placed else ONE_PIXEL  # the paper's engine has one, and counts no port
        ports = [0, *board.other_ports] if placed else [0]
        return cls(platform, board, most, pixels, ports, placed, limited=limits != Limits(), **more)

    @property
    def unjudged(self) -> dict[str, str]:
        """Keys of the board's file that no design is held against, each with the reason."""
        board, why = self.board, {}
        judged = {Resource.LUTS if resource is Resource.FITTED_LUTS else resource for resource in self.most}
        for key, resource in STATED.items():
            if resource not in judged and (key != "ultra_rams" or board.ultra_rams):
                why[key] = self._why_not(key)
            elif resource in OF_WORDS and board.word_bits > WORD_BITS:
                why[key] = f"beyond what words of {WORD_BITS} bits take"
        if not self.placed or board.usual_port_words != board.port_words:
            why["port_words"] = self._why_not("port_words")
        return why

    def _why_not(self, key: str) -> str:
        """Why a key of the board's file is not judged."""
        if not self.placed:
            return "the paper counts DSPs and bits of memory"
        if getattr(self.board, key) is None:
            return "its file states no fit" if key == "cycle" else "its file states none"
        if key == "port_words":
            return f"{self.board.port_words} words a beat carry less than {self.board.bandwidth_gb_s:g} GB/s"
        if key == "ultra_rams":
            return "its file states no block RAMs"
        return f"the engine that `fluidb hardware` writes has words of {WORD_BITS} bits"

    def only(self, *resources: Resource) -> dict[Resource, float]:
        """The most of some resources, as far as they are judged."""
        return {resource: most for resource, most in self.most.items() if resource in resources}

    def demand(self, tiles: Tiles | Tile, samples: ArrayLike | None = None) -> Demand:
        """What designs take with some samples side by side, by default as few as they must have."""
        return Demand(self.board, tiles, self.needed.by(tiles) if samples is None else samples, self.entries)

    def most_samples(self, tiles: Tiles) -> Ints:
        """Find the most samples side by side that designs can have (:func:`.side_by_side.most_samples`)."""
        needed, every = self.needed.by(tiles), tiles[:, None]

        def fits(samples: Ints) -> Bools:
            demand = self.demand(every, np.maximum(samples, needed))
            fitting = demand.within(self.only(*OF_WORDS))
            if Resource.BLOCK_RAMS not in self.most:
                return fitting
            taken = demand.placed.block_rams  # a design that has too many already may have samples that take no more
            return fitting & (taken <= np.maximum(self.most[Resource.BLOCK_RAMS], taken[:1]))

        limited = bool(self.only(*OF_SAMPLES))
        return most_samples(words_of(self.board, tiles), tiles, self.wanted, fits if limited else None)
