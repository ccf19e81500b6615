"""The event loop, compiled: time, what happens at an instant, and the decisions of policies.

The order of the queue, admission, preemption, compaction, the lane and the variant are a policy's decisions
(``policies.interface``).

Order of events at one instant: segments end, then requests arrive, then the policy is asked, lane by lane.  A sample
that exits returns at the end of its stage, whatever the rest of its batch does.
"""

import math
from typing import Any, NamedTuple

from numba import types

from ..jit import compiled, refer
from .batches import MERGES, compact, enter, give_way, hand_out, has_slower, leave, meets_below, numbers_of
from .contention import slow_each_other
from .deadlines import TOGETHER, next_deadline, sweep
from .host import inputs_s
from .policies.estimates import narrowest
from .policies.interface import DECIDE, Data, LaneView
from .state import NETWORKS, RECORD, STATE, WORK
from .terms import TERMS, next_arrival, note_members, pass_time, tell_returned
from .turns import charge, queue_at, waiting_in, whose_turn

OK, OVERFULL, NO_PROGRESS, NO_SUCH_TABLE, TOO_NARROW, WAITS = range(6)
FAULTS = {
    OVERFULL: "admitted more requests than wait, more than fit beside the ones on the lane, or a negative number",
    NO_PROGRESS: "did not run or admit anything, and named no later time at which to be asked again",
    NO_SUCH_TABLE: "named a variant that the latency table does not have, or a negative delay",
    TOO_NARROW: "named a variant that is too narrow for a request that it admits",
}

LONGEST_S = 1e300
"""Most that a decision may delay a run."""

_TYPES = (types.FunctionType(DECIDE), WORK, NETWORKS, STATE, RECORD, types.float64, types.int64)
PLAIN = types.int64(*_TYPES, types.none, types.none)
BESIDE = types.int64(*_TYPES, types.none, types.int64)
WITH_TERMS = types.int64(*_TYPES, TERMS, types.int64)
"""numba signatures of the loop: on one lane, on lanes beside each other, and with terms."""


class Addresses(NamedTuple):
    """The tuples that functions with a call of their own take: a call with values would copy every field."""

    work: Any
    networks: Any
    state: Any
    terms: Any


@compiled(inline="always")
def is_other(terms, number, lane, place, kind, networks):
    """Whether a network on a lane has other numbers than a queue and a kind of core; without terms, never."""
    if terms is None:
        return False
    return queue_at(number, lane, networks) != place or lane.kind != kind


# what happens at an instant


@compiled(inline="always")
def next_outside(terms, at, clock, requests):
    """When the next request arrives or, with terms, a deadline passes."""
    if terms is not None:
        return min(next_arrival(at.terms, at.work.requests), next_deadline(at.terms, at.work.requests))
    return math.inf if clock.arrived == requests.arrival_s.size else requests.arrival_s[clock.arrived]


@compiled(inline="always")
def count_of(lanes, beside):
    """How many lanes there are: one, as the compiler then knows, if none is beside it."""
    return 1 if beside is None else lanes.size


@compiled(inline="always")
def next_instant(count, terms, at, clock, lanes, requests):
    """When a segment ends or, if a lane is idle, something happens outside of the lanes or a policy wakes."""
    now = math.inf
    for k in range(count):
        lane = lanes[k]
        now = min(now, lane.end_s if lane.running else min(lane.wake_s, next_outside(terms, at, clock, requests)))
    return now


@compiled(inline="always")
def rearrange(exited, lane, its, networks, state, requests, record):
    """Compact a lane's top batch, merge it with the one below, or take it away, when some may have exited."""
    merges = meets_below(lane, its, networks, state)
    # where the run ends, the policy is asked about this batch, unless it merges
    if exited > 0 and lane.samples > 0 and lane.compact and (lane.left > 0 or merges):
        compact(lane, its, networks)
    if merges or lane.samples == 0:
        give_way(merges, lane, state, requests)
        if merges and lane.places > its.b_max:  # no device runs a larger batch, so that the two are gathered
            compact(lane, its, networks)
    if merges and lane.run < record.runs.shape[0]:
        record.runs[lane.run, 3] += MERGES


