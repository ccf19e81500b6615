"""The largest T_R with which designs fit a board, under all of its limits together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...formats.array_types import Bools, Ints
from .banks import first_in_blocks
from .ports import words_of
from .resources import BLOCK_BITS, LOGIC, OF_SAMPLES, OF_WORDS, ULTRA_BITS, Resource, Supply
from .side_by_side import power_of_two
from .tiles import FEWEST_ROWS, Tiles, with_rows

PROBES = 512
"""Numbers that :func:`largest` tries at a time: hundreds of designs are counted hardly slower than one."""

TOGETHER = 4096
"""Designs whose rows are found together: what is counted of more is not kept in a processor's cache."""


def largest(low: Ints, high: Ints, fits: Callable[[Ints, Ints], Bools]) -> Ints:
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


def rows_by_blocks(supply: Supply, tiles: Tiles, samples: ArrayLike) -> Ints:
    """The largest even T_R, up to the T_R of each design, by block RAMs, which never become fewer as it grows."""
    most, board = supply.only(Resource.BLOCK_RAMS), supply.board
    if not most:
        even: Ints = tiles[0] - tiles[0] % 2
        return even
    capacity = (board.block_rams or 0) * BLOCK_BITS + (board.ultra_rams or 0) * ULTRA_BITS
    pairs = np.minimum(tiles[0] // 2 + 1, capacity // (2 * board.word_bits) + 1024)  # of rows, too many
    samples = np.broadcast_to(samples, pairs.shape)
    return 2 * largest(
        np.zeros_like(pairs),
        pairs,
        lambda pairs, at: supply.demand(with_rows(tiles[:, at], 2 * pairs), samples[at]).within(most),
    )


def _rows_by_logic(supply: Supply, tiles: Tiles, samples: Ints) -> Ints:
    """The largest even T_R, up to the T_R of each design, by logic and the cycle, or 0.

    They become fewer only where a buffer moves into blocks: between two such T_R they never do.
    """
    rows: Ints = np.zeros_like(tiles[0])
    for first, last in _between_steps(supply, tiles, samples):
        left = np.flatnonzero((rows == 0) & (last >= first))
        if left.size:
            rows[left] = _rows_from(first, supply, with_rows(tiles, last)[:, left], samples[left])
    return rows


def _between_steps(supply: Supply, tiles: Tiles, samples: Ints) -> Iterator[tuple[int, Ints]]:
    """Ranges of T_R up to each design's over which nothing that is counted becomes less, the last one first."""
    last: Ints = tiles[0]
    firsts = [FEWEST_ROWS]
    if supply.only(*LOGIC) and tiles.size:
        beat = int(words_of(supply.board, tiles[:, 0]))
        V = int(tiles[3, 0])
        each = {max(beat // V, some) for some in np.unique(samples).tolist()}  # up to these all have the same banks
        steps = (first_in_blocks(supply.board.word_bits, beat, V, some) for some in each)
        firsts = sorted(set().union(*steps), reverse=True)
    for first in firsts:
        yield first, last
        last = np.minimum(last, first - 2)


def _rows_from(first: int, supply: Supply, tiles: Tiles, samples: Ints) -> Ints:
    """The largest even T_R from ``first`` up to the T_R of each design, where logic never becomes less, or 0."""
    logic = supply.only(*OF_WORDS)
    last: Ints = tiles[0]
    if not logic:
        return last

    def fits(rows: Ints, at: Ints) -> Bools:
        return supply.demand(with_rows(tiles[:, at], rows), samples[at]).within(logic)

    ends = np.stack([np.full_like(last, first), last])
    some, all_ = fits(ends.ravel(), np.tile(np.arange(last.size), 2)).reshape(2, -1)
    rows, left = np.where(all_, last, 0), np.flatnonzero(some & ~all_)
    low, high = ends[:, left] // 2
    rows[left] = 2 * largest(low, high, lambda pairs, at: fits(2 * pairs, left[at]))
    return rows


def best_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Tiles:
    """The designs with every T_R with which each may be the best (docs/search.md, Pruning), if any lets it fit.

    Of all T_R that leave room for as many samples side by side the largest is the best.  So there is one for each power
    of two of samples, as far as they differ. Shapes: ``tiles`` (5, D), of one V and one W, with the largest T_R of
    each; returns (5, N).
    """
    return np.concatenate([_best_rows(supply, part, most_samples) for part in _parts(tiles)], axis=1)


def _parts(tiles: Tiles) -> list[Tiles]:
    return np.array_split(tiles, tiles.shape[1] // TOGETHER + 1, axis=1)


def _levels(supply: Supply, tiles: Tiles, most_samples: int) -> Ints:
    """Samples side by side: 1, 2, 4, ..., or the most if they take nothing; at least what designs need.

    Shapes: returns (levels, D).
    """
    most = min(power_of_two(supply.wanted), most_samples)
    levels = [1] if supply.only(*OF_SAMPLES) else [most]
    while levels[-1] < most:
        levels.append(2 * levels[-1])
    samples: Ints = np.maximum(np.array(levels)[:, None], supply.needed.by(tiles))
    return samples


def most_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Ints:
    """The largest even T_R, up to the T_R of each design, by block RAMs with any number of samples side by side."""
    levels = _levels(supply, tiles, most_samples)
    rows: Ints = np.max([rows_by_blocks(supply, tiles, samples) for samples in levels], axis=0)
    return rows


def _every_sample(supply: Supply, tiles: Tiles, samples: Ints) -> Tiles:
    """Designs once for each number of samples, with the largest T_R by their blocks and by those of fewer samples."""
    every = np.tile(tiles, len(samples))
    rows = rows_by_blocks(supply, every, samples.ravel()).reshape(samples.shape)
    return with_rows(every, np.minimum.accumulate(rows).ravel())


def _best_rows(supply: Supply, tiles: Tiles, most_samples: int) -> Tiles:
    """As :func:`best_rows`, of a few designs."""
    samples = _levels(supply, tiles, most_samples)
    every = _every_sample(supply, tiles, samples)
    rows = _rows_by_logic(supply, every, samples.ravel()).reshape(samples.shape)
    differ = rows > 0
    differ[1:] &= rows[1:] < rows[:-1]
    return with_rows(every, rows.ravel())[:, differ.ravel()]


class Ranges(NamedTuple):
    """Designs with several T_R each: all even ones between two, over which nothing that is counted becomes less."""

    first: Ints  # (N,), the smallest T_R
    tiles: Tiles  # (5, N), with the largest
    samples: Ints  # (N,), side by side, at most

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All ranges of several parts."""
        return cls(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))

    def at(self, places: NDArray[Any]) -> Self:
        """The ranges at some places."""
        return type(self)(*(each[..., places] for each in self))

    @property
    def smallest(self) -> Tiles:
        """The designs with the smallest T_R. Shapes: returns (5, N)."""
        return with_rows(self.tiles, self.first)


def every_row(supply: Supply, tiles: Tiles, most_samples: int, *, fewer_samples: bool) -> Ranges:
    """Each even T_R of each design that fits, or with ``fewer_samples`` one for each number it has room for."""
    parts = [_every_row(supply, part, most_samples, fewer_samples) for part in _parts(tiles)]
    return Ranges.joined(parts)


def _every_row(supply: Supply, tiles: Tiles, most_samples: int, fewer_samples: bool) -> Ranges:
    """As :func:`every_row`, of a few designs."""
    samples, ranges = _levels(supply, tiles, most_samples), list[Ranges]()
    again = np.vstack([np.zeros(tiles.shape[1], np.bool_), samples[1:] == samples[:-1]])
    every = _every_sample(supply, tiles, samples)
    for first, last in _between_steps(supply, every, samples):
        rows = np.zeros_like(last)
        left = np.flatnonzero(last >= first)
        rows[left] = _rows_from(first, supply, with_rows(every, last)[:, left], samples.ravel()[left])
        low = np.full_like(samples, first)
        if not fewer_samples:  # up to these there is room for twice the samples
            low[:-1] = np.maximum(first, rows.reshape(samples.shape)[1:] + 2) * ~again[1:] + first * again[1:]
        some = (rows >= low.ravel()) & ~again.ravel()
        ranges.append(Ranges(low.ravel(), with_rows(every, rows), samples.ravel()).at(some))
    return Ranges.joined(ranges)
