"""Whether more requests of a run are late than may be, known as soon as they surely are; compiled."""

import math
from functools import cache
from typing import Any, NamedTuple

from numba import types

from ..formats.array_types import Floats, Ints
from ..jit import FunctionAddress, compile_for, compiled
from .event_loop import OK, SIGNATURES
from .policies.interface import DECIDE
from .state import NETWORKS, RECORD, STATE, WORK

TOO_LATE = -1
"""What a run returns, beside the faults of the event loop, once too many requests are late."""

LATE, SETTLED = range(2)  # of requests that will not change any more: how many are late, and how many there are


class Played(NamedTuple):
    """What the event loop works on."""

    work: Any
    networks: Any
    state: Any
    record: Any
    terms: Any
    beside: int | None


class LateLimits(NamedTuple):
    """How many requests of a run may take longer than a time, for L such limits."""

    arrival_s: Floats  # (N,), as they are offered, or as clients send them
    longer_than_s: Floats  # (L, N)
    allowed: Ints  # (L,)
    counts: Ints  # (L, 2): what a run has counted so far


_f1, _i1, _f2, _i2 = types.float64[::1], types.int64[::1], types.float64[:, ::1], types.int64[:, ::1]
LIMITS = types.NamedTuple((_f1, _f2, _i1, _i2), LateLimits)


@compiled(lean=True)
def exceeds(limits, finish_s, now_s, count):
    """Whether more of the first ``count`` requests are late at a time than may be, whatever comes later."""
    for number in range(limits.allowed.size):
        counts, longer_than_s = limits.counts[number], limits.longer_than_s[number]
        late = counts[LATE]
        settled = counts[SETTLED]
        for request in range(settled, count):
            due_s = limits.arrival_s[request] + longer_than_s[request]
            known = finish_s[request] < math.inf or due_s <= now_s
            late += known and finish_s[request] > due_s
            if known and request == settled:
                settled += 1
                counts[LATE], counts[SETTLED] = late, settled
        if late > limits.allowed[number]:
            return True
    return False


@compiled(lean=True)
def came(terms, clock, finish_s):
    """How many requests, the first ones, may have come; all of them where clients send them, in no order."""
    if terms is not None:
        return finish_s.size if terms.think_s.size > 0 else clock.arrived
    return clock.arrived


def run_unless_late(loop, decide, played, events, limits):
    """Replay traffic to its end in steps of some instants, until a limit is exceeded at the end of one."""
    clock, finish_s = played.state.clock[0], played.work.requests.finish_s
    while True:
        status = loop(
            decide, played.work, played.networks, played.state, played.record, math.inf, events, played.terms,
            played.beside,
        )  # fmt: skip
        if status != OK:
            return status
        if exceeds(limits, finish_s, clock.now_s, came(played.terms, clock, finish_s)):
            return TOO_LATE
        if clock.returned == finish_s.size:
            return OK


@cache
def unless_late(loop: Any) -> tuple[Any, FunctionAddress]:
    """:func:`run_unless_late`, compiled for one of the loops of the event loop, and the loop by its address."""
    signature = SIGNATURES[loop]
    *_, terms, beside = signature.args
    played = types.NamedTuple((WORK, NETWORKS, STATE, RECORD, terms, beside), Played)
    function = compiled(lean=True)(run_unless_late)
    kinds = types.FunctionType(signature), types.FunctionType(DECIDE), played, types.int64, LIMITS
    compile_for(types.int64(*kinds), function)
    return function, FunctionAddress(loop, signature)
