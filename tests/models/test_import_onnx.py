"""ONNX models: graphs of two exporters and graphs by hand, exits, and files that are damaged or hostile."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest
from builders import imported, lines
from fluidb.formats import InputError, read_toml
from fluidb.models import Gemm, load_network
from fluidb.models.importers import Placement, import_network
from fluidb.models.importers.exits import block_boundaries
from fluidb.models.schema import Flatten, NetworkFile
from fluidb.models.writer import network_text
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_onnx import count_products

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Graphs that Caffe2 exported, with weights of zeros; they ship with the onnx package."""


def save(tmp_path: Path, text: str, weights: Mapping[str, tuple[int, ...]] | None = None, opset: int = 20) -> Path:
    """A model in ONNX's own notation, with weights of zeros."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    for name, shape in (weights or {}).items():
        zeros = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, shape, bytes(4 * math.prod(shape)), raw=True)
        model.graph.initializer.append(zeros)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def found(tmp_path: Path, text: str, weights=None, **options) -> dict[str, object]:
    """What each layer multiplies, with a word if both factors are activations, or how many words it moves."""
    _, network = imported(save(tmp_path, text, weights, options.pop("opset", 20)), **options)
    return {
        layer.name: (layer.gemm, "of activations") if layer.per_sample else layer.gemm or layer.memory_words
        for layer in network.layers
    }


# ---- graphs that others exported


@pytest.mark.parametrize(
    ("name", "products", "giga_macs"),
    # the giga-MACs that torchvision publishes for the same networks, where it has them (its GFLOPS)
    [
        ("resnet50", 54, 4.09),
        ("vgg19", 19, 19.63),
        ("densenet121", 121, 2.83),
        ("squeezenet", 26, 0.35),
        ("inception_v1", 58, None),
        ("inception_v2", 70, None),
        ("shufflenet", 50, None),
        ("bvlc_alexnet", 8, None),
        ("zfnet512", 8, None),
    ],
)
def test_graphs_of_caffe2_agree_with_an_independent_counter(name, products, giga_macs):
    path = LIGHT / f"light_{name}.onnx"
    _, network = imported(path)
    assert (len(network.gemms), network.macs) == count_products(onnx.load(path))
    assert len(network.gemms) == products
    if giga_macs:
        assert network.macs / 1e9 == pytest.approx(giga_macs, abs=0.006)


def test_resnet50_through_onnx_is_the_one_of_the_zoo():
    """To the product, exits and heads included; what the file has beyond it is the softmax behind the last layer."""
    file, network = imported(LIGHT / "light_resnet50.onnx", exits=Placement(3))
    shipped = load_network("resnet50")
    for stage in range(1, 5):
        ours, theirs = (
            Counter(layer.gemm for layer in net.layers if layer.gemm and layer.stage == stage)
            for net in (network, shipped)
        )
        assert ours == theirs
    extra = Counter(layer.memory_words for layer in network.layers if not layer.gemm)
    extra.subtract(layer.memory_words for layer in shipped.layers if not layer.gemm)
    assert +extra == {2 * 1000: 1}
    assert not -extra
    assert [exit_.rate for exit_ in file.exits] == [0.25] * 3
    assert "16 Sum" in file.sources["fused"]
    assert "1 Softmax" in file.sources["traffic"]


def test_the_file_written_says_the_same(tmp_path):
    file, network = imported(LIGHT / "light_inception_v1.onnx", exits=Placement(2, "pool-linear"), rates=[0.5, 0.25])
    (tmp_path / "net.toml").write_text(network_text(file))
    assert read_toml(NetworkFile, tmp_path / "net.toml") == file
    assert load_network(str(tmp_path / "net.toml")) == network
    assert [exit_.rate for exit_ in network.exits] == [0.5, 0.25, 0.25]


# ---- what multiplies

OPERATORS = {
    "stride, padding by side, groups, dilation": (
        """g (float[1,4,9,8] x) => (float[1,6,a,b] y) {
            y = Conv <strides=[2,1], pads=[0,1,1,2], dilations=[1,2], group=2> (x, w) }""",
        {"w": (6, 2, 3, 3)},
        Gemm(4 * 7, 18, 3, 2),
    ),
    "SAME_UPPER": (
        'g (float[1,3,5,5] x) => (float[1,4,a,b] y) { y = Conv <strides=[2,2], auto_pad="SAME_UPPER"> (x, w) }',
        {"w": (4, 3, 2, 2)},
        Gemm(9, 12, 4),
    ),
    "SAME_LOWER": (
        'g (float[1,3,6,6] x) => (float[1,4,a,b] y) { y = Conv <strides=[2,2], auto_pad="SAME_LOWER"> (x, w) }',
        {"w": (4, 3, 3, 3)},
        Gemm(9, 27, 4),
    ),
    "VALID": (
        'g (float[1,3,6,6] x) => (float[1,4,a,b] y) { y = Conv <auto_pad="VALID"> (x, w) }',
        {"w": (4, 3, 3, 3)},
        Gemm(16, 27, 4),
    ),
    "one axis": (
        "g (float[1,3,20] x) => (float[1,4,a] y) { y = Conv <strides=[3], pads=[2,0], dilations=[2]> (x, w) }",
        {"w": (4, 3, 5)},
        Gemm(5, 15, 4),
    ),
    "three axes": (
        "g (float[1,2,4,5,6] x) => (float[1,4,a,b,c] y) { y = Conv (x, w) }",
        {"w": (4, 2, 2, 2, 2)},
        Gemm(3 * 4 * 5, 16, 4),
    ),
    "several maps of one sample": (
        """g (float[1,10,3,6,6] x) => (float[10,4,4,4] y) {
            shape = Constant <value_ints=[10,3,6,6]> () z = Reshape (x, shape) y = Conv (z, w) }""",
        {"w": (4, 3, 3, 3)},
        Gemm(160, 27, 4),
    ),
    "transposed, cut and filled up": (
        """g (float[1,4,5,5] x) => (float[1,6,10,10] y) {
            y = ConvTranspose <strides=[2,2], pads=[1,1,1,1], output_padding=[1,1], group=2> (x, w) }""",
        {"w": (4, 3, 3, 3)},
        Gemm(25, 2, 27, 2),
    ),
    "transposed, along a sequence": (
        "g (float[1,4,5] x) => (float[1,6,a] y) { y = ConvTranspose <strides=[3], output_shape=[14]> (x, w) }",
        {"w": (4, 6, 2)},
        Gemm(5, 4, 12),
    ),
    "transposed, filled up": (
        "g (float[1,4,5,5] x) => (float[1,6,a,b] y) { y = ConvTranspose <strides=[2,2], output_padding=[1,0]> (x, w) }",
        {"w": (4, 6, 1, 1)},
        Gemm(25, 4, 6),
    ),
    "transposed over three axes": (
        "g (float[1,4,2,2,2] x) => (float[1,6,4,4,4] y) { y = ConvTranspose <strides=[2,2,2]> (x, w) }",
        {"w": (4, 6, 2, 2, 2)},
        Gemm(8, 4, 48),
    ),
    "Gemm": ("g (float[1,7] x) => (float[1,5] y) { y = Gemm (x, w) }", {"w": (7, 5)}, Gemm(1, 7, 5)),
    "Gemm, both transposed": (
        "g (float[7,1] x) => (float[1,5] y) { y = Gemm <transA=1, transB=1> (x, w) }",
        {"w": (5, 7)},
        Gemm(1, 7, 5),
    ),
    "weights on the left": ("g (float[7,3] x) => (float[5,3] y) { y = MatMul (w, x) }", {"w": (5, 7)}, Gemm(3, 7, 5)),
    "tokens by weights": (
        "g (float[1,9,7] x) => (float[1,9,5] y) { y = MatMul (x, w) }",
        {"w": (7, 5)},
        Gemm(9, 7, 5),
    ),
    "weights for each head": (
        "g (float[1,2,9,7] x) => (float[1,2,9,5] y) { y = MatMul (x, w) }",
        {"w": (2, 7, 5)},
        Gemm(9, 7, 5, 2),
    ),
    "one matrix, weights of several experts": (
        "g (float[9,7] x) => (float[4,9,5] y) { y = MatMul (x, w) }",
        {"w": (4, 7, 5)},
        Gemm(9, 7, 20),
    ),
    "two activations": (
        "g (float[1,3,9,7] x, float[1,3,7,4] z) => (float[1,3,9,4] y) { y = MatMul (x, z) }",
        {},
        (Gemm(9, 7, 4, 3), "of activations"),
    ),
    "one right operand for all groups": (
        "g (float[3,9,7] x, float[7,4] z) => (float[3,9,4] y) { y = MatMul (x, z) }",
        {},
        (Gemm(27, 7, 4, 1), "of activations"),
    ),
    "vectors": (
        "g (float[7] x, float[7] z) => (float y) { y = MatMul (x, z) }",
        {},
        (Gemm(1, 7, 1, 1), "of activations"),
    ),
    "scores as an Einsum": (
        """g (float[1,9,3,7] x, float[1,5,3,7] z) => (float[1,3,9,5] y) {
            y = Einsum <equation="aqhd, akhd->ahqk"> (x, z) }""",
        {},
        (Gemm(9, 7, 5, 3), "of activations"),
    ),
    "Einsum with weights and no arrow": (
        'g (float[1,7] x) => (float[1,5] y) { y = Einsum <equation="ik,kj"> (x, w) }',
        {"w": (7, 5)},
        Gemm(1, 7, 5),
    ),
    "quantised convolution": (
        """g (uint8[1,3,6,6] x) => (uint8[1,4,a,b] y) <float s = {1}, uint8 z = {0}> {
            v = Cast <to=2> (w) y = QLinearConv (x, s, z, v, s, z, s, z) }""",
        {"w": (4, 3, 3, 3)},
        Gemm(16, 27, 4),
    ),
    "quantised product": (
        """g (uint8[1,7] x) => (uint8[1,5] y) <float s = {1}, uint8 z = {0}> {
            v = Cast <to=2> (w) y = QLinearMatMul (x, s, z, v, s, z, s, z) }""",
        {"w": (7, 5)},
        Gemm(1, 7, 5),
    ),
    "integer product": (
        "g (uint8[1,7] x) => (int32[1,5] y) { v = Cast <to=2> (w) y = MatMulInteger (x, v) }",
        {"w": (7, 5)},
        Gemm(1, 7, 5),
    ),
    "weights that are dequantised first": (
        """g (float[1,7] x) => (float[1,5] y) <float s = {1}> {
            q = Cast <to=3> (w) v = DequantizeLinear (q, s) t = Transpose <perm=[1,0]> (v) y = MatMul (x, t) }""",
        {"w": (5, 7)},
        Gemm(1, 7, 5),
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_products_by_hand(tmp_path, case):
    text, weights, expected = OPERATORS[case]
    assert found(tmp_path, text, weights) == {"y": expected}
    gemm = expected if isinstance(expected, Gemm) else expected[0]
    assert isinstance(gemm, Gemm)
    assert (1, gemm.macs) == count_products(onnx.load(tmp_path / "net.onnx"))


@pytest.mark.parametrize(("auto", "pad"), [("SAME_UPPER", [0, 0, 1, 1]), ("SAME_LOWER", [1, 1, 0, 0])])
def test_the_odd_row_of_padding_stands_where_the_file_says(tmp_path, auto, pad):
    text = f'g (float[1,3,5,5] x) => (float[1,4,a,b] y) {{ y = Conv <auto_pad="{auto}"> (x, w) }}'
    file, _ = imported(save(tmp_path, text, {"w": (4, 3, 2, 2)}))
    assert file.layers[0].model_dump()["pad"] == pad


def test_attention_of_opset_23_is_two_products_and_a_softmax(tmp_path):
    text = """g (float[1,9,12] q, float[1,5,12] k, float[1,5,6] v) => (float[1,9,6] y) {
        y = Attention <q_num_heads=3, kv_num_heads=3> (q, k, v) }"""
    assert found(tmp_path, text, opset=23) == {
        "y.scores": (Gemm(9, 4, 5, 3), "of activations"),
        "y.softmax": 2 * 9 * 15,
        "y": (Gemm(9, 5, 2, 3), "of activations"),
    }


def test_attention_with_tokens_of_before(tmp_path):
    text = """g (float[1,4,1,8] q, float[1,2,1,8] k, float[1,2,1,8] v, float[1,2,6,8] pk, float[1,2,6,8] pv)
        => (float[1,4,1,8] y, float[1,2,7,8] ok, float[1,2,7,8] ov) { y, ok, ov = Attention (q, k, v, , pk, pv) }"""
    layers = found(tmp_path, text, opset=23)
    assert layers["y.scores"] == (Gemm(1, 8, 7, 4), "of activations")
    assert layers["y"] == (Gemm(1, 7, 8, 4), "of activations")


# ---- what rides along, what is fused, what is traffic

CONV, WIDTH = "h = Conv <pads=[1,1,1,1]> (x, w)", {"w": (4, 4, 3, 3)}
MAP = 4 * 6 * 6
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "what changes values one by one rides along": (
        "r = Relu (h) s = Mul (r, w1) t = Clip (s) y = Sigmoid (t)",
        {},
    ),
    "so does a function that is written out": ("s = Sigmoid (h) y = Mul (h, s)", {}),
    "the GELU of old exporters": ("d = Div (h, w1) e = Erf (d) a = Add (e, w1) m = Mul (h, a) y = Mul (m, w1)", {}),
    "batch normalisation": ("y = BatchNormalization (h, b, b, b, b)", {}),
    "transposes and reshapes": (
        (
            "s = Constant <value_ints=[1,2,2,36]> () r = Reshape (h, s) t = Transpose <perm=[0,2,1,3]> (r) "
            "u = Shape (h) y = Reshape (t, u)"
        ),
        {},
    ),
    "a residual addition is fused": ("y = Add (h, x)", {}),
    "also behind what rides along": ("r = Relu (h) t = Mul (r, w1) y = Add (x, t)", {}),
    "a product that is read elsewhere too is not": (
        "a = Add (h, x) p = MaxPool <kernel_shape=[6,6]> (h) y = Add (a, p)",
        {"a": 3 * MAP, "p": MAP + 4, "y": MAP + 4 + MAP}),
    "two maps without a product": ("p = Identity (x) q = Softmax (h) y = Add (p, q)", {"y": 3 * MAP}),
    "softmax": ("y = Softmax (h)", {"y": 2 * MAP}),
    "softmax of scores with a mask": ("m = Add (h, z) y = Softmax (m)", {"y": 2 * MAP}),
    "layer normalisation written out is one pass": (
        (
            "m = ReduceMean <keepdims=1> (h) d = Sub (h, m) q = Mul (d, d) v = ReduceMean <keepdims=1> (q) "
            "s = Sqrt (v) n = Div (d, s) y = Mul (n, w1)"
        ),
        {"n": 2 * MAP},
    ),
    "squeeze and excite": (
        "p = GlobalAveragePool (h) e = Conv (p, w1x1) s = HardSigmoid (e) y = Mul (h, s)",
        {"p": MAP + 4, "e": Gemm(1, 4, 4), "y": MAP + 4 + MAP},
    ),
    "the halves of a product, one gating the other": (
        "a, c = Split <axis=1, num_outputs=2> (h) g = Sigmoid (c) y = Mul (a, g)",
        {"y": MAP + MAP // 2},
    ),
    "two products, one gating the other": ("i = Conv <pads=[1,1,1,1]> (x, w) y = Mul (h, i)", {"i": Gemm(36, 36, 4)}),
    "a rotation of halves": (
        "a, c = Split <axis=1, num_outputs=2> (h) n = Neg (c) r = Concat <axis=1> (n, a) y = Add (h, r)",
        {"y": 2 * MAP},
    ),
    "concatenation is written in place": ("y = Concat <axis=1> (h, x)", {}),
    "also along another axis": ("y = Concat <axis=2> (h, x)", {}),
    "with a constant it is a copy": ("y = Concat <axis=1> (h, one)", {"y": MAP + 36 + MAP + 36}),
    "padding and resizing": (
        (
            "q = Constant <value_ints=[0,0,1,1,0,0,1,1]> () p = Pad (h, q) "
            "k = Constant <value_floats=[1.0,1.0,2.0,2.0]> () y = Resize (p, , k)"
        ),
        {"y": MAP + 4 * 16 * 16},
    ),
    "pools": (
        (
            "a = MaxPool <kernel_shape=[2,2], strides=[2,2]> (h) c = AveragePool <kernel_shape=[2,2], ceil_mode=1> (a) "
            "y = GlobalMaxPool (c)"
        ),
        {"a": MAP + 36, "c": 36 + 16, "y": 16 + 4},
    ),
    "a pool that a network file has no operator for": (
        "y = MaxPool <kernel_shape=[2,2], dilations=[2,2]> (h)", {"y": MAP + 64}),
    "pools without an operator keep the map between them": (
        (
            "a = MaxPool <kernel_shape=[2,2], dilations=[2,2]> (h) r = Relu (a) "
            "c = MaxPool <kernel_shape=[2,2], dilations=[2,2]> (r) y = GlobalMaxPool (c)"
        ),
        {"a": MAP + 64, "c": 64 + 16, "y": 16 + 4},
    ),
    "so do pools over three axes": (
        (
            "s = Constant <value_ints=[1,4,2,3,6]> () v = Reshape (h, s) "
            "a = AveragePool <kernel_shape=[1,1,2], strides=[1,1,2]> (v) g = GlobalAveragePool (a) "
            "q = Constant <value_ints=[1,4,1,1]> () y = Reshape (g, q)"
        ),
        {"a": MAP + MAP // 2, "g": MAP // 2 + 4},
    ),
    "a pad of nothing": ("q = Constant <value_ints=[0,0,0,0,0,0,0,0]> () y = Pad (h, q)", {}),
    "rows that are looked up": ("i = Constant <value_ints=[0,2]> () y = Gather <axis=1> (h, i)", {}),
    "halves that meet again with a third map": (
        "a, c = Split <axis=1, num_outputs=2> (h) y = Concat <axis=1> (a, x, c, a)", {}),
    "what is repeated is copied where a product reads it": (
        "p = GlobalAveragePool (h) s = Shape (h) e = Expand (p, s) y = Conv (e, w1x1)",
        {"p": MAP + 4, "p.copy": 4 + MAP, "y": Gemm(36, 4, 4)},
    ),
    "an average over all positions is a pool": (
        "q = Constant <value_ints=[2,3]> () m = ReduceMean <keepdims=0> (h, q) y = Gemm (m, w4)",
        {"m": MAP + 4, "y": Gemm(1, 4, 4)},
    ),
    "a dynamic scale rides along, and so do products with it": (
        (
            "i = Cast <to=3> (w1x1) q, s, o = DynamicQuantizeLinear (h) d = Mul (s, w1) c = ConvInteger (q, i, o) "
            "f = Cast <to=1> (c) r = Mul (f, d) y = Add (r, h)"
        ),
        {"c": Gemm(36, 4, 4)},
    ),
    "a result that nobody needs": ("unused = Softmax (h) y = Relu (h)", {}),
}  # fmt: skip
FIXED = {"w1": (1,), "b": (4,), "w4": (4, 4), "w1x1": (4, 4, 1, 1), "one": (1, 1, 6, 6)}


@pytest.mark.parametrize("case", RULES)
def test_traffic_by_hand(tmp_path, case):
    body, traffic = RULES[case]
    result = "float[1,4] y" if "Gemm" in body else "float[1,q,r,s] y"
    text = f"g (float[1,4,6,6] x, float[1,1,6,6] z) => ({result}) {{ {CONV} {body} }}"
    layers = found(tmp_path, text, WIDTH | FIXED)
    assert layers == {"h": Gemm(36, 36, 4)} | traffic


TAKEN = {
    "Gather of one": ("i = Constant <value_int=0> () t = Gather <axis=1> (h, i)", 1),
    "Gather of two": ("i = Constant <value_ints=[0,3]> () t = Gather <axis=1> (h, i)", 2),
    "GatherND": ("i = Constant <value_ints=[0,3]> () r = Reshape (i, n2) t = GatherND (h, r)", 1),
    "Slice": ("b = Constant <value_ints=[99]> () t = Slice (h, m1, b, one)", 1),
    "every fourth": (
        (
            "z = Constant <value_ints=[0]> () b = Constant <value_ints=[16]> () c = Constant <value_ints=[4]> () "
            "t = Slice (h, z, b, one, c)"
        ),
        4,
    ),
    "Split": ("s = Constant <value_ints=[1,15]> () t, u = Split <axis=1> (h, s)", 1),
    "Slice of a Reshape": (
        (
            "s = Constant <value_ints=[1,4,256]> () r = Reshape (h, s) z = Constant <value_ints=[0]> () "
            "q = Slice (r, z, one, one) g = Constant <value_ints=[1,4,64]> () t = Reshape (q, g)"
        ),
        4,
    ),
}


@pytest.mark.parametrize("head", ["MatMul (t, w)", "Gemm (f, w)"])
@pytest.mark.parametrize("case", TAKEN)
def test_a_layer_after_a_part_of_the_tokens_multiplies_that_part(tmp_path, case, head):
    """Sixteen tokens of 64 channels, some of them taken, a linear layer to 10."""
    body, rows = TAKEN[case]
    flat = "g64 = Constant <value_ints=[-1,64]> () f = Reshape (t, g64)" if "f" in head else ""
    text = f"""g (float[1,16,64] x) => (float y) {{
        n2 = Constant <value_ints=[1,2]> () m1 = Constant <value_ints=[-1]> () one = Constant <value_ints=[1]> ()
        h = MatMul (x, v) {body} {flat} y = {head} }}"""
    layers = found(
        tmp_path, text.replace("float y", "float[a,10] y" if flat else "float y"), {"v": (64, 64), "w": (64, 10)}
    )
    assert layers == {"h": Gemm(16, 64, 64), "y": Gemm(rows, 64, 10)}


def test_a_part_of_a_map_is_convolved_as_such(tmp_path):
    text = """g (float[1,4,8,8] x) => (float[1,4,4,4] y) {
        h = Conv (x, w) z = Constant <value_ints=[0,0]> () e = Constant <value_ints=[8,8]> ()
        a = Constant <value_ints=[2,3]> () s = Constant <value_ints=[2,2]> ()
        p = Slice (h, z, e, a, s) y = Conv (p, w) }"""
    assert found(tmp_path, text, {"w": (4, 4, 1, 1)}) == {"h": Gemm(64, 4, 4), "y": Gemm(16, 4, 4)}


def test_what_a_run_looks_up_in_a_map_is_read_once(tmp_path):
    """The last token of a padded text: only a run knows which it is."""
    text = """g (float[1,16,64] x, int64[1,2] place) => (float[1,10] y) {
        h = MatMul (x, v) t = GatherND (h, place) y = MatMul (t, w) }"""
    layers = found(tmp_path, text, {"v": (64, 64), "w": (64, 10)})
    assert layers == {"h": Gemm(16, 64, 64), "t": 2 + 64 + 64, "y": Gemm(1, 64, 10)}


def test_products_that_only_a_smaller_operand_needs_are_kept(tmp_path):
    """A gate and a bias that are computed are combined with a larger product; they still need their own products."""
    text = """g (float[1,4,6,6] x) => (float[1,4,6,6] y) {
        p = GlobalAveragePool (x) e = Conv (p, k) s = Sigmoid (e) h = Conv <pads=[1,1,1,1]> (x, w) y = Mul (h, s) }"""
    layers = found(tmp_path, text, WIDTH | {"k": (4, 4, 1, 1)})
    assert layers == {"p": MAP + 4, "e": Gemm(1, 4, 4), "h": Gemm(36, 36, 4)}
    text = "g (float[1,7] x) => (float[1,4] y) { b = MatMul (x, v) y = Gemm (x, w, b) }"
    assert found(tmp_path, text, {"v": (7, 4), "w": (7, 4)}) == {"b": Gemm(1, 7, 4), "y": Gemm(1, 7, 4)}


def test_optional_inputs_and_outputs_may_be_left_out(tmp_path):
    path = save(
        tmp_path, "g (float[1,4,6,6] x) => (float[1,4,6,6] y) { h = Conv (x, w) y = Dropout (h) }", {"w": (4, 4, 1, 1)}
    )
    model = onnx.load(path)
    model.graph.node[0].input.append("")
    model.graph.node[1].output.append("")
    path.write_bytes(model.SerializeToString())
    assert imported(path)[1].gemms == [Gemm(36, 4, 4)]


def test_empty_parts_of_a_tensor_are_left_out(tmp_path):
    """What ``torch.roll`` by 0 becomes: the empty half in front of the whole tensor."""
    text = """g (float[1,8,7] x) => (float[1,8,4] y) {
        s = Constant <value_ints=[0,8]> () a, b = Split <axis=1> (x, s) c = Relu (a)
        m = ReduceMean <noop_with_empty_axes=1> (b, none) r = Concat <axis=1> (c, m) y = MatMul (r, w) }"""
    assert found(tmp_path, text, {"w": (7, 4), "none": (0,)}) == {"m": 56 + 56, "y": Gemm(8, 7, 4)}


@pytest.mark.parametrize(("before", "macs"), [(0, 2 * 4 * 1), (3, 2 * 4 * 4)])
def test_a_cache_may_be_empty(tmp_path, before, macs):
    text = """g (float[1,H,past,4] cache, float[1,2,1,4] k) => (float[1,H,1,all] y) {
        c = Concat <axis=2> (cache, k) t = Transpose <perm=[0,1,3,2]> (c) y = MatMul (k, t) }"""
    assert imported(save(tmp_path, text), dims={"H": 2, "past": before})[1].macs == macs


@pytest.mark.parametrize(("size", "fault"), [(0, "only inputs of size 0"), (-1, "dimension 0 is open")])
def test_a_sample_of_nothing_is_refused(tmp_path, size, fault):
    path = save(tmp_path, "g (float[N,7] x) => (float[N,4] y) { y = MatMul (x, w) }", {"w": (7, 4)})
    with pytest.raises(InputError, match=fault):
        imported(path, dims={"N": size})


def test_an_embedding_reads_its_indices_and_as_many_rows(tmp_path):
    text = "g (int64[1,9] ids) => (float[1,9,5] y) { e = Gather (table, ids) y = MatMul (e, w) }"
    weights = {"table": (1000, 7), "w": (7, 5)}
    assert found(tmp_path, text, weights) == {"e": 9 + 63 + 63, "y": Gemm(9, 7, 5)}
    text = text.replace("y = MatMul (e", "r = Relu (e) y = MatMul (r")
    assert found(tmp_path, text, weights) == {"e": 9 + 63 + 63, "y": Gemm(9, 7, 5)}


def test_a_pass_over_very_many_maps_is_cut(tmp_path):
    """Seventy softmaxes, added one by one: no layer reads more than 65 others."""
    maps = " ".join(f"c{i} = Conv (x, w) s{i} = Softmax (c{i})" for i in range(70))
    sums = " ".join(f"a{i} = Add ({f'a{i - 1}' if i > 1 else 's0'}, s{i})" for i in range(1, 70))
    text = f"g (float[1,4,1,1] x) => (float[1,4,1,1] a69) {{ {maps} {sums} }}"
    file, network = imported(save(tmp_path, text, {"w": (4, 4, 1, 1)}))
    assert len(network.gemms) == 70
    assert max(len(op.inputs or []) for op in file.layers) <= 65


def test_the_default_domain_may_be_spelt_out(tmp_path):
    path = save(tmp_path, OPERATORS["Gemm"][0], {"w": (7, 5)})
    model = onnx.load(path)
    model.graph.node[0].domain = model.opset_import[0].domain = "ai.onnx"
    path.write_bytes(model.SerializeToString())
    assert imported(path)[1].gemms == [Gemm(1, 7, 5)]


def test_a_graph_of_too_many_nodes_or_outputs_is_refused_unread(tmp_path):
    chain_ = " ".join(f"a{i} = Relu ({f'a{i - 1}' if i else 'x'})" for i in range(50_001))
    assert "at most 50000 nodes" in faults_of(save(tmp_path, f"g (float[1] x) => (float[1] a1) {{ {chain_} }}"))[0]
    outs = ", ".join(f"float[1] a{i}" for i in range(257))
    short = " ".join(f"a{i} = Relu (x)" for i in range(257))
    assert "at most 256 outputs" in faults_of(save(tmp_path, f"g (float[1] x) => ({outs}) {{ {short} }}"))[0]


def test_what_is_read_twice_is_made_once(tmp_path):
    """The embedding is normalised, and added to what comes of that."""
    text = """g (int64[1,9] ids) => (float[1,9,7] y) {
        e = Gather (table, ids) n = LayerNormalization (e, scale) m = MatMul (n, w) y = Add (e, m) }"""
    layers = found(tmp_path, text, {"table": (1000, 7), "scale": (7,), "w": (7, 7)})
    assert layers == {"e": 9 + 63 + 63, "n": 2 * 63, "m": Gemm(9, 7, 7)}


def test_every_node_is_accounted_for(tmp_path):
    body = "r = Relu (h) t = Transpose <perm=[0,1,3,2]> (r) u = Add (t, x) n = Softmax (u)"
    body += "p = MaxPool <kernel_shape=[2,2]> (n)"
    text = f"g (float[1,4,6,6] x) => (float[1,4,5,5] p) {{ {CONV} {body} k = Add (w1, w1) l = Relu (x) }}"
    file, _ = imported(save(tmp_path, text, WIDTH | FIXED))
    assert file.sources["products"] == "1 nodes multiply: 1 Conv"
    assert file.sources["traffic"].endswith(": 1 MaxPool, 1 Softmax")
    assert file.sources["fused"].endswith(": 1 Add")
    assert file.sources["free"].endswith(": 1 Relu, 1 Transpose")
    assert "6 nodes, 1 more that give constants, 1 more that no output needs" in file.sources["layers"]


def test_functions_of_the_model_are_the_nodes_they_stand_for(tmp_path):
    text = """g (float[1,4,6,6] x) => (float[1,4,6,6] y) { h = local.block (x, w) y = local.block (h, w) }
        <domain: "local", opset_import: ["" : 20]> block (a, v) => (c) {
            b = Conv <pads=[1,1,1,1]> (a, v) c = Relu (b) }"""
    path = save(tmp_path, "g (float[1] x) => (float[1] y) { y = Relu (x) }")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 20, "local" : 1]>\n{text}')
    model.graph.initializer.append(onnx.helper.make_tensor("w", 1, (4, 4, 3, 3), bytes(576), raw=True))
    path.write_bytes(model.SerializeToString())
    assert imported(path)[1].gemms == [Gemm(36, 36, 4)] * 2


def test_names_that_no_network_file_could_bear(tmp_path):
    text = (
        "g (float[1,7] x) => (float[1,7] y) { a = MatMul (x, w) b = MatMul (a, w) c = MatMul (b, w) y = MatMul (c, w) }"
    )
    path = save(tmp_path, text, {"w": (7, 7)})
    model = onnx.load(path)
    for node, name in zip(model.graph.node, ["/block.0/fc", "/block.0/fc", "input", 'é"\n' + "x" * 200], strict=True):
        node.name = name
    onnx.save(model, path)
    names = [layer.name for layer in imported(path)[1].layers]
    assert names == ["block.0.fc", "block.0.fc.2", "input.2", "___" + "x" * 77]


# ---- dimensions

DYNAMIC = """g (float[batch,seq,7] x) => (float[batch,seq,n] y) {
    s = Shape (x) i = Constant <value_ints=[1]> () t = Gather (s, i) m = Constant <value_ints=[-1,7]> ()
    r = Reshape (x, m) h = MatMul (r, w) n = Constant <value_ints=[1]> ()
    p = Concat <axis=0> (n, t, i) y = Reshape (h, p) }"""


def test_dimensions_are_given_by_name_or_place(tmp_path):
    path = save(tmp_path, DYNAMIC, {"w": (7, 1)})
    assert imported(path, dims={"batch": 1, "seq": 11})[1].gemms == [Gemm(11, 7, 1)]
    assert imported(path, dims={"x.0": 1, "x.1": 11})[1].gemms == [Gemm(11, 7, 1)]


def faults_of(path: Path, **options) -> list[str]:
    with pytest.raises(InputError) as caught:
        imported(path, **options)
    for line in caught.value.faults:
        assert line.startswith((f"{path}: ", *(f"{name}: " for name in options)))
        assert "\n" not in line
    return [line.replace(f"{path}: ", "", 1) for line in caught.value.faults]


def test_open_dimensions_are_all_listed(tmp_path):
    path = save(tmp_path, DYNAMIC, {"w": (7, 1)})
    assert faults_of(path) == [
        'input "x": dimension 0 is open; give its size, e.g. --dim batch=1',
        'input "x": dimension 1 is open; give its size, e.g. --dim seq=1',
    ]
    assert faults_of(path, dims={"batch": 1, "seqs": 3}) == [
        'input "x": dimension 1 is open; give its size, e.g. --dim seq=1',
        f'dims: no input of {path} has a dimension "seqs"; did you mean seq?',
    ]


def test_a_fixed_batch_is_not_taken_for_one_sample(tmp_path):
    path = save(tmp_path, "g (float[8,7] x) => (float[8,5] y) { y = MatMul (x, w) }", {"w": (7, 5)})
    assert "found a batch of 8; take one with --dim x.0=1" in faults_of(path)[0]
    assert imported(path, dims={"x.0": 1})[1].gemms == [Gemm(1, 7, 5)]
    assert imported(path, dims={"x.0": 8})[1].gemms == [Gemm(8, 7, 5)]


# ---- exits


def chain(*sources: tuple[int, ...]) -> list[Flatten]:
    """Layers 1, 2, ... that read earlier ones; 0 is the sample."""
    names = ["input", *(f"n{i}" for i in range(1, len(sources) + 1))]
    return [
        Flatten.model_validate({"op": "flatten", "name": names[i], "from": [names[j] for j in read]})
        for i, read in enumerate(sources, 1)
    ]


@given(st.integers(1, 9).flatmap(
    lambda n: st.tuples(*(st.sets(st.integers(0, i), min_size=1, max_size=3).map(tuple) for i in range(n)))
))  # fmt: skip
def test_block_boundaries_are_where_all_paths_meet(sources):
    """A boundary: without it, nothing from before reaches anything after."""
    layers = chain(*sources)
    expected = []
    for place in range(1, len(sources)):
        later = [read for read in itertools.chain(*sources[place:]) if read <= place]
        if set(later) == {place}:
            expected.append(place - 1)
    assert block_boundaries(layers) == expected


def test_masks_do_not_hide_boundaries():
    layers = chain((0,), (0,), (2, 1), (3, 1))
    assert block_boundaries(layers) == []
    assert block_boundaries(layers, {"n1"}) == [1, 2]


@given(st.lists(st.integers(1, 30), min_size=4, max_size=9), st.integers(1, 3), st.randoms())
@settings(max_examples=30)
def test_exits_stand_nearest_to_equal_shares(tmp_path_factory, widths, count, rng: random.Random):
    """Against all ways to place them."""
    lines, name = [], "x"
    for i in range(len(widths)):
        lines.append(f"n{i} = MatMul ({name}, w{i})")
        name = f"n{i}"
    sizes = [5, *widths]
    weights = {f"w{i}": (sizes[i], sizes[i + 1]) for i in range(len(widths))}
    path = save(
        tmp_path_factory.mktemp("net"), f"g (float[1,5] x) => (float[1,q] {name}) {{ {' '.join(lines)} }}", weights
    )
    file, _ = imported(path, exits=Placement(count, "none"))
    total = list(itertools.accumulate(a * b for a, b in itertools.pairwise(sizes)))

    def gap(places):
        return sum(abs(total[place] - total[-1] * i / (count + 1)) for i, place in enumerate(places, 1))

    best = min(map(gap, itertools.combinations(range(len(widths) - 1), count)))
    assert gap([int(exit_.after[1:]) for exit_ in file.exits]) == pytest.approx(best)


RESIDUAL = """g (float[1,4,6,6] x) => (float[1,4,6,6] y) {
    a = Conv <pads=[1,1,1,1]> (x, w) r = Relu (a) b = Conv <pads=[1,1,1,1]> (r, w) c = Add (b, r) d = Relu (c)
    e = Conv <pads=[1,1,1,1]> (d, w) f = Add (e, d) y = Conv <pads=[1,1,1,1]> (f, w) }"""


def test_exits_by_number_and_by_name(tmp_path):
    path = save(tmp_path, RESIDUAL, WIDTH)
    file, network = imported(path, exits=Placement(3, "msdnet"))
    assert [exit_.after for exit_ in file.exits] == ["a", "c", "f"]
    assert network.macs == network.backbone().macs + 3 * (9 * 36 * 4 + 4 * 36 * 4 + 16)
    assert file.exits[0].classes == 4
    # a node that rides along stands for the layer it rides on
    file, _ = imported(path, exits=Placement(("d", "a"), "pool-linear", 7), rates=[0.5, 0.125])
    assert [(exit_.after, exit_.rate, exit_.head, exit_.classes) for exit_ in file.exits] == [
        ("a", 0.5, "pool-linear", 7),
        ("c", 0.125, "pool-linear", 7),
    ]
    assert imported(path, exits=Placement(1, "none"))[0].exits[0].classes is None


def test_a_mask_that_every_block_reads_hides_no_boundary(tmp_path):
    """Three blocks of attention with a mask as a second input: exits stand behind the blocks."""
    blocks = " ".join(
        f"s{i} = MatMul (x{i}, w) t{i} = Transpose <perm=[0,2,1]> (x{i}) a{i} = MatMul (s{i}, t{i})"
        f" m{i} = Add (a{i}, z) p{i} = Softmax (m{i}) c{i} = MatMul (p{i}, x{i}) x{i + 1} = Add (c{i}, x{i})"
        for i in range(3)
    )
    text = f"""g (float[1,9,7] x, float[1,9,9] mask) => (float[1,9,7] x3) {{
        z = Cast <to=1> (mask) v = MatMul (x, w) x0 = Relu (v) {blocks} }}"""
    file, network = imported(save(tmp_path, text, {"w": (7, 7)}), exits=Placement(2, "none"))
    assert [exit_.after for exit_ in file.exits] == ["x1", "x2"]
    assert (file.input.height, file.input.width, file.input.channels) == (1, 1, 9 * 7 + 9 * 9)
    assert network.macs == 9 * 7 * 7 + 3 * (9 * 7 * 7 + 2 * 9 * 9 * 7)


def test_an_exit_stands_on_a_map_rather_than_on_its_flattened_view(tmp_path):
    text = """g (float[1,4,6,6] x) => (float[1,9] y) {
        h = Conv <pads=[1,1,1,1]> (x, w) p = MaxPool <kernel_shape=[2,2]> (h) f = Flatten (p) y = MatMul (f, v) }"""
    file, _ = imported(save(tmp_path, text, WIDTH | {"v": (100, 9)}), exits=Placement(1))
    assert [op.op for op in file.layers] == ["conv", "maxpool", "view", "linear"]
    assert file.exits[0].after == "p"


def test_halves_of_a_layer_are_two_views(tmp_path):
    body, _ = RULES["halves that meet again with a third map"]
    text = f"g (float[1,4,6,6] x) => (float[1,q,r,s] y) {{ {CONV} {body} }}"
    file, _ = imported(save(tmp_path, text, WIDTH))
    assert file.layers[-1].inputs == ["h.view", "input", "h.view.2", "h.view"]


TOKENS = """g (float[1,9,7] x) => ({}) {{
    a = MatMul (x, w) b = MatMul (a, w) c = Relu (b) d = MatMul (c, w) n = LayerNormalization (d, s) {} }}"""
HEADS = {
    "the class token": ("float[1,5] y", "i = Constant <value_int=0> () t = Gather <axis=1> (n, i) y = Gemm (t, v)"),
    "the class token, before its normalisation": (
        "float[1,5] y",
        "i = Constant <value_int=0> () t = Gather <axis=1> (d, i) l = LayerNormalization (t, s) y = Gemm (l, v)",
    ),
    "the mean of all tokens": (
        "float[1,5] y",
        "q = Constant <value_ints=[1]> () t = ReduceMean <keepdims=0> (n, q) y = Gemm (t, v)",
    ),
    "each token": ("float[1,9,5] y", "y = MatMul (n, v)"),
    "one position": ("float[1,5] y", "f = Flatten (n) h = Gemm (f, u) y = Gemm (h, v)"),
}


@pytest.mark.parametrize(
    ("case", "after", "head", "macs"),
    [
        ("the class token", "b", "token-linear", 35),
        ("the class token, before its normalisation", "b", "token-linear", 35),
        ("the mean of all tokens", "b", "pool-linear", 35),
        ("each token", "b", "linear", 9 * 35),
        ("one position", "b", "pool-linear", 35),
        ("one position", "h", "linear", 35),
    ],
)
def test_heads_fit_what_the_exit_stands_on(tmp_path, case, after, head, macs):
    path = save(tmp_path, TOKENS.format(*HEADS[case]), {"w": (7, 7), "s": (7,), "v": (7, 5), "u": (63, 7)})
    file, network = imported(path, exits=Placement((after,)))
    assert (file.exits[0].head, file.exits[0].classes) == (head, 5)
    assert network.macs - network.backbone().macs == macs


def test_dense_answers_get_no_heads_of_classifiers(tmp_path):
    path = save(tmp_path, RESIDUAL, WIDTH)
    (line,) = faults_of(path, exits=Placement(1))
    expected = 'exits: expected a network that answers once, found an answer of 6x6x4 ("y") in '
    assert line.startswith(expected)
    assert "as an output of the model" in line


def test_exits_that_cannot_be(tmp_path):
    path = save(tmp_path, RESIDUAL, WIDTH)
    four = faults_of(path, exits=Placement(4))
    assert four == [f"exits: expected 1 to 3, as {path} has 3 block boundaries, found 4"]
    assert "found 0" in faults_of(path, exits=Placement(0))[0]
    assert 'found "ab"; did you mean' in faults_of(path, exits=Placement(("ab", "a")))[0]
    assert faults_of(path, exits=Placement(("-2",)))[0].startswith(
        f"exits: expected how many, or names of layers of {path}, found"
    )
    assert 'nothing is computed after "y"' in faults_of(path, exits=Placement(("y",), "none"))[0]
    assert '"c" is named twice' in faults_of(path, exits=Placement(("c", "d"), "none"))[0]
    two = Placement(2, "none")
    (few,) = faults_of(path, exits=two, rates=[0.5])
    assert few == f"rates: expected 2, one for each exit of {path} but the last, found 1"
    for rates in ([0.75, 0.5], [-0.5, 0.5]):
        (wrong,) = faults_of(path, exits=two, rates=rates)
        assert "rates: expected shares from 0 to 1 that sum to at most 1" in wrong
    with pytest.raises(InputError, match=r"head: expected msdnet, pool-linear, token-linear, linear, edgesp or none"):
        imported(path, exits=Placement(1, "big"))
    with pytest.raises(InputError, match=r"classes: expected 1 to 16777216, found 33554432"):
        imported(path, exits=Placement(1, classes=2**25))


OUTPUTS = """g (float[1,4,6,6] x) =>
    (float[1,4,6,6] y, float[1,1,4] early, float[1,1,4] scores, float[1,4,6,6] a, float[1,4,1,1] late) {
    a = Conv <pads=[1,1,1,1]> (x, w) p = GlobalAveragePool (a) s = Constant <value_ints=[1,1,4]> ()
    q = Reshape (p, s) early = MatMul (q, v) scores = Softmax (early)
    b = Conv <pads=[1,1,1,1]> (a, w) c = Add (b, a)
    e = Conv <pads=[1,1,1,1]> (c, w) f = Add (e, c) y = Conv <pads=[1,1,1,1]> (f, w) inside = Relu (e)
    late = GlobalAveragePool (y) }"""


def test_several_outputs_are_exits_of_their_own(tmp_path):
    path = save(tmp_path, OUTPUTS, WIDTH | {"v": (4, 4)})
    file, network = imported(path)
    (exit_,) = file.exits
    assert (exit_.after, exit_.rate) == ("a", 0.5)
    assert [op.op for op in exit_.layers or []] == ["globalavgpool", "linear", "memory"]
    assert [layer.name for layer in network.layers if layer.stage == 1] == [
        "a",
        "exit1/p",
        "exit1/early",
        "exit1/scores",
    ]
    assert [layer.name for layer in network.layers if layer.stage == 2] == ["b", "e", "y", "late"]
    remarks = [f'output "{name}" has no product of its own: no exit, part of the backbone' for name in ("y", "a")]
    assert file.sources["outputs"] == "; ".join(remarks)
    (outputs,) = faults_of(path, exits=Placement(1))
    assert outputs == f"exits: the outputs of {path} are 1 exits already; leave the option out"


def test_an_output_from_within_a_block_is_no_exit(tmp_path):
    """It hangs on one layer, beside which the block's input is still needed."""
    text = RESIDUAL.replace("float[1,4,6,6] y)", "float[1,4,6,6] y, float[1,4,6,6] z)").replace(
        "f = Add", "z = Conv <pads=[1,1,1,1]> (b, w) f = Add"
    )
    file, network = imported(save(tmp_path, text, WIDTH))
    assert not file.exits
    assert 'output "z" does not begin at a single block boundary' in file.sources["outputs"]
    assert "z" in [layer.name for layer in network.layers]


