"""What a simulation is summed up to: by hand, and by laws that hold for every policy."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, replace

import numpy as np
import pytest
from builders import everybody, scheduler_named, table_of, ticks, trace_of, traffic_of, with_variants, workloads
from fluidb.formats import InputError
from fluidb.serving import POLICIES, find_policy, prepare_requests, simulate, summarise, write_requests
from fluidb.serving.case import variants_of
from fluidb.serving.inputs import Requests
from fluidb.serving.metrics import figures_of, variance_within
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.one_run import OneRun
from fluidb.serving.requirements import judge, parse_requirement
from fluidb.tables.latency import LatencyTable
from fluidb.tables.reuse import SubNetEntry
from fluidb.traffic import Trace, offline, prepare
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(1, 600))
def test_where_the_macs_went_sums_to_one_and_little_s_law_holds(workload, policy, call_s):
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy, call_s))
    summary = summarise(replay)
    assert summary.utilisation
    shares = asdict(summary.utilisation)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(share >= 0 for share in shares.values())
    macs = 100 * exits.sum()  # every stage that a request passes makes 100
    needed = macs / (table.peak_macs_per_s * summary.span_s)
    if policy == "batchcond":  # it may carry samples along that have exited, for which MACs are made too
        assert shares["mac_share"] >= needed * (1 - 1e-12)
    else:
        assert shares["mac_share"] == pytest.approx(needed)
    # Little: requests in the system, averaged over the span, are arrival rate times mean latency
    events = np.sort(np.concatenate([trace.arrival_s, replay.finish_s]))
    present = [((trace.arrival_s <= t) & (replay.finish_s > t)).sum() for t in events[:-1]]
    mean_present = float(np.dot(present, np.diff(events))) / summary.span_s
    assert mean_present == pytest.approx(len(trace) / summary.span_s * summary.mean_latency_s)


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 600), ticks(1, 3000))
def test_a_simulation_that_is_stopped_counts_what_was_done_by_then(workload, policy, call_s, until):
    """The recorded runs tell: each lane's time up to the stop, and nothing after it."""
    table, trace, exits = workload
    until_s = trace.arrival_s[0] + until
    served = traffic_of(trace, exits)
    replay = simulate(table, served, scheduler_named(policy, call_s), until_s=until_s, record=True)
    summary, runs = summarise(replay), replay.runs
    assert summary.utilisation
    assert runs
    shares = asdict(summary.utilisation)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(share >= 0 for share in shares.values())
    done_s = np.clip(np.minimum(runs.end_s, replay.end_s) - runs.begin_s, 0.0, None).sum()
    assert summary.busy_share * summary.span_s == pytest.approx(done_s)
    assert sum(exit_.requests for exit_ in summary.exits) == summary.requests - summary.unfinished


def test_a_preempted_request_has_stood_still_until_the_stop():
    table, traffic = table_of([[4.0, 4.0]] * 2), traffic_of(trace_of([0.0, 1.0]), np.array([2, 2]), 100.0)
    replay = simulate(table, traffic, find_policy("lazy"), until_s=1.5)
    assert replay.stalled_s.tolist() == [0.5, 0.0]  # lazy is asked after the first layer, at 1 s


def test_an_answer_that_was_not_given_is_neither_right_nor_wrong():
    trace = Trace(np.arange(2), np.zeros(2), exits=np.array([1, 2]), correct=np.array([[0, 1], [0, 1]], dtype=bool))
    traffic = prepare(trace, [0.5, 0.5], slo_s=9.0)
    one, none = (simulate(table_of([[1.0] * 2] * 2), traffic, find_policy("fluid"), until_s=at) for at in (1.5, 0.5))
    assert summarise(one).accuracy == 0.0
    assert [exit_.accuracy for exit_ in summarise(one).exits] == [0.0, None]
    assert summarise(none).accuracy is None
    with pytest.raises(InputError, match=r"accuracy >= 90 %.*an answer before the simulation was stopped, found none"):
        judge(parse_requirement("accuracy >= 90 %"), summarise(none))


