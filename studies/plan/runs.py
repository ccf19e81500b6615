"""Simulations of plans: a race on one seed, and fresh seeds for those that win it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...formats import InputError
from ...models import Network
from ...serving.bound import least_late
from ...serving.figures import FIGURES
from ...serving.inputs import as_scheduler
from ...serving.metrics import Summary, summarise
from ...serving.outcome import Replay
from ...serving.replay import simulate
from ...serving.requirements import Requirement, judge
from ...serving.scheduler import Scheduler
from ...tables.latency import LatencyTable
from ...traffic.arrivals import poisson
from ...traffic.distributions import Objective
from ...traffic.samples import Samples, draw_samples
from ...traffic.trace import Trace
from ...traffic.traffic import Traffic, prepare
from ..estimates import Estimate
from .exits import ExitSetting
from .rules import limits_of
from .sources import Source, with_setting

PARTS = (1 / 16, 1 / 4)
"""Shares of a run after which it ends if so many requests are late already that a requirement cannot hold."""

SHOWN = ("accuracy", "mean", "p99", "violation_rate", "busy_share")
"""Figures of every plan, beside those that are required."""


@dataclass(frozen=True)
class PlanTraffic:
    """The traffic that a plan is to serve: Poisson arrivals of a rate, or a trace."""

    rate_per_s: float | None
    trace: Trace | None
    count: int  # requests of a run with a rate
    slo_s: Objective | None
    samples: Samples | None
    seed: int  # of the race; fresh runs have the seeds after it
    seeds: int  # fresh runs

    @property
    def requests(self) -> int:
        """Requests of a run."""
        return self.count if self.trace is None else len(self.trace)

    @property
    def fresh(self) -> range:
        """Seeds of the fresh runs."""
        return range(self.seed + 1, self.seed + 1 + self.seeds)

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> Traffic:
        """The requests of a run; ``faster``: so many times as many in a second."""
        trace = self.trace if self.rate_per_s is None else poisson(self.rate_per_s, self.count, seed)
        assert trace is not None
        trace = replace(trace, arrival_s=trace.arrival_s / faster)
        if self.samples is not None:
            trace = draw_samples(trace, self.samples.at_exits(setting.kept, [1] * len(setting.kept)), seed)
        return prepare(trace, setting.rates, slo_s=self.slo_s, seed=seed, threshold=setting.thresholds)


@dataclass(frozen=True)
class PlanProblem:
    """What a plan is searched for."""

    network: Network
    sources: Sequence[Source]
    settings: Sequence[ExitSetting]
    policies: Sequence[Scheduler]
    requirements: Sequence[Requirement]
    traffic: PlanTraffic
    _drawn: dict[tuple[int, int], Traffic] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        given = self.network, self.sources, self.settings, self.policies, self.requirements, self.traffic
        return PlanProblem, given  # a worker draws its traffic itself

    def drawn(self, setting: int, seed: int) -> Traffic:
        """The requests of a run with a setting."""
        if (setting, seed) not in self._drawn:
            self._drawn[setting, seed] = self.traffic.draw(self.settings[setting], seed)
        return self._drawn[setting, seed]

    def table(self, whole: LatencyTable, setting: int) -> LatencyTable:
        """The latency table of hardware with the exits of a setting."""
        found, samples = self.settings[setting], self.traffic.samples
        return with_setting(whole, found, found.exits(self.network, samples and samples.measure))

    def judged(self, summary: Summary) -> list[bool]:
        """Whether a run keeps each requirement."""
        return [judge(item, summary).holds for item in self.requirements]


class Candidate(NamedTuple):
    """A plan: row of a source, setting and policy, by their numbers."""

    source: int
    row: int
    setting: int
    policy: int


class RaceResult(NamedTuple):
    """What became of the plans on one row of a source."""

    kept: list[Candidate]  # that keep all requirements on the first seed
    hopeless: int  # that no policy can save
    ended: int  # runs that ended early, by proof
    whole: int  # runs that were simulated to their end


def race(problem: PlanProblem, task: tuple[int, int, Sequence[int]]) -> RaceResult:
    """Simulate a row of a source with some settings and every policy, on the first seed."""
    source, row, settings = task
    whole, hopeless, ended, run = problem.sources[source].table(row), 0, 0, 0
    kept = []
    tables: dict[tuple[int, ...], LatencyTable] = {}  # by the exits that are kept, whatever their thresholds
    for number in settings:
        setting, traffic = problem.settings[number], problem.drawn(number, problem.traffic.seed)
        if setting.kept not in tables:
            tables[setting.kept] = problem.table(whole, number)
        alike = tables[setting.kept]
        if _hopeless(problem.requirements, alike, traffic):
            hopeless += len(problem.policies)
            continue
        table = problem.table(alike, number)
        for at, policy in enumerate(problem.policies):
            scheduler = as_scheduler(policy, table)
            if _fails_early(problem.requirements, table, traffic, scheduler):
                ended += 1
                continue
            run += 1
            if all(problem.judged(summarise(simulate(table, traffic, scheduler)))):
                kept.append(Candidate(source, row, number, at))
    return RaceResult(kept, hopeless, ended, run)


def _hopeless(requirements: Sequence[Requirement], table: LatencyTable, traffic: Traffic) -> bool:
    """Whether even a scheduler that knows the future makes too many of the first requests late."""
    first = traffic.first(math.ceil(PARTS[-1] * len(traffic)))
    return any(
        least_late(table, first, item.longer_than_s[: len(first)]) > item.allowed
        for item in limits_of(requirements, traffic)
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
        if any(surely_late(replay, item.longer_than_s, until_s) > item.allowed for item in limits):
            return True
    return False


def surely_late(replay: Replay, longer_than_s: np.ndarray, until_s: float) -> int:
    """Requests of a run that ended at ``until_s`` that took longer than a time, whatever comes later."""
    arrival_s = replay.traffic.trace.arrival_s
    due_s = arrival_s + longer_than_s[: len(arrival_s)]
    return int(((replay.finish_s > due_s) & (np.isfinite(replay.finish_s) | (due_s <= until_s))).sum())


@dataclass(frozen=True)
class FreshFigures:
    """Figures of a plan on fresh seeds."""

    figures: dict[str, Estimate]  # by name in requirements
    verdicts: list[bool | None]  # whether each requirement is kept; None where the interval holds the bound

    @property
    def kept(self) -> bool:
        """Whether all requirements surely hold."""
        return all(verdict is True for verdict in self.verdicts)


def fresh_runs(problem: PlanProblem, table: LatencyTable, policy: Scheduler, traffics: Sequence[Traffic]) -> FreshFigures:
    """The figures of hardware and policy on fresh traffic."""
    summaries = [summarise(simulate(table, item, as_scheduler(policy, table))) for item in traffics]
    figures = {}
    for name in dict.fromkeys([*SHOWN, *(item.name for item in problem.requirements)]):
        values = [FIGURES[name].of(item) for item in summaries]
        known = [value for value in values if value is not None and math.isfinite(value)]
        if len(known) == len(values):
            intervals = [FIGURES[name].interval_of(item).interval for item in summaries]
            figures[name] = Estimate.of(known, problem.traffic.fresh, intervals)
    return FreshFigures(figures, [_verdict(item, figures) for item in problem.requirements])


def _verdict(requirement: Requirement, figures: dict[str, Estimate]) -> bool | None:
    found = figures.get(requirement.name)
    if found is None:
        return False
    if found.low is None or found.high is None:
        return requirement.allows(found.mean)
    low, high = requirement.allows(found.low), requirement.allows(found.high)
    return low if low == high else None
