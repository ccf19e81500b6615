"""Serves requests step by step: a clock gives the time, a device runs the segments, the event loop decides.

The event loop of the simulator is asked for one instant at a time, and the device's time of a segment replaces
the table's. So no policy can behave differently here, and on a virtual clock with the times of the latency table every
request returns exactly when the simulator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from ..formats.array_types import Floats, Ints
from ..serving.case import Case
from ..serving.deadlines import next_deadline
from ..serving.event_loop import FAULTS, NO_PROGRESS
from ..serving.outcome import DeviceUse, Replay
from ..serving.play import LoopRun, stepper
from ..serving.state import Record, RequestArrays, begin
from .clock import Clock


class Launch(NamedTuple):
    """A segment that a device shall run."""

    number: int  # how many ran before it
    segment: int  # 0-based; a stage, unless the policy decides after each layer
    stage: int  # stages that are completed once it has run
    members: Ints  # the requests of the batch
    places: int  # batch size at which it runs
    # the time, and when the latency table says that it ends
    now_s: float
    end_s: float
    network: int = 0  # of several


class SegmentRunner(Protocol):
    """What runs segments: a machine, or a table in its place."""

    def run(self, launch: Launch) -> Floats | None:
        """Run a segment; the confidence of each sample if it ends a stage and the exits are not known beforehand."""
        ...

    def release(self, request: int) -> None:
        """Forget a request, which has returned."""
        ...


class TableRunner:
    """Runs nothing: a launch takes the time of the latency table, or what ``taken`` says."""

    def __init__(self, clock: Any, taken: Callable[[Launch], float] | None = None) -> None:
        self.clock, self.taken = clock, taken

    def run(self, launch: Launch) -> None:
        """Let the time pass."""
        self.clock.time_s = launch.end_s if self.taken is None else launch.now_s + self.taken(launch)

    def release(self, request: int) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class RunnerResult:
    """The outcome of all requests."""

    replay: Replay  # what happened to each, with every run
    # time of each run: from the end of the one before it, or from what an idle device waited for, to its own end
    took_s: Floats
    # how much later than what an idle device waited for each run began; 0 if the device was busy
    woke_s: Floats
    failure: str = ""  # why serving ended early, if the device failed


def serve_in_steps(
    case: Case,
    clock: Clock,
    runner: SegmentRunner,
    *,
    levels: Sequence[Floats] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
) -> RunnerResult:
    """Serve requests on a clock and a device.

    ``levels`` are the thresholds of each network, by which its samples leave; without them exits are known beforehand.
    """
    service = Service(case, clock, runner, levels)
    count, until_s, failure = len(case.work.exit_of), math.inf, ""
    while service.now.returned[0] < count:
        service.wait()
        now_s = service.take_arrivals()
        if stopped():
            until_s = now_s
        service.decide(until_s)
        if progress is not None:
            progress(int(service.now.returned[0]), count)
        if until_s < math.inf:
            break
        if service.lane.running[0]:
            try:
                service.launch(now_s)
            except RuntimeError as error:
                failure, until_s = " ".join(str(error).split()), clock.now_s()
                service.lane.end_s[0] = max(service.lane.end_s[0], until_s)
                break
    return service.outcome(until_s, failure)


def _fields(records: NDArray[np.void]) -> Any:
    """The fields of records as arrays, which Python reads faster than the fields of one record."""
    plain = records.view(np.ndarray)
    return SimpleNamespace(**{name: plain[name] for name in plain.dtype.names or ()})


class Service:
    """A replay that goes forward from instant to instant.

    Requests of a live service may be ``of_any`` network: nobody knows what arrives.
    """

    def __init__(
        self, case: Case, clock: Clock, runner: SegmentRunner, levels: Sequence[Floats] | None, *,
        of_any: bool = False,
    ) -> None:  # fmt: skip
        self.case, self.clock, self.runner, self.levels, self.terms = case, clock, runner, levels, case.terms
        self.traffic = case.offered.whole
        self.devices, self.set_by_policy = [network.device for network in case.networks], case.levels > 0
        work, count = case.work, len(case.work.exit_of)
        places = max(device.segment_at.size for device in self.devices)
        exit_of, arrival_s = work.exit_of.copy(), work.requests.arrival_s
        if levels is not None and not self.set_by_policy:
            exit_of = np.array([device.stage_after[-1] for device in self.devices])[case.offered.network]
        if not self.traffic.clients:
            arrival_s = np.full(count, math.inf)  # the event loop sees no request that has not arrived
        self.requests: Any = work.requests._replace(arrival_s=arrival_s)
        self.work = RequestArrays(self.requests, exit_of, work.confidences.copy())
        self.state = begin(case.shared, count, of_any=of_any)
        self.record = Record(
            np.zeros(case.shared.time_s.size, dtype=np.int64), np.zeros((count * places, 2)),
            np.zeros((count * places, 5), dtype=np.int64), np.zeros(count * places, dtype=np.int64),
        )  # fmt: skip
        self.woke_s = np.zeros(count * places)
        self.now, self.lane = _fields(self.state.clock), _fields(self.state.lanes)
        self.step = stepper(case.scheduler, self.work, case.shared, self.state, self.record, self.terms)
        self.held: set[int] = set()  # requests that have run and not returned
        self.awaited_s = math.inf  # when what an idle device waited for was due; infinite if it was busy
        self.instant_s = 0.0  # the instant of the next decisions

    def members(self) -> Ints:
        """The requests of the top batch."""
        return self.state.members[self.lane.first[0] : self.lane.in_flight[0]]

    def wait(self) -> None:
        """Let an idle device wait for the policy's time, or for a request."""
        self.awaited_s = math.inf
        if self.lane.running[0]:
            return
        arrived, until_s = int(self.now.arrived[0]), float(self.lane.wake_s[0])
        if self.terms is not None and self.case.scheduler.on_deadline:
            until_s = min(until_s, next_deadline(self.terms, self.requests))
        ended = arrived == len(self.traffic)
        if self.traffic.clients and not ended:
            until_s = min(until_s, float(self.requests.arrival_s[arrived]))
        if until_s == math.inf and (ended or self.traffic.clients):
            spec = self.case.scheduler.spec
            raise InputError(f"policy {spec}: {FAULTS[NO_PROGRESS]}; see `fluidb docs extend`")
        if self.traffic.clients:  # the event loop knows when they send
            self.clock.wait(until_s, self.clock.arrived())
            next_s = math.inf
        else:
            self.clock.wait(until_s, arrived)
            next_s = float(self.clock.arrival_s[arrived]) if self.clock.arrived() > arrived else math.inf
        self.awaited_s = min(until_s, next_s)

    def take_arrivals(self) -> float:
        """Tell the event loop of the requests that have arrived, and return the time.

        An idle device decides on the instant for which it waited, even if it noticed it late. Later requests are left
        for later, as in the simulator.
        """
        before, now_s = int(self.now.arrived[0]), self.clock.now_s()
        self.instant_s = min(self.awaited_s, now_s)
        after = int(np.searchsorted(self.clock.arrival_s[: self.clock.arrived()], self.instant_s, side="right"))
        if after > before:
            self.arrive(before, after)
        (self.lane.end_s if self.lane.running[0] else self.lane.wake_s)[0] = self.instant_s
        return now_s

    def arrive(self, before: int, after: int) -> None:
        """Tell the event loop when requests arrived, and when they are due."""
        if not self.traffic.clients:
            arrival_s = self.clock.arrival_s[before:after]
            self.requests.arrival_s[before:after] = arrival_s
            self.requests.due_s[before:after] = arrival_s + self.traffic.slo_s[before:after]

    def decide(self, until_s: float) -> None:
        """Let the event loop do all that is due at this instant, and let those go that have returned."""
        if self.lane.running[0]:
            self.record.run_s[self.lane.run[0], 1] = self.lane.end_s[0]
        self.step(until_s, 1)
        self.let_go()

    def let_go(self) -> None:
        """Release requests that have returned."""
        gone_s = self.requests.finish_s if self.terms is None else self.terms.left_s
        for request in sorted(request for request in self.held if gone_s[request] < math.inf):
            self.held.remove(request)
            self.runner.release(request)

    def launch(self, now_s: float) -> None:
        """Run the segment that the event loop has begun."""
        run, number = int(self.lane.run[0]), max(0, int(self.lane.network[0]))
        device = self.devices[number]
        self.record.run_s[run, 0] = now_s
        self.woke_s[run] = now_s - self.instant_s
        place, members = self.lane.segment[0], self.members()
        stage = int(device.stage_after[place])
        self.held.update(members.tolist())
        confidences = self.runner.run(
            Launch(
                run, int(device.segment_at[place]), stage, members.copy(), int(self.lane.places[0]), now_s,
                float(self.lane.end_s[0]), number,
            )
        )  # fmt: skip
        if confidences is None or stage == self.lane.stage[0]:
            return
        if self.set_by_policy:
            self.work.confidences[members, stage - 1 : stage] = confidences[:, None]
        elif self.levels is not None and stage <= len(self.levels[number]):
            sure = members[confidences >= self.levels[number][stage - 1]]
            self.work.exit_of[sure] = np.minimum(self.work.exit_of[sure], stage)

    def outcome(self, until_s: float, failure: str) -> RunnerResult:
        """The replay of the requests that have arrived."""
        clock: Any = self.state.clock[0]
        arrived, runs = int(clock.arrived), int(clock.runs)
        if not arrived:
            raise InputError("stopped before the first request arrived; nothing was served")
        record = self.record._replace(run_s=self.record.run_s[:runs], runs=self.record.runs[:runs])
        woke_s = self.woke_s[:runs]
        took_s = record.run_s[:, 1] - record.run_s[:, 0] + woke_s
        # requests without an answer have the exit that was expected
        exit_of = np.where(self.requests.finish_s < math.inf, self.work.exit_of, self.case.work.exit_of)
        whole = LoopRun(clock, self.state, self.work._replace(exit_of=exit_of), record)
        replay = self.case.replay(whole, until_s, recorded=True)
        network = _network_of_runs(replay)
        uses = (_lasting(use, took_s[network == number]) for number, use in enumerate(replay.uses))
        return RunnerResult(replace(replay, uses=tuple(uses)), took_s, woke_s, failure)