def test_a_state_is_no_exit(tmp_path):
    """A streaming convolution gives the frames that its next run begins with: they hang on a block boundary."""
    text = """g (float[1,4,8] x, float[1,4,2] old) => (float[1,3] y, float[1,4,2] new) {
        j = Concat <axis=2> (old, x) a = Conv (j, w) r = Relu (a) z = Constant <value_ints=[6]> ()
        e = Constant <value_ints=[8]> () two = Constant <value_ints=[2]> () new = Slice (r, z, e, two)
        b = Conv (r, w) p = GlobalAveragePool (b) f = Flatten (p) y = MatMul (f, v) }"""
    file, network = imported(save(tmp_path, text, {"w": (4, 4, 3), "v": (4, 3)}))
    assert not file.exits
    assert file.sources["outputs"] == 'output "new" has no product of its own: no exit, part of the backbone'
    assert network.gemms == [Gemm(8, 12, 4), Gemm(6, 12, 4), Gemm(1, 4, 3)]


def test_outputs_that_turn_out_one_by_one_to_be_no_exits_are_all_kept(tmp_path):
    """Each hangs on the branch of the one before it, and on the backbone: every round finds one more."""
    lines = ["a0 = MatMul (x, w) b0 = MatMul (a0, w) b1 = Add (b0, a0)"]
    outputs = []
    for i in range(1, 9):
        lines.append(f"b{i + 1} = MatMul (b{i}, w) c{i} = MatMul ({f'c{i - 1}' if i > 1 else 'b0'}, w)")
        lines.append(f"o{i} = MatMul (c{i}, w)")
        outputs.append(f"float[1,7] o{i}")
    text = f"g (float[1,7] x) => ({', '.join(outputs[::-1])}, float[1,7] b9) {{ {' '.join(lines)} }}"
    _, network = imported(save(tmp_path, text, {"w": (7, 7)}))
    assert len(network.gemms) == 2 + 3 * 8


