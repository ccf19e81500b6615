"""Capacity: against queueing theory, and what it does where there is none or no end."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import (
    COMPILED,
    Run,
    lines,
    mean_value_analysis,
    repeating,
    supernet_table,
    table_of,
    traffic_of,
    with_variants,
)
from fluidb.formats import InputError, write_table
from fluidb.serving import DeviceTraffic, find_policy, parse_requirement, simulate
from fluidb.serving.device_traffic import prepare_requests
from fluidb.serving.inputs import Requests
from fluidb.serving.networks import ServedNetwork
from fluidb.studies import CapacityOptions, find_capacity
from fluidb.studies.load_search import at_rate
from fluidb.studies.saturation import saturation_rate
from fluidb.traffic import poisson
from fluidb.traffic.additions import add_columns, parse_columns
from fluidb.traffic.clients import Clients
from fluidb.traffic.exits import draw
from fluidb.traffic.samples import Samples
from fluidb.traffic.traffic import prepare

SERVICE_S = 0.05
COUNT = 4000 if COMPILED else 400


def capacity_of(*texts: str, table=None, policy: str = "serial", **options):
    options = {"slo_s": 0.2, "count": COUNT, "tolerance": 0.02} | options
    requirements, threads = [parse_requirement(text) for text in texts], options.pop("threads", None)
    served = table or table_of([[SERVICE_S]])
    return find_capacity(served, find_policy(policy), requirements, CapacityOptions(**options), threads=threads)


@pytest.mark.parametrize("mean_ms", [60, 75])
def test_capacity_of_an_M_D_1_queue(mean_ms):
    """W = s + rho * s / (2 * (1 - rho)), solved for the rate rho / s."""
    queued = mean_ms / 1e3 - SERVICE_S
    exact = 2 * queued / (SERVICE_S + 2 * queued) / SERVICE_S
    capacity = capacity_of(f"mean <= {mean_ms}ms")
    assert capacity.kept_per_s < exact < capacity.not_kept_per_s
    assert capacity.not_kept_per_s / capacity.kept_per_s < (1.15 if COMPILED else 1.5)  # else it would say nothing
    assert capacity.saturation_per_s == pytest.approx(1 / SERVICE_S)
    assert capacity.limited_by == f"mean <= {mean_ms}ms"
    assert capacity.requests_simulated == sum(
        5 * sum(min(COUNT * 2**i, 16 * COUNT) for i in range(int(np.log2(probe.requests / COUNT)) + 1))
        for probe in capacity.probes
    )


NETS = supernet_table([[0.08], [0.02], [0.04]], [0.9, 0.5, 0.7], [[0]] * 3, [[0]])

OWN_TIMES = {
    "width": (
        "serial",
        with_variants([[0.08]], widths=[8.0, 4.0, 2.0]),
        parse_columns(width="shares:7=0.3,4=0.5,1=0.2"),
    ),
    "steps": ("serial", repeating([[0.02]], 4), parse_columns(width="shares:4=0.3,2=0.5,1=0.2", steps="ratio=1")),
    "SubNet": ("sushi:mode=accuracy", NETS, parse_columns(min_accuracy="list:0.8,0.8,0.8,0.6,0.6,0.6,0.6,0.6,0.3,0.4")),
}
"""Tables on which 30 % of the requests take 80 ms, 50 % 40 ms and 20 % 20 ms, if they are served one by one."""


@pytest.mark.parametrize("column", OWN_TIMES)
def test_capacity_of_an_M_G_1_queue(column):
    """Pollaczek and Khinchine: W = E[S] + rate * E[S^2] / (2 * (1 - rate * E[S])), solved for the rate."""
    policy, table, columns = OWN_TIMES[column]
    first, second = (sum(share * time**n for share, time in ((0.3, 0.08), (0.5, 0.04), (0.2, 0.02))) for n in (1, 2))
    queued = 0.1 - first
    exact = 2 * queued / (second + 2 * queued * first)
    capacity = capacity_of("mean <= 100ms", table=table, policy=policy, columns=columns)
    assert capacity.kept_per_s < exact < capacity.not_kept_per_s
    assert capacity.not_kept_per_s / capacity.kept_per_s < (1.2 if COMPILED else 1.6)
    fastest = 0.02 if column == "SubNet" else first  # no policy need keep to the accuracy that is asked for
    assert capacity.saturation_per_s == pytest.approx(1 / fastest, rel=0.01)


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
@pytest.mark.parametrize(("clients", "think_s"), [(3, 0.2), (12, 0.8)])
def test_capacity_in_clients_is_that_of_mean_value_analysis(clients: int, think_s: float) -> None:
    """Many exits after equal stages make a geometric number of steps, which is nearly exponential."""
    steps, deepest = 20, 160
    rates = [(1 - 1 / steps) ** stage / steps for stage in range(deepest - 1)]
    table = table_of([[SERVICE_S / steps]] * deepest, [*rates, 1 - sum(rates)])
    bound_s = sum(mean_value_analysis(clients + more, SERVICE_S, think_s) for more in (0, 1)) / 2
    waiting = Clients(1, think_s, exponential=True)
    capacity = capacity_of(f"mean <= {1e3 * bound_s}ms", table=table, clients=waiting, most_clients=40)
    assert capacity.clients is not None
    assert capacity.clients.kept <= clients < capacity.clients.not_kept
    assert capacity.clients.not_kept - capacity.clients.kept <= 2
    assert [probe.clients for probe in capacity.probes] == sorted({probe.clients for probe in capacity.probes})
    kept = next(probe for probe in capacity.probes if probe.clients == capacity.clients.kept)
    # Little's law with the clients that think: N = X (R + Z)
    assert kept.rate_per_s * (kept.estimates[0].value + think_s) == pytest.approx(kept.clients, rel=0.05)
    assert capacity.kept_per_s == kept.rate_per_s


@pytest.mark.parametrize("think_s", [0.0, 0.5])
def test_clients_with_fixed_times_have_a_closed_form(think_s: float) -> None:
    """Each waits so long that N services and the think time take turns: N services - think time <= bound."""
    most = int((0.42 + think_s) / SERVICE_S)
    capacity = capacity_of("p90 <= 420ms", clients=Clients(1, think_s))
    assert (capacity.clients.kept, capacity.clients.not_kept, capacity.limited_by) == (most, most + 1, "p90 <= 420ms")
    assert capacity.columns()["clients"] == [probe.clients for probe in capacity.probes]
    few = capacity_of("p90 <= 420ms", clients=Clients(2, think_s), most_clients=5)
    assert (few.clients.kept, few.clients.not_kept, few.limited_by) == (5, None, None)
    none = capacity_of("p90 <= 42ms", clients=Clients(2, think_s))
    assert (none.clients.kept, none.clients.not_kept, none.kept_per_s) == (None, 2, None)


def test_verdicts_follow_the_intervals_and_the_rate():
    capacity = capacity_of("violation_rate <= 5 %", "mean <= 80ms")
    order = {"kept": 0, "undecided": 1, "not kept": 2}
    verdicts = [order[probe.verdict] for probe in capacity.probes]
    assert verdicts == sorted(verdicts)
    assert all(a.rate_per_s < b.rate_per_s for a, b in pairwise(capacity.probes))
    for probe in capacity.probes:
        pairs = list(zip(probe.estimates, (0.05, 0.08), strict=True))
        above = [item.interval.low > bound for item, bound in pairs]
        below = [item.interval.high <= bound for item, bound in pairs]
        expected = "not kept" if any(above) else "kept" if all(below) else "undecided"
        assert probe.verdict == expected
        assert probe.requests == capacity.max_requests or expected != "undecided"
        assert (probe.broken is None) == (expected != "not kept")
    kept = [probe for probe in capacity.probes if probe.verdict == "kept"]
    assert capacity.kept_per_s == kept[-1].rate_per_s


def test_a_stricter_requirement_never_bears_more():
    strict, loose = capacity_of("mean <= 60ms"), capacity_of("mean <= 90ms")
    both = capacity_of("mean <= 60ms", "mean <= 90ms")
    assert strict.not_kept_per_s < loose.kept_per_s
    assert (both.kept_per_s, both.not_kept_per_s) == (strict.kept_per_s, strict.not_kept_per_s)
    assert both.limited_by == "mean <= 60ms"


def test_any_number_of_threads_finds_the_same():
    table = table_of([[0.02, 0.03], [0.03, 0.04]], [0.4, 0.6])
    found = [
        asdict(capacity_of("p90 <= 150ms", table=table, policy="fluid", threads=threads, count=200))
        for threads in (1, 5)
    ]
    assert found[0] == found[1]


def test_a_trace_at_another_rate_is_the_same_trace_rescaled():
    unit = [DeviceTraffic.of(prepare(poisson(1.0, count, 1), [0.3, 0.7], slo_s=1.0, seed=1)) for count in (100, 200)]
    short, long = at_rate(unit[0], 3.0).whole, at_rate(unit[1], 3.0).whole
    assert long.trace.arrival_s == pytest.approx(poisson(3.0, 200, 1).arrival_s, rel=1e-12)
    assert long.exits.tolist() == draw([0.3, 0.7], 200, 1).tolist()
    for again in (short, at_rate(unit[1].first(100), 3.0).whole):
        assert again.trace.arrival_s.tolist() == long.trace.arrival_s[:100].tolist()
        assert again.exits.tolist() == long.exits[:100].tolist()
    assert (2 * at_rate(unit[1], 6.0).whole.trace.arrival_s).tolist() == long.trace.arrival_s.tolist()


@pytest.mark.parametrize("policy", ["serial", "lazy", "fluid"])
def test_nobody_is_faster_than_saturation(policy):
    table = table_of([[0.02, 0.03, 0.05], [0.03, 0.04, 0.06]], [0.4, 0.6])
    rate = saturation_rate(ServedNetwork(table=table))
    assert rate == pytest.approx(1 / (0.03 / 2 + 0.6 * 0.04 / 2))
    assert saturation_rate(ServedNetwork(table=table), 1) == pytest.approx(1 / (0.02 + 0.6 * 0.03))
    count = 2000
    trace, exits = poisson(1e6, count, 0), draw([0.4, 0.6], count, 0)
    replay = simulate(table, traffic_of(trace, exits, 1), find_policy(policy))
    assert count / replay.end_s < 1.05 * rate


@pytest.mark.parametrize("policy", ["serial", "lazy", "fluid", "batchcond:similar=width"])
def test_nobody_is_faster_than_saturation_at_widths_and_steps_of_their_own(policy):
    stage_s, rates, count = [[0.02, 0.03, 0.05], [0.03, 0.04, 0.06]], [0.4, 0.6], 2000
    table = with_variants(stage_s, widths=[9.0, 6.0, 3.0], exits=repeating_exits(stage_s, rates))
    columns = parse_columns(width="shares:2=0.3,3=0.2,5=0.3,9=0.2", steps="ratio=0.5,absolute=1,high=5")
    trace = add_columns(poisson(1e6, count, 0), 0, columns)
    rate = saturation_rate(ServedNetwork(table=table), columns=columns)
    assert rate > 1.5 * saturation_rate(ServedNetwork(table=table))
    replay = simulate(table, prepare(trace, rates, slo_s=1.0), find_policy(policy))
    assert count / replay.end_s < 1.05 * rate


def test_saturation_is_that_of_each_request_by_itself():
    """A stage is cheapest at any width from the request's own up, and in any of the batch sizes."""
    widths, rates = [9.0, 6.0, 3.0], [0.4, 0.6]
    table = with_variants([[0.02, 0.03], [0.03, 0.05]], widths=widths, exits=repeating_exits([[1], [1]], rates))
    assert table.stage_s is not None
    table.stage_s[-1][-1][:] = 9.0, 9.0  # the last stage at the least width: slower than at a wider
    columns = parse_columns(width="shares:2=0.3,3=0.2,5=0.3,9=0.2", steps="ratio=0.5,high=5")
    steps_of, mean_s = {2: 1, 3: 2, 5: 2, 9: 4}, 0.0
    for width, share in ((2, 0.3), (3, 0.2), (5, 0.3), (9, 0.2)):
        wide = [variant for variant, limit in enumerate(widths) if limit >= width]
        least_s = [min(table.array(v)[stage, stage + 1, b] / b for v in wide for b in (1, 2)) for stage in range(2)]
        mean_s += share * (least_s[0] + 0.6 * steps_of[width] * least_s[1])
    assert saturation_rate(ServedNetwork(table=table), columns=columns) == pytest.approx(1 / mean_s, rel=0.01)


