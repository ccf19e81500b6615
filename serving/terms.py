"""Terms of a service beyond those of a queue: clients that wait for answers, deadlines, admission; compiled.

A client sends its next request when it has thought about its last answer, so that no request has a time of arrival
beforehand: requests are numbered when they are sent.  At its deadline a request gives up: one that waits is dropped;
one that runs returns with the answer of the last exit that it passed, or is dropped, and leaves its batch when the
segment ends.  A request that is not admitted is refused when it arrives; its client asks again, but not at once.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..jit import compiled
from .admission import Admission
from .in_time import expected_return_s
from .turns import append, choose_queue, joined_queue, least_alone_s, oldest_of, remove, rivals, takes, waiting_for

SERVE, DROP, ANSWER = range(3)
ON_DEADLINE = ("serve", "drop", "answer")
"""What happens to a request at its deadline, by number."""

SENDING, DUE, RULE, TOGETHER = range(4)  # places in counts
LIMIT, RATE, BURST, NEWEST, BATCH, TOKENS, SINCE = range(7)  # places in admission
NUMBERS = 7  # of each network there


class Terms(NamedTuple):
    """State of clients, deadlines and admission."""

    counts: NDArray[np.int64]  # (4,): entries of the two heaps; what happens at a deadline; if a batch answers together
    clients: NDArray[np.int64]  # a heap of the clients that think, by the place of their think time
    # (C + N,): think time before the first request of each client, and after each request; where it thinks, when it
    # ends.  Empty where requests arrive by themselves.
    think_s: NDArray[np.float64]
    slo_s: NDArray[np.float64]  # (N,)
    deadlines: NDArray[np.int64]  # a heap of requests by their due times; those that left leave it late
    left_s: NDArray[np.float64]  # (N,): when each left the queue or the device for good; infinite until then
    # for the loop's own use
    asked: NDArray[np.int64]  # (b_max,)
    free_s: NDArray[np.float64]  # (L,)
    # (NUMBERS * K,): the rule of each network, the tokens that the bucket held, and when it was looked at; empty where
    # all are admitted
    admission: NDArray[np.float64]
    refused: NDArray[np.bool_]  # (N,): those that were not; empty likewise


_f1, _i1 = types.float64[::1], types.int64[::1]
TERMS = types.NamedTuple((_i1, _i1, _f1, _f1, _i1, _f1, _i1, _f1, _f1, types.boolean[::1]), Terms)


@compiled(lean=True)
def push(heap, size, keys, number):
    """Add a number to a heap that is ordered by keys, then numbers."""
    k = size
    while k > 0:
        up = (k - 1) // 2
        above = heap[up]
        if keys[above] < keys[number] or (keys[above] == keys[number] and above < number):
            break
        heap[k] = above
        k = up
    heap[k] = number


@compiled(lean=True)
def pop(heap, size, keys):
    """Take the first number from a heap."""
    first, number, k = heap[0], heap[size - 1], 0
    while 2 * k + 1 < size - 1:
        low = 2 * k + 1
        if low + 1 < size - 1:
            one, other = heap[low], heap[low + 1]
            if keys[other] < keys[one] or (keys[other] == keys[one] and other < one):
                low += 1
        below = heap[low]
        if keys[number] < keys[below] or (keys[number] == keys[below] and number < below):
            break
        heap[k] = below
        k = low
    heap[k] = number
    return first


@compiled(lean=True)
def announce(terms, state, requests):
    """Let the next request arrive when the first of the clients that think has done so."""
    arrived = state.clock[0].arrived
    if terms.think_s.size > 0 and arrived < requests.arrival_s.size:
        next_s = math.inf
        if terms.counts[SENDING] > 0:
            next_s = terms.think_s[terms.clients[0]]
        requests.arrival_s[arrived] = next_s


@compiled(lean=True)
def tell(request, now_s, least_s, terms, state, requests):
    """Let the client of a request know that it has its answer, or will get none; it thinks, at least for a time."""
    if terms.think_s.size > 0:
        place = terms.think_s.size - requests.arrival_s.size + request
        terms.think_s[place] = now_s + max(terms.think_s[place], least_s)
        push(terms.clients, terms.counts[SENDING], terms.think_s, place)
        terms.counts[SENDING] += 1
        announce(terms, state, requests)


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
def turn_away(request, now_s, terms, networks, state, requests):
    """A request leaves without an answer.

    Its client does not ask again before a sample alone could be done: without a think time it would ask for ever.
    """
    terms.left_s[request] = now_s
    state.clock[0].returned += 1
    number = joined_queue(request, state).network
    tell(request, now_s, least_alone_s(number, networks, state), terms, state, requests)


@compiled(lean=True)
def is_full(number, limit, request, networks, state):
    """Whether as many requests of a network wait as may, and no lane is idle for one that arrives."""
    idle = 0
    for k in range(state.lanes.size):
        lane = state.lanes[k]
        if lane.depth == 0 and takes(lane, k, request, networks, state):
            idle += 1
    return waiting_for(number, networks, state) >= limit and rivals(request, networks, state) >= idle


@compiled(lean=True)
def lets_in(request, now_s, terms, networks, state, requests):
    """Whether a request that arrives now may wait; it then takes a token, or the place of the oldest that waits."""
    if terms.admission.size == 0:
        return True
    rule, number = terms.admission, joined_queue(request, state).network
    first = NUMBERS * number
    held = rule[first + TOKENS] + rule[first + RATE] * (now_s - rule[first + SINCE])
    rule[first + TOKENS] = min(rule[first + BURST], held)
    rule[first + SINCE] = now_s
    if rule[first + TOKENS] < 1.0:
        return False
    batch = int(rule[first + BATCH])
    if batch > 0 and expected_return_s(request, batch, now_s, terms.free_s, networks, state) > requests.due_s[request]:
        return False
    while is_full(number, rule[first + LIMIT], request, networks, state):
        if rule[first + NEWEST] == 0.0:
            return False
        oldest = oldest_of(number, networks, state)
        remove(oldest, state)
        turn_away(oldest, now_s, terms, networks, state, requests)
    rule[first + TOKENS] -= 1.0
    return True


@compiled(lean=True)
def arrive(terms, networks, state, requests):
    """Put the next request into a queue, or refuse it."""
    clock = state.clock[0]
    request = clock.arrived
    if state.joined.size > 0:
        choose_queue(request, requests.arrival_s[request], networks, state)
    clock.arrived += 1
    if terms.think_s.size > 0:
        pop(terms.clients, terms.counts[SENDING], terms.think_s)
        terms.counts[SENDING] -= 1
        requests.due_s[request] = requests.arrival_s[request] + terms.slo_s[request]
        announce(terms, state, requests)
    now_s = requests.arrival_s[request]
    if not lets_in(request, now_s, terms, networks, state, requests):
        terms.refused[request] = True
        turn_away(request, now_s, terms, networks, state, requests)
        return
    if terms.counts[RULE] != SERVE:
        push(terms.deadlines, terms.counts[DUE], requests.due_s, request)
        terms.counts[DUE] += 1
    append(request, state)


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
    due_s = requests.due_s[request]
    if requests.start_s[request] == math.inf:
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
def pass_time(until_s, whole, terms, networks, state, work):
    """Arrivals and deadlines before a time, or also at it if ``whole``, in order; of equal ones deadlines first."""
    clock, requests = state.clock[0], work.requests
    while True:
        arrival_s = math.inf
        if clock.arrived < requests.arrival_s.size:
            arrival_s = requests.arrival_s[clock.arrived]
        due_s = next_deadline(terms, requests)
        first_s = min(arrival_s, due_s)
        if first_s == math.inf or first_s > until_s or (first_s == until_s and not whole):
            return
        if due_s <= arrival_s:
            give_up(terms, state, work)
        else:
            arrive(terms, networks, state, requests)


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
            terms.left_s[request] = clock.now_s
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


@compiled(lean=True)
def note_members(lane, terms, state):
    """Keep the samples of a lane's top batch, some of which may exit."""
    for m in range(lane.first, lane.in_flight):
        terms.asked[m] = state.members[lane.offset + m]
    return lane.in_flight


