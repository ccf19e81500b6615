"""The buffers of the NPU in ``rtl`` as banks, and the blocks of an FPGA that hold them (docs/model.md, Resources)."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...formats.array_types import Floats, Ints
from ...platforms import Board
from ..engine import AHEAD, BEAT_BITS, FLIGHT_BITS, SUM_BITS, WORD_BITS
from .ports import words_of
from .tiles import FEWEST_ROWS, Tile, Tiles

EXTRA_BITS = SUM_BITS - 2 * WORD_BITS
"""Bits of a sum beyond the bits of a product, also where a board's words are others than the engine's."""

CELLS = 12
"""A bank goes to look-up tables if it takes at most 12 cells of four for each block RAM of 18 Kb, as in Yosys."""

MOST_IN_LUTS = 2**20
"""No bank of this many rows goes to look-up tables."""

ULTRA_WIDTH, ULTRA_ROWS = 72, 4096
"""The only shape of an UltraRAM."""


class Bank(NamedTuple):
    """Equal banks of a buffer, each with a port to write and one to read. Shapes: all of one shape."""

    number: Ints
    width: Ints  # bits of a row
    rows: Ints


class Placed(NamedTuple):
    """Blocks of each buffer. Shapes: as the designs."""

    halves: dict[str, Ints]  # block RAMs of 18 Kb
    ultra_rams: dict[str, Ints]
    moved: dict[str, Ints]  # banks that UltraRAMs hold

    @property
    def block_rams(self) -> Floats:
        """Block RAMs of 36 Kb that all buffers take; a half is one of 18 Kb."""
        return sum(self.halves.values(), np.zeros((), np.int64)) / 2


def cells(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Cells of look-up tables of one bank: four tables that hold 32 rows of 6 bits, or 64 of 3; the fourth writes."""
    width, rows = np.asarray(width, np.int64), np.asarray(rows, np.int64)
    fewest: Ints = np.minimum(-(-width // 6) * -(-rows // 32), -(-width // 3) * -(-rows // 64))
    return fewest


def choosers(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Look-up tables that choose the row of a bank in look-up tables, one for each bit and 64 rows after the first."""
    return np.asarray(width, np.int64) * (-(-np.asarray(rows, np.int64) // 64) - 1)


def halves(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Block RAMs of 18 Kb, halves of one of 36 Kb, that a bank takes; none where it goes to look-up tables.

    Such a block holds 16,384 rows of 1 bit, 8,192 of 2, 4,096 of 4, or 512 of four slices of 9 bits, which may belong
    to different rows: 1,536 rows of 48 bits are 3 * 6 slices, in five blocks.
    """
    width, rows = np.asarray(width, np.int64), np.asarray(rows, np.int64)
    fewest = -(-(-(-width // 9) * -(-rows // 512)) // 4)
    for bits in (1, 2, 4):
        fewest = np.minimum(fewest, -(-width // bits) * -(-rows * bits // 16384))
    return np.where(cells(width, rows) <= CELLS * fewest, 0, fewest)


def banks_of(board: Board, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, Bank]:
    """Memories of designs by banks, as in ``rtl/engine``; weights are in registers and have none.

    ``samples`` is the largest power of two of them side by side in a tile of columns. Shapes: ``tiles`` (5, ...).
    """
    return _banks(board.word_bits, words_of(board, tiles), tiles, samples)


def _banks(word_bits: int, beat: Any, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, Bank]:
    T_R, T_P, T_C, V, S = np.broadcast_arrays(*np.asarray(tiles, np.int64)[:4], samples)
    half, of_pixel = -(-T_R // 2), -(-T_R // (2 * V))
    across, spare = np.maximum(beat, S * V), np.where(V > 1, 2, 1)
    word = np.full_like(T_R, word_bits)
    noted = np.full_like(T_R, BEAT_BITS + beat)
    return {
        "inputs": Bank(2 * T_P * across, word, 2 * (-(-half // across) + spare)),
        "sums": Bank(2 * V * T_C, np.full_like(T_R, 2 * word_bits + EXTRA_BITS), of_pixel),
        "stores": Bank(2 * V * beat * -(-T_C // beat), word, 2 * of_pixel),
        "beats": Bank(np.ones_like(T_R), noted, np.full_like(T_R, 2**FLIGHT_BITS)),
        "residuals": Bank(np.ones_like(T_R), np.full_like(T_R, word_bits * beat), np.full_like(T_R, AHEAD)),
    }


@cache
def first_in_blocks(word_bits: int, beat: int, V: int, samples: int) -> list[int]:
    """The smallest even T_R, and those with which banks of a buffer first go to blocks, the largest first.

    Between two of them no buffer moves from look-up tables into blocks.
    """
    even = range(FEWEST_ROWS, MOST_IN_LUTS, 2)

    def in_blocks(T_R: int, buffer: str) -> bool:
        bank = _banks(word_bits, beat, Tile(T_R, 1, 1, V), samples)[buffer]
        return bool(halves(bank.width, bank.rows))

    buffers = _banks(word_bits, beat, Tile(FEWEST_ROWS, 1, 1, V), samples)
    places = {bisect_left(even, True, hi=len(even) - 1, key=partial(in_blocks, buffer=name)) for name in buffers}
    return sorted({FEWEST_ROWS, *(even[place] for place in places)}, reverse=True)


def together(banks: dict[str, Bank]) -> Ints:
    """Number, width and rows of banks, all buffers in one array. Shapes: returns (3, buffers, ...)."""
    return np.stack([np.stack(sizes) for sizes in zip(*banks.values(), strict=True)])


def place(board: Board, banks: dict[str, Bank]) -> Placed:
    """Place banks in the blocks of a board, which may be too few; UltraRAMs hold those that take most block RAMs."""
    names = list(banks)
    count, width, rows = together(banks)
    half, each = halves(width, rows), -(-width // ULTRA_WIDTH) * -(-rows // ULTRA_ROWS)
    moved = np.zeros_like(count)
    left = np.full(count.shape[1:], board.ultra_rams or 0)
    if board.ultra_rams:
        order = np.argsort(-half / each, axis=0, kind="stable")
        numbers, halves_of, ultras = (np.take_along_axis(of, order, 0) for of in (count, half, each))
        taken = np.zeros_like(count)
        for rank in range(len(names)):
            taken[rank] = np.where(halves_of[rank] > 0, np.minimum(numbers[rank], left // ultras[rank]), 0)
            left = left - taken[rank] * ultras[rank]
        np.put_along_axis(moved, order, taken, 0)
    blocks = (count - moved) * half
    return Placed(*(dict(zip(names, of, strict=True)) for of in (blocks, moved * each, moved)))


def small(banks: dict[str, Bank]) -> tuple[Ints, Ints, Ints]:
    """Look-up tables of the cells of banks that no block holds, those that choose their rows, and their flip-flops.

    A block RAM has registers of its own.
    """
    count, width, rows = together(banks)
    number = count * (halves(width, rows) == 0)
    tables = (4 * number * cells(width, rows), number * choosers(width, rows), number * width)
    of_cells, of_choosers, flip_flops = (each.sum(axis=0) for each in tables)
    return of_cells, of_choosers, flip_flops
