"""Simulations of plans: a race on one seed, and fresh seeds for those that win it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...serving.bound import least_late
from ...serving.figures import FIGURES
from ...serving.inputs import as_scheduler
from ...serving.metrics import Summary, summarise
from ...serving.outcome import Replay
from ...serving.replay import simulate
from ...serving.requirements import Requirement, judge
from ...serving.scheduler import Scheduler
from ...tables.latency import LatencyTable
from ...traffic.traffic import Traffic
from ..estimates import Estimate
from .problem import Fate, PlanProblem, fate_of, right_share
from .rules import limits_of, surely_run

PARTS = (1 / 16, 1 / 4)
"""Shares of a run after which it ends if too many requests are late already for a requirement to hold."""

SHOWN = ("accuracy", "accuracy_of_all", "served_accuracy", "mean", "p99", "violation_rate", "busy_share", "energy")
"""Figures of every plan, beside those that are required."""


class PlanNumbers(NamedTuple):
    """A plan: row of a source, setting and policy, by their numbers."""

    source: int
    row: int
    setting: int
    policy: int


class RaceTask(NamedTuple):
    """A row of a source, and settings, each with a fate and a bound that the 99th percentile must be below."""

    source: int
    row: int
    settings: tuple[int, ...]
    fates: tuple[Fate, ...]  # the policies that run it are those with this fate
    below_s: tuple[float, ...]  # infinite where nothing needs to be beaten


class Finisher(NamedTuple):
    """A plan that keeps all requirements on the first seed, and its figures there."""

    plan: PlanNumbers
    energy_j: float | None
    accuracy: float  # over all requests, those without an answer being wrong; 0 if it is not known
    p99_s: float


class RaceResult(NamedTuple):
    """What became of the plans on one row of a source."""

    kept: list[Finisher]
    hopeless: int  # that no policy can save
    ended: int  # runs that ended early, by proof
    whole: int  # runs that were simulated to their end


def race(problem: PlanProblem, task: RaceTask) -> RaceResult:
    """Simulate a row of a source with some settings and the policies of their fates, on the first seed."""
    source, row, hopeless, ended, run = task.source, task.row, 0, 0, 0
    kept: list[Finisher] = []
    table_of, by_fate = tables_of(problem, source, row), problem.by_fate()
    for number, fate, below_s in zip(task.settings, task.fates, task.below_s, strict=True):
        table, traffic = table_of(number), problem.drawn(number, problem.traffic.seed)
        required = [*problem.requirements, *to_beat(below_s)]
        if _hopeless(required, table, surely_run(traffic, fate)):
            hopeless += len(by_fate[fate])
            continue
        for at in by_fate[fate]:
            scheduler = as_scheduler(problem.policies[at], table)
            if _fails_early(required, table, traffic, scheduler):
                ended += 1
                continue
            run += 1
            summary = summarise(simulate(table, traffic, scheduler))
            if all(judge(_as_stated(requirement, fate), summary).holds for requirement in required):
                accuracy = _accuracy(problem, PlanNumbers(source, row, number, at), summary)
                p99_s = summary.percentile("p99").latency_s
                kept.append(Finisher(PlanNumbers(source, row, number, at), summary.energy_j, accuracy, p99_s))
    return RaceResult(kept, hopeless, ended, run)


def tables_of(problem: PlanProblem, source: int, row: int) -> Callable[[int], LatencyTable]:
    """The latency tables of a row of a source by the number of a setting."""
    causes = any(requirement.name == "mac_share" for requirement in problem.requirements)
    whole = problem.sources[source].table(row, causes=causes)
    tables: dict[tuple[int, ...], LatencyTable] = {}

    def table_of(setting: int) -> LatencyTable:
        """With its exits; thresholds change who leaves, which the traffic knows, and no time."""
        kept = problem.settings[setting].kept
        if kept not in tables:
            tables[kept] = problem.table(whole, setting)
        return tables[kept]

    return table_of


def _as_stated(requirement: Requirement, fate: Fate) -> Requirement:
    """A requirement on a figure that the summary has: where all requests get an answer, accuracy counts all of them."""
    served = requirement.name == "accuracy_of_all" and not fate.drops
    return replace(requirement, name="accuracy") if served else requirement


def _accuracy(problem: PlanProblem, plan: PlanNumbers, summary: Summary) -> float:
    """Accuracy of a plan over all requests, by its run on the first seed; 0 if it is not known."""
    most, served = problem.most_accuracy(plan.source, plan.setting), FIGURES["served_accuracy"].of(summary)
    ends, admission = summary.deadlines, summary.admission
    if served is not None:
        gone = 0.0 if ends is None else ends.dropped_rate + (0.0 if admission is None else admission.refused_rate)
        return (1 - gone) * served
    if ends is None or ends.accuracy_of_all is None or problem.settings[plan.setting].accuracy is None:
        return most
    return most + (ends.accuracy_of_all - right_share(problem.drawn(plan.setting, problem.traffic.seed)))


def to_beat(below_s: float) -> list[Requirement]:
    """The requirement that a plan has a 99th percentile below a bound, if there is one."""
    return [] if math.isinf(below_s) else [Requirement(f"p99 < {below_s:g}s", "p99", "<", below_s)]


def _hopeless(requirements: Sequence[Requirement], table: LatencyTable, traffic: Traffic) -> bool:
    """Whether even a scheduler that knows the future makes too many of the first requests late."""
    first = traffic.first(math.ceil(PARTS[-1] * len(traffic)))
    return any(
        least_late(table, first, limit.longer_than_s[: len(first)]) > limit.allowed
        for limit in limits_of(requirements, traffic)
    )


def _fails_early(
    requirements: Sequence[Requirement], table: LatencyTable, traffic: Traffic, scheduler: Scheduler
) -> bool:
    """Whether the first part of a run has more late requests already than the whole run may have."""
    limits = limits_of(requirements, traffic)
    arrival_s = traffic.trace.arrival_s
    for part in PARTS if limits else ():
        until_s = float(arrival_s[int(part * len(arrival_s))])
        if until_s <= arrival_s[0]:
            continue
        replay = simulate(table, traffic, scheduler, until_s=until_s)
        if any(surely_late(replay, limit.longer_than_s, until_s) > limit.allowed for limit in limits):
            return True
    return False


def surely_late(replay: Replay, longer_than_s: NDArray[np.float64], until_s: float) -> int:
    """Requests of a run that ended at ``until_s`` that took longer than a time, whatever comes later."""
    arrival_s = replay.traffic.trace.arrival_s
    due_s = arrival_s + longer_than_s[: len(arrival_s)]
    return int(((replay.finish_s > due_s) & (np.isfinite(replay.finish_s) | (due_s <= until_s))).sum())


@dataclass(frozen=True)
class FreshFigures:
    """Figures of a plan on some seeds, fresh ones for all that is printed."""

    figures: dict[str, Estimate]  # by name in requirements
    # whether each requirement is kept; None where the interval holds the bound, or an end of a measured error disagrees
    verdicts: list[bool | None]

    @property
    def kept(self) -> bool | None:
        """Whether all requirements surely hold; ``None`` if that is undecided, as none of them surely fails."""
        return False if False in self.verdicts else None if None in self.verdicts else True

    def excess(self, requirements: Sequence[Requirement]) -> float:
        """How far the worst figure is beyond its bound, as a share of the bound; infinite where it is not known."""
        return max(
            abs(self.figures[requirement.name].mean - requirement.bound) / max(abs(requirement.bound), 1e-9)
            if requirement.name in self.figures and not requirement.allows(self.figures[requirement.name].mean)
            else 0.0 if requirement.name in self.figures else math.inf
            for requirement in requirements
        )  # fmt: skip


def fresh_runs(
    problem: PlanProblem, table: LatencyTable, policy: Scheduler, traffics: Mapping[int, Traffic]
) -> FreshFigures:
    """The figures of hardware and policy on traffic by seed."""
    summaries = [summarise(simulate(table, traffic, as_scheduler(policy, table))) for traffic in traffics.values()]
    figures = {}
    for name in dict.fromkeys([*SHOWN, *(requirement.name for requirement in problem.requirements)]):
        values = [FIGURES[name].of(summary) for summary in summaries]
        known = [value for value in values if value is not None and math.isfinite(value)]
        if len(known) == len(values):
            intervals = [FIGURES[name].interval_of(summary).interval for summary in summaries]
            figures[name] = Estimate.of(FIGURES[name], known, traffics, intervals)
    if "accuracy" in figures and not fate_of(policy).drops:
        figures["accuracy_of_all"] = figures["accuracy"]
    verdicts = [_verdict(requirement, figures) for requirement in problem.requirements]
    for factor in table.ends:  # what holds at one end of a measured error only is undecided
        end = fresh_runs(problem, table.slower(factor), policy, traffics)
        verdicts = [here if here == there else None for here, there in zip(verdicts, end.verdicts, strict=True)]
    return FreshFigures(figures, verdicts)


def _verdict(requirement: Requirement, figures: dict[str, Estimate]) -> bool | None:
    figure = figures.get(requirement.name)
    return False if figure is None else figure.side(requirement)
