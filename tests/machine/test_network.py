"""A network on this machine: what it answers in a batch is what it answers alone, or it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import COMPILED
from fluidb.formats import InputError
from fluidb.machine.network import RealNetwork
from fluidb.machine.runtime import start
from fluidb.models.digits import INPUTS, MODEL
from onnx import helper, numpy_helper
from onnx.helper import make_node as node

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")


def real(folder: Path, nodes, outputs, sizes=("n", 6), weights=(), **more) -> RealNetwork:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.array(values), name) for name, values in dict(weights).items()],
    )  # fmt: skip
    path = folder / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return RealNetwork(str(path), **more)


def test_samples_leave_a_batch_whose_axis_is_not_the_first(tmp_path):
    """As in a recurrent network or a transformer of PyTorch, in which places come before samples."""
    network = real(
        tmp_path,
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
            node("Gather", ["t", "last"], ["e1"], axis=0),
            node("Neg", ["t"], ["u"]),
            node("ReduceMean", ["u"], ["e2"], axes=[0], keepdims=0),
        ],
        ["e1", "e2"], ("n", 5, 4), {"last": 4},
    )  # fmt: skip
    network.warm_up(3)
    rows = np.array([7, 2, 5])
    answers, kept = network.session.run_stage(0, {"x": network.inputs["x"][rows]})
    np.testing.assert_array_equal(answers, network.answers[0][rows])
    assert [values.shape for values in kept.values()] == [(3, 5, 4)]
    answers, kept = network.session.run_stage(1, {name: values[[2, 0]] for name, values in kept.items()})
    np.testing.assert_allclose(answers, network.answers[1][rows[[2, 0]]], rtol=1e-6)
    assert not kept


MEAN = [node("ReduceMean", ["x"], ["m"], axes=[0]), node("Sub", ["x", "m"], ["y"])]


def test_a_network_that_mixes_its_samples_is_refused(tmp_path):
    """Alone, a sample less the mean over its batch is nothing."""
    answered: list[tuple[int, int]] = []
    network = real(tmp_path, MEAN, ["y"], progress=lambda done, of: answered.append((done, of)))
    assert answered[::255] == [(1, 256), (256, 256)]
    network.warm_up(1)
    with pytest.raises(
        InputError, match=r"stage 1, batch of 2: a sample gets another answer in a batch than alone; .*eval"
    ):
        network.warm_up(2)


def test_a_stage_that_fails_or_loses_rows_is_refused(tmp_path, monkeypatch):
    network = real(tmp_path, [node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"])], ["y", "z"])
    run_stage = network.session.run_stage

    def fails(stage, tensors):
        raise RuntimeError(f"stage {stage + 1} failed: sizes")

    def loses(stage, tensors):
        answers, kept = run_stage(stage, tensors)
        return answers, {name: values[:1] for name, values in kept.items()}

    for replaced, message in ((fails, "failed: sizes; is the batch size fixed"), (loses, '"y": .* found 1 rows')):
        monkeypatch.setattr(network.session, "run_stage", replaced)
        with pytest.raises(InputError, match=f"stage 1, batch of 2: .*{message}"):
            network.warm_up(2)


def test_confidences_of_rows_that_are_probabilities(tmp_path):
    """Whatever node makes them: a second softmax would level them."""
    nodes = [node("Softmax", ["x"], ["p"]), node("Mul", ["p", "one"], ["y"]), node("Mul", ["p", "two"], ["z"])]
    network = real(tmp_path, nodes, ["y", "z"], weights={"one": np.float32(1), "two": np.float32(2)})
    assert network.probabilities == [True, False]
    np.testing.assert_allclose(network.samples().confidences[:, 0], network.answers[0].max(axis=1))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Log", ["x"], ["y"])], 'row 1: exit "y": expected scores, found NaN'),
        ([node("ReduceSum", ["x"], ["y"])], "of the batch, found 1 x 1; "),
        ([node("ReduceMean", ["x"], ["y"], axes=[1])], "1 x classes, two or more, to one sample, found 1 x 1; name"),
    ],
)
def test_answers_that_are_no_scores_of_classes_are_refused(tmp_path, nodes, message):
    with pytest.raises(InputError) as fault:
        real(tmp_path, nodes, ["y"])
    assert message in str(fault.value)


def test_the_network_that_ships_answers_as_on_its_small_maps():
    """Its maps are enlarged and its convolutions dilated as much, which changes no answer."""
    model = onnx.load(MODEL)
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for attribute in (each for made in small.graph.node if made.op_type == "Conv" for each in made.attribute):
        attribute.ints[:] = [size // 8 for size in attribute.ints]
    (scales,) = (tensor for tensor in small.graph.initializer if tensor.name == "scales")
    scales.CopyFrom(numpy_helper.from_array(np.ones(4, np.float32), "scales"))
    samples = np.load(INPUTS)["input"][:40]
    found = [start(which, 1).run(None, {"image": samples}) for which in (model, small)]
    for large, plain in zip(*found, strict=True):
        assert np.abs(large - plain).max() < 1e-3
