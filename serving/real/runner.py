"""Serves requests step by step: a clock says what time it is, a device runs the segments, the event loop decides.

The event loop of the simulator is asked for one instant at a time.  It decides, admits, preempts, merges and compacts
as ever, on the time and the arrivals that the clock gives; what it would take for the next segment is replaced by what
the device took.  So a policy cannot behave differently here, and on a virtual clock with the times of the latency table
every request returns exactly when the simulator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ..event_loop import FAULTS, NO_PROGRESS, Record, State, begin
from ..metrics import Replay
from ..replay import Case, Run, stepper
from .clock import Clock


class Launch(NamedTuple):
    """A segment that a device shall run.

    Attributes
    ----------
    number : int
        How many ran before it.
    segment : int
        0-based; a stage, unless the policy decides after each layer.
    stage : int
        Stages that are completed once it has run.
    members : (b,) ndarray of int64
        The requests of the batch.
    places : int
        Batch size at which it runs.
    now_s, end_s : float
        The time, and when the latency table says that it ends.
    """

    number: int
    segment: int
    stage: int
    members: NDArray[np.int64]
    places: int
    now_s: float
    end_s: float


class Engine(Protocol):
    """What runs segments."""

    def run(self, launch: Launch) -> NDArray[np.float64] | None:
        """Run a segment; the confidence of each sample if it ends a stage and the exits are not known beforehand.

        Raises
        ------
        RuntimeError
            If it fails.
        """
        ...

    def release(self, request: int) -> None:
        """Forget a request, which has returned."""
        ...


class TableEngine:
    """Runs nothing: time passes as the latency table, or whoever changed ``end_s``, has it.

    Parameters
    ----------
    clock : VirtualClock
        Goes forward.
    taken : callable, optional
        The seconds that a launch takes, instead of those of the table.
    """

    def __init__(self, clock: Any, taken: Callable[[Launch], float] | None = None) -> None:
        self.clock, self.taken = clock, taken

    def run(self, launch: Launch) -> None:
        """Let the time pass."""
        self.clock.time_s = launch.end_s if self.taken is None else launch.now_s + self.taken(launch)

    def release(self, request: int) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the requests.

    Attributes
    ----------
    replay : Replay
        What happened to each, with every run.
    took_s : (M,) ndarray of float64
        Time of each run: from the end of the one before it, or from what an idle device waited for, to its own end.
    failure : str
        Why serving ended early, if the device failed.
    """

    replay: Replay
    took_s: NDArray[np.float64]
    failure: str = ""


