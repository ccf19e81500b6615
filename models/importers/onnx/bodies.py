"""Loops written out step by step, and an If inside of them as its branch: graphs inside of nodes as plain nodes."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from .inference import Sizer
from .labels import SizeFault, attributes_of
from .operators import OF_SIZES

BODIES = frozenset(["If", "Loop", "Scan"])
"""Operators that run graphs of their own."""

_OFTEN = "how often it runs depends on values that only a run gives"


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs inside of a node."""
    return [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]


def reads_of(node: onnx.NodeProto) -> set[str]:
    """The tensors that a node reads, also from inside of its graphs."""
    read = {*node.input}
    for graph in graphs_of(node):
        own = {entry.name for entry in [*graph.input, *graph.initializer]}
        inner = {name for part in graph.node for name in reads_of(part)} | {entry.name for entry in graph.output}
        read |= inner - own - {name for part in graph.node for name in part.output}
    return read - {""}


def rename_inside(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give other names to tensors that graphs inside of a node read from outside."""
    for graph in graphs_of(node):
        made = {entry.name for entry in [*graph.input, *graph.initializer]}
        made |= {name for part in graph.node for name in part.output}
        outside = {name: new for name, new in names.items() if name not in made}
        for part in graph.node:
            part.input[:] = [outside.get(name, name) for name in part.input]
            rename_inside(part, outside)
        for entry in graph.output:
            entry.name = outside.get(entry.name, entry.name)


class Bodies:
    """The graphs inside of a model's nodes."""

    def __init__(self, sizer: Sizer, most: int) -> None:
        self.sizer, self.most = sizer, most
        self.written = itertools.count(1)

    def expand(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The nodes that a node with graphs stands for; each must be sized before the next one is taken."""
        attributes = attributes_of(node)
        if node.op_type == "Loop":
            return self._loop(node, attributes["body"])
        if node.op_type == "Scan":
            return self._scan(node, attributes["body"])
        return self._branch(node, attributes["then_branch"], attributes["else_branch"])

    def _loop(self, node: onnx.NodeProto, body: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        counted, asked = [*node.input, "", ""][:2]
        state = [*node.input[2:]]
        most = self._known(counted) if counted else None
        runs = self._known(asked) if asked else True
        kept: list[list[str]] = [[] for _ in node.output[len(state) :]]
        state = yield from self._begun(node, body, state, [False] * 2, [])
        for step in itertools.count():
            if not runs or (most is not None and step >= most):
                break
            place = f"{node.output[0]}/{step}"
            at = self.sizer.constant(f"{place}/step", np.int64(step))
            asked = self.sizer.constant(f"{place}/runs", np.bool_(True))
            made = yield from self._body(body, [at, asked, *state], place)
            runs = self._known(made[0])
            state, steps = made[1 : len(state) + 1], made[len(state) + 1 :]
            for parts, part in zip(kept, steps, strict=True):
                parts.append(part)
        yield from _ends(node, state)
        for name, parts in zip(node.output[len(state) :], kept, strict=True):
            yield from self._joined(name, parts, 0)

    def _scan(self, node: onnx.NodeProto, body: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        attributes = attributes_of(node)
        if self.sizer.opsets[0].version < 9:
            raise SizeFault("expected a Scan of opset 9 or later")
        count = attributes["num_scan_inputs"]
        state, lists = [*node.input[:-count]], [*node.input[-count:]]
        outputs = node.output[len(state) :]
        axes = [*attributes.get("scan_input_axes", [0] * count)]
        made_axes = attributes.get("scan_output_axes", [0] * len(outputs))
        steps = {self.sizer.sizes_of(name)[axis] for name, axis in zip(lists, axes, strict=True)}
        if len(steps) != 1:
            raise SizeFault(f"expected inputs of one length, found {sorted(steps)}")
        (length,) = steps
        kept: list[list[str]] = [[] for _ in outputs]
        moving = [name not in self.sizer.constants for name in lists]
        state = yield from self._begun(node, body, state, [], moving)
        for step in range(length):
            place, taken = f"{node.output[0]}/{step}", []
            for number, (name, axis) in enumerate(zip(lists, axes, strict=True)):  # their direction changes no size
                at = self.sizer.constant(f"{place}/at{number}", np.int64(step))
                taken.append(f"{place}/in{number}")
                yield helper.make_node("Gather", [name, at], [taken[-1]], axis=axis)
            made = yield from self._body(body, [*state, *taken], place)
            state = made[: len(state)]
            for parts, part in zip(kept, made[len(state) :], strict=True):
                parts.append(part)
        yield from _ends(node, state)
        for name, parts, axis in zip(outputs, kept, made_axes, strict=True):
            yield from self._joined(name, parts, axis)

    def _branch(
        self, node: onnx.NodeProto, then: onnx.GraphProto, otherwise: onnx.GraphProto
    ) -> Iterator[onnx.NodeProto]:
        if node.input[0] not in self.sizer.data:
            raise SizeFault("its condition depends on values that only a run gives, inside of a loop")
        made = yield from self._body(then if self._known(node.input[0]) else otherwise, [], node.output[0])
        yield from _ends(node, made)

    def _begun(
        self, node: onnx.NodeProto, body: onnx.GraphProto, state: list[str], before: list[bool], behind: list[bool]
    ) -> Generator[onnx.NodeProto, None, list[str]]:
        """The state that a loop begins with, which is no constant where later steps change it.

        ``before`` and ``behind`` say whether the other inputs of its graph, around the state, depend on the sample.
        """
        moving = [name not in self.sizer.constants for name in state]
        while True:
            again = self._moving(body, [*before, *moving, *behind])[bool(before) :]  # a loop's condition comes first
            both = [one or other for one, other in zip(moving, again, strict=False)]
            if both == moving:
                break
            moving = both
        active = sorted(
            name for name in reads_of(node) if name in self.sizer.types and name not in self.sizer.constants
        )
        begun = []
        for number, (name, moves) in enumerate(zip(state, moving, strict=True)):
            begun.append(name)
            if moves and active and name in self.sizer.constants:
                begun[-1] = f"{node.output[0]}/begin{number}"
                yield helper.make_node("LoopState", [name, active[0]], [begun[-1]])
        return begun

    def _moving(self, body: onnx.GraphProto, given: Sequence[bool]) -> list[bool]:
        """Whether each output of a graph depends on the sample."""
        own = {entry.name for entry in [*body.input, *body.initializer]}
        moving = {entry.name for entry, moves in zip(body.input, given, strict=True) if moves}
        for part in body.node:
            outside = reads_of(part) - own
            active = any(name in self.sizer.types and name not in self.sizer.constants for name in outside)
            if part.op_type not in OF_SIZES and (active or moving & reads_of(part)):
                moving.update(part.output)
            own.update(part.output)
        return [entry.name in moving for entry in body.output]

    def _body(
        self, body: onnx.GraphProto, given: Sequence[str], place: str
    ) -> Generator[onnx.NodeProto, None, list[str]]:
        """The nodes of a graph, whose tensors have names of their own; returns the names of its outputs."""
        names = dict(zip((entry.name for entry in body.input), given, strict=True))
        for weights in body.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(weights)
            copy.name = names[weights.name] = f"{place}/{weights.name}"
            self.sizer.weigh(copy)
        for part in body.node:
            if next(self.written) > self.most:
                raise SizeFault(f"expected at most {self.most} nodes, found more in its loops")
            copy = onnx.NodeProto()
            copy.CopyFrom(part)
            copy.name = f"{place}/{part.name}" if part.name else ""
            copy.input[:] = [names.get(name, name) for name in part.input]
            rename_inside(copy, names)
            copy.output[:] = [name and names.setdefault(name, f"{place}/{name}") for name in part.output]
            yield copy
        return [names.get(entry.name, entry.name) for entry in body.output]

    def _joined(self, name: str, parts: Iterable[str], axis: int) -> Iterator[onnx.NodeProto]:
        """What the steps give, side by side along a new axis."""
        wide = []
        for number, part in enumerate(parts):
            wide.append(f"{name}/wide{number}")
            yield self.sizer.along("Unsqueeze", part, wide[-1], axis)
        if not wide:
            raise SizeFault("expected a loop that runs, found no step")
        if name:
            yield helper.make_node("Concat", wide, [name], axis=axis)

    def _known(self, name: str) -> int:
        """A number, or a truth, that sizes and constants tell."""
        if name not in self.sizer.data:
            raise SizeFault(_OFTEN)
        return int(numpy_helper.to_array(self.sizer.data[name]).item())


def _ends(node: onnx.NodeProto, made: Sequence[str]) -> Iterator[onnx.NodeProto]:
    """What the graphs give, under the names of the node's outputs."""
    for name, source in zip(node.output, made, strict=False):
        if name:
            yield helper.make_node("Identity", [source], [name])
