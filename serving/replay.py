"""Replaying a trace on a design, under a policy."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..formats import InputError
from ..tables.latency import LatencyTable, Segments
from ..traffic.trace import write_columns
from ..traffic.traffic import Traffic
from .event_loop import FAULTS, OK, Device, Record, Rules, State, Work, begin, run_events
from .metrics import Replay, Runs
from .policies import Decide, Decision, Policy, View, compile_policy
from .policies.interface import REQUEST, Data
from .scheduler import Scheduler

EVENTS = 2**20
"""Instants that the event loop looks at before it reports progress and answers Ctrl-C: some tenths of a second."""


def simulate(
    table: LatencyTable,
    traffic: Traffic,
    scheduler: Scheduler,
    *,
    until_s: float = math.inf,
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Serve traffic with a policy.

    Parameters
    ----------
    table : LatencyTable
        Times of the design that serves it.
    traffic : Traffic
        Requests with their exits and objectives; see :func:`fluidb.traffic.prepare`.
    scheduler : Scheduler
        The policy, e.g. ``find_policy("fluid")``.
    until_s : float
        Stop then; requests that arrived and have not returned stay unfinished.
    record : bool
        Keep every run, for a timeline (see :func:`record_runs`).
    progress : callable, optional
        Called with the requests that were served, and their number.

    Returns
    -------
    Replay
        What happened to every request.

    Raises
    ------
    InputError
        If nothing arrives in time, or the policy broke its contract.
    """
    arrived = int(np.searchsorted(traffic.trace.arrival_s, until_s, side="left"))
    if arrived == 0:
        raise InputError(
            f"until: expected a time after the first arrival at {traffic.trace.arrival_s[0]:g} s, found {until_s:g} s"
        )
    replay = _replay(table, traffic.first(arrived), scheduler, until_s, None, progress)
    return record_runs(replay, scheduler) if record else replay


def record_runs(replay: Replay, scheduler: Scheduler) -> Replay:
    """Replay once more and keep every run, for a timeline; the first replay knows how many there are.

    Parameters
    ----------
    replay : Replay
        What :func:`simulate` returned.
    scheduler : Scheduler
        The policy that it was given.

    Returns
    -------
    Replay
        The same, with its runs.
    """
    launches = replay.launches
    room = int(launches.sum()), int(launches.sum(axis=0) @ np.arange(launches.shape[1]))
    return _replay(replay.table, replay.traffic, scheduler, replay.until_s, room)