@compiled(lean=True)
def tell_returned(end, lane, terms, state, requests):
    """Let the clients know of those samples of a lane's top batch that have just exited."""
    now_s = state.clock[0].now_s
    for m in range(lane.first, end):
        request = terms.asked[m]
        if requests.finish_s[request] < math.inf:
            terms.left_s[request] = now_s
            tell(request, now_s, 0.0, terms, state, requests)


def terms_of(
    requests: Any, slo_s: NDArray[np.float64], think_s: NDArray[np.float64] | None, rule: int,
    admission: Sequence[Admission], shape: tuple[int, int], *, together: bool = False,
) -> Terms:  # fmt: skip
    """Clients that begin to think, and requests that have not been sent; ``requests`` learn of the first.

    ``admission`` has the rule of each network; it is empty if all requests are admitted.  ``shape`` is the number of
    lanes, and of samples on each at most.
    """
    lanes, b_max = shape
    count = len(slo_s)
    times = np.zeros(0) if think_s is None else think_s.copy()
    clients = len(times) - count if len(times) else 0
    heap = np.zeros(clients, dtype=np.int64)
    heap[:] = np.argsort(times[:clients], kind="stable")  # what is sorted is a heap
    if clients:
        requests.arrival_s[0] = times[heap[0]]
    return Terms(
        np.array([clients, 0, rule, together]), heap, times, np.require(slo_s, float, ["C", "W"]),
        np.zeros(count if rule else 0, dtype=np.int64), np.full(count, math.inf), np.zeros(b_max, dtype=np.int64),
        np.zeros(lanes),
        np.array([number for rule in admission for number in (*rule, rule.burst, 0.0)]),
        np.zeros(count if admission else 0, dtype=np.bool_),
    )  # fmt: skip
