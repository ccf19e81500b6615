"""The command line: one real run of every command and of what begins or ends a process, the rest in this process."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    DATA,
    FLUIDB,
    POCKET,
    ROOT,
    TINY,
    Run,
    Start,
    call_fluidb,
    files,
    killed,
    lines,
    read_terminal,
    write_deep,
)
from fluidb.cli import render
from fluidb.cli.app import COMMANDS
from fluidb.cli.decide.compare import _POINTS
from fluidb.dse import read_design
from fluidb.dse.subgraphs.search import find_subgraphs, write_subgraphs
from fluidb.formats import InputError
from fluidb.models.supernets import load_family
from fluidb.platforms import Accelerator, load_platform
from fluidb.tables import read_latency
from fluidb.tables.subgraphs import SubGraphOptions
from fluidb.traffic import arrivals, poisson, read_trace, write_trace
from fluidb.traffic.answers import PRESETS, draw_answers
from fluidb.traffic.samples import write_samples

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLES = """confidence_1,confidence_2,correct_1,correct_2,correct_3
0.95,0.97,1,1,1
0.85,0.96,1,1,1
0.75,0.80,0,1,1
0.65,0.90,1,1,0
0.55,0.70,0,0,1
0.30,0.60,0,0,1
0.20,0.40,0,1,0
"""


MMPP = ["--quiet-rate", 5, "--burst-rate", 50, "--quiet-dwell", "10s", "--burst-dwell", "2s"]
CAMERAS = ["--cameras", 4, "--fps", 30, "--jitter", "5ms", "--drop", 0.1]
EXITS = ["--samples", "log.npz", "--batch", 16]
SERVED = ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "1s"]
CLOSED = [
    "--clients", 3, "--think", "exponential:100us", "--count", 500, "--slo", "200us", "--on-deadline", "answer",
    "--samples", "s.csv",
]  # fmt: skip
DAILY = ["--rate", 0.01, "--peak-to-mean", 2, "--peak-hour", 14]


CHAIN: list[list[object]] = [
    ["dse", TINY, POCKET, "-o", "tiny", "--b-max", 4],
    ["latency", "tiny"],
    ["trace", "poisson", "--rate", 2000, "--count", 500, "--seed", 1, "-o", "t.csv"],
    ["serve-sim", "tiny", "--trace", "t.csv", "--policy", "fluid", "--slo", "2ms", "--requests", "r.csv"],
]


def test_the_chain_of_the_readme(installed: Run, tmp_path: Path) -> None:
    """dse, latency, trace, serve-sim: each reads what the one before wrote."""
    for arguments in CHAIN:
        done = installed(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "t.csv", "tiny"]
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["design.json", "fbcb.json", "latency.json"]
    with (tmp_path / "r.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 500
    assert sorted(int(row["request_id"]) for row in rows) == list(range(500))
    for row in rows:
        assert float(row["latency_s"]) == pytest.approx(float(row["finish_s"]) - float(row["arrival_s"]))
        assert int(row["violated"]) == (float(row["latency_s"]) > 0.002)
    expected = files(tmp_path)
    for threads in (1, 5):  # the same bytes for any number of them, and in a process that has run others before
        folder = tmp_path / str(threads)
        folder.mkdir()
        for arguments in CHAIN:
            threaded = [*arguments, "--threads", threads] if arguments[0] == "dse" else arguments
            assert call_fluidb(*threaded, cwd=folder).returncode == 0
        assert files(folder) == expected


TRIED = ["--samples", "s.csv", "--thresholds", "0.5,0.7,0.9"]

ALONE = ("pareto", "fbcb", "explain", "thresholds", "trace-import", "models", "platforms", "help")
"""Run as processes of their own, to show that they need nothing that another command has imported; the chain above,
the README and other tests do so for the other commands.
"""


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dse", ["dse", TINY, POCKET, "--b-max", 4]),
        ("dse-row", ["dse", TINY, POCKET, "--b-max", 2, "--batching", "row", "--no-stacking", "--top", 2]),
        ("dse-cluster", ["dse", "alexnet_cifar10", "edgesp-a", "--devices", 3, "--rule", "optimal"]),
        ("dse-devices", ["dse", "alexnet_cifar10", "edgesp-b", "--devices", "1..3"]),
        ("quantise", ["quantise", "digits", "-o", "q"]),
        ("pareto", ["pareto", TINY, POCKET, "--b-max", 2, "--over", "dsp", "--max-dsp", "50%"]),
        ("exits", ["exits", "bert_base", "v100-tensorrt-bert", *EXITS, "--guard", "99.5%", "-o", "plan"]),
        ("latency", ["latency", "DESIGN"]),
        ("latency-cores", ["latency", "mobilenet_v1", "dpu-b4096-zcu104", "--cores", 2, "-o", "n"]),
        ("fbcb", ["fbcb", "DESIGN"]),
        ("explain", ["explain", "DESIGN", "--batch", 2, "--top", 5]),
        ("dse-subgraphs", ["dse", "ofa_mobilenet_v3", "sushi-zcu104"]),
        ("explain-subgraphs", ["explain", "kept", "--top", 5]),
        ("explain-layer", ["explain", "DESIGN", "--layer", "expand"]),
        ("explain-partition", ["explain", "part"]),
        ("pipeline", ["pipeline", "part"]),
        ("serve-sim", ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "400us", "--seed", 3]),
        ("serve-sim-serial", ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "400us", "--policy", "serial"]),
        ("serve-sim-clients", ["serve-sim", "DESIGN", *CLOSED]),
        ("serve-sim-admit", ["serve-sim", "DESIGN", *CLOSED, "--admit", "queue:1"]),
        ("serve-sim-networks", ["serve-sim", "networks.toml", "--trace", "t.csv", "--between", "shares"]),
        ("thresholds", ["thresholds", "DESIGN", "--trace", "t.csv", "--samples", "s.csv", "--slo", "400us"]),
        (
            "thresholds-networks",
            ["thresholds", "networks.toml", "--trace", "t.csv", *TRIED, "--require", "accuracy[people] >= 60 %"],
        ),
        ("target", ["thresholds", "DESIGN", "--target", "84us", "--samples", "s.csv"]),
        ("samples", ["samples", "generate", "glue", "--network", "bert_base", "--count", 500, "-o", "n.npz"]),
        ("samples-show", ["samples", "show", "log.npz", "--thresholds", "0.6,0.9"]),
        ("trace-poisson", ["trace", "poisson", "--rate", 15, "--count", 500, "--seed", 1, "-o", "n.csv"]),
        ("trace-gamma", ["trace", "gamma", "--rate", 15, "--cv", 2, "--count", 500, "--seed", 1, "-o", "n.csv"]),
        ("trace-mmpp", ["trace", "mmpp", *MMPP, "--count", 500, "--seed", 1, "-o", "n.csv"]),
        ("trace-cameras", ["trace", "cameras", *CAMERAS, "--count", 500, "--seed", 1, "-o", "n.csv"]),
        ("trace-daily", ["trace", "daily", *DAILY, "--count", 500, "--seed", 1, "-o", "n.csv"]),
        ("trace-merge", ["trace", "merge", "t.csv", "t.csv", "-o", "n.csv"]),
        ("trace-rescale", ["trace", "rescale", "t.csv", "--rate", 20, "--cv", 2, "-o", "n.csv"]),
        ("trace-help", ["trace", "--help"]),
        ("trace-import", ["trace", "import", "azure-llm-2023", DATA / "azure-llm-2023.csv", "-o", "i.csv"]),
        ("models", ["models"]),
        ("model", ["models", "show", TINY]),
        ("model-import", ["models", "import", DATA / "scalesim" / "vww.csv", "-o", "n.toml"]),
        ("model-subnets", ["models", "subnets", "ofa_mobilenet_v3"]),
        ("model-exits", ["models", "exits", "resnet50", "--at", "H4,layer3.1", "--rates", "0.2,0.3", "-o", "n.toml"]),
        ("model-check", ["models", "check", "resnet50"]),
        ("platforms", ["platforms"]),
        ("platform", ["platforms", "show", "zc706"]),
        ("platform-import", ["platforms", "import", DATA / "fpgaconvnet" / "zc706.toml", "-o", "n.toml"]),
        ("platform-fit", ["platforms", "fit", "sweep.csv"]),
        ("platform-check", ["platforms", "check", "nvdla"]),
        ("help", ["--help"]),
    ],
)
@pytest.mark.parametrize("kind", ["txt", "json"])
def test_golden_output(
    fluidb: Run, installed: Run, tmp_path: Path, tiny_design: Path, name: str, arguments: list[str], kind: str
) -> None:
    """What is printed, as text and as JSON; `GOLDEN=write pytest tests/cli/test_cli.py` writes the files anew."""
    if kind == "json" and "--help" in arguments:
        return
    (tmp_path / "tiny").symlink_to(tiny_design)
    write_trace(poisson(8000, 400, 5), tmp_path / "t.csv")
    (tmp_path / "s.csv").write_text(SAMPLES)
    for file in ("sweep.csv", "networks.toml"):
        (tmp_path / file).symlink_to(DATA / file)
    if "part" in arguments:
        assert fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 2, "-o", "part").returncode == 0
    if "log.npz" in arguments:
        write_samples(draw_answers(PRESETS["glue"], 11, 4000, seed=1), tmp_path / "log.npz")
    if "kept" in arguments:
        chip, options = load_platform("sushi-zcu104", kind=Accelerator), SubGraphOptions(columns=2)
        write_subgraphs(find_subgraphs(load_family("ofa_mobilenet_v3"), chip, options), tmp_path / "kept")
    arguments = ["tiny" if argument == "DESIGN" else argument for argument in arguments] + (
        ["--json"] if kind == "json" else []
    )
    done = (installed if kind == "txt" and name in ALONE else fluidb)(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    path = GOLDEN / f"{name}.{kind}"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(done.stdout)
    if kind == "json":
        content, expected = json.loads(done.stdout), json.loads(path.read_text())
        assert content["schema"].startswith("fluidb.")
        assert content.keys() == expected.keys()
        assert content == approximately(expected)
    else:
        assert done.stdout == path.read_text()


def approximately(value: object) -> object:
    """The same structure with floats compared to 12 digits: another CPU may add in another order."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


