"""The search for the highest load at which requirements hold: runs at a load, a verdict, and the next load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..formats import InputError
from ..formats.array_types import Bools, Floats
from ..serving.device_traffic import DeviceTraffic, prepare_requests
from ..serving.figures import FIGURES
from ..serving.inputs import Requests
from ..serving.metrics import figures_of
from ..serving.networks import ServedNetwork
from ..serving.one_run import LEAST, OneRun, nearest_rank, requests_for
from ..serving.outcome import Replay
from ..serving.replay import simulate
from ..serving.requirements import Requirement
from ..serving.scheduler import Scheduler
from ..serving.statistics import SHARE, Interval, mean_interval
from ..serving.summary import QUANTILES
from ..traffic.additions import add_columns
from ..traffic.arrivals import offline, poisson
from ..traffic.traffic import Traffic
from .capacity_options import CapacityOptions
from .growth import SHARES_OF_USE, grown, rate_at
from .workers import Workers, in_order

KEPT, NOT_KEPT, UNDECIDED = "kept", "not kept", "undecided"
"""Verdicts on a load."""

_MONOTONE = ("mean", *QUANTILES, "violation_rate", *SHARES_OF_USE)


class FigureEstimate(NamedTuple):
    """A figure of all requests at a rate, with its 95 % interval; of short runs this has no upper end."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Probe:
    """Findings at a rate, or with a number of clients."""

    rate_per_s: float  # of clients, that at which they were served
    requests: int  # of each seed
    verdict: str  # on all requirements together
    estimates: list[FigureEstimate]  # one for each requirement
    broken: str | None  # the first requirement that surely fails
    clients: int | None = None
    factor: float | None = None  # of rates that grow

    @property
    def load(self) -> float:
        """What is searched: the number of clients, a factor, or the rate."""
        return next(load for load in (self.clients, self.factor, self.rate_per_s) if load is not None)


def check_monotone(requirements: Sequence[Requirement], requests: int, shares: Mapping[str | None, float]) -> None:
    """Refuse requirements that a search by rate cannot decide, given each network's share of the requests."""
    if not requirements:
        raise InputError('require: expected at least one requirement, found none; e.g. "p99 <= 200ms"')
    faults = []
    for requirement in requirements:
        if requirement.name not in _MONOTONE or requirement.comparator not in ("<=", "<"):
            known = ", ".join(_MONOTONE)
            faults.append(
                f"require: expected an upper bound on a figure that more traffic makes worse ({known}), "
                f'found "{requirement.text}"'
            )
        elif requirement.bound <= 0:
            faults.append(
                f'require: expected a bound above 0, which runs of some length can show, found "{requirement.text}"'
            )
        elif requirement.name not in SHARES_OF_USE and shares[requirement.network] * requests < (
            needed := _needed(requirement.name)
        ):
            faults.append(
                f"count: expected at least {needed:,} requests at a rate for {requirement.figure}, in all runs "
                f"together, found at most {int(shares[requirement.network] * requests):,}"
            )
    if faults:
        raise InputError(faults)


def _needed(name: str) -> int:
    """Requests without which a figure has no interval, even if they are independent."""
    return max(LEAST, requests_for(QUANTILES.get(name, 0.5)))


def at_rate(unit: DeviceTraffic, rate_per_s: float) -> DeviceTraffic:
    """Requests at 1 request/s, rescaled to another rate."""

    def rescaled(traffic: Traffic) -> Traffic:
        return replace(traffic, trace=replace(traffic.trace, arrival_s=traffic.trace.arrival_s / rate_per_s))

    return replace(unit, whole=rescaled(unit.whole), parts=tuple(map(rescaled, unit.parts)))


class _RequestsRecord(NamedTuple):
    """Findings of the requests of a run."""

    latency_s: Floats
    fresh: Bools  # those that found the system empty
    violated: Bools

    @classmethod
    def of(cls, replay: Replay) -> _RequestsRecord:
        return cls(replay.latency_s, replay.fresh, replay.violated)


class _RunRecord(NamedTuple):
    """Findings of a run."""

    requests: dict[str | None, _RequestsRecord]  # all requests, and the requests of each network that has a name
    served_per_s: float
    figures: list[float]  # one for each requirement


def _estimates(requirements: Sequence[Requirement], runs: Sequence[_RunRecord]) -> list[FigureEstimate]:
    """Each figure of several runs; joined they are one run, because each of them begins with an empty system."""
    joined_runs, estimates = {}, []
    for network in {requirement.network for requirement in requirements}:
        latency_s, fresh, violated = (np.concatenate([run.requests[network][i] for run in runs]) for i in range(3))
        joined_runs[network] = OneRun(latency_s, fresh), violated
    for index, requirement in enumerate(requirements):
        name, (joined, violated) = requirement.name, joined_runs[requirement.network]
        values = np.array([run.figures[index] for run in runs])
        mean, finite = float(values.mean()), np.isfinite(values)
        # of runs with requests that were refused or dropped, too many for a percentile
        over_seeds = mean_interval(values) if finite.all() else Interval(0.0 if finite.any() else math.inf, math.inf)
        assert over_seeds is not None
        if name in SHARES_OF_USE:
            estimates.append(FigureEstimate(mean, over_seeds.within(SHARE)))
            continue
        if name == "mean":
            value, told, most = mean, joined.mean(), math.inf
        elif name == "violation_rate":
            value, told, most = mean, joined.share(violated), 1.0
        else:
            quantile = QUANTILES[name]
            value, told, most = nearest_rank(joined.ordered_s, quantile), joined.quantile(quantile), math.inf
        # a queue that began empty grows: longer runs are no better, so the interval over seeds is a lower end
        least = Interval(min(value, max(0.0, over_seeds.low)), most)
        if name == "mean" and math.isinf(value):  # then the mean of any longer run is infinite, too
            least = Interval(math.inf, math.inf)
        estimates.append(FigureEstimate(value, told.interval or least))
    return estimates