def test_summary_by_hand():
    table = table_of([[1.0, 1.0], [2.0, 2.0]])
    replay = simulate(table, traffic_of(trace_of([1.0, 1.0, 10.0]), np.array([1, 2, 2]), 2.5), find_policy("fluid"))
    summary = summarise(replay)
    # two run to exit 1 in 1 s, one goes on for 2 s; the third, alone, takes 3 s from 10 s
    assert summary.mean_latency_s == pytest.approx((1 + 3 + 3) / 3)
    assert [percentile.latency_s for percentile in summary.percentiles] == [3.0] * 5
    assert summary.max_latency_s == 3.0
    assert summary.violations == 2
    assert summary.violation_rate == pytest.approx(2 / 3)
    assert summary.span_s == 12.0
    assert summary.processing_rate_per_s == pytest.approx(3 / 12)
    assert summary.goodput_per_s == pytest.approx(1 / 12)
    assert summary.arrival_rate_per_s == pytest.approx(2 / 9)
    assert summary.busy_share == pytest.approx(6 / 12)
    made = (2 * 100 + 100 + 200) / (1e4 * 12)
    assert summary.utilisation
    assert summary.utilisation.mac_share == pytest.approx(made)
    assert summary.utilisation.tile_padding_share == pytest.approx(6 / 12 - made)
    assert summary.utilisation.idle_share == pytest.approx(6 / 12)
    assert summary.mean_batch == pytest.approx((1 * 2 + 2 * 1 + 3 * 1) / 6)
    assert [(exit_.requests, exit_.mean_latency_s) for exit_ in summary.exits] == [(1, 1.0), (2, 3.0)]
    assert [(stage.runs, stage.runs_by_batch) for stage in summary.stages] == [(2, [1, 1]), (2, [2, 0])]
    assert summary.mean_wait_s == 0
    assert summary.accuracy is None


@pytest.mark.parametrize("policy", ["fluid", "fluid-slack"])  # the second decides after each layer
def test_energy_by_hand(policy):
    """The layers a and b of a batch take 1 and 3 J for each stage and sample, and 2 J for each batch."""
    table = table_of([[1.0, 1.0], [2.0, 2.0]])
    joules = {"a": (1, 1), "b": (1, 3)}
    layers = [
        layer.model_copy(update={"energy_j": [joules[layer.name[0]][0] + b * joules[layer.name[0]][1] for b in (1, 2)]})
        for layer in table.layers
    ]
    counted = LatencyTable.model_validate(dict(table) | {"layers": layers, "static_w": 0.5})
    traffic = traffic_of(trace_of([1.0, 1.0, 10.0]), np.array([1, 2, 2]), 9.0)
    summary = summarise(simulate(counted, traffic, find_policy(policy)))
    batches = [
        (stage, b)
        for stage, row in enumerate(summary.stages, 1)
        for b, n in enumerate(row.runs_by_batch, 1)
        for _ in range(n)
    ]
    segments = summary.stages[0].segments
    expected = sum(2 + 4 * b for _, b in batches) / segments + 0.5 * summary.span_s
    assert summary.energy_j == pytest.approx(expected / 3)
    assert judge(parse_requirement("energy <= 100J"), summary).holds
    without = summarise(simulate(table, traffic, find_policy(policy)))
    assert without.energy_j is None
    assert "energy_j" not in without.record()
    with pytest.raises(InputError, match="whose file states energies"):
        judge(parse_requirement("energy <= 100J"), without)


def test_a_table_states_energies_of_all_layers_or_none():
    table = table_of([[1.0, 1.0], [2.0, 2.0]])
    one = [table.layers[0].model_copy(update={"energy_j": [1.0, 2.0]}), *table.layers[1:]]
    for changed in ({"layers": one}, {"static_w": 1.0}):
        with pytest.raises(ValueError, match="expected energy_j of each or of none"):
            LatencyTable.model_validate(dict(table) | changed)


def test_percentiles_are_over_all_requests_by_nearest_rank():
    table = table_of([[1.0]])
    arrivals = np.arange(100) * 0.5  # ever later: latencies 1, 1.5, 2, ...
    replay = simulate(table, traffic_of(trace_of(arrivals), np.ones(100, dtype=int), 1), find_policy("serial"))
    summary = summarise(replay)
    assert [percentile.latency_s for percentile in summary.percentiles] == [25.5, 45.5, 48.0, 50.0, 50.5]


def test_shares_of_a_device_that_is_never_idle_are_none_and_all_of_it():
    """Times such as a tenth are rounded, and so are their sums."""
    for seed in range(40):
        draws = np.random.default_rng(seed)
        count, stages = int(draws.integers(2, 60)), int(draws.integers(1, 5))
        table = table_of(draws.uniform(0.1, 2.0, (stages, 2)).tolist())
        summary = summarise(simulate(table, everybody(count, stages), find_policy("serial")))
        assert summary.utilisation
        assert 0 <= summary.utilisation.idle_share < 1e-9
        assert 1 - 1e-9 < summary.busy_share <= 1
        assert all(0 <= stage.busy_share <= 1 for stage in summary.stages)


