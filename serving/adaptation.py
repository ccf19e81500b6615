"""PAME while its load changes: exits and thresholds follow a sliding window of batches (PAME, Section 7.6).

Between events of the event loop, when enough batches have returned, the adapter looks at the last of them and may
change the exits and thresholds of new batches.  A batch in flight keeps its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..formats import InputError
from ..rules.exit_choice import NEARLY, ExitChoice, ExitGoal, Floats, Ints, Log, choose_exits
from .event_loop import DeviceArrays, RequestArrays, Rules
from .policies.interface import VARIANT
from .replay import play, requests_of
from .scheduler import Scheduler

EVENTS = 256
"""Instants of the event loop between two looks at the batches that have returned."""

VARIANTS = 4
"""Sets of exits that are kept at once. Each needs a whole window of batches before the next one, and at most two
batches are in flight, so that none of these runs on a set that is overwritten."""

Cause = Literal["precision", "slow batches", "hardware"]


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
    time_s: float  # when the last batch of the window had returned
    cause: Cause  # precision below eta, slow batches above tau_l, or other hardware
    precision: float  # of the window, as a share of that of the network without exits
    slow_share: float  # share of batches of the window that took longer than without exits
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
    whole_s: Floats  # (b_max + 1,): time of a batch without exits, on the hardware of the beginning

    def starts(self) -> Ints:
        """The first request of every batch, and the number of requests behind them."""
        return np.append(np.flatnonzero(np.diff(self.start_s, prepend=-1.0)), len(self.start_s))

    def blocks(self, log: Log, batches: int) -> list[tuple[int, Observation]]:
        """Observations of blocks of ``batches``, by the last request; a shorter block at the end is left out."""
        starts = self.starts()
        ends = range(batches, len(starts), batches)
        return [(int(starts[end]), self.observe(log, starts[end - batches : end + 1])) for end in ends]

    def observe(self, log: Log, starts: Ints | None = None) -> Observation:
        """Observation of consecutive batches, by their first requests; by default of all."""
        return observe(
            log, self.start_s, self.finish_s, self.exit, self.starts() if starts is None else starts, self.whole_s
        )


def observe(log: Log, start_s: Floats, finish_s: Floats, exit_of: Ints, starts: Ints, whole_s: Floats) -> Observation:
    """Observation of consecutive batches."""
    rows = np.arange(starts[0], starts[-1])
    took_s = finish_s[rows] - start_s[rows]
    batch_s = np.maximum.reduceat(took_s, starts[:-1] - starts[0])
    own = log.scores[rows, -1].sum()
    slow = batch_s > whole_s[np.diff(starts)] * (1 + NEARLY)
    return Observation(
        precision=float(log.scores[rows, exit_of[rows] - 1].sum() / own) if own else 1.0,
        slow_share=float(slow.mean()),
        average_s=float(took_s.mean()),
        tail_s=float(batch_s.mean()),
    )


def gathers(stage_s: Floats) -> Floats:
    """Times of gathers by place and batch size, T(a, a, B). Shapes: returns (K + 2, b_max + 1)."""
    return np.diagonal(stage_s).T


@dataclass(slots=True)
class _Adapter:
    """Looks at batches that have returned, and changes the exits of new ones."""

    log: Log
    past: Log
    goal: ExitGoal
    window: int
    hardware: list[Hardware]
    stage_s: Floats
    work: RequestArrays
    device: DeviceArrays
    rules: Rules
    exits: Exits
    changes: list[Change] = field(default_factory=list)
    profiled: bool = True  # whether exits were chosen for the hardware of now
    since: int = 0  # first request that started after the last change
    done: int = 0  # all before this one have returned
    looked: int = 0  # the same, when it was looked at last

    def install(self, exits: Exits) -> None:
        """Let new batches run with these exits, in a variant of their own."""
        variant = (int(self.rules.memory[-1]) + 1) % VARIANTS
        self.exits = exits
        self.rules.memory[-1] = variant
        self.device.time_s[variant] = self._segments(exits.places)
        thresholds = self.rules.thresholds.reshape(VARIANTS, self.log.candidates)
        thresholds[variant] = math.inf
        for place, confidence, column in zip(*exits, strict=True):
            thresholds[variant, place - 1] = confidence
            self.work.confidences[self.since :, place - 1] = self.log.confidences[self.since :, place - 1, column]

    def _segments(self, places: Sequence[int]) -> Floats:
        """Time of each segment, from candidate to candidate: that of a stage is in its first one."""
        ends = [0, *places, self.log.candidates + 1]
        time_s: Floats = np.zeros_like(self.device.time_s[0])
        for begin, end in itertools.pairwise(ends):
            time_s[begin] = self.stage_s[begin, end][: time_s.shape[1]]
        return time_s

    def look(self, returned: int) -> None:
        """Judge the last window of batches, if enough have returned since the last change."""
        requests: Any = self.work.requests
        waiting = np.isinf(requests.finish_s[self.done : returned + 1])
        self.done += int(waiting.argmax()) if waiting.any() else len(waiting)
        if self.done == self.looked:
            return
        self.looked = self.done
        if self.hardware and requests.finish_s[self.done - 1] >= self.hardware[0].from_s:
            self.stage_s, self.profiled = self.hardware.pop(0).stage_s, False
            self.device.time_s[int(self.rules.memory[-1])] = self._segments(self.exits.places)
            self.device.gather_s[:] = gathers(self.stage_s)[:, : self.device.gather_s.shape[1]]
        starts = self._window()
        if starts is None:
            return
        found = observe(self.log, requests.start_s, requests.finish_s, self.work.exit_of, starts, self.stage_s[0, -1])
        cause, exits = self._judge(found, self.log.part(slice(int(starts[0]), int(starts[-1]))))
        if cause is None:
            return
        self.since = int(np.searchsorted(requests.start_s, math.inf))  # requests start in order of arrival
        if exits != self.exits:
            now_s = float(requests.finish_s[starts[0] : starts[-1]].max())
            self.changes.append(Change(self.since, now_s, cause, found.precision, found.slow_share, exits))
            self.install(exits)

    def _window(self) -> Ints | None:
        """First requests of the last batches that returned, and of the next; ``None`` if they are too few."""
        requests: Any = self.work.requests
        start_s, done = requests.start_s, self.done
        first = max(self.since, done - (self.window + 1) * self.goal.batch)
        known = first == self.since  # else its batch may have begun before
        starts = first + np.flatnonzero(np.diff(start_s[first:done], prepend=-1.0 if known else start_s[first]))
        if done == len(start_s) or start_s[done] != start_s[done - 1]:
            starts = np.append(starts, done)  # the last of them has returned as a whole
        return None if len(starts) <= self.window else starts[-self.window - 1 :]

    def _judge(self, found: Observation, recent: Log) -> tuple[Cause | None, Exits]:
        """Cause of a change, and the exits that then hold: precision comes first (PAME, Section 7.6)."""
        if found.precision < self.goal.precision and self.exits.places:
            return "precision", self._stricter(recent)
        if not self.profiled:
            self.profiled = True  # the inference-time matrix is new, the batching patterns stay
            return "hardware", Exits.of(choose_exits(self.past, self.stage_s, self.goal))
        if found.slow_share > self.goal.slow and self.exits.places:
            self.past = recent  # the batching patterns are new, the inference-time matrix stays
            return "slow batches", self._later(recent)
        return None, self.exits

    def _stricter(self, recent: Log) -> Exits:
        """A threshold one step higher at the exit whose answers lost most; other exits if it has no step left."""
        lost = []
        alive = np.ones(len(recent.scores), dtype=np.bool_)
        for place, confidence, column in zip(*self.exits, strict=True):
            leaves = alive & (recent.confidences[:, place - 1, column] >= confidence)
            lost.append(float((recent.scores[leaves, -1] - recent.scores[leaves, place - 1]).sum()))
            alive &= ~leaves
        worst = int(np.argmax(lost))
        steps = [step for step in self.goal.confidences if step > self.exits.confidences[worst]]
        if not steps:
            return self._later(recent)
        confidences = list(self.exits.confidences)
        confidences[worst] = steps[0]
        return self.exits._replace(confidences=tuple(confidences))

    def _later(self, recent: Log) -> Exits:
        """Exits and thresholds chosen anew for the window, at or behind the first exit of now."""
        allowed = range(self.exits.places[0], self.log.candidates + 1)
        return Exits.of(choose_exits(recent, self.stage_s, self.goal, allowed))


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
        window or count + 1,
        sorted(hardware, key=lambda item: item.from_s),
        stage_s,
        work,
        device,
        rules,
        exits,
    )
    adapter.install(exits)
    run = play(
        replace(scheduler, policy=policy), work, device, rules, scheduler.lanes, control=adapter.look, events=EVENTS
    )
    served = run.work.requests
    return AdaptiveRun(served.start_s, served.finish_s, run.work.exit_of, adapter.changes, stage_s[0, -1])
