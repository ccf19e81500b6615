"""Judgement of a load that PAME serves: whether it is the one that exits were chosen for, and which exits it needs.

All is judged on batches as they ran, by their samples and sizes: what each sample would have done at every candidate is
known, and how long each stage takes.  So evidence, the choice of exits and the way back to the plan have one basis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..formats.array_types import Bools, Floats, Ints
from ..rules.exit_choice import ExitChoice, choose_exits
from ..rules.exit_log import Log
from ..rules.exit_thresholds import ExitGoal, kept_thresholds
from ..rules.exit_times import NEARLY, Passage, run_exits
from ..traffic.randomness import SAMPLES, stream
from .evidence import Evidence, Rate, on_mean, on_rate, on_share, rate_of

FALSE_ALARM = 1e-6
"""False alarms in a batch, on average, where the load does not change."""

PRECISION_STAKES = (0.25, 0.75)
"""Shares of the stake on each sample that loses: the first gains soonest where little precision is missing."""

SLOW_ODDS = (2.0, 4.0)
"""Factors by which slow batches are more frequent than allowed, in a bet on them."""

LEAVING_ODDS = (0.77, 1.3)
"""Factors of the odds to leave, in a bet that fewer or more samples do: 6 to 7 points where half of them leave."""

RATE_FACTORS = (0.67, 1.5)
"""Factors of the arrival rate, in a bet that it has changed."""

DEVIATIONS = 3.0
"""Standard deviations by which a load may differ by chance from the load of the plan, or a rate from the first one."""


class Doubt(NamedTuple):
    """What keeps the exits of now, where others are chosen for another load."""

    deviations: float  # standard deviations beyond which they are shown to miss precision or times
    cost: float  # until then they stay if others take longer than they do, by at least this share of the latency


NEW, KNOWN = Doubt(3.0, 0.1), Doubt(1.0, -0.1)
"""Of a load with few batches known; and later, when others must be shown to be better."""

DRAWN = 1000
"""Batches of each size that are drawn from the log of the plan, to see how many of them it makes slow."""

Cause = Literal["precision", "slow batches", "load", "rate", "hardware"]
BETS_ON: tuple[Cause, ...] = ("precision", "precision", "slow batches", "slow batches")
"""The first bets, one for each stake and factor above; all others are on who leaves."""


class Exits(NamedTuple):
    """Candidates that are exits, and the thresholds of samples that leave there."""

    places: tuple[int, ...]  # candidates, counted from 1, in order of depth
    thresholds: tuple[float, ...]  # of each
    columns: tuple[int, ...]  # place of its count threshold in ``Log.counts``

    @classmethod
    def of(cls, choice: ExitChoice) -> Exits:
        """The exits of a choice."""
        settings = choice.settings
        return cls(
            choice.exits,
            tuple(setting.threshold for setting in settings),
            tuple(setting.column for setting in settings),
        )


class Batches(NamedTuple):
    """Consecutive batches that have returned."""

    log: Log  # the answers to their requests
    sizes: Ints


class Verdict(NamedTuple):
    """Exits that a load needs from now on."""

    cause: Cause
    starts: list[int]  # first requests of the batches that it is judged by, and of the next one
    precision: float  # of these batches with the exits of now, as a share of what the network has without exits
    slow_share: float  # share of them that take longer than without exits, if they run alone
    exits: Exits


def precision_of(scores: Floats, own: Floats) -> float:
    """Sum of scores as a share of the sum of the network's own answers."""
    return float(scores.sum() / own.sum()) if own.any() else 1.0


