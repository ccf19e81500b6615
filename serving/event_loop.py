"""The event loop, compiled: time, requests, batches on the lanes of a device, and what they cost.

The order of the queue, admission, preemption, compaction, the lane and the variant are a policy's decisions
(``policies.interface``).

Order of events at one instant: segments end, then requests arrive, then the policy is asked, lane by lane.  A sample
that exits returns at the end of its stage, whatever the rest of its batch does.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..jit import compiled, refer
from .policies.estimates import narrowest
from .policies.interface import BATCH, DECIDE, LANE, LANES, LATENCY, REQUESTS, VARIANTS, Data, LaneView
from .terms import TERMS, next_deadline, note_members, pass_time, sweep, tell_returned
from .turns import (
    MEMORY,
    NETWORKS,
    SETTINGS,
    TIMES,
    ask_all,
    charge,
    moving_at,
    of_core,
    of_queue,
    part,
    queue_of,
    times_of,
    turn_to,
    whose_turn,
)

OK, OVERFULL, NO_PROGRESS, NO_SUCH_TABLE, TOO_NARROW = range(5)
FAULTS = {
    OVERFULL: "admitted more requests than wait or than fit beside those on the lane, or a negative number",
    NO_PROGRESS: "neither ran, nor admitted, nor named a later time to be asked again",
    NO_SUCH_TABLE: "named a variant that the latency table does not have, or a negative delay",
    TOO_NARROW: "named a variant that is too narrow for a request that it admits",
}

LONGEST_S = 1e300
"""Most that a decision may delay a run."""

ROUNDS, CLOSE = 100, 1e-12
"""Rounds at most in which cores find how much longer they move words, and a change after which they stop."""

PREEMPTS, MERGES = 1, 2
"""Flags of a recorded run: it began by preempting the batch below; it ended by merging with it."""

CLOCK = np.dtype(
    [
        ("now_s", "f8"),
        ("arrived", "i8"),  # requests
        ("head", "i8"),  # where the queue begins in its array
        ("tail", "i8"),  # and ends
        ("returned", "i8"),  # requests
        ("batches", "i8"),  # that have entered
        ("preemptions", "i8"),
        ("calls", "i8"),  # of the policy, with samples on the lane
        ("runs", "i8"),  # segments run
        ("run_members", "i8"),  # samples in them
        ("overhead_s", "f8"),  # lanes' time in gathers, delays and slowdowns
    ],
    align=True,
)
"""Time and counts of the loop."""


class DeviceArrays(NamedTuple):
    """Times that a device takes for a network."""

    time_s: NDArray[np.float64]  # (V, S, B + 1): time of each distinct segment by variant and batch size
    latency_s: NDArray[np.float64]  # (V, E + 1, E + 1, B + 1): times between exits, for the policy
    # (P,): which of the distinct segments runs at each place from input to end; one that repeats has several places
    segment_at: NDArray[np.int64]
    stage_after: NDArray[np.int64]  # (P,): stages completed once the segment at a place is
    # (P + 1, B + 1): time to gather the samples that stay in a batch, by the stages that it has completed and by
    # their number
    gather_s: NDArray[np.float64]
    # (B + 1,): share of the device that a segment takes, by batch size.  Segments that run side by side all take
    # longer by the sum of their shares, if that is above 1; one that runs alone does not.
    load: NDArray[np.float64]
    variants: NDArray[np.void]  # (V,): properties of each variant, for the policy
    wake_up_s: float = 0.0  # time until a batch begins on a lane that was idle
    # (V * S * (B + 1),): of cores that share a memory, the share of each of ``time_s`` in which words move; else empty
    moving: NDArray[np.float64] = np.zeros(0)
    contention: float = -1.0  # share of a core's transfers that waits for another's at that time; below 0: no cores


class RequestArrays(NamedTuple):
    """Requests, and where they leave the network."""

    requests: Any  # (N,) arrays: what is known of each on arrival, and what happens to it
    # (N,): 1-based exit that was decided beforehand; where thresholds decide, the last one until a request leaves
    exit_of: NDArray[np.int64]
    confidences: NDArray[np.float64]  # confidence at each exit but the last, if the policy sets the thresholds


class Rules(NamedTuple):
    """Parameters and memory of a policy."""

    settings: NDArray[np.float64]  # (K,): its parameters
    memory: NDArray[np.float64]  # (M,): what it keeps from call to call
    # the first of these numbers, if it sets the exits' thresholds: those of each variant, one after the other
    thresholds: NDArray[np.float64]
    b_max: int  # most samples on a lane at once
    call_s: float  # time of each call with samples on the lane


class State(NamedTuple):
    """State of a replay between two instants."""

    clock: NDArray[np.void]  # (1,): time and counts
    lanes: NDArray[np.void]  # (L,): each lane, and the batch on top of its stack
    batches: NDArray[np.void]  # (L * b_max,): those below, lane after lane, each bottom first
    members: NDArray[np.int64]  # (L * b_max,): requests on them likewise, bottom batch first
    queue: NDArray[np.int64]  # (N,): requests that wait, from ``clock.head`` to ``clock.tail``


class Record(NamedTuple):
    """Number of runs of each segment and, if there is room, every run."""

    launches: NDArray[np.int64]  # (V, S, B + 1): how often each segment ran at each batch size
    run_s: NDArray[np.float64]  # (M, 2): begin and end of every run
    runs: NDArray[np.int64]  # (M, 5): its segment, samples, level on the stack, flags and lane
    members: NDArray[np.int64]  # (W,): the requests of every run, one run after the other


def begin(requests: int, lanes: int, b_max: int) -> State:
    """An idle device at time 0."""
    state = State(
        np.zeros(1, CLOCK).view(np.recarray),
        np.zeros(lanes, LANE).view(np.recarray),
        np.zeros(lanes * b_max, BATCH).view(np.recarray),
        np.zeros(lanes * b_max, dtype=np.int64),
        np.zeros(requests, dtype=np.int64),
    )
    state.lanes["wake_s"] = math.inf
    state.lanes["end_s"] = -math.inf
    state.lanes["offset"] = b_max * np.arange(lanes)
    state.lanes["network"] = -1
    return state


_f, _i = types.float64, types.int64
_f1, _i1, _f2, _i2 = types.float64[::1], types.int64[::1], types.float64[:, ::1], types.int64[:, ::1]
_f3, _i3 = types.float64[:, :, ::1], types.int64[:, :, ::1]
_TYPES = (
    types.FunctionType(DECIDE),
    types.NamedTuple((REQUESTS, _i1, _f2), RequestArrays),
    types.NamedTuple((_f3, LATENCY, _i1, _i1, _f2, _f1, VARIANTS, _f, _f1, _f), DeviceArrays),
    types.NamedTuple((_f1, _f1, _f1, _i, _f), Rules),
    types.NamedTuple(
        (types.Array(from_dtype(CLOCK), 1, "C"), LANES, types.Array(from_dtype(BATCH), 1, "C"), _i1, _i1), State
    ),
    types.NamedTuple((_i3, _f2, _i2, _i1), Record),
    _f,
    _i,
)
PLAIN = types.int64(*_TYPES, types.none, types.none)
WITH_TERMS = types.int64(*_TYPES, TERMS, types.none)
WITH_NETWORKS = types.int64(*_TYPES, TERMS, NETWORKS)
"""numba signatures of the loop: without more, with terms, and with several networks on them."""


@compiled(inline="always")
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


@compiled(inline="always")
def enter(admit, skip, variant, clock, lane, batches, members, queue, requests):
    """Put waiting requests on top of a lane's stack, as a new batch that preempts the one that ran."""
    due_s = math.inf
    if lane.depth > 0:
        due_s = lane.due_s
        below = batches[lane.offset + lane.depth - 1]
        below.first, below.began_with, below.places = lane.first, lane.began_with, lane.places
        below.segment, below.stage, below.variant = lane.segment, lane.stage, lane.variant
        below.compact, below.due_s, below.paused_s = lane.compact, lane.due_s, clock.now_s
        for m in range(lane.first, lane.in_flight):
            requests.preempted[members[lane.offset + m]] += 1
        clock.preemptions += 1
        lane.marks = PREEMPTS
    lane.first, lane.began_with, lane.places = lane.in_flight, admit, admit
    lane.segment, lane.stage, lane.variant = 0, 0, variant
    clock.batches += 1
    for m in range(admit):
        request = queue[clock.head + skip + m]
        members[lane.offset + lane.in_flight + m] = request
        requests.start_s[request] = clock.now_s
        if variant > 0:
            requests.variant[request] = variant
        requests.batch[request] = clock.batches
        due_s = min(due_s, requests.due_s[request])
    lane.due_s = due_s
    take_from_queue(queue, clock, skip, admit)
    lane.depth += 1
    lane.in_flight += admit
    lane.admitted += admit
    lane.samples = admit


