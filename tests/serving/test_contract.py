"""The contract between event loop and policies carries what each of the papers asks of it: a small policy for each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import FASTER, everybody, scheduler_of, table_of, trace_of, traffic_of, with_variants
from fluidb.formats import InputError
from fluidb.serving import POLICIES, find_policy, simulate, summarise
from fluidb.serving.case import work_of
from fluidb.serving.play import Loop
from fluidb.serving.policies import Decision, go_on, launch, sleep
from fluidb.serving.policies.interface import VARIANT
from fluidb.serving.state import DeviceArrays, OneNetwork, Rules, networks_of
from fluidb.tables.reuse import SubNetEntry
from fluidb.traffic import Trace, Traffic

# PAME: several batches in flight that slow each other, compaction at chosen exits, thresholds that change


def side_by_side(view, data):
    """Batches of two on whatever lane is free."""
    return launch(min(2, view.waiting), view.segments) if view.depth == 0 else go_on(view.segments)


def test_batches_on_two_lanes_slow_each_other():
    """Alone a batch takes 1 s.  The third batch has nobody beside it from 3 s on, when half of its work is done."""
    table = table_of([[1.0, 1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.75, 0.75]})
    one = simulate(table, everybody(6, 1), scheduler_of(side_by_side))
    assert one.finish_s.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    two = simulate(table, everybody(6, 1), scheduler_of(side_by_side, lanes=2), record=True)
    assert two.finish_s.tolist() == [1.5, 1.5, 1.5, 1.5, 2.5, 2.5]
    assert two.runs is not None
    assert two.runs.lane.tolist() == [0, 1, 0]
    assert two.runs.end_s.tolist() == [1.5, 1.5, 2.5]
    summary = summarise(two)
    assert summary.busy_share == pytest.approx((1.5 + 1.5 + 1.0) / 2 / 2.5)
    assert summary.stages[0].busy_share == pytest.approx((1.0 + 1.0 + 1.0) / 2 / 2.5)


@pytest.mark.parametrize("key", ["lanes", "b_max"])
def test_more_than_the_table_has_is_refused(key):
    table = table_of([[1.0, 1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.75, 0.75]})
    with pytest.raises(InputError, match=f"policy fluid:{key}=3: {key}: expected at most 2 on .*, found 3"):
        simulate(table, everybody(6, 1), find_policy(f"fluid:{key}=3"))


def staggered(view, data):
    """A batch of one; the second one begins when it is asked at 0.5 s, beside the first."""
    if view.depth > 0:
        return go_on(view.segments)
    if view.lane == 1 and view.now_s < 0.5:
        return sleep(0.5)
    return launch(1, view.segments)


def test_what_is_left_of_a_batch_is_stretched_and_shortened():
    """1 s of work each at twice the time while both run: half alone, then 1 s for the other half, and so on."""
    table = table_of([[1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 1.0]})
    replay = simulate(table, everybody(2, 1), scheduler_of(staggered, lanes=2), record=True)
    assert replay.start_s.tolist() == [0.0, 0.5]
    assert replay.finish_s.tolist() == [1.5, 2.0]  # the second: 1 s beside the first for half of it, then 0.5 s alone
    assert replay.overhead_s == pytest.approx(1.0)


def the_rest_beside(view, data):
    """A batch of three on the first lane; whoever waits then, on the second."""
    if view.depth > 0:
        return go_on(1)
    return launch(min(3 if view.lane == 0 else 1, view.waiting), 1)


def test_batches_slow_each_other_by_their_sizes():
    """Of three samples two leave at the first exit; what is left slows the batch beside it no more.

    Loads of 0.25, 0.5 and 1.0 for 1, 2 and 3 samples: 3 beside 1 take 1.25 times as long, 1 beside 1 no longer.
    """
    table = table_of([[1.0, 1.0, 1.0]] * 2).model_copy(update={"lanes": 2, "load": [0.0, 0.25, 0.5, 1.0]})
    traffic = traffic_of(trace_of([0.0] * 4), np.array([1, 1, 2, 2]), 100.0)
    replay = simulate(table, traffic, scheduler_of(the_rest_beside, lanes=2), record=True)
    assert replay.finish_s.tolist() == [1.25, 1.25, 2.25, 2.25]
    assert replay.overhead_s == 0.5
    alone = simulate(table.model_copy(update={"load": [0.0, 1.0, 2.0, 3.0]}), everybody(3, 2), find_policy("fluid"))
    assert alone.finish_s.tolist() == [2.0, 2.0, 2.0]  # a batch alone is never slowed


def compact_at_the_second_exit(view, data):
    """Pads at the first exit, gathers at the second."""
    if view.depth == 0:
        return Decision(view.waiting, 0, 1, math.inf, False, 0, 0.0)
    return Decision(0, 0, 1, math.inf, view.stage == 2, 0, 0.0)


def test_places_are_padded_until_a_policy_compacts_them():
    """Of four samples one leaves at each exit; only at the second exit the two that stay are gathered, in 0.25 s."""
    table = table_of([[1.0, 2.0, 3.0, 4.0]] * 3).model_copy(update={"gather_s": [[0.0, 0.125, 0.25, 0.5, 0.5]] * 3})
    traffic = traffic_of(trace_of([0.0] * 4), np.array([1, 2, 3, 3]), 100.0)
    replay = simulate(table, traffic, scheduler_of(compact_at_the_second_exit))
    assert replay.finish_s.tolist() == [4.0, 8.0, 10.25, 10.25]
    assert replay.launches[0].tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    assert replay.overhead_s == 0.25
    compacted = simulate(table, traffic, find_policy("fluid"))  # gathers at every exit
    assert compacted.finish_s.tolist() == [4.0, 7.5, 9.75, 9.75]


def compact_at_the_first_exit(view, data):
    """Gathers at the first exit, pads at the second."""
    if view.depth == 0:
        return launch(view.waiting, 1)
    return Decision(0, 0, 1, math.inf, view.stage == 1, 0, 0.0)


def test_a_batch_is_compacted_for_a_run_and_the_policy_asked_again_where_that_ends():
    """Of four samples three are gathered in 0.5 s; the place of the one that leaves after them stays."""
    table = table_of([[1.0, 2.0, 3.0, 4.0]] * 3).model_copy(update={"gather_s": [[0.0, 0.125, 0.25, 0.5, 0.5]] * 3})
    traffic = traffic_of(trace_of([0.0] * 4), np.array([1, 2, 3, 3]), 100.0)
    replay = simulate(table, traffic, scheduler_of(compact_at_the_first_exit))
    assert replay.finish_s.tolist() == [4.0, 7.5, 10.5, 10.5]
    assert replay.overhead_s == 0.5


def stricter(view, data):
    """Raises the only threshold by 0.25 for each batch."""
    if view.depth == 0:
        data.memory[0] += 0.25
        return launch(1, view.segments)
    return go_on(view.segments)


def test_thresholds_may_change_while_the_policy_runs():
    """The same confidence of 0.6 is enough at thresholds 0.25 and 0.5, and no longer at 0.75."""
    trace = Trace(np.arange(3), np.zeros(3), confidences=np.full((3, 1), 0.6))
    traffic = Traffic(trace, np.full(3, 2), np.full(3, 100.0), 100.0, "confidences")
    replay = simulate(table_of([[1.0], [1.0]]), traffic, scheduler_of(stricter, thresholds=True))
    assert replay.finish_s.tolist() == [1.0, 2.0, 4.0]
    assert replay.traffic.exits.tolist() == [1, 1, 2]
    with pytest.raises(InputError, match="expected traffic with confidences"):
        simulate(table_of([[1.0], [1.0]]), everybody(1, 2), scheduler_of(stricter, thresholds=True))


# BatchCond: admission by similarity within a window, a gather's cost, stages repeated to a request's own length


def alike(view, data):
    """Sort a window of four by the prediction, and launch the two that are most alike at its head."""
    if view.depth > 0:
        return go_on(view.segments)
    for i in range(min(4, view.waiting)):
        for j in range(i, 0, -1):
            left, right = view.first + j - 1, view.first + j
            if data.requests.predicted_depth[data.queue[left]] <= data.requests.predicted_depth[data.queue[right]]:
                break
            data.queue[left], data.queue[right] = data.queue[right], data.queue[left]
    return Decision(min(2, view.waiting), 0, view.segments, math.inf, True, 0, 0.125)


def test_a_window_is_served_by_similarity_and_steps_repeat_to_each_length():
    """A decoder step of 1 s runs as often as the longest of a batch asks; the predictor takes 0.125 s a batch."""
    lengths = np.array([3, 1, 3, 1, 2])
    work: Any = work_of(traffic_of(trace_of([0.0] * 5), lengths, 100.0), 3)
    work.requests.predicted_depth[:] = lengths
    steps = 3
    device = DeviceArrays(
        time_s=np.array([[[0.0, 1.0, 1.0]]]),
        latency_s=np.zeros((1, 2, 2, 3)),
        segment_at=np.zeros(steps, dtype=np.int64),
        stage_after=np.arange(1, steps + 1),
        gather_s=np.zeros((steps + 1, 3)),
        load=np.zeros(3),
        variants=np.zeros(1, VARIANT).view(np.recarray),
    )
    run = Loop(
        scheduler_of(alike), work, networks_of([OneNetwork(device, Rules(np.zeros(0), np.zeros(0), 2, 0.0))])
    ).to()
    # 1 and 1; then of 3, 3 and 2 the 2 and the first 3; then the last 3
    assert run.work.requests.finish_s.tolist() == [4.25, 1.125, 7.375, 1.125, 3.25]
    assert run.record.launches.tolist() == [0, 4, 3]
    assert run.state.counts.overhead_s.tolist() == [0.375]


def behind_the_first(view, data):
    """Let whoever came second pass, once in a while: two behind the first, then the first alone."""
    if view.depth > 0:
        return go_on(1)
    if view.waiting > 2:
        return Decision(2, 1, 1, math.inf, True, 0, 0.0)
    return launch(1, 1)


def last_but_one(view, data):
    """Whoever stands second from the end of the queue."""
    if view.depth > 0:
        return go_on(1)
    return Decision(1, max(0, view.waiting - 2), 1, math.inf, True, 0, 0.0)


def taken_behind_the_first(waiting: list[int]) -> list[int]:
    return waiting[1:3] if len(waiting) > 2 else waiting[:1]


def taken_last_but_one(waiting: list[int]) -> list[int]:
    return waiting[-2:-1] or waiting


@pytest.mark.parametrize("count", [3, 7, 12])
@pytest.mark.parametrize(
    ("decide", "take"), [(behind_the_first, taken_behind_the_first), (last_but_one, taken_last_but_one)]
)
def test_the_queue_closes_behind_those_who_pass_others(decide, take, count):
    replay = simulate(table_of([[1.0, 1.0]]), everybody(count, 1), scheduler_of(decide))
    waiting, at = list(range(count)), 0.0
    expected: dict[int, float] = {}
    while waiting:
        taken = take(waiting)
        at += 1.0
        waiting = [request for request in waiting if request not in taken]
        expected |= dict.fromkeys(taken, at)
    assert replay.finish_s.tolist() == [expected[request] for request in range(count)]


def everybody_in_the_second(view, data):
    """All that wait, at the second width at most."""
    return Decision(view.waiting, 0, view.segments, math.inf, True, 1, 0.0) if view.depth == 0 else go_on(1)


def test_a_batch_runs_at_the_narrowest_width_that_holds_all_its_samples():
    """A policy that knows no widths names the widest, so that its batches are padded no more than they must be."""
    table = with_variants([[4.0, 8.0]], widths=[8.0, 4.0, 2.0], states=["empty", "full"])
    for widths, variant in (([1.0, 8.0], 0), ([4.0, 2.0], 1), ([1.0, 2.0], 2)):
        traffic = traffic_of(replace(trace_of([0.0, 0.0]), width=np.array(widths)), np.ones(2, int), 100.0)
        replay = simulate(table, traffic, find_policy("adaptb"))
        assert replay.variant.tolist() == [variant] * 2
        assert replay.finish_s.tolist() == [8.0 * 0.5**variant] * 2
        if variant > 0:
            second = simulate(table, traffic, scheduler_of(everybody_in_the_second))
            assert second.variant.tolist() == [variant] * 2
            continue
        with pytest.raises(InputError, match="too narrow for a request that it admits"):
            simulate(table, traffic, scheduler_of(everybody_in_the_second))


def test_batches_merge_at_the_wider_of_two_widths():
    """The narrow one stands for the wide one's first stage, and then runs beside it, padded."""
    table = with_variants([[4.0, 6.0], [4.0, 6.0]], widths=[8.0, 4.0])
    for widths, launches in (([3.0, 8.0], [[1, 0], [0, 1]]), ([8.0, 3.0], [[1, 0], [0, 1]])):
        trace = replace(trace_of([0.0, 1.0]), width=np.array(widths))
        replay = simulate(table, traffic_of(trace, np.full(2, 2), 100.0), find_policy("fluid:criterion=off"))
        assert replay.finish_s.tolist() == [12.0, 12.0]  # 4 s and 2 s, one after the other, and 6 s together
        assert replay.launches[0, :, 1:].tolist() == launches
        assert replay.launches[1, :, 1:].tolist() == [[1, 0], [0, 0]]


