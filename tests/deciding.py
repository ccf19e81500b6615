"""Random networks that decide about their exits themselves, as If nodes behind a comparison."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from fluidb.traffic.measures import MEASURES
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper


class Deciding(NamedTuple):
    """A network, and what it was made of."""

    model: onnx.ModelProto
    measure: str
    thresholds: list[float]  # of the exits but the last
    classes: int
    widths: list[int]  # channels behind each stage


SIDE, COLOURS = 4, 2
CONFIDENCES = ["ReduceMax", "TopK", "GatherElements", "log", "exp", "rest"]
ENTROPIES = ["softmax", "log softmax", "DeeBERT", "normalised", "bits"]
MARGINS = ["first less second", "second less first", "one less margin"]


class _Writer:
    """Nodes of a graph; constants are captured from the outer graph, or are the branch's own."""

    def __init__(self, draw: Callable[..., Any], outer: _Writer | None = None) -> None:
        self.draw, self.outer = draw, outer
        self.names: Iterator[int] = outer.names if outer else itertools.count()
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        made = [f"t{next(self.names)}" for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=f"n_{made[0]}", **attributes))
        return made[0]

    def hold(self, values: Any, kind: Any = np.float32) -> str:
        array, name = np.array(values, dtype=kind), f"w{next(self.names)}"
        if self.draw(st.booleans()):
            return self.add("Constant", value=numpy_helper.from_array(array))
        holder = self if self.outer is None or self.draw(st.booleans()) else self.outer
        holder.weights.append(numpy_helper.from_array(array, name))
        return name


def _value(to: _Writer, scores: str, shares: str, measure: str, form: str, classes: int, keeps: int) -> tuple[str, Any]:
    """A value of a condition, and the threshold of the measure as it stands beside that value."""
    add, axes = to.add, to.hold([1], np.int64)
    if form in {"TopK", "GatherElements"}:
        places = add("ArgMax", scores, axis=1)
        one = to.hold([1], np.int64)
        return (add("TopK", shares, one, outputs=2) if form == "TopK" else add(form, shares, places, axis=1)), float
    if form in {"log", "exp"}:
        largest = add("ReduceMax", add("LogSoftmax", scores, axis=1), axes, keepdims=keeps)
        return (largest, np.log) if form == "log" else (add("Exp", largest), float)
    if measure == "confidence":
        largest = add("ReduceMax", shares, axes, keepdims=keeps)
        return (add("Sub", to.hold(1.0), largest), lambda t: 1 - t) if form == "rest" else (largest, float)
    if form == "DeeBERT":
        exp = add("Exp", scores)
        total = add("ReduceSum", exp, axes, keepdims=keeps)
        mean = add("Div", add("ReduceSum", add("Mul", scores, exp), axes, keepdims=keeps), total)
        return add("Sub", add("Log", total), mean), float
    if form == "log softmax":
        logs = add("LogSoftmax", scores, axis=1)
        total = add("ReduceSum", add("Mul", add("Exp", logs), logs), axes, keepdims=keeps)
        return total, lambda t: -t  # without the sign
    total = add("Neg", add("ReduceSum", add("Mul", shares, add("Log", shares)), axes, keepdims=keeps))
    scale = {"softmax": 1.0, "normalised": 1 / np.log(classes), "bits": 1 / np.log(2)}[form]
    return (add("Mul", total, to.hold(scale)) if scale != 1 else total), lambda t: t * scale


def _margin(to: _Writer, shares: str, form: str, classes: int) -> tuple[str, Any]:
    """The difference of the two largest shares, and the threshold as it stands beside it."""
    two = to.add("TopK", shares, to.hold([2], np.int64), outputs=2)
    first, second = (to.add("Gather", two, to.hold([place], np.int64), axis=1) for place in (0, 1))
    if form == "second less first":
        return to.add("Sub", second, first), lambda t: -t
    margin = to.add("Sub", first, second)
    if form == "one less margin" and classes > 2:  # of two classes, it is a line of the confidence, too
        return to.add("Sub", to.hold(1.0), margin), lambda t: 1 - t
    return margin, float


