"""Models that PyTorch and scikit-learn export here and now, against what these libraries count themselves.

They come with ``pip install --group exporters``.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import COMPILED, imported, library
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.importers import Placement
from fluidb.models.importers.onnx.trained import read_trained
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")


def export(path: Path, model, *arguments, dynamo: bool, dynamic=None, outputs=("y",)) -> int:
    """Write a model with one of PyTorch's two exporters; the MACs that PyTorch counts when it runs."""
    torch = library("torch")
    library("onnxscript")
    flop_counter = library("torch.utils.flop_counter")
    model.eval()
    counter = flop_counter.FlopCounterMode(display=False)
    names = ["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each exporter warns of the other
        with counter:
            model(*arguments)
        shapes = {"dynamic_shapes": dynamic} if dynamo else {"dynamic_axes": dynamic}
        torch.onnx.export(
            model,
            arguments,
            path,
            dynamo=dynamo,
            input_names=names,
            output_names=list(outputs),
            verbose=False,
            **shapes,
        )
    return int(counter.get_total_flops()) // 2


@pytest.mark.parametrize("dynamo", [False, True])
def test_convolutions_of_pytorch(tmp_path, dynamo):
    """Groups, dilation, padding by side, a transposed and a one-dimensional one."""
    nn, torch = library("torch.nn"), library("torch")
    model = nn.Sequential(
        nn.ZeroPad2d((0, 1, 1, 2)),
        nn.Conv2d(3, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.Conv2d(8, 12, 3, padding=2, dilation=2, groups=4),
        nn.GELU(),
        nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.Flatten(2),
        nn.Conv1d(6, 10, 5, stride=3, padding=2),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(10, 7),
    )
    macs = export(tmp_path / "net.onnx", model, torch.zeros(1, 3, 15, 14), dynamo=dynamo)
    file, network = imported(tmp_path / "net.onnx")
    assert network.macs == macs
    assert len(network.gemms) == 5
    # activations ride along: what moves data is the pool, and the padding, which the newer exporter folds
    assert len([layer for layer in network.layers if not layer.gemm]) == (1 if dynamo else 2)
    assert "fused" not in file.sources


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_transformer_of_pytorch_with_open_dimensions(tmp_path, dynamo):
    nn, torch = library("torch.nn"), library("torch")

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", norm_first=True)
            self.tokens = nn.Embedding(50, 32)
            self.blocks = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.classes = nn.Linear(32, 5)

        def forward(self, x):
            return self.classes(self.blocks(self.tokens(x)).mean(1))

    model, tokens = Encoder(), 11 if dynamo else 7
    axes = {"x": {0: "batch", 1: "seq"}}
    if dynamo:
        axes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq")}}
    export(tmp_path / "net.onnx", model, torch.zeros(2, 7, dtype=torch.long), dynamo=dynamo, dynamic=axes)
    if not dynamo:  # tracing wrote the tokens of its run into the attention
        with pytest.raises(InputError, match="exported for another size of its input"):
            imported(tmp_path / "net.onnx", dims={"batch": 1, "seq": 11})
    attention = library("torch.nn.attention")
    counter = library("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter, attention.sdpa_kernel(attention.SDPBackend.MATH):  # the counter does not see into fused kernels
        model(torch.zeros(1, tokens, dtype=torch.long))
    file, network = imported(tmp_path / "net.onnx", dims={"batch": 1, "seq": tokens}, exits=Placement(2, "pool-linear"))
    assert network.backbone().macs == counter.get_total_flops() // 2
    assert len(network.backbone().gemms) == 3 * 6 + 1
    # softmax, two normalisations a block; an embedding and the mean
    assert len([layer for layer in network.backbone().layers if not layer.gemm]) == 3 * 3 + 2
    # exits stand behind the blocks: each has as much before it as the next
    macs = [
        sum(layer.gemm.macs for layer in network.layers if layer.gemm and layer.stage == stage) for stage in (1, 2, 3)
    ]
    assert macs[0] == macs[1] == macs[2]
    assert file.exits[0].classes == 5


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_network_of_pytorch_with_three_outputs_keeps_its_exits(tmp_path, dynamo):
    nn, torch = library("torch.nn"), library("torch")

    class ThreeExits(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3, padding=1)
            self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
            self.heads = nn.ModuleList(nn.Linear(8, 5) for _ in range(3))

        def forward(self, x):
            x, answers = self.stem(x).relu(), []
            for block, head in zip(self.blocks, self.heads, strict=True):
                x = (block(x) + x).relu()
                answers.append(head(x.mean((2, 3))).softmax(1))
            return tuple(answers)

    macs = export(tmp_path / "net.onnx", ThreeExits(), torch.zeros(1, 3, 8, 8), dynamo=dynamo, outputs=("a", "b", "c"))
    file, network = imported(tmp_path / "net.onnx", rates=[0.5, 0.25])
    assert network.macs == macs
    assert [exit_.rate for exit_ in network.exits] == [0.5, 0.25, 0.25]
    assert [[op.op for op in exit_.layers or []] for exit_ in file.exits] == [["globalavgpool", "linear", "memory"]] * 2
    assert [len([x for x in network.layers if x.gemm and x.stage == stage]) for stage in (1, 2, 3)] == [3, 2, 2]


@pytest.mark.parametrize("dynamo", [False, True])
def test_parts_of_maps_and_tokens_of_pytorch(tmp_path, dynamo):
    """Every second row and column of a map; one token by a slice, an index or a tensor of indices; some tokens."""
    nn, torch = library("torch.nn"), library("torch")

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.thin, self.tokens = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 1), nn.Linear(6, 16)
            self.heads = nn.ModuleList(nn.Linear(16, 5) for _ in range(4))

        def forward(self, x):
            x = self.thin(self.stem(x).relu()[:, :, ::2, 1::2])
            x = self.tokens(x.flatten(2).transpose(1, 2))
            parts = x[:, 0], x[:, -1:].squeeze(1), x[torch.arange(1), torch.tensor([3])], x.chunk(4, 1)[1]
            first, last, third, some = (head(part) for head, part in zip(self.heads, parts, strict=True))
            return first + last + third + some.mean(1)

    macs = export(tmp_path / "net.onnx", Parts(), torch.zeros(1, 3, 8, 8), dynamo=dynamo)
    _, network = imported(tmp_path / "net.onnx")
    assert network.macs == macs == 64 * 27 * 8 + 16 * 8 * 6 + 16 * 6 * 16 + (3 + 4) * 16 * 5


def test_resnet50_of_pytorch_is_the_one_of_the_zoo(tmp_path):
    """Built from its description (He et al., 2016; stride in the 3x3), exported with all its weights."""
    nn, torch = library("torch.nn"), library("torch")

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()

            def conv(a, b, size, step):
                return [nn.Conv2d(a, b, size, step, size // 2, bias=False), nn.BatchNorm2d(b)]

            self.body = nn.Sequential(
                *conv(inputs, width, 1, 1),
                nn.ReLU(),
                *conv(width, width, 3, stride),
                nn.ReLU(),
                *conv(width, 4 * width, 1, 1),
            )
            same = inputs == 4 * width
            self.shortcut = nn.Identity() if same else nn.Sequential(*conv(inputs, 4 * width, 1, stride))

        def forward(self, x):
            return (self.body(x) + self.shortcut(x)).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 256 << stage
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    export(tmp_path / "net.onnx", model, torch.zeros(1, 3, 224, 224), dynamo=False)
    _, network = imported(tmp_path / "net.onnx", exits=Placement(3))
    shipped = load_network("resnet50")
    ours, theirs = (
        sorted((layer.stage, layer.gemm or (), layer.memory_words) for layer in net.layers)
        for net in (network, shipped)
    )
    assert ours == theirs


@given(
    op=st.sampled_from(["AveragePool", "Conv", "LpPool", "MaxPool"]),
    opset=st.sampled_from([11, 18, 19, 21, 22]),
    padding=st.one_of(st.sampled_from(["VALID", "SAME_UPPER", "SAME_LOWER"]), st.tuples(*[st.integers(0, 2)] * 2)),
    ceil=st.booleans(),
    sizes=st.tuples(*[st.integers(1, most) for most in (12, 4, 4, 3)]),
)
@settings(max_examples=50)
def test_windows_are_those_of_onnxruntime(tmp_path_factory, op, opset, padding, ceil, sizes):
    """Padding by size and by rule, windows that stick out, of any opset, along an axis."""
    runtime = library("onnxruntime")
    size, kernel, stride, dilation = sizes
    attributes: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride]}
    attributes |= {"auto_pad": padding} if isinstance(padding, str) else {"pads": [min(p, kernel - 1) for p in padding]}
    if ceil and op != "Conv" and (op != "LpPool" or opset > 11):
        attributes["ceil_mode"] = 1
    if op in {"Conv", "MaxPool"} or opset > 18:
        # with a rule, onnxruntime leaves the dilation out, against the formula of ONNX
        attributes["dilations"] = [1 if str(padding).startswith("SAME") else dilation]
    reach = attributes.get("dilations", [1])[0] * (kernel - 1) + 1
    assume(size + sum(attributes.get("pads", [reach if str(padding).startswith("SAME") else 0])) >= reach)
    inputs, weights = (["x", "w"], [onnx.helper.make_tensor("w", 1, [1, 1, kernel], [0.0] * kernel)])
    window = onnx.helper.make_node(op, inputs if op == "Conv" else ["x"], ["t"], **attributes)
    product = onnx.helper.make_node("Conv", ["t", "one"], ["y"])
    graph = onnx.helper.make_graph(
        [window, product],
        "window",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 1, size])],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [*(weights if op == "Conv" else []), onnx.helper.make_tensor("one", 1, [1, 1, 1], [0.0])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    path = tmp_path_factory.getbasetemp() / "window.onnx"
    path.write_bytes(model.SerializeToString())
    quiet = runtime.SessionOptions()
    quiet.log_severity_level = 4
    try:
        (found,) = runtime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"]).run(
            None, {"x": np.zeros((1, 1, size), np.float32)}
        )
    except Exception:  # noqa: BLE001  windows that do not fit, which it says with exceptions of its own
        return
    if found.size == 0:
        return
    _, network = imported(path)
    assert [layer.shape for layer in network.layers] == [(found.shape[2], 1, 1)] * 2


