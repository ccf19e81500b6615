"""The event loop, compiled: requests, a stack of sub-batches on one NPU, a policy.

Order of events at one instant: stages end, then requests arrive, then the
policy decides.  A sample that exits returns at the end of its stage, whatever
the rest of its batch does.
"""

import math

import numpy as np
from numba import njit, types

from .policies.interface import DECIDE, View

OK, OVERFULL, NO_PROGRESS = 0, 1, 2
FAULTS = {
    OVERFULL: "admitted more requests than wait or than fit beside those on the NPU",
    NO_PROGRESS: "neither ran, nor admitted, nor named a time to be asked again",
}

_f, _i = types.float64[::1], types.int64[::1]
_RESULT = types.Tuple((types.int64, types.int64, types.int64))
_SIGNATURE = _RESULT(types.FunctionType(DECIDE), _f, _i, _f, types.float64[:, :, ::1], _f, _f, _i, types.int64[:, ::1])


@njit(_SIGNATURE, cache=True, nogil=True)
def replay(decide, arrival_s, exit_of, deadline_s, latency, start_s, finish_s, preempted, launches):
    """Replay a trace under a policy.

    Parameters
    ----------
    decide : policy
        See ``policies.interface``.
    arrival_s : (N,) float64
        Arrivals, not decreasing.
    exit_of : (N,) int64
        1-based exit of each request.
    deadline_s : (N,) float64
        Arrival plus SLO.
    latency : (E + 1, E + 1, B_max + 1) float64
        Times between exits.
    start_s, finish_s : (N,) float64
        Output: entry into the NPU, and return.
    preempted : (N,) int64
        Output: how often each request was preempted.
    launches : (E, B_max + 1) int64
        Output: how often each stage ran with each batch size.

    Returns
    -------
    status : int
        ``OK``, or a fault of the policy.
    preemptions, calls : int
        Preemptions of a running batch; times the policy was asked with samples on the NPU.
    """
    count, b_max = arrival_s.size, latency.shape[2] - 1
    members = np.empty((b_max + 1, b_max), dtype=np.int64)  # requests of each sub-batch, bottom first
    size = np.zeros(b_max + 1, dtype=np.int64)
    stage = np.zeros(b_max + 1, dtype=np.int64)  # stages it has completed
    depth = in_flight = head = tail = finished = preemptions = calls = 0
    now = 0.0
    while finished < count:
        while tail < count and arrival_s[tail] <= now:
            tail += 1
        if depth == 0 and head == tail:
            now = arrival_s[tail]
            continue
        due = math.inf
        for level in range(depth):
            for m in range(size[level]):
                due = min(due, deadline_s[members[level, m]])
        top = depth - 1
        calls += depth > 0
        oldest = arrival_s[head] if head < tail else math.inf
        if depth > 0:
            view = View(now, b_max, tail - head, oldest, depth, in_flight, due, size[top], stage[top])
        else:
            view = View(now, b_max, tail - head, oldest, 0, 0, due, 0, 0)
        admit, stages, wake_s = decide(view, latency)

        if admit < 0 or admit > tail - head or admit + in_flight > b_max:
            return OVERFULL, preemptions, calls
        if admit > 0:
            if depth > 0:
                preemptions += 1
                for m in range(size[top]):
                    preempted[members[top, m]] += 1
            top, depth = depth, depth + 1
            size[top], stage[top] = admit, 0
            for m in range(admit):
                members[top, m] = head
                start_s[head] = now
                head += 1
            in_flight += admit
        elif depth == 0:
            nearest = arrival_s[tail] if tail < count else math.inf
            now = min(max(wake_s, now), nearest)
            if now == math.inf or (now == view.now_s and nearest > now):
                return NO_PROGRESS, preemptions, calls
            continue
        if stages < 1:
            return NO_PROGRESS, preemptions, calls

        for _ in range(stages):
            s, b = stage[top], size[top]
            now += latency[s, s + 1, b]
            launches[s, b] += 1
            stage[top] = s + 1
            kept = 0
            for m in range(b):
                request = members[top, m]
                if exit_of[request] == s + 1:
                    finish_s[request] = now
                    finished += 1
                else:
                    members[top, kept] = request
                    kept += 1
            in_flight -= b - kept
            size[top] = kept
            if kept == 0:
                depth -= 1
                break
            if depth > 1 and stage[top - 1] == stage[top]:
                for m in range(kept):
                    members[top - 1, size[top - 1] + m] = members[top, m]
                size[top - 1] += kept
                depth -= 1
                break
    return OK, preemptions, calls
