"""The sweep of thresholds: accuracy against latency and violations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, brief, first_rows
from ..serving.inputs import AnyPolicy, AnyTable, Requests, as_scheduler, as_table
from ..serving.metrics import summarise
from ..serving.replay import simulate
from ..traffic.exits import check_tried
from ..traffic.measures import CONFIDENCE

CONFIDENCES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Thresholds that a sweep of confidences tries by default."""


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """One threshold for all exits, and the figures with it."""

    threshold: float  # confidence or entropy from which a sample leaves
    exit_shares: list[float]  # of the requests that leave at each exit
    accuracy: float  # share of the requests answered rightly; one without an answer counts as wrong
    mean_latency_s: float  # from arrival, of those with an answer
    p99_latency_s: float  # of all requests; infinite if too many have no answer
    violation_rate: float  # share of the requests later than their latency objective
    pareto: bool  # no other point beats it (see :func:`pareto`)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of thresholds."""

    policy: str  # with its parameters, and with the batch size of a plan of exits
    requests: int  # requests that every point serves
    exits: list[str]  # names of the network's exits
    points: list[ThresholdPoint]  # one for each threshold; the mark is for accuracy, mean latency and violations
    measure: str = "confidence"  # of the thresholds: confidence or entropy

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[float]]:
        """The figures of each threshold as columns."""
        names = ("threshold", "accuracy", "mean_latency_s", "p99_latency_s", "violation_rate", "pareto")
        return {name: [getattr(point, name) for point in self.points] for name in names}


def pareto(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark points that no other point beats, i.e. is as good in everything and better in something.

    >>> pareto(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0]]))
    array([ True,  True, False])
    """
    beaten = [bool(((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any()) for point in costs]
    return ~np.array(beaten, dtype=bool)


def sweep_thresholds(
    table: AnyTable,
    requests: Requests,
    policy: AnyPolicy,
    thresholds: Sequence[float] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Replay requests with one threshold after the other; the sweep has a point for each.

    Parameters
    ----------
    table : LatencyTable, str or Path
    Times of the design that serves them, or its folder.
    requests : Requests
    The requests, with confidences and answers.
    policy : Scheduler or str
    The policy.
    thresholds : sequence of float, optional
    Each for all exits; by default ten confidences from 0.5 to 0.95, or the usual entropies, and those of a plan.
    progress : callable, optional
    Called with thresholds done and in all.
    """
    latency, trace = as_table(table), requests.read()
    scheduler = as_scheduler(policy, latency)
    if trace.confidences is None or trace.correct is None or trace.exits is not None:
        raise InputError(
            f"{trace.source or 'trace'}: expected confidence_1, ... and correct_1, ... and no exit, "
            "of requests or samples (or entropy_1, ...); add samples"
        )
    if thresholds is None:
        usual = CONFIDENCES if trace.measure is CONFIDENCE else trace.measure.usual
        measure, own = latency.thresholds or (trace.measure.name, [])
        more = [item for item in own if isinstance(item, float) and measure == trace.measure.name]
        thresholds = sorted({*usual, *more}, key=trace.measure.to_array)
    check_tried(thresholds, trace.measure)
    rates = [row.rate for row in latency.exits]
    found = []
    for done, threshold in enumerate(thresholds, 1):
        traffic = requests.traffic(trace, rates, threshold)
        summary = summarise(simulate(latency, traffic, scheduler))
        found.append(summary)
        if progress is not None:
            progress(done, len(thresholds))
    answered = [
        (lost.accuracy_of_all or 0.0, math.inf if lost.answered_latency_s is None else lost.answered_latency_s)
        if (lost := item.deadlines) is not None
        else (item.accuracy or 0.0, item.mean_latency_s)
        for item in found
    ]
    costs = [(-right, mean_s, item.violation_rate) for (right, mean_s), item in zip(answered, found, strict=True)]
    points = [
        ThresholdPoint(
            threshold=threshold,
            exit_shares=[item.requests / summary.requests for item in summary.exits],
            accuracy=accuracy,
            mean_latency_s=mean_s,
            p99_latency_s=summary.percentile("p99").latency_s,
            violation_rate=summary.violation_rate,
            pareto=best,
        )
        for threshold, (accuracy, mean_s), summary, best in zip(
            thresholds, answered, found, pareto(np.array(costs)).tolist(), strict=True
        )
    ]
    return Sweep(scheduler.spec, len(trace), [row.name for row in latency.exits], points, trace.measure.name)
