"""`fluidb compare` on latency tables: in place of an NPU that is searched, the table of any device."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import Run, lines, supernet_table, table_of, trace_of, with_variants
from fluidb.formats import InputError, write_table
from fluidb.models import Exit
from fluidb.serving import Requests, prepare_requests
from fluidb.studies import load_scenario
from fluidb.studies.comparison import compare
from fluidb.studies.scenario import Served
from fluidb.studies.scenario_file import DRAWN
from fluidb.studies.store import traffic
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
    record = json.loads(fluidb("compare", "mine.toml", "--json").stdout)
    (point,) = record["points"]
    assert [point[key] for key in ("case", "network", "platform", "bandwidth_gb_s")] == ["nets", "super", "chip", None]
    assert point["min_accuracy"] == "uniform:0.4,1.0"
    assert [contender["engine"] for contender in record["contenders"]] == [None, None]
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


def test_requests_have_the_columns_that_trace_add_draws(fluidb: Run, tmp_path: Path):
    """Widths, steps and predictions of seed 1; a run depends on how each of them is drawn."""
    repeating = [Exit(name="encoder", rate=0.0), Exit(name="words", rate=1.0, steps=5)]
    (tmp_path / "translate").mkdir()
    table = with_variants([[0.02, 0.03], [0.03, 0.04]], widths=[9.0, 3.0], exits=repeating)
    write_table(table, tmp_path / "translate" / "latency.json")
    drawn = f"{BOTH}\npredict_width = 0.6\npredict_depth = 0.7"
    alike = '"batchcond:similar=width"'
    text = SCENARIO.replace('"nets"', '"translate"').replace('min_accuracy = "uniform:0.4,1.0"', drawn)
    for policy in ("sushi:mode=accuracy,graph=0", "sushi:mode=accuracy,q=2"):
        text = text.replace(f'"{policy}"', alike)
    (tmp_path / "mine.toml").write_text(text)
    record = json.loads(fluidb("compare", "mine.toml", "--json").stdout)
    (point,) = record["points"]
    assert point["width"] == "shares:2=0.5,9=0.5"
    assert point["steps"] == "ratio=0.5,absolute=1,high=5"
    assert (point["predict_width"], point["predict_depth"]) == (0.6, 0.7)
    fluidb("trace", "poisson", "--rate", 0.3, "--count", 60, "--seed", 1, "-o", "p.csv")
    columns = ["--width", point["width"], "--steps", point["steps"], "--predict-width", 0.6]
    fluidb("trace", "add", "p.csv", *columns, "--seed", 1, "-o", "q.csv")
    command = ["serve-sim", "translate", "--trace", "q.csv", "--slo", "9s", "--policy", "batchcond:similar=width"]
    alone = json.loads(fluidb(*command, "--seed", 1, "--predict-depth", 0.7, "--json").stdout)
    assert point["contenders"][0]["metrics"]["mean_latency_s"]["seeds"]["1"] == alone["mean_latency_s"]
    point = load_scenario(str(tmp_path / "mine.toml")).points[0]
    assert isinstance(point.site.on, Served)
    served = traffic(point, point.site.on.networks, 1).whole
    expected = Requests(trace=tmp_path / "q.csv", slo_s=9.0, seed=1, predict_depth=0.7)
    wanted = prepare_requests(point.site.on.networks, expected, expected.read()).whole
    for name in ("width", "steps", "predicted_width", "predicted_depth"):
        assert np.array_equal(served.trace.arrays()[name], wanted.trace.arrays()[name]), name
    text = fluidb("compare", "mine.toml").stdout
    for line in ("steps +ratio=0.5,absolute=1,high=5", "predicted width +correlation 0.6"):
        assert re.search(f"^{line}$", text, re.MULTILINE)


def test_requests_may_have_objectives_of_their_own(fluidb: Run, scenario: Path):
    """Objectives drawn with shares, or the trace's: violations as of a single replay."""
    edited(scenario, ('slos = ["9s"]', 'slo = "shares:2s=0.75,40s=0.25"'))
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    assert (point["slo_s"], point["slo"]) == (None, "shares:2s=0.75,40s=0.25")
    fluidb("trace", "poisson", "--rate", 0.3, "--count", 60, "--seed", 1, "-o", "p.csv")
    columns = ["--slo", point["slo"], "--min-accuracy", point["min_accuracy"]]
    fluidb("trace", "add", "p.csv", *columns, "--seed", 1, "-o", "q.csv")
    command = ["serve-sim", "nets", "--trace", "q.csv", "--policy", "sushi:mode=accuracy,q=2", "--json"]
    alone = json.loads(fluidb(*command).stdout)["violation_rate"]
    assert 0 < alone < 1
    assert point["contenders"][1]["metrics"]["violation_rate"]["seeds"]["1"] == alone
    text = fluidb("compare", "mine.toml", "-o", "kept", "--plot", "c.svg").stdout
    assert re.search(r"^SLOs +shares:2s=0.75,40s=0.25$", text, re.MULTILINE)
    assert re.search(r"^sushi +own +0.3 ", text, re.MULTILINE)
    assert fluidb("report", "kept", "-o", "r.html").returncode == 0
    assert "SLOs shares:2s=0.75,40s=0.25, 0.3 /s" in (scenario.parent / "r.html").read_text()
    asked = 'rates = [0.3]\nmin_accuracy = "uniform:0.4,1.0"'
    edited(scenario, ('slo = "shares:2s=0.75,40s=0.25"\n', ""), (asked, 'trace = "q.csv"'))
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    assert (point["slo_s"], point["slo"]) == (None, None)
    assert set(point["contenders"][1]["metrics"]["violation_rate"]["seeds"].values()) == {alone}
    assert fluidb("compare", "mine.toml", "--plot", "t.svg").returncode == 0
    assert "SLOs of its trace" in (scenario.parent / "t.svg").read_text()


