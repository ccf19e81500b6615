"""Nodes that ONNX defines and that hold no graph, list or equation, in place of those that do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import onnx

from .bodies import BODIES, Bodies
from .einsum import EinsumParts
from .file import MAX_NODES
from .foreign import OWN, plain_nodes
from .inference import Sizer
from .sequences import Sequences


class PlainNodes:
    """The plain nodes of a model; each must be sized before the next one is taken."""

    def __init__(self, sizer: Sizer) -> None:
        self.sizer, self.sequences, self.bodies = sizer, Sequences(sizer), Bodies(sizer, MAX_NODES)

    def of(
        self, node: onnx.NodeProto, inner: Callable[[onnx.NodeProto], Iterable[onnx.NodeProto]] | None = None
    ) -> Iterable[onnx.NodeProto]:
        """The plain nodes of one node; ``inner`` gives those of nodes inside of it."""
        if node.domain not in OWN:
            return plain_nodes(node, self.sizer)
        node.domain = ""  # "ai.onnx" means the same, and not all of the package knows
        if node.op_type in BODIES:
            return chain.from_iterable(map(inner or self.of, self.bodies.expand(node)))
        if node.op_type == "CastLike" and node.input[1] not in self.sizer.constants:  # it takes the type alone
            node = onnx.helper.make_node("Identity", node.input[:1], node.output, name=node.name)
        listed = self.sequences.expand(node)
        if listed is not None:
            return listed
        if node.op_type == "Einsum" and all(name in self.sizer.sizes for name in node.input):
            sizes = [self.sizer.sizes[name] for name in node.input]
            parts = EinsumParts(node, sizes, self.sizer.opsets[0].version)
            nodes = parts.write()
            for name, axes in parts.axes.items():
                self.sizer.constant(name, axes)
            return nodes
        return [node]
