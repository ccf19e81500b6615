"""Exits that a model decides about itself: its If nodes, written out as one graph with an answer for each exit.

All paths through the branches are followed. A node that several paths run on the same tensors is written once, so that
what remains is a backbone with heads. What a condition measures is found by its values, not by its nodes: exporters
write an entropy in many ways.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ....formats import InputError
from ...schema import MAX_EXITS
from .labels import brief, label
from .operators import PRODUCTS

PASSING = {
    "Cast",
    "Flatten",
    "Gather",
    "Identity",
    "ReduceMax",
    "ReduceMin",
    "Reshape",
    "Slice",
    "Squeeze",
    "Unsqueeze",
}
"""Operators that keep the condition of a single sample; over a batch, some of them ask all samples at once."""

COMPARISONS = {"Greater": (False, True), "GreaterOrEqual": (False, False), "Less": (True, True),
               "LessOrEqual": (True, False)}  # fmt: skip
"""Whether each swaps its operands, if it is written as one that asks for a larger value; and whether it is strict."""

DRAWN = 24
"""Random answers for which a condition is computed, to see what it measures."""

MAX_CONDITION = 64
"""Most nodes between an answer and the boolean of its condition."""

MAX_STEPS = 10**6
"""Most nodes on all paths together, each counted where it is passed."""

_OWN = ("", "ai.onnx")
_HINT = "export a model that always runs to its end and has the answer of each exit as an output"


class Decision(NamedTuple):
    """An exit that the model decides about."""

    label: str  # of its If
    answer: str  # tensor that it answers with
    measure: Literal["confidence", "entropy"]
    threshold: float | Literal["never", "always"]  # the least confidence, or the largest entropy, that leaves


_ASKED = {"confidence": "from a confidence of", "entropy": "up to an entropy of"}


class Decided(NamedTuple):
    """The exits of a model that was written out."""

    decisions: tuple[Decision, ...]  # of each exit but the last, in order of depth
    end: str  # tensor that the last exit answers with
    place: int  # of the answer among the outputs of the file

    @property
    def answers(self) -> tuple[str, ...]:
        """Tensors that the exits answer with."""
        return (*(item.answer for item in self.decisions), self.end)

    @property
    def text(self) -> str:
        """The exits, for people."""
        asked = (f'"{item.label}" {_ASKED[item.measure]} {item.threshold}' for item in self.decisions)
        return f"If nodes of the model, which ask each sample by itself: {'; '.join(asked)}"


class _Comparison(NamedTuple):
    """A value of a sample that is larger than a constant, or equal to it if that is enough."""

    value: str
    constant: float
    strict: bool
    kind: np.dtype[Any]


class _Leaf(NamedTuple):
    """The end of a path."""

    outputs: tuple[str, ...]


class _Fork(NamedTuple):
    """An If whose condition is not known on its path."""

    node: onnx.NodeProto
    asked: _Comparison
    yes: _Tree
    no: _Tree


_Tree = _Leaf | _Fork
_Known = tuple[tuple[_Comparison, bool], ...]
_Truth = bool | tuple[_Comparison, bool]
"""What a boolean says: its value, where the path tells; else a comparison, and whether that or its opposite."""


class _Bind(NamedTuple):
    """The end of a branch: its outputs become those of the If."""

    outputs: Sequence[str]
    found: Sequence[str]


def write_out(model: onnx.ModelProto, path: Path) -> tuple[onnx.ModelProto, Decided | None]:
    """Write a model with If nodes as one without; its outputs are the answers of all exits, and what else exits return.

    A model without If nodes is returned as it is.
    """
    if not any(map(_is_if, model.graph.node)):
        return model, None
    try:
        return _written(model, path)
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # odd nodes: too few inputs, other attributes
        raise InputError(f"{path}: its If nodes are not understood ({brief(str(error))}); {_HINT}") from None


def _written(model: onnx.ModelProto, path: Path) -> tuple[onnx.ModelProto, Decided | None]:
    written = onnx.ModelProto()
    written.CopyFrom(model)
    paths = _Paths(written, path)
    tree = paths.follow([*reversed(written.graph.node)], {}, ())
    paths.infer()
    decisions: list[Decision] = []
    place = None
    outputs: list[str] = []
    while isinstance(tree, _Fork):
        found, place, leaf, rest = paths.exit(tree, place)
        decisions.append(found)
        outputs += leaf.outputs
        tree = rest
    if place is None:  # the conditions of all If nodes are known
        paths.write(tree.outputs)
        return written, None
    decided = Decided(tuple(decisions), tree.outputs[place], place)
    answers = decided.answers
    if len(set(answers)) < len(answers) or not paths.active.issuperset(answers):
        raise InputError(f"{path}: expected an If whose branches give different answers, found one answer; {_HINT}")
    if len({item.measure for item in decisions}) > 1:
        raise InputError(f"{path}: expected If nodes that ask either for confidences or for entropies, found both")
    paths.write([name for name in dict.fromkeys([*answers, *outputs, *tree.outputs]) if name in paths.active])
    return written, decided


def _is_if(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and node.domain in _OWN


def _branches(node: onnx.NodeProto) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    """What an If runs if its condition is true, and if it is false."""
    first, second = (item for item in node.attribute if item.type == AttributeProto.GRAPH)
    return (first.g, second.g) if first.name == "then_branch" else (second.g, first.g)


def _joined(op: str, parts: Sequence[_Truth]) -> _Truth | None:
    """What an operator says of booleans; ``None`` if it asks two comparisons at once."""
    first = parts[0]
    if op == "Not":
        return not first if isinstance(first, bool) else (first[0], not first[1])
    if len(parts) == 1:
        return first
    decides = op == "Or"
    rest = {item for item in parts if not isinstance(item, bool)}
    if decides in parts or not rest:
        return decides if decides in parts else not decides
    return rest.pop() if len(rest) == 1 else None


class _Paths:
    """The paths through a model, and the nodes that they run."""

    def __init__(self, model: onnx.ModelProto, path: Path) -> None:
        self.model, self.path = model, path
        graph = model.graph
        self.constants = {item.name: item for item in graph.initializer}
        self.inputs = [item for item in graph.input if item.name not in self.constants]
        self.stated = {item.name: item for item in [*graph.value_info, *graph.output]}  # types that the file states
        self.types: dict[str, onnx.ValueInfoProto] = {}  # of all tensors
        self.taken = {item.name for item in [*graph.input, *graph.initializer]}
        self.taken |= {name for node in graph.node for name in node.output}
        self.active = {item.name for item in self.inputs}  # tensors that depend on inputs
        self.nodes: list[onnx.NodeProto] = []
        self.maker: dict[str, onnx.NodeProto] = {}
        self.made: dict[tuple[object, ...], tuple[str, ...]] = {}
        self.leaves = self.steps = 0
        for node in graph.node:
            self._own_names(node, {})

    def _own_names(self, node: onnx.NodeProto, names: dict[str, str]) -> None:
        """Rename what the branches of an If make, where another graph uses the name, and keep their weights."""
        if not _is_if(node):
            return
        found = [item.g for item in node.attribute if item.type == AttributeProto.GRAPH]
        if len(found) != 2 or len(node.input) != 1 or {len(node.output)} != {len(graph.output) for graph in found}:
            raise self.fault(node, "expected one condition, and two branches that give what it gives, found another")
        for graph in found:
            inner = dict(names)
            made = [item.name for item in graph.initializer]
            made += [name for item in graph.node for name in item.output if name]
            for name in made:
                inner[name] = self._fresh(name)
            for weights in graph.initializer:
                weights.name = inner[weights.name]
                self.constants[weights.name] = weights
                self.model.graph.initializer.append(weights)
            for item in graph.node:
                for tensors in (item.input, item.output):
                    tensors[:] = [inner.get(name, name) for name in tensors]
                self._own_names(item, inner)
            for item in [*graph.value_info, *graph.output]:
                item.name = inner.get(item.name, item.name)
                self.stated.setdefault(item.name, item)

    def _fresh(self, name: str) -> str:
        number, found = 1, name
        while found in self.taken:
            number += 1
            found = f"{name}.{number}"
        self.taken.add(found)
        return found

    # ---- paths

    def follow(self, tasks: list[onnx.NodeProto | _Bind], names: dict[str, str], known: _Known) -> _Tree:
        """Run tasks, the last one first, and return the outputs; ``names`` are tensors that have other names here."""
        while tasks:
            task = tasks.pop()
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise InputError(f"{self.path}: expected at most {MAX_STEPS:,} nodes on all paths, found more; {_HINT}")
            if isinstance(task, _Bind):
                names |= {out: names.get(name, name) for out, name in zip(task.outputs, task.found, strict=True)}
            elif _is_if(task):
                asked = self._meaning(names.get(task.input[0], task.input[0]), known, MAX_CONDITION)
                if asked is None:
                    raise self.fault(task, "expected a condition that compares a value with a constant, found another")
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
                return _Fork(task, comparison, *sides)
            else:
                self._write(task, names)
        self.leaves += 1
        if self.leaves > MAX_EXITS + 1:
            raise InputError(
                f"{self.path}: expected at most {MAX_EXITS} If nodes with a branch that answers at once, found more "
                f"ways to an answer; {_HINT}"
            )
        return _Leaf(tuple(names.get(item.name, item.name) for item in self.model.graph.output))

    @staticmethod
    def _enter(node: onnx.NodeProto, value: bool, tasks: list[onnx.NodeProto | _Bind]) -> None:
        """Add the nodes of a branch to the tasks."""
        branch = _branches(node)[not value]
        tasks.append(_Bind(node.output, [item.name for item in branch.output]))
        tasks += reversed(branch.node)

    def _write(self, node: onnx.NodeProto, names: dict[str, str]) -> None:
        """Write a node, unless it stands there already; products that stand twice in the file do so for a reason."""
        inputs = tuple(names.get(name, name) for name in node.input)
        if node.op_type == "Identity" and inputs and node.output:
            names[node.output[0]] = inputs[0]
            return
        whole = any(item.type in {AttributeProto.GRAPH, AttributeProto.TENSOR} for item in node.attribute)
        alone = node.op_type in PRODUCTS or whole or not inputs
        attributes = () if alone else tuple(sorted(item.SerializeToString() for item in node.attribute))
        own = tuple(node.output) if alone else len(node.output)
        same = (own, node.domain, node.op_type, inputs, attributes)
        outputs = self.made.get(same)
        if outputs is None:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.domain = "" if node.domain in _OWN else node.domain
            copy.input[:] = inputs
            copy.output[:] = [name and self._fresh(name) if name in self.maker else name for name in node.output]
            outputs = self.made[same] = tuple(copy.output)
            self.nodes.append(copy)
            self.maker |= {name: copy for name in outputs if name}
            if self.active.intersection(inputs):
                self.active |= set(outputs)
        names |= {own: name for own, name in zip(node.output, outputs, strict=True) if own != name}

    def _meaning(self, name: str, known: _Known, depth: int) -> _Truth | None:
        """What a boolean says; ``None`` if it is not understood."""
        if name not in self.active:
            values = self._value(name)
            return None if values is None or values.size != 1 else bool(values.item())
        node = self.maker.get(name)
        if node is not None and node.op_type in COMPARISONS:
            return self._compared(node, known)
        inputs = {"And": 2, "Or": 2, "Not": 1, **dict.fromkeys(PASSING, 1)}.get(node.op_type, 0) if node else 0
        parts = [self._meaning(item, known, depth - 1) for item in node.input[:inputs]] if node and depth else []
        told = [item for item in parts if item is not None]
        return _joined(node.op_type, told) if node and told and len(told) == inputs else None

    def _compared(self, node: onnx.NodeProto, known: _Known) -> _Truth | None:
        """A comparison of a tensor with a constant."""
        swaps, strict = COMPARISONS[node.op_type]
        large, small = node.input[::-1] if swaps else node.input
        truth = large in self.active
        values = self._value(small if truth else large)
        if values is None or values.size != 1 or (truth and small in self.active):
            return None
        # a constant that is larger is one that the value does not reach
        asked = _Comparison(
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
        """The value of a tensor that does not depend on inputs; ``None`` if it cannot be computed."""
        if name in self.active:
            return None
        try:
            if name in self.constants:
                return numpy_helper.to_array(self.constants[name])
            (values,) = self._evaluate(self._between(None, name) or [], name, "", [np.empty(0)])
        except Exception:  # noqa: BLE001  protobuf, numpy and the evaluator raise a dozen kinds
            return None
        return values

    def _evaluate(
        self, nodes: Sequence[onnx.NodeProto], name: str, given: str, rows: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """The values of a tensor that nodes make, for each of the values of another one."""
        if len(nodes) > MAX_CONDITION:
            raise ValueError("too many nodes")
        kind = helper.np_dtype_to_tensor_dtype(rows[0].dtype)
        inputs = [helper.make_tensor_value_info(given, kind, rows[0].shape)] if given else []
        read = {item for node in nodes for item in node.input}
        weights = [self.constants[item] for item in sorted(read) if item in self.constants]
        graph = helper.make_graph(nodes, "part", inputs, [onnx.ValueInfoProto(name=name)], weights)
        part = helper.make_model(graph, opset_imports=self.model.opset_import)
        inferred = shape_inference.infer_shapes(part, strict_mode=True, data_prop=True).graph
        for item in [*inferred.value_info, *inferred.output]:
            if math.prod(dim.dim_value or _MAX_CLASSES for dim in item.type.tensor_type.shape.dim) > _MAX_CLASSES:
                raise ValueError("too many values")
        evaluator = ReferenceEvaluator(part)
        with np.errstate(all="ignore"):
            return [np.asarray(evaluator.run(None, {given: row} if given else {})[0]) for row in rows]

    def _between(self, start: str | None, end: str) -> list[onnx.NodeProto] | None:
        """The nodes that make a tensor of another one and constants; ``None`` if it needs more."""
        found: dict[int, onnx.NodeProto] = {}
        left = [end]
        while left:
            name = left.pop()
            if name == start or not name:
                continue
            node = self.maker.get(name)
            if node is None:
                if name in self.active:
                    return None
            elif id(node) not in found:
                found[id(node)] = node
                left += node.input
        return [node for node in self.nodes if id(node) in found]

    # ---- exits

    def fault(self, node: onnx.NodeProto, message: str) -> InputError:
        """A fault of an If."""
        return InputError(f'{self.path}: node "{label(node)}" (If): {message}; {_HINT}')

    def infer(self) -> None:
        """Find the shapes of all tensors; the values of weights are not needed."""
        weights = [
            helper.make_tensor_value_info(name, item.data_type, list(item.dims))
            for name, item in self.constants.items()
            if math.prod(item.dims) > MAX_CONDITION
        ]
        small = [item for item in self.constants.values() if math.prod(item.dims) <= MAX_CONDITION]
        graph = helper.make_graph(self.nodes, "all", [*self.inputs, *weights], [], small)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph.value_info
        except Exception:  # noqa: BLE001  whatever its C++ says; the reader of the graph then names the node
            inferred = []
        self.types = {item.name: item for item in [*inferred, *self.inputs]}

    def exit(self, fork: _Fork, place: int | None) -> tuple[Decision, int, _Leaf, _Tree]:
        """The exit of a fork: the decision, the place of its answer among the outputs, its end, and what follows."""
        for truth, side, rest in ((True, fork.yes, fork.no), (False, fork.no, fork.yes)):
            if not isinstance(side, _Leaf):
                continue
            for number, answer in enumerate(side.outputs):
                if place in {None, number} and (found := self._read(fork.asked, truth, answer)):
                    return Decision(label(fork.node), answer, *found), number, side, rest
        raise self.fault(
            fork.node,
            "expected a branch that answers at once if the confidence of its answer is large, or if its entropy is "
            "small, found none",
        )

    def _read(self, asked: _Comparison, truth: bool, answer: str) -> tuple[Any, Any] | None:
        """The measure of a condition that lets sure answers leave, and its threshold."""
        for scores in self._origins(answer):
            nodes = self._between(scores, asked.value)
            found = nodes and self._measured(scores, nodes, asked.value)
            if not found:
                continue
            measure, slope, shift, log = found
            if (slope > 0) is not (truth is (measure == "confidence")):
                return None
            plain = abs(abs(slope) - 1) < _NEAR and abs(shift) < _NEAR and not log
            at = asked.constant * np.sign(slope) if plain else (asked.constant - shift) / slope
            at = math.exp(min(at, 1.0)) if log else float(at)
            strict = asked.strict is truth
            return measure, _threshold(measure, at, asked.kind if plain else None, strict=strict)
        return None

    def _origins(self, answer: str) -> Iterable[str]:
        """An answer, and the tensors that it is made of one after the other, up to the product that makes them."""
        name: str | None = answer
        while name is not None:
            yield name
            node = self.maker.get(name)
            found = [] if node is None else [item for item in node.input if item in self.active]
            name = found[0] if node is not None and node.op_type not in PRODUCTS and len(set(found)) == 1 else None

    def _measured(
        self, scores: str, nodes: Sequence[onnx.NodeProto], value: str
    ) -> tuple[Literal["confidence", "entropy"], float, float, bool] | None:
        """What a value measures of scores: a measure, or its logarithm, by a factor and an addend."""
        kind = self.types[scores].type.tensor_type if scores in self.types else onnx.TypeProto.Tensor()
        sizes = [dim.dim_value for dim in kind.shape.dim]
        classes = math.prod(sizes[1:]) if sizes[1:] else 0
        if not 2 <= classes <= _MAX_CLASSES or kind.elem_type not in _FLOATS:
            return None
        random = np.random.default_rng(0)
        drawn = random.normal(size=(DRAWN, classes)) * random.uniform(0.5, 4, size=(DRAWN, 1))
        shares = np.exp(drawn - drawn.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        entropy = -(shares * np.log(shares)).sum(axis=1)
        for given in (drawn, shares):
            rows = given.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).reshape(DRAWN, 1, *sizes[1:])
            try:
                found = np.array([item.item() for item in self._evaluate(nodes, value, scores, rows)], dtype=np.float64)
            except Exception:  # noqa: BLE001  as above; or a value for each of several samples or positions
                return None
            if not np.isfinite(found).all():
                continue
            for name, measured, log in (
                ("confidence", shares.max(axis=1), False),
                ("confidence", np.log(shares.max(axis=1)), True),
                ("entropy", entropy, False),
            ):
                slope, shift = np.polyfit(measured, found, 1)
                left = np.abs(found - slope * measured - shift).max()
                if abs(slope) > _NEAR and left < _FLOATS[kind.elem_type] * np.ptp(found):
                    return name, float(slope), float(shift), log  # type: ignore[return-value]
        return None

    def write(self, outputs: Sequence[str]) -> None:
        """Put the nodes that the outputs need in place of those of the model."""
        needed, live = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed |= set(node.input)
                live.append(node)
        graph = self.model.graph
        made = {name for node in live for name in node.output}
        del graph.node[:], graph.output[:], graph.value_info[:]
        graph.node.extend(live[::-1])
        graph.output.extend(self.stated.get(name) or onnx.ValueInfoProto(name=name) for name in outputs)
        graph.value_info.extend(self.stated[name] for name in sorted(made & self.stated.keys() - set(outputs)))


_NEAR = 1e-5
"""Differences of a factor from 1, and of an addend from 0, that rounding explains."""

_MAX_CLASSES = 2**20
_FLOATS = {onnx.TensorProto.FLOAT: 1e-4, onnx.TensorProto.DOUBLE: 1e-6, onnx.TensorProto.FLOAT16: 1e-2}
"""Types of scores, and the error that rounding makes, as a share of the range of values."""

_EXACT = 2.0**16
"""Constants that are whole numbers of parts of this size are met exactly by some answers, such as 0.5."""


def _threshold(
    measure: str, value: float, kind: np.dtype[Any] | None, *, strict: bool
) -> float | Literal["never", "always"]:
    """A threshold that surer answers reach, in as few digits as its type needs.

    Where answers can meet it exactly, one that they must exceed becomes the next value.
    """
    if kind is None or kind.kind != "f":
        value, kind = float(f"{value:.6g}"), np.dtype(np.float32)
    number = kind.type(value)
    if strict and float(number) * _EXACT % 1 == 0:
        number = np.nextafter(number, kind.type(np.inf if measure == "confidence" else -np.inf))
    value = float(str(number))
    if measure == "confidence":
        return "never" if value > 1 else max(value, 0.0)
    return "never" if value < 0 else "always" if value > _LARGEST_ENTROPY else value


_LARGEST_ENTROPY = 25.0
"""In nats: that of 7e10 classes."""
