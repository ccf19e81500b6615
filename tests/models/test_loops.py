"""Loops of a file, written out: exporters write GRU, RNN and masked cells as Loop or Scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fluidb.formats import InputError
from fluidb.models.importers import ReadAs, import_network
from fluidb.models.importers.onnx import graph
from fluidb.models.loader import build_network
from onnx import TensorProto, helper, numpy_helper, parser

STEPS, SIZE, HIDDEN = 6, 5, 4

CELL = f"""
    <ir_version: 8, opset_import: ["" : OPSET]>
    net (float[{STEPS},1,{SIZE}] x) => (float[1,3] y) {{
        most = Constant<value = int64 {{{STEPS}}}>()
        start = Constant<value = int64 {{0}}>()
        size = Constant<value = int64[2] {{1, {HIDDEN}}}>()
        zero = ConstantOfShape(size)
        at_end, state, all = Loop(most, , start, zero)<body = step (int64 i, bool go, int64 at, float[1,{HIDDEN}] h)
            => (bool on, int64 next, float[1,{HIDDEN}] made, float[1,{HIDDEN}] kept) {{
                one = Constant<value = int64 {{1}}>()
                end = Constant<value = int64 {{END}}>()
                next = Add(at, one)
                on = Less(next, end)
                seen = Gather(x, at)
                wide = MatMul(seen, w)
                old = MatMul(h, u)
                sum = Add(wide, old)
                made = Tanh(sum)
                kept = Identity(made)
            }}>
        y = MatMul(state, v)
    }}
