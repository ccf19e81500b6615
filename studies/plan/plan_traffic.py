"""The traffic that a plan is to serve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from ...formats import brief
from ...formats.array_types import Bools, Ints
from ...models import Network
from ...serving.device_traffic import DeviceTraffic, merged, prepare_requests
from ...serving.inputs import Requests
from ...serving.networks import ServedNetwork, names_of
from ...tables.latency import LatencyTable
from ...traffic.arrivals import offline, poisson
from ...traffic.clients import Clients
from ...traffic.distributions import Objective
from ...traffic.measures import Measure, Threshold
from ...traffic.samples import Samples, as_samples
from ...traffic.trace import Trace
from ...traffic.traffic import Traffic, places
from .exits import ExitSetting


class ArrivalWords(NamedTuple):
    """What a fault says where not exactly one thing states when requests arrive."""

    where: str
    expected: str
    none: str


ALONE = ArrivalWords("rate", "a rate, a trace or clients", "none of them")
"""Of the only network."""

SHARED = ArrivalWords("networks", "a trace or a rate", "none")
"""Of the networks of a file."""


@dataclass(frozen=True)
class PlanTraffic:
    """The traffic that a plan is to serve: Poisson arrivals of a rate, a trace, clients that wait, or each network's.

    The only network of a plan has no name.
    """

    rate_per_s: float | None
    trace: Trace | None
    count: int  # requests of a run with a rate, or of clients
    slo_s: Objective | None
    seed: int  # of the race; fresh runs have the seeds after it
    seeds: int  # fresh runs
    clients: Clients | None = None
    given: tuple[ServedNetwork, ...] = ()  # as they are stated, with tables of some hardware, for their exits
    models: tuple[Network, ...] = ()

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
        return names_of(self.given)

    @cached_property
    def samples_of(self) -> list[Samples | None]:
        """The samples of each network."""
        return [None if network.samples is None else as_samples(network.samples) for network in self.given]

    @property
    def measures(self) -> list[Measure | None]:
        """The measure of the samples of each network."""
        return [None if samples is None else samples.measure for samples in self.samples_of]

    @property
    def measure(self) -> Measure | None:
        """The measure of all samples' thresholds, if they have one."""
        measures = {measure.name: measure for measure in self.measures if measure is not None}
        return next(iter(measures.values())) if len(measures) == 1 else None

    @property
    def admits(self) -> bool:
        """Whether a network has its own rule of admission."""
        return any(network.limit for network in self.given)

    @property
    def own(self) -> bool:
        """Whether each network has requests of its own."""
        return self.given[0].traffic is not None

    @property
    def grows(self) -> bool:
        """Whether more requests may arrive in a second; ``capacity`` says how far traffic of their own may grow."""
        return self.clients is None and not self.own

    def faults(self, words: ArrivalWords) -> list[str]:
        """A fault unless exactly one thing states when requests arrive."""
        given = {"rate": self.rate_per_s, "trace": self.trace, "clients": self.clients}
        stated = [name for name, value in given.items() if value is not None]
        if len(stated) + self.own == 1:
            return []
        expected = "neither trace nor rate beside traffic of their own" if self.own else words.expected
        return [f"{words.where}: expected {expected}, found {' and '.join(stated) or words.none}"]

    def served(self, tables: Sequence[LatencyTable]) -> tuple[ServedNetwork, ...]:
        """The networks, on hardware with these latency tables."""
        return tuple(
            replace(network, table=table, samples=None, threshold=None)
            for network, table in zip(self.given, tables, strict=True)
        )

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> JointTraffic:
        """The requests of a run; ``faster``: the factor by which more arrive in a second."""
        parts, networks = setting.of_each, []
        each = zip(self.given, parts, self.samples_of, self.measures, strict=True)
        for network, part, samples, measure in each:
            table = network.latency
            own = replace(network, table=table.model_copy(update={"exits": part.exits(table.exits, measure)}))
            if samples is not None:
                here = samples.at_exits(part.kept, [1] * len(part.kept))
                own = replace(own, samples=here, threshold=part.thresholds)
            networks.append(own)
        requests = Requests(slo_s=self.slo_s, seed=seed, clients=self.clients)
        device = prepare_requests(networks, requests, None if self.own else self._arrivals(seed, faster))
        begins = np.cumsum([0, *(len(part.kept) + 1 for part in parts[:-1])])
        return JointTraffic.of(device, begins, tuple(samples is not None for samples in self.samples_of))

    def _arrivals(self, seed: int, faster: float) -> Trace:
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
    begins: Ints = field(kw_only=True)  # (K,), exits before the first one of each network
    sampled: tuple[bool, ...] = field(kw_only=True)  # whether thresholds decide where a network's requests leave

    __repr__ = brief

    @classmethod
    def of(cls, device: DeviceTraffic, begins: Ints, sampled: tuple[bool, ...]) -> Self:
        """The requests of a device's networks."""
        whole, exits = device.whole, device.whole.exits + begins[device.network]
        own = whole.trace, exits, whole.slo_s, whole.objective_s, whole.origin, whole.think_s
        return cls(*own, device=device, begins=begins, sampled=sampled)

    def at(self, rows: slice | Ints) -> Self:
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


def depths_of(traffic: JointTraffic, exits: Ints, lasts: Sequence[int], steps: Sequence[int]) -> Ints:
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


def of_network(traffic: JointTraffic, name: str | None) -> Bools | None:
    """Which requests are of a network; none stands for all."""
    if name is None:
        return None
    device = traffic.device
    mask: Bools = device.network == device.names.index(name)
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
