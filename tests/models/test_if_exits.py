"""Models that decide about their exits themselves: what becomes of their If nodes."""

from __future__ import annotations

import os
import random
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import COMPILED, Run, library, lines
from deciding import COLOURS, SIDE, deciding
from fluidb.formats import InputError
from fluidb.models.importers import import_network
from fluidb.models.importers.onnx.cut import read_stages
from fluidb.models.loader import build_network
from fluidb.models.network import thresholds_of
from fluidb.models.schema import NetworkFile
from fluidb.models.writer import network_text
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")

GRAPHS = int(os.environ.get("FLUIDB_GRAPHS", "25"))


@given(deciding())
@settings(max_examples=GRAPHS)
def test_a_network_that_decides_is_one_with_exits(tmp_path_factory, drawn):
    path = tmp_path_factory.getbasetemp() / "deciding.onnx"
    path.write_bytes(drawn.model.SerializeToString())
    open_ = bool(drawn.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param)
    file = import_network(path, "onnx", dims={"n": 1} if open_ else {})
    network = build_network(file, path)
    stated = thresholds_of(network.exits)
    assert stated is not None
    assert stated[0] == drawn.measure
    assert stated[1] == pytest.approx(drawn.thresholds, rel=1e-5)
    reads = [COLOURS, *drawn.widths]
    expected = [
        [SIDE**2 * 9 * before * width, SIDE**2 * width * drawn.classes]
        for before, width in zip(reads, drawn.widths, strict=False)
    ]
    for number, macs in enumerate(expected, 1):
        assert [layer.gemm.macs for layer in network.layers if layer.stage == number and layer.gemm] == macs
    assert NetworkFile.model_validate(tomllib.loads(network_text(file))) == file


HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'
WEIGHTS = "<float[7,4] w, float[7,7] v, int64[1] one = {1}, float t = {0.5}>"
FIRST = "i = MatMul (x, v) e = MatMul (i, w) p = Softmax <axis=1> (e) m = ReduceMax (p, one)"
LATE = "b = MatMul (i, v) c = MatMul (b, w)"


def save(folder: Path, body: str) -> Path:
    model = onnx.parser.parse_model(f"{HEAD}g (float[1,7] x) => (float[1,4] y) {WEIGHTS} {{ {body} }}")
    values = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in {"w", "v"}]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for name, columns in (("w", 4), ("v", 7)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values[:, :columns].copy(), name))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs_ = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs_)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def branch(condition: str, leave: str = "a = Identity (e)", late: str = f"{LATE} d = Identity (c)") -> str:
    return (
        f"{FIRST} {condition} y = If (s) <then_branch = l () => (float[1,4] a) {{ {leave} }},"
        f" else_branch = o () => (float[1,4] d) {{ {late} }}>"
    )


def decisions(path: Path) -> list[tuple[str, object]]:
    decided = read_stages(path).decided
    assert decided is not None
    return [(item.measure.name, item.threshold) for item in decided.decisions]


@pytest.mark.parametrize(
    ("condition", "threshold"),
    [
        ("s = GreaterOrEqual (m, t)", 0.5),
        ("s = Greater (m, t)", 0.50000006),  # an answer can have a confidence of exactly 0.5
        ("u = Constant <value_float=0.8> () s = Greater (m, u)", 0.8),
        ("u = Constant <value_float=1.0> () s = Greater (m, u)", "never"),
        ("u = Constant <value_float=-1.0> () s = Greater (m, u)", 0.0),
        ("z = Neg (m) u = Neg (t) s = LessOrEqual (z, u)", 0.5),
        ("d2 = Sub (m, t) u = Constant <value_float=0.0> () s = GreaterOrEqual (d2, u)", 0.5),
    ],
)
def test_thresholds_by_hand(tmp_path, condition, threshold):
    assert decisions(save(tmp_path, branch(condition))) == [("confidence", threshold)]


def test_a_later_if_on_what_an_earlier_one_decided_is_no_exit(tmp_path):
    """As a flag that says if the answer is there, or the same comparison again; both branches use the same names."""
    body = f"""{FIRST} s = Greater (m, t) yes = Constant <value = bool {{1}}> () no = Constant <value = bool {{0}}> ()
        r, done, k = If (s) <
            then_branch = l () => (float[1,4] a, bool f, float[1,7] h) {{
                a = Identity (e) f = Identity (yes) h = Identity (i) }},
            else_branch = o () => (float[1,4] a, bool f, float[1,7] h) {{
                h = MatMul (i, v) a = MatMul (h, w) f = Identity (no) }}>
        q = Softmax <axis=1> (r) j = ReduceMax (q, one) u = Constant <value_float=0.5> () z = Greater (j, u)
        stop = Or (done, z)
        y = If (stop) <
            then_branch = l2 () => (float[1,4] a) {{ a = Identity (r) }},
            else_branch = o2 () => (float[1,4] a) {{ g = MatMul (k, v) a = MatMul (g, w) }}>"""
    path = save(tmp_path, body)
    assert decisions(path) == [("confidence", 0.50000006)] * 2
    network = build_network(import_network(path, "onnx"), path)
    assert [layer.gemm.macs for layer in network.layers if layer.gemm] == [49, 28, 49, 28, 49, 28]


