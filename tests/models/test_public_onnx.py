"""ONNX files as the field exchanges them: what does not change sizes never stands in the way.

The networks are the smallest that show what public files and threads ran into (issue 46, F1 to F7); the MACs are
arithmetic on their shapes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import imported
from fluidb.formats import InputError
from fluidb.models.importers import ReadAs
from fluidb.models.importers.onnx.einsum import EinsumParts
from fluidb.models.importers.onnx.inference import Sizer
from fluidb.models.importers.onnx.sequences import Sequences
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

CONV = 16 * 16 * 72 * 16


def save(
    tmp_path: Path, text: str, weights: dict[str, tuple[int, ...]], opset: int = 13, kind: int = 1, **domains: int
):
    """A model in ONNX's own notation, with weights of zeros of a type."""
    imports = ", ".join(f'"{name}" : {version}' for name, version in {"": opset, **domains}.items())
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{text}")
    for name, shape in weights.items():
        zeros = np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind))
        model.graph.initializer.append(numpy_helper.from_array(zeros, name))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


SIMPLE: dict[str, Any] = {
    "an attribute that ONNX does not define (F3)": (
        "g (float[1,8,16,16] x) => (float[1,16,16,16] y) { y = Conv <pads=[1,1,1,1], weight_size=4> (x, w) }", 13, 1,
        {"w": (16, 8, 3, 3)}, CONV),
    "bfloat16 (F4)": (
        "g (bfloat16[1,8,16,16] x) => (bfloat16[1,16,16,16] y) { y = Conv <pads=[1,1,1,1]> (x, w) }", 17,
        TensorProto.BFLOAT16, {"w": (16, 8, 3, 3)}, CONV),
    "int8 (F4)": (
        "g (int8[1,8,16,16] x) => (int8[1,16,16,16] y) { c = Conv <pads=[1,1,1,1]> (x, w) y = Relu (c) }", 13,
        TensorProto.INT8, {"w": (16, 8, 3, 3)}, CONV),
    "GroupNormalization of opset 21 (F2)": (
        """g (float[1,8,4,4] x) => (float[1,16,4,4] y) {
            n = GroupNormalization <num_groups=2> (x, s, s) r = Relu (n) y = Conv (r, w) }""", 21, 1,
        {"w": (16, 8, 1, 1), "s": (8,)}, 16 * 8 * 16),
    "MeanVarianceNormalization (F2)": (
        """g (float[1,8,4,4] x) => (float[1,16,4,4] y) {
            n = MeanVarianceNormalization (x) r = Relu (n) y = Conv (r, w) }""", 13, 1,
        {"w": (16, 8, 1, 1)}, 16 * 8 * 16),
    "a transpose as an Einsum (F7)": (
        """g (float[1,10,32] x) => (float[1,64,16] y) {
            a = MatMul (x, u) t = Einsum <equation="bij->bji"> (a) y = MatMul (t, v) }""", 13, 1,
        {"u": (32, 64), "v": (10, 16)}, 30_720),
    "a diagonal, a trace and a sum": (
        """g (float[1,4,4] x) => (float[1,3] y) {
            d = Einsum <equation="bii->bi"> (x) t = Einsum <equation="...ii"> (x) o = Einsum <equation="bij->bi"> (x)
            a = Add (d, o) m = Mul (a, t) y = MatMul (m, w) }""", 13, 1, {"w": (4, 3)}, 12),
    "a window that would start in the padding, as no runtime counts it": (
        """g (float[1,8,4,4] x) => (float[1,16,a,b] y) {
            p = MaxPool <kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1> (x)
            y = Conv (p, w) }""", 13, 1,
        {"w": (16, 8, 1, 1)}, 2 * 2 * 8 * 16),
    "sizes of padding as timm computes them": (
        """g (float[1,3,9,9] x) => (float[1,4,a,b] y) {
            s = Shape (x) p = Constant <value_ints=[0,0,0,0,0,0,0,0]> () i = Constant <value_ints=[7]> ()
            two = Constant <value_ints=[2]> () e = Gather (s, two) q = Mod (e, two) z = Constant <value_ints=[0]> ()
            m = Constant <value_int=0> () c = Clip (q, m) u = ScatterElements (p, i, c) n = NonZero (u)
            d = Pad (x, u) y = Conv (d, w) }""", 13, 1, {"w": (4, 3, 2, 2)}, 8 * 9 * 12 * 4),
    "a convolution whose window is bent": (
        """g (float[1,8,16,16] x) => (float[1,16,16,16] y) {
            o = Conv <pads=[1,1,1,1]> (x, v) y = DeformConv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w, o) }""", 19, 1,
        {"w": (16, 8, 3, 3), "v": (18, 8, 3, 3)}, 16 * 16 * 72 * (18 + 16)),
    "a constant that takes the type of an activation": (
        """g (float[1,2,3] x) => (float[1,2,5] y) {
            a = MatMul (x, u) one = Constant <value_floats=[1.0]> () c = CastLike (one, a) s = Shape (a)
            e = Expand (c, s) m = Mul (a, e) y = MatMul (m, v) }""", 15, 1, {"u": (3, 4), "v": (4, 5)},
        2 * 12 + 2 * 20),
    "constants that sizes make, as timm's bilinear attention": (
        """g (float[1,8,8] x) => (float[1,8,3] y) {
            a = MatMul (x, u) z = Constant <value_ints=[0]> () s = Squeeze (a, z) e = EyeLike (s)
            r = RandomNormalLike (a) n = RandomUniform <shape=[1,8,8]> () eight = Constant <value_int=8> ()
            h = HannWindow (eight) b = Add (a, r) c = Mul (b, n) d = Mul (c, h) i = MatMul (d, e)
            y = MatMul (i, v) }""", 17, 1, {"u": (8, 8), "v": (8, 3)}, 8 * 8 * (8 + 8 + 3)),
    "patches that are put together, as fold": (
        """g (float[1,40,16] x) => (float[1,6,4,4] y) {
            s = Constant <value_ints=[5,5]> () k = Constant <value_ints=[2,2]> () a = Col2Im (x, s, k)
            m = Constant <value_ints=[4,4]> () c = CenterCropPad <axes=[2,3]> (a, m) y = Conv (c, w) }""", 18, 1,
        {"w": (6, 10, 1, 1)}, 16 * 10 * 6),
    "a grid that a network turns": (
        """g (float[1,12] x) => (float[1,6,8,8] y) {
            t = MatMul (x, v) r = Constant <value_ints=[1,2,3]> () m = Reshape (t, r)
            s = Constant <value_ints=[1,2,8,8]> () a = AffineGrid (m, s)
            b = Transpose <perm=[0,3,1,2]> (a) y = Conv (b, w) }""", 20, 1,
        {"v": (12, 6), "w": (6, 2, 1, 1)}, 12 * 6 + 64 * 2 * 6),
    "Scatter, as it was before opset 11": (
        """g (float[1,8] x) => (float[1,6] y) {
            i = Constant <value=int64[1,1] {3}> () a = Scatter <axis=1> (x, i, u) y = MatMul (a, w) }""", 10, 1,
        {"u": (1, 1), "w": (8, 6)}, 8 * 6),
    "a cache that is written in place": (
        """g (float[1,9,4] x, float[1,1,4] k) => (float[1,1,9] y) {
            a = TensorScatter <axis=1> (x, k) t = Transpose <perm=[0,2,1]> (a) y = MatMul (k, t) }""", 24, 1,
        {}, 4 * 9),
    "three operands, from left to right": (
        """g (float[2,3] x) => (float[2,5] y) { y = Einsum <equation="ij,jk,kl->il"> (x, u, v) }""", 12, 1,
        {"u": (3, 4), "v": (4, 5)}, 2 * 3 * 4 + 2 * 4 * 5),
    "a sum that one operand has alone": (
        """g (float[2,3,7] x) => (float[2,5] y) { y = Einsum <equation="...jk,jl->...l"> (x, u) }""", 12, 1,
        {"u": (3, 5)}, 2 * 3 * 5),
}  # fmt: skip


