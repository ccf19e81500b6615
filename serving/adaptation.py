"""PAME while its load changes: exits and thresholds follow it (PAME, Section 7.6).

Between events of the event loop a judge counts the batches that have returned, and may change the exits of new ones.  A
batch in flight keeps its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats, Ints
from ..rules.exit_log import Log
from ..rules.exit_thresholds import ExitGoal
from ..rules.exit_times import NEARLY
from .case import requests_of
from .judgement import Cause, Exits, Judge, precision_of
from .play import Control, Loop
from .policies.interface import VARIANT, zeros
from .scheduler import Scheduler
from .state import DeviceArrays, Networks, OneNetwork, RequestArrays, Rules, networks_of, times_of

EVENTS = 256
"""Instants of the event loop between two looks at the batches that have returned."""

VARIANTS = 4
"""Sets of exits that are kept at once. Each needs a window of batches before the next one, unless hardware changes, and
at most two batches are in flight, so that none of these runs on a set that is overwritten."""


class Change(NamedTuple):
    """A change of exits or thresholds, and its cause."""

    request: int  # requests that had started before it; all later ones are served by the new exits
    time_s: float  # when the last batch that it is judged by had returned
    cause: Cause  # precision below eta, slow batches above what is allowed, other samples, another rate or hardware
    judged_from: int  # first request of the batches that it is judged by, and of the next one
    judged_to: int
    precision: float  # of these batches, as a share of what the network has without exits
    slow_share: float  # share of them that take longer than without exits, if they run alone
    exits: Exits  # with which all later batches run


class Hardware(NamedTuple):
    """Other hardware, from some time on."""

    from_s: float  # stages run on it once a request has returned at this time or later
    stage_s: Floats  # (K + 2, K + 2, b_max + 1): T(a, b, B) of it, and T(a, a, B) of gathers


class PlannedExits(NamedTuple):
    """Exits that are served while the load is as planned, and what they were chosen by."""

    exits: Exits
    goal: ExitGoal
    past: Log


class DeviceTimes(NamedTuple):
    """Times of the stages on a device, and what else slows a batch there."""

    stage_s: Floats  # (K + 2, K + 2, b_max + 1), as in :class:`Hardware`
    load: Sequence[float] | None = None  # (b_max + 1,): share of the device that a batch takes beside another one
    wake_up_s: float = 0.0
    hardware: Sequence[Hardware] = ()  # in its place, from some times on


class Observation(NamedTuple):
    """Precision and times of consecutive batches."""

    precision: float  # as in :class:`Change`
    slow_share: float
    slow_allowed: float  # the share that may be slow, of batches of these sizes
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
    allowed: Floats  # (N,): share of the batches of this size that may be slow

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
            precision=precision_of(log.scores[rows, self.exit[rows] - 1], log.scores[rows, -1]),
            slow_share=float(slow.mean()),
            slow_allowed=float(self.allowed[starts[:-1]].mean()),
            average_s=float(took_s.mean()),
            tail_s=float(batch_s.mean()),
        )


def batch_starts(start_s: Floats) -> Ints:
    """The first request of every batch, and the number of requests behind them."""
    return np.append(np.flatnonzero(np.diff(start_s, prepend=-1.0)), len(start_s))


def gathers(stage_s: Floats) -> Floats:
    """Times of gathers by place and batch size, T(a, a, B). Shapes: returns (K + 2, b_max + 1)."""
    return np.diagonal(stage_s).T


class _Adapter:
    """Lets new batches run with the exits that a judge wants."""

    def __init__(
        self, judge: Judge, window: int, hardware: list[Hardware], work: RequestArrays, networks: Networks
    ) -> None:
        self.judge, self.window, self.hardware, self.work = judge, window, hardware, work
        self.memory, self.time_s = networks.memory, times_of(networks, 0, networks.time_s)
        self.gather_s = networks.gather_s.reshape(-1, self.time_s.shape[-1])
        self.changes: list[Change] = []
        self.eras = [(0, judge.stage_s[0, -1])]  # first request, and the times of the whole network from then on
        self.done = 0  # all requests before this one have returned
        self.install(judge.plan)

    def install(self, exits: Exits) -> None:
        """Let new batches run with these exits, in a variant of their own."""
        started, log = self._started(), self.judge.log
        variant = (int(self.memory[-1]) + 1) % VARIANTS
        self.memory[-1] = variant
        self.time_s[variant] = self._segments(exits.places)
        thresholds = self.memory[: VARIANTS * log.candidates].reshape(VARIANTS, log.candidates)
        thresholds[variant] = math.inf
        for place, threshold, column in zip(*exits, strict=True):
            thresholds[variant, place - 1] = threshold
            self.work.confidences[started:, place - 1] = log.sureness[started:, place - 1, column]

    def _started(self) -> int:
        """Requests that have started: they do in order of arrival."""
        return int(np.searchsorted(self.work.requests.start_s, math.inf))

    def _segments(self, places: Sequence[int]) -> Floats:
        """Time of each segment, from candidate to candidate: the first of a stage has the time of the stage."""
        time_s: Floats = np.zeros_like(self.time_s[0])
        for begin, end in itertools.pairwise([0, *places, len(time_s)]):
            time_s[begin] = self.judge.stage_s[begin, end][: time_s.shape[1]]
        return time_s

    def look(self, returned: int) -> None:
        """Let the judge count the batches that have returned, and serve the exits that it wants."""
        requests: Any = self.work.requests
        waiting = np.isinf(requests.finish_s[self.done : returned + 1])
        self.done += int(waiting.argmax()) if waiting.any() else len(waiting)
        if self.hardware and self.done and requests.finish_s[self.done - 1] >= self.hardware[0].from_s:
            self.judge.run_on(self.hardware.pop(0).stage_s)
            self.time_s[int(self.memory[-1])] = self._segments(self.judge.exits.places)
            self.gather_s[:] = gathers(self.judge.stage_s)[:, : self.gather_s.shape[1]]
            self.eras.append((self._started(), self.judge.stage_s[0, -1]))
        if self.window == 0:
            return
        starts = self._returned(self.judge.starts[-1])
        if len(starts) > 1:
            self.judge.count(starts)
        verdict = self.judge.judge() if self.judge.counted else None
        if verdict is None:
            return
        if verdict.exits != self.judge.exits:
            first, end = verdict.starts[0], verdict.starts[-1]
            now_s = float(requests.finish_s[first:end].max())
            self.changes.append(
                Change(
                    self._started(), now_s, verdict.cause, first, end, verdict.precision, verdict.slow_share,
                    verdict.exits,
                )
            )  # fmt: skip
            self.install(verdict.exits)
        self.judge.serve(verdict.exits)

    def _returned(self, last: int) -> list[int]:
        """First requests of the batches from ``last`` on that have returned, and of the next one."""
        start_s = self.work.requests.start_s
        starts = (last + np.flatnonzero(np.diff(start_s[last : self.done], prepend=-1.0))).tolist()
        whole = self.done == len(start_s) or start_s[self.done] != start_s[self.done - 1]
        return [*starts, self.done] if whole else starts


def adapt(
    log: Log,
    arrival_s: Floats,
    plan: PlannedExits,
    times: DeviceTimes,
    scheduler: Scheduler,
    *,
    window: int = 100,
    slo_s: float | Floats | None = None,
) -> AdaptiveRun:
    """Serve requests with PAME; exits and thresholds follow the load."""
    stage_s, goal = times.stage_s, plan.goal
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
        gather_s=gathers(stage_s),
        load=np.zeros(most + 1) if times.load is None else np.array(times.load),
        variants=zeros(VARIANTS, VARIANT),
        wake_up_s=times.wake_up_s,
    )
    memory = np.zeros(VARIANTS * candidates + policy.memory)
    settings = scheduler.settings(None if isinstance(slo_s, np.ndarray) else slo_s)
    rules = Rules(settings, memory, goal.batch, scheduler.call_s)
    judge = Judge(log, arrival_s, plan.past, goal, window, stage_s, plan.exits)
    hardware = sorted(times.hardware, key=lambda changed: changed.from_s)
    networks = networks_of([OneNetwork(device, rules)], [0] * scheduler.lanes)
    adapter = _Adapter(judge, window, hardware, work, networks)
    run = Loop(replace(scheduler, policy=policy), work, networks).to(control=Control(EVENTS, adapter.look))
    served = run.work.requests
    starts = batch_starts(served.start_s)
    firsts, whole_s = zip(*adapter.eras, strict=True)
    era = np.searchsorted(firsts, starts[:-1], side="right") - 1
    sizes = np.diff(starts)
    return AdaptiveRun(
        served.start_s, served.finish_s, run.work.exit_of, adapter.changes,
        np.repeat(np.array(whole_s)[era, sizes], sizes), np.repeat(judge.allowed[sizes], sizes),
    )  # fmt: skip
