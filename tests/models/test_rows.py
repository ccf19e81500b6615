"""Where networks can be cut, which rows depend on which, and where EdgeSP's exits stand."""

from __future__ import annotations

from pathlib import Path

import naive_partition as naive
import numpy as np
import onnx
import pytest
from builders import TINY, Run, lines
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.branches import with_branches
from fluidb.models.loader import layer_shapes, read_network_file
from fluidb.models.rows import block_rows, cut_into_rows


@pytest.mark.parametrize("seed", range(60))
def test_the_halo_is_what_the_rows_depend_on(seed: int):
    """Of every block, for every share of its output, against windows followed one by one."""
    rng = np.random.default_rng(seed)
    file = naive.draw_network(rng, exits=False)
    shapes, units = layer_shapes(file), cut_into_rows(file, naive.PATH).trunk.units
    first = int(rng.integers(len(units)))
    last = int(rng.integers(first, len(units)))
    layers = [layer for unit in units[first : last + 1] for layer in unit.layers]
    needs = block_rows(layers, units[first].entry, units[first].source)
    height, dilated = shapes[layers[-1].name].height, any(max(getattr(op, "dilation", [1])) > 1 for op in file.layers)
    behind = [naive.rows_behind(file, shapes, layers[-1].name, row) for row in range(height)]
    for name, (begins, ends) in needs.items():
        for o0 in range(height):
            for o1 in range(o0 + 1, height + 1):
                rows = set().union(*(behind[row].get(name, set()) for row in range(o0, o1)))
                if dilated:  # beside the padding a dilated window may skip the first row or the last
                    assert rows <= set(range(begins[o0], ends[o1])), (name, o0, o1)
                else:
                    assert (begins[o0], ends[o1]) == (min(rows), max(rows) + 1), (name, o0, o1)


@pytest.mark.parametrize("seed", range(40))
def test_a_place_can_be_cut_if_one_map_alone_passes(seed: int):
    file = naive.draw_network(np.random.default_rng(1000 + seed), exits=False)
    names, sources = [op.name for op in file.layers], naive.sources_of(file)
    rows = len(file.layers) - 2  # a global pool and a classifier
    passing = [
        {name for read in sources[i + 1 :] for name in read if name == "input" or names.index(name) <= i}
        for i in range(rows)
    ]
    expected = [names[i] for i in range(rows) if passing[i] == {names[i]}]
    assert [unit.name for unit in cut_into_rows(file, naive.PATH).trunk.units] == expected


def test_operations_are_those_of_equation_2():
    file, path = read_network_file("alexnet_cifar10")
    units = {unit.name: unit for unit in cut_into_rows(file, path).trunk.units}
    assert units["conv2"].layers[0].row_flops * 16 == 2 * 16 * 16 * (64 * 9 + 1) * 192
    assert units["pool2"].layers[0].row_flops * 8 == 8 * 8 * 192 * 4
    assert sum(unit.flops for unit in units.values()) == pytest.approx(0.334e9, rel=1e-3)  # edgesp.md: .33 GFLOP


@pytest.mark.parametrize(
    ("name", "units", "exits"),
    [
        ("alexnet_cifar10", 8, ["conv3", "conv4", "fc"]),
        ("resnet50_cifar10", 17, ["layer3.0", "layer3.4", "fc"]),
        ("resnet50", 18, ["layer3.0", "layer3.4", "fc"]),
        ("resnet101", 35, ["layer3.8", "layer3.17", "fc"]),
        ("vgg16", 18, ["features.12", "features.19", "classifier.6"]),
    ],
)
def test_exits_stand_at_half_and_at_three_quarters_of_the_work(name: str, units: int, exits: list[str]):
    file, path = read_network_file(name)
    rows = cut_into_rows(with_branches(file, path), path)
    assert (len(rows.trunk.units), [exit_.name for exit_ in rows.exits]) == (units, exits)
    assert [exit_.rate for exit_ in rows.exits] == pytest.approx([0.4, 0.4, 0.2])
    for branch in rows.branches:
        (unit,), (flatten, linear) = branch.units, branch.tail
        assert (unit.shape.channels, unit.layers[0].stride, flatten.flops) == (32, 2, 0)
        assert linear.flops == 2 * (unit.shape.words + 1) * (1000 if "cifar" not in name else 10)


@pytest.mark.parametrize(
    ("model", "units", "tail"),
    [
        ("resnet50", 19, 2),
        ("densenet121", 66, 2),
        ("bvlc_alexnet", 10, 5),  # these three normalise over channels
        ("inception_v1", 19, 2),
        ("zfnet512", 10, 5),
        ("shufflenet", 19, 2),
    ],
)
def test_an_onnx_model_is_cut_at_its_blocks(fluidb: Run, tmp_path: Path, model: str, units: int, tail: int):
    """Their last pool is a unit, as it has a window; the classifier of DenseNet is a convolution of one position."""
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{model}.onnx"
    assert fluidb("models", "import", light, "-o", "n.toml").returncode == 0
    trunk = cut_into_rows(*read_network_file(str(tmp_path / "n.toml"))).trunk
    assert (len(trunk.units), len(trunk.tail)) == (units, tail)
    done = fluidb("dse", "n.toml", "edgesp-a", "--devices", 6)
    assert "the speed-up is" in done.stdout