@compiled(inline="always")
def end_segment(lane, its, terms, at, work, networks, state, record):
    """End the segment of a lane: samples exit or have given up, and the batch merges or makes way.

    A lane that waits while the host handles outputs goes on once that is done.
    """
    lane.wait_s = 0.0
    exited, noted, held = 0, 0, False
    reached = networks.stage_after[its.places_at + lane.segment]
    if terms is not None:
        exited = sweep(False, lane, at.terms, at.state, at.work.requests)
        if hand_out(lane, reached, its, at.terms, at.networks, at.state, at.work):
            return
        noted = note_members(lane, at.terms, at.state)
    lane.running = 0
    lane.segment += 1
    if reached > lane.stage:
        lane.stage = reached
        if terms is not None:
            held = at.terms.counts[TOGETHER] > 0 and has_slower(lane, at.state, work.exit_of)
        if not held:
            exited += leave(lane, its, work, networks, state)
        if terms is not None:
            tell_returned(noted, lane, at.terms, at.state, at.work.requests)
    rearrange(exited, lane, its, networks, state, work.requests, record)


@compiled(lean=True)
def clear_lanes(whole, terms, networks, state, requests):
    """Take samples that gave up from the lanes on which no segment runs; a batch without any makes way."""
    for k in range(state.lanes.size):
        lane = state.lanes[k]
        while not lane.running and lane.depth > 0:
            gone = sweep(whole, lane, terms, state, requests)
            if gone > 0 and lane.samples > 0 and lane.compact and lane.left > 0:
                compact(lane, networks.records[lane.network], networks)
            if lane.samples > 0:
                break
            give_way(False, lane, state, requests)


@compiled(inline="always")
def arrivals(now, state, requests):
    """Let the requests wait that have arrived."""
    clock, queue = state.clock[0], state.queues[0]
    while clock.arrived < requests.arrival_s.size and requests.arrival_s[clock.arrived] <= now:
        state.waiting[queue.tail] = clock.arrived
        queue.tail += 1
        clock.arrived += 1


# decisions


@compiled(inline="always")
def begin_look(lane, clock):
    """Look at a lane; if it has nothing to run, no network was asked about it yet."""
    if lane.left == 0:
        lane.wake_s = math.inf
        clock.looks += 1


@compiled(inline="always")
def turn_of(k, terms, at, state):
    """The network that is asked about a lane, or -1 if each was asked, and whether it is its turn."""
    lane = state.lanes[k]
    if terms is None:
        asked = state.counts[0].look == state.clock[0].looks
        first = -1 if asked or waiting_in(state.queues[0]) == 0 else 0
    else:
        first = whose_turn(k, at.networks, at.state, at.work)
    number = lane.network if lane.depth > 0 else first
    if number >= 0:
        state.counts[number].look = state.clock[0].looks
    return number, number == first


@compiled(inline="always")
def data_of(number, lane, work, networks, state):
    """What the policy of a network reads."""
    its = networks.records[number]
    latencies, memory = its.latencies_at + lane.kind * its.latencies, its.memory_at + lane.queue * its.memory
    exits, sizes = its.exits, its.sizes
    return Data(
        work.requests, state.waiting, state.members, state.lanes,
        networks.latency_s[latencies : latencies + its.latencies].reshape((-1, exits + 1, exits + 1, sizes)),
        networks.gather_s[its.gathers_at : its.gathers_at + its.gathers].reshape((-1, sizes)),
        networks.variants[its.variants_at : its.variants_at + its.variants],
        networks.settings[its.settings_at : its.settings_at + its.settings],
        networks.memory[memory : memory + its.memory],
    )  # fmt: skip


@compiled(inline="always")
def view_of(k, queue, in_turn, its, state, requests):
    """What the policy that is asked sees of a lane; while it is another network's turn, no request that waits."""
    lane, counts = state.lanes[k], state.counts[its.number]
    waiting = waiting_in(queue) if in_turn else 0
    head_s = head_due_s = deadline_s = math.inf
    if waiting > 0:
        head = state.waiting[queue.head]
        head_s, head_due_s = requests.arrival_s[head], requests.due_s[head]
    samples = places = stage = segment = variant = 0
    if lane.depth > 0:
        counts.calls += 1
        deadline_s, samples, places = lane.due_s, lane.samples, lane.places
        stage, segment, variant = lane.stage, lane.segment, lane.variant
    return LaneView(
        state.clock[0].now_s, k, its.b_max, its.places, its.stages, its.steps, its.variants, waiting, head_s,
        head_due_s, lane.depth, lane.in_flight, lane.admitted, deadline_s, samples, places, stage, segment, variant,
        queue.head, lane.offset,
    )  # fmt: skip


