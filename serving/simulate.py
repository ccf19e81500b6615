"""Replaying a trace on a design, under a policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..dse.latency import LatencyTable
from ..formats import InputError, write_file
from .engine import FAULTS, OK, replay
from .metrics import Replay
from .policies import Decide
from .traces import Trace, csv_text


def simulate(
    table: LatencyTable,
    trace: Trace,
    decide: Decide,
    *,
    exits: NDArray[np.int64],
    slo_s: float | None = None,
) -> Replay:
    """Replay a trace.

    Parameters
    ----------
    table : LatencyTable
        Times of the design that serves it.
    trace : Trace
        Requests.
    decide : Decide
        The policy, e.g. ``find_policy("fluid")``.
    exits : (N,) ndarray of int64
        1-based exit of each request; see :func:`fluidb.serving.exits.resolve`.
    slo_s : float, optional
        Latency objective in seconds, where the trace has none of its own.

    Returns
    -------
    Replay
        What happened to every request.

    Raises
    ------
    InputError
        If there is no SLO, or the policy broke its contract.
    """
    if trace.slo_s is None and slo_s is None:
        raise InputError("slo: expected --slo, or a trace with a column slo_s, found neither; add e.g. --slo 200ms")
    count = len(trace)
    slo = trace.slo_s if trace.slo_s is not None else np.full(count, slo_s, dtype=np.float64)
    start_s, finish_s = np.full(count, np.nan), np.full(count, np.nan)
    preempted = np.zeros(count, dtype=np.int64)
    launches = np.zeros((len(table.exits), table.b_max + 1), dtype=np.int64)
    status, preemptions, calls = replay(
        decide, trace.arrival_s, exits, trace.arrival_s + slo, table.array(), start_s, finish_s, preempted, launches
    )
    if status != OK:
        raise InputError(f"policy: {FAULTS[status]}; see docs/add-a-policy.md")
    return Replay(trace, exits, slo, start_s, finish_s, preempted, launches, preemptions, calls)


def write_requests(result: Replay, path: Path) -> None:
    """Write what happened to every request as CSV, whole or not at all.

    Parameters
    ----------
    result : Replay
        What happened.
    path : Path
        Destination.

    Raises
    ------
    InputError
        If the file system refuses.
    """
    columns = {
        "request_id": result.trace.request_id.tolist(),
        "arrival_s": result.trace.arrival_s.tolist(),
        "start_s": result.start_s.tolist(),
        "finish_s": result.finish_s.tolist(),
        "latency_s": result.latency_s.tolist(),
        "slo_s": result.slo_s.tolist(),
        "violated": result.violated.astype(int).tolist(),
        "exit": result.exits.tolist(),
        "preempted": result.preempted.tolist(),
    }
    write_file(path, csv_text(columns))
