"""Every command without each extra: it runs, or says in one line which extra to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from builders import DATA, POCKET, ROOT, TINY, call_fluidb, lines
from fluidb.cli.app import COMMANDS, app
from fluidb.traffic import poisson, write_trace

EXTRAS = {
    "onnx": ["onnx"], "plot": ["matplotlib", "cycler"], "runtime": ["onnxruntime"], "cluster": ["distributed", "dask"],
    "server": ["uvicorn", "httptools", "prometheus_client"],
}  # fmt: skip
"""The packages of each."""

SERVED = ["--trace", "t.csv", "--slo", "2ms"]
DRAW = ["--plot", "p.svg"]
ASKED = ["--require", "violation_rate <= 5 %"]
MADE = "models/digits/digits.onnx"

Line = tuple[list[object], str]
"""A command line, and the extras without which it stops; `input`: it stops anyway, at its input."""

LINES: list[Line] = [
    (["dse", TINY, POCKET, "--b-max", 2], ""),
    (["dse", TINY, f"{POCKET},zc706", "--b-max", 2, "-o", "both", "--scheduler", "local"], "cluster"),
    (["dse", "alexnet_cifar10", "edgesp-a", "--devices", "1..2"], ""),
    (["dse", "alexnet_cifar10", "edgesp-a", "--devices", "1..2", *DRAW], "plot"),
    (["latency", "tiny"], ""),
    (["latency", TINY, "v100-tensorrt", "-o", "table", *DRAW], "plot"),
    (["exits", "bert_base", "v100-tensorrt-bert", "--samples", "no.csv", "-o", "exits"], "input"),
    (["pareto", TINY, POCKET, "--b-max", 2, "--over", "dsp"], ""),
    (["pareto", TINY, POCKET, "--b-max", 2, "--over", "dsp", *DRAW], "plot"),
    (["explain", "tiny"], ""),
    (["explain", "tiny", *DRAW], "plot"),
    (["fbcb", "tiny"], ""),
    (["hardware", "tiny", "-o", "hardware"], ""),
    (["quantise", "digits", "-o", "integers"], "onnx"),
    (["pipeline", "tiny"], "input"),
    (["trace", "poisson", "--rate", 5, "--count", 9, "-o", "n.csv"], ""),
    (["samples", "show", "s.csv"], ""),
    (["samples", "show", "s.csv", *DRAW], "plot"),
    (["serve-sim", "tiny", *SERVED], ""),
    (["serve-sim", "tiny", *SERVED, *DRAW], "plot"),
    (["adapt", "tiny", *SERVED], "input"),
    (["compare", "duel.toml"], ""),
    (["compare", "duel.toml", *DRAW], "plot"),
    (["compare", "duel.toml", "--scheduler", "local"], "cluster"),
    (["capacity", "tiny", "--slo", "2ms", "--require", "p99 <= 2 ms", "--count", 50, *DRAW], "plot"),
    (["thresholds", "tiny", *SERVED, "--samples", "s.csv"], ""),
    (["thresholds", "tiny", *SERVED, "--samples", "s.csv", *DRAW], "plot"),
    (["report", "tiny", "-o", "r.html"], "plot"),
    (["plan", TINY, POCKET, "--rate", 50, "--slo", "2ms", *ASKED, *DRAW], "plot"),
    (["plan", TINY, POCKET, "--rate", 50, "--slo", "2ms", *ASKED, "--scheduler", "local"], "cluster"),
    (["plan", TINY, POCKET, "--rate", 50], "input"),
    (["measure", "digits", "-o", "measured", "--repeats", 2, "--b-max", 1], "onnx,runtime"),
    (["serve-real", "digits", "tiny", "--trace", "t.csv"], "onnx,runtime"),
    (["serve-real", "digits", "tiny", "--trace", "t.csv", *DRAW], "plot"),
    (["serve", "digits", "tiny", "--slo", "2ms"], "onnx,runtime,server"),
    (["validate", "digits", "-o", "validation"], "onnx,runtime,plot"),
    (["validate", "digits", *DRAW], "onnx,runtime,plot"),
    (["models"], ""),
    (["models", "check", "resnet50"], ""),
    (["models", "import", ROOT / MADE, "-o", "digits.toml", "--dim", "batch=1"], "onnx"),
    (["models", "import", DATA / "scalesim" / "vww.csv", "-o", "vww.toml"], ""),
    (["platforms"], ""),
    (["platforms", "fit", "sweep.csv"], ""),
    (["platforms", "fit", "sweep.csv", *DRAW], "plot"),
    (["platforms", "sweep", "-o", "measured.csv"], "onnx,runtime"),
    (["calibrate", "nvdla", "no.csv"], "input"),
    (["calibrate", "nvdla", "no.csv", *DRAW], "plot"),
    (["reproduce", "hardware_dpu"], ""),
    (["reproduce", "hardware_dpu", "-o", "results"], "plot"),
    (["docs"], ""),
]
HIDDEN = """
import importlib.metadata, json, pathlib, sys
hidden, folder, asked = json.loads(sys.argv[1])
for name in hidden:
    sys.modules[name] = None  # neither found nor imported
