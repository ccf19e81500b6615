"""The search space: designs that fit a board, and layouts of a batch."""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum
from functools import cache
from math import floor
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...formats import InputError, Strict
from ...models import Layer
from ...models.network import Count
from ...platforms import LUT_KEYS, Board
from ...platforms.board import ONE_PIXEL
from .choices import Batching
from .logic import Entries, npu
from .resources import NO_ENTRIES, beside_by_banks, counts_logic, most_beside, most_rows, needs

K_CODES = 3
"""Stacking codes: k = 1, 2, 1/2 in this order, which is also the order of preference on a tie."""

STACKING = np.array([[1.0, 0.5, 0.5], [1.0, 2.0, 0.5], [1.0, 0.5, 2.0], [1.0, 1.0, 1.0]])
"""Factors of T_R, T_P, T_C and V under each stacking code: <floor(T_R/2), k*T_P, floor(T_C/k)> (Section III-A)."""

EDGES = np.unique(np.ceil(2 ** (np.arange(81) / 4)).astype(np.int64))
"""The first T_P or T_C of each box of designs: four boxes to an octave."""

Whole = TypeVar("Whole", int, NDArray[np.int64])


def buffer_bits(word_bits: int, T_R: Whole, T_P: Whole, T_C: Whole) -> Whole:
    """On-chip bits of the input, weight and output buffers, each doubled (Section II-C)."""
    bits: Whole = 2 * word_bits * (T_R * T_P + T_P * T_C + T_R * T_C)
    return bits


def paper_luts(platform: Board, T_P: Whole, T_C: Whole) -> Any:
    """Look-up tables by the fit to the paper: T_C trees have T_P - 1 adders each (docs/model.md, Resources)."""
    _, fixed, per_adder = platform.require(LUT_KEYS, "a figure of LUTs")
    return fixed + per_adder * (T_C * (T_P - 1))