def serve_in_steps(
    case: Case,
    clock: Clock,
    engine: Engine,
    *,
    levels: NDArray[np.float64] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Serve requests on a clock and a device.

    Parameters
    ----------
    case : Case
        Requests, latency table and policy (:func:`fluidb.serving.replay.case_of`).
    clock : Clock
        The time.
    engine : Engine
        Runs the segments.
    levels : (E - 1,) ndarray of float64, optional
        Confidence from which a sample leaves at each exit but the last, if the device's answers decide.
    stopped : callable
        Asked between segments; once it is true, those that run have ended and nothing else begins.
    progress : callable, optional
        Called with the requests that returned, and their number.

    Returns
    -------
    Outcome
        What happened; requests are unfinished if it was stopped or the device failed.

    Raises
    ------
    InputError
        If the policy breaks its contract, or nobody has arrived before the stop.
    """
    work, device, rules = case.work, case.device, case.rules
    requests: Any = work.requests
    count, places = len(requests), device.segment_at.size
    scheduled_s = requests.arrival_s.copy()
    requests.arrival_s = math.inf  # the event loop sees no request that has not arrived
    if levels is not None and not case.levels:
        work.exit_of[:] = device.stage_after[-1]
    state = begin(count, 1, rules.b_max)
    record = Record(
        np.zeros(device.time_s.shape, dtype=np.int64), np.zeros((count * places, 2)),
        np.zeros((count * places, 5), dtype=np.int64), np.zeros(count * places, dtype=np.int64),
    )  # fmt: skip
    advance = stepper(case.scheduler, work, device, rules, state, record)
    now: Any = state.clock[0]
    lane: Any = state.lanes[0]
    stages, failure, until_s = device.stage_after, "", math.inf
    woke_s = np.zeros(len(record.run_s))
    while now.returned < count:
        idle, awaited_s = not lane.running, float(lane.wake_s)
        if idle:
            if lane.wake_s == math.inf and now.arrived == count:
                raise InputError(f"policy {case.scheduler.spec}: {FAULTS[NO_PROGRESS]}; see `fluidb docs add-a-policy`")
            clock.wait(lane.wake_s, now.arrived)
        arrived, time_s = clock.arrived(), clock.now_s()
        if idle and arrived > now.arrived:
            awaited_s = min(awaited_s, float(scheduled_s[now.arrived]))
        requests.arrival_s[now.arrived : arrived] = scheduled_s[now.arrived : arrived]
        state.queue[now.tail : now.tail + arrived - now.arrived] = np.arange(now.arrived, arrived)
        now.tail += arrived - now.arrived
        now.arrived = arrived
        ended: list[int] = []
        if lane.running:
            lane.end_s = record.run_s[lane.run, 1] = time_s
            ended = state.members[_top(state, lane)].tolist()
        else:
            lane.wake_s = time_s
        if stopped():
            until_s = time_s
        advance(until_s, 1)
        for request in ended:
            if requests.exit[request]:
                engine.release(request)
        if progress is not None:
            progress(int(now.returned), count)
        if until_s < math.inf:
            break
        if not lane.running:
            continue
        record.run_s[lane.run, 0] = time_s
        woke_s[lane.run] = time_s - awaited_s if idle else 0.0
        batch: Any = state.batches[lane.depth - 1]
        members = state.members[_top(state, lane)]
        launch = Launch(
            int(now.runs) - 1, int(device.segment_at[batch.segment]), int(stages[batch.segment]), members.copy(),
            int(batch.places), time_s, float(lane.end_s),
        )  # fmt: skip
        try:
            found = engine.run(launch)
        except RuntimeError as error:
            failure, until_s = " ".join(str(error).split()), clock.now_s()
            lane.end_s = max(lane.end_s, until_s)
            break
        if found is not None and launch.stage > batch.stage:
            if case.levels:
                work.confidences[members, launch.stage - 1 : launch.stage] = found[:, None]
            elif levels is not None and launch.stage <= len(levels):
                work.exit_of[members[found >= levels[launch.stage - 1]]] = launch.stage
    replay, runs = _replay(case, Run(now, state, requests, record), until_s, levels), int(now.runs)
    took_s = np.diff(record.run_s[:runs], axis=1)[:, 0] + woke_s[:runs]
    overhead_s = float(took_s.sum() - (replay.ran * replay.segments.time_s).sum())
    return Outcome(replace(replay, overhead_s=overhead_s), took_s, failure)


def as_measured(outcome: Outcome) -> Callable[[Launch], float]:
    """What launches took on a device, for :class:`TableEngine`: in the order of those of one stage and batch size.

    A launch that did not happen on the device takes what the latency table says.
    """
    runs = outcome.replay.runs
    assert runs is not None
    left: dict[tuple[int, int], list[float]] = {}
    for segment, batch, took_s in zip(runs.segment[::-1], runs.batch[::-1], outcome.took_s[::-1], strict=True):
        left.setdefault((int(segment), int(batch)), []).append(float(took_s))

    def taken(launch: Launch) -> float:
        seen = left.get((launch.segment, len(launch.members)))
        return seen.pop() if seen else launch.end_s - launch.now_s

    return taken


def _top(state: State, lane: Any) -> slice:
    """Where the requests of the top batch are among the members."""
    return slice(int(state.batches[lane.depth - 1]["first"]), int(lane.in_flight))


def _replay(case: Case, run: Run, until_s: float, levels: NDArray[np.float64] | None) -> Replay:
    """What happened to the requests that have arrived."""
    clock, state, requests, record = run
    arrived, runs = int(clock.arrived), int(clock.runs)
    if not arrived:
        raise InputError("stopped before the first request arrived; nothing was served")
    traffic = case.traffic.first(arrived)
    if levels is not None and not case.levels:
        left = requests.exit[:arrived]
        traffic = replace(traffic, exits=np.where(left, left, len(case.table.exits)))
    record = record._replace(run_s=record.run_s[:runs], runs=record.runs[:runs])
    clock.now_s = min(float(clock.now_s), until_s)
    return replace(case, traffic=traffic).replay(Run(clock, state, requests[:arrived], record), until_s, recorded=True)
