"""What the event loop works on: networks on the lanes of a device, requests in queues, batches, and the clock.

One network is the case K = 1 of several.  Arrays of all networks stand one behind the other, and the record of a
network says where its own begin.  A lane that is a core has times of its own kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..formats.array_types import Bools, Floats, Ints
from .policies.interface import BATCH, LANE, LANES, REQUESTS, VARIANTS, record_type, zeros

FCFS, EDF, SHARES, PRIORITY = range(4)
BETWEEN = ("fcfs", "edf", "shares", "priority")
"""Rules between networks, by number."""

SHARED, SHORTEST, LEAST_WORK = range(3)
DISPATCH = ("shared", "shortest", "least_work")
"""Rules of dispatch to cores, by number."""

CLOCK = record_type(
    [
        ("now_s", "f8"),
        ("arrived", "i8"),  # requests
        ("returned", "i8"),  # requests
        ("batches", "i8"),  # that have entered
        ("runs", "i8"),  # segments that were recorded
        ("run_members", "i8"),  # samples in them
        ("looks", "i8"),  # how often a lane looked for a network that wants to begin
        ("virtual_s", "f8"),  # tag of the segment that began last; an idle network gets no credit for less
    ]
)
"""Time and counts of the loop."""

QUEUE = record_type(
    [
        ("head", "i8"),  # where its requests begin in the array of those that wait
        ("tail", "i8"),  # and end
        ("network", "i8"),
    ]
)
"""A queue of a network, at all lanes or at one."""

COUNTS = record_type(
    [
        ("preemptions", "i8"),
        ("calls", "i8"),  # of the policy, with samples on the lane
        ("overhead_s", "f8"),  # lanes' time in gathers, delays and slowdowns
        ("tag_s", "f8"),  # time that it has had on lanes, divided by its weight
        ("look", "i8"),  # the look at which it was asked last about an idle lane
    ]
)
"""What a network has had so far."""

PARTS = {
    "time_s": "times",
    "latency_s": "latencies",
    "segment_at": "places",
    "gather_s": "gathers",
    "load": "loads",
    "variants": "variants",
    "settings": "settings",
    "memory": "memory",
}
"""Arrays of all networks, and what a network's record calls its part."""

OF_CORES = ("time_s", "latency_s")
"""Those that have a part for each kind of core, as ``moving`` has."""

NETWORK = record_type(
    [
        ("weight", "f8"),  # of its share of the lanes' time
        ("priority", "f8"),  # the least goes first
        ("switch_s", "f8"),  # time to load its weights on a lane that ran another network
        ("wake_up_s", "f8"),  # time until a batch begins on a lane that was idle
        ("call_s", "f8"),  # time of each call of the policy with samples on the lane
        *((name, "i8") for name in ("b_max", "segments", "sizes", "exits", "stages", "steps")),
        *((name, "i8") for name in PARTS.values()),  # the length of its part for one kind of core or one queue
        *((f"{name}_at", "i8") for name in PARTS.values()),  # where its part begins
    ]
)
"""Numbers of a network, which stay as they are."""


class DeviceArrays(NamedTuple):
    """Times that a device takes for a network."""

    time_s: Floats  # (V, S, B + 1): time of each distinct segment by variant and batch size
    latency_s: Floats  # (V, E + 1, E + 1, B + 1): times between exits, for the policy
    # (P,): which of the distinct segments runs at each place from input to end; one that repeats has several places
    segment_at: Ints
    stage_after: Ints  # (P,): stages completed once the segment at a place is
    # (P + 1, B + 1): time to gather the samples that stay in a batch, by the stages that it has completed and by
    # their number
    gather_s: Floats
    # (B + 1,): share of the device that a segment takes, by batch size.  Segments that run side by side all take
    # longer by the sum of their shares, if that is above 1; one that runs alone does not.
    load: Floats
    variants: NDArray[np.void]  # (V,): properties of each variant, for the policy
    wake_up_s: float = 0.0  # time until a batch begins on a lane that was idle
    # (V * S * (B + 1),): of cores that share a memory, the share of each of ``time_s`` in which words move; else empty
    moving: Floats = np.zeros(0)
    contention: float = -1.0  # share of a core's transfers that waits for another's at that time; below 0: no cores


