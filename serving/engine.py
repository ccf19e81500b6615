"""The event loop, compiled: requests, a stack of sub-batches on one NPU, a policy.

Order of events at one instant: segments end, then requests arrive, then the
policy decides.  A sample that exits returns at the end of its stage, whatever
the rest of its batch does.

Waiting requests are those from ``head`` to ``tail`` and, before them by
arrival, those in ``late``: under a policy that lets requests overtake, the
oldest step aside once they could not meet their deadline even alone.
"""

import math

import numpy as np
from numba import njit, types

from .policies.interface import DECIDE, RUNNING, WAITING, View

OK, OVERFULL, NO_PROGRESS = 0, 1, 2
FAULTS = {
    OVERFULL: "admitted more requests than wait or than fit beside those on the NPU, or a negative number",
    NO_PROGRESS: "neither ran, nor admitted, nor named a time to be asked again",
}

PREEMPTS, MERGES = 1, 2
"""Flags of a recorded run: it began by preempting the batch below; it ended by merging with it."""

_f, _i = types.float64[::1], types.int64[::1]
_RESULT = types.UniTuple(types.int64, 3)
_SIGNATURE = _RESULT(
    types.FunctionType(DECIDE), _f, types.boolean, types.float64, types.int64, types.float64,
    _f, _i, _f, types.float64[:, :, ::1], types.float64[:, ::1], _i,
    _f, _f, _f, _i, types.int64[:, ::1], types.float64[:, ::1], types.int64[:, ::1], _i,
)  # fmt: skip