class Judge:
    """Counts the batches that have returned, and judges their load."""

    def __init__(
        self, log: Log, arrival_s: Floats, past: Log, goal: ExitGoal, window: int, stage_s: Floats, plan: Exits
    ) -> None:
        self.log, self.past, self.goal, self.window, self.stage_s = log, past, goal, window, stage_s
        self.arrival_s = np.append(arrival_s, arrival_s[-1:])  # behind the last request there is no gap
        self.plan, self.planned_s = plan, stage_s  # its exits tell loads apart
        self.first = plan  # exits for the load of the plan, on the hardware of now
        self.normal = self.leaving = self._leaving(past)
        self.other: int | None = None  # the batch since which the load differs from the plan
        self.again = 0  # batches of it at which exits are chosen again
        self.kept = kept_thresholds(past, goal)
        self.allowed = np.array([goal.slow, *(self._slow_at(size) for size in range(1, goal.batch + 1))])
        self.limit = self.allowed  # at another rate than the first one: what is asked for
        self.usual: Rate | None = None  # of the first batches
        self.profiled = True  # whether exits were chosen for the hardware of now
        self.starts = [0]  # first requests of the batches that were counted, and of the next one
        self._expect(None, 0)
        self.serve(plan)

    def _slow_at(self, size: int) -> float:
        """Share of batches of a size that may be slow: what is asked for, or what the plan makes of its own log."""
        rows = stream(0, SAMPLES).integers(len(self.past.scores), size=DRAWN * size)
        batches = Batches(self.past.part(rows), np.full(DRAWN, size))
        slow = float(self._slow(batches, self._run(batches, self.plan)).mean())
        return min(max(self.goal.slow, slow + DEVIATIONS * math.sqrt(slow * (1 - slow) / DRAWN)), 1.0)

    def serve(self, exits: Exits) -> None:
        """Judge these exits from now on: all bets begin anew."""
        self.exits = exits
        self.evidence = Evidence(len(BETS_ON) + len(LEAVING_ODDS) * len(self.plan.places), FALSE_ALARM, self.counted)

    def _expect(self, rate: Rate | None, begin: int) -> None:
        """Bet against this arrival rate from a batch on."""
        self.rate, self.arrivals = rate, Evidence(len(RATE_FACTORS), FALSE_ALARM, begin)

    @property
    def counted(self) -> int:
        """Batches that were counted."""
        return len(self.starts) - 1

    def run_on(self, stage_s: Floats) -> None:
        """Judge by the times of other hardware from now on."""
        self.stage_s, self.profiled = stage_s, False

    def count(self, starts: Sequence[int]) -> None:
        """Count the next batches, by their first requests; the batch of the last one has not returned."""
        known = self.counted
        self.starts += starts[1:]
        batches = self._batches(known)
        sizes, run = batches.sizes, self._run(batches, self.exits)
        lost = self.goal.precision * batches.log.scores[:, -1] - run.scores
        first = np.cumsum(sizes) - sizes
        gains = [np.add.reduceat(on_mean(lost, stake), first) for stake in PRECISION_STAKES]
        allowed, slow = self.limit[sizes], self._slow(batches, run)
        most = np.where(allowed < 1, allowed, 0.5)  # where all may be slow, there is no bet
        gains += [on_share(slow, 1, most, odds) * (allowed < 1) for odds in SLOW_ODDS]
        for leaving, moving in zip(self.leaving, self._run(batches, self.plan).moving, strict=True):
            gains += [on_share(sizes - moving, sizes, leaving, odds) for odds in LEAVING_ODDS]
        self.evidence.add(np.array(gains))
        self._count_arrivals(known)

    def _count_arrivals(self, known: int) -> None:
        """Bet that requests arrive at another rate; the first batches say what is usual."""
        if self.rate is None and self.counted >= self.window:
            self.usual = self._rate(0, self.window)
            self._expect(self.usual, self.window)
            known = self.window
        if self.rate is not None and self.counted > known:
            came = self._arrived(known)
            self.arrivals.add(np.array([on_rate(*came, self.rate, factor, DEVIATIONS) for factor in RATE_FACTORS]))

    def _arrived(self, since: int, until: int | None = None) -> tuple[Ints, Floats]:
        """Requests of each batch from one on, and the time until the next batch begins to arrive."""
        starts = self.starts[since : None if until is None else until + 1]
        return np.diff(starts), np.diff(self.arrival_s[starts])

    def _rate(self, since: int, until: int | None = None) -> Rate | None:
        return rate_of(*self._arrived(since, until))

    def judge(self) -> Verdict | None:
        """Exits for another load if there is evidence for it or more is known of it, or for other hardware."""
        counted = self.counted
        if not self.profiled:
            self.profiled = True
            recent = max(0, counted - self.window)
            self.first = self.plan
            if not np.array_equal(self.stage_s, self.planned_s):
                self.first = self._choose(self._of_plan(self._batches(recent).sizes), self.goal, None)
            exits = self.first if self.other is None else self._choose_other(self.other, KNOWN)
            return self._verdict("hardware", recent, exits)
        shown = self._shown()
        if shown is not None:
            cause, since = shown
            if cause == "rate":
                self._expect(self._rate(since), counted)
            return self._follow(cause, since, since if self.exits == self.first else counted - self.window, NEW)
        if self.other is not None and counted - self.other >= self.again:
            cause = "load" if self.limit is self.allowed else "rate"
            return self._follow(cause, self.other, self.evidence.begin, KNOWN)
        return None

    def _shown(self) -> tuple[Cause, int] | None:
        """The cause for which there is evidence, and the first batch that counts."""
        bets = self.evidence.found(self.window)
        if bets.size:
            bet = int(bets[0])
            return "load" if bet >= len(BETS_ON) else BETS_ON[bet], int(self.evidence.since[bet])
        bets = self.arrivals.found(self.window)
        return ("rate", int(self.arrivals.since[bets[0]])) if bets.size else None

    def _follow(self, cause: Cause, since: int, recent: int, doubt: Doubt) -> Verdict:
        """Go back to the plan if recent batches are as it expects; else choose exits for another load.

        They are chosen again when twice as many of its batches are known.
        """
        usual = self._at_usual_rate(recent)
        self.limit = self.allowed if usual else np.full_like(self.allowed, self.goal.slow)
        if self._as_planned(recent):
            self.other, self.leaving = None, self.normal
            return self._verdict(cause, recent, self.first)
        self.other, self.again = since, 2 * (self.counted - since)
        self.leaving = self._leaving(self._batches(since).log)
        return self._verdict(cause, since, self._choose_other(since, doubt))

    def _at_usual_rate(self, since: int) -> bool:
        """Whether requests may arrive at the rate of the first batches; without one, none is unusual."""
        rate = self._rate(since)
        return rate is None or self.usual is None or rate.alike(self.usual, DEVIATIONS)

    def _verdict(self, cause: Cause, since: int, exits: Exits) -> Verdict:
        batches = self._batches(since)
        run = self._run(batches, self.exits)
        precision = precision_of(run.scores, batches.log.scores[:, -1])
        return Verdict(cause, self.starts[since:], precision, float(self._slow(batches, run).mean()), exits)

    def _as_planned(self, since: int) -> bool:
        """Whether the load may be as in the plan: as many leave, and its exits are good enough."""
        batches = self._batches(since)
        spread = self.normal * (1 - self.normal) * (1 / len(batches.log.scores) + 1 / len(self.past.scores))
        alike = np.abs(self._leaving(batches.log) - self.normal) <= DEVIATIONS * np.sqrt(spread)
        return bool(alike.all()) and self._may_do(batches, self.first, 1.0)

    def _may_do(self, batches: Batches, exits: Exits, deviations: float) -> bool:
        """Whether exits miss precision and times on these batches by no more than some standard deviations."""
        run = self._run(batches, exits)
        slow, allowed = self._slow(batches, run), self.limit[batches.sizes]
        most = deviations * math.sqrt((allowed * (1 - allowed)).sum())
        precision = precision_of(run.scores, batches.log.scores[:, -1])
        least = self.goal.precision - deviations * self._chance(batches.log, run)
        return precision >= least and bool((slow - allowed).sum() <= most)

    def _chance(self, log: Log, run: Passage) -> float:
        """Standard deviation of the precision of samples."""
        own = log.scores[:, -1]
        lost = self.goal.precision * own - run.scores
        return float(lost.std() / math.sqrt(len(own)) / own.mean()) if own.any() else 0.0

    def _choose_other(self, since: int, doubt: Doubt) -> Exits:
        """Exits for another load, or the present ones.

        While it is new, thresholds must keep the precision with the guard on the log of the plan, and may miss it on
        these few batches by a standard deviation. Later they are chosen by its own batches alone, as a plan is.
        """
        batches = self._batches(since)
        run = self._run(batches, self.exits)
        goal, kept = self.goal, None
        if doubt is NEW:
            least = goal.precision - self._chance(batches.log, run)
            goal, kept = replace(goal, guard=None, precision=least), self.kept
        exits = self._choose(batches, goal, kept)
        longer = self._run(batches, exits).summed_s > (1 + doubt.cost) * run.summed_s
        return self.exits if longer and self._may_do(batches, self.exits, doubt.deviations) else exits

    def _choose(self, batches: Batches, goal: ExitGoal, kept: Bools | None) -> Exits:
        goal = replace(goal, slow=float(self.limit[batches.sizes].mean()))
        return Exits.of(choose_exits(batches.log, self.stage_s, goal, kept, batches.sizes))

    def _of_plan(self, sizes: Ints) -> Batches:
        """The log of the plan in batches of these sizes, again and again."""
        samples = len(self.past.scores)
        sizes = np.tile(sizes, -(-samples // int(sizes.sum())))
        sizes = sizes[: max(1, int(np.searchsorted(np.cumsum(sizes), samples, side="right")))]
        return Batches(self.past.part(slice(0, int(sizes.sum()))), sizes)

    def _batches(self, since: int) -> Batches:
        """The batches that were counted, from one on."""
        starts = self.starts[since:]
        return Batches(self.log.part(slice(starts[0], starts[-1])), np.diff(starts))

    def _run(self, batches: Batches, exits: Exits) -> Passage:
        return run_exits(batches.log, self.stage_s, batches.sizes, zip(*exits, strict=True))

    def _slow(self, batches: Batches, run: Passage) -> Any:
        return run.batch_s > self.stage_s[0, -1, batches.sizes] * (1 + NEARLY)

    def _leaving(self, log: Log) -> Floats:
        """Share of samples that leave at each exit of the plan or before; never all or none."""
        run = self._run(Batches(log, np.ones(len(log.scores), dtype=np.int64)), self.plan)
        left: Floats = (run.leaves.cumsum(axis=0) > 0).sum(axis=1) + 0.5
        return left / (len(log.scores) + 1)
