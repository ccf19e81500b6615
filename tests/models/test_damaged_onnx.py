"""Damaged ONNX files, read three ways: each is taken or refused with faults that name the file.

CI draws a few; `FLUIDB_DAMAGED=9000 pytest -n 0 tests/models/test_damaged_onnx.py` draws more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from fluidb.dse.integers.quantise import quantise
from fluidb.formats import InputError
from fluidb.machine.network import RealNetwork
from fluidb.models.importers import import_network
from onnx import numpy_helper

CASES = int(os.environ.get("FLUIDB_DAMAGED", "300"))
SEED = int(os.environ.get("FLUIDB_DAMAGED_SEED", "1"))
NETWORK = """
<ir_version: 8, opset_import: ["" : 13]>
two (float[batch,2,6,6] x) => (float[batch,3] early, float[batch,3] late)
<float[4,2,3,3] w1, float[4] b1, float[4,4,3,3] w2, float[4] scale, float[4] shift, float[4] mean, float[4] var,
 float[4,3] w3, float[3,4] w4, float[3] b4>
{
  a = Conv <pads = [1,1,1,1], kernel_shape = [3,3]> (x, w1, b1)
  b = Relu (a)
  p = GlobalAveragePool (b)
  f = Flatten <axis = 1> (p)
  g = Gemm (f, w3, b4)
  early = Softmax <axis = 1> (g)
  c = Conv <pads = [1,1,1,1], kernel_shape = [3,3]> (b, w2)
  n = BatchNormalization (c, scale, shift, mean, var)
  d = Add (n, b)
  e = Relu (d)
  m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (e)
  q = AveragePool <kernel_shape = [3,3]> (m)
  r = Flatten <axis = 1> (q)
  h = Gemm <transB = 1> (r, w4, b4)
  late = Softmax <axis = 1> (h)
}
"""
OPERATORS = (
    "Conv", "Gemm", "Relu", "Add", "MaxPool", "AveragePool", "Flatten", "Reshape", "Softmax", "Resize", "If", "Loop",
    "BatchNormalization", "Shape", "Concat", "Constant", "MatMul", "Identity", "Dropout", "Nothing", "",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 3, 99, 2**31, 2**40)


def whole_model() -> onnx.ModelProto:
    """A residual network with two exits, and weights drawn from a seed."""
    model = onnx.parser.parse_model(NETWORK)
    rng = np.random.default_rng(0)
    for item in model.graph.value_info:
        sizes = [size.dim_value for size in item.type.tensor_type.shape.dim]
        model.graph.initializer.append(numpy_helper.from_array(rng.random(sizes, np.float32), item.name))
    del model.graph.value_info[:]
    return model


def damage_values(rng: random.Random, model: onnx.ModelProto) -> None:
    tensor = rng.choice(model.graph.initializer)
    raw = tensor.raw_data
    tensor.raw_data = rng.choice([b"", raw[:-1], raw[:4], raw * 2, b"\xff" * len(raw), bytes(len(raw))])


def damage_type(rng: random.Random, model: onnx.ModelProto) -> None:
    rng.choice(model.graph.initializer).data_type = rng.choice([*range(26), 99, -1])


def damage_sizes(rng: random.Random, model: onnx.ModelProto) -> None:
    dims = rng.choice(model.graph.initializer).dims
    change = rng.randrange(4)
    if change == 0:
        dims[rng.randrange(len(dims))] = rng.choice([*NUMBERS, 2**62])
    else:
        dims[:] = ([], [*dims, rng.choice(NUMBERS)], dims[::-1])[change - 1]


def damage_attribute(rng: random.Random, model: onnx.ModelProto) -> None:
    node = rng.choice([node for node in model.graph.node if node.attribute])
    attribute, change = rng.choice(node.attribute), rng.randrange(5)
    if change == 0:
        node.attribute.remove(attribute)
    elif change == 1:
        attribute.ints[:] = rng.choices(NUMBERS, k=rng.randrange(6))
    elif change == 2:
        attribute.type = rng.randrange(15)
    elif change == 3:
        attribute.i = rng.choice(NUMBERS)
    else:
        attribute.name = rng.choice(["x", "pads", "group", "axis", "kernel_shape", ""])


def damage_inputs(rng: random.Random, model: onnx.ModelProto) -> None:
    node, change = rng.choice(model.graph.node), rng.randrange(4)
    others = [rng.choice(model.graph.node).output[0], "x", rng.choice(model.graph.initializer).name, "", "nowhere"]
    if change == 0:
        node.input[rng.randrange(len(node.input))] = rng.choice(others)
    else:
        node.input[:] = ([], [*node.input, rng.choice(others)], node.input[:-1])[change - 1]


def damage_outputs(rng: random.Random, model: onnx.ModelProto) -> None:
    node, change = rng.choice(model.graph.node), rng.randrange(3)
    others = [rng.choice(model.graph.node).output[0], "x", "", "other"]
    node.output[:] = ([], [rng.choice(others)], [*node.output, "more"])[change]


def damage_order(rng: random.Random, model: onnx.ModelProto) -> None:
    nodes, change = list(model.graph.node), rng.randrange(3)
    place = rng.randrange(len(nodes))
    changed = (nodes[:place] + nodes[place + 1 :], [*nodes, nodes[place]], rng.sample(nodes, len(nodes)))[change]
    del model.graph.node[:]
    model.graph.node.extend(changed)


def damage_operator(rng: random.Random, model: onnx.ModelProto) -> None:
    rng.choice(model.graph.node).op_type = rng.choice(OPERATORS)


def damage_ends(rng: random.Random, model: onnx.ModelProto) -> None:
    end, change = rng.choice([*model.graph.input, *model.graph.output]), rng.randrange(6)
    dims = end.type.tensor_type.shape.dim
    if change == 0:
        end.ClearField("type")
    elif change == 1:
        del dims[rng.randrange(len(dims)) :]
    elif change == 2:
        dims[rng.randrange(len(dims))].dim_value = rng.choice(NUMBERS)
    elif change == 3:
        end.type.tensor_type.elem_type = rng.choice([0, 7, 8, 99])
    elif change == 4:
        end.name = rng.choice(["", "z", rng.choice(model.graph.node).output[0]])
    else:
        dims.add().dim_value = 3


def damage_graph(rng: random.Random, model: onnx.ModelProto) -> None:
    tensor, change = rng.choice(model.graph.initializer), rng.randrange(4)
    if change == 0:
        model.graph.initializer.remove(tensor)
    elif change == 1:
        tensor.name = rng.choice(["", "x", rng.choice(model.graph.initializer).name])
    elif change == 2:
        model.opset_import[0].version = rng.choice([0, 1, 7, 11, 18, 99])
    else:
        del model.graph.output[:]


DAMAGES: tuple[Callable[[random.Random, onnx.ModelProto], None], ...] = (
    damage_values, damage_type, damage_sizes, damage_attribute, damage_inputs, damage_outputs, damage_order,
    damage_operator, damage_ends, damage_graph,
)  # fmt: skip


def damaged(rng: random.Random, whole: bytes) -> bytes:
    """A model's file, damaged in one place or two, or cut, or with other bytes."""
    kind = rng.randrange(len(DAMAGES) + 2)
    if kind == len(DAMAGES):
        return whole[: rng.randrange(len(whole))]
    if kind > len(DAMAGES):
        raw = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(raw)
    model = onnx.load_model_from_string(whole)
    for damage in (DAMAGES[kind], *rng.choices(DAMAGES, k=rng.randrange(2))):
        try:
            damage(rng, model)
        except (IndexError, ValueError):
            continue  # the first damage left nothing of the kind of the second
    return bytes(model.SerializeToString())


