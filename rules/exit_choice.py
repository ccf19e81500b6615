"""Choice of the exits of a network, each with its thresholds (PAME, Section 6), on plain arrays.

The log of answers is described in ``exit_log.py``, stage times in ``exit_times.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Bools, Floats, Ints
from ..tables.exit_plan import Outcome
from .exit_log import Log, levels_of
from .exit_thresholds import ExitGoal, Setting, find_setting
from .exit_times import (
    NEARLY,
    average_latency,
    bin_sizes,
    exceeded_by,
    moving_on,
    pattern_row,
    rest_of,
    slow_share,
    time_row,
)


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


def choose_exits(
    log: Log, stage_s: Floats, goal: ExitGoal, allowed: Bools | None = None, sizes: Ints | None = None
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
    alive: Bools  # samples that move on
    settled: Floats  # score of each sample, where it left or else at the end
    batch: int  # samples of a batch
    cut: int | Ints  # size of each batch, or of all


def _step(
    log: Log, levels: NDArray[np.uint8], stage_s: Floats, goal: ExitGoal, allowed: Bools | None, behind: _Behind
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
