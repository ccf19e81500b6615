"""What an NPU takes of an FPGA, in the blocks that a synthesis places (docs/model.md, Blocks)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...platforms import Board
from .space import Tile

Ints = NDArray[np.int64]

SUM_BITS = 48
"""Width of a sum: that of a DSP's adder."""

LUTRAM_ROWS = 64
"""Banks of at most so many rows are made of look-up tables, which hold 64 bits each."""

BLOCK_BITS = 36 * 1024
"""A block RAM: two halves of 18 Kb, which can be used apart."""

ULTRA_RAM = (72, 4096)
"""Width and rows of an UltraRAM, which has no other shape."""

BUFFERS = ("inputs", "sums", "stores", "persistent")
"""Names of the buffers."""


class Bank(NamedTuple):
    """Alike banks of a buffer, each with a port to write and one to read. Shapes: all of one shape."""

    count: Ints
    width: Ints  # bits of a row
    rows: Ints


class Needs(NamedTuple):
    """What one design takes of an FPGA, and whether it can be placed."""

    dsps: int
    block_rams: dict[str, float]  # by buffer, in blocks of 36 Kb; a half is one of 18 Kb
    ultra_rams: dict[str, int]  # by buffer; only of boards that have some
    lutram_luts: int  # look-up tables that hold shallow banks
    weight_flip_flops: int
    block_rams_of_board: int
    ultra_rams_of_board: int
    assumed: bool  # the board's file states no block RAMs: all its memory is taken to be such blocks
    placed: bool
    largest_T_R: int  # of a design with its T_P and T_C that can be placed; 0 if none can

    @property
    def total_block_rams(self) -> float:
        """Block RAMs of all its buffers."""
        return sum(self.block_rams.values())

    @property
    def total_ultra_rams(self) -> int:
        """UltraRAMs of all its buffers."""
        return sum(self.ultra_rams.values())


