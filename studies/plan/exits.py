"""The exits that a plan may keep, and their thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ...models import Exit, Network
from ...rules.exit_choice import choose_exits
from ...rules.exit_log import log_of
from ...rules.exit_thresholds import ExitGoal
from ...traffic.exits import check_tried
from ...traffic.measures import NEVER, Measure, Threshold, show_threshold
from ...traffic.samples import Samples

MOST_SETTINGS = 20_000
"""Settings up to which every subset of the exits with every threshold at each is a choice; of more, one threshold for
all exits, and PAME's rule."""

MOST_SUBSETS = 5
"""Exits before the last up to which one threshold for all exits is tried at every subset of them; of more, at one."""

PRECISIONS = (0.999, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88)
"""Shares of the network's precision that PAME's rule is to keep."""

MOST_CELLS = 2**18
"""Cells of a histogram over the levels that samples reach; where there would be more, settings are counted apart."""

BATCHES = (1, 2, 4, 8)
"""Batch sizes that PAME's rule chooses exits for."""


BY_RATE: Threshold = -math.inf
"""The threshold of exits whose rates say who leaves, as in a network without samples."""


class ExitSetting(NamedTuple):
    """Exits that are kept beside the last one, counted from 1, and the threshold of each."""

    kept: tuple[int, ...]
    thresholds: tuple[Threshold, ...]
    rates: tuple[float, ...]  # share of the samples that leaves at each kept exit, and at the end
    accuracy: float | None = None  # of all samples; None without samples
    levels: tuple[float, ...] = ()  # the least value of the measure with which a sample leaves; -inf without samples
    lasts: tuple[int, ...] = ()  # of several networks behind one another: the last exits of all but the last network

    @property
    def of_each(self) -> list[ExitSetting]:
        """The setting of each network."""
        if not self.lasts:
            return [self]
        ends, parts, begin, first = [self.kept.index(last) for last in self.lasts], [], 0, 0
        for last, end in zip((*self.lasts, 0), (*ends, len(self.kept)), strict=True):
            at = slice(first, end)
            kept = tuple(place - begin for place in self.kept[at])
            parts.append(ExitSetting(kept, self.thresholds[at], self.rates[first : end + 1], None, self.levels[at]))
            begin, first = last, end + 1
        return parts

    @property
    def waits(self) -> bool:
        """Whether it keeps an exit that only answers requests whose deadline arrives."""
        return NEVER in self.thresholds

    @property
    def of_use(self) -> bool:
        """Whether some sample leaves at each exit whose threshold is not ``never``."""
        left = zip(self.rates, self.thresholds, strict=False)
        return all(rate > 0 or threshold == NEVER for rate, threshold in left)

    def keeps_all(self, of: Network) -> bool:
        """Whether it keeps all exits of a network."""
        return len(self.kept) == len(of.exits) - 1

    def shown(self, exits: Sequence[Exit]) -> list[tuple[str, Threshold | None]]:
        """The early exits that are kept, and the threshold of each; none where a network's rates say who leaves."""
        pairs = zip(self.kept, self.thresholds, strict=True)
        return [
            (exits[place - 1].name, None if at == BY_RATE else at) for place, at in pairs if place not in self.lasts
        ]

    def text(self, exits: Sequence[Exit]) -> str:
        """The setting as it is printed."""
        shown = [name + ("" if at is None else f" {show_threshold(at)}") for name, at in self.shown(exits)]
        return ", ".join(shown) or "none"

    def exits(self, of: Sequence[Exit], measure: Measure | None) -> list[Exit]:
        """The exits of a network that are kept, with their shares and thresholds."""
        names = [of[place - 1].name for place in self.kept]
        stated: list[dict[str, Any]] = [{} if measure is None else {measure.name: at} for at in self.thresholds]
        early = [
            Exit(name=name, rate=rate, **more) for name, rate, more in zip(names, self.rates, stated, strict=False)
        ]
        return [*early, of[-1].model_copy(update={"rate": self.rates[-1]})]


def as_stated(exits: Sequence[Exit]) -> list[ExitSetting]:
    """The only setting of a network without samples: its exits, with their rates."""
    early, rates = len(exits) - 1, tuple(exit_.rate for exit_ in exits)
    return [ExitSetting(tuple(range(1, early + 1)), (BY_RATE,) * early, rates, levels=(-math.inf,) * early)]


