"""Plans that a scheduler that knows the future could save; no policy can save the others."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...formats.array_types import Floats
from ...serving.requirements import Requirement
from .clairvoyant import Clairvoyant, TimesOfParts
from .exits import ExitSetting
from .problem import Fate, PlanProblem
from .rules import joint_limits, surely_run


class Entrant(NamedTuple):
    """A setting and the policies of a fate."""

    less: float  # minus the accuracy, at most
    setting: int
    fate: Fate
    below_s: float  # what the 99th percentile must be below; infinite where nothing needs to be beaten
    cost: float  # at least


class RaceTask(NamedTuple):
    """A row of a source, and settings on it, the most accurate first."""

    source: int
    row: int
    entries: tuple[Entrant, ...]


def required_of(problem: PlanProblem, below_s: float) -> list[Requirement]:
    """The requirements on a plan, and that its 99th percentile is below a bound, if there is one."""
    beats = [] if math.isinf(below_s) else [Requirement(f"p99 < {below_s:g}s", "p99", "<", below_s)]
    return [*problem.requirements, *beats]


class Hope:
    """Whether a scheduler that knows the future could keep the requirements with a setting on a row of hardware."""

    def __init__(self, problem: PlanProblem, task: RaceTask, times: TimesOfParts) -> None:
        self._problem, self._source = problem, task.source
        steps = [network.exits[-1].steps for network in problem.networks]
        self._clairvoyant = Clairvoyant(problem.sources[task.source], times, steps, problem.settings[0].lasts)
        self._most_s: dict[Fate, float] = {}  # what any entrant's 99th percentile must be below
        for entrant in task.entries:
            self._most_s[entrant.fate] = max(entrant.below_s, self._most_s.get(entrant.fate, 0.0))
        self._known: dict[tuple[Any, ...], bool] = {}
        self._lost: dict[tuple[Fate, bool], set[int]] = {}  # settings that none could

    def of(self, entrant: Entrant, *, by_layer: bool) -> bool:
        """Whether it could, for each of the settings that let requests leave as early or earlier, the earliest first.

        ``by_layer``: whether batches may change at every layer, not only where a stage ends.
        """
        fate, most_s = entrant.fate, self._most_s[entrant.fate]
        lost = self._lost.setdefault((fate, by_layer), set())
        if entrant.setting in lost:
            return False
        path = self._problem.path(self._source, fate, entrant.setting)
        for branch in path[: 1 if fate.early else None]:
            if not self._at(fate, by_layer, most_s, branch.earliest):
                lost.update(branch.numbers)
                return False
        return entrant.below_s == most_s or self._at(fate, by_layer, entrant.below_s, path[-1].earliest)

    def _at(self, fate: Fate, by_layer: bool, below_s: float, setting: ExitSetting) -> bool:
        key = fate, by_layer, below_s, setting.kept, fate.early or setting.thresholds
        if key not in self._known:
            traffic = surely_run(self._problem.drawn(setting, self._problem.traffic.seed), fate)
            limits = joint_limits(required_of(self._problem, below_s), traffic)
            self._known[key] = not self._clairvoyant.fails(setting.kept, traffic, limits, by_layer=by_layer)
        return self._known[key]


class NearTask(NamedTuple):
    """A task, and times of the stages of its row that no layout goes below."""

    task: RaceTask
    parts_s: Floats  # (E, 2, B), as of :meth:`Source.near_times`


class Hopeful(NamedTuple):
    """What is left of a task."""

    task: RaceTask
    hopeless: int  # plans that are left out


def leave_out_hopeless(problem: PlanProblem, near: NearTask) -> Hopeful:
    """A task without the settings that no policy can save even with the least times of its row.

    Where batches may change at every layer, each layer has a batch size of its own: of it these times say nothing.
    """
    task, by_fate, lost, left = near.task, problem.by_fate(), 0, []
    parts = np.arange(2 * len(near.parts_s)), near.parts_s.reshape(-1, near.parts_s.shape[-1])
    hope = Hope(problem, task, parts)
    for entrant in task.entries:
        if problem.by_stage[entrant.fate] and not hope.of(entrant, by_layer=False):
            lost += len(by_fate[entrant.fate])
        else:
            left.append(entrant)
    return Hopeful(task._replace(entries=tuple(left)), lost)
