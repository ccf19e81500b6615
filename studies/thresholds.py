"""The sweep of thresholds: accuracy against latency and violations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, brief, first_rows
from ..serving.figures import FIGURES
from ..serving.inputs import AnyPolicy, AnyTable, Requests, as_scheduler, as_table
from ..serving.metrics import Summary, summarise, summarise_networks
from ..serving.networks import ServedNetwork, check_networks, prepare_networks
from ..serving.networks_replay import simulate_networks
from ..serving.replay import simulate
from ..serving.requirements import Requirement, check_stated
from ..tables.latency import LatencyTable
from ..traffic.exits import check_tried
from ..traffic.samples import Samples, read_samples
from ..traffic.trace import Trace

MOST = 1_000
"""Most combinations of the thresholds of several networks."""


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """One threshold for all exits, and the figures with it."""

    threshold: float  # value of the measure from which a sample leaves
    exit_shares: list[float]  # of the requests that leave at each exit
    accuracy: float  # share of the requests answered rightly; one without an answer counts as wrong
    mean_latency_s: float  # from arrival, of those with an answer
    p99_latency_s: float  # of all requests; infinite if too many have no answer
    violation_rate: float  # share of the requests later than their latency objective
    pareto: bool  # of those that keep the requirements no other beats it (see :func:`pareto`)
    kept: bool | None = None  # whether all requirements hold; ``None`` if there are none


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of thresholds."""

    policy: str  # with its parameters, and with the batch size of a plan of exits
    requests: int  # requests that every point serves
    exits: list[str]  # names of the network's exits
    points: list[ThresholdPoint]  # one for each threshold; the mark is for accuracy, mean latency and violations
    measure: str = "confidence"  # of the thresholds

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[float]]:
        """The figures of each threshold as columns."""
        names = ("threshold", "accuracy", "mean_latency_s", "p99_latency_s", "violation_rate", "kept", "pareto")
        return {name: [getattr(point, name) for point in self.points] for name in names}


