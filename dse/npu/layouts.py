"""Layouts of a batch on a layer: which ones an engine has, and in which form the kernels take them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Ints
from ...models import Layer
from .choices import Batching
from .tiles import K_CODES


class LayerKind(IntEnum):
    """Kind of a layer, by which a batch may be laid out on it."""

    SHARED = 0  # all samples share the weights
    SINGLE_ROW = 1  # they do, and R = 1: a fully connected layer
    PER_SAMPLE = 2  # a product of two activations: each sample has both operands of its own
    POOL = 3  # all samples lie down the rows: maxima are found in the first column only

    @classmethod
    def of(cls, layer: Layer) -> LayerKind:
        """The kind of a layer with a product."""
        if layer.per_sample:
            return cls.PER_SAMPLE
        if layer.pool:
            return cls.POOL
        return cls.SINGLE_ROW if layer.gemm and layer.gemm.R == 1 else cls.SHARED


class Layouts(NamedTuple):
    """Choices of each layer, in the form that the kernels take."""

    table: Ints  # (N, 4), b, B_R, B_P, passes: a list for each kind of layer, ordered by b
    starts: Ints  # (kinds + 1,), of the list of each LayerKind, and the end of the last one
    codes: int  # stacking codes to try: 1 for k = 1 only, 3 for all
    literal: bool  # Equation (1) as printed
    fewest_rows: Ints  # (kinds, B_max), row of the layout with the smallest B_R


def one_by_one(batching: Batching, kind: LayerKind) -> bool:
    """True if an engine runs the samples of a batch one after the other on a kind of layer."""
    if kind is LayerKind.PER_SAMPLE or batching is Batching.NONE:
        return True
    if kind is LayerKind.POOL:
        return batching is Batching.COLUMN
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
    if (batching in (Batching.ROW, Batching.FC) or kind is LayerKind.POOL) and not one_by_one(batching, kind):
        rows = range(b, b + 1)
    if every and not one_by_one(batching, kind):
        return [(b, B_R, *arrange(batching, b, B_R, kind)) for B_R in rows]
    smallest = {arrange(batching, b, B_R, kind): B_R for B_R in reversed(rows)}
    return sorted((b, B_R, *rest) for rest, B_R in smallest.items())


@cache
def layouts_of(batching: Batching, b_max: int, *, stacking: bool = True, every: bool = False) -> Layouts:
    """Choices of each layer, for every batch size; ``every``: with every B_R, which counts if V > 1."""
    by_kind = [[_layouts(batching, b, kind, every=every) for b in range(1, b_max + 1)] for kind in LayerKind]
    ends = np.cumsum([[len(layouts) for layouts in batches] for batches in by_kind]).reshape(-1, b_max)
    fewest_rows = np.append(0, ends)[:-1].reshape(ends.shape)
    layouts = np.array([layout for batches in by_kind for layouts in batches for layout in layouts], dtype=np.int64)
    starts = np.append(0, ends[:, -1])
    return Layouts(layouts, starts, K_CODES if stacking else 1, batching is Batching.EQ1, fewest_rows)
