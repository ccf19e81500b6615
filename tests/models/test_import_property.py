"""Random ONNX graphs: what the importer counts is what an interpreter computes.

CI draws a few graphs; `FLUIDB_GRAPHS=5000 pytest tests/models/test_import_property.py` draws more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from builders import COMPILED
from fluidb.models.importers import ReadAs, import_network
from fluidb.models.importers.onnx.graph import read_graph
from fluidb.models.importers.onnx.walk import walk
from fluidb.models.loader import build_network
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive_onnx import node_macs
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")

GRAPHS = int(os.environ.get("FLUIDB_GRAPHS", "60"))
MAX_WORDS = 4096
"""No tensor of a random graph has more values."""

OPSETS = [helper.make_opsetid("", 20)]
Sizes = tuple[int, ...]


@dataclass
class Plan:
    """A graph that grows node by node, and the values that an interpreter computes for it.

    Attributes
    ----------
    values : dict of str to array
        Every tensor, constants included.
    active : list of str
        Tensors that depend on an input.
    inputs : list of str
        Tensors that the user gives.
    nodes : list
        What was added.
    """

    draw: Callable[..., Any]
    values: dict[str, np.ndarray] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def among(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def counts(self, number: int, low: int, high: int) -> list[int]:
        return [self.draw(st.integers(low, high)) for _ in range(number)]

    def sizes(self, name: str) -> Sizes:
        return self.values[name].shape

    def give(self, values: np.ndarray) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.active.append(name)
        self.values[name] = values
        return name

    def weights(self, *sizes: int) -> str:
        return self.constant(np.zeros(sizes, np.float32))

    def constant(self, values: Any) -> str:
        name = f"c{len(self.values)}"
        self.values[name] = np.asarray(values)
        return name

    def integers(self, values: Any) -> str:
        return self.constant(np.array(values, np.int64))

    def tensor(self, *ranks: int) -> str | None:
        """A tensor of one of these ranks (none given: of any), a recent one more often."""
        fit = [name for name in self.active if not ranks or self.values[name].ndim in ranks]
        return self.among(*fit, *fit[-3:]) if fit else None

    def add(self, op: str, inputs: Sequence[str], results: int = 1, **attributes: Any) -> str | None:
        """Add a node if it can run and its results are neither empty nor large; return the first result."""
        outputs = [f"t{len(self.values) + index}" for index in range(results)]
        node = helper.make_node(op, inputs, outputs, name=f"n{len(self.nodes)}", **attributes)
        function = helper.make_function("test", "one", [name for name in inputs if name], outputs, [node], OPSETS)
        try:
            found = ReferenceEvaluator(function).run(None, {name: self.values[name] for name in inputs if name}, {})
        except Exception:  # noqa: BLE001  sizes that do not fit, which each operator says in its own way
            return None
        if any(not 0 < np.size(values) <= MAX_WORDS for values in found):
            return None
        self.nodes.append(node)
        self.values |= {name: np.asarray(values, np.float32) for name, values in zip(outputs, found, strict=True)}
        self.active += outputs
        return outputs[0]

    def live(self, outputs: Sequence[str]) -> list[onnx.NodeProto]:
        """The nodes that these outputs need."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                needed |= set(node.input)
                nodes.append(node)
        return nodes[::-1]

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.sizes(name)) for name in self.inputs],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.sizes(name)) for name in outputs],
            [numpy_helper.from_array(v, name) for name, v in self.values.items() if name[0] == "c" and name in used],
        )
        return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


# ---- sorts of nodes; each adds one or two to the plan, or none if nothing fits


