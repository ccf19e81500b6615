"""The sweep of thresholds: each point a replay of its own, and the mark by brute force."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import Run, lines, table_of, traffic_of
from fluidb.formats import InputError
from fluidb.serving import Requests, find_policy, serve, simulate, summarise
from fluidb.studies import sweep_thresholds
from fluidb.studies.thresholds import pareto
from fluidb.traffic import Samples, Trace, draw_samples, poisson, prepare
from fluidb.traffic.clients import Clients
from fluidb.traffic.measures import ENTROPY
from hypothesis import given
from hypothesis import strategies as st

TABLE = table_of([[1.0, 1.2], [1.0, 1.2], [2.0, 2.4]])


def workload(count: int) -> Trace:
    """Confidences that tell, a little, what is right; later exits know more."""
    rng = np.random.default_rng(2)
    scores = rng.random((400, 3))
    samples = Samples(scores, rng.random((400, 3)) < scores * [0.6, 0.8, 1.0])
    return draw_samples(poisson(0.4, count, 3), samples, 4)


def test_every_point_is_a_replay_with_its_threshold():
    trace, thresholds = workload(300), [0.2, 0.4, 0.6, 0.8, 1.0]
    points = sweep_thresholds(TABLE, Requests(trace=trace, slo_s=5.0), "fluid", thresholds).points
    assert [point.threshold for point in points] == thresholds
    assert trace.confidences is not None
    assert trace.correct is not None
    for point in points:
        exits = np.array([next((i for i, s in enumerate(row[:2], 1) if s >= point.threshold), 3)
                          for row in trace.confidences.tolist()])  # fmt: skip
        replay = simulate(TABLE, traffic_of(trace, exits, 5.0), find_policy("fluid"))
        latency = np.sort(replay.latency_s)
        assert point.exit_shares == [np.mean(exits == i) for i in (1, 2, 3)]
        assert point.accuracy == np.mean([trace.correct[i, exit_ - 1] for i, exit_ in enumerate(exits)])
        assert point.mean_latency_s == pytest.approx(latency.mean())
        assert point.p99_latency_s == latency[296]  # the 297th of 300
        assert point.violation_rate == np.mean(latency > 5.0)
    assert len({point.pareto for point in points}) == 2  # the mark tells something here


def test_every_combination_at_the_exits_is_a_replay_with_these_thresholds():
    requests, tried = Requests(trace=workload(300), slo_s=5.0), [0.3, 0.9]
    points = sweep_thresholds(TABLE, requests, "fluid", tried, each_exit=True).points
    assert [point.threshold for point in points] == [(0.3, 0.3), (0.3, 0.9), (0.9, 0.3), (0.9, 0.9)]
    for point in points:
        assert isinstance(point.threshold, tuple)
        summary = summarise(serve(TABLE, requests, "fluid", threshold=point.threshold).replay)
        figures = summary.accuracy, summary.mean_latency_s, summary.violation_rate
        assert (point.accuracy, point.mean_latency_s, point.violation_rate) == figures
    alike = sweep_thresholds(TABLE, requests, "fluid", tried).points
    assert [points[at].accuracy for at in (0, 3)] == [point.accuracy for point in alike]
    with pytest.raises(InputError, match="thresholds: expected at most 1,000 combinations of thresholds, found 1,024"):
        sweep_thresholds(TABLE, requests, "fluid", np.linspace(0, 1, 32).tolist(), each_exit=True)


@pytest.mark.parametrize("rule", ["on_deadline=drop", "on_deadline=answer", "admit=queue:2"])
def test_requests_without_an_answer_are_wrong_and_have_no_latency(rule: str):
    """With clients, whose requests follow from the replay."""
    trace = replace(workload(300), arrival_s=np.zeros(300))
    requests = Requests(trace=trace, slo_s=5.0, clients=Clients(4, 2.0))
    for point in sweep_thresholds(TABLE, requests, f"fluid:{rule}", [0.2, 0.8]).points:
        replay = serve(TABLE, requests, f"fluid:{rule}", threshold=point.threshold).replay
        given, right = np.isfinite(replay.finish_s), replay.right
        assert right is not None
        assert not given.all()
        assert point.accuracy == pytest.approx((right & given).mean())
        assert point.mean_latency_s == pytest.approx(replay.latency_s[given].mean())
        assert point.violation_rate == replay.violated.mean()
        assert sum(point.exit_shares) == pytest.approx(given.mean())


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12))
def test_the_mark_by_brute_force(costs):
    def beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return all(a <= b for a, b in zip(one, other, strict=True)) and one != other

    expected = [not any(beats(other, point) for other in costs) for point in costs]
    assert pareto(np.array(costs, dtype=float)).tolist() == expected


def test_the_mark_of_the_sweep_by_brute_force():
    tried = np.linspace(0, 1, 12).tolist()
    points = sweep_thresholds(TABLE, Requests(trace=workload(300), slo_s=5.0), "fluid", tried).points
    assert {point.pareto for point in points} == {True, False}
    for point in points:
        beaten = [
            other for other in points
            if other.accuracy >= point.accuracy
            and other.mean_latency_s <= point.mean_latency_s
            and other.violation_rate <= point.violation_rate
            and (other.accuracy > point.accuracy or other.mean_latency_s < point.mean_latency_s
                 or other.violation_rate < point.violation_rate)
        ]  # fmt: skip
        assert point.pareto == (not beaten)


def test_the_thresholds_that_are_tried():
    requests = Requests(trace=workload(30), slo_s=5.0)
    usual = [point.threshold for point in sweep_thresholds(TABLE, requests, "fluid").points]
    assert usual == [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
    unsure = Requests(trace=replace(workload(30), measure=ENTROPY), slo_s=5.0)
    assert [point.threshold for point in sweep_thresholds(TABLE, unsure, "fluid").points] == list(ENTROPY.usual)
    with pytest.raises(InputError, match=r"^thresholds: expected confidences from 0 to 1, found -0\.1, nan$"):
        sweep_thresholds(TABLE, requests, "fluid", [0.5, -0.1, float("nan")])


def test_a_sweep_reports_its_progress_and_asks_for_answers():
    seen: list[tuple[int, int]] = []
    trace = workload(10)
    served = Requests(trace=trace, slo_s=5.0)
    sweep_thresholds(TABLE, served, "serial", [0.1, 0.2], progress=lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    for bare in (replace(trace, confidences=None), replace(trace, correct=None)):
        with pytest.raises(InputError, match="samples: expected columns confidence_1, .* and correct_1, .*add samples"):
            sweep_thresholds(TABLE, replace(served, trace=bare), "serial", [0.1])


SAMPLES = """confidence_1,confidence_2,correct_1,correct_2,correct_3
0.9,0.9,0,1,1
0.6,0.9,0,1,1
0.6,0.6,0,0,1
"""


def test_samples_through_the_command_line(fluidb: Run, tmp_path, tiny_design):
    """CSV and npz give the same requests, by seed; thresholds decide where they leave."""
    (tmp_path / "s.csv").write_text(SAMPLES)
    scores = np.array([[0.9, 0.9], [0.6, 0.9], [0.6, 0.6]])
    np.savez(tmp_path / "s.npz", confidence=scores, correct=np.array([[0, 1, 1], [0, 1, 1], [0, 0, 1]]))
    fluidb("trace", "poisson", "--rate", 900, "--count", 300, "-o", "t.csv")
    common = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms"]

    def outcome(*more: object) -> dict[str, Any]:
        done = fluidb(*common, *more, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout))

    by_csv, by_npz = outcome("--samples", "s.csv", "--seed", 2), outcome("--samples", "s.npz", "--seed", 2)
    assert by_csv.pop("exits_from") == "confidence >= 0.8 of s.csv, seed 2"
    assert by_npz.pop("exits_from") == "confidence >= 0.8 of s.npz, seed 2"
    assert by_csv == by_npz
    shares = [row["requests"] for row in by_csv["exits"]]
    assert [row["accuracy"] for row in by_csv["exits"]] == [0, 1, 1]
    assert by_csv["accuracy"] == pytest.approx((shares[1] + shares[2]) / 300)
    assert outcome("--samples", "s.npz", "--seed", 3)["exits"] != by_csv["exits"]
    each = outcome("--samples", "s.npz", "--seed", 2, "--threshold", "0.95,0.5")
    assert [row["requests"] for row in each["exits"]] == [0, 300, 0]
    assert each["exits_from"] == "confidence >= 0.95, 0.5 of s.npz, seed 2"

    swept = fluidb("thresholds", *common[1:], "--samples", "s.npz", "--seed", 2, "--json")
    (same,) = [point for point in json.loads(swept.stdout)["points"] if point["threshold"] == 0.8]
    assert same["accuracy"] == by_csv["accuracy"]
    assert same["mean_latency_s"] == by_csv["mean_latency_s"]
    assert same["exit_shares"] == [share / 300 for share in shares]


def test_a_trace_with_confidences_and_answers_is_swept_without_samples(fluidb: Run, tmp_path, tiny_design):
    (tmp_path / "t.csv").write_text(
        "request_id,arrival_s,confidence_1,confidence_2,correct_1,correct_2,correct_3\n"
        "1,0.0,0.5,0.7,1,0,0\n2,1.0,0.9,0.1,0,1,1\n"
    )
    done = fluidb("thresholds", tiny_design, "--trace", "t.csv", "--slo", "1s", "--thresholds", "0.5,1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    points = json.loads(done.stdout)["points"]
    assert [(point["accuracy"], point["exit_shares"]) for point in points] == [(0.5, [1, 0, 0]), (0.5, [0, 0, 1])]
    assert [point["pareto"] for point in points] == [True, False]
    text = fluidb("thresholds", tiny_design, "--trace", "t.csv", "--slo", "1s", "--thresholds", "0.5,1").stdout
    assert [line.rstrip().endswith("*") for line in text.splitlines()[-2:]] == [True, False]
    each = ["thresholds", tiny_design, "--trace", "t.csv", "--slo", "1s", "--thresholds", "0.5,1", "--each-exit"]
    assert [point["threshold"] for point in json.loads(fluidb(*each, "--json").stdout)["points"]] == [
        [0.5, 0.5], [0.5, 1], [1, 0.5], [1, 1],
    ]  # fmt: skip
    said = fluidb(*each).stdout
    assert "best        2 of 4 combinations; --json has all\n" in said
    assert [line.split("  ")[0] for line in said.splitlines()[-2:]] == ["0.5, 0.5", "0.5, 1"]


RUN, SWEEP = ["serve-sim", "DESIGN", "--trace"], ["thresholds", "DESIGN", "--trace"]
FAULTS = {
    "thresholds that are none": (
        [*RUN, "t.csv", "--slo", "1s", "--threshold", "0.8,x"],
        "--threshold: expected a conf",
    ),
    "threshold out of range": ([*RUN, "t.csv", "--slo", "1s", "--threshold", "80"], '--threshold: .*found "80"'),
    "thresholds too many": (
        [*RUN, "t.csv", "--slo", "1s", "--samples", "s.csv", "--threshold", "0.8,0.7,0.9"],
        "--threshold: expected 1 value, or 2, one for each exit but the last, found 3",
    ),
    "thresholds nothing uses": ([*RUN, "t.csv", "--slo", "1s", "--threshold", "0.8"], "--threshold: expected a trace"),
    "exits and samples": ([*RUN, "exits.csv", "--slo", "1s", "--samples", "s.csv"], "exits.csv: .*without exit"),
    "samples of another network": (
        [*RUN, "t.csv", "--slo", "1s", "--samples", "other.npz"],
        "other.npz: answers: expected correct_1 to correct_3",
    ),
    "exit that is none": ([*RUN, "exits.csv", "--slo", "1s"], r"exits.csv: row 2 \(line 3\): exit: expected 1 to 3"),
    "samples that are none": ([*RUN, "t.csv", "--slo", "1s", "--samples", "no.npz"], "no.npz: expected samples"),
    "sweep without samples": ([*SWEEP, "t.csv", "--slo", "1s"], "t.csv: expected columns confidence_1, .*add samples"),
    "sweep of exits": ([*SWEEP, "exits.csv", "--slo", "1s", "--samples", "s.csv"], "exits.csv: .*without exit"),
    "sweep downwards": (
        [*SWEEP, "t.csv", "--samples", "s.csv", "--thresholds", "0.9..0.1"],
        "--thresholds: expected the lower threshold",
    ),
    "a threshold twice": (
        [*SWEEP, "t.csv", "--slo", "1s", "--samples", "s.csv", "--thresholds", "0.5,0.7,0.5"],
        "--thresholds: expected each threshold once, found 0.5 twice",
    ),
    "sweep without objective": ([*SWEEP, "t.csv", "--samples", "s.csv"], "--slo: expected a latency objective"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_one_clear_line(fluidb: Run, tmp_path, tiny_design, case):
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    (tmp_path / "exits.csv").write_text("request_id,arrival_s,exit\n1,0.0,3\n2,0.0,4\n")
    (tmp_path / "s.csv").write_text(SAMPLES)
    np.savez(tmp_path / "other.npz", confidence=np.zeros((2, 3)), correct=np.ones((2, 4)))
    before = sorted(tmp_path.rglob("*"))
    arguments, expected = FAULTS[case]
    (line,) = lines(fluidb(*[tiny_design if argument == "DESIGN" else argument for argument in arguments]))
    assert re.search(expected, line), line
    assert sorted(tmp_path.rglob("*")) == before


def test_a_network_without_early_exits_has_no_threshold_to_sweep():
    trace = Trace(np.arange(2), np.arange(2.0), correct=np.array([[True], [False]]))
    with pytest.raises(
        InputError, match="^network: expected early exits, at which thresholds hold, found only the end"
    ):
        sweep_thresholds(table_of([[1.0]]), Requests(trace=trace, slo_s=9.0), "fluid")


def test_a_network_with_one_exit_from_trace_to_summary():
    trace = Trace(np.arange(2), np.arange(2.0), None, np.zeros((2, 1)), correct=np.array([[True], [False]]))
    table = table_of([[1.0]])
    traffic = prepare(trace, [1.0], slo_s=9.0)
    assert summarise(simulate(table, traffic, find_policy("fluid"))).accuracy == 0.5
