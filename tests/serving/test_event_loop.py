"""The event loop: what holds whatever the policy, and what it says of a policy that breaks its contract."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from builders import scheduler_named, scheduler_of, table_of, ticks, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.jit import as_python
from fluidb.serving import POLICIES, find_policy, play, simulate
from fluidb.serving.case import case_of
from fluidb.serving.device_traffic import DeviceTraffic
from fluidb.serving.event_loop import run_events
from fluidb.serving.lateness import LateLimits
from fluidb.serving.networks import as_served
from fluidb.serving.policies import Decision, go_on, launch, sleep
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16))
def test_contract_of_every_policy(workload, policy, call_s):
    """Nothing lost or twice, never over b_max, time never runs back, no idling where it claims so, deterministic."""
    table, trace, exits = workload
    scheduler = scheduler_named(policy, call_s)
    replay = simulate(table, traffic_of(trace, exits), scheduler, record=True)
    assert np.all(np.isfinite(replay.finish_s))
    assert np.all(replay.start_s >= trace.arrival_s)
    if not policy.startswith("fluid-slack"):
        assert np.all(np.diff(replay.start_s) >= 0)  # first come, first started
    alone = table.array()[0, exits, 1]
    assert np.all(replay.finish_s - replay.start_s >= alone)
    runs, stage = replay.runs, replay.use.segments.stage
    assert runs is not None
    assert runs.batch.max() <= table.b_max
    assert np.all(runs.begin_s[1:] >= runs.end_s[:-1])
    # every segment of every request ran exactly once, in order, until its exit
    ran: dict[int, list[int]] = {request: [] for request in range(len(trace))}
    batches = np.split(runs.members, np.cumsum(runs.batch)[:-1])
    assert runs.firsts.tolist() == [members[0] for members in batches]
    for segment, members in zip(runs.segment, batches, strict=True):
        for request in members:
            ran[request].append(segment)
    for request, segments in ran.items():
        assert segments == list(range(int((stage <= exits[request]).sum())))
    if scheduler.policy.work_conserving:
        # whenever a request is in the system, the NPU runs or the scheduler thinks
        busy_s = (replay.launches * replay.use.segments.time_s).sum() + replay.use.scheduler_s
        idle_s, free_at = 0.0, trace.arrival_s[0]
        for start, finish in zip(trace.arrival_s, replay.finish_s, strict=True):
            idle_s += max(0.0, start - free_at)
            free_at = max(free_at, finish)
        assert busy_s + idle_s == replay.finish_s.max() - trace.arrival_s[0]
    again = simulate(table, traffic_of(trace, exits), scheduler)
    assert np.array_equal(again.finish_s, replay.finish_s)


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), st.integers(1, 6))
def test_a_run_in_which_late_requests_are_counted_ends_as_one_without(workload, policy, instants):
    """After some instants each; all may be late."""
    table, trace, exits = workload
    traffic, scheduler = traffic_of(trace, exits), scheduler_named(policy)
    whole = simulate(table, traffic, scheduler)
    case = case_of(as_served(table), DeviceTraffic.of(traffic), scheduler)
    loop = play.Loop(scheduler, case.work, case.shared, case.terms)
    allowed, counts = np.array([len(traffic)]), np.zeros((1, 2), np.int64)
    with patch.object(play, "LOOK", instants):
        assert not loop.exceeds(LateLimits(trace.arrival_s, np.zeros((1, len(traffic))), allowed, counts))
    replay = case.replay(loop.to(), math.inf, recorded=False)
    for field in ("start_s", "finish_s", "stalled_s", "preempted", "batch", "launches"):
        assert np.array_equal(getattr(replay, field), getattr(whole, field))


@cache
def plain_decide(policy):
    """The decision of a policy that stays plain Python: numba, which is asked once, knows no getattr with a default."""
    compiled = scheduler_named(policy).policy.decide

    def decide(view, data):
        return getattr(compiled, "py_func", compiled)(view, data)

    return decide


@settings(max_examples=50)
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_compiled_and_plain_python_agree(workload, policy):
    table, trace, exits = workload
    scheduler = scheduler_named(policy)
    plain = replace(scheduler, policy=replace(scheduler.policy, decide=plain_decide(policy)))
    fast, slow = (simulate(table, traffic_of(trace, exits), which) for which in (scheduler, plain))
    assert np.array_equal(fast.finish_s, slow.finish_s)
    assert fast.scheduler_calls == slow.scheduler_calls


@settings(max_examples=30)
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_a_lane_alone_is_one_of_several(workload, policy):
    """What is compiled away where no lane is beside another changes nothing."""
    table, trace, exits = workload
    scheduler = replace(scheduler_named(policy, 0.25), debug=True)
    alone = simulate(table, traffic_of(trace, exits), scheduler, record=True)

    plain = as_python(run_events)  # else each function that it calls would be compiled for itself

    def on_lanes(*arguments: Any) -> Any:
        return plain(*arguments[:-1], 1)

    with patch.object(play, "run_events", on_lanes):
        several = simulate(table, traffic_of(trace, exits), scheduler, record=True)
    assert several.overhead_s == alone.overhead_s
    assert several.runs is not None
    assert alone.runs is not None
    for one, other in zip(astuple(several.runs), astuple(alone.runs), strict=True):
        assert np.array_equal(one, other)


def test_an_arrival_at_the_instant_of_a_decision_is_seen():
    replay = simulate(
        table_of([[1.0, 1.0]]), traffic_of(trace_of([0.0, 1.0, 1.0]), np.array([1] * 3), 9), find_policy("fluid")
    )
    assert replay.finish_s.tolist() == [1.0, 2.0, 2.0]


def test_arrivals_so_late_that_stages_vanish_beside_them_are_refused():
    with pytest.raises(InputError, match="start the trace near 0"):
        simulate(table_of([[1e-6]]), traffic_of(trace_of([0.0, 1e9]), np.array([1, 1]), 1.0), find_policy("serial"))


def test_a_burst_is_served_in_order():
    count = 20_000
    table = table_of([[1.0, 1.5, 2.0], [1.0, 1.5, 2.0]])
    replay = simulate(table, traffic_of(trace_of(np.zeros(count)), np.full(count, 2), 1.0), find_policy("fluid"))
    assert np.all(np.diff(replay.finish_s) >= 0)
    assert replay.finish_s[-1] == pytest.approx((count // 3) * 4.0 + 3.0)


def _greedy(view, data):
    return launch(view.waiting + 1, 1)


def _restless(view, data):
    return sleep(view.now_s)


def _lost(view, data):
    return sleep(math.nan)


def _asleep(view, data):
    return launch(1, 1) if view.depth == 0 else go_on(0)


def _backwards(view, data):
    return launch(-1, 1)


def _never(view, data):
    return go_on(1)


def _elsewhere(view, data):
    return Decision(1, 0, 1, math.inf, True, 1, 0.0)


@pytest.mark.parametrize("policy", [_greedy, _restless, _lost, _asleep, _backwards, _never, _elsewhere])
def test_a_policy_that_breaks_the_contract_is_told_so(policy):
    table, exits = table_of([[1.0] * 2] * 2), np.array([2, 2])
    with pytest.raises(InputError, match="policy mine: .*`fluidb docs extend`"):
        simulate(table, traffic_of(trace_of([0.0, 0.0]), exits, 1), scheduler_of(policy))


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
    replay = simulate(
        table, traffic_of(trace_of([0.0, 0.5, 5.0, 5.1, 5.2]), np.ones(5, dtype=int), 9), scheduler_of(_patient)
    )
    assert replay.start_s.tolist() == [2.0, 2.0, 5.2, 5.2, 5.2]


def _divides(view, data):
    return launch(view.waiting // view.depth, 1)


def _not_whole(**number):
    def decide(view, data):
        return launch(1, 1)._replace(**number)

    return decide


def _imports(view, data):
    import math  # numba cannot compile this

    return launch(1, math.isqrt(4)) if view.depth == 0 else go_on(1)


def _leaves(view, data):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (_divides, "raised ZeroDivisionError"),
        (_leaves, "raised SystemExit: 3"),
        (_not_whole(admit=math.nan), "raised TypeError: 'float' object"),
        (_not_whole(skip=math.nan), "raised TypeError: 'float' object"),
        (_not_whole(run=math.nan), "raised TypeError: 'float' object"),
        (_not_whole(variant=math.nan), "raised TypeError: 'float' object"),
        (_not_whole(delay_s=math.nan), "a negative delay"),
        (_not_whole(admit=0, wake_s=math.nan), "named no later time"),
        (_not_whole(admit=1, skip=2**63 - 1), "admitted more"),
    ],
)
def test_no_answer_of_a_policy_gives_wrong_figures(policy, found):
    traffic = traffic_of(trace_of([0.0, 0.0]), np.array([1, 1]), 1.0)
    with pytest.raises(InputError, match=f"policy mine: .*{found}.*`fluidb docs extend`"):
        simulate(table_of([[1.0, 1.0]]), traffic, scheduler_of(policy))


def test_a_policy_that_numba_cannot_compile_runs_as_plain_python():
    traffic = traffic_of(trace_of([0.0, 0.0]), np.array([1, 1]), 1.0)
    assert simulate(table_of([[1.0, 1.0]]), traffic, scheduler_of(_imports)).finish_s.tolist() == [1.0, 2.0]


def test_a_policy_that_raises_is_told_so():
    def broken(view):
        return 0

    trace = trace_of([0.0])
    with pytest.raises(InputError, match="policy mine: raised TypeError: .*`fluidb docs extend`"):
        simulate(table_of([[1.0]]), traffic_of(trace, np.array([1]), 1.0), scheduler_of(broken))
