"""Pad or split: the reorganisation of a batch of unequal samples (BatchCond, Section III-B), on plain arrays.

Where some samples of a batch have terminated, or need a smaller width than others, the device either carries them along
(it *pads*) or runs the others in smaller batches (it *splits*).

Times are in seconds.  An array by batch size has the batch sizes 0..b_max, and 0 at batch size 0.  Widths are numbered
from the widest, as the variants of a latency table are.
"""

from __future__ import annotations

import numpy as np

from ..formats.array_types import Bools, Floats, Ints
from ..jit import compiled

NEARLY_FULL = 0.95
"""Share of the largest throughput that counts as full; BatchCond says "fully utilizes the hardware"."""


@compiled()
def split_pays(pad_s: float, split_s: float, gather_s: float) -> bool:
    """True if gathering the samples that stay pays for the next stage (Equation 1); a tie pads."""
    return pad_s > split_s + gather_s  # Equation (1)


@compiled()
def decision_map(time_s: Floats, gather_s: Floats) -> Bools:
    """Equation (1) at every decision point, for every batch.

    Shapes: ``time_s`` (P, b_max + 1), ``gather_s`` (P, b_max + 1), returns (P, b_max + 1, b_max + 1).
    """
    points, sizes = time_s.shape
    split = np.zeros((points, sizes, sizes), dtype=np.bool_)
    for point in range(points):
        for places in range(1, sizes):
            for terminated in range(places + 1):
                staying = places - terminated
                split[point, places, terminated] = split_pays(
                    time_s[point, places], time_s[point, staying], gather_s[point, staying]
                )
    return split


@compiled()
def ideal_batch_sizes(time_s: Floats) -> Ints:
    """Smallest batch that fills the device, for every width: the first whose throughput is nearly the largest.

    Shapes: ``time_s`` (W, b_max + 1), returns (W,).
    """
    widths, sizes = time_s.shape
    ideal = np.ones(widths, dtype=np.int64)
    for width in range(widths):
        largest = 0.0
        for batch in range(1, sizes):
            largest = max(largest, batch / time_s[width, batch])
        while ideal[width] / time_s[width, ideal[width]] < NEARLY_FULL * largest:
            ideal[width] += 1
    return ideal


@compiled()
def fill_sub_batches(sizes: Ints, ideal: Ints) -> None:
    """Algorithm 1: fill sub-batches that are too small with samples of smaller widths, in place.

    Mended: as printed it begins with j = i and may move more samples than there are.
    """
    for i in range(sizes.size):  # by decreasing width
        if sizes[i] == 0:
            continue
        for j in range(i + 1, sizes.size):
            moved = min(max(ideal[i] - sizes[i], 0), sizes[j])
            sizes[i] += moved
            sizes[j] -= moved


@compiled()
def reorganise_widths(sizes: Ints, time_s: Floats, gather_s: Floats, ideal: Ints, into: Ints) -> int:
    """Cut a batch of several widths into sub-batches by Algorithm 1, or pad it, whichever is faster (Equation 2).

    The samples lie by decreasing width; a sub-batch is a run of them, at the width of its first sample.

    Shapes: ``sizes`` (W,), ``time_s`` (W, b_max + 1), ``gather_s`` (b_max + 1,), ``ideal`` (W,), ``into`` (B,).
    """
    filled = sizes.copy()
    fill_sub_batches(filled, ideal)
    widest, total, count, split_s = 0, sizes.sum(), 0, 0.0
    while sizes[widest] == 0:
        widest += 1
    for width in range(widest, sizes.size):
        size = filled[width]
        if size > 0:
            into[count] = size
            count += 1
            split_s += time_s[width, size] + gather_s[size]  # Equation (2), with the gather
    if time_s[widest, total] <= split_s:
        into[0] = total
        return 1
    return count


@compiled()
def partition(sizes: Ints, time_s: Floats, gather_s: Floats, into: Ints) -> int:
    """Cut a batch of several widths into the sub-batches that take the least time, by dynamic programming, O(B^2).

    Only runs of the samples by decreasing width need to be tried: if a larger width never takes less time, then
    filling sub-batches of given sizes in this order makes no sub-batch wider than any other order does.
    """
    total, samples = sizes.sum(), 0
    width_of = np.empty(total, dtype=np.int64)
    for width in range(sizes.size):
        for _ in range(sizes[width]):
            width_of[samples] = width
            samples += 1
    best_s = np.full(total + 1, np.inf)  # least time of the first samples, in sub-batches that are gathered
    begin_of = np.zeros(total + 1, dtype=np.int64)  # where the last of these sub-batches begins
    best_s[0] = 0.0
    for end in range(1, total + 1):
        for begin in range(end):
            size = end - begin
            time = best_s[begin] + time_s[width_of[begin], size] + gather_s[size]
            if time < best_s[end]:
                best_s[end], begin_of[end] = time, begin
    if time_s[width_of[0], total] <= best_s[total]:
        into[0] = total
        return 1
    count, end = 0, total
    while end > 0:
        into[count] = end - begin_of[end]
        end = begin_of[end]
        count += 1
    for k in range(count // 2):  # one by one: an array in a slice takes four seconds to compile
        into[k], into[count - 1 - k] = into[count - 1 - k], into[k]
    return count
