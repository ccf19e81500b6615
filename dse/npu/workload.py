"""A network in the form the kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import memoized
from ...models import Gemm, Layer, Network
from .layouts import LayerKind


class LayerArrays(NamedTuple):
    """U distinct layers as arrays."""

    gemms: NDArray[np.float64]  # (U, 4), R, P, C, groups
    kinds: NDArray[np.int64]  # (U,), LayerKind: selects the list of layouts
    repeats: NDArray[np.float64]  # (U, S), occurrences in each stage
    memory_words: NDArray[np.float64]  # (S,), moved for each sample by the memory-only layers of each stage
    fetched: NDArray[np.float64]  # (U,), share of the weights that is fetched; the rest stays in a persistent buffer
    sources: NDArray[np.float64]  # (U, 2), line and stride of :class:`fluidb.models.Layer`


def fetched_shares(network: Network, room: int) -> list[float]:
    """Share of each product's weights that is fetched if those of the first layers stay on the chip."""
    if not room:
        return [1.0] * len(network.gemms)
    shares = []
    for layer in network.layers:
        if layer.gemm is None:
            continue
        weights = 0 if layer.per_sample else layer.gemm.P * layer.gemm.C * layer.gemm.groups
        stays = min(weights, room)
        room -= stays
        shares.append(1 - stays / weights if weights else 1.0)
    return shares


@memoized
def distinct(network: Network, *, memory_layers: bool = True, room: int = 0) -> tuple[LayerArrays, NDArray[np.int64]]:
    """Equal layers once, in order of first appearance."""
    words = np.zeros(len(network.exits))
    index: dict[tuple[Gemm, bool, int, int, float], int] = {}
    first: list[Layer] = []
    repeats: list[list[int]] = []
    rows: list[int] = []
    shares = iter(fetched_shares(network, room))
    for layer in network.layers:
        if layer.gemm is None:
            words[layer.stage - 1] += layer.memory_words * memory_layers
            continue
        row = index.setdefault((layer.gemm, layer.per_sample, layer.line, layer.stride, next(shares)), len(index))
        if row == len(first):
            first.append(layer)
            repeats.append([0] * len(words))
        repeats[row][layer.stage - 1] += 1
        rows.append(row)
    gemms, _, lines, strides, fetched = zip(*index, strict=True)
    kinds = np.array([LayerKind.of(layer) for layer in first], dtype=np.int64)
    sources = zip(lines, strides, strict=True)
    figures = (np.array(list(values), dtype=np.float64) for values in (repeats, words, fetched, sources))
    return LayerArrays(np.array(gemms, dtype=np.float64), kinds, *figures), np.array(rows)
