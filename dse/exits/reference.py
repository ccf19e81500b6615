"""The best choice of one or two exits, by trying all of them: says how far the greedy choice is from it."""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...rules.exit_choice import (
    NEARLY,
    ExitGoal,
    Floats,
    Log,
    LogReplay,
    Setting,
    levels_of,
    precision_margin,
    replay_exits,
)


class Reference(NamedTuple):
    """The best of all choices of at most two exits.

    Attributes
    ----------
    exits : tuple of int
        Candidates, in order of depth.
    settings : tuple of Setting
        Thresholds of each; ``exits`` and ``precision`` of both together.
    replayed : LogReplay
        What the log gives with them.
    """

    exits: tuple[int, ...]
    settings: tuple[Setting, ...]
    replayed: LogReplay


class _Found(NamedTuple):
    average_s: float
    exits: tuple[int, ...]
    thresholds: tuple[tuple[int, int], ...]


def best_exits(log: Log, stage_s: Floats, goal: ExitGoal) -> Reference | None:
    """Try every candidate and every pair of candidates, with all their thresholds.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1).
    """
    levels = levels_of(log, goal.confidences)
    candidates, columns = range(1, log.candidates + 1), range(levels.shape[2])
    every = (
        _best_thresholds(log, levels, stage_s, goal, exits, chosen)
        for number in (1, 2)
        for exits in combinations(candidates, number)
        for chosen in product(columns, repeat=number)
    )
    best = min(filter(None, every), key=lambda found: found.average_s, default=None)
    if best is None:
        return None
    settings = [Setting(goal.confidences[at], column, 0, 0.0) for column, at in best.thresholds]
    replayed = replay_exits(log, stage_s, goal.batch, best.exits, settings)
    settings = [
        setting._replace(exits=round(share * len(log.scores)), precision=replayed.precision)
        for setting, share in zip(settings, replayed.exit_shares, strict=False)
    ]
    return Reference(best.exits, tuple(settings), replayed)


def _best_thresholds(
    log: Log,
    levels: NDArray[np.uint8],
    stage_s: Floats,
    goal: ExitGoal,
    exits: tuple[int, ...],
    columns: tuple[int, ...],
) -> _Found | None:
    """The best confidence thresholds of one or two exits with given count thresholds.

    Samples are counted by the levels that they reach at the exits; sums over ranges of levels then give every
    threshold at once.  One exit is treated as two of which nobody leaves at the first.
    """
    one, number = len(exits) == 1, len(goal.confidences)
    end = log.scores[:, -1]
    first = np.zeros(len(end), dtype=np.int64) if one else levels[:, exits[0] - 1, columns[0]].astype(np.int64)
    last = levels[:, exits[-1] - 1, columns[-1]].astype(np.int64)
    before = (1 - goal.searched) * end
    cells = first * (number + 1) + last

    def leaving(scores_first: Floats, scores_last: Floats) -> Floats:
        """By both thresholds, the sum over samples that leave at the first exit, or else at the last."""
        grids = [np.bincount(cells, w, (number + 1) ** 2).reshape(number + 1, -1) for w in (scores_first, scores_last)]
        at_first = grids[0].sum(axis=1)[::-1].cumsum()[::-1][1:]
        at_last = grids[1].cumsum(axis=0)[:-1, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        both: Floats = at_first[:, None] + at_last
        return both

    gains = [log.scores[:, exit_ - 1] - end for exit_ in (exits[0], exits[-1])]
    total = end.sum() + leaving(*gains)
    squares = (before**2).sum() + leaving(*((before + gain) ** 2 - before**2 for gain in gains))
    precise = precision_margin(total, squares, end, goal) > 0
    if not precise.any():
        return None
    whole = len(end) // goal.batch
    counts = np.zeros((whole, number + 1, number + 1), dtype=np.int64)
    rows = np.repeat(np.arange(whole), goal.batch)
    np.add.at(counts, (rows, first[: len(rows)], last[: len(rows)]), 1)
    stay_first = counts.sum(axis=2).cumsum(axis=1)[:, :-1]
    stay_last = counts.cumsum(axis=1).cumsum(axis=2)[:, :-1, :-1]
    first_s = 0.0 if one else stage_s[0, exits[0], goal.batch]
    middle_s = stage_s[0 if one else exits[0], exits[-1], stay_first][:, :, None]
    end_s = stage_s[exits[-1], -1, stay_last]
    slow = (first_s + middle_s + end_s > stage_s[0, -1, goal.batch] * (1 + NEARLY)).mean(axis=0)
    summed_s = goal.batch * first_s + stay_first[:, :, None] * middle_s + stay_last * end_s
    average_s = np.where(precise & (slow <= goal.slow + NEARLY), summed_s.mean(axis=0) / goal.batch, np.inf)
    if one:  # any first threshold is the same
        average_s = average_s[:1]
    at_first, at_last = np.unravel_index(int(average_s.argmin()), average_s.shape)
    if not np.isfinite(average_s[at_first, at_last]):
        return None
    thresholds = ((columns[-1], int(at_last)),) if one else ((columns[0], int(at_first)), (columns[1], int(at_last)))
    return _Found(float(average_s[at_first, at_last]), exits, thresholds)