# SUSHI: one of several variants for a request, a table for each state of a cache, memory between requests


def supernet(view, data):
    """The smallest of two SubNets that is accurate enough; after every second query the cache holds the one used last.

    Tables: SubNet 0 and 1 with the cache of SubNet 0, then of SubNet 1.
    """
    if view.depth > 0:
        return go_on(view.segments)
    wanted = data.requests.min_accuracy[data.queue[view.first]]
    subnet, cache = (0 if wanted <= 0.75 else 1), int(data.memory[0])
    data.memory[1] += 1
    refill_s = 0.0
    if data.memory[1] % 2 == 0 and cache != subnet:
        data.memory[0], refill_s = subnet, 0.5
    return Decision(1, 0, view.segments, math.inf, True, 2 * cache + subnet, refill_s)


def test_variants_states_of_a_cache_and_memory_between_requests():
    time_s = np.array([[[0.0, 1.0]], [[0.0, 4.0]], [[0.0, 2.0]], [[0.0, 3.0]]])
    work: Any = work_of(everybody(5, 1), 1)
    work.requests.min_accuracy[:] = [0.5, 0.9, 0.9, 0.5, 0.5]
    device = DeviceArrays(
        time_s,
        np.zeros((4, 2, 2, 2)),
        np.zeros(1, dtype=np.int64),
        np.ones(1, dtype=np.int64),
        np.zeros((2, 2)),
        np.zeros(2),
        np.zeros(4, VARIANT).view(np.recarray),
    )
    run = Loop(
        scheduler_of(supernet, memory=2),
        work,
        networks_of([OneNetwork(device, Rules(np.zeros(0), np.zeros(2), 1, 0.0))]),
    ).to()
    # 1 s; the second query refills (0.5 s) and still runs on the old cache (4 s); 3 s on the new one; then SubNet 0
    # on the cache of SubNet 1 (2 s, with another refill of 0.5 s), and on its own (1 s)
    assert run.work.requests.finish_s.tolist() == [1.0, 5.5, 8.5, 11.0, 12.0]
    assert run.record.launches[1::2].tolist() == [2, 1, 1, 1]


