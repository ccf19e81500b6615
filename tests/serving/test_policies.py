"""The policies that ship: every request as an independent simulator serves it, and the examples of the papers."""

from __future__ import annotations

from dataclasses import replace

import naive_baselines
import naive_batchcond_serving
import naive_pame
import naive_serving
import naive_slack
import numpy as np
import pytest
from builders import scheduler_named, table_of, ticks, trace_of, traffic_of, with_variants, workloads
from fluidb.serving import POLICIES, find_policy, simulate
from fluidb.tables import LatencyTable
from fluidb.traffic import Trace
from hypothesis import example, given, settings
from hypothesis import strategies as st


def expected_outcome(spec: str, table: LatencyTable, trace: Trace, exits, call_s: float, timeout_s: float):
    """What the independent simulators say, and the number of scheduler calls where they count them."""
    assert trace.slo_s is not None
    common = (trace.arrival_s.tolist(), exits.tolist(), trace.slo_s.tolist())
    latency = table.array().tolist()
    if spec == "adaptb":
        return naive_baselines.adaptb(*common, latency, table.b_max, timeout_s), None
    if spec == "pame":
        return naive_pame.pame(*common[:2], latency, table.b_max, timeout_s, 0, [], 1), None
    if spec == "batchcond":
        machine = naive_batchcond_serving.Machine(
            lambda _, stage, batch: latency[stage - 1][stage][batch],
            lambda *_: 0.0,
            [1.0],
            len(table.exits),
            table.b_max,
        )
        alike = [1.0] * len(trace)
        options = naive_batchcond_serving.Options(timeout_s=timeout_s)
        return naive_batchcond_serving.batchcond(*common[:2], common[1], alike, machine, options), None
    if spec == "sushi":
        spec = "serial"  # with one SubNet and one state
    if spec == "lazy":
        layer_s = [[0.0, *layer.time_s] for layer in table.layers]
        exit_after = [0 if layer.name.startswith("a") else layer.stage for layer in table.layers]
        return naive_baselines.lazy(*common, layer_s, exit_after, latency[0][-1][1], table.b_max, call_s)
    if spec == "fluid-slack":
        return naive_slack.fluid_slack(*common, latency, table.b_max), None
    return getattr(naive_serving, spec)(*common, latency, table.b_max), None


COME = [0.0, 0.0, 0.5]
DUE = table_of([[1.0] * 3] * 2), trace_of(COME, [10.0, 2.5, 10.0]), np.array([2, 2, 2])
LARGE = table_of([[1.0] * 3, [1.0, 1.5, 3.0]]), trace_of(COME, 4.0), np.array([2, 2, 2])
"""Whether the third request may catch up depends on who is due first, and on the time of all three: random ones show it
too seldom."""


@example(DUE, "fluid", 0.0, 0.0)
@example(LARGE, "fluid", 0.0, 0.0)
@settings(max_examples=100)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16), ticks(0, 200))
def test_every_request_as_in_an_independent_simulator(workload, policy, call_s, timeout_s):
    table, trace, exits = workload
    call_s = call_s if policy == "lazy" else 0.0  # the simulators of the others know of no such cost
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy, call_s, timeout_s))
    expected, calls = expected_outcome(policy, table, trace, exits, call_s, timeout_s)
    assert replay.finish_s.tolist() == expected.finish_s
    assert replay.start_s.tolist() == expected.start_s
    assert replay.preempted.tolist() == expected.preempted
    assert replay.preemptions == expected.preemptions
    assert calls is None or replay.scheduler_calls == calls


def test_the_timeline_of_figure_6():
    """Paper 000, Fig. 6, in units of a stage.

    Samples 1 and 2 reach E1 and 2 leaves; 3 to 6 have come meanwhile, are run to
    E1 while 1 stands still, and 6 leaves; 7 and 8 have come, but the criterion
    says no; 1, 3, 4 and 5 finish together.
    """
    table = table_of([[1.0] * 8, [1.0] * 8])
    arrivals = [0.0, 0.0, 0.2, 0.3, 0.5, 0.9, 1.5, 1.6]
    exits = np.array([2, 1, 2, 2, 2, 1, 2, 2])
    replay = simulate(table, traffic_of(trace_of(arrivals), exits, 3.5), find_policy("fluid"))
    assert replay.finish_s.tolist() == [3.0, 1.0, 3.0, 3.0, 3.0, 2.0, 5.0, 5.0]
    assert replay.start_s.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0]
    assert replay.preempted.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert replay.preemptions == 1
    assert replay.launches[0, 0].tolist() == [0, 0, 2, 0, 1, 0, 0, 0, 0]
    assert replay.launches[0, 1].tolist() == [0, 0, 1, 0, 1, 0, 0, 0, 0]
    # asked at E1 with sample 1, after the merge, and at E1 with samples 7 and 8
    assert replay.scheduler_calls == 3


