"""Choice of the exits of a network and of their thresholds (PAME, Section 6), on plain arrays.

The *log* holds how sure the answer of each sample is at every candidate, and its score.  The *stage times*
T(a, b, B) are the times of a device from place a to place b with a batch of B: place 0 is the input, 1..K are the
candidates, K + 1 is the end of the network.  T(a, a, B) is the time to gather B samples at a when others leave there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.exit_plan import Outcome
from ..traffic.measures import CONFIDENCE
from ..traffic.samples import Samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COUNTS = 10
"""Count thresholds that are tried where an answer has several principal values: ten equal fractions of their number."""

NEARLY = 1e-9
"""Times that differ by less than this share are equal: their sums were rounded in different orders."""

ONE_SIDED_95 = 1.6448536269514722
"""Quantile of the standard normal distribution, for the guard ``"bound"``."""


class Log(NamedTuple):
    """Answers of a network with K candidates to N samples."""

    # (N, K, M), how sure each answer is, as the measure has it: for each count threshold m the m-th largest principal
    # value of the sample at the candidate, the highest threshold with which it leaves (Section 5.3)
    sureness: Floats
    scores: Floats  # (N, K + 1), of the answers at each candidate and at the end, in [0, 1]; 0 or 1 if wrong or right
    counts: Ints  # (M,), principal values that must reach the threshold; a classification has one: M = 1

    @property
    def candidates(self) -> int:
        """Candidates, K; the end is not counted."""
        return int(self.sureness.shape[1])

    def part(self, rows: slice | Ints) -> Log:
        """The log of some samples."""
        return Log(self.sureness[rows], self.scores[rows], self.counts)


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


class CandidateVerdict(NamedTuple):
    """Outcome of a candidate in a step; an imprecise one has no fields after ``setting``."""

    candidate: int  # counted from 1
    outcome: Outcome
    setting: Setting  # if no thresholds keep the precision, those that come nearest
    # (h + 1,), row of the batching-pattern matrix, C[i, j] (Section 6.3.2): batches whose moving samples fill j bins
    pattern: Ints | None = None
    time_s: Floats | None = None  # (h + 1,), row of the inference-time matrix, t[i, j] (Section 6.3.1)
    slow_share: float | None = None  # of batches that would take longer than without it
    value_s: float | None = None  # minimised: average latency (Equation 2) at the first exit, else longest (Equation 3)


class ChoiceStep(NamedTuple):
    """One round of the choice: the candidates behind the last exit, judged together."""

    after: int  # the last exit that was taken; 0 in the first step
    batch: int  # samples that start the stage behind it, n_in
    limit_s: float  # without another exit: t_0 in the first step, T(a, N, n_in) later
    verdicts: tuple[CandidateVerdict, ...]  # one for each candidate behind it that was allowed

    @property
    def taken(self) -> CandidateVerdict | None:
        """The candidate that was taken, if any."""
        return next((verdict for verdict in self.verdicts if verdict.outcome == "taken"), None)


@dataclass(frozen=True, slots=True)
class ExitChoice:
    """Exits with their thresholds, and the steps of their choice."""

    exits: tuple[int, ...]  # candidates that were taken, in order of depth
    settings: tuple[Setting, ...]
    steps: tuple[ChoiceStep, ...]  # in the last one nothing was taken, unless all samples leave at the exit it took
    ended: Literal["none left", "all leave"]  # the two terminations of Section 6.4


class Passage(NamedTuple):
    """Samples of a log that ran through exits in batches; each batch runs alone."""

    leaves: NDArray[np.bool_]  # (E, N), who leaves at each exit
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


def count_thresholds(values: int) -> Ints:
    """Count thresholds to try for answers with this many principal values.

    Examples
    --------
    >>> count_thresholds(1), count_thresholds(80)
    (array([1]), array([ 8, 16, 24, 32, 40, 48, 56, 64, 72, 80]))
    """
    return np.unique([-(-values * part // COUNTS) for part in range(1, COUNTS + 1)])


def log_of(samples: Samples) -> Log:
    """The log of samples: how sure they are, for each count threshold, at every exit but the last."""
    counts = count_thresholds(samples.values)
    places = range(1, samples.exits)
    columns = [[samples.confidence_at(place, int(count)) for count in counts] for place in places]
    sureness = np.array(columns).reshape(len(places), len(counts), len(samples)).transpose(2, 0, 1)
    return Log(sureness, samples.correct.astype(np.float64), counts)


def levels_of(log: Log, thresholds: Sequence[float]) -> NDArray[np.uint8]:
    """Number of thresholds that each sample reaches: it leaves at all of these.

    Shapes: returns (N, K, M).
    """
    samples, candidates, columns = log.sureness.shape
    # samples last: they are read candidate by candidate
    levels = np.empty((candidates, columns, samples), dtype=np.uint8)
    for at, column in np.ndindex(candidates, columns):
        levels[at, column] = np.searchsorted(thresholds, log.sureness[:, at, column], side="right")
    return levels.transpose(2, 0, 1)


def find_setting(
    log: Log,
    candidate: int,
    levels: NDArray[np.uint8],
    alive: NDArray[np.bool_],
    goal: ExitGoal,
    settled: Floats,
    allowed: NDArray[np.bool_] | None = None,
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
    log: Log,
    candidate: int,
    column: int,
    levels: NDArray[np.uint8],
    alive: NDArray[np.bool_],
    goal: ExitGoal,
    settled: Floats,
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


def kept_thresholds(log: Log, goal: ExitGoal) -> NDArray[np.bool_]:
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
    least: Floats = margin - ONE_SIDED_95 * np.sqrt(np.maximum(squares - margin**2 / len(end), 0.0))
    return least


def moving_on(staying: NDArray[np.bool_], batch: int | Ints) -> Ints:
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


def choose_exits(
    log: Log,
    stage_s: Floats,
    goal: ExitGoal,
    allowed: NDArray[np.bool_] | None = None,
    sizes: Ints | None = None,
) -> ExitChoice:
    """Choose exits one after the other, each with its thresholds (Sections 6.1 to 6.4).

    Of the thresholds of every candidate only those that are ``allowed`` are tried. Batches are whole, or of ``sizes``,
    which together have all samples of the log.

    Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1), ``allowed`` (K, M, T), ``sizes`` (batches,).
    """
    levels = levels_of(log, goal.thresholds)
    alive = np.ones(len(log.scores), dtype=np.bool_)
    settled = log.scores[:, -1].copy()
    steps: list[ChoiceStep] = []
    taken: list[CandidateVerdict] = []
    after, batch, cut = 0, goal.batch, goal.batch if sizes is None else sizes
    ended: Literal["none left", "all leave"] = "none left"
    while batch:
        step = _step(log, levels, stage_s, goal, allowed, _Behind(after, alive, settled, batch, cut))
        steps.append(step)
        verdict = step.taken
        if verdict is None:
            break
        taken.append(verdict)
        after = verdict.candidate
        leaves = alive & (
            levels[:, after - 1, verdict.setting.column] > goal.thresholds.index(verdict.setting.threshold)
        )
        settled[leaves] = log.scores[leaves, after - 1]
        alive &= ~leaves
        reaching = moving_on(alive, cut)
        if not reaching.any():
            ended = "all leave"
            break
        batch = exceeded_by(reaching, goal.slow) if goal.posterior == "observed" else _largest(verdict, step, goal)
    exits, settings = tuple(verdict.candidate for verdict in taken), tuple(verdict.setting for verdict in taken)
    return ExitChoice(exits, settings, tuple(steps), ended)


def _largest(chosen: CandidateVerdict, step: ChoiceStep, goal: ExitGoal) -> int:
    """The largest batch that may move on so that the batch is not slow: the border of the green area in Fig. 7."""
    assert chosen.time_s is not None
    sizes = bin_sizes(goal.width, goal.bins, step.batch)
    return int(sizes[chosen.time_s <= step.limit_s * (1 + NEARLY)].max())


class _Behind(NamedTuple):
    """What is left behind an exit."""

    exit: int  # its candidate; 0 is the input
    alive: NDArray[np.bool_]  # samples that move on
    settled: Floats  # score of each sample, where it left or else at the end
    batch: int  # samples of a batch
    cut: int | Ints  # size of each batch, or of all


def _step(
    log: Log,
    levels: NDArray[np.uint8],
    stage_s: Floats,
    goal: ExitGoal,
    allowed: NDArray[np.bool_] | None,
    behind: _Behind,
) -> ChoiceStep:
    """Judge every candidate behind an exit, and take the best."""
    after, alive, settled, batch, cut = behind
    limit_s = float(stage_s[after, -1, batch])
    reaching = moving_on(alive, cut)
    verdicts = []
    for candidate in range(after + 1, log.candidates + 1):
        setting, kept = find_setting(log, candidate, levels, alive, goal, settled, allowed)
        if not kept:
            verdicts.append(CandidateVerdict(candidate, "imprecise", setting))
            continue
        at = goal.thresholds.index(setting.threshold)
        moving = moving_on(alive & (levels[:, candidate - 1, setting.column] <= at), cut)
        row = time_row(stage_s, after, candidate, batch, goal.width, goal.bins)
        pattern = pattern_row(moving, goal.width, goal.bins)
        outcome: Outcome = "longer"
        to_it_s = stage_s[after, candidate, reaching]
        with_it_s = to_it_s + rest_of(stage_s, candidate, reaching, moving)
        slow = float(np.mean(with_it_s > stage_s[after, -1, reaching] * (1 + NEARLY)))
        if after == 0 and isinstance(cut, int):
            slow = slow_share(row, pattern, limit_s)
            value_s = average_latency(row, pattern, bin_sizes(goal.width, goal.bins, batch), batch)
        elif after == 0:
            value_s = float(((reaching - moving) @ to_it_s + moving @ with_it_s) / reaching.sum())  # Equation 2
        else:
            most = min(exceeded_by(moving, goal.slow), batch)
            value_s = float(stage_s[after, candidate, batch] + rest_of(stage_s, candidate, batch, most))  # Equation 3
            if value_s >= (1 - goal.gain) * limit_s:
                outcome = "no gain"
        if slow > goal.slow + NEARLY and (after == 0 or goal.posterior == "observed"):
            outcome = "slow"
        verdicts.append(CandidateVerdict(candidate, outcome, setting, pattern, row, slow, value_s))
    fit = [at for at, verdict in enumerate(verdicts) if verdict.outcome == "longer"]
    if fit:
        first = min(fit, key=lambda at: (verdicts[at].value_s, at))
        verdicts[first] = verdicts[first]._replace(outcome="taken")
    return ChoiceStep(after, batch, limit_s, tuple(verdicts))


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


def replay_exits(
    log: Log,
    stage_s: Floats,
    batch: int,
    exits: Sequence[int],
    settings: Sequence[Setting],
) -> LogReplay:
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
