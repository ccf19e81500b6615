"""Settings of the exits as trees: what excludes a branch excludes each setting on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import le
from typing import NamedTuple

import numpy as np

from .exits import ExitSetting


class Branch(NamedTuple):
    """Settings that keep the same exits, and one with which no request leaves later than with any of them."""

    earliest: ExitSetting  # if it is none of them, its shares mean nothing
    numbers: tuple[int, ...]  # of the settings
    parts: tuple[Branch, ...]  # two, or none if there is one setting

    def paths(self) -> Iterator[tuple[int, tuple[Branch, ...]]]:
        """Each setting, and the branches that it is on, the largest first."""
        if not self.parts:
            yield self.numbers[0], (self,)
        for part in self.parts:
            for number, path in part.paths():
                yield number, (self, *path)


def branches_of(settings: Sequence[ExitSetting], numbers: Collection[int]) -> list[Branch]:
    """The trees of some settings, one for all that keep the same exits."""
    by_kept: dict[tuple[int, ...], list[int]] = {}
    for number in numbers:
        by_kept.setdefault(settings[number].kept, []).append(number)
    return [_branch(settings, here) for here in by_kept.values()]


def _branch(settings: Sequence[ExitSetting], numbers: Sequence[int]) -> Branch:
    """The tree of settings: half of them are on either part, by the levels of the exit where most differ."""
    if len(numbers) == 1:
        return Branch(settings[numbers[0]], tuple(numbers), ())
    levels = np.array([settings[number].levels for number in numbers])
    exit_ = max(range(levels.shape[1]), key=lambda at: len(np.unique(levels[:, at])))
    order, half = np.array(numbers)[np.argsort(levels[:, exit_], kind="stable")].tolist(), len(numbers) // 2
    parts = _branch(settings, order[:half]), _branch(settings, order[half:])
    return Branch(_earliest(*(part.earliest for part in parts)), tuple(order), parts)


def _earliest(one: ExitSetting, other: ExitSetting) -> ExitSetting:
    """The lower threshold of two settings at each exit."""
    of_one, of_other = zip(one.levels, one.thresholds, strict=True), zip(other.levels, other.thresholds, strict=True)
    lower = [min(pair, key=lambda at: at[0]) for pair in zip(of_one, of_other, strict=True)]
    levels, thresholds = zip(*lower, strict=True)
    return one._replace(levels=levels, thresholds=thresholds, accuracy=None)


def first_to_leave(settings: Sequence[ExitSetting], numbers: Collection[int]) -> list[int]:
    """Of some settings those with which requests leave no later than with any other one that keeps the same exits."""
    least: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
    chosen = []
    for number in sorted(numbers, key=lambda at: sorted(settings[at].levels, reverse=True)):
        levels = settings[number].levels
        rivals = least.setdefault(settings[number].kept, [])
        if not any(all(map(le, rival, levels)) for rival in rivals):
            rivals.append(levels)
            chosen.append(number)
    return chosen