@pytest.mark.parametrize("case", SIMPLE)
def test_what_does_not_change_sizes(tmp_path, case):
    text, opset, kind, weights, macs = SIMPLE[case]
    dims = {"x.0": 2 if "float[2" in text else 1}
    assert imported(save(tmp_path, text, weights, opset, kind), dims=dims)[1].macs == macs


def test_an_attribute_that_is_not_used_is_named(tmp_path):
    text, opset, kind, weights, _ = SIMPLE["an attribute that ONNX does not define (F3)"]
    file, _ = imported(save(tmp_path, text, weights, opset, kind))
    assert file.sources["attributes"].startswith("not used, as ONNX does not define them: 1 weight_size = 4; words are")


# ---- If nodes whose condition is known

SQUEEZE = """q = If (c) <then_branch = t () => (float[] a) {{ i = Constant <value_ints=[2,3]> ()
    a = Squeeze ({0}, i) }}, else_branch = e () => (float[] b) {{ b = Identity ({0}) }}>"""
SIZED = "s = Shape (p) two = Constant <value_int=2> () d = Gather (s, two) one = Constant <value_int=1> () "
WEIGHTS = {"w": (4, 8, 3, 3), "v": (4, 10)}


def test_a_condition_on_sizes_is_its_branch(tmp_path):
    """x.squeeze() leaves it behind (F1)."""
    text = f"""g (float[1,8,16,16] x) => (float[] y) {{
        k = Conv <pads=[1,1,1,1]> (x, w) p = GlobalAveragePool (k) {SIZED} c = Equal (d, one)
        {SQUEEZE.format("p")} y = MatMul (q, v) }}"""
    assert imported(save(tmp_path, text, WEIGHTS))[1].macs == 16 * 16 * 72 * 4 + 4 * 10 == 73_768