@compiled(inline="always")
def leave(clock, lane, batches, members, requests, exit_of, confidences, thresholds):
    """Return the samples of a lane's top batch that exit at the stage it has just completed; how many did."""
    stage = lane.stage
    decided_now = stage <= confidences.shape[1]
    least = math.inf
    if decided_now:
        least = thresholds[lane.variant * confidences.shape[1] + stage - 1]
    kept, due_s = lane.first, math.inf
    if lane.depth > 1:
        due_s = batches[lane.offset + lane.depth - 2].due_s
    for m in range(lane.first, lane.in_flight):
        request = members[lane.offset + m]
        if decided_now and confidences[request, stage - 1] >= least:
            exit_of[request] = stage
        if exit_of[request] == stage:
            requests.finish_s[request] = clock.now_s
        else:
            members[lane.offset + kept] = request
            due_s = min(due_s, requests.due_s[request])
            kept += 1
    exited = lane.in_flight - kept
    clock.returned += exited
    lane.in_flight = kept
    lane.samples = kept - lane.first
    lane.due_s = due_s
    return exited


@compiled(inline="always")
def compact(lane, gather_s):
    """Give up the places of samples that have exited from a lane's top batch, if there are any."""
    if lane.places > lane.samples:
        lane.places = lane.samples
        lane.wait_s += gather_s[lane.stage, lane.samples]


