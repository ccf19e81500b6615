"""fluid-slack: no request starves, and what ``docs/policies.md`` and ``benchmarks/README.md`` claim of it holds.

Theorem (one exit, one SLO, ``launch=full,patience=inf``): no more violations than FluidB.

Proof. Both policies launch min(waiting, B_max) requests whenever the NPU is idle, so both make the same launches:
launch j begins at t_j and ends at e_j, and e_1 < e_2 < ... Call a request good in launch j if it arrived by t_j and
its deadline is not before e_j. Rule 3 fills each launch with the oldest good requests, then with others. Take any
other way to fill the launches, and the first launch j that differs: rule 3 puts a request x into j that the other
way puts into a later launch j', and leaves out a request y that the other way puts there. Exchange x and y in the
other way. A request that waits at t_j and is not good in j is good in no later launch.

- Neither is good in j: nothing changes.
- Only x is good in j: x is now in time, and y would have been late anywhere.
- y is good in j: rule 3 left it out for older good requests, one of them x. If x was in time in j', so is y,
  whose deadline is not before the deadline of x.

So step by step the other way becomes the way of rule 3, and loses no request in time.

Bound: a request waits at most S + P (2 + H_M) + (M + 2) T.

Proof. Times in the table grow with the batch size.

- If late requests wait, a turn that is due begins within T: there is no backfill from then on, and what runs ends
  after at most T_{0:i}^B + T_{i:E}^B = T (a backfill that has just begun, then the merged batch).
- Waiting. At a time S after its arrival, the request has been launched, or it and all older requests that wait are
  late. While r older ones wait, a turn comes at most P min(1, B/(r + 1)) + T after the last one; if r >= m B then,
  this is less than P/m + T (P + T for m = 0). Each turn takes the B oldest, or all that are late, so m gets smaller
  with each turn; it is at most M at the first, and the turn with m = 0 launches the request. The sum is at most P
  (1 + H_M) + (M + 1) T.  Where there is no plan, every launch takes the B oldest, so there are only more turns.
- Running. The last turn was not after the launch, so while a request waits, a turn is due at most P after it, and
  from then on there is no backfill: the request returns within P + T.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import naive_slack
import numpy as np
import pytest
import slack_grid
from builders import COMPILED, table_of, trace_of, traffic_of, workloads
from fluidb.dse import SearchOptions, search, tabulate_design, tabulate_latency
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import PLATFORMS, Board, Device, Platform, load_platform
from fluidb.serving import find_policy, simulate
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.statistics import mean_interval
from fluidb.studies import load_scenario
from fluidb.studies.comparison import compare
from fluidb.studies.saturation import saturation_rate
from fluidb.studies.scenario import SCENARIOS
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import poisson, prepare
from hypothesis import given, settings
from hypothesis import strategies as st

PAGE = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text()


def longest_s(ahead: int, slo_s: float, patience: float, whole_s: float, b_max: int) -> float:
    """The page's bound on a latency, with a number of older requests waiting at the arrival."""
    turns = ahead // b_max
    harmonic = sum(1 / m for m in range(1, turns + 1))
    return slo_s + patience * slo_s * (2 + harmonic) + (turns + 2) * whole_s


def over_the_bound(found, table, patience: float):
    """By how much each request is later than the bound, for the largest SLO of the trace."""
    arrival_s, whole_s = found.traffic.trace.arrival_s, table.array()[0, -1, -1]
    ahead = [int((found.start_s[:k] > arrival).sum()) for k, arrival in enumerate(arrival_s)]
    bound_s = [longest_s(count, found.traffic.slo_s.max(), patience, whole_s, table.b_max) for count in ahead]
    return found.latency_s - np.array(bound_s)


@st.composite
def crowded(draw):
    """More requests than can be saved: bursts, one objective or one for each, small whole numbers."""
    stages, b_max, count = draw(st.integers(1, 3)), draw(st.sampled_from([2, 3, 4, 9])), draw(st.integers(4, 24))
    growth = draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    stage_s = [[draw(st.integers(1, 4)) * (1 + growth * b) for b in range(b_max)] for _ in range(stages)]
    table = table_of([np.maximum.accumulate(times).tolist() for times in stage_s])
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 2.0, 6.0]), min_size=count, max_size=count))
    alone = table.array()[0, -1, 1]
    slos = draw(st.lists(st.sampled_from([1.0, 1.5, 3.0, 5.0]), min_size=count, max_size=count))
    slo_s = alone * (np.array(slos) if draw(st.booleans()) else slos[0])
    exits = draw(st.lists(st.integers(1, stages), min_size=count, max_size=count))
    return table, trace_of(np.cumsum(gaps), slo_s), np.array(exits)


