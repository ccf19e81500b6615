"""The event loop and its policies: against an independent simulator, and under one contract."""

from __future__ import annotations

import math

import naive_serving
import numpy as np
import pytest
from fluidb.dse.design import ExitRow
from fluidb.dse.latency import LatencyRow, LatencyTable
from fluidb.formats import InputError
from fluidb.serving import POLICIES, Trace, find_policy, simulate, summarise
from fluidb.serving.policies import compile_policy
from hypothesis import given, settings
from hypothesis import strategies as st


def table_of(stage_s: list[list[float]], rates: list[float] | None = None) -> LatencyTable:
    """A latency table from the times of each stage, b = 1..b_max."""
    stages, times = len(stage_s), np.array(stage_s)
    rows = [
        LatencyRow(from_exit=i, to_exit=j, time_s=times[i:j].sum(axis=0).tolist())
        for i in range(stages)
        for j in range(i + 1, stages + 1)
    ]
    rates = rates or [0.0] * (stages - 1) + [1.0]
    exits = [ExitRow(name=f"e{i}", rate=rate) for i, rate in enumerate(rates, 1)]
    return LatencyTable(exits=exits, b_max=len(stage_s[0]), stage_macs=[100] * stages, peak_macs_per_s=1e4, rows=rows)


def trace_of(arrivals, slo_s=None) -> Trace:
    slo = None if slo_s is None else np.broadcast_to(np.array(slo_s, dtype=float), len(arrivals)).copy()
    return Trace(np.arange(len(arrivals)), np.array(arrivals, dtype=float), slo_s=slo)


@st.composite
def workloads(draw):
    """A table, arrivals (ties and bursts among them), exits and objectives."""
    stages, b_max = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    first = draw(st.lists(st.floats(0.01, 2.0), min_size=stages, max_size=stages))
    growth = draw(st.floats(0.0, 1.2))
    table = table_of([[time * (1 + growth * b) for b in range(b_max)] for time in first])
    gaps = draw(
        st.lists(st.one_of(st.just(0.0), st.floats(0, 3), st.sampled_from([0.5, 1.0])), min_size=1, max_size=30)
    )
    exits = draw(st.lists(st.integers(1, stages), min_size=len(gaps), max_size=len(gaps)))
    slos = draw(st.one_of(st.floats(0.05, 20).map(lambda s: [s] * len(gaps)),
                          st.lists(st.floats(0.05, 20), min_size=len(gaps), max_size=len(gaps))))  # fmt: skip
    return table, trace_of(np.cumsum(gaps), slos), np.array(exits)


@settings(max_examples=300)
@given(workloads(), st.sampled_from(["serial", "fluid"]))
def test_every_request_as_in_an_independent_simulator(workload, policy):
    table, trace, exits = workload
    found = simulate(table, trace, find_policy(policy), exits=exits)
    expected = getattr(naive_serving, policy)(
        trace.arrival_s.tolist(), exits.tolist(), trace.slo_s.tolist(), table.array().tolist(), table.b_max
    )
    assert found.finish_s.tolist() == expected.finish_s
    assert found.start_s.tolist() == expected.start_s
    assert found.preempted.tolist() == expected.preempted
    assert found.preemptions == expected.preemptions


@settings(max_examples=100)
@given(workloads(), st.sampled_from(list(POLICIES)))
def test_contract_of_every_policy(workload, policy):
    """Nothing lost, nothing twice, never over b_max, time never runs back, no idling while a request waits."""
    table, trace, exits = workload
    found = simulate(table, trace, find_policy(policy), exits=exits)
    assert np.all(np.isfinite(found.finish_s))
    assert np.all(found.start_s >= trace.arrival_s)
    assert np.all(np.diff(found.start_s) >= 0)  # first come, first started
    alone = table.array()[0, exits, 1]
    assert np.all(found.finish_s - found.start_s >= alone - 1e-9)
    # every stage of every request ran exactly once
    batch = np.arange(table.b_max + 1)
    passed = [(exits >= stage).sum() for stage in range(1, len(table.exits) + 1)]
    assert (found.launches @ batch).tolist() == passed
    # work-conserving: the NPU runs whenever something waits or runs
    times = table.array()
    stages = np.arange(len(table.exits))
    busy_s = (found.launches * times[stages, stages + 1]).sum()
    idle_s, free_at = 0.0, -math.inf
    for start, finish in sorted(zip(trace.arrival_s, found.finish_s, strict=True)):
        idle_s += max(0.0, start - max(free_at, trace.arrival_s[0]))
        free_at = max(free_at, finish)
    assert busy_s + idle_s == pytest.approx(found.finish_s.max() - trace.arrival_s[0], rel=1e-9)
    again = simulate(table, trace, find_policy(policy), exits=exits)
    assert np.array_equal(again.finish_s, found.finish_s)


