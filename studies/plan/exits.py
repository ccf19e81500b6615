"""The exits that a plan may keep, and their thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...models import Exit, Network
from ...rules.exit_choice import ExitGoal, choose_exits, log_of
from ...traffic.exits import check_tried, decide
from ...traffic.measures import NEVER, Measure, Threshold, show_threshold
from ...traffic.samples import Samples

MOST_SUBSETS = 5
"""Exits before the last up to which every subset of them is a choice; of more, PAME's rule chooses."""

PRECISIONS = (0.999, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88)
"""Shares of the network's precision that PAME's rule is to keep."""

BATCHES = (1, 2, 4, 8)
"""Batch sizes that PAME's rule chooses exits for."""


class ExitSetting(NamedTuple):
    """Exits that are kept beside the last one, counted from 1, and the threshold of each."""

    kept: tuple[int, ...]
    thresholds: tuple[Threshold, ...] | None  # None where the exits of requests are stated or drawn by rates
    rates: tuple[float, ...]  # share of the samples that leaves at each kept exit, and at the end
    accuracy: float | None = None  # of all samples; None without samples
    levels: tuple[float, ...] | None = None  # the least value of the measure with which a sample leaves each exit

    def leaves_earlier(self, other: ExitSetting) -> bool:
        """Whether it keeps the same exits, and no request leaves later than with another setting."""
        if self.kept != other.kept or self.levels is None or other.levels is None:
            return False
        return all(own <= level for own, level in zip(self.levels, other.levels, strict=True))

    @property
    def waits(self) -> bool:
        """Whether it keeps an exit that only answers requests whose deadline arrives."""
        return NEVER in (self.thresholds or ())

    def keeps_all(self, of: Network) -> bool:
        """Whether it keeps all exits of a network."""
        return len(self.kept) == len(of.exits) - 1

    def text(self, exits: Sequence[Exit]) -> str:
        """The setting as it is printed."""
        names = [exits[place - 1].name for place in self.kept]
        if self.thresholds is None:
            return ", ".join(names) or "none"
        shown = [f"{name} {show_threshold(at)}" for name, at in zip(names, self.thresholds, strict=True)]
        return ", ".join(shown) or "none"

    def exits(self, of: Network, measure: Measure | None) -> list[Exit]:
        """The exits of a network that are kept, with their shares and thresholds."""
        names = [of.exits[place - 1].name for place in self.kept]
        stated: list[dict[str, Any]] = [{}] * len(names)
        if self.thresholds is not None and measure is not None:
            stated = [{measure.name: at} for at in self.thresholds]
        early = [
            Exit(name=name, rate=rate, **more) for name, rate, more in zip(names, self.rates, stated, strict=False)
        ]
        return [*early, of.exits[-1].model_copy(update={"rate": self.rates[-1]})]


def as_stated(exits: Sequence[Exit]) -> list[ExitSetting]:
    """The only setting of a network without samples: its exits, with their rates."""
    return [ExitSetting(tuple(range(1, len(exits))), None, tuple(exit_.rate for exit_ in exits))]


def chosen_settings(
    exits: Sequence[Exit],
    samples: Samples,
    tried: Sequence[Threshold],
    stage_s: Sequence[NDArray[np.float64]],
    *,
    never: bool = True,
) -> list[ExitSetting]:
    """At most one exit with every threshold, and those that PAME's rule chooses; the most accurate first.

    It chooses by the times of some hardware, for every precision of :data:`PRECISIONS` and every batch
    size of :data:`BATCHES`.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1) each (:func:`fluidb.dse.exits.stage_times.stage_times`).
    """
    alone = settings_of(exits, samples, tried, most=1, never=never)
    measure, log = samples.measure, log_of(samples)
    settings = {(setting.kept, setting.thresholds): setting for setting in alone}
    confidences = tuple(sorted({measure.least(threshold) for threshold in tried if threshold != NEVER}))
    for times_s, precision, batch in product(stage_s if confidences else (), PRECISIONS, BATCHES):
        if batch >= times_s.shape[-1] or batch > len(samples):
            continue
        choice = choose_exits(log, times_s, ExitGoal(batch, precision, confidences=confidences))
        thresholds = tuple(measure.threshold(chosen.confidence) for chosen in choice.settings)
        settings[choice.exits, thresholds] = _setting(samples, choice.exits, thresholds)
    return _ordered(settings.values())


def settings_of(
    exits: Sequence[Exit], samples: Samples, tried: Sequence[Threshold], most: int = MOST_SUBSETS, *, never: bool = True
) -> list[ExitSetting]:
    """Every subset of at most ``most`` exits with every threshold, the same for all exits; the most accurate first.

    If ``never`` is tried, it may stand at any of the exits, unless it is of no use. A setting in which an exit with
    another threshold lets no sample leave is left out: with ``never`` there it is the same setting.
    """
    last, settings = len(exits), []
    _check(exits, samples, tried)
    tried = [threshold for threshold in tried if never or threshold != NEVER]
    for size in range(min(last, most + 1)):
        for kept, thresholds in product(combinations(range(1, last), size), _thresholds(tried, size)):
            setting = _setting(samples, kept, thresholds)
            left = zip(setting.rates[:-1], thresholds, strict=True)
            if all(rate > 0 or threshold == NEVER for rate, threshold in left):
                settings.append(setting)
    return _ordered(settings)


def _thresholds(tried: Sequence[Threshold], size: int) -> Iterable[tuple[Threshold, ...]]:
    """The thresholds of some exits: one that is tried at all of them, or at some, and ``never`` at the others."""
    others = [NEVER] if NEVER in tried else []
    each = (product(dict.fromkeys([threshold, *others]), repeat=size) for threshold in tried)
    return dict.fromkeys(chain.from_iterable(each)) if size else [()]


def _ordered(settings: Iterable[ExitSetting]) -> list[ExitSetting]:
    return sorted(settings, key=lambda setting: (-(setting.accuracy or 0.0), setting.kept, setting.rates))


def _setting(samples: Samples, kept: tuple[int, ...], thresholds: tuple[Threshold, ...]) -> ExitSetting:
    """A setting with its shares and its accuracy on all samples."""
    here = samples.at_exits(kept, [1] * len(kept))
    levels = tuple(samples.measure.least(threshold) for threshold in thresholds)
    left = decide(here.confidences, levels, len(kept) + 1)
    rates = np.bincount(left - 1, minlength=len(kept) + 1) / len(samples)
    accuracy = float(here.correct[np.arange(len(samples)), left - 1].mean())
    return ExitSetting(kept, thresholds, tuple(rates.tolist()), accuracy, levels)


def _check(exits: Sequence[Exit], samples: Samples, tried: Sequence[Threshold]) -> None:
    where, last = samples.source or "samples", len(exits)
    if samples.exits != last:
        raise InputError(f"{where}: expected answers at {last} exits, which the network has, found {samples.exits}")
    check_tried(tried, samples.measure)
    if not tried:
        raise InputError("thresholds: expected at least one, found none")
