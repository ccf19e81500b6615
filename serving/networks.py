"""The networks that a device serves, one or several: their file, and their requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from ..formats import AnyPath, InputError, Strict, brief, parse_duration, read_toml
from ..tables.latency import TABLE_FILES, LatencyTable
from ..traffic.clients import RECORDED, Clients, parse_think
from ..traffic.columns import Name
from ..traffic.distributions import Objective
from ..traffic.exits import parse_thresholds
from ..traffic.own import OwnTraffic
from ..traffic.randomness import NETWORKS, stream
from ..traffic.request_columns import parse_slo
from ..traffic.rows import more
from ..traffic.samples import Samples, as_samples, draw_samples, read_samples
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic, prepare
from .admission import Admission, parse_admission
from .designs import NamedTable, check_one_npu
from .inputs import AnyPolicy, AnyTable, AnyThresholds, Requests, as_scheduler, as_table, as_thresholds
from .scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNetwork:
    """A network that a device serves.

    Attributes
    ----------
    name : str
        Its name, as the column ``network`` of a trace has it; empty of the only network of a device, which needs none.
    table : LatencyTable, str or Path
        Its times on the device, or the folder that holds them.
    slo_s : float, Distribution or Shares, optional
        Latency objective of its requests in seconds, where neither they nor the study state one.
    samples : Samples, str or Path, optional
        Confidences and answers that its requests draw from, or their file.
    threshold : Threshold or sequence of Threshold, optional
        Value of the measure at which its samples leave, as :func:`fluidb.serving.serve` takes it.
    share : float
        Its part of the requests that state no network; parts need not sum to 1.
    weight : float
        Its part of the device under ``between=shares``; parts need not sum to 1.
    switch_s : float
        Seconds to load its weights on a lane that ran another network.
    admit : str or Admission, optional
        Which of its requests may wait, e.g. ``"queue:8"``; by default as the policy states it.
    cores : sequence of int, optional
        The cores that serve it, counted from 1, where the table has several; all of them if not stated.
    priority : int, optional
        Its place under ``between=priority``, where the least number goes first.
    traffic : OwnTraffic, optional
        Its own requests; either every network has some, or none.

    Raises
    ------
    InputError
        If the name is none, or a number is out of bounds.
    """

    name: str = ""
    table: AnyTable
    slo_s: Objective | None = None
    samples: Samples | AnyPath | None = None
    threshold: AnyThresholds = None
    share: float = 1.0
    weight: float = 1.0
    switch_s: float = 0.0
    admit: Admission | str | None = None
    cores: Sequence[int] | None = None
    priority: int | None = None
    traffic: OwnTraffic | None = None

    def __post_init__(self) -> None:
        if self.name and not Name().fits(self.name):
            raise InputError(f'networks: name: expected {Name().expected}, found "{self.name}"')
        for key, least, given in (("share", 0, self.share), ("switch_s", 0, self.switch_s)):
            if not least <= given < math.inf:
                raise InputError(f"networks: {self.name}: {key}: expected a number >= 0, found {given:g}")
        if not 0 < self.weight < math.inf:
            raise InputError(f"networks: {self.name}: weight: expected a number > 0, found {self.weight:g}")
        _ = self.limit  # a fault is found now

    @property
    def limit(self) -> Admission | None:
        """The rule of ``admit``."""
        return parse_admission(self.admit, "admit") if isinstance(self.admit, str) else self.admit

    @property
    def latency(self) -> LatencyTable:
        """Its latency table."""
        return as_table(self.table)

    @property
    def key(self) -> dict[str, str]:
        """All that its service depends on beside its table; of a trace and of samples the digests."""
        key = {name: repr(getattr(self, name)) for name in KEPT}
        if self.samples is not None:
            key["samples"] = as_samples(self.samples).digest()
        return key if self.traffic is None else key | {"traffic": self.traffic.key}

    def about(self, faults: Sequence[str]) -> list[str]:
        """Faults, with its name if it has one."""
        return [f'network "{self.name}": {fault}' if self.name else fault for fault in faults]


KEPT = [field.name for field in fields(ServedNetwork) if field.name not in ("table", "samples", "traffic")]
"""Fields whose text says all that they hold."""


def _as_text(value: object) -> object:
    """A number as an option has it; anything else as it is."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class NetworkKeys(Strict):
    """A network in the file of several: :class:`ServedNetwork`, with durations and thresholds as options have them."""

    name: Annotated[str, Field(min_length=1)]
    table: str | None = None
    network: str | None = None  # for a plan, which makes tables of it
    slo: str | None = None
    samples: str | None = None
    threshold: Annotated[str | None, BeforeValidator(_as_text)] = None
    share: Annotated[float, Field(ge=0)] = 1.0
    weight: Annotated[float, Field(gt=0)] = 1.0
    switch: str | None = None
    admit: str | None = None
    cores: list[int] | None = None
    priority: int | None = None
    trace: str | None = None
    rate: Annotated[float, Field(gt=0)] | None = None
    fps: Annotated[float, Field(gt=0)] | None = None
    jitter: str | None = None
    clients: int | None = None
    think: str | None = None
    count: int | None = None

    def served(self, folder: Path, lasts_s: float, table: LatencyTable | None = None) -> ServedNetwork:
        """The network, perhaps with a table in place of its own; paths start from the file's folder."""
        if table is None and self.table is None:
            raise InputError(
                "table: expected the folder of its latency table, found none; state it, or let `fluidb plan` search "
                "the hardware"
            )
        return ServedNetwork(
            name=self.name,
            table=folder / str(self.table) if table is None else table,
            slo_s=None if self.slo is None else parse_slo(self.slo),
            samples=None if self.samples is None else read_samples(folder / self.samples),
            threshold=None if self.threshold is None else parse_thresholds(self.threshold),
            share=self.share,
            weight=self.weight,
            switch_s=0.0 if self.switch in (None, "0") else parse_duration(str(self.switch), "switch"),
            admit=self.admit,
            cores=self.cores,
            priority=self.priority,
            traffic=self._traffic(folder, lasts_s),
        )

    def _traffic(self, folder: Path, lasts_s: float) -> OwnTraffic | None:
        """Its own requests, if it states any."""
        keys = ("trace", "rate", "fps", "jitter", "clients", "think", "count")
        if all(getattr(self, key) is None for key in keys):
            return None
        if self.think is not None and self.clients is None:
            raise InputError("think: expected clients beside it, found none; leave it out")
        think = parse_think(self.think or "0", "think", folder)
        return OwnTraffic(
            trace=None if self.trace is None else folder / self.trace,
            rate_per_s=self.rate,
            frames_per_s=self.fps,
            jitter_s=0.0 if self.jitter in (None, "0") else parse_duration(str(self.jitter), "jitter"),
            clients=None if self.clients is None else Clients(self.clients, *think),
            count=self.count,
            lasts_s=lasts_s,
        )