def test_saturation_knows_where_samples_leave_and_how_wide_they_are():
    """Three of four leave at the first exit, where the table states 0.4; the one that goes on is the widest."""
    stage_s = [[0.02, 0.03], [0.03, 0.04]]
    confidences, right = np.array([[0.9], [0.8], [0.7], [0.2]]), np.ones((4, 2), dtype=bool)
    samples = Samples(confidences, right)
    network = ServedNetwork(table=table_of(stage_s, [0.4, 0.6]), samples=samples, threshold=0.5, slo_s=1.0)
    assert saturation_rate(network) == pytest.approx(1 / (0.03 / 2 + 0.25 * 0.04 / 2))
    traffic = prepare_requests([network], Requests(seed=1), poisson(1e6, 2000, 0))
    assert 2000 / simulate([network], traffic, find_policy("fluid")).end_s < 1.05 * saturation_rate(network)
    narrow = replace(samples, width=np.array([4.0, 4.0, 4.0, 8.0]))  # half as long at the smaller width
    wide = replace(network, table=with_variants(stage_s, widths=[8.0, 4.0]), samples=narrow)
    mean_s = (3 * 0.0075 + 0.015) / 4 + 0.02 / 4
    assert saturation_rate(wide) == pytest.approx(1 / mean_s, rel=1e-12)


