"""The sweep of thresholds: accuracy against latency and violations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..formats import InputError, brief, first_rows
from ..formats.array_types import Bools, Floats
from ..serving.device_traffic import draw_networks, prepare_requests
from ..serving.figures import FIGURES
from ..serving.inputs import AnyPolicy, Requests
from ..serving.metrics import figures_of
from ..serving.networks import AnyServed, ServedNetwork, as_served, ends_of, scheduler_on
from ..serving.replay import simulate
from ..serving.requirements import Requirement, check_stated, figure_text
from ..serving.summary import Figures, Summary
from ..traffic.exits import check_tried
from ..traffic.samples import Samples, as_samples, read_samples
from ..traffic.trace import Trace

MOST = 1_000
"""Most combinations of thresholds, of several networks or of the exits of each."""

Level = float | tuple[float, ...]
"""A threshold for all exits of a network, or one for each but the last."""


@dataclass(frozen=True, slots=True)
class SweptNetwork:
    """A network in a sweep."""

    name: str  # empty of the only network of a device
    measure: str | None  # of the thresholds that are tried; ``None`` if none are
    exits: list[str]  # names of its exits


@dataclass(frozen=True, slots=True)
class NetworkPoint:
    """A threshold for all exits of a network, or one for each but the last, and the figures of its requests.

    Figures are as in :class:`ThresholdPoint`.

    A network without a request has no figures.
    """

    name: str
    threshold: Level | None  # from which a sample leaves; ``None`` if exits are as they are stated
    exit_shares: list[float] | None = None  # of the requests that leave at each exit
    accuracy: float | None = None  # ``None`` also if it is not known which answers are right
    mean_latency_s: float | None = None
    p99_latency_s: float | None = None
    violation_rate: float | None = None


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """A threshold of each network, and the figures of all requests with them."""

    accuracy: float  # share of requests answered rightly, where that is known; one without an answer counts as wrong
    mean_latency_s: float  # from arrival, of those with an answer
    p99_latency_s: float  # of all requests; infinite if too many have no answer
    violation_rate: float  # share of the requests later than their latency objective
    pareto: bool  # of those that keep the requirements no other beats it (see :func:`pareto`)
    kept: bool | None  # whether all requirements hold (at both ends of an engine's error, too), if there are any
    networks: list[NetworkPoint]

    @property
    def threshold(self) -> Level | None:
        """The threshold of the only network."""
        return self._alone.threshold

    @property
    def exit_shares(self) -> list[float]:
        """The share of the requests that leave at each exit of the only network."""
        shares = self._alone.exit_shares
        assert shares is not None  # it has all requests
        return shares

    @property
    def _alone(self) -> NetworkPoint:
        (alone,) = self.networks
        return alone


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of thresholds."""

    policy: str  # with its parameters, and of a table's network with the batch size of its plan of exits
    requests: int  # requests that every point serves
    networks: list[SweptNetwork]
    points: list[ThresholdPoint]  # one for each combination of thresholds; the last network changes first

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[Any]]:
        """The figures of each combination as columns: of each network that has a name, then of all."""
        names = ("accuracy", "mean_latency_s", "p99_latency_s", "violation_rate")
        own = {
            figure_text(key, network.name): [getattr(point.networks[number], key) for point in self.points]
            for number, network in enumerate(self.networks)
            for key in ("threshold", *names)
        }
        return own | {name: [getattr(point, name) for point in self.points] for name in (*names, "kept", "pareto")}


def show_level(threshold: Level | None) -> str:
    """The threshold of a network as it is printed: one for all exits, or one for each but the last."""
    return ", ".join(f"{at:g}" for at in (threshold if isinstance(threshold, tuple) else [threshold]))


