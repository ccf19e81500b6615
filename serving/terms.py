"""Terms of a service beyond a queue, together: sources of requests, the host, deadlines and admission; compiled."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from ..formats.array_types import Bools, Floats, Ints
from ..jit import compiled
from ..platforms.host import Host
from .admission import Admission
from .deadlines import expect, give_up, next_deadline
from .heaps import pop
from .host import HOSTING, Hosting, handed_out_s, hosting_of, next_ready, send_to_host, take_prepared
from .joining import join
from .sources import SOURCE, Sending, announce, first_source, next_of, sources_of, tell
from .turns import joined_queue


class Terms(NamedTuple):
    """State of clients, deadlines and admission."""

    counts: Ints  # (3,): entries of the heap of deadlines; what happens there; if a batch answers together
    sources: Any  # a record array of SOURCE: one, or one for each network
    order: Ints  # (N,): the requests, source by source
    clients: Ints  # heaps of the clients that think, by the place of their think time, source by source
    # (C + N,): think time before the first request of each client, and after each request; where it thinks, when it
    # ends.  Empty where requests arrive by themselves.
    think_s: Floats
    slo_s: Floats  # (N,)
    deadlines: Ints  # a heap of requests by their due times; those that left leave it late
    left_s: Floats  # (N,): when each left the queue or the device for good; infinite until then
    # for the loop's own use
    asked: Ints  # (b_max,)
    free_s: Floats  # (L,)
    # (NUMBERS * K,), in the order of joining.py: the rule of each network, the tokens that the bucket held, and when it
    # was looked at; empty where all are admitted
    admission: Floats
    refused: Bools  # (N,): the requests that were not; empty where all are admitted
    # (N,): the first of those that come together with each, and are admitted with it or not at all; empty where each
    # comes by itself
    first: Ints
    hosting: Hosting


_f1, _i1 = types.float64[::1], types.int64[::1]
TERMS = types.NamedTuple(
    (
        _i1, types.Array(from_dtype(SOURCE), 1, "C"), _i1, _i1, _f1, _f1, _i1, _f1, _i1, _f1, _f1,
        types.boolean[::1], _i1, HOSTING,
    ),
    Terms,
)  # fmt: skip


@compiled(lean=True)
def next_arrival(terms, requests):
    """When the next request arrives, or comes from the host, as far as is known."""
    number, ready_s = first_source(terms, requests), next_ready(terms, requests)
    return ready_s if number < 0 else min(ready_s, requests.arrival_s[next_of(terms.sources[number], terms)])


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


def terms_of(
    requests: Any, slo_s: Floats, sending: Sending, rule: int, admission: Sequence[Admission],
    shape: tuple[int, int], *, together: bool = False, hosts: Sequence[Host | None] = (),
) -> Terms:  # fmt: skip
    """Clients that begin to think, and requests that have not been sent; ``requests`` learn of the first.

    ``admission`` has the rule of each network; it is empty if all requests are admitted.  ``shape`` is the number of
    lanes, and of samples on each at most; ``hosts`` has the host of each network.
    """
    lanes, b_max = shape
    count = len(slo_s)
    sources, order, heaps = sources_of(requests, sending)
    return Terms(
        np.array([0, rule, together]), sources, order, heaps,
        np.zeros(0) if sending.think_s is None else sending.think_s.copy(), np.require(slo_s, float, ["C", "W"]),
        np.zeros(count if rule else 0, dtype=np.int64), np.full(count, math.inf), np.zeros(b_max, dtype=np.int64),
        np.zeros(lanes),
        np.array([number for rule in admission for number in (*rule, rule.burst, 0.0)]),
        np.zeros(count if admission else 0, dtype=np.bool_), np.zeros(0, dtype=np.int64),
        hosting_of(hosts, count),
    )  # fmt: skip
