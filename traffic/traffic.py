"""Traffic: requests ready to be served, each with its exit and its latency objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .exits import check, chosen_thresholds, decide, draw
from .measures import Threshold, show_threshold
from .predictions import predict
from .trace import Trace


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests ready to be served.

    Attributes
    ----------
    trace : Trace
        The requests, in order of arrival.
    exits : (N,) ndarray of int64
        1-based exit at which each request leaves the network.
    slo_s : (N,) ndarray of float64
        Latency objective of each request in seconds; a read-only view of one value where all share it.
    objective_s : float or None
        The objective that all requests share; ``None`` if each has its own.
    origin : str
        Where the exits came from, as commands print it.
    """

    trace: Trace
    exits: NDArray[np.int64]
    slo_s: NDArray[np.float64]
    objective_s: float | None
    origin: str

    def __len__(self) -> int:
        return len(self.trace)

    def first(self, count: int) -> Traffic:
        """The first requests."""
        return replace(self, trace=self.trace.first(count), exits=self.exits[:count], slo_s=self.slo_s[:count])


def places(exits: NDArray[np.int64], steps: NDArray[np.int64] | int, last: int) -> NDArray[np.int64]:
    """How deep each request goes: to its exit, of which the last counts once for each step.

    Shapes: ``exits`` (N,), ``steps`` (N,), returns (N,).
    """
    return np.asarray(exits + np.where(exits == last, np.subtract(steps, 1), 0))


def _with_predictions(trace: Trace, exits: NDArray[np.int64], last: int, rho: float, seed: int) -> Trace:
    """The requests with predictions of their depth."""
    if trace.predicted_depth is not None:
        raise InputError(
            "predict_depth: the trace has a column predicted_depth, so that it would change nothing; leave it out"
        )
    depths, most = (exits, last) if trace.steps is None else (trace.steps, int(trace.steps.max()))
    return replace(trace, predicted_depth=predict(depths, rho, seed, "predicted_depth", low=1, high=most))


def prepare(
    trace: Trace,
    rates: Sequence[float],
    *,
    slo_s: float | None = None,
    seed: int = 0,
    threshold: Threshold | Sequence[Threshold] | None = None,
    predict_depth: float | None = None,
) -> Traffic:
    """Make a trace ready to be served: every request gets its exit and its objective.

    The exit is the trace's own, else the first whose confidence reaches its
    threshold, else drawn from the exit rates.

    Parameters
    ----------
    trace : Trace
        Requests.
    rates : sequence of float
        The network's exit rates.
    slo_s : float, optional
        Latency objective in seconds of all requests, where the trace has none of its own.
    seed : int
        For exits that are drawn.
    threshold : Threshold or sequence of Threshold, optional
        For exits decided by confidence or entropy: one for all, or one for each but the last; by default a confidence
        of 0.8, the paper's.
    predict_depth : float, optional
        Correlation of predictions that are drawn (:func:`.predictions.predict`) with the steps of the trace, or with
        the exits if it has none; it must have no predictions of its own.

    Returns
    -------
    Traffic
        The requests, as :func:`fluidb.serving.simulate` takes them.

    Raises
    ------
    InputError
        If the trace does not fit the network, if nothing uses the threshold,
        or if there is no objective, or two.
    """
    last = len(rates)
    if threshold is not None and (trace.confidences is None or trace.exits is not None):
        raise InputError(
            "threshold: expected a trace whose exits are decided by confidence_1, ... or entropy_1, ...; "
            "this one's are not"
        )
    check(trace, last)
    if trace.exits is not None:
        exits, origin = trace.exits, "trace"
    elif trace.confidences is not None:
        measure, thresholds = trace.measure, chosen_thresholds(threshold, last, trace.measure)
        exits = decide(trace.confidences, list(map(measure.least, thresholds)), last)
        origin = f"{measure.name} {measure.reached} {', '.join(map(show_threshold, thresholds))}"
    else:
        exits, origin = draw(rates, len(trace), seed), f"exit rates, seed {seed}"
    if predict_depth is not None:
        trace = _with_predictions(trace, exits, last, predict_depth, seed)
    if trace.slo_s is not None and slo_s is not None:
        raise InputError("slo: the trace has a column slo_s, so that it would change nothing; leave it out")
    if trace.slo_s is not None:
        return Traffic(trace, exits, trace.slo_s, None, origin)
    if slo_s is None:
        raise InputError(
            "slo: expected a latency objective, or a trace with a column slo_s, found neither; add one, e.g. 200ms"
        )
    if not 0 < slo_s < math.inf:
        raise InputError(f"slo: expected a positive number of seconds, found {slo_s:g}; write e.g. 0.2")
    return Traffic(trace, exits, np.broadcast_to(np.float64(slo_s), len(trace)), slo_s, origin)
