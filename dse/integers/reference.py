"""What each layer of a network of integers computes, bit by bit (docs/npu.md, Integers)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ..engine import SUM_BITS
from .network import (
    HIGH,
    LOW,
    WORD_TYPE,
    AddLayer,
    AveragePool,
    ClipLayer,
    ConcatLayer,
    IntegerExit,
    IntegerLayer,
    IntegerNetwork,
    Integers,
    MaxPool,
    ProductLayer,
)
from .window import Window


def encode(network: IntegerNetwork, samples: NDArray[Any]) -> Integers:
    """Samples as integers of 16 bits, rounded to the nearest; values that are too large saturate.

    Shapes: samples (N, C, H, W) or (N, C); returns (N, C, H, W).
    """
    values = samples.reshape(*samples.shape[:2], 1, 1) if samples.ndim == 2 else samples
    if values.shape[1:] != network.shape:
        sizes = " x ".join(map(str, samples.shape[1:]))
        raise InputError(f"samples: expected {' x '.join(map(str, network.shape))} values each, found {sizes}")
    if not np.isfinite(values).all():
        raise InputError("samples: expected finite numbers, found others")
    return np.clip(np.rint(values * 2.0**network.exponent), LOW, HIGH).astype(WORD_TYPE)


def scaled(sums: Ints, shift: int, low: int = LOW, high: int = HIGH) -> Integers:
    """Sums of 48 bits divided by 2**shift, rounded to the nearest, halves up; kept within bounds."""
    words: Integers = np.clip((sums + (1 << shift >> 1)) >> shift, low, high).astype(WORD_TYPE)
    return words


def neighbourhoods(maps: NDArray[Any], window: Window, beyond: float = 0) -> NDArray[Any]:
    """What a window sees at every output position; ``beyond`` lies outside of a map.

    Shapes: maps (..., channels, height, width); returns (..., channels, rows of the window, columns of the window, R),
    the positions R of the output line by line.
    """
    reach = [
        (outputs - 1) * stride + (kernel - 1) * dilation + 1
        for outputs, stride, kernel, dilation in zip(
            window.outputs, window.stride, window.kernel, window.dilation, strict=True
        )
    ]
    after = [max(n - pad - size, 0) for n, pad, size in zip(reach, window.pad, window.size, strict=True)]
    sides = [(0, 0)] * (maps.ndim - 2) + list(zip(window.pad, after, strict=True))
    padded = np.pad(maps, sides, constant_values=beyond)
    (lines, columns), (down, right) = window.outputs, window.stride
    windows = np.empty((*maps.shape[:-2], *window.kernel, window.R), maps.dtype)
    for i, j in np.ndindex(*window.kernel):
        y, x = i * window.dilation[0], j * window.dilation[1]
        seen = padded[..., y : y + (lines - 1) * down + 1 : down, x : x + (columns - 1) * right + 1 : right]
        windows[..., i, j, :] = seen.reshape(*maps.shape[:-2], window.R)
    return windows


def with_constant(layer: ProductLayer, maps: NDArray[Any]) -> NDArray[Any]:
    """Maps by group, [sample][group][channel][height][width], as the engine reads them: with the constant's channel."""
    grouped = maps.reshape(len(maps), layer.groups, -1, *maps.shape[2:])
    if not layer.constant:
        return grouped
    return np.concatenate([grouped, np.full_like(grouped[:, :, :1], layer.constant)], axis=2)


def _product(network: IntegerNetwork, layer: ProductLayer, maps: Integers) -> Integers:
    window, weights = network.window(layer), network.weights[layer.name]
    inputs = neighbourhoods(with_constant(layer, maps), window)
    inputs = inputs.reshape(*inputs.shape[:2], window.P, window.R).astype(np.float64)
    # doubles hold integers below 2**53 exactly, and no sum of 48 bits exceeds that on the way
    sums = (weights.astype(np.float64).transpose(0, 2, 1) @ inputs).astype(np.int64)
    return scaled(sums, layer.shift, layer.low, layer.high).reshape(len(maps), *layer.shape)


def _add(layer: AddLayer, *maps: Integers) -> Integers:
    moved = [values.astype(np.int64) << left for values, left in zip(maps, layer.left, strict=True)]
    return scaled(moved[0] + moved[1], layer.shift, layer.low, layer.high)


def _concat(layer: ConcatLayer, *maps: Integers) -> Integers:
    parts = [scaled(values.astype(np.int64), shift) for values, shift in zip(maps, layer.shifts, strict=True)]
    return np.concatenate(parts, axis=1)


def _pool(network: IntegerNetwork, layer: AveragePool | MaxPool, maps: Integers) -> Integers:
    size = network.size(layer.inputs[0])[1:]
    window = Window(maps.shape[1], size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation)
    if isinstance(layer, MaxPool):
        pooled: Integers = neighbourhoods(maps, window, LOW).max(axis=(-3, -2))
    else:
        sums = neighbourhoods(maps, window).astype(np.int64).sum(axis=(-3, -2))
        pooled = scaled(sums * layer.factor, layer.shift)
    return pooled.reshape(len(maps), *layer.shape)


def run_layer(network: IntegerNetwork, layer: IntegerLayer, *maps: Integers) -> Integers:
    """What a layer computes from its inputs, bit by bit. Shapes: maps (N, C, H, W); returns (N, C, H, W)."""
    if isinstance(layer, ProductLayer):
        return _product(network, layer, *maps)
    if isinstance(layer, AddLayer):
        return _add(layer, *maps)
    if isinstance(layer, AveragePool | MaxPool):
        return _pool(network, layer, *maps)
    if isinstance(layer, ConcatLayer):
        return _concat(layer, *maps)
    (values,) = maps
    if isinstance(layer, ClipLayer):
        return np.clip(values, layer.low, layer.high)
    return values.reshape(len(values), *layer.shape)


def run_stage(network: IntegerNetwork, stage: int, maps: Mapping[str, Integers]) -> dict[str, Integers]:
    """The output of each layer of a stage; stages are counted from 1.

    ``maps`` are what earlier stages left and this one reads, with a row for each sample; ``input`` before the first.
    """
    outputs = dict(maps)
    for layer in network.layers:
        if layer.stage == stage:
            outputs[layer.name] = run_layer(network, layer, *(outputs[name] for name in layer.inputs))
    return {layer.name: outputs[layer.name] for layer in network.layers if layer.stage == stage}


def run(network: IntegerNetwork, samples: Integers) -> dict[str, Integers]:
    """The output of every layer for a batch of integer samples, which are ``input``. Shapes: (N, C, H, W)."""
    outputs = {"input": samples}
    for stage in range(1, len(network.exits) + 1):
        outputs |= run_stage(network, stage, outputs)
    return outputs


def scores(network: IntegerNetwork, exit_: IntegerExit, maps: Mapping[str, Integers]) -> Floats:
    """The answer at an exit: probabilities if a Softmax makes them, else scores. Shapes: returns (N, classes)."""
    values = maps[exit_.layer].reshape(len(maps[exit_.layer]), -1).astype(np.float64)
    values = values * 2.0 ** -network.layer(exit_.layer).exponent
    if not exit_.softmax:
        return values
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    probabilities: Floats = shares / shares.sum(axis=1, keepdims=True)
    return probabilities


def largest_sum(weights: Integers) -> int:
    """No sum of a product with these weights, rounding included, is larger than that."""
    largest = int(np.abs(weights.astype(np.int64)).sum(axis=1).max())
    return largest * -LOW + (1 << SUM_BITS - 2)
