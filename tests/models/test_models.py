"""Networks: published counts, lowering by hand, and every fault of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import DATA, TINY, network_of
from fluidb.formats import InputError
from fluidb.models import NETWORKS, Gemm, load_network

HEAD = """
schema = "fluidb.network/1"
name = "n"
title = "t"
input = { height = 8, width = 8, channels = 4 }
"""


def load_text(tmp_path: Path, text: str):
    path = tmp_path / "n.toml"
    path.write_text(HEAD + text)
    return load_network(str(path))


def layers(*items: str) -> str:
    return "layers = [\n" + "".join(f"  {{ {item} }},\n" for item in items) + "]\n"


@pytest.mark.parametrize(
    ("name", "gemms", "macs", "unique", "with_heads"),
    [("resnet50", 54, 4_089_184_256, 21, 63), ("inception_v3", 95, 5_713_216_096, 38, 104)],
)
def test_published_counts(name, gemms, macs, unique, with_heads):
    network = load_network(name)
    backbone = network.backbone()
    assert (len(backbone.gemms), backbone.macs, len(set(backbone.gemms))) == (gemms, macs, unique)
    assert len(network.gemms) == with_heads
    assert [layer.stage for layer in network.layers] == sorted(layer.stage for layer in network.layers)
    assert network.sources


@pytest.mark.parametrize(
    ("name", "rates", "shares"),
    [
        ("resnet50", (0.051, 0.169, 0.090, 0.690), (0.283, 0.535, 0.748)),
        ("inception_v3", (0.145, 0.186, 0.222, 0.447), (0.289, 0.545, 0.716)),
    ],
)
def test_exits_stand_where_the_paper_puts_them(name, rates, shares):
    network = load_network(name)
    assert [exit_.rate for exit_ in network.exits] == pytest.approx(rates)
    backbone = network.backbone()
    for stage, share in enumerate(shares, 1):
        reached = sum(
            layer.gemm.macs for layer in network.layers if layer.gemm and layer.stage <= stage and not layer.in_head
        )
        assert reached / backbone.macs == pytest.approx(share, abs=5e-4)


def test_a_head_ends_its_stage():
    network = load_network("resnet50")
    for stage in (1, 2, 3):
        names = [layer.name for layer in network.layers if layer.stage == stage]
        head = [f"exit{stage}/{part}" for part in ("conv1", "conv2", "pool", "linear")]
        assert names[-4:] == head


def test_every_operator_by_hand():
    network = load_network(TINY)
    found = {layer.name: (layer.gemm, layer.memory_words) for layer in network.layers}
    assert found == {
        "conv1": (Gemm(36, 27, 8), 0),
        "expand": (Gemm(36, 8, 16), 0),
        "depthwise": (Gemm(36, 9, 1, 16), 0),
        "project": (Gemm(36, 16, 8), 0),
        "exit1/conv1": (Gemm(9, 72, 8), 0),
        "exit1/conv2": (Gemm(4, 72, 8), 0),
        "exit1/pool": (None, 4 * 8 + 8),
        "exit1/linear": (Gemm(1, 8, 10), 0),
        "wide": (Gemm(36, 24, 8), 0),
        "pool": (None, 2 * 36 * 8),
        "exit2/pool": (None, 36 * 16 + 16),
        "exit2/fc": (Gemm(1, 16, 10), 0),
        "grouped": (Gemm(9, 72, 12, 2), 0),
        "shrink": (None, 9 * 24 + 4 * 24),
        "fc": (Gemm(1, 96, 10), 0),
    }


ATTENTION = layers(
    'name = "patches", op = "conv", out = 12, kernel = 2, stride = 2, shape = [4, 4, 12]',
    'name = "tokens", op = "view", shape = [16, 1, 12]',
    'name = "norm", op = "memory"',
    'name = "q", op = "linear", out = 12',
    'name = "k", op = "linear", from = "norm", out = 12',
    'name = "v", op = "linear", from = "norm", out = 6',
    'name = "scores", op = "matmul", from = ["q", "k"], heads = 3, transposed = true, shape = [16, 1, 48]',
    'name = "softmax", op = "memory"',
    'name = "context", op = "matmul", from = ["softmax", "v"], heads = 3, shape = [16, 1, 6]',
    'name = "join", op = "memory", from = ["context", "norm"], shape = [16, 1, 18]',
    'name = "first", op = "view", shape = [1, 1, 18]',
    'name = "look", op = "memory", reads = 5, shape = [1, 1, 5]',
    'name = "raw", op = "gemm", from = "first", rows = 2, inner = 7, columns = 3, groups = 5, per_sample = true',
    'name = "raw2", op = "gemm", rows = 6, inner = 7, columns = 4, shape = [3, 2, 4]',
)


def test_attention_and_raw_operators_by_hand(tmp_path):
    network = load_text(tmp_path, ATTENTION)
    assert {layer.name: (layer.gemm, layer.memory_words) for layer in network.layers} == {
        "patches": (Gemm(16, 16, 12), 0),
        "norm": (None, 2 * 16 * 12),
        "q": (Gemm(16, 12, 12), 0),
        "k": (Gemm(16, 12, 12), 0),
        "v": (Gemm(16, 12, 6), 0),
        "scores": (Gemm(16, 4, 16, 3), 0),
        "softmax": (None, 2 * 16 * 48),
        "context": (Gemm(16, 16, 2, 3), 0),
        "join": (None, 16 * 6 + 16 * 12 + 16 * 18),
        "look": (None, 10),
        "raw": (Gemm(2, 7, 3, 5), 0),
        "raw2": (Gemm(6, 7, 4), 0),
    }
    assert {layer.name for layer in network.layers if layer.per_sample} == {"scores", "context", "raw"}
    assert network.layers[-1].shape == (3, 2, 4)


def test_padding_by_side_moves_windows_as_arithmetic_says(tmp_path):
    """8 + 0 + 1 rows and 8 + 1 + 2 columns under a 3x3 window of stride 2."""
    conv = 'name = "c", op = "conv", out = 4, kernel = 3, stride = 2, pad = [0, 1, 1, 2], shape = [4, 5, 4]'
    assert load_text(tmp_path, layers(conv)).layers[0].gemm == Gemm(20, 36, 4)


@pytest.mark.parametrize(
    ("keys", "shape", "gemm"),
    [
        ("kernel = 2, stride = 2", "[16, 16, 6]", Gemm(64, 4, 4 * 6)),
        ("kernel = 3, stride = 2, pad = 1, extra = 1", "[16, 16, 6]", Gemm(64, 4, 9 * 6)),
        ("kernel = [3, 5], stride = [2, 1], pad = [1, 0, 0, 2], dilation = [2, 1]", "[18, 10, 6]", Gemm(64, 4, 15 * 6)),
        ("kernel = 4, groups = 2", "[11, 11, 6]", Gemm(64, 2, 16 * 3, 2)),
    ],
)
def test_transposed_convolution_by_hand(tmp_path, keys, shape, gemm):
    """Shape by the rule of the ONNX operator: stride * (in - 1) + extra + reach - pads."""
    network = load_text(tmp_path, layers(f'name = "up", op = "convtranspose", out = 6, {keys}, shape = {shape}'))
    assert network.layers[0].gemm == gemm


def test_pooling_follows_the_rule_that_a_last_window_starts_inside(tmp_path):
    """As PyTorch documents ceil_mode: a window that starts in the right padding is left out."""
    pool = 'name = "p", op = "maxpool", kernel = 1, stride = 3, pad = 0, ceil = true, shape = [3, 3, 4]'
    fc = 'name = "f", op = "linear", out = 2'
    assert load_text(tmp_path, layers(pool, fc)).layers[0].shape == (3, 3, 4)
    pool = 'name = "p", op = "avgpool", kernel = 3, stride = 9, pad = 1, ceil = true, shape = [1, 1, 4]'
    assert load_text(tmp_path, layers(pool, fc)).layers[0].shape == (1, 1, 4)


CONV = 'name = "c", op = "conv", out = 8, kernel = 3'
TWO = layers(CONV, CONV.replace('"c"', '"d"'))
THREE = layers(CONV, CONV.replace('"c"', '"d"'), CONV.replace('"c"', '"e"'))


def exit_after(layer: str, rate: float = 0.1, head: str = 'head = "msdnet"\nclasses = 3') -> str:
    return f'[[exits]]\nafter = "{layer}"\nrate = {rate}\n{head}\n'


FAULTS = {
    "unknown operator": (
        layers('name = "c", op = "conv3d", out = 8'),
        ['layers[0] ("c").op: expected one of conv, ', 'found "conv3d"'],
    ),
    "unknown key": (layers(CONV + ", strides = 2"), ['layers[0] ("c").strides', "did you mean stride"]),
    "text for a number": (layers(CONV.replace("8", '"fast"')), ['layers[0] ("c").out', "expected", '"fast"']),
    "fraction for a count": (layers(CONV.replace("8", "8.5")), ['layers[0] ("c").out', "8.5"]),
    "zero kernel": (layers(CONV.replace("3", "0")), ['layers[0] ("c").kernel', "expected at least 1"]),
    "negative padding": (
        layers(CONV + ", pad = [0, -1]"),
        ['layers[0] ("c").pad', "0, found -1"],
    ),
    "missing key": (layers('name = "c", op = "conv", out = 8'), ['layers[0] ("c").kernel: expected this key']),
    "no layers": ("layers = []\n", ["layers"]),
    "bridge in the backbone": (layers(CONV + ", bridge = true"), ["expected bridge in the layers of exits only"]),
    "window too large": (layers(CONV.replace("3", "9")), ['layers[0] ("c")', "does not fit into 8"]),
    "shape contradicts": (layers(CONV + ", shape = [8, 8, 8]"), ["shape says 8x8x8", "6x6x8"]),
    "groups do not divide": (layers(CONV + ", groups = 3"), ["groups 3 must divide"]),
    "add of other shapes": (layers(CONV, 'name = "a", op = "add", from = ["c", "input"]'), ["6x6x8 and 8x8x4"]),
    "concat of other sizes": (layers(CONV, 'name = "a", op = "concat", from = ["c", "input"]'), ["equal height"]),
    "add of one": (layers(CONV, 'name = "a", op = "add", from = ["c"]'), ["at least two inputs"]),
    "scores of other widths": (
        layers(CONV, 'name = "m", op = "matmul", from = ["c", "input"], transposed = true'),
        ['layers[1] ("m")', "equal channels", "6x6x8 and 8x8x4"],
    ),
    "context of another length": (
        layers(CONV, 'name = "m", op = "matmul", from = ["c", "c"]'),
        ['layers[1] ("m")', "as many channels for each of 1 heads", "6x6x8"],
    ),
    "heads do not divide": (layers(CONV, 'name = "m", op = "matmul", from = ["c", "c"], heads = 3'), ["heads 3 must"]),
    "matmul of one": (layers('name = "m", op = "matmul"'), ["matmul takes two inputs, found 1"]),
    "view of more": (layers(CONV, 'name = "v", op = "view", shape = [9, 9, 9]'), ["at most", "288 values", "9x9x9"]),
    "view of nothing": (layers(CONV, 'name = "v", op = "view"'), ['layers[1] ("v").shape: expected this key']),
    "product arranged wrongly": (
        layers('name = "g", op = "gemm", rows = 2, inner = 2, columns = 2, shape = [3, 1, 2]'),
        ["shape says 3x1x2", "4 values"],
    ),
    "all padding": (
        layers('name = "u", op = "convtranspose", out = 2, kernel = 1, pad = 9'),
        ['layers[0] ("u")', "leaves nothing"],
    ),
    "three paddings": (layers(CONV + ", pad = [1, 2, 3]"), ['layers[0] ("c").pad', "4"]),
    "two inputs to a conv": (layers(CONV, CONV.replace('"c"', '"d", from = ["c", "c"]')), ["takes one input"]),
    "from nowhere": (layers(CONV + ', from = "x"'), ['("c").from', 'found "x"']),
    "from later": (layers(CONV + ', from = "d"', CONV.replace('"c"', '"d"')), ['("c").from', 'found "d"']),
    "name twice": (layers(CONV, CONV), ["layers[1]", "expected a new name"]),
    "nothing to compute": (layers('name = "p", op = "globalavgpool"'), ["at least one layer that multiplies"]),
    "exit nowhere": (TWO + exit_after("x"), ["exits[0].after", 'found "x"']),
    "exit at the end": (TWO + exit_after("d"), ["exits[0].after", "is the end"]),
    "exits out of order": (THREE + exit_after("d") + exit_after("c"), ["exits[1].after", "deeper"]),
    "rates above one": (
        THREE + exit_after("c", rate=0.6) + exit_after("d", rate=0.6),
        ["at most 1", "1.2"],
    ),
    "unknown head": (TWO + exit_after("c", head='head = "big"'), ["exits[0].head", "msdnet", "big"]),
    "head without classes": (TWO + exit_after("c", head='head = "msdnet"'), ["exits[0].classes"]),
    "exit without a head": (TWO + exit_after("c", head=""), ["exits[0]", "either head", "or layers"]),
    "exit with two heads": (
        TWO + exit_after("c", head='head = "none"\nlayers = []'),
        ["exits[0]", "not both"],
    ),
    "faulty head": (
        TWO + exit_after("c", head='layers = [{ name = "h", op = "conv", out = 1, kernel = 99 }]'),
        ['exits[0].layers[0] ("h")', "does not fit"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_names_its_key(tmp_path, case):
    text, expected = FAULTS[case]
    with pytest.raises(InputError) as caught:
        load_text(tmp_path, text)
    line = next(fault for fault in caught.value.faults if expected[0] in fault)
    assert line.startswith(f"{tmp_path}/n.toml: ")
    assert all(part in line for part in expected), line


def test_every_fault_is_reported_at_once(tmp_path):
    text = layers(CONV.replace("8", "-1"), 'name = "d", op = "linear"', 'name = "e", op = "pool"')
    with pytest.raises(InputError) as caught:
        load_text(tmp_path, text)
    assert len(caught.value.faults) == 3


def test_shape_faults_are_reported_at_once_and_do_not_cascade(tmp_path):
    named = [CONV.replace('"c"', name) for name in ('"d"', '"e", from = "x"', '"f", from = "c"')]
    text = layers(CONV + ", groups = 3", *named)
    with pytest.raises(InputError) as caught:
        load_text(tmp_path, text)
    assert len(caught.value.faults) == 2


def test_near_misses_of_a_name():
    with pytest.raises(InputError, match=r'unknown network "resnet5"; did you mean resnet50'):
        load_network("resnet5")
    with pytest.raises(InputError, match=r"did you mean vit_b_16\?"):
        load_network("vit")
    with pytest.raises(InputError, match="known: alexnet, alexnet_cifar10, .*, vit_b_16"):
        load_network("zzz")
    with pytest.raises(InputError, match=r"no such file"):
        load_network("nowhere/net.toml")


def test_a_name_beats_a_file_of_the_same_name_and_a_path_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("resnet50").write_text("not a network")
    assert load_network("resnet50").name == "resnet50"
    assert load_network(str(DATA / "tiny.toml")).name == "tiny"


def test_catalogue_lists_what_ships():
    assert NETWORKS.names() == [
        "alexnet", "alexnet_cifar10", "bert_base", "digits", "ds_mobilenet", "ee_bert", "ee_resnet34",
        "efficientnet_b0", "inception_v3", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small",
        "resnet101", "resnet101_tfslim", "resnet152", "resnet152_tfslim", "resnet18", "resnet34", "resnet50",
        "resnet50_caffe", "resnet50_cifar10", "resnet50_tfslim", "transformer_base", "transformer_seq2seq", "vgg16",
        "vit_b_16",
    ]  # fmt: skip


def test_a_network_is_checked_when_it_is_made():
    with pytest.raises(ValueError, match="expected stages 1 to 1 in order"):
        network_of([(1, 2, 3, 1), (1, 2, 3, 1)], stages=[2, 1])
    with pytest.raises(ValueError, match="at least one layer that multiplies"):
        network_of([], memory_words=4, stages=[1])


def test_a_backbone_without_products_is_a_network_all_the_same():
    network = network_of([(1, 2, 3, 1)], memory_words=4)
    head, pool = network.layers
    headed = network.model_copy(update={"layers": [head.model_copy(update={"role": "head"}), pool]})
    assert (headed.macs, headed.backbone().macs, headed.backbone().layers) == (6, 0, [pool])
