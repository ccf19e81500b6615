"""Residual additions: which of them the store of a product does (docs/model.md, Layers)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from .network import Layer
from .schema import Conv, Join, Linear, Op, inputs_of


class Operation(NamedTuple):
    """A layer as far as additions need it."""

    name: str
    inputs: Sequence[str]
    stage: int
    product: bool  # of weights, which the engine stores as it is read
    adds: bool


def fused_additions(nodes: Iterable[Operation], outputs: Collection[str]) -> dict[str, str]:
    """The additions that the store of a product does, by the products.

    The product is an operand that nothing else reads, in the same stage; the other operand is made before it.  Of two
    such products it is the one that runs last.  ``outputs`` leave the network, or are read by the layers of an exit.
    """
    layers = list(nodes)
    order = {node.name: number for number, node in enumerate(layers)}
    reads = Counter(name for node in layers for name in node.inputs)
    fused: dict[str, str] = {}
    for node in layers:
        if not node.adds or len(node.inputs) != 2:
            continue
        places = sorted(order.get(name, -1) for name in node.inputs)
        last = layers[places[1]]  # the other one is made before it
        alone = reads[last.name] == 1 and last.name not in outputs
        if last.product and alone and last.stage == node.stage and places[0] < places[1]:
            fused[last.name] = node.name
    return fused


def with_residuals(
    layers: Sequence[Layer], ops: Sequence[Op], stages: Iterable[int], outputs: Collection[str]
) -> list[Layer]:
    """The layers of a chain of operators; its products know which addition is fused (:func:`fused_additions`)."""
    nodes = []
    for op, names, stage in zip(ops, inputs_of(ops), stages, strict=False):
        product, adds = isinstance(op, Conv | Linear), isinstance(op, Join) and op.op == "add"
        nodes.append(Operation(op.name, names, stage, product, adds))
    fused = fused_additions(nodes, outputs)
    return [layer.model_copy(update={"residual": layer.operator in fused}) for layer in layers]