def test_a_condition_on_the_size_of_a_listed_tensor_is_its_branch(tmp_path):
    """What scripted code leaves, as in torchvision's MViT: a list that a loop fills, and then its size."""
    text = f"""g (float[1,8,16,16] x) => (float[] y) {{
        n = Constant <value_int=1> () go = Cast <to=9> (n) none = SequenceEmpty ()
        filled = Loop (n, go, none) <body = l (int64 i, bool r, seq(float[]) before) => (bool o, seq(float[]) after) {{
            o = Identity (r) after = SequenceInsert (before, x) }}>
        zero = Constant <value_int=0> () t = SequenceAt (filled, zero)
        k = Conv <pads=[1,1,1,1]> (t, w) p = GlobalAveragePool (k) {SIZED} c = Equal (d, one)
        {SQUEEZE.format("p")} y = MatMul (q, v) }}"""
    assert imported(save(tmp_path, text, WEIGHTS))[1].macs == 73_768


def test_a_condition_on_the_boxes_that_are_left_names_the_cause(tmp_path):
    """Detectors ask whether a box is left, which no size tells."""
    text = """g (float[1,7] x) => (float[1,5] y) {
        n = NonZero (x) s = Size (n) zero = Constant <value_int=0> () c = Equal (s, zero)
        y = If (c) <then_branch = t () => (float[1,5] a) { a = MatMul (x, w) },
                    else_branch = e () => (float[1,5] b) { d = MatMul (x, w) b = Add (d, d) }> }"""
    with pytest.raises(InputError, match='it depends on how many values the node "n" \\(NonZero\\) finds; end the'):
        imported(save(tmp_path, text, {"w": (7, 5)}))


SWITCH = """g (float[1,7] x, bool train) => (float[1,5] y) {
    y = If (train) <then_branch = t () => (float[1,5] a) { b = MatMul (x, w) a = Add (b, b) },
                    else_branch = e () => (float[1,5] d) { d = MatMul (x, w) }> }"""


def test_a_condition_on_an_input_is_an_option(tmp_path):
    path = save(tmp_path, SWITCH, {"w": (7, 5)})
    with pytest.raises(InputError, match=r"decides about no exit; it depends on the input train; .*--value train=1"):
        imported(path)
    for value, added in ((0, False), (1, True)):
        file, network = imported(path, read_as=ReadAs(values={"train": value}))
        assert network.macs == 35
        assert ("Add" in str(file.sources)) is added
    with pytest.raises(InputError, match='expected an input of .* with one value, found "x" with more'):
        imported(path, read_as=ReadAs(values={"x": 1}))


# ---- lists of answers

TWO = """g (float[1,8,16,16] x) => (seq(float[]) y) {
    a = Conv <pads=[1,1,1,1]> (x, w) p = GlobalAveragePool (a) f = Flatten (p) early = MatMul (f, v)
    b = Conv <pads=[1,1,1,1]> (a, u) q = GlobalAveragePool (b) g = Flatten (q) late = MatMul (g, z)
    l = SequenceConstruct (early) y = SequenceInsert (l, late) }"""