def test_an_exit_inside_a_unit_is_refused(tmp_path: Path):
    file, path = read_network_file("resnet50_cifar10")
    moved = with_branches(file, path)
    exits = [moved.exits[0].model_copy(update={"after": "layer3.0.conv2"}), *moved.exits[1:]]
    with pytest.raises(
        InputError, match=r'exits\[0\].after: expected a place where .* found "layer3.0.conv2"; these are'
    ):
        cut_into_rows(moved.model_copy(update={"exits": exits}), path)


ROW = '{ name = "a", op = "conv", out = 4, kernel = 1 }'
PARTS = {  # layers, the names of units, and why the others are whole
    "a transposed convolution": (
        [ROW, '{ name = "up", op = "convtranspose", out = 4, kernel = 2 }'],
        ["a"], 'up and all behind: it is not known which rows of its input the rows of "up" (convtranspose) need',
    ),
    "windows in the padding": (
        ['{ name = "odd", op = "conv", out = 4, kernel = 1, pad = 1 }'],
        [], 'odd and all behind: it is not known which rows of its input the rows of "odd" (conv) need',
    ),
    "a product first": (
        ['{ name = "flat", op = "flatten" }', '{ name = "fc", op = "linear", out = 2 }'],
        [], 'flat and all behind: the first layer, "flat" (flatten), needs a whole map',
    ),
    "steps and an answer for each": (
        [ROW, '{ name = "cell", op = "recurrent", hidden = 4, gates = 3 }', '{ name = "fc", op = "linear", out = 2 }'],
        ["a"], 'cell and all behind: rows of "cell" (recurrent) may need its whole input',
    ),
    "attention": (
        [ROW, '{ name = "qk", op = "matmul", from = ["a", "a"], transposed = true }',
         '{ name = "qkv", op = "matmul", from = ["qk", "a"] }'],
        ["a"], 'qk and all behind: rows of "qk" (matmul) may need its whole input',
    ),
    "layers that read more than the last row": (
        [ROW, '{ name = "b", op = "conv", out = 4, kernel = 1 }', '{ name = "p", op = "globalavgpool" }',
         '{ name = "q", op = "globalavgpool", from = "a" }', '{ name = "c", op = "add", from = ["p", "q"] }'],
        ["a"], 'b and all behind: layers behind "b" (conv) read more than its map',
    ),
    "a classifier alone": (
        [ROW, '{ name = "p", op = "globalavgpool" }', '{ name = "fc", op = "linear", out = 2 }'], ["a"], "",
    ),
    "an average that nothing in rows reads": (
        [ROW, '{ name = "p", op = "globalavgpool" }', '{ name = "cell", op = "recurrent", hidden = 4, gates = 3 }'],
        ["a"], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTS)
def test_what_cannot_be_cut_and_all_behind_is_whole(tmp_path: Path, case: str):
    layers, units, why = PARTS[case]
    text = Path(TINY).read_text()
    (tmp_path / "n.toml").write_text(f"{text[: text.index('layers = [')]}layers = [{', '.join(layers)}]\n")
    file, path = read_network_file(str(tmp_path / "n.toml"))
    cut = cut_into_rows(file, path)
    assert ([unit.name for unit in cut.trunk.units], cut.uncut) == (units, [why] if why else [])
    assert [layer.name for layer in cut.trunk.tail] == [op.name for op in file.layers[len(units) :]]


def test_the_command_writes_the_network_with_edgesp_s_exits(fluidb: Run, tmp_path: Path):
    assert (
        fluidb("models", "exits", "alexnet_cifar10", "--at", "edgesp", "--rates", "0.3,0.2", "-o", "n.toml").returncode
        == 0
    )
    network = load_network(str(tmp_path / "n.toml"))
    assert [(exit_.name, exit_.rate) for exit_ in network.exits][:2] == [("conv3", 0.3), ("conv4", 0.2)]
    assert fluidb("models", "exits", "n.toml", "--at", "edgesp", "-o", "again.toml").returncode == 0
    assert load_network(str(tmp_path / "again.toml")).name == network.name
    for arguments, said in [
        (["--at", "edgesp,H1"], "alexnet_cifar10.toml: expected candidates for exits, found none"),
        (["--at", "edgesp", "--rates", "0.3"], "--rates: expected 2, one for each exit added to alexnet_cifar10"),
    ]:
        (line,) = lines(fluidb("models", "exits", "alexnet_cifar10", *arguments, "-o", "m.toml"))
        assert said in line
