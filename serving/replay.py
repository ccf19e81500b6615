"""Replaying a trace on a design, under a policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..formats import InputError, write_file
from ..tables.latency import LatencyTable, Segments
from ..traffic.trace import PIECE, csv_text
from ..traffic.traffic import Traffic
from .event_loop import FAULTS, OK, Device, Record, Rules, Work, begin, run_events
from .metrics import Replay, Runs
from .policies import Decide, compile_policy
from .policies.interface import REQUEST
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
        Keep every run, for a timeline.
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
    traffic = traffic.first(arrived)
    trace = traffic.trace
    policy, segments = scheduler.policy, table.segments(by_layer=scheduler.policy.by_layer)
    if np.spacing(trace.arrival_s[-1]) > 1e-3 * segments.time_s[:, 1].min():
        raise InputError(
            f"trace: arrivals as late as {trace.arrival_s[-1]:g} s leave too few digits for a segment of "
            f"{segments.time_s[:, 1].min():g} s; start the trace near 0"
        )
    b_max = table.b_max if scheduler.b_max is None else min(scheduler.b_max, table.b_max)
    device, settings = _device(table, segments), scheduler.settings(traffic.objective_s)
    decide, loop = _compiled(scheduler)

    def run(runs: int, members: int) -> tuple[Replay, int, int]:
        memory = np.zeros(policy.memory)
        work, state = _work(traffic), begin(arrived, 1, b_max)
        rules = Rules(settings, memory, memory[:0], b_max, scheduler.call_s)
        ran = Record(
            np.zeros(device.time_s.shape, dtype=np.int64), np.zeros((runs, 2)), np.zeros((runs, 5), dtype=np.int64),
            np.zeros(members, dtype=np.int64),
        )  # fmt: skip
        clock = state.clock[0]
        while clock.returned < arrived and clock.now_s < until_s:
            status = loop(decide, work, device, rules, state, ran, until_s, EVENTS)
            if status != OK:
                raise InputError(f"policy {scheduler.spec}: {FAULTS[status]}; see docs/add-a-policy.md")
            if progress is not None:
                progress(int(clock.returned), arrived)
        calls, served = int(clock.calls), work.requests
        found = Replay(
            traffic, table, served.start_s, served.finish_s, served.stalled_s, served.preempted, segments,
            ran.launches.sum(axis=0), int(clock.preemptions), calls, calls * scheduler.call_s, until_s,
            Runs(*ran.run_s.T, *ran.runs.T, ran.members) if runs else None,
        )  # fmt: skip
        return found, int(clock.runs), int(clock.run_members)

    found, *room = run(0, 0)
    return run(*room)[0] if record else found  # once more, now that it is known how much there is to keep


def _work(traffic: Traffic) -> Work:
    """Traffic as the event loop takes it."""
    requests = np.zeros(len(traffic), REQUEST).view(np.recarray)
    requests.arrival_s = traffic.trace.arrival_s
    requests.due_s = traffic.trace.arrival_s + traffic.slo_s
    requests.start_s = requests.finish_s = math.inf
    return Work(requests, traffic.exits, np.zeros((0, 0)))


def _device(table: LatencyTable, segments: Segments) -> Device:
    """A latency table as the event loop takes it."""
    ends_stage = np.append(segments.stage[1:] != segments.stage[:-1], True)
    return Device(
        time_s=segments.time_s[None],
        latency_s=table.array()[None],
        segment_at=np.arange(len(segments.stage)),
        stage_after=segments.stage - ~ends_stage,
        gather_s=np.zeros(table.b_max + 1),
        occupancy=np.ones(table.b_max + 1),
    )


def _plain(decide: Decide, *arguments: Any) -> Any:
    """The event loop as plain Python; what a user's policy raises is the user's to mend."""
    loop: Any = getattr(run_events, "py_func", run_events)
    try:
        return loop(decide, *arguments)
    except Exception as error:
        name = getattr(decide, "__name__", "decide")
        raise InputError(f"policy: {name} raised {type(error).__name__}: {error}; see docs/add-a-policy.md") from error


def _compiled(scheduler: Scheduler) -> tuple[Decide, Any]:
    """A decision and the event loop that runs it: compiled, or as plain Python where numba cannot."""
    decide = scheduler.policy.decide
    if is_jitted(decide):
        return decide, run_events
    if not is_jitted(run_events):
        return decide, _plain
    try:
        return compile_policy(decide), run_events
    except (numba.NumbaError, TypeError):
        return decide, _plain


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
    write_file(path, _csv_pieces(result), replace=replace)


def _csv_pieces(result: Replay) -> Iterator[str]:
    yield csv_text(dict.fromkeys(_csv_columns(result, slice(0, 0)), ()))
    for start in range(0, len(result.traffic), PIECE):
        yield csv_text(_csv_columns(result, slice(start, start + PIECE)), header=False)
        result.release()


def _csv_columns(result: Replay, part: slice) -> dict[str, Sequence[object]]:
    """Columns of a slice of the requests, as a file has them."""

    def times(values: NDArray[np.float64]) -> list[object]:
        return [value if math.isfinite(value) else "" for value in values.tolist()]

    arrival_s, finish_s = result.traffic.trace.arrival_s[part], result.finish_s[part]
    return {
        "request_id": result.traffic.trace.request_id[part].tolist(),
        "arrival_s": arrival_s.tolist(),
        "start_s": times(result.start_s[part]),
        "finish_s": times(finish_s),
        "latency_s": times(finish_s - arrival_s),
        "slo_s": result.traffic.slo_s[part].tolist(),
        "violated": result.violated_in(part).astype(int).tolist(),
        "exit": result.traffic.exits[part].tolist(),
        "preempted": result.preempted[part].tolist(),
        "stalled_s": result.stalled_s[part].tolist(),
    }
