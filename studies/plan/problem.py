"""What a plan is searched for: hardware, exits, policies, requirements and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...dse.exits.stage_times import stage_times
from ...formats import InputError
from ...models import Network
from ...serving.requirements import Requirement
from ...serving.scheduler import Scheduler
from ...serving.terms import ANSWER
from ...tables.latency import LatencyTable
from ...traffic.arrivals import poisson
from ...traffic.distributions import Objective
from ...traffic.measures import NEVER, Measure, Threshold
from ...traffic.samples import Samples, draw_samples
from ...traffic.trace import Trace
from ...traffic.traffic import Traffic, prepare
from .exits import MOST_SUBSETS, ExitSetting, as_stated, chosen_settings, settings_of
from .sources import Source, with_setting

KEPT = 2**23
"""Requests that are kept of all runs together: some hundred MB."""


class Fate(NamedTuple):
    """What a policy may do with a request beside serving it up to its exit."""

    drops: bool  # it may go without an answer
    early: bool  # it may return with the answer of an exit before its own


def fate_of(policy: Scheduler) -> Fate:
    """What a policy may do with a request."""
    return Fate(bool(policy.on_deadline or policy.admit), policy.on_deadline == ANSWER)


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
    def measure(self) -> Measure | None:
        """The measure of the samples' thresholds."""
        return None if self.samples is None else self.samples.measure

    @property
    def requests(self) -> int:
        """Requests of a run."""
        return self.count if self.trace is None else len(self.trace)

    @property
    def fresh(self) -> range:
        """Seeds of the fresh runs."""
        return range(self.seed + 1, self.seed + 1 + self.seeds)

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> Traffic:
        """The requests of a run; ``faster``: the factor by which more arrive in a second."""
        trace = self.trace if self.rate_per_s is None else poisson(self.rate_per_s, self.count, seed)
        assert trace is not None
        trace = replace(trace, arrival_s=trace.arrival_s / faster)
        if self.samples is not None:
            trace = draw_samples(trace, self.samples.at_exits(setting.kept, [1] * len(setting.kept)), seed)
        return prepare(trace, setting.rates, slo_s=self.slo_s, seed=seed, threshold=setting.thresholds)


def right_share(traffic: Traffic, *, early: bool = False) -> float:
    """Share of the requests whose answer at their exit is right; ``early``: at their exit or at one before it."""
    correct = traffic.trace.correct
    assert correct is not None
    if early:
        passed = np.arange(1, correct.shape[1] + 1) <= traffic.exits[:, None]
        return float((correct.astype(np.bool_) & passed).any(axis=1).mean())
    return float(correct[np.arange(len(traffic)), traffic.exits - 1].mean())


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

    @property
    def every_subset(self) -> bool:
        """Whether every subset of the exits is a choice, if there are samples."""
        return _every_subset(self.network)

    def at_rate(self, rate_per_s: float) -> PlanProblem:
        """The same with another rate."""
        given = self.network, self.sources, self.settings, self.policies, self.requirements
        return PlanProblem(*given, replace(self.traffic, rate_per_s=rate_per_s))

    def settings_of(self, source: Source, fate: Fate) -> list[int]:
        """Settings that are of use on hardware with the policies of a fate.

        All exits must be kept where times are not known by layer. Where exits can be left out and no request is
        answered early, an exit with ``never`` only costs time.
        """
        return [
            number
            for number, setting in enumerate(self.settings)
            if (fate.early or not setting.waits if source.drops else setting.keeps_all(self.network))
        ]

    def drawn(self, setting: int, seed: int) -> Traffic:
        """The requests of a run with a setting."""
        traffic = self._drawn.get((setting, seed))
        if traffic is None:
            traffic = self.traffic.draw(self.settings[setting], seed)
            if len(self._drawn) * self.traffic.requests > KEPT:
                self._drawn.clear()
            self._drawn[setting, seed] = traffic
        return traffic

    def by_fate(self) -> dict[Fate, list[int]]:
        """The numbers of the policies, by what they may do with a request."""
        numbers: dict[Fate, list[int]] = {}
        for number, policy in enumerate(self.policies):
            numbers.setdefault(fate_of(policy), []).append(number)
        return numbers

    def most_accuracy(self, source: int, setting: int, *, early: bool = False) -> float:
        """Accuracy of a setting on some hardware: of its samples, or at most of its SubNets; 0 if not known.

        ``early``: at most, where requests may return with the answer of any exit before their own.
        """
        ours = self.settings[setting].accuracy
        if ours is None:
            return self.sources[source].accuracy or 0.0
        if not early:
            return ours
        traffic = self.drawn(setting, self.traffic.seed)
        return ours + (right_share(traffic, early=True) - right_share(traffic))

    def table(self, whole: LatencyTable, setting: int) -> LatencyTable:
        """The latency table of hardware with the exits of a setting."""
        chosen = self.settings[setting]
        return with_setting(whole, chosen, chosen.exits(self.network, self.traffic.measure))


