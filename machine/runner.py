"""Serves requests step by step: a clock gives the time, a device runs the segments, the event loop decides.

The event loop of the simulator is asked for one instant at a time, and the time of a segment is replaced by that of
the device. So no policy can behave differently here, and on a virtual clock with the times of the latency table every
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
from ..serving.event_loop import FAULTS, NO_PROGRESS
from ..serving.networks_replay import NetworksCase, NetworksReplay
from ..serving.outcome import Replay
from ..serving.replay import Case, LoopRun, stepper
from ..serving.state import Record, RequestArrays, begin
from ..serving.terms import next_deadline
from .clock import Clock


class Launch(NamedTuple):
    """A segment that a device shall run."""

    number: int  # how many ran before it
    segment: int  # 0-based; a stage, unless the policy decides after each layer
    stage: int  # stages that are completed once it has run
    members: NDArray[np.int64]  # the requests of the batch
    places: int  # batch size at which it runs
    # the time, and when the latency table says that it ends
    now_s: float
    end_s: float
    network: int = 0  # of several


class Engine(Protocol):
    """An engine that runs segments."""

    def run(self, launch: Launch) -> NDArray[np.float64] | None:
        """Run a segment; the confidence of each sample if it ends a stage and the exits are not known beforehand."""
        ...

    def release(self, request: int) -> None:
        """Forget a request, which has returned."""
        ...


class TableEngine:
    """An engine that runs nothing: a launch takes the time of the latency table, or that of ``taken``."""

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

    replay: Replay | NetworksReplay  # what happened to each, with every run
    # time of each run: from the end of the one before it, or from what an idle device waited for, to its own end
    took_s: NDArray[np.float64]
    # how much later than what an idle device waited for each run began; 0 if the device was busy
    woke_s: NDArray[np.float64]
    failure: str = ""  # why serving ended early, if the device failed

    @property
    def alone(self) -> Replay:
        """The replay, of one network."""
        assert isinstance(self.replay, Replay)
        return self.replay


def serve_in_steps(
    case: Case | NetworksCase,
    clock: Clock,
    engine: Engine,
    *,
    levels: Sequence[NDArray[np.float64]] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
) -> RunnerResult:
    """Serve requests on a clock and a device.

    ``levels`` are the thresholds of each network, by which its samples leave; without them exits are known beforehand.
    """
    service = _Service(case, clock, engine, levels)
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
    """The fields of records as arrays, which Python reads faster than those of one record."""
    plain = records.view(np.ndarray)
    return SimpleNamespace(**{name: plain[name] for name in plain.dtype.names or ()})


class _Service:
    """A replay that goes forward from instant to instant."""

    def __init__(
        self, case: Case | NetworksCase, clock: Clock, engine: Engine, levels: Sequence[NDArray[np.float64]] | None
    ) -> None:
        self.case, self.clock, self.engine, self.levels, self.terms = case, clock, engine, levels, case.terms
        if isinstance(case, NetworksCase):
            cases, self.traffic, network, shared = case.cases, case.offered.whole, case.offered.network, case.shared
        else:
            cases, self.traffic, network, shared = (case,), case.traffic, np.zeros(len(case.traffic), np.int64), None
        networks = case.networks if shared is None else shared
        self.network, self.devices, self.set_by_policy = network, [item.device for item in cases], cases[0].levels > 0
        work, count = case.work, len(case.work.exit_of)
        places = max(device.segment_at.size for device in self.devices)
        exit_of, arrival_s = work.exit_of.copy(), work.requests.arrival_s
        if levels is not None and not self.set_by_policy:
            exit_of = np.array([device.stage_after[-1] for device in self.devices])[network]
        if not self.traffic.clients:
            arrival_s = np.full(count, math.inf)  # the event loop sees no request that has not arrived
        self.requests: Any = work.requests._replace(arrival_s=arrival_s)
        self.work = RequestArrays(self.requests, exit_of, work.confidences.copy())
        self.state = begin(networks, count)
        self.record = Record(
            np.zeros(networks.time_s.size, dtype=np.int64), np.zeros((count * places, 2)),
            np.zeros((count * places, 5), dtype=np.int64), np.zeros(count * places, dtype=np.int64),
        )  # fmt: skip
        self.woke_s = np.zeros(count * places)
        self.now, self.lane = _fields(self.state.clock), _fields(self.state.lanes)
        self.step = stepper(case.scheduler, self.work, networks, self.state, self.record, self.terms, short=True)
        self.held: set[int] = set()  # requests that have run and not returned
        self.awaited_s = math.inf  # when what an idle device waited for was due; infinite if it was busy
        self.instant_s = 0.0  # the instant of the next decisions

    def members(self) -> NDArray[np.int64]:
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
        if after > before and not self.traffic.clients:
            arrival_s = self.clock.arrival_s[before:after]
            self.requests.arrival_s[before:after] = arrival_s
            self.requests.due_s[before:after] = arrival_s + self.traffic.slo_s[before:after]
        (self.lane.end_s if self.lane.running[0] else self.lane.wake_s)[0] = self.instant_s
        return now_s

    def decide(self, until_s: float) -> None:
        """Let the event loop do all that is due at this instant, and forget the requests that have returned."""
        if self.lane.running[0]:
            self.record.run_s[self.lane.run[0], 1] = self.lane.end_s[0]
        self.step(until_s, 1)
        gone_s = self.requests.finish_s if self.terms is None else self.terms.left_s
        for request in sorted(request for request in self.held if gone_s[request] < math.inf):
            self.held.remove(request)
            self.engine.release(request)

    def launch(self, now_s: float) -> None:
        """Run the segment that the event loop has begun."""
        run, number = int(self.lane.run[0]), max(0, int(self.lane.network[0]))
        device = self.devices[number]
        self.record.run_s[run, 0] = now_s
        self.woke_s[run] = now_s - self.instant_s
        place, members = self.lane.segment[0], self.members()
        stage = int(device.stage_after[place])
        self.held.update(members.tolist())
        found = self.engine.run(
            Launch(
                run, int(device.segment_at[place]), stage, members.copy(), int(self.lane.places[0]), now_s,
                float(self.lane.end_s[0]), number,
            )
        )  # fmt: skip
        if found is None or stage == self.lane.stage[0]:
            return
        if self.set_by_policy:
            self.work.confidences[members, stage - 1 : stage] = found[:, None]
        elif self.levels is not None and stage <= len(self.levels[number]):
            self.work.exit_of[members[found >= self.levels[number][stage - 1]]] = stage

    def outcome(self, until_s: float, failure: str) -> RunnerResult:
        """The replay of the requests that have arrived."""
        clock: Any = self.state.clock[0]
        arrived, runs = int(clock.arrived), int(clock.runs)
        if not arrived:
            raise InputError("stopped before the first request arrived; nothing was served")
        record = self.record._replace(run_s=self.record.run_s[:runs], runs=self.record.runs[:runs])
        woke_s = self.woke_s[:runs]
        took_s = record.run_s[:, 1] - record.run_s[:, 0] + woke_s
        exit_of = self.work.exit_of
        if self.terms is not None:  # requests without an answer have the exit that was expected
            exit_of = np.where(self.requests.finish_s < math.inf, exit_of, self.case.work.exit_of)
        whole = LoopRun(clock, self.state, self.work._replace(exit_of=exit_of), record)
        if isinstance(self.case, NetworksCase):
            networks = self.case.replay(whole, until_s, recorded=True)
            sizes = record.runs[:, 1]
            network = self.network[record.members[np.cumsum(sizes) - sizes]]
            parts = [_lasting(part, took_s[network == number]) for number, part in enumerate(networks.parts)]
            return RunnerResult(replace(networks, parts=tuple(parts)), took_s, woke_s, failure)
        traffic = self.traffic.first(arrived)
        traffic = replace(traffic, trace=replace(traffic.trace, arrival_s=self.requests.arrival_s[:arrived]))
        if self.terms is None and self.levels is not None and not self.set_by_policy:
            last, returned = len(self.case.table.exits), self.requests.finish_s[:arrived] < math.inf
            traffic = replace(traffic, exits=np.where(returned, np.minimum(self.work.exit_of[:arrived], last), last))
        requests = self.requests._make(column[:arrived] for column in self.requests)
        work = RequestArrays(requests, exit_of[:arrived], self.work.confidences[:arrived])
        replay = replace(self.case, traffic=traffic).replay(whole._replace(work=work), until_s, recorded=True)
        return RunnerResult(_lasting(replay, took_s), took_s, woke_s, failure)


def _lasting(replay: Replay, took_s: NDArray[np.float64]) -> Replay:
    """A replay whose runs took so long."""
    return replace(replay, overhead_s=float(took_s.sum() - (replay.ran * replay.segments.time_s).sum()))


def as_measured(outcome: RunnerResult) -> Callable[[Launch], float]:
    """Measured times of launches, in the order of those of one stage and batch size, for :class:`TableEngine`.

    A launch that the device did not make takes the time of the table, scaled by the mean ratio of the others.
    """
    replay = outcome.alone
    runs = replay.runs
    assert runs is not None
    slower = float(outcome.took_s.sum() / (replay.ran * replay.segments.time_s).sum())
    left: dict[tuple[int, int], list[float]] = {}
    for segment, batch, took_s in zip(runs.segment[::-1], runs.batch[::-1], outcome.took_s[::-1], strict=True):
        left.setdefault((int(segment), int(batch)), []).append(float(took_s))

    def taken(launch: Launch) -> float:
        seen = left.get((launch.segment, len(launch.members)))
        return seen.pop() if seen else slower * (launch.end_s - launch.now_s)

    return taken
