"""Models that PyTorch and scikit-learn export here and now, against what these libraries count themselves."""

from __future__ import annotations

import importlib
import os
import warnings
from pathlib import Path

import pytest
from builders import COMPILED
from fluidb.formats import InputError
from fluidb.models import Network, load_network
from fluidb.models.importers import Placement, import_network
from fluidb.models.loader import build_network
from fluidb.models.schema import NetworkFile

REQUIRED = "FLUIDB_REQUIRE_EXPORTERS" in os.environ
"""Set by `.ci/run`, which installs them: none may be missing there."""

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")


def library(name: str):
    """An exporter, or a reason to skip."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ModuleNotFoundError:
        if REQUIRED:
            raise
        pytest.skip(f"{name} is not installed: pip install --group exporters")


def imported(path: Path, **options) -> tuple[NetworkFile, Network]:
    file = import_network(path, "onnx", **options)
    return file, build_network(file, path)


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

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
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
        with pytest.raises(InputError, match="made for another size of input"):
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

    class ThreeExits(nn.Module):  # type: ignore[misc, name-defined]
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
    assert [item.rate for item in network.exits] == [0.5, 0.25, 0.25]
    assert [[op.op for op in item.layers or []] for item in file.exits] == [["memory", "linear", "memory"]] * 2
    assert [len([x for x in network.layers if x.gemm and x.stage == stage]) for stage in (1, 2, 3)] == [3, 2, 2]


def test_resnet50_of_pytorch_is_the_one_of_the_zoo(tmp_path):
    """Built from its description (He et al., 2016; stride in the 3x3), exported with all its weights."""
    nn, torch = library("torch.nn"), library("torch")

    class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
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
