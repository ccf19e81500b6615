"""Several networks or cores on one device: what each has, where requests wait, and whose turn it is; compiled.

Requests of a network wait in a queue of its own, and the batches on a lane are all of one network.  A rule between
networks says whose turn it is whenever a policy is asked.  On an idle lane the policy of that network is asked first,
and the others in turn if it rather waits.  A lane that is not idle keeps its network; its policy sees an empty queue
while it is another's turn, so that the lane becomes free once its samples have returned.

A lane that is a core has times of its own.  Dispatch says whether all cores share the queue of a network, or a request
joins that of a core when it arrives.
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

SHARED, SHORTEST, LEAST_WORK = range(3)
DISPATCH = ("shared", "shortest", "least_work")
"""Rules of dispatch to cores, by number."""

NETWORK = np.dtype(
    [
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
        ("variants", "i8"),  # sizes of its arrays, on one core
        ("segments", "i8"),
        ("sizes", "i8"),
        ("exits", "i8"),
        ("places", "i8"),
    ],
    align=True,
)
"""A network: where it stands, and its numbers.  The clock has counts and a queue of the one whose turn it is."""

RULE, OPEN, RULE_OF_CORES, QUEUES = range(4)  # places in state
TIMES, LATENCIES, PLACES, GATHERS, LOADS, VARIANT, MOVING, SETTINGS, MEMORY = range(9)  # rows of starts
STEPS = MEMORY + 1  # the first of the rows of parts
OF_CORE = (TIMES, LATENCIES, MOVING)
KIND, SERVES = range(2)  # rows of lanes, the first
NUMBER, QUEUE = range(2)  # columns of joined
HEAD, TAIL, OWNER = range(3)  # columns of queues


class Networks(NamedTuple):
    """Networks that share a device; arrays of all stand one behind the other."""

    # (4,): the rule between networks; the queue that the clock shows; the rule of dispatch; queues of a network, one or
    # one for each lane
    state: NDArray[np.int64]
    virtual_s: NDArray[np.float64]  # (1,): tag of the segment that began last; an idle network gets no credit for less
    records: NDArray[np.void]  # (K,)
    # (2 * 9, K + 1): where the arrays of each begin, and what the part of a kind of core, or of a queue, takes of them
    starts: NDArray[np.int64]
    joined: NDArray[np.int64]  # (N, 2): the network of each request, and the queue that it has joined
    queues: NDArray[np.int64]  # (Q, 3): where each begins in the array of all, where it ends, and its network
    lanes: NDArray[np.int64]  # (1 + K, L): kind of core of each lane, and whether it serves each network
    time_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    segment_at: NDArray[np.int64]
    stage_after: NDArray[np.int64]
    gather_s: NDArray[np.float64]
    load: NDArray[np.float64]
    variants: NDArray[np.void]
    moving: NDArray[np.float64]
    settings: NDArray[np.float64]
    memory: NDArray[np.float64]  # of each queue


_f1, _i1, _i2 = types.float64[::1], types.int64[::1], types.int64[:, ::1]
NETWORKS = types.NamedTuple(
    (
        _i1, _f1, types.Array(from_dtype(NETWORK), 1, "C"), _i2, _i2, _i2, _i2, _f1, _f1, _i1, _i1, _f1, _f1,
        VARIANTS, _f1, _f1, _f1,
    ),
    Networks,
)  # fmt: skip


@compiled(inline="always")
def queue_of(number, k, networks):
    """The queue of a network from which a lane takes requests."""
    if networks.state[QUEUES] > 1:
        return number * networks.state[QUEUES] + k
    return number


@compiled(lean=True)
def save(networks, clock):
    """Put the queue that the clock shows, and the counts of its network, where they belong."""
    shown = networks.state[OPEN]
    mine = networks.records[networks.queues[shown, OWNER]]
    networks.queues[shown, HEAD], networks.queues[shown, TAIL] = clock.head, clock.tail
    mine.preemptions, mine.calls, mine.overhead_s = clock.preemptions, clock.calls, clock.overhead_s


@compiled(lean=True)
def turn_to(number, networks, clock):
    """Let the clock show another queue."""
    if networks.state[OPEN] != number:
        save(networks, clock)
        networks.state[OPEN] = number
        mine = networks.records[networks.queues[number, OWNER]]
        clock.head, clock.tail = networks.queues[number, HEAD], networks.queues[number, TAIL]
        clock.preemptions, clock.calls, clock.overhead_s = mine.preemptions, mine.calls, mine.overhead_s


@compiled(inline="always")
def waiting_in(number, networks):
    """Requests that wait in a queue, which the clock does not show."""
    return networks.queues[number, TAIL] - networks.queues[number, HEAD]


@compiled(lean=True)
def alone_s(number, k, stage, networks):
    """Time of one sample of a network from an exit to the end, alone on a core."""
    exits, sizes = networks.records[number].exits, networks.records[number].sizes
    times_s = of_core(networks.latency_s, LATENCIES, number, k, networks)
    return times_s[(stage * (exits + 1) + exits) * sizes + 1]


@compiled(lean=True)
def left_on(k, now_s, networks, lanes, batches):
    """Requests on a core and in its queues; or the work that is left of them, each alone from the last exit it passed.

    Of a segment that runs, its end is known.
    """
    lane, by_work = lanes[k], networks.state[RULE_OF_CORES] == LEAST_WORK
    left = 0.0
    for number in range(networks.records.size):
        waiting = waiting_in(queue_of(number, k, networks), networks)
        left += waiting * (alone_s(number, k, 0, networks) if by_work else 1.0)
    if not by_work:
        return left + lane.in_flight
    if lane.depth > 0:
        stage = lane.stage
        if lane.running:
            left += lane.end_s - now_s
            stage = part(networks.stage_after, PLACES, lane.network, networks)[lane.segment]
        left += lane.samples * alone_s(lane.network, k, min(stage, networks.records[lane.network].exits), networks)
        behind = lane.first
        for level in range(lane.depth - 2, -1, -1):
            below = batches[lane.offset + level]
            stage = min(below.stage, networks.records[lane.network].exits)
            left += (behind - below.first) * alone_s(lane.network, k, stage, networks)
            behind = below.first
    return left


@compiled(lean=True)
def core_for(number, now_s, networks, lanes, batches):
    """The core that a request joins: with the least that is left, itself included; of equal ones the first."""
    best, least = -1, math.inf
    for k in range(lanes.size):
        if networks.lanes[SERVES + number, k] == 1:
            left = left_on(k, now_s, networks, lanes, batches)
            if networks.state[RULE_OF_CORES] == LEAST_WORK:
                left += alone_s(number, k, 0, networks)
            if best < 0 or left < least:
                best, least = k, left
    return best


@compiled(lean=True)
def join(request, now_s, networks, clock, lanes, batches):
    """Turn to the queue that a request joins; for the time without any its network has no claim."""
    number, k, waiting = networks.joined[request, NUMBER], 0, 0
    save(networks, clock)
    for queue in range(number * networks.state[QUEUES], (number + 1) * networks.state[QUEUES]):
        waiting += waiting_in(queue, networks)
    if waiting == 0:
        mine = networks.records[number]
        mine.tag_s = max(mine.tag_s, networks.virtual_s[0])
    if networks.state[QUEUES] > 1:
        k = core_for(number, now_s, networks, lanes, batches)
    networks.joined[request, QUEUE] = queue_of(number, k, networks)
    turn_to(networks.joined[request, QUEUE], networks, clock)


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
def takes(k, request, networks):
    """Whether a lane may take a request from the queue that it has joined."""
    number = networks.joined[request, NUMBER]
    return networks.lanes[SERVES + number, k] == 1 and queue_of(number, k, networks) == networks.joined[request, QUEUE]


@compiled(lean=True)
def rivals(request, networks, clock):
    """Requests that wait for the lanes which may take a request, of all networks."""
    save(networks, clock)
    waiting = 0
    for queue in range(networks.queues.shape[0]):
        owner = networks.queues[queue, OWNER]
        for k in range(networks.lanes.shape[1]):
            serves = networks.lanes[SERVES + owner, k] == 1 and queue_of(owner, k, networks) == queue
            if serves and takes(k, request, networks):
                waiting += waiting_in(queue, networks)
                break
    return waiting


@compiled(lean=True)
def whose_turn(k, networks, clock, queue, requests):
    """The network whose turn it is on a lane, of those with a request waiting that were not asked; -1 if there is none.

    Each is judged by the first request of its queue, or by the time that it has had; of equal ones the first goes.
    """
    save(networks, clock)
    best, least = -1, math.inf
    for number in range(networks.records.size):
        one, own = networks.records[number], queue_of(number, k, networks)
        if one.asked == 0 and networks.lanes[SERVES + number, k] == 1 and waiting_in(own, networks) > 0:
            first, key = queue[networks.queues[own, HEAD]], one.tag_s
            if networks.state[RULE] == FCFS:
                key = requests.arrival_s[first]
            elif networks.state[RULE] == EDF:
                key = requests.due_s[first]
            if best < 0 or key < least:
                best, least = number, key
    return best


@compiled(inline="always")
def part(values, row, number, networks):
    """The part of an array that is a network's."""
    return values[networks.starts[row, number] : networks.starts[row, number + 1]]


