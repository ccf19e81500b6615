"""Whether a request that arrives joins a queue, as its network admits requests, or is refused; compiled.

The client of a request that is refused asks again, but not at once.
"""

import math

from ..jit import compiled
from .deadlines import expect
from .in_time import expected_return_s
from .sources import tell
from .turns import append, choose_queue, joined_queue, least_alone_s, oldest_of, remove, rivals, takes, waiting_for

LIMIT, RATE, BURST, NEWEST, BATCH, TOKENS, SINCE = range(7)  # places in the admission of Terms
NUMBERS = 7  # of each network there


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