def test_a_run_depends_on_every_key_that_says_what_is_drawn(scenario: Path):
    keys = load_scenario(str(scenario)).points[0].site.keys
    other = {
        "cv": 2.0, "offline": True, "slo": "uniform:1s,2s", "width": "shares:1=1", "steps": "ratio=2",
        "min_accuracy": "0.5", "predict_depth": 0.5, "predict_width": 0.5,
    }  # fmt: skip
    assert set(other) == set(DRAWN)
    for name, value in other.items():
        changed = keys.model_copy(update={name: value}).drawn
        assert {key for key in changed if changed[key] != keys.drawn[key]} == {name}


def test_runs_are_kept_until_the_table_changes(fluidb: Run, scenario: Path):
    first = fluidb("compare", "mine.toml", "-o", "kept", "--plot", "c.svg")
    assert first.returncode == 0, first.stderr
    assert "NPU" not in first.stdout
    for heading in ("SubNets' accuracy %", "less accurate %", "hits %", "off chip MB", "energy off chip mJ"):
        assert heading in first.stdout
    assert fluidb("report", "kept", "-o", "r.html").returncode == 0
    page = (scenario.parent / "r.html").read_text()
    for title in ("SubNets' accuracy, %", "Less accurate, %", "Hits, %", "Off chip, MB", "Energy off chip, mJ"):
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

WIDTH = 'width = "shares:2=0.5,9=0.5"'
BOTH = f'{WIDTH}\nsteps = "ratio=0.5,absolute=1,high=5"'

FAULTS = {
    "board beside table": (TABLE, f'{TABLE}\nplatform = "zc706"', f"{EITHER}platform, table"),
    "bandwidth of a table": (TABLE, f'{TABLE}\nbandwidth = "1GB/s"', f"{EITHER}bandwidth, table"),
    "neither": (TABLE, "", f"{EITHER}none of them"),
    "network alone": (TABLE, 'network = "resnet50"', f"{EITHER}network"),
    "no such table": ('"nets"', '"nests"', "cases[0].table: "),
    "accuracy": ("uniform:0.4,1.0", "uniform:0.4", "min_accuracy: expected uniform:LOW,HIGH"),
    "accuracy above 1": ("uniform:0.4,1.0", "uniform:0.4,70", "min_accuracy: expected values from 0 to 1, found 70"),
    "accuracy of one network": ('"nets"', '"one"', "cases[0].min_accuracy: expected a table with SubNets, found one"),
    "accuracy on a board": (TABLE, BOARD, "cases[0].min_accuracy: expected a table with SubNets, found one"),
    "accuracy twice": (
        "rates = [0.3]",
        'trace = "q.csv"',
        "cases[0]: min_accuracy: expected no column min_acc",
    ),
    "steps of no width": ("rates", 'steps = "ratio=1"\nrates', "cases[0]: steps: expected widths, which steps follow"),
    "steps of each stage": ("rates", f"{BOTH}\nrates", "cases[0].steps: expected a network whose last stage repeats"),
    "width of one width": ("rates", f"{WIDTH}\nrates", "cases[0].width: expected a table with widths, or steps"),
    "SLOs twice": (
        "rates",
        'slo = "list:1s,2s"\nrates',
        "expected slos, slo or a trace with a column slo_s, found slos",
    ),
    "no SLOs": ('slos = ["9s"]\n', "", "expected slos, slo or a trace with a column slo_s, found none"),
    "no SLOs in a trace": (
        'slos = ["9s"]\nrates = [0.3]\nmin_accuracy = "uniform:0.4,1.0"',
        'trace = "q.csv"',
        "expected a column slo_s, or the key slos or slo, found none of them",
    ),
    "no SLO": ('slos = ["9s"]', 'slo = "shares:1s"', 'slo: expected key=number, found "1s"'),
    "no widths": ("rates", 'width = "64"\nrates', "width: expected lognormal:... or shares:..., found"),
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
