"""The requests of the networks of a device: whose each is, and what each network draws for its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, brief
from ..formats.array_types import Floats, Ints
from ..tables.latency import LatencyTable
from ..traffic.clients import Clients
from ..traffic.randomness import NETWORKS, stream
from ..traffic.rows import more
from ..traffic.samples import as_samples, draw_samples
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic, prepare
from .inputs import Requests, as_thresholds
from .networks import ServedNetwork, check_networks, names_of


@dataclass(frozen=True, slots=True)
class DeviceTraffic:
    """Requests of the networks of a device, ready to be served.

    Attributes
    ----------
    names : tuple of str
        The networks.
    network : (N,) ndarray of int64
        The network of each request, counted from 0.
    parts : tuple of Traffic
        The requests of each network.
    whole : Traffic
        All of them; each exit is one of the request's network.
    seeds : tuple of int
        The seed of what each network drew.
    clients : tuple of int
        Clients of each network, where they have requests of their own and some have clients.
    stop_s : tuple of float
        When they stop to send.
    """

    names: tuple[str, ...]
    network: Ints
    parts: tuple[Traffic, ...]
    whole: Traffic
    seeds: tuple[int, ...] = ()
    clients: tuple[int, ...] = ()
    stop_s: tuple[float, ...] = ()

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.whole)

    @classmethod
    def of(cls, traffic: Traffic | DeviceTraffic, name: str = "", seed: int = 0) -> DeviceTraffic:
        """The requests of one network, or of several as they are."""
        if isinstance(traffic, DeviceTraffic):
            return traffic
        if not isinstance(traffic, Traffic):
            kind = type(traffic).__name__
            raise InputError(f"traffic: expected a trace, or requests that `prepare` made, found {kind}")
        return cls((name,), np.zeros(len(traffic), np.int64), (traffic,), traffic, (seed,))

    def first(self, count: int) -> DeviceTraffic:
        """The first requests."""
        return self.at(slice(count))

    def at(self, rows: slice | Ints) -> DeviceTraffic:
        """Requests in another order; of each network its first ones, in theirs."""
        if isinstance(rows, slice) and rows.stop == len(self):
            return self
        network = self.network[rows]
        numbers = np.bincount(network, minlength=len(self.names)).tolist()
        parts = tuple(part.first(number) for part, number in zip(self.parts, numbers, strict=True))
        return replace(self, whole=self.whole.at(rows), parts=parts, network=network)

    def part(self, number: int) -> DeviceTraffic:
        """The requests of one network."""
        return DeviceTraffic.of(self.parts[number], self.names[number])

    def sent_by(self, clients: Clients, seed: int) -> DeviceTraffic:
        """The requests, sent by clients in their order: each may be for any network."""
        later = [replace(part.trace, arrival_s=np.full(len(part), np.inf)) for part in self.parts]
        parts = tuple(replace(part, trace=trace) for part, trace in zip(self.parts, later, strict=True))
        return replace(self, parts=parts, whole=clients.send(self.whole, seed))

    def served_at(self, arrival_s: Floats, exits: Ints) -> DeviceTraffic:
        """The requests with the arrivals and the exits that came about."""

        def came(traffic: Traffic, arrival_s: Floats, exits: Ints) -> Traffic:
            return replace(traffic, trace=replace(traffic.trace, arrival_s=arrival_s), exits=exits)

        masks = [self.network == number for number in range(len(self.parts))]
        parts = tuple(came(part, arrival_s[mask], exits[mask]) for part, mask in zip(self.parts, masks, strict=True))
        return replace(self, whole=came(self.whole, arrival_s, exits), parts=parts)


def network_of(trace: Trace, networks: Sequence[ServedNetwork], random: np.random.Generator) -> Ints:
    """The network of each request, counted from 0: the one that it states, or drawn by shares."""
    if trace.network is None:
        shares = np.array([network.share for network in networks])
        below = np.cumsum(shares / shares.sum())[:-1]
        return np.searchsorted(below, random.random(len(trace)), side="right").astype(np.int64)
    numbers = np.full(len(trace), -1)
    for number, network in enumerate(networks):
        numbers[trace.network == network.name] = number
    if (wrong := np.flatnonzero(numbers < 0)).size:
        known = ", ".join(names_of(networks)) or "several networks, which a file states"
        raise InputError(
            f"{trace.source or 'trace'}: row {wrong[0] + 1}: network: expected one of {known}, found "
            f'"{trace.network[wrong[0]]}"{more(wrong.size)}'
        )
    return numbers


def draw_networks(trace: Trace, networks: Sequence[ServedNetwork], seed: int) -> tuple[list[int], Ints]:
    """The seed of what each network draws, and the network of each request."""
    random = stream(seed, NETWORKS)
    return random.integers(10**9, size=len(networks)).tolist(), network_of(trace, networks, random)


def prepare_requests(networks: Sequence[ServedNetwork], requests: Requests, trace: Trace | None) -> DeviceTraffic:
    """Make requests ready to be served by the networks of a device.

    Each of several networks draws its requests, exits, samples and objectives from random streams of its own.

    Parameters
    ----------
    networks : sequence of ServedNetwork
        The networks.
    requests : Requests
        What requests are given beside what their networks state.
    trace : Trace or None
        The requests that were read, without samples; where there are none, networks have traffic of their own.

    Returns
    -------
    DeviceTraffic
        The requests.

    Raises
    ------
    InputError
        If a request states a network that there is not, or a part does not fit its network.
    """
    check_networks(networks)
    own = networks[0].traffic is not None
    if own and (trace is not None or requests.clients is not None):
        raise InputError(
            "networks: expected none with traffic of its own beside a trace, rates or clients, found "
            f'"{networks[0].name}"; leave out one of the two (serve-sim, compare and capacity take traffic of its own)'
        )
    if trace is None:
        return _with_own_traffic(networks, requests) if own else prepare_requests(networks, requests, requests.read())
    if not networks[0].name:  # what the only network draws has the seed of the study
        alone = _prepared(networks[0], requests, trace, requests.seed)
        if requests.clients is not None:
            alone = requests.clients.send(alone, requests.seed)
        return DeviceTraffic.of(alone, seed=requests.seed)
    seeds, number_of = draw_networks(trace, networks, requests.seed)
    parts = _of_each(
        networks,
        lambda number: _prepared(
            networks[number], requests, replace(trace.at(np.flatnonzero(number_of == number)), network=None),
            seeds[number],
        ),
    )  # fmt: skip
    traffic = _joined(networks, number_of, parts, trace, seeds)
    return traffic if requests.clients is None else traffic.sent_by(requests.clients, requests.seed)


def _of_each(networks: Sequence[ServedNetwork], make: Callable[[int], Traffic]) -> list[Traffic]:
    """What is made for each network by its number; the faults of all."""
    parts, faults = [], []
    for number, network in enumerate(networks):
        try:
            parts.append(make(number))
        except InputError as error:
            faults += network.about(error.faults)
    if faults:
        raise InputError(faults)
    return parts


def _joined(
    networks: Sequence[ServedNetwork], number_of: Ints, parts: Sequence[Traffic], trace: Trace,
    seeds: Sequence[int],
) -> DeviceTraffic:  # fmt: skip
    """The requests of all networks, which ``trace`` has in their order."""

    def joined(pick: Callable[[Traffic], Any]) -> NDArray[Any]:
        return merged(number_of, [pick(part) for part in parts])

    names = tuple(network.name for network in networks)
    origin = "; ".join(f"{name}: {part.origin}" for name, part in zip(names, parts, strict=True))
    named = replace(trace, network=np.array(names)[number_of])
    whole = Traffic(named, joined(lambda part: part.exits), joined(lambda part: part.slo_s), None, origin)
    return DeviceTraffic(names, number_of, tuple(parts), whole, tuple(seeds))


def _with_own_traffic(networks: Sequence[ServedNetwork], requests: Requests) -> DeviceTraffic:
    """The requests of networks with traffic of their own: in order of arrival, and then those that clients send."""
    seeds: list[int] = stream(requests.seed, NETWORKS).integers(10**9, size=len(networks)).tolist()

    def own(number: int) -> Traffic:
        network, seed = networks[number], seeds[number]
        assert network.traffic is not None
        clients, lasts_s, ready = network.traffic.clients, network.traffic.lasts_s, 0.0
        if clients is not None and network.traffic.count is None:
            ready = clients.count + lasts_s * answers_per_s(network.latency)
        trace = network.traffic.draw(seed, ready)
        traffic = _prepared(network, requests, trace, seed)
        if clients is None:
            return traffic
        traffic = clients.send(traffic, seed)
        if traffic.think_s is not None and (first_s := traffic.think_s[: clients.count].max()) > lasts_s:
            raise InputError(
                f"think: expected every client's first request within {lasts_s:g} s, found one at {first_s:g} s; state "
                "a longer duration"
            )
        return traffic

    parts = _of_each(networks, own)
    clients = tuple(part.clients for part in parts)
    arrival_s = np.concatenate([part.trace.arrival_s for part in parts])
    order = np.argsort(arrival_s, kind="stable")
    number_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]
    ids = [np.flatnonzero(number_of == number) for number in range(len(parts))]
    parts = [
        replace(part, trace=replace(part.trace, request_id=own_ids)) for part, own_ids in zip(parts, ids, strict=True)
    ]
    whole = Trace(np.arange(len(order)), arrival_s[order])
    if any(part.trace.admitted_with is not None for part in parts):
        firsts = [own_ids[part.trace.firsts] for part, own_ids in zip(parts, ids, strict=True)]
        whole = replace(whole, admitted_with=merged(number_of, firsts))
    traffic = _joined(networks, number_of, parts, whole, seeds)
    if not any(clients):
        return traffic
    first_s, later_s = zip(*map(_think_of, parts), strict=True)
    think_s = np.concatenate([*first_s, merged(number_of, later_s)])
    stop_s = tuple(network.traffic.lasts_s for network in networks if network.traffic is not None)
    return replace(traffic, whole=replace(traffic.whole, think_s=think_s), clients=clients, stop_s=stop_s)


def _think_of(traffic: Traffic) -> tuple[Floats, Floats]:
    """For how long clients think before their first requests, and after each request; without clients 0."""
    think_s = np.zeros(len(traffic)) if traffic.think_s is None else traffic.think_s
    return think_s[: traffic.clients], think_s[traffic.clients :]


def answers_per_s(table: LatencyTable) -> float:
    """The most requests of a network that a device can let pass their first stage in a second."""
    first_s = table.arrays()[..., 0, 1, 1:]
    return table.lanes * float((np.arange(1, table.b_max + 1) / first_s).max())


def _prepared(network: ServedNetwork, requests: Requests, trace: Trace, seed: int) -> Traffic:
    """The requests of one network, ready to be served."""
    table, drawn = network.latency, ""
    given = requests.samples if network.samples is None else network.samples
    if given is not None:
        samples = as_samples(given)
        trace = draw_samples(trace, samples, seed)
        drawn = f" of {samples.source or 'samples'}, seed {seed}"
    traffic = prepare(
        trace, [exit_.rate for exit_ in table.exits],
        slo_s=requests.slo_s if network.slo_s is None else network.slo_s, seed=seed,
        threshold=as_thresholds(network.threshold, table, trace), predict_depth=requests.predict_depth,
    )  # fmt: skip
    return replace(traffic, origin=f"{traffic.origin}{drawn}")


def merged(network: Ints, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Values of the requests of each network, in the order of all requests."""
    joined = np.empty(len(network), np.result_type(*values))
    for number, own in enumerate(values):
        if len(own) == len(network):
            return own  # all requests are for one network
        joined[network == number] = own
    return joined
