"""The traffic that a plan is to serve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...formats import brief
from ...models import Network
from ...serving.device_traffic import DeviceTraffic, merged
from ...serving.networks import ServedNetwork, as_served
from ...tables.latency import LatencyTable
from ...traffic.arrivals import offline, poisson
from ...traffic.clients import Clients
from ...traffic.distributions import Objective
from ...traffic.measures import Measure, Threshold
from ...traffic.samples import Samples, draw_samples
from ...traffic.trace import Trace
from ...traffic.traffic import Traffic, places, prepare
from .exits import ExitSetting

ALONE = np.zeros(1, np.int64)
"""Exits before the first one of the only network."""


@dataclass(frozen=True)
class PlanTraffic:
    """The traffic that a plan is to serve: Poisson arrivals of a rate, a trace, or clients that wait."""

    rate_per_s: float | None
    trace: Trace | None
    count: int  # requests of a run with a rate, or of clients
    slo_s: Objective | None
    samples: Samples | None
    seed: int  # of the race; fresh runs have the seeds after it
    seeds: int  # fresh runs
    clients: Clients | None = None

    @property
    def measure(self) -> Measure | None:
        """The measure of the samples' thresholds."""
        return None if self.samples is None else self.samples.measure

    @property
    def requests(self) -> int:
        """Requests of a run."""
        return self.count if self.trace is None else len(self.trace)

    @property
    def fresh(self) -> range:
        """Seeds of the fresh runs."""
        return range(self.seed + 1, self.seed + 1 + self.seeds)

    @property
    def names(self) -> list[str]:
        """The names of the networks, if they have some."""
        return []

    def networks_in(self, network: Network) -> Sequence[Network]:
        """The networks that are one behind the other in the network of a problem."""
        return [network]

    @property
    def stated(self) -> Sequence[ServedNetwork]:
        """The networks as a file of networks states them."""
        return ()

    @property
    def samples_of(self) -> list[Samples | None]:
        """The samples of each network."""
        return [self.samples]

    @property
    def measures(self) -> list[Measure | None]:
        """The measure of the samples of each network."""
        return [None if samples is None else samples.measure for samples in self.samples_of]

    @property
    def admits(self) -> bool:
        """Whether a network has its own rule of admission."""
        return False

    @property
    def grows(self) -> bool:
        """Whether more requests may arrive in a second."""
        return self.clients is None

    def served(self, tables: Sequence[LatencyTable]) -> tuple[ServedNetwork, ...]:
        """The networks, on hardware with these latency tables."""
        (table,) = tables
        return as_served(table)

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> JointTraffic:
        """The requests of a run; ``faster``: the factor by which more arrive in a second."""
        trace = self.arrivals(seed, faster)
        if self.samples is not None:
            trace = draw_samples(trace, self.samples.at_exits(setting.kept, [1] * len(setting.kept)), seed)
        traffic = prepare(trace, setting.rates, slo_s=self.slo_s, seed=seed, threshold=setting.thresholds)
        sent = traffic if self.clients is None else self.clients.send(traffic, seed)
        return JointTraffic.of(DeviceTraffic.of(sent), sampled=(self.samples is not None,))

    def arrivals(self, seed: int, faster: float) -> Trace:
        """When requests arrive; of clients all at time 0."""
        if self.clients is not None:
            return offline(self.count)
        trace = self.trace if self.rate_per_s is None else poisson(self.rate_per_s, self.count, seed)
        assert trace is not None
        return replace(trace, arrival_s=trace.arrival_s / faster)


@dataclass(frozen=True, slots=True)
class JointTraffic(Traffic):
    """Requests of a device's networks as if they were of one, in which the exits of one are behind another's."""

    device: DeviceTraffic = field(kw_only=True)
    begins: NDArray[np.int64] = field(kw_only=True)  # (K,), exits before the first one of each network
    sampled: tuple[bool, ...] = field(kw_only=True)  # whether thresholds decide where a network's requests leave

    __repr__ = brief

    @classmethod
    def of(cls, device: DeviceTraffic, begins: NDArray[np.int64] = ALONE, sampled: tuple[bool, ...] = (False,)) -> Self:
        """The requests of a device's networks, by default of one."""
        whole, exits = device.whole, device.whole.exits + begins[device.network]
        own = whole.trace, exits, whole.slo_s, whole.objective_s, whole.origin, whole.think_s
        return cls(*own, device=device, begins=begins, sampled=sampled)

    def at(self, rows: slice | NDArray[np.int64]) -> Self:
        """Some of the requests, in their order."""
        return self.of(self.device.at(rows), self.begins, self.sampled)

    def decided(self, threshold: Threshold | Sequence[Threshold] | None, last: int) -> Self:
        """The same requests, where thresholds of all networks decide who leaves."""
        assert isinstance(threshold, tuple)
        parts = [
            part.decided(threshold[begin : end - 1], end - begin) if sampled else part
            for part, sampled, begin, end in zip(
                self.device.parts, self.sampled, self.begins, [*self.begins[1:], last], strict=True
            )
        ]
        whole = replace(self.device.whole, exits=merged(self.device.network, [part.exits for part in parts]))
        return self.of(replace(self.device, whole=whole, parts=tuple(parts)), self.begins, self.sampled)


def depths_of(
    traffic: JointTraffic, exits: NDArray[np.int64], lasts: Sequence[int], steps: Sequence[int]
) -> NDArray[np.int64]:
    """How deep requests that leave at some exits go into their networks, with numbers of exits and of steps."""
    parts, network = traffic.device.parts, traffic.device.network
    if max(steps) == 1:  # then a depth is an exit
        return exits - traffic.begins[network]
    pairs = zip(parts, steps, strict=True)
    of_each = [most if part.trace.steps is None else part.trace.steps for part, most in pairs]
    runs = merged(network, [np.broadcast_to(runs, len(part)) for part, runs in zip(parts, of_each, strict=True)])
    return places(exits - traffic.begins[network], runs, np.array(lasts)[network])


def surely_sent(traffic: JointTraffic, name: str | None) -> bool:
    """Whether it is known before a run how many requests a network has, or all: not of clients who stop at a time."""
    device = traffic.device
    own = zip(device.names, device.clients, device.stop_s, strict=False)
    return not any(name in (None, other) and clients and stop_s < math.inf for other, clients, stop_s in own)


def of_network(traffic: JointTraffic, name: str | None) -> NDArray[np.bool_] | None:
    """Which requests are of a network; none stands for all."""
    if name is None:
        return None
    device = traffic.device
    mask: NDArray[np.bool_] = device.network == device.names.index(name)
    return mask


def right_share(traffic: JointTraffic, *, early: bool = False) -> float:
    """Share of the requests whose answer at their exit is right; ``early``: at their exit or at one before it.

    Of several networks the mean of those whose answers are known.
    """
    shares = [right_share_of(part, early=early) for part in traffic.device.parts if part.trace.correct is not None]
    return sum(shares) / len(shares)


def right_share_of(traffic: Traffic, *, early: bool = False) -> float:
    """The same of one network."""
    correct = traffic.trace.correct
    assert correct is not None
    if early:
        passed = np.arange(1, correct.shape[1] + 1) <= traffic.exits[:, None]
        return float((correct.astype(np.bool_) & passed).any(axis=1).mean())
    return float(correct[np.arange(len(traffic)), traffic.exits - 1].mean())
