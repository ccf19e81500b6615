"""Recurrent layers: the weights are read at each step, and the sizes are exact on every platform."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from fluidb.formats import InputError
from fluidb.models import Network, load_network
from fluidb.models.importers import import_network
from fluidb.models.loader import build_network, read_network_file
from fluidb.models.rows import WholeLayer, cut_into_rows
from fluidb.models.works import layer_works
from onnx import numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def save(tmp_path: Path, op: str, steps: int, side: int, inner: int, hidden: int, both: bool = False) -> Path:
    """A recurrent layer and a product of its last state."""
    gates, directions = GATES[op], 2 if both else 1
    text = f"""<ir_version: 8, opset_import: ["" : 14]> g (float[{steps},{side},{inner}] x) => (float[{side},12] o) {{
        y, h = {op} <hidden_size={hidden}, direction="{"bidirectional" if both else "forward"}"> (x, w, r)
        n = Constant <value_ints=[{side},{directions * hidden}]> ()
        t = Transpose <perm=[1,0,2]> (h) f = Reshape (t, n) o = MatMul (f, v) }}"""
    model = onnx.parser.parse_model(text)
    sizes = {"w": (directions, gates * hidden, inner), "r": (directions, gates * hidden, hidden),
             "v": (directions * hidden, 12)}  # fmt: skip
    model.graph.initializer.extend(
        numpy_helper.from_array(np.zeros(size, np.float32), name) for name, size in sizes.items()
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def imported(path: Path) -> Network:
    return build_network(import_network(path, "onnx"), path)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("both", [False, True])
def test_sizes_are_exact(tmp_path, op, both):
    """Each step and direction: inputs and state, by the weights of every gate."""
    gates, steps = GATES[op], 7
    network = imported(save(tmp_path, op, steps, 1, 5, 6, both))
    assert network.gemms[0] == (1, 5 + 6, gates * 6, steps * (1 + both))
    assert network.macs == steps * (1 + both) * gates * 6 * 11 + 12 * 6 * (1 + both)


def test_the_lstm_of_a_keyword_network(tmp_path):
    """64 values to 64, 100 steps: every step reads 4 x 64 x 128 weights."""
    path = save(tmp_path, "LSTM", 100, 1, 64, 64)
    network = imported(path)
    assert network.gemms[0].macs == 3_276_800
    work = layer_works(import_network(path, "onnx"), path)[0]
    assert work.weights == 100 * 4 * 64 * 128
    assert work.words == 2 * 100 * 64


def test_sequences_side_by_side_share_the_weights_of_a_step(tmp_path):
    """Windows of one sample, as rows of an image."""
    network = imported(save(tmp_path, "GRU", 7, 4, 5, 6))
    assert network.gemms[0] == (4, 11, 18, 7)


TOML = """schema = "fluidb.network/1"
name = "r"
title = "r"
input = { height = 10, width = 1, channels = 5 }
layers = [{ name = "first", op = "conv", out = 5, kernel = [3, 1], pad = [1, 0] },
          { name = "cell", op = "recurrent", hidden = 6, gates = 4, sequences = %s },
          { name = "flat", op = "flatten" }, { name = "end", op = "linear", out = 3 }]
"""


def test_a_network_file_states_one(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(TOML % 2)
    assert load_network(str(path)).gemms[1:] == [(2, 11, 24, 5), (1, 60, 3, 1)]
    (cell, *_) = cut_into_rows(read_network_file(str(path))[0], path).trunk.tail
    assert cell == WholeLayer("cell", 2 * 10 * 4 * 6 * 12, 4 * 6 * 12, 50, 60)  # in a cluster, one device runs it
    path.write_text(TOML % 3)
    with pytest.raises(InputError, match="sequences 3 must divide the positions of the input, 10"):
        load_network(str(path))
