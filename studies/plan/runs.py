"""Simulations of plans: a race on one seed, and fresh seeds for those that win it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from ...serving.figures import FIGURES
from ...serving.metrics import figures_of
from ...serving.networks import ServedNetwork, ends_of, scheduler_on
from ...serving.replay import simulate
from ...serving.requirements import Requirement, figure_text, judge_all
from ...serving.scheduler import Scheduler
from ...serving.summary import Figures
from ...tables.latency import LatencyTable
from ..estimates import Estimate
from .hope import Hope, RaceTask, required_of
from .plan_traffic import JointTraffic, right_share
from .problem import Fate, PlanNumbers, PlanProblem
from .rules import limits_of
from .trials import Trials, trials_of

SHOWN = ("accuracy", "accuracy_of_all", "served_accuracy", "mean", "p99", "violation_rate", "busy_share", "energy")
"""Figures of every plan, beside those that are required."""


class Finisher(NamedTuple):
    """A plan that keeps all requirements on the first seed, and its figures there."""

    plan: PlanNumbers
    cost: float  # at least
    energy_j: float | None
    accuracy: float  # over all requests, those without an answer being wrong; 0 if it is not known
    p99_s: float


class RaceResult(NamedTuple):
    """What became of the plans on one row of a source."""

    kept: list[Finisher]
    hopeless: int  # that no policy can save
    ended: int  # runs that ended early, by proof
    whole: int  # runs that were simulated to their end
    left: int  # entrants that were not tried, the last ones


def race(problem: PlanProblem, task: RaceTask) -> RaceResult:
    """Simulate a row of a source with some settings and the policies of their fates, on the first seed."""
    with trials_of(problem) as trials:
        return _race(problem, task, trials)


def _race(problem: PlanProblem, task: RaceTask, trials: Trials) -> RaceResult:
    """The same with trials that may have run."""
    source, row, hopeless, ended, run = task.source, task.row, 0, 0, 0
    kept: list[Finisher] = []
    served_on, by_fate = networks_on(problem, source, row), problem.by_fate()
    hope = Hope(problem, task, problem.sources[source].layer_times(row))
    for tried, entrant in enumerate(task.entries):
        if -entrant.less < max((one.accuracy for one in kept), default=-math.inf):
            return RaceResult(kept, hopeless, ended, run, len(task.entries) - tried)
        _, number, fate, below_s, cost = entrant
        numbers = by_fate[fate]
        if not problem.by_stage[fate]:  # the others were judged by near times
            numbers = [at for at in numbers if hope.of(entrant, by_layer=problem.policies[at].policy.by_layer)]
        hopeless += len(by_fate[fate]) - len(numbers)
        if not numbers:
            continue
        traffic = problem.drawn(problem.settings[number], problem.traffic.seed)
        served, required = served_on(number), required_of(problem, below_s)
        limits = limits_of(required, traffic)
        for at in numbers:
            plan = PlanNumbers(source, row, number, at)
            if limits and trials.on(plan, served).fails(traffic, limits):
                ended += 1
                continue
            run += 1
            figures = figures_of(simulate(served, traffic.device, scheduler_on(served, problem.policies[at])))
            if all(verdict.holds for verdict in judge_all((_as_stated(one, fate) for one in required), figures)):
                p99_s = figures.whole.percentile("p99").latency_s
                kept.append(Finisher(plan, cost, figures.whole.energy_j, _accuracy(problem, plan, figures), p99_s))
    return RaceResult(kept, hopeless, ended, run, 0)


def networks_on(problem: PlanProblem, source: int, row: int) -> Callable[[int], tuple[ServedNetwork, ...]]:
    """The networks on a row of a source by the number of a setting."""

    @cache
    def whole() -> Sequence[LatencyTable]:
        causes = any(requirement.name == "mac_share" for requirement in problem.requirements)
        return problem.sources[source].tables(row, causes=causes)

    # with the exits of a setting; thresholds change who leaves, which the traffic knows, and no time
    served_with = cache(lambda first: problem.served(whole(), first))
    return lambda setting: served_with(problem.first_alike[setting])


def _as_stated(requirement: Requirement, fate: Fate) -> Requirement:
    """A requirement on a figure that the summary has: where all requests get an answer, accuracy counts all of them."""
    served = requirement.name == "accuracy_of_all" and not fate.drops
    return replace(requirement, name="accuracy") if served else requirement


def _accuracy(problem: PlanProblem, plan: PlanNumbers, figures: Figures) -> float:
    """Accuracy of a plan over all requests, by its run on the first seed; 0 if it is not known."""
    most, summary = problem.most_accuracy(plan.source, plan.setting), figures.whole
    ends, admission, served = summary.deadlines, summary.admission, FIGURES["served_accuracy"].of(summary)
    if served is not None:
        gone = 0.0 if ends is None else ends.dropped_rate + (0.0 if admission is None else admission.refused_rate)
        return (1 - gone) * served
    of_each = [part.deadlines.accuracy_of_all for part in figures.parts.values() if part.deadlines is not None]
    known = [right for right in of_each if right is not None]
    if not known or problem.settings[plan.setting].accuracy is None:
        return most
    traffic = problem.drawn(problem.settings[plan.setting], problem.traffic.seed)
    return most + (sum(known) / len(known) - right_share(traffic))


@dataclass(frozen=True)
class FreshFigures:
    """Figures of a plan on some seeds, fresh ones for all that is printed."""

    figures: dict[str, Estimate]  # by name in requirements, of a network with its name
    # whether each requirement is kept; None where the interval holds the bound, or an end of a measured error disagrees
    verdicts: list[bool | None]

    @property
    def kept(self) -> bool | None:
        """Whether all requirements surely hold; ``None`` if that is undecided, as none of them surely fails."""
        return False if False in self.verdicts else None if None in self.verdicts else True

    def excess(self, requirements: Sequence[Requirement]) -> float:
        """How far the worst figure is beyond its bound, as a share of the bound; infinite where it is not known."""
        return max(
            abs(self.figures[requirement.figure].mean - requirement.bound) / max(abs(requirement.bound), 1e-9)
            if requirement.figure in self.figures and not requirement.allows(self.figures[requirement.figure].mean)
            else 0.0 if requirement.figure in self.figures else math.inf
            for requirement in requirements
        )  # fmt: skip


def fresh_runs(
    problem: PlanProblem, served: Sequence[ServedNetwork], policy: Scheduler, traffics: Mapping[int, JointTraffic]
) -> FreshFigures:
    """The figures of networks on hardware, and policy, on traffic by seed."""
    scheduler = scheduler_on(served, policy)
    runs = [figures_of(simulate(served, traffic.device, scheduler)) for traffic in traffics.values()]
    figures: dict[str, Estimate] = {}
    for name, network in _shown(problem):
        summaries = [run.of(network) for run in runs]
        values = [FIGURES[name].of(summary) for summary in summaries]
        known = [value for value in values if value is not None and math.isfinite(value)]
        if len(known) == len(values):
            intervals = [FIGURES[name].interval_of(summary).interval for summary in summaries]
            figures[figure_text(name, network)] = Estimate.of(FIGURES[name], known, traffics, intervals)
    if not problem.fate_of(policy).drops:
        for network in [None, *problem.traffic.names]:
            if (right := figures.get(figure_text("accuracy", network))) is not None:
                figures[figure_text("accuracy_of_all", network)] = right
    verdicts = [_verdict(requirement, figures) for requirement in problem.requirements]
    for slower in ends_of(served).values():  # what holds at one end of a measured error only is undecided
        end = fresh_runs(problem, slower, policy, traffics)
        verdicts = [here if here == there else None for here, there in zip(verdicts, end.verdicts, strict=True)]
    return FreshFigures(figures, verdicts)


def _shown(problem: PlanProblem) -> list[tuple[str, str | None]]:
    """Figures of every plan, and the network of each, or none if they are of all requests."""
    right = [(name, network) for network in problem.traffic.names for name in ("accuracy", "accuracy_of_all")]
    required = [(requirement.name, requirement.network) for requirement in problem.requirements]
    return list(dict.fromkeys([*((name, None) for name in SHOWN), *right, *required]))


def _verdict(requirement: Requirement, figures: dict[str, Estimate]) -> bool | None:
    figure = figures.get(requirement.figure)
    return False if figure is None else figure.side(requirement)
