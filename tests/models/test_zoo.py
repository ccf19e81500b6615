"""The zoo: MACs against the papers' tables, against what is printed, and against torch."""

from __future__ import annotations

import importlib
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import COMPILED, POCKET, TINY, Run
from fluidb.dse import SearchOptions, search, tabulate_design, write_design, write_latency
from fluidb.models import NETWORKS, load_network
from fluidb.models.digits import MODEL
from fluidb.models.loader import read_network_file
from fluidb.platforms import load_platform
from fluidb.platforms.by_stage import StagedDevice
from fluidb.serving import POLICIES, find_policy, simulate, summarise
from fluidb.tables import read_latency
from fluidb.traffic import poisson, prepare

full_size = pytest.mark.skipif(not COMPILED, reason="full-size networks take minutes as plain Python; run compiled")


def conv(size: int, taps: int, source: int, out: int, groups: int = 1) -> int:
    """Every value of a square output is a sum over the window and a group's channels."""
    return size * size * out * taps * source // groups


def resnet(
    blocks: list[int], *, bottleneck: bool, first: bool = False, last: bool = False, projections: bool = True
) -> int:
    """He et al., Table 1; with the stride in the ``first`` convolution as there, else in the 3x3 (v1.5).

    If it is in the ``last`` block of the stage before (TF-Slim), that block is small from its 3x3 on, and the next
    stage begins with the small map.
    """
    macs, size, source = conv(112, 7 * 7, 3, 64), 56, 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        out = 4 * width if bottleneck else width
        for block in range(count):
            halved = block + 1 == count and stage < 3 if last else block == 0 and stage > 0
            before, size = size, size // 2 if halved else size
            if bottleneck:
                macs += conv(size if first else before, 1, source, width) + conv(size, 9, width, width)
                macs += conv(size, 1, width, out)
            else:
                macs += conv(size, 9, source, width) + conv(size, 9, width, width)
            macs += conv(before if last else size, 1, source, out) if projections and source != out else 0
            source = out
    return macs + source * 1000


def alexnet(widths: list[int], groups: int) -> int:
    """Five convolutions, the second, fourth and fifth in groups, three products."""
    sizes, taps, split = [55, 27, 13, 13, 13], [121, 25, 9, 9, 9], [1, groups, 1, groups, groups]
    macs = [conv(*row) for row in zip(sizes, taps, [3, *widths], widths, split, strict=False)]
    return sum(macs) + 6 * 6 * 256 * 4096 + 4096 * 4096 + 4096 * 1000


def resnet50_cifar10() -> int:
    """ResNet-50 behind a 3x3 convolution at full size: every map has 32/56 of the rows and columns."""
    whole, stem, end = resnet([3, 4, 6, 3], bottleneck=True), conv(112, 49, 3, 64), 2048 * 1000
    return (whole - stem - end) * 32**2 // 56**2 + conv(32, 9, 3, 64) + 2048 * 10


def alexnet_cifar10() -> int:
    """Five 3x3 convolutions, pooled after the first, the second and the last."""
    rows = zip([32, 16, 8, 8, 8], [3, 64, 192, 384, 256], [64, 192, 384, 256, 256], strict=True)
    return sum(conv(size, 9, source, out) for size, source, out in rows) + 4 * 4 * 256 * 10


def vgg16_convolutions() -> int:
    """Simonyan and Zisserman, Table 1, column D."""
    widths = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    sizes = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]
    return sum(conv(size, 9, source, out) for size, (source, out) in zip(sizes, pairwise([3, *widths]), strict=True))


def inception_v3() -> int:
    """Szegedy et al., Table 1, with the block widths of torchvision."""
    macs = conv(149, 9, 3, 32) + conv(147, 9, 32, 32 + 64) + conv(73, 1, 64, 80) + conv(71, 9, 80, 192)
    for source, pool in [(192, 32), (256, 64), (288, 64)]:
        macs += conv(35, 1, source, 64 + 48 + 64 + pool)
        macs += conv(35, 25, 48, 64) + conv(35, 9, 64, 96) + conv(35, 9, 96, 96)
    macs += conv(17, 9, 288, 384) + conv(35, 1, 288, 64) + conv(35, 9, 64, 96) + conv(17, 9, 96, 96)
    for width in [128, 160, 160, 192]:
        macs += conv(17, 1, 768, 192 + width + width + 192)
        macs += 4 * conv(17, 7, width, width) + 2 * conv(17, 7, width, 192)
    macs += conv(17, 1, 768, 192 + 192) + conv(8, 9, 192, 320) + 2 * conv(17, 7, 192, 192) + conv(8, 9, 192, 192)
    for source in [1280, 2048]:
        macs += conv(8, 1, source, 320 + 384 + 448 + 192) + conv(8, 9, 448, 384) + 4 * conv(8, 3, 384, 384)
    return macs + 2048 * 1000


