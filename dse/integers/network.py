"""Networks of 16-bit integers: their layers (docs/npu.md, Integers)."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...formats import Strict
from ..engine import MOST, SUM_BITS, WORD_BITS
from .window import Window

HIGH: int = 2 ** (WORD_BITS - 1) - 1
LOW: int = -HIGH - 1
MAX_EXPONENT = 64

Integers = NDArray[np.int16]
WORD_TYPE: np.dtype[np.int16] = np.dtype(f"int{WORD_BITS}")
"""The type of a word in arrays."""

Size = Annotated[int, Field(ge=1, le=MOST)]
Shift = Annotated[int, Field(ge=0, lt=SUM_BITS)]
Word = Annotated[int, Field(ge=LOW, le=HIGH)]
Exponent = Annotated[int, Field(ge=-MAX_EXPONENT, le=MAX_EXPONENT)]


class Map(NamedTuple):
    """A map of one sample."""

    channels: Annotated[int, Field(ge=1, le=2**24)]
    height: Size
    width: Size


class Pair(NamedTuple):
    """A size along rows and columns."""

    rows: Size
    columns: Size


class Pad(NamedTuple):
    """Rows above a map and columns to its left."""

    rows: Annotated[int, Field(ge=0, le=MOST)]
    columns: Annotated[int, Field(ge=0, le=MOST)]


class Left(NamedTuple):
    """Places by which the maps of a sum move to the left."""

    first: Shift
    second: Shift


class _Layer(Strict):
    """A layer; a value is its integer times 2**-exponent."""

    name: str
    inputs: list[str]
    stage: Annotated[int, Field(ge=1)]
    shape: Map  # of its output
    exponent: Exponent


class BoundedLayer(_Layer):
    """Outputs below or above the bounds become these; a rectifier has 0 as the lower one."""

    low: Word
    high: Word


class WindowedLayer(_Layer):
    """What a window moves over."""

    kernel: Pair
    stride: Pair
    pad: Pad
    dilation: Pair


class ProductLayer(WindowedLayer, BoundedLayer):
    """A convolution, or a fully connected layer: a job of the engine.

    With a constant, the map of each group has a further channel, the last, which holds this constant everywhere: its
    weights are the bias.
    """

    op: Literal["product"] = "product"
    channels: Size  # of a group, with the channel of the constant
    groups: Size
    constant: Annotated[int, Field(ge=0, le=HIGH)]  # 0: the layer has no bias
    shift: Shift


class AddLayer(BoundedLayer):
    """The sum of two maps, each moved to the left first."""

    op: Literal["add"] = "add"
    left: Left
    shift: Shift


class AveragePool(WindowedLayer):
    """Sums over windows, times a factor."""

    op: Literal["avgpool"] = "avgpool"
    factor: Annotated[int, Field(ge=1, le=HIGH)]
    shift: Shift


class MaxPool(WindowedLayer):
    """The largest value of each window."""

    op: Literal["maxpool"] = "maxpool"


class ClipLayer(BoundedLayer):
    """Values within bounds."""

    op: Literal["clip"] = "clip"


class ConcatLayer(_Layer):
    """Maps behind one another by channels, each divided first so that all have one scale."""

    op: Literal["concat"] = "concat"
    shifts: Annotated[list[Shift], Field(min_length=1)]


class FlattenLayer(_Layer):
    """All values of a sample in a row."""

    op: Literal["flatten"] = "flatten"


IntegerLayer = Annotated[
    ProductLayer | AddLayer | AveragePool | MaxPool | ClipLayer | ConcatLayer | FlattenLayer, Field(discriminator="op")
]


class IntegerExit(Strict):
    """Where samples leave: the name of the output, the layer with its scores, and if a Softmax follows."""

    name: str
    layer: str
    softmax: bool


class IntegerNetwork(NamedTuple):
    """A quantised network."""

    name: str
    shape: Map  # of a sample
    exponent: int  # a sample's value is its integer times 2**-exponent
    layers: list[IntegerLayer]  # in execution order, by stage
    exits: list[IntegerExit]  # in order of depth
    # (groups, P, C): of each product, as the engine reads them: P in the order channel, row, column of the window
    weights: dict[str, Integers]

    def layer(self, name: str) -> IntegerLayer:
        """The layer of a name."""
        return next(layer for layer in self.layers if layer.name == name)

    def size(self, name: str) -> Map:
        """The size of a layer's output, or of the input."""
        return self.shape if name == "input" else self.layer(name).shape

    def window(self, layer: ProductLayer) -> Window:
        """How the engine reads the map of a group; the channel of the constant is there."""
        size = self.size(layer.inputs[0])[1:]
        return Window(layer.channels, size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation)
