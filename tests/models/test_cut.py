"""Cutting ONNX models at their exits: the stages, one after the other, are the whole model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import COMPILED
from fluidb.formats import InputError
from fluidb.models.importers.onnx.cut import cut, read_stages
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator
from test_import_property import plans

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")


def chained(stages, inputs):
    """The answers of the stages, each of which sees only what the one before it keeps."""
    kept, answers = dict(inputs), []
    for stage in stages:
        names = [value.name for value in stage.model.graph.output]
        found = ReferenceEvaluator(stage.model).run(None, {name: kept[name] for name in stage.reads})
        made = dict(zip(names, found, strict=True))
        answers.append(made[stage.answer])
        kept = {name: (kept | made)[name] for name in stage.keeps}
    return answers


@given(plans(), st.data())
@settings(max_examples=30)
def test_stages_of_random_graphs_are_the_whole_graph(plan, data):
    """Any tensors may be exits, also inside a block; weights are random, so that a wrong tensor shows."""
    ends = data.draw(st.lists(st.sampled_from(plan.active[len(plan.inputs) :] or ["x0"]), min_size=1, unique=True))
    random = np.random.default_rng(0)
    model = plan.model(ends)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(random.normal(size=tensor.dims).astype(np.float32), tensor.name))
    inputs = {name: random.normal(size=plan.sizes(name)).astype(np.float32) for name in plan.inputs}
    try:
        stages = cut(shape_inference.infer_shapes(model), ends, Path("random.onnx"))
    except InputError as fault:
        assume("nothing is computed between" not in str(fault))
        raise
    whole = dict(zip(ends, ReferenceEvaluator(model).run(None, inputs), strict=True))
    for stage, answer in zip(stages, chained(stages, inputs), strict=True):
        np.testing.assert_allclose(answer, whole[stage.answer], rtol=1e-4, atol=1e-4)


CHANNELS = 3


@st.composite
def networks(draw):
    """A convolutional network of residual blocks with an exit after, or inside, some of them; any batch size.

    Heads flatten, or reshape by a batch size that was read once, as exporters write ``x.view(x.shape[0], -1)``.
    """
    random, ends = np.random.default_rng(draw(st.integers(0, 99))), list[str]()
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def add(op, *sources, sizes=None, **attributes):
        name = f"t{len(nodes)}"
        if sizes:
            weights[f"w{len(nodes)}"] = random.normal(size=sizes).astype(np.float32)
            sources = (*sources, f"w{len(nodes)}")
        nodes.append(helper.make_node(op, sources, [name], name=f"n{len(nodes)}", **attributes))
        return name

    def exit_(source):
        pooled = add("GlobalAveragePool", source)
        flat = add("Reshape", pooled, size) if size else add("Flatten", pooled)
        ends.append(add("Softmax", add("Gemm", flat, sizes=(CHANNELS, 4)), axis=1))

    size = None
    if draw(st.booleans()):
        weights |= {"first": np.array([0]), "rest": np.array([-1])}
        size = add("Concat", add("Gather", add("Shape", "image"), "first"), "rest", axis=0)
    x = add("Conv", "image", sizes=(CHANNELS, 2, 3, 3), pads=[1, 1, 1, 1])
    for _ in range(draw(st.integers(1, 3))):
        inside = add("Relu", add("Conv", x, sizes=(CHANNELS, CHANNELS, 3, 3), pads=[1, 1, 1, 1]))
        if draw(st.booleans()):
            exit_(inside)
        x = add("Add", inside, x)
        if draw(st.booleans()):
            exit_(x)
    exit_(add("Relu", add("Conv", x, sizes=(CHANNELS, CHANNELS, 1, 1))))
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 2, 4, 4])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in ends],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@given(networks(), st.integers(1, 4))
@settings(max_examples=20)
def test_a_sample_has_the_same_answers_in_any_batch(tmp_path_factory, model, batch):
    path = tmp_path_factory.getbasetemp() / "net.onnx"
    path.write_bytes(model.SerializeToString())
    stages = read_stages(path).stages
    ends = [value.name for value in model.graph.output]
    assert [stage.answer for stage in stages] == ends
    assert all(stage.probabilities for stage in stages)
    assert stages[-1].keeps == ()
    assert not any("image" in stage.keeps for stage in stages)  # only its size is needed
    images = np.random.default_rng(1).normal(size=(batch, 2, 4, 4)).astype(np.float32)
    alone = [list(ReferenceEvaluator(model).run(None, {"image": images[row : row + 1]})) for row in range(batch)]
    for place, answer in enumerate(chained(stages, {"image": images})):
        np.testing.assert_allclose(answer, np.concatenate([found[place] for found in alone]), rtol=1e-4, atol=1e-5)


def save(path, nodes, sizes=("n", 2), outputs=("y",), weights=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs], list(weights),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("one.runtime", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


RELU, NEG = helper.make_node("Relu", ["x"], ["y"], name="first"), helper.make_node("Neg", ["y"], ["z"], name="second")


def test_exits_by_names_of_nodes_and_tensors(tmp_path):
    path = save(tmp_path / "m.onnx", [RELU, NEG], outputs=("z",))
    assert [stage.answer for stage in read_stages(path).stages] == ["z"]
    assert [(stage.answer, stage.keeps) for stage in read_stages(path, ["second", "y"]).stages] == [
        ("y", ("y",)),
        ("z", ()),
    ]


def test_an_exit_inside_a_block_keeps_several_tensors(tmp_path):
    add = helper.make_node("Add", ["x", "y"], ["z"])
    assert read_stages(save(tmp_path / "m.onnx", [RELU, add], outputs=("y", "z"))).stages[0].keeps == ("x", "y")


def test_a_tensor_of_open_sizes_is_kept_for_its_sizes(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Shape", ["a"], ["sizes"]),
        helper.make_node("Flatten", ["a"], ["y"]),
        helper.make_node("Neg", ["y"], ["b"]),
        helper.make_node("Reshape", ["b", "sizes"], ["c"]),
        helper.make_node("Flatten", ["c"], ["z"]),
    ]
    stages = read_stages(save(tmp_path / "m.onnx", nodes, ("n", "m", 2), outputs=("y", "z"))).stages
    assert [stage.keeps for stage in stages] == [("a", "y"), ()]
    inputs = np.arange(-6.0, 6.0, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(chained(stages, {"x": inputs})[1], -np.maximum(inputs, 0).reshape(2, 6))


@pytest.mark.parametrize(("after", "found"), [([], True), (["Flatten", "Identity"], True), (["Relu"], False)])
def test_probabilities_are_those_of_a_softmax(tmp_path, after, found):
    nodes, name = [helper.make_node("Softmax", ["x"], ["p"], axis=1)], "p"
    for op in after:
        nodes.append(helper.make_node(op, [name], [name + "p"]))
        name += "p"
    (stage,) = read_stages(save(tmp_path / "m.onnx", nodes, outputs=(name,))).stages
    assert stage.probabilities is found


def test_faults(tmp_path):
    path = tmp_path / "m.onnx"

    def fault(*given, exits=None, **more):
        with pytest.raises(InputError) as error:
            read_stages(save(path, *given, **more), exits)
        return str(error.value)

    assert fault([RELU], (2, 2)) == (
        f'{path}: input "x": expected an open first dimension, the batch, found 2; export the model with a batch size '
        "that is not fixed"
    )
    assert "found a scalar" in fault([RELU], ())
    assert fault([RELU], exits=["frist"]) == (
        f'exits: expected names of outputs or nodes of {path}, found "frist"; did you mean first?'
    )
    assert fault([RELU], exits=["f"]).endswith('found "f"; did you mean first?')
    turned = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    assert 'tensor "y": expected a row for each sample of the batch, found 2 x batch; ' in fault([turned])
    assert "nothing is computed between it and the exit before" in fault(
        [helper.make_node("Split", ["x"], ["y", "z"], axis=1)], outputs=("y", "z")
    )
    total = helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    scaled = helper.make_node("Mul", ["y", "s"], ["z"])
    both = helper.make_node("Add", ["x", "s"], ["y"])
    assert fault([total, both, scaled], outputs=("y", "z")) == (
        f'{path}: stage 1: tensor "s": expected a row for each sample of the batch, found a scalar; export the '
        "model with a batch size that is not fixed, or place the exit elsewhere"
    )
    own = helper.make_node("Own", ["x"], ["y"], domain="one.runtime")
    assert fault([own, NEG], outputs=("z",), exits=["y", "z"]).startswith(
        f'{path}: tensor "y": its type cannot be computed; give the model as it was exported'
    )
    number = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, None)
    go = helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, None)
    a, b = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 2]) for name in "ab")
    body = helper.make_graph([helper.make_node("Identity", ["a"], ["b"])], "b", [number, go, a], [go, b])
    loop = helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)
    assert "(Loop): cannot be cut, as it has graphs of its own; export the model without" in fault(
        [loop], weights=[numpy_helper.from_array(np.array(3), "times")]
    )
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="expected an ONNX model"):
        read_stages(path)
    with pytest.raises(InputError, match="found no such file"):
        read_stages(tmp_path / "other.onnx")
    with pytest.raises(InputError, match="expected an ONNX model, found a folder"):
        read_stages(tmp_path)
