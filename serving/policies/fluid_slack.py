"""FluidB with slack: launch and backfill sizes that save the most requests; those past saving wait, with a bound."""

import math

from ...jit import compiled
from .interface import Decision, Parameter, Policy, at_least, choice, compile_policy, go_on, launch

PATIENCE, LAUNCH, BACKFILL, AHEAD, LATE = 0, 1, 2, 3, 4  # places in settings
PAST, TURN_S = 0, 1  # places in memory


@compiled(inline="always")
def count_past(view, data):
    """How many at the head of the queue could not meet their deadline even alone; they let the others pass."""
    soonest_s = view.now_s + data.latency_s[0, 0, data.latency_s.shape[2] - 1, 1]
    past = int(data.memory[PAST])  # deadlines do not come back: those counted before need no second look
    while past < view.waiting and data.requests[data.queue[view.first + past]].due_s < soonest_s:
        past += 1
    return past


@compiled(inline="always")
def outlook(view, data, past, admit, hopeful, more):
    """How many requests would be in time if ``admit`` entered now, and when all would be served.

    Nobody exits early.  Behind those on the NPU, the waiting are served in
    batches, each as large as the deadline of its first allows, and those whose
    turn comes too late are left out; ``more`` without a deadline follow them.
    ``hopeful`` of those that enter can still meet their deadline.
    """
    latency_s, requests, end = data.latency_s[0], data.requests, data.latency_s.shape[2] - 1
    time_s = view.now_s + latency_s[0, view.stage, admit] + latency_s[view.stage, end, view.in_flight + admit]
    in_time = 0
    for k in range(view.in_flight):
        in_time += requests[data.members[view.offset + k]].due_s >= time_s
    for k in range(hopeful):
        in_time += requests[data.queue[view.first + past + k]].due_s >= time_s
    first, known = hopeful, min(view.waiting - past, view.b_max)
    while first < known + more:
        batch = min(known + more - first, view.b_max)
        if first < known:
            first_due_s = requests[data.queue[view.first + past + first]].due_s
            if time_s + latency_s[0, end, 1] > first_due_s:
                first += 1
                continue
            while time_s + latency_s[0, end, batch] > first_due_s:
                batch -= 1
        time_s += latency_s[0, end, batch]
        for k in range(first, min(first + batch, known)):
            in_time += requests[data.queue[view.first + past + k]].due_s >= time_s
        first += batch
    return in_time, time_s


@compile_policy
def decide(view, data):
    """Of all sizes of a launch or a backfill take the one that leaves most in time; among equals, the one done first.

    Requests that could not be in time even alone let the others pass; they are
    launched one by one when nobody else waits.  So that they do not starve, and
    neither does a preempted batch, there are turns: when the last was longer
    ago than the patience, which shrinks once more than B_max are past saving, nobody
    backfills, and the next launch takes the B_max oldest.

    Source: our own (``docs/fluid-slack.md``, with the bound).  Work-conserving.

    ``patience``
        Longest time between turns, as a multiple of the SLO of the oldest; ``inf`` for none.

    Four more are for ablation:

    ``launch``, ``backfill``
        ``planned``; or ``full``: as many as wait and fit.
    ``ahead``
        ``on``: look ahead as if a full batch were still to come; ``off``: nobody comes.
    ``late``
        ``last``; or ``first``: the queue stays in order of arrival.
    """
    settings, memory = data.settings, data.memory
    past = count_past(view, data)
    memory[PAST] = past
    patience_s = settings[PATIENCE] * (view.head_due_s - view.head_arrival_s) * min(1.0, view.b_max / max(past, 1))
    if view.waiting > 0 and view.now_s >= memory[TURN_S] + patience_s:
        if view.depth > 0:
            return go_on(1)
        if past > 0:
            oldest = min(view.waiting, view.b_max)
            memory[PAST], memory[TURN_S] = max(0, past - oldest), view.now_s
            return launch(oldest, 1)
    by_arrival = settings[LATE] == 1 and past > 0
    most = min(view.waiting - (0 if by_arrival else past), view.b_max - view.in_flight)
    if view.depth == 0 and most == 0:
        memory[PAST] = past - 1
        return launch(1, 1)
    best, saved, done_s = most, -1, math.inf
    if settings[LAUNCH if view.depth == 0 else BACKFILL] == 0:
        more = view.b_max if settings[AHEAD] == 0 else 0
        for admit in range(0 if view.depth > 0 else 1, most + 1):
            hopeful = max(0, admit - past) if by_arrival else admit
            in_time, time_s = outlook(view, data, past, admit, hopeful, more)
            if in_time > saved or (in_time == saved and time_s < done_s):
                best, saved, done_s = admit, in_time, time_s
    if best == 0:
        return go_on(1)
    if view.depth == 0 and (by_arrival or past == 0):
        memory[TURN_S] = view.now_s
    if by_arrival:
        memory[PAST] = max(0, past - best)
    return Decision(best, 0 if by_arrival else past, view.stage if view.depth > 0 else 1, math.inf, True, 0, 0.0)


POLICY = Policy(
    decide,
    (
        Parameter("patience", "6", at_least("patience", 1.0)),
        Parameter("launch", "planned", choice("launch", "planned", "full")),
        Parameter("backfill", "planned", choice("backfill", "planned", "full")),
        Parameter("ahead", "on", choice("ahead", "on", "off")),
        Parameter("late", "last", choice("late", "last", "first")),
    ),
    memory=2,
)
