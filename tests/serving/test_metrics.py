"""What a simulation is summed up to: by hand, and by laws that hold for every policy."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from builders import scheduler_named, table_of, ticks, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.serving import POLICIES, find_policy, simulate, summarise, write_requests
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=100)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(1, 600))
def test_where_the_macs_went_sums_to_one_and_little_s_law_holds(workload, policy, call_s):
    table, trace, exits = workload
    found = simulate(table, traffic_of(trace, exits), scheduler_named(policy, call_s))
    summary = summarise(found)
    assert summary.utilisation
    shares = asdict(summary.utilisation)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(share >= -1e-12 for share in shares.values())
    macs = 100 * exits.sum()  # every stage that a request passes makes 100
    assert shares["mac_share"] == pytest.approx(macs / (table.peak_macs_per_s * summary.span_s))
    # Little: requests in the system, averaged over the span, are arrival rate times mean latency
    events = np.sort(np.concatenate([trace.arrival_s, found.finish_s]))
    present = [((trace.arrival_s <= t) & (found.finish_s > t)).sum() for t in events[:-1]]
    mean_present = float(np.dot(present, np.diff(events))) / summary.span_s
    assert mean_present == pytest.approx(len(trace) / summary.span_s * summary.mean_latency_s)


def test_summary_by_hand():
    table = table_of([[1.0, 1.0], [2.0, 2.0]])
    found = simulate(table, traffic_of(trace_of([1.0, 1.0, 10.0]), np.array([1, 2, 2]), 2.5), find_policy("fluid"))
    summary = summarise(found)
    # two run to exit 1 in 1 s, one goes on for 2 s; the third, alone, takes 3 s from 10 s
    assert summary.mean_latency_s == pytest.approx((1 + 3 + 3) / 3)
    assert [item.latency_s for item in summary.percentiles] == [3.0] * 5
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
    assert [(item.requests, item.mean_latency_s) for item in summary.exits] == [(1, 1.0), (2, 3.0)]
    assert [(item.runs, item.runs_by_batch) for item in summary.stages] == [(2, [1, 1]), (2, [2, 0])]
    assert summary.mean_wait_s == 0
    assert summary.accuracy is None


def test_percentiles_are_over_all_requests_by_nearest_rank():
    table = table_of([[1.0]])
    arrivals = np.arange(100) * 0.5  # ever later: latencies 1, 1.5, 2, ...
    found = simulate(table, traffic_of(trace_of(arrivals), np.ones(100, dtype=int), 1), find_policy("serial"))
    summary = summarise(found)
    assert [item.latency_s for item in summary.percentiles] == [25.5, 45.5, 48.0, 50.0, 50.5]
    assert summary.percentile("p50").interval_s == (20.5, 31.0)  # ranks 40 and 61 of 100, as tables have them
    assert summary.percentile("p90").more_requests_needed == 0
    assert (summary.percentile("p99").interval_s, summary.percentile("p99").more_requests_needed) == (None, 268)


def test_requests_unfinished_at_the_end_are_late_and_stay():
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    arrivals = [0.0, 0.5, 1.5, 2.5, 9.0]
    found = simulate(table, traffic_of(trace_of(arrivals), np.full(5, 2), 3.0), find_policy("serial"), until_s=5.0)
    summary = summarise(found)
    assert found.finish_s.tolist() == [2.0, 4.0, math.inf, math.inf]  # the fifth has not arrived by then
    assert (summary.requests, summary.unfinished, summary.violations) == (4, 2, 3)
    assert summary.span_s == 5.0
    assert summary.percentile("p50").latency_s == 3.5
    assert summary.max_latency_s == math.inf
    with pytest.raises(InputError, match="after the first arrival"):
        simulate(table, traffic_of(trace_of([1.0]), np.array([1]), 1.0), find_policy("serial"), until_s=0.5)


def test_objectives_of_the_trace_are_each_request_s_own():
    table, exits = table_of([[1.0, 1.5]]), np.array([1, 1])
    found = simulate(table, traffic_of(trace_of([0.0, 5.0], [0.5, 2.0]), exits), find_policy("fluid"))
    assert found.violated.tolist() == [True, False]
    with pytest.raises(InputError, match="slo: expected --slo, or a trace with a column slo_s"):
        simulate(table, traffic_of(trace_of([0.0, 5.0]), exits), find_policy("fluid"))
    with pytest.raises(InputError, match="--slo would change nothing"):
        simulate(table, traffic_of(trace_of([0.0, 5.0], 1.0), exits, 9.0), find_policy("fluid"))


def test_a_latency_of_exactly_the_objective_is_no_violation():
    """Whatever the arrival adds to rounding: the policy and the metrics see the same deadline."""
    table = table_of([[0.05]])
    arrivals = np.arange(1000) * 0.37
    found = simulate(table, traffic_of(trace_of(arrivals), np.ones(1000, dtype=int), 0.05), find_policy("serial"))
    assert summarise(found).violations == 0


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
