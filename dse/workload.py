"""A network in the form the kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models import Network
from .space import LayerKind


class Work(NamedTuple):
    """Layers as arrays.

    Attributes
    ----------
    gemms : (U, 4) ndarray of float64
        R, P, C, groups.
    kinds : (U,) ndarray of int64
        Their :class:`.space.LayerKind`: the list of layouts each chooses from.
    repeats : (U, S) ndarray of float64
        How often each occurs in each stage.
    memory_words : (S,) ndarray of float64
        Words that each stage's memory-only layers move for each sample.
    """

    gemms: NDArray[np.float64]
    kinds: NDArray[np.int64]
    repeats: NDArray[np.float64]
    memory_words: NDArray[np.float64]


def distinct(network: Network, *, memory_layers: bool = True) -> tuple[Work, NDArray[np.int64]]:
    """Equal layers once, in order of first appearance.

    Parameters
    ----------
    network : Network
        What runs, heads included.
    memory_layers : bool
        Whether memory-only layers move words.

    Returns
    -------
    work : Work
        U distinct layers.
    rows : (L,) ndarray of int64
        Where each of the network's products stands among them.
    """
    stages = len(network.exits)
    words = np.zeros(stages)
    for layer in network.layers:
        words[layer.stage - 1] += layer.memory_words * memory_layers
    products = [layer for layer in network.layers if layer.gemm]
    index: dict[object, int] = {}
    rows = np.array([index.setdefault((layer.gemm, layer.per_sample), len(index)) for layer in products])
    first = [products[row] for row in np.unique(rows, return_index=True)[1]]
    repeats = np.zeros((len(index), stages))
    for row, layer in zip(rows, products, strict=True):
        repeats[row, layer.stage - 1] += 1
    gemms = np.array([layer.gemm for layer in first], dtype=np.float64)
    return Work(gemms, np.array([LayerKind.of(layer) for layer in first], dtype=np.int64), repeats, words), rows
