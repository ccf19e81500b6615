"""When a request that arrives would return, if all that wait before it are served first; compiled.

AlpaServe's rule (Li et al., OSDI 2023, Section 4.3): the times of a network are known, so that a request is refused on
arrival if it could not be in time.  Nobody knows yet at which exits samples leave, so that all go to the end.
"""

from ..jit import compiled
from .policies.estimates import between_s
from .turns import queue_at, waiting_in


@compiled(lean=True)
def rest_s(number, lane, variant, stage, size, networks):
    """Time of a batch of a network on a lane, from a stage to the end; a last stage that repeats does so to the end."""
    its = networks.records[number]
    exits, begin = its.exits, its.latencies_at + lane.kind * its.latencies
    table = networks.latency_s[begin : begin + its.latencies].reshape((-1, exits + 1, exits + 1, its.sizes))
    return between_s(table, variant, stage, its.stages, size)


@compiled(lean=True)
def free_from(lane, now_s, networks, state):
    """When the batches on a lane are done if each goes to the end, the top one first."""
    if lane.depth == 0:
        return now_s
    free_s, stage = now_s, lane.stage
    if lane.running:
        free_s = lane.end_s
        stage = networks.stage_after[networks.records[lane.network].places_at + lane.segment]
    free_s += rest_s(lane.network, lane, lane.variant, stage, lane.samples, networks)
    behind = lane.first
    for level in range(lane.depth - 2, -1, -1):
        below = state.batches[lane.offset + level]
        free_s += rest_s(lane.network, lane, below.variant, below.stage, behind - below.first, networks)
        behind = below.first
    return free_s


@compiled(lean=True)
def follow_on(place, count, largest, free_s, networks, state):
    """Let requests of a queue run in batches, each on the lane that is free first; when the last one is done."""
    number, end_s = state.queues[place].network, 0.0
    while count > 0:
        size, best = min(count, largest, networks.records[number].b_max), -1
        for k in range(state.lanes.size):
            its_own = networks.serves[number, k] and queue_at(number, state.lanes[k], networks) == place
            if its_own and (best < 0 or free_s[k] < free_s[best]):
                best = k
        free_s[best] += rest_s(number, state.lanes[best], 0, 0, size, networks)
        end_s = free_s[best]
        count -= size
    return end_s


@compiled(lean=True)
def expected_return_s(request, largest, now_s, free_s, networks, state):
    """When a request that arrives now would return, behind the lanes' batches, the other queues and its own.

    ``largest`` is the size of batches, and ``free_s`` is for this function's own use.
    """
    own = state.joined[request]
    for k in range(state.lanes.size):
        free_s[k] = free_from(state.lanes[k], now_s, networks, state)
    for place in range(state.queues.size):
        if place != own:
            follow_on(place, waiting_in(state.queues[place]), largest, free_s, networks, state)
    return follow_on(own, waiting_in(state.queues[own]) + 1, largest, free_s, networks, state)