def pareto(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark points that no other point beats, i.e. is as good in everything and better in something.

    >>> pareto(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0]]))
    array([ True,  True, False])
    """
    beaten = [bool(((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any()) for point in costs]
    return ~np.array(beaten, dtype=bool)


@dataclass(frozen=True, slots=True)
class SweptNetwork:
    """One of several networks in a sweep."""

    name: str
    measure: str | None  # of the thresholds that are tried; ``None`` if none are
    exits: list[str]  # names of its exits


@dataclass(frozen=True, slots=True)
class NetworkPoint:
    """Figures of the requests of one of several networks, as in :class:`ThresholdPoint`."""

    name: str
    threshold: float | None  # that is tried; ``None`` if its exits are as they are stated
    exit_shares: list[float]
    accuracy: float | None  # ``None`` if it is not known which answers are right
    mean_latency_s: float
    p99_latency_s: float
    violation_rate: float


@dataclass(frozen=True, slots=True)
class NetworksPoint:
    """A threshold of each network, and the figures of all requests with them, as in :class:`ThresholdPoint`."""

    accuracy: float  # of the requests of networks whose right answers are known
    mean_latency_s: float
    p99_latency_s: float
    violation_rate: float
    pareto: bool
    kept: bool | None
    networks: list[NetworkPoint]


@dataclass(frozen=True, slots=True)
class NetworksSweep:
    """A sweep of the thresholds of several networks."""

    policy: str  # with its parameters
    requests: int  # requests that every point serves
    networks: list[SweptNetwork]
    points: list[NetworksPoint]  # one for each combination of thresholds, those of the last network changing first

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[Any]]:
        """The figures of each combination as columns: of each network, then of all."""
        found = {
            f"{key}[{network.name}]": [getattr(point.networks[number], key) for point in self.points]
            for number, network in enumerate(self.networks)
            for key in ("threshold", "accuracy", "mean_latency_s", "p99_latency_s", "violation_rate")
        }
        names = ("accuracy", "mean_latency_s", "p99_latency_s", "violation_rate", "kept", "pareto")
        return found | {name: [getattr(point, name) for point in self.points] for name in names}


_Tried = TypeVar("_Tried")


class _Found(NamedTuple):
    """Figures with what was tried: of all requests, and of those of each of several networks."""

    whole: Summary
    networks: Mapping[str, Summary]

    @property
    def accuracy(self) -> float:
        """Share of right answers of the requests whose right answers are known."""
        if not self.networks:
            return _accuracy(self.whole) or 0.0
        known = [(part.requests, right) for part in self.networks.values() if (right := _accuracy(part)) is not None]
        return sum(count * right for count, right in known) / sum(count for count, _ in known)

    def value(self, requirement: Requirement) -> float | None:
        """The figure that is required; ``None`` if it is not known."""
        summary = self.whole if requirement.network is None else self.networks[requirement.network]
        return FIGURES[requirement.name].of(summary)


def _accuracy(summary: Summary) -> float | None:
    """Share of the requests answered rightly; one without an answer counts as wrong."""
    return summary.accuracy if summary.deadlines is None else summary.deadlines.accuracy_of_all


def _mean_s(summary: Summary) -> float:
    """Mean latency of the requests with an answer."""
    if summary.deadlines is None:
        return summary.mean_latency_s
    answered_s = summary.deadlines.answered_latency_s
    return math.inf if answered_s is None else answered_s


def _figures(summary: Summary) -> dict[str, Any]:
    """Figures that are stated of all requests, and of those of each network."""
    return {
        "mean_latency_s": _mean_s(summary),
        "p99_latency_s": summary.percentile("p99").latency_s,
        "violation_rate": summary.violation_rate,
    }


def _shares(summary: Summary) -> list[float]:
    return [item.requests / summary.requests for item in summary.exits]


class _Mark(NamedTuple):
    """What is said of a point."""

    pareto: bool
    kept: bool | None


def _try_all(
    tried: Sequence[_Tried],
    serve: Callable[[_Tried], tuple[Summary, Mapping[str, Summary]]],
    requirements: Sequence[Requirement],
    progress: Callable[[int, int], None] | None,
) -> list[tuple[_Tried, _Found, _Mark]]:
    """Serve with each: its figures, and whether no other that keeps the requirements beats it."""
    found = []
    for done, item in enumerate(tried, 1):
        found.append(_Found(*serve(item)))
        if progress is not None:
            progress(done, len(tried))
    kept = np.ones(len(found), dtype=bool)
    for requirement in requirements:
        values = [item.value(requirement) for item in found]
        known = next((value for value in values if value is not None), None)
        check_stated([requirement], **{requirement.name: known})
        # with some thresholds there may be no answer, and then no accuracy that could suffice
        kept &= [value is not None and requirement.allows(value) for value in values]
    costs = np.array([(-item.accuracy, _mean_s(item.whole), item.whole.violation_rate) for item in found])
    best = kept.copy()
    best[kept] = pareto(costs[kept])
    marks = [
        _Mark(*pair) for pair in zip(best.tolist(), kept.tolist() if requirements else [None] * len(found), strict=True)
    ]
    return list(zip(tried, found, marks, strict=True))


def _usual(table: LatencyTable, answers: Trace | Samples) -> list[float]:
    """The thresholds that are tried if none are stated: the usual ones of the measure, and those of a plan."""
    measure, own = table.thresholds or (answers.measure.name, [])
    more = [threshold for threshold in own if isinstance(threshold, float) and measure == answers.measure.name]
    return sorted({*answers.measure.swept, *more}, key=answers.measure.to_array)


def sweep_thresholds(
    table: AnyTable,
    requests: Requests,
    policy: AnyPolicy,
    thresholds: Sequence[float] | None = None,
    *,
    requirements: Sequence[Requirement] = (),
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
        Each for all exits; by default those of the measure, and those of a plan.
    requirements : sequence of Requirement
        Requirements that are to hold.
    progress : callable, optional
        Called with thresholds done and in all.

    Returns
    -------
    Sweep
        A point for each threshold.

    Raises
    ------
    InputError
        If requests have no confidences and answers, or an input does not fit the others.
    """
    latency, trace = as_table(table), requests.read()
    scheduler = as_scheduler(policy, latency)
    if trace.confidences is None or trace.correct is None or trace.exits is not None:
        raise InputError(
            f"{trace.source or 'trace'}: expected confidence_1, ... and correct_1, ... and no exit, "
            "of requests or samples (or another measure); add samples"
        )
    tried = _usual(latency, trace) if thresholds is None else thresholds
    check_tried(tried, trace.measure)
    rates = [row.rate for row in latency.exits]

    def serve(threshold: float) -> tuple[Summary, Mapping[str, Summary]]:
        return summarise(simulate(latency, requests.traffic(trace, rates, threshold), scheduler)), {}

    points = [
        ThresholdPoint(
            threshold=threshold,
            exit_shares=_shares(found.whole),
            accuracy=found.accuracy,
            **_figures(found.whole),
            **mark._asdict(),
        )
        for threshold, found, mark in _try_all(tried, serve, requirements, progress)
    ]
    return Sweep(scheduler.spec, len(trace), [row.name for row in latency.exits], points, trace.measure.name)


