"""Capacity: the highest Poisson rate, or the most clients that wait, at which a policy keeps all requirements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, brief, first_rows
from ..serving.device_traffic import (
    DeviceTraffic,
    prepare_requests,
)
from ..serving.figures import FIGURES
from ..serving.inputs import AnyPolicy, Requests, as_scheduler, as_thresholds
from ..serving.metrics import QUANTILES, figures_of
from ..serving.networks import (
    AnyServed,
    ServedNetwork,
    as_served,
    ends_of,
    scheduler_on,
)
from ..serving.one_run import LEAST, OneRun, nearest_rank, requests_for
from ..serving.outcome import Replay
from ..serving.replay import simulate
from ..serving.requirements import Requirement, check_stated
from ..serving.scheduler import Scheduler
from ..serving.statistics import SHARE, Interval, mean_interval
from ..tables.latency import LatencyTable
from ..traffic.additions import add_columns, useless
from ..traffic.arrivals import offline, poisson
from ..traffic.clients import Clients
from ..traffic.distributions import Objective
from ..traffic.request_columns import Columns
from ..traffic.samples import as_samples, attach
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic, prepare
from .growth import (
    LEAST_PART,
    LONGEST,
    RateGrowth,
    check_growth,
    expected_requests,
    grown,
    rate_at,
    saturation_factor,
)
from .workers import Workers, in_order

KEPT, NOT_KEPT, UNDECIDED = "kept", "not kept", "undecided"

_SHARES_OF_USE = ("busy_share", "mac_share")
_MONOTONE = ("mean", *QUANTILES, "violation_rate", *_SHARES_OF_USE)
_FLOOR = 2.0**-10
"""Lowest rate that is tried, as a share of the saturation rate."""

_LEAST_RATE = 1e-6
"""Lowest rate that may be asked for, as a share of the saturation rate: below, times have too few digits."""

_LEAST_EACH = 10
"""Requests that each client sends at least in a run, on average."""

_SAMPLE = 2**16
"""Requests over whose widths and steps the saturation rate is averaged."""

NO_COLUMNS: Columns = MappingProxyType({})
"""Requests that state nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityOptions:
    """The loads that a search for capacity tries, and the requests of its runs.

    Attributes
    ----------
    slo_s : float, Distribution or Shares, optional
        Latency objective in seconds of all requests, or the distribution of their own ones.
    columns : Columns
        Columns that are drawn for requests (:func:`fluidb.traffic.additions.parse_columns`).
    predict_depth : float, optional
        Correlation of predicted with actual exits, or steps.
    seeds : int
        Independent runs at each rate, with seeds 0..seeds - 1.
    count, max_requests : int
        Requests of each run, to begin with, and at which a rate is left undecided; by default 16 times as many.
    low_per_s, high_per_s : float, optional
        Rates to search; by default from 1/1024 of :func:`saturation_rate` up to it. Of networks with traffic of their
        own, factors by which their rates grow.
    grow : str, optional
        Of such networks the only one whose rate grows; by default all that have one.
    clients : Clients, optional
        Clients that wait, in place of arrivals: the least number of them, and their think time.
    most_clients : int, optional
        The largest number; by default a tenth of ``count``.
    tolerance : float
        Width at which bisection stops, as a share of the rate; or one client.

    Raises
    ------
    InputError
        If a number is out of bounds, or rates stand beside clients.
    """

    slo_s: Objective | None = None
    columns: Columns = field(default_factory=lambda: NO_COLUMNS)
    predict_depth: float | None = None
    seeds: int = 5
    count: int = 20_000
    max_requests: int | None = None
    low_per_s: float | None = None
    high_per_s: float | None = None
    clients: Clients | None = None
    most_clients: int | None = None
    grow: str | None = None
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise InputError(f"seeds: expected at least 2, whose spread makes an interval, found {self.seeds}")
        if not 1 <= self.count <= self.most:
            raise InputError(
                f"count: expected at least 1 and at most {self.most:,}, the most of a run, found {self.count:,}"
            )
        if self.clients is not None and (self.low_per_s, self.high_per_s) != (None, None):
            raise InputError("rate: expected rates or clients to search, found both; leave out one of the two")

    @property
    def most(self) -> int:
        """Requests of a run at which a rate is left undecided."""
        return 16 * self.count if self.max_requests is None else self.max_requests

    def run_lengths(self, *, own: bool) -> tuple[int, int]:
        """Of runs at first, and at which a load is left undecided: requests, or durations of traffic of their own."""
        return (1, LONGEST) if own else (self.count, self.most)

    def ends(self, saturation_per_s: float) -> tuple[float, float]:
        """The least and the largest load to search: rates, or numbers of clients."""
        if self.clients is not None:
            return _numbers(self.clients, self.most_clients, self.count)
        return _rates(self.low_per_s, self.high_per_s, saturation_per_s)


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


