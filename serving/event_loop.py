"""The event loop, compiled: time, requests, batches on the lanes of a device, and what they cost.

It knows no rule about who goes next: the order of the queue, admission, preemption, compaction, the lane
and the variant are a policy's (``policies.interface``).

Order of events at one instant: segments end, then requests arrive, then the
policy is asked, lane by lane.  A sample that exits returns at the end of its stage, whatever
the rest of its batch does.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..jit import compiled
from .policies.interface import DECIDE, LANE, LANES, LATENCY, REQUESTS, View

OK, OVERFULL, NO_PROGRESS, NO_SUCH_TABLE = range(4)
FAULTS = {
    OVERFULL: "admitted more requests than wait or than fit beside those on the lane, or a negative number",
    NO_PROGRESS: "neither ran, nor admitted, nor named a later time to be asked again",
    NO_SUCH_TABLE: "named a variant that the latency table does not have, or a negative delay",
}

PREEMPTS, MERGES = 1, 2
"""Flags of a recorded run: it began by preempting the batch below; it ended by merging with it."""

BATCH = np.dtype(
    [
        ("first", "i8"),  # its first sample among those of the lane
        ("began_with", "i8"),  # samples
        ("places", "i8"),  # batch size at which the device runs it
        ("segment", "i8"),  # segments that it has completed
        ("stage", "i8"),  # stages that it has completed
        ("variant", "i8"),
        ("compact", "i8"),  # whether it gives up the places of samples that exit
        ("due_s", "f8"),  # earliest deadline in it and in those below
        ("paused_s", "f8"),  # when it was preempted
    ],
    align=True,
)
"""A batch on the stack of a lane.  Its samples lie behind those of the batches below: to merge two is to forget
where the upper one began."""

CLOCK = np.dtype(
    [
        ("now_s", "f8"),
        ("arrived", "i8"),  # requests
        ("head", "i8"),  # where the queue begins in its array
        ("tail", "i8"),  # and ends
        ("returned", "i8"),  # requests
        ("preemptions", "i8"),
        ("calls", "i8"),  # of the policy, with samples on the lane
        ("runs", "i8"),  # segments run
        ("run_members", "i8"),  # samples in them
        ("slowdown", "f8"),  # factor of the batches that run side by side now
        ("overhead_s", "f8"),  # lanes' time in gathers, delays and slowdowns
    ],
    align=True,
)
"""What the loop counts."""


class Device(NamedTuple):
    """What a device takes for a network.

    Attributes
    ----------
    time_s : (V, S, B + 1) ndarray of float64
        Time of each distinct segment by variant and batch size.
    latency_s : (V, E + 1, E + 1, B + 1) ndarray of float64
        Times between exits, for the policy.
    segment_at : (P,) ndarray of int64
        Which of the distinct segments runs at each place from input to end; one that repeats has several places.
    stage_after : (P,) ndarray of int64
        Stages completed once the segment at a place is.
    gather_s : (B + 1,) ndarray of float64
        Time to gather the samples that stay in a batch, by their number.
    occupancy : (B + 1,) ndarray of float64
        Share of the device that a batch keeps busy; batches side by side slow each other by the sum, if above 1.
    """

    time_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    segment_at: NDArray[np.int64]
    stage_after: NDArray[np.int64]
    gather_s: NDArray[np.float64]
    occupancy: NDArray[np.float64]


class Leaving(NamedTuple):
    """Where requests leave the network.

    Attributes
    ----------
    exit_of : (N,) ndarray of int64
        1-based exit that was decided beforehand; the last one where confidences decide.
    confidences : (N, E - 1) or (0, 0) ndarray of float64
        Confidence at each exit but the last, if the policy sets the thresholds.
    thresholds : (E - 1,) or (0,) ndarray of float64
        Confidence from which a sample leaves; in the hands of the policy.
    """

    exit_of: NDArray[np.int64]
    confidences: NDArray[np.float64]
    thresholds: NDArray[np.float64]


class Rules(NamedTuple):
    """What a policy was given.

    Attributes
    ----------
    settings, memory : (K,), (M,) ndarray of float64
        Its parameters, and what it keeps from call to call.
    b_max : int
        Most samples on a lane at once.
    call_s : float
        Time of each call with samples on the lane.
    """

    settings: NDArray[np.float64]
    memory: NDArray[np.float64]
    b_max: int
    call_s: float


class State(NamedTuple):
    """Where a replay stands.

    Attributes
    ----------
    clock : (1,) record array of CLOCK
        Time and counts.
    lanes : (L,) record array of LANE
        Each lane.
    batches : (L, b_max) record array of BATCH
        Its stack, bottom first.
    members : (L, b_max) ndarray of int64
        Requests on it, bottom batch first.
    queue : (N,) ndarray of int64
        Requests that wait, from ``clock.head`` to ``clock.tail``.
    """

    clock: NDArray[np.void]
    lanes: NDArray[np.void]
    batches: NDArray[np.void]
    members: NDArray[np.int64]
    queue: NDArray[np.int64]


class Outcome(NamedTuple):
    """What happened to each request, and how often each segment ran.

    Attributes
    ----------
    start_s, finish_s : (N,) ndarray of float64
        Entry into the device, and return; not touched for requests that do not come so far.
    stalled_s : (N,) ndarray of float64
        Time spent preempted.
    preempted : (N,) ndarray of int32
        How often each was preempted.
    exits : (N,) ndarray of int64
        1-based exit at which each returned.
    launches : (V, S, B + 1) ndarray of int64
        How often each segment ran at each batch size.
    run_s : (M, 2) ndarray of float64
        Begin and end of every run, if there is room to record them.
    runs : (M, 5) ndarray of int64
        Its segment, samples, level on the stack, flags and lane.
    run_members : (W,) ndarray of int64
        The requests of every run, one run after the other.
    """

    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    stalled_s: NDArray[np.float64]
    preempted: NDArray[np.int32]
    exits: NDArray[np.int64]
    launches: NDArray[np.int64]
    run_s: NDArray[np.float64]
    runs: NDArray[np.int64]
    run_members: NDArray[np.int64]


def begin(requests: int, lanes: int, b_max: int) -> State:
    """An idle device at time 0."""
    state = State(
        np.zeros(1, CLOCK).view(np.recarray),
        np.zeros(lanes, LANE).view(np.recarray),
        np.zeros((lanes, b_max), BATCH).view(np.recarray),
        np.zeros((lanes, b_max), dtype=np.int64),
        np.zeros(requests, dtype=np.int64),
    )
    state.clock.slowdown[:] = 1.0
    state.lanes.wake_s[:] = math.inf
    return state


_f, _i = types.float64, types.int64
_f1, _i1, _f2, _i2 = types.float64[::1], types.int64[::1], types.float64[:, ::1], types.int64[:, ::1]
_f3, _i3 = types.float64[:, :, ::1], types.int64[:, :, ::1]
_STATE = types.NamedTuple(
    (types.Array(from_dtype(CLOCK), 1, "C"), LANES, types.Array(from_dtype(BATCH), 2, "C"), _i2, _i1), State
)
_OUTCOME = types.NamedTuple((_f1, _f1, _f1, types.int32[::1], _i1, _i3, _f2, _i2, _i1), Outcome)
_SIGNATURE = types.int64(
    types.FunctionType(DECIDE),
    REQUESTS,
    types.NamedTuple((_i1, _f2, _f1), Leaving),
    types.NamedTuple((_f3, LATENCY, _i1, _i1, _f1, _f1), Device),
    types.NamedTuple((_f1, _f1, _i, _f), Rules),
    _STATE,
    _OUTCOME,
    _f,
    _i,
)


@compiled()
def take_from_queue(queue, clock, skip, count):
    """Close the gap of requests that leave the queue behind its first ``skip``, from the side with less to move."""
    behind = clock.tail - clock.head - skip - count
    if skip <= behind:
        for k in range(skip - 1, -1, -1):
            queue[clock.head + k + count] = queue[clock.head + k]
        clock.head += count
    else:
        for k in range(clock.head + skip, clock.tail - count):
            queue[k] = queue[k + count]
        clock.tail -= count


@compiled()
def enter(k, admit, skip, variant, requests, state, outcome):
    """Put waiting requests on top of a lane's stack, as a new batch that preempts the one that ran."""
    clock, lane, members = state.clock[0], state.lanes[k], state.members[k]
    now, due_s = clock.now_s, math.inf
    if lane.depth > 0:
        below = state.batches[k, lane.depth - 1]
        below.paused_s, due_s = now, below.due_s
        for m in range(below.first, lane.in_flight):
            outcome.preempted[members[m]] += 1
        clock.preemptions += 1
        lane.flags = PREEMPTS
    batch = state.batches[k, lane.depth]
    batch.first, batch.began_with, batch.places = lane.in_flight, admit, admit
    batch.segment, batch.stage, batch.variant = 0, 0, variant
    for m in range(admit):
        request = state.queue[clock.head + skip + m]
        members[lane.in_flight + m] = request
        outcome.start_s[request] = now
        due_s = min(due_s, requests.due_s[request])
    batch.due_s = due_s
    take_from_queue(state.queue, clock, skip, admit)
    lane.depth += 1
    lane.in_flight += admit
    lane.admitted += admit
    lane.size, lane.stage, lane.wait_s = admit, 0, 0.0


