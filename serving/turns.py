"""Several networks on one device: what each has, and whose turn it is; compiled.

Requests of a network wait in a queue of its own, and the batches on a lane are all of one network.  A rule between
networks says whose turn it is whenever a policy is asked.  On an idle lane the policy of that network is asked first,
and the others in turn if it rather waits.  A lane that is not idle keeps its network; its policy sees an empty queue
while it is another's turn, so that the lane becomes free once its samples have returned.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..jit import compiled
from .policies.interface import VARIANTS

FCFS, EDF, SHARES = range(3)
BETWEEN = ("fcfs", "edf", "shares")
"""Rules between networks, by number."""

NETWORK = np.dtype(
    [
        ("head", "i8"),  # where its queue begins in the array of all, and ends
        ("tail", "i8"),
        ("preemptions", "i8"),  # as in the clock, of this network
        ("calls", "i8"),
        ("overhead_s", "f8"),
        ("asked", "i8"),  # 1 if it was asked about the idle lane already, at this instant
        ("tag_s", "f8"),  # time that it has had on lanes, divided by its weight
        ("weight", "f8"),
        ("switch_s", "f8"),  # time to load its weights on a lane that ran another network
        ("wake_up_s", "f8"),
        ("call_s", "f8"),
        ("b_max", "i8"),
        ("variants", "i8"),  # sizes of its arrays
        ("segments", "i8"),
        ("sizes", "i8"),
        ("exits", "i8"),
        ("places", "i8"),
    ],
    align=True,
)
"""A network: where it stands, and its numbers.  The clock has queue and counts of the one whose turn it is."""

RULE, OPEN = range(2)  # places in state
TIMES, LATENCIES, PLACES, GATHERS, LOADS, VARIANT, SETTINGS, MEMORY = range(8)  # rows of starts


class Networks(NamedTuple):
    """Networks that share a device; arrays of all stand one behind the other."""

    state: NDArray[np.int64]  # (2,): the rule; the network that the clock shows
    virtual_s: NDArray[np.float64]  # (1,): tag of the segment that began last; an idle network gets no credit for less
    records: NDArray[np.void]  # (K,)
    starts: NDArray[np.int64]  # (8, K + 1): where the arrays of each begin
    network_of: NDArray[np.int64]  # (N,): network of each request
    time_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    segment_at: NDArray[np.int64]
    stage_after: NDArray[np.int64]
    gather_s: NDArray[np.float64]
    load: NDArray[np.float64]
    variants: NDArray[np.void]
    settings: NDArray[np.float64]
    memory: NDArray[np.float64]


_f1, _i1 = types.float64[::1], types.int64[::1]
NETWORKS = types.NamedTuple(
    (
        _i1, _f1, types.Array(from_dtype(NETWORK), 1, "C"), types.int64[:, ::1], _i1, _f1, _f1, _i1, _i1, _f1, _f1,
        VARIANTS, _f1, _f1,
    ),
    Networks,
)  # fmt: skip


@compiled(lean=True)
def save(networks, clock):
    """Put queue and counts of the network that the clock shows where they belong."""
    mine = networks.records[networks.state[OPEN]]
    mine.head, mine.tail = clock.head, clock.tail
    mine.preemptions, mine.calls, mine.overhead_s = clock.preemptions, clock.calls, clock.overhead_s


@compiled(lean=True)
def turn_to(number, networks, clock):
    """Let the clock show another network."""
    if networks.state[OPEN] != number:
        save(networks, clock)
        networks.state[OPEN] = number
        mine = networks.records[number]
        clock.head, clock.tail = mine.head, mine.tail
        clock.preemptions, clock.calls, clock.overhead_s = mine.preemptions, mine.calls, mine.overhead_s


@compiled(lean=True)
def join(number, networks, clock):
    """Turn to the network of a request that arrives: for the time without any it has no claim."""
    turn_to(number, networks, clock)
    if clock.head == clock.tail:
        mine = networks.records[number]
        mine.tag_s = max(mine.tag_s, networks.virtual_s[0])


@compiled(lean=True)
def waiting_of_all(networks, clock):
    """Number of requests that wait, of all networks."""
    save(networks, clock)
    waiting = 0
    for k in range(networks.records.size):
        waiting += networks.records[k].tail - networks.records[k].head
    return waiting


@compiled(lean=True)
def charge(number, busy_s, networks):
    """Count the time of a segment that begins."""
    mine = networks.records[number]
    networks.virtual_s[0] = max(networks.virtual_s[0], mine.tag_s)
    mine.tag_s += busy_s / mine.weight


@compiled(lean=True)
def ask_all(networks):
    """Begin to ask about a lane: no network was asked yet."""
    for k in range(networks.records.size):
        networks.records[k].asked = 0


@compiled(lean=True)
def whose_turn(networks, clock, queue, requests):
    """The network whose turn it is, of those that have a request waiting and were not asked; -1 if there is none.

    Each is judged by the first request of its queue, or by the time that it has had; of equal ones the first goes.
    """
    save(networks, clock)
    best, least = -1, math.inf
    for k in range(networks.records.size):
        one = networks.records[k]
        if one.asked == 0 and one.head < one.tail:
            key = one.tag_s
            if networks.state[RULE] == FCFS:
                key = requests.arrival_s[queue[one.head]]
            elif networks.state[RULE] == EDF:
                key = requests.due_s[queue[one.head]]
            if best < 0 or key < least:
                best, least = k, key
    return best


@compiled(inline="always")
def part(values, row, number, networks):
    """The part of an array that is a network's."""
    return values[networks.starts[row, number] : networks.starts[row, number + 1]]


