"""``-`` in place of an output: a text file goes to standard output and nothing else does; all else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import DATA, POCKET, TINY, Run, lines

SERVE = ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "1ms"]
POISSON = ["trace", "poisson", "--rate", 5, "--count", 40, "-o"]
TEXTS: dict[str, list[object]] = {
    "trace": POISSON,
    "import of a trace": ["trace", "import", "azure-llm-2023", DATA / "azure-llm-2023.csv", "-o"],
    "import of a network": ["models", "import", DATA / "scalesim" / "vww.csv", "-o"],
    "exits": ["models", "exits", "resnet50", "--at", "H4", "-o"],
    "SubNets": ["models", "subnets", "ofa_mobilenet_v3", "-o"],
    "import of a platform": ["platforms", "import", DATA / "fpgaconvnet" / "zc706.toml", "-o"],
    "requests": [*SERVE, "--requests"],
    "timeline": [*SERVE, "--timeline"],
    "timeline of a partition": ["explain", "part", "--timeline"],
    "timeline of a pipeline": ["pipeline", "part", "--timeline"],
}


@pytest.fixture
def ready(fluidb: Run, tmp_path: Path, tiny_design: Path) -> Run:
    """The command line beside a design, a partition and a trace."""
    (tmp_path / "tiny").symlink_to(tiny_design)
    assert fluidb(*POISSON, "t.csv").returncode == 0
    assert fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 2, "-o", "part").returncode == 0
    return lambda *words: fluidb(*("tiny" if word == "DESIGN" else word for word in words))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_file_goes_to_standard_output_alone(ready: Run, tmp_path: Path, name: str) -> None:
    to_file = ready(*TEXTS[name], "out")
    assert (to_file.returncode, to_file.stderr) == (0, "")
    before = sorted(tmp_path.iterdir())
    printed = ready(*TEXTS[name], "-")
    assert (printed.returncode, printed.stdout) == (0, (tmp_path / "out").read_text())
    assert printed.stderr == to_file.stdout.replace("file  out\n", "file  -\n")  # the summary
    assert sorted(tmp_path.iterdir()) == before


def test_traces_flow_through_a_pipe(installed: Run, tmp_path: Path) -> None:
    made = installed(*POISSON, "-")
    (tmp_path / "t.csv").write_text(made.stdout)
    scaled = installed("trace", "rescale", "t.csv", "--rate", 7, "-o", "-")
    assert made.stdout.startswith("request_id,arrival_s\n0,")
    assert scaled.stdout.startswith("request_id,arrival_s\n0,")
    assert "rate               7.000 /s" in scaled.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["dse", TINY, POCKET, "-o"],
        ["dse", f"{TINY},resnet18", POCKET, "-o"],
        ["dse", "ofa_mobilenet_v3", "sushi-zcu104", "-o"],
        ["dse", "alexnet_cifar10", "edgesp-a", "-o"],
        ["latency", "resnet50", "rtx-2080-ti", "-o"],
        ["plan", TINY, POCKET, "--trace", "t.csv", "--slo", "1ms", "--require", "p99 <= 1s", "-o"],
        ["pipeline", "part", "-o"],
        ["hardware", "DESIGN", "-o"],
        ["compare", DATA / "duel.toml", "-o"],
        ["reproduce", "batchcond_table3", "-o"],
    ],
)
def test_a_folder_cannot_be_standard_output(ready: Run, tmp_path: Path, arguments: list[object]) -> None:
    before = sorted(tmp_path.iterdir())
    (line,) = lines(ready(*arguments, "-"))
    assert line == "fluidb: -: expected the name of a folder, found -, which stands for standard output; choose a name"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (["samples", "generate", "imagenet", "--network", "resnet50", "-o"], "a file that ends in .npz"),
        ([*SERVE, "--plot"], "a picture that ends in .svg or .png"),
        (["report", "DESIGN", "-o"], "a page that ends in .html"),
    ],
)
def test_nor_can_a_file_with_an_ending(ready: Run, arguments: list[object], ending: str) -> None:
    (line,) = lines(ready(*arguments, "-"))
    assert line == f"fluidb: -: expected {ending}, found -"


@pytest.mark.parametrize(
    ("arguments", "both"),
    [
        ([*POISSON, "-", "--json"], "--output and --json"),
        ([*SERVE, "--requests", "-", "--timeline", "-"], "--requests and --timeline"),
    ],
)
def test_only_one_output_goes_there(ready: Run, arguments: list[object], both: str) -> None:
    (line,) = lines(ready(*arguments))
    assert line == f"fluidb: {both}: expected one of them on standard output, found both; name a file instead of -"
