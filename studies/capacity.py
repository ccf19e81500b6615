"""Capacity: the highest Poisson rate, or the most clients that wait, at which a policy keeps all requirements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..formats import InputError, brief, first_rows
from ..serving.inputs import AnyPolicy, as_scheduler
from ..serving.networks import AnyServed, ServedNetwork, as_served, ends_of, scheduler_on
from ..serving.requirements import Requirement, check_stated
from ..tables.latency import LatencyTable
from ..traffic.additions import useless
from ..traffic.request_columns import Columns
from .capacity_options import CapacityOptions
from .growth import LEAST_PART, LONGEST, RateGrowth, check_growth, expected_requests, rate_at, saturation_factor
from .load_search import KEPT, NOT_KEPT, LoadSearch, Probe, bracket, check_monotone
from .saturation import saturation_rate


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
    search = LoadSearch(networks, scheduler, requirements, options, threads, progress)
    bracket(search, low, high)
    return _capacity_of(search, saturation, (low, high))


def _capacity_of(search: LoadSearch, saturation_per_s: float, ends: tuple[float, float]) -> Capacity:
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
