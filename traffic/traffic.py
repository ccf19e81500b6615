"""Traffic: requests ready to be served, each with its exit and its latency objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..formats import InputError, brief
from ..formats.array_types import Floats, Ints
from .distributions import Objective
from .exits import check, chosen_thresholds, decide, draw
from .measures import Threshold, show_threshold
from .predictions import parse_prediction
from .randomness import PREDICTED_DEPTHS, SLOS, stream
from .request_columns import parse_slo
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
    think_s : (C + N,) ndarray of float64, optional
        Of C clients that wait for their answers (:class:`.clients.Clients`): for how long each thinks before its first
        request, and how long the client of each request thinks after it. All arrivals of the trace are then infinite:
        they follow from the replay.
    """

    trace: Trace
    exits: Ints
    slo_s: Floats
    objective_s: float | None
    origin: str
    think_s: Floats | None = None

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.trace)

    @property
    def clients(self) -> int:
        """Number of clients that wait for their answers; 0 if requests arrive by themselves."""
        return 0 if self.think_s is None else len(self.think_s) - len(self)

    def first(self, count: int) -> Traffic:
        """The first requests."""
        return self.at(slice(count))

    def at(self, rows: slice | Ints) -> Traffic:
        """Some of the requests, in their order."""
        think_s = self.think_s
        if think_s is not None:
            think_s = np.concatenate([think_s[: self.clients], think_s[self.clients :][rows]])
        return replace(self, trace=self.trace.at(rows), exits=self.exits[rows], slo_s=self.slo_s[rows], think_s=think_s)

    def decided(self, threshold: Threshold | Sequence[Threshold] | None, last: int) -> Traffic:
        """The same requests of a network of ``last`` exits; their confidences and some thresholds decide who leaves."""
        assert self.trace.confidences is not None
        measure, thresholds = self.trace.measure, chosen_thresholds(threshold, last, self.trace.measure)
        exits = decide(self.trace.confidences, list(map(measure.least, thresholds)), last)
        origin = f"{measure.name} {measure.reached} {', '.join(map(show_threshold, thresholds))}"
        return replace(self, exits=exits, origin=origin)


def places(exits: Ints, steps: Ints | int, last: Ints | int) -> Ints:
    """Depth of each request: its exit; the last exit counts once for each step."""
    if isinstance(steps, int) and steps == 1:
        return exits
    return np.asarray(exits + np.where(exits == last, np.subtract(steps, 1), 0))


def _with_predictions(trace: Trace, exits: Ints, last: int, rho: float, seed: int) -> Trace:
    """The requests with predictions of their depth."""
    if trace.predicted_depth is not None:
        where = trace.drawn_from.get("predicted_depth") or trace.source or "the trace"
        raise InputError(
            f"predict_depth: expected no column predicted_depth in {where}, as it is to be "
            "drawn; leave out one of the two"
        )
    depths, most = (exits, last) if trace.steps is None else (trace.steps, int(trace.steps.max()))
    prediction = parse_prediction(rho, "predict_depth")
    return replace(trace, predicted_depth=prediction.draw(stream(seed, PREDICTED_DEPTHS), depths, 1, most))


def objectives(slo_s: Objective | None, count: int, seed: int) -> float | Floats | None:
    """Objectives of requests in seconds: drawn where they have a distribution."""
    return slo_s if slo_s is None or isinstance(slo_s, float | int) else slo_s.draw(stream(seed, SLOS), count)


def _with_objectives(trace: Trace, slo_s: Objective | None, seed: int) -> Trace:
    """The requests with objectives of their own, where these are drawn."""
    if slo_s is None:
        if trace.slo_s is None:
            raise InputError(
                "slo: expected a latency objective (SLO), or a trace with a column slo_s, found neither; state e.g. "
                "200ms"
            )
        return trace
    if trace.slo_s is not None:
        raise InputError(
            f"slo: expected no column slo_s in {trace.source or 'the trace'} beside an objective; leave out one of the "
            "two"
        )
    drawn = objectives(slo_s, len(trace), seed)
    if isinstance(drawn, np.ndarray):
        return replace(trace, slo_s=drawn)
    assert drawn is not None
    if not 0 < drawn < math.inf:
        raise InputError(f"slo: expected a positive number of seconds, found {drawn:g}; write e.g. 0.2")
    return trace


def prepare(
    trace: Trace,
    rates: Sequence[float],
    *,
    slo_s: Objective | str | None = None,
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
    slo_s : float, str, Distribution or Shares, optional
        Latency objective in seconds of all requests, or the distribution of their own ones, where the trace has none;
        or its text, such as ``"200ms"``.
    seed : int
        For exits, objectives and predictions that are drawn.
    threshold : Threshold or sequence of Threshold, optional
        For exits decided by a measure: one for all, or one for each but the last; by default a confidence
        of 0.8 (Fluid Batching, Section IV).
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
    if not isinstance(trace, Trace):
        raise InputError(f"trace: expected requests, e.g. of `read_trace` or `poisson`, found {type(trace).__name__}")
    last = len(rates)
    if threshold is not None and (trace.confidences is None or trace.exits is not None):
        raise InputError(
            "threshold: expected a trace whose exits are decided by confidence_1, ... (or another measure), "
            "found another one; leave the threshold out"
        )
    check(trace, last)
    slo_s = parse_slo(slo_s, "slo_s") if isinstance(slo_s, str) else slo_s
    trace = _with_objectives(trace, slo_s, seed)
    own_s, objective_s = trace.slo_s, None
    if own_s is not None:
        objective_s = float(own_s[0]) if len(own_s) and (own_s == own_s[0]).all() else None
    else:
        assert isinstance(slo_s, float | int)
        own_s, objective_s = np.broadcast_to(np.float64(slo_s), len(trace)), slo_s
    if trace.exits is None and trace.confidences is not None:
        none = np.zeros(len(trace), np.int64)
        traffic = Traffic(trace, none, own_s, objective_s, "").decided(threshold, last)
    elif trace.exits is not None:
        traffic = Traffic(trace, trace.exits, own_s, objective_s, "trace")
    else:
        exits = draw(rates, len(trace), seed)
        traffic = Traffic(trace, exits, own_s, objective_s, f"exit rates, seed {seed}")
    if predict_depth is None:
        return traffic
    return replace(traffic, trace=_with_predictions(trace, traffic.exits, last, predict_depth, seed))