# EdgeSP: a table with b_max = 1


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_batch_of_one_is_enough_for_every_policy(policy):
    """One device after another in a cluster serves one image at a time: everybody is served in order."""
    rng = np.random.default_rng(5)
    traffic = traffic_of(trace_of(np.cumsum(rng.exponential(1.0, 200))), rng.integers(1, 4, 200), 1000.0)
    table = table_of([[0.25], [0.25], [0.25]])
    replay = simulate(table, traffic, find_policy(policy))
    begin_s = 0.0
    for arrival_s, leaves, finish_s in zip(traffic.trace.arrival_s, traffic.exits, replay.finish_s, strict=True):
        if policy not in ("adaptb", "pame"):  # these wait for their timeout first
            begin_s = max(begin_s, arrival_s) + 0.25 * leaves
            assert finish_s == pytest.approx(begin_s)
    assert np.all(np.diff(replay.start_s) > 0)


# no policy sees the future


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_comes_later_changes_nothing_before(policy):
    rng = np.random.default_rng(6)
    arrivals, exits = np.cumsum(rng.exponential(1.0, 300)), rng.integers(1, 3, 300)
    table, changed = table_of([[0.5, 0.75, 1.0], [0.5, 0.75, 1.0]]), exits.copy()
    changed[150:] = 3 - changed[150:]
    later = np.concatenate([arrivals[:150], arrivals[150:] + rng.exponential(0.3, 150).cumsum()])
    first, other = (
        simulate(table, traffic_of(trace_of(times), leaves, 3.0), find_policy(policy))
        for times, leaves in ((arrivals, exits), (later, changed))
    )
    before = (first.finish_s < arrivals[150]) & (np.arange(300) < 150)
    assert before.sum() > 100
    assert np.array_equal(first.finish_s[before], other.finish_s[before])
    assert np.array_equal(first.start_s[before], other.start_s[before])