def test_a_network_of_many_exits_has_short_tables(fluidb: Run, tmp_path: Path) -> None:
    """What matters is not behind a thousand rows; all rows are in the files."""

    def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    write_deep(tmp_path / "deep.toml", exits=40, rate=0.02)
    made = printed(fluidb("latency", "deep.toml", "v100-tensorrt", "-o", "deep"))
    times = made[2 : made.index("12 of 820 rows; latency.json has all")]
    reached = [int(re.match(r"0 input -> (\d+) ", row)[1]) for row in times]
    assert (len(reached), reached[0], reached[-1]) == (12, 1, 40)
    assert {later - earlier for earlier, later in itertools.pairwise(reached)} == {3, 4}
    assert len(made) < 40
    whole = read_latency(tmp_path / "deep").array()
    for row, number in zip(times, reached, strict=True):
        assert row.split()[5] == f"{1e3 * whole[0, number, 1]:.2f}"
    assert (
        fluidb("samples", "generate", "imagenet", "--network", "deep.toml", "--count", 50, "-o", "s.npz").returncode
        == 0
    )
    assert printed(fluidb("samples", "show", "s.npz")).count("12 of 40 rows; --json has all") == 3
    assert fluidb("trace", "poisson", "--rate", 100, "--count", 50, "-o", "t.csv").returncode == 0
    asked = ["deep", "--trace", "t.csv", "--slo", "1s", "--samples", "s.npz"]
    assert printed(fluidb("serve-sim", *asked))[-1] == "12 of 40 rows; --json has all"
    tried = printed(fluidb("thresholds", *asked))
    assert max(map(len, tried)) < 250
    assert tried[-1] == "12 of 40 exits; --json has all"


