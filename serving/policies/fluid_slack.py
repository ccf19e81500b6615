"""FluidB with slack: launch and backfill sizes that save the most requests; late ones wait, with a bound."""

import math

from ...jit import compiled
from .interface import RUNNING, WAITING, Parameter, Policy, at_least, choice, compile_policy

PATIENCE, LAUNCH, BACKFILL, AHEAD, LATE = 0, 1, 2, 3, 4  # places in settings


@compiled()
def outlook(view, latency, due_s, admit, hopeful, more):
    """How many requests would be in time if ``admit`` entered now, and when all would be served.

    Nobody exits early.  Behind those on the NPU, the waiting are served in
    batches, each as large as the deadline of its first allows, and those whose
    turn comes too late are left out; ``more`` without a deadline follow them.
    ``hopeful`` of those that enter are not late yet.
    """
    end = latency.shape[1] - 1
    time_s = view.now_s + latency[0, view.stage, admit] + latency[view.stage, end, view.in_flight + admit]
    in_time = 0
    for k in range(view.in_flight):
        in_time += due_s[RUNNING, k] >= time_s
    for k in range(hopeful):
        in_time += due_s[WAITING, k] >= time_s
    first, known = hopeful, min(view.waiting - view.late, view.b_max)
    while first < known + more:
        batch = min(known + more - first, view.b_max)
        if first < known:
            if time_s + latency[0, end, 1] > due_s[WAITING, first]:
                first += 1
                continue
            while time_s + latency[0, end, batch] > due_s[WAITING, first]:
                batch -= 1
        time_s += latency[0, end, batch]
        for k in range(first, min(first + batch, known)):
            in_time += due_s[WAITING, k] >= time_s
        first += batch
    return in_time, time_s


@compile_policy
def decide(view, latency, settings, due_s):
    """Of all sizes of a launch or a backfill take the one after which most are in time; of these, the earliest done.

    Requests that could not be in time even alone let the others pass; they are
    launched one by one when nobody else waits.  So that they do not starve, and
    neither does a preempted batch, there are turns: when the last was longer
    ago than the patience, which shrinks once more than B_max are late, nobody
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
    slo_s = view.head_due_s - view.head_arrival_s
    patience_s = settings[PATIENCE] * slo_s * min(1.0, view.b_max / max(view.late, 1))
    if view.waiting > 0 and view.now_s >= view.turn_s + patience_s:
        if view.depth > 0:
            return 0, 1, math.inf
        if view.late > 0:
            return -min(view.waiting, view.b_max), 1, math.inf
    unpassed = view.late if settings[LATE] == 1 else 0
    most = min(view.waiting - view.late + unpassed, view.b_max - view.in_flight)
    if view.depth == 0 and most == 0:
        return 1, 1, math.inf
    best, saved, done_s = most, -1, math.inf
    if settings[LAUNCH if view.depth == 0 else BACKFILL] == 0:
        more = view.b_max if settings[AHEAD] == 0 else 0
        for admit in range(0 if view.depth > 0 else 1, most + 1):
            in_time, time_s = outlook(view, latency, due_s, admit, max(0, admit - unpassed), more)
            if in_time > saved or (in_time == saved and time_s < done_s):
                best, saved, done_s = admit, in_time, time_s
    return best if unpassed == 0 else -best, view.stage if best > 0 and view.depth > 0 else 1, math.inf


POLICY = Policy(
    decide,
    (
        Parameter("patience", "6", at_least("patience", 1.0)),
        Parameter("launch", "planned", choice("launch", "planned", "full")),
        Parameter("backfill", "planned", choice("backfill", "planned", "full")),
        Parameter("ahead", "on", choice("ahead", "on", "off")),
        Parameter("late", "last", choice("late", "last", "first")),
    ),
    overtaking=True,
)
