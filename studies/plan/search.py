"""The search for plans: hardware by rising cost, on which only what no proof discards is simulated."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...formats import brief
from ...serving.requirements import Requirement, check_stated
from ...traffic.traffic import Traffic
from ..workers import Workers, in_order, workers
from .dominance import Unbeaten, faster_is_better
from .exits import ExitSetting
from .kept import KeptRaces
from .problem import Fate, PlanProblem, right_share
from .rules import LATENCY, UTILISATION, least_energy, least_latency, least_p99, possible, surely_run
from .runs import FreshFigures, PlanNumbers, RaceResult, RaceTask, fresh_runs, race, tables_of
from .sources import Source

ACCURACY, HOPELESS, COST = "accuracy", "no policy can save it", "cost"
EARLY, WHOLE = "simulated in part", "simulated"
"""The other ways in which plans are counted (:attr:`Plans.counts`)."""

ACCURACIES = "accuracy", "accuracy_of_all", "served_accuracy"
"""Figures of answers that are right: of samples, and of SubNets."""

WAVE = 16
"""Rows of hardware that are raced at once, at least: the answer does not depend on the threads that share them."""

STEP = 0.1
"""On a front over the 99th percentile, a dearer plan of no higher accuracy has one that is lower by this share."""

Cost = Literal["dsps", "share", "energy", "work"]
"""What is minimised: DSPs, their share of the board's, energy of a request, or the work of a sample that passes all
exits."""


@dataclass(frozen=True)
class Plan:
    """A plan that keeps the requirements on fresh seeds."""

    numbers: PlanNumbers
    fresh: FreshFigures
    cost: float
    accuracy: float  # over all requests, those without an answer being wrong; 0 if it is not known


@dataclass(frozen=True)
class Plans:
    """The answer to a problem.

    Attributes
    ----------
    problem : PlanProblem
        What was asked.
    minimised : {"dsps", "share", "energy", "work"}
        What was minimised.
    front : list of Plan
        The cheapest plan, then each that is the cheapest of those with a higher accuracy; over the 99th percentile,
        also of those in which it is lower by :data:`STEP`.
    counts : dict of str to int
        Plans in all, and how many each rule discarded, were simulated in part, or whole.
    refuted : int
        Plans that kept the requirements in the race, or had a lower percentile there, and not on the fresh seeds.
    least_cost : float or None
        Cost below which proofs exclude every plan; ``None`` if they exclude all.
    nearest : Plan or None
        If the front is empty: of the plans that came nearest to keeping the requirements, the nearest.
    undecided : Plan or None
        Of the plans for which the requirements are undecided, the cheapest that is known.
    over_p99 : bool
        Whether the front is over the 99th percentile, too.
    fastest_s : float
        No hardware answers a sample in less time, in seconds.
    """

    problem: PlanProblem
    minimised: Cost
    front: list[Plan]
    counts: dict[str, int]
    refuted: int
    least_cost: float | None
    nearest: Plan | None = None
    undecided: Plan | None = None
    over_p99: bool = False
    fastest_s: float = 0.0

    __repr__ = brief


@dataclass(frozen=True)
class _Field:
    """The settings on rows of hardware that no proof excludes, in the order of the cost that they have at least."""

    cost: NDArray[np.float64]  # (N,), all ascending
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    setting: NDArray[np.int64]
    fate: NDArray[np.int64]  # of the policies, by its place in PlanProblem.by_fate
    p99_s: NDArray[np.float64]  # at least

    def waves(self) -> Iterator[slice]:
        """Parts of the field, of at least :data:`WAVE` rows on average; what costs the same is in one part."""
        rows = len(np.unique(self.source + 1j * self.row))
        start, size = 0, WAVE * -(-len(self.cost) // max(1, rows))
        while start < len(self.cost):
            last = min(start + size, len(self.cost)) - 1
            end = int(np.searchsorted(self.cost, self.cost[last], side="right"))
            yield slice(start, end)
            start = end


def find_plans(
    problem: PlanProblem,
    cost: Cost = "dsps",
    *,
    over_p99: bool = False,
    first: bool = False,
    kept: KeptRaces | None = None,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plans:
    """Find the cheapest plan that keeps requirements, and what more accuracy costs.

    Parameters
    ----------
    problem : PlanProblem
        The hardware, exits, policies, requirements and traffic.
    cost : {"dsps", "share", "energy", "work"}
        What is minimised.
    over_p99 : bool
        The front is over the 99th percentile, too.
    first : bool
        Stop at the first plan: the front has one at most. Rows that are as slow or slower than another one in every
        part are left out, for which there is no proof: batches may happen to form in a better order on them.
    kept : KeptRaces, optional
        Simulations of an earlier search, which are not made again; simulations of this search are added.
    scheduler : str, optional
        Address of a Dask scheduler, or ``local``; the answer does not depend on it.
    threads : int, optional
        Threads; the answer does not depend on their number.
    progress : callable, optional
        Called with settings on rows of hardware that are done, and all.

    Returns
    -------
    Plans
        The front, on fresh seeds, and how it was found.

    Raises
    ------
    InputError
        If the traffic or a requirement does not fit the network or the hardware, or it states no energies.
    """
    field, counts = _prove(problem, cost)
    walk = _Walk(problem, field, counts, cost, over_p99=over_p99, first=first, kept=kept)
    with workers(scheduler, threads) as at:
        for part in field.waves():
            if progress:
                progress(part.start, len(field.cost))
            walk.advance(part, at)
            if walk.done or (first and walk.front):
                break
        simulated = counts[EARLY] + counts[WHOLE]
        counts[COST] = (
            counts["all"] - simulated - sum(counts[name] for name in (ACCURACY, LATENCY, UTILISATION, HOPELESS))
        )
        if progress:
            progress(len(field.cost), len(field.cost))
    least = float(field.cost[0]) if field.cost.size else None
    nearest = None if walk.front or first else _nearest(walk)
    fastest_s = 0.0 if walk.front else _fastest(problem)
    open_ = [plan for plan in [*walk.refuted, *([nearest] if nearest else [])] if plan.fresh.kept is None]
    return Plans(
        problem,
        cost,
        walk.front,
        counts,
        len(walk.refuted),
        least,
        nearest,
        next(iter(open_), None),
        over_p99,
        fastest_s,
    )


def _fastest(problem: PlanProblem) -> float:
    """The least time in which any hardware answers a sample, at the first exit of any setting."""
    return min(
        float(least_latency(source, setting)[:, [*setting.kept, source.stages][0] - 1].min())
        for source in problem.sources
        for fate in problem.by_fate()
        for setting in map(problem.settings.__getitem__, problem.settings_of(source, fate))
    )


def _nearest(walk: _Walk) -> Plan:
    """The plan that comes nearest to the requirements: on the fastest hardware of each source, or one that was refuted.

    On the fastest hardware the nearest on the first seed is taken.
    """
    problem = walk.problem
    least = min(
        (requirement.bound for requirement in problem.requirements if requirement.name in ACCURACIES), default=0.0
    )
    plans: list[tuple[float, PlanNumbers]] = []
    for number, source in enumerate(problem.sources):
        row = int(source.work_s.argmin())
        table_of = tables_of(problem, number, row)
        for fate, policies in problem.by_fate().items():
            settings = problem.settings_of(source, fate)
            most = [problem.most_accuracy(number, at, early=fate.early) for at in settings]
            right = [at for at, right in zip(settings, most, strict=True) if right >= min(least, max(most))]
            for at, policy in product(right, policies):
                traffic = {problem.traffic.seed: problem.drawn(at, problem.traffic.seed)}
                figures = fresh_runs(problem, table_of(at), problem.policies[policy], traffic)
                plans.append((figures.excess(problem.requirements), PlanNumbers(number, row, at, policy)))
    _, first = min(plans)
    nearest = Plan(first, walk.confirm(first), math.inf, 0.0)
    return min([nearest, *walk.refuted], key=lambda plan: plan.fresh.excess(problem.requirements))


def _prove(problem: PlanProblem, cost: Cost) -> tuple[_Field, dict[str, int]]:
    """Apply the proofs to every row and setting."""
    counts = dict.fromkeys(("all", ACCURACY, LATENCY, UTILISATION, HOPELESS, COST, EARLY, WHOLE), 0)
    right = [requirement for requirement in problem.requirements if requirement.name in ("accuracy", "accuracy_of_all")]
    served = [
        requirement
        for requirement in problem.requirements
        if requirement.name == "served_accuracy" and requirement.comparator[0] == ">"
    ]
    parts = []
    for number, source in enumerate(problem.sources):
        rows = len(source.dsps)
        for kind, (fate, policies) in enumerate(problem.by_fate().items()):
            for at in problem.settings_of(source, fate):
                setting, traffic = problem.settings[at], problem.drawn(at, problem.traffic.seed)
                known_right = traffic.trace.correct is not None or None
                check_stated(right, accuracy=known_right, accuracy_of_all=known_right)
                counts["all"] += rows * len(policies)
                known = [
                    (requirement, right_share(traffic, early=fate.early))
                    for requirement in right
                    if _bounded(requirement, fate)
                ]
                known += [(requirement, source.accuracy) for requirement in served if source.accuracy is not None]
                if not all(requirement.allows(value) for requirement, value in known):
                    counts[ACCURACY] += rows * len(policies)
                    continue
                runs = surely_run(traffic, fate)
                alive, excluded = possible(source, setting, runs, problem.requirements, source.speedup)
                for name, mask in excluded.items():
                    counts[name] += int(mask.sum()) * len(policies)
                left = np.flatnonzero(alive)
                costs, p99_s = _least_costs(cost, source, setting, traffic, fate), least_p99(source, setting, runs)
                where = (np.full(len(left), index) for index in (number, at, kind))
                parts.append((costs[left], next(where), left, *where, p99_s[left]))
    none = [np.zeros(0), *np.zeros((4, 0), int), np.zeros(0)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or none
    order = np.lexsort(columns[4::-1])
    return _Field(*(column[order] for column in columns)), counts


def _bounded(requirement: Requirement, fate: Fate) -> bool:
    """Whether the share of right answers excludes a plan; those that are given may be right more often than all."""
    return not fate.drops or (requirement.name == "accuracy_of_all" and requirement.comparator in (">=", ">"))


def _least_costs(cost: Cost, source: Source, setting: ExitSetting, traffic: Traffic, fate: Fate) -> NDArray[np.float64]:
    """What each row of a source costs at least with a setting; exactly, unless it is energy."""
    if cost == "energy":
        return least_energy(source, setting, traffic, fate)
    return {"dsps": source.dsps.astype(np.float64), "share": source.share, "work": source.work_s}[cost]


class _Walk:
    """The walk through the field, and the front so far."""

    def __init__(
        self,
        problem: PlanProblem,
        field: _Field,
        counts: dict[str, int],
        cost: Cost,
        *,
        over_p99: bool,
        first: bool,
        kept: KeptRaces | None,
    ) -> None:
        self.problem, self.counts, self._field, self._cost = problem, counts, field, cost
        self.front: list[Plan] = []
        self.refuted: list[Plan] = []
        self._over_p99, self._kept = over_p99, kept
        self._passed: list[float] = []  # p99 in the race of each plan on the front
        self._waiting: list[tuple[float, float, float, PlanNumbers]] = []  # a heap: cost, - accuracy, p99 in the race
        # by source, where rows that are beaten are left out
        self._unbeaten: dict[int, Unbeaten] | None = {} if first and faster_is_better(problem.requirements) else None
        self._policies = problem.by_fate()
        self._fates = list(self._policies)
        kinds = np.unique(np.stack([field.source, field.setting, field.fate]), axis=1).T.tolist()
        self._most = {
            (source, setting, fate): problem.most_accuracy(source, setting, early=self._fates[fate].early)
            for source, setting, fate in kinds
        }

    @property
    def done(self) -> bool:
        """True if nothing can be better than the front."""
        return self._below_s(max(self._most.values(), default=0.0)) == 0

    def _below_s(self, accuracy: float) -> float:
        """The 99th percentile that a dearer plan of an accuracy must have less than; 0 if it has no use."""
        beaten = [p99_s for plan, p99_s in zip(self.front, self._passed, strict=True) if plan.accuracy >= accuracy]
        if not beaten:
            return math.inf
        return (1 - STEP) * min(beaten) if self._over_p99 else 0.0

    def advance(self, part: slice, at: Workers) -> None:
        """Race a part of the field; take those plans that cost less than all that is left can."""
        field, below_s = self._field, functools.cache(self._below_s)
        self._find_times(part, at)
        settings: dict[tuple[int, int], list[tuple[int, Fate, float]]] = {}
        costs: dict[PlanNumbers, float] = {}
        for cost, source, row, setting, fate, p99_s in zip(
            field.cost[part].tolist(), field.source[part].tolist(), field.row[part].tolist(),
            field.setting[part].tolist(), field.fate[part].tolist(), field.p99_s[part].tolist(), strict=True,
        ):  # fmt: skip
            bound_s = below_s(self._most[source, setting, fate])
            if p99_s < bound_s and (self._unbeaten is None or row in self._unbeaten[source]):
                kind = self._fates[fate]
                settings.setdefault((source, row), []).append((setting, kind, bound_s))
                costs |= {PlanNumbers(source, row, setting, policy): cost for policy in self._policies[kind]}
        tasks = [RaceTask(*pair, *map(tuple, zip(*sorted(here), strict=True))) for pair, here in settings.items()]
        for result in self._race(tasks, at):
            self.counts[HOPELESS] += result.hopeless
            self.counts[EARLY] += result.ended
            self.counts[WHOLE] += result.whole
            for plan, energy_j, accuracy, p99_s in result.kept:
                cost = energy_j if self._cost == "energy" and energy_j is not None else costs[plan]
                heapq.heappush(self._waiting, (cost, -accuracy, p99_s if self._over_p99 else 0.0, plan))
        rest = field.cost[part.stop] if part.stop < len(field.cost) else math.inf
        while self._waiting and self._waiting[0][0] < rest:
            self._take(*heapq.heappop(self._waiting))

    def _find_times(self, part: slice, at: Workers) -> None:
        """Find the times of the rows of a part of the field together, and which rows are beaten."""
        for number in np.unique(self._field.source[part]).tolist():
            rows = np.unique(self._field.row[part][self._field.source[part] == number])
            times_s = self.problem.sources[number].found_times(rows, at.threads)
            if self._unbeaten is not None:
                rivals = self._unbeaten.setdefault(number, Unbeaten())
                new = np.isin(rows, rivals.unknown(rows))
                rivals.judge(rows[new], times_s[new])

    def _race(self, tasks: Sequence[RaceTask], at: Workers) -> Iterator[RaceResult]:
        """Results of tasks as they come: kept ones first, and then those that are simulated now."""
        known = [None if self._kept is None else self._kept.find(self.problem, task) for task in tasks]
        yield from (result for result in known if result is not None)
        missing = [task for task, result in zip(tasks, known, strict=True) if result is None]
        for index, result in in_order(at.map(race, self.problem, missing)):
            if self._kept is not None:
                self._kept.add(self.problem, missing[index], result)
            yield result

    def _take(self, cost: float, less: float, p99_s: float, plan: PlanNumbers) -> None:
        """Put a plan on the front if it is better there, and keeps the requirements on the fresh seeds."""
        accuracy = -less
        below_s = self._below_s(accuracy)
        if below_s == 0 or p99_s >= below_s:
            return
        here = Plan(plan, self.confirm(plan), cost, accuracy)
        if not here.fresh.kept or (self._over_p99 and self._no_better(accuracy, here.fresh)):
            self.refuted.append(here)
            return
        self.front.append(here)
        self._passed.append(p99_s)

    def _no_better(self, accuracy: float, fresh: FreshFigures) -> bool:
        """Whether a plan of the front has on fresh seeds as much accuracy and as low a 99th percentile."""
        here = fresh.figures["p99"].mean
        return any(plan.accuracy >= accuracy and plan.fresh.figures["p99"].mean <= here for plan in self.front)

    def confirm(self, plan: PlanNumbers) -> FreshFigures:
        """Simulate a plan on the fresh seeds."""
        problem = self.problem
        table = problem.table(problem.sources[plan.source].table(plan.row), plan.setting)
        traffics = {seed: problem.drawn(plan.setting, seed) for seed in problem.traffic.fresh}
        return fresh_runs(problem, table, problem.policies[plan.policy], traffics)
