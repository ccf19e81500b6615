"""The cost model of an accelerator with a persistent buffer, compiled (SUSHI; docs/sushi.md).

Each of L layers of a SubNet has K kernels of C channels and R x R, and Q output positions; a SubGraph has K, C and R, 0
where it lacks a layer.  The array computes K_P kernels of C_P channels side by side, nine products each.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit import compiled

# numpy's error model divides without a test for zero, which no vector loop could carry
kernel = compiled(error_model="numpy")


@kernel
def count_cycles(extents, depthwise, arrays, full, cycles):
    """Fill in the cycles of each layer of each SubNet, on each size of the array.

    With ``full``, a depthwise layer uses the whole array, else one row of it.

    Shapes: ``extents`` (N, 4, L) with K, C, R, Q, ``depthwise`` (L,), ``arrays`` (G, 2) with K_P, C_P, ``cycles``
    (G, N, L).
    """
    for g in range(len(arrays)):
        K_P, C_P = arrays[g, 0], arrays[g, 1]
        for n in range(len(extents)):
            for l in range(len(depthwise)):  # noqa: E741  (the layer)
                K, C, R, Q = extents[n, 0, l], extents[n, 1, l], extents[n, 2, l], extents[n, 3, l]
                # SUSHI, Section 4.2.1: a large kernel is a series of 3x3, and 1x1 has nine channels in a DPE
                windows = -(-R * R // 9)
                if depthwise[l]:
                    steps = -(-K // (K_P * C_P) if full else -K // K_P) * windows
                elif R == 1:
                    steps = (-(-K // K_P)) * (-(-C // (9 * C_P)))
                else:
                    steps = (-(-K // K_P)) * (-(-C // C_P)) * windows
                cycles[g, n, l] = steps * Q


class PairSums(NamedTuple):
    """Sums over the layers, of each SubNet with each SubGraph resident."""

    time_s: NDArray[np.float64]  # (G, N, M), of max(compute, off-chip bytes / bandwidth)
    used: NDArray[np.float64]  # (N, M), resident bytes that the SubNet uses
    overlap: NDArray[np.float64]  # (N, M), squares of K and C that both have, for the hit ratio (SUSHI, Appendix A.4)


@kernel
def tabulate_pairs(compute_s, boxes, maps, subgraphs, bytes_of_weight, bytes_per_s, sums):
    """Fill in ``sums``, a :class:`PairSums`.

    Shapes: ``compute_s`` (G, N, L), ``boxes`` (N, 3, L) and ``subgraphs`` (M, 3, L) with K, C, R, ``maps`` (N, L) in
    bytes off chip.
    """
    layers = boxes.shape[2]
    moved_s = np.empty(layers)
    for n in range(len(boxes)):
        for m in range(len(subgraphs)):
            used, squares = 0.0, 0.0
            for l in range(layers):  # noqa: E741  (the layer)
                K, C, R = boxes[n, 0, l], boxes[n, 1, l], boxes[n, 2, l]
                k, c, r = min(K, subgraphs[m, 0, l]), min(C, subgraphs[m, 1, l]), min(R, subgraphs[m, 2, l])
                resident = bytes_of_weight * (k * c * r * r)
                moved_s[l] = (bytes_of_weight * (K * C * R * R) + maps[n, l] - resident) / bytes_per_s
                used += resident
                if resident > 0:
                    squares += k * k + c * c
            sums.used[n, m], sums.overlap[n, m] = used, squares
            for g in range(len(compute_s)):
                total = 0.0
                for l in range(layers):  # noqa: E741  (the layer)
                    total += max(compute_s[g, n, l], moved_s[l])
                sums.time_s[g, n, m] = total