@compiled(inline="always")
def times_of(number, networks):
    """The times of a network, in the order of ``DeviceArrays``; those of segments are a row."""
    mine = networks.records[number]
    return (
        part(networks.time_s, TIMES, number, networks),
        part(networks.latency_s, LATENCIES, number, networks).reshape(
            (mine.variants, mine.exits + 1, mine.exits + 1, mine.sizes)
        ),
        part(networks.segment_at, PLACES, number, networks),
        part(networks.stage_after, PLACES, number, networks),
        part(networks.gather_s, GATHERS, number, networks).reshape((-1, mine.sizes)),
        part(networks.load, LOADS, number, networks),
        part(networks.variants, VARIANT, number, networks),
    )


def networks_of(
    rule: int, network_of: NDArray[np.int64], devices: list[Any], rules: list[Any], weights: list[float],
    switches_s: list[float],
) -> Networks:  # fmt: skip
    """Networks that have no request yet."""
    count = len(devices)
    records: Any = np.zeros(count, NETWORK).view(np.recarray)
    ends = np.cumsum(np.bincount(network_of, minlength=count))
    records.head[1:] = records.tail[1:] = ends[:-1]
    records.weight, records.switch_s = weights, switches_s
    records.b_max, records.call_s = [item.b_max for item in rules], [item.call_s for item in rules]
    records.wake_up_s = [item.wake_up_s for item in devices]
    records.variants, records.segments, records.sizes = np.transpose([item.time_s.shape for item in devices])
    records.exits = [item.latency_s.shape[1] - 1 for item in devices]
    records.places = [item.segment_at.size for item in devices]
    names = ("time_s", "latency_s", "segment_at", "stage_after", "gather_s", "load", "variants")
    arrays = {name: [getattr(item, name).reshape(-1) for item in devices] for name in names}
    arrays |= {name: [getattr(item, name) for item in rules] for name in ("settings", "memory")}
    rows = [arrays[name] for name in (*names[:3], *names[4:], "settings", "memory")]
    starts = np.array([np.cumsum([0, *(values.size for values in row)]) for row in rows], dtype=np.int64)
    joined: dict[str, Any] = {name: np.concatenate(values) for name, values in arrays.items()}
    joined["variants"] = joined["variants"].view(np.recarray)
    state = np.array([rule, 0], dtype=np.int64)
    return Networks(state, np.zeros(1), records, starts, np.ascontiguousarray(network_of), **joined)