@njit(_SIGNATURE, cache=True, nogil=True)
def replay(
    decide, settings, overtaking, call_s, b_max, until_s, arrival_s, exit_of, deadline_s, latency, segment_s,
    stage_after, start_s, finish_s, stalled_s, preempted, launches, run_s, runs, members_of,
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
    arrival_s : (N,) float64
        Arrivals, not decreasing.
    exit_of : (N,) int64
        1-based exit of each request.
    deadline_s : (N,) float64
        Arrival plus SLO.
    latency : (E + 1, E + 1, B + 1) float64
        Times between exits, for the policy.
    segment_s : (S, B + 1) float64
        Time of each segment by batch size.
    stage_after : (S,) int64
        Stages completed once a segment is.
    start_s, finish_s, stalled_s : (N,) float64
        Output: entry into the NPU, return, and time stood still while preempted.
    preempted : (N,) int64
        Output: how often each request was preempted.
    launches : (S, B + 1) int64
        Output: how often each segment ran with each batch size.
    run_s, runs : (M, 2) float64, (M, 4) int64
        Output, if M > 0: begin and end, and segment, batch size, level and flags of every run.
    members_of : (W,) int64
        Output, if M > 0: the requests of every run, one after the other.

    Returns
    -------
    status : int
        ``OK``, or a fault of the policy.
    preemptions, calls : int
        Preemptions of a running batch; times the policy was asked with samples on the NPU.
    """
    count = arrival_s.size
    members = np.empty((b_max + 1, b_max), dtype=np.int64)  # requests of each sub-batch, bottom first
    size = np.zeros(b_max + 1, dtype=np.int64)
    began_with = np.zeros(b_max + 1, dtype=np.int64)
    place = np.zeros(b_max + 1, dtype=np.int64)  # segments it has completed
    paused_s = np.zeros(b_max + 1)
    late = np.empty(count if overtaking else 0, dtype=np.int64)
    due_s = np.full((2, b_max), math.inf)
    alone_s = latency[0, latency.shape[1] - 1, 1]
    depth = in_flight = admitted = head = tail = finished = preemptions = calls = run = member = 0
    late_head = late_tail = 0
    now = turn_s = 0.0
    while finished < count and now < until_s:
        while tail < count and arrival_s[tail] <= now:
            tail += 1
        while overtaking and head < tail and deadline_s[head] < now + alone_s:
            late[late_tail] = head
            late_tail += 1
            head += 1
        aside = late_tail - late_head
        waiting = tail - head + aside
        if depth == 0 and waiting == 0:
            now = arrival_s[tail]
            continue
        due = math.inf
        for level in range(depth):
            for m in range(size[level]):
                due = min(due, deadline_s[members[level, m]])
        if overtaking:
            n = 0
            for level in range(depth):
                for m in range(size[level]):
                    due_s[RUNNING, n] = deadline_s[members[level, m]]
                    n += 1
            for m in range(min(tail - head, b_max)):
                due_s[WAITING, m] = deadline_s[head + m]
        oldest_s = oldest_due_s = math.inf
        if waiting > 0:
            oldest = late[late_head] if aside > 0 else head
            oldest_s, oldest_due_s = arrival_s[oldest], deadline_s[oldest]
        top = depth - 1
        samples = stage = segment = 0  # of the top sub-batch
        if depth > 0:
            calls += 1
            samples, segment = size[top], place[top]
            stage = stage_after[segment - 1] if segment > 0 else 0
        view = View(
            now, b_max, waiting, aside, oldest_s, oldest_due_s, turn_s,
            depth, in_flight, admitted, due, samples, stage, segment,
        )  # fmt: skip
        admit, segments, wake_s = decide(view, latency, settings, due_s)

        by_arrival = admit < 0
        admit = abs(admit)
        if admit > waiting or admit + in_flight > b_max or (by_arrival and not overtaking):
            return OVERFULL, preemptions, calls
        flags = 0
        if admit > 0:
            if depth == 0 and (by_arrival or aside == 0):
                turn_s = now
            if depth > 0:
                flags = PREEMPTS
                preemptions += 1
                paused_s[top] = now
                for m in range(size[top]):
                    preempted[members[top, m]] += 1
            top, depth = depth, depth + 1
            size[top], began_with[top], place[top] = admit, admit, 0
            first_late = 0 if by_arrival else tail - head
            for m in range(admit):
                if m >= first_late and late_head < late_tail:
                    request = late[late_head]
                    late_head += 1
                else:
                    request = head
                    head += 1
                members[top, m] = request
                start_s[request] = now
            in_flight += admit
            admitted += admit
        elif depth == 0:
            nearest = arrival_s[tail] if tail < count else math.inf
            now = min(max(wake_s, now), nearest)
            if now == math.inf or (now == view.now_s and nearest > now):
                return NO_PROGRESS, preemptions, calls
            continue
        if segments < 1:
            return NO_PROGRESS, preemptions, calls
        if view.depth > 0:
            now += call_s

        for _ in range(segments):
            s, b = place[top], size[top]
            began = now
            now += segment_s[s, b]
            launches[s, b] += 1
            place[top] = s + 1
            if run < runs.shape[0]:
                run_s[run, 0], run_s[run, 1] = began, now
                runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3] = s, b, top, flags
                for m in range(b):
                    members_of[member + m] = members[top, m]
                member += b
            flags = 0
            run += 1
            stage = stage_after[s]
            if stage > (stage_after[s - 1] if s > 0 else 0):
                kept = 0
                for m in range(b):
                    request = members[top, m]
                    if exit_of[request] == stage:
                        finish_s[request] = now
                        finished += 1
                    else:
                        members[top, kept] = request
                        kept += 1
                in_flight -= b - kept
                size[top] = kept
            emptied = size[top] == 0
            merged = not emptied and depth > 1 and place[top - 1] == place[top]
            if not emptied and not merged:
                continue
            depth -= 1
            if emptied:
                admitted -= began_with[top]
            else:
                began_with[top - 1] += began_with[top]
                if run <= runs.shape[0]:
                    runs[run - 1, 3] += MERGES
            if depth > 0:  # the sub-batch below goes on
                top -= 1
                for m in range(size[top]):
                    stalled_s[members[top, m]] += now - paused_s[top]
                if merged:
                    for m in range(size[top + 1]):
                        members[top, size[top] + m] = members[top + 1, m]
                    size[top] += size[top + 1]
            break
    return OK, preemptions, calls
