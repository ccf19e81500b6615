"""Terms of a service beyond a queue: clients that wait for answers, deadlines, admission; compiled.

A client sends its next request when it has thought about its last answer, so that no request has a time of arrival
beforehand: they are numbered in the order in which they are sent.  All requests come from one source, or each network
has its own: its clients, or arrivals.  At its deadline a request gives up: one that waits is dropped;
one that runs returns with the answer of the last exit that it passed, or is dropped, and leaves its batch when the
segment ends.  A request that is not admitted is refused when it arrives; its client asks again, but not at once.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..jit import compiled
from ..platforms.host import Host
from .admission import Admission
from .heaps import pop, push
from .host import (
    HOSTING,
    Hosting,
    handed_out_s,
    hosting_of,
    is_on_host,
    next_ready,
    promised_s,
    send_to_host,
    take_prepared,
)
from .in_time import expected_return_s
from .policies.interface import record_type, zeros
from .turns import append, choose_queue, joined_queue, least_alone_s, oldest_of, remove, rivals, takes, waiting_for

SERVE, DROP, ANSWER = range(3)
ON_DEADLINE = ("serve", "drop", "answer")
"""What happens to a request at its deadline, by number."""

DUE, RULE, TOGETHER = range(3)  # places in counts
LIMIT, RATE, BURST, NEWEST, BATCH, TOKENS, SINCE = range(7)  # places in admission
NUMBERS = 7  # of each network there

SOURCE = record_type(
    [
        ("next", "i8"),  # place of its next request in ``order``
        ("end", "i8"),  # where its requests end
        ("clients_at", "i8"),  # where its heap of clients begins
        ("clients", "i8"),  # how many it has; 0 of arrivals
        ("thinking", "i8"),  # entries of the heap
        ("active", "i8"),  # clients that have not sent their last request
        ("stop_s", "f8"),  # clients send no request later
    ]
)
"""Where requests come from, which are sent or arrive in their order."""


class Sending(NamedTuple):
    """How requests are sent."""

    think_s: NDArray[np.float64] | None  # as in Terms; None where all arrive by themselves
    clients: Sequence[int]  # of each source; of arrivals 0
    source: NDArray[np.int64]  # (N,): the source of each request
    stop_s: Sequence[float] = (math.inf,)  # when clients of each source stop to send


class Terms(NamedTuple):
    """State of clients, deadlines and admission."""

    counts: NDArray[np.int64]  # (3,): entries of the heap of deadlines; what happens there; if a batch answers together
    sources: Any  # a record array of SOURCE: one, or one for each network
    order: NDArray[np.int64]  # (N,): the requests, source by source
    clients: NDArray[np.int64]  # heaps of the clients that think, by the place of their think time, source by source
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
    refused: NDArray[np.bool_]  # (N,): the requests that were not; empty where all are admitted
    # (N,): the first of those that come together with each, and are admitted with it or not at all; empty where each
    # comes by itself
    first: NDArray[np.int64]
    hosting: Hosting


_f1, _i1 = types.float64[::1], types.int64[::1]
TERMS = types.NamedTuple(
    (
        _i1, types.Array(from_dtype(SOURCE), 1, "C"), _i1, _i1, _f1, _f1, _i1, _f1, _i1, _f1, _f1,
        types.boolean[::1], _i1, HOSTING,
    ),
    Terms,
)  # fmt: skip


@compiled(inline="always")
def next_of(source, terms):
    """The next request of a source that has one."""
    return terms.order[source.next]


@compiled(inline="always")
def first_source(terms, requests):
    """The number of the source whose next request arrives first, of equal ones the first; -1 if none has one."""
    best, least_s = -1, math.inf
    for number in range(terms.sources.size):
        source = terms.sources[number]
        if source.next < source.end:
            arrival_s = requests.arrival_s[next_of(source, terms)]
            if best < 0 or arrival_s < least_s:
                best, least_s = number, arrival_s
    return best


@compiled(lean=True)
def next_arrival(terms, requests):
    """When the next request arrives, or comes from the host, as far as is known."""
    number, ready_s = first_source(terms, requests), next_ready(terms, requests)
    return ready_s if number < 0 else min(ready_s, requests.arrival_s[next_of(terms.sources[number], terms)])


@compiled(lean=True)
def source_of(request, terms, state):
    """The source of a request that has arrived."""
    return terms.sources[0 if terms.sources.size == 1 else joined_queue(request, state).network]


@compiled(lean=True)
def announce(source, terms, requests):
    """Let the next request of clients arrive when the first of them that thinks has done so."""
    if source.next < source.end:
        next_s = math.inf
        if source.thinking > 0:
            next_s = terms.think_s[terms.clients[source.clients_at]]
        requests.arrival_s[next_of(source, terms)] = next_s


@compiled(lean=True)
def retire(source, state):
    """Let a client send no more; without any, the other requests of its source are never sent."""
    source.active -= 1
    if source.active == 0:
        state.clock[0].returned += source.end - source.next


@compiled(lean=True)
def tell(request, now_s, least_s, terms, state, requests):
    """Let the client of a request know that it has its answer, or will get none; it thinks, at least for a time."""
    if terms.think_s.size == 0:
        return
    source = source_of(request, terms, state)
    if source.clients > 0:
        place = terms.think_s.size - requests.arrival_s.size + request
        terms.think_s[place] = now_s + max(terms.think_s[place], least_s)
        if terms.think_s[place] > source.stop_s:
            retire(source, state)
            return
        push(terms.clients[source.clients_at :], source.thinking, terms.think_s, place)
        source.thinking += 1
        announce(source, terms, requests)


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
    """A request leaves without an answer, and of those that came together with it the ones that wait.

    Its client does not ask again before a sample alone could be done: without a think time it would ask for ever.
    """
    number = joined_queue(request, state).network
    terms.left_s[request] = now_s
    state.clock[0].returned += 1
    tell(request, now_s, least_alone_s(number, networks, state), terms, state, requests)
    if terms.first.size == 0:
        return
    other = terms.first[request]
    while other < state.clock[0].arrived and terms.first[other] == terms.first[request]:
        if requests.start_s[other] == math.inf and terms.left_s[other] == math.inf:
            remove(other, state)
            terms.left_s[other] = now_s
            terms.refused[other] = terms.refused[request]
            terms.admission[NUMBERS * number + TOKENS] += 1.0
            state.clock[0].returned += 1
        other += 1


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
def expect(request, terms, requests):
    """Let a request have its deadline before it."""
    if terms.counts[RULE] != SERVE:
        push(terms.deadlines, terms.counts[DUE], requests.due_s, request)
        terms.counts[DUE] += 1


@compiled(lean=True)
def join(request, terms, networks, state, requests):
    """Put a request into a queue, or refuse it; not if it gave up on the host."""
    if terms.left_s[request] < math.inf:
        return
    now_s = requests.arrival_s[request]
    choose_queue(request, now_s, networks, state)
    if terms.first.size > 0 and terms.left_s[terms.first[request]] == now_s:
        terms.refused[request] = terms.refused[terms.first[request]]
        turn_away(request, now_s, terms, networks, state, requests)
        return
    if not lets_in(request, now_s, terms, networks, state, requests):
        terms.refused[request] = True
        turn_away(request, now_s, terms, networks, state, requests)
        return
    if terms.hosting.sent_s.size == 0:
        expect(request, terms, requests)
    append(request, state)


@compiled(inline="always")
def arrive(source, terms, networks, state, requests):
    """Let the next request of a source come: to the host, or to its queue."""
    request = next_of(source, terms)
    state.clock[0].arrived += 1
    source.next += 1
    if source.clients > 0:
        pop(terms.clients[source.clients_at :], source.thinking, terms.think_s)
        source.thinking -= 1
        requests.due_s[request] = requests.arrival_s[request] + terms.slo_s[request]
        announce(source, terms, requests)
    if terms.hosting.sent_s.size == 0:
        join(request, terms, networks, state, requests)
    else:
        send_to_host(request, joined_queue(request, state).network, terms, requests)
        expect(request, terms, requests)


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
def pass_time(until_s, whole, terms, networks, state, work):
    """Deadlines, inputs that are prepared, and arrivals before a time, or also at it if ``whole``, in order.

    Of equal times they come in this order.
    """
    requests = work.requests
    while True:
        number, arrival_s = first_source(terms, requests), math.inf
        if number >= 0:
            arrival_s = requests.arrival_s[next_of(terms.sources[number], terms)]
        due_s, ready_s = next_deadline(terms, requests), next_ready(terms, requests)
        first_s = min(arrival_s, due_s, ready_s)
        if first_s == math.inf or first_s > until_s or (first_s == until_s and not whole):
            return
        if due_s == first_s:
            give_up(terms, state, work)
        elif ready_s == first_s:
            join(take_prepared(terms, requests), terms, networks, state, requests)
        else:
            arrive(terms.sources[number], terms, networks, state, requests)


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


@compiled(lean=True)
def note_members(lane, terms, state):
    """Keep the samples of a lane's top batch; some of them may exit."""
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
            out_s = handed_out_s(now_s, lane.network, terms)
            requests.finish_s[request] = terms.left_s[request] = out_s
            tell(request, out_s, 0.0, terms, state, requests)


