"""What a plan is searched for: hardware, exits, policies, requirements and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...dse.exits.stage_times import stage_times
from ...formats import InputError
from ...models import Network
from ...serving.requirements import Requirement, check_stated
from ...serving.scheduler import Scheduler
from ...serving.terms import ANSWER
from ...tables.latency import LatencyTable
from ...traffic.measures import NEVER, Threshold
from ...traffic.samples import Samples
from ...traffic.traffic import Traffic
from .branches import Branch, branches_of
from .exits import ExitSetting, as_stated, chosen_settings, every_setting, leavers, settings_of
from .plan_traffic import PlanTraffic, right_share
from .sources import Source, with_setting

KEPT = 2**24
"""Requests of runs whose exits are kept, together: 130 MB."""


class Fate(NamedTuple):
    """What a policy may do with a request beside serving it up to its exit."""

    drops: bool  # it may go without an answer
    early: bool  # it may return with the answer of an exit before its own


def fate_of(policy: Scheduler) -> Fate:
    """What a policy may do with a request."""
    return Fate(bool(policy.on_deadline or policy.admit), policy.on_deadline == ANSWER)


class Pairing(NamedTuple):
    """A setting and the policies of one fate, on the rows of a source."""

    source: int
    setting: int
    fate: Fate
    policies: list[int]
    most: float  # accuracy, at most


class PairedTree(NamedTuple):
    """Pairings of a source, a fate and the exits that are kept."""

    source: int
    fate: Fate
    branch: Branch
    pairing_of: dict[int, int]  # number of the pairing of a setting


@dataclass(frozen=True)
class PlanProblem:
    """What a plan is searched for."""

    network: Network
    sources: Sequence[Source]
    settings: Sequence[ExitSetting]
    policies: Sequence[Scheduler]
    requirements: Sequence[Requirement]
    traffic: PlanTraffic
    _drawn: dict[tuple[tuple[int, ...], int], Traffic] = field(default_factory=dict, compare=False, repr=False)
    _decided: dict[tuple[Any, ...], Traffic] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        given = self.network, self.sources, self.settings, self.policies, self.requirements, self.traffic
        return PlanProblem, given  # a worker draws its traffic itself

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

    def drawn(self, setting: ExitSetting, seed: int) -> Traffic:
        """The requests of a run with a setting; all that keep the same exits share what is drawn."""
        kept, thresholds = setting.kept, setting.thresholds
        drawn = self._drawn.get((kept, seed))
        if drawn is None:
            drawn = self._drawn[kept, seed] = self.traffic.draw(setting, seed)
        if thresholds is None:
            return drawn
        decided = self._decided.get((kept, thresholds, seed))
        if decided is None:
            if len(self._decided) * self.traffic.requests > KEPT:
                self._decided.clear()
            decided = self._decided[kept, thresholds, seed] = drawn.decided(thresholds, len(kept) + 1)
        return decided

    @cached_property
    def first_alike(self) -> list[int]:
        """For each setting, the number of the first one that keeps the same exits."""
        first: dict[tuple[int, ...], int] = {}
        return [first.setdefault(setting.kept, number) for number, setting in enumerate(self.settings)]

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
        traffic = self.drawn(self.settings[setting], self.traffic.seed)
        return ours + (right_share(traffic, early=True) - right_share(traffic))

    @cached_property
    def right_shares(self) -> NDArray[np.float64]:
        """By setting, the share of the requests of the first seed whose answer at their exit is right."""
        shares = np.zeros(len(self.settings))
        for tree in branches_of(self.settings, range(len(self.settings))):
            numbers, traffic = list(tree.numbers), self.drawn(tree.earliest, self.traffic.seed)
            if self.traffic.samples is None:
                shares[numbers] = right_share(traffic)
                continue
            assert traffic.trace.confidences is not None
            assert traffic.trace.correct is not None
            levels = np.array([self.settings[number].levels for number in numbers])
            _, right = leavers(traffic.trace.confidences, traffic.trace.correct, levels)
            shares[numbers] = right.sum(axis=1) / len(traffic)
        return shares

    @cached_property
    def every_pairing(self) -> list[Pairing]:
        """Each setting with the policies of each fate to which it is of use, on each source."""
        return [
            Pairing(number, setting, fate, policies, self.most_accuracy(number, setting, early=fate.early))
            for number, source in enumerate(self.sources)
            for fate, policies in self.by_fate().items()
            for setting in self.settings_of(source, fate)
        ]

    @cached_property
    def pairings(self) -> list[Pairing]:
        """Pairings with enough right answers, on any hardware."""
        return [pairing for pairing in self.every_pairing if _right_enough(self, pairing)]

    @cached_property
    def trees(self) -> list[PairedTree]:
        """The pairings as trees."""
        numbers: dict[tuple[int, Fate], dict[int, int]] = {}
        for number, pairing in enumerate(self.pairings):
            numbers.setdefault((pairing.source, pairing.fate), {})[pairing.setting] = number
        return [
            PairedTree(source, fate, branch, pairing_of)
            for (source, fate), pairing_of in numbers.items()
            for branch in branches_of(self.settings, pairing_of)
        ]

    @cached_property
    def _paths(self) -> dict[tuple[int, Fate], dict[int, tuple[Branch, ...]]]:
        paths: dict[tuple[int, Fate], dict[int, tuple[Branch, ...]]] = {}
        for tree in self.trees:
            paths.setdefault((tree.source, tree.fate), {}).update(tree.branch.paths())
        return paths

    def path(self, source: int, fate: Fate, setting: int) -> tuple[Branch, ...]:
        """The branches of the trees that a setting is on, the largest first."""
        return self._paths[source, fate][setting]

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
        Those that are tried at each exit. By default the usual ones
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
    if every_setting(network.exits, tried, never=never):
        return settings_of(network.exits, samples, tried, never=never)
    fastest = [source.table(source.fastest) for source in sources]
    stage_s = [stage_times(table, network) for table in fastest]
    return chosen_settings(network.exits, samples, tried, stage_s, never=never)


def _right_enough(problem: PlanProblem, pairing: Pairing) -> bool:
    """Whether enough answers of a setting are right, on any hardware."""
    source, setting = problem.sources[pairing.source], problem.settings[pairing.setting]
    right = [requirement for requirement in problem.requirements if requirement.name in ("accuracy", "accuracy_of_all")]
    known_right = problem.drawn(problem.settings[0], problem.traffic.seed).trace.correct is not None or None
    check_stated(right, accuracy=known_right, accuracy_of_all=known_right)
    known: list[tuple[Requirement, float]] = []
    if any(_bounded(requirement, pairing.fate) for requirement in right):
        share = problem.right_shares[pairing.setting]
        if pairing.fate.early:
            share = right_share(problem.drawn(setting, problem.traffic.seed), early=True)
        known = [(requirement, float(share)) for requirement in right if _bounded(requirement, pairing.fate)]
    known += [
        (requirement, source.accuracy)
        for requirement in problem.requirements
        if requirement.name == "served_accuracy" and requirement.comparator[0] == ">" and source.accuracy is not None
    ]
    return all(requirement.allows(value) for requirement, value in known)


def _bounded(requirement: Requirement, fate: Fate) -> bool:
    """Whether the share of right answers excludes a plan; those that are given may be right more often than all."""
    return not fate.drops or (requirement.name == "accuracy_of_all" and requirement.comparator in (">=", ">"))
