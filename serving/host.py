"""Fixed times of the host for each request, before and after the device (``docs/metrics.md``, The host); compiled.

A host that overlaps has as many hands as there are requests: each joins its queue when its input is prepared, and is
answered when its output is handled.  For the device, a request arrives when it joins, and is due so much earlier that
its output can still be handled.  A host that does not overlap keeps the lane: before a batch of b for b inputs, and
behind a stage at which k leave for k outputs.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..formats.array_types import Floats, Ints
from ..jit import compiled
from ..platforms.host import Host
from ..tables.latency import LatencyTable
from .heaps import pop, push

BEFORE, AFTER = range(2)  # places among the times of a network


class Hosting(NamedTuple):
    """State of the host; where it takes no time, all are empty."""

    times_s: Floats  # (2 * K,): before and after, of each network
    sent_s: Floats  # (N,): when each was sent, if the host overlaps; ``arrival_s`` is when it joins
    prepared: Ints  # a heap of the requests on the host, by when they join
    held: Ints  # (1,): entries of the heap


HOSTING = types.NamedTuple((types.float64[::1], types.float64[::1], types.int64[::1], types.int64[::1]), Hosting)


@compiled(lean=True)
def next_ready(terms, requests):
    """When the next input is prepared."""
    return math.inf if terms.hosting.held[0] == 0 else requests.arrival_s[terms.hosting.prepared[0]]


@compiled(lean=True)
def send_to_host(request, number, terms, requests):
    """Let the host prepare the input of a request of a network, which is sent now.

    It is due on the device so much earlier that its output can be handled, but not before it was sent.
    """
    sent_s = requests.arrival_s[request]
    terms.hosting.sent_s[request] = sent_s
    due_s = sent_s + terms.slo_s[request] - terms.hosting.times_s[2 * number + AFTER]
    requests.due_s[request] = max(sent_s, due_s)
    requests.arrival_s[request] = sent_s + terms.hosting.times_s[2 * number + BEFORE]
    push(terms.hosting.prepared, terms.hosting.held[0], requests.arrival_s, request)
    terms.hosting.held[0] += 1


@compiled(lean=True)
def take_prepared(terms, requests):
    """The request whose input is prepared next; it leaves the host."""
    request = pop(terms.hosting.prepared, terms.hosting.held[0], requests.arrival_s)
    terms.hosting.held[0] -= 1
    return request


@compiled(lean=True)
def is_on_host(request, terms, requests):
    """Whether the input of a request is not prepared at its deadline; of equal times the deadline is first."""
    return terms.hosting.sent_s.size > 0 and requests.arrival_s[request] >= requests.due_s[request]


@compiled(lean=True)
def promised_s(request, terms, requests):
    """The deadline of a request, as its client knows it."""
    if terms.hosting.sent_s.size == 0:
        return requests.due_s[request]
    return terms.hosting.sent_s[request] + terms.slo_s[request]


@compiled(lean=True)
def handed_out_s(now_s, number, terms):
    """When the output of a request that leaves the device now is handled."""
    return now_s if terms.hosting.sent_s.size == 0 else now_s + terms.hosting.times_s[2 * number + AFTER]


@compiled(lean=True)
def keeps_lane(terms):
    """Whether the device waits for the host."""
    return terms.hosting.times_s.size > 0 and terms.hosting.sent_s.size == 0


@compiled(lean=True)
def inputs_s(count, number, terms):
    """For how long a lane waits for the inputs of a batch."""
    return terms.hosting.times_s[2 * number + BEFORE] * count if keeps_lane(terms) else 0.0


@compiled(lean=True)
def outputs_s(count, number, terms):
    """For how long it waits for outputs."""
    return terms.hosting.times_s[2 * number + AFTER] * count if keeps_lane(terms) else 0.0


def known_times(table: LatencyTable) -> Floats:
    """The times between exits that policies reckon with: of a lane that waits for the host, with its times.

    Of a last stage that repeats, they have no times behind it, which are for its last step only.
    """
    times_s, host = table.arrays(), table.host
    if host is not None and not host.overlaps:
        samples = np.arange(table.b_max + 1)
        times_s[:, 0, 1:] += host.before_s * samples
        if table.exits[-1].steps == 1:
            times_s[:, :-1, -1] += host.after_s * samples
    return times_s


def sent_at(terms: Any, arrival_s: Floats, numbers: Any) -> Floats:
    """When requests of these numbers were sent, given when they joined their queues."""
    sent_s: Floats = terms.hosting.sent_s
    return sent_s[numbers] if sent_s.size else arrival_s


def hosting_of(hosts: Sequence[Host | None], count: int) -> Hosting:
    """A host without anything to do yet, for this many requests of networks whose hosts all overlap, or none does."""
    stated = [host for host in hosts if host is not None]
    overlaps = bool(stated) and stated[0].overlaps
    times_s = [time_s for host in hosts for time_s in ((host.before_s, host.after_s) if host else (0.0, 0.0))]
    sent = count if overlaps else 0
    return Hosting(
        np.array(times_s if stated else []), np.full(sent, math.inf), np.zeros(sent, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip
