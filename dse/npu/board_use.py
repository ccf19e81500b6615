"""What one design takes of a board, by buffer and by part."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Floats
from ...platforms import Board
from .logic import NO_ENTRIES, Entries
from .resources import LOGIC, OF_SAMPLES, Limits, Resource, Supply
from .rows import rows_by_blocks
from .side_by_side import power_of_two
from .tiles import Tile, with_rows


class BoardUse(NamedTuple):
    """What one design takes of a board, and whether it can be placed."""

    block_rams: dict[str, float] | None  # by buffer, of 36 Kb; a half is one of 18 Kb; none where they are not counted
    ultra_rams: dict[str, int] | None  # by buffer
    lutram_luts: int  # look-up tables that hold small banks
    block_rams_of_board: int | None
    ultra_rams_of_board: int | None
    samples: int  # that the engine can have side by side in a tile of columns
    luts: dict[str, int] | None  # by part; none where they are not counted
    flip_flops: dict[str, int] | None
    luts_of_board: int | None
    flip_flops_of_board: int | None
    placed: bool
    largest_T_R: int | None  # with its other sizes, by blocks
    fitted_mhz: float | None  # the clock that it reaches by the board's fit; none where there is none

    @property
    def total_block_rams(self) -> float:
        """Block RAMs of all its buffers."""
        return sum((self.block_rams or {}).values())

    @property
    def total_ultra_rams(self) -> int:
        """UltraRAMs of all its buffers."""
        return sum((self.ultra_rams or {}).values())

    @property
    def total_luts(self) -> int:
        """Look-up tables of all its parts, small banks included."""
        return sum((self.luts or {}).values())

    @property
    def total_flip_flops(self) -> int:
        """Flip-flops of all its parts."""
        return sum((self.flip_flops or {}).values())

    @property
    def lut_share(self) -> float | None:
        """Share of the board's look-up tables; none where they are not counted."""
        return self.total_luts / self.luts_of_board if self.luts is not None and self.luts_of_board else None

    @property
    def flip_flop_share(self) -> float | None:
        """Share of the board's flip-flops; none where they are not counted."""
        counted = self.flip_flops is not None and self.flip_flops_of_board
        return self.total_flip_flops / self.flip_flops_of_board if counted and self.flip_flops_of_board else None

    @property
    def record(self) -> dict[str, object]:
        """The same by the keys of the commands' JSON."""
        return {"beside" if name == "samples" else name: value for name, value in self._asdict().items()}


def board_use(board: Board, tile: Tile, samples: int = 1, entries: Entries = NO_ENTRIES) -> BoardUse | None:
    """Blocks, look-up tables and flip-flops that a design takes of a board; ``None`` if none of these is judged.

    ``samples`` are those that its layouts have side by side in a tile of columns.
    """
    supply = Supply.of(board, Limits(max_luts=board.luts), entries=entries)
    if not supply.only(*OF_SAMPLES):
        return None
    samples = power_of_two(samples)
    demand = supply.demand(tile, samples)
    block_rams = ultra_rams = largest_T_R = luts = flip_flops = None
    if Resource.BLOCK_RAMS in supply.most:
        block_rams = {name: float(count) / 2 for name, count in demand.placed.halves.items()}
        ultra_rams = {name: int(count) for name, count in demand.placed.ultra_rams.items()}
        largest_T_R = int(rows_by_blocks(supply, with_rows(tile.array, np.iinfo(np.int64).max), samples)[0])
    if Resource.LUTS in supply.most:
        luts = _whole(demand.logic.luts | {"small tables": demand.logic.small_luts})
    if Resource.FLIP_FLOPS in supply.most:
        flip_flops = _whole(demand.logic.flip_flops)
    return BoardUse(
        block_rams=block_rams,
        ultra_rams=ultra_rams,
        lutram_luts=ceil(demand.small_banks[0]),
        block_rams_of_board=board.block_rams,
        ultra_rams_of_board=None if block_rams is None else board.ultra_rams or 0,
        samples=samples,
        luts=luts,
        flip_flops=flip_flops,
        luts_of_board=board.luts,
        flip_flops_of_board=board.flip_flops,
        placed=bool(demand.within(supply.only(Resource.BLOCK_RAMS, *LOGIC))),
        largest_T_R=largest_T_R,
        fitted_mhz=1e3 / float(demand.cycle_ns) if Resource.CYCLE in supply.most else None,
    )


def _whole(parts: dict[str, Floats]) -> dict[str, int]:
    """Counts of parts, rounded up."""
    return {name: ceil(number) for name, number in parts.items()}