class Rules(NamedTuple):
    """Parameters and memory of a policy."""

    settings: Floats  # (K,): its parameters
    # (M,): what it keeps from call to call; if it sets the exits' thresholds, the ones of each variant come first
    memory: Floats
    b_max: int  # most samples on a lane at once
    call_s: float  # time of each call with samples on the lane


class OneNetwork(NamedTuple):
    """A network on a device, as one of those that share it."""

    device: DeviceArrays
    rules: Rules
    weight: float = 1.0  # of its share
    switch_s: float = 0.0  # time to load its weights on a lane that ran another network
    serves: Sequence[bool] = ()  # (L,): the lanes that serve it; by default all
    priority: int = 0  # the least goes first


class Networks(NamedTuple):
    """Networks that share a device; only the memory of their policies changes."""

    between: int  # the rule between networks, of BETWEEN
    dispatch: int  # of DISPATCH
    contention: float  # as in DeviceArrays
    records: Any  # (K,): a record array of NETWORK
    kinds: Ints  # (L,): kind of core of each lane
    serves: Bools  # (K, L)
    network_of: Ints  # (N,): network of each request; (1,): the network of all
    time_s: Floats
    latency_s: Floats
    segment_at: Ints
    stage_after: Ints
    gather_s: Floats
    load: Floats
    variants: NDArray[np.void]
    moving: Floats
    settings: Floats
    memory: Floats  # of each queue


class RequestArrays(NamedTuple):
    """Requests, and where they leave the network."""

    requests: Any  # (N,) arrays: what is known of each on arrival, and what happens to it
    # (N,): 1-based exit that was decided beforehand; where thresholds decide, the last one until a request leaves
    exit_of: Ints
    confidences: Floats  # confidence at each exit but the last, if the policy sets the thresholds


class State(NamedTuple):
    """State of a replay between two instants."""

    clock: NDArray[np.void]  # (1,): time and counts
    lanes: NDArray[np.void]  # (L,): each lane, and the batch on top of its stack
    batches: NDArray[np.void]  # (L * b_max,): those below, lane after lane, each bottom first
    members: Ints  # (L * b_max,): requests on them in the same order, bottom batch first
    waiting: Ints  # requests that wait, each queue from its head to its tail
    queues: NDArray[np.void]  # (K,); or (L * K,), lane after lane, where each has queues of its own
    # (N,): the queue of each request, before it arrives the first of its network
    joined: Ints
    counts: Any  # (K,): a record array of COUNTS


class Record(NamedTuple):
    """Number of runs of each segment and, if there is room, every run."""

    launches: Ints  # how often each of the times of all networks was taken
    run_s: Floats  # (M, 2): begin and end of every run
    runs: Ints  # (M, 5): its segment, samples, level on the stack, flags and lane
    members: Ints  # (W,): the requests of every run, one run after the other


_f, _i = types.float64, types.int64
_f1, _i1, _f2, _i2 = types.float64[::1], types.int64[::1], types.float64[:, ::1], types.int64[:, ::1]


def _records(dtype: np.dtype[Any]) -> Any:
    return types.Array(from_dtype(dtype), 1, "C")


NETWORKS = types.NamedTuple(
    (
        _i, _i, _f, _records(NETWORK), _i1, types.boolean[:, ::1], _i1, _f1, _f1, _i1, _i1, _f1, _f1, VARIANTS, _f1,
        _f1, _f1,
    ),
    Networks,
)  # fmt: skip
WORK = types.NamedTuple((REQUESTS, _i1, _f2), RequestArrays)
STATE = types.NamedTuple(
    (_records(CLOCK), LANES, _records(BATCH), _i1, _i1, _records(QUEUE), _i1, _records(COUNTS)), State
)
RECORD = types.NamedTuple((_i1, _f2, _i2, _i1), Record)
"""numba types."""


