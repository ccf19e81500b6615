"""The largest T_R with which designs fit a board, under all of its limits together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .banks import first_in_blocks
from .ports import words_of
from .resources import BLOCK_BITS, LOGIC, ULTRA_BITS, Demand, Resource, Supply
from .side_by_side import power_of_two
from .tiles import Tiles, with_rows

Ints = NDArray[np.int64]

FEWEST_ROWS = 2
"""The fewest rows of a design: T_R is even, so that stacking halves it."""


def most_rows(supply: Supply, tiles: Tiles, samples: ArrayLike) -> Ints:
    """Find the largest even T_R, up to the T_R of each design, with which it fits a board.

    Blocks never become fewer as T_R grows.  Look-up tables and flip-flops do, where a buffer moves from tables into
    blocks: between two such T_R (:func:`.banks.first_in_blocks`) they never do (docs/search.md, Pruning).

    Parameters
    ----------
    supply : Supply
        What designs may take.
    tiles : array
        Designs of one V and one W. Shapes: (5, D).
    samples : int or array
        Samples side by side that each has.

    Returns
    -------
    array
        T_R of each design; 0 if not even two rows fit. Shapes: (D,).
    """
    return _rows_by_logic(supply, with_rows(tiles, rows_by_blocks(supply, tiles)), samples)


def _rows_by_logic(supply: Supply, tiles: Tiles, samples: ArrayLike) -> Ints:
    """The largest even T_R, up to the T_R of each design, by look-up tables and flip-flops."""
    last: Ints = tiles[0]
    if not supply.only(*LOGIC) or not tiles.size:
        return last
    samples, rows = np.broadcast_to(samples, last.shape), np.zeros_like(last)
    beat = int(words_of(supply.board, tiles[:, 0]))
    for first in first_in_blocks(supply.board.word_bits, beat, int(tiles[3, 0])):
        left = np.flatnonzero((rows == 0) & (last >= first))
        if left.size:
            rows[left] = _largest(supply, tiles[:, left], samples[left], first, last[left])
        last = np.minimum(last, first - 2)
    return rows


def _largest(supply: Supply, tiles: Tiles, samples: Ints, first: int, last: Ints) -> Ints:
    """The largest even T_R from ``first`` to ``last`` whose logic fits if it never becomes less with T_R, or 0."""
    logic = supply.only(*LOGIC)

    def fits(rows: ArrayLike, at: Ints | slice) -> NDArray[np.bool_]:
        return supply.demand(with_rows(tiles[:, at], rows), samples[at]).within(logic)

    rows = np.where(fits(last, slice(None)), last, 0)
    left = np.flatnonzero(rows == 0)
    left = left[fits(first, left)]
    low, high = np.full(left.size, first // 2), last[left] // 2  # pairs of rows that fit, and that do not
    while np.any(high - low > 1):
        middle = (low + high) // 2
        good = fits(2 * middle, left)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    rows[left] = 2 * low
    return rows


def rows_by_blocks(supply: Supply, tiles: Tiles) -> Ints:
    """The largest even T_R, up to the T_R of each design, by block RAMs, which never become fewer as it grows."""
    most, board = supply.only(Resource.BLOCK_RAMS), supply.board
    if not most:
        even: Ints = tiles[0] - tiles[0] % 2
        return even
    capacity = (board.block_rams or 0) * BLOCK_BITS + (board.ultra_rams or 0) * ULTRA_BITS
    low = np.zeros_like(tiles[0])  # pairs of rows that fit, and that do not
    high = np.minimum(tiles[0] // 2 + 1, capacity // (2 * board.word_bits) + 1024)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        fits = Demand(board, with_rows(tiles, 2 * middle)).within(most)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    rows: Ints = 2 * low
    return rows


def best_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Tiles:
    """Designs with every T_R up to its own with which each may be the best, without those that no T_R lets fit.

    Of all T_R that leave room for as many samples side by side the largest is the best.  So there is one for each
    power of two of samples, as far as they differ.
    """
    needed = supply.needed.by(tiles)
    rows = most_rows(supply, tiles, needed)
    fitting = [with_rows(tiles, rows)[:, rows > 0]]
    samples, most = 2, min(power_of_two(supply.wanted), most_samples)
    while samples <= most and Resource.LUTS in supply.most:
        left = rows > 0
        tiles, needed, rows = tiles[:, left], needed[left], rows[left]
        fewer = _rows_by_logic(supply, with_rows(tiles, rows), np.maximum(samples, needed))
        fitting.append(with_rows(tiles, fewer)[:, (fewer > 0) & (fewer < rows)])
        samples, rows = 2 * samples, fewer
    return np.concatenate(fitting, axis=1)