def test_the_criterion_is_strict_and_uses_the_batched_times():
    """Equation (4): an overhead equal to the slack does not preempt."""
    table = table_of([[1.0, 1.5], [2.0, 2.5]])
    exits = np.array([2, 2])
    overhead = 1.0 + 2.5  # the new one to exit 1, then both to the end
    for slack, preemptions in ((overhead, 0), (overhead + 1e-9, 1)):
        replay = simulate(table, traffic_of(trace_of([0.0, 0.5]), exits, 1.0 + slack), find_policy("fluid"))
        assert replay.preemptions == preemptions


def test_the_criterion_knows_that_a_merged_batch_runs_at_the_larger_width():
    """A narrow request takes half the time up to exit 1; then both run at the width of the first."""
    table = with_variants([[1.0, 1.5], [2.0, 3.0]], widths=[8.0, 4.0])
    trace = replace(trace_of([0.0, 0.5]), width=np.array([8.0, 4.0]))
    overhead = 0.5 + 3.0
    for slack, finish_s in ((overhead, [3.0, 4.5]), (overhead + 0.25, [4.5, 4.5])):
        replay = simulate(table, traffic_of(trace, np.array([2, 2]), 1.0 + slack), find_policy("fluid"))
        assert replay.finish_s.tolist() == finish_s


def test_fluid_with_batches_of_one_is_serial():
    table = table_of([[0.3], [0.4], [0.5]])
    rng = np.random.default_rng(0)
    trace, exits = trace_of(np.cumsum(rng.exponential(1.0, 500)), 2.0), rng.integers(1, 4, 500)
    serial, fluid = (simulate(table, traffic_of(trace, exits), find_policy(name)) for name in ("serial", "fluid"))
    assert np.array_equal(serial.finish_s, fluid.finish_s)


@pytest.mark.parametrize(("second", "third", "end_s"), [(3.5, 4.5, 12.0), (4.5, 8.5, 13.0)])
def test_lazy_keeps_the_slack_of_batches_below_the_preempted_one(second, third, end_s):
    """Layers take 1 s and 3 s.  The first has slack for the second, who preempts it, but not for the third."""
    table, exits = table_of([[4.0] * 3] * 2), np.array([2, 2, 2])
    traffic = traffic_of(trace_of([0.0, second, third], [25.0, 100.0, 100.0]), exits)
    replay = simulate(table, traffic, find_policy("lazy"))
    assert replay.finish_s.tolist() == [end_s, end_s, end_s + 8.0]
    assert replay.preempted.tolist() == [1, 0, 0]


def test_a_request_is_preempted_once_however_many_come_above():
    """The third preempts the second at its second layer; both meet the first, which stands still, at its third."""
    table, exits = table_of([[4.0] * 3] * 2), np.array([2, 2, 2])
    replay = simulate(table, traffic_of(trace_of([0.0, 3.5, 4.5], 100.0), exits), find_policy("lazy"))
    assert replay.finish_s.tolist() == [13.0] * 3
    assert replay.preempted.tolist() == [1, 1, 0]
    assert replay.stalled_s.tolist() == [5.0, 1.0, 0.0]


def test_lazy_admits_nobody_who_would_have_no_slack_itself():
    """By its estimate both would be on the NPU for 4 s: the one that runs has so long, the one that came has not."""
    table, exits = table_of([[2.0, 2.5]]), np.array([1, 1])
    for slo_s, start_s in ((4.5, 0.5), (4.25, 2.0)):  # asked after the first layer, at 0.5
        replay = simulate(table, traffic_of(trace_of([0.0, 0.25], [9.0, slo_s]), exits), find_policy("lazy"))
        assert replay.start_s.tolist() == [0.0, start_s]