@compiled()
def start_segment(k, device, state, outcome, delay_s):
    """Run the next segment of a lane's top batch."""
    clock, lane, batch = state.clock[0], state.lanes[k], state.batches[k, state.lanes[k].depth - 1]
    segment = device.segment_at[batch.segment]
    lane.begin_s = clock.now_s + delay_s
    if lane.wait_s > 0.0:
        lane.begin_s += lane.wait_s
        clock.overhead_s += lane.wait_s
        lane.wait_s = 0.0
    lane.end_s = lane.begin_s + device.time_s[batch.variant, segment, batch.places]
    lane.running, lane.slowed = 1, 0
    lane.left -= 1
    outcome.launches[batch.variant, segment, batch.places] += 1
    lane.run = clock.runs
    if clock.runs < outcome.runs.shape[0]:
        outcome.run_s[lane.run, 0], outcome.run_s[lane.run, 1] = lane.begin_s, lane.end_s
        run = outcome.runs[lane.run]
        run[0], run[1], run[2], run[3], run[4] = segment, lane.size, lane.depth - 1, lane.flags, k
        for m in range(lane.size):
            outcome.run_members[clock.run_members + m] = state.members[k, batch.first + m]
    lane.flags = 0
    clock.runs += 1
    clock.run_members += lane.size


