"""A network in the form the kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models import Gemm, Network
from .space import LayerKind


class Workload(NamedTuple):
    """Layers as arrays.

    Attributes
    ----------
    gemms : (L, 4) ndarray of float64
        R, P, C, groups.
    kinds : (L,) ndarray of int64
        Their :class:`.space.LayerKind`: the list of layouts each chooses from.
    """

    gemms: NDArray[np.float64]
    kinds: NDArray[np.int64]


def workload(gemms: Sequence[Gemm]) -> Workload:
    """Layers as they come."""
    array = np.array([gemm[:4] for gemm in gemms], dtype=np.float64).reshape(-1, 4)
    return Workload(array, np.array([LayerKind.of(gemm) for gemm in gemms], dtype=np.int64))


def distinct(network: Network) -> tuple[Workload, NDArray[np.float64]]:
    """Equal layers once, in order of first appearance.

    Returns
    -------
    work : Workload
        U distinct layers.
    repeats : (U, S) ndarray of float64
        How often each occurs in each stage.
    """
    pairs = [(layer.gemm, layer.stage) for layer in network.layers if layer.gemm]
    index = {gemm: i for i, gemm in enumerate(dict.fromkeys(gemm for gemm, _ in pairs))}
    repeats = np.zeros((len(index), len(network.exits)))
    for gemm, stage in pairs:
        repeats[index[gemm], stage - 1] += 1
    return workload(list(index)), repeats
