"""Exit candidates: their bridges, and the ordinary network that a subset of them gives."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from builders import Run, lines
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.candidates import find_candidates, load_with_exits, with_exits
from fluidb.models.loader import build_network, read_network_file
from fluidb.models.schema import NetworkFile
from fluidb.models.writer import network_text

PLACE = Path("net.toml")


def file_of(candidates: dict[str, object], **layers: list[str]) -> NetworkFile:
    """A chain of two regions of two 1x1 convolutions and a classifier; a layer may read others than the one before."""
    ops: list[dict[str, object]] = [
        {"name": name, "op": "conv", "out": 8 if name < "c" else 16, "kernel": 1} for name in "abcd"
    ]
    ops.append({"name": "classes", "op": "linear", "out": 10})
    for op in ops:
        if op["name"] in layers:
            op["from"] = layers[str(op["name"])]
    content = {
        "schema": "fluidb.network/1", "name": "net", "title": "Net", "input": {"height": 4, "width": 4, "channels": 3},
        "layers": ops, "candidates": candidates,
    }  # fmt: skip
    return NetworkFile.model_validate(content)


REGIONS = [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("network", "after", "bridge_blocks"),
    [
        ("resnet101", list(range(1, 32, 3)), [3, 2, 2, *[1] * 7, 0]),
        ("resnet50", list(range(1, 16)), [*[3] * 3, *[2] * 4, *[1] * 6, 0, 0]),
        ("bert_base", list(range(1, 12)), [0] * 11),
    ],
)
def test_the_bridge_is_the_first_block_of_every_later_region(network, after, bridge_blocks) -> None:
    candidates = find_candidates(*read_network_file(network))
    assert [candidate.block for candidate in candidates] == after
    assert [candidate.name for candidate in candidates] == [f"H{block}" for block in after]
    ends = [
        sum(op.op == "add" for op in candidate.layers) for candidate in candidates
    ]  # a bottleneck ends with an addition
    assert ends == bridge_blocks


def test_all_candidates_of_resnet101_are_an_ordinary_network() -> None:
    net, whole = load_with_exits("resnet101"), load_network("resnet101")
    assert len(net.exits) == 12
    assert [exit_.rate for exit_ in net.exits] == [0.0] * 11 + [1.0]
    assert net.backbone().macs == whole.macs
    # H31 has the classifier alone; H28 also the first block of the last region
    head = {
        number: sum(layer.gemm.macs for layer in net.layers if layer.name.startswith(f"exit{number}/") and layer.gemm)
        for number in (10, 11)
    }
    block = sum(layer.gemm.macs for layer in whole.layers if layer.name.startswith("layer4.0.") and layer.gemm)
    assert head == {10: block + 2048 * 1000, 11: 2048 * 1000}
    assert {layer.role for layer in net.layers if layer.name.startswith("exit11/")} == {"head"}
    roles = [layer.role for layer in net.layers if layer.name.startswith("exit10/")]
    assert roles == [*["bridge"] * 4, "head", "head"]
    assert {layer.role for layer in net.layers if "/" not in layer.name} == {"backbone"}


@pytest.mark.parametrize("network", ["resnet101", "resnet50", "bert_base"])
def test_files_with_candidates_and_with_exits_read_back(network) -> None:
    file, path = read_network_file(network)
    for written in (file, with_exits(file, path), with_exits(file, path, ["H1", "H4"], [0.25, 0.5])):
        assert NetworkFile.model_validate(tomllib.loads(network_text(written))) == written


def test_a_subset_keeps_the_order_of_the_network_and_its_rates() -> None:
    net = load_with_exits("resnet101", ["layer3.5", "H4"], [0.25, 0.5])
    assert [(exit_.name, exit_.rate) for exit_ in net.exits] == [("layer2.0", 0.25), ("layer3.5", 0.5), ("fc", 0.25)]
    assert net.name == "resnet101-H4-H13"
    depth = [layer.stage for layer in net.layers]
    assert all(before <= after for before, after in pairwise(depth))


def test_a_named_head_takes_any_map_and_has_no_bridge() -> None:
    file = file_of({"regions": REGIONS, "head": "msdnet", "classes": 7})
    candidates = find_candidates(file, PLACE)
    assert [[op.name for op in candidate.layers] for candidate in candidates] == [
        ["conv1", "conv2", "pool", "linear"]
    ] * 3
    net = build_network(with_exits(file, PLACE), PLACE)
    assert [layer.shape.channels for layer in net.layers if layer.name.endswith("/conv2")] == [8, 8, 16]
    assert {layer.role for layer in net.layers} == {"backbone", "head"}


def test_layers_and_the_network_s_own_head_have_a_bridge() -> None:
    stated = [{"name": "classes", "op": "linear", "out": 10}]
    file = file_of({"regions": REGIONS, "after": [1], "layers": stated})
    assert [op.name for op in find_candidates(file, PLACE)[0].layers] == ["bridge.c", "classes"]
    own = file_of({"regions": REGIONS})
    assert [[op.name for op in item.layers] for item in find_candidates(own, PLACE)] == [
        ["bridge.c", "classes"], ["bridge.c", "classes"], ["classes"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("candidates", "layers", "fault"),
    [
        ({"regions": [["a", "x"], ["d"]]}, {}, 'net.toml: candidates.regions: expected names of layers, found "x"'),
        ({"regions": [["b", "a"], ["d"]]}, {}, 'regions: expected blocks in order, found "a" after a later one'),
        ({"regions": [["a"], ["classes"]]}, {}, "expected a head, as no layer follows the last block; add head"),
        (
            {"regions": REGIONS, "head": "great"},
            {},
            'candidates.head: expected one of msdnet, pool-linear, token-linear, linear, edgesp, none, found "',
        ),
        ({"regions": REGIONS, "head": "msdnet"}, {}, "candidates.classes: expected the number of classes"),
        ({"regions": REGIONS}, {"c": ["a"]}, 'layer "c" is copied for exits and reads "a", which is not in its block'),
    ],
)
def test_candidates_that_cannot_be_are_one_clear_line(candidates, layers, fault) -> None:
    with pytest.raises(InputError) as error:
        find_candidates(file_of(candidates, **layers), PLACE)
    (line,) = error.value.faults
    assert fault in line


@pytest.mark.parametrize(
    ("candidates", "fault"),
    [
        ({"regions": REGIONS, "after": [2, 1]}, "expected at least one of the blocks 1 to 3, in order"),
        ({"regions": REGIONS, "after": [4]}, "expected blocks 1 to 3, found 4; the last block is no exit"),
        ({"regions": REGIONS, "head": "none", "layers": []}, "expected head or layers or neither, found both"),
    ],
)
def test_places_are_checked_when_the_file_is_read(candidates, fault) -> None:
    with pytest.raises(ValueError, match=fault):
        file_of(candidates)


def test_faults_of_the_command(fluidb: Run, tmp_path: Path) -> None:
    for arguments, fault in (
        (["alexnet"], "expected candidates for exits, found none; add [candidates] (`fluidb docs exits`)"),
        (["resnet101", "--at", "H13,H14"], "--at: expected candidates of resnet101 (H1, H4, H7, H10, H13, "),
        (
            ["resnet101", "--at", "H13", "--rates", "0.1,0.2"],
            "--rates: expected 1, one for each exit added to resnet101, found 2",
        ),
        (["resnet101", "--at", "H13", "--rates", "1.5"], "exits[0].rate"),
    ):
        (line,) = lines(fluidb("models", "exits", *arguments, "-o", "n.toml"))
        assert fault in line
    assert not list(tmp_path.iterdir())
