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
from ..tables.latency import LatencyTable
from ..traffic.trace import PIECE, Trace, csv_text
from .event_loop import FAULTS, OK, Device, Leaving, Outcome, Rules, begin, run_events
from .metrics import Replay, Runs
from .policies import Decide, compile_policy
from .policies.interface import Requests
from .scheduler import Scheduler

EVENTS = 2**20
"""Instants that the event loop looks at before it reports progress and answers Ctrl-C: some tenths of a second."""


def simulate(
    table: LatencyTable,
    trace: Trace,
    scheduler: Scheduler,
    *,
    exits: NDArray[np.int64],
    slo_s: float | None = None,
    until_s: float = math.inf,
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay a trace.

    Parameters
    ----------
    table : LatencyTable
        Times of the design that serves it.
    trace : Trace
        Requests.
    scheduler : Scheduler
        The policy, e.g. ``find_policy("fluid")``.
    exits : (N,) ndarray of int64
        1-based exit of each request; see :func:`fluidb.traffic.resolve`.
    slo_s : float, optional
        Latency objective in seconds, where the trace has none of its own.
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
        If there is no SLO, nothing arrives in time, or the policy broke its contract.
    """
    if trace.slo_s is not None and slo_s is not None:
        raise InputError("slo: the trace has a column slo_s, so that --slo would change nothing; leave it out")
    if trace.slo_s is None and slo_s is None:
        raise InputError("slo: expected --slo, or a trace with a column slo_s, found neither; add e.g. --slo 200ms")
    arrived = int(np.searchsorted(trace.arrival_s, until_s, side="left"))
    if arrived == 0:
        raise InputError(
            f"until: expected a time after the first arrival at {trace.arrival_s[0]:g} s, found {until_s:g} s"
        )
    trace, exits = trace.first(arrived), exits[:arrived]
    slo = trace.slo_s if trace.slo_s is not None else np.broadcast_to(np.float64(slo_s), arrived)
    policy = scheduler.policy
    segments = table.segments(by_layer=policy.by_layer)
    if np.spacing(trace.arrival_s[-1]) > 1e-3 * segments.time_s[:, 1].min():
        raise InputError(
            f"trace: arrivals as late as {trace.arrival_s[-1]:g} s leave too few digits for a segment of "
            f"{segments.time_s[:, 1].min():g} s; start the trace near 0"
        )
    b_max = table.b_max if scheduler.b_max is None else min(scheduler.b_max, table.b_max)
    ends_stage = np.append(segments.stage[1:] != segments.stage[:-1], True)
    device = Device(
        segments.time_s[None],
        table.array()[None],
        np.arange(len(segments.stage)),
        segments.stage - ~ends_stage,
        np.zeros(table.b_max + 1),
        np.ones(table.b_max + 1),
    )
    requests = Requests(trace.arrival_s, trace.arrival_s + slo, np.zeros((arrived, 0)))
    leaving = Leaving(exits, np.zeros((0, 0)), np.zeros(0))
    rules = Rules(scheduler.settings(slo_s), np.zeros(policy.memory), b_max, scheduler.call_s)
    decide, loop = _compiled(scheduler)

    def run(runs: int, members: int) -> Replay:
        outcome = Outcome(
            np.full(arrived, math.inf), np.full(arrived, math.inf), np.zeros(arrived), np.zeros(arrived, dtype=np.int32),
            exits.copy(), np.zeros((1, len(segments.stage), table.b_max + 1), dtype=np.int64),
            np.zeros((runs, 2)), np.zeros((runs, 5), dtype=np.int64), np.zeros(members, dtype=np.int64),
        )  # fmt: skip
        state = begin(arrived, 1, b_max)
        rules.memory[:] = 0.0
        clock = state.clock[0]
        while clock.returned < arrived and clock.now_s < until_s:
            status = loop(decide, requests, leaving, device, rules, state, outcome, until_s, EVENTS)
            if status != OK:
                raise InputError(f"policy {scheduler.spec}: {FAULTS[status]}; see docs/add-a-policy.md")
            if progress is not None:
                progress(int(clock.returned), arrived)
        recorded = Runs(*outcome.run_s.T, *outcome.runs.T, outcome.run_members) if runs else None
        return Replay(
            trace, exits, slo, outcome.start_s, outcome.finish_s, outcome.stalled_s, outcome.preempted, segments,
            outcome.launches[0], int(clock.preemptions), int(clock.calls), int(clock.calls) * scheduler.call_s, until_s,
            recorded, int(clock.runs), int(clock.run_members),
        )  # fmt: skip

    found = run(0, 0)
    if record:  # once more, now that it is known how much there is to keep
        found = run(found.run_count, found.member_count)
    return found


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
    for start in range(0, len(result.trace), PIECE):
        yield csv_text(_csv_columns(result, slice(start, start + PIECE)), header=False)
        result.release()


def _csv_columns(result: Replay, part: slice) -> dict[str, Sequence[object]]:
    """Columns of a slice of the requests, as a file has them."""

    def times(values: NDArray[np.float64]) -> list[object]:
        return [value if math.isfinite(value) else "" for value in values.tolist()]

    arrival_s, finish_s = result.trace.arrival_s[part], result.finish_s[part]
    return {
        "request_id": result.trace.request_id[part].tolist(),
        "arrival_s": arrival_s.tolist(),
        "start_s": times(result.start_s[part]),
        "finish_s": times(finish_s),
        "latency_s": times(finish_s - arrival_s),
        "slo_s": result.slo_s[part].tolist(),
        "violated": result.violated_in(part).astype(int).tolist(),
        "exit": result.exits[part].tolist(),
        "preempted": result.preempted[part].tolist(),
        "stalled_s": result.stalled_s[part].tolist(),
    }
