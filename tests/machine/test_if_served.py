"""Networks that decide about their exits themselves: each request is answered as ONNX Runtime answers the whole graph.

CI draws a few networks; `FLUIDB_GRAPHS=1000 pytest -n 0 tests/machine/test_if_served.py` draws more.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from builders import COMPILED, Run
from deciding import COLOURS, SIDE, deciding
from fluidb.formats import InputError
from fluidb.machine.network import RealNetwork
from fluidb.models.importers.onnx import decisions
from fluidb.traffic import read_samples
from fluidb.traffic.exits import levels
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")

GRAPHS = int(os.environ.get("FLUIDB_GRAPHS", "15"))


def served(network: RealNetwork, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Exit and answer of each sample of a batch, whose samples leave it one exit after the other."""
    least = [*levels(network.thresholds, len(network.exits), network.measure), -np.inf]
    tensors = {name: values[rows] for name, values in network.inputs.items()}
    here, exits = np.arange(len(rows)), np.zeros(len(rows), dtype=int)
    answers: list[np.ndarray] = [np.empty(0)] * len(rows)
    for stage, threshold in enumerate(least):
        found, tensors = network.session.run_stage(stage, tensors)
        leave = network.confidence(stage, found) >= threshold
        for at in np.flatnonzero(leave):
            exits[here[at]], answers[here[at]] = stage + 1, found[at]
        here, tensors = here[~leave], {name: values[~leave] for name, values in tensors.items()}
        if not len(here):
            break
    return exits, answers


@given(deciding(), st.integers(1, 6))
@settings(max_examples=GRAPHS)
def test_every_answer_is_that_of_the_whole_graph(tmp_path_factory, drawn, batch):
    path = tmp_path_factory.getbasetemp() / "deciding.onnx"
    path.write_bytes(drawn.model.SerializeToString())
    samples = np.random.default_rng(1).normal(size=(12, COLOURS, SIDE, SIDE)).astype(np.float32)
    inputs = path.with_suffix(".npz")
    np.savez(inputs, input=samples)
    network = RealNetwork(str(path), inputs)
    assert network.measure.name == drawn.measure
    assert network.thresholds == pytest.approx(drawn.thresholds, rel=1e-5)
    network.warm_up(2)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    whole = onnxruntime.InferenceSession(path.read_bytes(), quiet, providers=["CPUExecutionProvider"])
    confidences = network.samples().confidences
    least = levels(network.thresholds, len(network.exits), network.measure)
    for rows in np.split(np.arange(12), range(batch, 12, batch)):
        exits, answers = served(network, rows)
        for row, exit_, answer in zip(rows.tolist(), exits.tolist(), answers, strict=True):
            if np.abs(confidences[row, : len(least)] - least).min() > 1e-4:  # nearer, rounding may decide
                expected, *number = whole.run(None, {"x": samples[row : row + 1]})
                np.testing.assert_allclose(answer, expected[0], rtol=1e-3, atol=1e-4)
                assert [exit_ - 1] * len(number) == number