def test_the_timeline_of_figure_6():
    """Paper 000, Fig. 6, in units of a stage.

    Samples 1 and 2 reach E1 and 2 leaves; 3 to 6 have come meanwhile, are run to
    E1 while 1 stands still, and 6 leaves; 7 and 8 have come, but the criterion
    says no; 1, 3, 4 and 5 finish together.
    """
    table = table_of([[1.0] * 8, [1.0] * 8])
    arrivals = [0.0, 0.0, 0.2, 0.3, 0.5, 0.9, 1.5, 1.6]
    exits = np.array([2, 1, 2, 2, 2, 1, 2, 2])
    found = simulate(table, trace_of(arrivals), find_policy("fluid"), exits=exits, slo_s=3.5)
    assert found.finish_s.tolist() == [3.0, 1.0, 3.0, 3.0, 3.0, 2.0, 5.0, 5.0]
    assert found.start_s.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0]
    assert found.preempted.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert found.preemptions == 1
    assert found.launches[0].tolist() == [0, 0, 2, 0, 1, 0, 0, 0, 0]
    assert found.launches[1].tolist() == [0, 0, 1, 0, 1, 0, 0, 0, 0]
    # asked at E1 with sample 1, after the merge, and at E1 with samples 7 and 8
    assert found.scheduler_calls == 3


def test_the_criterion_is_strict_and_uses_the_batched_times():
    """Equation (4): an overhead equal to the slack does not preempt."""
    table = table_of([[1.0, 1.5], [2.0, 2.5]])
    exits = np.array([2, 2])
    overhead = 1.0 + 2.5  # the new one to exit 1, then both to the end
    for slack, preemptions in ((overhead, 0), (overhead + 1e-9, 1)):
        found = simulate(table, trace_of([0.0, 0.5]), find_policy("fluid"), exits=exits, slo_s=1.0 + slack)
        assert found.preemptions == preemptions


def test_an_arrival_at_the_instant_of_a_decision_is_seen():
    found = simulate(
        table_of([[1.0, 1.0]]), trace_of([0.0, 1.0, 1.0]), find_policy("fluid"), exits=np.array([1] * 3), slo_s=9
    )
    assert found.finish_s.tolist() == [1.0, 2.0, 2.0]


def test_fluid_with_batches_of_one_is_serial():
    table = table_of([[0.3], [0.4], [0.5]])
    rng = np.random.default_rng(0)
    trace, exits = trace_of(np.cumsum(rng.exponential(1.0, 500)), 2.0), rng.integers(1, 4, 500)
    serial, fluid = (simulate(table, trace, find_policy(name), exits=exits) for name in ("serial", "fluid"))
    assert np.array_equal(serial.finish_s, fluid.finish_s)