class NetworksFile(Strict):
    """Several networks as a file, ``fluidb.networks/1``."""

    schema_: Annotated[Literal["fluidb.networks/1"], Field(alias="schema")]
    duration: str | None = None  # of the traffic that networks have for themselves
    networks: Annotated[list[NetworkKeys], Field(min_length=1)]


def check_networks(networks: Sequence[ServedNetwork]) -> None:
    """Refuse no network, two of one name, several without, and shares that say nothing."""
    names = [network.name for network in networks]
    if not names:
        raise InputError("networks: expected at least one, found none")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f'networks: expected every name once, found "{twice}" twice')
    if len(names) > 1 and "" in names:
        raise InputError("networks: expected a name of each where there are several, found one without")
    if not 0 < sum(network.share for network in networks) < math.inf:
        raise InputError("networks: share: expected at least one share above 0, found a sum of 0; state e.g. 1")
    first = {network.priority: network.name for network in reversed(networks)}
    for network in networks:
        if network.priority is not None and first[network.priority] != network.name:
            raise InputError(
                f"networks: priority: expected a number of each network's own, found {network.priority} of "
                f'"{first[network.priority]}" and "{network.name}"'
            )
    idle = [network.name for network in networks if network.traffic is None]
    if 0 < len(idle) < len(networks):
        raise InputError(
            f'networks: expected traffic of every network or of none, found none of "{idle[0]}"; state its trace, '
            "rate, fps or clients"
        )


