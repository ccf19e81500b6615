"""SUSHI: a SubNet for each request, and what the persistent buffer keeps for the next Q of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...formats import InputError, read_number
from ...jit import compiled
from .interface import Decision, Policy, compile_policy, go_on
from .parameters import Parameter, choice

if TYPE_CHECKING:
    from ...formats.array_types import Floats
    from ...tables.latency import LatencyTable
    from ...traffic.trace import Trace
    from .parameters import ReadParameter

MODE, Q, DISTANCE, REFILL, GRAPH, SUBNET = range(6)  # places in settings
ACCURACY, LATENCY, SLACK = range(3)  # modes
L2, CHARGED = 0, 1  # a distance, a refill
FOLLOW, CLAIRVOYANT, ANY = -1, -2, -1  # graphs, and subnet; else the number of a state, or of a SubNet
KEPT, SERVED, COUNTS = range(3)  # places in memory: the state; requests; of these, by SubNet, since the last choice


@compiled(inline="always")
def choose_subnet(data, subnets, widths, state, request, from_s):
    """The SubNet for a request in a state of the buffer, if its time counts from ``from_s`` on."""
    mode, only, requests = data.settings[MODE], int(data.settings[SUBNET]), data.requests
    end = data.latency_s.shape[2] - 1
    best, best_s, best_accuracy, best_meets = 0, math.inf, -math.inf, False
    for i in range(subnets):
        if only not in (ANY, i):
            continue
        variant = (state * subnets + i) * widths
        time_s, accuracy = data.latency_s[variant, 0, end, 1], data.variants[variant].accuracy
        enough, in_time = accuracy >= requests.min_accuracy[request], from_s + time_s <= requests.due_s[request]
        meets = enough if mode == ACCURACY else in_time
        if meets != best_meets:
            take = meets
        elif meets == (mode == ACCURACY):  # accurate enough, or none is fast enough: the fastest
            take = time_s < best_s or (time_s == best_s and accuracy > best_accuracy)
        else:
            take = accuracy > best_accuracy or (accuracy == best_accuracy and time_s < best_s)
        if take:
            best, best_s, best_accuracy, best_meets = i, time_s, accuracy, meets
    return best


@compiled(inline="always")
def nearest(data, subnets, widths, states):
    """The state at the least distance from the average of the last Q SubNets; of equals the first."""
    end = data.latency_s.shape[2] - 1
    best, least = 0, math.inf
    for j in range(states):
        distance = 0.0
        for i in range(subnets):
            served, variant = data.memory[COUNTS + i], (j * subnets + i) * widths
            if data.settings[DISTANCE] == L2:
                # Q (||G_j - average||^2 - ||average||^2): whole numbers, so that equals are exactly equal
                distance += served * (data.variants[variant].content - 2.0 * data.variants[variant].overlap)
            else:
                distance += served * data.latency_s[variant, 0, end, 1]
        if distance < least:
            best, least = j, distance
    return best


@compiled(inline="always")
def foresee(view, data, subnets, widths, states):
    """The best state for the next Q requests, which are known: fewest violations, then highest accuracy, least time."""
    mode, end = data.settings[MODE], data.latency_s.shape[2] - 1
    first = data.queue[view.first]
    last = int(min(data.requests.arrival_s.size, first + data.settings[Q]))
    best, fewest, most, least_s = 0, math.inf, -math.inf, math.inf
    for j in range(states):
        now_s, violations, accuracies, busy_s = view.now_s, 0.0, 0.0, 0.0
        if data.settings[REFILL] == CHARGED and j != data.memory[KEPT]:
            busy_s = data.variants[j * subnets * widths].refill_s
            now_s += busy_s
        for k in range(first, last):
            arrival_s = data.requests.arrival_s[k]
            now_s = max(now_s, arrival_s)
            i = choose_subnet(data, subnets, widths, j, k, arrival_s if mode == LATENCY else now_s)
            variant = (j * subnets + i) * widths
            now_s += data.latency_s[variant, 0, end, 1]
            busy_s += data.latency_s[variant, 0, end, 1]
            violations += now_s > data.requests.due_s[k]
            if mode != ACCURACY and data.settings[SUBNET] == ANY:
                accuracies += data.variants[variant].accuracy
        if violations != fewest:
            take = violations < fewest
        elif accuracies != most:
            take = accuracies > most
        else:
            take = busy_s < least_s
        if take:
            best, fewest, most, least_s = j, violations, accuracies, busy_s
    return best


@compile_policy
def decide(view, data):
    """Serve the requests one by one; choose the SubNet of each, and once in Q requests the content of the buffer.

    The SubNet is chosen by its times in the present state of the buffer; of equals the more accurate, or the faster,
    then the first.  After Q requests the buffer keeps the SubGraph that is nearest to their SubNets by ``distance``.

    Source: SUSHI, Section 3.3; the paper has no queue.  Work-conserving.

    ``mode``
        ``accuracy`` (STRICT_ACCURACY): the fastest SubNet that is as accurate as the request asks, else the most
        accurate; ``latency`` (STRICT_LATENCY): the most accurate SubNet whose time is within the SLO, else the
        fastest; ``slack``: the same, with what is left of the SLO after the wait.
    ``q``
        Requests between two choices of the SubGraph in the buffer.
    ``distance``
        ``l2``: between the vectors of SubGraph and average; ``latency``: the time that the last Q requests would have
        taken.
    ``refill``
        ``free``, or ``charged``: the next request waits until the new SubGraph is loaded.
    ``graph``
        ``follow`` the SubNets that are served; the number of a state, from 0, that the buffer always has; or
        ``clairvoyant``, for comparison: the state that serves the next Q requests best, read from the future.
    ``subnet``
        ``any``, or the number of the only SubNet, from 0.
    """
    if view.depth > 0:
        return go_on(view.segments)
    memory, settings = data.memory, data.settings
    last = data.variants[data.variants.size - 1]
    subnets, states = last.subnet + 1, last.state + 1
    widths = data.variants.size // (subnets * states)
    kept, served = int(memory[KEPT]), memory[SERVED]
    if settings[GRAPH] == FOLLOW:
        if served > 0 and served % settings[Q] == 0:
            kept = nearest(data, subnets, widths, states)
            memory[COUNTS : COUNTS + subnets] = 0.0
    elif settings[GRAPH] == CLAIRVOYANT:
        if served % settings[Q] == 0:
            kept = foresee(view, data, subnets, widths, states)
    else:
        kept = int(settings[GRAPH])
    refill_s = 0.0
    if settings[REFILL] == CHARGED and kept != int(memory[KEPT]):
        refill_s = data.variants[kept * subnets * widths].refill_s
    request = data.queue[view.first]
    from_s = data.requests.arrival_s[request] if settings[MODE] == LATENCY else view.now_s + refill_s
    subnet = choose_subnet(data, subnets, widths, kept, request, from_s)
    memory[KEPT] = kept
    memory[SERVED] += 1
    memory[COUNTS + subnet] += 1
    variant = (kept * subnets + subnet) * widths
    return Decision(1, 0, view.segments, math.inf, True, variant, refill_s)


def _whole(name: str, least: int, **words: int) -> ReadParameter:
    """A reader of whole numbers from ``least`` on, or of words."""

    def read(text: str, _: float | None) -> float:
        if text in words:
            return float(words[text])
        try:
            value = int(read_number(text, int))
        except ValueError:
            value = least - 1
        if value < least:
            known = " or ".join([*words, f"a whole number >= {least}"])
            raise InputError(f'policy: {name}: expected {known}, found "{text}"')
        return float(value)

    return read


def check(settings: Floats, table: LatencyTable, trace: Trace, b_max: int) -> list[str]:
    """Faults of the parameters (see :data:`.interface.Check`)."""
    del b_max  # requests are served one by one
    faults = []
    if settings[GRAPH] == CLAIRVOYANT and math.isinf(trace.arrival_s[-1]):
        faults.append("graph=clairvoyant: expected arrivals that are known beforehand, found clients that wait")
    subnets, states = table.subnets or [], table.states or []
    for name, place, held in (("graph", GRAPH, states), ("subnet", SUBNET, subnets)):
        if settings[place] >= max(1, len(held)):
            most = max(1, len(held)) - 1
            faults.append(f"{name}: expected at most {most}, the last of the table, found {settings[place]:g}")
    unknown = [net.name for net in subnets if net.accuracy is None]
    if unknown and settings[SUBNET] == ANY:
        rest = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        faults.append(
            f"latency table: expected the accuracy of every SubNet, by which sushi chooses, found none of "
            f"{unknown[0]}{rest}; state it, or serve one SubNet with sushi:subnet=N"
        )
    if settings[MODE] == ACCURACY and not subnets:
        faults.append("latency table: expected SubNets for mode=accuracy to choose from, found none")
    elif settings[MODE] == ACCURACY and trace.min_accuracy is None:
        faults.append(
            f"{trace.source or 'trace'}: expected the column min_accuracy, which mode=accuracy keeps to, found none; "
            "draw it (min_accuracy)"
        )
    by_vectors = settings[GRAPH] == FOLLOW and settings[DISTANCE] == L2 and len(states) > 1
    if by_vectors and (table.reuse is None or table.reuse.overlap is None):
        faults.append(
            "latency table: expected the vectors of SubNets and states, by which sushi chooses what to keep, found "
            "none; use sushi:distance=latency"
        )
    if settings[REFILL] == CHARGED and len(states) > 1 and table.reuse is None:
        faults.append("latency table: expected the times of refills, found none; use sushi:refill=free")
    return faults


POLICY = Policy(
    decide,
    (
        Parameter("mode", "slack", choice("mode", "accuracy", "latency", "slack")),
        Parameter("q", "8", _whole("q", 1)),
        Parameter("distance", "latency", choice("distance", "l2", "latency")),
        Parameter("refill", "free", choice("refill", "free", "charged")),
        Parameter("graph", "follow", _whole("graph", 0, follow=FOLLOW, clairvoyant=CLAIRVOYANT)),
        Parameter("subnet", "any", _whole("subnet", 0, any=ANY)),
    ),
    memory=COUNTS,
    memory_by_subnet=1,
    chooses_variants=True,
    check=check,
)
