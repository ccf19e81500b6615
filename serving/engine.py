"""The event loop, compiled: requests, a stack of sub-batches on one NPU, a policy.

Order of events at one instant: segments end, then requests arrive, then the
policy decides.  A sample that exits returns at the end of its stage, whatever
the rest of its batch does.

Waiting requests are those from ``head`` to ``tail`` and, before them by
arrival, those in ``late``: under a policy that lets requests overtake, the
oldest step aside once they could not meet their deadline even alone.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from ..jit import compiled
from .policies.interface import DECIDE, RUNNING, WAITING, View

OK, OVERFULL, NO_PROGRESS = 0, 1, 2
FAULTS = {
    OVERFULL: "admitted more requests than wait or than fit beside those on the NPU, or a negative number",
    NO_PROGRESS: "neither ran, nor admitted, nor named a time to be asked again",
}

PREEMPTS, MERGES = 1, 2
"""Flags of a recorded run: it began by preempting the batch below; it ended by merging with it."""

COUNTERS = DEPTH, FIRST, IN_FLIGHT, BEGAN_WITH, ADMITTED, PLACE, HEAD, TAIL, LATE_HEAD, LATE_TAIL, FINISHED = range(11)
PREEMPTIONS, CALLS, RUNS, MEMBERS = range(11, 15)
"""Places in ``State.counters``."""

NOW, TURN, DUE = range(3)
"""Places in ``State.clock_s``."""


class State(NamedTuple):
    """Where a replay stands.

    The sub-batches lie one after the other, bottom first; the top one reaches from ``FIRST`` to ``IN_FLIGHT``,
    so that to merge with the one below is to forget where it began.

    Attributes
    ----------
    counters : (15,) ndarray of int64
        Sub-batches on the NPU; first sample of the top one, samples of all; with how many the top one and all
        began, and segments it has completed; the first request that waits, the first that has not arrived, the
        first and last + 1 of ``late``; requests that returned, preemptions, calls of the policy with samples on
        the NPU, runs and their members.
    clock_s : (3,) ndarray of float64
        Time, when requests last entered an idle NPU strictly by arrival, the earliest deadline on the NPU.
    members : (b_max,) ndarray of int64
        Requests on the NPU.
    due_s : (2, b_max) ndarray of float64
        Deadlines, as the policy gets them.
    below : (3, b_max) ndarray of int64
        First sample of each sub-batch but the top one, with how many it began, segments it has completed.
    below_s : (2, b_max) ndarray of float64
        Since when it stands still; the earliest deadline in it and those below.
    late : (N,) or (0,) ndarray of int64
        Requests that stepped aside, in order.
    """

    counters: NDArray[np.int64]
    clock_s: NDArray[np.float64]
    members: NDArray[np.int64]
    due_s: NDArray[np.float64]
    below: NDArray[np.int64]
    below_s: NDArray[np.float64]
    late: NDArray[np.int64]


def begin(b_max: int, late: NDArray[np.int64]) -> State:
    """An idle NPU at time 0; ``late`` has room for every request of a policy that lets requests overtake."""
    return State(
        np.zeros(len(COUNTERS) + 4, dtype=np.int64),
        np.array([0.0, 0.0, math.inf]),
        np.zeros(b_max, dtype=np.int64),
        np.full((2, b_max), math.inf),
        np.zeros((3, b_max), dtype=np.int64),
        np.zeros((2, b_max)),
        late,
    )


_f, _i = types.float64[::1], types.int64[::1]
_f2, _i2 = types.float64[:, ::1], types.int64[:, ::1]
_objectives = types.Array(types.float64, 1, "A", readonly=True)  # one value for all may stand for N
_SIGNATURE = types.int64(
    types.FunctionType(DECIDE), _f, types.boolean, types.float64, types.int64, types.float64, types.int64,
    types.NamedTuple((_i, _f, _i, _f2, _i2, _f2, _i), State),
    _f, _i, _objectives, types.float64[:, :, ::1], _f2, _i, _f, _f, _f, types.int32[::1], _i2, _f2, _i2, _i,
)  # fmt: skip


def _borrowed(array: Any) -> Any:
    """The same array without a count of its references, which a call would lock and raise in vain."""
    return array


@intrinsic
def _uncounted(_: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        struct.meminfo = cgutils.get_null_value(struct.meminfo.type)
        return struct._getvalue()  # noqa: SLF001 -- as numba's own do

    return array(array), generate


@overload(_borrowed)
def _borrowed_compiled(array):  # noqa: ARG001 -- numba reads the names
    return lambda array: _uncounted(array)  # type: ignore[call-arg]  # noqa: PLW0108


def at(index: Any) -> Any:
    """An index that is known not to be negative, so that compiled code need not look whether it counts from the end."""
    return index


@overload(at)
def _at_compiled(index):  # noqa: ARG001
    return lambda index: np.uint64(index)  # noqa: PLW0108


@compiled(_SIGNATURE)
def replay(
    decide, settings, overtaking, call_s, b_max, until_s, stop, state,
    arrival_s, exit_of, slo_s, latency, segment_s, stage_after,
    start_s, finish_s, stalled_s, preempted, launches, run_s, runs, members_of,
):  # fmt: skip
    """Replay a trace under a policy.

    Parameters
    ----------
    decide : policy
        See ``policies.interface``.
    settings : (K,) float64
        Its parameters.
    overtaking : bool
        Whether it lets requests overtake those that are late.
    call_s : float
        Time of each call of the policy with samples on the NPU.
    b_max : int
        Most samples on the NPU at once.
    until_s : float
        When to stop; infinity serves every request.
    stop : int
        Pause once so many requests have returned, at most N; the same call with a larger one goes on.
    state : State
        Where the replay stands, and where it then stood.
    arrival_s : (N,) float64
        Arrivals, not decreasing.
    exit_of : (N,) int64
        1-based exit of each request.
    slo_s : (N,) float64
        Latency objective of each.
    latency : (E + 1, E + 1, B + 1) float64
        Times between exits, for the policy.
    segment_s : (S, B + 1) float64
        Time of each segment by batch size.
    stage_after : (S,) int64
        Stages completed once a segment is.
    start_s, finish_s : (N,) float64
        Output: entry into the NPU, and return; not touched for requests that do not come so far.
    stalled_s, preempted : (N,) float64, (N,) int32
        Output, added to: time stood still while preempted, and how often each was preempted.
    launches : (S, B + 1) int64
        Output: how often each segment ran with each batch size.
    run_s, runs : (M, 2) float64, (M, 4) int64
        Output, if M > 0: begin and end, and segment, batch size, level and flags of every run.
    members_of : (W,) int64
        Output, if M > 0: the requests of every run, one after the other.

    Returns
    -------
    int
        ``OK``, or a fault of the policy.
    """
    counters, clock_s, members, due_s, below, below_s, late = state
    depth, first, in_flight = counters[DEPTH], counters[FIRST], counters[IN_FLIGHT]
    began_with, admitted, place = counters[BEGAN_WITH], counters[ADMITTED], counters[PLACE]
    head, tail, late_head, late_tail = counters[HEAD], counters[TAIL], counters[LATE_HEAD], counters[LATE_TAIL]
    finished, preemptions, calls = counters[FINISHED], counters[PREEMPTIONS], counters[CALLS]
    run, member = counters[RUNS], counters[MEMBERS]
    now, turn_s, due = clock_s[NOW], clock_s[TURN], clock_s[DUE]
    running_s, waiting_s = due_s[RUNNING], due_s[WAITING]
    first_below, began_below, place_below = below[0], below[1], below[2]
    paused_s, due_below = below_s[0], below_s[1]
    table, parameters, deadlines = _borrowed(latency), _borrowed(settings), _borrowed(due_s)
    count, sizes = arrival_s.size, segment_s.shape[1]
    times_s, launched = segment_s.reshape(-1), launches.reshape(-1)
    alone_s = latency[0, latency.shape[1] - 1, 1]
    stage = stage_after[place - 1] if place > 0 else 0
    next_s = arrival_s[tail] if tail < count else math.inf
    status = OK
    while finished < stop and now < until_s:
        while next_s <= now:
            tail += 1
            next_s = arrival_s[at(tail)] if tail < count else math.inf
        while overtaking and head < tail and arrival_s[at(head)] + slo_s[at(head)] < now + alone_s:
            late[at(late_tail)] = head
            late_tail += 1
            head += 1
        aside = late_tail - late_head
        waiting = tail - head + aside
        oldest_s = oldest_due_s = math.inf
        if waiting > 0:
            oldest = late[at(late_head)] if aside > 0 else head
            oldest_s = arrival_s[at(oldest)]
            oldest_due_s = oldest_s + slo_s[at(oldest)]
        elif depth == 0:
            now = next_s
            continue
        if overtaking:
            for m in range(min(tail - head, b_max)):
                waiting_s[at(m)] = arrival_s[at(head + m)] + slo_s[at(head + m)]
        if depth > 0:
            calls += 1
        view = View(
            now, b_max, waiting, aside, oldest_s, oldest_due_s, turn_s,
            depth, in_flight, admitted, due, in_flight - first, stage, place,
        )  # fmt: skip
        admit, segments, wake_s = decide(view, table, parameters, deadlines)

        by_arrival = admit < 0
        admit = abs(admit)
        if admit > waiting or admit + in_flight > b_max or (by_arrival and not overtaking):
            status = OVERFULL
            break
        flags = 0
        if admit > 0:
            if depth > 0:
                flags = PREEMPTS
                preemptions += 1
                for m in range(first, in_flight):
                    preempted[members[at(m)]] += 1
                first_below[at(depth - 1)], began_below[at(depth - 1)], place_below[at(depth - 1)] = (
                    first,
                    began_with,
                    place,
                )
                paused_s[at(depth - 1)], due_below[at(depth - 1)] = now, due
            elif by_arrival or aside == 0:
                turn_s = now
            depth += 1
            first, began_with, place, stage = in_flight, admit, 0, 0
            in_flight += admit
            admitted += admit
            punctual = 0 if by_arrival else tail - head
            for m in range(admit):
                if m >= punctual and late_head < late_tail:
                    request = late[at(late_head)]
                    late_head += 1
                else:
                    request = head
                    head += 1
                request_due_s = arrival_s[at(request)] + slo_s[at(request)]
                members[at(first + m)], running_s[at(first + m)] = request, request_due_s
                due = min(due, request_due_s)
                start_s[at(request)] = now
        elif depth == 0:
            now = min(max(wake_s, now), next_s)
            if now == math.inf or (now == view.now_s and next_s > now):
                status = NO_PROGRESS
                break
            continue
        if segments < 1:
            status = NO_PROGRESS
            break
        if view.depth > 0:
            now += call_s

        for _ in range(segments):
            b = in_flight - first
            began = now
            now += times_s[at(place * sizes + b)]
            launched[at(place * sizes + b)] += 1
            if run < runs.shape[0]:
                run_s[run, 0], run_s[run, 1] = began, now
                runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3] = place, b, depth - 1, flags
                for m in range(b):
                    members_of[member + m] = members[at(first + m)]
                member += b
            flags = 0
            run += 1
            reached = stage_after[at(place)]
            place += 1
            if reached > stage:
                stage = reached
                kept = first
                due = due_below[at(depth - 2)] if depth > 1 else math.inf
                for m in range(first, in_flight):
                    request = members[at(m)]
                    if exit_of[at(request)] == stage:
                        finish_s[at(request)] = now
                    else:
                        members[at(kept)], running_s[at(kept)] = request, running_s[at(m)]
                        due = min(due, running_s[at(m)])
                        kept += 1
                finished += in_flight - kept
                in_flight = kept
            emptied = in_flight == first
            merged = depth > 1 and place_below[at(depth - 2)] == place and not emptied
            if not emptied and not merged:
                continue
            depth -= 1
            if emptied:
                admitted -= began_with
                began_with = 0
            elif run <= runs.shape[0]:
                runs[run - 1, 3] += MERGES
            if depth > 0:  # the sub-batch below goes on
                stood_s = now - paused_s[at(depth - 1)]
                for m in range(first_below[at(depth - 1)], first):
                    stalled_s[members[at(m)]] += stood_s
                first, place = first_below[at(depth - 1)], place_below[at(depth - 1)]
                began_with += began_below[at(depth - 1)]
                stage = stage_after[at(place - 1)]
            else:
                place = stage = 0
            break
    counters[DEPTH], counters[FIRST], counters[IN_FLIGHT] = depth, first, in_flight
    counters[BEGAN_WITH], counters[ADMITTED], counters[PLACE] = began_with, admitted, place
    counters[HEAD], counters[TAIL], counters[LATE_HEAD], counters[LATE_TAIL] = head, tail, late_head, late_tail
    counters[FINISHED], counters[PREEMPTIONS], counters[CALLS] = finished, preemptions, calls
    counters[RUNS], counters[MEMBERS] = run, member
    clock_s[NOW], clock_s[TURN], clock_s[DUE] = now, turn_s, due
    return status