def test_saturation_counts_steps_and_the_largest_width():
    """Requests without columns state neither."""
    stage_s = [[0.02, 0.03], [0.03, 0.04]]
    assert saturation_rate(ServedNetwork(table=repeating(stage_s, 5))) == pytest.approx(1 / (0.03 / 2 + 5 * 0.04 / 2))
    wide = ServedNetwork(table=with_variants(stage_s, widths=[8.0, 4.0]))
    assert saturation_rate(wide) == saturation_rate(ServedNetwork(table=table_of(stage_s)))


def repeating_exits(stage_s, rates):
    """The exits of a network with these rates, whose last stage runs up to five times."""
    *before, last = table_of(stage_s, rates).exits
    return [*before, last.model_copy(update={"steps": 5})]


def test_policies_that_need_predictions_have_them():
    table = table_of([[0.02, 0.03], [0.03, 0.04]], [0.4, 0.6])
    search: dict[str, Any] = {"table": table, "policy": "batchcond:similar=depth", "count": 200}
    with pytest.raises(InputError, match="expected a trace with predicted_depth, found none"):
        capacity_of("p90 <= 150ms", **search)
    capacity = capacity_of("p90 <= 150ms", predict_depth=0.7, **search)
    assert capacity == capacity_of("p90 <= 150ms", predict_depth=0.7, threads=1, **search)
    assert capacity.kept_per_s is not None