def _network_of_runs(replay: Replay) -> Ints:
    """The network of each run."""
    runs = replay.runs
    assert runs is not None
    return np.asarray(replay.network[runs.firsts])


def _lasting(use: DeviceUse, took_s: Floats) -> DeviceUse:
    """The use of the device by runs that took so long."""
    return replace(use, overhead_s=float(took_s.sum() - (use.ran * use.segments.time_s).sum()))


def as_measured(outcome: RunnerResult) -> Callable[[Launch], float]:
    """Measured times of launches for :class:`TableRunner`: of each network, stage and batch size in their order.

    A launch that the device did not make takes the time of the table, scaled by the mean ratio of the others.
    """
    replay = outcome.replay
    runs, network = replay.runs, _network_of_runs(replay)
    assert runs is not None
    slower = float(outcome.took_s.sum() / sum((use.ran * use.segments.time_s).sum() for use in replay.uses))
    left: dict[tuple[int, int, int], list[float]] = {}
    columns = (network, runs.segment, runs.batch, outcome.took_s)
    for number, segment, batch, took_s in zip(*(column[::-1].tolist() for column in columns), strict=True):
        left.setdefault((number, segment, batch), []).append(took_s)

    def taken(launch: Launch) -> float:
        seen = left.get((launch.network, launch.segment, len(launch.members)))
        return seen.pop() if seen else slower * (launch.end_s - launch.now_s)

    return taken