def test_who_finds_the_system_empty():
    table = table_of([[1.0, 1.5], [1.0, 1.5]])
    replay = simulate(table, traffic_of(trace_of([0.0, 0.5, 3.5, 6.0, 6.0]), np.full(5, 2), 9), find_policy("serial"))
    # the third waits for the second until 4 s; the fourth and the fifth come together, when the third leaves
    assert replay.finish_s.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert replay.fresh.tolist() == [True, False, False, True, False]
    # the second preempts the first and leaves before it, which the third therefore meets
    replay = simulate(table, traffic_of(trace_of([0.0, 0.5, 2.5]), np.array([2, 1, 1]), 9), find_policy("fluid"))
    assert replay.finish_s.tolist() == [3.0, 2.0, 4.0]
    assert replay.fresh.tolist() == [True, False, False]


def test_a_variant_tells_subnet_and_state():
    """Of three axes, the width varies first."""
    axes = {"widths": [8.0, 4.0], "subnets": [SubNetEntry(name=name) for name in "abc"], "states": ["empty", "full"]}
    replay = simulate(with_variants([[1.0]], **axes), everybody(12, 1), find_policy("serial"))
    assert replay.table.variants == 12
    numbered, known = replace(replay, variant=np.arange(12)), variants_of(replay.table)
    assert numbered.subnet.tolist() == known["subnet"].tolist() == [0, 0, 1, 1, 2, 2] * 2
    assert numbered.state.tolist() == known["state"].tolist() == [0] * 6 + [1] * 6


def test_a_summary_has_the_intervals_of_its_latencies():
    draws = np.random.default_rng(4)
    arrivals, exits = np.cumsum(draws.exponential(0.1, 2000)), draws.integers(1, 3, 2000)
    replay = simulate(table_of([[0.02], [0.04]]), traffic_of(trace_of(arrivals), exits, 0.08), find_policy("serial"))
    summary, run = summarise(replay), OneRun(replay.latency_s, replay.fresh)
    assert summary.independent_requests == run.independent < 2000
    assert summary.mean_interval_s == run.mean().interval
    assert summary.mean_interval_s
    assert summary.mean_interval_s.low < summary.mean_latency_s < summary.mean_interval_s.high
    assert summary.violation_interval == run.share(replay.violated).interval
    assert summary.violation_interval
    assert summary.violation_interval.low < summary.violation_rate < summary.violation_interval.high
    assert summary.percentile("p90").interval_s == run.quantile(0.9).interval
    assert summary.percentile("p99.9").interval_s is None
    assert summary.percentile("p99.9").more_requests_needed == run.quantile(0.999).more_requests_needed > 8000
    few = summarise(simulate(replay.table, replay.traffic.first(300), find_policy("serial")))
    assert (few.mean_interval_s, few.violation_interval, few.more_requests_needed) == (None, None, 100)


def test_requests_unfinished_at_the_end_are_late_and_stay():
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    arrivals = [0.0, 0.5, 1.5, 2.5, 9.0]
    replay = simulate(table, traffic_of(trace_of(arrivals), np.full(5, 2), 3.0), find_policy("serial"), until_s=5.0)
    summary = summarise(replay)
    assert replay.finish_s.tolist() == [2.0, 4.0, math.inf, math.inf]  # the fifth has not arrived by then
    assert (summary.requests, summary.unfinished, summary.violations) == (4, 2, 3)
    assert summary.span_s == 5.0
    assert summary.mean_wait_s == (0.0 + 1.5 + 2.5 + 2.5) / 4  # the fourth has waited until the stop
    assert summary.percentile("p50").latency_s == 3.5
    assert summary.max_latency_s == math.inf
    with pytest.raises(InputError, match="after the first arrival"):
        simulate(table, traffic_of(trace_of([1.0]), np.array([1]), 1.0), find_policy("serial"), until_s=0.5)


def test_objectives_of_the_trace_are_each_request_s_own():
    table, exits = table_of([[1.0, 1.5]]), np.array([1, 1])
    replay = simulate(table, traffic_of(trace_of([0.0, 5.0], [0.5, 2.0]), exits), find_policy("fluid"))
    assert replay.violated.tolist() == [True, False]
    with pytest.raises(InputError, match=r"slo: expected a latency objective \(SLO\), or a trace with a column slo_s"):
        simulate(table, traffic_of(trace_of([0.0, 5.0]), exits), find_policy("fluid"))
    with pytest.raises(InputError, match="slo: expected no column slo_s in the trace beside an objective"):
        simulate(table, traffic_of(trace_of([0.0, 5.0], 1.0), exits, 9.0), find_policy("fluid"))


def test_a_latency_of_exactly_the_objective_is_no_violation():
    """Whatever the arrival adds to rounding: the policy and the metrics see the same deadline."""
    table = table_of([[0.05]])
    arrivals = np.arange(1000) * 0.37
    replay = simulate(table, traffic_of(trace_of(arrivals), np.ones(1000, dtype=int), 0.05), find_policy("serial"))
    assert summarise(replay).violations == 0