def test_a_list_of_answers_is_several_exits(tmp_path):
    """Of the last two products, the first becomes an exit's head (F6)."""
    sizes = {"w": (16, 8, 3, 3), "u": (16, 16, 3, 3), "v": (16, 10), "z": (16, 10)}
    _, network = imported(save(tmp_path, TWO, sizes))
    assert network.macs == CONV + 16 * 16 * 144 * 16 + 2 * 160 == 885_056
    assert len(network.exits) == 2


STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "erase", "at", "alone", "concat", "stack"]), st.integers(-4, 4)), max_size=6
)


@settings(max_examples=40, deadline=None)
@given(parts=st.integers(1, 3), keep=st.booleans(), steps=STEPS)
def test_lists_hold_what_the_reference_evaluator_puts_there(parts, keep, steps):
    """Any steps on a list: members have the sizes that a run gives."""
    nodes = [helper.make_node("SplitToSequence", ["x"] + ["parts"] * keep, ["l0"], axis=1, keepdims=1)]
    constants = {"parts": np.array(parts)}
    last, count, made = "l0", -(-6 // parts) if keep else 6, []
    for number, (step, place) in enumerate(steps):
        at = f"at{number}"
        constants[at] = np.array(place)
        if step == "insert" and -count <= place < count:  # at the end the evaluator puts it first, against the standard
            nodes.append(helper.make_node("SequenceInsert", [last, "x", at], [f"l{number + 1}"]))
            last, count = f"l{number + 1}", count + 1
        elif step == "erase" and -count <= place < count > 1:
            nodes.append(helper.make_node("SequenceErase", [last, at], [f"l{number + 1}"]))
            last, count = f"l{number + 1}", count - 1
        elif step == "at" and -count <= place < count:
            nodes.append(helper.make_node("SequenceAt", [last, at], [f"t{number}"]))
            made.append(f"t{number}")
        elif step == "concat":
            nodes.append(helper.make_node("ConcatFromSequence", [last], [f"t{number}"], axis=1))
            made.append(f"t{number}")
        elif step == "alone":
            nodes.append(helper.make_node("SequenceConstruct", ["x", "x"], [f"l{number + 1}"]))
            last, count = f"l{number + 1}", 2
    x = np.zeros((2, 6, 3), np.float32)
    sizer = Sizer(17)
    for name, value in constants.items():
        sizer.weigh(numpy_helper.from_array(value, name))
    sizer.give("x", helper.make_tensor_type_proto(1, x.shape))
    lists = Sequences(sizer)
    for node in nodes:
        for plain in lists.expand(node) or []:
            sizer.add(plain)
    types = [onnx.ValueInfoProto(name=name) for name in [*made, last]]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, x.shape)], types, weights)
    results: Any = ReferenceEvaluator(helper.make_model(graph, opset_imports=sizer.opsets)).run(None, {"x": x})
    *tensors, members = results
    assert [sizer.sizes[name] for name in made] == [tensor.shape for tensor in tensors]
    assert [sizer.sizes[name] for name in lists.members[last]] == [member.shape for member in members]


# ---- operators of other domains

QUANT = """g (float[1,8,16,16] x) => (float[1,16,16,16] y) {
    q = qonnx.custom_op.general.Quant <narrow=0, rounding_mode="ROUND", signed=1> (x, s, z, four)
    k = qonnx.custom_op.general.BipolarQuant (w, s) y = Conv <pads=[1,1,1,1]> (q, k) }"""


def test_quantisers_are_free_and_their_widths_are_read(tmp_path):
    """As QONNX writes them (F5)."""
    path = save(tmp_path, QUANT, {"w": (16, 8, 3, 3), "s": (), "z": ()}, **{"qonnx.custom_op.general": 1})
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.array(4, np.float32), "four"))
    onnx.save(model, path)
    file, network = imported(path)
    assert [layer.name for layer in network.layers] == ["y"]
    assert network.macs == CONV
    assert file.sources["widths"].startswith(
        "tensors that the file rounds: 1 of activations to 4 bits, 1 of weights to 1 bit; words"
    )