@compiled(inline="always")
def fault_of(answer, lane, its, waiting, now):
    """What is wrong with a decision."""
    if not (0 <= answer.admit <= its.b_max - lane.in_flight and 0 <= answer.skip <= waiting - answer.admit):
        return OVERFULL  # compared without a sum, which may overflow
    if answer.admit == 0 and lane.depth == 0:
        return OK if answer.wake_s > now else NO_PROGRESS
    if answer.run < 1:
        return NO_PROGRESS
    if not (0 <= answer.variant < its.variants and 0.0 <= answer.delay_s <= LONGEST_S):
        return NO_SUCH_TABLE
    return OK


@compiled(inline="always")
def variant_of(answer, its, queue, requests, networks, state):
    """The narrowest variant from the one that a policy named on that serves the requests it admits; -1 for none."""
    if its.variants == 1:
        return 0
    widest, begin = 0.0, queue.head + answer.skip
    for m in range(begin, begin + answer.admit):
        widest = max(widest, requests.width[state.waiting[m]])
    variants = networks.variants[its.variants_at : its.variants_at + its.variants]
    return narrowest(variants, answer.variant, widest) if widest <= variants[answer.variant].width else -1


@compiled(inline="always")
def follow(answer, variant, its, lane, queue, networks, state, requests):
    """Do what a policy decided for a lane."""
    depth = lane.depth
    if depth > 0 and answer.compact:
        compact(lane, its, networks)
    if answer.admit > 0:
        enter(answer.admit, answer.skip, variant, lane, queue, state, requests)
    lane.compact = answer.compact
    lane.left = answer.run
    lane.wait_s += answer.delay_s
    if depth == 0 and lane.end_s < state.clock[0].now_s:  # nothing has ended on it just now
        lane.wait_s += its.wake_up_s
    if 0 <= lane.network != its.number:
        lane.wait_s += its.switch_s
    lane.network = its.number


@compiled(inline="always")
def heed(answer, k, queue, in_turn, its, networks, state, requests):
    """Do what a policy decides for a lane; OK if the lane has something to run."""
    lane, clock = state.lanes[k], state.clock[0]
    waiting = waiting_in(queue) if in_turn else 0
    fault = fault_of(answer, lane, its, waiting, clock.now_s)
    if fault != OK:
        return fault
    if answer.admit == 0 and lane.depth == 0:
        lane.wake_s = min(lane.wake_s, answer.wake_s)
        return WAITS
    variant = variant_of(answer, its, queue, requests, networks, state)
    if variant < 0:
        return TOO_NARROW
    follow(answer, variant, its, lane, queue, networks, state, requests)
    return OK


@compiled(inline="always")
def begin_segment(k, count, from_s, its, networks, state, record):
    """Run the next segment of a lane's top batch."""
    lane, clock = state.lanes[k], state.clock[0]
    counts = state.counts[its.number]
    segment = networks.segment_at[its.places_at + lane.segment]
    # of this run among times and counts
    place = its.times_at + (lane.variant * its.segments + segment) * its.sizes + lane.places
    lane.begin_s = from_s + lane.wait_s
    lane.end_s = lane.begin_s + networks.time_s[place]
    if lane.wait_s > 0.0:
        counts.overhead_s += lane.wait_s
    record.launches[place] += 1
    lane.running = 1
    lane.left -= 1
    if count > 1:  # lanes that slow each other
        lane.slowdown, lane.load = 1.0, networks.load[its.loads_at + lane.places]
        if networks.contention >= 0.0:
            lane.load = networks.moving[place]
    if clock.runs < record.runs.shape[0]:
        note_run(k, segment, state, record)


