"""What the NPU in ``rtl`` takes of an FPGA, in blocks as they are placed (docs/model.md, Resources)."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...platforms import Board
from ..engine import BEAT_BITS, FLIGHT_BITS, SUM_BITS, WORD_BITS
from . import logic
from .logic import Entries

Ints = NDArray[np.int64]

NO_ENTRIES = Entries()

EXTRA_BITS = SUM_BITS - 2 * WORD_BITS
"""Bits of a sum beyond those of a product, also where a board's words are others than the engine's."""

CELLS = 12
"""A bank goes to look-up tables if it takes at most so many cells of four for each block RAM of 18 Kb, as in Yosys."""

BLOCK_BITS, ULTRA_BITS = 36 * 1024, 288 * 1024
"""A block RAM, two halves of which can be used apart, and an UltraRAM."""

ULTRA_WIDTH, ULTRA_ROWS = 72, 4096
"""The only shape of an UltraRAM."""


class Bank(NamedTuple):
    """Alike banks of a buffer, each with a port to write and one to read. Shapes: all of one shape."""

    number: Ints
    width: Ints  # bits of a row
    rows: Ints


class Needs(NamedTuple):
    """What one design takes of a board, and whether it can be placed."""

    block_rams: dict[str, float]  # by buffer, of 36 Kb; a half is one of 18 Kb
    ultra_rams: dict[str, int]  # by buffer
    lutram_luts: int  # look-up tables that hold small banks
    block_rams_of_board: int
    ultra_rams_of_board: int
    beside: int  # samples that the engine can have side by side in a tile of columns
    luts: dict[str, int] | None  # by part; none where they are not counted
    flip_flops: dict[str, int] | None
    luts_of_board: int | None
    flip_flops_of_board: int | None
    placed: bool
    largest_T_R: int  # with its other sizes

    @property
    def total_block_rams(self) -> float:
        """Block RAMs of all its buffers."""
        return sum(self.block_rams.values())

    @property
    def total_ultra_rams(self) -> int:
        """UltraRAMs of all its buffers."""
        return sum(self.ultra_rams.values())

    @property
    def total_luts(self) -> int:
        """Look-up tables of all its parts, those of small banks included."""
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


def cells(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Cells of look-up tables of one bank: four tables that hold 32 rows of 6 bits, or 64 of 3 bits.

    Parameters
    ----------
    width, rows : int or array
        Bits of a row, and rows.

    Returns
    -------
    array
        Cells; the fourth port of each writes.
    """
    width, rows = np.asarray(width, np.int64), np.asarray(rows, np.int64)
    found: Ints = np.minimum(-(-width // 6) * -(-rows // 32), -(-width // 3) * -(-rows // 64))
    return found


def choosers(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Look-up tables that choose the row of a bank in look-up tables, one for each bit and 64 rows after the first."""
    found: Ints = np.asarray(width, np.int64) * (-(-np.asarray(rows, np.int64) // 64) - 1)
    return found


def halves(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Block RAMs of 18 Kb that one bank takes; two of them are one of 36 Kb.

    Such a block holds 16,384 rows of 1 bit, 8,192 of 2, 4,096 of 4, or 512 of four slices of 9 bits, which may belong
    to different rows: 1,536 rows of 48 bits are 3 * 6 slices, in five blocks.

    Parameters
    ----------
    width, rows : int or array
        Bits of a row, and rows.

    Returns
    -------
    array
        Blocks; none where the bank goes to look-up tables.
    """
    width, rows = np.asarray(width, np.int64), np.asarray(rows, np.int64)
    found = -(-(-(-width // 9) * -(-rows // 512)) // 4)
    for bits in (1, 2, 4):
        found = np.minimum(found, -(-width // bits) * -(-rows * bits // 16384))
    taken: Ints = np.where(cells(width, rows) <= CELLS * found, 0, found)
    return taken


def banks(board: Board, T_R: ArrayLike, T_P: ArrayLike, T_C: ArrayLike, V: ArrayLike = 1) -> dict[str, Bank]:
    """Memories of designs by banks, as in ``rtl/engine``; weights are in registers and have none.

    Parameters
    ----------
    board : Board
        It states the width of words, and the words of a beat.
    T_R, T_P, T_C, V : int or array
        Designs.

    Returns
    -------
    dict of str to Bank
        The banks of each buffer.
    """
    sizes = (np.asarray(size, np.int64) for size in (T_R, T_P, T_C))
    T_R, T_P, T_C, _ = np.broadcast_arrays(*sizes, V := np.asarray(V, np.int64))  # one V divides faster than many
    beat, half, of_pixel = int(board.port.words), -(-T_R // 2), -(-T_R // (2 * V))
    across, spare = np.maximum(beat, V), np.where(V > 1, 2, 1)
    word = np.full_like(T_R, board.word_bits)
    noted = np.full_like(T_R, BEAT_BITS + beat)
    return {
        "inputs": Bank(2 * T_P * across, word, 2 * (-(-half // across) + spare)),
        "sums": Bank(2 * V * T_C, np.full_like(T_R, 2 * board.word_bits + EXTRA_BITS), of_pixel),
        "stores": Bank(2 * V * beat * -(-T_C // beat), word, 2 * of_pixel),
        "beats": Bank(np.ones_like(T_R), noted, np.full_like(T_R, 2**FLIGHT_BITS)),
    }


def together(found: dict[str, Bank]) -> Ints:
    """Number, width and rows of banks, all buffers in one array. Shapes: returns (3, buffers, ...)."""
    return np.stack([np.stack(sizes) for sizes in zip(*found.values(), strict=True)])


class Placement(NamedTuple):
    """Blocks of each buffer. Shapes: those of the designs."""

    halves: dict[str, Ints]  # blocks of 18 Kb
    ultra_rams: dict[str, Ints]
    fits: NDArray[np.bool_]


def place(board: Board, found: dict[str, Bank]) -> Placement:
    """Place banks on a board that states its block RAMs; UltraRAMs hold those that take the most of these.

    Parameters
    ----------
    board : Board
        The board.
    found : dict of str to Bank
        Banks by buffer, as :func:`banks` makes them.

    Returns
    -------
    Placement
        The blocks.
    """
    names = list(found)
    count, width, rows = together(found)
    half, each = halves(width, rows), -(-width // ULTRA_WIDTH) * -(-rows // ULTRA_ROWS)
    moved = np.zeros_like(count)  # banks that UltraRAMs hold
    left = np.full(count.shape[1:], board.ultra_rams or 0)
    for rank in np.argsort(-half / each, axis=0, kind="stable") if board.ultra_rams else ():
        at = rank[None]
        taken = np.minimum(np.take_along_axis(count, at, 0), left // np.take_along_axis(each, at, 0))
        taken = np.where(np.take_along_axis(half, at, 0) > 0, taken, 0)
        np.put_along_axis(moved, at, taken, 0)
        left = left - (taken * np.take_along_axis(each, at, 0))[0]
    blocks = (count - moved) * half
    return Placement(
        dict(zip(names, blocks, strict=True)),
        dict(zip(names, moved * each, strict=True)),
        blocks.sum(axis=0) <= 2 * (board.block_rams or 0),
    )


def most_rows(board: Board, T_P: ArrayLike, T_C: ArrayLike, most: Ints | None = None, V: ArrayLike = 1) -> Ints:
    """Find the largest even T_R whose buffers can be placed on a board that states its block RAMs.

    Parameters
    ----------
    board, T_P, T_C
        As for :func:`banks`.
    most : array, optional
        The largest that each may have.
    V : int or array
        As for :func:`banks`.

    Returns
    -------
    array
        T_R of each design, in the shape of T_P and T_C; 0 if not even two rows can be placed.
    """
    T_P, T_C, _ = np.broadcast_arrays(np.asarray(T_P, np.int64), np.asarray(T_C, np.int64), V)
    capacity = (board.block_rams or 0) * BLOCK_BITS + (board.ultra_rams or 0) * ULTRA_BITS
    low = np.zeros_like(T_P)  # pairs of rows that can be placed, and that cannot
    high = np.full_like(T_P, capacity // (2 * board.word_bits) + 1024)
    if most is not None:
        high = np.minimum(high, most // 2 + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        fits = place(board, banks(board, 2 * middle, T_P, T_C, V)).fits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return 2 * low


def counts_logic(board: Board) -> bool:
    """True if look-up tables and flip-flops are counted: those of the engine's words, where a board states both."""
    stated = None not in (board.block_rams, board.luts, board.flip_flops)
    return stated and board.word_bits == WORD_BITS


def logic_of(
    board: Board,
    T_R: ArrayLike,
    T_P: ArrayLike,
    T_C: ArrayLike,
    V: ArrayLike,
    beside: ArrayLike,
    entries: Entries = NO_ENTRIES,
) -> logic.Logic:
    """Look-up tables and flip-flops of designs by parts; banks in look-up tables are a part of their own.

    Parameters
    ----------
    board, T_R, T_P, T_C, V
        As for :func:`banks`.
    beside : int or array
        Most samples side by side in a tile of columns, a power of two.
    entries : Entries, optional
        Those of the control block.

    Returns
    -------
    Logic
        Each value has the shape of all arrays together.
    """
    found = logic.npu(int(board.port.words), T_R, T_P, T_C, beside, entries, V)
    count, width, rows = together(banks(board, T_R, T_P, T_C, V))
    small = count * (halves(width, rows) == 0)
    luts: logic.Values = np.asarray((small * (4 * cells(width, rows) + choosers(width, rows))).sum(axis=0), np.float64)
    # a block RAM has registers of its own
    flip_flops: logic.Values = np.asarray((small * width).sum(axis=0), np.float64)
    return found._replace(
        luts=found.luts | {"small banks": luts}, flip_flops=found.flip_flops | {"small banks": flip_flops}
    )


def beside_by_banks(board: Board, V: ArrayLike) -> Ints:
    """Most samples side by side of designs with so many pixels: each of their rows lies in another bank of inputs.

    Those of one pixel may have more than the port has words; the engine then has more banks than :func:`banks` counts.
    """
    words = 1 << (int(board.port.words) - 1).bit_length()
    V = np.asarray(V, np.int64)
    found: Ints = np.where(V > 1, np.maximum(words // V, 1), np.iinfo(np.int64).max)
    return found


def most_beside(board: Board, space: ArrayLike, most: int, entries: Entries = NO_ENTRIES) -> Ints:
    """Samples that designs can have side by side in a tile of columns, by look-up tables and flip-flops.

    Parameters
    ----------
    board : Board
        A board of which these are counted.
    space : array
        Designs <T_R, T_P, T_C> with V. Shapes: (D, 4).
    most : int
        The most that layouts have.
    entries : Entries, optional
        Those of the control block.

    Returns
    -------
    array
        The largest power of two that fits the board, up to the first that is not less than ``most``; else 0.
        Shapes: (D,).
    """
    steps = 2 ** np.arange((most - 1).bit_length() + 1)[:, None]
    T_R, T_P, T_C, V = np.asarray(space).T
    found = logic_of(board, T_R, T_P, T_C, V, steps, entries)
    fits = (found.total_luts <= (board.luts or 0)) & (found.total_flip_flops <= (board.flip_flops or 0))
    largest: Ints = np.max(np.where(fits, steps, 0), axis=0)
    return largest


def needs(
    board: Board, tile: tuple[int, int, int, int], beside: int = 1, entries: Entries = NO_ENTRIES
) -> Needs | None:
    """What a design takes of a board in blocks, look-up tables and flip-flops.

    Parameters
    ----------
    board : Board
        The board.
    tile : tuple of int
        The design, <T_R, T_P, T_C> with V.
    beside : int
        Samples that its layouts have side by side in a tile of columns.
    entries : Entries, optional
        Those of the control block.

    Returns
    -------
    Needs or None
        Blocks by buffer, the others by part; ``None`` if the board's file states no block RAMs.
    """
    if board.block_rams is None:
        return None
    found = banks(board, *tile)
    placed = place(board, found)
    small = [bank for bank in found.values() if halves(bank.width, bank.rows) == 0]
    beside = 1 << (beside - 1).bit_length()
    luts = flip_flops = None
    fits = True
    if counts_logic(board):
        parts = logic_of(board, *tile, beside, entries)
        luts, flip_flops = (
            {name: ceil(number) for name, number in part.items()}
            for part in (parts.luts | {"small tables": parts.small_luts}, parts.flip_flops)
        )
        fits = bool(most_beside(board, [tile], beside, entries)[0] == beside)
    return Needs(
        block_rams={name: float(count) / 2 for name, count in placed.halves.items()},
        ultra_rams={name: int(count) for name, count in placed.ultra_rams.items()},
        lutram_luts=sum(4 * int(bank.number * cells(bank.width, bank.rows)) for bank in small),
        block_rams_of_board=board.block_rams,
        ultra_rams_of_board=board.ultra_rams or 0,
        beside=beside,
        luts=luts,
        flip_flops=flip_flops,
        luts_of_board=board.luts,
        flip_flops_of_board=board.flip_flops,
        placed=bool(placed.fits) and fits,
        largest_T_R=int(most_rows(board, *tile[1:3], V=tile[3])),
    )
