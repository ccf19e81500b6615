"""The settings on rows of hardware that no proof excludes, by rising cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...serving.requirements import Requirement, check_stated
from .problem import Fate, PlanProblem, right_share
from .rules import LATENCY, UTILISATION, least_energy, least_p99, possible, surely_run

ACCURACY = "accuracy"
"""The rule that needs no hardware, as it is counted."""

WAVE = 16
"""Rows of hardware that are raced at once, at least: the answer does not depend on the threads that share them."""

REFINED = 1024
"""Entries of a field whose near bounds are found first; of each further part they are twice as many."""

Cost = Literal["dsps", "share", "energy", "work"]
"""What is minimised: DSPs, their share of the board's, energy of a request, or the least work of a sample that passes
all exits."""


class Pairing(NamedTuple):
    """A setting and the policies of one fate, on the rows of a source."""

    source: int
    setting: int
    fate: Fate
    policies: list[int]
    most: float  # accuracy, at most


class Field(NamedTuple):
    """Rows of hardware, each with the number of a pairing, in the order of the cost that they have at least."""

    cost: NDArray[np.float64]  # (N,), all ascending
    row: NDArray[np.int64]
    pairing: NDArray[np.int64]
    p99_s: NDArray[np.float64]  # at least

    def take(self, at: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Field:
        """Some entries, in their order."""
        return Field(self.cost[at], self.row[at], self.pairing[at], self.p99_s[at])

    def parts(self, size: int, growth: int = 1) -> Iterator[slice]:
        """Parts, each ``growth`` times as large as the one before it, or larger: what costs the same is in one."""
        start = 0
        while start < len(self.cost):
            last = min(start + size, len(self.cost)) - 1
            end = int(np.searchsorted(self.cost, self.cost[last], side="right"))
            yield slice(start, end)
            start, size = end, growth * size

    def waves(self) -> Iterator[slice]:
        """Parts of at least :data:`WAVE` rows on average; one without entries if there are none."""
        rows = len(np.unique(self.row))
        yield from self.parts(WAVE * -(-len(self.cost) // rows)) if rows else [slice(0, 0)]


def prove(problem: PlanProblem, cost: Cost) -> tuple[Field, list[Pairing], dict[str, int]]:
    """What the proofs leave with coarse bounds, the pairings that it names, and how many plans each rule excludes."""
    counts = dict.fromkeys(("all", ACCURACY, LATENCY, UTILISATION), 0)
    pairings: list[Pairing] = []
    none = np.zeros(0, np.int64)
    parts = [Field(np.zeros(0), none, none, np.zeros(0))]
    for number, source in enumerate(problem.sources):
        for fate, policies in problem.by_fate().items():
            for setting in problem.settings_of(source, fate):
                most = problem.most_accuracy(number, setting, early=fate.early)
                pairing = Pairing(number, setting, fate, policies, most)
                plans = len(source.dsps) * len(policies)
                counts["all"] += plans
                if not _right_enough(problem, pairing):
                    counts[ACCURACY] += plans
                    continue
                costs, rows = _least_costs(problem, pairing, cost), np.arange(len(source.dsps))
                part = Field(costs, rows, np.full_like(rows, len(pairings)), np.zeros(len(rows)))
                pairings.append(pairing)
                parts.append(refine(problem, pairings, part, counts, near=False))
    field = Field(*map(np.concatenate, zip(*parts, strict=True)))
    named = np.array([pairing[:2] for pairing in pairings], np.int64).reshape(-1, 2)[field.pairing]
    return field.take(np.lexsort((field.pairing, named[:, 1], field.row, named[:, 0], field.cost))), pairings, counts


def refine(
    problem: PlanProblem,
    pairings: Sequence[Pairing],
    field: Field,
    counts: dict[str, int],
    *,
    near: bool = True,
    threads: int | None = None,
) -> Field:
    """What the proofs leave of a field with near bounds, or coarse ones; the plans that they exclude are counted."""
    alive, p99_s = np.zeros(len(field.cost), np.bool_), field.p99_s.copy()
    sources = np.array([pairing.source for pairing in pairings], np.int64)[field.pairing]
    if near:
        for number in np.unique(sources).tolist():  # of all pairings together
            problem.sources[number].nearer(np.unique(field.row[sources == number]), threads)
    order = np.argsort(field.pairing, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(field.pairing[order])) + 1):
        if not at.size:
            continue
        pairing = pairings[field.pairing[at[0]]]
        source, setting, rows = problem.sources[pairing.source], problem.settings[pairing.setting], field.row[at]
        least = source.nearer(rows) if near else source.least.at(rows)
        runs = surely_run(problem.drawn(pairing.setting, problem.traffic.seed), pairing.fate)
        alive[at], excluded = possible(least, setting, runs, problem.requirements, source.speedup)
        p99_s[at] = least_p99(least, setting, runs)
        for name, mask in excluded.items():
            counts[name] += int(mask.sum()) * len(pairing.policies)
    return field._replace(p99_s=p99_s).take(alive)


def _right_enough(problem: PlanProblem, pairing: Pairing) -> bool:
    """Whether enough answers of a setting are right, on any hardware."""
    traffic, source = problem.drawn(pairing.setting, problem.traffic.seed), problem.sources[pairing.source]
    right = [requirement for requirement in problem.requirements if requirement.name in ("accuracy", "accuracy_of_all")]
    known_right = traffic.trace.correct is not None or None
    check_stated(right, accuracy=known_right, accuracy_of_all=known_right)
    known = [
        (requirement, right_share(traffic, early=pairing.fate.early))
        for requirement in right
        if _bounded(requirement, pairing.fate)
    ]
    known += [
        (requirement, source.accuracy)
        for requirement in problem.requirements
        if requirement.name == "served_accuracy" and requirement.comparator[0] == ">" and source.accuracy is not None
    ]
    return all(requirement.allows(value) for requirement, value in known)


def _bounded(requirement: Requirement, fate: Fate) -> bool:
    """Whether the share of right answers excludes a plan; those that are given may be right more often than all."""
    return not fate.drops or (requirement.name == "accuracy_of_all" and requirement.comparator in (">=", ">"))


def _least_costs(problem: PlanProblem, pairing: Pairing, cost: Cost) -> NDArray[np.float64]:
    """What each row of a source costs at least with a setting; exactly if it is DSPs or their share."""
    source, setting = problem.sources[pairing.source], problem.settings[pairing.setting]
    if cost == "energy":
        return least_energy(source, setting, problem.drawn(pairing.setting, problem.traffic.seed), pairing.fate)
    return {"dsps": source.dsps.astype(np.float64), "share": source.share, "work": source.least.whole_s}[cost]
