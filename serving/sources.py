"""Where requests come from: arrivals, or clients that wait for answers; compiled.

A client sends its next request when it has thought about its last answer, so that no request has a time of arrival
beforehand: they are numbered in the order in which they are sent.  All requests come from one source, or each network
has its own: its clients, or arrivals.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..formats.array_types import Floats, Ints
from ..jit import compiled
from .heaps import push
from .policies.interface import record_type, zeros
from .turns import joined_queue

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

    think_s: Floats | None  # as in Terms; None where all arrive by themselves
    clients: Sequence[int]  # of each source; of arrivals 0
    source: Ints  # (N,): the source of each request
    stop_s: Sequence[float] = (math.inf,)  # when clients of each source stop to send


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


def sources_of(requests: Any, sending: Sending) -> tuple[Any, Ints, Ints]:
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
