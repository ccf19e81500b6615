"""Two designs side by side, and the table by layer of one, through the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from builders import POCKET, TINY, Run, lines
from fluidb.dse import explain, read_design


@pytest.fixture
def pair(fluidb: Run, tmp_path: Path, tiny_design: Path) -> tuple[str, str]:
    """The tiny design, and one on half the DSPs."""
    (tmp_path / "one").symlink_to(tiny_design)
    assert fluidb("dse", TINY, POCKET, "--b-max", 4, "--max-dsp", "50%", "-o", "half").returncode == 0
    return "one", "half"


def test_what_differs_stands_in_a_table_and_the_rest_above(fluidb: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    done = fluidb("compare", *pair)
    assert (done.returncode, done.stderr) == (0, "")
    same, differ = done.stdout.split("\n\n")
    assert same.splitlines()[0].split() == ["network", "tiny"]
    lines = {line.split("  ")[0]: line.split() for line in differ.splitlines()}
    designs = [read_design(tmp_path / folder)[0] for folder in pair]
    tiles = [design.tile for design in designs]
    assert lines["design"][1:] == [word for tile in tiles for word in (tile.names, "=", str(tile))]
    assert lines["DSPs"][1::3] == [f"{design.dsps:,}" for design in designs]


def test_designs_of_three_and_of_five_numbers_share_a_row(fluidb: Run, pair: tuple[str, str]) -> None:
    assert fluidb("dse", TINY, POCKET, "--b-max", 4, "--pixels", "2", "-o", "wide").returncode == 0
    done = fluidb("compare", "one", "wide")
    (row,) = [line for line in done.stdout.splitlines() if "<" in line]
    assert row.startswith("design ")
    assert [part for part in row.split() if part.endswith(",V>")]


def test_json_has_each_design_with_its_latencies(fluidb: Run, pair: tuple[str, str]) -> None:
    record = json.loads(fluidb("compare", *pair, "--json").stdout)
    assert record["schema"] == "fluidb.compare-designs-output/1"
    assert [design["design"] for design in record["designs"]] == list(pair)
    for design in record["designs"]:
        alone = json.loads(fluidb("latency", design["design"], "--json").stdout)
        assert len(design["latency_s"]) == len(design["exits"]) == len(alone["exits"])
        assert {len(times) for times in design["latency_s"]} == {4}
        assert design["latency_s"][-1] == sorted(design["latency_s"][-1])
        assert design["T_P"] * design["T_C"] == (design["dsp_share"] * 24)


def test_one_design_against_itself_does_not_differ(fluidb: Run, pair: tuple[str, str]) -> None:
    assert fluidb("compare", pair[0], pair[0]).stdout.endswith("the designs do not differ\n")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["one"], "one: expected a scenario, or two folders of designs, found one folder"),
        (["one", "nowhere"], "nowhere: expected the folder of a design, found none"),
        (["one", "half", "--threads", "2"], "--threads: an option with a scenario, found designs; leave it out"),
        (["one", "half", "-o", "kept"], "--output: an option with a scenario, found designs; leave it out"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    fluidb: Run, pair: tuple[str, str], arguments: list[str], fault: str
) -> None:
    assert pair
    assert lines(fluidb("compare", *arguments))[0].startswith(f"fluidb: {fault}")


def test_the_table_by_layer_is_written_as_csv(fluidb: Run, tiny_design: Path, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tiny_design)
    assert fluidb("explain", "one", "-o", "layers.csv").returncode == 0
    explanation = explain(*read_design(tiny_design))
    with (tmp_path / "layers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == explanation.time_s.size
    columns = explanation.columns()
    for i, row in enumerate(rows):
        assert list(row) == list(columns)
        assert row["layer"] == columns["layer"][i]
        assert (row["k"], row["B_R"]) == (str(columns["k"][i]), str(columns["B_R"][i]))
        assert float(row["time_s"]) == columns["time_s"][i]
        assert float(row["dram_bytes"]) == columns["dram_bytes"][i]
    assert fluidb("explain", "one", "-o", "layers.csv").returncode == 2  # it exists