@dataclass(slots=True)
class LoadSearch:
    """Probes of the networks of a device under a policy, and their cost, with common random numbers.

    ``drawn`` is each seed's traffic at 1 request/s, which every rate rescales, or all at once, for clients to send.
    """

    networks: Sequence[ServedNetwork]
    scheduler: Scheduler
    requirements: Sequence[Requirement]
    options: CapacityOptions
    threads: int | None
    progress: Callable[[int, int], None] | None
    drawn: list[DeviceTraffic] = field(default_factory=list)
    longest: int = 0  # requests of those
    probes: list[Probe] = field(default_factory=list)
    simulated: int = 0

    @property
    def own(self) -> bool:
        """Whether networks have traffic of their own, whose rates grow."""
        return self.networks[0].traffic is not None

    def _draw(self, count: int) -> None:
        """Draw traffic of this length; it begins with the shorter one, but for noise of steps and predictions."""
        if self.longest < count and not self.own:
            self.drawn = [self._traffic(count, seed) for seed in range(self.options.seeds)]
            self.longest = count

    def _traffic(self, count: int, seed: int) -> DeviceTraffic:
        """The requests of a seed, ready to be served."""
        options = self.options
        arrivals = poisson(1.0, count, seed) if options.clients is None else offline(count)
        requests = Requests(
            trace=add_columns(arrivals, seed, options.columns), slo_s=options.slo_s, seed=seed,
            predict_depth=options.predict_depth,
        )  # fmt: skip
        return prepare_requests(self.networks, requests, requests.read())

    def _run(self, at: tuple[float, int], seed: int) -> _RunRecord:
        """Serve the first requests at a rate, or let as many clients send them."""
        (load, count), clients = at, self.options.clients
        if self.own:
            requests = Requests(slo_s=self.options.slo_s, seed=seed, predict_depth=self.options.predict_depth)
            traffic = prepare_requests(grown(self.networks, self.options.grow, load, count), requests, None)
        elif clients is None:
            traffic = at_rate(self.drawn[seed].first(count), load)
        else:
            traffic = self.drawn[seed].first(count).sent_by(replace(clients, count=int(load)), seed)
        replay = simulate(self.networks, traffic, self.scheduler)
        figures = figures_of(replay)
        records: dict[str | None, _RequestsRecord] = {None: _RequestsRecord.of(replay)}
        records |= {name: _RequestsRecord.of(replay.by_network[number]) for number, name in replay.named}
        values = [
            float(FIGURES[requirement.name].of(figures.of(requirement.network)) or 0.0)
            for requirement in self.requirements
        ]
        return _RunRecord(records, figures.whole.processing_rate_per_s, values)

    def probe(self, load: float) -> str:
        """Decide a rate or number of clients, with twice the requests as long as an interval holds the bound."""
        seeds, (count, most) = self.options.seeds, self.options.run_lengths(own=self.own)
        while True:
            self._draw(count)
            runs = dict(in_order(Workers(self.threads).map(self._run, (load, count), range(seeds))))
            served = sum(len(run.requests[None].latency_s) for run in runs.values())
            self.simulated += served
            estimates = _estimates(self.requirements, [runs[seed] for seed in range(seeds)])
            sides = [
                requirement.side(it.interval) for requirement, it in zip(self.requirements, estimates, strict=True)
            ]
            verdict = NOT_KEPT if False in sides else UNDECIDED if None in sides else KEPT
            if verdict != UNDECIDED or count >= most:
                break
            count = min(2 * count, most)
        broken = self.requirements[sides.index(False)].text if verdict == NOT_KEPT else None
        served_per_s = float(np.mean([runs[seed].served_per_s for seed in range(seeds)]))
        probe = Probe(load, served // seeds, verdict, estimates, broken)
        if self.own:
            probe = replace(probe, rate_per_s=rate_at(self.networks, self.options.grow, load), factor=load)
        elif self.options.clients is not None:
            probe = replace(probe, rate_per_s=served_per_s, clients=int(load))
        self.probes.append(probe)
        if self.progress:
            self.progress(len(self.probes), len(self.probes) + 1)
        return verdict


def bracket(search: LoadSearch, low: float, high: float) -> None:
    """Find a load that is kept beside one that is not, then bisect: where it is kept no longer, and surely fails.

    A rate is halved from the highest on, which is near saturation; a number of clients has no such end, and is doubled.
    """
    options = search.options
    load, least = (high, 0.0) if options.clients is None else (low, 1.0)
    if options.clients is None:
        while search.probe(load) != KEPT and load > low:
            load = max(low, load / 2)
    else:
        while search.probe(load) != NOT_KEPT and load < high:
            load = min(high, 2 * load)
    for below, above in ((KEPT, (UNDECIDED, NOT_KEPT)), (UNDECIDED, (NOT_KEPT,))):
        left = max((probe.load for probe in search.probes if probe.verdict == below), default=math.inf)
        right = min((probe.load for probe in search.probes if probe.verdict in above), default=-math.inf)
        while right - left > max(options.tolerance * right, least):
            middle = (left + right) / 2 if options.clients is None else (left + right) // 2
            left, right = (middle, right) if search.probe(middle) == below else (left, middle)