def test_what_stands_behind_an_if_belongs_to_every_exit(tmp_path):
    body = branch("s = Greater (m, t)").replace("y = If", "r = If") + " y = Softmax <axis=1> (r)"
    path = save(tmp_path, body)
    assert decisions(path) == [("confidence", 0.50000006)]
    assert [stage.probabilities for stage in read_stages(path).stages] == [True, True]


def test_exits_that_are_not_asked_in_order_of_depth_are_stages_of_the_device_only(tmp_path):
    """A network file has its exits in order of depth; the second one's head, in the backbone, hides the first one."""
    late = "c = MatMul (i0, w) q = Softmax <axis=1> (c) k = ReduceMax (q, one) z = Greater (k, t) d = If (z) <"
    late += "then_branch = l2 () => (float[1,4] a2) { a2 = Identity (c) },"
    late += "else_branch = o2 () => (float[1,4] d2) { b = MatMul (i, v) d2 = MatMul (b, w) }>"
    body = "i0 = MatMul (x, v) " + branch(LARGE, late=late).replace("i = MatMul (x, v)", "i = MatMul (i0, v)")
    path = save(tmp_path, body)
    file = import_network(path, "onnx")
    assert not file.exits
    assert file.sources["outputs"].startswith('output "c" does not begin behind the exit before it: no exit, part of')
    assert [stage.answer for stage in read_stages(path).stages] == ["e", "c", "d2"]


def test_probabilities_that_no_softmax_makes(tmp_path):
    body = branch(
        "ex = Exp (e) n = ReduceSum (ex, one) q = Div (ex, n) z = ReduceMax (q, one) s = GreaterOrEqual (z, t)"
    )
    assert decisions(save(tmp_path, body.replace("Identity (e)", "Identity (q)"))) == [("confidence", 0.5)]


def test_an_if_whose_condition_is_a_constant_is_the_branch_that_it_takes(tmp_path):
    path = save(tmp_path, branch("s = Constant <value = bool {0}> ()"))
    network = build_network(import_network(path, "onnx"), path)
    assert [layer.gemm.macs for layer in network.layers if layer.gemm] == [49, 49, 28]


LARGE = "s = Greater (m, t)"
HINT = "; export a model that always runs to its end and has the answer of each exit as an output"
NO_EXIT = "expected a branch that answers at once if one of these measures of its answer reaches a threshold"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (branch("s = Cast <to=9> (m)"), 'node "y" (If): expected a condition that compares a value with a constant'),
        (branch("z = ReduceMin (p, one) s = Greater (m, z)"), "expected a condition that compares a value"),
        (branch("z = ReduceMin (p, one) s = Greater (z, t)"), NO_EXIT),  # the least share is no measure
        (branch("z = ReduceMax (e, one) s = Greater (z, t)"), NO_EXIT),  # nor is a score
        (branch("z = ReduceMax (i, one) s = Greater (z, t)"), NO_EXIT),  # it says nothing about the answer
        (branch("s = Less (m, t)"), NO_EXIT),  # who is not sure leaves
        (branch(LARGE, leave="f = MatMul (x, v) a = MatMul (f, w)"), NO_EXIT),  # it answers something else
        (branch(f"{LARGE.replace('s =', 'z =')} n = Greater (e, t) s = And (z, n)"), "expected a condition"),
        (branch(LARGE, late="d = Identity (e)"), "expected an If whose branches give different answers, found one"),
        (branch(LARGE, late=f"{LATE} d = Identity (c) d2 = Identity (c)").replace("=> (float[1,4] d)",
                "=> (float[1,4] d, float[1,4] d2)"), "two branches with as many outputs as the node has"),
    ],
)  # fmt: skip
def test_an_if_that_is_no_exit_is_one_clear_line(tmp_path, body, fault):
    path = save(tmp_path, body)
    for read in (lambda: import_network(path, "onnx"), lambda: read_stages(path)):
        with pytest.raises(InputError) as error:
            read()
        (line,) = error.value.faults
        assert fault in line
        assert line.endswith(HINT)


def test_exits_by_two_measures_are_refused(tmp_path):
    late = f"{LATE} q = LogSoftmax <axis=1> (c) ex = Exp (q) k = Mul (ex, q) h = ReduceSum (k, one) z = Greater (h, t)"
    late += " d = If (z) <then_branch = l2 () => (float[1,4] a2) { a2 = Identity (c) },"
    late += " else_branch = o2 () => (float[1,4] d2) { b3 = MatMul (b, v) d2 = MatMul (b3, w) }>"
    path = save(tmp_path, branch(LARGE, late=late))
    with pytest.raises(InputError, match="all ask for one measure, found confidences and entropies"):
        read_stages(path)