@compiled()
def leave(k, requests, leaving, device, state, outcome):
    """Return the samples of a lane's top batch that exit at the stage it has just completed."""
    clock, lane, members = state.clock[0], state.lanes[k], state.members[k]
    batch = state.batches[k, lane.depth - 1]
    stage = batch.stage
    decided_now = stage <= leaving.thresholds.size
    kept, due_s = batch.first, math.inf
    if lane.depth > 1:
        due_s = state.batches[k, lane.depth - 2].due_s
    for m in range(batch.first, lane.in_flight):
        request = members[m]
        leaves = leaving.exit_of[request] == stage
        if decided_now and leaving.confidences[request, stage - 1] >= leaving.thresholds[stage - 1]:
            leaves = True
        if leaves:
            outcome.finish_s[request] = clock.now_s
            outcome.exits[request] = stage
        else:
            members[kept] = request
            due_s = min(due_s, requests.due_s[request])
            kept += 1
    exited = lane.in_flight - kept
    clock.returned += exited
    lane.in_flight = kept
    lane.size = kept - batch.first
    batch.due_s = due_s
    if exited > 0 and lane.size > 0 and batch.compact:
        batch.places = lane.size
        lane.wait_s += device.gather_s[lane.size]


@compiled()
def end_segment(k, requests, leaving, device, state, outcome):
    """What follows the end of a segment: samples exit, the batch leaves the lane or merges with the one below."""
    clock, lane = state.clock[0], state.lanes[k]
    batch = state.batches[k, lane.depth - 1]
    lane.running = 0
    reached = device.stage_after[batch.segment]
    batch.segment += 1
    if reached > batch.stage:
        batch.stage = lane.stage = reached
        leave(k, requests, leaving, device, state, outcome)
    merges = False
    if lane.depth > 1 and lane.size > 0:
        under = state.batches[k, lane.depth - 2]
        merges = under.segment == batch.segment and under.variant == batch.variant
    if lane.size > 0 and not merges:
        return
    lane.left = 0  # the policy is asked
    lane.depth -= 1
    if lane.size == 0:
        lane.admitted -= batch.began_with
    if lane.depth == 0:
        lane.stage = 0
        return
    below = state.batches[k, lane.depth - 1]
    for m in range(below.first, batch.first):
        outcome.stalled_s[state.members[k, m]] += clock.now_s - below.paused_s
    if merges:
        below.began_with += batch.began_with
        below.places += batch.places
        below.due_s = batch.due_s
        if lane.run < outcome.runs.shape[0]:
            outcome.runs[lane.run, 3] += MERGES
    lane.size, lane.stage = lane.in_flight - below.first, below.stage


@compiled()
def slow_each_other(device, state, outcome):
    """Stretch or shorten what is left of the running segments when batches start or end beside each other."""
    clock = state.clock[0]
    load = 0.0
    for k in range(state.lanes.size):
        if state.lanes[k].running:
            load += device.occupancy[state.batches[k, state.lanes[k].depth - 1].places]
    slowdown = max(1.0, load)
    for k in range(state.lanes.size):
        lane = state.lanes[k]
        if lane.running:
            # the time of a segment that starts now is that of a batch alone; the others' has the earlier slowdown in it
            factor = slowdown / clock.slowdown if lane.slowed else slowdown
            lane.slowed = 1
            from_s = max(clock.now_s, lane.begin_s)
            longer_s = (lane.end_s - from_s) * (factor - 1.0)
            lane.end_s += longer_s
            clock.overhead_s += longer_s
            if lane.run < outcome.runs.shape[0]:
                outcome.run_s[lane.run, 1] = lane.end_s
    clock.slowdown = slowdown


