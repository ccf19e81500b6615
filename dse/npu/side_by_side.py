"""Samples side by side: the samples of a batch that one tile of columns touches.

A layout with B_P samples side by side lays the columns of all of them out in a row, and cuts the row into tiles of T_C
columns.  A tile that touches several samples needs the same row of the input of each in the same cycle: each multiplier
chooses among the words of these samples, and each sample needs banks of inputs of its own.  So a batch needs some
samples side by side (:class:`Needed`), and a design can have some at most (:func:`most_samples`); both are powers of
two, because the engine addresses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...formats.array_types import Bools, Ints
from .tiles import Tile, Tiles


class Needed(NamedTuple):
    """Samples side by side that a design must have: of the only layout of its largest batch.

    By default a design may leave layouts out, because all samples can lie down the rows.
    """

    samples: int = 1
    columns: int = 1  # of the product that has the fewest

    def by(self, tiles: Tiles | Tile) -> Any:
        """Samples that each of some designs must have: as many as a tile of its columns touches at most."""
        T_C = np.asarray(tiles[2])
        if self.samples == 1:
            return np.ones_like(T_C)
        touched = np.minimum(np.maximum(T_C, 1), np.maximum(T_C - 2, 0) // self.columns + 2)
        return 2 ** np.ceil(np.log2(np.minimum(self.samples, touched))).astype(np.int64)


NONE_NEEDED = Needed()


def power_of_two(samples: int) -> int:
    """The least power of two that is not less."""
    return 1 << (samples - 1).bit_length()


def by_banks(words: ArrayLike, V: ArrayLike) -> Ints:
    """Most samples of designs with V pixels, each of whose rows lies in another bank of inputs of a port's words.

    Designs of one pixel may have more samples than the port has words, and have more banks then.
    """
    V, banks = np.asarray(V, np.int64), np.asarray(words, np.int64)
    return np.where(V > 1, np.maximum(banks // V, 1), np.iinfo(np.int64).max)


def most_samples(words: ArrayLike, tiles: Tiles, wanted: int, fits: Callable[[Ints], Bools] | None = None) -> Ints:
    """The most samples side by side that designs can have, by their banks of inputs and by the board's resources.

    ``fits`` tells which designs fit their board with numbers of samples, from shape (N, 1) to (N, D); otherwise all do.
    A design must fit with fewer samples, too, as its layouts may have them. Shapes: ``words`` (D,), ``tiles`` (5, D),
    returns (D,), from 1 to ``wanted``.
    """
    most = np.minimum(by_banks(words, tiles[3]), wanted)
    if fits is not None:
        steps = 2 ** np.arange((wanted - 1).bit_length() + 1)[:, None]
        fitting = np.logical_and.accumulate(fits(steps), axis=0)
        most = np.minimum(most, np.max(np.where(fitting, steps, 1), axis=0))
    return most


def touched_samples(gemms: Iterable[Any], tiles: Iterable[Any], layouts: Iterable[Any]) -> int:
    """Most samples that a tile of columns touches in some layouts. Shapes: (G, 4), (G, b_max, 4), (G, b_max, 4)."""
    from .kernels import shape_of  # here, because reading a design needs no numba

    return max(
        int(shape_of(gemm, tile, layout)[0])
        for gemm, of_batches, chosen in zip(gemms, tiles, layouts, strict=True)
        for tile, layout in zip(of_batches, chosen, strict=True)
    )