@compiled(inline="always")
def of_core(values, row, number, k, networks):
    """The part of an array that is a network's on the kind of core that a lane is."""
    step = networks.starts[STEPS + row, number]
    start = networks.starts[row, number] + step * networks.lanes[KIND, k]
    return values[start : start + step]


@compiled(inline="always")
def of_queue(values, row, number, k, networks):
    """The part of an array that belongs to the queue of a network from which a lane takes requests."""
    step = networks.starts[STEPS + row, number]
    start = networks.starts[row, number]
    if networks.state[QUEUES] > 1:
        start += step * k
    return values[start : start + step]


@compiled(inline="always")
def times_of(number, k, networks):
    """The times of a network on a lane, in the order of ``DeviceArrays``; those of segments are a row."""
    mine = networks.records[number]
    return (
        of_core(networks.time_s, TIMES, number, k, networks),
        of_core(networks.latency_s, LATENCIES, number, k, networks).reshape(
            (mine.variants, mine.exits + 1, mine.exits + 1, mine.sizes)
        ),
        part(networks.segment_at, PLACES, number, networks),
        part(networks.stage_after, PLACES, number, networks),
        part(networks.gather_s, GATHERS, number, networks).reshape((-1, mine.sizes)),
        part(networks.load, LOADS, number, networks),
        part(networks.variants, VARIANT, number, networks),
    )


