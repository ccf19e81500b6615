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

PROBES = 512
"""Numbers that :func:`largest` tries at a time: hundreds of designs are counted hardly slower than one."""

TOGETHER = 4096
"""Designs whose rows are found together: what is counted of more is not kept in a processor's cache."""


def largest(low: Ints, high: Ints, fits: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Ints:
    """The largest numbers that fit, if none fits above one that does not; ``low`` do, or are 0, and ``high`` do not.

    ``fits`` takes numbers and their places in ``low``.
    """
    low, high = low.copy(), high.copy()
    while (at := np.flatnonzero(high - low > 1)).size:
        parts = min(max(2, PROBES // at.size), int((high - low)[at].max()))
        edges = low[at] + (high - low)[at] * np.arange(parts + 1)[:, None] // parts
        edges[1:] = np.maximum(edges[1:], low[at] + 1)  # of a few numbers, some are tried twice
        good = fits(edges[1:-1].ravel(), np.tile(at, parts - 1)).reshape(parts - 1, at.size)
        fitting, each = good.sum(axis=0), np.arange(at.size)
        low[at], high[at] = edges[fitting, each], edges[fitting + 1, each]
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
    logic, last = supply.only(*LOGIC), tiles[0]

    def fits(rows: Ints, at: Ints) -> NDArray[np.bool_]:
        return supply.demand(with_rows(tiles[:, at], rows), samples[at]).within(logic)

    ends = np.stack([np.full_like(last, first), last])
    some, all_ = fits(ends.ravel(), np.tile(np.arange(last.size), 2)).reshape(2, -1)
    rows, left = np.where(all_, last, 0), np.flatnonzero(some & ~all_)
    low, high = ends[:, left] // 2
    rows[left] = 2 * largest(low, high, lambda pairs, at: fits(2 * pairs, left[at]))
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
    parts = np.array_split(tiles, tiles.shape[1] // TOGETHER + 1, axis=1)
    return np.concatenate([_best_rows(supply, part, most_samples) for part in parts], axis=1)


def _best_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Tiles:
    """As :func:`best_rows`, of a few designs."""
    levels = [1]
    while supply.only(*LOGIC) and levels[-1] < min(power_of_two(supply.wanted), most_samples):
        levels.append(2 * levels[-1])
    samples = np.maximum(np.array(levels)[:, None], supply.needed.by(tiles))
    every = np.tile(with_rows(tiles, rows_by_blocks(supply, tiles)), len(levels))
    rows = _rows_by_logic(supply, every, samples.ravel()).reshape(samples.shape)
    differ = rows > 0
    differ[1:] &= rows[1:] < rows[:-1]
    return with_rows(every, rows.ravel())[:, differ.ravel()]