@settings(max_examples=60)
@given(st.one_of(workloads(), crowded()))
def test_nobody_waits_longer_than_the_bound(workload):
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), find_policy("fluid-slack:patience=1"))
    assert np.all(over_the_bound(replay, table, 1.0) <= 1e-9)


@settings(max_examples=80)
@given(crowded(), st.sampled_from([1, 2, 6]))
def test_every_request_as_in_an_independent_simulator_when_many_are_late(workload, patience):
    table, trace, exits = workload
    replay = simulate(table, traffic_of(trace, exits), find_policy(f"fluid-slack:patience={patience}"))
    arguments = (trace.arrival_s.tolist(), exits.tolist(), trace.slo_s.tolist(), table.array().tolist(), table.b_max)
    expected = naive_slack.fluid_slack(*arguments, patience=patience)
    assert replay.finish_s.tolist() == expected.finish_s
    assert replay.start_s.tolist() == expected.start_s
    assert replay.preempted.tolist() == expected.preempted


@settings(max_examples=60)
@given(crowded())
def test_fluidb_s_launches_with_late_requests_last_never_violate_more(workload):
    """The page's theorem: one exit and one objective, any arrivals."""
    many, trace, _ = workload
    table = table_of([many.array()[0, -1, 1:].tolist()])
    traffic = traffic_of(trace_of(trace.arrival_s, trace.slo_s[0]), np.ones(len(trace), dtype=int))
    fluid, slack = (
        simulate(table, traffic, find_policy(name)) for name in ("fluid", "fluid-slack:launch=full,patience=inf")
    )
    assert slack.violated.sum() <= fluid.violated.sum()
    assert np.sort(slack.finish_s).tolist() == np.sort(fluid.finish_s).tolist()  # the same launches


