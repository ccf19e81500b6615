"""Layers of integers as the engine runs them: products, and pools as products with equal weights."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ..engine import SUM_BITS
from .network import (
    HIGH,
    LOW,
    WORD_TYPE,
    AveragePool,
    ConcatLayer,
    FlattenLayer,
    IntegerLayer,
    IntegerNetwork,
    Integers,
    MaxPool,
    ProductLayer,
)
from .reference import largest_sum
from .window import Window

EngineLayer = ProductLayer | AveragePool | MaxPool


class LayerJob(NamedTuple):
    """A layer as the engine runs it, at any batch size."""

    window: Window  # how it reads the map of a group, the channel of the constant among it
    # output channels of a group, and groups
    C: int
    groups: int
    weights: Integers  # (groups or 1, P, C): with which it multiplies; one copy if all groups have the same
    # how its sums become words
    shift: int
    low: int
    high: int
    maximum: bool = False  # whether the largest product counts, and not their sum


def job_of(network: IntegerNetwork, layer: EngineLayer) -> LayerJob:
    """What the engine does to compute a layer.

    A pool is a product of each channel alone, with equal weights; if its window is the whole map, of all channels as
    rows.
    """
    if isinstance(layer, ProductLayer):
        window, columns = network.window(layer), layer.shape[0] // layer.groups
        weights = network.weights[layer.name]
        return LayerJob(window, columns, layer.groups, weights, layer.shift, layer.low, layer.high)
    channels, size = layer.shape[0], network.size(layer.inputs[0])[1:]
    window = Window(1, size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation)
    if window.along_P:
        words = window.P
        window, channels = Window(1, (channels, words), (1, words), (channels, 1), (1, words), in_rows=True), 1
    factor, shift = (layer.factor, layer.shift) if isinstance(layer, AveragePool) else (1, 0)
    weights = np.full((1, window.P, 1), factor, WORD_TYPE)
    return LayerJob(window, 1, channels, weights, shift, LOW, HIGH, maximum=isinstance(layer, MaxPool))


def on_engine(layer: IntegerLayer, network: IntegerNetwork) -> TypeGuard[EngineLayer]:
    """Whether the engine computes a layer: a product, or a pool that it can."""
    if isinstance(layer, ProductLayer):
        return True
    if not isinstance(layer, AveragePool | MaxPool) or math.prod(layer.dilation) > 1:
        return False
    if isinstance(layer, AveragePool):
        return largest_sum(job_of(network, layer).weights) >> (SUM_BITS - 1) == 0
    # what lies beyond a map is 0, so no input may be less, and no window may lie beyond it as a whole
    size = network.size(layer.inputs[0])[1:]
    ways = zip(layer.shape[1:], layer.stride, layer.pad, layer.kernel, size, strict=True)
    inside = all(pad < kernel and (outputs - 1) * stride - pad < most for outputs, stride, pad, kernel, most in ways)
    return inside and not_negative(network, layer.inputs[0])


def not_negative(network: IntegerNetwork, name: str) -> bool:
    """Whether a map is known to hold no value below 0."""
    layer: Any = None if name == "input" else network.layer(name)
    if isinstance(layer, AveragePool | ConcatLayer | FlattenLayer | MaxPool):
        return all(not_negative(network, source) for source in layer.inputs)
    return layer is not None and int(layer.low) >= 0


def engine_layers(network: IntegerNetwork) -> list[EngineLayer]:
    """The layers that the engine computes, in execution order."""
    return [layer for layer in network.layers if on_engine(layer, network)]
