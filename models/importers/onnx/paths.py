"""All paths through the branches of a model, written as one graph.

A node that several paths run on the same tensors is written once, so that what remains is a backbone with heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ....formats import InputError
from ...schema import MAX_EXITS
from .bodies import graphs_of, reads_of, rename_inside
from .file import Start
from .foreign import OWN
from .labels import brief, label
from .operators import FINDING, PRODUCTS
from .plain import PlainNodes

PASSING = frozenset(
    ["Cast", "Flatten", "Gather", "Identity", "ReduceMax", "ReduceMin", "Reshape", "Slice", "Squeeze", "Unsqueeze"]
)
"""Operators that keep the condition of a single sample; over a batch, some of them ask all samples at once."""

COMPARISONS = {"Greater": (False, True), "GreaterOrEqual": (False, False), "Less": (True, True),
               "LessOrEqual": (True, False)}  # fmt: skip
"""Whether each swaps its operands, if it is written as one that asks for a larger value; and whether it is strict."""

MAX_CONDITION = 64
"""Most nodes between an answer and the boolean of its condition."""

MAX_STEPS = 10**6
"""Most nodes on all paths together, each counted where it is passed."""

MAX_VALUES = 2**20
"""Most values of a tensor between them."""

HINT = "export a model that always runs to its end and has the answer of each exit as an output"


class ThresholdTest(NamedTuple):
    """A value of a sample that is larger than a constant, or equal to it if that is enough."""

    value: str
    constant: float
    strict: bool
    kind: np.dtype[Any]


class Leaf(NamedTuple):
    """The end of a path."""

    outputs: tuple[str, ...]


class Fork(NamedTuple):
    """An If whose condition is not known on its path."""

    node: onnx.NodeProto
    asked: ThresholdTest
    yes: Tree
    no: Tree


Tree = Leaf | Fork
_Known = tuple[tuple[ThresholdTest, bool], ...]
_Truth = bool | tuple[ThresholdTest, bool]
"""What a boolean says: its value, where the path tells; else a comparison, and whether that or its opposite."""


class _Bind(NamedTuple):
    """The end of a branch: its results become the outputs of the If."""

    outputs: Sequence[str]
    results: Sequence[str]


def is_if(node: onnx.NodeProto) -> bool:
    """Tell if a node is an If."""
    return node.op_type == "If" and node.domain in OWN


def _branches(node: onnx.NodeProto) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    """What an If runs if its condition is true, and if it is false."""
    first, second = (attribute for attribute in node.attribute if attribute.type == AttributeProto.GRAPH)
    return (first.g, second.g) if first.name == "then_branch" else (second.g, first.g)


def _joined(op: str, parts: Sequence[_Truth]) -> _Truth | None:
    """What an operator says of booleans; ``None`` if it asks two comparisons at once."""
    first = parts[0]
    if op == "Not":
        return not first if isinstance(first, bool) else (first[0], not first[1])
    if len(parts) == 1:
        return first
    decides = op == "Or"
    rest = {part for part in parts if not isinstance(part, bool)}
    if decides in parts or not rest:
        return decides if decides in parts else not decides
    return rest.pop() if len(rest) == 1 else None


class Paths:
    """The paths through a model, and the nodes that they run."""

    def __init__(self, model: onnx.ModelProto, path: Path, start: Start | None) -> None:
        self.model, self.path = model, path
        graph = model.graph
        self.plain = PlainNodes(start.sizer(model)) if start else None  # sizes tell some conditions
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = [input_ for input_ in graph.input if input_.name not in self.constants]
        # types that the file states
        self.stated = {tensor.name: tensor for tensor in [*graph.value_info, *graph.output]}
        self.types: dict[str, onnx.ValueInfoProto] = {}  # of all tensors
        self.taken = {tensor.name for tensor in [*graph.input, *graph.initializer]}
        self.taken |= {name for node in graph.node for name in node.output}
        self.active = {input_.name for input_ in self.inputs}  # tensors that depend on inputs
        self.nodes: list[onnx.NodeProto] = []
        self.maker: dict[str, onnx.NodeProto] = {}
        self.made: dict[tuple[object, ...], tuple[str, ...]] = {}
        self.leaves = self.steps = 0
        for node in graph.node:
            self._own_names(node, {})

    def _own_names(self, node: onnx.NodeProto, names: dict[str, str]) -> None:
        """Rename what the branches of an If make, where another graph uses the name, and keep their weights."""
        if not is_if(node):
            return
        branches = graphs_of(node)
        if (
            len(branches) != 2
            or len(node.input) != 1
            or {len(node.output)} != {len(graph.output) for graph in branches}
        ):
            raise self.fault(
                node, "expected one condition, and two branches with as many outputs as the node has, found others"
            )
        for graph in branches:
            inner = dict(names)
            made = [weights.name for weights in graph.initializer]
            made += [name for inner_node in graph.node for name in inner_node.output if name]
            for name in made:
                inner[name] = self._fresh(name)
            for weights in graph.initializer:
                weights.name = inner[weights.name]
                self.constants[weights.name] = weights
                self.model.graph.initializer.append(weights)
                if self.plain:
                    self.plain.sizer.weigh(weights)
            for inner_node in graph.node:
                for tensors in (inner_node.input, inner_node.output):
                    tensors[:] = [inner.get(name, name) for name in tensors]
                self._own_names(inner_node, inner)
            for tensor in [*graph.value_info, *graph.output]:
                tensor.name = inner.get(tensor.name, tensor.name)
                self.stated.setdefault(tensor.name, tensor)

    def _fresh(self, name: str) -> str:
        number, fresh = 1, name
        while fresh in self.taken:
            number += 1
            fresh = f"{name}.{number}"
        self.taken.add(fresh)
        return fresh

    # ---- paths

    def follow(self, tasks: list[onnx.NodeProto | _Bind], names: dict[str, str], known: _Known) -> Tree:
        """Run tasks, the last one first, and return the outputs; ``names`` are tensors that have other names here."""
        while tasks:
            task = tasks.pop()
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise InputError(f"{self.path}: expected at most {MAX_STEPS:,} nodes on all paths, found more; {HINT}")
            if isinstance(task, _Bind):
                names |= {out: names.get(name, name) for out, name in zip(task.outputs, task.results, strict=True)}
            elif is_if(task):
                asked = self._meaning(names.get(task.input[0], task.input[0]), known, MAX_CONDITION)
                if asked is None:
                    raise self.undecided(
                        task,
                        "expected a condition that compares a value with a constant, found another, which decides "
                        "about no exit",
                    )
                if isinstance(asked, bool):
                    self._enter(task, asked, tasks)
                    continue
                if len(known) == MAX_EXITS:
                    raise self.fault(task, f"expected at most {MAX_EXITS} exits, found more")
                comparison, truth = asked
                sides = []
                for value in (True, False):
                    there = [*tasks]
                    self._enter(task, value is truth, there)
                    sides.append(self.follow(there, {**names}, (*known, (comparison, value))))
                return Fork(task, comparison, *sides)
            else:
                self._write(task, names)
        self.leaves += 1
        if self.leaves > MAX_EXITS + 1:
            raise InputError(
                f"{self.path}: expected at most {MAX_EXITS} If nodes with a branch that answers at once, found more "
                f"ways to an answer; {HINT}"
            )
        return Leaf(tuple(names.get(output.name, output.name) for output in self.model.graph.output))

    @staticmethod
    def _enter(node: onnx.NodeProto, value: bool, tasks: list[onnx.NodeProto | _Bind]) -> None:
        """Add the nodes of a branch to the tasks."""
        branch = _branches(node)[not value]
        tasks.append(_Bind(node.output, [output.name for output in branch.output]))
        tasks += reversed(branch.node)

    def _write(self, node: onnx.NodeProto, names: dict[str, str]) -> None:
        """Write a node, unless it stands there already; products that stand twice in the file do so for a reason."""
        inputs = tuple(names.get(name, name) for name in node.input)
        if node.op_type == "Identity" and inputs and node.output:
            names[node.output[0]] = inputs[0]
            return
        whole = any(attribute.type in {AttributeProto.GRAPH, AttributeProto.TENSOR} for attribute in node.attribute)
        alone = node.op_type in PRODUCTS or whole or not inputs
        attributes = () if alone else tuple(sorted(attribute.SerializeToString() for attribute in node.attribute))
        own = tuple(node.output) if alone else len(node.output)
        same = (own, node.domain, node.op_type, inputs, attributes)
        outputs = self.made.get(same)
        if outputs is None:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.domain = "" if node.domain in OWN else node.domain
            copy.input[:] = inputs
            rename_inside(copy, names)
            copy.output[:] = [name and self._fresh(name) if name in self.maker else name for name in node.output]
            outputs = self.made[same] = tuple(copy.output)
            self.nodes.append(copy)
            self.maker |= {name: copy for name in outputs if name}
            if self.active.intersection(reads_of(copy)):
                self.active |= set(outputs)
            self._size(copy)
        names |= {own: name for own, name in zip(node.output, outputs, strict=True) if own != name}

    def _size(self, node: onnx.NodeProto) -> None:
        """Find the sizes of what a node makes, if they come out."""
        if not self.plain:
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        try:
            for part in self.plain.of(copy):
                self.plain.sizer.add(part)
        except Exception:  # noqa: BLE001  the reader of the graph then names the node
            for name in filter(None, node.output):
                self.plain.sizer.unsized.setdefault(name, "is not known")

    def _meaning(self, name: str, known: _Known, depth: int) -> _Truth | None:
        """What a boolean says; ``None`` if it is not understood."""
        values = self._value(name)
        if values is not None or name not in self.active:
            return None if values is None or values.size != 1 else bool(values.item())
        node = self.maker.get(name)
        if node is not None and node.op_type in COMPARISONS:
            return self._compared(node, known)
        inputs = {"And": 2, "Or": 2, "Not": 1, **dict.fromkeys(PASSING, 1)}.get(node.op_type, 0) if node else 0
        parts = [self._meaning(source, known, depth - 1) for source in node.input[:inputs]] if node and depth else []
        told = [part for part in parts if part is not None]
        return _joined(node.op_type, told) if node and told and len(told) == inputs else None

    def _compared(self, node: onnx.NodeProto, known: _Known) -> _Truth | None:
        """A comparison of a tensor with a constant."""
        swaps, strict = COMPARISONS[node.op_type]
        large, small = node.input[::-1] if swaps else node.input
        values = self._value(large)
        truth = values is None
        if values is None:
            values = self._value(small)
        if values is None or values.size != 1:
            return None
        # a constant that is larger is one that the value does not reach
        asked = ThresholdTest(
            large if truth else small, float(values.item()), strict if truth else not strict, values.dtype
        )
        for other, holds in known:
            if other.value == asked.value:
                if holds and (other.constant, other.strict) >= (asked.constant, asked.strict):
                    return truth
                if not holds and (other.constant, other.strict) <= (asked.constant, asked.strict):
                    return not truth
        return asked, truth

    def _value(self, name: str) -> NDArray[Any] | None:
        """The value of a tensor that depends on no input, or on its size alone; ``None`` if it cannot be computed."""
        if self.plain and name in self.plain.sizer.data:
            return numpy_helper.to_array(self.plain.sizer.data[name])
        if name in self.active:
            return None
        try:
            if name in self.constants:
                return numpy_helper.to_array(self.constants[name])
            (values,) = self.evaluate(self.between(None, name) or [], name, "", [np.empty(0)])
        except Exception:  # noqa: BLE001  protobuf, numpy and the evaluator raise a dozen kinds
            return None
        return values

    def evaluate(
        self, nodes: Sequence[onnx.NodeProto], name: str, given: str, rows: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """The values of a tensor that nodes make, for each of the values of another one."""
        if len(nodes) > MAX_CONDITION:
            raise ValueError("too many nodes")
        kind = helper.np_dtype_to_tensor_dtype(rows[0].dtype)
        inputs = [helper.make_tensor_value_info(given, kind, rows[0].shape)] if given else []
        read = {source for node in nodes for source in node.input}
        weights = [self.constants[source] for source in sorted(read) if source in self.constants]
        graph = helper.make_graph(nodes, "part", inputs, [onnx.ValueInfoProto(name=name)], weights)
        part = helper.make_model(graph, opset_imports=self.model.opset_import)
        inferred = shape_inference.infer_shapes(part, strict_mode=True, data_prop=True).graph
        for tensor in [*inferred.value_info, *inferred.output]:
            if math.prod(dim.dim_value or MAX_VALUES for dim in tensor.type.tensor_type.shape.dim) > MAX_VALUES:
                raise ValueError("too many values")
        evaluator = ReferenceEvaluator(part)
        with np.errstate(all="ignore"):
            runs: list[Any] = [evaluator.run(None, {given: row} if given else {}) for row in rows]
        return [np.asarray(value) for (value,) in runs]

    def between(self, start: str | None, end: str) -> list[onnx.NodeProto] | None:
        """The nodes that make a tensor of another one and constants; ``None`` if it needs more."""
        needed: dict[int, onnx.NodeProto] = {}
        left = [end]
        while left:
            name = left.pop()
            if name == start or not name:
                continue
            node = self.maker.get(name)
            if node is None:
                if name in self.active:
                    return None
            elif id(node) not in needed:
                needed[id(node)] = node
                left += reads_of(node)
        return [node for node in self.nodes if id(node) in needed]

    def fault(self, node: onnx.NodeProto, message: str) -> InputError:
        """A fault of an If."""
        return InputError(f'{self.path}: node "{label(node)}" (If): {message}; {HINT}')

    def undecided(self, node: onnx.NodeProto, message: str) -> InputError:
        """A fault of an If that decides about no exit; perhaps it asks an input, whose value a user can state."""
        needed, left = set(), [*node.input]
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                left += self.maker[name].input if name in self.maker else []
        sizes = {entry.name: [dim.dim_value or 1 for dim in entry.type.tensor_type.shape.dim] for entry in self.inputs}
        asked = [name for name in sizes if name in needed and math.prod(sizes[name]) == 1]
        if asked:
            name = brief(asked[0])
            message += f"; it depends on the input {name}; state its value, e.g. --value {name}=1"
        for found in self.nodes:
            if found.op_type in FINDING and needed.intersection(found.output):
                message = f'it depends on how many values the node "{label(found)}" ({found.op_type}) finds; end the'
                return InputError(f'{self.path}: node "{label(node)}" (If): {message} model before that node')
        return self.fault(node, message)

    def infer(self) -> None:
        """Find the shapes of all tensors; the values of weights are not needed."""
        weights = [
            helper.make_tensor_value_info(name, weight.data_type, list(weight.dims))
            for name, weight in self.constants.items()
            if math.prod(weight.dims) > MAX_CONDITION
        ]
        small = [weight for weight in self.constants.values() if math.prod(weight.dims) <= MAX_CONDITION]
        graph = helper.make_graph(self.nodes, "all", [*self.inputs, *weights], [], small)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph.value_info
        except Exception:  # noqa: BLE001  whatever its C++ says; the reader of the graph then names the node
            inferred = []
        self.types = {tensor.name: tensor for tensor in [*inferred, *self.inputs]}

    def write(self, outputs: Sequence[str]) -> None:
        """Put the nodes that the outputs need in place of the model's nodes."""
        needed, live = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed |= reads_of(node)
                live.append(node)
        graph = self.model.graph
        made = {name for node in live for name in node.output}
        del graph.node[:], graph.output[:], graph.value_info[:]
        graph.node.extend(live[::-1])
        graph.output.extend(self.stated.get(name) or onnx.ValueInfoProto(name=name) for name in outputs)
        graph.value_info.extend(self.stated[name] for name in sorted(made & self.stated.keys() - set(outputs)))
