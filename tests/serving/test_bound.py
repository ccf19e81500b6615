"""The bound on violations: against trying everything, against its dual, and never above what a policy achieves."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from builders import COMPILED, scheduler_named, table_of, ticks, trace_of, traffic_of, workloads
from fluidb.serving import POLICIES, find_policy, least_violations, simulate
from fluidb.serving.bound import least_tardy, least_tardy_at_once, least_work, tardy_in_order
from fluidb.traffic import poisson
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_no_policy_does_better(workload, policy):
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy))
    assert least_violations(replay) <= replay.violated.sum()


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(1, 600))
def test_no_policy_does_better_until_it_is_stopped(workload, policy, until):
    table, trace, exits = workload
    until_s = trace.arrival_s[0] + until
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy), until_s=until_s)
    assert least_violations(replay) <= replay.violated.sum()


def best_possible(table, arrival_s, exits, slo_s) -> int:
    """Fewest violations of any schedule of stages: every subset of samples at one stage, at every moment.

    Samples may be left standing, batches split and put together at will: more than the event loop allows.
    """
    stage_s = [table.array()[i, i + 1] for i in range(len(table.exits))]
    count = len(arrival_s)

    @cache
    def fewest(now: float, done: tuple[int, ...]) -> int:
        here = [k for k in range(count) if arrival_s[k] <= now and done[k] < exits[k]]
        later = [arrival_s[k] for k in range(count) if arrival_s[k] > now]
        best = math.inf
        if later:
            best = fewest(min(later), done)
        for stage in {done[k] for k in here}:
            ready = [k for k in here if done[k] == stage]
            for size in range(1, min(len(ready), table.b_max) + 1):
                for batch in itertools.combinations(ready, size):
                    end = now + stage_s[stage][size]
                    after = tuple(done[k] + (k in batch) for k in range(count))
                    late = sum(after[k] == exits[k] and end > arrival_s[k] + slo_s[k] for k in batch)
                    best = min(best, late + fewest(end, after))
        return 0 if best == math.inf else int(best)

    return fewest(min(arrival_s), (0,) * count)


def test_an_urgent_request_may_go_before_a_patient_one():
    """In order of arrival the second would be late; whoever serves it first has both in time."""
    replay = simulate(
        table_of([[5.0]]), traffic_of(trace_of([0.0, 0.0], [10.0, 5.0]), np.ones(2, int)), scheduler_named("serial")
    )
    assert replay.violated.tolist() == [False, True]
    assert least_violations(replay) == 0


def test_sums_that_are_rounded_differently_cost_no_violation():
    """A request takes 0.1 s and 0.2 s: more than 0.3 s as a sum, but not on a clock that begins at 1 s."""
    traffic = traffic_of(trace_of([1.0, 9.0], 0.3), np.full(2, 2))
    replay = simulate(table_of([[0.1], [0.2]]), traffic, scheduler_named("serial"))
    assert 0.1 + 0.2 > 0.3
    assert not replay.violated.any()
    assert least_violations(replay) == 0


def test_lanes_do_as_much_more_work_as_they_run_side_by_side():
    table = table_of([[1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.5]})
    replay = simulate(table, traffic_of(trace_of([0.0] * 4, 1.0), np.ones(4, dtype=int)), find_policy("serial:lanes=2"))
    assert replay.violated.sum() == least_violations(replay) == 2


@st.composite
def tiny_workloads(draw):
    stages, b_max, count = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    growth = draw(st.integers(0, 4)) / 4
    table = table_of([[4.0 * draw(ticks(16, 64)) * (1 + growth * b) for b in range(b_max)] for _ in range(stages)])
    arrivals = np.cumsum(draw(st.lists(ticks(0, 128), min_size=count, max_size=count)))
    exits = draw(st.lists(st.integers(1, stages), min_size=count, max_size=count))
    slos = draw(st.lists(ticks(64, 800), min_size=count, max_size=count))
    return table, trace_of(arrivals, slos if draw(st.booleans()) else slos[0]), np.array(exits)


@settings(max_examples=60)
@given(tiny_workloads())
def test_no_schedule_at_all_does_better(workload):
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), scheduler_named("serial"))
    best = best_possible(
        table, tuple(trace.arrival_s.tolist()), tuple(exits.tolist()), tuple(replay.traffic.slo_s.tolist())
    )
    assert least_violations(replay) <= best


def test_the_bound_meets_the_best_schedule_where_batches_bring_nothing():
    """Batches take b times one sample: the bound's one machine is the NPU."""
    table = table_of([[1.0, 2.0, 3.0]])
    trace = trace_of([0.0, 0.0, 0.25, 0.5], 1.75)
    exits = np.ones(4, dtype=int)
    replay = simulate(table, traffic_of(trace, exits), scheduler_named("serial"))
    best = best_possible(table, tuple(trace.arrival_s.tolist()), (1,) * 4, (1.75,) * 4)
    assert least_violations(replay) == best == 2