@compiled(inline="always")
def meets_below(lane, batches, variants):
    """True if a lane's top batch has reached the batch below it, with which it then merges; widths may differ."""
    if lane.depth < 2 or lane.samples == 0:
        return False
    below = batches[lane.offset + lane.depth - 2]
    if below.segment != lane.segment:
        return False
    if lane.variant == below.variant:
        return True
    one, other = variants[lane.variant], variants[below.variant]
    return one.subnet == other.subnet and one.state == other.state


@compiled(inline="always")
def give_way(merges, clock, lane, batches, members, requests):
    """Take the top batch from a lane's stack: all its samples exited, or it merges with the batch below."""
    lane.left = 0  # the policy is asked
    lane.depth -= 1
    if not merges:
        lane.admitted -= lane.began_with
    if lane.depth == 0:
        lane.stage = 0
        return
    below = batches[lane.offset + lane.depth - 1]
    for m in range(below.first, lane.first):
        requests.stalled_s[members[lane.offset + m]] += clock.now_s - below.paused_s
    if merges:
        lane.began_with += below.began_with
        lane.places += below.places
        lane.variant = min(below.variant, lane.variant)  # the wider of the two: widths come widest first
    else:
        lane.began_with, lane.places, lane.variant = below.began_with, below.places, below.variant
        lane.segment, lane.stage, lane.due_s = below.segment, below.stage, below.due_s
    lane.first, lane.compact = below.first, below.compact
    lane.samples = lane.in_flight - lane.first