"""
"""A cell that the file runs for each step; the loop also counts its steps itself."""

WEIGHTS: dict[str, tuple[int, ...]] = {"w": (SIZE, HIDDEN), "u": (HIDDEN, HIDDEN), "v": (HIDDEN, 3)}


def written(tmp_path: Path, text: str, weights: dict[str, tuple[int, ...]] = WEIGHTS) -> Path:
    model = parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ones(sizes, np.float32), name) for name, sizes in weights.items()
    )
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def cell(opset: int = 17, end: int = 99) -> str:
    return CELL.replace("OPSET", f"{opset}").replace("END", f"{end}")


def macs(path: Path, **options: Any) -> list[int]:
    file = import_network(path, "onnx", **options)
    return [layer.gemm.macs for layer in build_network(file, path).layers if layer.gemm]


@pytest.mark.parametrize(("opset", "end", "steps"), [(11, 99, STEPS), (17, 99, STEPS), (17, 3, 3)])
def test_a_loop_multiplies_in_each_step(tmp_path: Path, opset: int, end: int, steps: int):
    """The first state, too, which is a constant; the loop ends when its own count says so."""
    path = written(tmp_path, cell(opset, end))
    assert sorted(macs(path)) == sorted([SIZE * HIDDEN, HIDDEN * HIDDEN] * steps + [HIDDEN * 3])


def test_what_each_step_gives_is_put_side_by_side(tmp_path: Path):
    text = cell().replace("y = MatMul(state, v)", "flat = Flatten<axis = 0>(all)\n y = MatMul(flat, v)")
    path = written(tmp_path, text, WEIGHTS | {"v": (STEPS * HIDDEN, 3)})
    assert macs(path)[-1] == STEPS * HIDDEN * 3


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_takes_its_inputs_step_by_step(tmp_path: Path, backward: int):
    step = helper.make_graph(
        [
            helper.make_node("MatMul", ["part", "w"], ["wide"]),
            helper.make_node("MatMul", ["h", "u"], ["old"]),
            helper.make_node("Add", ["wide", "old"], ["made"]),
            helper.make_node("Relu", ["made"], ["kept"]),
        ],
        "step",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("h", "part")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("made", "kept")],
        [numpy_helper.from_array(np.ones(WEIGHTS["u"], np.float32), "u")],
    )
    scan = helper.make_node(
        "Scan", ["zero", "x"], ["state", "all"], body=step, num_scan_inputs=1, scan_input_axes=[1],
        scan_output_axes=[1], scan_input_directions=[backward], scan_output_directions=[backward],
    )  # fmt: skip
    weights = [numpy_helper.from_array(np.ones(WEIGHTS[name], np.float32), name) for name in "wv"]
    weights.append(numpy_helper.from_array(np.zeros((1, HIDDEN), np.float32), "zero"))
    graph = helper.make_graph(
        [scan, helper.make_node("MatMul", ["all", "v"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, STEPS, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, STEPS, 3])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    count = macs(tmp_path / "net.onnx")
    assert count == [SIZE * HIDDEN, HIDDEN * HIDDEN] * STEPS + [STEPS * HIDDEN * 3]


def test_an_if_inside_of_a_loop_is_its_branch(tmp_path: Path):
    """Only the first step multiplies its input."""
    inside = f"""first = Equal(at, start)
                wide = If(first)<then_branch = yes () => (float[1,{HIDDEN}] wide1) {{ wide1 = MatMul(seen, w) }},
                    else_branch = no () => (float[1,{HIDDEN}] h1) {{ h1 = Identity(h) }}>"""
    path = written(tmp_path, cell().replace("wide = MatMul(seen, w)", inside))
    assert sorted(macs(path)) == sorted([SIZE * HIDDEN] + [HIDDEN * HIDDEN] * STEPS + [HIDDEN * 3])


def test_a_loop_behind_an_if_reads_what_the_if_gives(tmp_path: Path):
    """The If asks a size and is written out first; names inside of the loop change with it."""
    before = f"""axes = Shape(x)
        second = Constant<value = int64 {{1}}>()
        many = Gather(axes, second)
        alone = Equal(many, second)
        x2 = If(alone)<then_branch = yes () => (float[{STEPS},1,{SIZE}] x3) {{ x3 = Relu(x) }},
            else_branch = no () => (float[{STEPS},1,{SIZE}] x4) {{ x4 = Tanh(x) }}>
        at_end, state"""
    text = cell().replace("at_end, state", before, 1).replace("Gather(x, at)", "Gather(x2, at)")
    path = written(tmp_path, text)
    assert sorted(macs(path)) == sorted([SIZE * HIDDEN, HIDDEN * HIDDEN] * STEPS + [HIDDEN * 3])


FAULTS = {
    "its condition asks values": (
        cell()
        .replace("on = Less(next, end)", "")
        .replace("old = ", "low = ReduceMax<keepdims = 0>(seen)\n on = Less(low, high)\n old = "),
        'node "at_end" (Loop): how often it runs depends on values that only a run gives',
    ),
    "it never runs": (cell().replace(f"{{{STEPS}}}>()", "{0}>()", 1), "expected a loop that runs, found no step"),
    "it never ends": (
        cell().replace("Loop(most, ,", "Loop( , ,").replace("Less(next, end)", "Less(start, end)"),
        "found more in its loops",
    ),
    "an unknown operator": (
        cell().replace("made = Tanh(sum)", "made = other.Magic(sum)").replace('["" : 17]', '["" : 17, "other" : 1]'),
        "other.Magic is not understood; say what it costs with --treat other.Magic=free|memory",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_loop_that_cannot_be_written_out_is_one_line(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graph, "MAX_NODES", 2000)  # a loop without end is written out up to the most nodes
    text, expected = FAULTS[case]
    path = written(tmp_path, text, WEIGHTS | {"high": ()})
    with pytest.raises(InputError) as caught:
        macs(path)
    (line,) = caught.value.faults
    assert expected in line


def test_a_loop_can_be_treated_whole(tmp_path: Path):
    text = FAULTS["its condition asks values"][0].replace(
        "=> (float[1,3] y)", f"=> (float[1,3] y) <float[1,{HIDDEN}] state>"
    )
    path = written(tmp_path, text, WEIGHTS | {"high": ()})
    assert macs(path, read_as=ReadAs({}, {"Loop": "free"}, None)) == [HIDDEN * 3]