# ---- faults

NODE = "g (float[1,7] x) => (float[1,7] y) {{ {} }}"
BRANCH = """y = If (x) <
    then_branch = t () => (float[1,7] a) { a = Relu (x) }, else_branch = e () => (float[1,7] b) { b = Neg (x) }>"""
FAULTS = {
    "a branch of a run": (
        NODE.format(BRANCH), ['node "y" (If): expected a condition that', "the answer of each exit as an output"]),
    "a layer of very many channels": (
        """g (float[1,1] x) => (float[1,q] y) {
            n = Constant <value_ints=[1,33554432]> () e = Expand (x, n) y = MatMul (x, e) }""",
        ['node "y" (MatMul): output channels: expected at most 16777216']),
    "a cycle": (NODE.format("a = Relu (b) b = Relu (a) y = Add (x, b)"), ['node "a" (Relu)', 'found "b"']),
    "twice the same result": (NODE.format("y = Relu (x) y = Abs (x)"), ['found "y" again']),
    "an output nobody makes": (NODE.format("a = Relu (x)"), ['output "y": no node makes it']),
    "shapes that do not fit": (NODE.format("y = MatMul (x, x)"), ['node "y" (MatMul): its shape cannot be computed']),
    "a shape only a run gives": (
        NODE.format("n = NonZero (x) y = Relu (n)"), ['"n" depends on values that only a run gives']),
    "constants only": (NODE.format("y = Constant <value_floats=[1.0]> ()"), ["found constants only"]),
    "nothing that multiplies": (NODE.format("y = Softmax (x)"), ["at least one node that multiplies"]),
    "no layer at all": (NODE.format("y = Relu (x)"), ["at least one node that multiplies"]),
    "a size written down for another run": (
        NODE.format("s = Constant <value_ints=[3,2]> () y = Reshape (x, s)"), ["it makes 6 values of 7"]),
    "letters that do not fit": (
        NODE.format('y = Einsum <equation="ijk,kj->ij"> (x, x)'), ['node "y" (Einsum): expected an equation for 2']),
    "a diagonal": (NODE.format('y = Einsum <equation="ii,ij->ij"> (x, x)'), ["has 1 and 7 values along one letter"]),
    "too wide": ("g (float[1,16777217] x) => (float[1,q] y) { y = MatMul (x, x) }", ["y"]),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_faults_name_the_node(tmp_path, case):
    text, expected = FAULTS[case]
    line = faults_of(save(tmp_path, text))[0]
    assert all(part in line for part in expected), line


def test_names_that_are_no_text_are_refused(tmp_path):
    """protobuf takes them, and hands out bytes or faults of its own."""
    path = save(tmp_path, NODE.format("first = Relu (x) y = MatMul (first, w)"), {"w": (7, 7)})
    for name in (b"first", b"Relu", b"w"):
        raw = path.read_bytes()
        path.write_bytes(raw.replace(name, b"\xf5" * len(name)))
        assert faults_of(path) == ["expected an ONNX model, found names that are not UTF-8"]
        path.write_bytes(raw)


def test_everything_not_understood_is_listed(tmp_path):
    text = "g (float[5,1,7] x) => (float[5,1,1,3] y) { a = Relu (x) y, h = STFT (a, w, r) }"
    path = save(tmp_path, text, {"w": (1, 12, 7), "r": (1, 12, 3)})
    model = onnx.load(path)
    model.graph.node[0].name, model.graph.node[0].op_type = "first", "FastGelu"
    model.graph.node[0].domain = "com.microsoft"
    model.graph.node[1].name = "memory cell"
    onnx.save(model, path)
    assert faults_of(path) == [
        f'node "{name}": {op} is not understood; say what it costs with --treat {op}=free|memory'
        for name, op in (("first", "com.microsoft.FastGelu"), ("memory cell", "STFT"))
    ]


def test_a_newer_opset_is_named(tmp_path):
    path = save(tmp_path, NODE.format("y = Relu (x)"))
    model = onnx.load(path)
    model.opset_import[0].version = 999
    path.write_bytes(model.SerializeToString())
    assert "found 999" in faults_of(path)[0]


IN_BRANCHES = (
    "c = Constant <value = bool {{1}}> () b = If (c) <"
    + ", ".join(
        f"{branch} = g () => (float[1, 7] h) {{{{ h = local.{{f}} (a) }}}}" for branch in ("then_branch", "else_branch")
    )
    + ">"
)


@pytest.mark.parametrize(
    "calls", ["h = local.{f} (a) b = Relu (h)", "h = local.{f}2 (a) b = local.{f}2 (h)", IN_BRANCHES, "2" + IN_BRANCHES]
)
def test_functions_without_end_are_refused(tmp_path, calls):
    """One that calls itself; and forty, each of which calls the next one twice; both also in the branches of an If."""
    many, calls = "2" in calls, calls.replace("}2", "}").removeprefix("2")
    bodies = [calls.format(f=f"f{i}") for i in range(2, 42)] if many else [calls.format(f="f")]
    bodies += [] if len(bodies) == 1 else ["b = Relu (a)"]
    names = ["f"] if len(bodies) == 1 else [f"f{i}" for i in range(1, 42)]
    functions = "\n".join(
        f'<domain: "local", opset_import: ["" : 20, "local" : 1]> {name} (a) => (b) {{ {body} }}'
        for name, body in zip(names, bodies, strict=True)
    )
    head = '<ir_version: 8, opset_import: ["" : 20, "local" : 1]>'
    text = "\n".join((head, NODE.format(f"y = local.{names[0]} (x)"), functions))
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert any(part in faults_of(path)[0] for part in ("calls itself", "found more in its functions"))


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../weights.bin", "sub/../../weights.bin", "link/weights.bin", "\0"]
)
def test_weights_outside_the_folder_are_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    path = save(folder, NODE.format("y = MatMul (x, w)"), {"w": (7, 7)})
    point_outside(path, location)
    assert "expected external data in the folder of the model" in faults_of(path)[0]
    point_outside(path, "sub/weights.bin")  # need not even be there
    assert imported(path)[1].gemms == [Gemm(1, 7, 7)]