@compiled(inline="always")
def share_memory(lanes, contention, running):
    """Find how much longer each running lane moves words, beside others that move theirs (docs/metrics.md, Cores).

    The factors fall from above to a fixed point, so that no round lets the memory move more words than it can.
    """
    for k in range(lanes.size):
        lanes[k].stretch = 1.0 + contention * (running - 1)
    for _ in range(ROUNDS):
        moving = change = 0.0
        for k in range(lanes.size):
            if lanes[k].running:
                moving += moving_share(lanes[k])
        for k in range(lanes.size):
            lane = lanes[k]
            if lane.running:
                before = lane.stretch
                lane.stretch = 1.0 + contention * max(0.0, moving - moving_share(lane))
                change = max(change, before - lane.stretch)
        if change < CLOSE:
            break


@compiled(inline="always")
def moving_share(lane):
    """Share of its time in which a core moves words, once that takes longer."""
    moved = lane.load * lane.stretch
    return moved / (1.0 - lane.load + moved)


@compiled(inline="always")
def slow_each_other(clock, lanes, contention, run_s, networks):
    """Stretch or shorten what is left of the running segments when batches start or end beside each other."""
    running, share = 0, 0.0
    for k in range(lanes.size):
        if lanes[k].running:
            running += 1
            share += lanes[k].load
    slowdown = max(1.0, share) if running > 1 else 1.0
    if contention >= 0.0:
        share_memory(lanes, contention, running)
    for k in range(lanes.size):
        lane = lanes[k]
        if lane.running:
            if contention >= 0.0:
                slowdown = 1.0 + lane.load * (lane.stretch - 1.0)
            # the time of a segment that starts now is that of a batch alone; the others' has the earlier slowdown in it
            longer_s = (lane.end_s - max(clock.now_s, lane.begin_s)) * (slowdown / lane.slowdown - 1.0)
            lane.slowdown = slowdown
            lane.end_s += longer_s
            if networks is not None:
                turn_to(queue_of(lane.network, k, networks), refer(networks), clock)
            clock.overhead_s += longer_s
            if lane.run < run_s.shape[0]:
                run_s[lane.run, 1] = lane.end_s