def layers_of(torch) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Small networks of layers that exporters write in several ways, and the shape of their input."""
    nn, pad = torch.nn, {"padding": 1}
    return {
        "volumes": (nn.Sequential(nn.Conv3d(3, 8, 3, **pad), nn.Conv3d(8, 4, (1, 3, 3), groups=4)), (3, 5, 8, 8)),
        "upward": (
            nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1, groups=2), nn.ConvTranspose2d(4, 2, 3, 2, 0, 1)),
            (8, 9, 9),
        ),
        "more channels for each": (nn.Sequential(nn.Conv2d(8, 24, 3, groups=8, **pad), nn.Conv2d(24, 8, 1)), (8, 8, 8)),
        "a shuffle": (nn.Sequential(nn.Conv2d(3, 12, 3, **pad), nn.PixelShuffle(2), nn.Conv2d(3, 4, 1)), (3, 8, 8)),
        "gates": (nn.Sequential(nn.Conv2d(3, 16, 1), nn.GLU(1), nn.Conv2d(8, 4, 3)), (3, 8, 8)),
        "groups": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 8, 1)), (3, 10, 10)),
        "windows": (nn.Sequential(nn.Unfold(3, **pad), nn.Conv1d(27, 8, 1)), (3, 8, 8)),
        "a larger map": (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 4, 3)),
            (3, 10, 10),
        ),
        "pools": (
            nn.Sequential(
                nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                nn.Linear(32, 5),
            ),
            (3, 9, 9),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("dynamo", [False, True])
def test_layers_of_pytorch_have_the_macs_that_it_counts(tmp_path, dynamo):
    torch = library("torch")
    for case, (model, shape) in layers_of(torch).items():
        path = tmp_path / f"{case.replace(' ', '-')}.onnx"
        macs = export(path, model, torch.randn(1, *shape), dynamo=dynamo)
        assert imported(path)[1].macs == macs, case


def test_linear_models_of_scikit_learn(tmp_path):
    """Products of a model's coefficients, whatever it does with its scores."""
    skl2onnx, linear = library("skl2onnx"), library("sklearn.linear_model")
    pipeline, scaling = library("sklearn.pipeline").make_pipeline, library("sklearn.preprocessing")
    x = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32)
    classes, targets = np.arange(60) % 3, x @ np.ones((12, 2))
    models = {
        "logistic": (linear.LogisticRegression(), classes, 12 * 3),
        "ridge": (linear.RidgeClassifier(), classes, 12 * 3),
        "two targets": (linear.LinearRegression(), targets, 12 * 2),
        "vectors": (library("sklearn.svm").LinearSVC(), classes, 12 * 3),
        "discriminant": (library("sklearn.discriminant_analysis").LinearDiscriminantAnalysis(), classes, 12 * 3),
        "components": (
            pipeline(scaling.StandardScaler(), library("sklearn.decomposition").PCA(5), linear.LogisticRegression()),
            classes,
            12 * 5 + 5 * 3,
        ),
    }
    for name, (model, goal, macs) in models.items():
        path = tmp_path / f"{name.replace(' ', '-')}.onnx"
        path.write_bytes(skl2onnx.to_onnx(model.fit(x, goal), x[:1]).SerializeToString())
        assert imported(path, dims={"X.0": 1})[1].macs == macs, name