found = importlib.metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(cls, name)
importlib.metadata.Distribution.from_name = classmethod(from_name)
from builders import call_fluidb
for words in asked:
    done = call_fluidb(*words, cwd=pathlib.Path(folder))
    print(json.dumps([done.returncode, done.stderr]), flush=True)
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, tiny_design: Path) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "tiny").symlink_to(tiny_design)
    for name in ("sweep.csv", "duel.toml", "duel.csv", "tiny.toml", "pocket.toml"):
        (folder / name).symlink_to(DATA / name)
    write_trace(poisson(800, 60, 5), folder / "t.csv")
    (folder / "s.csv").write_text(
        "confidence_1,confidence_2,correct_1,correct_2,correct_3\n0.9,0.9,1,1,1\n0.5,0.7,0,0,1\n"
    )
    return folder


def needs(stated: str, extra: str) -> bool:
    return extra in stated.split(",")


def test_without_any_extra_everything_else_runs(inputs: Path) -> None:
    """In a process of its own, in which nothing of the extras was ever imported."""
    asked = [line for line in LINES if line[1] in ("", "input")]
    hidden = [name for names in EXTRAS.values() for name in names]
    sent = json.dumps([hidden, str(inputs), [[str(word) for word in words] for words, _ in asked]])
    ran = subprocess.run(
        [sys.executable, "-c", HIDDEN, sent], capture_output=True, text=True, check=True, cwd=ROOT / "tests"
    )
    for line, out in zip(asked, ran.stdout.splitlines(), strict=True):
        code, faults = json.loads(out)
        assert "Traceback" not in faults, line
        assert code == (2 if line[1] else 0), (line, faults)
        assert "not installed" not in faults, line


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_names_the_extra_that_it_lacks(extra: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EXTRAS[extra]:
        monkeypatch.setitem(sys.modules, name, None)  # neither found nor imported
    before = {path.name for path in inputs.iterdir()}
    for words, stated in LINES:
        if needs(stated, extra):
            (fault,) = lines(call_fluidb(*words, cwd=inputs))
            assert f"needs {EXTRAS[extra][0]}, which is not installed" in fault, words
            assert extra in fault.partition("pip install '.[")[2].partition("]'")[0].split(","), words
    assert {path.name for path in inputs.iterdir()} == before


def parameters(name: str) -> list[tuple[str, list[str]]]:
    """Every command of a name, with its options."""
    context = typer.Context(typer.main.get_command(app))
    _, command, _ = context.command.resolve_command(context, [name])
    subs: dict[str, Any] = getattr(command, "commands", {})
    return [
        (f"{name} {sub}".strip(), [option for item in one.params for option in item.opts])
        for sub, one in (subs or {"": command}).items()
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_needs_an_extra_is_tried(name: str) -> None:
    tried = [([str(word) for word in line], stated) for line, stated in LINES]
    assert any(line[0] == name for line, _ in tried)
    for command, options in parameters(name):
        for option, extra in (("--plot", "plot"), ("--scheduler", "cluster")):
            if option in options:
                found = [stated for line, stated in tried if " ".join(line).startswith(command) and option in line]
                assert any(needs(stated, extra) for stated in found), f"{command} {option}"