def problem_of(
    network: Network,
    sources: Sequence[Source],
    policies: Sequence[Scheduler],
    requirements: Sequence[Requirement],
    traffic: PlanTraffic,
    thresholds: Sequence[Threshold] | None = None,
) -> PlanProblem:
    """The problem of what a user asked for, checked before anything is simulated.

    Parameters
    ----------
    network : Network
        With the exits that may be kept.
    sources : sequence of Source
        The hardware.
    policies : sequence of Scheduler
        The policies.
    requirements : sequence of Requirement
        What must hold.
    traffic : PlanTraffic
        The requests.
    thresholds : sequence of Threshold, optional
        Those that are tried, the same at all exits; ``never`` may stand beside another one. By default the usual ones
        of the samples' measure, and ``never``.

    Returns
    -------
    PlanProblem
        With every setting of the exits.

    Raises
    ------
    InputError
        If something is missing or does not fit.
    """
    faults = []
    if (traffic.rate_per_s is None) == (traffic.trace is None):
        faults.append("rate: expected a rate or a trace, found " + ("neither" if traffic.trace is None else "both"))
    if thresholds is not None and traffic.samples is None:
        faults.append("thresholds: expected samples, which decide by them who leaves, found none; add samples")
    named = [source.name for source in sources]
    faults += [
        f"platforms: expected each once, found {name} twice" for name in dict.fromkeys(named) if named.count(name) > 1
    ]
    faults += [
        f"{source.name}: expected times of {len(network.exits)} exits, which {network.name} has, found {source.stages}"
        for source in sources
        if source.stages != len(network.exits)
    ]
    if faults:
        raise InputError(faults)
    never = any(fate_of(policy).early for policy in policies) or not all(source.drops for source in sources)
    settings = _settings(network, sources, traffic.samples, thresholds, never=never)
    problem = PlanProblem(network, sources, settings, policies, requirements, traffic)
    faults = [
        f"{source.name}: expected times by layer, so that exits can be left out, or thresholds for every exit, found "
        "neither; try lower thresholds, or never, too"
        for source in sources
        if not any(problem.settings_of(source, fate) for fate in problem.by_fate())
    ]
    if faults:
        raise InputError(faults)
    return problem


def _every_subset(network: Network) -> bool:
    return len(network.exits) - 1 <= MOST_SUBSETS


def _settings(
    network: Network,
    sources: Sequence[Source],
    samples: Samples | None,
    thresholds: Sequence[Threshold] | None,
    *,
    never: bool,
) -> list[ExitSetting]:
    """Every setting of the exits, or those that PAME's rule chooses where exits are many."""
    if samples is None:
        return as_stated(network.exits)
    tried = (*samples.measure.usual, NEVER) if thresholds is None else thresholds
    if _every_subset(network):
        return settings_of(network.exits, samples, tried, never=never)
    fastest = [source.table(source.fastest) for source in sources]
    stage_s = [stage_times(table, network) for table in fastest]
    return chosen_settings(network.exits, samples, tried, stage_s, never=never)
