"""Layers of a trained network with their weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from ....formats.array_types import Floats

Map = tuple[int, int, int]
"""Channels, height and width: the order of values in memory."""


@dataclass(slots=True)
class TrainedLayer:
    """A layer with its weights; pairs are of rows and columns."""

    name: str  # unique, as a network file allows it
    # a product (convolution or fully connected), an addition, a pool, values kept within bounds, in another form, or
    # behind one another by channels
    op: Literal["product", "add", "maxpool", "avgpool", "clip", "flatten", "concat"]
    inputs: list[str]  # layers that it reads, or ``input``
    stage: int  # from 1: the first exit that needs it
    shape: Map  # channels, height and width of its output
    groups: int = 1  # of a product
    # the window of a product or pool; ``pad`` is above and to the left
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    # (groups, P, C): of a product; P in the order channel, row, column of the window
    weights: Floats = field(default_factory=lambda: np.zeros((1, 0, 0)))
    bias: Floats = field(default_factory=lambda: np.zeros((1, 0)))  # (groups, C): of a product
    # bounds of its outputs: 0 and infinity of a rectifier
    low: float = -math.inf
    high: float = math.inf

    @property
    def bounded(self) -> bool:
        """True if its outputs have a bound."""
        return (self.low, self.high) != (-math.inf, math.inf)


class TrainedExit(NamedTuple):
    """An answer: the output's name, the layer with its scores, and whether a Softmax makes probabilities of them."""

    name: str
    layer: str
    softmax: bool


class TrainedNetwork(NamedTuple):
    """Layers in execution order, for one input."""

    input: str
    shape: Map
    layers: list[TrainedLayer]
    exits: list[TrainedExit]
