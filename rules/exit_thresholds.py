"""Thresholds of an exit that keep the precision and let most samples leave (PAME, Section 6.2), on plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Bools, Floats
from ..traffic.measures import CONFIDENCE
from .exit_log import Log, levels_of

ONE_SIDED_95 = 1.6448536269514722
"""Quantile of the standard normal distribution, for the guard ``"bound"``."""


@dataclass(frozen=True, slots=True)
class ExitGoal:
    """Requirements of a choice."""

    batch: int  # samples of a batch, n
    precision: float = 0.99  # share of the network's own precision that must be kept, eta
    slow: float = 0.02  # share of batches that may take longer than without exits, tau_l
    width: int = 1  # of a bin of the batching-pattern matrix, v
    gain: float = 0.02  # share of the time of the remaining stage that a later exit must save, g
    # "observed": judge later exits by the (1 - tau_l) quantile of the batches that get there, and batch by batch.
    # "literal", as the paper can also be read: by the largest batch for which the exit before was not slow; Equation 3
    # then holds for nearly every exit, and single batches do not count.
    posterior: Literal["observed", "literal"] = "observed"
    # protects the precision on samples that are not in the log: a higher precision on the log, or 95 % confidence
    guard: float | Literal["bound"] | None = None
    thresholds: tuple[float, ...] = CONFIDENCE.searched  # to try, ascending; of entropies with a minus

    @property
    def bins(self) -> int:
        """Bins of a row of the batching-pattern matrix after the first, h = ceil(n / v)."""
        return -(-self.batch // self.width)

    @property
    def searched(self) -> float:
        """The precision that thresholds must keep on the log."""
        return self.guard if isinstance(self.guard, float) else self.precision

    @property
    def unguarded(self) -> ExitGoal:
        """The same goal without its guard."""
        return replace(self, guard=None)


class Setting(NamedTuple):
    """Thresholds of a candidate, and their effect."""

    threshold: float  # a sample leaves if it is as sure
    column: int  # of the count threshold in Log.counts
    exits: int  # samples of the log that leave here
    precision: float  # of all exits together, as a share of the network's own (Equation 1)


def find_setting(
    log: Log,
    candidate: int,
    levels: NDArray[np.uint8],
    alive: Bools,
    goal: ExitGoal,
    settled: Floats,
    allowed: Bools | None = None,
) -> tuple[Setting, bool]:
    """Thresholds of a candidate that keep the precision and let most samples leave (Section 6.2).

    Shapes: ``levels`` (N, K, M), ``alive`` (N,), ``settled`` (N,), the scores of the answers so far, ``allowed``
    (K, M, T).
    """
    own = log.scores[:, -1].sum()
    best: tuple[tuple[float, ...], Setting, bool] | None = None
    for column in range(levels.shape[2]):
        exits, total, margin = by_threshold(log, candidate, column, levels, alive, goal, settled)
        for at, threshold in enumerate(goal.thresholds):
            if not exits[at] or (allowed is not None and not allowed[candidate - 1, column, at]):
                continue
            setting = Setting(threshold, column, int(exits[at]), float(total[at] / own) if own else 0.0)
            kept = bool(margin[at] > 0)
            order = (float(kept), float(exits[at]) if kept else float(margin[at]), float(total[at]), threshold, column)
            if best is None or order > best[0]:
                best = order, setting, kept
    if best is None:  # no sample reaches even the lowest threshold
        return Setting(goal.thresholds[0], 0, 0, float(settled.sum() / own) if own else 0.0), False
    return best[1], best[2]


def by_threshold(
    log: Log, candidate: int, column: int, levels: NDArray[np.uint8], alive: Bools, goal: ExitGoal, settled: Floats
) -> tuple[Floats, Floats, Floats]:
    """By threshold: samples that leave at a candidate, summed scores of all answers, and the margin of these."""
    end, number, level = log.scores[:, -1], len(goal.thresholds), levels[:, candidate - 1, column][alive]
    gained = (log.scores[:, candidate - 1] - settled)[alive]

    def leaving(weights: Floats | None = None) -> Floats:
        """Sum over samples that leave."""
        return np.bincount(level, weights, number + 1)[::-1].cumsum()[::-1][1:]

    squares, total = None, settled.sum() + leaving(gained)
    if goal.guard == "bound":
        before = settled - goal.searched * end  # by sample; must stay positive on average
        squares = (before**2).sum() + leaving((before[alive] + gained) ** 2 - before[alive] ** 2)
    return leaving(), total, precision_margin(total, squares, end, goal)


def kept_thresholds(log: Log, goal: ExitGoal) -> Bools:
    """Whether each threshold of each candidate keeps the precision where it is the only exit.

    Shapes: returns (K, M, T).
    """
    levels, everyone = levels_of(log, goal.thresholds), np.ones(len(log.scores), dtype=np.bool_)
    kept = np.zeros((*levels.shape[1:], len(goal.thresholds)), dtype=np.bool_)
    for at, column in np.ndindex(kept.shape[:2]):
        kept[at, column] = by_threshold(log, at + 1, column, levels, everyone, goal, log.scores[:, -1])[2] > 0
    return kept


def precision_margin(total: Floats, squares: Floats | None, end: Floats, goal: ExitGoal) -> Floats:
    """Margin of summed scores over the score to keep; with the guard ``"bound"``, its lower 95 % confidence bound."""
    margin: Floats = total - goal.searched * end.sum()
    if goal.guard != "bound":
        return margin
    assert squares is not None
    return margin - ONE_SIDED_95 * np.sqrt(np.maximum(squares - margin**2 / len(end), 0.0))