class Tile(NamedTuple):
    """A design <T_R, T_P, T_C>: T_C processing elements, each a tree of T_P MACs, T_R rows deep.

    It works on V rows (output pixels) side by side, each with such an array; they share the weights.
    """

    T_R: Count
    T_P: Count
    T_C: Count
    V: Count = 1

    def __str__(self) -> str:
        return f"<{','.join(map(str, self.stated))}>"

    @property
    def stated(self) -> tuple[int, ...]:
        """Its numbers; V only where it is not 1."""
        return self if self.V > 1 else self[:3]

    @property
    def names(self) -> str:
        """Their names, as the design is printed."""
        return f"<{','.join(self.by_name)}>"

    @property
    def by_name(self) -> dict[str, int]:
        """The same by their names."""
        return dict(zip(self._fields, self.stated, strict=False))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a cycle with every unit busy."""
        return self.T_P * self.T_C * self.V

    def buffer_bits(self, word_bits: int) -> int:
        """On-chip bits of its buffers."""
        return buffer_bits(word_bits, *self[:3])


def stacked(space: NDArray[np.int64], codes: int = K_CODES) -> NDArray[np.float64]:
    """Tiles of D designs under each stacking code. Shapes: ``space`` (D, 4), returns (4, codes, D)."""
    return np.floor(STACKING[:, :codes, None] * space.T[:, None])


class Limits(Strict):
    """The most that a design may take of a board; ``None`` is all of it.

    Attributes
    ----------
    max_dsps : int, optional
        DSPs.
    max_ram_mbit : float, optional
        On-chip buffer memory in Mb of 2**20 bits.
    max_luts : int, optional
        Look-up tables: the NPU's, or where these are not counted those of :func:`paper_luts`.
    """

    max_dsps: Annotated[int, Field(ge=1)] | None = None
    max_ram_mbit: Annotated[float, Field(gt=0)] | None = None
    max_luts: Annotated[int, Field(ge=1)] | None = None

    def confine(self, platform: Board) -> Board:
        """The board with only what a design may take: of each kind of blocks the same share as of the memory."""
        on_chip_mbit = min(platform.on_chip_mbit, self.max_ram_mbit or platform.on_chip_mbit)
        blocks = {key: getattr(platform, key) for key in ("block_rams", "ultra_rams")}
        share = on_chip_mbit / platform.on_chip_mbit
        return platform.model_copy(
            update={
                "dsps": min(platform.dsps, self.max_dsps or platform.dsps),
                "on_chip_mbit": on_chip_mbit,
                "luts": platform.luts and min(platform.luts, self.max_luts or platform.luts),
                **{key: count and floor(share * count) for key, count in blocks.items()},
            }
        )


class LayerKind(IntEnum):
    """Kind of a layer, by which a batch may be laid out on it."""

    SHARED = 0  # all samples share the weights
    SINGLE_ROW = 1  # they do, and R = 1: a fully connected layer
    PER_SAMPLE = 2  # a product of two activations: each sample has both operands of its own

    @classmethod
    def of(cls, layer: Layer) -> LayerKind:
        """The kind of a layer with a product."""
        if layer.per_sample:
            return cls.PER_SAMPLE
        return cls.SINGLE_ROW if layer.gemm and layer.gemm.R == 1 else cls.SHARED


class LayoutPlan(NamedTuple):
    """Choices of each layer, in the form that the kernels take."""

    layouts: NDArray[np.int64]  # (N, 4), b, B_R, B_P, passes: a list for each kind of layer, ordered by b
    starts: NDArray[np.int64]  # (kinds + 1,), of the list of each LayerKind, and the end of the last one
    codes: int  # stacking codes to try: 1 for k = 1 only, 3 for all
    literal: bool  # Equation (1) as printed
    fewest_rows: NDArray[np.int64]  # (kinds, B_max), row of the layout with the smallest B_R


def one_by_one(batching: Batching, kind: LayerKind) -> bool:
    """True if an engine runs the samples of a batch one after the other on a kind of layer."""
    if kind is LayerKind.PER_SAMPLE or batching is Batching.NONE:
        return True
    return batching is Batching.FC and kind is not LayerKind.SINGLE_ROW


def arrange(batching: Batching, b: int, B_R: int, kind: LayerKind) -> tuple[int, int]:
    """Samples side by side, B_P, and passes over the layer, for a batch of b samples with B_R down the rows."""
    if one_by_one(batching, kind):
        return 1, b
    if batching is Batching.EQ1:
        return b - B_R + 1, 1  # Equation (1)
    return -(-b // B_R), 1  # the grid of Fig. 4a


def _layouts(batching: Batching, b: int, kind: LayerKind, *, every: bool) -> list[tuple[int, int, int, int]]:
    """Layouts that may be the best: with every B_R, or the smallest with each B_P (docs/search.md, Pruning)."""
    rows = range(1, 2 if batching is Batching.COLUMN else b + 1)
    if batching in (Batching.ROW, Batching.FC) and not one_by_one(batching, kind):
        rows = range(b, b + 1)
    if every and not one_by_one(batching, kind):
        return [(b, B_R, *arrange(batching, b, B_R, kind)) for B_R in rows]
    smallest = {arrange(batching, b, B_R, kind): B_R for B_R in reversed(rows)}
    return sorted((b, B_R, *rest) for rest, B_R in smallest.items())


@cache
def make_plan(batching: Batching, b_max: int, *, stacking: bool = True, every: bool = False) -> LayoutPlan:
    """Choices of each layer, for every batch size; ``every``: with every B_R, which counts if V > 1."""
    found = [[_layouts(batching, b, kind, every=every) for b in range(1, b_max + 1)] for kind in LayerKind]
    ends = np.cumsum([[len(layouts) for layouts in batches] for batches in found]).reshape(-1, b_max)
    fewest_rows = np.append(0, ends)[:-1].reshape(ends.shape)
    layouts = np.array([layout for batches in found for layouts in batches for layout in layouts], dtype=np.int64)
    starts = np.append(0, ends[:, -1])
    return LayoutPlan(layouts, starts, K_CODES if stacking else 1, batching is Batching.EQ1, fewest_rows)


class Beside(NamedTuple):
    """Samples side by side of the only layout of each batch, and the fewest columns of a product of one sample."""

    samples: int = 1
    columns: int = 1

    def of(self, T_C: Any) -> Any:
        """How many a tile of so many columns touches at most, rounded up to a power of two."""
        touched = np.minimum(np.maximum(T_C, 1), np.maximum(T_C - 2, 0) // self.columns + 2)
        return 2 ** np.ceil(np.log2(np.minimum(self.samples, touched))).astype(np.int64)


ANY = Beside()
"""Of layouts that a design may leave out: all samples can lie down the rows."""


def pixels_of(platform: Board, *, placed: bool = True) -> list[int]:
    """Pixels that designs may have side by side; the paper's count is of its own engine, which has one."""
    return platform.pixels if placed else ONE_PIXEL