def read_stages_of(path: Path, samples: Path) -> None:
    """What `fluidb measure` reads and runs before it takes times."""
    RealNetwork(str(path), samples)


def imported(path: Path, _: Path) -> None:
    import_network(path, "onnx", dims={"batch": 1})


@pytest.mark.parametrize("read", [imported, quantise, read_stages_of])
def test_a_damaged_file_is_read_or_refused_by_name(read: Callable[[Path, Path], object], tmp_path: Path) -> None:
    samples, path = tmp_path / "s.npz", tmp_path / "net.onnx"
    np.savez(samples, input=np.random.default_rng(1).random((2, 2, 6, 6), np.float32))
    whole, rng = whole_model().SerializeToString(), random.Random(SEED)
    path.write_bytes(whole)
    read(path, samples)
    refused = 0
    for case in range(CASES):
        path.write_bytes(damaged(rng, whole))
        try:
            read(path, samples)
        except InputError as error:
            faults, refused = error.faults, refused + 1
            assert all("\n" not in fault for fault in faults), f"case {case}: {faults}"
            assert all(str(path) in fault or "dims: " in fault or str(samples) in fault for fault in faults), faults
        except Exception as error:
            raise AssertionError(f"case {case}: {type(error).__name__}: {error}") from error
    assert 0.3 < refused / CASES < 1