def mobilenet_v1() -> int:
    """Howard et al. 2017, Table 1."""
    macs, size, source = conv(112, 9, 3, 32), 112, 32
    for out, count in [(64, 1), (128, 2), (256, 2), (512, 6), (1024, 2)]:
        size //= 2 if out > 64 else 1
        for _ in range(count):
            macs += conv(size, 9, source, source, source) + conv(size, 1, source, out)
            source = out
    return macs + 1024 * 1000


def ee_resnet34() -> int:
    """He et al., Table 1, behind a 3x3 stem on 32x32 pixels, ten classes."""
    macs, source = conv(32, 9, 3, 64), 64
    for stage, count in enumerate([3, 4, 6, 3]):
        size, width = 32 // 2**stage, 64 * 2**stage
        macs += conv(size, 9, source, width) + (2 * count - 1) * conv(size, 9, width, width)
        macs += conv(size, 1, source, width) if source != width else 0
        source = width
    return macs + source * 10


def ds_mobilenet(choice: int) -> int:
    """Li et al. 2021: blocks of MobileNet-V1; those at 14x14 and 7x7 have one of 14 widths."""
    macs, size, source = conv(112, 9, 3, 16), 112, 16
    for out, count in [(32, 1), (48, 2), (96, 2), (224 + 32 * choice, 6), (736 + 32 * choice, 2)]:
        size //= 2 if out > 32 else 1
        for _ in range(count):
            macs += conv(size, 9, source, source, source) + conv(size, 1, source, out)
            source = out
    return macs + source * 1000


def inverted(size: int, kernel: int, source: int, expanded: int, out: int, stride: int, squeeze: int = 0) -> int:
    """Expansion, if there is one, depthwise, two products of squeeze-and-excite, projection."""
    macs = conv(size, 1, source, expanded) if expanded != source else 0
    size //= stride
    macs += conv(size, kernel**2, expanded, expanded, expanded) + 2 * expanded * squeeze
    return macs + conv(size, 1, expanded, out)


def mobilenet_v2() -> int:
    """Sandler et al., Table 2: t, c, n, s."""
    macs, size, source = conv(112, 9, 3, 32), 112, 32
    for times, out, count, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]:  # fmt: skip
        for step in [stride] + [1] * (count - 1):
            macs += inverted(size, 3, source, times * source, out, step)
            size, source = size // step, out
    return macs + conv(7, 1, 320, 1280) + 1280 * 1000


def quarter(channels: int) -> int:
    """In steps of 8, the larger of two as near, and at least 90 % of it: torchvision's rounding."""
    steps = [step for step in range(8, 1000, 8) if step >= 0.9 * channels / 4]
    return min(steps, key=lambda step: (abs(step - channels / 4), -step))


def mobilenet_v3(rows: list[tuple[int, int, int, int, int]], last: int) -> int:
    """Howard et al. 2019, Tables 1 and 2: kernel, expanded, out, whether it squeezes, stride."""
    macs, size, source = conv(112, 9, 3, 16), 112, 16
    for kernel, expanded, out, squeezes, stride in rows:
        macs += inverted(size, kernel, source, expanded, out, stride, squeezes * quarter(expanded))
        size, source = size // stride, out
    return macs + conv(7, 1, source, 6 * source) + 6 * source * last + last * 1000


V3_LARGE = [
    (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2), (5, 120, 40, 1, 1), (5, 120, 40, 1, 1),
    (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1),
    (3, 672, 112, 1, 1), (5, 672, 160, 1, 2), (5, 960, 160, 1, 1), (5, 960, 160, 1, 1),
]  # fmt: skip
V3_SMALL = [
    (3, 16, 16, 1, 2), (3, 72, 24, 0, 2), (3, 88, 24, 0, 1), (5, 96, 40, 1, 2), (5, 240, 40, 1, 1), (5, 240, 40, 1, 1),
    (5, 120, 48, 1, 1), (5, 144, 48, 1, 1), (5, 288, 96, 1, 2), (5, 576, 96, 1, 1), (5, 576, 96, 1, 1),
]  # fmt: skip


