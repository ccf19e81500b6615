"""Costs of SubNets on an accelerator, with and without resident weights: the typed face of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Bools, Floats, Ints
from ...models.supernets.sharing import shared
from ...platforms import Accelerator, Depthwise
from ...tables.subgraphs import Maps, StageB
from .recipes import uniform_cut

KIB = 1024


class SubNetArrays(NamedTuple):
    """N SubNets as arrays over L layers."""

    extents: Ints  # (N, 4, L): K, C, R, Q
    inputs: Ints  # (N, L), values of the input map
    outputs: Ints  # (N, L), values of the output map
    depthwise: Bools  # (L,)

    @property
    def boxes(self) -> Ints:
        """K, C, R of each layer, (N, 3, L)."""
        return np.ascontiguousarray(self.extents[:, :3])

    @property
    def weights(self) -> Ints:
        """Weights of each layer, (N, L)."""
        K, C, R = np.moveaxis(self.boxes, 1, 0)
        counts: Ints = K * C * R**2
        return counts


class Pairs(NamedTuple):
    """Costs by SubNet and SubGraph, by the fields of ``SubGraphTable``; the first SubGraph is empty."""

    time_s: Floats  # (G, N, M), also by size of the array
    off_chip_bytes: Floats  # (N, M)
    resident_bytes: Floats  # (N, M)
    hit_ratio: Floats  # (N, M)


def map_bytes(work: SubNetArrays, accelerator: Accelerator, maps: Maps) -> Floats:
    """Bytes of feature maps that each layer of each SubNet moves off chip. Shapes: returns (N, L)."""
    size = accelerator.word_bits / 8
    inputs, outputs = work.inputs * size, work.outputs * size
    if maps is Maps.NONE:
        return np.zeros_like(inputs)
    if maps is Maps.ALL:
        return inputs + outputs
    room = accelerator.streaming_kib * KIB
    read = np.where(inputs > room, inputs, 0.0) if maps is Maps.SPILLED else np.zeros_like(inputs)
    first = np.arange(len(inputs)), (work.weights > 0).argmax(axis=1)
    read[first] = inputs[first]  # the input of the network comes from off chip, whatever its size
    return read + np.where(outputs > room, outputs, 0.0)


def compute_s(work: SubNetArrays, accelerator: Accelerator, arrays: Sequence[tuple[int, int]] | None = None) -> Floats:
    """Computing time of each layer, by size of the array. Shapes: returns (G, N, L)."""
    from . import kernels as subgraph_kernels

    sizes = np.array(arrays or [(accelerator.K_P, accelerator.C_P)], dtype=np.int64)
    cycles = np.empty((len(sizes), len(work.extents), len(work.depthwise)))
    full = accelerator.depthwise is Depthwise.FULL
    subgraph_kernels.count_cycles(work.extents, work.depthwise, sizes, full, cycles)
    return cycles / accelerator.clock_hz


def tabulate(
    work: SubNetArrays,
    accelerator: Accelerator,
    subgraphs: Ints,
    maps: Maps,
    stage_b: StageB,
    arrays: Sequence[tuple[int, int]] | None = None,
) -> Pairs:
    """Costs of every SubNet with every SubGraph, and with none. Shapes: ``subgraphs`` (M, 3, L).

    With an empty buffer and stage B exposed (SUSHI, Fig. 9a), weights that all SubNets share and that fit the buffer
    are fetched before each query: T_0 = T_PB + bytes / bandwidth, where T_PB is the time with these bytes resident.
    """
    from . import kernels as subgraph_kernels

    size, boxes = accelerator.word_bits / 8, work.boxes
    common = uniform_cut(shared(boxes), capacity(accelerator))
    every = np.concatenate([np.zeros_like(common)[None], subgraphs, common[None]])
    moved, times = map_bytes(work, accelerator, maps), compute_s(work, accelerator, arrays)
    pairs = len(boxes), len(every)
    sums = subgraph_kernels.PairSums(np.empty((len(times), *pairs)), np.empty(pairs), np.empty(pairs))
    rate = accelerator.bytes_per_s
    subgraph_kernels.tabulate_pairs(times, boxes, moved, every, size, rate, sums)
    time_s, used, overlap = sums
    if stage_b is StageB.EXPOSED:
        time_s[:, :, 0] = time_s[:, :, -1] + used[:, -1] / rate
    whole = (work.weights * size + moved).sum(axis=1)
    norm = np.sqrt((boxes[:, :2].astype(np.float64) ** 2).sum(axis=(1, 2)))
    last = slice(None, -1)
    return Pairs(
        time_s[:, :, last], whole[:, None] - used[:, last], used[:, last], np.sqrt(overlap[:, last]) / norm[:, None]
    )


def capacity(accelerator: Accelerator) -> int:
    """Weights that the persistent buffer holds."""
    return int(accelerator.persistent_kib * KIB * 8 // accelerator.word_bits)
