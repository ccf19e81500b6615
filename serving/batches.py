"""Batches on a lane: requests enter, preempt, leave at exits, and join the batch below; compiled."""

import math
from typing import NamedTuple

from ..jit import compiled
from .deadlines import TOGETHER
from .host import outputs_s
from .turns import charge, queue_at, waiting_in

HANDS_OUT = 2
"""A lane that waits while the host handles outputs, where 1 is a lane with a segment that runs."""

PREEMPTS, MERGES = 1, 2
"""Flags of a recorded run: it began by preempting the batch below; it ended by merging with it."""


class Numbers(NamedTuple):
    """Numbers of the network that the loop looks at: its record's, for the kind of core and queue of a lane."""

    number: int
    kind: int  # of core
    place: int  # of the queue
    wake_up_s: float
    call_s: float
    switch_s: float
    b_max: int
    variants: int
    segments: int
    sizes: int
    places: int
    stages: int
    steps: int
    # where its part of an array begins
    times_at: int
    places_at: int
    gathers_at: int
    loads_at: int
    variants_at: int
    memory_at: int


@compiled(lean=True)
def numbers_of(number, lane, networks):
    """The numbers of a network on a lane."""
    its = networks.records[number]
    return Numbers(
        number, lane.kind, queue_at(number, lane, networks), its.wake_up_s, its.call_s, its.switch_s, its.b_max,
        its.variants, its.segments, its.sizes, its.places, its.stages, its.steps,
        its.times_at + lane.kind * its.times, its.places_at, its.gathers_at, its.loads_at, its.variants_at,
        its.memory_at + lane.queue * its.memory,
    )  # fmt: skip


@compiled(inline="always")
def take_from_queue(queue, skip, count, state):
    """Close the gap of requests that leave a queue behind its first ``skip``, from the side with less to move."""
    waiting, behind = state.waiting, waiting_in(queue) - skip - count
    if skip <= behind:
        for k in range(skip - 1, -1, -1):
            waiting[queue.head + k + count] = waiting[queue.head + k]
        queue.head += count
    else:
        for k in range(queue.head + skip, queue.tail - count):
            waiting[k] = waiting[k + count]
        queue.tail -= count


@compiled(inline="always")
def preempt(lane, clock, state, requests):
    """Put a lane's top batch under the one that comes."""
    below = state.batches[lane.offset + lane.depth - 1]
    below.first, below.began_with, below.places = lane.first, lane.began_with, lane.places
    below.segment, below.stage, below.variant = lane.segment, lane.stage, lane.variant
    below.compact, below.due_s, below.paused_s = lane.compact, lane.due_s, clock.now_s
    for m in range(lane.first, lane.in_flight):
        requests.preempted[state.members[lane.offset + m]] += 1
    state.counts[lane.network].preemptions += 1
    lane.marks = PREEMPTS


@compiled(inline="always")
def enter(admit, skip, variant, lane, queue, state, requests):
    """Put waiting requests on top of a lane's stack, as a new batch."""
    clock, due_s = state.clock[0], math.inf
    if lane.depth > 0:
        due_s = lane.due_s
        preempt(lane, clock, state, requests)
    lane.first, lane.began_with, lane.places = lane.in_flight, admit, admit
    lane.segment, lane.stage, lane.variant = 0, 0, variant
    clock.batches += 1
    batch, now_s, waits, free = clock.batches, clock.now_s, queue.head + skip, lane.offset + lane.in_flight
    for m in range(admit):
        request = state.waiting[waits + m]
        state.members[free + m] = request
        requests.start_s[request] = now_s
        if variant > 0:
            requests.variant[request] = variant
        requests.batch[request] = batch
        due_s = min(due_s, requests.due_s[request])
    lane.due_s = due_s
    take_from_queue(queue, skip, admit, state)
    lane.depth += 1
    lane.in_flight += admit
    lane.admitted += admit
    lane.samples = admit


@compiled(lean=True)
def leaving(lane, reached, its, work, networks, state):
    """How many samples of a lane's top batch have their exit by a stage that has just ended."""
    exit_of, confidences, count, least = work.exit_of, work.confidences, 0, math.inf
    decided_now = reached <= confidences.shape[1]
    if decided_now:
        least = networks.memory[its.memory_at + lane.variant * confidences.shape[1] + reached - 1]
    for m in range(lane.offset + lane.first, lane.offset + lane.in_flight):
        request = state.members[m]
        if exit_of[request] <= reached or (decided_now and confidences[request, reached - 1] >= least):
            count += 1
    return count