def sweep_networks(
    networks: Sequence[ServedNetwork],
    requests: Requests,
    policy: AnyPolicy,
    thresholds: Sequence[float] | None = None,
    *,
    requirements: Sequence[Requirement] = (),
    progress: Callable[[int, int], None] | None = None,
) -> NetworksSweep:
    """Replay requests of several networks with every combination of their thresholds.

    Thresholds are tried of each network that has several exits, and confidences and answers, and that states none.

    Parameters
    ----------
    networks : sequence of ServedNetwork
        The networks.
    requests : Requests
        The requests, as :func:`fluidb.serving.serve_networks` takes them.
    policy : Scheduler or str
        The policy.
    thresholds : sequence of float, optional
        Tried of each network, each for all its exits; by default as :func:`sweep_thresholds` does.
    requirements : sequence of Requirement
        Requirements that are to hold, of all requests or of those of a network.
    progress : callable, optional
        Called with combinations done and in all.

    Returns
    -------
    NetworksSweep
        A point for each combination.

    Raises
    ------
    InputError
        If there is no threshold to try, or there are too many combinations, or an input does not fit the others.
    """
    check_networks(networks)
    scheduler, trace = as_scheduler(policy), replace(requests, samples=None).read()
    shared = None if requests.samples is None else read_samples(requests.samples)
    served: list[ServedNetwork] = []
    tried: list[Sequence[float | None]] = []
    swept: list[SweptNetwork] = []
    for item in networks:
        table, samples = as_table(item.table), shared if item.samples is None else item.samples
        if not (samples is None or isinstance(samples, Samples)):
            samples = read_samples(samples)  # once for all replays
        served.append(replace(item, table=table, samples=samples))
        answers = trace if samples is None else samples
        own = _tried_of(item, table, answers, thresholds)
        tried.append(own or [None])
        swept.append(SweptNetwork(item.name, answers.measure.name if own else None, [row.name for row in table.exits]))
    if not any(item.measure for item in swept):
        raise InputError(
            "networks: expected one with several exits and with samples that states no threshold, found none; add "
            "samples, or leave out its threshold"
        )
    count = math.prod(map(len, tried))
    if count > MOST:
        raise InputError(
            f"thresholds: expected at most {MOST:,} combinations of the networks' thresholds, found {count:,}; try "
            "fewer, or state the threshold of a network in their file"
        )

    def serve(chosen: tuple[float | None, ...]) -> tuple[Summary, Mapping[str, Summary]]:
        there = [
            item if value is None else replace(item, threshold=value)
            for item, value in zip(served, chosen, strict=True)
        ]
        whole, parts = summarise_networks(simulate_networks(there, prepare_networks(there, requests, trace), scheduler))
        return whole, dict(zip((item.name for item in there), parts, strict=True))

    points = [
        NetworksPoint(
            accuracy=found.accuracy,
            **_figures(found.whole),
            **mark._asdict(),
            networks=[
                NetworkPoint(
                    name=name, threshold=value, exit_shares=_shares(part), accuracy=_accuracy(part), **_figures(part)
                )
                for (name, part), value in zip(found.networks.items(), chosen, strict=True)
            ],
        )
        for chosen, found, mark in _try_all(list(product(*tried)), serve, requirements, progress)
    ]
    return NetworksSweep(scheduler.spec, len(trace), swept, points)


def _tried_of(
    item: ServedNetwork, table: LatencyTable, answers: Trace | Samples, thresholds: Sequence[float] | None
) -> Sequence[float]:
    """The thresholds that are tried of one of several networks; none if its exits are as they are stated."""
    stated = answers.confidences is None or (isinstance(answers, Trace) and answers.exits is not None)
    if stated or item.threshold is not None or len(table.exits) == 1:
        return []
    if answers.correct is None:
        raise InputError(f'network "{item.name}": expected correct_1, ... beside its confidences, found none')
    tried = _usual(table, answers) if thresholds is None else thresholds
    try:
        check_tried(tried, answers.measure)
    except InputError as error:
        raise InputError([f'{fault}, for network "{item.name}"' for fault in error.faults]) from None
    return tried
