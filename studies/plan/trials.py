"""Runs of plans, which end as soon as they surely fail."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...serving.case import case_of
from ...serving.networks import AnyServed, as_served
from ...serving.outcome import Replay
from ...serving.play import Loop
from ...serving.scheduler import Scheduler
from ...traffic.traffic import Traffic
from .plan_traffic import depths_of, device_traffic
from .rules import Limit

FIRST = 3 / 8
"""Share of the requests that are simulated alone at first: most runs that fail do so there."""

LOOKS, LATER_LOOKS = (1 / 16, 1 / 16, 1 / 8, 1 / 8), (1.0,)
"""Instants for each request of a run from one look at it to the next, among the first requests and in the whole run. A
run has about one for each arrival, and one for each end of a stage."""


class FirstPart:
    """The first requests of a run with a table and a policy; runs may differ in where each request leaves."""

    def __init__(self, given: AnyServed, traffic: Traffic, scheduler: Scheduler) -> None:
        networks = as_served(given)
        self._lasts, self._steps = zip(
            *((len(network.latency.exits), network.latency.exits[-1].steps) for network in networks), strict=True
        )
        self._count = math.ceil(FIRST * len(traffic))
        self._looks = [math.ceil(instants * len(traffic)) for instants in LOOKS]
        # until one more request arrives, the first ones are served as they are in the whole run
        self._until_s = float([*traffic.trace.arrival_s[self._count : self._count + 1], math.inf][0])
        self._first = traffic.first(self._count + 1)
        case = case_of(networks, device_traffic(self._first), scheduler)
        self._exit_of = case.work.exit_of.copy()
        self._loop = Loop(scheduler, case.work._replace(exit_of=self._exit_of), case.shared, case.terms)
        self._begin_anew = self._loop.remember()

    def fails(self, exits: NDArray[np.int64], limits: Sequence[Limit]) -> bool:
        """Whether more of them are late than may be in the whole run, whose requests leave at these exits."""
        self._begin_anew()
        self._exit_of[:] = depths_of(self._first, exits[: len(self._first)], self._lasts, self._steps)
        here = [limit._replace(longer_than_s=limit.longer_than_s[: len(self._first)]) for limit in limits]
        return _fails(self._loop, self._first, here, self._looks, self._until_s)


def unless_it_fails(
    limits: Sequence[Limit], networks: AnyServed, traffic: Traffic, scheduler: Scheduler
) -> Replay | None:
    """A run to its end; none if more requests are late than may be."""
    case = case_of(as_served(networks), device_traffic(traffic), scheduler)
    loop = Loop(scheduler, case.work, case.shared, case.terms)
    if _fails(loop, traffic, limits, [math.ceil(instants * len(traffic)) for instants in LATER_LOOKS], math.inf):
        return None
    return case.replay(loop.to(), math.inf, recorded=False)


def _fails(loop: Loop, traffic: Traffic, limits: Sequence[Limit], looks: Sequence[int], until_s: float) -> bool:
    """Whether a run has too many late requests at a look or at its end."""
    for instants in [*looks, None] if limits else ():
        run = loop.to(until_s) if instants is None else loop.after(instants, until_s)
        requests, now_s = run.work.requests, float(run.clock.now_s)
        arrival_s = traffic.trace.arrival_s if traffic.think_s is None else requests.arrival_s
        if any(
            surely_late(arrival_s, requests.finish_s, limit.longer_than_s, now_s) > limit.allowed for limit in limits
        ):
            return True
        if now_s == until_s:
            break  # nothing is decided there
    return False


def surely_late(
    arrival_s: NDArray[np.float64], finish_s: NDArray[np.float64], longer_than_s: NDArray[np.float64], until_s: float
) -> int:
    """Requests of a run that stopped at ``until_s`` that took longer than a time, whatever comes later."""
    due_s = arrival_s + longer_than_s
    return int(((finish_s > due_s) & (np.isfinite(finish_s) | (due_s <= until_s))).sum())