def point_outside(path: Path, location: str) -> None:
    model = onnx.load(path, load_external_data=False)
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    del weights.external_data[:]
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())


def test_external_data_of_a_constant_is_never_read(tmp_path, monkeypatch):
    """The reference evaluator would take it from the current folder."""
    path = save(
        tmp_path, "g (float[1,6] x) => (float[?,?] y) { s = Constant <value = int64[2] {3, 2}> () y = Reshape (x, s) }"
    )
    model = onnx.load(path)
    shape = model.graph.node[0].attribute[0].t
    shape.ClearField("int64_data")
    shape.ClearField("raw_data")
    shape.data_location = onnx.TensorProto.EXTERNAL
    shape.external_data.add(key="location", value="shape.bin")
    path.write_bytes(model.SerializeToString())
    (tmp_path / "shape.bin").write_bytes(struct.pack("<2q", 3, 2))
    monkeypatch.chdir(tmp_path)
    assert 'output "y": its shape depends on values that only a run gives' in faults_of(path)[0]


@given(data=st.data())
@settings(max_examples=60)
def test_damaged_bytes_never_crash(tmp_path_factory, data):
    """One clear line each: bytes changed, cut out and put in."""
    folder = tmp_path_factory.mktemp("fuzz")
    raw = bytearray(save(folder, RESIDUAL, WIDTH).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = folder / "net.onnx"
    path.write_bytes(raw)
    try:
        imported(path, exits=Placement(1))
    except InputError as error:
        assert all(line.startswith((str(path), "exits: ")) and "\n" not in line for line in error.faults)
    assert list(folder.iterdir()) == [path]


NUMBERS = [-(2**63), -1, 0, 1, 2, 3, 2**31, 2**62, 2**63 - 1]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_hostile_graphs_never_crash_or_hang(tmp_path_factory, seed):
    """Well-formed files with sizes, attributes, inputs and operators that make no sense."""
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("fuzz")
    path = save(folder, DYNAMIC if seed % 2 else RESIDUAL, {"w": (7, 1)} if seed % 2 else WIDTH)
    model = onnx.load(path)
    operators = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
    tensors = [name for node in model.graph.node for name in node.output] + ["x", "w", ""]
    for _ in range(rng.randint(1, 3)):
        node = rng.choice(model.graph.node)
        match rng.randrange(5):
            case 0:
                node.op_type = rng.choice(operators)
            case 1 if node.input:
                node.input[rng.randrange(len(node.input))] = rng.choice(tensors)
            case 2:
                name = rng.choice(
                    ["group", "axis", "perm", "strides", "pads", "kernel_shape", "auto_pad", "value_ints"]
                )
                value = rng.choice([rng.choice(NUMBERS), rng.sample(NUMBERS, 2), "SAME_UPPER", 0.5])
                node.attribute.append(onnx.helper.make_attribute(name, value))
            case 3:
                for attribute in node.attribute:
                    attribute.ints[:] = [rng.choice(NUMBERS) for _ in attribute.ints]
            case _:
                model.graph.initializer[0].dims[0] = rng.choice(NUMBERS)
    path.write_bytes(model.SerializeToString())
    try:
        imported(path, dims={"batch": 1, "seq": 4} if seed % 2 else {})
    except InputError as error:
        assert all(str(path) in line and "\n" not in line for line in error.faults)


# ---- the command


def test_the_command_writes_all_or_nothing(fluidb, tmp_path):
    save(tmp_path, RESIDUAL, WIDTH)
    done = fluidb("models", "import", "net.onnx", "-o", "net.toml", "--exits", "a, c", "--head", "pool-linear")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 nodes multiply: 4 Conv" in done.stdout
    assert [exit_.name for exit_ in load_network(str(tmp_path / "net.toml")).exits] == ["a", "c", "y"]
    (tmp_path / "bad.onnx").write_bytes(b"\x00garbage")
    for arguments in (
        ["bad.onnx"],
        ["net.onnx", "--dim", "x"],
        ["net.onnx", "--rates", "a"],
        ["net.onnx", "--exits", ","],
        ["net.onnx", "--head", "none"],
    ):
        assert len(lines(fluidb("models", "import", *arguments, "-o", "bad.toml"))) == 1
        assert not (tmp_path / "bad.toml").exists()


def test_an_output_that_is_no_exit_is_a_warning(fluidb, tmp_path):
    save(tmp_path, OUTPUTS, WIDTH | {"v": (4, 4)})
    done = fluidb("models", "import", "net.onnx", "-o", "net.toml")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith('fluidb: warning: net.onnx: output "y" has no product of its own: no exit')


def test_an_operator_that_is_not_understood_is_one_line(fluidb, tmp_path):
    body = " ".join(f"a{i} = Det (x)" for i in range(50))
    save(tmp_path, f"g (float[1,7] x) => (float[a] a0) {{ {body} }}")
    (line,) = lines(fluidb("models", "import", "net.onnx", "-o", "net.toml"))
    assert line.startswith('fluidb: net.onnx: 50 nodes, first "a0": Det is not understood')


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fluidb.formats.extras.find_spec", lambda name: None if name == "onnx" else find_spec(name))
    with pytest.raises(InputError, match=r"net.onnx: the import of ONNX .*pip install '\.\[onnx\]'"):
        import_network(save(tmp_path, RESIDUAL, WIDTH), "onnx")