def networks_of(
    networks: Sequence[OneNetwork],
    kinds: Sequence[int] = (0,),
    network_of: Ints | None = None,
    between: int = FCFS,
    dispatch: int = SHARED,
) -> Networks:
    """Networks that share lanes of these kinds, with arrays of their own."""
    queues = 1 if dispatch == SHARED else len(kinds)
    parts = [_parts_of(network, queues) for network in networks]
    shares = {"memory": queues, **dict.fromkeys(OF_CORES, len(set(kinds)))}
    records, starts = [], dict.fromkeys(PARTS, 0)
    for network, own in zip(networks, parts, strict=True):
        numbers = _numbers_of(network) | {f"{PARTS[name]}_at": at for name, at in starts.items()}
        numbers |= {part: own[name].size // shares.get(name, 1) for name, part in PARTS.items()}
        records.append(tuple(numbers[name] for name in NETWORK.names or ()))
        starts = {name: at + own[name].size for name, at in starts.items()}
    arrays: Any = {name: np.concatenate([own[name] for own in parts]) for name in parts[0]}
    return Networks(
        between, dispatch, networks[0].device.contention, np.array(records, NETWORK).view(np.recarray),
        np.array(kinds, dtype=np.int64),
        np.array([network.serves or [True] * len(kinds) for network in networks]),
        np.zeros(1, dtype=np.int64) if network_of is None else network_of,
        **{**arrays, "variants": arrays["variants"].view(np.recarray)},
    )  # fmt: skip


def _parts_of(network: OneNetwork, queues: int) -> dict[str, NDArray[Any]]:
    """The arrays that a network adds to the arrays of all."""
    device, (settings, memory, *_) = network.device, network.rules
    return {
        "time_s": device.time_s.reshape(-1),
        "latency_s": device.latency_s.reshape(-1),
        "segment_at": device.segment_at,
        "stage_after": device.stage_after,
        "gather_s": device.gather_s.reshape(-1),
        "load": device.load,
        "variants": device.variants,
        "moving": device.moving,
        "settings": settings,
        "memory": memory if queues == 1 else np.tile(memory, queues),
    }


def _numbers_of(network: OneNetwork) -> dict[str, float]:
    """The numbers of a network that no other one changes."""
    device, rules = network.device, network.rules
    _, segments, sizes = device.time_s.shape
    exits, stages = device.latency_s.shape[1] - 1, int(device.stage_after[-1])
    return {
        "weight": network.weight, "priority": network.priority,
        "switch_s": network.switch_s, "wake_up_s": device.wake_up_s,
        "call_s": rules.call_s, "b_max": rules.b_max, "segments": segments, "sizes": sizes,
        "exits": exits, "stages": stages,
        "steps": stages - exits + 1,  # of the last stage, which has one entry among the times
    }  # fmt: skip


def queues_in(networks: Networks) -> int:
    """How many queues requests wait in: one of each network, or one of each at every lane."""
    return len(networks.records) * (1 if networks.dispatch == SHARED else len(networks.kinds))


def in_one_queue(networks: Networks) -> bool:
    """Whether all requests wait in one queue for lanes that are alike."""
    return queues_in(networks) == 1 and not networks.kinds.any() and bool(networks.serves.all())


def begin(networks: Networks, requests: int, *, of_any: bool = False) -> State:
    """Idle lanes at time 0, and requests that have not arrived.

    If they may be ``of_any`` network, as nobody knows what arrives, each queue has room for all of them.
    """
    b_max, count, lanes = int(networks.records["b_max"].max()), len(networks.records), len(networks.kinds)
    queues = queues_in(networks)
    each = queues // count
    rooms = count if of_any else 1
    state = State(
        zeros(1, CLOCK),
        zeros(lanes, LANE),
        zeros(lanes * b_max, BATCH),
        np.zeros(lanes * b_max, dtype=np.int64),
        np.zeros(requests * each * rooms, dtype=np.int64),
        zeros(queues, QUEUE),
        np.full(requests, networks.network_of, dtype=np.int64),
        zeros(count, COUNTS),
    )
    numbers = np.full(count, requests) if of_any else np.bincount(state.joined, minlength=count)
    places = np.tile(numbers, each)  # all of a network may come into one queue
    state.queues["head"] = state.queues["tail"] = np.cumsum(places) - places
    state.queues["network"] = np.tile(np.arange(count), each)
    state.lanes["wake_s"], state.lanes["end_s"], state.lanes["network"] = math.inf, -math.inf, -1
    state.lanes["offset"], state.lanes["kind"] = b_max * np.arange(lanes), networks.kinds
    state.lanes["queue"] = np.arange(lanes) if each > 1 else 0
    return state


def times_of(networks: Networks, number: int, values: NDArray[Any]) -> NDArray[Any]:
    """The part of a network among values that stand like ``Networks.time_s``. Shapes: returns (V, S, B + 1)."""
    records = networks.records.view(np.ndarray)
    ends = [*records["times_at"], len(networks.time_s)]
    return values[ends[number] : ends[number + 1]].reshape(-1, records["segments"][number], records["sizes"][number])
