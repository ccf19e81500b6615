"""Layers of a trained network with their weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Map = tuple[int, int, int]
"""Channels, height and width: the order of values in memory."""


@dataclass(slots=True)
class TrainedLayer:
    """A layer with its weights; pairs are of rows and columns.

    Attributes
    ----------
    name : str
        Unique, as a network file allows it.
    op : str
        A product (convolution or fully connected), an addition, a pool, values kept within bounds,
        in another form, or behind one another by channels.
    inputs : list of str
        Layers that it reads, or ``input``.
    stage : int
        From 1: the first exit that needs it.
    shape : tuple of int
        Channels, height and width of its output.
    groups : int
        Of a product.
    kernel, stride, pad, dilation : tuple of int
        The window of a product or pool; ``pad`` is above and to the left.
    weights : ndarray, shape (groups, P, C)
        Of a product; P in the order channel, row, column of the window.
    bias : ndarray, shape (groups, C)
        Of a product.
    low, high : float
        Bounds of its outputs: 0 and infinity of a rectifier.
    """

    name: str
    op: Literal["product", "add", "maxpool", "avgpool", "clip", "flatten", "concat"]
    inputs: list[str]
    stage: int
    shape: Map
    groups: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 0, 0)))
    bias: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 0)))
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
