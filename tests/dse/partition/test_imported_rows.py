"""Imported graphs in shares: each device's rows are those that ONNX Runtime computes of the whole graph.

CI draws a few graphs; `FLUIDB_GRAPHS=1000 pytest tests/dse/partition/test_imported_rows.py` draws more.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import naive_partition
import numpy as np
import onnx
import pytest
from builders import COMPILED
from fluidb.dse.partition.search import Partitioner
from fluidb.models.importers import import_network
from fluidb.models.rows import cut_into_rows
from fluidb.models.schema import NetworkFile
from fluidb.tables.partition import FusionRule, PartitionOptions
from naive_shares import draw_graph, run, run_shares

GRAPHS = int(os.environ.get("FLUIDB_GRAPHS", "60"))


@pytest.mark.skipif(not COMPILED, reason="no kernel is new here")
def test_shares_of_imported_graphs_compute_what_onnx_runtime_does_of_the_whole(tmp_path: Path):
    """Graphs of parts that go row by row are all cut; the others up to the first part that does not."""
    counts: Counter[str] = Counter()
    for seed in range(GRAPHS):
        rng, (graph, outputs) = np.random.default_rng(seed), draw_graph(seed)
        path = tmp_path / "net.onnx"
        path.write_bytes(graph.model(outputs).SerializeToString())
        file = import_network(path, "onnx")
        cut = cut_into_rows(file, path)
        assert not graph.keeps or not cut.uncut or "the first layer, " in cut.uncut[0], (seed, graph.parts)
        counts["in part"] += bool(cut.uncut)
        options = PartitionOptions(rule=FusionRule(str(rng.choice(list(FusionRule)))))
        search = Partitioner(cut, naive_partition.draw_cluster(rng), options)
        table = search.partition(search.names)
        image = rng.normal(size=graph.sizes["x"]).astype(np.float32)
        shares = run_shares(graph, file, table, image)
        whole = run(graph, {"x": image}, [*shares.keys() - {"x"}, *outputs])
        for name, found in run(graph, shares, outputs).items():
            scale = np.abs(whole[name]).max() + 1e-3
            np.testing.assert_allclose(found / scale, whole[name] / scale, atol=1e-4, err_msg=f"{seed} {graph.parts}")
        counts.update(["cut", *(gate.layers[0] for block in table.blocks for gate in block.gates)])
    assert counts["cut"] > GRAPHS / 3
    assert counts["in part"] > GRAPHS / 3
    assert counts.total() > 1.1 * GRAPHS + counts["in part"]  # some have gates


BETWEEN = {
    "rows and columns change places": "y = Transpose <perm=[0,1,3,2]> (h)",
    "rows and channels change places": "y = Transpose <perm=[0,2,1,3]> (h)",
    "from the last row to the first": "y = Slice (h, last, none, two, last)",
    "rows rolled": "a = Slice (h, two, end, two) c = Slice (h, zero, two, two) y = Concat <axis=2> (a, c)",
    "half of the rows twice": "a = Slice (h, zero, four, two) y = Concat <axis=2> (a, a)",
    "positions as one axis, turned": (
        "l = Constant <value_ints=[1,8,64]> () a = Reshape (h, l) c = Transpose <perm=[0,2,1]> (a) "
        "s = Shape (h) y = Reshape (c, s)"
    ),
    "windows": (
        "o = Constant <value_ints=[1,8,2,4,2,4]> () a = Reshape (h, o) "
        "c = Transpose <perm=[0,1,3,2,5,4]> (a) s = Shape (h) y = Reshape (c, s)"
    ),
    "rows looked up": "i = Constant <value_ints=[7,6,5,4,3,2,1,0]> () y = Gather <axis=2> (h, i)",
    "depth and space": 'a = SpaceToDepth <blocksize=2> (h) y = DepthToSpace <blocksize=2, mode="CRD"> (a)',
    "a scale of all values": "q, s, z = DynamicQuantizeLinear (h) y = DequantizeLinear (q, s, z)",
    "added to itself, turned": "t = Transpose <perm=[0,1,3,2]> (h) g = Conv (x, k) y = Add (g, t)",
    "beside itself, turned": "t = Transpose <perm=[0,1,3,2]> (h) u = Conv (x, k) y = Concat <axis=1> (u, t)",
    "normalised over rows": "y = Softmax <axis=2> (h)",
}  # fmt: skip
ROW_BY_ROW = {
    "channel shuffle": (
        "g = Constant <value_ints=[1,2,4,8,8]> () a = Reshape (h, g) c = Transpose <perm=[0,2,1,3,4]> (a) "
        "s = Shape (h) y = Reshape (c, s)"
    ),
    "half of the channels": "y, b = Split <axis=1, num_outputs=2> (h)",
    "halves of the channels, one convolved": (
        "a, b = Split <axis=1, num_outputs=2> (h) c = Conv (a, k4) y = Concat <axis=1> (b, c)"
    ),
    "from the last column to the first": "y = Slice (h, last, none, three, last)",
    "turned twice": "a = Transpose <perm=[0,1,3,2]> (h) r = Relu (a) y = Transpose <perm=[0,1,3,2]> (r)",
    "channels last": "a = Transpose <perm=[0,2,3,1]> (h) c = MatMul (a, m) y = Transpose <perm=[0,3,1,2]> (c)",
    "normalised over channels": (
        "a = Transpose <perm=[0,2,3,1]> (h) n = LayerNormalization (a, v) y = Transpose <perm=[0,3,1,2]> (n)"
    ),
    "local response normalisation": "y = LRN <size=3> (h)",
    "squeeze and excite": "p = GlobalAveragePool (h) g = Conv (p, k) s = Sigmoid (g) y = Mul (h, s)",
    "squeeze and excite by a mean": (
        "q = Constant <value_ints=[2,3]> () p = ReduceMean (h, q) g = Conv (p, k) s = Sigmoid (g) y = Mul (s, h)"
    ),
    "a slice of all rows": "y = Slice (h, zero, end, two)",
}  # fmt: skip


def imported(tmp_path: Path, body: str, channels: int = 8) -> tuple[NetworkFile, Path]:
    """A graph whose rows, columns and channels are equal in number, so that no shape tells one from another."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 20]> g (float[1,8,8,8] x) => (float[1,8,8,8] e)
        <int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] three = {{3}}, int64[1] four = {{4}},
         int64[1] end = {{99}}, int64[1] last = {{-1}}, int64[1] none = {{-99}}>
        {{ {body} e = Conv <pads=[1,1,1,1]> (y, w2) }}"""
    )
    sizes = {
        "w": (8, 8, 3, 3),
        "w2": (8, channels, 3, 3),
        "k": (8, 8, 1, 1),
        "k4": (4, 4, 1, 1),
        "m": (8, 8),
        "v": (8,),
    }
    for name, shape in sizes.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return import_network(path, "onnx"), path


@pytest.mark.parametrize("case", [*BETWEEN, *ROW_BY_ROW])
def test_a_graph_is_cut_where_rows_stay_in_their_places(tmp_path: Path, case: str):
    channels = {"half of the channels": 4, "beside itself, turned": 16}.get(case, 8)
    body = f"h = Conv <pads=[1,1,1,1]> (x, w) {(BETWEEN | ROW_BY_ROW)[case]}"
    file, path = imported(tmp_path, body, channels)
    if case == "beside itself, turned":
        assert [op.inputs for op in file.layers if op.op == "concat"] == [["u.view", "h.view"]]
    if case in ROW_BY_ROW:
        assert cut_into_rows(file, path).trunk.units[-1].name == "e"
        return
    cut = cut_into_rows(file, path)
    assert re.fullmatch(r'.* and all behind: rows of ".*" \((view|memory)\) may need its whole input', cut.uncut[0])
    assert cut.trunk.tail[-1].name == "e"


@pytest.mark.parametrize(
    ("perm", "rows"), [([0, 3, 1, 2], True), ([0, 1, 3, 2], False), ([0, 2, 3, 1], False), ([0, 1, 2, 3], True)]
)
def test_the_rows_of_an_image_are_its_second_or_third_axis(tmp_path: Path, perm: list[int], rows: bool):
    """Many exporters put the channels last. An image on its side would be cut along its columns."""
    file, path = imported(tmp_path, f"y = Transpose <perm={perm}> (x)")
    assert [op.op for op in file.layers] == (["conv"] if rows else ["view", "conv"])
    why = 'input.view and all behind: rows of "input.view" (view) may need its whole input'
    assert cut_into_rows(file, path).uncut == ([] if rows else [why])
