"""Times of batches that run through exits (PAME, Sections 4.2 and 6.3), on plain arrays.

The *stage times* T(a, b, B) are the times of a device from place a to place b with a batch of B: place 0 is the input,
1..K are the candidates, K + 1 is the end of the network.  T(a, a, B) is the time to gather B samples at a when others
leave there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..formats.array_types import Bools, Floats, Ints
from .exit_log import Log
from .exit_thresholds import Setting

NEARLY = 1e-9
"""Times that differ by less than this share are equal: their sums were rounded in different orders."""


class Passage(NamedTuple):
    """Samples of a log that ran through exits in batches; each batch runs alone."""

    leaves: Bools  # (E, N), who leaves at each exit
    scores: Floats  # (N,), of the answers
    moving: Ints  # (E, batches), samples of each batch that move on behind each exit
    batch_s: Floats  # (batches,), time of each
    summed_s: float  # times of all samples in whole batches, from the start of their batch


class LogReplay(NamedTuple):
    """Figures of a log that ran through chosen exits in whole batches, one after the other."""

    average_s: float  # mean latency of a sample
    tail_s: float  # mean over batches of the latency of the last sample
    original_s: float  # latency of a batch without exits, t_0
    slow_share: float  # of batches that took longer than that
    precision: float  # as a share of the network's own
    exit_shares: Floats  # (E + 1,), of samples that leave at each exit, and at the end
    moving: Ints  # (E, batches), samples of each batch that move on behind each exit


def moving_on(staying: Bools, batch: int | Ints) -> Ints:
    """Samples of each batch that move on, by the size of each.

    With one size for all, the last batch is left out if it is not whole.
    """
    if not isinstance(batch, int):
        return np.add.reduceat(staying, np.cumsum(batch) - batch, dtype=np.int64)
    whole = len(staying) // batch
    return np.asarray(staying[: whole * batch].reshape(whole, batch).sum(axis=1), dtype=np.int64)


def pattern_row(moving: Ints, width: int, bins: int) -> Ints:
    """A row of the batching-pattern matrix: batches by the number of samples that move on (Section 6.3.2)."""
    return np.bincount(-(-moving // width), minlength=bins + 1).astype(np.int64)


def bin_sizes(width: int, bins: int, batch: int) -> Ints:
    """The batch size of each bin: its upper edge, at most the batch."""
    return np.minimum(np.arange(bins + 1) * width, batch)


def gathering(stage_s: Floats, place: int, reaching: Ints | int, staying: Ints | int) -> Floats:
    """Time to gather the samples that stay in batches; none where nobody leaves, or all do."""
    return np.where(np.less(staying, reaching), stage_s[place, place, staying], 0.0)


def rest_of(stage_s: Floats, place: int, reaching: Ints | int, staying: Ints | int) -> Floats:
    """Time behind an exit of batches that run to the end from there."""
    rest_s: Floats = stage_s[place, -1, staying] + gathering(stage_s, place, reaching, staying)
    return rest_s


def time_row(stage_s: Floats, after: int, candidate: int, batch: int, width: int, bins: int) -> Floats:
    """A row of the inference-time matrix: both stages, by the batch size of the second (Section 6.3.1).

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1), returns (h + 1,).
    """
    sizes = bin_sizes(width, bins, batch)
    whole = batch if width == 1 else batch + 1  # in a wider bin some of the batch may have left
    row: Floats = stage_s[after, candidate, batch] + rest_of(stage_s, candidate, whole, sizes)
    return row


def average_latency(time_s: Floats, pattern: Ints, sizes: Ints, batch: int) -> float:
    """Average latency of a sample with one exit (Equation 2).

    Shapes: ``time_s, pattern`` (h + 1,), ``sizes`` (h + 1,).

    Examples
    --------
    >>> average_latency(np.array([5.0, 7, 8, 9, 10]), np.array([1, 2, 0, 1, 0]), np.arange(5), 4)
    6.0
    """
    weighted = ((batch - sizes) * time_s[0] + sizes * time_s) * pattern
    return float(weighted.sum() / (batch * pattern.sum()))


def slow_share(time_s: Floats, pattern: Ints, limit_s: float) -> float:
    """Share of the batches that take longer than a limit, by the rows of a candidate."""
    return float(pattern[time_s > limit_s * (1 + NEARLY)].sum() / pattern.sum())


def exceeded_by(sizes: Ints, share: float) -> int:
    """The smallest size that at most this share of the batches exceeds; empty batches do not count."""
    some = np.sort(sizes[sizes > 0])
    return int(some[max(math.ceil((1 - share) * len(some) - NEARLY), 1) - 1]) if len(some) else 0


def run_exits(log: Log, stage_s: Floats, batch: int | Ints, exits: Iterable[tuple[int, float, int]]) -> Passage:
    """Run a log through exits (candidate, threshold, column) in batches; survivors are compacted (Section 4.2).

    Batches are whole, or of the sizes ``batch``.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1).
    """
    alive = np.ones(len(log.scores), dtype=np.bool_)
    scores = log.scores[:, -1].copy()
    reaching = moving_on(alive, batch)
    clock_s, summed_s = np.zeros(len(reaching)), 0.0
    at, moving, left = 0, [], []
    for candidate, threshold, column in exits:
        leaves = alive & (log.sureness[:, candidate - 1, column] >= threshold)
        scores[leaves] = log.scores[leaves, candidate - 1]
        alive &= ~leaves
        stay = moving_on(alive, batch)
        clock_s = clock_s + stage_s[at, candidate, reaching]
        summed_s += float(((reaching - stay) * clock_s).sum())
        clock_s = clock_s + gathering(stage_s, candidate, reaching, stay)
        left.append(leaves)
        moving.append(stay)
        at, reaching = candidate, stay
    clock_s = clock_s + stage_s[at, -1, reaching]
    summed_s += float((reaching * clock_s).sum())
    return Passage(
        np.array(left, dtype=np.bool_).reshape(len(left), len(alive)), scores,
        np.array(moving, dtype=np.int64).reshape(len(left), len(clock_s)), clock_s, summed_s,
    )  # fmt: skip


def replay_exits(log: Log, stage_s: Floats, batch: int, exits: Sequence[int], settings: Sequence[Setting]) -> LogReplay:
    """Figures of a log that runs through exits in whole batches.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1).
    """
    chain = [(place, setting.threshold, setting.column) for place, setting in zip(exits, settings, strict=True)]
    ran = run_exits(log, stage_s, batch, chain)
    original_s, own, shares = float(stage_s[0, -1, batch]), log.scores[:, -1].sum(), ran.leaves.mean(axis=1)
    return LogReplay(
        average_s=ran.summed_s / (len(ran.batch_s) * batch),
        tail_s=float(ran.batch_s.mean()),
        original_s=original_s,
        slow_share=float(np.mean(ran.batch_s > original_s * (1 + NEARLY))),
        precision=float(ran.scores.sum() / own) if own else 1.0,
        exit_shares=np.append(shares, (~ran.leaves.any(axis=0)).mean()),
        moving=ran.moving,
    )