def test_a_seed_draws_other_exits(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    fluidb("trace", "poisson", "--rate", 900, "--count", 200, "-o", "t.csv")
    common = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms"]
    for seed in (1, 2):
        fluidb(*common, "--seed", seed, "--requests", f"{seed}.csv")
    assert (tmp_path / "1.csv").read_text() != (tmp_path / "2.csv").read_text()


def test_traces_with_exits_confidences_and_objectives(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    header = "request_id,arrival_s"
    (tmp_path / "exits.csv").write_text(f"{header},exit,slo_s\n5,0.0,1,0.5\n6,1.0,3,1e-9\n")
    done = fluidb("serve-sim", tiny_design, "--trace", "exits.csv", "--json")
    content = json.loads(done.stdout)
    assert ([row["requests"] for row in content["exits"]], content["violations"]) == ([1, 0, 1], 1)
    assert (content["exits_from"], content["accuracy"]) == ("trace", None)
    (tmp_path / "sure.csv").write_text(f"{header},confidence_1,confidence_2\n5,0.0,0.7,0.9\n6,1.0,0.1,0.2\n")
    done = fluidb("serve-sim", tiny_design, "--trace", "sure.csv", "--slo", "1s", "--threshold", 0.6, "--json")
    content = json.loads(done.stdout)
    assert ([row["requests"] for row in content["exits"]], content["exits_from"]) == ([1, 0, 1], "confidence >= 0.6")


def test_traces_are_merged_and_rescaled(fluidb: Run, tmp_path: Path) -> None:
    """Sources, a merge of them, the merge at another rate and burstiness: each a trace that is read again."""
    made: dict[str, dict[str, Any]] = {}
    steps: dict[str, list[object]] = {
        "gamma": ["gamma", "--rate", 40, "--cv", 0.5, "--count", 300],
        "mmpp": ["mmpp", *MMPP, "--count", 300],
        "cameras": ["cameras", *CAMERAS, "--count", 300],
        "merged": ["merge", "gamma.csv", "mmpp.csv", "cameras.csv"],
        "scaled": ["rescale", "merged.csv", "--rate", 7, "--cv", 3],
        "again": ["rescale", "merged.csv", "--rate", 7, "--cv", 3],
    }
    for name, arguments in steps.items():
        done = fluidb("trace", *arguments, "-o", f"{name}.csv", "--json")
        assert (done.returncode, done.stderr) == (0, ""), name
        made[name] = json.loads(done.stdout)
        assert (made[name]["process"], made[name]["output"]) == (arguments[0], f"{name}.csv")
        trace = read_trace(tmp_path / f"{name}.csv")
        figures = (trace.rate_per_s, trace.gap_cv, trace.gap_lag1, trace.arrival_s[-1])
        keys = ("arrival_rate_per_s", "cv", "lag1_correlation", "last_arrival_s")
        assert tuple(made[name][key] for key in keys) == figures
    assert [made[name]["seed"] for name in ("gamma", "merged", "scaled")] == [0, None, None]
    assert made["merged"]["requests"] == made["scaled"]["requests"] == 900
    assert made["scaled"]["arrival_rate_per_s"] == pytest.approx(7)
    assert made["scaled"]["cv"] == pytest.approx(3)
    assert (tmp_path / "scaled.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    done = fluidb("trace", "merge", "scaled.csv", "-o", "again.csv", "--force")
    assert (done.returncode, len(read_trace(tmp_path / "again.csv"))) == (0, 900)


def test_merging_keeps_columns_that_all_have(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("request_id,arrival_s,exit,slo_s\n7,0.5,1,0.25\n8,2.0,2,0.5\n")
    (tmp_path / "b.csv").write_text("slo_s,request_id,arrival_s,exit\n1.0,7,0.5,3\n")
    (tmp_path / "c.csv").write_text("request_id,arrival_s,exit\n7,0.5,3\n")
    assert fluidb("trace", "merge", "a.csv", "b.csv", "-o", "ab.csv").returncode == 0
    expected = "request_id,arrival_s,exit,slo_s\n0,0.5,1,0.25\n1,0.5,3,1.0\n2,2.0,2,0.5\n"
    assert (tmp_path / "ab.csv").read_text() == expected
    (found,) = lines(fluidb("trace", "merge", "a.csv", "b.csv", "c.csv", "-o", "abc.csv"))
    assert "expected the column slo_s in all 3 or in none, found it only in number 1, 2" in found
    assert not (tmp_path / "abc.csv").exists()


def test_bandwidth_and_weights_reach_the_search(fluidb: Run) -> None:
    def found(*more: object) -> dict[str, Any]:
        return dict(json.loads(fluidb("dse", TINY, POCKET, "--b-max", 2, "--json", *more).stdout))

    base = found()
    assert found("--bandwidth", "800MB/s")["bandwidth_gb_s"] == 0.8
    assert found("--bandwidth", "800MB/s")["objective"] > base["objective"]
    assert found("--weights", "1,0")["objective"] < base["objective"]
    assert found("--no-stacking")["objective"] <= base["objective"]
    assert found("--batching", "fc")["options"]["batching"] == "fc"
    given = found("--tile", "8,2,3")
    assert (given["T_R"], given["T_P"], given["T_C"], given["designs_evaluated"]) == (8, 2, 3, 1)
    assert given["objective"] < base["objective"]
    assert found("--tile", ",".join(str(base[key]) for key in ("T_R", "T_P", "T_C")))["gop_s"] == base["gop_s"]


BAD: dict[str, tuple[list[object], list[str]]] = {
    "near miss of a network": (["dse", "resnet5", "zc706"], ['unknown network "resnet5"; did you mean resnet50']),
    "near miss of a board": (["dse", TINY, "zcu10"], ['unknown platform "zcu10"; did you mean zcu104']),
    "model that is not imported": (
        ["dse", "net.onnx", POCKET],
        ["net.onnx: expected the TOML file of a network; make it with `fluidb models import net.onnx -o net.toml`"],
    ),
    "model with a name of an option": (
        ["models", "check", "--", "-n 1.onnx"],
        ["-n 1.onnx: expected the TOML", "`fluidb models import './-n 1.onnx' -o './-n 1.toml'`"],
    ),
    "folder that is no network": (["dse", "DESIGN", POCKET], ["TOML file of a network, found a folder"]),
    "beginning of a file's name": (["dse", TINY, "mybo"], ['unknown platform "mybo"; did you mean myboard.toml?']),
    "file that is no design": (["latency", "t.csv"], ["t.csv: expected the folder of a design, found a file"]),
    "folder that is none": (
        ["latency", "nowhere"],
        ["nowhere: expected the folder of a design", "fluidb dse NETWORK BOARD -o DIR"],
    ),
    "trace that is none": (["serve-sim", "DESIGN", "--trace", "no.csv", "--slo", "1s"], ["no.csv", "no such file"]),
    "objective without a unit": (["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "200"], ["--slo", "no unit"]),
    "no objective": (["serve-sim", "DESIGN", "--trace", "t.csv"], ["--slo: expected a latency objective"]),
    "unknown policy": (
        [*SERVED, "--policy", "x"],
        ["known: serial, adaptb, lazy, fluid, fluid-slack, pame, batchcond, sushi, or path/to/file.py:NAME"],
    ),
    "no clients": (
        ["serve-sim", "DESIGN", "--clients", 0, "--slo", "1s"],
        ["--clients: expected a whole number", "found 0"],
    ),
    "neither trace nor clients": (["serve-sim", "DESIGN", "--slo", "1s"], ["--trace: expected", "found neither"]),
    "both trace and clients": (
        ["serve-sim", "DESIGN", "--trace", "t.csv", "--clients", 2, "--slo", "1s"],
        ["--clients: expected a trace or clients, found both"],
    ),
    "negative think time": (
        ["serve-sim", "DESIGN", "--clients", 2, "--think", "-1ms", "--slo", "1s"],
        ["--think: expected a number >= 0 and a unit"],
    ),
    "think times of no file": (
        ["serve-sim", "DESIGN", "--clients", 2, "--think", "trace:none.csv", "--slo", "1s"],
        ["none.csv: expected a file of think times, found none"],
    ),
    "think time of a trace": (
        ["serve-sim", "DESIGN", "--trace", "t.csv", "--think", "1ms", "--slo", "1s"],
        ["--think: expected --clients beside it, found a trace"],
    ),
    "deadline that is none": (
        [*SERVED, "--on-deadline", "give-up"],
        ["--on-deadline: expected serve or drop or answer"],
    ),
    "admission that is none": ([*SERVED, "--admit", "queue:-1"], ["--admit: expected queue:N", 'found "queue:-1"']),
    "refusals that no policy makes": (
        [*SERVED, "--require", "refused < 9 %"],
        ["--require", "state e.g. admit=queue:8"],
    ),
    "accuracy with drops and without samples": (
        [*SERVED, "--on-deadline", "drop", "--require", "accuracy > 9 %"],
        ["--require", "expected a trace that knows which answers are right"],
    ),
    "drops that no policy makes": (
        [*SERVED, "--require", "dropped < 9 %"],
        ["--require", "state e.g. on_deadline=drop"],
    ),
    "policy that plans ahead": (
        [*SERVED, "--policy", "batchcond", "--on-deadline", "drop"],
        ["--on-deadline: expected a policy that plans no batches ahead, found batchcond"],
    ),
    "threshold nothing uses": ([*SERVED, "--threshold", "0.5"], ["threshold"]),
    "weights that are none": (["dse", TINY, POCKET, "--weights", "1,a"], ["--weights", '"1,a"']),
    "weights all zero": (
        ["dse", TINY, POCKET, "--weights", "0,0", "--b-max", "2"],
        ["fluidb: --weights: expected at least one"],
    ),
    "too few weights": (["dse", TINY, POCKET, "--weights", "1,2"], ["fluidb: --weights: expected 8 values", "found 2"]),
    "negative weight": (["dse", TINY, POCKET, "--weights", "1,-1", "--b-max", "2"], ["fluidb: --weights: expected"]),
    "tile below one": (["dse", TINY, POCKET, "--tile", "0,1,1"], ["fluidb: --tile: expected at least 1, found 0"]),
    "objective with a cluster": (
        ["dse", "alexnet", "edgesp-a", "--objective", "latency"],
        ["fluidb: --objective: an option with a board or an accelerator, but edgesp-a is a cluster"],
    ),
    "no peak": (
        ["trace", "daily", "--rate", 1, "--peak-to-mean", 50, "--peak-hour", 3, "--count", 5, "-o", "n.csv"],
        ["fluidb: --peak-to-mean: expected"],
    ),
    "exits at no candidate": (
        ["models", "exits", "resnet50", "--at", "H99", "-o", "n.toml"],
        ["fluidb: --at: expected candidates of resnet50 (H1, "],
    ),
    "more rates than exits": (
        ["models", "exits", "resnet50", "--at", "H1", "--rates", "0.3,0.4", "-o", "n.toml"],
        ["fluidb: --rates: expected 1, one for each exit added to resnet50, found 2"],
    ),
    "more rates than branches": (
        ["models", "exits", "alexnet_cifar10", "--at", "edgesp", "--rates", "0.3", "-o", "n.toml"],
        ["fluidb: --rates: expected 2, one for each exit added to alexnet_cifar10, found 1"],
    ),
    "samples without values": (
        ["samples", "generate", "imagenet", "--network", "resnet50", "--values", 0, "-o", "n.npz"],
        ["fluidb: --values: expected 1 to 1,000,000, found 0"],
    ),
    "difficulty that is no number": (
        ["samples", "generate", "imagenet", "--network", "resnet50", "--difficulty", "nan", "-o", "n.npz"],
        ["fluidb: --difficulty: expected -10 to 10, found nan"],
    ),
    "tile of nothing": (["dse", TINY, POCKET, "--tile", ""], ["--tile", 'found ""']),
    "weights of nothing": (["dse", TINY, POCKET, "--weights", ""], ["--weights", 'found ""']),
    "no network": (["dse", "", POCKET], ['argument 2: expected a value, found ""']),
    "no output": (["dse", TINY, POCKET, "-o", ""], ['-o: expected a value, found ""']),
    "no output behind =": (["dse", TINY, POCKET, "--output="], ['--output: expected a value, found ""']),
    "no output behind -o=": (["dse", TINY, POCKET, "-o="], ['-o: expected a value, found ""']),
    "an output behind -o=": (
        ["dse", TINY, POCKET, "-o=my d"],
        ["-o: expected a value after a space", "write -o 'my d'"],
    ),
    "bandwidth of nothing": (["dse", TINY, POCKET, "--bandwidth", ""], ["--bandwidth"]),
    "import onto itself": (["platforms", "import", "t.csv", "-o", "t.csv", "--force"], ["another file than t.csv"]),
    "tile of two": (["dse", TINY, POCKET, "--tile", "8,2"], ["--tile: expected T_R,T_P,T_C", '"8,2"']),
    "reading of the paper": (
        ["dse", TINY, POCKET, "--batching", "eq1"],
        ['--batching: expected one of fluid, row, column, fc, none, found "eq1"'],
    ),
    "most of a DSP": (
        ["dse", TINY, POCKET, "--max-dsp", "2.7DSPs"],
        ["--max-dsp: expected a whole number", '"2.7DSPs"'],
    ),
    "thrice the board": (["dse", TINY, POCKET, "--max-ram", "300%"], ["--max-ram: expected at most 100%", '"300%"']),
    "weights of a single sample": (
        ["dse", TINY, POCKET, "--weights", "1,2", "--b-max", "2", "--objective", "latency"],
        ["--weights: the objective latency", "leave them out"],
    ),
    "page as a picture": (["report", "DESIGN", "-o", "n.pdf"], ["n.pdf: expected a page that ends in .html"]),
    "seed of no traffic": (["report", "DESIGN", "-o", "n.html", "--seed", "3"], ["--seed: would change nothing"]),
    "tile of halves": (["dse", TINY, POCKET, "--tile", "8,2,0.5"], ["--tile", "whole numbers", '"8,2,0.5"']),
    "tile of too many DSPs": (["dse", TINY, POCKET, "--tile", "2,99,99"], ["<2,99,99>", "DSPs of pocket", "9,801"]),
    "tile too deep": (
        ["dse", TINY, POCKET, "--tile", "99998,2,2"],
        ["<99998,2,2>", "Mb on chip of pocket", "lower T_R"],
    ),
    "bandwidth without a unit": (["dse", TINY, POCKET, "--bandwidth", "3.2"], ["--bandwidth", "no unit"]),
    "output nowhere": (
        ["dse", TINY, POCKET, "-o", "t.csv/where"],
        ["t.csv/where: expected a folder", "something else"],
    ),
    "output in the way": (["dse", TINY, POCKET, "-o", "t.csv"], ["t.csv: expected a folder to write, found a file"]),
    "force spares strangers": (["dse", TINY, POCKET, "-o", "mine", "--force"], ["holds no design.json"]),
    "trace in the way": (["trace", "poisson", "--rate", "1", "--count", "1", "-o", "t.csv"], ["exists already"]),
    "merged trace in the way": (["trace", "merge", "t.csv", "-o", "t.csv"], ["another file than t.csv"]),
    "merge with a trace that is none": (
        ["trace", "merge", "t.csv", "no.csv", "-o", "n.csv"],
        ["no.csv", "no such file"],
    ),
    "dwell without a unit": (
        ["trace", "mmpp", *MMPP[:4], "--quiet-dwell", "10", "--burst-dwell", "2s", "--count", 5, "-o", "n.csv"],
        ["--quiet-dwell", "no unit"],
    ),
    "burst that is none": (
        ["trace", "mmpp", "--quiet-rate", 9, "--burst-rate", 3, *MMPP[4:], "--count", 5, "-o", "n.csv"],
        ["fluidb: --burst-rate: expected at least the quiet rate 9, found 3"],
    ),
    "jitter without a unit": (
        ["trace", "cameras", *CAMERAS[:4], "--jitter", "5", "--count", 5, "-o", "n.csv"],
        ["--jitter", "no unit"],
    ),
    "hour of no day": (
        ["trace", "daily", *DAILY[:4], "--peak-hour", "25", "--count", 5, "-o", "n.csv"],
        ["fluidb: --peak-hour: expected", "from 0 to 24, found 25"],
    ),
    "rescaled to nothing": (["trace", "rescale", "t.csv", "-o", "n.csv"], ["expected --rate, --cv or both"]),
    "one request has no rate": (["trace", "rescale", "t.csv", "--rate", 2, "-o", "n.csv"], ["its rate is undefined"]),
    "one request has no gaps": (["trace", "rescale", "t.csv", "--cv", 2, "-o", "n.csv"], ["it has no gaps to change"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(fluidb: Run, tmp_path: Path, tiny_design: Path, case: str) -> None:
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    (tmp_path / "net.onnx").write_bytes(b"\xad")
    (tmp_path / "-n 1.onnx").touch()
    (tmp_path / "myboard.toml").write_text("")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    arguments, expected = BAD[case]
    shown = lines(fluidb(*[tiny_design if argument == "DESIGN" else argument for argument in arguments]))
    assert len(shown) == 1
    assert all(part in shown[0] for part in expected), shown
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [["dse"], ["dse", TINY], ["dse", TINY, POCKET, "--b-max", "0"], ["dse", TINY, POCKET, "--wat"], ["nonsense"],
     ["trace", "poisson", "--rate", "x", "--count", "1", "-o", "a"], ["dse", TINY, POCKET, "--batching", "x"],
        ["models", "--json", "show", TINY]],
)  # fmt: skip
def test_wrong_usage_is_told_without_a_traceback(fluidb: Run, arguments: list[str]) -> None:
    (found,) = lines(fluidb(*arguments))
    assert "--help)" in found


def test_every_fault_of_a_file_has_its_line(fluidb: Run, tmp_path: Path) -> None:
    text = Path(POCKET).read_text().replace("dsps = 24", "dsps = -24").replace("word_bits = 16", 'word_bits = "16"')
    (tmp_path / "b.toml").write_text(text)
    shown = lines(fluidb("dse", TINY, "b.toml"))
    assert shown == [
        "fluidb: b.toml: dsps: expected at least 1, found -24",
        'fluidb: b.toml: word_bits: expected a whole number, found "16"',
    ]


def test_a_board_too_small_for_any_design(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(Path(POCKET).read_text().replace("0.02", "0.00001"))
    (found,) = lines(fluidb("dse", TINY, "b.toml"))
    assert "no design fits" in found


def test_nothing_but_a_design_is_ever_replaced(fluidb: Run, tmp_path: Path) -> None:
    fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 2)
    (tmp_path / "d" / "notes.md").write_text("mine")
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for output, force, expected in (
        ("d", True, "holds notes.md, too"),
        ("link", True, "found a link"),
        ("dangling", False, "found a link"),
        ("pipe", False, "found a link, a pipe or a device"),
        ("n" * 300, False, "File name too long"),
    ):
        (found,) = lines(fluidb("dse", TINY, POCKET, "-o", output, "--b-max", 2, *(["--force"] if force else [])))
        assert expected in found
    assert (tmp_path / "d" / "notes.md").read_text() == "mine"


def test_an_output_that_appears_during_the_search_is_spared(tmp_path: Path) -> None:
    racing = RACE.replace("NETWORK", TINY).replace("BOARD", POCKET)
    done = subprocess.run([sys.executable, "-c", racing], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "exists already" in lines(done)[0]
    assert (tmp_path / "d" / "thesis.txt").read_text() == "years"


RACE = """
import sys
from pathlib import Path
from importlib import import_module
module = import_module("fluidb.dse.npu.search")

real = module.search
def slow(*arguments, **options):
    Path("d").mkdir()
    Path("d", "thesis.txt").write_text("years")
    return real(*arguments, **options)
module.search = slow

from fluidb.cli import main
sys.argv = ["fluidb", "dse", "NETWORK", "BOARD", "-o", "d", "--b-max", "2"]
main()
"""


FULL = "No space left on device"
NOT_WHOLE = "nothing was changed, but what went to standard output is not whole"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("models > /dev/full", f"fluidb: output: {FULL}"),
        ("--help > /dev/full", f"fluidb: output: {FULL}"),
        ("trace offline --count 9 -o - > /dev/full", f"fluidb: -: could not be written ({FULL}); {NOT_WHOLE}"),
        ("--version >&-", "fluidb: output: Bad file descriptor"),
        ("trace rescale - --rate 2 -o t.csv <&-", "fluidb: standard input: expected a header, found an empty file"),
    ],
)
def test_a_standard_stream_that_fails_is_one_line(tmp_path: Path, command: str, expected: str) -> None:
    """Of a full disk, or closed by the caller; Python keeps what it could not write, and tries again at its end."""
    usual = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        f"{FLUIDB} {command}", shell=True, cwd=tmp_path, env=usual, capture_output=True, text=True, check=False
    )
    assert lines(done) == [expected]


def test_without_stderr_a_command_does_its_work(tmp_path: Path) -> None:
    done = subprocess.run(f"{FLUIDB} trace offline --count 9 -o t.csv 2>&-", shell=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 10


@pytest.mark.parametrize(
    "command",
    [
        ["{}"],
        ["models", "{}"],
        ["dse", "{}", "zc706"],
        ["dse", TINY, "{}"],
        ["dse", TINY, POCKET, "--b-max", "{}"],
        ["dse", TINY, POCKET, "--objective", "{}"],
        ["dse", TINY, POCKET, "--{}"],
        ["latency", "{}"],
        ["serve-sim", ".", "--trace", "{}", "--seed", "{}"],
        ["trace", "poisson", "--rate", "{}", "--count", 5, "-o", "t.csv"],
        ["trace", "{}"],
    ],
)
@pytest.mark.parametrize("letter", ["x", "\u202e"])
def test_a_long_value_makes_no_long_message(fluidb: Run, command: list[object], letter: str) -> None:
    (line,) = lines(fluidb(*(str(part).format(5000 * letter) for part in command)))
    assert len(line) < 650


PLAN = """
schema = "fluidb.plan-scenario/1"
network = "resnet50"
platforms = ["{}"]
rate = 1
slo = "1s"
require = ["p99 <= 1 s"]
"""


@pytest.mark.parametrize(
    ("command", "text", "place"),
    [
        (
            ["calibrate", "dpu-b4096-kv260", "in.csv"],
            "network,latency_ms\n{},1\n",
            "in.csv: line 2: network: unknown network",
        ),
        (
            ["serve-sim", "in.toml", "--trace", "no.csv"],
            'schema = "fluidb.networks/1"\nnetworks = [{{ name = "a", table = "{}" }}]',
            'in.toml: networks[0] ("a"): ',
        ),
        (["plan", "in.toml"], PLAN, "unknown platform"),
    ],
)
def test_a_long_name_in_a_file_is_a_fault_with_its_place(
    fluidb: Run, tmp_path: Path, command: list[str], text: str, place: str
) -> None:
    """The system refuses to look for such a name, and its own words tell neither row nor key."""
    for name in ("in.csv", "in.toml"):
        (tmp_path / name).write_text(text.format(5000 * "x"))
    assert place in lines(fluidb(*command))[0]


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a table and make its checksum fit."""
    content = json.loads(path.read_text())
    del content["sha256"]
    change(content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


def _set(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("design.json", _set("ranking", 0, "T_R", value=2**70), "ranking[0].T_R"),
        ("design.json", _set("network", "layers", value=[]), "expected stages 1 to 3"),
        ("design.json", _set("network", "layers", 0, "stage", value=99), "expected stages 1 to 3"),
        ("design.json", _set("network", "layers", 0, "gemm", value=[2**20] * 4), "at most 8.8e+12 MACs"),
        ("design.json", _set("platform", "clock_mhz", value=1e-320), "platform.clock_mhz"),
        ("design.json", _set("network", "exits", value=[]), "network.exits"),
        ("design.json", _set("options", "b_max", value=10**6), "options.b_max"),
        ("fbcb.json", _set("b_max", value=10**5), "b_max"),
        ("latency.json", _set("b_max", value=10**5), "b_max"),
        ("latency.json", _set("layers", 0, "time_s", 0, value=1e308), "time_s[0]: expected"),
        ("latency.json", _set("layers", 0, "role", value="resume"), "a resume behind an exit, found one in stage 1"),
        ("latency.json", _set("layers", 0, "role", value="tail"), "'resume', found"),
        ("latency.json", _set("stage_s", value=[[[1.0] * 4] * 3]), "either layers or stage_s"),
        ("latency.json", _set("exits", 0, "rate", value=2.0), "exits[0]"),
        ("latency.json", _set("layers", value=[]), "either layers or stage_s"),
        ("latency.json", _set("peak_macs_per_s", value=1e-300), "peak_macs_per_s"),
    ],
)
def test_forged_tables_are_one_clear_line(
    fluidb: Run, tmp_path: Path, tiny_design: Path, name: str, change: Callable[[dict[str, Any]], None], expected: str
) -> None:
    shutil.copytree(tiny_design, tmp_path / "d")
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    forge(tmp_path / "d" / name, change)
    reader = ["serve-sim", "d", "--trace", "t.csv", "--slo", "1s"] if name == "latency.json" else ["latency", "d"]
    (found,) = lines(fluidb(*reader))
    assert found.startswith(f"fluidb: d/{name}: ")
    assert expected in found


def test_a_layer_too_large_to_be_exact_is_refused(fluidb: Run, tmp_path: Path) -> None:
    text = Path(TINY).read_text()
    (tmp_path / "n.toml").write_text(text.replace("height = 12, width = 12", "height = 16000000, width = 16000000"))
    shown = lines(fluidb("dse", "n.toml", POCKET))
    assert any("expected at most 8.8e+12 MACs or words" in line for line in shown)


def test_names_from_files_cannot_drive_the_terminal(fluidb: Run, tmp_path: Path) -> None:
    text = Path(POCKET).read_text().replace("Pocket board for tests", r"\u001b[2Jgone\u0007")
    (tmp_path / "b.toml").write_text(text)
    done = fluidb("platforms", "show", "b.toml")
    assert "\x1b" not in done.stdout
    assert r"\x1b[2Jgone\x07" in done.stdout


def test_force_replaces_a_design_and_makes_its_latency_table_go(fluidb: Run, tmp_path: Path) -> None:
    fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 2)
    fluidb("latency", "d")
    assert fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 3, "--force").returncode == 0
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["design.json", "fbcb.json"]
    assert read_design(tmp_path / "d")[0].options.b_max == 3


def test_stale_and_damaged_tables_are_refused(fluidb: Run, tmp_path: Path) -> None:
    for folder, b_max in (("a", 2), ("b", 3)):
        fluidb("dse", TINY, POCKET, "-o", folder, "--b-max", b_max)
        fluidb("latency", folder)
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    a, b = tmp_path / "a", tmp_path / "b"
    kept = {path.name: path.read_bytes() for path in a.iterdir()}

    def refusal() -> str:
        (found,) = lines(fluidb("serve-sim", "a", "--trace", "t.csv", "--slo", "1s"))
        return found

    for name, maker in (("design.json", "fluidb dse"), ("fbcb.json", "fluidb dse"), ("latency.json", "fluidb latency")):
        path = a / name
        path.write_bytes((b / name).read_bytes())
        assert "stale" in refusal(), name
        path.write_bytes(kept[name][:-100])
        assert f"a/{name}: damaged" in refusal()
        path.write_bytes(kept[name].replace(b"0", b"1", 1))
        assert f"a/{name}: damaged" in refusal()
        path.unlink()
        assert f"a/{name}: not there; make it with `{maker}`" in refusal()
        path.write_bytes(kept[name])
    assert fluidb("serve-sim", "a", "--trace", "t.csv", "--slo", "1s").returncode == 0


def test_json_goes_alone_to_stdout_and_nothing_to_stderr(fluidb: Run) -> None:
    done = fluidb("dse", TINY, POCKET, "-o", "d", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["output"] == "d"


@pytest.mark.parametrize(
    ("words", "counted", "last"),
    [
        (["dse", TINY, POCKET, "-o", "my design"], "designs", "wrote my design; next: fluidb latency 'my design'"),
        (["reproduce", "table1", "-o", "mine"], "items", "wrote mine/README.md"),
    ],
)
def test_a_terminal_sees_progress_and_the_next_step(start: Start, words: list[str], counted: str, last: str) -> None:
    master, slave = pty.openpty()
    running = start(*words, stderr=slave)
    os.close(slave)
    seen = b"".join(read_terminal(master)).decode()
    os.close(master)
    out, _ = running.communicate(timeout=180)
    assert running.returncode == 0
    assert counted in seen
    assert seen.endswith(f"{last}\r\n")
    assert f"{counted} " not in out


def test_a_reader_that_leaves_early_is_no_fault(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{FLUIDB} models show inception_v3 | head -1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


ENDLESS = """
import numpy as np
from numba import njit
@njit("(i8[::1],)", nogil=True)
def endless(numbers):
    while numbers[0] >= 0:
        numbers[0] ^= 1
"""
ENDLESS_SEARCH = f"""{ENDLESS}
from fluidb.cli import main
from fluidb.dse.npu.evaluation import Evaluator
Evaluator.cost = lambda *_, **options: endless(np.zeros(1, dtype=np.int64))
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_nothing(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-c", ENDLESS_SEARCH]
    running = start("dse", "resnet50", "zc706", "-o", "d", "--threads", 2, command=command, stderr=slave)
    os.close(slave)
    seen, pieces = b"", read_terminal(master)
    while seen.count(b"designs") < 5:  # the bar is drawn again and again while a kernel works that never ends
        seen += next(pieces)
    running.send_signal(number)
    out, _ = running.communicate(timeout=180)
    seen += b"".join(pieces)
    os.close(master)
    assert (running.returncode, out) == (128 + number, "")
    assert seen.endswith(b"fluidb: interrupted\r\n")
    assert list(tmp_path.iterdir()) == []


CTRL_C_WHILE_COMPILING = """
import gc, os, signal
import numba
from fluidb.cli.interrupt import leave, never_ignored
from llvmlite.binding import ffi
link, calls = ffi.lib.LLVMPY_LinkModules, []
def interrupted(*arguments):
    '''LLVM owns the second module now, and Python will free it once more unless it goes on.'''
    done = link(*arguments)
    calls.append(os.kill(os.getpid(), NUMBER) if not calls else None)
    return done
ffi.lib._fntab["LLVMPY_LinkModules"] = interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored
never_ignored()
try:
    numba.njit(lambda x: abs(x))(1)
    signal.pause()
except KeyboardInterrupt:
    pass
gc.collect()  # frees what was being compiled
leave()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_llvm_compiles_crashes_nothing(number: signal.Signals) -> None:
    """The worst moment; without care the process ends with SIGSEGV."""
    code = CTRL_C_WHILE_COMPILING.replace("NUMBER", str(int(number)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "fluidb: interrupted\n")


CTRL_C_IN_COMPILED_CODE = f"""{ENDLESS}
import os, signal
from threading import Timer
from fluidb.cli import interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored
interrupt.GRACE_S = 0.1
interrupt.never_late()
with interrupt.resumable(OUTPUT, "runs"):
    try:
        Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        endless(np.zeros(1, dtype=np.int64))
    except KeyboardInterrupt:  # a busy machine: it came before the compiled code
        endless(np.zeros(1, dtype=np.int64))
"""


@pytest.mark.parametrize(
    ("output", "kept"),
    [("None", ""), ("'d'", "; finished runs are kept in d, and the same command continues from them")],
)
def test_ctrl_c_ends_compiled_code_without_end(output: str, kept: str) -> None:
    command = [sys.executable, "-c", CTRL_C_IN_COMPILED_CODE.replace("OUTPUT", output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (130, f"fluidb: interrupted{kept}\n")


def test_a_title_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    title = "\u65e5\u672c\u8a9e"
    (tmp_path / "n.toml").write_text(Path(TINY).read_text().replace("Every operator once", title))
    for encoding, shown in (("latin-1", "\\u65e5\\u672c\\u8a9e"), ("utf-8", title)):
        done = subprocess.run(
            [FLUIDB, "models", "show", "n.toml"], cwd=tmp_path, capture_output=True, check=True,
            env=os.environ | {"PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert shown in done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("serve-sim d --trace t --seed x", '--seed: expected a whole number, found "x" (see fluidb serve-sim --help)'),
        ("trace gamma --rate 1..2", '--rate: expected a number, found "1..2" (see fluidb trace gamma --help)'),
        ("dse n b --top 0", '--top: expected at least 1, found "0" (see fluidb dse --help)'),
        ("serve-sim d --policy", "--policy: expected a value, found none (see fluidb serve-sim --help)"),
        ("capacity d --max-requests 9", "option --max-requests; did you mean --require? (see fluidb capacity --help)"),
        ("trace gamma --rate", "--rate: expected a value, found none (see fluidb trace gamma --help)"),
        ("dse a b --tile \u0661,2,3", 'expected whole numbers with commas between, found "\u0661,2,3"; e.g. 100,2,4'),
    ],
)
def test_a_fault_of_an_option_names_what_was_found_and_the_help_of_its_command(
    fluidb: Run, arguments: str, expected: str
) -> None:
    (line,) = lines(fluidb(*arguments.split()))
    assert line.endswith(expected)


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("rate: expected more than 0, found 0", "--rate: expected more than 0, found 0"),
        ("rate, count: at odds: each fits alone", "--rate, --count: at odds: each fits alone"),
        ("rate, cv: at odds", "rate, cv: at odds"),  # the command has no such option
        ("policy: admit: expected queue:N", "policy: admit: expected queue:N"),
        ("options: rate[2]: expected at least 1, found 0", "--rate: expected at least 1, found 0"),
        ("t.csv: rate: expected a number, found none", "t.csv: rate: expected a number, found none"),
        ("gap: rate: expected a number, found none", "gap: rate: expected a number, found none"),
    ],
)
def test_faults_that_begin_with_parameters_name_the_options_of_the_command(
    fluidb: Run, monkeypatch: pytest.MonkeyPatch, fault: str, shown: str
) -> None:
    def poisson(*_: object) -> None:
        raise InputError([fault, fault])

    monkeypatch.setattr(arrivals, "poisson", poisson)
    found = lines(fluidb("trace", "poisson", "--rate", 1, "--count", 2, "-o", "t.csv"))
    assert found == [f"fluidb: {shown}"] * 2


def test_faults_of_a_policy_name_the_options_that_set_its_parameters(fluidb: Run, tiny_design: Path) -> None:
    for option, value in (("--admit", "queue"), ("--on-deadline", "kill"), ("--between", "luck")):
        (found,) = lines(fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", option, value))
        assert found.startswith(f"fluidb: {option}: expected ")


def test_faults_name_options_as_they_are_typed_but_no_arguments(fluidb: Run) -> None:
    described = ("--columns", "arrival=at", "--unit", "h")
    (option,) = lines(fluidb("trace", "import", "csv", DATA / "duel.csv", "-o", "t.csv", *described))
    assert option.startswith("fluidb: --unit: expected")
    (argument,) = lines(fluidb("samples", "generate", "nope", "--network", TINY, "-o", "s.npz"))
    assert argument.startswith("fluidb: preset: expected")


CTRL_C_IN_A_DESTRUCTOR = """
import os, signal, time
from fluidb.cli.interrupt import leave, never_ignored
class Object:
    def __del__(self):
        os.kill(os.getpid(), signal.NUMBER)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored
never_ignored()
try:
    Object()
    time.sleep(60)
except KeyboardInterrupt:
    leave("left")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_where_python_ignores_exceptions(number: signal.Signals) -> None:
    command = [sys.executable, "-c", CTRL_C_IN_A_DESTRUCTOR.replace("NUMBER", number.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (128 + number, "fluidb: left\n")


def test_memory_that_runs_out_is_one_line(fluidb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 8.00 TiB")

    monkeypatch.setattr("fluidb.dse.npu.search.Evaluator.cost", full)
    (line,) = lines(fluidb("dse", TINY, POCKET, "-o", "d"))
    assert line == (
        "fluidb: expected enough memory, found too little (Unable to allocate 8.00 TiB); "
        "use fewer requests, samples or designs"
    )


@pytest.mark.parametrize("force", [False, True])
def test_killed_in_mid_write_leaves_a_whole_design_or_none(fluidb: Run, tmp_path: Path, force: bool) -> None:
    """The process dies at each step to the disk in turn; what is read afterwards is whole."""
    folders = {tmp_path / str(step): step for step in range(5)}
    for folder in folders:
        folder.mkdir()
        if force:
            assert fluidb("dse", TINY, POCKET, "-o", folder / "d", "--b-max", 2).returncode == 0
    command = ["dse", TINY, POCKET, "-o", "d", "--b-max", 3, *(["--force"] if force else [])]
    assert killed(folders, *command) == [-signal.SIGKILL] * 4 + [0]
    for folder, step in folders.items():
        try:
            design, fbcb = read_design(folder / "d")
        except InputError as error:
            assert not force, error
            assert not (folder / "d").exists()
        else:
            assert design.options.b_max == fbcb.b_max == (3 if step >= 3 else 2)
        assert fluidb("dse", TINY, POCKET, "-o", folder / "d", "--force", "--b-max", 1).returncode == 0


def test_killed_in_mid_write_of_a_latency_table(fluidb: Run, tmp_path: Path) -> None:
    fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 3)
    assert killed({tmp_path: 0}, "latency", "d") == [-signal.SIGKILL]
    with pytest.raises(InputError, match="not there"):
        read_latency(tmp_path / "d")
    assert fluidb("latency", "d").returncode == 0


def test_version(installed: Run) -> None:
    assert installed("--version").stdout == "fluidb 0.3.0\n"
    done = subprocess.run([sys.executable, "-m", "fluidb", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "fluidb 0.3.0\n"


def test_help_and_version_have_short_forms(fluidb: Run) -> None:
    assert fluidb("-V").stdout == fluidb("--version").stdout
    for command in ([], ["dse"], ["trace", "poisson"]):
        page = fluidb(*command, "--help").stdout
        assert page.startswith(f"Usage: {' '.join(['fluidb', *command])} ")
        assert fluidb(*command, "-h").stdout == fluidb("help", *command).stdout == page


GROUPS = ["", "trace", "models", "platforms"]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_every_command_stands_whole_in_the_list(
    fluidb: Run, monkeypatch: pytest.MonkeyPatch, group: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    page = fluidb(*group.split(), "--help").stdout
    listed = page.split("Commands:\n" if group else "Show this message and exit.\n", maxsplit=1)[1].splitlines()
    assert listed
    assert [line for line in listed if line.endswith("...")] == []


def test_the_list_of_commands_says_of_each_what_its_own_help_says(fluidb: Run) -> None:
    """The list is printed without an import of the commands, so that it repeats the first line of their help."""
    for name, (_, summary) in COMMANDS.items():
        page = fluidb(name, "--help").stdout
        assert page.splitlines()[2].strip() == summary


def test_a_search_takes_the_same_options_in_every_command(fluidb: Run) -> None:
    """They are declared once; `plan` simulates the traffic, so it needs no weights."""
    options = {}
    for command in ("dse", "pareto", "plan"):
        page = fluidb(command, "--help").stdout
        options[command] = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", page, flags=re.MULTILINE))
    space = {"batching", "stacking", "b-max", "bandwidth", "max-dsp", "max-ram", "max-lut"}
    assert space <= options["plan"]
    assert space | {"weights", "objective"} <= options["dse"] & options["pareto"]
    assert not {"weights", "objective"} & options["plan"]


# completion and documentation


@pytest.mark.parametrize(
    ("typed", "word", "offered"),
    [
        ("fluidb d", 1, "dse\ndocs\n"),
        ("fluidb trace p", 2, "poisson\n"),
        ("fluidb dse --batching ", 3, "fluid\nrow\ncolumn\nfc\nnone\n"),
    ],
)
def test_the_shell_completes_what_was_typed(
    fluidb: Run, monkeypatch: pytest.MonkeyPatch, typed: str, word: int, offered: str
) -> None:
    monkeypatch.setenv("_FLUIDB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(word))
    assert fluidb().stdout == offered


def test_docs_lists_and_shows_the_pages(fluidb: Run) -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    listed = fluidb("docs").stdout.splitlines()[2:]
    assert [line.split()[0] for line in listed] == sorted(pages)
    assert fluidb("docs", "policies").stdout == pages["policies"]
    assert fluidb("docs", "docs/policies.md").stdout == pages["policies"]
    (line,) = lines(fluidb("docs", "polices"))
    assert line.endswith('found "polices"; did you mean policies?')


def test_a_table_folds_at_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has the first column, no line is wider than the terminal, and elsewhere the table is whole."""
    headers, rows = ["name", "first", "second", "third"], [["a", "1", "22", "333"], ["b", "4444", "5", "6"]]
    whole = render.table(headers, rows)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "25")
    assert render.table(headers, rows) == (
        "name      first    second\n------  -------  --------\na             1        22\nb          4444         5"
        "\n\nname      third\n------  -------\na           333\nb             6"
    )
    monkeypatch.setenv("COLUMNS", "80")
    assert render.table(headers, rows) == whole
    for columns in range(17, 40):  # 16 are the first column beside the widest one
        monkeypatch.setenv("COLUMNS", str(columns))
        folded = render.table(headers, rows)
        assert max(map(len, folded.splitlines())) <= columns
        assert (folded == whole) == (columns >= max(map(len, whole.splitlines())))
    monkeypatch.setenv("COLUMNS", "3")  # a column is never split
    assert render.table(headers, rows).count("name") == 3


def test_long_values_fold_between_words_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In facts and in cells of tables; elsewhere each is in one line, which scripts read."""
    words = "one two-three <4,5> four-five six seven eight nine ten eleven twelve"
    assert render.facts({"a": words, "long name": "x"}).splitlines()[0] == f"a          {words}"
    whole = render.table(["key", "text"], [["a", words]], text=True)
    assert words in whole
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for columns in range(32, 90):
        monkeypatch.setenv("COLUMNS", str(columns))
        for text, first in (
            (render.facts({"a": words, "long name": "x"}).removesuffix("\nlong name  x"), "a"),
            (render.table(["key", "text"], [["a", words]], text=True).split("\n", 2)[2], "a"),
        ):
            assert max(map(len, text.splitlines())) <= columns
            assert text.split() == [first, *words.split()]
            (indent,) = {len(line) - len(line.lstrip()) for line in text.splitlines()[1:]} or {0}
            assert indent in (0, 11, 7)
            assert text.count("\n") <= len(words) // (columns - 11) + 1


@pytest.mark.parametrize(
    ("joules", "text"), [(1.2346e-5, "0.01235 mJ"), (4.2424, "4,242 mJ"), (9.9999, "10,000 mJ"), (42.424, "42,424 mJ")]
)
def test_energies_are_shown_without_an_exponent(joules: float, text: str) -> None:
    assert render.quantity(joules, "J") == text


@pytest.mark.parametrize("nothing", [-0.0, -1e-9])
def test_nearly_nothing_has_no_sign(nothing: float):
    assert render.percent(nothing) == "0.00 %"
    assert _POINTS.number(nothing) == "0.00"
    assert _POINTS.number(nothing, "+") == "+0.00"