def read_networks(path: AnyPath, tables: Sequence[LatencyTable] | None = None) -> list[ServedNetwork]:
    """Read the file of several networks.

    Parameters
    ----------
    path : str or Path
        A TOML file, ``fluidb.networks/1``; its paths start from its folder.
    tables : sequence of LatencyTable, optional
        Tables of other hardware, in place of those that the file names.

    Returns
    -------
    list of ServedNetwork
        With their latency tables and samples read.

    Raises
    ------
    InputError
        If the file or a table cannot be read, or a name stands twice; every fault has a line with its key.
    """
    file, networks, faults = read_toml(NetworksFile, path), [], []
    lasts_s = math.inf
    if file.duration is not None:
        try:
            lasts_s = parse_duration(file.duration, "duration")
        except InputError as error:
            raise InputError([f"{path}: {fault}" for fault in error.faults]) from None
    for index, keys in enumerate(file.networks):
        try:
            network = keys.served(Path(path).parent, lasts_s, None if tables is None else tables[index])
            networks.append(replace(network, table=network.latency))
        except InputError as error:
            faults += [f'{path}: networks[{index}] ("{keys.name}"): {fault}' for fault in error.faults]
    if faults:
        raise InputError(faults)
    try:
        check_networks(networks)
        if file.duration is not None and networks[0].traffic is None:
            raise InputError("duration: expected traffic of each network, which it ends, found none; leave it out")
        pairs = zip(file.networks, networks, strict=True)
        check_one_npu([NamedTable(keys.table or keys.name, network.latency, keys.share) for keys, network in pairs])
    except InputError as error:
        raise InputError([f"{path}: {fault}" for fault in error.faults]) from None
    return networks


def _keys_in(path: AnyPath) -> list[NetworkKeys]:
    """The networks of a file, before their tables are read; the folder of a table has one without a name."""
    if Path(path).suffix == ".toml":
        return read_toml(NetworksFile, path).networks
    return [NetworkKeys.model_construct(name="", table=Path(path).name)]


def named_in(path: AnyPath) -> list[str]:
    """The names of the networks of a file, before their tables are read; none of the folder of a table."""
    return [keys.name for keys in _keys_in(path) if keys.name]


def files_of(path: AnyPath) -> list[Path]:
    """The files that a file of networks names, and itself, which an output must not replace; of a folder its tables."""
    files, folder = [Path(path)], Path(path).parent
    for keys in _keys_in(path):
        files += [] if keys.table is None else [folder / keys.table / name for name in TABLE_FILES]
        files += [folder / name for name in (keys.samples, keys.trace) if name is not None]
        if keys.think is not None and keys.think.startswith(RECORDED):
            files.append(folder / keys.think.removeprefix(RECORDED))
    return files


AnyServed = AnyTable | Sequence[ServedNetwork]
"""A latency table, which serves one network, or the networks of a device; or the folder or file of either."""


def as_served(given: AnyServed, threshold: AnyThresholds = None) -> tuple[ServedNetwork, ...]:
    """The networks of a device, with their tables read; ``threshold`` is for the network of a table."""
    if isinstance(given, str | PathLike) and Path(given).suffix == ".toml":
        given = read_networks(given)
    if isinstance(given, LatencyTable | str | PathLike):
        return (ServedNetwork(name="", table=as_table(given), threshold=threshold),)
    if threshold is not None:
        raise InputError("threshold: expected one network, found a file of several; state the threshold of each there")
    check_networks(given)
    networks = tuple(replace(network, table=network.latency) for network in given)
    check_one_npu([NamedTable(network.name, network.latency, network.share) for network in networks])
    return networks


def names_of(networks: Sequence[ServedNetwork]) -> list[str]:
    """The names of networks; none of one that has none."""
    return [network.name for network in networks if network.name]


def scheduler_on(networks: Sequence[ServedNetwork], policy: AnyPolicy) -> Scheduler:
    """The policy of a device: of a network without a name with the batch size of its plan of exits."""
    return as_scheduler(policy, None if networks[0].name else networks[0].latency)


