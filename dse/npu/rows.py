"""The largest T_R with which designs fit a board, under all of its limits together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .banks import first_in_blocks
from .ports import words_of
from .resources import BLOCK_BITS, LOGIC, ULTRA_BITS, Demand, Resource, Supply
from .side_by_side import power_of_two
from .tiles import Tiles, with_rows

Ints = NDArray[np.int64]


def largest(low: Ints, high: Ints, fits: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Ints:
    """The largest numbers that fit, if none fits above one that does not; ``low`` do, or are 0, and ``high`` do not.

    ``fits`` takes numbers and their places in ``low``.
    """
    low, high = low.copy(), high.copy()
    while (at := np.flatnonzero(high - low > 1)).size:
        middle = (low[at] + high[at]) // 2
        good = fits(middle, at)
        low[at[good]], high[at[~good]] = middle[good], middle[~good]
    return low


def rows_by_blocks(supply: Supply, tiles: Tiles) -> Ints:
    """The largest even T_R, up to the T_R of each design, by block RAMs, which never become fewer as it grows."""
    most, board = supply.only(Resource.BLOCK_RAMS), supply.board
    if not most:
        even: Ints = tiles[0] - tiles[0] % 2
        return even
    capacity = (board.block_rams or 0) * BLOCK_BITS + (board.ultra_rams or 0) * ULTRA_BITS
    pairs = np.minimum(tiles[0] // 2 + 1, capacity // (2 * board.word_bits) + 1024)  # of rows, too many
    return 2 * largest(
        np.zeros_like(pairs), pairs, lambda pairs, at: Demand(board, with_rows(tiles[:, at], 2 * pairs)).within(most)
    )


def _rows_by_logic(supply: Supply, tiles: Tiles, samples: Ints) -> Ints:
    """The largest even T_R, up to the T_R of each design, by look-up tables and flip-flops, or 0.

    They become fewer only where a buffer moves into blocks: between two such T_R they never do.
    """
    last: Ints = tiles[0]
    if not supply.only(*LOGIC) or not tiles.size:
        return last
    rows = np.zeros_like(last)
    beat = int(words_of(supply.board, tiles[:, 0]))
    for first in first_in_blocks(supply.board.word_bits, beat, int(tiles[3, 0])):
        left = np.flatnonzero((rows == 0) & (last >= first))
        if left.size:
            rows[left] = _rows_from(first, supply, with_rows(tiles, last)[:, left], samples[left])
        last = np.minimum(last, first - 2)
    return rows


def _rows_from(first: int, supply: Supply, tiles: Tiles, samples: Ints) -> Ints:
    """The largest even T_R from ``first`` up to the T_R of each design, where logic never becomes less, or 0."""
    logic = supply.only(*LOGIC)

    def fits(rows: Ints | int, at: Ints) -> NDArray[np.bool_]:
        return supply.demand(with_rows(tiles[:, at], rows), samples[at]).within(logic)

    rows = np.where(fits(tiles[0], np.arange(samples.size)), tiles[0], 0)
    left = np.flatnonzero(rows == 0)
    left = left[fits(first, left)]
    pairs = np.full(left.size, first // 2), tiles[0, left] // 2
    rows[left] = 2 * largest(*pairs, lambda pairs, at: fits(2 * pairs, left[at]))
    return rows


def best_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Tiles:
    """Find the designs with every T_R with which each may be the best (docs/search.md, Pruning).

    Of all T_R that leave room for as many samples side by side the largest is the best.  So there is one for each
    power of two of samples, as far as they differ.

    Parameters
    ----------
    supply : Supply
        What designs may take.
    tiles : array
        Designs of one V and one W, with the largest T_R of each. Shapes: (5, D).
    most_samples : int
        Samples side by side, at most.

    Returns
    -------
    array
        The designs; none of those that no T_R lets fit. Shapes: (5, N).
    """
    needed = supply.needed.by(tiles)
    rows = _rows_by_logic(supply, with_rows(tiles, rows_by_blocks(supply, tiles)), needed)
    fitting = [with_rows(tiles, rows)[:, rows > 0]]
    samples, most = 2, min(power_of_two(supply.wanted), most_samples)
    while samples <= most and supply.only(*LOGIC):
        left = rows > 0
        tiles, needed, rows = tiles[:, left], needed[left], rows[left]
        fewer = _rows_by_logic(supply, with_rows(tiles, rows), np.maximum(samples, needed))
        fitting.append(with_rows(tiles, fewer)[:, (fewer > 0) & (fewer < rows)])
        samples, rows = 2 * samples, fewer
    return np.concatenate(fitting, axis=1)