def test_no_rate_at_all():
    capacity = capacity_of("mean <= 40ms")
    assert (capacity.kept_per_s, capacity.limited_by) == (None, "mean <= 40ms")
    assert capacity.not_kept_per_s == capacity.low_per_s == capacity.probes[0].rate_per_s == pytest.approx(20 / 1024)


def test_every_rate_up_to_the_highest():
    capacity = capacity_of("mean <= 40s", high_per_s=10.0)
    assert (capacity.kept_per_s, capacity.not_kept_per_s, capacity.limited_by) == (10.0, None, None)
    assert len(capacity.probes) == 1


def test_what_cannot_be_decided_stays_open():
    capacity = capacity_of("mean <= 75ms", count=100, max_requests=100)
    between = [probe for probe in capacity.probes if probe.verdict == "undecided"]
    assert between
    assert all(capacity.kept_per_s < probe.rate_per_s < capacity.not_kept_per_s for probe in between)
    rates = [probe.rate_per_s for probe in capacity.probes]
    for edge in (rates.index(capacity.kept_per_s), rates.index(capacity.not_kept_per_s) - 1):
        assert rates[edge + 1] - rates[edge] <= 0.02 * rates[edge + 1]  # from both sides
    high = capacity_of("mean <= 75ms", count=100, max_requests=100, high_per_s=between[0].rate_per_s)
    assert high.not_kept_per_s is None
    assert high.kept_per_s < high.high_per_s


def test_no_late_request_in_a_few_does_not_show_that_there_are_none():
    few = capacity_of("violation_rate <= 1 %", slo_s=9, count=80, max_requests=80, low_per_s=0.01, high_per_s=0.1)
    assert [probe.verdict for probe in few.probes] == ["undecided"] * len(few.probes)
    assert few.kept_per_s is None
    many = capacity_of("violation_rate <= 1 %", slo_s=9, count=800, low_per_s=0.01, high_per_s=0.1)
    assert many.kept_per_s == 0.1


