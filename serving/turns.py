"""Which queue a request joins, and which network is served next on a lane; compiled.

Requests of a network wait in a queue of its own, and the batches on a lane are all of one network.  A rule between
networks says whose turn it is whenever a policy is asked.  On an idle lane the policy of that network is asked first,
and the others in turn if it rather waits.  A lane that is not idle keeps its network; its policy sees an empty queue
while it is another's turn, so that the lane becomes free once its samples have returned.

Dispatch says whether all cores share the queue of a network, or a request joins the queue of a core when it arrives.
"""

import math

from ..jit import compiled
from .state import EDF, FCFS, LEAST_WORK, PRIORITY, SHARED, SHARES


@compiled(lean=True)
def queue_at(number, lane, networks):
    """The place of the queue of a network from which a lane takes requests."""
    return lane.queue * networks.records.size + number


@compiled(lean=True)
def waiting_in(queue):
    """Requests that wait in a queue."""
    return queue.tail - queue.head


@compiled(lean=True)
def waiting_for(number, networks, state):
    """Requests that wait for a network, in all its queues."""
    waiting = 0
    for place in range(number, state.queues.size, networks.records.size):
        waiting += waiting_in(state.queues[place])
    return waiting


@compiled(lean=True)
def oldest_of(number, networks, state):
    """The request of a network that has waited longest, in any of its queues, whose order policies may change."""
    oldest = -1
    for place in range(number, state.queues.size, networks.records.size):
        queue = state.queues[place]
        for k in range(queue.head, queue.tail):
            if oldest < 0 or state.waiting[k] < oldest:
                oldest = state.waiting[k]
    return oldest


@compiled(lean=True)
def alone_s(number, lane, stage, networks):
    """Time of one sample of a network from an exit to the end, alone on a core."""
    its = networks.records[number]
    exits, begin = its.exits, its.latencies_at + lane.kind * its.latencies
    return networks.latency_s[begin + (min(stage, exits) * (exits + 1) + exits) * its.sizes + 1]


@compiled(lean=True)
def least_alone_s(number, networks, state):
    """Time of one sample of a network, alone on the lane that is best for it."""
    least = math.inf
    for k in range(state.lanes.size):
        if networks.serves[number, k]:
            least = min(least, alone_s(number, state.lanes[k], 0, networks))
    return least


@compiled(lean=True)
def left_on(lane, now_s, networks, state):
    """Requests on a core and in its queues; or the work that is left of them, each alone from the last exit it passed.

    Of a segment that runs, its end is known.
    """
    by_work, left = networks.dispatch == LEAST_WORK, 0.0
    for number in range(networks.records.size):
        waiting = waiting_in(state.queues[queue_at(number, lane, networks)])
        left += waiting * (alone_s(number, lane, 0, networks) if by_work else 1.0)
    if not by_work:
        return left + lane.in_flight
    if lane.depth > 0:
        stage = lane.stage
        if lane.running:
            left += lane.end_s - now_s
            stage = networks.stage_after[networks.records[lane.network].places_at + lane.segment]
        left += lane.samples * alone_s(lane.network, lane, stage, networks)
        behind = lane.first
        for level in range(lane.depth - 2, -1, -1):
            below = state.batches[lane.offset + level]
            left += (behind - below.first) * alone_s(lane.network, lane, below.stage, networks)
            behind = below.first
    return left


@compiled(lean=True)
def core_for(number, now_s, networks, state):
    """The core that a request joins: with the least that is left, itself included; of equal ones the first."""
    best, least = -1, math.inf
    for k in range(state.lanes.size):
        if networks.serves[number, k]:
            lane = state.lanes[k]
            left = left_on(lane, now_s, networks, state)
            if networks.dispatch == LEAST_WORK:
                left += alone_s(number, lane, 0, networks)
            if best < 0 or left < least:
                best, least = k, left
    return best


@compiled(lean=True)
def choose_queue(request, now_s, networks, state):
    """Let a request that arrives join a queue; for the time without any request its network has no claim."""
    number = state.queues[state.joined[request]].network
    if networks.between == SHARES and waiting_for(number, networks, state) == 0:
        counts = state.counts[number]
        counts.tag_s = max(counts.tag_s, state.clock[0].virtual_s)
    if networks.dispatch != SHARED:
        lane = state.lanes[core_for(number, now_s, networks, state)]
        state.joined[request] = queue_at(number, lane, networks)


@compiled(lean=True)
def joined_queue(request, state):
    """The queue of a request."""
    return state.queues[state.joined[request]]


@compiled(lean=True)
def append(request, state):
    """Let a request wait at the end of its queue."""
    queue = joined_queue(request, state)
    state.waiting[queue.tail] = request
    queue.tail += 1


@compiled(lean=True)
def remove(request, state):
    """Take a request out of its queue."""
    queue = joined_queue(request, state)
    k = queue.head
    while state.waiting[k] != request:
        k += 1
    while k > queue.head:
        state.waiting[k] = state.waiting[k - 1]
        k -= 1
    queue.head += 1


@compiled(lean=True)
def charge(number, busy_s, networks, state):
    """Count the time of a segment that begins, where networks have shares."""
    if networks.between == SHARES:
        counts, clock = state.counts[number], state.clock[0]
        clock.virtual_s = max(clock.virtual_s, counts.tag_s)
        counts.tag_s += busy_s / networks.records[number].weight


@compiled(lean=True)
def takes(lane, k, request, networks, state):
    """Whether a lane may take a request from the queue that it has joined."""
    joined = state.joined[request]
    number = state.queues[joined].network
    return networks.serves[number, k] and queue_at(number, lane, networks) == joined


@compiled(lean=True)
def rivals(request, networks, state):
    """Requests that wait for the lanes which may take a request, of all networks."""
    waiting = 0
    for place in range(state.queues.size):
        owner = state.queues[place].network
        for k in range(state.lanes.size):
            lane = state.lanes[k]
            serves = networks.serves[owner, k] and queue_at(owner, lane, networks) == place
            if serves and takes(lane, k, request, networks, state):
                waiting += waiting_in(state.queues[place])
                break
    return waiting


@compiled(lean=True)
def whose_turn(k, networks, state, work):
    """The network whose turn it is on a lane, of those with a request that were not asked at this look; -1 for none.

    Each is judged by the first request of its queue, by the time that it has had, or by its priority; of equal ones the
    first goes.
    """
    best, least, lane = -1, math.inf, state.lanes[k]
    for number in range(networks.records.size):
        counts, queue = state.counts[number], state.queues[queue_at(number, lane, networks)]
        if queue.head < queue.tail and counts.look < state.clock[0].looks and networks.serves[number, k]:
            first, key = state.waiting[queue.head], counts.tag_s
            if networks.between == FCFS:
                key = work.requests.arrival_s[first]
            elif networks.between == EDF:
                key = work.requests.due_s[first]
            elif networks.between == PRIORITY:
                key = networks.records[number].priority
            if best < 0 or key < least:
                best, least = number, key
    return best