def fill_and_pad(view, data):
    """Batches that keep the places of samples that have exited, although others take these places meanwhile."""
    return Decision(min(view.waiting, view.b_max - view.in_flight), 0, 1, math.inf, False, 0, 0.0)


def test_batches_whose_places_exceed_the_largest_batch_are_gathered_where_they_merge():
    """Of three samples two exit; two others catch up with the third: five places, where three are the most."""
    table = table_of([[1.0] * 3] * 3).model_copy(update={"gather_s": [[0.0, 0.25, 0.25, 0.25]] * 3})
    traffic = traffic_of(trace_of([0.0] * 3 + [0.5] * 2), np.array([1, 1, 3, 3, 3]), 100.0)
    replay = simulate(table, traffic, scheduler_of(fill_and_pad))
    assert replay.finish_s.tolist() == [1.0, 1.0, 4.25, 4.25, 4.25]
    assert replay.launches[0].sum(axis=0).tolist() == [0, 0, 1, 3]


def variant_as_predicted(view, data):
    """One request after the other preempts, in the variant that its predicted depth names."""
    if view.waiting == 0:
        return go_on(1)
    variant = int(data.requests.predicted_depth[data.queue[view.first]])
    return Decision(1, 0, 1, math.inf, True, variant, 0.0)


@pytest.mark.parametrize("variant", [1, 2])
def test_batches_of_other_subnets_or_states_do_not_merge(variant):
    """The second, in another SubNet or another state, runs to its end before the first goes on."""
    axes = {"subnets": [SubNetEntry(name="a"), SubNetEntry(name="b")], "states": ["x", "y"]}
    trace = replace(trace_of([0.0, 0.5]), predicted_depth=np.array([0.0, variant]))
    traffic = traffic_of(trace, np.array([2, 2]), 100.0)
    replay = simulate(with_variants([[1.0, 1.0]] * 2, **axes), traffic, scheduler_of(variant_as_predicted))
    assert replay.finish_s.tolist() == [2.0 + 2 * FASTER**variant, 1.0 + 2 * FASTER**variant]