def flood(count: int):
    """Five at once, and some come too late; then two that can be saved, just in time, again and again."""
    return trace_of([0.0] * 5 + [2.0 * (k // 2) for k in range(2, count)], 2.5)


def test_without_turns_a_late_request_starves_and_with_them_it_does_not():
    table, trace = table_of([[1.0, 2.0]]), flood(400)
    exits = np.ones(len(trace), dtype=int)
    starved, bounded = (
        simulate(table, traffic_of(trace, exits), find_policy(f"fluid-slack:patience={patience}"))
        for patience in ("inf", 6)
    )
    assert starved.latency_s.max() > 395  # until the flood ends
    assert over_the_bound(starved, table, 6.0).max() > 300
    assert over_the_bound(bounded, table, 6.0).max() <= 0


def test_more_late_requests_than_a_batch_have_turns_more_often():
    """The patience shrinks as B_max over their number: 60 late ones, two a turn, are out after P*(1 + H_30)."""
    table = table_of([[1.0, 2.0]])
    slo_s, flooded = 2.5, 60
    trace = trace_of([0.0] * flooded + [2.0 * (k // 2) for k in range(2, 3000)], slo_s)
    replay = simulate(table, traffic_of(trace, np.ones(len(trace), dtype=int)), find_policy("fluid-slack:patience=40"))
    last = replay.finish_s[:flooded].max()
    turns = flooded // 2
    assert last <= longest_s(flooded, slo_s, 40.0, 2.0, 2)
    assert last < turns * 40 * slo_s / 4  # had each turn taken the whole patience: 30 of 100 s


@pytest.mark.parametrize("text", ["0.5", "nan", "soon", "-1"])
def test_a_patience_that_is_none(text):
    with pytest.raises(InputError, match=f'patience: expected a number >= 1 or inf, found "{text}"'):
        find_policy(f"fluid-slack:patience={text}")


def test_late_requests_have_the_places_left_over():
    """At 1.0 two are late. Those that can be in time have two of three places, and the oldest has the third."""
    table, exits = table_of([[1.0, 1.25, 1.5]]), np.ones(5, dtype=int)
    trace = trace_of([0.0, 0.1, 0.2, 0.9, 0.9], [9.0, 1.0, 1.0, 2.0, 2.0])
    replay = simulate(table, traffic_of(trace, exits), find_policy("fluid-slack"))
    assert replay.start_s.tolist() == [0.0, 1.0, 2.5, 1.0, 1.0]
    assert replay.violated.tolist() == [False, True, True, False, False]


def test_a_launch_is_no_larger_than_saves_the_oldest():
    """FluidB would launch all three, and all three would be late."""
    table = table_of([[1.0, 1.75, 2.5]])
    trace, exits = trace_of([0.0, 0.5, 0.5, 0.5], [9.0, 2.25, 9.0, 9.0]), np.ones(4, dtype=int)
    fluid, slack = (simulate(table, traffic_of(trace, exits), find_policy(name)) for name in ("fluid", "fluid-slack"))
    assert fluid.violated.sum() == 1
    assert slack.violated.sum() == 0


@pytest.mark.parametrize(("late", "saved"), [(1, True), (2, False)])
def test_when_a_full_batch_of_late_requests_waits_a_launch_is_as_large_as_fluidb_s(late, saved):
    """The last request is in time only if it is launched alone; B_max is 2."""
    trace = trace_of([0.0] + [0.1] * late + [0.9], [9.0] + [1.0] * late + [1.2])
    exits = np.ones(len(trace), dtype=int)
    replay = simulate(table_of([[1.0, 1.5]]), traffic_of(trace, exits), find_policy("fluid-slack"))
    assert replay.violated[-1] != saved
    assert replay.start_s[-1] == (1.0 if saved else 2.5)


@pytest.mark.skipif(not COMPILED, reason="searches a board: minutes as plain Python")
def test_where_a_full_batch_alone_sustains_the_rate_it_is_no_worse_than_fluidb():
    """AlexNet on ZC706: eight samples take twice the time of one, and no smaller batch keeps up with 108 /s."""
    asked = load_network("alexnet"), load_platform("zc706"), SearchOptions()
    table = tabulate_latency(*tabulate_design(*asked, search(*asked)))
    for seed in range(951, 954):
        traffic = prepare(poisson(108.0, 10_000, seed), [1.0], slo_s=0.264, seed=seed)
        fluid, slack = (simulate(table, traffic, find_policy(name)) for name in ("fluid", "fluid-slack"))
        assert 0 < slack.violated.sum() < fluid.violated.sum()


@pytest.mark.skipif(not COMPILED, reason="searches boards of the paper: minutes as plain Python")
def test_the_page_s_claim_on_table_2(tmp_path):
    """The first four cases of the shipped scenario: the page has their rows, and the claim holds beyond noise."""
    text = (SCENARIOS.folder / "fluid-slack.toml").read_text()
    head, *cases = text.split("[[cases]]")
    (tmp_path / "few.toml").write_text("[[cases]]".join([head, *cases[:4]]))
    found, _ = compare(load_scenario(str(tmp_path / "few.toml")))
    for point in found.points:
        assert point.slo_s is not None
        fluid, slack = (contender.metrics for contender in point.contenders)

        def beyond(metric, factor, fluid=fluid, slack=slack):
            mine, theirs = (np.array(list(of[metric].seeds.values())) for of in (slack, fluid))
            found = mean_interval(mine - factor * theirs)
            assert found is not None
            return found.high

        assert beyond("violation_rate", 0.5) <= 0
        assert beyond("mean_latency_s", 1.1) <= 0
        least = slack["unavoidable_rate"]
        assert least.seeds == fluid["unavoidable_rate"].seeds
        assert 0 < least.mean < slack["violation_rate"].mean
        where = f"{point.case.removeprefix('Table II, ')}, {1e3 * point.slo_s:g} ms, {point.rate_per_s:g} /s"
        rates = (fluid["violation_rate"], slack["violation_rate"], least)
        longer = slack["mean_latency_s"].mean / fluid["mean_latency_s"].mean
        row = [where, *(f"{100 * rate.mean:.2f}" for rate in rates), f"x{longer:.2f}"]
        assert f"| {' | '.join(row)} |" in PAGE.splitlines()


@pytest.mark.skipif(not COMPILED, reason="searches boards of the paper: minutes as plain Python")
def test_the_page_s_rows_of_table_2_as_built(tmp_path):
    """The same cases with times as built and the first five seeds."""
    text = (SCENARIOS.folder / "fluid-slack.toml").read_text()
    head, *cases = text.replace(', engine = { overlap = "paper" }', "").split("[[cases]]")
    head = re.sub(r"seeds = \[[^\]]*\]", "seeds = [201, 202, 203, 204, 205]", head)
    (tmp_path / "built.toml").write_text("[[cases]]".join([head, *cases[:4]]))
    compared, _ = compare(load_scenario(str(tmp_path / "built.toml")))
    for point in compared.points:
        assert point.slo_s is not None
        where = f"{point.case.removeprefix('Table II, ')}, {1e3 * point.slo_s:g} ms, {point.rate_per_s:g} /s"
        rates = [100 * contender.metrics["violation_rate"].mean for contender in point.contenders]
        assert f"| {where} | {rates[0]:.2f} | {rates[1]:.2f} |" in PAGE.splitlines()


def test_the_page_has_the_table_of_the_grid_and_nobody_is_worse():
    grids = {kind: slack_grid.read(kind) for kind in slack_grid.GROUNDS}
    assert slack_grid.table_text(grids) in PAGE
    names = set(PLATFORMS.names()) - slack_grid.LATER
    boards = sum(isinstance(load_platform(name, kind=Platform), Board) for name in names)
    pairs = len(slack_grid.SAMPLE) * boards
    assert f"({pairs} pairs)" in PAGE
    devices = [table for _, _, table in slack_grid.devices()]
    several = sum(table.lanes > 1 for table in devices)
    sizes = {"large": pairs * len(slack_grid.LARGE), "devices": len(devices), "lanes": several}
    for kind, cells in grids.items():
        assert [(cell.load, cell.slo_x) for cell in cells] == list(product(slack_grid.LOADS, slack_grid.SLOS))
        assert {cell.pairs for cell in cells} == {sizes.get(kind, pairs)}
        assert sum(cell.worse for cell in cells) == 0


@pytest.mark.skipif(not COMPILED, reason="thousands of requests: slow as plain Python")
@pytest.mark.parametrize(
    ("network", "load", "slo_x", "least"),
    [("ee_bert", 0.5, 1.5, 0), ("ee_resnet34", 0.7, 3.0, 0), ("resnet34", 0.9, 3.0, 1), ("inception_v3", 0.9, 3.0, 0)],
)
def test_no_worse_on_a_device_on_which_a_small_batch_wastes_its_time(network, load, slo_x, least):
    """With exits as FluidB, on several lanes too; without them a launch keeps most of the throughput of FluidB's."""
    table = tabulate_device(load_network(network), load_platform("rtx-2080-ti", kind=Device))
    slo_s, rate_per_s = slo_x * table.array()[0, -1, 1], load * saturation_rate(ServedNetwork(table=table))
    for seed in range(3):
        traffic = prepare(poisson(rate_per_s, 5_000, seed), [row.rate for row in table.exits], slo_s=slo_s, seed=seed)
        fluid, slack = (simulate(table, traffic, find_policy(name)) for name in ("fluid", "fluid-slack"))
        assert least <= fluid.violated.sum() - slack.violated.sum()


@settings(max_examples=60)
@given(crowded(), st.sampled_from([2, 3]))
def test_on_several_lanes_it_decides_as_fluidb(workload, lanes):
    alone, trace, exits = workload
    load = [0.0, *[0.75] * alone.b_max]
    table = LatencyTable.model_validate(alone.model_dump() | {"lanes": lanes, "load": load})
    fluid, slack = (
        simulate(table, traffic_of(trace, exits), find_policy(f"{name}lanes={lanes}"))
        for name in ("fluid:", "fluid-slack:patience=inf,")
    )
    assert slack.finish_s.tolist() == fluid.finish_s.tolist()
    assert slack.preempted.tolist() == fluid.preempted.tolist()


@pytest.mark.parametrize(("b_max", "together"), [(8, 1), (9, 4)])
def test_with_large_batches_a_launch_keeps_the_throughput_of_fluidb_s(b_max, together):
    """The oldest of four is in time only alone: with 0.8 of the throughput of four, too little if B_max is above 8."""
    table = table_of([[1.0, 1.75, 2.5, 3.25, *[40.0] * (b_max - 4)]])
    trace = trace_of([0.0, 0.5, 0.5, 0.5, 0.5], [9.0, 1.5, 9.0, 9.0, 9.0])
    replay = simulate(table, traffic_of(trace, np.ones(5, dtype=int)), find_policy("fluid-slack"))
    assert (replay.start_s == 1.0).sum() == together


@pytest.mark.parametrize("name", ["fluid-slack", "fluid-slack-parts"])
def test_the_shipped_scenarios_have_seeds_enough_and_one_npu_for_all(name):
    scenario = load_scenario(name)
    assert len(scenario.file.seeds) >= 20
    assert min(scenario.file.seeds) > 120  # it was designed on those
    assert all(contender.options == scenario.contenders[0].options for contender in scenario.contenders)