@dataclass(frozen=True, slots=True)
class ClientCapacity:
    """The most clients that wait with whom requirements hold; as of rates in :class:`Capacity`."""

    kept: int | None
    not_kept: int | None
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest rate at which requirements hold; a rate of clients is that at which they were served."""

    policy: str  # with its parameters, and with the batch size of a plan of exits
    kept_per_s: float | None  # highest rate at which all requirements surely hold
    not_kept_per_s: float | None  # lowest rate at which one surely fails; between the two nothing is decided
    limited_by: str | None  # the requirement that fails there
    saturation_per_s: float  # rate beyond which no policy keeps up, from the latency table and samples
    low_per_s: float  # lowest rate to search
    high_per_s: float
    seeds: int  # runs at each rate
    max_requests: int  # requests of a run at which a rate is left undecided
    requests_simulated: int  # in all probes together
    probes: list[Probe]  # every rate that was tried, in order of rate
    clients: ClientCapacity | None = None
    growth: RateGrowth | None = None  # of networks with traffic of their own, whose rates are those that grow
    ends: dict[float, Capacity] = field(default_factory=dict)  # with times at an end of an engine's error, by factor

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[Any]]:
        """The rates that were tried as columns."""
        names = (
            *(("clients",) if self.clients else ()),
            *(("factor",) if self.growth else ()),
            "rate_per_s",
            "requests",
            "verdict",
            "broken",
        )
        return {name: [getattr(probe, name) for probe in self.probes] for name in names}


def saturation_rate(network: ServedNetwork, b_max: int | None = None, columns: Columns = NO_COLUMNS) -> float:
    """Rate beyond which queues of a network grow under any policy.

    A stage takes at least its least time a sample, over batch sizes, SubNets and states, at the sample's width or a
    wider one; a request needs every stage up to its exit. Requests without widths run at the largest, and without steps
    a repeated stage runs as often as it can. Lanes together are :attr:`LatencyTable.speedup` times as fast. Requests
    leave at exits as the table states, or as their samples do.
    """
    table, (sample, reached) = network.latency, _sample_of(network, columns)
    widths = table.widths or [math.inf]
    limit = min(b_max or table.b_max, table.b_max)
    time_s = table.segments(by_layer=False).time_s[:, :, 1 : limit + 1]
    fastest_s = time_s.reshape(-1, len(widths), *time_s.shape[1:]).min(axis=0)  # of every SubNet and state
    least_s = np.minimum.accumulate((fastest_s / np.arange(1, limit + 1)).min(axis=2))  # at a width or a wider one
    own = [0] if sample.width is None else np.searchsorted(-np.array(widths), -sample.width, side="right") - 1
    repeats = (table.exits[-1].steps if sample.steps is None else sample.steps) - 1
    work_s = (least_s[own] * reached).sum(axis=1) + repeats * reached[:, -1] * least_s[own, -1]
    return table.speedup / float(work_s.mean())


def _sample_of(network: ServedNetwork, columns: Columns) -> tuple[Trace, NDArray[np.float64]]:
    """Requests of a network with what they state, and the share of each, or of all, that needs each stage."""
    rates = [row.rate for row in network.latency.exits]
    if network.samples is None:
        reached = 1.0 - np.concatenate([[0.0], np.cumsum(rates)[:-1]])
        return add_columns(offline(_SAMPLE), 0, columns), reached[None]
    samples = as_samples(network.samples)
    each = np.tile(np.arange(len(samples)), max(1, _SAMPLE // len(samples)))
    trace = attach(add_columns(offline(len(each)), 0, columns), samples[each])
    thresholds = as_thresholds(network.threshold, network.latency, trace)
    traffic = prepare(trace, rates, slo_s=1.0, threshold=thresholds)  # nobody is late here
    return traffic.trace, (traffic.exits[:, None] > np.arange(len(rates))).astype(np.float64)


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
        elif requirement.name not in _SHARES_OF_USE and shares[requirement.network] * requests < (
            needed := _needed(requirement.name)
        ):
            faults.append(
                f"count: expected at least {needed:,} requests at a rate for {requirement.figure}, in all runs "
                f"together, found at most {int(shares[requirement.network] * requests):,}"
            )
    if faults:
        raise InputError(faults)


def at_rate(unit: DeviceTraffic, rate_per_s: float) -> DeviceTraffic:
    """Requests at 1 request/s, rescaled to another rate."""

    def rescaled(traffic: Traffic) -> Traffic:
        return replace(traffic, trace=replace(traffic.trace, arrival_s=traffic.trace.arrival_s / rate_per_s))

    return replace(unit, whole=rescaled(unit.whole), parts=tuple(map(rescaled, unit.parts)))


def _needed(name: str) -> int:
    """Requests without which a figure has no interval, even if they are independent."""
    return max(LEAST, requests_for(QUANTILES.get(name, 0.5)))


class _RequestsRecord(NamedTuple):
    """Findings of the requests of a run."""

    latency_s: NDArray[np.float64]
    fresh: NDArray[np.bool_]  # those that found the system empty
    violated: NDArray[np.bool_]

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
        if name in _SHARES_OF_USE:
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
class _LoadSearch:
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


def find_capacity(
    table: AnyServed,
    policy: AnyPolicy,
    requirements: Sequence[Requirement],
    options: CapacityOptions | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Capacity:
    """Highest Poisson rate, or most clients, with which a policy keeps requirements (``docs/compare.md``).

    Parameters
    ----------
    table : LatencyTable, sequence of ServedNetwork, str or Path
        Times of the design, or its folder; or several networks, or their file, whose shares of the rate are their own.
    policy : Scheduler or str
        The policy.
    requirements : sequence of Requirement
        Upper bounds on figures that more traffic makes worse.
    options : CapacityOptions, optional
        The loads to try, and the requests of the runs.
    threads : int, optional
        Threads to use, by default all cores; the result does not depend on it.
    progress : callable, optional
        Called after each rate with (rates tried, a lower bound of how many there will be).

    Returns
    -------
    Capacity
        The highest rate that is kept, the lowest that is not, and every rate that was tried; and the same at both ends
        of the error of a calibrated engine.

    Raises
    ------
    InputError
        If the requirements, the traffic or the bounds do not fit.
    """
    networks = as_served(table)
    given = policy, requirements, options or CapacityOptions(), threads, progress
    ends = {factor: _capacity(slower, *given) for factor, slower in ends_of(networks).items()}
    return replace(_capacity(networks, *given), ends=ends)


def _capacity(
    networks: Sequence[ServedNetwork],
    policy: AnyPolicy,
    requirements: Sequence[Requirement],
    options: CapacityOptions,
    threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> Capacity:
    """As :func:`find_capacity`, with the times that tables state."""
    scheduler, tables = scheduler_on(networks, policy), [network.latency for network in networks]
    _check_columns(tables, options.columns)
    whole = sum(network.share for network in networks)
    shares: dict[str | None, float] = {network.name: network.share / whole for network in networks} | {None: 1.0}
    rates = [
        saturation_rate(network, as_scheduler(scheduler, network.latency).b_max, options.columns)
        for network in networks
    ]
    # with the first network alone the sum is 1 to the bit, so that the rate of one network is its own
    relative = sum(shares[network.name] * (rates[0] / rate) for network, rate in zip(networks, rates, strict=True))
    saturation = rates[0] / relative
    most, numbers = options.seeds * options.most, shares
    if networks[0].traffic is not None:
        _check_own(networks, options, requirements)
        saturation, numbers = saturation_factor(networks, options.grow, rates), expected_requests(networks)
        options = replace(options, low_per_s=options.low_per_s or saturation / LEAST_PART)
        most = options.seeds * LONGEST
    elif options.grow is not None:
        raise InputError("grow: expected networks with traffic of their own, found none; leave it out")
    low, high = options.ends(saturation)
    check_monotone(requirements, most, numbers)
    check_stated(requirements, mac_share=all(table.peak_macs_per_s for table in tables) or None)
    search = _LoadSearch(networks, scheduler, requirements, options, threads, progress)
    _bracket(search, low, high)
    return _capacity_of(search, saturation, (low, high))


def _capacity_of(search: _LoadSearch, saturation_per_s: float, ends: tuple[float, float]) -> Capacity:
    """The outcome of a search between two loads."""
    probes = sorted(search.probes, key=lambda probe: probe.load)
    failed = next((probe for probe in probes if probe.verdict == NOT_KEPT), None)
    below = failed.load if failed else math.inf
    kept = max(
        (probe for probe in probes if probe.verdict == KEPT and probe.load < below), default=None,
        key=lambda probe: probe.load,
    )  # fmt: skip
    numbers, growth, ends_per_s, grow = None, None, ends, search.options.grow
    if search.own:
        growth = RateGrowth(grow, kept.factor if kept else None, failed.factor if failed else None, *ends)
        saturation_per_s = rate_at(search.networks, grow, saturation_per_s)
        ends_per_s = rate_at(search.networks, grow, ends[0]), rate_at(search.networks, grow, ends[1])
    elif search.options.clients is not None:
        ends_per_s = (probes[0].rate_per_s, probes[-1].rate_per_s)
        numbers = ClientCapacity(kept.clients if kept else None, failed.clients if failed else None, *map(int, ends))
    return Capacity(
        policy=search.scheduler.spec,
        kept_per_s=kept.rate_per_s if kept else None,
        not_kept_per_s=failed.rate_per_s if failed else None,
        limited_by=failed.broken if failed else None,
        saturation_per_s=saturation_per_s,
        low_per_s=ends_per_s[0],
        high_per_s=ends_per_s[1],
        seeds=search.options.seeds,
        max_requests=search.options.most,
        requests_simulated=search.simulated,
        probes=probes,
        clients=numbers,
        growth=growth,
    )


def _check_own(
    networks: Sequence[ServedNetwork], options: CapacityOptions, requirements: Sequence[Requirement]
) -> None:
    """Refuse what does not fit networks with traffic of their own."""
    if options.clients is not None or options.columns:
        what = "clients" if options.clients is not None else next(iter(options.columns))
        raise InputError(f"{what}: expected none beside networks with traffic of their own, found some; leave it out")
    check_growth(networks, options.grow, requirements)


def _check_columns(tables: Sequence[LatencyTable], columns: Columns) -> None:
    """Refuse columns that change nothing of any network."""
    idle = [
        useless(columns, widths=table.widths, steps=table.exits[-1].steps, subnets=table.subnets) for table in tables
    ]
    if faults := [fault for fault in idle[0] if all(fault in others for others in idle)]:
        raise InputError(faults)


def _rates(low_per_s: float | None, high_per_s: float | None, saturation: float) -> tuple[float, float]:
    """The lowest and the highest rate to search."""
    high = saturation if high_per_s is None else high_per_s
    low = _FLOOR * min(saturation, high) if low_per_s is None else low_per_s
    if not (math.isfinite(high) and 0 < low < high):
        bounds = f"a highest rate of {high:g} /s" if low_per_s is None else f"{low:g} /s and {high:g} /s"
        raise InputError(f"rate: expected 0 < low < high, found {bounds}")
    if low < _LEAST_RATE * saturation:
        least = f"{_LEAST_RATE * saturation:g} /s, a millionth of the saturation rate"
        raise InputError(f"rate: expected at least {least}, found {low:g} /s")
    return low, high


def _numbers(clients: Clients, most: int | None, count: int) -> tuple[int, int]:
    """The least and the largest number of clients to search."""
    limit = max(1, count // _LEAST_EACH)
    low, high = clients.count, limit if most is None else most
    if not low <= high <= limit:
        raise InputError(
            f"clients: expected low <= high <= {limit:,}, so that each sends {_LEAST_EACH} of the {count:,} requests "
            f"of a run (count), found {low:,} and {high:,}"
        )
    return low, high


def _bracket(search: _LoadSearch, low: float, high: float) -> None:
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
