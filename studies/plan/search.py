"""The search for plans: hardware by rising cost, on which only what no proof discards is simulated."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np

from ...formats import brief
from ...formats.array_types import Bools, Floats, Ints
from ..workers import Workers, in_order, workers
from .branches import first_to_leave
from .dominance import Unbeaten, faster_is_better
from .exits import ExitSetting
from .field import MOST_ENTRIES, REFINED, Cost, Field, PlanSpace, last_of_cost
from .hope import Entrant, NearTask, RaceTask, leave_out_hopeless
from .kept import KeptRaces
from .least import LeastTimes
from .problem import PlanNumbers, PlanProblem
from .rules import least_latency
from .runs import FreshFigures, RaceResult, fresh_runs, networks_on, race

HOPELESS, COST = "no policy can save it", "cost"
EARLY, WHOLE = "simulated in part", "simulated"
"""The other ways in which plans are counted (:attr:`Plans.counts`)."""

ACCURACIES = "accuracy", "accuracy_of_all", "served_accuracy"
"""Figures of answers that are right: of samples, and of SubNets."""

STEP = 0.1
"""On a front over the 99th percentile, a dearer plan of no higher accuracy has one that is lower by this share."""


@dataclass(frozen=True)
class Plan:
    """A plan that keeps the requirements on fresh seeds."""

    numbers: PlanNumbers
    fresh: FreshFigures
    cost: float
    accuracy: float  # over all requests, those without an answer being wrong; 0 if it is not known


@dataclass(frozen=True)
class Plans:
    """The answer to a problem."""

    problem: PlanProblem  # what was asked
    minimised: Cost  # what was minimised
    # the cheapest plan, then each that is the cheapest of those with a higher accuracy; over the 99th percentile, also
    # of those in which it is lower by :data:`STEP`
    front: list[Plan]
    counts: dict[str, int]  # plans in all, and how many each rule discarded, were simulated in part, or whole
    # plans that kept the requirements in the race, or had a lower percentile there, and not on the fresh seeds
    refuted: int
    least_cost: float | None  # cost below which proofs exclude every plan; ``None`` if they exclude all
    # if the front is empty: of the plans that came nearest to keeping the requirements, the nearest
    nearest: Plan | None = None
    undecided: Plan | None = None  # of the plans for which the requirements are undecided, the cheapest that is known
    over_p99: bool = False  # whether the front is over the 99th percentile, too
    fastest_s: float = 0.0  # no hardware answers a sample in less time, in seconds

    __repr__ = brief


@dataclass(frozen=True, kw_only=True)
class SearchRun:
    """How a search runs; its answer does not depend on it."""

    kept: KeptRaces | None = None  # simulations that are not made again; new ones are added
    scheduler: str | None = None  # address of a Dask scheduler, or ``local``
    threads: int | None = None  # by default all cores
    # called with what is done, and all: rows of hardware, or rates where the highest one is searched
    progress: Callable[[int, int], None] | None = None


AS_USUAL = SearchRun()
"""On all cores of this machine, without anything that is kept or told."""


def find_plans(
    problem: PlanProblem, cost: Cost = "dsps", run: SearchRun = AS_USUAL, *, over_p99: bool = False, first: bool = False
) -> Plans:
    """Find the cheapest plan that keeps requirements, and what more accuracy costs.

    ``first``: stop at the first plan.  Rows that are as slow or slower than another one in every part are then left
    out, for which there is no proof: batches may happen to form in a better order on them.
    """
    walk, progress = _Walk(problem, cost, over_p99=over_p99, first=first, kept=run.kept), run.progress
    with workers(run.scheduler, run.threads) as at:
        for done, wave, rest in walk.waves(at):
            if progress:
                progress(done, walk.size)
            walk.advance(wave, rest, at)
            if walk.done or (first and walk.front):
                break
        counts = walk.counts | {COST: walk.left}
        if progress:
            progress(walk.size, walk.size)
    nearest = None if walk.front or first else _nearest(walk)
    open_ = [plan for plan in [*walk.refuted, *([nearest] if nearest else [])] if plan.fresh.kept is None]
    return Plans(
        problem=problem,
        minimised=cost,
        front=walk.front,
        counts=counts,
        refuted=len(walk.refuted),
        least_cost=walk.least_cost,
        nearest=nearest,
        undecided=next(iter(open_), None),
        over_p99=over_p99,
        fastest_s=0.0 if walk.front else _fastest(problem),
    )


def _fastest(problem: PlanProblem) -> float:
    """The least time in which any hardware answers a sample, at the first exit of any setting."""
    fastest_s = math.inf
    for source in problem.sources:
        numbers = {number for fate in problem.by_fate() for number in problem.settings_of(source, fate)}
        settings = [problem.settings[number] for number in sorted(numbers)]
        by_first = {
            [*setting.kept, source.stages][0]: setting for setting in settings
        }  # what is behind it is no matter
        for exit_, setting in by_first.items():
            until = partial(_until_exit, setting, exit_)
            fastest_s = min(fastest_s, source.lowest(until)[0])
    return fastest_s


def _until_exit(setting: ExitSetting, exit_: int, least: LeastTimes) -> Floats:
    """Least time until an exit, by row."""
    return least_latency(least, setting)[:, exit_ - 1]


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
        row = source.fastest
        served_on = networks_on(problem, number, row)
        for fate, policies in problem.by_fate().items():
            settings = problem.settings_of(source, fate)
            most = [problem.most_accuracy(number, at, early=fate.early) for at in settings]
            right = [at for at, right in zip(settings, most, strict=True) if right >= min(least, max(most))]
            for at, policy in product(first_to_leave(problem.settings, right), policies):
                traffic = {problem.traffic.seed: problem.drawn(problem.settings[at], problem.traffic.seed)}
                figures = fresh_runs(problem, served_on(at), problem.policies[policy], traffic)
                plans.append((figures.excess(problem.requirements), PlanNumbers(number, row, at, policy)))
    _, first = min(plans)
    nearest = Plan(first, walk.confirm(first), math.inf, 0.0)
    return min([nearest, *walk.refuted], key=lambda plan: plan.fresh.excess(problem.requirements))


class Waiting(NamedTuple):
    """A plan that keeps the requirements in the race, or a race with entrants that were not tried; the best first."""

    cost: float
    less: float  # minus the accuracy, of a race at most
    late_s: float  # the 99th percentile where the front is over it, minus infinity of a race
    work_s: float  # of plans that are as good, the one on the fastest hardware is taken
    plan: PlanNumbers
    race: RaceTask | None = None


class _Walk:
    """The walk through the field, and the front so far."""

    def __init__(
        self, problem: PlanProblem, cost: Cost, *, over_p99: bool, first: bool, kept: KeptRaces | None
    ) -> None:
        self.problem, self._cost = problem, cost
        self._space = PlanSpace(problem, cost)
        self.counts = self._space.counts | dict.fromkeys((HOPELESS, COST, EARLY, WHOLE), 0)
        self.least_cost: float | None = None  # of what the proofs leave, once an entry is found
        self.front: list[Plan] = []
        self.refuted: list[Plan] = []
        self._over_p99, self._kept = over_p99, kept
        self._passed: list[float] = []  # p99 in the race of each plan on the front
        self._waiting: list[Waiting] = []  # a heap of what may be taken
        # by source, where rows that are beaten are left out
        self._unbeaten: dict[int, Unbeaten] | None = {} if first and faster_is_better(problem.requirements) else None

    @property
    def size(self) -> int:
        """Rows of hardware."""
        return len(self._space.rows[0])

    @property
    def left(self) -> int:
        """Plans that no rule has excluded and no simulation has tried."""
        return self.counts["all"] - sum(number for name, number in self.counts.items() if name != "all")

    def waves(self, at: Workers) -> Iterator[tuple[int, Field, float]]:
        """Rows that were passed, entries of the field to race next, and the least cost of what is behind them."""
        costs, space = self._space.rows[0], self._space
        start, size, held = 0, REFINED, Field.of([])  # what costs more than rows that are not judged waits
        while start < len(costs):
            end = last_of_cost(costs, start + size)
            new = space.entries(slice(start, end), self._wanted, self.counts, at.threads)
            rest = float(costs[end]) if end < len(costs) else math.inf
            field = space.in_order([held, new])
            ready = int(np.searchsorted(field.cost, rest))
            held, chunk = field.take(slice(ready, None)), field.take(slice(ready))
            if self.least_cost is None and field.cost.size:
                self.least_cost = float(field.cost[0])
            behind = np.append(chunk.cost, min([rest, *held.cost[:1]]))
            for wave in chunk.waves():
                passed = start + (end - start) * wave.start // max(1, ready)
                yield passed, chunk.take(wave), behind[wave.stop]
            start, size = end, 2 * size if len(new.cost) < MOST_ENTRIES else max(1, size // 2)

    @property
    def _wanted(self) -> Bools:
        """Pairings that are of use beside the front."""
        most, at = np.unique(self._space.most, return_inverse=True)
        return np.array([self._below_s(accuracy) > 0 for accuracy in most.tolist()], np.bool_)[at]

    @property
    def done(self) -> bool:
        """True if nothing can be better than the front."""
        return not self._wanted.any()

    def _below_s(self, accuracy: float) -> float:
        """The 99th percentile that a dearer plan of an accuracy must have less than; 0 if it has no use."""
        beaten = [p99_s for plan, p99_s in zip(self.front, self._passed, strict=True) if plan.accuracy >= accuracy]
        if not beaten:
            return math.inf
        return (1 - STEP) * min(beaten) if self._over_p99 else 0.0

    def advance(self, wave: Field, rest: float, at: Workers) -> None:
        """Race a part of the field; take those plans that cost less than all that is left can, ``rest``."""
        below_s, pairings = cache(self._below_s), self._space.pairings
        beaten = self._beaten(self._space.source[wave.pairing], wave.row, at)
        entries: dict[tuple[int, int], list[Entrant]] = {}
        for cost, row, number, p99_s in zip(*(column.tolist() for column in wave), strict=True):
            source, setting, fate, _, most = pairings[number]
            if p99_s < below_s(most) and (source, row) not in beaten:
                entries.setdefault((source, row), []).append(Entrant(-most, setting, fate, below_s(most), cost))
        tasks = [RaceTask(*pair, tuple(sorted(here))) for pair, here in entries.items()]
        self._race(self._hopeful(tasks, at), at)
        while self._waiting and self._waiting[0].cost < rest:
            best = heapq.heappop(self._waiting)
            if best.race is None:
                self._take(best.cost, -best.less, best.late_s, best.plan)
                continue
            left = [one._replace(below_s=self._below_s(-one.less)) for one in best.race.entries]
            of_use = tuple(one for one in left if one.below_s > 0)
            self._race(self._hopeful([best.race._replace(entries=of_use)], at), at)

    def _hopeful(self, tasks: Sequence[RaceTask], at: Workers) -> list[RaceTask]:
        """Tasks without what no policy can save by near times, which are found sooner than the times of tables."""
        tasks, near = [task for task in tasks if task.entries], list[NearTask]()
        for number in dict.fromkeys(task.source for task in tasks):
            here = [task for task in tasks if task.source == number]
            times_s = self.problem.sources[number].near_times(np.array([task.row for task in here]), at.threads)
            near += map(NearTask, here, times_s)
        left = [result for _, result in in_order(at.map(leave_out_hopeless, self.problem, near))]
        self.counts[HOPELESS] += sum(result.hopeless for result in left)
        return [result.task for result in left if result.task.entries]

    def _beaten(self, sources: Ints, rows: Ints, at: Workers) -> set[tuple[int, int]]:
        """Rows that are left out because other ones beat them."""
        if self._unbeaten is None:
            return set()
        beaten: set[tuple[int, int]] = set()
        for number in np.unique(sources).tolist():
            here, rivals = np.unique(rows[sources == number]), self._unbeaten.setdefault(number, Unbeaten())
            new = rivals.unknown(here)
            rivals.judge(new, self.problem.sources[number].found_times(new, at.threads))
            beaten.update((number, row) for row in here.tolist() if row not in rivals)
        return beaten

    def _work_s(self, tasks: Sequence[RaceTask], at: Workers) -> dict[tuple[int, int], float]:
        """The work of a sample on the rows of some tasks; their times are found together."""
        work_s: dict[tuple[int, int], float] = {}
        for number in dict.fromkeys(task.source for task in tasks):
            here = [task.row for task in tasks if task.source == number]
            times_s = self.problem.sources[number].found_times(np.array(here), at.threads)
            work_s |= zip(product([number], here), LeastTimes.of(times_s).whole_s.tolist(), strict=True)
        return work_s

    def _race(self, tasks: Sequence[RaceTask], at: Workers) -> None:
        """Simulate, and let those wait that keep the requirements, and entrants that were not tried."""
        work_s = self._work_s(tasks, at)
        for task, result in self._results(tasks, at):
            self.counts[HOPELESS] += result.hopeless
            self.counts[EARLY] += result.ended
            self.counts[WHOLE] += result.whole
            here_s = work_s[task.source, task.row]
            for plan, cost, energy_j, accuracy, p99_s in result.kept:
                cost_ = energy_j if self._cost == "energy" and energy_j is not None else cost
                late_s = p99_s if self._over_p99 else 0.0
                heapq.heappush(self._waiting, Waiting(cost_, -accuracy, late_s, here_s, plan))
            if result.left:
                left = task.entries[-result.left :]
                none = PlanNumbers(task.source, task.row, -1, -1)
                cost = min(entrant.cost for entrant in left)
                rest = Waiting(cost, left[0].less, -math.inf, here_s, none, task._replace(entries=left))
                heapq.heappush(self._waiting, rest)

    def _results(self, tasks: Sequence[RaceTask], at: Workers) -> Iterator[tuple[RaceTask, RaceResult]]:
        """Results of tasks as they come: kept ones first, and then those that are simulated now."""
        known = [None if self._kept is None else self._kept.find(self.problem, task) for task in tasks]
        yield from ((task, result) for task, result in zip(tasks, known, strict=True) if result is not None)
        missing = [task for task, result in zip(tasks, known, strict=True) if result is None]
        for index, result in in_order(at.map(race, self.problem, missing)):
            if self._kept is not None:
                self._kept.add(self.problem, missing[index], result)
            yield missing[index], result

    def _take(self, cost: float, accuracy: float, p99_s: float, plan: PlanNumbers) -> None:
        """Put a plan on the front if it is better there, and keeps the requirements on the fresh seeds."""
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
        problem, setting = self.problem, self.problem.settings[plan.setting]
        served = problem.served(problem.sources[plan.source].tables(plan.row), plan.setting)
        traffics = {seed: problem.drawn(setting, seed) for seed in problem.traffic.fresh}
        return fresh_runs(problem, served, problem.policies[plan.policy], traffics)
