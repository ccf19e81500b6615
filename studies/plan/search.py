"""The search for plans: hardware by rising cost, on which only what no proof discards is simulated."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...formats import brief
from ...serving.requirements import check_stated
from ...traffic.traffic import Traffic
from ..workers import Workers, in_order, workers
from .exits import ExitSetting
from .problem import PlanProblem
from .rules import LATENCY, UTILISATION, least_energy, least_work, possible
from .runs import Candidate, FreshFigures, fresh_runs, race
from .sources import Source

ACCURACY, HOPELESS, COST = "accuracy", "no policy can save it", "cost"
EARLY, WHOLE = "simulated in part", "simulated"
"""The other ways in which plans are counted (:attr:`Plans.counts`)."""

WAVE = 16
"""Rows of hardware that are raced at once, at least: the answer does not depend on the threads that share them."""

RATIO = 1.02
"""Highest rate kept and the one above it that is not, of :func:`find_highest_rate`, differ by at most this factor."""

HALVINGS = 12
"""How often the highest rate that is possible at all is halved, at most."""

Cost = Literal["dsps", "share", "energy", "work"]
"""What is minimised: DSPs, their share of the board's, energy of a request, or the work of a sample that passes all
exits."""


@dataclass(frozen=True)
class Plan:
    """A plan that keeps the requirements on fresh seeds."""

    candidate: Candidate
    fresh: FreshFigures


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
        The cheapest plan, then each that is the cheapest of those with a higher accuracy.
    counts : dict of str to int
        Plans in all, and how many each rule discarded, were simulated in part, or whole.
    refuted : int
        Plans that kept the requirements in the race, and not on the fresh seeds.
    least_cost : float or None
        Cost below which proofs exclude every plan; ``None`` if they exclude all.
    nearest : Plan or None
        If the front is empty: of the plans that came nearest to keeping the requirements, the nearest.
    """

    problem: PlanProblem
    minimised: Cost
    front: list[Plan]
    counts: dict[str, int]
    refuted: int
    least_cost: float | None
    nearest: Plan | None = None

    __repr__ = brief


@dataclass(frozen=True)
class _Field:
    """The settings on rows of hardware that no proof excludes, in the order of the cost that they have at least."""

    cost: NDArray[np.float64]  # (N,), all ascending
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    setting: NDArray[np.int64]

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
    first: bool = False,
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
    first : bool
        Stop at the first plan: the front has one at most.
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
    walk = _Walk(problem, field, counts, cost)
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
    return Plans(problem, cost, walk.front, counts, walk.refuted, least, nearest)