@compiled(inline="always")
def moving_at(place, number, k, networks):
    """Share of a segment's time in which words move on a core, by its place among the times of a network."""
    begin = networks.starts[MOVING, number] + networks.starts[STEPS + MOVING, number] * networks.lanes[KIND, k]
    return networks.moving[begin + place]


def networks_of(
    rule: int, dispatch: int, network_of: NDArray[np.int64], devices: list[Any], rules: list[Any],
    weights: list[float], switches_s: list[float], kind_of: list[int], serves: list[list[bool]],
) -> Networks:  # fmt: skip
    """Networks that have no request yet, on lanes of these kinds; of each, which lanes serve it."""
    count, queues = len(devices), 1 if dispatch == SHARED else len(kind_of)
    records: Any = np.zeros(count, NETWORK).view(np.recarray)
    places = np.repeat(np.bincount(network_of, minlength=count), queues)  # all may come into one queue
    begins = np.cumsum(places) - places
    records.weight, records.switch_s = weights, switches_s
    records.b_max, records.call_s = [item.b_max for item in rules], [item.call_s for item in rules]
    records.wake_up_s = [item.wake_up_s for item in devices]
    _, records.segments, records.sizes = np.transpose([item.time_s.shape for item in devices])
    records.variants = [item.variants.size for item in devices]
    records.exits = [item.latency_s.shape[1] - 1 for item in devices]
    records.places = [item.segment_at.size for item in devices]
    names = ("time_s", "latency_s", "segment_at", "stage_after", "gather_s", "load", "variants", "moving")
    arrays = {name: [getattr(item, name).reshape(-1) for item in devices] for name in names}
    arrays["settings"] = [item.settings for item in rules]
    arrays["memory"] = [np.tile(item.memory, queues) for item in rules]
    rows = [arrays[name] for name in (*names[:3], *names[4:], "settings", "memory")]
    starts = np.array([np.cumsum([0, *(values.size for values in row)]) for row in rows], dtype=np.int64)
    parts = [len(set(kind_of)) if row in OF_CORE else queues if row == MEMORY else 1 for row in range(len(rows))]
    steps = np.diff(starts, append=0) // np.array(parts)[:, None]
    whole: dict[str, Any] = {name: np.concatenate(values) for name, values in arrays.items()}
    whole["variants"] = whole["variants"].view(np.recarray)
    state = np.array([rule, 0, dispatch, queues], dtype=np.int64)
    return Networks(
        state, np.zeros(1), records, np.concatenate([starts, steps]), np.stack([network_of, 0 * network_of], axis=1),
        np.stack([begins, begins, np.repeat(np.arange(count), queues)], axis=1),
        np.array([kind_of, *serves], dtype=np.int64), **whole,
    )  # fmt: skip