def test_a_perceptron_of_scikit_learn(tmp_path):
    """Written by skl2onnx, whose graphs end in an argmax and the names of the classes."""
    neural, skl2onnx = library("sklearn.neural_network"), library("skl2onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one round of training does not converge
        model = neural.MLPRegressor(hidden_layer_sizes=(30, 20), max_iter=1).fit([[0.0] * 12, [1.0] * 12], [0.0, 1.0])
        kinds = [("x", skl2onnx.common.data_types.FloatTensorType([None, 12]))]
        made = skl2onnx.convert_sklearn(model, initial_types=kinds)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    _, network = imported(tmp_path / "net.onnx", dims={"x.0": 1})
    assert [gemm.macs for gemm in network.gemms] == [12 * 30, 30 * 20, 20]
    assert network.macs == sum(weights.size for weights in model.coefs_)


@pytest.mark.parametrize("activation", ["before", "after"])
@pytest.mark.parametrize("dynamo", [False, True])
def test_a_dynamically_quantised_network_is_its_float_twin(tmp_path, dynamo, activation):
    """Four exits, residual blocks with gates: the scales, which ONNX Runtime adds, cost nothing.

    A map is read as it is by the addition and changed by the products: by the activation before them, or quantised.
    """
    quantization = library("onnxruntime.quantization")
    nn, torch = library("torch.nn"), library("torch")

    class FourExits(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3, padding=1)
            self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
            self.gates = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid())
                                       for _ in range(4))  # fmt: skip
            self.convs = nn.ModuleList(nn.Conv2d(8, 4, 3) for _ in range(4))
            self.heads = nn.ModuleList(nn.Linear(4, 5) for _ in range(4))

        def forward(self, x):
            x, answers = self.stem(x).relu(), []
            for block, gate, conv, head in zip(self.blocks, self.gates, self.convs, self.heads, strict=True):
                made = block(x.relu() if activation == "before" else x)
                x = x + made * gate(made.mean((2, 3), keepdim=True))
                read = x.relu()
                x = x if activation == "before" else read
                answers.append(head(conv(read).relu().mean((2, 3))).softmax(1))
            return tuple(answers)

    path, twin = tmp_path / "net.onnx", tmp_path / "int8.onnx"
    macs = export(path, FourExits(), torch.zeros(1, 3, 8, 8), dynamo=dynamo, outputs=("a", "b", "c", "d"))
    quantization.quantize_dynamic(path, twin)
    (file, network), (ours, quantised) = imported(path), imported(twin)
    assert len(ours.exits) == len(file.exits) == 3
    assert ours.sources["traffic"] == file.sources["traffic"]
    assert quantised.macs == network.macs == macs
    costs = [
        [(layer.stage, layer.role, layer.gemm, layer.memory_words) for layer in item.layers]
        for item in (network, quantised)
    ]
    assert costs[0] == costs[1]
    # a gate reads a map and writes 8 values; it is read with two maps, which are written as one
    words = [sum(layer.memory_words for layer in network.layers if layer.stage == stage and layer.role == "backbone")
             for stage in (1, 2, 3)]  # fmt: skip
    assert words == [(512 + 8) + (512 + 8 + 512) + (3 * 512)] * 3


@pytest.mark.parametrize("dynamo", [False, True])
def test_bounds_of_pytorch(tmp_path, dynamo):
    """Equal weights, as of two normalisations, are written once; a pool may be a mean over two axes."""
    nn, torch = library("torch.nn"), library("torch")
    path, layers = tmp_path / "net.onnx", []
    for activation in (nn.ReLU6(), nn.Hardtanh(-1, 2), nn.ReLU()):
        layers += [nn.Conv2d(4, 4, 3, groups=4, bias=False), nn.BatchNorm2d(4), activation]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    dynamic = ({0: torch.export.Dim("n")},) if dynamo else {"x": {0: "n"}}
    export(path, model, torch.randn(2, 4, 8, 8), dynamo=dynamo, dynamic=dynamic)
    bounds = [(layer.op, layer.low, layer.high) for layer in read_trained(path).layers]
    none = -math.inf, math.inf
    assert bounds[:3] == [("product", 0, 6), ("product", -1, 2), ("product", 0, math.inf)]
    assert bounds[3:] == [("avgpool", *none), ("product", *none)]