def _run_events(decide, work, device, rules, state, record, until_s, events, terms, networks):
    """Replay traffic under a policy for a number of instants, or until a time; the same call goes on from there.

    ``device`` and ``rules`` are read, ``work`` and ``state`` are where the replay stands, and runs are added to
    ``record``.  ``terms`` are those of clients that wait, of deadlines and of admission, or ``None``.  If there are
    several ``networks``, ``device`` and ``rules`` are those of the first, and all have terms.
    Returns ``OK``, or a fault of the policy.
    """
    # each array has a name of its own here: to fetch one from a tuple costs a locked count of references
    requests, exit_of, confidences = work
    known, on_terms, several = refer(requests), refer(terms), refer(networks)  # a call would copy every field
    time_s, latency_s, segment_at, stage_after, gather_s, load, variants, wake_up_s, moving, contention = device
    settings, memory, thresholds, b_max, call_s = rules
    clocks, lanes, batches, members, queue = state
    launches, run_s, runs, run_members = record
    data = refer(Data(requests, queue, members, lanes, latency_s, gather_s, variants, settings, memory))
    times_s, counts, segments, sizes = time_s.reshape(-1), launches.reshape(-1), time_s.shape[1], time_s.shape[2]
    clock, count = clocks[0], requests.arrival_s.size
    stages = stage_after[stage_after.size - 1]
    steps = stages - latency_s.shape[1] + 2  # of the last stage: it has one entry among the times
    asked = 1  # networks that may be asked about a lane
    if networks is not None:
        asked = several.records.size
    for _ in range(events):
        if clock.returned == count:
            break
        # the next instant: a segment ends or, if a lane is idle, a request arrives or a policy wakes
        now, next_s = math.inf, math.inf
        if clock.arrived < count:
            next_s = requests.arrival_s[clock.arrived]
        if terms is not None:
            next_s = min(next_s, next_deadline(on_terms, known))
        for k in range(lanes.size):
            now = min(now, lanes[k].end_s if lanes[k].running else min(lanes[k].wake_s, next_s))
        if now == math.inf:
            return NO_PROGRESS  # requests wait on an idle device, and the policy lets them
        clock.now_s = min(now, until_s)
        if terms is not None:
            pass_time(clock.now_s, False, on_terms, several, clock, lanes, batches, members, queue, known, exit_of)
        if now > until_s:
            break

        for k in range(lanes.size):
            lane = lanes[k]
            if not lane.running or lane.end_s > now:
                continue
            lane.running, lane.wait_s = 0, 0.0
            if networks is not None:
                b_max = several.records[lane.network].b_max
                _, _, _, stage_after, gather_s, _, variants = times_of(lane.network, k, several)
                turn_to(queue_of(lane.network, k, several), several, clock)
            reached = stage_after[lane.segment]
            lane.segment += 1
            exited = noted = 0
            if terms is not None:
                exited = sweep(False, on_terms, clock, lane, members, known)
                noted = note_members(on_terms, lane, members)
            if reached > lane.stage:
                lane.stage = reached
                exited += leave(clock, lane, batches, members, requests, exit_of, confidences, thresholds)
                if terms is not None:
                    tell_returned(noted, on_terms, clock, lane, known)
            merges = meets_below(lane, batches, variants)
            # where the run ends, the policy is asked about this batch, unless it merges
            if exited > 0 and lane.samples > 0 and lane.compact and (lane.left > 0 or merges):
                compact(lane, gather_s)
            if merges or lane.samples == 0:
                give_way(merges, clock, lane, batches, members, requests)
                if merges and lane.places > b_max:  # no device runs a larger batch, so that the two are gathered
                    compact(lane, gather_s)
            if merges and lane.run < runs.shape[0]:
                runs[lane.run, 3] += MERGES

        if terms is None:
            while clock.arrived < count and requests.arrival_s[clock.arrived] <= now:
                queue[clock.tail] = clock.arrived
                clock.tail += 1
                clock.arrived += 1
        else:
            pass_time(now, now < until_s, on_terms, several, clock, lanes, batches, members, queue, known, exit_of)
            for k in range(lanes.size):
                lane = lanes[k]
                while not lane.running and lane.depth > 0:
                    gone = sweep(now < until_s, on_terms, clock, lane, members, known)
                    if gone > 0 and lane.samples > 0 and lane.compact and lane.left > 0:
                        if networks is not None:
                            _, _, _, _, gather_s, _, _ = times_of(lane.network, k, several)
                        compact(lane, gather_s)
                    if lane.samples > 0:
                        break
                    give_way(False, clock, lane, batches, members, requests)
        if now >= until_s:
            break

        for ask in range(lanes.size * asked):
            k = ask // asked
            lane = lanes[k]
            if lane.running:
                continue
            delay_s, theirs = 0.0, False
            if lane.left == 0 and ask % asked == 0:
                lane.wake_s = math.inf
            if networks is not None:
                if ask % asked == 0:
                    ask_all(several)
                mine = lane.network
                if lane.left == 0:
                    first = whose_turn(k, several, clock, queue, known)
                    theirs = lane.depth > 0 and first != mine
                    if lane.depth == 0:
                        mine = first
                if mine < 0:
                    continue
                its = several.records[mine]
                its.asked = 1
                turn_to(queue_of(mine, k, several), several, clock)
                times_s, latency_s, segment_at, stage_after, gather_s, load, variants = times_of(mine, k, several)
                counts = of_core(launches.reshape(-1), TIMES, mine, k, several)
                segments, sizes = its.segments, its.sizes
                settings, memory = (
                    part(several.settings, SETTINGS, mine, several),
                    of_queue(several.memory, MEMORY, mine, k, several),
                )
                b_max, call_s, wake_up_s, stages = (
                    its.b_max,
                    its.call_s,
                    its.wake_up_s,
                    stage_after[stage_after.size - 1],
                )
                steps = stages - latency_s.shape[1] + 2
            if lane.left == 0:
                if networks is not None:
                    data = refer(Data(requests, queue, members, lanes, latency_s, gather_s, variants, settings, memory))
                waiting, depth = 0 if theirs else clock.tail - clock.head, lane.depth
                if waiting == 0 and depth == 0:
                    continue
                head_s = head_due_s = deadline_s = math.inf
                if waiting > 0:
                    head = queue[clock.head]
                    head_s, head_due_s = requests.arrival_s[head], requests.due_s[head]
                samples = places = stage = segment = variant = 0
                if depth > 0:
                    clock.calls += 1
                    delay_s = call_s
                    deadline_s, samples, places = lane.due_s, lane.samples, lane.places
                    stage, segment, variant = lane.stage, lane.segment, lane.variant
                view = LaneView(
                    now, k, b_max, segment_at.size, stages, steps, variants.size, waiting, head_s, head_due_s, depth,
                    lane.in_flight, lane.admitted, deadline_s, samples, places, stage, segment, variant, clock.head,
                    lane.offset,
                )  # fmt: skip
                answer = decide(refer(view), data)
                if not (0 <= answer.admit <= b_max - lane.in_flight and 0 <= answer.skip <= waiting - answer.admit):
                    return OVERFULL  # compared without a sum, which may overflow
                if answer.admit == 0 and depth == 0:
                    if not answer.wake_s > now:
                        return NO_PROGRESS
                    lane.wake_s = min(lane.wake_s, answer.wake_s)
                    continue
                if answer.run < 1:
                    return NO_PROGRESS
                if not (0 <= answer.variant < variants.size and 0.0 <= answer.delay_s <= LONGEST_S):
                    return NO_SUCH_TABLE
                if depth > 0 and answer.compact:
                    compact(lane, gather_s)
                if answer.admit > 0:
                    variant = answer.variant
                    if variants.size > 1:
                        widest = 0.0
                        for m in range(clock.head + answer.skip, clock.head + answer.skip + answer.admit):
                            widest = max(widest, requests.width[queue[m]])
                        if widest > variants[variant].width:
                            return TOO_NARROW
                        variant = narrowest(variants, variant, widest)
                    enter(answer.admit, answer.skip, variant, clock, lane, batches, members, queue, requests)
                lane.compact = answer.compact
                lane.left = answer.run
                lane.wait_s += answer.delay_s
                if depth == 0 and lane.end_s < now:  # nothing has ended on it just now
                    lane.wait_s += wake_up_s
                if networks is not None:
                    if 0 <= lane.network != mine:
                        lane.wait_s += its.switch_s
                    lane.network = mine

            # the next segment of the lane's top batch
            segment = segment_at[lane.segment]
            place = (lane.variant * segments + segment) * sizes + lane.places  # of this run among times and counts
            begin_s = now + delay_s + lane.wait_s
            clock.overhead_s += lane.wait_s
            lane.begin_s, lane.end_s = begin_s, begin_s + times_s[place]
            counts[place] += 1
            lane.running, lane.slowdown, lane.load = 1, 1.0, load[lane.places]
            if contention >= 0.0:
                if networks is None:
                    lane.load = moving[place]
                else:
                    lane.load = moving_at(place, lane.network, k, several)
            if networks is not None:
                charge(lane.network, lane.end_s - now, several)
            lane.left -= 1
            if clock.runs < runs.shape[0]:
                lane.run = clock.runs
                run_s[lane.run, 0], run_s[lane.run, 1] = lane.begin_s, lane.end_s
                runs[lane.run, 0], runs[lane.run, 1], runs[lane.run, 2] = segment, lane.samples, lane.depth - 1
                runs[lane.run, 3], runs[lane.run, 4] = lane.marks, k
                for m in range(lane.samples):
                    run_members[clock.run_members + m] = members[lane.offset + lane.first + m]
                lane.marks = 0
                clock.run_members += lane.samples
                clock.runs += 1
        if lanes.size > 1:
            slow_each_other(clock, lanes, contention, run_s, networks)
    return OK


run_events = compiled(PLAIN, lean=True)(_run_events)
run_on_terms = compiled(lean=True)(_run_events)
run_networks = compiled(lean=True)(_run_events)
"""The same loop three times: compiled without terms there is no trace of them; with them, and with several networks on
them, it is when it is first needed."""
