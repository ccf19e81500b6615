"""A network in the form the kernels take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models import Gemm


class Workload(NamedTuple):
    """Layers as arrays.

    Attributes
    ----------
    gemms : (L, 4) ndarray of float64
        R, P, C, groups.
    repeats : (L,) ndarray of float64
        How often each occurs.
    single_row : (L,) ndarray of int64
        1 where R = 1: the list of layouts the layer chooses from.
    """

    gemms: NDArray[np.float64]
    repeats: NDArray[np.float64]
    single_row: NDArray[np.int64]


def workload(gemms: Sequence[Gemm]) -> Workload:
    """Layers as they come."""
    array = np.array(gemms, dtype=np.float64).reshape(-1, 4)
    return Workload(array, np.ones(len(array)), (array[:, 0] == 1).astype(np.int64))


def distinct(gemms: Sequence[Gemm]) -> Workload:
    """Equal layers once, in order of first appearance."""
    counts = Counter(gemms)
    return workload(list(counts))._replace(repeats=np.array(list(counts.values()), dtype=np.float64))