def joined(parts: Sequence[ExitSetting], exits: Sequence[int]) -> ExitSetting:
    """The setting of several networks, behind one another, with numbers of exits; its accuracy is their mean."""
    known = [part.accuracy for part in parts if part.accuracy is not None]
    kept: list[int] = []
    thresholds: list[Threshold] = []
    levels: list[float] = []
    lasts = list(accumulate(exits))
    for part, begin, last in zip(parts, (0, *lasts), lasts, strict=False):
        kept += [*(begin + place for place in part.kept), last]
        thresholds += [*part.thresholds, BY_RATE]
        levels += [*part.levels, -math.inf]
    rates = chain.from_iterable(part.rates for part in parts)
    accuracy = sum(known) / len(known) if known else None
    return ExitSetting(
        tuple(kept[:-1]), tuple(thresholds[:-1]), tuple(rates), accuracy, tuple(levels[:-1]), tuple(lasts[:-1])
    )


def every_setting(exits: Sequence[Exit], tried: Sequence[Threshold], *, never: bool, most: float) -> bool:
    """Whether every subset of the exits with every threshold at each is a choice: there are not more."""
    return bool((1 + len(_tried(tried, never=never))) ** (len(exits) - 1) <= most)


def chosen_settings(
    exits: Sequence[Exit],
    samples: Samples,
    tried: Sequence[Threshold],
    stage_s: Sequence[Floats],
    *,
    never: bool = True,
) -> list[ExitSetting]:
    """One threshold for all exits, and the settings that PAME's rule chooses; the most accurate first.

    It chooses by the times of some hardware, for every precision of :data:`PRECISIONS` and every batch
    size of :data:`BATCHES`.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1) each (:func:`fluidb.dse.exits.stage_times.stage_times`).
    """
    alike = settings_of(exits, samples, tried, never=never, alike=True)
    measure, log = samples.measure, log_of(samples)
    settings = {(setting.kept, setting.thresholds): setting for setting in alike}
    confidences = tuple(sorted({measure.least(threshold) for threshold in tried if threshold != NEVER}))
    for times_s, precision, batch in product(stage_s if confidences else (), PRECISIONS, BATCHES):
        if batch >= times_s.shape[-1] or batch > len(samples):
            continue
        choice = choose_exits(log, times_s, ExitGoal(batch, precision, thresholds=confidences))
        thresholds = tuple(measure.threshold(chosen.threshold) for chosen in choice.settings)
        settings[choice.exits, thresholds] = setting_with(samples, choice.exits, thresholds)
    return ordered(settings.values())


def settings_of(
    exits: Sequence[Exit], samples: Samples, tried: Sequence[Threshold], *, never: bool = True, alike: bool = False
) -> list[ExitSetting]:
    """Every subset of the exits with every threshold at each; the most accurate first.

    If ``never`` is tried, it may stand at any of the exits, unless it is of no use. A setting in which an exit with
    another threshold lets no sample leave is left out: with ``never`` there it is the same setting.  ``alike``: the
    thresholds that are not ``never`` are the same.
    """
    last, settings = len(exits), []
    _check(exits, samples, tried)
    tried = _tried(tried, never=never)
    most = 1 if alike and last - 1 > MOST_SUBSETS else last - 1
    for size in range(min(last, most + 1)):
        choices = list(_thresholds(tried, size, alike=alike))
        for kept in combinations(range(1, last), size):
            settings += [setting for setting in _settings(samples, kept, choices) if setting.of_use]
    return ordered(settings)


def _tried(tried: Sequence[Threshold], *, never: bool) -> list[Threshold]:
    return [threshold for threshold in dict.fromkeys(tried) if never or threshold != NEVER]


def _thresholds(tried: Sequence[Threshold], size: int, *, alike: bool) -> Iterable[tuple[Threshold, ...]]:
    """The thresholds of some exits; ``alike``: one that is tried, at all of them or with ``never`` at the others."""
    if not alike:
        return product(tried, repeat=size)
    others = [NEVER] if NEVER in tried else []
    each = (product(dict.fromkeys([threshold, *others]), repeat=size) for threshold in tried)
    return dict.fromkeys(chain.from_iterable(each)) if size else [()]


