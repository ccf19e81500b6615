"""FluidB with slack: a launch may be smaller if more requests are then in time, and requests in time enter first."""

import math

from ...jit import compiled
from .estimates import between_s
from .fluid import overhead_s
from .interface import Decision, Parameter, Policy, at_least, choice, compile_policy, go_on, launch

PATIENCE, LAUNCH = 0, 1  # places in settings
LATE, TURN_S = 0, 1  # places in memory
HORIZON = 2  # full batches that a plan covers


@compiled(inline="always")
def whole_s(view, latency_s, size):
    """Time of a batch from the input to the end, at the largest width and with all steps."""
    return between_s(latency_s, 0, 0, view.stages, size)


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
    missing = count_missing(view, data, late, end_s)
    others = size - min(view.waiting - missing, size)
    data.memory[LATE] = late - min(late, others)
    # those that enter must stand side by side: the oldest move up to the first that will be in time
    if 0 < others < missing:
        oldest = data.queue[view.first : view.first + others].copy()
        for k in range(others, missing):
            data.queue[view.first + k - others] = data.queue[view.first + k]
        data.queue[view.first + missing - others : view.first + missing] = oldest
    if view.depth == 0 and others in (missing, size):
        data.memory[TURN_S] = view.now_s
    return Decision(size, missing - others, run, math.inf, True, 0, 0.0)


@compile_policy
def decide(view, data):
    """FluidB's launches and backfills, with two changes.

    A launch is smaller than FluidB's if more of the waiting requests are then in time, but not while B_max requests are
    late, that is, too late even if they ran alone.  Requests that will be in time enter first; late ones have the
    places left over.

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
    late = count_missing(view, data, int(data.memory[LATE]), view.now_s + whole_s(view, latency_s, 1))
    data.memory[LATE] = late
    patience_s = data.settings[PATIENCE] * (view.head_due_s - view.head_arrival_s) * min(1.0, view.b_max / max(late, 1))
    turn = view.waiting > 0 and view.now_s >= data.memory[TURN_S] + patience_s
    if view.depth > 0:
        size = min(view.waiting, view.b_max - view.size)
        if size > 0 and not turn:
            more_s = overhead_s(view, latency_s, 0, view.stages, size, False)
            if more_s < view.deadline_s - view.now_s:
                return enter(view, data, late, size, view.stage, view.now_s + more_s)
        return go_on(1)
    best = min(view.waiting, view.b_max)
    if turn and late > 0:
        data.memory[LATE], data.memory[TURN_S] = max(0, late - best), view.now_s
        return launch(best, 1)
    if data.settings[LAUNCH] == 0 and late < view.b_max:
        most = count_in_time(view, data, late, best)
        for size in range(best - 1, 0, -1):
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
    memory=2,
)