@pytest.mark.parametrize("weights", [(16, 8, 3, 3), (16, 3, 3, 8)])
def test_channels_that_come_last_are_turned(tmp_path, weights):
    """The convolution of QONNX whose map has its channels last, and its weights; or these where ONNX has them."""
    text = """g (float[1,16,20,8] x) => (float[1,16,20,16] y) {
        y = qonnx.custom_op.channels_last.Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w) }"""
    path = save(tmp_path, text, {"w": weights}, **{"qonnx.custom_op.channels_last": 1})
    assert imported(path)[1].gemms == [(16 * 20, 72, 16, 1)]


def test_a_user_says_what_an_operator_costs(tmp_path):
    text = """g (float[1,7] x) => (float[1,5] y) {
        a = com.example.Mish (x) b = com.example.Mish (a) c = com.example.Sort (b) y = MatMul (c, w) }"""
    path = save(tmp_path, text, {"w": (7, 5)}, **{"com.example": 1})
    with pytest.raises(InputError) as caught:
        imported(path)
    assert [fault.partition(": ")[2] for fault in caught.value.faults] == [
        f"{where}: com.example.{op} is not understood; say what it costs with --treat com.example.{op}=free|memory"
        for where, op in (('2 nodes, first "a"', "Mish"), ('node "c"', "Sort"))
    ]
    treat = {"com.example.Mish": "free", "com.example.Sort": "memory"}
    file, network = imported(path, read_as=ReadAs(treat=treat))
    assert [layer.memory_words for layer in network.layers] == [14, 0]
    assert "2 com.example.Mish" in file.sources["free"]
    with pytest.raises(InputError, match='not understood, found "com.example.Sorts"; did you mean com.example.Sort?'):
        imported(path, read_as=ReadAs(treat=treat | {"com.example.Sorts": "free"}))


def test_models_of_scikit_learn_are_read(tmp_path):
    """Their products have the coefficients' sizes; labels and ranges cost nothing or move data."""
    coefficients = f"[{', '.join(['0.5'] * 21)}]"
    text = f"""g (float[1,7] x) => (int64[1] label, float[1,3] z) {{
        s = ai.onnx.ml.Scaler <offset=[0.0], scale=[1.0]> (x)
        label, p = ai.onnx.ml.LinearClassifier <coefficients={coefficients}, classlabels_ints=[0,1,2]> (s)
        z = ai.onnx.ml.Normalizer <norm="L1"> (p) }}"""
    _, network = imported(save(tmp_path, text, {}, **{"ai.onnx.ml": 1}))
    assert network.gemms == [(1, 7, 3, 1)]


# ---- Einsum against numpy

TERMS = st.lists(st.text("ijk", min_size=0, max_size=3), min_size=1, max_size=3)


@settings(max_examples=50, deadline=None)
@given(terms=TERMS, dots=st.lists(st.integers(0, 2), min_size=3, max_size=3), arrow=st.booleans(), data=st.data())
def test_parts_of_an_einsum_compute_what_numpy_does(terms, dots, arrow, data):
    sizes, wide = {"i": 2, "j": 3, "k": 4}, (3, 2)
    letters = sorted(set("".join(terms)))
    out = "".join(data.draw(st.permutations(letters)))[: data.draw(st.integers(0, 3))]
    equation = ",".join(f"...{term}" if count else term for term, count in zip(terms, dots, strict=False))
    equation += f"->{'...' if any(dots[: len(terms)]) else ''}{out}" if arrow else ""
    shapes = [
        (*wide[2 - count :], *(sizes[letter] for letter in term)) for term, count in zip(terms, dots, strict=False)
    ]
    rng = np.random.default_rng(0)
    operands = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    expected = np.einsum(equation, *operands)
    names = [f"x{place}" for place in range(len(terms))]
    parts = EinsumParts(helper.make_node("Einsum", names, ["y"], equation=equation), shapes, 13)
    nodes = parts.write()
    for node in nodes:
        node.op_type = node.op_type.replace("Diagonal", "Einsum")
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)]
    weights = [numpy_helper.from_array(np.array(axes), name) for name, axes in parts.axes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made: Any
    (made,) = ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True)))
    assert made.shape == expected.shape
    assert np.array_equal(made, expected)