def _condition(to: _Writer, value: str, constant: float, larger: bool) -> str:
    """A boolean that is true if a value is larger, or smaller, than a constant; of a batch, if all are."""
    among = lambda *items: to.draw(st.sampled_from(items))  # noqa: E731
    opposite, swapped = among(False, True), among(False, True)
    op = "Greater" if (larger ^ opposite ^ swapped) else "Less"
    operands = (value, to.hold(constant))
    said = to.add(op + among("", "OrEqual"), *(operands[::-1] if swapped else operands))
    if opposite:
        said = to.add("Not", said)
    match among("bare", "all", "and", "or"):
        case "all":
            number = to.add("Cast", said, to=TensorProto.INT64)
            said = to.add("Cast", to.add("ReduceMin", number, keepdims=0), to=TensorProto.BOOL)
        case "and":
            said = to.add("And", to.hold(True, np.bool_), said)
        case "or":
            said = to.add("Or", said, to.hold(False, np.bool_))
    return to.add("Reshape", said, to.hold(among([], [1]), np.int64))


@st.composite
def deciding(draw) -> Deciding:
    """A convolutional network with an exit after each stage; its batch is one, or open and asked as a whole."""
    among = lambda *items: draw(st.sampled_from(items))  # noqa: E731
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    exits, classes = draw(st.integers(1, 3)), draw(st.integers(2, 5))
    measure, shares_leave, one = among(*MEASURES), among(False, True), among(False, True)
    widths = [draw(st.integers(2, 4)) for _ in range(exits + 1)]
    ranges = {"confidence": (1.3 / classes, 0.9), "entropy": (0.2 * np.log(classes), 0.8 * np.log(classes))}
    thresholds = [round(random.uniform(*ranges.get(measure, (0.05, 0.9))), 3) for _ in range(exits)]
    outputs = 1 + among(False, True)  # the second is the number of the exit

    def stage(to: _Writer, source: str, depth: int) -> list[str]:
        reads = COLOURS if depth == 0 else widths[depth - 1]
        weights = to.hold(random.normal(size=(widths[depth], reads, 3, 3)) / reads**0.5)
        x = to.add("Relu", to.add("Conv", source, weights, pads=[1, 1, 1, 1]))
        words = widths[depth] * SIDE**2
        flat = to.add("Reshape", x, to.hold([1 if one and among(False, True) else 0, among(words, -1)], np.int64))
        scores = to.add("MatMul", flat, to.hold(random.normal(size=(words, classes)) / words**0.5))
        shares = to.add("Softmax", scores, axis=1)
        answer = shares if shares_leave else scores
        if depth == exits:
            return [answer, to.add("Identity", to.hold(depth, np.int64))][:outputs]
        form = among(*{"confidence": CONFIDENCES, "entropy": ENTROPIES, "margin": MARGINS}[measure])
        keeps = among(0, 1)
        value, turned = (
            _margin(to, shares, form, classes)
            if measure == "margin"
            else _value(to, scores, shares, measure, form, classes, keeps)
        )
        rises = float(turned(0.75)) > float(turned(0.25))
        true_leaves = among(False, True)
        sure_is_larger = rises is (MEASURES[measure].surer == "larger")
        said = _condition(to, value, float(turned(thresholds[depth])), larger=sure_is_larger is true_leaves)
        here, later = _Writer(draw, to), _Writer(draw, to)
        ends = [
            here.add("Softmax", scores, axis=1) if shares_leave and among(False, True) else here.add("Identity", answer)
        ]
        if outputs > 1:
            ends.append(here.add("Identity", here.hold(depth, np.int64)))
        sides = [_graph(here, "leave", ends), _graph(later, "go_on", stage(later, x, depth + 1))]
        first, second = sides if true_leaves else sides[::-1]
        made = [f"t{next(to.names)}" for _ in ends]
        to.nodes.append(helper.make_node("If", [said], made, f"exit{depth + 1}", then_branch=first, else_branch=second))
        return made

    whole = _Writer(draw)
    found = stage(whole, "x", 0)
    graph = _graph(whole, "net", found, [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 if one else "n", COLOURS, SIDE, SIDE])
    ])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return Deciding(model, measure, thresholds, classes, widths)


def _graph(of: _Writer, name: str, ends: list[str], inputs: Any = ()) -> onnx.GraphProto:
    kinds = [TensorProto.FLOAT, TensorProto.INT64]
    outputs = [helper.make_tensor_value_info(end, kind, None) for end, kind in zip(ends, kinds, strict=False)]
    return helper.make_graph(of.nodes, name, list(inputs), outputs, of.weights)