def find_highest_rate(
    problem: PlanProblem,
    *,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> float | None:
    """Find the highest Poisson rate at which some plan keeps the requirements.

    Parameters
    ----------
    problem : PlanProblem
        With traffic of any rate.
    scheduler, threads, progress
        As of :func:`find_plans`; ``progress`` is called with rates that are tried, and how many will be.

    Returns
    -------
    float or None
        Found by bisection to within :data:`RATIO`; ``None`` if none is kept.
    """
    tried = 0

    def kept(rate_per_s: float) -> bool:
        nonlocal tried
        tried += 1
        if progress:
            progress(tried, tried + 1)
        here = problem.at_rate(rate_per_s)
        return bool(find_plans(here, "work", first=True, scheduler=scheduler, threads=threads).front)

    high = max(_most(problem, source) for source in problem.sources)
    low = high / 2
    for _ in range(HALVINGS):
        if kept(low):
            break
        high, low = low, low / 2
    else:
        return None
    while high / low > RATIO:
        middle = math.sqrt(high * low)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def _most(problem: PlanProblem, source: Source) -> float:
    """Rate beyond which the hardware of a source has more work than time, with any setting."""
    least_s = math.inf
    for setting in problem.settings:
        places = np.array([*setting.kept, source.stages]) - 1
        least_s = min(least_s, float((least_work(source, setting)[:, places] @ np.array(setting.rates)).min()))
    return source.speedup / least_s


def _nearest(walk: _Walk) -> Plan:
    """Of the plans on the fastest hardware of each source, the one that comes nearest to the requirements."""
    problem = walk.problem
    found: list[tuple[float, Plan]] = []
    for number, source in enumerate(problem.sources):
        row = int(source.work_s.argmin())
        settings = problem.settings_of(source)
        most = max(problem.settings[at].accuracy or 0.0 for at in settings)
        least = min((item.bound for item in problem.requirements if item.name == "accuracy"), default=0.0)
        right = [at for at in settings if (problem.settings[at].accuracy or 0.0) >= min(least, most)]
        for setting in right:
            for policy in range(len(problem.policies)):
                plan = Candidate(number, row, setting, policy)
                fresh = walk.confirm(plan)
                found.append((fresh.excess(problem.requirements), Plan(plan, fresh)))
    return min(found, key=lambda item: item[0])[1]


def _prove(problem: PlanProblem, cost: Cost) -> tuple[_Field, dict[str, int]]:
    """Apply the proofs to every row and setting."""
    policies = len(problem.policies)
    counts = dict.fromkeys(("all", ACCURACY, LATENCY, UTILISATION, HOPELESS, COST, EARLY, WHOLE), 0)
    right = [item for item in problem.requirements if item.name == "accuracy"]
    parts = []
    for number, source in enumerate(problem.sources):
        rows = len(source.dsps)
        for at in problem.settings_of(source):
            setting = problem.settings[at]
            counts["all"] += rows * policies
            traffic = problem.drawn(at, problem.traffic.seed)
            correct = traffic.trace.correct
            accuracy = None if correct is None else float(correct[np.arange(len(traffic)), traffic.exits - 1].mean())
            check_stated(right, accuracy=accuracy)
            if accuracy is not None and not all(item.allows(accuracy) for item in right):
                counts[ACCURACY] += rows * policies
                continue
            alive, excluded = possible(source, setting, traffic, problem.requirements, source.speedup)
            for name, mask in excluded.items():
                counts[name] += int(mask.sum()) * policies
            left = np.flatnonzero(alive)
            costs = _least_costs(cost, source, setting, traffic)[left]
            parts.append((costs, np.full(len(left), number), left, np.full(len(left), at)))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [np.zeros(0), *np.zeros((3, 0), int)]
    order = np.lexsort(columns[::-1])
    return _Field(*(column[order] for column in columns)), counts


def _least_costs(cost: Cost, source: Source, setting: ExitSetting, traffic: Traffic) -> NDArray[np.float64]:
    """What each row of a source costs at least with a setting; exactly, unless it is energy."""
    if cost == "energy":
        return least_energy(source, setting, traffic)
    return {"dsps": source.dsps.astype(np.float64), "share": source.share, "work": source.work_s}[cost]


Task = tuple[int, int, Sequence[int]]
"""A source, its row, and settings."""


class _Walk:
    """The walk through the field, and the front so far."""

    def __init__(self, problem: PlanProblem, field: _Field, counts: dict[str, int], cost: Cost) -> None:
        self.problem, self.counts, self._field, self._cost = problem, counts, field, cost
        self.front: list[Plan] = []
        self.refuted = 0
        self._accuracy = np.array([item.accuracy or 0.0 for item in problem.settings])
        self._best = -1.0  # accuracy of the last plan on the front
        self._waiting: list[tuple[float, float, Candidate]] = []  # a heap: cost, - accuracy; kept on the first seed

    @property
    def done(self) -> bool:
        """True if no plan can be more accurate than the front."""
        return bool(self._best >= self._accuracy.max())

    def advance(self, part: slice, at: Workers) -> None:
        """Race a part of the field; take those plans that cost less than all that is left can."""
        field = self._field
        settings: dict[tuple[int, int], list[int]] = {}
        costs: dict[tuple[int, int, int], float] = {}
        for cost, *pair, setting in zip(
            field.cost[part].tolist(),
            field.source[part].tolist(), field.row[part].tolist(), field.setting[part].tolist(), strict=True,
        ):  # fmt: skip
            if self._accuracy[setting] > self._best:
                settings.setdefault((pair[0], pair[1]), []).append(setting)
                costs[pair[0], pair[1], setting] = cost
        tasks = [(source, row, sorted(here)) for (source, row), here in settings.items()]
        for _, result in in_order(at.map(race, self.problem, tasks)):
            self.counts[HOPELESS] += result.hopeless
            self.counts[EARLY] += result.ended
            self.counts[WHOLE] += result.whole
            for item, energy_j in result.kept:
                cost = energy_j if self._cost == "energy" and energy_j is not None else costs[item[:3]]
                heapq.heappush(self._waiting, (cost, -float(self._accuracy[item.setting]), item))
        rest = field.cost[part.stop] if part.stop < len(field.cost) else math.inf
        while self._waiting and self._waiting[0][0] < rest:
            self._take(heapq.heappop(self._waiting)[-1])

    def _take(self, item: Candidate) -> None:
        """Put a plan on the front, if it is more accurate and keeps the requirements on the fresh seeds."""
        accuracy = float(self._accuracy[item.setting])
        if accuracy <= self._best:
            return
        fresh = self.confirm(item)
        if not fresh.kept:
            self.refuted += 1
            return
        self.front.append(Plan(item, fresh))
        self._best = accuracy

    def confirm(self, item: Candidate) -> FreshFigures:
        """Simulate a plan on the fresh seeds."""
        problem = self.problem
        table = problem.table(problem.sources[item.source].table(item.row), item.setting)
        traffics = [problem.drawn(item.setting, seed) for seed in problem.traffic.fresh]
        return fresh_runs(problem, table, problem.policies[item.policy], traffics)
