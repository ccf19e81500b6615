"""PAME while its load changes: exits and thresholds follow it (PAME, Section 7.6).

Between events of the event loop the adapter counts the batches that have returned.  When there is evidence that the
load is not the one that exits were chosen for, it judges the batches since then, and may change the exits of new
batches.  A batch in flight keeps its own.  Evidence and choice take batches as they ran: their samples and sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..formats import InputError
from ..rules.exit_choice import (
    NEARLY,
    ExitChoice,
    ExitGoal,
    Floats,
    Ints,
    Log,
    Passage,
    choose_exits,
    kept_thresholds,
    run_exits,
)
from ..traffic.randomness import SAMPLES, stream
from .event_loop import DeviceArrays, RequestArrays, Rules
from .evidence import Evidence, on_mean, on_share
from .policies.interface import VARIANT
from .replay import play, requests_of
from .scheduler import Scheduler

EVENTS = 256
"""Instants of the event loop between two looks at the batches that have returned."""

VARIANTS = 4
"""Sets of exits that are kept at once. Each needs a window of batches before the next one, unless hardware changes, and
at most two batches are in flight, so that none of these runs on a set that is overwritten."""

FALSE_ALARM = 1e-6
"""False alarms in a batch, on average, where the load does not change."""

PRECISION_STAKES = (0.25, 0.75)
"""Shares of the stake on each sample that loses: the first gains soonest where little precision is missing."""

SLOW_ODDS = (2.0, 4.0)
"""Factors by which slow batches are more frequent than allowed, in a bet on them."""

LEAVING_ODDS = (0.77, 1.3)
"""Factors of the odds to leave, in a bet that fewer or more samples do: 6 to 7 points where half of them leave."""

DEVIATIONS = 3.0
"""Standard deviations by which a load may differ by chance from that of the plan."""

COST = 0.1
"""Share of the average latency that a change may cost where neither precision nor times are shown to be too bad."""

DRAWN = 1000
"""Batches of each size that are drawn from the log of the plan, to see how many of them it makes slow."""

Cause = Literal["precision", "slow batches", "load", "hardware"]
KNOWN: tuple[Cause, ...] = ("precision",) * len(PRECISION_STAKES) + ("slow batches",) * len(SLOW_ODDS)
"""What the first bets are on; the others are on who leaves."""


class Exits(NamedTuple):
    """Candidates that are exits, and the thresholds of samples that leave there."""

    places: tuple[int, ...]  # candidates, counted from 1, in order of depth
    confidences: tuple[float, ...]  # confidence threshold of each
    columns: tuple[int, ...]  # place of its count threshold in ``Log.counts``

    @classmethod
    def of(cls, choice: ExitChoice) -> Exits:
        """The exits of a choice."""
        settings = choice.settings
        return cls(choice.exits, tuple(item.confidence for item in settings), tuple(item.column for item in settings))


class Change(NamedTuple):
    """A change of exits or thresholds, and its cause."""

    request: int  # requests that had started before it; all later ones are served by the new exits
    time_s: float  # when the last batch that it is judged by had returned
    since: int  # first request of the batches that it is judged by
    cause: Cause  # precision below eta, slow batches above what is allowed, other samples, or other hardware
    precision: float  # of these batches, as a share of that of the network without exits
    slow_share: float  # share of them that take longer than without exits, if they run alone
    exits: Exits  # those of all later batches


class Hardware(NamedTuple):
    """Other hardware, from some time on."""

    from_s: float  # stages run on it once a request has returned at this time or later
    stage_s: Floats  # (K + 2, K + 2, b_max + 1): T(a, b, B) of it, and T(a, a, B) of gathers


class Observation(NamedTuple):
    """Precision and times of consecutive batches."""

    precision: float  # as in :class:`Change`
    slow_share: float
    average_s: float  # from the start of a batch: mean latency of a sample, and mean over batches of the last sample's
    tail_s: float


@dataclass(frozen=True, slots=True)
class AdaptiveRun:
    """Outcome of every request, and every change of exits."""

    start_s: Floats  # (N,): when its batch began, and when it returned
    finish_s: Floats
    exit: Ints  # (N,): the candidate at which it left, or K + 1 for the end
    changes: list[Change]  # every change, in order of time
    whole_s: Floats  # (N,): time of its batch without exits, on the hardware on which it ran

    def starts(self) -> Ints:
        """The first request of every batch, and the number of requests behind them."""
        return batch_starts(self.start_s)

    def blocks(self, log: Log, batches: int) -> list[tuple[int, Observation]]:
        """Observations of blocks of ``batches``, by the last request; a shorter block at the end is left out."""
        starts = self.starts()
        ends = range(batches, len(starts), batches)
        return [(int(starts[end]), self.observe(log, starts[end - batches : end + 1])) for end in ends]

    def observe(self, log: Log, starts: Ints | None = None) -> Observation:
        """Observation of consecutive batches, by their first requests; by default of all."""
        starts = self.starts() if starts is None else starts
        rows = np.arange(starts[0], starts[-1])
        took_s = self.finish_s[rows] - self.start_s[rows]
        batch_s = np.maximum.reduceat(took_s, starts[:-1] - starts[0])
        slow = batch_s > self.whole_s[starts[:-1]] * (1 + NEARLY)
        return Observation(
            precision=_precision(log.scores[rows, self.exit[rows] - 1], log.scores[rows, -1]),
            slow_share=float(slow.mean()),
            average_s=float(took_s.mean()),
            tail_s=float(batch_s.mean()),
        )


def batch_starts(start_s: Floats) -> Ints:
    """The first request of every batch, and the number of requests behind them."""
    return np.append(np.flatnonzero(np.diff(start_s, prepend=-1.0)), len(start_s))


def _precision(scores: Floats, own: Floats) -> float:
    """Sum of scores as a share of that of the network's own answers."""
    return float(scores.sum() / own.sum()) if own.any() else 1.0