def convolution(plan: Plan) -> None:
    name = plan.tensor(3, 4, 5)
    if name is None:
        return
    _, channels, *axes = plan.sizes(name)
    group = plan.among(*[n for n in {1, 2, channels} if channels % n == 0])
    op, (out,) = plan.among("Conv", "Conv", "ConvTranspose"), plan.counts(1, 1, 3)
    first = (group * out, channels // group) if op == "Conv" else (channels, out)
    weights = plan.weights(*first, *plan.counts(len(axes), 1, 3))
    strides, dilations = plan.counts(len(axes), 1, 2), plan.counts(len(axes), 1, 2)
    plan.add(
        op,
        [name, weights],
        group=group,
        strides=strides,
        dilations=dilations,
        pads=plan.counts(1, 0, 1) * 2 * len(axes),
    )


def by_weights(plan: Plan) -> None:
    """A constant factor, on either side, perhaps one for each head."""
    name = plan.tensor()
    if name is None or not plan.sizes(name):
        return
    *others, rows, inner = (1, *plan.sizes(name))
    heads = plan.among([], [], others[-1:])
    if plan.among(True, True, False):
        plan.add("MatMul", [name, plan.weights(*heads, inner, *plan.counts(1, 1, 5))])
    else:
        plan.add("MatMul", [plan.weights(*heads, *plan.counts(1, 1, 5), rows), name])


def gemm(plan: Plan) -> None:
    """With an addition that is a constant or another tensor, or none."""
    name = plan.tensor(2)
    if name is None:
        return
    (columns,), left, right = plan.counts(1, 1, 5), plan.among(0, 1), plan.among(0, 1)
    inner = plan.sizes(name)[0 if left else 1]
    weights = plan.weights(*((columns, inner) if right else (inner, columns)))
    rows = plan.sizes(name)[1 if left else 0]
    add = [other for other in plan.active if plan.sizes(other) in {(rows, columns), (1, columns), (columns,), (1,), ()}]
    third = plan.among([], [plan.weights(columns)], *[[item] for item in add])
    plan.add("Gemm", [name, weights, *third], transA=left, transB=right)


def of_activations(plan: Plan) -> None:
    """Two tensors that fit, the second perhaps transposed to do so: scores, and what they weigh."""
    left = plan.tensor(2, 3, 4)
    if left is None:
        return
    size = plan.sizes(left)[-1]
    fit = [name for name in plan.active if plan.values[name].ndim > 1 and size in plan.sizes(name)[-2:]]
    if fit:
        right: str | None = plan.among(*fit)
        assert right is not None
        if plan.sizes(right)[-2] != size:
            rank = len(plan.sizes(right))
            right = plan.add("Transpose", [right], perm=[*range(rank - 2), rank - 1, rank - 2])
        if right:
            plan.add("MatMul", [left, right])


def einsum(plan: Plan) -> None:
    name = plan.tensor(3)
    if name is None:
        return
    a, b, c = plan.sizes(name)
    (out,) = plan.counts(1, 1, 4)
    equation, other = plan.among(("abc,cd->abd", (c, out)), ("abc,acd->abd", (a, c, out)), ("abc,bd->acd", (b, out)))
    plan.add("Einsum", [name, plan.weights(*other)], equation=equation)


def take(plan: Plan) -> None:
    """A part of a tensor: a slice, one index, several indices, or one of several parts."""
    name = plan.tensor()
    if name is None or not plan.sizes(name):
        return
    axis = plan.counts(1, 0, len(plan.sizes(name)) - 1)[0]
    size = plan.sizes(name)[axis]
    first, index = plan.counts(2, 0, size - 1)
    match plan.counts(1, 0, 5)[0]:
        case 0:
            ends = [plan.integers([value]) for value in (min(first, index), max(first, index) + 1, axis)]
            plan.add("Slice", [name, *ends])
        case 1:
            plan.add("Gather", [name, plan.integers(index)], axis=axis)
        case 2:
            plan.add("Gather", [name, plan.integers([first, index])], axis=axis)
        case 3:
            plan.add("GatherND", [name, plan.integers([[0], [plan.sizes(name)[0] - 1]])])
        case 4 if size > 1:
            parts = [size - size // 2, size // 2]
            plan.add("Split", [name, plan.integers(parts)], results=2, axis=axis)
        case _:
            step = [plan.integers([value]) for value in (0, size, axis, plan.among(1, 2, 3))]
            plan.add("Slice", [name, *step])


def arrange(plan: Plan) -> None:
    """All values in another form or order, or repeated."""
    name = plan.tensor()
    if name is None:
        return
    sizes = plan.sizes(name)
    match plan.counts(1, 0, 6)[0]:
        case 0 | 1:
            left, wanted = math.prod(sizes), []
            for _ in range(plan.counts(1, 0, 3)[0]):
                wanted.append(plan.among(*[n for n in range(1, left + 1) if left % n == 0]))
                left //= wanted[-1]
            plan.add("Reshape", [name, plan.integers([*wanted, plan.among(left, -1)])])
        case 2 if sizes:
            plan.add("Transpose", [name], perm=plan.draw(st.permutations(range(len(sizes)))))
        case 3:
            plan.add("Unsqueeze", [name, plan.integers([0])])
        case 4:
            plan.add("Squeeze", [name])
        case 5:
            plan.add("Expand", [name, plan.integers([plan.among(n, 2) if n == 1 else n for n in sizes])])
        case _:
            plan.add("Tile", [name, plan.integers(plan.counts(len(sizes), 1, 2))])


def one_by_one(plan: Plan) -> None:
    name = plan.tensor()
    if name is not None:
        plan.add(plan.among("Relu", "Sigmoid", "Identity", "Neg"), [name])


def together(plan: Plan) -> None:
    """Two tensors, element by element, one of them perhaps repeated; or one with a constant that repeats it."""
    name, other = plan.tensor(), plan.tensor()
    if name is None or other is None:
        return
    repeated = [other for other in plan.active if _broadcast(plan.sizes(other), plan.sizes(name))]
    constants = plan.among((1,), (2, *[1 for _ in plan.sizes(name)]))
    plan.add(plan.among("Add", "Mul"), [name, plan.among(other, *repeated, plan.weights(*constants))])


def _broadcast(sizes: Sizes, into: Sizes) -> bool:
    try:
        return np.broadcast_shapes(sizes, into) == into
    except ValueError:
        return False


def concatenate(plan: Plan) -> None:
    name = plan.tensor()
    if name is None or not plan.sizes(name):
        return
    axis = plan.counts(1, 0, len(plan.sizes(name)) - 1)[0]

    def others(item: str) -> Sizes:
        return *plan.sizes(item)[:axis], *plan.sizes(item)[axis + 1 :]

    rank = len(plan.sizes(name))
    fit = [other for other in plan.active if len(plan.sizes(other)) == rank and others(other) == others(name)]
    plan.add("Concat", [name, plan.among(*fit, plan.weights(*plan.sizes(name))), *plan.among([], [name])], axis=axis)


def move(plan: Plan) -> None:
    """What is memory traffic."""
    name = plan.tensor()
    if name is None or not plan.sizes(name):
        return
    rank = len(plan.sizes(name))
    axis = plan.counts(1, 0, rank - 1)[0]
    match plan.counts(1, 0, 5)[0]:
        case 0:
            plan.add("Softmax", [name], axis=axis)
        case 1:
            plan.add("ReduceMean", [name, plan.integers([axis])], keepdims=plan.among(0, 1))
        case 2:
            plan.add("LayerNormalization", [name, plan.weights(plan.sizes(name)[-1])], axis=-1)
        case 3:
            plan.add("Pad", [name, plan.integers(plan.counts(2 * rank, 0, 1))])
        case 4 if rank in (3, 4):
            kernel = plan.counts(rank - 2, 1, 2)
            plan.add(
                plan.among("MaxPool", "AveragePool"), [name], kernel_shape=kernel, strides=plan.counts(rank - 2, 1, 2)
            )
        case _ if rank > 2:
            plan.add("GlobalAveragePool", [name])


SORTS = (
    convolution,
    by_weights,
    by_weights,
    gemm,
    of_activations,
    einsum,
    take,
    take,
    arrange,
    arrange,
    one_by_one,
    together,
    concatenate,
    move,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    plan = Plan(draw)
    for _ in range(draw(st.integers(1, 2))):
        plan.give(np.zeros((1, *plan.counts(plan.among(1, 2, 2, 3, 3), 1, 7)), np.float32))
    for _ in range(draw(st.integers(2, 12))):
        plan.among(*SORTS)(plan)
    by_weights(plan)
    return plan


@given(plans())
@settings(max_examples=GRAPHS)
def test_macs_and_sizes_are_those_of_an_interpreter(tmp_path_factory, plan):
    read = {name for node in plan.nodes for name in node.input}
    made = [name for node in plan.nodes for name in node.output]
    outputs = [name for name in made if name not in read or plan.among(False, False, True)]
    live = plan.live(outputs)
    macs = sum(node_macs(node, {name: values.shape for name, values in plan.values.items()}) for node in live)
    assume(macs > 0)
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    path.write_bytes(plan.model(outputs).SerializeToString())
    graph = read_graph(path, {"x0.0": 1}, ReadAs())
    assert {name: graph.sizes[name] for name in made} == {name: plan.sizes(name) for name in made}
    layers = walk(graph, path)
    held = {name: layers.shapes[layer].words for name, layer in layers.outputs.items()}
    assert held == {name: plan.values[name].size for name in outputs}
    network = build_network(import_network(path, "onnx", dims={"x0.0": 1}), path)
    assert network.macs == macs


@given(st.data())
@settings(max_examples=GRAPHS // 2)
def test_traffic_is_that_of_the_values_that_are_kept(tmp_path_factory, data):
    """A product, some of whose values are taken and rearranged, and a softmax over these.

    Every value of the product is another number, so that the interpreter tells how many of them the softmax reads. The
    importer does not follow single values: of those that were taken twice it may count the second too.
    """
    plan = Plan(data.draw)
    sizes = 1, *plan.counts(plan.among(1, 2, 3), 1, 7)
    plan.give(np.zeros((*sizes[:-1], 3), np.float32))
    product = plan.add("MatMul", ["x0", plan.weights(3, sizes[-1])])
    assert product
    plan.active = [product]
    plan.values[product] = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    for _ in range(plan.counts(1, 1, 5)[0]):
        plan.among(take, arrange)(plan)
    kept = plan.active[-1]
    assume(plan.sizes(kept))
    output = plan.add("Softmax", [kept])
    assert output
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    path.write_bytes(plan.model([output]).SerializeToString())
    network = build_network(import_network(path, "onnx", dims={"x0.0": 1}), path)
    (moved,) = [layer.memory_words for layer in network.layers if not layer.gemm]
    values = plan.values[kept]
    assert np.unique(values).size <= moved - values.size <= values.size