def feasible(jobs: tuple[tuple[float, float, float], ...]) -> bool:
    end = -math.inf
    for release, due, work in jobs:
        end = max(end, release) + work
        if end > due:
            return False
    return True


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 8)), min_size=3, max_size=9),
    st.integers(0, 12),
)
def test_fewest_jobs_past_their_due_time_against_every_subset(steps, ahead):
    """Release and due times in one order: earliest due first is exact for each subset (Jackson, 1955)."""
    release, due, work = (np.array(column, dtype=float) for column in zip(*steps, strict=True))
    release, due = np.cumsum(release), np.cumsum(due) + ahead
    jobs = list(zip(release.tolist(), due.tolist(), work.tolist(), strict=True))
    most = max(
        size for size in range(len(jobs) + 1) if any(feasible(some) for some in itertools.combinations(jobs, size))
    )
    late = len(jobs) - most
    assert least_tardy(release, due, work, len(jobs)) == late
    for allowed in range(len(jobs)):  # a count that may end early says whether there are more
        assert (least_tardy(release, due, work, allowed) > allowed) == (late > allowed)
        assert min(late, allowed + 1) <= tardy_in_order(release, due, work, allowed)
    in_order, end = 0, -math.inf
    for released, by, takes in jobs:  # each that would miss its due time is left out
        done = max(end, released) + takes
        in_order, end = (in_order, done) if done <= by else (in_order + 1, end)
    assert tardy_in_order(release, due, work, len(jobs)) == in_order


def test_jobs_that_are_there_from_the_beginning_need_no_search():
    rng = np.random.default_rng(0)
    for count in [*range(1, 26)] * 8:
        due = np.cumsum(rng.integers(0, 7, count)).astype(float)
        work = np.where(rng.random(count) < 0.1, math.inf, rng.integers(1, 9, count))
        assert least_tardy_at_once(due, work) == least_tardy(np.zeros(count), due, work, count)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(8, 32), st.integers(0, 16), st.integers(0, 16)), min_size=1, max_size=3),
    st.integers(-1, 20).map(lambda n: n / 20),
)
def test_least_work_is_the_optimum_of_its_dual(steps, share):
    """Least shares within the SLO = the highest bound that a price on latency gives, over all prices."""
    table = table_of([np.cumsum(times).tolist() for times in steps])
    times = np.array([layer.time_s for layer in table.layers])
    slo_s = float((1 - share) * times[:, 0].sum() + share * times[:, -1].sum())
    shares = times / np.arange(1, 4)
    found = least_work(table, np.array([len(steps)]), np.array([1]), np.array([slo_s]))[0]
    if times[:, 0].sum() > slo_s:
        assert found == math.inf
        return
    prices = {0.0}
    for time, work in zip(times, shares, strict=True):
        for a, b in itertools.combinations(range(3), 2):
            if time[b] > time[a]:
                prices.add(max(0.0, (work[a] - work[b]) / (time[b] - time[a])))
    dual = max((shares + price * times).min(axis=1).sum() - price * slo_s for price in prices)
    assert found == pytest.approx(dual)


def test_a_trace_that_floods_the_npu_has_a_bound_near_what_it_can_do():
    """Ten times more requests than full batches can take: nine of ten must be late, roughly."""
    table = table_of([[1.0, 1.5, 2.0, 2.5]])
    count = 20_000 if COMPILED else 4_000
    trace = poisson(10 * 4 / 2.5, count, 1)
    replay = simulate(table, traffic_of(trace, np.ones(count, dtype=int), 4.0), scheduler_named("serial"))
    assert least_violations(replay) / count == pytest.approx(0.9, abs=0.02)


def test_the_bound_of_a_trace_in_which_all_wait_counts_from_their_arrival():
    """Nine requests of 2 s each, all at 5 s, with 7 s of time: three are in time."""
    table, trace = table_of([[1.0], [1.0]]), trace_of([5.0] * 9)
    replay = simulate(table, traffic_of(trace, np.full(9, 2), 7.0), scheduler_named("serial"))
    assert least_violations(replay) == 6 == int(replay.violated.sum())