def gathers(stage_s: Floats) -> Floats:
    """Times of gathers by place and batch size, T(a, a, B). Shapes: returns (K + 2, b_max + 1)."""
    return np.diagonal(stage_s).T


class _Batches(NamedTuple):
    """Consecutive batches that have returned."""

    log: Log  # the answers to their requests
    sizes: Ints


class _Adapter:
    """Counts batches that have returned, and changes the exits of new ones."""

    def __init__(
        self, log: Log, past: Log, goal: ExitGoal, window: int, hardware: list[Hardware], stage_s: Floats,
        work: RequestArrays, device: DeviceArrays, rules: Rules, plan: Exits,
    ) -> None:  # fmt: skip
        self.log, self.past, self.goal, self.window, self.hardware = log, past, goal, window, hardware
        self.work, self.device, self.rules = work, device, rules
        self.stage_s = stage_s
        self.plan = plan  # its exits tell loads apart
        self.first = plan  # exits for the load of the plan, on the hardware of now
        self.normal = self.leaving = self._leaving(past)
        self.other: int | None = (
            None  # the first batch of another load than that of the plan, since which one is served
        )
        self.again = 0  # batches of it at which exits are chosen again
        self.kept = kept_thresholds(past, goal)
        self.allowed = np.array([goal.slow, *(self._slow_at(size) for size in range(1, goal.batch + 1))])
        self.changes: list[Change] = []
        self.eras = [(0, stage_s[0, -1])]  # first request, and the times of the whole network from then on
        self.profiled = True  # whether exits were chosen for the hardware of now
        self.done = 0  # all requests before this one have returned
        self.starts = [0]  # first requests of the batches that were counted, and of the next one
        self.begin(plan)

    def _slow_at(self, size: int) -> float:
        """Share of batches of a size that may be slow: what is asked for, or what the plan makes of its own log."""
        rows = stream(0, SAMPLES).integers(len(self.past.scores), size=DRAWN * size)
        batches = _Batches(self.past.part(rows), np.full(DRAWN, size))
        slow = float(self._slow(batches, self._run(batches, self.plan)).mean())
        return min(max(self.goal.slow, slow + DEVIATIONS * math.sqrt(slow * (1 - slow) / DRAWN)), 1 - 1 / DRAWN)

    def begin(self, exits: Exits) -> None:
        """Let new batches run with these exits, in a variant of their own, and begin all bets anew."""
        started = self._started()
        bets = len(KNOWN) + len(LEAVING_ODDS) * len(self.plan.places)
        self.evidence = Evidence(bets, FALSE_ALARM, len(self.starts) - 1)
        self.exits = exits
        variant = (int(self.rules.memory[-1]) + 1) % VARIANTS
        self.rules.memory[-1] = variant
        self.device.time_s[variant] = self._segments(exits.places)
        thresholds = self.rules.thresholds.reshape(VARIANTS, self.log.candidates)
        thresholds[variant] = math.inf
        for place, confidence, column in zip(*exits, strict=True):
            thresholds[variant, place - 1] = confidence
            self.work.confidences[started:, place - 1] = self.log.confidences[started:, place - 1, column]

    def _started(self) -> int:
        """Requests that have started: they do in order of arrival."""
        return int(np.searchsorted(self.work.requests.start_s, math.inf))

    def _segments(self, places: Sequence[int]) -> Floats:
        """Time of each segment, from candidate to candidate: that of a stage is in its first one."""
        ends = [0, *places, self.log.candidates + 1]
        time_s: Floats = np.zeros_like(self.device.time_s[0])
        for begin, end in itertools.pairwise(ends):
            time_s[begin] = self.stage_s[begin, end][: time_s.shape[1]]
        return time_s

    def look(self, returned: int) -> None:
        """Count the batches that have returned, and change exits if there is reason to."""
        requests: Any = self.work.requests
        waiting = np.isinf(requests.finish_s[self.done : returned + 1])
        self.done += int(waiting.argmax()) if waiting.any() else len(waiting)
        if self.hardware and self.done and requests.finish_s[self.done - 1] >= self.hardware[0].from_s:
            self.stage_s, self.profiled = self.hardware.pop(0).stage_s, False
            self.device.time_s[int(self.rules.memory[-1])] = self._segments(self.exits.places)
            self.device.gather_s[:] = gathers(self.stage_s)[:, : self.device.gather_s.shape[1]]
            self.eras.append((self._started(), self.stage_s[0, -1]))
        if self.window:
            self._count()
        if len(self.starts) > 1:
            self._judge()

    def _count(self) -> None:
        """Count the batches that have returned since the last look."""
        start_s, last, counted = self.work.requests.start_s, self.starts[-1], len(self.starts) - 1
        starts = last + np.flatnonzero(np.diff(start_s[last : self.done], prepend=-1.0))
        if self.done == len(start_s) or start_s[self.done] != start_s[self.done - 1]:
            starts = np.append(starts, self.done)  # the last of them has returned as a whole
        if len(starts) < 2:
            return
        self.starts += starts[1:].tolist()
        batches = self._batches(counted)
        sizes, run = batches.sizes, self._run(batches, self.exits)
        lost = self.goal.precision * batches.log.scores[:, -1] - run.scores
        first = np.cumsum(sizes) - sizes
        gains = [np.add.reduceat(on_mean(lost, stake), first) for stake in PRECISION_STAKES]
        gains += [on_share(self._slow(batches, run), 1.0, self.allowed[sizes], odds) for odds in SLOW_ODDS]
        for leaving, moving in zip(self.leaving, self._run(batches, self.plan).moving, strict=True):
            gains += [on_share(sizes - moving, sizes, leaving, odds) for odds in LEAVING_ODDS]
        self.evidence.add(np.array(gains))

    def _judge(self) -> None:
        """Change exits if there is evidence for another load, more is known of it, or there is other hardware."""
        counted = len(self.starts) - 1
        found = self.evidence.found(self.window)
        if not self.profiled:
            self.profiled = True
            recent = max(0, counted - self.window)
            self.first = self._choose(self._of_plan(self._batches(recent).sizes), self.goal, None)
            self._change("hardware", recent, self.first if self.other is None else self._choose_other(self.other))
        elif found.size:
            bet = int(found[0])
            since = int(self.evidence.since[bet])
            self._follow(
                "load" if bet >= len(KNOWN) else KNOWN[bet],
                since,
                since if self.exits == self.first else counted - self.window,
            )
        elif self.other is not None and counted - self.other >= self.again:
            self._follow("load", self.other, self.evidence.begin)

    def _follow(self, cause: Cause, since: int, recent: int) -> None:
        """Go back to the plan if the recent batches are as it expects; else choose exits for those of another load.

        They are chosen again when twice as many of its batches are known.
        """
        if self._as_planned(recent):
            self.other, self.leaving = None, self.normal
            self._change(cause, recent, self.first)
        else:
            self.other, self.again = since, 2 * (len(self.starts) - 1 - since)
            self.leaving = self._leaving(self._batches(since).log)
            self._change(cause, since, self._choose_other(since))

    def _change(self, cause: Cause, since: int, exits: Exits) -> None:
        """Begin all bets anew, with other exits where they are others."""
        if exits != self.exits:
            starts, batches = self.starts[since:], self._batches(since)
            run = self._run(batches, self.exits)
            now_s = float(self.work.requests.finish_s[starts[0] : starts[-1]].max())
            precision = _precision(run.scores, batches.log.scores[:, -1])
            slow = float(self._slow(batches, run).mean())
            self.changes.append(Change(self._started(), now_s, starts[0], cause, precision, slow, exits))
        self.begin(exits)

    def _as_planned(self, since: int) -> bool:
        """Whether the load may be that of the plan: as many leave, and its exits are good enough."""
        batches = self._batches(since)
        spread = self.normal * (1 - self.normal) * (1 / len(batches.log.scores) + 1 / len(self.past.scores))
        alike = np.abs(self._leaving(batches.log) - self.normal) <= DEVIATIONS * np.sqrt(spread)
        return bool(alike.all()) and self._may_do(batches, self.first, 1.0)

    def _may_do(self, batches: _Batches, exits: Exits, deviations: float) -> bool:
        """Whether exits miss precision and times on these batches by no more than some standard deviations."""
        run = self._run(batches, exits)
        slow, allowed = self._slow(batches, run), self.allowed[batches.sizes]
        most = deviations * math.sqrt((allowed * (1 - allowed)).sum())
        precision = _precision(run.scores, batches.log.scores[:, -1])
        least = self.goal.precision - deviations * self._chance(batches.log, run)
        return precision >= least and bool((slow - allowed).sum() <= most)

    def _chance(self, log: Log, run: Passage) -> float:
        """Standard deviation of the precision of samples."""
        own = log.scores[:, -1]
        lost = self.goal.precision * own - run.scores
        return float(lost.std() / math.sqrt(len(own)) / own.mean()) if own.any() else 0.0

    def _choose_other(self, since: int) -> Exits:
        """Exits for another load: those of now, if others cost more and these may do.

        Thresholds must keep the precision with the guard on the log of the plan, too. What these batches miss may be
        chance, up to a standard deviation.
        """
        batches = self._batches(since)
        run = self._run(batches, self.exits)
        goal = replace(self.goal, guard=None, precision=self.goal.precision - self._chance(batches.log, run))
        exits = self._choose(batches, goal, self.kept)
        costly = self._run(batches, exits).summed_s > (1 + COST) * run.summed_s
        return self.exits if costly and self._may_do(batches, self.exits, DEVIATIONS) else exits

    def _choose(self, batches: _Batches, goal: ExitGoal, kept: Any) -> Exits:
        goal = replace(goal, slow=float(self.allowed[batches.sizes].mean()))
        return Exits.of(choose_exits(batches.log, self.stage_s, goal, kept, batches.sizes))

    def _of_plan(self, sizes: Ints) -> _Batches:
        """The log of the plan in batches of these sizes, again and again."""
        samples = len(self.past.scores)
        sizes = np.tile(sizes, -(-samples // int(sizes.sum())))
        sizes = sizes[: max(1, int(np.searchsorted(np.cumsum(sizes), samples, side="right")))]
        return _Batches(self.past.part(slice(0, int(sizes.sum()))), sizes)

    def _batches(self, since: int) -> _Batches:
        """The batches that were counted, from one on."""
        starts = self.starts[since:]
        return _Batches(self.log.part(slice(starts[0], starts[-1])), np.diff(starts))

    def _run(self, batches: _Batches, exits: Exits) -> Passage:
        return run_exits(batches.log, self.stage_s, batches.sizes, zip(*exits, strict=True))

    def _slow(self, batches: _Batches, run: Passage) -> Any:
        return run.batch_s > self.stage_s[0, -1, batches.sizes] * (1 + NEARLY)

    def _by_batch(self, values: Floats, batches: _Batches) -> Floats:
        sums: Floats = np.add.reduceat(values, np.cumsum(batches.sizes) - batches.sizes)
        return sums

    def _leaving(self, log: Log) -> Floats:
        """Share of samples that leave at each exit of the plan or before; never all or none."""
        run = self._run(_Batches(log, np.ones(len(log.scores), dtype=np.int64)), self.plan)
        left: Floats = (run.leaves.cumsum(axis=0) > 0).sum(axis=1) + 0.5
        return left / (len(log.scores) + 1)


def adapt(
    log: Log,
    arrival_s: Floats,
    stage_s: Floats,
    goal: ExitGoal,
    exits: Exits,
    past: Log,
    scheduler: Scheduler,
    *,
    window: int = 100,
    slo_s: float | Floats | None = None,
    hardware: Sequence[Hardware] = (),
    load: Sequence[float] | None = None,
    wake_up_s: float = 0.0,
) -> AdaptiveRun:
    """Serve requests with PAME; exits and thresholds follow the load. Shapes: ``stage_s`` (K + 2, K + 2, b_max + 1)."""
    candidates, most = log.candidates, stage_s.shape[-1] - 1
    if goal.batch > most:
        raise InputError(f"batch: expected at most {most}, the largest of the stage times, found {goal.batch}")
    if candidates != len(stage_s) - 2:
        raise InputError(f"samples: expected confidences at {len(stage_s) - 2} candidates, found {candidates}")
    policy = replace(scheduler.policy, thresholds=True)
    count = len(arrival_s)
    requests = requests_of(arrival_s, math.inf if slo_s is None else slo_s)
    work = RequestArrays(requests, np.full(count, candidates + 1), np.zeros((count, candidates)))
    device = DeviceArrays(
        time_s=np.zeros((VARIANTS, candidates + 1, most + 1)),
        latency_s=np.ascontiguousarray(stage_s[None]),
        segment_at=np.arange(candidates + 1),
        stage_after=np.arange(1, candidates + 2),
        gather_s=gathers(stage_s).copy(),
        load=np.zeros(most + 1) if load is None else np.array(load),
        variants=np.zeros(VARIANTS, VARIANT).view(np.recarray),
        wake_up_s=wake_up_s,
    )
    memory = np.zeros(VARIANTS * candidates + policy.memory)
    settings = scheduler.settings(None if isinstance(slo_s, np.ndarray) else slo_s)
    rules = Rules(settings, memory, memory[: -policy.memory], goal.batch, scheduler.call_s)
    adapter = _Adapter(
        log,
        past,
        goal,
        window,
        sorted(hardware, key=lambda item: item.from_s),
        stage_s,
        work,
        device,
        rules,
        exits,
    )
    run = play(
        replace(scheduler, policy=policy), work, device, rules, scheduler.lanes, control=adapter.look, events=EVENTS
    )
    served = run.work.requests
    starts = batch_starts(served.start_s)
    firsts, whole_s = zip(*adapter.eras, strict=True)
    era = np.searchsorted(firsts, starts[:-1], side="right") - 1
    sizes = np.diff(starts)
    ran_whole_s = np.repeat(np.array(whole_s)[era, sizes], sizes)
    return AdaptiveRun(served.start_s, served.finish_s, run.work.exit_of, adapter.changes, ran_whole_s)