def _sources_of(requests: Any, sending: Sending) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Sources, their requests, and their clients, who begin to think; ``requests`` learn of the first of each."""
    clients = np.array(sending.clients)
    order = np.argsort(sending.source, kind="stable")
    numbers = np.bincount(sending.source, minlength=len(clients))
    sources: Any = zeros(len(clients), SOURCE)
    sources.end, sources.stop_s = np.cumsum(numbers), sending.stop_s
    sources.next, sources.clients, sources.clients_at = sources.end - numbers, clients, np.cumsum(clients) - clients
    heaps = np.zeros(int(clients.sum()), dtype=np.int64)
    for source in sources[clients > 0]:
        assert sending.think_s is not None
        first_s = sending.think_s[source.clients_at :][: source.clients]
        heap = heaps[source.clients_at :][: source.clients]
        heap[:] = source.clients_at + np.argsort(first_s, kind="stable")  # what is sorted is a heap
        requests.arrival_s[order[source.next]] = first_s.min()
    sources.thinking = sources.active = clients
    return sources, order, heaps


def terms_of(
    requests: Any, slo_s: NDArray[np.float64], sending: Sending, rule: int, admission: Sequence[Admission],
    shape: tuple[int, int], *, together: bool = False, hosts: Sequence[Host | None] = (),
) -> Terms:  # fmt: skip
    """Clients that begin to think, and requests that have not been sent; ``requests`` learn of the first.

    ``admission`` has the rule of each network; it is empty if all requests are admitted.  ``shape`` is the number of
    lanes, and of samples on each at most; ``hosts`` has the host of each network.
    """
    lanes, b_max = shape
    count = len(slo_s)
    sources, order, heaps = _sources_of(requests, sending)
    return Terms(
        np.array([0, rule, together]), sources, order, heaps,
        np.zeros(0) if sending.think_s is None else sending.think_s.copy(), np.require(slo_s, float, ["C", "W"]),
        np.zeros(count if rule else 0, dtype=np.int64), np.full(count, math.inf), np.zeros(b_max, dtype=np.int64),
        np.zeros(lanes),
        np.array([number for rule in admission for number in (*rule, rule.burst, 0.0)]),
        np.zeros(count if admission else 0, dtype=np.bool_), np.zeros(0, dtype=np.int64),
        hosting_of(hosts, count),
    )  # fmt: skip
