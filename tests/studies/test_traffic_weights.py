"""Weights from traffic against plain loops, and results that cannot be weights."""

from __future__ import annotations

import json
from pathlib import Path

import naive
import pytest
from builders import POCKET, TINY, Run, any_gemm, board_of, call_fluidb, lines, network_of, paper_options
from fluidb.dse import Objective, Workload, search
from fluidb.formats import InputError
from fluidb.tables.launches import launches_of, read_launches
from fluidb.traffic import poisson, write_trace
from hypothesis import given, settings
from hypothesis import strategies as st

counts = st.lists(st.integers(0, 50), min_size=3, max_size=3).map(lambda row: [float(n) for n in row])


@settings(max_examples=15)
@given(st.lists(any_gemm, min_size=2, max_size=3), st.lists(counts, min_size=2, max_size=2), st.integers(0, 400))
def test_the_design_for_a_traffic_is_that_of_brute_force(gemms, launches, memory_words):
    """Operations of all runs over their time, stage by stage; the last stage pools."""
    if not any(map(any, launches)):
        launches[0][0] = 1.0
    board, stages = board_of(9), [1] + [2] * (len(gemms) - 1)
    network = network_of(gemms, memory_words, stages)
    found = search(network, board, paper_options(b_max=3, objective=Objective.TRAFFIC, launches=launches)).best
    parts = ((gemms[:1], 0), (gemms[1:], memory_words))

    def rate(tile):
        operations = seconds = 0.0
        for (part, words), row in zip(parts, launches, strict=True):
            for b, runs in enumerate(row, 1):
                cycles = naive.network_cycles(part, words, tile, b, board.words_per_cycle, "fluid", True)
                operations += runs * b * sum(2 * R * P * C * groups for R, P, C, groups in part)
                seconds += runs * cycles / board.clock_hz
        return operations / seconds / 1e9

    tiles = naive.all_designs(board.dsps, board.on_chip_bits, 16)
    assert found.objective == pytest.approx(max(map(rate, tiles)), rel=1e-12)
    assert rate(tuple(found.tile)) == pytest.approx(found.objective, rel=1e-12)


@settings(max_examples=10)
@given(st.lists(any_gemm, min_size=3, max_size=3), st.lists(counts, min_size=3, max_size=3))
def test_the_design_for_the_traffic_of_two_networks_is_that_of_brute_force(gemms, launches):
    """Operations of all runs of both, over their time; the first network has two stages."""
    launches[0][1] += 1.0
    board = board_of(9)
    first, second = network_of(gemms[:2], 0, [1, 2]), network_of(gemms[2:]).model_copy(update={"name": "other"})
    options = paper_options(b_max=3, objective=Objective.TRAFFIC, launches=launches)
    found = search(Workload.of([first, second], [5, 1]), board, options).best

    def rate(tile):
        operations = seconds = 0.0
        for gemm, row in zip(gemms, launches, strict=True):
            for b, runs in enumerate(row, 1):
                cycles = naive.network_cycles([gemm], 0, tile, b, board.words_per_cycle, "fluid", True)
                operations += runs * b * 2 * gemm[0] * gemm[1] * gemm[2] * gemm[3]
                seconds += runs * cycles / board.clock_hz
        return operations / seconds / 1e9

    assert found.objective == pytest.approx(max(map(rate, naive.all_designs(9, board.on_chip_bits, 16))), rel=1e-12)
    assert rate(tuple(found.tile)) == pytest.approx(found.objective, rel=1e-12)


def test_layer_by_layer_a_stage_counts_as_often_as_its_layers_on_average():
    class Stage:
        segments, runs_by_batch = 4, [8, 2]

    assert launches_of([Stage()]) == [[2.0, 0.5]]


