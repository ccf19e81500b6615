"""Requirements: what they say, whether they hold, how surely, and with which exit code."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import Run, lines, table_of, trace_of, traffic_of
from fluidb.cli.render import plain
from fluidb.formats import InputError
from fluidb.serving import find_policy, judge, parse_requirement, simulate, summarise
from fluidb.serving.figures import FIGURES
from fluidb.serving.requirements import COMPARATORS, METRICS, check_stated
from fluidb.serving.saturation import Saturation
from fluidb.serving.statistics import Interval
from fluidb.serving.subnets import SubNetSummary
from fluidb.serving.summary import AdmissionSummary, DeadlineSummary, HostSummary

BOUND = {
    "s": "1s", "share": "50 %", "/s": "2 /s", "requests": "3", "squared": "0.5", "bytes": "3kB", "J": "2mJ",
}  # fmt: skip


def test_which_figures_get_better_as_they_grow():
    """By this sign `compare --against` tells what got worse."""
    sides: dict[int, set[str]] = {-1: set(), 0: set(), 1: set()}
    for figure in FIGURES.values():
        sides[figure.better].add(figure.name)
    accuracies = {"accuracy", "accuracy_of_all", "served_accuracy"}
    assert sides[1] == {*accuracies, "mac_share", "hit_ratio", "fairness", "processing_rate", "goodput"}
    assert sides[0] == {"early", "unavoidable_rate", "busy_share", "host_share", "depth_variance", "width_variance"}
    assert sides[-1] > {"mean", "p99.9", "violation_rate", "accuracy_misses", "off_chip_energy", "unfinished"}


@pytest.mark.parametrize(
    ("text", "name", "comparator", "bound"),
    [
        ("violation_rate <= 20 %", "violation_rate", "<=", 0.2),
        ("p99<=200ms", "p99", "<=", 0.2),
        ("  p99.9 < 1.5 s ", "p99.9", "<", 1.5),
        ("mean<50us", "mean", "<", 5e-5),
        ("goodput >= 14.5/s", "goodput", ">=", 14.5),
        ("off_chip <= 4.5 MB", "off_chip", "<=", 4.5e6),
        ("off_chip_energy < 2mJ", "off_chip_energy", "<", 2e-3),
        ("accuracy_misses <= 1 %", "accuracy_misses", "<=", 0.01),
        ("accuracy > 70%", "accuracy", ">", 0.7),
        ("unfinished <= 0", "unfinished", "<=", 0.0),
        ("violation_rate <= 0 %", "violation_rate", "<=", 0.0),
        ("violation_rate <= 35 %", "violation_rate", "<=", 7 / 20),
    ],
)
def test_what_a_requirement_says(text, name, comparator, bound):
    requirement = parse_requirement(text)
    assert (requirement.text, requirement.name, requirement.comparator) == (text.strip(), name, comparator)
    assert requirement.bound == bound or math.isclose(requirement.bound, bound, rel_tol=1e-15)
    if requirement.unit == "share":
        assert requirement.bound == bound


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected FIGURE"),
        ("p99", "expected FIGURE"),
        ("p99 = 200ms", "expected FIGURE"),
        ("p99 == 200ms", "expected FIGURE"),
        ("p99 <== 200ms", "expected FIGURE"),
        ("200ms >= p99", 'unknown figure "200ms"'),
        ("p98 <= 200ms", 'unknown figure "p98" in "p98 <= 200ms"; did you mean p99'),
        ("p99 <= 200", r"p99: expected a unit \(ns, us, ms, s\), found no unit"),
        ("p99 <= 5 %", 'found unit "%"'),
        ("p99 <= fast", "expected a number >= 0 and a unit"),
        ("violation_rate <= 0.05", r"expected a unit \(%\), found no unit"),
        ("goodput >= 15", r"expected a unit \(/s\)"),
        ("violation_rate <= 500 %", 'expected a share of at most 100 %, found "500 %"'),
        ("unfinished <= 5 %", 'expected no unit, found unit "%"'),
        ("unfinished <= ", "expected a number >= 0 without a unit"),
        ("p99 <= -5ms", "expected a number >= 0"),
        ("p99 <= nan s", "expected a number >= 0"),
        ("p99 <= 200ms and more", "expected"),
    ],
)
def test_a_requirement_that_is_none(text, expected):
    with pytest.raises(InputError, match=expected) as caught:
        parse_requirement(text)
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith("require: ")


def summary_of(correct=None):
    """Ten requests a second apart, one of which takes 1 s and nine 2 s; NPU of 2 MAC-stages."""
    table = table_of([[1.0], [1.0]])
    exits = np.array([1] + [2] * 9)
    trace = replace(trace_of(np.arange(10) * 3.0), correct=correct, width=np.full(10, 64.0))
    return summarise(simulate(table, traffic_of(trace, exits, 1.5), find_policy("serial")))


def test_every_metric_is_the_summary_s():
    right = np.zeros((10, 2), dtype=bool)
    right[:8, 1] = True
    summary = replace(summary_of(right), subnets=SubNetSummary(0.75, 0.25, 0.6, 1, 2000.0, 1e-3, []))
    summary = replace(
        summary,
        deadlines=DeadlineSummary(1, 2, 0.1, 0.2, 1.5, 0.6),
        admission=AdmissionSummary(3, 0.3),
        host=HostSummary(1e-3, 0.25, overlaps=True),
        fairness=0.8,
        saturation=Saturation("stable", 0.5, 0.03, Interval(0.01, 0.05), 10),
        energy_j=2e-3,
    )
    expected = {
        "mean": summary.mean_latency_s, "p50": 2.0, "p90": 2.0, "p95": 2.0, "p99": 2.0, "p99.9": 2.0, "max": 2.0,
        "violation_rate": 0.9, "busy_share": 19 / 29, "energy": 2e-3,
        "mac_share": summary.utilisation.mac_share, "accuracy": 0.7,
        "served_accuracy": 0.75, "accuracy_misses": 0.25, "hit_ratio": 0.6, "off_chip": 2000.0, "off_chip_energy": 1e-3,
        "refused": 0.3, "dropped": 0.1, "early": 0.2, "accuracy_of_all": 0.6, "host_share": 0.25,
        "fairness": 0.8,
        "load": 0.5, "backlog_growth": 0.03,
        "processing_rate": 10 / 29,
        "goodput": 1 / 29, "makespan": 29.0, "depth_variance": 0.0, "width_variance": 0.0, "unfinished": 0.0,
    }  # fmt: skip
    assert list(expected) == list(METRICS)
    for name, value in expected.items():
        verdict = judge(parse_requirement(f"{name} <= {BOUND[METRICS[name]]}"), summary)
        assert verdict.value == pytest.approx(value), name
        assert verdict.unit == METRICS[name]
        assert verdict.margin == pytest.approx(verdict.bound - value)
        assert verdict.holds == (value <= verdict.bound)


def test_growth_has_its_interval_and_a_short_run_no_saturation():
    saturation = Saturation("stable", 0.5, 0.03, Interval(0.01, 0.05), 10)
    summary = replace(summary_of(), saturation=saturation)
    assert judge(parse_requirement("backlog_growth <= 6 %"), summary).certain is True
    assert judge(parse_requirement("backlog_growth <= 4 %"), summary).certain is False
    with pytest.raises(InputError, match="expected at least 400 requests that do not all arrive at once"):
        judge(parse_requirement("load <= 90 %"), summary_of())


@pytest.mark.parametrize(("comparator", "holds"), [("<=", (True, True, False)), ("<", (True, False, False))])
def test_comparators_at_above_and_below_the_bound(comparator, holds):
    summary = summary_of()  # a median of exactly 2 s
    bounds = ("2.5s", "2s", "1.5s")
    found = [judge(parse_requirement(f"p50 {comparator} {bound}"), summary) for bound in bounds]
    assert tuple(item.holds for item in found) == holds
    assert [item.margin for item in found] == [0.5, 0.0, -0.5]
    mirror = {"<=": ">", "<": ">="}[comparator]
    found = [judge(parse_requirement(f"p50 {mirror} {bound}"), summary) for bound in bounds]
    assert tuple(item.holds for item in found) == tuple(not item for item in holds)
    assert [item.margin for item in found] == [-0.5, 0.0, 0.5]
    assert set(COMPARATORS) == {"<=", "<", ">=", ">"}


@pytest.mark.parametrize(("comparator", "holds"), [("<=", True), ("<", False), (">=", True), (">", False)])
def test_a_latency_is_its_bound_where_only_rounding_is_between(comparator, holds):
    """A request alone takes 10 ms, but 99.97 s + 10 ms less 99.97 s is a little more, and others are a little less."""
    trace = trace_of([i / 30 + 0.003 for i in range(3_000)])
    summary = summarise(
        simulate(table_of([[0.01]]), traffic_of(trace, np.ones(3_000, dtype=int), slo_s=0.01), find_policy("serial"))
    )
    assert summary.max_latency_s > 0.01
    for figure in ("mean", "p50", "p99"):
        verdict = judge(parse_requirement(f"{figure} {comparator} 10ms"), summary)
        assert (verdict.holds, verdict.margin, verdict.certain) == (holds, 0, True)
    assert not judge(parse_requirement("p99 <= 9.9999ms"), summary).holds


def test_certainty_is_what_the_interval_says():
    summary = replace(
        summary_of(), violation_rate=0.05, violation_interval=Interval(0.04, 0.07), mean_interval_s=Interval(1.5, 2.0)
    )

    def certain(text: str) -> tuple[bool, bool | None]:
        verdict = judge(parse_requirement(text), summary)
        return verdict.holds, verdict.certain

    assert certain("violation_rate <= 8 %") == (True, True)
    assert certain("violation_rate <= 7 %") == (True, True)
    assert certain("violation_rate < 7 %") == (True, False)
    assert certain("violation_rate <= 6 %") == (True, False)
    assert certain("violation_rate <= 4.5 %") == (False, False)
    assert certain("violation_rate < 4 %") == (False, True)
    assert certain("violation_rate >= 3 %") == (True, True)
    assert certain("mean <= 2s") == (True, True)
    assert certain("mean <= 1.95s") == (True, False)
    assert certain("max <= 9s") == (True, None)
    few = judge(parse_requirement("p99 <= 9s"), summary)
    assert (few.holds, few.interval, few.certain, few.more_requests_needed) == (True, None, None, 990)


def stored_in(path: Path, **changed: object) -> Path:
    """What ``--json`` prints of a replay."""
    record = {"schema": "fluidb.serve-sim-output/1", **summary_of().record(), **changed}
    path.write_text(json.dumps(plain(record)))
    return path


def test_a_bound_may_be_a_share_of_any_figure_that_was_printed(tmp_path):
    summary, base = summary_of(), stored_in(tmp_path / "my base.json")
    known = [name for name in METRICS if FIGURES[name].of(summary) is not None]
    assert {"p50", "p99.9", "mean", "mac_share", "violation_rate", "unfinished"} <= set(known)
    for name in known:
        requirement = parse_requirement(f"{name} <= 105 % of {base}")
        printed = FIGURES[name].of(summary)
        assert printed is not None
        assert requirement.bound == pytest.approx(1.05 * printed)
    own = stored_in(tmp_path / "two.json", networks=[{"name": "goods", "mean_latency_s": 2.0}])
    assert parse_requirement(f"mean[goods] < 50% of {own}", networks=["goods"]).bound == 1.0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "found no such file"),
        ("{", "base.json: no JSON"),
        ('{"schema": "fluidb.serve-sim-output/0"}', 'expected schema "fluidb.serve-sim-output/1" or '),
        (
            '{"schema": "fluidb.serve-sim-output/1"}',
            r"expected a number for p99 \(percentiles.p99.latency_s\), found none",
        ),
        ('{"schema": "fluidb.serve-sim-output/1", "percentiles": [3]}', "expected a number for p99"),
    ],
)
def test_a_bad_file_of_a_stored_result_is_told_in_one_line(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "base.json").write_text(content)
    with pytest.raises(InputError, match=expected) as fault:
        parse_requirement(f"p99 <= 105 % of {tmp_path / 'base.json'}")
    assert len(fault.value.faults) == 1


def test_requests_that_never_return_fail_any_latency():
    table = table_of([[1.0]])
    trace = trace_of(np.zeros(10))
    replay = simulate(table, traffic_of(trace, np.ones(10, dtype=int), 9), find_policy("serial"), until_s=5.0)
    summary = summarise(replay)
    verdict = judge(parse_requirement("max <= 100s"), summary)
    assert (verdict.holds, verdict.margin) == (False, -math.inf)
    assert judge(parse_requirement("unfinished <= 5"), summary).holds
    assert not judge(parse_requirement("unfinished < 5"), summary).holds


def test_accuracy_needs_a_trace_that_knows_what_is_right():
    accuracy, mean = parse_requirement("accuracy >= 70 %"), parse_requirement("mean <= 1s")
    with pytest.raises(InputError, match='"accuracy >= 70 %": expected a trace that knows'):
        check_stated([mean, accuracy], accuracy=None)
    with pytest.raises(InputError, match="expected a trace that knows"):
        judge(accuracy, summary_of())
    check_stated([mean], accuracy=None)
    check_stated([accuracy], accuracy=np.ones((1, 1), dtype=bool))


def test_exit_codes_and_what_is_printed(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    fluidb("trace", "poisson", "--rate", 4400, "--count", 2000, "--seed", 5, "-o", "t.csv")
    common = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "400us", "--seed", 3]
    plain = fluidb(*common).stdout
    kept = ["--require", "violation_rate <= 20 %", "--require", "p50 < 1s"]
    done = fluidb(*common, *kept)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(plain)
    table = done.stdout[len(plain) :]
    assert "violation_rate <= 20 %" in table
    assert table.count("holds by") == table.count("beyond doubt at 95 %") == 2

    done = fluidb(
        *common, *kept, "--require", "p99 <= 1us", "--require", "violation_rate <= 15 %", "--requests", "r.csv"
    )
    assert (done.returncode, done.stderr) == (1, "")
    table = done.stdout[len(plain) :]
    assert table.count("holds by") == 3
    assert table.count("FAILS by") == 1
    assert "more requests would decide" in table
    assert (tmp_path / "r.csv").exists()

    done = fluidb(*common, "--require", "p99.9 <= 1s")
    assert done.returncode == 0
    assert "24,000 more requests needed" in done.stdout

    done = fluidb(*common, *kept, "--require", "p99 <= 1us", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    content = json.loads(done.stdout)
    assert [requirement["holds"] for requirement in content["requirements"]] == [True, True, False]
    rate = content["requirements"][0]
    assert rate == {
        "name": "violation_rate", "comparator": "<=", "unit": "share", "bound": 0.2,
        "value": content["violation_rate"], "holds": True, "margin": 0.2 - content["violation_rate"],
        "interval": content["violation_interval"], "certain": True, "more_requests_needed": 0,
    }  # fmt: skip
    assert "requirements" not in json.loads(fluidb(*common, "--json").stdout)

    cut = ["--policy", "adaptb:timeout=5ms", "--until", "10ms"]
    done = fluidb(*common, *cut, "--require", "unfinished <= 0", "--require", "max <= 1s", "--json")
    assert done.returncode == 1
    content = json.loads(done.stdout)
    assert content["unfinished"] > 0
    assert [requirement["margin"] for requirement in content["requirements"]] == [-content["unfinished"], None]


def test_a_malformed_requirement_is_told_before_the_simulation(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (line,) = lines(fluidb("serve-sim", "nowhere", "--trace", "no.csv", "--slo", "1s", "--require", "p99 <= 200"))
    assert line.endswith('--require: p99: expected a unit (ns, us, ms, s), found no unit in "200"; write e.g. 200ms')
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    done = fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", "--require", "accuracy >= 1 %")
    assert len(lines(done)) == 1