def tied(folder: Path, compares: str, confidence: float = 0.5) -> RealNetwork:
    """Two classes with one score each for half of the samples, and another answer at the end."""
    inputs = folder / "x.npz"
    np.savez(inputs, input=np.array([[1, 1], [0, 30], [3, 0], [2, 2]], dtype=np.float32))
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
        g (float[1,2] x) => (float[1,2] y) <float t = {{{confidence}}}, int64[1] one = {{1}}> {{
            e = Neg (x) p = Softmax <axis=1> (e) m = ReduceMax (p, one) s = {compares} (m, t)
            y = If (s) <then_branch = l () => (float[1,2] a) {{ a = Identity (e) }},
                else_branch = o () => (float[1,2] b) {{ c = Add (e, t) b = Exp (c) }}> }}"""
    model = onnx.parser.parse_model(text)
    del model.graph.input[1:]
    (folder / "tied.onnx").write_bytes(model.SerializeToString())
    return RealNetwork(str(folder / "tied.onnx"), inputs)


@pytest.mark.parametrize(
    ("compares", "confidence", "exits"),
    [
        ("Greater", 0.5, [2, 1, 1, 2]),
        ("GreaterOrEqual", 0.5, [1, 1, 1, 1]),
        ("GreaterOrEqual", 1.0, [2, 1, 2, 2]),  # 1 - 9e-14 in 32 bits
        ("Greater", 1.0, [2, 2, 2, 2]),
    ],
)
def test_an_answer_that_meets_a_threshold_exactly_leaves_as_in_the_file(tmp_path, compares, confidence, exits):
    network = tied(tmp_path, compares, confidence)
    found, answers = served(network, np.arange(4))
    assert found.tolist() == exits
    for row, answer in enumerate(answers):
        own = network.session.run_original({"x": network.inputs["x"][row : row + 1]})
        np.testing.assert_allclose(answer, own[0], rtol=1e-6)


def test_a_model_that_answers_otherwise_than_its_thresholds_say_is_refused(tmp_path, monkeypatch):
    """As if its condition were misread; the samples name the first row that shows it."""
    monkeypatch.setattr(decisions, "_threshold", lambda *_, **__: "never")
    with pytest.raises(InputError, match=r"x.npz: row 2: expected the model to answer as at the exit that its If"):
        tied(tmp_path, "Greater")


ASKED = {
    "confidence": "p = Softmax <axis=1> (e) m = ReduceMax (p, one) s = Greater (m, t)",
    "entropy": """p = LogSoftmax <axis=1> (e) q = Exp (p) r = Mul (p, q) h = ReduceSum (r, one) n = Neg (h)
        s = Less (n, t)""",
}


@pytest.mark.parametrize("measure", ASKED)
def test_the_file_s_thresholds_are_those_of_every_command(fluidb: Run, tmp_path: Path, measure: str) -> None:
    """Imported, measured, simulated and served: each request leaves where ONNX Runtime takes it."""
    random = np.random.default_rng(0)
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
        g (float[1,7] x) => (float[1,4] y) <float t = {{0.7}}, int64[1] one = {{1}}, float[7,7] v, float[7,4] w> {{
            i = MatMul (x, v) e = MatMul (i, w) {ASKED[measure]}
            y = If (s) <then_branch = l () => (float[1,4] a) {{ a = Identity (e) }},
                else_branch = o () => (float[1,4] b) {{
                    c = MatMul (i, v) d = MatMul (c, w) b = Softmax <axis=1> (d) }}> }}"""
    model = onnx.parser.parse_model(text)
    del model.graph.input[1:]
    kept = [tensor for tensor in model.graph.initializer if tensor.name in {"t", "one"}]
    del model.graph.initializer[:]
    weights = {"v": random.normal(size=(7, 7)) / 3, "w": random.normal(size=(7, 4)) / 2}
    held = [onnx.numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()]
    model.graph.initializer.extend([*kept, *held])
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    inputs = random.normal(size=(40, 7)).astype(np.float32)
    np.savez(tmp_path / "x.npz", input=inputs)
    whole = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    sums = np.array([whole.run(None, {"x": row[None]})[0].sum() for row in inputs])
    taken = np.where(np.isclose(sums, 1, atol=1e-5), 2, 1)  # only the end answers with probabilities
    assert set(taken.tolist()) == {1, 2}

    def run(*arguments: object) -> str:
        done = fluidb(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = f"{measure} {'>=' if measure == 'confidence' else '<='} 0.7"
    run("measure", "net.onnx", "--inputs", "x.npz", "--repeats", 2, "--b-max", 3, "-o", "here")
    run("trace", "poisson", "--rate", 500, "--count", 100, "-o", "t.csv")
    rows = read_samples(tmp_path / "here" / "samples.npz").drawn(100, 0)
    common = ["--trace", "t.csv", "--slo", "50ms", "--json", "--requests"]
    real = json.loads(run("serve-real", "net.onnx", "here", "--inputs", "x.npz", *common, "real.csv"))
    simulated = json.loads(run("serve-sim", "here", "--samples", "here/samples.npz", *common, "simulated.csv"))
    assert (real["answers_wrong"], real["exits_from"]) == (0, f"{said} of net.onnx, seed 0")
    assert simulated["exits_from"] == f"{said} of here/samples.npz, seed 0"
    for name in ("real.csv", "simulated.csv"):
        exits = np.array([int(row["exit"]) for row in csv.DictReader((tmp_path / name).read_text().splitlines())])
        np.testing.assert_array_equal(exits, taken[rows])
    run("models", "import", "net.onnx", "-o", "net.toml")
    run("latency", "net.toml", "rtx-2080-ti", "-o", "gpu")
    elsewhere = run("serve-sim", "gpu", "--samples", "here/samples.npz", "--trace", "t.csv", "--slo", "50ms", "--json")
    assert json.loads(elsewhere)["exits_from"].startswith(f"{said} of ")
    record = json.loads(run("thresholds", "gpu", "--samples", "here/samples.npz", *common[:-1]))
    assert 0.7 in [point["threshold"] for point in record["points"]]


SQUEEZED = """
    <ir_version: 8, opset_import: ["" : 13]>
    net (float[N,3,1] x, bool fast) => (float[N,4] y) {
        sizes = Shape(x)
        place = Constant<value = int64 {AXIS}>()
        one = Constant<value = int64 {1}>()
        size = Gather(sizes, place)
        alone = Equal(size, one)
        flat = If(alone)<then_branch = yes () => (float[N,3] t) {
                axes = Constant<value = int64[1] {2}>() t = Squeeze(x, axes) },
            else_branch = no () => (float[N,3] e) {
                axes1 = Constant<value = int64[1] {2}>() e1 = Squeeze(x, axes1) e = Neg(e1) }>
        answer = If(fast)<then_branch = quick () => (float[N,4] q) { q = MatMul(flat, w) },
            else_branch = slow () => (float[N,4] s) { s1 = MatMul(flat, w) s = Relu(s1) }>
        y = Identity(answer)
    }
"""
"""Two If nodes that decide about no exit: one asks for a size, the other an input."""


def squeezed(folder: Path, axis: int = 2) -> Path:
    model = onnx.parser.parse_model(SQUEEZED.replace("AXIS", f"{axis}"))
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("fast", [0, 1])
def test_an_if_that_sizes_or_a_stated_input_decide_is_its_branch(tmp_path: Path, fast: int):
    path = squeezed(tmp_path)
    samples = np.random.default_rng(1).normal(size=(5, 3, 1)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=samples)
    network = RealNetwork(str(path), tmp_path / "in.npz", values={"fast": fast})
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": samples, "fast": np.array(bool(fast))})
    assert np.array_equal(network.answers[0], expected)
    answered, _ = network.session.run_stage(0, {"x": samples[:3]})
    assert np.array_equal(answered, expected[:3])


def test_an_if_that_asks_for_the_batch_or_for_an_input_is_refused(tmp_path: Path, fluidb: Run):
    path = squeezed(tmp_path, axis=0)
    with pytest.raises(InputError, match="expected If nodes that decide the same for every batch size, found one that"):
        RealNetwork(str(path), values={"fast": 1})
    squeezed(tmp_path)
    done = fluidb("measure", "net.onnx", "-o", "m")
    assert done.returncode == 2
    assert "it depends on the input fast; state its value, e.g. --value fast=1" in done.stderr
    done = fluidb("measure", "net.onnx", "-o", "m", "--value", "fast=1", "--repeats", "2", "--b-max", "2")
    assert done.returncode == 0, done.stderr
