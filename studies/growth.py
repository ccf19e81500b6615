"""Networks with traffic of their own whose rates grow by a factor, for a search of how far they may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..formats import InputError
from ..serving.networks import ServedNetwork
from ..serving.requirements import Requirement
from ..traffic.own import OwnTraffic

LONGEST = 16
"""Durations of the file that a run lasts at most, where it stays undecided."""

LEAST_PART = 64
"""The least factor that is tried by default is this part of the one that saturates the device."""

SHARES_OF_USE = ("busy_share", "mac_share")
"""Figures that grow with the rate of any network."""


@dataclass(frozen=True, slots=True)
class RateGrowth:
    """By which factor rates grow: of all networks that have one, or of one network; clients stay as many."""

    network: str | None  # the only one that grows
    kept: float | None
    not_kept: float | None
    low: float
    high: float


def _rate_of(traffic: OwnTraffic | None) -> float:
    """The rate of a network's own traffic; 0 of clients."""
    return 0.0 if traffic is None else traffic.rate_per_s or traffic.frames_per_s or 0.0


def check_growth(networks: Sequence[ServedNetwork], name: str | None, requirements: Sequence[Requirement]) -> None:
    """Refuse traffic that cannot grow, and requirements on requests whose mix then changes."""
    faults = []
    for network in networks:
        traffic = network.traffic
        assert traffic is not None
        if traffic.trace is not None:
            fault = "trace: expected rate, fps or clients, as a trace cannot grow, found one; state its rate"
            faults += network.about([fault])
        elif traffic.lasts_s == math.inf:
            faults += network.about(["duration: expected how long runs last, found none; state e.g. 60s in the file"])
    grows = [network.name for network in networks if _rate_of(network.traffic) > 0]
    if not grows:
        faults.append("networks: expected one with rate or fps, which can grow, found none")
    elif name is not None and name not in grows:
        faults.append(f'grow: expected a network with rate or fps ({", ".join(grows)}), found "{name}"')
    elif {network.name for network in networks} - ({name} if name else {*grows}):
        faults += [
            f'require: expected a network, as in "{requirement.name}[{name or grows[0]}] ...", because others do not '
            f'grow, found "{requirement.text}"'
            for requirement in requirements
            if requirement.network is None and requirement.name not in SHARES_OF_USE
        ]
    if faults:
        raise InputError(faults)


def grown(networks: Sequence[ServedNetwork], name: str | None, factor: float, durations: int) -> list[ServedNetwork]:
    """The networks with rates that are larger by a factor, in runs of several durations."""

    def own(network: ServedNetwork) -> OwnTraffic:
        traffic, by = network.traffic, factor if name in (None, network.name) else 1.0
        assert traffic is not None
        jitter_s = traffic.jitter_s / by  # the same share of the period
        return replace(
            traffic, lasts_s=traffic.lasts_s * durations, jitter_s=jitter_s,
            rate_per_s=traffic.rate_per_s and traffic.rate_per_s * by,
            frames_per_s=traffic.frames_per_s and traffic.frames_per_s * by,
            count=traffic.count and traffic.count * durations,
        )  # fmt: skip

    return [replace(network, traffic=own(network)) for network in networks]


def saturation_factor(networks: Sequence[ServedNetwork], name: str | None, rates_per_s: Sequence[float]) -> float:
    """The factor beyond which queues grow under any policy, given the rate that saturates the device of each alone.

    Clients take no time here: they wait.
    """
    loads = [_rate_of(network.traffic) / rate for network, rate in zip(networks, rates_per_s, strict=True)]
    growing = sum(load for network, load in zip(networks, loads, strict=True) if name in (None, network.name))
    left = 1.0 - (sum(loads) - growing)
    if left <= 0:
        raise InputError(
            f"rate: expected the networks beside {name} to leave some time free, found that their load "
            f"is {1 - left:.0%}"
        )
    return left / growing


def rate_at(networks: Sequence[ServedNetwork], name: str | None, factor: float) -> float:
    """The sum of the rates that grow, at a factor."""
    return factor * sum(_rate_of(network.traffic) for network in networks if name in (None, network.name))


def expected_requests(networks: Sequence[ServedNetwork]) -> dict[str | None, float]:
    """Requests of each network and of all in a run of the file's duration; of clients, who may be slow, no limit."""
    numbers: dict[str | None, float] = {
        network.name: _rate_of(network.traffic) * network.traffic.lasts_s or math.inf
        for network in networks
        if network.traffic is not None
    }
    return numbers | {None: sum(numbers.values())}