def ordered(settings: Iterable[ExitSetting]) -> list[ExitSetting]:
    """The settings, the most accurate first."""
    return sorted(settings, key=lambda setting: (-(setting.accuracy or 0.0), setting.kept, setting.rates))


def setting_with(samples: Samples, kept: tuple[int, ...], thresholds: tuple[Threshold, ...]) -> ExitSetting:
    """A setting with its shares and its accuracy on all samples."""
    return next(_settings(samples, kept, [thresholds]))


def _settings(
    samples: Samples, kept: tuple[int, ...], choices: Sequence[tuple[Threshold, ...]]
) -> Iterator[ExitSetting]:
    """Settings of the same exits, with their shares and their accuracy on all samples."""
    here, least = samples.at_exits(kept, [1] * len(kept)), samples.measure.least
    levels = [tuple(map(least, thresholds)) for thresholds in choices]
    left, right = leavers(here.confidences, here.correct, np.array(levels).reshape(len(levels), len(kept)))
    for row, thresholds in enumerate(choices):
        rates, accuracy = left[row] / len(samples), right[row].sum() / len(samples)
        yield ExitSetting(kept, thresholds, tuple(rates.tolist()), float(accuracy), levels[row])


def leavers(confidences: Floats, correct: NDArray[Any], levels: Floats) -> tuple[Ints, Floats]:
    """Samples that leave at each exit, and the right answers among them, for many settings of the exits at once.

    A sample passes an exit if its confidence there is below the level: it is counted in a histogram over how many of
    the exit's levels it reaches.

    Shapes: (N, K), (N, K + 1), (S, K); returns (S, K + 1) each.
    """
    count, early = levels.shape
    distinct = [np.unique(levels[:, exit_]) for exit_ in range(early)]
    if math.prod(len(at) + 1 for at in distinct) > MOST_CELLS:
        return _leavers_apart(confidences, correct, levels)
    reached = [np.searchsorted(at, confidences[:, exit_], side="right") for exit_, at in enumerate(distinct)]
    places = [np.searchsorted(at, levels[:, exit_]) for exit_, at in enumerate(distinct)]

    def passed(exits_: int, weights: Floats | None = None) -> NDArray[Any]:
        """Samples that pass the first exits with each setting: those that reach at most the level's place at each."""
        shape = [len(at) + 1 for at in distinct[:exits_]]
        cells = np.ravel_multi_index(reached[:exits_], shape) if exits_ else np.zeros(len(confidences), np.int64)
        sums = np.bincount(cells, weights, minlength=math.prod(shape)).reshape(shape)
        for axis in range(exits_):
            sums = sums.cumsum(axis)
        return np.broadcast_to(sums[tuple(places[:exits_])], count)

    scores = correct.astype(np.float64).T
    left = [passed(exit_) - passed(exit_ + 1) for exit_ in range(early)]
    right = [passed(exit_, scores[exit_]) - passed(exit_ + 1, scores[exit_]) for exit_ in range(early)]
    return np.column_stack([*left, passed(early)]), np.column_stack([*right, passed(early, scores[early])])


def _leavers_apart(confidences: Floats, correct: NDArray[Any], levels: Floats) -> tuple[Ints, Floats]:
    """The same, one setting after the other."""
    left, right, samples = [], [], np.arange(len(confidences))
    for level in levels:
        leaves = np.column_stack([confidences >= level, np.ones(len(samples), np.bool_)])
        exit_ = leaves.argmax(axis=1)
        left.append(np.bincount(exit_, minlength=leaves.shape[1]))
        right.append(np.bincount(exit_, correct[samples, exit_].astype(np.float64), leaves.shape[1]))
    return np.array(left), np.array(right)


def _check(exits: Sequence[Exit], samples: Samples, tried: Sequence[Threshold]) -> None:
    where, last = samples.source or "samples", len(exits)
    if samples.exits != last:
        raise InputError(f"{where}: expected answers at {last} exits, which the network has, found {samples.exits}")
    check_tried(tried, samples.measure)
    if not tried:
        raise InputError("thresholds: expected at least one, found none")
