"""A new measure of how sure an answer is stands in one file; all that measures are used for follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fluidb

SOURCE = Path(fluidb.__file__).parent
MEASURES = "MEASURES: dict[str, Measure] = {measure.name: measure for measure in (CONFIDENCE, ENTROPY, MARGIN)}"
COLLISION = '''
COLLISION = Measure(
    name="collision", one="a collision", several="collisions", high=1.0, surer="larger",
    of=lambda shares: (shares**2).sum(axis=1),
    of_largest=lambda largest, classes: largest**2 + (1 - largest) ** 2 / (classes - 1),
    usual=(0.3, 0.5, 0.9), searched=(0.3, 0.5, 0.9), swept=(0.3, 0.5, 0.9),
)
"""The probability that two draws of a class are the same."""

'''

USE = '''
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from onnx import numpy_helper

from fluidb.cli.app import run
from fluidb.machine.network import RealNetwork
from fluidb.models import load_network
from fluidb.models.network import thresholds_of
from fluidb.tables import read_latency
from fluidb.tables.exit_plan import read_plan
from fluidb.traffic import read_samples, read_trace
from fluidb.traffic.measures import MEASURES

COLLISION = MEASURES["collision"]

def fluidb(*arguments):
    said = StringIO()
    with redirect_stdout(said), mock.patch("sys.argv", ["fluidb", *map(str, arguments)]):
        try:
            run()
        except SystemExit as end:
            assert not end.code, said.getvalue()
    return said.getvalue()

# answers: drawn, shown, drawn by requests, and decided by a threshold
fluidb("samples", "generate", "glue", "--network", "tiny.toml", "--count", 400, "--measure", "collision", "-o", "s.npz")
samples = read_samples("s.npz")
assert samples.measure is COLLISION
assert np.load("s.npz")["collision"].shape == (400, 3)
assert "mean collision" in fluidb("samples", "show", "s.npz", "--plot", "s.svg")
assert "collision threshold" in Path("s.svg").read_text()
Path("t.csv").write_text("request_id,arrival_s,collision_1,collision_2\\n0,0,0.9,0.9\\n1,1,0.1,0.9\\n2,2,0.1,0.1\\n")
assert read_trace("t.csv").measure is COLLISION
fluidb("dse", "tiny.toml", "pocket.toml", "-o", "d", "--b-max", 1)
fluidb("latency", "d")
served = fluidb("serve-sim", "d", "--trace", "t.csv", "--slo", "1s", "--threshold", "0.5,never")
assert "collision >= 0.5, never" in served, served
swept = fluidb("thresholds", "d", "--trace", "o.csv", "--slo", "1s", "--samples", "s.npz")
assert "collision" in swept and "0.3" in swept

# a network and a table that state it
stated = Path("tiny.toml").read_text()
for rate in ("0.25", "0.35"):
    stated = stated.replace(f"rate = {rate}", f"rate = {rate}\\ncollision = {rate}")
Path("stated.toml").write_text(stated)
assert thresholds_of(load_network("stated.toml").exits) == ("collision", [0.25, 0.35])
assert "collision >= 0.25" in fluidb("models", "show", "stated.toml")
fluidb("dse", "stated.toml", "pocket.toml", "-o", "stated", "--b-max", 1)
fluidb("latency", "stated")
assert read_latency("stated").thresholds == ("collision", [0.25, 0.35])
assert "collision >= 0.25, 0.35" in fluidb("serve-sim", "stated", "--trace", "t.csv", "--slo", "1s")

# exits that are chosen by it
drawn = ["--count", 600, "--measure", "collision", "-o", "log.npz"]
fluidb("samples", "generate", "glue", "--network", "bert_base", *drawn)
asked = ["--samples", "log.npz", "--batch", 2, "--guard", "none", "-o", "plan"]
said = fluidb("exits", "bert_base", "v100-tensorrt-bert", *asked)
assert "from a collision of" in said, said
assert read_plan("plan").measure == "collision"

# a model that decides by it
graph = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
g (float[1,7] x) => (float[1,4] y) <float[7,4] w, float[7,7] v, int64[1] one = {1}, float t = {0.4}> {
    i = MatMul (x, v) e = MatMul (i, w) p = Softmax <axis=1> (e) q = Mul (p, p) m = ReduceSum (q, one)
    s = GreaterOrEqual (m, t)
    y = If (s) <then_branch = l () => (float[1,4] a) { a = Identity (e) },
                else_branch = o () => (float[1,4] d) { b = MatMul (i, v) c = MatMul (b, w) d = Identity (c) }>
}""")
values = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
kept = [item for item in graph.graph.initializer if item.name not in {"w", "v"}]
del graph.graph.initializer[:]
weights = {"w": values[:, :4].copy(), "v": values}
graph.graph.initializer.extend([*kept, *(numpy_helper.from_array(array, name) for name, array in weights.items())])
names = {item.name for item in graph.graph.initializer}
inputs = [item for item in graph.graph.input if item.name not in names]
del graph.graph.input[:]
graph.graph.input.extend(inputs)
onnx.save(graph, "net.onnx")
said = fluidb("models", "import", "net.onnx", "-o", "net.toml")
assert "from a collision of 0.4" in said, said
real = RealNetwork("net.onnx")
assert (real.measure, real.thresholds) == (COLLISION, [0.4])
scores = real.answers[0].astype(np.float64)
shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
assert np.allclose(real.samples().confidences[:, 0], (shares**2).sum(axis=1), rtol=1e-5)
'''


def test_a_measure_is_added_in_one_file(tmp_path):
    copy = tmp_path / "fluidb"
    unused = shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "results", "website", "build", "benchmarks")
    shutil.copytree(SOURCE, copy, ignore=unused)
    owner = copy / "traffic" / "measures.py"
    assert owner.read_text().count(MEASURES) == 1
    owner.write_text(owner.read_text().replace(MEASURES, COLLISION + MEASURES.replace("MARGIN)", "MARGIN, COLLISION)")))
    for name in ("tiny.toml", "pocket.toml"):
        shutil.copy(SOURCE / "tests" / "data" / name, tmp_path)
    (tmp_path / "o.csv").write_text("request_id,arrival_s\n0,0\n1,1\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