def efficientnet_b0() -> int:
    """Tan and Le, Table 1; a block squeezes to a quarter of its input channels."""
    macs, size, source = conv(112, 9, 3, 32), 112, 32
    for times, kernel, out, count, stride in [
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    ]:  # fmt: skip
        for step in [stride] + [1] * (count - 1):
            macs += inverted(size, kernel, source, times * source, out, step, source // 4)
            size, source = size // step, out
    return macs + conv(7, 1, 320, 1280) + 1280 * 1000


def attention(tokens: int, seen: int, width: int) -> int:
    """Queries and output of ``tokens``, keys and values of ``seen``, scores and context of all heads together."""
    return 2 * tokens * width * width + 2 * seen * width * width + 2 * tokens * seen * width


def feed_forward(tokens: int, width: int) -> int:
    return 2 * tokens * width * 4 * width


def transformer_base() -> int:
    """Vaswani et al., Table 3: six blocks of width 512 on either side, without the words."""
    encoder = attention(30, 30, 512) + feed_forward(30, 512)
    return 6 * encoder + 6 * (encoder + attention(30, 30, 512))


def translation() -> int:
    """Vaswani et al., Table 3: the encoder and what the decoder keeps of it, then a step with 30 words so far."""
    encoder = attention(30, 30, 512) + feed_forward(30, 512)
    seen = 2 * 30 * 512  # scores and context of one word over 30
    step = 4 * 512 * 512 + seen + 2 * 512 * 512 + seen + feed_forward(1, 512)
    return 6 * encoder + 6 * 2 * 30 * 512 * 512 + 6 * step + 512 * 37_000


COUNTED = {
    "alexnet": alexnet([64, 192, 384, 256, 256], 1),
    "alexnet_cifar10": alexnet_cifar10(),
    "bert_base": 12 * (attention(128, 128, 768) + feed_forward(128, 768)) + 768 * 768,
    "digits": conv(64, 9, 1, 32) + 8 * conv(64, 9, 32, 32) + 32 * 10,
    "ds_mobilenet": ds_mobilenet(13),
    "ee_bert": 12 * (attention(128, 128, 768) + feed_forward(128, 768)) + 768 * 768 + 3 * 768,
    "ee_resnet34": ee_resnet34(),
    "efficientnet_b0": efficientnet_b0(),
    "inception_v3": inception_v3(),
    "mobilenet_v1": mobilenet_v1(),
    "mobilenet_v2": mobilenet_v2(),
    "mobilenet_v3_large": mobilenet_v3(V3_LARGE, 1280),
    "mobilenet_v3_small": mobilenet_v3(V3_SMALL, 1024),
    "resnet18": resnet([2, 2, 2, 2], bottleneck=False),
    "resnet34": resnet([3, 4, 6, 3], bottleneck=False),
    "resnet50": resnet([3, 4, 6, 3], bottleneck=True),
    "resnet101": resnet([3, 4, 23, 3], bottleneck=True),
    "resnet152": resnet([3, 8, 36, 3], bottleneck=True),
    "resnet50_caffe": resnet([3, 4, 6, 3], bottleneck=True, first=True),
    "resnet50_cifar10": resnet50_cifar10(),
    "resnet50_tfslim": resnet([3, 4, 6, 3], bottleneck=True, last=True),
    "resnet101_tfslim": resnet([3, 4, 23, 3], bottleneck=True, last=True),
    "resnet152_tfslim": resnet([3, 8, 36, 3], bottleneck=True, last=True),
    "transformer_base": transformer_base() + 30 * 512 * 37_000,
    "transformer_seq2seq": translation(),
    "vgg16": vgg16_convolutions() + 7 * 7 * 512 * 4096 + 4096 * 4096 + 4096 * 1000,
    "vit_b_16": conv(14, 256, 3, 768) + 12 * (attention(197, 197, 768) + feed_forward(197, 768)) + 768 * 1000,
}


def test_every_network_is_counted():
    assert sorted(COUNTED) == NETWORKS.names()


@pytest.mark.parametrize("name", COUNTED)
def test_macs_equal_the_count_of_the_paper_s_table(name):
    network = load_network(name)
    assert (network.name, network.backbone().macs) == (name, COUNTED[name])
    assert network.sources["layers"]


TORCHVISION = {  # GFLOPS of the weights, one a MAC
    "alexnet": 0.714, "efficientnet_b0": 0.386, "inception_v3": 5.713, "mobilenet_v2": 0.301,
    "mobilenet_v3_large": 0.217, "mobilenet_v3_small": 0.057, "resnet18": 1.814, "resnet34": 3.664, "resnet50": 4.089,
    "resnet101": 7.801, "resnet152": 11.514, "vgg16": 15.470, "vit_b_16": 17.564,
}  # fmt: skip


@pytest.mark.parametrize("name", TORCHVISION)
def test_macs_equal_what_torchvision_prints(name):
    assert round(load_network(name).backbone().macs / 1e9, 3) == TORCHVISION[name]


def test_macs_equal_what_the_papers_print_once_counted_as_they_count():
    """As each network's ``sources`` says."""
    assert round(COUNTED["mobilenet_v1"] / 1e6) == 569
    assert COUNTED["mobilenet_v2"] / 1e6 == pytest.approx(300, abs=1)
    assert COUNTED["mobilenet_v3_large"] / 1e6 == pytest.approx(219, rel=0.012)
    assert COUNTED["mobilenet_v3_small"] / 1e6 == pytest.approx(56, rel=0.012)
    assert round(COUNTED["efficientnet_b0"] / 1e9, 2) == 0.39
    assert 2 * COUNTED["bert_base"] / 1e9 == pytest.approx(22.5, rel=0.007)
    assert round(alexnet([96, 256, 384, 384, 256], 2) / 1e6) == 724
    assert round(vgg16_convolutions() / 1e9, 1) == 15.3
    assert round(resnet([2, 2, 2, 2], bottleneck=False, projections=False) / 1e9, 1) == 1.8
    assert round(resnet([3, 4, 6, 3], bottleneck=False, projections=False) / 1e9, 1) == 3.6
    assert round(resnet([3, 4, 23, 3], bottleneck=True, first=True) / 1e9, 1) == 7.6
    assert round(resnet([3, 8, 36, 3], bottleneck=True, first=True) / 1e9, 1) == 11.3


def normal(mean: float, deviation: float, last: int) -> list[float]:
    """Shares of a normal distribution, rounded and clipped to 1..last."""
    ends = [0.5 * (1 + math.erf((exit_ + 0.5 - mean) / (deviation * math.sqrt(2)))) for exit_ in range(1, last)]
    return [after - before for before, after in pairwise([0.0, *ends, 1.0])]


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("ee_resnet34", [0.97 * share + 0.03 * (exit_ == 17) for exit_, share in enumerate(normal(9, 3.5, 17), 1)]),
        ("ee_bert", normal(4.5, 2.2, 12)),
    ],
)
def test_the_exits_of_batchcond_carry_its_distributions(name, shares):
    assert [exit_.rate for exit_ in load_network(name).exits] == pytest.approx(shares, abs=6e-4)