def pareto(costs: Floats) -> Bools:
    """Mark points that no other point beats, i.e. is as good in everything and better in something.

    >>> pareto(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0]]))
    array([ True,  True, False])
    """
    beaten = [bool(((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any()) for point in costs]
    return ~np.array(beaten, dtype=bool)


def accuracy_of(parts: Sequence[Summary]) -> float:
    """Share of right answers of the requests of those networks whose right answers are known."""
    known = [(part.requests, right) for part in parts if (right := _accuracy(part)) is not None]
    count = sum(requests for requests, _ in known)
    return sum(requests / count * right for requests, right in known)


def _accuracy(summary: Summary) -> float | None:
    """Share of the requests answered rightly; one without an answer counts as wrong."""
    return summary.accuracy if summary.deadlines is None else summary.deadlines.accuracy_of_all


def _mean_s(summary: Summary) -> float:
    """Mean latency of the requests with an answer."""
    if summary.deadlines is None:
        return summary.mean_latency_s
    answered_s = summary.deadlines.answered_latency_s
    return math.inf if answered_s is None else answered_s


def _shown(summary: Summary) -> dict[str, Any]:
    """Figures that are stated of all requests, and of the requests of each network."""
    return {
        "mean_latency_s": _mean_s(summary),
        "p99_latency_s": summary.percentile("p99").latency_s,
        "violation_rate": summary.violation_rate,
    }


def _kept(requirement: Requirement, served: Sequence[Figures]) -> list[bool]:
    """Whether each run keeps a requirement."""
    values = [FIGURES[requirement.name].of(figures.of(requirement.network)) for figures in served]
    known = next((value for value in values if value is not None), None)
    check_stated([requirement], **{requirement.name: known})
    # with some thresholds there may be no answer, and then no accuracy that could suffice
    return [value is not None and requirement.allows(value) for value in values]


def _usual(network: ServedNetwork, answers: Trace | Samples) -> list[float]:
    """The thresholds that are tried if none are stated: the usual ones of the measure, and what a plan states."""
    measure, own = network.latency.thresholds or (answers.measure.name, [])
    planned = [threshold for threshold in own if isinstance(threshold, float) and measure == answers.measure.name]
    return sorted({*answers.measure.swept, *planned}, key=answers.measure.to_array)


def sweep_thresholds(
    table: AnyServed,
    requests: Requests,
    policy: AnyPolicy,
    thresholds: Sequence[float] | None = None,
    *,
    each_exit: bool = False,
    requirements: Sequence[Requirement] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Replay requests with one threshold after the other, of several networks with every combination.

    Thresholds are tried of each network that has a request, several exits, and confidences and answers, and that states
    none.

    Parameters
    ----------
    table : LatencyTable, sequence of ServedNetwork, str or Path
        Times of the design that serves them, or its folder; or the networks of a device, or their file.
    requests : Requests
        The requests, with confidences and answers.
    policy : Scheduler or str
        The policy.
    thresholds : sequence of float, optional
        Tried of each network, each for all its exits; by default the measure's, and a plan's.
    each_exit : bool
        Try every combination of them at the exits of a network, too.
    requirements : sequence of Requirement
        Requirements that are to hold, of all requests or of the requests of a network.
    progress : callable, optional
        Called with combinations done and in all.

    Returns
    -------
    Sweep
        A point for each threshold, or combination of them.

    Raises
    ------
    InputError
        If there is no threshold to try, or there are too many combinations, or an input does not fit the others.
    """
    networks, trace = as_served(table), requests.read()
    scheduler = scheduler_on(networks, policy)
    shared = None if requests.samples is None else read_samples(requests.samples)
    samples = [_samples_of(network, shared) for network in networks]
    served = [replace(network, samples=own) for network, own in zip(networks, samples, strict=True)]
    answers = [trace if own is None else own for own in samples]
    counts = np.bincount(draw_networks(trace, networks, requests.seed)[1], minlength=len(networks))
    tried = [
        _at_exits(network, _tried_of(network, own, thresholds), each_exit=each_exit) if count else []
        for network, own, count in zip(served, answers, counts, strict=True)
    ]
    _check_count(tried, trace, served)
    given = replace(requests, samples=None)
    chosen: list[tuple[Level | None, ...]] = list(product(*(own or (None,) for own in tried)))
    runs: list[list[Figures]] = []
    for done, levels in enumerate(chosen, 1):
        there = [
            network if level is None else replace(network, threshold=level)
            for network, level in zip(served, levels, strict=True)
        ]
        traffic, ends = prepare_requests(there, given, trace), ends_of(there) if requirements else {}
        runs.append([figures_of(simulate(each, traffic, scheduler)) for each in (there, *ends.values())])
        if progress is not None:
            progress(done, len(chosen))
    swept = [
        SweptNetwork(network.name, own.measure.name if levels else None, [row.name for row in network.latency.exits])
        for network, own, levels in zip(served, answers, tried, strict=True)
    ]
    return Sweep(scheduler.spec, len(trace), swept, _points(networks, chosen, runs, requirements))


def _points(
    networks: Sequence[ServedNetwork],
    chosen: Sequence[tuple[Level | None, ...]],
    ends: Sequence[Sequence[Figures]],
    requirements: Sequence[Requirement],
) -> list[ThresholdPoint]:
    """The points of runs, each first as predicted: whether it keeps the requirements, and no other that does beats it.

    It keeps them if it does at both ends of the error of a calibrated engine, too.
    """
    runs = [first for first, *_ in ends]
    kept = np.ones(len(runs), dtype=bool)
    for requirement in requirements:
        for there in zip(*ends, strict=True):
            kept &= _kept(requirement, there)
    accuracies = [accuracy_of(list(figures.parts.values())) for figures in runs]
    costs = np.array([
        (-accuracy, _mean_s(figures.whole), figures.whole.violation_rate)
        for accuracy, figures in zip(accuracies, runs, strict=True)
    ])  # fmt: skip
    best = kept.copy()
    best[kept] = pareto(costs[kept])
    return [
        ThresholdPoint(
            accuracy=accuracy,
            **_shown(figures.whole),
            pareto=bool(best[at]),
            kept=bool(kept[at]) if requirements else None,
            networks=[
                _point_of(network.name, level, figures.parts.get(network.name))
                for network, level in zip(networks, levels, strict=True)
            ],
        )
        for at, (levels, figures, accuracy) in enumerate(zip(chosen, runs, accuracies, strict=True))
    ]


def _point_of(name: str, threshold: Level | None, part: Summary | None) -> NetworkPoint:
    """The point of a network; without figures if it has no request."""
    if part is None:
        return NetworkPoint(name, threshold)
    shares = [there.requests / part.requests for there in part.exits]
    return NetworkPoint(name, threshold, shares, _accuracy(part), **_shown(part))


def _samples_of(network: ServedNetwork, shared: Samples | None) -> Samples | None:
    """The samples of a network, or else of all, read once for all replays."""
    samples = shared if network.samples is None else network.samples
    return None if samples is None else as_samples(samples)


def _nothing_to_try(answers: Trace | Samples) -> str:
    where = answers.file_of("confidences") if isinstance(answers, Trace) else answers.source or "samples"
    return (
        f"{where}: expected columns confidence_1, ... (or of another measure) and correct_1, ..., and no column exit, "
        "for a network with several exits that states no threshold, found none of these; add samples, "
        "and leave out thresholds that networks state"
    )


def _check_count(tried: Sequence[Sequence[Level]], trace: Trace, served: Sequence[ServedNetwork]) -> None:
    """Refuse to try no threshold, or too many combinations."""
    count = math.prod(max(1, len(own)) for own in tried)
    if all(len(network.latency.exits) == 1 for network in served):
        raise InputError("network: expected early exits, at which thresholds hold, found only the end of the network")
    if not any(tried):
        raise InputError(_nothing_to_try(trace))
    if count > MOST:
        raise InputError(
            f"thresholds: expected at most {MOST:,} combinations of thresholds, found {count:,}; try fewer, or state "
            "the threshold of a network in a file of networks"
        )


def _at_exits(network: ServedNetwork, tried: Sequence[float], *, each_exit: bool) -> Sequence[Level]:
    """Thresholds for all exits of a network, or every combination of them at its exits but the last."""
    early = len(network.latency.exits) - 1
    return list(product(tried, repeat=early)) if tried and each_exit and early > 1 else tried


def _tried_of(network: ServedNetwork, answers: Trace | Samples, thresholds: Sequence[float] | None) -> Sequence[float]:
    """The thresholds that are tried of a network; none if its exits are as they are stated."""
    stated = answers.confidences is None or (isinstance(answers, Trace) and answers.exits is not None)
    if stated or network.threshold is not None or len(network.latency.exits) == 1:
        return []
    if answers.correct is None:
        raise InputError(network.about([_nothing_to_try(answers)]))
    tried = _usual(network, answers) if thresholds is None else thresholds
    try:
        check_tried(tried, answers.measure)
    except InputError as error:
        raise InputError(network.about(error.faults, '{1}, for network "{0}"')) from None
    return tried
