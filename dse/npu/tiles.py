"""Designs and arrays of designs: which sizes a design has, and in which order.

An array of D designs has the shape (5, D): a row for each size, in the order of :class:`Tile`.  Every function that
takes designs takes such an array, so that ``T_R, T_P, T_C, V, W = tiles`` reads it; most take a :class:`Tile` as well.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ...formats.array_types import Floats, Ints
from ...models.network import Count

Tiles = Ints
"""Designs. Shapes: (5, D), the sizes of :class:`Tile` in its order."""

FEWEST_ROWS = 2
"""The fewest rows of a design: T_R is even, so that stacking halves it."""

K_CODES = 3
"""Stacking codes: k = 1, 2, 1/2 in this order, which is also the order of preference on a tie."""

STACKING = np.array([[1.0, 0.5, 0.5], [1.0, 2.0, 0.5], [1.0, 0.5, 2.0], [1.0, 1.0, 1.0]])
"""Factors of T_R, T_P, T_C and V under each stacking code: <floor(T_R/2), k*T_P, floor(T_C/k)> (Section III-A)."""


class Tile(NamedTuple):
    """A design <T_R, T_P, T_C>: T_C processing elements, each a tree of T_P MACs, T_R rows deep.

    It works on V rows (output pixels) side by side, each with such an array; they share the weights.  W is the words of
    a beat of its port, or 0 for all words of the board's port.
    """

    T_R: Count
    T_P: Count
    T_C: Count
    V: Count = 1  # a design of the paper states neither this nor W
    W: Annotated[int, Field(ge=0)] = 0

    def __str__(self) -> str:
        return f"<{','.join(map(str, self.stated))}>"

    @property
    def stated(self) -> tuple[int, ...]:
        """Its numbers; V and W only where they are not the default."""
        return self if self.W else self[:4] if self.V > 1 else self[:3]

    @property
    def names(self) -> str:
        """Their names, as the design is printed."""
        return f"<{','.join(self.by_name)}>"

    @property
    def by_name(self) -> dict[str, int]:
        """The same by their names."""
        return dict(zip(self._fields, self.stated, strict=False))

    @property
    def array(self) -> Tiles:
        """The design as an array of one. Shapes: returns (5, 1)."""
        return np.array(self, np.int64)[:, None]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a cycle with every unit busy."""
        return int(macs_of(self))

    def buffer_bits(self, word_bits: int) -> int:
        """On-chip bits of its buffers."""
        return int(buffer_bits(word_bits, self))


def tiles_of(tiles: Tiles) -> list[Tile]:
    """Each design of an array."""
    return [Tile(*sizes) for sizes in tiles.T.tolist()]


def macs_of(tiles: Tiles | Tile) -> Any:
    """Multiply-accumulates of a cycle of designs with every unit busy."""
    _, T_P, T_C, V, _ = tiles
    return T_P * T_C * V


def buffer_bits(word_bits: int, tiles: Tiles | Tile) -> Any:
    """On-chip bits of the input, weight and output buffers of designs, each doubled (Section II-C)."""
    T_R, T_P, T_C, _, _ = tiles
    return 2 * word_bits * (T_R * T_P + T_P * T_C + T_R * T_C)


def with_rows(tiles: Tiles, T_R: Any) -> Tiles:
    """Designs with another T_R."""
    return np.stack(np.broadcast_arrays(T_R, *tiles[1:]))


def stacked(tiles: Tiles, codes: int = K_CODES) -> Floats:
    """T_R, T_P, T_C and V of D designs under each stacking code. Shapes: ``tiles`` (5, D), returns (4, codes, D)."""
    return np.floor(STACKING[:, :codes, None] * tiles[: len(STACKING), None])