def test_the_table_of_requests_is_what_is_written(tmp_path):
    """A dict of equal columns, which pandas takes; the CSV file has the same, times that never came left empty."""
    table = table_of([[1.0, 1.2], [1.0, 1.2]])
    traffic = traffic_of(trace_of(np.array([0.0, 0.5, 4.0])), np.array([1, 2, 2]), 2.0)
    replay = simulate(table, traffic, find_policy("serial"), until_s=4.5)
    columns = replay.columns()
    assert {len(column) for column in columns.values()} == {3}
    assert columns["latency_s"].tolist() == [1.0, 2.5, np.inf]
    assert columns["violated"].tolist() == [False, True, True]
    write_requests(replay, tmp_path / "r.csv")
    header, *rows = [line.split(",") for line in (tmp_path / "r.csv").read_text().splitlines()]
    assert header == list(columns)
    for row, values in zip(rows, zip(*(column.tolist() for column in columns.values()), strict=True), strict=True):
        assert [float(cell or "inf") for cell in row] == [float(value) for value in values]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=30))
def test_variance_within_batches_is_the_mean_of_their_variances(pairs):
    batch, values = np.array(pairs).T
    inside = [[value for number, value in pairs if number == wanted] for wanted in range(1, 5)]
    variances = [statistics.pvariance(members) for members in inside if members]
    assert variance_within(batch, values) == pytest.approx(statistics.fmean(variances) if variances else 0.0)


@settings(max_examples=30)
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_a_batch_is_what_entered_together(workload, policy):
    """Who entered at one time, on one lane, is one batch; batches count up in order of time."""
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy))
    assert set(replay.batch) == set(range(1, int(replay.batch.max()) + 1))
    for number in range(1, int(replay.batch.max()) + 1):
        assert len(set(replay.start_s[replay.batch == number])) == 1
    order = np.argsort(replay.batch, kind="stable")
    assert np.all(np.diff(replay.start_s[order]) >= 0)
    assert summarise(replay).depth_variance == variance_within(replay.batch, exits)


def test_all_at_once_is_one_observation():
    """Offline: batches of two in order of the queue, by hand; a thousand requests tell no interval."""
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    exits = np.array([1, 2, 2, 2, 1])
    trace = replace(offline(5), width=np.array([8.0, 24.0, 8.0, 8.0, 16.0]))
    replay = simulate(table, traffic_of(trace, exits, 4.0), find_policy("adaptb:timeout=0"))
    summary = summarise(replay)
    assert replay.batch.tolist() == [1, 1, 2, 2, 3]
    assert (summary.makespan_s, summary.span_s, summary.arrival_rate_per_s) == (5.0, 5.0, 0.0)
    assert summary.processing_rate_per_s == 1.0
    assert summary.depth_variance == pytest.approx(0.25 / 3)
    assert summary.width_variance == pytest.approx(64 / 3)
    stopped = simulate(table, traffic_of(trace, exits, 4.0), find_policy("adaptb:timeout=0"), until_s=3.0)
    assert summarise(stopped).makespan_s == math.inf
    many = summarise(simulate(table, traffic_of(offline(1000), np.tile(exits, 200), 1e4), find_policy("fluid")))
    assert (many.independent_requests, many.more_requests_needed, many.warm_up_requests) == (1.0, 0, 0)
    assert (many.mean_interval_s, many.violation_interval) == (None, None)
    assert all((percentile.interval_s, percentile.more_requests_needed) == (None, 0) for percentile in many.percentiles)
    assert not offline(1).at_once  # a single request, whose latency tells as much as any


@pytest.mark.parametrize("count", [1, 10])
def test_requests_that_are_all_refused_at_one_instant_are_shares_of_nothing(count: int) -> None:
    table, several = table_of([[1.0]]), replace(offline(count), network=np.full(count, "b"), slo_s=np.full(count, 0.5))
    networks = [ServedNetwork(name=name, table=table) for name in "ab"]
    for replay in (
        simulate(table, traffic_of(offline(count), np.ones(count, int), 0.5), "serial:admit=in_time"),
        simulate(networks, prepare_requests(networks, Requests(), several), "serial:admit=in_time"),
    ):
        whole = figures_of(replay).whole
        assert (whole.span_s, whole.violation_rate, whole.processing_rate_per_s, whole.goodput_per_s) == (0, 1, 0, 0)
        assert whole.utilisation
        assert (whole.busy_share, whole.utilisation.mac_share, whole.utilisation.idle_share) == (0, 0, 1)
