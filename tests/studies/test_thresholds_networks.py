"""The sweep of the thresholds of several networks: against a plain loop, and its faults."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import naive_networks as naive
import numpy as np
import pytest
from builders import COMPILED, DATA, Run, lines, table_of, trace_of
from fluidb.formats import InputError
from fluidb.serving import Requests, ServedNetwork, parse_requirement, serve
from fluidb.studies import sweep_thresholds
from fluidb.traffic import Samples, Trace, poisson
from fluidb.traffic.clients import Clients
from fluidb.traffic.measures import ENTROPY

NAMES = ["sure", "quick"]
STAGE_S = [[[0.5, 0.75], [0.25, 0.375], [1.0, 1.5]], [[0.25, 0.25], [0.5, 0.625], [0.25, 0.375]]]
"""Times of two networks by stage and batch."""

REQUIRED = ["violation_rate <= 80 %", "violation_rate[quick] <= 70 %", "accuracy[sure] >= 45 %"]


def answered(count: int, seed: int) -> Trace:
    """Requests of two networks, with confidences that tell, a little, what is right."""
    random = np.random.default_rng(seed)
    scores = random.random((count, 3))
    return replace(
        trace_of(np.cumsum(random.exponential(0.4, count))), slo_s=random.uniform(1.0, 4.0, count),
        network=np.array(NAMES)[random.permutation(np.arange(count) % 2)], confidences=scores,
        correct=random.random((count, 3)) < scores * [0.6, 0.8, 1.0],
    )  # fmt: skip


def naive_point(trace: Trace, thresholds: Sequence[float], policy: str, between: str, rule: str) -> dict[str, Any]:
    """Figures of all requests and of each network; an accuracy of all, and one of those with an answer."""
    assert trace.network is not None
    assert trace.confidences is not None
    assert trace.correct is not None
    assert trace.slo_s is not None
    network = [NAMES.index(name) for name in trace.network.tolist()]
    exits = [
        next((i for i, score in enumerate(row[:2], 1) if score >= thresholds[k]), 3)
        for k, row in zip(network, trace.confidences.tolist(), strict=True)
    ]
    nets = [naive.Net(table_of(times).arrays()[0].tolist(), 2, 0.0, 1.0, 0.0) for times in STAGE_S]
    device = naive.Device(nets, network, between, exits, trace.slo_s.tolist(), rule, trace.arrival_s.tolist(), None)
    naive.serve(device, policy)
    found: dict[str, Any] = {}
    for name in ("all", *NAMES):
        here = [k for k, own in enumerate(network) if name in ("all", NAMES[own])]
        sent = [device.sent[k] for k in here]
        right = sum(
            bool(trace.correct[k, request.answered - 1])
            for k, request in zip(here, sent, strict=True)
            if request.answered
        )
        latency_s = [request.finish_s - request.arrival_s for request in sent]
        given_s = [value for value in latency_s if value < math.inf]
        found[name] = {
            "accuracy": right / len(sent),
            "of answers": right / len(given_s) if given_s else -1.0,  # which keeps no requirement
            "mean_latency_s": sum(given_s) / len(given_s) if given_s else math.inf,
            "p99_latency_s": sorted(latency_s)[math.ceil(0.99 * len(sent)) - 1],
            "violation_rate": sum(request.finish_s > request.due_s for request in sent) / len(sent),
            "exit_shares": [sum(request.answered == i for request in sent) / len(sent) for i in (1, 2, 3)],
        }
    return found


@pytest.mark.parametrize("rule", ["serve", "drop", "answer"])
@pytest.mark.parametrize(("policy", "between"), [("serial", "fcfs"), ("fluid", "edf"), ("fluid", "shares")])
def test_every_combination_is_that_of_a_plain_loop(policy: str, between: str, rule: str) -> None:
    tried, marks, kept = [0.25, 0.5, 0.9], 0, 0
    asked = [parse_requirement(text, networks=NAMES) for text in REQUIRED]
    for seed in range(3 if COMPILED else 1):
        trace = answered(80, seed)
        networks = [ServedNetwork(name=n, table=table_of(s)) for n, s in zip(NAMES, STAGE_S, strict=True)]
        spec = f"{policy}:b_max=2,on_deadline={rule},between={between}"
        sweep = sweep_thresholds(networks, Requests(trace=trace), spec, tried, requirements=asked)
        assert (sweep.requests, len(sweep.points)) == (80, 9)
        expected = [naive_point(trace, pair, policy, between, rule) for pair in product(tried, tried)]
        for point, pair, plain in zip(sweep.points, product(tried, tried), expected, strict=True):
            for name, item, threshold in zip(NAMES, point.networks, pair, strict=True):
                assert (item.name, item.threshold) == (name, threshold)
                assert item.exit_shares == plain[name]["exit_shares"]
                for key in ("accuracy", "mean_latency_s", "p99_latency_s", "violation_rate"):
                    assert getattr(item, key) == pytest.approx(plain[name][key]), key
            for key in ("accuracy", "mean_latency_s", "p99_latency_s", "violation_rate"):
                assert getattr(point, key) == pytest.approx(plain["all"][key]), key
            assert point.kept == (
                plain["all"]["violation_rate"] <= 0.8
                and plain["quick"]["violation_rate"] <= 0.7
                and plain["sure"]["of answers"] >= 0.45
            )
        costs = [
            (-round(one["all"]["accuracy"], 9), round(one["all"]["mean_latency_s"], 9), one["all"]["violation_rate"])
            for one in expected
        ]
        good = [cost for cost, point in zip(costs, sweep.points, strict=True) if point.kept]
        for cost, point in zip(costs, sweep.points, strict=True):
            beaten = any(all(a <= b for a, b in zip(o, cost, strict=True)) and o != cost for o in good)
            assert point.pareto == (bool(point.kept) and not beaten)
        marks += sum(point.pareto for point in sweep.points)
        kept += sum(bool(point.kept) for point in sweep.points)
    assert 0 < marks < kept, "requirements and marks tell something here"


def drawn(exits: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    scores = random.random((300, exits))
    return Samples(scores[:, :-1], random.random((300, exits)) < scores)


def test_samples_of_each_network_and_those_that_are_not_tried() -> None:
    """One network tries thresholds, one keeps its own, one has exits at given rates: each point is a run of its own."""
    tables = [table_of([[0.25], [0.5]]), table_of([[0.25], [0.25], [0.25]]), table_of([[0.125], [0.25]], [0.5, 0.5])]
    networks = [
        ServedNetwork(name="tried", table=tables[0], samples=drawn(2, 1), slo_s=1.0),
        ServedNetwork(name="fixed", table=tables[1], samples=drawn(3, 2), slo_s=2.0, threshold=[0.3, 0.6]),
        ServedNetwork(name="drawn", table=tables[2], slo_s=1.5),
    ]
    for requests in (
        Requests(trace=poisson(1.2, 400, 3), seed=7),
        Requests(trace=replace(poisson(1.2, 400, 3), arrival_s=np.zeros(400)), seed=7, clients=Clients(5, 1.0)),
    ):
        sweep = sweep_thresholds(networks, requests, "fluid:between=edf", [0.4, 0.8])
        assert [network.measure for network in sweep.networks] == ["confidence", None, None]
        assert [[network.threshold for network in point.networks] for point in sweep.points] == [
            [0.4, None, None], [0.8, None, None],
        ]  # fmt: skip
        for point in sweep.points:
            served = [replace(networks[0], threshold=point.networks[0].threshold), *networks[1:]]
            again = serve(served, requests, "fluid:between=edf")
            assert point.kept is None
            assert (point.mean_latency_s, point.violation_rate) == (
                again.summary.mean_latency_s, again.summary.violation_rate,
            )  # fmt: skip
            right = count = 0.0
            for item, same in zip(point.networks, again.networks, strict=True):
                assert item.accuracy == same.summary.accuracy
                assert (item.mean_latency_s, item.violation_rate) == (
                    same.summary.mean_latency_s, same.summary.violation_rate,
                )  # fmt: skip
                if item.accuracy is not None:
                    right, count = right + item.accuracy * same.summary.requests, count + same.summary.requests
            assert point.networks[2].accuracy is None
            assert point.accuracy == pytest.approx(right / count)


def test_the_thresholds_that_are_tried_are_those_of_each_measure() -> None:
    samples = drawn(2, 1)
    networks = [
        ServedNetwork(name="a", table=table_of([[0.25], [0.5]]), samples=samples, slo_s=1.0),
        ServedNetwork(name="b", table=table_of([[0.25], [0.5]]), samples=replace(samples, measure=ENTROPY), slo_s=1.0),
    ]
    requests, seen = Requests(trace=poisson(1.0, 20, 3)), []
    sweep = sweep_thresholds(networks, requests, "serial", progress=lambda *done: seen.append(done))
    assert len(sweep.points) == 10 * len(ENTROPY.usual)
    assert (seen[0], seen[-1]) == ((1, len(sweep.points)), (len(sweep.points), len(sweep.points)))
    assert {point.networks[1].threshold for point in sweep.points} == set(ENTROPY.usual)
    columns = sweep.columns()
    assert columns["threshold[a]"] == [point.networks[0].threshold for point in sweep.points]
    assert columns["violation_rate"] == [point.violation_rate for point in sweep.points]


SAMPLES = "confidence_1,confidence_2,correct_1,correct_2,correct_3\n0.9,0.9,0,1,1\n0.6,0.9,0,1,1\n0.6,0.6,0,0,1\n"

MANY = ",".join(f"0.{k}" for k in range(100, 140))
DRAW = ["--samples", "s.csv"]
FAULTS = {
    "too many": (
        [*DRAW, "--thresholds", MANY],
        "--thresholds: expected at most 1,000 combinations of thresholds, found 1,600; try fewer, or ",
    ),
    "nothing to try": (
        [],
        "t.csv: expected columns confidence_1, ... (or of another measure) and correct_1, ..., and no ",
    ),
    "no confidence": (
        [*DRAW, "--thresholds", "0.5,7"],
        '--thresholds: expected confidences from 0 to 1, found 7, for network "people"',
    ),
    "unknown network": (
        [*DRAW, "--require", "p99[x] <= 1 s"],
        '--require: unknown network "x" in "p99[x] <= 1 s"; write p99 or p99[people] or p99[goods]',
    ),
    "a figure that is not known": (
        [*DRAW, "--require", "dropped <= 1 %"],
        '--require: "dropped <= 1 %": expected a policy that drops or answers at the deadline, ',
    ),
    "a target": ([*DRAW, "--target", "1ms"], "--trace: an option with a trace or clients, but this is a target; "),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_one_clear_line(fluidb: Run, tmp_path: Path, tiny_design: Path, case: str) -> None:
    prepared(tmp_path, tiny_design)
    arguments, expected = FAULTS[case]
    (line,) = lines(fluidb("thresholds", "networks.toml", "--trace", "t.csv", *arguments))
    assert line.startswith(f"fluidb: {expected}")


def prepared(folder: Path, design: Path) -> None:
    """The files of a sweep of two networks without samples of their own."""
    (folder / "tiny").symlink_to(design)
    (folder / "networks.toml").write_text((DATA / "networks.toml").read_text().replace('samples = "s.csv"', ""))
    (folder / "s.csv").write_text(SAMPLES)
    (folder / "t.csv").write_text("request_id,arrival_s\n" + "".join(f"{k},{1e-4 * k:.4f}\n" for k in range(60)))


def test_the_command_prints_what_no_other_beats_and_fails_where_none_keeps_the_requirements(
    fluidb: Run, tmp_path: Path, tiny_design: Path
) -> None:
    prepared(tmp_path, tiny_design)
    asked = ["thresholds", "networks.toml", "--trace", "t.csv", "--samples", "s.csv", "--thresholds", "0.5,0.7,0.95"]
    done = fluidb(*asked, "--json")
    content = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(content["points"])) == (0, "", 9)
    assert "kept" not in content["points"][0]
    best = [point for point in content["points"] if point["pareto"]]
    assert 0 < len(best) < 9
    printed = fluidb(*asked).stdout.splitlines()
    assert f"{len(best)} of 9 combinations; --json has all" in "\n".join(printed)
    rows = [row.split()[0] for row in printed[-len(best) :]]
    assert rows == [f"{point['networks'][0]['threshold']:g}" for point in best]
    none = fluidb(*asked, "--require", "accuracy[people] >= 100 %", "--require", "max <= 1 ns", "--json")
    content = json.loads(none.stdout)
    assert (none.returncode, content["requirements"][1]) == (1, "max <= 1 ns")
    assert {(point["kept"], point["pareto"]) for point in content["points"]} == {(False, False)}


def test_requirements_of_one_network(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    """The mark is among the thresholds that keep them."""
    prepared(tmp_path, tiny_design)
    asked = [
        "thresholds",
        "tiny",
        "--trace",
        "t.csv",
        "--samples",
        "s.csv",
        "--slo",
        "1ms",
        "--thresholds",
        "0.5,0.7,0.95",
    ]
    done = fluidb(*asked, "--require", "accuracy >= 50 %", "--json")
    points = json.loads(done.stdout)["points"]
    assert [point["kept"] for point in points] == [point["accuracy"] >= 0.5 for point in points] == [False, True, True]
    assert not points[0]["pareto"]
    assert "requirements kept  by 2 of 3 thresholds" in fluidb(*asked, "--require", "accuracy >= 50 %").stdout
    with pytest.raises(InputError, match=r"unknown network \"x\" in .*; write p99$"):
        parse_requirement("p99[x] <= 1 s")


def test_a_network_without_a_request_tries_no_threshold_and_has_no_figures(
    fluidb: Run, tmp_path: Path, tiny_design: Path
) -> None:
    """The points are equal to the other network's alone."""
    (tmp_path / "tiny").symlink_to(tiny_design)
    text = (DATA / "networks.toml").read_text().replace("weight = 2", 'weight = 2\nsamples = "s.csv"')
    (tmp_path / "networks.toml").write_text(text)
    (tmp_path / "s.csv").write_text(
        "confidence_1,confidence_2,correct_1,correct_2,correct_3\n.9,.9,1,1,1\n.6,.8,0,1,1\n"
    )
    rows = "".join(f"{k},{k / 8000},people\n" for k in range(300))
    (tmp_path / "t.csv").write_text(f"request_id,arrival_s,network\n{rows}")
    sweep = ["thresholds", "networks.toml", "--trace", "t.csv"]
    record = json.loads(fluidb(*sweep, "--json").stdout)
    assert [own["measure"] for own in record["networks"]] == ["confidence", None]
    assert len(record["points"]) == 10
    for point in record["points"]:
        people, goods = point["networks"]
        assert people["threshold"] is not None
        assert people["mean_latency_s"] == point["mean_latency_s"]
        assert goods.pop("name") == "goods"
        assert set(goods.values()) == {None}
    text = fluidb(*sweep).stdout
    assert "goods     no request" in text
    assert "goods violations" not in text
