"""The event loop and its policies: against an independent simulator, and under one contract."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import naive_baselines
import naive_serving
import naive_slack
import numpy as np
import pytest
from builders import contender_of, scheduler_of, table_of, ticks, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.serving import POLICIES, find_policy, simulate, summarise
from fluidb.serving.policies import Decision, compile_policy, go_on, launch, sleep
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import Trace
from hypothesis import given, settings
from hypothesis import strategies as st


def expected_outcome(spec: str, table: LatencyTable, trace: Trace, exits, call_s: float, timeout_s: float):
    """What the independent simulators say, and the number of scheduler calls where they count them."""
    assert trace.slo_s is not None
    common = (trace.arrival_s.tolist(), exits.tolist(), trace.slo_s.tolist())
    latency = table.array().tolist()
    if spec == "adaptb":
        return naive_baselines.adaptb(*common, latency, table.b_max, timeout_s), None
    if spec == "lazy":
        layer_s = [[0.0, *layer.time_s] for layer in table.layers]
        exit_after = [0 if layer.name.startswith("a") else layer.stage for layer in table.layers]
        return naive_baselines.lazy(*common, layer_s, exit_after, latency[0][-1][1], table.b_max, call_s)
    if spec == "fluid-slack":
        return naive_slack.fluid_slack(*common, latency, table.b_max), None
    return getattr(naive_serving, spec)(*common, latency, table.b_max), None


@settings(max_examples=400)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16), ticks(0, 200))
def test_every_request_as_in_an_independent_simulator(workload, policy, call_s, timeout_s):
    table, trace, exits = workload
    call_s = call_s if policy == "lazy" else 0.0  # the simulators of the others know of no such cost
    found = simulate(table, traffic_of(trace, exits), contender_of(policy, call_s, timeout_s))
    expected, calls = expected_outcome(policy, table, trace, exits, call_s, timeout_s)
    assert found.finish_s.tolist() == expected.finish_s
    assert found.start_s.tolist() == expected.start_s
    assert found.preempted.tolist() == expected.preempted
    assert found.preemptions == expected.preemptions
    assert calls is None or found.scheduler_calls == calls


@settings(max_examples=200)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16))
def test_contract_of_every_policy(workload, policy, call_s):
    """Nothing lost or twice, never over b_max, time never runs back, no idling where it claims so, deterministic."""
    table, trace, exits = workload
    contender = contender_of(policy, call_s)
    found = simulate(table, traffic_of(trace, exits), contender, record=True)
    assert np.all(np.isfinite(found.finish_s))
    assert np.all(found.start_s >= trace.arrival_s)
    if not policy.startswith("fluid-slack"):
        assert np.all(np.diff(found.start_s) >= 0)  # first come, first started
    alone = table.array()[0, exits, 1]
    assert np.all(found.finish_s - found.start_s >= alone)
    runs, stage = found.runs, found.segments.stage
    assert runs is not None
    assert runs.batch.max() <= table.b_max
    assert np.all(runs.begin_s[1:] >= runs.end_s[:-1])
    # every segment of every request ran exactly once, in order, until its exit
    ran: dict[int, list[int]] = {request: [] for request in range(len(trace))}
    for segment, members in zip(runs.segment, np.split(runs.members, np.cumsum(runs.batch)[:-1]), strict=True):
        for request in members:
            ran[request].append(segment)
    for request, segments in ran.items():
        assert segments == list(range(int((stage <= exits[request]).sum())))
    if contender.policy.work_conserving:
        # whenever a request is in the system, the NPU runs or the scheduler thinks
        busy_s = (found.launches * found.segments.time_s).sum() + found.scheduler_s
        idle_s, free_at = 0.0, trace.arrival_s[0]
        for start, finish in zip(trace.arrival_s, found.finish_s, strict=True):
            idle_s += max(0.0, start - free_at)
            free_at = max(free_at, finish)
        assert busy_s + idle_s == found.finish_s.max() - trace.arrival_s[0]
    again = simulate(table, traffic_of(trace, exits), contender)
    assert np.array_equal(again.finish_s, found.finish_s)


@settings(max_examples=100)
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_compiled_and_plain_python_agree(workload, policy):
    table, trace, exits = workload
    contender = contender_of(policy)

    def decide(view, data):  # numba knows no getattr with a default: this stays plain Python
        return getattr(contender.policy.decide, "py_func", contender.policy.decide)(view, data)

    plain = replace(contender, policy=replace(contender.policy, decide=decide))
    fast, slow = (simulate(table, traffic_of(trace, exits), which) for which in (contender, plain))
    assert np.array_equal(fast.finish_s, slow.finish_s)
    assert fast.scheduler_calls == slow.scheduler_calls


@settings(max_examples=100)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(1, 600))
def test_where_the_macs_went_sums_to_one_and_little_s_law_holds(workload, policy, call_s):
    table, trace, exits = workload
    found = simulate(table, traffic_of(trace, exits), contender_of(policy, call_s))
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


def test_the_timeline_of_figure_6():
    """Paper 000, Fig. 6, in units of a stage.

    Samples 1 and 2 reach E1 and 2 leaves; 3 to 6 have come meanwhile, are run to
    E1 while 1 stands still, and 6 leaves; 7 and 8 have come, but the criterion
    says no; 1, 3, 4 and 5 finish together.
    """
    table = table_of([[1.0] * 8, [1.0] * 8])
    arrivals = [0.0, 0.0, 0.2, 0.3, 0.5, 0.9, 1.5, 1.6]
    exits = np.array([2, 1, 2, 2, 2, 1, 2, 2])
    found = simulate(table, traffic_of(trace_of(arrivals), exits, 3.5), find_policy("fluid"))
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
        found = simulate(table, traffic_of(trace_of([0.0, 0.5]), exits, 1.0 + slack), find_policy("fluid"))
        assert found.preemptions == preemptions


def test_an_arrival_at_the_instant_of_a_decision_is_seen():
    found = simulate(
        table_of([[1.0, 1.0]]), traffic_of(trace_of([0.0, 1.0, 1.0]), np.array([1] * 3), 9), find_policy("fluid")
    )
    assert found.finish_s.tolist() == [1.0, 2.0, 2.0]


def test_fluid_with_batches_of_one_is_serial():
    table = table_of([[0.3], [0.4], [0.5]])
    rng = np.random.default_rng(0)
    trace, exits = trace_of(np.cumsum(rng.exponential(1.0, 500)), 2.0), rng.integers(1, 4, 500)
    serial, fluid = (simulate(table, traffic_of(trace, exits), find_policy(name)) for name in ("serial", "fluid"))
    assert np.array_equal(serial.finish_s, fluid.finish_s)


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


def test_arrivals_so_late_that_stages_vanish_beside_them_are_refused():
    with pytest.raises(InputError, match="start the trace near 0"):
        simulate(table_of([[1e-6]]), traffic_of(trace_of([0.0, 1e9]), np.array([1, 1]), 1.0), find_policy("serial"))


def test_a_burst_is_served_in_order():
    count = 20_000
    table = table_of([[1.0, 1.5, 2.0], [1.0, 1.5, 2.0]])
    found = simulate(table, traffic_of(trace_of(np.zeros(count)), np.full(count, 2), 1.0), find_policy("fluid"))
    assert np.all(np.diff(found.finish_s) >= 0)
    assert found.finish_s[-1] == pytest.approx((count // 3) * 4.0 + 3.0)


@compile_policy
def _greedy(view, data):
    return launch(view.waiting + 1, 1)


@compile_policy
def _restless(view, data):
    return sleep(view.now_s)


@compile_policy
def _lost(view, data):
    return sleep(math.nan)


@compile_policy
def _asleep(view, data):
    return launch(1, 1) if view.depth == 0 else go_on(0)


@compile_policy
def _backwards(view, data):
    return launch(-1, 1)


@compile_policy
def _never(view, data):
    return go_on(1)


@compile_policy
def _elsewhere(view, data):
    return Decision(1, 0, 1, math.inf, True, 1, 0.0)


@pytest.mark.parametrize("policy", [_greedy, _restless, _lost, _asleep, _backwards, _never, _elsewhere])
def test_a_policy_that_breaks_the_contract_is_told_so(policy):
    table, exits = table_of([[1.0] * 2] * 2), np.array([2, 2])
    with pytest.raises(InputError, match="policy mine: .*docs/add-a-policy.md"):
        simulate(table, traffic_of(trace_of([0.0, 0.0]), exits, 1), scheduler_of(policy))


@compile_policy
def _patient(view, data):
    """Wait for a full batch, at most 2 s: what AdaptB does."""
    dispatch_s = view.head_arrival_s + 2.0
    if view.depth > 0:
        return go_on(view.segments)
    if view.waiting >= view.b_max or view.now_s >= dispatch_s:
        return launch(min(view.waiting, view.b_max), view.segments)
    return sleep(dispatch_s)


def test_a_policy_may_wait():
    table = table_of([[1.0, 1.0, 1.0]])
    found = simulate(
        table, traffic_of(trace_of([0.0, 0.5, 5.0, 5.1, 5.2]), np.ones(5, dtype=int), 9), scheduler_of(_patient)
    )
    assert found.start_s.tolist() == [2.0, 2.0, 5.2, 5.2, 5.2]


def test_unknown_policy_lists_the_known_ones():
    with pytest.raises(InputError, match=r'unknown policy "fluld"; .*fluid'):
        find_policy("fluld")


def test_a_policy_that_raises_is_told_so():
    def broken(view):
        return 0

    trace = trace_of([0.0])
    with pytest.raises(InputError, match="policy: broken raised TypeError: .*docs/add-a-policy.md"):
        simulate(table_of([[1.0]]), traffic_of(trace, np.array([1]), 1.0), scheduler_of(broken))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("no.py:mine", "no.py: expected a Python file"),
        ("bad.py:mine", "bad.py: could not be loaded: ZeroDivisionError"),
        ("good.py:other", 'good.py: expected a Policy or a decide function named "other".*it has mine'),
        ("fluid:exit=aware", 'unknown parameter "exit"; known: exits, criterion, estimate'),
        ("fluid:exits=maybe", 'exits: expected aware or unaware, found "maybe"'),
        ("adaptb:timeout=5", "timeout: expected a unit"),
        ("fluid:exits", 'expected key=value, found "exits"'),
        ("fluid:b_max=0", 'b_max: expected a whole number >= 1, found "0"'),
        ("lazy:call=-1us", "call: expected a positive number"),
    ],
)
def test_a_policy_that_cannot_be_read_is_one_clear_line(tmp_path, monkeypatch, spec, expected):
    (tmp_path / "bad.py").write_text("1 / 0")
    (tmp_path / "good.py").write_text(
        "from fluidb.serving.policies import Policy\nmine = Policy(lambda view, data: None)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=expected) as caught:
        find_policy(spec)
    assert len(caught.value.faults) == 1
    assert find_policy("good.py:mine").spec == "good.py:mine"