def check_fit(
    platform: Board, tile: Tile, limits: Limits | None = None, *, placed: bool = True, beside: Beside = ANY,
    entries: Entries = NO_ENTRIES,
) -> None:  # fmt: skip
    """Refuse a design that takes more than a board has, or more than the limits allow.

    Its memories are counted as they are placed, or in bits if not ``placed`` or the board states no block RAMs; its
    look-up tables with so many samples side by side as its layouts need at least.
    """
    limits = limits or Limits()
    board = limits.confine(platform)
    if tile.V not in pixels_of(platform, placed=placed):
        allowed = ", ".join(map(str, platform.pixels)) if placed else "1 with --overlap paper"
        raise InputError(
            f"{tile}: expected V, the pixels side by side, of {platform.name}: {allowed}; found {tile.V}"
            + ("; allow more with --pixels" if placed else "")
        )
    by_banks = int(beside_by_banks(board, tile.V))
    if by_banks < (fewest := int(beside.of(tile.T_C))):
        raise InputError(
            f"{tile}: expected at most {by_banks} samples side by side in a tile of columns, found {fewest}; lower V"
        )
    if tile.macs > board.macs_per_cycle:
        found = -(-tile.macs // board.macs_per_dsp)
        raise InputError(f"{tile}: expected at most {board.dsps:,} DSPs of {platform.name}, found {found:,}")
    bits = tile.buffer_bits(platform.word_bits)
    if bits > board.on_chip_bits:
        raise InputError(
            f"{tile}: expected at most {board.on_chip_mbit:g} Mb on chip of {platform.name}, "
            f"found {bits / 2**20:.3f} Mb of double buffers; lower T_R"
        )
    taken = needs(board, tile, fewest, entries) if placed else None
    if taken and taken.total_block_rams > taken.block_rams_of_board:
        blocks = f"{taken.total_block_rams:,g} of {taken.block_rams_of_board:,} block RAMs"
        if taken.total_ultra_rams:
            blocks += f" beside {taken.total_ultra_rams:,} UltraRAMs"
        lower = f"lower T_R to {taken.largest_T_R:,} at most" if taken.largest_T_R else "lower T_P or T_C"
        raise InputError(
            f"{tile}: expected memories that can be placed on {platform.name}, found {blocks}; {lower}, "
            f"or count bits with --overlap paper"
        )
    if taken and not taken.placed:
        raise InputError(
            f"{tile}: expected at most {board.luts:,} LUTs and {board.flip_flops:,} flip-flops of {platform.name}, "
            f"found {taken.total_luts:,} and {taken.total_flip_flops:,}; lower T_P or T_C, or count as the paper with "
            f"--overlap paper"
        )
    if limits.max_luts is not None and not (placed and counts_logic(board)):
        adders = paper_luts(platform, tile.T_P, tile.V * tile.T_C)
        if adders > limits.max_luts:
            raise InputError(
                f"{tile}: expected at most {limits.max_luts:,} LUTs of {platform.name}, found {adders:,.0f}"
            )


def _ranges(begin: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The whole numbers from each ``begin`` on, as many as ``sizes`` says."""
    ends = np.cumsum(sizes)
    return np.repeat(begin - ends + sizes, sizes) + np.arange(ends[-1])


class DesignSpace:
    """Designs that fit a board: with each V and T_P every T_C up to the largest, and the largest even T_R that fits.

    All is counted as :func:`check_fit` does.  ``size`` also counts those whose look-up tables or flip-flops do not fit
    with just that T_R; no box yields these.
    A box holds those from one T_P to another and from one T_C to another, all with one V.  Shapes: ``boxes`` (5, N).
    """

    def __init__(
        self, platform: Board, limits: Limits | None = None, *, placed: bool = True, beside: Beside = ANY,
        entries: Entries = NO_ENTRIES,
    ) -> None:  # fmt: skip
        limits = limits or Limits()
        board = limits.confine(platform)
        self._placed_on = board if placed and board.block_rams is not None else None
        self._beside, self._entries, self._board = beside, entries, board
        self._counts_logic = placed and counts_logic(board)
        self._words = board.on_chip_bits // (2 * board.word_bits)
        within = f"{board.on_chip_mbit:g} Mb on chip and {board.dsps} DSPs"
        adders = None
        if limits.max_luts is not None and not self._counts_logic:
            fitting = range(board.macs_per_cycle)
            adders = bisect_right(fitting, limits.max_luts, key=lambda n: paper_luts(platform, 2, n)) - 1
            within += f" and {limits.max_luts:,} LUTs ({platform.luts_fixed:,.0f} of them taken by no adder)"
        if self._placed_on:
            within += f" and {board.block_rams:,} block RAMs"
        if self._counts_logic:
            within += f" and {board.luts:,} LUTs and {board.flip_flops:,} flip-flops"
        # by V the largest T_C of each T_P, which does not grow with T_P
        columns = {V: self._most_columns(board, V, adders) for V in pixels_of(platform, placed=placed)}
        self._columns = {V: most for V, most in columns.items() if most.size}
        hint = "loosen the limits" if limits != Limits() else "check what its file states"
        self.refusal = (
            f"{platform.name}: no design fits: {within} "
            f"hold no double-buffered tile of {platform.word_bits}-bit words; {hint}"
        )
        if not self._columns:
            raise InputError(self.refusal)
        self.size = sum(int(most.sum()) for most in self._columns.values())
        self.whole = np.array([[1, most.size, 1, most[0], V] for V, most in self._columns.items()]).T

    def _most_columns(self, board: Board, V: int, adders: int | None) -> NDArray[np.int64]:
        """The largest T_C of each T_P, whose trees have at most so many adders, if these are limited."""
        macs = board.macs_per_cycle // V
        T_P = np.arange(1, macs + 1)
        most = np.minimum(macs // T_P, (self._words - 2 * T_P) // (T_P + 2))  # 2 rows are the fewest
        if adders is not None:
            adders //= V
            most = np.where(T_P > 1, np.minimum(most, adders // np.maximum(T_P - 1, 1)), most) * (adders >= 0)
        if self._counts_logic:
            most = self._by_logic(T_P, V, most)
        if self._placed_on:
            most = most * (most_rows(self._placed_on, 1, 1, V=V) > 0)  # small banks of any other design need no block
        found: NDArray[np.int64] = most[most > 0]
        return found

    def _by_logic(self, T_P: NDArray[np.int64], V: int, most: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest T_C of each T_P, up to ``most``, of which the parts that no T_R makes smaller fit."""
        board = self._placed_on
        assert board is not None
        assert board.luts is not None
        assert board.flip_flops is not None
        low, high = np.zeros_like(most), np.maximum(most, 0) + 1
        while np.any(high - low > 1):
            middle = (low + high) // 2
            found = npu(int(board.port.words), 2, T_P, middle, self._beside.of(middle), self._entries, V)
            fits = (found.total_luts <= board.luts) & (found.total_flip_flops <= board.flip_flops)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def _rows(self, T_P: NDArray[np.int64], T_C: NDArray[np.int64], V: Whole) -> NDArray[np.int64]:
        most: NDArray[np.int64] = (self._words - T_P * T_C) // (T_P + T_C)
        if self._placed_on:
            most = np.minimum(most, most_rows(self._placed_on, T_P, T_C, most, V))
        return most - most % 2

    def boxes(self) -> NDArray[np.int64]:
        """Boxes that together hold every design once; within one, T_P and T_C differ by less than a fifth."""
        return np.concatenate([self._boxes(V, most) for V, most in self._columns.items()], axis=1)

    @staticmethod
    def _boxes(V: int, most: NDArray[np.int64]) -> NDArray[np.int64]:
        first = EDGES[: np.searchsorted(EDGES, most.size, side="right")]
        widest = most[first - 1]
        low = EDGES[: np.searchsorted(EDGES, widest[0], side="right")]
        i, j = np.nonzero(low <= widest[:, None])
        last = np.searchsorted(-most, -low[j], side="right")  # the last T_P that goes with this T_C
        ends = EDGES[1:] - 1
        return np.array(
            [first[i], np.minimum(ends[i], last), low[j], np.minimum(ends[j], widest[i]), np.full(i.size, V)]
        )

    def corners(self, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest T_R, T_P and T_C in each box, which may be no design's, and V. Shapes: returns (N, 4)."""
        first, last, low, high, V = boxes
        return np.array([self._rows(first, low, V), last, high, V]).T

    def within(self, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Designs of boxes. Shapes: returns (D, 4)."""
        return np.concatenate([self._within(V, boxes[:4, boxes[4] == V]) for V in np.unique(boxes[4]).tolist()])

    def _within(self, V: int, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        first, last, low, high = boxes
        sizes = last - first + 1
        T_P = _ranges(first, sizes)
        low, high = np.repeat(low, sizes), np.minimum(np.repeat(high, sizes), self._columns[V][T_P - 1])
        sizes = high - low + 1
        T_P, T_C = np.repeat(T_P, sizes), _ranges(low, sizes)
        found = np.array([self._rows(T_P, T_C, V), T_P, T_C, np.full(T_P.size, V)]).T
        found = found[found[:, 0] > 0]
        if V > 1:
            found = found[self._beside.of(found[:, 2]) <= beside_by_banks(self._board, V)]
        if self._counts_logic:
            board = self._placed_on
            assert board is not None
            beside = self._beside.of(found[:, 2])
            found = found[most_beside(board, found, self._beside.samples, self._entries) >= beside]
        return found


def designs(
    platform: Board, limits: Limits | None = None, *, placed: bool = True, beside: Beside = ANY,
    entries: Entries = NO_ENTRIES,
) -> NDArray[np.int64]:  # fmt: skip
    """All designs that fit a board, as :class:`DesignSpace` counts. Shapes: returns (D, 4)."""
    space = DesignSpace(platform, limits, placed=placed, beside=beside, entries=entries)
    found = np.ascontiguousarray(space.within(space.whole))
    if not found.size:
        raise InputError(space.refusal)
    return found