@compiled()
def next_instant(state, arrival_s):
    """When something happens next: a segment ends or, if a lane is idle, a request arrives or a policy wakes."""
    clock = state.clock[0]
    now, idle = math.inf, False
    for k in range(state.lanes.size):
        lane = state.lanes[k]
        if lane.running:
            now = min(now, lane.end_s)
        else:
            idle = True
            now = min(now, lane.wake_s)
    if idle and clock.arrived < arrival_s.size:
        now = min(now, arrival_s[clock.arrived])
    return now


@compiled(_SIGNATURE)
def run_events(decide, requests, leaving, device, rules, state, outcome, until_s, events):
    """Replay traffic under a policy for a number of instants; the same call goes on from there.

    Parameters
    ----------
    decide : policy
        See ``policies.interface``.
    requests : Requests
        What is known of each request.
    leaving : Leaving
        Where requests leave the network.
    device : Device
        What it takes.
    rules : Rules
        The policy's parameters and limits.
    state : State
        Where the replay stands, and where it then stood.
    outcome : Outcome
        What happened; added to.
    until_s : float
        When to stop; infinity serves every request.
    events : int
        Instants to look at.

    Returns
    -------
    int
        ``OK``, or a fault of the policy.
    """
    clock, arrival_s = state.clock[0], requests.arrival_s
    count, places = arrival_s.size, device.segment_at.size
    for _ in range(events):
        if clock.returned == count:
            break
        now = next_instant(state, arrival_s)
        if now == math.inf:
            return NO_PROGRESS  # requests wait on an idle device, and the policy lets them
        if now > until_s:
            clock.now_s = until_s
            break
        clock.now_s = now
        for k in range(state.lanes.size):
            if state.lanes[k].running and state.lanes[k].end_s <= now:
                end_segment(k, requests, leaving, device, state, outcome)
        while clock.arrived < count and arrival_s[clock.arrived] <= now:
            state.queue[clock.tail] = clock.arrived
            clock.tail += 1
            clock.arrived += 1
        if now >= until_s:
            break
        for k in range(state.lanes.size):
            lane = state.lanes[k]
            if lane.running:
                continue
            if lane.left > 0:
                start_segment(k, device, state, outcome, 0.0)
                continue
            lane.wake_s = math.inf
            waiting, depth = clock.tail - clock.head, lane.depth
            if waiting == 0 and depth == 0:
                continue
            head_s = head_due_s = deadline_s = math.inf
            if waiting > 0:
                head_s, head_due_s = arrival_s[state.queue[clock.head]], requests.due_s[state.queue[clock.head]]
            size = batch_places = stage = segment = 0
            if depth > 0:
                clock.calls += 1
                top = state.batches[k, depth - 1]
                deadline_s, size, batch_places = top.due_s, lane.size, top.places
                stage, segment = top.stage, top.segment
            view = View(
                now, k, rules.b_max, places, waiting, head_s, head_due_s, depth, lane.in_flight, lane.admitted, deadline_s,
                size, batch_places, stage, segment, state.queue[clock.head : clock.tail], state.members[k, : lane.in_flight],
                requests, device.latency_s, state.lanes, leaving.thresholds, rules.memory, rules.settings,
            )  # fmt: skip
            answer = decide(view)
            if answer.admit < 0 or answer.skip < 0 or answer.admit + answer.skip > waiting:
                return OVERFULL
            if answer.admit + lane.in_flight > rules.b_max:
                return OVERFULL
            if answer.admit == 0 and depth == 0:
                if not answer.wake_s > now:
                    return NO_PROGRESS
                lane.wake_s = answer.wake_s
                continue
            if answer.run < 1:
                return NO_PROGRESS
            if not (0 <= answer.variant < device.time_s.shape[0] and 0.0 <= answer.delay_s < math.inf):
                return NO_SUCH_TABLE
            if answer.admit > 0:
                enter(k, answer.admit, answer.skip, answer.variant, requests, state, outcome)
            top = state.batches[k, lane.depth - 1]
            top.compact = answer.compact
            if answer.compact and top.places > lane.size:
                top.places = lane.size
                lane.wait_s += device.gather_s[lane.size]
            lane.left = answer.run
            clock.overhead_s += answer.delay_s
            start_segment(k, device, state, outcome, answer.delay_s + (rules.call_s if depth > 0 else 0.0))
        if state.lanes.size > 1:
            slow_each_other(device, state, outcome)
    return OK