@pytest.fixture(scope="session")
def results(tiny_design: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a simulation of the design with all weights 1 prints."""
    folder = tmp_path_factory.mktemp("results")
    write_trace(poisson(9000, 300, 1), folder / "t.csv")
    return call_fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms", "--json", cwd=folder).stdout


@pytest.fixture
def first(results: str, tmp_path: Path) -> Path:
    """A folder with a trace, and results.json of a design with all weights 1."""
    write_trace(poisson(9000, 300, 1), tmp_path / "t.csv")
    (tmp_path / "results.json").write_text(results)
    return tmp_path


def test_a_search_with_the_weights_of_results(first: Path, fluidb: Run):
    asked = ["dse", TINY, POCKET, "--b-max", 4, "--weights", "results.json", "--json"]
    record = json.loads(fluidb(*asked).stdout)
    assert record["options"]["objective"] == "traffic"
    assert record["objective"] >= json.loads(fluidb(*asked, "--tile", "10,2,4").stdout)["objective"]


OTHER = """
schema = "fluidb.network/1"
name = "other"
title = "One layer"
input = { height = 12, width = 12, channels = 3 }
layers = [{ name = "conv", op = "conv", out = 8, kernel = 3 }]
[sources]
all = "made up for tests"
"""

FAULTS = {
    "no file": ([], "none.json", "none.json: expected the results of a simulation, found no such file; make it with"),
    "no JSON": ([("{", "")], "results.json", "results.json: no JSON"),
    "other schema": (
        [("serve-sim-output/1", "dse-output/2")],
        "results.json",
        'results.json: expected schema "fluidb.serve-sim-output/1", found',
    ),
    "no stages": ([('"stages"', '"stage"')], "results.json", "results.json: stages: expected this key"),
    "too many runs": (
        [('"runs_by_batch": [', '"runs_by_batch": [\n 1' + "0" * 400 + ",")],
        "results.json",
        "results.json: stages[0].runs_by_batch[0]: expected",
    ),
    "no object": ([], "list.json", 'list.json: expected schema "fluidb.serve-sim-output/1", found "list"'),
}


@pytest.mark.parametrize("case", FAULTS)
def test_results_that_cannot_be_weights(first: Path, case: str):
    edits, name, expected = FAULTS[case]
    text = (first / "results.json").read_text()
    for before, after in edits:
        text = text.replace(before, after, 1)
    (first / "results.json").write_text(text)
    (first / "list.json").write_text("[1]")
    with pytest.raises(InputError) as caught:
        read_launches(first / name, 4, "tiny")
    assert f"{first}/{expected}" in caught.value.faults[0]


def test_results_of_several_networks_are_weights_of_each_and_of_all(first: Path, fluidb: Run, tiny_design: Path):
    """Two of them run one network, whose stages then ran as often as in both; a third has no request."""
    other = {"network": "other", "stages": [{"segments": 2, "runs_by_batch": [8, 4]}]}
    again = {"network": "tiny", "stages": [{"segments": 1, "runs_by_batch": [1, 0, 2]}] * 3}
    results = json.loads((first / "results.json").read_text())
    own = {"network": "tiny", "stages": results["stages"]}
    results |= {"network": None, "stages": [], "networks": [own, other, again, {"network": "none", "requests": 0}]}
    (first / "several.json").write_text(json.dumps(results))
    alone = read_launches(first / "results.json", 4, "tiny")
    expected = [[runs + more for runs, more in zip(row, (1, 0, 2, 0), strict=True)] for row in alone]
    assert read_launches(first / "several.json", 4, "tiny") == expected
    assert read_launches(first / "several.json", 4, "other") == [[4, 2, 0, 0]]
    with pytest.raises(InputError, match="of a simulation of none, found results of tiny, other; simulate"):
        read_launches(first / "several.json", 4, "none")
    (first / "other.toml").write_text(OTHER)
    asked = ["dse", f"{TINY},other.toml", POCKET, "--b-max", 4, "--weights", "several.json", "--together", "-o", "d"]
    tiny, small = json.loads(fluidb(*asked, "--json").stdout)["designs"]
    assert (tiny["options"]["launches"], small["options"]["launches"]) == (expected, [[4, 2, 0, 0]])
    began = sum(b * runs for b, runs in enumerate(expected[0], 1))
    assert [network["share"] for network in tiny["together"]["networks"]] == [began / (began + 8), 8 / (began + 8)]
    assert [row["reused"] for row in json.loads(fluidb(*asked, "--json").stdout)["designs"]] == [True, True]


def test_batches_larger_than_the_search_covers(first: Path, fluidb: Run):
    found = lines(fluidb("dse", TINY, POCKET, "--b-max", 1, "--weights", "results.json"))
    assert found == ["fluidb: results.json: saw batches of more than 1; set b_max to 4 or more"]
    assert read_launches(first / "results.json", 6, "tiny")[0][4:] == [0.0, 0.0]


def test_results_of_another_network_and_another_objective(first: Path, fluidb: Run):
    (first / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    other = fluidb("dse", first / "other.toml", POCKET, "--b-max", 4, "--weights", "results.json")
    expected = "results.json: expected the results of a simulation of other, found results of tiny; simulate"
    assert other.stderr.startswith(f"fluidb: {expected}")
    other = fluidb("dse", TINY, POCKET, "--b-max", 4, "--weights", "results.json", "--objective", "latency")
    assert "expected the objective gop_s beside the runs of a simulation, found latency" in other.stderr