@compiled(inline="always")
def note_run(k, segment, state, record):
    """Add a run to the record."""
    lane, clock = state.lanes[k], state.clock[0]
    lane.run = clock.runs
    record.run_s[lane.run, 0], record.run_s[lane.run, 1] = lane.begin_s, lane.end_s
    record.runs[lane.run, 0], record.runs[lane.run, 1], record.runs[lane.run, 2] = segment, lane.samples, lane.depth - 1
    record.runs[lane.run, 3], record.runs[lane.run, 4] = lane.marks, k
    for m in range(lane.samples):
        record.members[clock.run_members + m] = state.members[lane.offset + lane.first + m]
    lane.marks = 0
    clock.run_members += lane.samples
    clock.runs += 1


def run_events(decide, work, networks, state, record, until_s, events, terms, beside):
    """Replay traffic under a policy for a number of instants, or until a time; the same call goes on from there.

    ``networks`` are read, ``work`` and ``state`` are where the replay stands, and runs are added to ``record``.
    ``terms`` are about clients that wait, deadlines and admission, or ``None``, which takes a single queue;
    ``beside`` is ``None`` where there is one lane and there are no terms.  What is ``None`` leaves no trace in the
    compiled loop.
    Returns ``OK``, or a fault of the policy.
    """
    at = Addresses(refer(work), refer(networks), refer(state), refer(terms))
    clock, lanes, count, requests = state.clock[0], state.lanes, count_of(state.lanes, beside), work.requests
    its, data = numbers_of(0, lanes[0], at.networks), refer(data_of(0, lanes[0], work, networks, state))
    for _ in range(events):
        if clock.returned == requests.arrival_s.size:
            break
        now = next_instant(count, terms, at, clock, lanes, requests)
        if now == math.inf:
            return NO_PROGRESS  # requests wait on an idle device, and the policy lets them
        clock.now_s = min(now, until_s)
        if terms is not None:
            pass_time(clock.now_s, False, at.terms, at.networks, at.state, at.work)
        if now > until_s:
            break
        for k in range(count):
            lane = lanes[k]
            if lane.running and lane.end_s <= now:
                if is_other(terms, lane.network, lane, its.place, its.kind, at.networks):
                    its = numbers_of(lane.network, lane, at.networks)
                    data = refer(data_of(lane.network, lane, work, networks, state))
                end_segment(lane, its, terms, at, work, networks, state, record)
        if terms is None:
            arrivals(now, state, requests)
        else:
            pass_time(now, now < until_s, at.terms, at.networks, at.state, at.work)
            clear_lanes(now < until_s, at.terms, at.networks, at.state, at.work.requests)
        if now >= until_s:
            break
        for k in range(count):
            lane, call_s = lanes[k], 0.0
            if lane.running:
                continue
            begin_look(lane, clock)
            while True:
                number, in_turn = lane.network, True
                if lane.left == 0:
                    number, in_turn = turn_of(k, terms, at, state)
                    if number < 0:
                        break
                if is_other(terms, number, lane, its.place, its.kind, at.networks):
                    its = numbers_of(number, lane, at.networks)
                    data = refer(data_of(number, lane, work, networks, state))
                if lane.left == 0:
                    call_s = its.call_s if lane.depth > 0 else 0.0
                    queue = state.queues[its.place]
                    answer = decide(refer(view_of(k, queue, in_turn, its, state, requests)), data)
                    outcome = heed(answer, k, queue, in_turn, its, networks, state, requests)
                    if outcome == WAITS:
                        continue  # another network may have something to run
                    if outcome != OK:
                        return outcome
                    if terms is not None:
                        lane.wait_s += inputs_s(answer.admit, its.number, at.terms)
                begin_segment(k, count, now + call_s, its, networks, state, record)
                charge(its.number, lane.end_s - now, networks, at.state)
                break
        slow_each_other(beside, networks.contention, state, record)
    return OK


run_plain = compiled(PLAIN, lean=True)(run_events)
run_beside = compiled(lean=True)(run_events)
run_on_terms = compiled(lean=True)(run_events)
"""The same loop, compiled for one lane and one queue without terms; when first needed, with what else there may be."""

SIGNATURES = {run_plain: PLAIN, run_beside: BESIDE, run_on_terms: WITH_TERMS}
