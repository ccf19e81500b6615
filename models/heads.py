"""Heads of exits that a network file may use by name."""

from __future__ import annotations

from collections.abc import Callable

from .network import Shape
from .schema import Conv, Flatten, GlobalPool, Linear, Op, View


def _linear(source: Shape, classes: int) -> list[Op]:  # noqa: ARG001  (one signature for all heads)
    """An answer for each position; for a map of one position, a classifier."""
    return [Linear(op="linear", name="linear", out=classes)]


def _pool_linear(source: Shape, classes: int) -> list[Op]:
    """Global average pool and linear."""
    return [GlobalPool(op="globalavgpool", name="pool"), *_linear(source, classes)]


def _token_linear(source: Shape, classes: int) -> list[Op]:
    """One token, as the class token of a transformer or the last token of a text, and linear."""
    return [View(op="view", name="token", shape=[1, 1, source.channels]), *_linear(source, classes)]


def _msdnet(source: Shape, classes: int) -> list[Op]:
    """Two 3x3 stride-2 convolutions at constant width, average pool, linear (MSDNet, Huang et al., ICLR 2018)."""
    convs: list[Op] = [
        Conv(op="conv", name=name, out=source.channels, kernel=[3, 3], stride=[2, 2], pad=[1, 1])
        for name in ("conv1", "conv2")
    ]
    return convs + _pool_linear(source, classes)


def _edgesp(source: Shape, classes: int) -> list[Op]:  # noqa: ARG001  (one signature for all heads)
    """A 3x3 stride-2 convolution to 32 channels and a linear layer: an exit branch for a cluster (EdgeSP)."""
    return [
        Conv(op="conv", name="conv", out=32, kernel=[3, 3], stride=[2, 2], pad=[1, 1]),
        Flatten(op="flatten", name="flatten"),
        Linear(op="linear", name="linear", out=classes),
    ]


HEADS: dict[str, Callable[[Shape, int], list[Op]]] = {
    "msdnet": _msdnet,
    "pool-linear": _pool_linear,
    "token-linear": _token_linear,
    "linear": _linear,
    "edgesp": _edgesp,
}
"""Every named head; ``"none"`` in a file means no head at all."""
