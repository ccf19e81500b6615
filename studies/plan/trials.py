"""Trials of plans: runs which end as soon as they surely fail, and begin anew on other hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...serving.case import case_of, devices_of
from ...serving.lateness import LateLimits
from ...serving.networks import AnyServed, ServedNetwork, as_served, scheduler_on
from ...serving.play import Loop
from ...serving.scheduler import Scheduler
from .plan_traffic import JointTraffic, depths_of
from .problem import PlanNumbers, PlanProblem
from .rules import Limit

MOST_TRIALS = 2**9
"""Trials that are ready to begin anew, at most."""

OF_HARDWARE = "time_s", "latency_s", "gather_s", "load"
"""Arrays of networks that rows of one source differ in."""


class TrialRun:
    """Runs with the same exits and policy; they may differ in where each request leaves, and in the hardware."""

    def __init__(self, given: AnyServed, traffic: JointTraffic, policy: Scheduler, requests: Any = None) -> None:
        networks = as_served(given)
        self._scheduler = scheduler_on(networks, policy)
        case = case_of(networks, traffic.device, self._scheduler)
        self._lasts, self._steps = zip(
            *((len(network.latency.exits), network.latency.exits[-1].steps) for network in networks), strict=True
        )
        # where the policy decides who leaves, requests begin with the last exit
        self._decides, self._exits = case.levels > 0, case.work.exit_of
        work = case.work._replace(exit_of=case.work.exit_of.copy())
        self._plain = case.terms is None
        if self._plain and requests is not None:
            work = work._replace(requests=requests)
        self._work = work
        self._shared = case.shared._replace(**{name: getattr(case.shared, name).copy() for name in OF_HARDWARE})
        self._loop = Loop(self._scheduler, work, self._shared, case.terms)
        self._begin_anew = self._loop.remember()

    @property
    def requests(self) -> Any:
        """The requests, if other trials of the same traffic may have them, too: no terms refer to them."""
        return self._work.requests if self._plain else None

    def move_to(self, networks: Sequence[ServedNetwork]) -> None:
        """Take the times of other hardware of the same kind."""
        devices = devices_of(networks, self._scheduler)
        for name in OF_HARDWARE:
            getattr(self._shared, name)[:] = np.concatenate([getattr(device, name).ravel() for device in devices])

    def fails(self, traffic: JointTraffic, limits: Sequence[Limit]) -> bool:
        """Whether more requests of a run, which leave where this traffic says, are late than may be."""
        exits = self._exits if self._decides else depths_of(traffic, traffic.exits, self._lasts, self._steps)
        self._work.exit_of[:] = exits
        # what clients send follows from the run itself
        arrival_s = traffic.trace.arrival_s if traffic.think_s is None else self._work.requests.arrival_s
        longer_than_s = np.array([limit.longer_than_s for limit in limits])
        allowed = np.array([limit.allowed for limit in limits], np.int64)
        counts = np.zeros((len(limits), 2), np.int64)
        fails = self._loop.exceeds(LateLimits(arrival_s, longer_than_s, allowed, counts))
        self._begin_anew()
        return fails


class Trials:
    """Trials of one problem, for one thread at a time."""

    def __init__(self, problem: PlanProblem) -> None:
        self._problem = problem
        self._trials: dict[tuple[int, int, int], tuple[TrialRun, int]] = {}  # and the row that each is on
        self._requests: dict[tuple[int, int], Any] = {}

    def on(self, plan: PlanNumbers, networks: Sequence[ServedNetwork]) -> TrialRun:
        """The trial of a plan, whose row has these networks; plans with the same exits have it together."""
        problem, first = self._problem, self._problem.first_alike[plan.setting]
        key, alike = (plan.source, first, plan.policy), (plan.source, first)
        if key not in self._trials:
            if len(self._trials) == MOST_TRIALS:
                self._trials.clear()
                self._requests.clear()
            traffic = problem.drawn(problem.settings[first], problem.traffic.seed)
            trial = TrialRun(networks, traffic, problem.policies[plan.policy], self._requests.get(alike))
            if trial.requests is not None:
                self._requests[alike] = trial.requests
            self._trials[key] = trial, plan.row
        trial, row = self._trials[key]
        if row != plan.row:
            trial.move_to(networks)
            self._trials[key] = trial, plan.row
        return trial


@contextmanager
def trials_of(problem: PlanProblem) -> Iterator[Trials]:
    """Trials of a problem that no other thread has."""
    try:
        trials = problem.idle_trials.pop()
    except IndexError:
        trials = Trials(problem)
    yield trials
    problem.idle_trials.append(trials)
