"""Scales of a network of 16-bit integers: a power of two for each map and for the weights of each product."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...formats import InputError
from ..engine import SUM_BITS, WORD_BITS
from . import reference
from .network import (
    HIGH,
    LOW,
    MAX_EXPONENT,
    WORD_TYPE,
    AddLayer,
    AveragePool,
    ClipLayer,
    ConcatLayer,
    FlattenLayer,
    IntegerExit,
    IntegerLayer,
    IntegerNetwork,
    Integers,
    Map,
    MaxPool,
    ProductLayer,
)

HEADROOM = 1
"""Bits above the largest value of the calibration samples."""

BITS = WORD_BITS - 1
"""Of a value, beside its sign."""


def exponent_of(largest: float, limit: float) -> int:
    """The largest exponent e with ``largest * 2**e <= limit``; the one of 1 if there is nothing to scale.

    Examples
    --------
    >>> exponent_of(1.0, 2**14), exponent_of(0.9, 2**14), exponent_of(3e4, 2**14)
    (14, 14, -1)
    """
    exponent = math.floor(math.log2(limit / (largest or 1.0)))
    return max(-MAX_EXPONENT // 2, min(exponent, MAX_EXPONENT // 2))


def bounds_of(layer: Any, exponent: int) -> dict[str, int]:
    """The bounds of a trained layer as integers of 16 bits."""
    bounds = {"low": layer.low, "high": layer.high}
    return {name: round(min(max(bound * 2.0**exponent, LOW), HIGH)) for name, bound in bounds.items()}


class ScaleChoice:
    """Chooses scales layer by layer, in execution order."""

    def __init__(self, name: str, trained: Any, largest: Mapping[str, float], path: Path) -> None:
        self.name, self.trained, self.largest, self.path = name, trained, largest, path
        self.limits: dict[str, int] = {}  # of maps that lie behind others: the exponent that all of these allow
        for layer in reversed(trained.layers):
            keeps = layer.op in ("maxpool", "clip", "flatten") and layer.name in self.limits
            for source in layer.inputs if layer.op == "concat" or keeps else []:
                limit = self.own(layer.name) if layer.op == "concat" else self.limits[layer.name]
                self.limits[source] = min(limit, self.own(source))
        self.exponents = {"input": self.own("input")}
        self.constants: dict[str, int] = {}  # of the products that read a map, so that one channel serves all
        self.weights: dict[str, Integers] = {}

    def own(self, name: str) -> int:
        """The exponent that the values of a map, and of the maps beside it, allow."""
        own = exponent_of(self.largest[name], 2.0 ** (BITS - HEADROOM))
        return min(own, self.limits.get(name, own))

    def make(self) -> IntegerNetwork:
        """The network; once more when the constants of all are known."""
        self.layers()
        layers, exits = self.layers(), [IntegerExit(**exit_._asdict()) for exit_ in self.trained.exits]
        return IntegerNetwork(self.name, Map(*self.trained.shape), self.exponents["input"], layers, exits, self.weights)

    def layers(self) -> list[IntegerLayer]:
        """The layers in execution order."""
        layers: list[IntegerLayer] = []
        for layer in sorted(self.trained.layers, key=lambda layer: layer.stage):
            try:
                layers.append(self.layer(layer))
            except InputError as error:
                if error.faults[0].startswith(f"{self.path}: "):
                    raise
                why = f"no scale holds its inputs, weights and outputs ({error.faults[0]})"  # its record knows no layer
                raise InputError(f'{self.path}: layer "{layer.name}": {why}') from None
            self.exponents[layer.name] = layers[-1].exponent
        return layers

    def layer(self, layer: Any) -> IntegerLayer:
        """A layer with its scales."""
        base = {name: getattr(layer, name) for name in ("name", "inputs", "stage", "shape")}
        window = {name: getattr(layer, name) for name in ("kernel", "stride", "pad", "dilation")}
        sources = [self.exponents[name] for name in layer.inputs]
        if layer.op == "product":
            return self.product(layer, base | window, sources[0])
        if layer.op in ("add", "concat"):
            return self.of_several(layer, base, sources)
        if layer.op == "avgpool":
            count = math.prod(layer.kernel)
            bits = BITS - 1 + (count - 1).bit_length()  # so that the factor has 15 bits
            exponent = min(self.own(layer.name), bits + sources[0])
            factor = min(round(2**bits / count), HIGH)
            return AveragePool(**base, **window, exponent=exponent, factor=factor, shift=bits + sources[0] - exponent)
        if layer.op == "maxpool":
            return MaxPool(**base, **window, exponent=sources[0])
        if layer.op == "clip":
            return ClipLayer(**base, exponent=sources[0], **bounds_of(layer, sources[0]))
        return FlattenLayer(**base, exponent=sources[0])

    def of_several(self, layer: Any, base: dict[str, Any], sources: list[int]) -> AddLayer | ConcatLayer:
        """A sum of maps, or maps behind one another."""
        if layer.op == "concat":
            exponent = min(sources)
            return ConcatLayer(**base, exponent=exponent, shifts=[source - exponent for source in sources])
        finest = max(sources)
        exponent = min(self.own(layer.name), finest)
        left = finest - sources[0], finest - sources[1]
        return AddLayer(**base, exponent=exponent, left=left, shift=finest - exponent, **bounds_of(layer, exponent))

    def product(self, layer: Any, base: dict[str, Any], source: int) -> ProductLayer:
        """A product: the finest weights whose sums have 48 bits and whose bias fits."""
        wanted, taps = self.own(layer.name), math.prod(layer.kernel)
        place = self.place(layer) if layer.bias.any() else None
        finest = exponent_of(float(np.abs(layer.weights).max()), HIGH)
        for scale in range(finest, -MAX_EXPONENT, -1):
            exponent = min(wanted, source + scale)
            shift = source + scale - exponent
            weights, constant = np.rint(layer.weights * 2.0**scale), 0
            if place is not None:
                bias = layer.bias * 2.0 ** (source + scale)
                constant = 2 ** max(0, math.ceil(math.log2(np.abs(bias).max() / HIGH)))
                constant = max(constant, self.constants.get(layer.inputs[0], 0))
                rows = np.zeros((layer.groups, taps, weights.shape[2]))
                rows[:, place] = np.rint(bias / constant)
                weights = np.concatenate([weights, rows], axis=1)
            if constant > 2 ** (BITS - 1) or shift >= SUM_BITS or np.abs(weights).max() > HIGH:
                continue
            words = np.ascontiguousarray(weights, WORD_TYPE)
            if reference.largest_sum(words) < 2 ** (SUM_BITS - 1):
                break
        else:
            raise InputError(f'{self.path}: layer "{layer.name}": no scale holds its weights, bias and outputs')
        self.weights[layer.name] = words
        self.constants[layer.inputs[0]] = max(constant, self.constants.get(layer.inputs[0], 0))
        return ProductLayer(
            **base, exponent=exponent, groups=layer.groups, channels=words.shape[1] // taps, constant=constant,
            shift=shift, **bounds_of(layer, exponent),
        )  # fmt: skip

    def place(self, layer: Any) -> int:
        """The inner index, within a channel, that lies inside the map at every output position."""
        shapes = {"input": self.trained.shape} | {earlier.name: earlier.shape for earlier in self.trained.layers}
        size = shapes[layer.inputs[0]][1:]
        inside = []
        ways = zip(layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation, size, strict=True)
        for kernel, outputs, stride, pad, dilation, length in ways:
            first = [tap * dilation - pad for tap in range(kernel)]
            fits = [tap for tap, at in enumerate(first) if at >= 0 and at + (outputs - 1) * stride < length]
            inside.append(fits)
        if not all(inside):
            raise InputError(
                f'{self.path}: layer "{layer.name}": has a bias, and no place of its window lies inside the map at '
                "every output position; use less padding"
            )
        return int(inside[0][0] * layer.kernel[1] + inside[1][0])
