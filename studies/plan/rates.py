"""Plans at several rates of requests, and the highest rate at which there is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats
from .branches import first_to_leave
from .exits import ExitSetting
from .field import Cost
from .least import LeastTimes
from .problem import PlanProblem
from .rules import least_work, limits_of
from .search import AS_USUAL, Plan, Plans, SearchRun, find_plans
from .sources import Source
from .steps import PlanStep

RATIO = 1.005
"""Highest rate kept and the one above it that is not, of :func:`find_highest_rate`, differ by at most this factor."""

HALVINGS = 12
"""How often the highest rate that is possible at all is halved, at most."""


class FrontPlan(NamedTuple):
    """A plan, and the search at a rate that found it."""

    search: Plans
    plan: Plan

    @property
    def rate_per_s(self) -> float | None:
        """The rate at which it keeps the requirements; ``None`` for a trace."""
        return self.search.problem.traffic.rate_per_s

    def as_good_as(self, other: FrontPlan) -> bool:
        """Whether it costs at most as much, and is at least as good in all that the front is over."""
        here, there = self.plan, other.plan
        no_later = here.fresh.figures["p99"].mean <= there.fresh.figures["p99"].mean
        return here.cost <= there.cost and here.accuracy >= there.accuracy and (no_later or not self.search.over_p99)


class PlanAnswer(NamedTuple):
    """The searches at each rate, the highest first, and the plans that no plan at a higher rate makes needless."""

    searches: list[Plans]
    front: list[FrontPlan]
    steps: Sequence[PlanStep] = ()  # what the first plan becomes with less of each resource, or more traffic
    notes: Sequence[str] = ()  # what a user should know of the file of finished simulations


def find_at_rates(
    problem: PlanProblem,
    rates_per_s: Sequence[float] = (),
    cost: Cost = "dsps",
    run: SearchRun = AS_USUAL,
    *,
    over_p99: bool = False,
) -> PlanAnswer:
    """Find the plans at each of several rates; of a plan at a lower rate only if no plan at a higher one is as good.

    Without rates, the traffic is as the problem has it.
    """
    problems = [problem.at_rate(rate_per_s) for rate_per_s in sorted(rates_per_s, reverse=True)] or [problem]
    searches: list[Plans] = []
    front: list[FrontPlan] = []
    for here in problems:
        search = find_plans(here, cost, run, over_p99=over_p99)
        searches.append(search)
        plans = [FrontPlan(search, plan) for plan in search.front]
        front += [plan for plan in plans if not any(other.as_good_as(plan) for other in front)]
    return PlanAnswer(searches, front)


def find_highest_rate(problem: PlanProblem, run: SearchRun = AS_USUAL) -> float | None:
    """Find the highest Poisson rate at which some plan keeps the requirements, by bisection to within :data:`RATIO`.

    Designs that other ones beat are left out here (:func:`find_plans`, ``first``).  The ``progress`` of the run is
    called with rates that were tried, and how many will be, with the search for the plans at the highest one.
    """
    tried, progress, silent = 0, run.progress, replace(run, progress=None)

    def holds(rate_per_s: float, between: float) -> bool:
        nonlocal tried
        if progress:  # this one, those after it, and the search for the plans at the highest one
            progress(tried, tried + 1 + max(0, math.ceil(math.log2(math.log(between) / math.log(RATIO)))) + 1)
        tried += 1
        here = problem.at_rate(rate_per_s)
        return bool(find_plans(here, "work", silent, first=True).front)

    high = _most_of_all(problem)
    low = high / 2
    for _ in range(HALVINGS):
        if holds(low, high / low):
            break
        high, low = low, low / 2
    else:
        return None
    while high / low > RATIO:
        middle = math.sqrt(high * low)
        low, high = (middle, high) if holds(middle, middle / low) else (low, middle)
    if progress:
        progress(tried, tried + 1)
    return low


def lowest_rate(problem: PlanProblem) -> float:
    """The lowest rate that :func:`find_highest_rate` tries."""
    return _most_of_all(problem) / float(2**HALVINGS)


def _most_of_all(problem: PlanProblem) -> float:
    """Rate beyond which all hardware has more work than time, with any setting."""
    return max(_most(problem, source) for source in problem.sources)


def _most(problem: PlanProblem, source: Source) -> float:
    """Rate beyond which the hardware of a source has more work than time, with any setting."""
    least_s, fates = math.inf, problem.by_fate()
    for number in first_to_leave(problem.settings, range(len(problem.settings))):
        setting = problem.settings[number]
        rates = np.array(setting.rates)
        if not all(fate.drops for fate in fates):
            least_s = min(least_s, source.lowest(partial(_work_by_row, setting, rates))[0])
        if any(fate.drops for fate in fates):
            at_first = np.eye(len(rates))[0]
            least_s = min(
                least_s, _answered(problem, number) * source.lowest(partial(_work_by_row, setting, at_first))[0]
            )
    return source.speedup / least_s


def _work_by_row(setting: ExitSetting, shares: Floats, least: LeastTimes) -> Floats:
    """Least work of a sample, by row, if these shares leave at the exits of a setting."""
    return least_work(least, setting)[:, np.array([*setting.kept, least.stages]) - 1] @ shares


def _answered(problem: PlanProblem, setting: int) -> float:
    """Share of the requests that must have an answer."""
    traffic = problem.at_rate(1.0).drawn(problem.settings[setting], problem.traffic.seed)
    if any(
        requirement.name == "mean" and requirement.comparator in ("<=", "<") for requirement in problem.requirements
    ):
        return 1.0
    late = [limit.allowed for limit in limits_of(problem.requirements, traffic)]
    if not late or min(late) == len(traffic):
        raise InputError(
            "rate: expected a requirement that limits how many requests stay without an answer, as max is asked for, "
            "e.g. 'violation_rate <= 1 %', found none; state one, or leave out on_deadline and admit"
        )
    return 1 - min(late) / len(traffic)
