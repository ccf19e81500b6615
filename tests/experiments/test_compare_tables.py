"""`fluidb compare` on latency tables: in place of an NPU that is searched, the table of any device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import Run, lines, supernet_table, table_of, trace_of
from fluidb.experiments import load_scenario
from fluidb.experiments.comparison import compare
from fluidb.formats import InputError, write_table
from fluidb.tables import LatencyTable
from fluidb.traffic import write_trace

SCENARIO = """\
schema = "fluidb.scenario/1"
title = "SubNets"
requests = 60
seeds = [1, 2]
baseline = "no buffer"

contenders = [
  { name = "no buffer", policy = "sushi:mode=accuracy,graph=0" },
  { name = "sushi", policy = "sushi:mode=accuracy,q=2" },
]

[[cases]]
table = "nets"
slos = ["9s"]
rates = [0.3]
min_accuracy = "uniform:0.4,1.0"
"""

SUBNETS = ["served_accuracy", "accuracy_miss_rate", "hit_ratio", "off_chip_bytes", "off_chip_energy_j"]


def subnets(energy: float = 1e-10) -> LatencyTable:
    return supernet_table(
        [[1.0, 0.5, 0.75], [4.0, 3.0, 2.0]], [0.5, 1.0], [[1, 1], [8, 8]], [[0, 0], [1, 1], [7, 7]],
        hit_ratio=[[0.0, 0.0], [1.0, 0.5], [0.5, 0.75]], off_chip_bytes=[[4e6, 9e6], [2e6, 7e6], [3e6, 5e6]],
        joules_per_byte=energy,
    )  # fmt: skip


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "nets").mkdir()
    write_table(subnets(), tmp_path / "nets" / "latency.json")
    (tmp_path / "mine.toml").write_text(SCENARIO)
    return tmp_path / "mine.toml"


def edited(scenario: Path, *edits: tuple[str, str]) -> Path:
    text = scenario.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    scenario.write_text(text)
    return scenario


def test_every_figure_of_subnets_is_that_of_a_single_replay(fluidb: Run, scenario: Path):
    """Seed 1: the same arrivals, accuracies and figures as poisson, trace add and serve-sim."""
    found = json.loads(fluidb("compare", "mine.toml", "--json").stdout)
    (point,) = found["points"]
    assert [point[key] for key in ("case", "network", "platform", "bandwidth_gb_s")] == ["nets", "super", "chip", None]
    assert point["min_accuracy"] == "uniform:0.4,1.0"
    assert [item["engine"] for item in found["contenders"]] == [None, None]
    fluidb("trace", "poisson", "--rate", 0.3, "--count", 60, "--seed", 1, "-o", "p.csv")
    fluidb("trace", "add", "p.csv", "--min-accuracy", "uniform:0.4,1.0", "--seed", 1, "-o", "q.csv")
    command = ["serve-sim", "nets", "--trace", "q.csv", "--slo", "9s", "--policy", "sushi:mode=accuracy,q=2"]
    alone = json.loads(fluidb(*command, "--json").stdout)
    standing = point["contenders"][1]
    assert standing["design"] is None
    assert standing["metrics"]["mean_latency_s"]["seeds"]["1"] == alone["mean_latency_s"]
    for name in SUBNETS:
        assert standing["metrics"][name]["seeds"]["1"] == pytest.approx(alone["subnets"][name], rel=1e-6)
        assert name in standing["differences"]
    assert "mac_share" not in standing["metrics"]  # the table states no MACs


def test_runs_are_kept_until_the_table_changes(fluidb: Run, scenario: Path):
    first = fluidb("compare", "mine.toml", "-o", "kept", "--plot", "c.svg")
    assert first.returncode == 0, first.stderr
    assert "NPU" not in first.stdout
    for heading in ("SubNets' accuracy %", "less accurate %", "hits %", "off chip MB", "energy mJ"):
        assert heading in first.stdout
    assert fluidb("report", "kept", "-o", "r.html").returncode == 0
    page = (scenario.parent / "r.html").read_text()
    for title in ("SubNets' accuracy, %", "Less accurate, %", "Hits, %", "Off chip, MB", "Energy, mJ"):
        assert f">{title}<" in page
    folder = scenario.parent / "kept"
    assert compare(load_scenario(str(scenario)), folder)[1] == 4
    write_table(subnets(energy=2e-10), scenario.parent / "nets" / "latency.json")
    assert compare(load_scenario(str(scenario)), folder)[1] == 0
    assert len(list((folder / "runs").iterdir())) == 8


def test_what_got_worse_is_told_of_subnets_too(fluidb: Run, scenario: Path):
    fluidb("compare", "mine.toml", "-o", "kept")
    earlier = json.loads((scenario.parent / "kept" / "compare.json").read_text())
    moved = earlier["points"][0]["contenders"][1]["metrics"]["off_chip_bytes"]
    moved["seeds"] = {seed: 0.5 * value for seed, value in moved["seeds"].items()}
    del earlier["points"][0]["contenders"][0]["metrics"]["hit_ratio"]  # what one has not is not judged
    (scenario.parent / "e.json").write_text(json.dumps(earlier))
    done = fluidb("compare", "mine.toml", "--against", "e.json")
    assert done.returncode == 1, done.stderr
    assert "17 figures, seed by seed" in done.stdout
    assert "off chip MB" in done.stdout.split("got worse")[1]


def test_a_table_stands_beside_boards(scenario: Path):
    board = '\n[[cases]]\nnetwork = "resnet50"\nplatform = "zc706"\nslos = ["1s"]\nrates = [1.0]\n'
    scenario.write_text(scenario.read_text() + board)
    points = load_scenario(str(scenario)).points
    assert [point.site.keys.label for point in points] == ["nets", "resnet50 on zc706"]
    assert [len(point.site.exits) for point in points] == [1, 4]


TABLE, BOARD = 'table = "nets"', 'network = "resnet50"\nplatform = "zc706"'
EITHER = "cases[0]: expected network and platform, or table alone, found "

FAULTS = {
    "board beside table": (TABLE, f'{TABLE}\nplatform = "zc706"', f"{EITHER}platform, table"),
    "bandwidth of a table": (TABLE, f'{TABLE}\nbandwidth = "1GB/s"', f"{EITHER}bandwidth, table"),
    "neither": (TABLE, "", f"{EITHER}none of them"),
    "network alone": (TABLE, 'network = "resnet50"', f"{EITHER}network"),
    "no such table": ('"nets"', '"nests"', "cases[0].table: "),
    "accuracy": ("uniform:0.4,1.0", "uniform:0.4", "min_accuracy: expected uniform:LOW,HIGH"),
    "accuracy above 1": ("uniform:0.4,1.0", "uniform:0.4,70", "min_accuracy: expected values from 0 to 1, found 70"),
    "accuracy of one network": ('"nets"', '"one"', "cases[0].min_accuracy: expected a table with SubNets, found one"),
    "accuracy on a board": (TABLE, BOARD, "cases[0].min_accuracy: expected it with the key table, found it with"),
    "accuracy twice": ("rates = [0.3]", 'trace = "q.csv"', "expected no column min_accuracy beside that key"),
    "engine of a table": (
        'q=2" }',
        'q=2", engine = { b_max = 2 } }',
        'engine of contender "sushi", found tables',
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(scenario: Path, case: str):
    old, new, expected = FAULTS[case]
    (scenario.parent / "one").mkdir()
    write_table(table_of([[1.0]]), scenario.parent / "one" / "latency.json")
    write_trace(replace(trace_of([0.0, 1.0]), min_accuracy=np.array([0.5, 0.5])), scenario.parent / "q.csv")
    with pytest.raises(InputError) as caught:
        load_scenario(str(edited(scenario, (old, new))))
    assert all(line.startswith(f"{scenario}: ") for line in caught.value.faults)
    assert any(expected in line for line in caught.value.faults), caught.value.faults


def test_a_policy_that_does_not_fit_names_its_case(fluidb: Run, scenario: Path):
    edited(scenario, ('"sushi:mode=accuracy,q=2"', '"sushi:graph=7"'))
    (found,) = lines(fluidb("compare", "mine.toml"))
    assert found.startswith('fluidb: case "nets", contender "sushi": policy sushi:graph=7: ')
