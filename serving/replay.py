"""Replaying a trace on a design, under a policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..formats import InputError, write_file
from ..tables.latency import LatencyTable
from ..traffic.storage import allocate, blocks, release
from ..traffic.trace import PIECE, csv_text
from ..traffic.traffic import Traffic
from .contenders import Contender
from .engine import CALLS, FAULTS, FINISHED, OK, PREEMPTIONS, begin, replay
from .metrics import Replay, Runs
from .policies import Decide, compile_policy


def simulate(
    table: LatencyTable,
    traffic: Traffic,
    contender: Contender,
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
    contender : Contender
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
    settings = contender.settings(traffic.objective_s)
    b_max = table.b_max if contender.b_max is None else min(contender.b_max, table.b_max)
    segments = table.segments(by_layer=contender.policy.by_layer)
    if np.spacing(trace.arrival_s[-1]) > 1e-3 * segments.time_s[:, 1].min():
        raise InputError(
            f"trace: arrivals as late as {trace.arrival_s[-1]:g} s leave too few digits for a segment of "
            f"{segments.time_s[:, 1].min():g} s; start the trace near 0"
        )
    ends_stage = np.append(segments.stage[1:] != segments.stage[:-1], True)
    stage_after = segments.stage - ~ends_stage
    decide, loop = _compiled(contender)

    def run(slots: int, places: int) -> Replay:
        never_s = math.inf if math.isfinite(until_s) else 0.0  # who is served in the end needs no mark
        start_s, finish_s = allocate(arrived, np.float64, never_s), allocate(arrived, np.float64, never_s)
        stalled_s, preempted = allocate(arrived, np.float64), allocate(arrived, np.int32)
        launches = np.zeros((len(segments.stage), table.b_max + 1), dtype=np.int64)
        run_s, runs = np.zeros((slots, 2)), np.zeros((slots, 4), dtype=np.int64)
        members = np.zeros(places, dtype=np.int64)
        state = begin(b_max, allocate(arrived if contender.policy.overtaking else 0, np.int64))
        found = Replay(
            traffic, table, start_s, finish_s, stalled_s, preempted, segments, launches, 0, 0, 0.0, until_s,
            Runs(run_s[:, 0], run_s[:, 1], runs[:, 0], runs[:, 1], runs[:, 2], runs[:, 3], members) if slots else None,
        )  # fmt: skip
        for part in blocks(arrived):
            status = loop(
                decide, settings, contender.policy.overtaking, contender.call_s, b_max, until_s, part.stop, state,
                trace.arrival_s, traffic.exits, traffic.slo_s, table.array(), segments.time_s, stage_after, start_s,
                finish_s, stalled_s, preempted, launches, run_s, runs, members,
            )  # fmt: skip
            if status != OK:
                raise InputError(f"policy {contender.spec}: {FAULTS[status]}; see docs/add-a-policy.md")
            found.release()
            release(state.late)
            if progress is not None:
                progress(int(state.counters[FINISHED]), arrived)
        if math.isfinite(until_s):
            for part in found.parts():
                finish_s[part][finish_s[part] > until_s] = math.inf  # it ended after the simulation did
        calls = int(state.counters[CALLS])
        return replace(
            found,
            preemptions=int(state.counters[PREEMPTIONS]), scheduler_calls=calls, scheduler_s=calls * contender.call_s,
        )  # fmt: skip

    found = run(0, 0)
    if record:  # once more, now that it is known how much there is to keep
        found = run(int(found.launches.sum()), int((found.launches @ np.arange(table.b_max + 1)).sum()))
    return found


def _plain(decide: Decide, *arguments: Any) -> Any:
    """The event loop as plain Python; what a user's policy raises is the user's to mend."""
    loop: Any = getattr(replay, "py_func", replay)
    try:
        return loop(decide, *arguments)
    except Exception as error:
        name = getattr(decide, "__name__", "decide")
        raise InputError(f"policy: {name} raised {type(error).__name__}: {error}; see docs/add-a-policy.md") from error


def _compiled(contender: Contender) -> tuple[Decide, Any]:
    """A decision and the event loop that runs it: compiled, or as plain Python where numba cannot."""
    decide = contender.policy.decide
    if is_jitted(decide):
        return decide, replay
    if not is_jitted(replay):
        return decide, _plain
    try:
        return compile_policy(decide), replay
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