def test_runs_that_are_too_short_can_show_that_a_rate_fails_and_not_that_it_is_kept():
    """Beyond saturation a queue grows for ever, and no run is long enough for an interval."""
    beyond: dict[str, Any] = {"low_per_s": 30.0, "high_per_s": 40.0, "count": 1000, "max_requests": 1000}
    failed, unsure = capacity_of("mean <= 1s", "p90 <= 1s", **beyond), capacity_of("mean <= 1000s", **beyond)
    assert [probe.verdict for probe in failed.probes] == ["not kept"] * len(failed.probes)
    assert [probe.verdict for probe in unsure.probes] == ["undecided"] * len(unsure.probes)
    for estimate in failed.probes[0].estimates + unsure.probes[0].estimates:
        assert 1 < estimate.interval.low <= estimate.value < estimate.interval.high == np.inf


@pytest.mark.parametrize("policy", ["serial:admit=queue:0", "serial:on_deadline=drop"])
def test_a_latency_that_some_never_have_is_surely_too_long(policy: str) -> None:
    """One request without an answer makes the mean infinite; a percentile, if there are too many of them."""
    beyond: dict[str, Any] = {"low_per_s": 10.0, "high_per_s": 15.0, "count": 200, "max_requests": 200}
    for text in ("mean <= 1s", "p90 <= 1s"):
        capacity = capacity_of(text, policy=policy, slo_s=0.06, **beyond)
        assert [probe.verdict for probe in capacity.probes] == ["not kept"] * len(capacity.probes)
        assert all(probe.estimates[0].value == np.inf for probe in capacity.probes)
    # also where not every seed has one
    rare = capacity_of("mean <= 1s", policy=policy, slo_s=0.06, **beyond | {"low_per_s": 0.01})
    assert {probe.verdict for probe in rare.probes} == {"kept", "not kept"}
    enough = capacity_of("violation_rate <= 99 %", policy=policy, slo_s=0.06, **beyond)
    assert enough.kept_per_s == 15.0


def test_intervals_of_shares_end_at_0_and_at_100_percent():
    capacity = capacity_of("busy_share <= 99.9 %", "violation_rate <= 99.9 %", count=500, max_requests=500)
    assert len(capacity.probes) > 1
    for probe in capacity.probes:
        for estimate in probe.estimates:
            assert 0 <= estimate.interval.low <= estimate.value <= estimate.interval.high <= 1


def test_a_low_end_that_is_left_out_is_never_too_low():
    least, high = CapacityOptions(high_per_s=0.5).ends(10_000.0)
    assert (least, high) == (0.01, 0.5)


@pytest.mark.parametrize(
    ("texts", "options", "expected"),
    [
        ([], {}, "at least one requirement"),
        (["goodput >= 5 /s"], {}, "more traffic makes worse"),
        (["mean >= 5ms"], {}, "more traffic makes worse"),
        (["max <= 5ms"], {}, "more traffic makes worse"),
        (["unfinished <= 0"], {}, "more traffic makes worse"),
        (["violation_rate <= 0 %"], {}, "expected a bound above 0"),
        (
            ["p99.9 <= 1s"],
            {"count": 100},
            "expected at least 10,000 requests at a rate for p99.9, in all runs together, found at most 8,000",
        ),
        (["mean <= 1s"], {"seeds": 1}, "seeds: expected at least 2"),
        (["mean <= 1s"], {"low_per_s": 5.0, "high_per_s": 5.0}, "expected 0 < low < high"),
        (["mean <= 1s"], {"low_per_s": -1.0}, "expected 0 < low < high"),
        (["mean <= 1s"], {"low_per_s": 1e8}, r"found 1e\+08 /s and 20 /s, the saturation rate, above which no policy"),
        (
            ["mean <= 1s"],
            {"low_per_s": 1e-308},
            "expected at least 2e-05 /s, a millionth of the saturation rate, found",
        ),
        (["mean <= 1s"], {"high_per_s": 1e-305}, "expected at least 2e-05 /s"),
        (["mean <= 1s"], {"high_per_s": float("nan")}, "expected 0 < low < high"),
        (["mean <= 1s"], {"high_per_s": -3.0}, "expected 0 < low < high, found a highest rate of -3 /s"),
        (["mean <= 1s"], {"clients": Clients(1), "high_per_s": 9.0}, "rate: expected rates or clients to search"),
        (["mean <= 1s"], {"clients": Clients(5), "most_clients": 4}, "clients: expected low <= high <= .* 5 and 4"),
        (["mean <= 1s"], {"clients": Clients(1), "most_clients": 10**4}, "so that each sends 10 of the .* requests"),
        (["mean <= 1s"], {"max_requests": 10}, "expected at least 1 and at most 10"),
    ],
)
def test_what_cannot_be_searched_is_refused(texts, options, expected):
    with pytest.raises(InputError, match=expected) as caught:
        capacity_of(*texts, **options)
    assert len(caught.value.faults) == 1


