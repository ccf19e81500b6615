"""The search space: the designs that fit a board."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from .resources import COUNTS, GROWING, LOGIC, Demand, Resource, Supply, board_use, most_rows
from .side_by_side import by_banks
from .tiles import Tile, Tiles

Ints = NDArray[np.int64]

FEWEST_ROWS = 2
"""The fewest rows of a design: T_R is even, so that stacking halves it."""

EDGES = np.unique(np.ceil(2 ** (np.arange(81) / 4)).astype(np.int64))
"""The first T_P or T_C of each box of designs: four boxes to an octave."""


def check_fit(supply: Supply, tile: Tile) -> None:
    """Refuse a design that takes more than it may, with as few samples side by side as its layouts need."""
    platform = supply.platform
    needed, most = int(supply.needed.by(tile)), int(by_banks(supply.board.port.words, tile.V))
    if tile.V not in supply.pixels:
        allowed = ", ".join(map(str, platform.pixels)) if supply.placed else "1 with --overlap paper"
        raise InputError(
            f"{tile}: expected V, the pixels side by side, of {platform.name}: {allowed}; found {tile.V}"
            + ("; allow more with --pixels" if supply.placed else "")
        )
    if most < needed:
        raise InputError(
            f"{tile}: expected at most {most} samples side by side in a tile of columns, found {needed}; lower V"
        )
    demand = supply.demand(tile, needed)
    for resource, limit in supply.most.items():
        if not demand.within({resource: limit}):
            raise InputError(f"{tile}: expected {_fault(supply, tile, demand, resource)}")


def _fault(supply: Supply, tile: Tile, demand: Demand, resource: Resource) -> str:
    """What was expected of a design in a resource, and what was found."""
    board, name = supply.board, supply.platform.name
    if resource is Resource.DSPS:
        return f"at most {board.dsps:,} DSPs of {name}, found {demand.dsps:,}"
    if resource is Resource.BUFFER_BITS:
        mbit = tile.buffer_bits(board.word_bits) / 2**20
        return f"at most {board.on_chip_mbit:g} Mb on chip of {name}, found {mbit:.3f} Mb of double buffers; lower T_R"
    if resource is Resource.FITTED_LUTS:
        return f"at most {supply.most[resource]:,} LUTs of {name}, found {COUNTS[resource](demand):,.0f}"
    taken = board_use(board, tile, int(supply.needed.by(tile)), supply.entries)
    assert taken is not None
    if resource is Resource.BLOCK_RAMS:
        blocks = f"{taken.total_block_rams:,g} of {taken.block_rams_of_board:,} block RAMs"
        if taken.total_ultra_rams:
            blocks += f" beside {taken.total_ultra_rams:,} UltraRAMs"
        lower = f"lower T_R to {taken.largest_T_R:,} at most" if taken.largest_T_R else "lower T_P or T_C"
        return f"memories that can be placed on {name}, found {blocks}; {lower}, or count bits with --overlap paper"
    return (
        f"at most {board.luts:,} LUTs and {board.flip_flops:,} flip-flops of {name}, found {taken.total_luts:,} and "
        f"{taken.total_flip_flops:,}; lower T_P or T_C, or count as the paper with --overlap paper"
    )


def _refusal(supply: Supply) -> str:
    """What no design fits."""
    board, platform, most = supply.board, supply.platform, supply.most
    within = f"{board.on_chip_mbit:g} Mb on chip and {board.dsps} DSPs"
    if Resource.FITTED_LUTS in most:
        fixed = f"{platform.luts_fixed:,.0f} of them taken by no adder"
        within += f" and {most[Resource.FITTED_LUTS]:,} LUTs ({fixed})"
    if Resource.BLOCK_RAMS in most:
        within += f" and {board.block_rams:,} block RAMs"
    if Resource.LUTS in most:
        within += f" and {board.luts:,} LUTs and {board.flip_flops:,} flip-flops"
    hint = "loosen the limits" if supply.limited else "check what its file states"
    return (
        f"{platform.name}: no design fits: {within} "
        f"hold no double-buffered tile of {platform.word_bits}-bit words; {hint}"
    )


def _ranges(begin: Ints, sizes: Ints) -> Ints:
    """The whole numbers from each ``begin`` on, as many as ``sizes`` says."""
    ends = np.cumsum(sizes)
    return np.repeat(begin - ends + sizes, sizes) + np.arange(ends[-1])


class DesignSpace:
    """Designs that fit a board: with each V and T_P every T_C up to the largest, and the largest even T_R that fits.

    ``size`` also counts designs whose look-up tables or flip-flops do not fit with just that T_R; no box yields these.
    A box holds the designs from one T_P to another and from one T_C to another, all with one V.  Shapes: ``boxes``
    (5, N).
    """

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        # by V the largest T_C of each T_P, which does not grow with T_P
        columns = {V: self._most_columns(V) for V in supply.pixels}
        self._columns = {V: most for V, most in columns.items() if most.size}
        if not self._columns:
            raise self.refusal
        self.size = sum(int(most.sum()) for most in self._columns.values())
        self.whole = np.array([[1, most.size, 1, most[0], V] for V, most in self._columns.items()]).T

    @property
    def refusal(self) -> InputError:
        """The fault of a board that no design fits."""
        return InputError(_refusal(self._supply))

    def _largest(self, one: Ints, other: Ints | int) -> Ints:
        """The largest third size with which the buffers fit in bits: T_R, T_P and T_C count alike."""
        board = self._supply.board
        words = board.on_chip_bits // (2 * board.word_bits)
        return (words - one * other) // (one + other)

    def _most_columns(self, V: int) -> Ints:
        """The largest T_C of each T_P with which a design of the fewest rows fits, small banks not counted."""
        supply = self._supply
        growing = {resource: most for resource, most in supply.most.items() if resource in GROWING}
        macs = supply.board.macs_per_cycle // V
        T_P = np.arange(1, macs + 1)
        most = np.maximum(np.minimum(macs // T_P, self._largest(T_P, FEWEST_ROWS)), 0)  # by DSPs and by bits
        if growing or supply.needed.samples > 1:
            most = self._most_by(growing, T_P, most, V)
        if Resource.BLOCK_RAMS in supply.most:  # small banks of any other design need no block
            most = most * (most_rows(supply.board, np.array([[FEWEST_ROWS], [1], [1], [V]])) > 0)
        return most[most > 0]

    def _most_by(self, growing: dict[Resource, float], T_P: Ints, most: Ints, V: int) -> Ints:
        """The largest T_C up to ``most``, or 0, by resources that grow with it and by samples side by side."""
        supply, most_samples = self._supply, by_banks(self._supply.board.port.words, V)
        low, high = np.zeros_like(most), most + 1
        tiles = np.stack(np.broadcast_arrays(FEWEST_ROWS, T_P, high, V))
        while np.any(high - low > 1):
            middle = tiles[2] = (low + high) // 2
            fits = supply.demand(tiles).within(growing, GROWING) & (supply.needed.by(tiles) <= most_samples)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def _with_most_rows(self, T_P: Ints, T_C: Ints, V: Ints | int) -> Tiles:
        """Designs with the largest even T_R whose buffers fit in bits and in blocks, or 0."""
        tiles = np.empty((4, T_P.size), np.int64)
        tiles[0], tiles[1], tiles[2], tiles[3] = self._largest(T_P, T_C), T_P, T_C, V
        if Resource.BLOCK_RAMS in self._supply.most:
            tiles[0] = most_rows(self._supply.board, tiles)
        tiles[0] -= tiles[0] % 2
        return tiles

    def boxes(self) -> Ints:
        """Boxes that together hold every design once; within one, T_P and T_C differ by less than a fifth."""
        return np.concatenate([self._boxes(V, most) for V, most in self._columns.items()], axis=1)

    @staticmethod
    def _boxes(V: int, most: Ints) -> Ints:
        first = EDGES[: np.searchsorted(EDGES, most.size, side="right")]
        widest = most[first - 1]
        low = EDGES[: np.searchsorted(EDGES, widest[0], side="right")]
        i, j = np.nonzero(low <= widest[:, None])
        last = np.searchsorted(-most, -low[j], side="right")  # the last T_P that goes with this T_C
        ends = EDGES[1:] - 1
        return np.array(
            [first[i], np.minimum(ends[i], last), low[j], np.minimum(ends[j], widest[i]), np.full(i.size, V)]
        )

    def corners(self, boxes: Ints) -> Tiles:
        """The largest T_R, T_P and T_C in each box, which may be no design's, and V. Shapes: returns (4, N)."""
        first, last, low, high, V = boxes
        most_rows, *_ = self._with_most_rows(first, low, V)
        return np.array([most_rows, last, high, V])

    def within(self, boxes: Ints) -> Tiles:
        """Designs of boxes. Shapes: returns (4, D)."""
        return np.concatenate([self._within(V, boxes[:4, boxes[4] == V]) for V in np.unique(boxes[4]).tolist()], axis=1)

    def _within(self, V: int, boxes: Ints) -> Tiles:
        first, last, low, high = boxes
        sizes = last - first + 1
        T_P = _ranges(first, sizes)
        low, high = np.repeat(low, sizes), np.minimum(np.repeat(high, sizes), self._columns[V][T_P - 1])
        sizes = high - low + 1
        T_P, T_C = np.repeat(T_P, sizes), _ranges(low, sizes)
        tiles = self._with_most_rows(T_P, T_C, V)
        tiles = tiles[:, tiles[0] > 0]
        if logic := self._supply.only(*LOGIC):
            tiles = tiles[:, self._supply.demand(tiles).within(logic)]
        return tiles


def designs(supply: Supply) -> Tiles:
    """All designs that fit a board, as :class:`DesignSpace` counts. Shapes: returns (4, D)."""
    space = DesignSpace(supply)
    tiles = np.ascontiguousarray(space.within(space.whole))
    if not tiles.size:
        raise space.refusal
    return tiles