def test_the_widths_of_the_slimmable_network_are_its_multiply_accumulates():
    """Published with the gate and pools: 133, 153, 319 and 565 M; the products are 2 to 3 M less."""
    device = load_platform("rtx-2080-ti-ds-mobilenet", kind=StagedDevice)
    assert device.widths is not None
    assert [device.widths[choice] for choice in (0, 1, 7, 13)] == [133, 153, 319, 565]
    assert device.widths == pytest.approx([ds_mobilenet(choice) / 1e6 + 2.3 for choice in range(14)], abs=1.0)


def moved(name: str) -> int:
    """Words of the layers that multiply nothing, an average over the last map aside."""
    layers = load_network(name).layers
    return sum(layer.memory_words for layer in layers if not layer.gemm and layer.name != "avgpool")


@pytest.mark.parametrize(("name", "rows"), [("mobilenet_v3_large", V3_LARGE), ("mobilenet_v3_small", V3_SMALL)])
def test_squeeze_and_excite_moves_its_map_three_times(name, rows):
    """The average reads it, the scaling reads and writes it; a value a channel is written and read."""
    size, words = 112, 0
    for _, expanded, _, squeezes, stride in rows:
        size //= stride
        words += squeezes * (3 * size * size * expanded + 2 * expanded)
    assert moved(name) == words


@pytest.mark.parametrize(
    ("name", "heads", "embedding", "norms", "softmaxes"),
    [
        ("bert_base", 12, 128 + 3 * 128 * 768 + 128 * 768, 25 * 128 * 768, 12 * 12 * 128 * 128),
        ("vit_b_16", 12, 2 * 197 * 768 + 197 * 768, 25 * 197 * 768, 12 * 12 * 197 * 197),
        ("transformer_base", 8, 2 * (30 + 3 * 30 * 512), 30 * 30 * 512, 18 * 8 * 30 * 30),
    ],
)
def test_attention_moves_what_its_parts_move(name, heads, embedding, norms, softmaxes):
    """Layer norm and softmax read and write all their values; each head is a product of its own."""
    assert moved(name) == embedding + 2 * (norms + softmaxes)
    assert {layer.gemm.groups for layer in load_network(name).layers if layer.gemm and layer.per_sample} == {heads}


TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {  # the model and its configuration, as the library builds it
    "resnet18": ("ResNet", {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}),
    "resnet50": ("ResNet", {"depths": [3, 4, 6, 3]}),
    "resnet50_caffe": ("ResNet", {"depths": [3, 4, 6, 3], "downsample_in_bottleneck": True}),
    "mobilenet_v1": ("MobileNetV1", {}),
    "mobilenet_v2": ("MobileNetV2", {}),
    "efficientnet_b0": (
        "EfficientNet", {"image_size": 224, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280}
    ),
    "vit_b_16": ("ViT", {}),
}  # fmt: skip


def need(module: str) -> Any:
    """A library of the dependency group ``exporters``; without it the test is skipped, or fails if it was asked for."""
    if os.environ.get("FLUIDB_REQUIRE_EXPORTERS") == "1":
        return importlib.import_module(module)
    return pytest.importorskip(module, reason="pip install --group exporters for the count by torch")


def macs_by_torch(model, *arguments) -> int:
    """What torch counts while the model runs on tensors without values."""
    with need("torch.utils.flop_counter").FlopCounterMode(display=False) as counter:
        model.eval()(*arguments)
    return int(counter.get_total_flops()) // 2


@full_size
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_macs_equal_torch_s_count_of_images(name):
    torch, transformers = need("torch"), need("transformers")
    kind, keys = TRANSFORMERS[name]
    with torch.device("meta"):
        config = getattr(transformers, f"{kind}Config")(num_labels=1000, **keys)
        model = getattr(transformers, f"{kind}ForImageClassification")(config)
        assert macs_by_torch(model, torch.empty(1, 3, 224, 224)) == load_network(name).backbone().macs


@full_size
def test_macs_equal_torch_s_count_of_tokens():
    torch, transformers = need("torch"), need("transformers")
    with torch.device("meta"):
        bert = transformers.BertModel(transformers.BertConfig())
        assert macs_by_torch(bert, torch.zeros(1, 128, dtype=torch.long)) == load_network("bert_base").macs
        tokens = torch.empty(1, 30, 512)
        blocks = macs_by_torch(torch.nn.Transformer(batch_first=True), tokens, tokens)
        words = macs_by_torch(torch.nn.Linear(512, 37_000), tokens)
        assert blocks + words == load_network("transformer_base").macs


@full_size
@pytest.mark.parametrize("name", NETWORKS.names())
def test_every_network_finds_a_design(name):
    result = search(load_network(name), load_platform(POCKET), SearchOptions(b_max=1))
    assert 0 < result.best.objective < 2 * 24 * 0.1  # of 24 DSPs at 100 MHz


def test_a_network_of_one_exit_runs_from_search_to_simulation(tmp_path):
    """As most of the zoo; for ``fluid`` there is no exit to preempt at."""
    text = Path(TINY).read_text()
    (tmp_path / "one.toml").write_text(text[: text.index("[[exits]]")])
    network, board, options = load_network(str(tmp_path / "one.toml")), load_platform(POCKET), SearchOptions(b_max=2)
    assert len(network.exits) == 1
    write_design(tmp_path / "d", *tabulate_design(network, board, options, search(network, board, options)))
    write_latency(tmp_path / "d")
    table = read_latency(tmp_path / "d")
    trace = poisson(rate_per_s=1 / float(table.array()[0, 1, 1]), count=200, seed=1)
    traffic = prepare(trace, [1.0], slo_s=0.01)
    for policy in POLICIES:
        replay = simulate(table, traffic, find_policy(policy))
        assert summarise(replay).unfinished == 0
        assert (replay.finish_s > replay.start_s).all()
        assert policy != "fluid" or replay.preemptions == 0


def test_digits_is_the_network_that_ships_as_onnx(fluidb: Run, tmp_path: Path):
    """`measure` and `quantise` read the ONNX file, every other command the network file that is imported from it."""
    assert fluidb("models", "import", MODEL, "-o", "digits.toml", "--dim", "batch=1").returncode == 0
    ours, imported = read_network_file("digits")[0], read_network_file(tmp_path / "digits.toml")[0]
    assert imported.model_copy(update={"title": ours.title}) == ours
    for command in (["latency", "digits", "v100-tensorrt", "-o", "table"], ["dse", "digits", POCKET, "--b-max", 1]):
        done = fluidb(*command)
        assert (done.returncode, done.stderr) == (0, "")