def ends_of(networks: Sequence[ServedNetwork]) -> dict[float, tuple[ServedNetwork, ...]]:
    """The networks where the times of a calibrated engine are at each end of its error, by their factor."""
    return {
        factor: tuple(replace(network, table=network.latency.slower(factor)) for network in networks)
        for factor in networks[0].latency.ends
    }


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
    network: NDArray[np.int64]
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
        return cls((name,), np.zeros(len(traffic), np.int64), (traffic,), traffic, (seed,))

    def first(self, count: int) -> DeviceTraffic:
        """The first requests."""
        return self.at(slice(count))

    def at(self, rows: slice | NDArray[np.int64]) -> DeviceTraffic:
        """Requests in another order; of each network its first ones, in theirs."""
        if isinstance(rows, slice) and rows.stop == len(self):
            return self
        network = self.network[rows]

        def parts() -> Iterator[Traffic]:
            numbers = np.bincount(network, minlength=len(self.names)).tolist()
            return (part.first(number) for part, number in zip(self.parts, numbers, strict=True))

        return replace(self.with_requests(self.whole.at(rows), parts), network=network)

    def with_requests(self, whole: Traffic, parts: Callable[[], Iterable[Traffic]]) -> DeviceTraffic:
        """Other requests of the same networks; the whole is the part of a network that is alone."""
        alone = self.parts[0] is self.whole
        return replace(self, whole=whole, parts=(whole,) if alone else tuple(parts()))

    def part(self, number: int) -> DeviceTraffic:
        """The requests of one network."""
        return DeviceTraffic.of(self.parts[number], self.names[number])

    def sent_by(self, clients: Clients, seed: int) -> DeviceTraffic:
        """The requests, sent by clients in their order: each may be for any network."""
        later = [replace(part.trace, arrival_s=np.full(len(part), np.inf)) for part in self.parts]
        parts = tuple(replace(part, trace=trace) for part, trace in zip(self.parts, later, strict=True))
        return replace(self, parts=parts, whole=clients.send(self.whole, seed))

    def served_at(self, arrival_s: NDArray[np.float64], exits: NDArray[np.int64]) -> DeviceTraffic:
        """The requests with the arrivals and the exits that came about."""

        def came(traffic: Traffic, arrival_s: NDArray[np.float64], exits: NDArray[np.int64]) -> Traffic:
            return replace(traffic, trace=replace(traffic.trace, arrival_s=arrival_s), exits=exits)

        def parts() -> Iterator[Traffic]:
            masks = [self.network == number for number in range(len(self.parts))]
            return (came(part, arrival_s[mask], exits[mask]) for part, mask in zip(self.parts, masks, strict=True))

        return self.with_requests(came(self.whole, arrival_s, exits), parts)


def network_of(trace: Trace, networks: Sequence[ServedNetwork], random: np.random.Generator) -> NDArray[np.int64]:
    """The network of each request, counted from 0: the one that it states, or drawn by shares."""
    if trace.network is None:
        shares = np.array([network.share for network in networks])
        below = np.cumsum(shares / shares.sum())[:-1]
        return np.searchsorted(below, random.random(len(trace)), side="right").astype(np.int64)
    numbers = np.full(len(trace), -1)
    for number, network in enumerate(networks):
        numbers[trace.network == network.name] = number
    if (wrong := np.flatnonzero(numbers < 0)).size:
        known = ", ".join(network.name for network in networks)
        raise InputError(
            f"{trace.source or 'trace'}: row {wrong[0] + 1}: network: expected one of {known}, found "
            f'"{trace.network[wrong[0]]}"{more(wrong.size)}'
        )
    return numbers


def _drawn(trace: Trace, networks: Sequence[ServedNetwork], seed: int) -> tuple[list[int], NDArray[np.int64]]:
    """The seed of what each network draws, and the network of each request."""
    random = stream(seed, NETWORKS)
    return random.integers(10**9, size=len(networks)).tolist(), network_of(trace, networks, random)


def requests_of_each(trace: Trace, networks: Sequence[ServedNetwork], seed: int) -> list[int]:
    """How many requests each network has, as :func:`prepare_requests` draws them."""
    if not networks[0].name:
        return [len(trace)]
    numbers: list[int] = np.bincount(_drawn(trace, networks, seed)[1], minlength=len(networks)).tolist()
    return numbers


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
    seeds, number_of = _drawn(trace, networks, requests.seed)
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
    networks: Sequence[ServedNetwork], number_of: NDArray[np.int64], parts: Sequence[Traffic], trace: Trace,
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
        clients, lasts_s = network.traffic.clients, network.traffic.lasts_s
        ready = 0.0 if clients is None else clients.count + lasts_s * answers_per_s(network.latency)
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


def _think_of(traffic: Traffic) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def merged(network: NDArray[np.int64], values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Values of the requests of each network, in the order of all requests."""
    if len(values) == 1:
        return values[0]
    joined = np.empty(len(network), np.result_type(*values))
    for number, own in enumerate(values):
        joined[network == number] = own
    return joined