def _replay(
    table: LatencyTable,
    traffic: Traffic,
    scheduler: Scheduler,
    until_s: float,
    room: tuple[int, int] | None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """A replay; it keeps its runs if it gets ``room`` for so many, and for so many samples in them."""
    policy = scheduler.policy
    segments = table.segments(by_layer=policy.by_layer)
    last_s, least_s = float(traffic.trace.arrival_s[-1]), float(segments.time_s[:, 1].min())
    if np.spacing(last_s) > 1e-3 * least_s:
        raise InputError(
            f"trace: arrivals as late as {last_s:g} s leave too few digits for a segment of {least_s:g} s; "
            "start the trace near 0"
        )
    lanes = scheduler.lanes
    if lanes > table.lanes:
        raise InputError(
            f"policy {scheduler.spec}: lanes: expected at most {table.lanes} on {table.platform}, found {lanes}"
        )
    b_max = table.b_max if scheduler.b_max is None else min(scheduler.b_max, table.b_max)
    settings, levels = scheduler.settings(traffic.objective_s), _levels(policy, traffic, len(table.exits))
    memory = np.zeros(levels + policy.memory)
    rules = Rules(settings, memory, memory[:levels], b_max, scheduler.call_s)
    work, device = work_of(traffic, levels), device_of(table, segments)
    clock, state, served, ran = play(scheduler, work, device, rules, lanes, until_s, room or (0, 0), progress)
    cut = cut_off(state, served, device, until_s)
    if levels:
        traffic = dataclasses.replace(traffic, exits=np.where(served.exit, served.exit, len(table.exits)))
    return Replay(
        traffic, table, served.start_s, served.finish_s, served.stalled_s, served.preempted, served.batch, segments,
        ran.launches.sum(axis=0), cut.launches.sum(axis=0), int(clock.preemptions), int(clock.calls),
        int(clock.calls) * scheduler.call_s - cut.call_s, until_s, lanes, float(clock.overhead_s) - cut.overhead_s,
        runs_of(ran, int(clock.run_members)) if room else None,
    )  # fmt: skip


def runs_of(record: Record, members: int) -> Runs:
    """Every run that was recorded, a column for each thing known of it, and the samples in them."""
    begin_s, end_s = record.run_s.T
    segment, batch, level, flags, lane = record.runs.T
    return Runs(begin_s, end_s, segment, batch, level, flags, lane, record.members[:members])


class Run(NamedTuple):
    """What the event loop left: its clock and lanes, the requests as they were served, and what ran."""

    clock: Any
    state: State
    requests: Any
    record: Record


def play(
    scheduler: Scheduler,
    work: Work,
    device: Device,
    rules: Rules,
    lanes: int = 1,
    until_s: float = math.inf,
    room: tuple[int, int] = (0, 0),
    progress: Callable[[int, int], None] | None = None,
    events: int = EVENTS,
) -> Run:
    """Run the event loop to its end.

    Parameters
    ----------
    scheduler : Scheduler
        The policy.
    work : Work
        The requests.
    device : Device
        What serves them.
    rules : Rules
        The policy's parameters, memory and limits.
    lanes : int
        Lanes of the device to use.
    until_s : float
        When to stop.
    room : (int, int)
        Runs, and samples in them, that are recorded.
    progress : callable, optional
        Called with the requests that returned, and their number.  It may change what the policy and the device were
        given, which then holds for what starts later.
    events : int
        Instants between two calls of it.

    Returns
    -------
    Run
        What happened.

    Raises
    ------
    InputError
        If the policy broke its contract.
    """
    decide, loop = _compiled(scheduler.policy.decide)
    count, (runs, members) = len(work.requests), room
    state = begin(count, lanes, rules.b_max)
    record = Record(
        np.zeros(device.time_s.shape, dtype=np.int64), np.zeros((runs, 2)), np.zeros((runs, 5), dtype=np.int64),
        np.zeros(members, dtype=np.int64),
    )  # fmt: skip
    clock = state.clock[0]
    while clock.returned < count and clock.now_s < until_s:
        try:
            status = loop(decide, work, device, rules, state, record, until_s, events)
        except (Exception, SystemExit) as error:  # what a user's policy raises is the user's to mend
            raise InputError(
                f"policy {scheduler.spec}: raised {type(error).__name__}: {error}; see `fluidb docs add-a-policy`"
            ) from error
        if status != OK:
            raise InputError(f"policy {scheduler.spec}: {FAULTS[status]}; see `fluidb docs add-a-policy`")
        if progress is not None:
            progress(int(clock.returned), count)
    return Run(clock, state, work.requests, record)


class Cut(NamedTuple):
    """What had begun and was not done when a simulation was stopped.

    Attributes
    ----------
    launches : (V, S, B + 1) ndarray of float64
        The share that is missing of each run, by variant, segment and batch size.
    overhead_s, call_s : float
        What is missing of gathers, delays and slowdowns, and of scheduler calls.
    """

    launches: NDArray[np.float64]
    overhead_s: float
    call_s: float


def cut_off(state: State, requests: Any, device: Device, until_s: float) -> Cut:
    """What the lanes had begun when the simulation was stopped; preempted requests have stood still until then."""
    launches, overhead_s, call_s = np.zeros(device.time_s.shape), 0.0, 0.0
    lanes: Any = state.lanes
    batches: Any = state.batches
    for lane in lanes:
        stack = batches[lane.offset : lane.offset + lane.depth]
        for below, above in itertools.pairwise(stack):
            requests.stalled_s[state.members[lane.offset + below.first : lane.offset + above.first]] += (
                until_s - below.paused_s
            )
        if not lane.running:
            continue
        top = stack[-1]
        run = top.variant, device.segment_at[top.segment], top.places
        missing = (lane.end_s - max(lane.begin_s, until_s)) / (lane.end_s - lane.begin_s)
        late_s = max(0.0, lane.begin_s - until_s)  # by which gathers and delays, and before them the call, end later
        launches[run] += missing
        overhead_s += missing * (lane.end_s - lane.begin_s - device.time_s[run]) + min(late_s, lane.wait_s)
        call_s += max(0.0, late_s - lane.wait_s)
    return Cut(launches, overhead_s, call_s)


def _levels(policy: Policy, traffic: Traffic, exits: int) -> int:
    """How many thresholds a policy sets while it runs: one for each exit but the last, or none."""
    if not policy.thresholds:
        return 0
    if traffic.trace.confidences is None:
        raise InputError("policy: expected traffic with confidences, which its thresholds decide by, found none")
    return exits - 1


def work_of(traffic: Traffic, levels: int = 0) -> Work:
    """Traffic as the event loop takes it; with ``levels`` thresholds of the policy, which then decide the exits."""
    trace = traffic.trace
    requests = np.zeros(len(traffic), REQUEST).view(np.recarray)
    requests.arrival_s = trace.arrival_s
    requests.due_s = trace.arrival_s + traffic.slo_s
    requests.start_s = requests.finish_s = math.inf
    if not levels or trace.confidences is None:
        return Work(requests, traffic.exits, np.zeros((0, 0)))
    confidences = np.ascontiguousarray(trace.confidences[:, :levels])
    return Work(requests, np.full(len(traffic), levels + 1), confidences)


def device_of(table: LatencyTable, segments: Segments) -> Device:
    """A latency table as the event loop takes it."""
    ends_stage = np.append(segments.stage[1:] != segments.stage[:-1], True)
    return Device(
        time_s=segments.time_s[None],
        latency_s=table.array()[None],
        segment_at=np.arange(len(segments.stage)),
        stage_after=segments.stage - ~ends_stage,
        gather_s=np.zeros(table.b_max + 1) if table.gather_s is None else np.array(table.gather_s),
        load=np.zeros(table.b_max + 1) if table.load is None else np.array(table.load),
    )


@cache
def _compiled(decide: Decide) -> tuple[Decide, Any]:
    """A decision and the event loop that runs it: compiled, or as plain Python where numba cannot."""
    if is_jitted(decide):
        return decide, run_events
    if is_jitted(run_events):
        with suppress(Exception):  # numba raises many kinds
            return compile_policy(decide), run_events
    return _whole_numbers(decide), getattr(run_events, "py_func", run_events)


def _whole_numbers(decide: Decide) -> Decide:
    """The decision with the types that compiled code gives it; a number that is not whole raises ``TypeError``."""

    def checked(view: View, data: Data) -> Decision:
        admit, skip, run, wake_s, compact, variant, delay_s = decide(view, data)
        return Decision(index(admit), index(skip), index(run), wake_s, compact, index(variant), delay_s)

    return checked


def write_requests(result: Replay, path: Path, *, replace: bool = True) -> None:
    """Write what happened to every request as CSV, whole or not at all; times that never came are empty.

    Parameters
    ----------
    result : Replay
        What happened.
    path : Path
        Destination.
    replace : bool
        Whether an existing file is replaced; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    write_columns(result.columns(), path, replace=replace)
