"""Requests that arrive while the loop runs: a service without end, on arrays of one size."""

from __future__ import annotations

import gc
import math
import queue
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Floats, Ints
from ..serving.case import Case
from ..serving.renewal import forget_returned
from .clock import SWITCH_S
from .maps import Held, Tensors, run_batch
from .network import RealNetwork
from .runner import Launch, SegmentRunner, Service


class Outcome(StrEnum):
    """What became of a sample."""

    IN_TIME = "in_time"
    LATE = "late"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class Sample:
    """A sample of a client's request: for the loop, a request."""

    network: int
    tensors: Tensors  # one row each
    slo_s: float
    arrival_s: float = math.inf
    row: int = 0  # samples before it in its request, which come together and are admitted together
    number: int = 0  # in a record
    held: Held | None = None
    # at each exit that it has passed: its answer, and how sure it is
    answers: list[NDArray[np.generic]] = field(default_factory=list)
    sure: list[float] = field(default_factory=list)
    # once it has left
    outcome: Outcome | None = None
    exit: int = 0  # 1-based; 0 without an answer
    queue_s: float = 0.0
    device_s: float = 0.0


class OpenClock:
    """The machine's clock; samples arrive when any thread sends them, in the order in which they are sent."""

    def __init__(self, room: int) -> None:
        self.arrival_s = np.full(room, math.inf)
        self.samples: list[Sample] = []  # those that have arrived, by the numbers that the loop has for them
        self.sent: queue.SimpleQueue[Sequence[Sample]] = queue.SimpleQueue()  # a signal's handler may put into it
        self.zero_s = time.perf_counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let time begin; threads pass the interpreter on quickly, and what there is now is no garbage."""
        switch_s = sys.getswitchinterval()
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)
        self.zero_s = time.perf_counter()
        try:
            yield
        finally:
            sys.setswitchinterval(switch_s)
            gc.unfreeze()

    def now_s(self) -> float:
        """The time."""
        return time.perf_counter() - self.zero_s

    def send(self, samples: Sequence[Sample]) -> None:
        """Let samples arrive now; without any, an idle device only looks up."""
        now_s = self.now_s()
        for sample in samples:
            sample.arrival_s = now_s
        self.sent.put(samples)

    def _take(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self.arrival_s[len(self.samples)] = sample.arrival_s
            self.samples.append(sample)

    def arrived(self) -> int:
        """Number of samples that have arrived, of those that are not forgotten."""
        while not self.sent.empty():
            self._take(self.sent.get())
        return len(self.samples)

    def wait(self, until_s: float, seen: int) -> None:
        """Sleep until a time, or until something is sent."""
        left_s = until_s - self.now_s()
        if len(self.samples) == seen and left_s > 0:
            try:
                self._take(self.sent.get(timeout=None if left_s == math.inf else left_s))
            except queue.Empty:
                return

    def forget(self, old: Ints, seen: int) -> None:
        """Number anew the samples that stay, of those that the loop has seen."""
        self.samples = [self.samples[number] for number in old.tolist()] + self.samples[seen:]
        self.arrival_s[: len(self.samples)] = [sample.arrival_s for sample in self.samples]
        self.arrival_s[len(self.samples) :] = math.inf


class LiveRunner:
    """Runs the real stages of networks on the samples of a clock; ``ran`` hears of every run."""

    def __init__(
        self, models: Sequence[RealNetwork], clock: OpenClock, ran: Callable[[Launch, float], None] = lambda *_: None
    ) -> None:
        self.models, self.clock, self.ran = models, clock, ran

    def run(self, launch: Launch) -> Floats:
        """Run a stage for a batch; how sure each answer is."""
        begin_s, model = self.clock.now_s(), self.models[launch.network]
        members = [self.clock.samples[number] for number in launch.members.tolist()]
        batch = run_batch(
            model.session.run_stage, launch, [member.held for member in members], lambda: _inputs(members)
        )
        with np.errstate(all="ignore"):
            sure = model.confidence(launch.segment, batch.own)
        sure[np.isnan(sure)] = -math.inf  # an answer that is not finite is as unsure as can be
        shown = model.measure.to_file(sure)
        for place, (member, row) in enumerate(zip(members, batch.rows, strict=True)):
            member.held = batch.keeps, row
            member.answers.append(batch.answers[row])
            member.sure.append(float(shown[place]))
        self.ran(launch, self.clock.now_s() - begin_s)
        return sure

    def release(self, request: int) -> None:
        """Forget the maps of a sample, which has left."""
        self.clock.samples[request].held = None


def _inputs(samples: Sequence[Sample]) -> Tensors:
    """The inputs of a batch."""
    names = samples[0].tensors
    return {name: np.concatenate([sample.tensors[name] for sample in samples]) for name in names}


class LiveService(Service):
    """A service of samples that arrive while it runs; ``told`` hears of those that have left.

    Of the room for numbers, ``most`` must be enough for the samples that have not left at any time; the same again is
    for those that have.
    """

    def __init__(
        self,
        case: Case,
        clock: OpenClock,
        runner: SegmentRunner,
        levels: Sequence[Floats] | None,
        told: Callable[[list[Sample]], None],
    ) -> None:
        if case.terms is not None and case.terms.admission.size:
            case = replace(case, terms=case.terms._replace(first=np.zeros(len(clock.arrival_s), dtype=np.int64)))
        super().__init__(case, clock, runner, levels, of_any=True)
        self.open, self.told = clock, told
        self.most = len(clock.arrival_s) // 2
        self.gone = np.zeros(len(clock.arrival_s), dtype=np.bool_)  # the ones that have left and are not forgotten
        self.count = 0  # of them
        self.last = [int(device.stage_after[-1]) for device in self.devices]

    def arrive(self, before: int, after: int) -> None:
        """Tell the event loop when samples arrived, when they are due, and for which network they are."""
        for number, sample in enumerate(self.open.samples[before:after], before):
            self.requests.arrival_s[number] = sample.arrival_s
            self.requests.due_s[number] = sample.arrival_s + sample.slo_s
            self.work.exit_of[number] = self.last[sample.network]
            if self.terms is not None and self.terms.first.size:
                self.terms.first[number] = number - sample.row
            self.state.joined[number] = sample.network

    def let_go(self) -> None:
        """Tell of the samples that have left, and forget them once they take half of the room."""
        if self.now.returned[0] == self.count:
            return
        self.count, arrived = int(self.now.returned[0]), int(self.now.arrived[0])
        left_s = self.requests.finish_s if self.terms is None else self.terms.left_s
        leaving = np.flatnonzero((left_s[:arrived] < math.inf) & ~self.gone[:arrived])
        self.gone[leaving] = True
        self.held.difference_update(leaving.tolist())
        self.told([self._left(number, float(left_s[number])) for number in leaving.tolist()])
        if self.count > self.most:
            self.held.clear()
            self.open.forget(forget_returned(self.case, self.work, self.state, self.record), arrived)
            self.gone[:], self.count = False, 0

    def _left(self, number: int, left_s: float) -> Sample:
        """A sample with what became of it."""
        sample, requests = self.open.samples[number], self.requests
        self.runner.release(number)
        start_s, finish_s = float(requests.start_s[number]), float(requests.finish_s[number])
        sample.queue_s = min(start_s, left_s) - sample.arrival_s
        sample.device_s = max(0.0, left_s - start_s)
        if finish_s < math.inf:
            sample.exit = int(self.work.exit_of[number])
            sample.outcome = Outcome.IN_TIME if finish_s <= requests.due_s[number] else Outcome.LATE
        else:
            refused = self.terms is not None and self.terms.refused.size > 0 and self.terms.refused[number]
            sample.outcome = Outcome.REFUSED if refused else Outcome.DROPPED
        return sample

    def serve(self, stopped: Callable[[], bool]) -> None:
        """Serve until it is stopped, or a run of the device raises ``RuntimeError``."""
        while not stopped():
            self.wait()
            now_s = self.take_arrivals()
            self.decide(math.inf)
            if self.lane.running[0]:
                self.launch(now_s)
