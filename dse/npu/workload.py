"""A network in the form the kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models import Gemm, Network
from .space import LayerKind


class LayerArrays(NamedTuple):
    """U distinct layers as arrays."""

    gemms: NDArray[np.float64]  # (U, 4), R, P, C, groups
    kinds: NDArray[np.int64]  # (U,), LayerKind: selects the list of layouts
    repeats: NDArray[np.float64]  # (U, S), occurrences in each stage
    memory_words: NDArray[np.float64]  # (S,), moved for each sample by the memory-only layers of each stage
    fetched: NDArray[np.float64]  # (U,), share of the weights that is fetched; the rest stays in a persistent buffer


def fetched_shares(network: Network, room: int) -> list[float]:
    """Share of each product's weights that is fetched if those of the first layers stay on the chip."""
    shares = []
    for layer in network.layers:
        if layer.gemm is None:
            continue
        weights = 0 if layer.per_sample else layer.gemm.P * layer.gemm.C * layer.gemm.groups
        stays = min(weights, room)
        room -= stays
        shares.append(1 - stays / weights if weights else 1.0)
    return shares


def distinct(network: Network, *, memory_layers: bool = True, room: int = 0) -> tuple[LayerArrays, NDArray[np.int64]]:
    """Equal layers once, in order of first appearance."""
    stages = len(network.exits)
    words = np.zeros(stages)
    for layer in network.layers:
        words[layer.stage - 1] += layer.memory_words * memory_layers
    products = [layer for layer in network.layers if layer.gemm]
    index: dict[tuple[Gemm | None, bool, float], int] = {}
    shares = fetched_shares(network, room)
    keys = [(layer.gemm, layer.per_sample, share) for layer, share in zip(products, shares, strict=True)]
    rows = np.array([index.setdefault(key, len(index)) for key in keys])
    fetched = np.array([key[2] for key in index])
    first = [products[row] for row in np.unique(rows, return_index=True)[1]]
    repeats = np.zeros((len(index), stages))
    for row, layer in zip(rows, products, strict=True):
        repeats[row, layer.stage - 1] += 1
    gemms = np.array([layer.gemm for layer in first], dtype=np.float64)
    kinds = np.array([LayerKind.of(layer) for layer in first], dtype=np.int64)
    return LayerArrays(gemms, kinds, repeats, words, fetched), rows
