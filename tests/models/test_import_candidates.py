"""Exit candidates of imported networks: the blocks that a graph shows."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from builders import Run, lines
from fluidb.models.candidates import load_with_exits
from fluidb.models.loader import read_network_file

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        ("resnet50", [3, 4, 6, 3]),
        ("vgg19", [2, 2, 4, 4, 4]),  # a plain chain: every product is a block
        ("squeezenet", [2, 2, 2, 2]),  # the first convolution and the classifier's are no blocks
        ("shufflenet", [4, 8, 4]),
    ],
)
def test_blocks_of_known_networks_are_found(fluidb: Run, tmp_path: Path, model: str, blocks: list[int]) -> None:
    done = fluidb("models", "import", LIGHT / f"light_{model}.onnx", "--candidates", "-o", "net.toml")
    assert (done.returncode, done.stderr) == (0, "")
    file, _ = read_network_file(str(tmp_path / "net.toml"))
    assert file.candidates is not None
    assert [len(region) for region in file.candidates.regions] == blocks
    assert len(load_with_exits(str(tmp_path / "net.toml")).exits) == sum(blocks)


def test_resnet50_through_onnx_has_the_candidates_of_the_zoo(fluidb: Run, tmp_path: Path) -> None:
    fluidb("models", "import", LIGHT / "light_resnet50.onnx", "--candidates", "-o", "net.toml")
    found, shipped = load_with_exits(str(tmp_path / "net.toml")), load_with_exits("resnet50")
    heads = [sorted(layer.gemm for layer in net.layers if layer.in_head and layer.gemm) for net in (found, shipped)]
    assert heads[0] == heads[1]


PLANNED = {"densenet121": 16, "shufflenet": 64, "inception_v1": 16, "squeezenet": 16, "bvlc_alexnet": 16}
"""Networks, and a batch that takes much longer than the start of a stage."""
WITHOUT = {"inception_v1", "squeezenet", "bvlc_alexnet"}
"""Those that have no exit with bridges, which copy nearly all of the network; and that are small enough to try."""


@pytest.mark.parametrize(("model", "batch"), PLANNED.items())
def test_heads_that_take_any_map_give_real_graphs_exits(fluidb: Run, tmp_path: Path, model: str, batch: int) -> None:
    graph = LIGHT / f"light_{model}.onnx"
    choice = ["v100-tensorrt", "--samples", "log.npz", "--guard", "none", "--batch", batch]
    done = fluidb("models", "import", graph, "--candidates", "--head", "pool-linear", "-o", "net.toml")
    assert (done.returncode, done.stderr) == (0, "")
    file, _ = read_network_file(str(tmp_path / "net.toml"))
    assert file.candidates is not None
    assert (file.candidates.head, file.candidates.classes) == ("pool-linear", 1000)
    fluidb("samples", "generate", "imagenet", "--network", "net.toml", "--count", 2000, "-o", "log.npz")
    if model in WITHOUT:
        fluidb("models", "import", graph, "--candidates", "-o", "own.toml")
        (line,) = lines(fluidb("exits", "own.toml", *choice))
        assert "--slow: no candidate is left; the nearest, after " in line
        assert line.endswith("; its bridge takes part of the time: a named head needs none (head of the candidates)")
    done = fluidb("exits", "net.toml", *choice, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["expected"]["average_s"] < 0.9 * plan["expected"]["original_s"]


def test_options_of_heads_need_what_they_describe(fluidb: Run, tmp_path: Path) -> None:
    command = ["models", "import", LIGHT / "light_squeezenet.onnx", "-o", "net.toml"]
    for options, fault in (
        (["--head", "linear"], "describe what --exits or --candidates adds"),
        (["--candidates", "--classes", 7], "--classes describes the --head of the candidates"),
        (["--candidates", "--head", "big"], "--head: expected msdnet, pool-linear, "),
    ):
        done = fluidb(*command, *options)
        assert done.returncode == 2
        assert fault in done.stderr
    assert not (tmp_path / "net.toml").exists()


def test_a_network_of_one_block_has_no_candidate(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
        "Conv1, 8, 8, 3, 3, 3, 8, 1,\n"
    )
    (line,) = lines(fluidb("models", "import", "one.csv", "--candidates", "-o", "net.toml"))
    assert "--candidates: expected at least two blocks in " in line
    assert not (tmp_path / "net.toml").exists()