def test_summary_by_hand():
    table = table_of([[1.0, 1.0], [2.0, 2.0]])
    found = simulate(table, trace_of([1.0, 1.0, 10.0]), find_policy("fluid"), exits=np.array([1, 2, 2]), slo_s=2.5)
    summary = summarise(found, table)
    # two run to exit 1 in 1 s, one goes on for 2 s; the third, alone, takes 3 s from 10 s
    assert summary.mean_latency_s == pytest.approx((1 + 3 + 3) / 3)
    assert (summary.p50_latency_s, summary.p90_latency_s, summary.max_latency_s) == (3.0, 3.0, 3.0)
    assert summary.violations == 2
    assert summary.violation_rate == pytest.approx(2 / 3)
    assert summary.span_s == 12.0
    assert summary.processing_rate_per_s == pytest.approx(3 / 12)
    assert summary.arrival_rate_per_s == pytest.approx(2 / 9)
    assert summary.busy_share == pytest.approx(6 / 12)
    assert summary.mac_share == pytest.approx((2 * 100 + 100 + 200) / (1e4 * 12))
    assert summary.mean_batch == pytest.approx((1 * 2 + 2 * 1 + 3 * 1) / 6)
    assert summary.samples_per_exit == [1, 2]
    assert summary.mean_wait_s == 0


def test_percentiles_are_over_all_requests_by_nearest_rank():
    table = table_of([[1.0]])
    arrivals = np.arange(100) * 0.5  # ever later: latencies 1, 1.5, 2, ...
    found = simulate(table, trace_of(arrivals), find_policy("serial"), exits=np.ones(100, dtype=int), slo_s=1)
    summary = summarise(found, table)
    assert (summary.p50_latency_s, summary.p90_latency_s, summary.p99_latency_s) == (25.5, 45.5, 50.0)


def test_objectives_of_the_trace_win():
    table = table_of([[1.0, 1.5]])
    found = simulate(table, trace_of([0.0, 5.0], [0.5, 2.0]), find_policy("fluid"), exits=np.array([1, 1]), slo_s=9)
    assert found.violated.tolist() == [True, False]
    with pytest.raises(InputError, match="slo: expected --slo, or a trace with a column slo_s"):
        simulate(table, trace_of([0.0]), find_policy("fluid"), exits=np.array([1]))


def test_a_burst_is_served_in_order():
    count = 20_000
    table = table_of([[1.0, 1.5, 2.0], [1.0, 1.5, 2.0]])
    found = simulate(table, trace_of(np.zeros(count)), find_policy("fluid"), exits=np.full(count, 2), slo_s=1.0)
    assert np.all(np.diff(found.finish_s) >= 0)
    assert found.finish_s[-1] == pytest.approx((count // 3) * 4.0 + 3.0)


@compile_policy
def _greedy(view, latency):
    return view.waiting + 1, 1, math.inf


@compile_policy
def _lazy(view, latency):
    return 0, 0, view.now_s


@compile_policy
def _asleep(view, latency):
    return (1, 1, math.inf) if view.depth == 0 else (0, 0, math.inf)


@compile_policy
def _never(view, latency):
    return 0, 1, math.inf


@pytest.mark.parametrize("policy", [_greedy, _lazy, _asleep, _never])
def test_a_policy_that_breaks_the_contract_is_told_so(policy):
    with pytest.raises(InputError, match="policy: .*docs/add-a-policy.md"):
        simulate(table_of([[1.0, 1.0], [1.0, 1.0]]), trace_of([0.0, 0.0]), policy, exits=np.array([2, 2]), slo_s=1)


@compile_policy
def _patient(view, latency):
    """Wait for a full batch, at most 2 s: what AdaptB does."""
    due_s = view.head_arrival_s + 2.0
    if view.depth > 0:
        return 0, latency.shape[1], math.inf
    if view.waiting >= view.b_max or view.now_s >= due_s:
        return min(view.waiting, view.b_max), latency.shape[1], math.inf
    return 0, 0, due_s


def test_a_policy_may_wait():
    table = table_of([[1.0, 1.0, 1.0]])
    found = simulate(table, trace_of([0.0, 0.5, 5.0, 5.1, 5.2]), _patient, exits=np.ones(5, dtype=int), slo_s=9)
    assert found.start_s.tolist() == [2.0, 2.0, 5.2, 5.2, 5.2]


def test_unknown_policy_lists_the_known_ones():
    with pytest.raises(InputError, match=r'unknown policy "fluld"; .*fluid'):
        find_policy("fluld")
