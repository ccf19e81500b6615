"""What a plan is searched for: hardware, exits, policies, requirements and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats
from ...models import Network
from ...serving.deadlines import ANSWER
from ...serving.networks import ServedNetwork
from ...serving.requirements import Requirement, check_stated
from ...serving.scheduler import Scheduler
from ...tables.latency import LatencyTable
from ...traffic.measures import Threshold
from .branches import Branch, branches_of
from .exits import ExitSetting, leavers
from .networks import one_behind_another
from .plan_traffic import ALONE, ArrivalWords, JointTraffic, PlanTraffic, right_share, right_share_of
from .settings import tried_settings
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


class PlanNumbers(NamedTuple):
    """A plan: row of a source, setting and policy, by their numbers."""

    source: int
    row: int
    setting: int
    policy: int


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
    _drawn: dict[tuple[tuple[int, ...], int], JointTraffic] = field(default_factory=dict, compare=False, repr=False)
    _decided: dict[tuple[Any, ...], JointTraffic] = field(default_factory=dict, compare=False, repr=False)
    idle_trials: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)  # that no thread has

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

    def drawn(self, setting: ExitSetting, seed: int) -> JointTraffic:
        """The requests of a run with a setting; all that keep the same exits share what is drawn."""
        kept, thresholds = setting.kept, setting.thresholds
        drawn = self._drawn.get((kept, seed))
        if drawn is None:
            drawn = self._drawn[kept, seed] = self.traffic.draw(setting, seed)
        decided = self._decided.get((kept, thresholds, seed))
        if decided is None:
            if len(self._decided) * self.traffic.requests > KEPT:
                self._decided.clear()
            decided = self._decided[kept, thresholds, seed] = drawn.decided(thresholds, len(kept) + 1)
        return decided

    @property
    def networks(self) -> Sequence[Network]:
        """The networks, one behind the other in :attr:`network`."""
        return self.traffic.models

    @cached_property
    def first_alike(self) -> list[int]:
        """For each setting, the number of the first one that keeps the same exits."""
        first: dict[tuple[int, ...], int] = {}
        return [first.setdefault(setting.kept, number) for number, setting in enumerate(self.settings)]

    def by_fate(self) -> dict[Fate, list[int]]:
        """The numbers of the policies, by what they may do with a request."""
        numbers: dict[Fate, list[int]] = {}
        for number, policy in enumerate(self.policies):
            numbers.setdefault(self.fate_of(policy), []).append(number)
        return numbers

    @cached_property
    def by_stage(self) -> dict[Fate, bool]:
        """Whether all policies of a fate keep the batch of a stage; with others each layer may have its own."""
        return {
            fate: not any(self.policies[number].policy.by_layer for number in numbers)
            for fate, numbers in self.by_fate().items()
        }

    def fate_of(self, policy: Scheduler) -> Fate:
        """What a policy may do with a request; networks may have rules of admission of their own."""
        fate = fate_of(policy)
        return fate._replace(drops=fate.drops or self.traffic.admits)

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
    def right_shares(self) -> Floats:
        """By network and setting, the share of the requests of the first seed whose answer at their exit is right.

        It is not a number where right answers are not known.
        """
        shares = np.full((len(self.traffic.samples_of), len(self.settings)), np.nan)
        for tree in branches_of(self.settings, range(len(self.settings))):
            numbers = list(tree.numbers)
            parts = self.drawn(tree.earliest, self.traffic.seed).device.parts
            of_each = zip(*(self.settings[number].of_each for number in numbers), strict=True)
            for network, (part, samples, settings) in enumerate(
                zip(parts, self.traffic.samples_of, of_each, strict=True)
            ):
                if part.trace.correct is None:
                    continue
                if samples is None:
                    shares[network, numbers] = right_share_of(part)
                    continue
                assert part.trace.confidences is not None
                levels = np.array([setting.levels for setting in settings]).reshape(len(numbers), -1)
                _, right = leavers(part.trace.confidences, part.trace.correct, levels)
                shares[network, numbers] = right.sum(axis=1) / max(1, len(part))
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

    def served(self, whole: Sequence[LatencyTable], setting: int) -> tuple[ServedNetwork, ...]:
        """The networks with the exits of a setting, on hardware with the latency table of each."""
        return self.traffic.served(self.tables(whole, setting))

    def tables(self, whole: Sequence[LatencyTable], setting: int) -> list[LatencyTable]:
        """The latency tables of hardware with the exits of a setting."""
        of_each = zip(whole, self.settings[setting].of_each, self.traffic.measures, strict=True)
        return [with_setting(table, chosen, measure) for table, chosen, measure in of_each]


def problem_of(
    sources: Sequence[Source],
    policies: Sequence[Scheduler],
    requirements: Sequence[Requirement],
    traffic: PlanTraffic,
    thresholds: Sequence[Threshold] | None = None,
    arrivals: ArrivalWords = ALONE,
) -> PlanProblem:
    """The problem of what a user asked for, with every setting of the exits, checked before anything is simulated.

    Thresholds that are tried are by default the usual ones of the samples' measure, and ``never``.
    """
    faults, sampled = traffic.faults(arrivals), any(samples is not None for samples in traffic.samples_of)
    if thresholds is not None and not sampled:
        faults.append("thresholds: expected samples whose answers they judge, found none; add samples")
    named = [source.name for source in sources]
    faults += [
        f"platforms: expected each once, found {name} twice" for name in dict.fromkeys(named) if named.count(name) > 1
    ]
    fastest = [source.tables(source.fastest) for source in sources]
    faults += [
        f"{name}: expected times of {len(model.exits)} exits, which {model.name} has, found {len(table.exits)}"
        for name, tables in zip(named, fastest, strict=True)
        for model, table in zip(traffic.models, tables, strict=True)
        if len(table.exits) != len(model.exits)
    ]
    if faults:
        raise InputError(faults)
    settings = tried_settings(traffic, fastest, thresholds, never=may_wait(sources, policies))
    network = one_behind_another(traffic.models, traffic.names)
    problem = PlanProblem(network, sources, settings, policies, requirements, traffic)
    check_settings(problem)
    return problem


def may_wait(sources: Sequence[Source], policies: Sequence[Scheduler]) -> bool:
    """Whether an exit with ``never`` may be of use."""
    return any(fate_of(policy).early for policy in policies) or not all(source.drops for source in sources)


def check_settings(problem: PlanProblem) -> None:
    """Refuse hardware on which no setting of the exits is possible."""
    faults = [
        f"{source.name}: expected times by layer, so that exits can be left out, or thresholds for every exit, found "
        "neither; try lower thresholds, or never, too"
        for source in problem.sources
        if not any(problem.settings_of(source, fate) for fate in problem.by_fate())
    ]
    if faults:
        raise InputError(faults)


def _right_enough(problem: PlanProblem, pairing: Pairing) -> bool:
    """Whether enough answers of a setting are right, on any hardware."""
    source, setting = problem.sources[pairing.source], problem.settings[pairing.setting]
    known: list[tuple[Requirement, float]] = []
    for requirement in problem.requirements:
        about = [at for at, own in enumerate(problem.traffic.given) if requirement.network in (None, own.name)]
        if requirement.name not in ("accuracy", "accuracy_of_all") or len(about) > 1:
            continue  # of all requests of several networks, only a run knows the share
        (network,) = about
        part = problem.drawn(problem.settings[0], problem.traffic.seed).device.parts[network]
        known_right = part.trace.correct is not None or None
        check_stated([requirement], accuracy=known_right, accuracy_of_all=known_right)
        if _bounded(requirement, pairing.fate):
            share = problem.right_shares[network, pairing.setting]
            if pairing.fate.early:
                traffic = problem.drawn(setting, problem.traffic.seed).device.parts[network]
                share = right_share_of(traffic, early=True)
            known.append((requirement, float(share)))
    known += [
        (requirement, source.accuracy)
        for requirement in problem.requirements
        if requirement.name == "served_accuracy" and requirement.comparator[0] == ">" and source.accuracy is not None
    ]
    return all(requirement.allows(value) for requirement, value in known)


def _bounded(requirement: Requirement, fate: Fate) -> bool:
    """Whether the share of right answers excludes a plan; those that are given may be right more often than all."""
    return not fate.drops or (requirement.name == "accuracy_of_all" and requirement.comparator in (">=", ">"))
