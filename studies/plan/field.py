"""The settings on rows of hardware that no proof excludes, by rising cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ...dse.npu.evaluation import MARGIN
from ...formats.array_types import Bools, Floats, Ints
from .branches import Branch
from .exits import ExitSetting
from .least import LeastTimes
from .problem import Fate, PairedTree, PlanProblem
from .rules import LATENCY, UTILISATION, Load, Until, least_energy, surely_run

ACCURACY = "accuracy"
"""The rule that needs no hardware, as it is counted."""

WAVE = 16
"""Rows of hardware that are raced at once, at least: the answer does not depend on the threads that share them."""

REFINED = 1024
"""Rows of hardware that are judged at once, at the start; later twice as many each time."""

MOST_ENTRIES = 2**18
"""Entries of rows that are judged at once after which the next rows are not more."""

Cost = Literal["dsps", "share", "energy", "work"]
"""What is minimised: DSPs, their share of the board's, energy of a request, or the least work of a sample that passes
all exits."""


class Field(NamedTuple):
    """Rows of hardware, each with the number of a pairing, in the order of the cost that they have at least."""

    cost: Floats  # (N,), all ascending
    row: Ints
    pairing: Ints
    p99_s: Floats  # at least

    @classmethod
    def of(cls, parts: Sequence[Field]) -> Field:
        """Parts together, not yet in order."""
        none = np.zeros(0, np.int64)
        return cls(*map(np.concatenate, zip(cls(np.zeros(0), none, none, np.zeros(0)), *parts, strict=True)))

    def take(self, at: Bools | Ints | slice) -> Field:
        """Some entries, in their order."""
        return Field(self.cost[at], self.row[at], self.pairing[at], self.p99_s[at])

    def waves(self) -> Iterator[slice]:
        """Parts of at least :data:`WAVE` rows on average; one without entries if there are none."""
        rows = len(np.unique(self.row))
        size, start = WAVE * -(-len(self.cost) // rows) if rows else 0, 0
        while start < len(self.cost):
            end = last_of_cost(self.cost, start + size)
            yield slice(start, end)
            start = end
        if not rows:
            yield slice(0, 0)


def last_of_cost(cost: Floats, end: int) -> int:
    """The end of a part of ascending costs, or a later one: what costs the same is in one part."""
    return int(np.searchsorted(cost, cost[min(end, len(cost)) - 1], side="right"))


class PlanSpace:
    """All pairings of a problem that are right often enough, and the rows of hardware by rising cost."""

    def __init__(self, problem: PlanProblem, cost: Cost) -> None:
        self._problem, self._cost = problem, cost
        self._loads: dict[tuple[Any, ...], Load] = {}
        pairings = self.pairings = problem.pairings
        self.most = np.array([pairing.most for pairing in pairings])
        self.source, self._setting = np.array([pairing[:2] for pairing in pairings], np.int64).reshape(-1, 2).T

    @property
    def counts(self) -> dict[str, int]:
        """Plans in all, and how many the rules exclude before hardware is judged."""
        every, right = (
            sum(len(self._problem.sources[pairing.source].dsps) * len(pairing.policies) for pairing in pairings)
            for pairings in (self._problem.every_pairing, self.pairings)
        )
        return {"all": every, ACCURACY: every - right, LATENCY: 0, UTILISATION: 0}

    @cached_property
    def rows(self) -> tuple[Floats, Ints, Ints]:
        """Rows of hardware by the least cost of their plans: cost, source and row."""
        costs, sources, rows = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number in np.unique(self.source).tolist():
            here = np.arange(len(self._problem.sources[number].dsps))
            trees = [tree for tree in self._problem.trees if tree.source == number]
            least = np.min([self._least_costs(tree, tree.branch.earliest, here) for tree in trees], axis=0)
            costs.append(MARGIN * least if self._cost == "energy" else least)  # sums of energies are rounded
            sources.append(np.full_like(here, number))
            rows.append(here)
        cost, source, row = np.concatenate(costs), np.concatenate(sources), np.concatenate(rows)
        order = np.lexsort((row, source, cost))
        return cost[order], source[order], row[order]

    def entries(self, rows: slice, wanted: Bools, counts: dict[str, int], threads: int | None = None) -> Field:
        """What the proofs leave of some rows and of the pairings that are wanted; what they exclude is counted."""
        _, sources, numbers = self.rows
        parts: list[Field] = []
        for number in np.unique(sources[rows]).tolist():
            here, source = numbers[rows][sources[rows] == number], self._problem.sources[number]
            left = np.zeros(len(here), np.bool_)
            lost = np.zeros((2, len(here)), np.int64)
            for _, _, at, _ in self._possible(number, source.least.at(here), wanted, lost):
                left[at] = True
            _count(counts, lost[:, ~left])
            near = here[left]
            lost = np.zeros((2, len(near)), np.int64)
            for tree, pairing, at, p99_s in self._possible(number, source.nearer(near, threads), wanted, lost):
                setting = self._problem.settings[self.pairings[pairing].setting]
                costs = self._least_costs(tree, setting, near[at])
                parts.append(Field(costs, near[at], np.full(len(at), pairing), p99_s))
            _count(counts, lost)
        return Field.of(parts)

    def in_order(self, parts: Sequence[Field]) -> Field:
        """Entries by rising cost."""
        field = Field.of(parts)
        source, setting = self.source[field.pairing], self._setting[field.pairing]
        return field.take(np.lexsort((field.pairing, setting, field.row, source, field.cost)))

    def _possible(
        self, source: int, least: LeastTimes, wanted: Bools, lost: Ints
    ) -> Iterator[tuple[PairedTree, int, Ints, Floats]]:
        """Pairings, the rows on which no proof excludes them, and their least 99th percentiles there.

        ``lost``: plans that latency, and utilisation, excludes are added here. Shapes: (2, N).
        """
        for tree in self._problem.trees:
            if tree.source != source:
                continue
            until = Until.of(least, tree.branch.earliest)
            stack = [(tree.branch, np.arange(len(until.work_s)), True)]
            while stack:
                branch, at, unknown = stack.pop()
                here = [pairing for number in branch.numbers if wanted[pairing := tree.pairing_of[number]]]
                if not (here and at.size):
                    continue
                load = self._load(branch, tree.fate)
                if unknown:
                    excluded = load.excluded(until.at(at), self._problem.sources[source].speedup)
                    lost[:, at] += len(here) * len(self.pairings[here[0]].policies) * np.array(excluded)
                    at = at[~np.logical_or(*excluded)]
                if not branch.parts:
                    yield tree, here[0], at, load.least_p99(until.at(at))
                for part in branch.parts:  # where each request may leave at the first exit, all settings are alike
                    same = tree.fate.early or part.earliest.thresholds == branch.earliest.thresholds
                    stack.append((part, at, not same))

    def _load(self, branch: Branch, fate: Fate) -> Load:
        """What the rules need to know of the requests with the earliest setting of a branch."""
        problem, setting = self._problem, branch.earliest
        key = setting.kept, fate.early or setting.thresholds
        if key not in self._loads:
            traffic = surely_run(problem.drawn(setting, problem.traffic.seed), fate)
            self._loads[key] = Load.of(len(problem.network.exits), setting, traffic, problem.requirements)
        return self._loads[key]

    def _least_costs(self, tree: PairedTree, setting: ExitSetting, rows: Ints) -> Floats:
        """What rows of a source cost at least with a setting; exactly if it is DSPs or their share."""
        problem, source = self._problem, self._problem.sources[tree.source]
        if self._cost == "energy":
            traffic = problem.drawn(setting, problem.traffic.seed)
            return least_energy(source, setting, traffic, tree.fate, rows)
        costs = {"dsps": source.dsps.astype(np.float64), "share": source.share, "work": source.least.whole_s}
        return costs[self._cost][rows]


def _count(counts: dict[str, int], lost: Ints) -> None:
    """Count the plans that rules exclude. Shapes: (2, N)."""
    for name, number in zip((LATENCY, UTILISATION), lost.sum(axis=1).tolist(), strict=True):
        counts[name] += number