@compiled(lean=True)
def hand_out(lane, reached, its, terms, networks, state, work):
    """Let a lane wait while the host handles the outputs of samples that leave; whether it does, for the first time."""
    if lane.running == HANDS_OUT or reached == lane.stage:
        return False
    count = leaving(lane, reached, its, work, networks, state)
    if terms.counts[TOGETHER] > 0 and count < lane.samples:
        return False
    longer_s = outputs_s(count, its.number, terms)
    if longer_s == 0.0:
        return False
    now_s = state.clock[0].now_s
    lane.running, lane.begin_s, lane.end_s = HANDS_OUT, now_s, now_s + longer_s
    state.counts[its.number].overhead_s += longer_s
    charge(its.number, lane.end_s - now_s, networks, state)
    return True


@compiled(lean=True)
def has_slower(lane, state, exit_of):
    """Whether a sample of a lane's top batch has not reached its exit yet."""
    for m in range(lane.offset + lane.first, lane.offset + lane.in_flight):
        if exit_of[state.members[m]] > lane.stage:
            return True
    return False


@compiled(inline="always")
def leave(lane, its, work, networks, state):
    """Return the samples of a lane's top batch that have reached their exits; how many did."""
    requests, exit_of, confidences = work.requests, work.exit_of, work.confidences
    clock, members, stage = state.clock[0], state.members, lane.stage
    decided_now = stage <= confidences.shape[1]
    least = math.inf
    if decided_now:
        least = networks.memory[its.memory_at + lane.variant * confidences.shape[1] + stage - 1]
    begin, end, now_s, due_s = lane.offset + lane.first, lane.offset + lane.in_flight, clock.now_s, math.inf
    if lane.depth > 1:
        due_s = state.batches[lane.offset + lane.depth - 2].due_s
    kept = begin
    for m in range(begin, end):
        request = members[m]
        if decided_now and confidences[request, stage - 1] >= least:
            exit_of[request] = stage
        if exit_of[request] <= stage:
            requests.finish_s[request] = now_s
        else:
            members[kept] = request
            due_s = min(due_s, requests.due_s[request])
            kept += 1
    exited = end - kept
    clock.returned += exited
    lane.in_flight -= exited
    lane.samples = kept - begin
    lane.due_s = due_s
    return exited


@compiled(inline="always")
def compact(lane, its, networks):
    """Give up the places of samples that have exited from a lane's top batch, if there are any."""
    if lane.places > lane.samples:
        lane.places = lane.samples
        lane.wait_s += networks.gather_s[its.gathers_at + lane.stage * its.sizes + lane.samples]


@compiled(inline="always")
def meets_below(lane, its, networks, state):
    """True if a lane's top batch has reached the batch below it, with which it then merges; widths may differ."""
    if lane.depth < 2 or lane.samples == 0:
        return False
    below = state.batches[lane.offset + lane.depth - 2]
    if below.segment != lane.segment:
        return False
    if lane.variant == below.variant:
        return True
    one, other = networks.variants[its.variants_at + lane.variant], networks.variants[its.variants_at + below.variant]
    return one.subnet == other.subnet and one.state == other.state


@compiled(inline="always")
def give_way(merges, lane, state, requests):
    """Take the top batch from a lane's stack: all its samples exited, or it merges with the batch below."""
    lane.left = 0  # the policy is asked
    lane.depth -= 1
    if not merges:
        lane.admitted -= lane.began_with
    if lane.depth == 0:
        lane.stage = 0
        return
    below, now_s = state.batches[lane.offset + lane.depth - 1], state.clock[0].now_s
    for m in range(below.first, lane.first):
        requests.stalled_s[state.members[lane.offset + m]] += now_s - below.paused_s
    if merges:
        lane.began_with += below.began_with
        lane.places += below.places
        lane.variant = min(below.variant, lane.variant)  # the wider of the two: widths come widest first
    else:
        lane.began_with, lane.places, lane.variant = below.began_with, below.places, below.variant
        lane.segment, lane.stage, lane.due_s = below.segment, below.stage, below.due_s
    lane.first, lane.compact = below.first, below.compact
    lane.samples = lane.in_flight - lane.first
