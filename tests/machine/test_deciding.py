"""Networks that decide about their exits themselves: each request is answered as ONNX Runtime answers the whole graph.

CI draws a few networks; `FLUIDB_GRAPHS=1000 pytest -n 0 tests/machine/test_deciding.py` draws more.
"""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import pytest
from builders import COMPILED
from deciding import COLOURS, SIDE, deciding
from fluidb.machine.network import RealNetwork
from fluidb.traffic.exits import levels
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")

GRAPHS = int(os.environ.get("FLUIDB_GRAPHS", "25"))


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
