"""FluidB with slack: a launch may be smaller if more requests are then in time, and requests in time enter first."""

import math

from ...jit import compiled
from .estimates import between_s
from .fluid import overhead_s
from .interface import Decision, Policy, compile_policy, go_on, launch
from .parameters import Parameter, at_least, choice

PATIENCE, LAUNCH = 0, 1  # places in settings
LATE, TURN_S, ENTERED, STAYED = range(4)  # places in memory; samples that entered, and that passed all inner exits
HORIZON = 2  # full batches that a plan covers
SMALL = 8  # up to this B_max a launch may have any throughput: the debt of B_max requests is soon paid
THROUGHPUT = 0.9  # least throughput of a launch beyond, as a share of FluidB's
SHARE = 0.3  # least share of the samples that pass all exits but the last, if a plan without exits is to hold
GAIN = 1.6  # largest throughput of a full batch over the throughput of one sample


@compiled(inline="always")
def whole_s(view, latency_s, size):
    """Time of a batch from the input to the end, at the largest width and with all steps."""
    return between_s(latency_s, 0, 0, view.stages, size)


@compiled(inline="always")
def foresees(view, data):
    """Whether a plan without exits and other lanes tells enough of what will happen."""
    if view.stages > 1 and (
        data.memory[STAYED] < SHARE * data.memory[ENTERED]
        or view.b_max * whole_s(view, data.latency_s, 1) > GAIN * whole_s(view, data.latency_s, view.b_max)
    ):
        return False
    return data.lanes.size == 1


@compiled(inline="always")
def count_missing(view, data, known, end_s):
    """Number of requests at the head of the queue that are due before a time; the first ``known`` surely are."""
    missing = known
    while missing < view.waiting and data.requests.due_s[data.queue[view.first + missing]] < end_s:
        missing += 1
    return missing


@compiled(inline="always")
def count_in_time(view, data, late, size):
    """Number of waiting requests in time if ``size`` were launched now and no sample exited early.

    The others follow in batches, each as large as the due time of its first request allows; late requests are left out.
    """
    latency_s = data.latency_s
    last = min(view.waiting, late + HORIZON * view.b_max)
    end_s = view.now_s + whole_s(view, latency_s, size)
    first, in_time = count_missing(view, data, late, end_s), 0
    while True:
        after = min(first + size, last)
        for k in range(first, after):
            in_time += data.requests.due_s[data.queue[view.first + k]] >= end_s
        first = after
        while first < last and data.requests.due_s[data.queue[view.first + first]] < end_s + whole_s(
            view, latency_s, 1
        ):
            first += 1
        if first >= last:
            return in_time
        size = min(last - first, view.b_max)
        while data.requests.due_s[data.queue[view.first + first]] < end_s + whole_s(view, latency_s, size):
            size -= 1
        end_s += whole_s(view, latency_s, size)


@compiled()
def enter(view, data, late, size, run, end_s):
    """Let requests in: first those that will be in time at ``end_s``, then the oldest of the others."""
    data.memory[ENTERED] += size
    missing = count_missing(view, data, late, end_s)
    others = size - min(view.waiting - missing, size)
    data.memory[LATE] = late - min(late, others)
    # those that enter must stand side by side: the oldest move up to the first that will be in time
    if 0 < others < missing:
        oldest = data.queue[view.first : view.first + others].copy()
        for k in range(others, missing):
            data.queue[view.first + k - others] = data.queue[view.first + k]
        for k in range(others):  # one by one: an array in a slice takes four seconds to compile
            data.queue[view.first + missing - others + k] = oldest[k]
    if view.depth == 0 and others in (missing, size):
        data.memory[TURN_S] = view.now_s
    return Decision(size, missing - others, run, math.inf, True, 0, 0.0)


@compiled(inline="always")
def enter_oldest(view, data, late, size, run):
    """Let the oldest requests in."""
    data.memory[ENTERED] += size
    data.memory[LATE] = max(0, late - size)
    if view.depth == 0:
        data.memory[TURN_S] = view.now_s
    return launch(size, run)


@compile_policy
def decide(view, data):
    """FluidB's launches and backfills, with two changes.

    A launch is smaller than FluidB's if more of the waiting requests are then in time, but not while B_max requests are
    late, that is, too late even if they ran alone; and if B_max is above 8, only if its throughput is at least 0.9 of
    FluidB's.  Requests that will be in time enter first; late ones have the places left over.

    The oldest enter first, and all at once, where a plan would tell too little: on several lanes, and if a network has
    several exits and less than 0.3 of the samples passed all but the last, or a full batch has more than 1.6 times
    the throughput of one sample.

    So that late requests and preempted batches do not starve, there are turns: when the last launch in order of arrival
    was longer ago than the patience, which shrinks once more than B_max are late, no request backfills, and the next
    launch takes the B_max oldest.

    Source: our own (``docs/policies.md``, with the proofs).  Work-conserving.

    ``patience``
        Longest time between turns, as a multiple of the SLO of the oldest; ``inf`` for none.
    ``launch``
        ``planned``; or, for ablation, ``full``: always as large as FluidB's.
    """
    latency_s = data.latency_s
    known, alone_s = min(int(data.memory[LATE]), view.waiting), view.now_s + whole_s(view, latency_s, 1)
    while known > 0 and data.requests.due_s[data.queue[view.first + known - 1]] >= alone_s:
        known -= 1  # late ones before it were dropped
    late = count_missing(view, data, known, alone_s)
    data.memory[LATE] = late
    patience_s = data.settings[PATIENCE] * (view.head_due_s - view.head_arrival_s) * min(1.0, view.b_max / max(late, 1))
    ahead = foresees(view, data)
    turn = view.waiting > 0 and view.now_s >= data.memory[TURN_S] + patience_s
    if view.depth > 0:
        size = min(view.waiting, view.b_max - view.size)
        if size > 0 and not turn:
            more_s = overhead_s(view, latency_s, 0, view.stages, size, False)
            if more_s < view.deadline_s - view.now_s:
                if not ahead:
                    return enter_oldest(view, data, late, size, view.stage)
                return enter(view, data, late, size, view.stage, view.now_s + more_s)
        if view.stage == view.stages - 1:
            data.memory[STAYED] += view.size
        return go_on(1)
    best = min(view.waiting, view.b_max)
    if not ahead or (turn and late > 0):
        return enter_oldest(view, data, late, best, 1)
    if data.settings[LAUNCH] == 0 and late < view.b_max:
        most = count_in_time(view, data, late, best)
        enough = 0.0 if view.b_max <= SMALL else THROUGHPUT * best
        full_s = whole_s(view, latency_s, best)
        for size in range(best - 1, 0, -1):
            if size * full_s < enough * whole_s(view, latency_s, size):
                continue
            in_time = count_in_time(view, data, late, size)
            if in_time > most:
                best, most = size, in_time
    return enter(view, data, late, best, 1, view.now_s + whole_s(view, latency_s, best))


POLICY = Policy(
    decide,
    (
        Parameter("patience", "6", at_least("patience", 1.0)),
        Parameter("launch", "planned", choice("launch", "planned", "full")),
    ),
    memory=4,
)