def halves(width: ArrayLike, rows: ArrayLike) -> Ints:
    """Count the blocks of 18 Kb that one bank takes; two of them are a block of 36 Kb.

    A block holds 16,384 rows of 1 bit, 8,192 of 2, 4,096 of 4 or 512 of 36 in four slices of 9 that are written apart.
    Slices of one block may hold different rows: 1,536 rows of 48 bits are 3 * 6 slices, in five blocks.

    Parameters
    ----------
    width, rows : int or array
        Bits of a row, and rows.

    Returns
    -------
    array
        Blocks of 18 Kb; none for at most :data:`LUTRAM_ROWS` rows.
    """
    width, rows = np.asarray(width, np.int64), np.asarray(rows, np.int64)
    slices = -(-width // 9) * -(-rows // 512)
    found = -(-slices // 4)
    for bits in (1, 2, 4):
        found = np.minimum(found, -(-width // bits) * -(-rows * bits // 16384))
    return cast(Ints, np.where(rows <= LUTRAM_ROWS, 0, found))


def _lutram_luts(bank: Bank) -> int:
    """Look-up tables of a shallow bank: four hold 64 rows of 3 bits or 32 of 6, because one of their ports writes."""
    bits = 6 if bank.rows <= LUTRAM_ROWS // 2 else 3
    return 4 * -(-int(bank.width) // bits) if bank.rows <= LUTRAM_ROWS else 0


def _ultra_rams(bank: Bank) -> Ints:
    """UltraRAMs of one bank."""
    width, rows = ULTRA_RAM
    return -(-bank.width // width) * -(-bank.rows // rows)


def banks(
    board: Board, T_R: ArrayLike, T_P: ArrayLike, T_C: ArrayLike, sum_bits: int = SUM_BITS, persistent_bits: int = 0
) -> dict[str, Bank]:
    """Buffers of designs by banks; weights are in registers and have none.

    Parameters
    ----------
    board : Board
        It states the width of words, and the words of a beat.
    T_R, T_P, T_C : int or array
        Designs.
    sum_bits : int
        Width of a sum. Sums as wide as words stay in the store buffer, as in the paper's count.
    persistent_bits : int
        Memory for weights that stay on the chip.

    Returns
    -------
    dict of str to Bank
        The banks of each buffer.
    """
    T_R, T_P, T_C = np.broadcast_arrays(*(np.asarray(size, np.int64) for size in (T_R, T_P, T_C)))
    beat = int(board.port.words)
    word, line = np.full_like(T_R, board.word_bits), np.full_like(T_R, beat * board.word_bits)
    found = {"inputs": Bank(T_P, line, 2 * -(-T_R // beat))}
    if sum_bits == board.word_bits:  # one half sums while the other is stored: two banks, since both are read
        found["stores"] = Bank(2 * T_C, word, T_R)
    else:
        found["sums"] = Bank(T_C, np.full_like(T_R, sum_bits), T_R)
        found["stores"] = Bank(T_C, word, 2 * T_R)
    if persistent_bits:
        found["persistent"] = Bank(np.ones_like(T_R), line, -(-persistent_bits // line))
    return found


def block_rams_of(board: Board) -> int:
    """Block RAMs of a board; if its file states none, all its on-chip memory is taken to be such blocks."""
    return board.on_chip_bits // BLOCK_BITS if board.block_rams is None else board.block_rams


class Placement(NamedTuple):
    """Blocks of each buffer, with the fewest block RAMs. Shapes: those of the designs."""

    halves: dict[str, Ints]  # blocks of 18 Kb
    ultra_rams: dict[str, Ints]
    fits: NDArray[np.bool_]


def _ways(names: list[str], ultra_rams: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Buffers that are wholly of UltraRAM, and the one of which they take as many banks as there are UltraRAMs left."""
    if not ultra_rams:
        yield (), names[0]
        return
    for size in range(len(names)):
        for whole in combinations(names, size):
            yield from ((whole, name) for name in names if name not in whole)


def place(board: Board, found: dict[str, Bank]) -> Placement:
    """Place banks on a board.

    UltraRAMs take whole buffers and some banks of one more, in the way that leaves the fewest block RAMs. Whatever
    can be placed can also be placed with fewer rows, which :func:`most_rows` rests on.

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
    ultra_rams = board.ultra_rams or 0
    half = {name: halves(bank.width, bank.rows) for name, bank in found.items()}
    ultra = {name: _ultra_rams(bank) for name, bank in found.items()}
    names = list(found)
    shape = found[names[0]].count.shape
    taken = {name: np.zeros(shape, np.int64) for name in names}  # banks that UltraRAMs hold
    fewest = np.full(shape, np.iinfo(np.int64).max)
    for whole, last in _ways(names, ultra_rams):
        left = ultra_rams - sum((found[name].count * ultra[name] for name in whole), np.zeros(shape, np.int64))
        moved = {name: found[name].count if name in whole else np.zeros(shape, np.int64) for name in names}
        moved[last] = np.clip(left // ultra[last], 0, found[last].count)
        moved = {name: np.where(half[name] > 0, banks_, 0) for name, banks_ in moved.items()}
        blocks = sum(((found[name].count - moved[name]) * half[name] for name in names), np.zeros(shape, np.int64))
        better = (left >= 0) & (blocks < fewest)
        fewest = np.where(better, blocks, fewest)
        taken = {name: np.where(better, moved[name], taken[name]) for name in names}
    return Placement(
        {name: (bank.count - taken[name]) * half[name] for name, bank in found.items()},
        {name: taken[name] * ultra[name] for name in names},
        fewest <= 2 * block_rams_of(board),
    )


def most_rows(
    board: Board, T_P: ArrayLike, T_C: ArrayLike, sum_bits: int = SUM_BITS, persistent_bits: int = 0
) -> Ints:
    """Find the largest even T_R whose buffers can be placed.

    DSPs are not looked at, and bits neither.

    Parameters
    ----------
    board, T_P, T_C, sum_bits, persistent_bits
        As for :func:`banks`.

    Returns
    -------
    array
        T_R of each design, in the shape of T_P and T_C; 0 if not even two rows can be placed.
    """
    T_P, T_C = np.broadcast_arrays(np.asarray(T_P, np.int64), np.asarray(T_C, np.int64))
    ultra_bits = (board.ultra_rams or 0) * ULTRA_RAM[0] * ULTRA_RAM[1]
    capacity = block_rams_of(board) * BLOCK_BITS + ultra_bits
    low = np.zeros_like(T_P)  # pairs of rows that can be placed, and that cannot
    high = np.full_like(T_P, max(capacity // (2 * board.word_bits), LUTRAM_ROWS) + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        fits = place(board, banks(board, 2 * middle, T_P, T_C, sum_bits, persistent_bits)).fits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return 2 * low


def needs(board: Board, tile: Tile, sum_bits: int = SUM_BITS, persistent_bits: int = 0) -> Needs | None:
    """What a design takes of a board in blocks.

    Parameters
    ----------
    board : Board
        The board.
    tile : Tile
        The design.
    sum_bits, persistent_bits : int
        As for :func:`banks`.

    Returns
    -------
    Needs or None
        Blocks by buffer; ``None`` on an ASIC, which has none.
    """
    if board.block_rams is None and board.luts is None and board.flip_flops is None:
        return None
    found = banks(board, *tile, sum_bits, persistent_bits)
    placed = place(board, found)
    shallow = sum(int(bank.count) * _lutram_luts(bank) for bank in found.values())
    return Needs(
        dsps=tile.dsps,
        block_rams={name: float(count) / 2 for name, count in placed.halves.items()},
        ultra_rams={name: int(count) for name, count in placed.ultra_rams.items()} if board.ultra_rams else {},
        lutram_luts=shallow,
        weight_flip_flops=2 * tile.dsps * board.word_bits,
        block_rams_of_board=block_rams_of(board),
        ultra_rams_of_board=board.ultra_rams or 0,
        assumed=board.block_rams is None,
        placed=bool(placed.fits) and tile.dsps <= board.dsps,
        largest_T_R=int(most_rows(board, tile.T_P, tile.T_C, sum_bits, persistent_bits)),
    )
