"""What happens to requests at their deadlines; compiled.

A request that waits is dropped.  One that runs returns with the answer of the last exit that it passed, or is dropped,
and leaves its batch when the segment ends.
"""

import math

from ..jit import compiled
from .heaps import pop, push
from .host import is_on_host, promised_s
from .sources import tell
from .turns import remove

SERVE, DROP, ANSWER = range(3)
ON_DEADLINE = ("serve", "drop", "answer")
"""What happens to a request at its deadline, by number."""

DUE, RULE, TOGETHER = range(3)  # places in the counts of Terms


@compiled(lean=True)
def next_deadline(terms, requests):
    """The time of the next deadline of a request that has not left."""
    if terms.counts[RULE] == SERVE:
        return math.inf
    while terms.counts[DUE] > 0:
        request = terms.deadlines[0]
        if requests.finish_s[request] == math.inf and terms.left_s[request] == math.inf:
            return requests.due_s[request]
        pop(terms.deadlines, terms.counts[DUE], requests.due_s)
        terms.counts[DUE] -= 1
    return math.inf


@compiled(lean=True)
def expect(request, terms, requests):
    """Let a request have its deadline before it."""
    if terms.counts[RULE] != SERVE:
        push(terms.deadlines, terms.counts[DUE], requests.due_s, request)
        terms.counts[DUE] += 1


@compiled(lean=True)
def stage_of(request, state):
    """The last exit that a request on a lane has passed."""
    for k in range(state.lanes.size):
        lane = state.lanes[k]
        for m in range(lane.in_flight):
            if state.members[lane.offset + m] == request:
                if m >= lane.first:
                    return lane.stage
                level = lane.depth - 2
                while state.batches[lane.offset + level].first > m:
                    level -= 1
                return state.batches[lane.offset + level].stage
    return 0


@compiled(lean=True)
def give_up(terms, state, work):
    """Take the next deadline: the request is dropped, or returns with the answer that it has."""
    requests = work.requests
    request = pop(terms.deadlines, terms.counts[DUE], requests.due_s)
    terms.counts[DUE] -= 1
    due_s = promised_s(request, terms, requests)
    if requests.start_s[request] == math.inf:
        if not is_on_host(request, terms, requests):
            remove(request, state)
        state.clock[0].returned += 1
        terms.left_s[request] = due_s
    elif terms.counts[RULE] == ANSWER:
        stage = stage_of(request, state)
        if stage > 0:
            work.exit_of[request] = min(stage, work.exit_of[request])
            requests.finish_s[request] = due_s
    tell(request, due_s, 0.0, terms, state, requests)


@compiled(lean=True)
def sweep(whole, lane, terms, state, requests):
    """Take samples that gave up before now, or also now if ``whole``, from a lane's top batch; how many there were."""
    if terms.counts[RULE] == SERVE or lane.depth == 0:
        return 0
    clock, members = state.clock[0], state.members
    kept = lane.first
    for m in range(lane.first, lane.in_flight):
        request = members[lane.offset + m]
        due_s = requests.due_s[request]
        if due_s < clock.now_s or (whole and due_s == clock.now_s):
            terms.left_s[request] = max(clock.now_s, promised_s(request, terms, requests))
        else:
            members[lane.offset + kept] = request
            kept += 1
    gone = lane.in_flight - kept
    clock.returned += gone
    lane.in_flight = kept
    lane.samples = kept - lane.first
    due_s = math.inf
    for m in range(kept):  # in batches below, some have given up too, and have no deadline any more
        request = members[lane.offset + m]
        if requests.due_s[request] > clock.now_s:
            due_s = min(due_s, requests.due_s[request])
    lane.due_s = due_s
    return gone
