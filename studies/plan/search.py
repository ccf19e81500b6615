"""The search for plans: hardware by rising cost, on which only what no proof discards is simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...formats import brief
from ...serving.requirements import check_stated
from ..workers import Workers, in_order, workers
from .problem import PlanProblem
from .rules import LATENCY, UTILISATION, least_work, possible
from .runs import Candidate, FreshFigures, RaceResult, fresh_runs, race
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

Cost = Literal["dsps", "share", "work"]
"""What is minimised: DSPs, their share of the board's, or the work of a sample that passes all exits."""


@dataclass(frozen=True)
class Plan:
    """A plan that keeps the requirements on fresh seeds."""

    candidate: Candidate
    cost: float
    fresh: FreshFigures


@dataclass(frozen=True)
class Plans:
    """The answer to a problem.

    Attributes
    ----------
    problem : PlanProblem
        What was asked.
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
    front: list[Plan]
    counts: dict[str, int]
    refuted: int
    least_cost: float | None
    nearest: Plan | None = None

    __repr__ = brief


@dataclass
class _Field:
    """Rows of all sources in the order of their cost, and the settings that proofs leave on each."""

    source: NDArray[np.int64]  # (N,)
    row: NDArray[np.int64]
    cost: NDArray[np.float64]
    alive: NDArray[np.bool_]  # (N, S)

    def waves(self) -> Iterator[slice]:
        """Parts of the field, of at least :data:`WAVE` rows; rows of one cost are in one part."""
        start = 0
        while start < len(self.cost):
            last = min(start + WAVE, len(self.cost)) - 1
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
    cost : {"dsps", "share", "work"}
        What is minimised.
    first : bool
        Stop at the first plan: the front has one at most.
    scheduler : str, optional
        Address of a Dask scheduler, or ``local``; the answer does not depend on it.
    threads : int, optional
        Threads; the answer does not depend on their number.
    progress : callable, optional
        Called with rows of hardware that are done, and all.

    Returns
    -------
    Plans
        The front, on fresh seeds, and how it was found.

    Raises
    ------
    InputError
        If the traffic or a requirement does not fit the network or the hardware.
    """
    field, counts = _prove(problem, cost)
    walk = _Walk(problem, field, counts)
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
    some = np.flatnonzero(field.alive.any(axis=1))
    least = float(field.cost[some[0]]) if some.size else None
    nearest = None if walk.front or first else _nearest(walk, field)
    return Plans(problem, walk.front, counts, walk.refuted, least, nearest)


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


def _nearest(walk: _Walk, field: _Field) -> Plan:
    """Of the plans on the fastest hardware of each source, the one that comes nearest to the requirements."""
    problem = walk.problem
    found: list[tuple[float, Plan]] = []
    for number, source in enumerate(problem.sources):
        row = int(source.work_s.argmin())
        costs = field.cost[(field.source == number) & (field.row == row)]
        settings = problem.settings_of(source)
        most = max(problem.settings[at].accuracy or 0.0 for at in settings)
        least = min((item.bound for item in problem.requirements if item.name == "accuracy"), default=0.0)
        right = [at for at in settings if (problem.settings[at].accuracy or 0.0) >= min(least, most)]
        for setting in right:
            for policy in range(len(problem.policies)):
                plan = Candidate(number, row, setting, policy)
                fresh = walk.confirm(plan)
                found.append((fresh.excess(problem.requirements), Plan(plan, float(costs[0]), fresh)))
    return min(found, key=lambda item: item[0])[1]


def _prove(problem: PlanProblem, cost: Cost) -> tuple[_Field, dict[str, int]]:
    """Apply the proofs to every row and setting."""
    policies, settings = len(problem.policies), range(len(problem.settings))
    counts = dict.fromkeys(("all", ACCURACY, LATENCY, UTILISATION, HOPELESS, COST, EARLY, WHOLE), 0)
    right = [item for item in problem.requirements if item.name == "accuracy"]
    parts = []
    for number, source in enumerate(problem.sources):
        rows, alive = len(source.dsps), np.zeros((len(source.dsps), len(settings)), np.bool_)
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
            alive[:, at], excluded = possible(source, setting, traffic, problem.requirements, source.speedup)
            for name, mask in excluded.items():
                counts[name] += int(mask.sum()) * policies
        costs = {"dsps": source.dsps.astype(np.float64), "share": source.share, "work": source.work_s}[cost]
        parts.append((np.full(rows, number), np.arange(rows), costs, alive))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0], columns[2]))
    return _Field(*(column[order] for column in columns)), counts


Task = tuple[int, int, Sequence[int]]
"""A source, its row, and settings."""


class _Walk:
    """The walk through the field, and the front so far."""

    def __init__(self, problem: PlanProblem, field: _Field, counts: dict[str, int]) -> None:
        self.problem, self.counts, self._field, self.refuted = problem, counts, field, 0
        self.front: list[Plan] = []
        self._accuracy = np.array([item.accuracy or 0.0 for item in problem.settings])
        self._best = -1.0  # accuracy of the last plan on the front

    @property
    def done(self) -> bool:
        """True if no plan can be more accurate than the front."""
        return bool(self._best >= self._accuracy.max())

    def advance(self, part: slice, at: Workers) -> None:
        """Race the rows of a part, and take the winners that are the cheapest of their accuracy."""
        field, wanted = self._field, self._accuracy > self._best
        tasks = []
        for source, row, alive in zip(field.source[part], field.row[part], field.alive[part], strict=True):
            settings = np.flatnonzero(alive & wanted).tolist()
            if settings:
                tasks.append((int(source), int(row), settings))
        found: dict[int, RaceResult] = dict(in_order(at.map(race, self.problem, tasks)))
        for result in found.values():
            self.counts[HOPELESS] += result.hopeless
            self.counts[EARLY] += result.ended
            self.counts[WHOLE] += result.whole
        pairs = zip(field.source[part].tolist(), field.row[part].tolist(), strict=True)
        position = {pair: index for index, pair in enumerate(pairs)}
        costs = field.cost[part]

        def order(item: Candidate) -> tuple[float, ...]:
            index = position[item.source, item.row]
            return float(costs[index]), -float(self._accuracy[item.setting]), index, item.setting, item.policy

        winners = sorted((item for result in found.values() for item in result.kept), key=order)
        for item in winners:
            if self._accuracy[item.setting] <= self._best:
                continue
            fresh = self.confirm(item)
            if not fresh.kept:
                self.refuted += 1
                continue
            self.front.append(Plan(item, order(item)[0], fresh))
            self._best = float(self._accuracy[item.setting])

    def confirm(self, item: Candidate) -> FreshFigures:
        """Simulate a plan on the fresh seeds."""
        problem = self.problem
        table = problem.table(problem.sources[item.source].table(item.row), item.setting)
        traffics = [problem.drawn(item.setting, seed) for seed in problem.traffic.fresh]
        return fresh_runs(problem, table, problem.policies[item.policy], traffics)
