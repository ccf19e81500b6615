"""Weights of SubNets, as boxes in the weights of their SuperNet, and the weights that SubNets share.

A SubNet has the first K kernels of a layer, of each the first C channels, and of each the middle of R x R; and of each
stage the first blocks.  So the common part of several SubNets in a layer is a box too, with the smallest sides (SUSHI,
Section 2.1).  once-for-all transforms the middle of a larger kernel by a small matrix; as in the paper, it counts as
the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...formats import InputError
from ...formats.array_types import Ints
from ..lowering import lower_all
from ..schema import Conv, Linear, NetworkFile, inputs_of
from .layout import subnet_file
from .schema import SubNet, SuperNetFile


class Slot(NamedTuple):
    """A layer with weights of the SuperNet."""

    name: str  # the same in every SubNet that has it
    side: int  # of its largest kernel
    depthwise: bool  # each kernel has one channel, its own


class Extents(NamedTuple):
    """A SubNet's part of each layer of its SuperNet, each (L,); 0 where it lacks the layer."""

    K: Ints  # kernels
    C: Ints  # channels of each
    R: Ints  # side of a kernel
    Q: Ints  # output positions, H_o W_o
    inputs: Ints  # values of the input map
    outputs: Ints

    @property
    def weights(self) -> Ints:
        """Weights of each layer."""
        return self.K * self.C * self.R**2

    @property
    def macs(self) -> Ints:
        """MACs of each layer for one sample."""
        return self.weights * self.Q

    @property
    def boxes(self) -> Ints:
        """K, C and R of each layer, as (3, L)."""
        return np.stack([self.K, self.C, self.R])


def slots_of(file: SuperNetFile, path: Path, *, leave_out: Iterable[str] = ()) -> list[Slot]:
    """The layers with weights of a SuperNet, in execution order, without names that match ``leave_out``."""
    patterns = list(leave_out)
    layers = _layers(subnet_file(file, SubNet(name="largest"), path), path)
    return [
        Slot(name, side, bool(depthwise))
        for name, (_, _, side, *_, depthwise) in layers.items()
        if not any(fnmatch(name, pattern) for pattern in patterns)
    ]


def extents_of(network: NetworkFile, slots: Sequence[Slot], path: Path) -> Extents:
    """A SubNet's part of each layer; ``path`` is for faults."""
    layers = _layers(network, path)
    absent = (0,) * 7
    rows = np.array([layers.get(slot.name, absent)[:6] for slot in slots], dtype=np.int64)
    return Extents(*rows.reshape(-1, 6).T.copy())


def _layers(network: NetworkFile, path: Path) -> dict[str, tuple[int, ...]]:
    """K, C, R, Q, values of input and output map, and depthwise or not, of each layer with weights."""
    shapes, layers, faults = lower_all(network.layers, network.input.shape, f"{path}: layers")
    if faults:
        raise InputError(faults)
    products = {layer.name: layer.gemm for layer in layers if layer.gemm}
    extents: dict[str, tuple[int, ...]] = {}
    for op, names in zip(network.layers, inputs_of(network.layers), strict=True):
        if isinstance(op, Conv | Linear):
            side = op.kernel[0] if isinstance(op, Conv) else 1
            product, shape = products[op.name], shapes[op.name]
            words = shapes[names[0]].words, shape.words
            extents[op.name] = (op.out, product.P // side**2, side, shape.positions, *words, int(product.groups > 1))
    return extents


def shared(boxes: Sequence[Ints] | Ints) -> Ints:
    """The common part of SubNets or SubGraphs: of each layer the smallest K, C and R. Shapes: ``boxes`` (N, 3, L)."""
    least: Ints = np.minimum.reduce(list(boxes))
    return least


def weights_in(boxes: Ints) -> int:
    """Weights in K, C and R of all layers."""
    K, C, R = boxes
    return int((K * C * R**2).sum())