def test_capacity_on_the_command_line(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    common = ["capacity", tiny_design, "--slo", "400us", "--count", 400, "--seeds", 3]
    done = fluidb(*common, "--require", "violation_rate <= 5 %", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert content["schema"] == "fluidb.capacity-output/1"
    assert content["low_per_s"] < content["kept_per_s"] < content["not_kept_per_s"] < content["high_per_s"]
    assert content["requirements"] == ["violation_rate <= 5 %"]
    again = fluidb(*common, "--require", "violation_rate <= 5 %", "--json", "--threads", 3)
    assert again.stdout == done.stdout
    done = fluidb(*common, "--require", "violation_rate <= 5 %")
    assert f"highest rate kept  {content['kept_per_s']:,.1f} /s\n" in done.stdout
    assert "undecided between" in done.stdout

    done = fluidb(*common, "--require", "mean <= 1us")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert 'at the lowest "mean <= 1us" is not kept' in done.stderr
    done = fluidb(*common, "--require", "mean <= 1us", "--json")
    assert (done.returncode, json.loads(done.stdout)["kept_per_s"]) == (1, None)

    done = fluidb(*common, "--require", "mean <= 1s", "--rate", "..100")
    assert done.returncode == 0
    assert "none up to 100 /s, the highest rate searched" in done.stdout

    similar = [*common, "--require", "mean <= 1s", "--rate", "..100", "--policy", "batchcond:similar=depth"]
    assert "draw it (predict_depth), e.g. 0.7" in fluidb(*similar).stderr
    assert json.loads(fluidb(*similar, "--predict-depth", 0.7, "--json").stdout)["predict_depth"] == 0.7

    for rates in ("5", "x..9", "1..2..3"):
        (line,) = lines(fluidb(*common, "--require", "mean <= 1s", "--rate", rates))
        assert line == f'fluidb: --rate: expected the lowest rate, .. and the highest, found "{rates}"; e.g. 5..50'
    (line,) = lines(fluidb(*common, "--require", "mean <= 1s", "--rate", "9..5"))
    assert line == "fluidb: --rate: expected 0 < low < high, found 9 /s and 5 /s"

    done = fluidb(*common, "--require", "mean <= 300us", "--clients", "..12", "--think", "exponential:100us", "--json")
    content = json.loads(done.stdout)
    closed, (first, *_) = content["clients"], content["probes"]
    assert (first["clients"], closed["low"], closed["high"], content["think"]) == (1, 1, 12, "exponential:100us")
    assert closed["kept"] + 1 <= closed["not_kept"]
    done = fluidb(*common, "--require", "mean <= 300us", "--clients", "..12", "--think", "exponential:100us")
    assert re.search(rf"^most clients kept +{closed['kept']}, who are served at ", done.stdout, re.MULTILINE)
    assert re.search(
        rf"^fewest not kept +{closed['not_kept']}, who are served at .*: mean <= 300us", done.stdout, re.MULTILINE
    )
    assert "think time         exponential:100us" in done.stdout
    done = fluidb(*common, "--require", "mean <= 1us", "--clients", "..12")
    assert done.returncode == 1
    assert done.stderr.startswith("fluidb: no number of clients from 1 to 12 is kept")
    for more, fault in (
        (["--clients", 5], '--clients: expected the lowest number, .. and the highest, found "5"; e.g. 1..64'),
        (
            ["--think", "1ms"],
            "--think: expected --clients beside it, found none; leave it out, or state e.g. --clients 1..64",
        ),
    ):
        assert lines(fluidb(*common, "--require", "mean <= 1s", *more)) == [f"fluidb: {fault}"]

    assert len(lines(fluidb("capacity", "nowhere", "--slo", "1s", "--require", "mean <= 1"))) == 1
    assert list(tmp_path.iterdir()) == []


def test_requests_are_those_of_the_single_commands(fluidb: Run, tmp_path: Path) -> None:
    """A figure at a rate is the mean of the figures of ``serve-sim`` over ``trace poisson`` and ``trace add``."""
    stage_s = [[0.02, 0.03], [0.03, 0.04]]
    table = with_variants(stage_s, widths=[9.0, 3.0], exits=repeating_exits(stage_s, [0.4, 0.6]))
    write_table(table, tmp_path / "latency.json")
    drawn = {"width": "shares:2=0.5,9=0.5", "steps": "ratio=1,absolute=1,high=5", "predict_width": 0.6}
    drawn["slo"] = "shares:250ms=0.7,2s=0.3"
    columns = [word for name, value in drawn.items() for word in (f"--{name.replace('_', '-')}", value)]
    policy = ["--policy", "batchcond:similar=width"]
    search = ["--rate", "..8", "--seeds", 2, "--count", 200]
    search += ["--require", "busy_share <= 99.9 %", "--require", "violation_rate <= 99.9 %"]
    content = json.loads(fluidb("capacity", tmp_path, *policy, *search, *columns, "--json").stdout)
    assert {name: content[name] for name in drawn} == drawn
    assert [content[name] for name in ("slo_s", "min_accuracy", "predict_depth")] == [None] * 3
    highest, figures = content["probes"][-1], []
    count = highest["requests"]
    for seed in (0, 1):
        fluidb("trace", "poisson", "--rate", 8, "--count", count, "--seed", seed, "-o", "p.csv", "--force")
        fluidb("trace", "add", "p.csv", *columns, "--seed", seed, "-o", "c.csv", "--force")
        alone = json.loads(fluidb("serve-sim", tmp_path, "--trace", "c.csv", *policy, "--seed", seed, "--json").stdout)
        figures.append((alone["busy_share"], alone["violation_rate"]))
    assert 0 < figures[0][1] < 1
    assert highest["rate_per_s"] == 8
    assert [item["value"] for item in highest["estimates"]] == pytest.approx(np.mean(figures, axis=0), rel=1e-9)
    text = fluidb("capacity", tmp_path, *policy, *search, *columns).stdout
    for line in ("widths +shares:2=0.5,9=0.5", "predicted width +correlation 0.6", "SLOs +shares:250ms=0.7,2s=0.3"):
        assert re.search(f"^{line}$", text, re.MULTILINE)


def test_an_objective_that_all_share_is_one_however_it_is_written(fluidb: Run, tiny_design: Path) -> None:
    """A policy may then have parameters that are shares of it."""
    common = ["capacity", tiny_design, "--policy", "adaptb:timeout=S", "--require", "mean <= 1s", "--count", 100]
    found = [json.loads(fluidb(*common, "--slo", slo, "--json").stdout) for slo in ("1ms", "list:1ms", "shares:1ms=1")]
    assert found[0] == found[1] == found[2]
    assert (found[0]["slo_s"], found[0]["slo"]) == (0.001, None)
    (line,) = lines(fluidb(*common, "--slo", "list:1ms,2ms"))
    assert line.startswith("fluidb: --policy: timeout=S is a share of the SLO, but no SLO holds for all requests")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            ["--width", "shares:1=1"],
            "--width: expected a table with widths, or steps that follow from them, found",
        ),
        (
            ["--width", "shares:1=1", "--steps", "ratio=1"],
            "--steps: expected a network whose last stage repeats",
        ),
        (["--min-accuracy", "0.5"], "--min-accuracy: expected a table with SubNets, found one network alone"),
        (["--predict-width", "0.5"], "--predict-width: expected widths to predict, found none"),
        (["--width", "shares:1"], '--width: expected key=number, found "1"'),
    ],
)
def test_columns_that_change_nothing_are_refused(fluidb: Run, tiny_design: Path, options, fault) -> None:
    (line,) = lines(fluidb("capacity", tiny_design, "--slo", "1s", "--require", "mean <= 1s", *options))
    assert line.startswith(f"fluidb: {fault}")
