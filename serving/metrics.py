"""What a simulation says: latency, violations, rates, utilisation (``docs/model.md``, Metrics)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dse.latency import LatencyTable
from .traces import Trace


@dataclass(frozen=True, slots=True)
class Replay:
    """Everything that happened to every request.

    Attributes
    ----------
    trace : Trace
        The requests.
    exits : (N,) ndarray of int64
        1-based exit of each.
    slo_s : (N,) ndarray of float64
        Latency objective of each.
    start_s, finish_s : (N,) ndarray of float64
        Entry into the NPU, and return.
    preempted : (N,) ndarray of int64
        How often each was preempted.
    launches : (E, b_max + 1) ndarray of int64
        How often each stage ran with each batch size.
    preemptions : int
        How often a running batch was preempted.
    scheduler_calls : int
        How often the policy was asked with samples on the NPU.
    """

    trace: Trace
    exits: NDArray[np.int64]
    slo_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    preempted: NDArray[np.int64]
    launches: NDArray[np.int64]
    preemptions: int
    scheduler_calls: int

    @property
    def latency_s(self) -> NDArray[np.float64]:
        """Latency of each request, from its arrival to its return."""
        return self.finish_s - self.trace.arrival_s

    @property
    def violated(self) -> NDArray[np.bool_]:
        """Whether each request took longer than its SLO."""
        return self.latency_s > self.slo_s


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a replay; percentiles are over all requests, by nearest rank.

    Attributes
    ----------
    requests : int
        Requests, all of them served.
    span_s : float
        From the first arrival to the last return.
    mean_latency_s, p50_latency_s, p90_latency_s, p99_latency_s, max_latency_s : float
        Latency from arrival.
    mean_wait_s : float
        Time in the queue, before entering the NPU.
    violations : int
        Requests later than their SLO.
    violation_rate : float
        Their share.
    arrival_rate_per_s, processing_rate_per_s : float
        Arrivals between the first and the last; requests served over the span.
    busy_share : float
        Share of the span in which the NPU ran.
    mac_share : float
        MACs made, as a share of those that all units would make in the span.
    mean_batch : float
        Samples in a stage's batch, on average over the time the NPU ran.
    preemptions, scheduler_calls : int
        See :class:`Replay`.
    samples_per_exit : list of int
        Requests that left at each exit.
    """

    requests: int
    span_s: float
    mean_latency_s: float
    p50_latency_s: float
    p90_latency_s: float
    p99_latency_s: float
    max_latency_s: float
    mean_wait_s: float
    violations: int
    violation_rate: float
    arrival_rate_per_s: float
    processing_rate_per_s: float
    busy_share: float
    mac_share: float
    mean_batch: float
    preemptions: int
    scheduler_calls: int
    samples_per_exit: list[int]


def summarise(replay: Replay, table: LatencyTable) -> Summary:
    """Reduce a replay to figures.

    Parameters
    ----------
    replay : Replay
        What happened.
    table : LatencyTable
        What it ran on.

    Returns
    -------
    Summary
        The figures.
    """
    latency = replay.latency_s
    p50, p90, p99 = np.percentile(latency, [50, 90, 99], method="inverted_cdf").tolist()
    span_s = float(replay.finish_s.max() - replay.trace.arrival_s[0])
    times = table.array()
    stages = np.arange(len(table.exits))
    batch = np.arange(table.b_max + 1)
    stage_s = replay.launches * times[stages, stages + 1]
    macs = float((replay.launches @ batch) @ np.array(table.stage_macs, dtype=np.float64))
    busy_s = float(stage_s.sum())
    violations = int(replay.violated.sum())
    return Summary(
        requests=len(replay.trace),
        span_s=span_s,
        mean_latency_s=float(latency.mean()),
        p50_latency_s=p50,
        p90_latency_s=p90,
        p99_latency_s=p99,
        max_latency_s=float(latency.max()),
        mean_wait_s=float((replay.start_s - replay.trace.arrival_s).mean()),
        violations=violations,
        violation_rate=violations / len(replay.trace),
        arrival_rate_per_s=replay.trace.rate_per_s,
        processing_rate_per_s=len(replay.trace) / span_s,
        busy_share=busy_s / span_s,
        mac_share=macs / (table.peak_macs_per_s * span_s),
        mean_batch=float((stage_s @ batch).sum() / busy_s),
        preemptions=replay.preemptions,
        scheduler_calls=replay.scheduler_calls,
        samples_per_exit=np.bincount(replay.exits, minlength=len(table.exits) + 1)[1:].tolist(),
    )
