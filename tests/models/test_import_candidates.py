"""Exit candidates of imported networks: the blocks that a graph shows."""

from __future__ import annotations

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
        ("squeezenet", [2, 2, 2, 2]),  # the first convolution and that of the classifier are no blocks
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


def test_a_network_of_one_block_has_no_candidate(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
        "Conv1, 8, 8, 3, 3, 3, 8, 1,\n"
    )
    (line,) = lines(fluidb("models", "import", "one.csv", "--candidates", "-o", "net.toml"))
    assert "--candidates: expected at least two blocks in " in line
    assert not (tmp_path / "net.toml").exists()