def test_blocks_that_are_skipped_are_no_exits(tmp_path):
    """Both branches of each go on: the ways double with each of them."""
    blocks = [
        f"m{i} = ReduceMax (x{i}, one) s{i} = Greater (m{i}, t) x{i + 1} = If (s{i}) <"
        f"then_branch = l () => (float[1,7] a) {{ a = Identity (x{i}) }},"
        f"else_branch = o () => (float[1,7] d) {{ d = MatMul (x{i}, v) }}>"
        for i in range(90)
    ]
    path = save(tmp_path, "x0 = Relu (x) " + " ".join(blocks) + " y = MatMul (x90, w)")
    with pytest.raises(InputError) as error:
        import_network(path, "onnx")
    assert "expected at most 64 " in error.value.faults[0]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_hostile_branches_never_crash_or_hang(tmp_path_factory, seed):
    """Well-formed files with If nodes whose operators, attributes and names make no sense."""
    rng = random.Random(seed)
    path = save(tmp_path_factory.getbasetemp(), branch(LARGE))
    model = onnx.load(path)
    graphs = [model.graph, *(attribute.g for attribute in model.graph.node[-1].attribute)]
    operators = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
    names = [name for graph in graphs for node in graph.node for name in node.output] + ["x", "t", ""]
    for _ in range(rng.randint(1, 3)):
        nodes = rng.choice(graphs).node
        node = rng.choice(nodes)
        match rng.randrange(6):
            case 0:
                node.op_type = rng.choice(operators)
            case 1 if node.input:
                node.input[rng.randrange(len(node.input))] = rng.choice(names)
            case 2 if node.output:
                node.output[rng.randrange(len(node.output))] = rng.choice(names)
            case 3:
                node.attribute.append(
                    helper.make_attribute(rng.choice(["axis", "keepdims", "to"]), rng.choice([-9, 0, 99]))
                )
            case 4:
                nodes.append(nodes.pop(rng.randrange(len(nodes))))
            case _:
                graph = rng.choice(graphs)
                (rng.choice([graph.output, graph.initializer]) or graph.output)[0].name = rng.choice(names)
    path.write_bytes(model.SerializeToString())
    for read in (lambda: import_network(path, "onnx"), lambda: read_stages(path)):
        try:
            read()
        except InputError as error:
            assert all(str(path) in line and "\n" not in line for line in error.faults)


# ---- PyTorch


def exits(torch, nn, measured, parts):
    """Three stages; the answer of the first is a row of scores, and leaves by ``measured``."""

    def forward(self, x):
        x = torch.relu(self.a(x))
        first = self.e(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))

        def leave(x, first):
            return first.clone()

        def go_on(x, first):
            y = torch.relu(self.b(x))
            second = self.f(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1))

            def end(y, second):
                return self.g(torch.flatten(nn.functional.adaptive_avg_pool2d(torch.relu(self.c(y)), 1), 1))

            return torch.cond(measured(second), lambda _, answer: answer.clone(), end, (y, second))

        return torch.cond(measured(first), leave, go_on, (x, first))

    made = type("Exits", (nn.Module,), {"forward": forward})()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


@pytest.mark.filterwarnings("ignore")  # the exporter uses what PyTorch will drop
@pytest.mark.parametrize(("measure", "batch"), [("confidence", None), ("entropy", "n")])
def test_torch_cond_through_the_dynamo_exporter(tmp_path, measure, batch):
    torch = library("torch")
    library("onnxscript")
    nn = torch.nn

    def measured(scores):
        shares = torch.softmax(scores, 1)
        if measure == "confidence":
            return (shares.max(1).values > 0.8).all()
        return (-(shares * torch.log(shares)).sum(1)).mean() < 0.8

    parts = {"a": nn.Conv2d(3, 8, 3), "e": nn.Linear(8, 5), "b": nn.Conv2d(8, 8, 3), "f": nn.Linear(8, 5),
             "c": nn.Conv2d(8, 8, 3), "g": nn.Linear(8, 5)}  # fmt: skip
    model, path = exits(torch, nn, measured, parts).eval(), tmp_path / "net.onnx"
    shapes = {} if batch is None else {"dynamic_shapes": ({0: batch},)}
    torch.onnx.export(model, (torch.randn(2 if batch else 1, 3, 16, 16),), path, dynamo=True, verbose=False, **shapes)
    assert decisions(path) == [(measure, 0.8)] * 2
    network = build_network(import_network(path, "onnx", dims={"n": 1} if batch else {}), path)
    assert thresholds_of(network.exits) == (measure, [0.8, 0.8])
    assert [layer.stage for layer in network.layers if layer.gemm] == [1, 1, 2, 2, 3, 3]


def test_a_model_imported_by_the_command_shows_when_samples_leave(fluidb: Run, tmp_path):
    save(tmp_path, branch("s = GreaterOrEqual (m, t)"))
    done = fluidb("models", "import", "net.onnx", "-o", "net.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert 'If nodes of the model, which ask each sample by itself: "y" from a confidence of 0.5' in done.stdout
    shown = fluidb("models", "show", "net.toml").stdout
    assert "confidence >= 0.5" in shown
    (line,) = lines(fluidb("models", "import", "net.onnx", "-o", "b.toml", "--exits", "1"))
    assert "are 1 exits already" in line
