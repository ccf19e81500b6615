"""The search space: the designs that fit a board."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...formats import InputError
from ...formats.array_types import Bools, Ints
from .board_use import board_use
from .ports import words_of
from .resources import COUNTS, GROWING, LOGIC, Demand, Resource, Supply
from .rows import Ranges, best_rows, every_row, largest, most_rows
from .side_by_side import by_banks
from .tiles import FEWEST_ROWS, Tile, Tiles

EDGES = np.unique(np.ceil(2 ** (np.arange(81) / 4)).astype(np.int64))
"""The first T_P or T_C of each box of designs: four boxes to an octave."""


def check_fit(supply: Supply, tile: Tile) -> None:
    """Refuse a design that takes more than it may, with as few samples side by side as its layouts need."""
    platform = supply.platform
    needed, most = int(supply.needed.by(tile)), int(by_banks(words_of(supply.board, tile), tile.V))
    if tile.V not in supply.pixels:
        allowed = ", ".join(map(str, platform.pixels)) if supply.placed else "1 with --overlap paper"
        raise InputError(
            f"{tile}: expected V, the pixels side by side, of {platform.name}: {allowed}; found {tile.V}"
            + ("; allow more with --pixels" if supply.placed else "")
        )
    ports = {supply.board.usual_port_words, *supply.ports} - {0}
    if tile.W and tile.W not in ports:
        allowed = ", ".join(map(str, sorted(ports)))
        raise InputError(
            f"{tile}: expected W, the words of a beat of its port, of {platform.name}: {allowed}; found {tile.W}"
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
    if resource is Resource.CYCLE:
        reached = 1e3 / float(demand.cycle_ns)
        return (
            f"the clock of {name}, {board.clock_mhz:g} MHz, found {reached:.1f} MHz by the fit of its file; "
            "lower W, T_P or T_C, or its clock_mhz"
        )
    taken = board_use(board, tile, int(supply.needed.by(tile)), supply.entries)
    assert taken is not None
    if resource is Resource.BLOCK_RAMS:
        blocks = f"{taken.total_block_rams:,g} of {taken.block_rams_of_board:,} block RAMs"
        if taken.total_ultra_rams:
            blocks += f" beside {taken.total_ultra_rams:,} UltraRAMs"
        lower = f"lower T_R to {taken.largest_T_R:,} at most" if taken.largest_T_R else "lower T_P or T_C"
        return f"memories that can be placed on {name}, found {blocks}; {lower}, or count bits with --overlap paper"
    totals = {Resource.LUTS: taken.total_luts, Resource.FLIP_FLOPS: taken.total_flip_flops}
    counts = " and ".join(f"{total:,}" for of, total in totals.items() if of in supply.most)
    return (
        f"at most {_logic(supply)} of {name}, found {counts}; {_more_luts(supply)}lower T_P or T_C, or count as the "
        "paper with --overlap paper"
    )


def _logic(supply: Supply) -> str:
    """The most look-up tables and flip-flops, as far as they are judged."""
    board = supply.board
    texts = {
        Resource.LUTS: f"{board.luts or 0:,} of {supply.platform.luts or 0:,} LUTs",
        Resource.FLIP_FLOPS: f"{board.flip_flops or 0:,} flip-flops",
    }
    return " and ".join(text for resource, text in texts.items() if resource in supply.most)


def _more_luts(supply: Supply) -> str:
    """How to allow more look-up tables, where they are judged and some stay free."""
    free = Resource.LUTS in supply.most and supply.board.luts != supply.platform.luts
    return "allow more LUTs with --max-lut 100%, or " if free else ""


def _refusal(supply: Supply) -> str:
    """What no design fits."""
    board, platform, most = supply.board, supply.platform, supply.most
    within = f"{board.on_chip_mbit:g} Mb on chip and {board.dsps} DSPs"
    if Resource.FITTED_LUTS in most:
        fixed = f"{platform.luts_fixed:,.0f} of them taken by no adder"
        within += f" and {most[Resource.FITTED_LUTS]:,} LUTs ({fixed})"
    if Resource.BLOCK_RAMS in most:
        within += f" and {board.block_rams:,} block RAMs"
    if supply.only(*LOGIC):
        within += f" and {_logic(supply)}"
    if Resource.CYCLE in most:
        within += f" at {board.clock_mhz:g} MHz"
    hint = "loosen the limits" if supply.limited else f"{_more_luts(supply)}check what its file states"
    return (
        f"{platform.name}: no design fits: {within} "
        f"hold no double-buffered tile of {platform.word_bits}-bit words; {hint}"
    )


def _ranges(begin: Ints, sizes: Ints) -> Ints:
    """The whole numbers from each ``begin`` on, as many as ``sizes`` says."""
    ends = np.cumsum(sizes)
    return np.repeat(begin - ends + sizes, sizes) + np.arange(ends[-1])


class _Part:
    """The designs of a space that have one V and one W; ``columns`` is the most T_C of each T_P and those above."""

    def __init__(self, supply: Supply, V: int, W: int) -> None:
        self._supply, self._V, self._W = supply, V, W
        self._most_samples = int(by_banks(words_of(supply.board, Tile(1, 1, 1, V, W)), V))
        self.columns = self._most_columns()

    def _largest(self, one: Ints, other: Ints | int) -> Ints:
        """The largest third size with which the buffers fit in bits: T_R, T_P and T_C count alike."""
        board = self._supply.board
        words = board.on_chip_bits // (2 * board.word_bits)
        return (words - one * other) // (one + other)

    def _tiles(self, T_R: Ints | int, T_P: Ints, T_C: Ints) -> Tiles:
        return np.stack(np.broadcast_arrays(T_R, T_P, T_C, self._V, self._W)).astype(np.int64)

    def _most_columns(self) -> Ints:
        """The largest T_C with which a design of the fewest rows fits, of each T_P and those above; no small banks."""
        supply = self._supply
        growing = {resource: most for resource, most in supply.most.items() if resource in GROWING}
        macs = supply.board.macs_per_cycle // self._V
        T_P = np.arange(1, macs + 1)
        most = np.maximum(np.minimum(macs // T_P, self._largest(T_P, FEWEST_ROWS)), 0)  # by DSPs and by bits
        if growing or supply.needed.samples > 1:
            most = self._most_by(growing, T_P, most)
        if Resource.BLOCK_RAMS in supply.most:  # small banks of any other design need no block
            smallest = self._tiles(FEWEST_ROWS, T_P[:1], most[:1])
            most = most * bool(supply.demand(smallest).within(supply.only(Resource.BLOCK_RAMS)).all())
        most = np.maximum.accumulate(most[::-1])[::-1]  # a larger T_P may take fewer look-up tables
        return most[most > 0]

    def _most_by(self, growing: dict[Resource, float], T_P: Ints, most: Ints) -> Ints:
        """The largest T_C up to ``most``, or 0, by resources that grow with it and by samples side by side."""
        supply = self._supply

        def fits(T_C: Ints, at: Ints) -> Bools:
            tiles = self._tiles(FEWEST_ROWS, T_P[at], T_C)
            fitting: Bools = supply.needed.by(tiles) <= self._most_samples
            return fitting & supply.demand(tiles).within(growing, GROWING)

        return largest(np.zeros_like(most), most + 1, fits)

    def boxes(self) -> Ints:
        """Boxes that hold its designs (:meth:`DesignSpace.boxes`)."""
        most = self.columns
        first = EDGES[: np.searchsorted(EDGES, most.size, side="right")]
        widest = most[first - 1]
        low = EDGES[: np.searchsorted(EDGES, widest[0], side="right")]
        i, j = np.nonzero(low <= widest[:, None])
        last = np.searchsorted(-most, -low[j], side="right")  # the last T_P that goes with this T_C
        ends = EDGES[1:] - 1
        box = first[i], np.minimum(ends[i], last), low[j], np.minimum(ends[j], widest[i]), self._V, self._W
        return np.stack(np.broadcast_arrays(*box))

    def corners(self, boxes: Ints) -> Tiles:
        """The largest sizes in each of its boxes."""
        first, last, low, high, _, _ = boxes
        smallest = self._tiles(self._largest(first, low), first, low)
        return self._tiles(most_rows(self._supply, smallest, self._most_samples), last, high)

    def _within(self, boxes: Ints) -> Tiles:
        """Each <T_P, T_C> in boxes with the largest T_R by bits."""
        first, last, low, high, _, _ = boxes
        sizes = last - first + 1
        T_P = _ranges(first, sizes)
        low, high = np.repeat(low, sizes), np.minimum(np.repeat(high, sizes), self.columns[T_P - 1])
        sizes = high - low + 1
        T_P, T_C = np.repeat(T_P, sizes), _ranges(low, sizes)
        return self._tiles(self._largest(T_P, T_C), T_P, T_C)

    def within(self, boxes: Ints) -> Tiles:
        """Its designs in boxes: each <T_P, T_C> with every T_R that can be the best (:func:`.rows.best_rows`)."""
        return best_rows(self._supply, self._within(boxes), self._most_samples)

    def every_row(self, *, fewer_samples: bool) -> Ranges:
        """Its designs with every T_R (:func:`.rows.every_row`)."""
        whole = np.array([[1, self.columns.size, 1, self.columns[0], self._V, self._W]]).T
        return every_row(self._supply, self._within(whole), self._most_samples, fewer_samples=fewer_samples)


class DesignSpace:
    """Designs that fit a board: every V, W and T_P with every T_C up to the largest, and every T_R that can be best.

    ``size`` counts each <T_P, T_C, V, W> once, also where no T_R fits; no box yields these.
    A box holds the designs from one T_P to another and from one T_C to another, all with one V and one W.
    Shapes: ``boxes`` (6, N).
    """

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        parts = {(V, W): _Part(supply, V, W) for V in supply.pixels for W in supply.ports}
        self._parts = {key: part for key, part in parts.items() if part.columns.size}
        if not self._parts:
            raise self.refusal
        self.size = sum(int(part.columns.sum()) for part in self._parts.values())
        self.whole = np.array([(1, part.columns.size, 1, part.columns[0], *key) for key, part in self._parts.items()]).T

    @property
    def refusal(self) -> InputError:
        """The fault of a board that no design fits."""
        return InputError(_refusal(self._supply))

    def boxes(self) -> Ints:
        """Boxes that together hold every design once; within one, T_P and T_C differ by less than a fifth."""
        return np.concatenate([part.boxes() for part in self._parts.values()], axis=1)

    def _by_part(self, boxes: Ints) -> Iterator[tuple[_Part, Bools]]:
        """Each part with the places of its boxes."""
        for key, part in self._parts.items():
            at = (boxes[4:] == np.array(key)[:, None]).all(axis=0)
            if at.any():
                yield part, at

    def corners(self, boxes: Ints) -> Tiles:
        """The largest T_R, T_P and T_C in each box, which may be no design's, with V and W. Shapes: returns (5, N)."""
        tiles = np.empty((5, boxes.shape[1]), np.int64)
        for part, at in self._by_part(boxes):
            tiles[:, at] = part.corners(boxes[:, at])
        return tiles

    def within(self, boxes: Ints) -> Tiles:
        """Designs of boxes. Shapes: returns (5, D)."""
        return np.concatenate([part.within(boxes[:, at]) for part, at in self._by_part(boxes)], axis=1)

    def every_row(self, *, fewer_samples: bool) -> Ranges:
        """All designs with every T_R that fits, and perhaps with every number of samples that does."""
        ranges = Ranges.joined(part.every_row(fewer_samples=fewer_samples) for part in self._parts.values())
        if not ranges.first.size:
            raise self.refusal
        return ranges


def designs(supply: Supply) -> Tiles:
    """All designs that fit a board, as :class:`DesignSpace` counts. Shapes: returns (5, D)."""
    space = DesignSpace(supply)
    tiles = np.ascontiguousarray(space.within(space.whole))
    if not tiles.size:
        raise space.refusal
    return tiles
