"""Exits that a model decides about itself: its If nodes, written out as one graph with an answer for each exit.

What a condition measures is found by its values, not by its nodes: exporters write an entropy in many ways.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from ....formats import InputError
from ....traffic.measures import MEASURES, Measure, Threshold
from .file import Start
from .labels import label
from .operators import PRODUCTS
from .paths import HINT, MAX_VALUES, Fork, Leaf, Paths, ThresholdTest, Tree, is_if

DRAWN = 24
"""Random answers for which a condition is computed, to see what it measures."""


class ExitCondition(NamedTuple):
    """An exit that the model decides about."""

    label: str  # of its If
    answer: str  # tensor that it answers with
    measure: Measure
    threshold: Threshold  # of a sample that leaves


class Decided(NamedTuple):
    """The exits of a model that was written out."""

    decisions: tuple[ExitCondition, ...]  # of each exit but the last, in order of depth
    end: str  # tensor that the last exit answers with
    place: int  # of the answer among the outputs of the file

    @property
    def answers(self) -> tuple[str, ...]:
        """Tensors that the exits answer with."""
        return (*(condition.answer for condition in self.decisions), self.end)

    @property
    def text(self) -> str:
        """The exits, for people."""
        asked = (f'"{condition.label}" {condition.measure.asked} {condition.threshold}' for condition in self.decisions)
        return f"If nodes of the model, which ask each sample by itself: {'; '.join(asked)}"


def write_out(model: onnx.ModelProto, path: Path, start: Start | None = None) -> tuple[onnx.ModelProto, Decided | None]:
    """Write a model with If nodes as one without; its outputs are the answers of all exits, and what else exits return.

    A model without If nodes is returned as it is. ``start`` has the sizes of its inputs, which some conditions ask.
    """
    if not any(map(is_if, model.graph.node)):
        return model, None
    try:
        return _written(model, path, start)
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError):  # odd nodes: too few inputs, other attributes
        raise InputError(f"{path}: its If nodes, or nodes in their branches, are damaged; {HINT}") from None


def _written(model: onnx.ModelProto, path: Path, start: Start | None) -> tuple[onnx.ModelProto, Decided | None]:
    written = onnx.ModelProto()
    written.CopyFrom(model)
    paths = Paths(written, path, start)
    tree = paths.follow([*reversed(written.graph.node)], {}, ())
    paths.infer()
    decisions: list[ExitCondition] = []
    place = None
    outputs: list[str] = []
    while isinstance(tree, Fork):
        condition, place, leaf, rest = _exit(paths, tree, place)
        decisions.append(condition)
        outputs += leaf.outputs
        tree = rest
    if place is None:  # the conditions of all If nodes are known
        paths.write(tree.outputs)
        return written, None
    decided = Decided(tuple(decisions), tree.outputs[place], place)
    answers = decided.answers
    if len(set(answers)) < len(answers) or not paths.active.issuperset(answers):
        raise InputError(f"{path}: expected an If whose branches give different answers, found one answer; {HINT}")
    asked = [*dict.fromkeys(condition.measure.several for condition in decisions)]
    if len(asked) > 1:
        raise InputError(f"{path}: expected If nodes that all ask for one measure, found {' and '.join(asked)}")
    paths.write([name for name in dict.fromkeys([*answers, *outputs, *tree.outputs]) if name in paths.active])
    return written, decided


def _exit(paths: Paths, fork: Fork, place: int | None) -> tuple[ExitCondition, int, Leaf, Tree]:
    """The exit of a fork: the decision, the place of its answer among the outputs, its end, and what follows."""
    for truth, side, rest in ((True, fork.yes, fork.no), (False, fork.no, fork.yes)):
        if not isinstance(side, Leaf):
            continue
        for number, answer in enumerate(side.outputs):
            if place in {None, number} and (reached := _read(paths, fork.asked, truth, answer)):
                return ExitCondition(label(fork.node), answer, *reached), number, side, rest
    raise paths.undecided(
        fork.node,
        "its condition decides about no exit: expected a branch that answers at once if one of these measures of its "
        "answer reaches a threshold "
        f"({', '.join(f'{name} {measure.reached}' for name, measure in MEASURES.items())}), found none",
    )


def _read(paths: Paths, asked: ThresholdTest, truth: bool, answer: str) -> tuple[Measure, Threshold] | None:
    """The measure of a condition that lets sure answers leave, and its threshold."""
    line = next(filter(None, (_measured(paths, scores, asked.value) for scores in _origins(paths, answer))), None)
    if line is None or (line.slope > 0) is not (truth is (line.measure.surer == "larger")):
        return None
    plain = line.plain
    at = math.copysign(1.0, line.slope) * asked.constant if plain else (asked.constant - line.shift) / line.slope
    at = math.exp(min(at, 1.0)) if line.log else at
    return line.measure, _threshold(line.measure, at, asked.kind if plain else None, strict=asked.strict is truth)


def _origins(paths: Paths, answer: str) -> Iterable[str]:
    """An answer, and the tensors that all of it is made of, one after the other, up to the product that makes them."""
    order = {name: number for number, node in enumerate(paths.nodes) for name in node.output}
    sources = {answer}
    while sources:
        if len(sources) == 1:
            yield next(iter(sources))
        last = max(sources, key=lambda name: order.get(name, -1))
        node = paths.maker.get(last)
        if node is None or node.op_type in PRODUCTS:
            return
        sources = sources - {last} | paths.active.intersection(node.input)


class _Line(NamedTuple):
    """A measure, or its logarithm, with a factor and an addend."""

    measure: Measure
    log: bool
    slope: float
    shift: float

    @property
    def plain(self) -> bool:
        """True if it is the measure itself, perhaps with the other sign."""
        return abs(abs(self.slope) - 1) < _NEAR and abs(self.shift) < _NEAR and not self.log


def _measured(paths: Paths, scores: str, value: str) -> _Line | None:
    """What a value measures of the probabilities that a softmax makes of scores."""
    nodes = paths.between(scores, value)
    kind = paths.types[scores].type.tensor_type if scores in paths.types else onnx.TypeProto.Tensor()
    sizes = [dim.dim_value for dim in kind.shape.dim][1:]
    classes = math.prod(sizes) if sizes else 0
    if not nodes or not 2 <= classes <= MAX_VALUES or kind.elem_type not in _FLOATS:
        return None
    random = np.random.default_rng(0)
    drawn = random.normal(size=(DRAWN, classes)) * random.uniform(0.5, 4, size=(DRAWN, 1))
    rows = drawn.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).reshape(DRAWN, 1, *sizes)
    try:
        results = np.array(
            [measured.item() for measured in paths.evaluate(nodes, value, scores, [*rows])], dtype=np.float64
        )
    except Exception:  # noqa: BLE001  the evaluator raises a dozen kinds; or there are several values
        return None
    shares = np.exp(drawn - drawn.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    fitting = []
    for measure in MEASURES.values() if np.isfinite(results).all() else ():
        plain = measure.of(shares)
        for log, values in ((False, plain), (True, np.log(np.maximum(plain, np.finfo(np.float64).tiny)))):
            slope, shift = np.polyfit(values, results, 1).tolist()
            off = np.abs(results - slope * values - shift).max()
            if abs(slope) > _NEAR and off < _FLOATS[kind.elem_type] * np.ptp(results):
                fitting.append(_Line(measure, log, slope, shift))
    # of two classes, one measure may be a line of another one
    return min(fitting, key=lambda line: not line.plain, default=None)


_NEAR = 1e-5
"""Differences of a factor from 1, and of an addend from 0, that rounding explains."""

_FLOATS: dict[int, float] = {
    onnx.TensorProto.FLOAT: 1e-4, onnx.TensorProto.DOUBLE: 1e-6, onnx.TensorProto.FLOAT16: 1e-2
}  # fmt: skip
"""Types of scores, and the error that rounding makes, as a share of the range of values."""

_EXACT = 2.0**16
"""Constants that are whole numbers of parts of this size are met exactly by some answers, such as 0.5."""


def _threshold(measure: Measure, value: float, kind: np.dtype[Any] | None, *, strict: bool) -> Threshold:
    """A threshold that surer answers reach, in as few digits as its type needs.

    Where answers can meet it exactly, one that they must exceed becomes the next value.
    """
    if kind is None or kind.kind != "f":
        value, kind = float(f"{value:.6g}"), np.dtype(np.float32)
    number = kind.type(value)
    if strict and float(number) * _EXACT % 1 == 0:
        number = np.nextafter(number, kind.type(np.inf if measure.surer == "larger" else -np.inf))
    return measure.stated(float(str(number)))
