"""Several networks on one device: their file, their requests, and the replay of all together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..formats import AnyPath, InputError, Strict, brief, first_rows, parse_duration, read_toml
from ..tables.latency import LatencyTable
from ..traffic.columns import Name
from ..traffic.distributions import Objective
from ..traffic.exits import parse_thresholds
from ..traffic.randomness import NETWORKS, stream
from ..traffic.request_columns import parse_slo
from ..traffic.rows import more
from ..traffic.samples import Samples, draw_samples, read_samples
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic
from .event_loop import Record, RequestArrays
from .inputs import AnyPolicy, AnyTable, AnyThresholds, Requests, as_scheduler, as_table, as_thresholds
from .outcome import Outcome, Replay
from .replay import Case, case_of, cut_off, play
from .scheduler import Scheduler
from .terms import ON_DEADLINE, terms_of
from .turns import BETWEEN, FCFS, KIND, SHARED, networks_of, save


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNetwork:
    """One of several networks that a device serves.

    Attributes
    ----------
    name : str
        Its name, as the column ``network`` of a trace has it.
    table : LatencyTable, str or Path
        Its times on the device, or the folder that holds them.
    slo_s : float, Distribution or Shares, optional
        Latency objective of its requests in seconds, where neither they nor the study state one.
    samples : Samples, str or Path, optional
        Confidences and answers that its requests draw from, or their file.
    threshold : Threshold or sequence of Threshold, optional
        Confidence or entropy at which its samples leave, as :func:`fluidb.serving.serve` takes it.
    share : float
        Its part of the requests that state no network; parts need not sum to 1.
    weight : float
        Its part of the device under ``between=shares``, likewise.
    switch_s : float
        Seconds to load its weights on a lane that ran another network.
    cores : sequence of int, optional
        The cores that serve it, counted from 1, where the table has several; all of them if not stated.

    Raises
    ------
    InputError
        If the name is none, or a number is out of bounds.
    """

    name: str
    table: AnyTable
    slo_s: Objective | None = None
    samples: Samples | AnyPath | None = None
    threshold: AnyThresholds = None
    share: float = 1.0
    weight: float = 1.0
    switch_s: float = 0.0
    cores: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not Name().fits(self.name):
            raise InputError(f'networks: name: expected {Name().expected}, found "{self.name}"')
        for key, least, given in (("share", 0, self.share), ("switch_s", 0, self.switch_s)):
            if not least <= given < math.inf:
                raise InputError(f"networks: {self.name}: {key}: expected a number >= 0, found {given:g}")
        if not 0 < self.weight < math.inf:
            raise InputError(f"networks: {self.name}: weight: expected a number > 0, found {self.weight:g}")


class NetworkKeys(Strict):
    """A network in the file of several: :class:`ServedNetwork`, with durations and thresholds as options have them."""

    name: str
    table: str
    slo: str | None = None
    samples: str | None = None
    threshold: str | None = None
    share: Annotated[float, Field(ge=0)] = 1.0
    weight: Annotated[float, Field(gt=0)] = 1.0
    switch: str | None = None
    cores: list[int] | None = None

    def network(self, folder: Path) -> ServedNetwork:
        """The network; paths start from the file's folder."""
        return ServedNetwork(
            name=self.name,
            table=folder / self.table,
            slo_s=None if self.slo is None else parse_slo(self.slo),
            samples=None if self.samples is None else read_samples(folder / self.samples),
            threshold=None if self.threshold is None else parse_thresholds(self.threshold),
            share=self.share,
            weight=self.weight,
            switch_s=0.0 if self.switch in (None, "0") else parse_duration(str(self.switch), "switch"),
            cores=self.cores,
        )


class NetworksFile(Strict):
    """Several networks as a file, ``fluidb.networks/1``."""

    schema_: Annotated[Literal["fluidb.networks/1"], Field(alias="schema")]
    networks: Annotated[list[NetworkKeys], Field(min_length=1)]


def check_networks(networks: Sequence[ServedNetwork]) -> None:
    """Refuse no network, two of one name, and shares that say nothing."""
    names = [item.name for item in networks]
    if not names:
        raise InputError("networks: expected at least one, found none")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f'networks: expected every name once, found "{twice}" twice')
    if not 0 < sum(item.share for item in networks) < math.inf:
        raise InputError("networks: share: expected shares of which one is above 0, found a sum of 0; state e.g. 1")


def read_networks(path: AnyPath) -> list[ServedNetwork]:
    """Read the file of several networks.

    Parameters
    ----------
    path : str or Path
        A TOML file, ``fluidb.networks/1``; its paths start from its folder.

    Returns
    -------
    list of ServedNetwork
        With their latency tables and samples read.

    Raises
    ------
    InputError
        If the file or a table cannot be read, or a name stands twice; every fault has a line with its key.
    """
    file, found, faults = read_toml(NetworksFile, path), [], []
    for index, keys in enumerate(file.networks):
        try:
            network = keys.network(Path(path).parent)
            found.append(replace(network, table=as_table(network.table)))
        except InputError as error:
            faults += [f'{path}: networks[{index}] ("{keys.name}"): {fault}' for fault in error.faults]
    if faults:
        raise InputError(faults)
    try:
        check_networks(found)
    except InputError as error:
        raise InputError([f"{path}: {fault}" for fault in error.faults]) from None
    return found


@dataclass(frozen=True, slots=True)
class NetworksTraffic:
    """Requests of several networks, ready to be served.

    Attributes
    ----------
    names : tuple of str
        The networks.
    network : (N,) ndarray of int64
        The network of each request, counted from 0.
    parts : tuple of Traffic
        The requests of each network.
    whole : Traffic
        All of them; exits are those of their networks.
    """

    names: tuple[str, ...]
    network: NDArray[np.int64]
    parts: tuple[Traffic, ...]
    whole: Traffic

    __repr__ = brief

    def first(self, count: int) -> NetworksTraffic:
        """The first requests; each network must have one."""
        network = self.network[:count]
        numbers = np.bincount(network, minlength=len(self.names)).tolist()
        parts = tuple(part.first(number) for part, number in zip(self.parts, numbers, strict=True))
        return replace(self, network=network, parts=parts, whole=self.whole.first(count))


def network_of(trace: Trace, networks: Sequence[ServedNetwork], random: np.random.Generator) -> NDArray[np.int64]:
    """The network of each request, counted from 0: the one that it states, or drawn by shares."""
    if trace.network is None:
        shares = np.array([item.share for item in networks])
        below = np.cumsum(shares / shares.sum())[:-1]
        return np.searchsorted(below, random.random(len(trace)), side="right").astype(np.int64)
    found = np.full(len(trace), -1)
    for number, item in enumerate(networks):
        found[trace.network == item.name] = number
    if (wrong := np.flatnonzero(found < 0)).size:
        known = ", ".join(item.name for item in networks)
        raise InputError(
            f"{trace.source or 'trace'}: row {wrong[0] + 1}: network: expected one of {known}, found "
            f'"{trace.network[wrong[0]]}"{more(wrong.size)}'
        )
    return found


def prepare_networks(networks: Sequence[ServedNetwork], requests: Requests, trace: Trace) -> NetworksTraffic:
    """Make requests ready to be served by several networks.

    Each network draws its exits, samples and objectives from random streams of its own.

    Parameters
    ----------
    networks : sequence of ServedNetwork
        The networks.
    requests : Requests
        What requests are given beside what their networks state.
    trace : Trace
        The requests that were read.

    Returns
    -------
    NetworksTraffic
        The requests.

    Raises
    ------
    InputError
        If a request states a network that there is not, a network has no request, or a part does not fit its network.
    """
    check_networks(networks)
    random = stream(requests.seed, NETWORKS)
    seeds = random.integers(10**9, size=len(networks)).tolist()
    network, parts, faults = network_of(trace, networks, random), [], []
    for number, item in enumerate(networks):
        here = np.flatnonzero(network == number)
        if not here.size:
            faults.append(f'networks: expected a request of every network, found none of "{item.name}"')
            continue
        try:
            parts.append(_own_traffic(item, requests, replace(trace.at(here), network=None), seeds[number]))
        except InputError as error:
            faults += [f'network "{item.name}": {fault}' for fault in error.faults]
    if faults:
        raise InputError(faults)

    def joined(pick: Callable[[Traffic], Any]) -> NDArray[Any]:
        return merged(network, [pick(part) for part in parts])

    names = tuple(item.name for item in networks)
    origin = "; ".join(f"{name}: {part.origin}" for name, part in zip(names, parts, strict=True))
    named = replace(trace, network=np.array(names)[network])
    whole = Traffic(named, joined(lambda part: part.exits), joined(lambda part: part.slo_s), None, origin)
    if requests.clients is not None:
        whole = requests.clients.send(whole, requests.seed)
        parts = [replace(part, trace=replace(part.trace, arrival_s=np.full(len(part), np.inf))) for part in parts]
    return NetworksTraffic(names, network, tuple(parts), whole)


def _own_traffic(item: ServedNetwork, requests: Requests, trace: Trace, seed: int) -> Traffic:
    """The requests of one network, ready to be served."""
    table, drawn = as_table(item.table), ""
    given = requests.samples if item.samples is None else item.samples
    if given is not None:
        samples = given if isinstance(given, Samples) else read_samples(given)
        trace = draw_samples(trace, samples, seed)
        drawn = f" of {samples.source or 'samples'}, seed {seed}"
    slo_s = requests.slo_s if item.slo_s is None else item.slo_s
    own = replace(requests, trace=trace, samples=None, slo_s=slo_s, seed=seed, clients=None)
    found = own.traffic(trace, [row.rate for row in table.exits], as_thresholds(item.threshold, table, trace))
    return replace(found, origin=f"{found.origin}{drawn}")


def merged(network: NDArray[np.int64], values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Values of the requests of each network, in the order of all requests."""
    found = np.empty(len(network), np.result_type(*values))
    for number, own in enumerate(values):
        found[network == number] = own
    return found


@dataclass(frozen=True, slots=True)
class NetworksReplay(Outcome):
    """Outcome of a simulation of several networks.

    Attributes
    ----------
    names : tuple of str
        The networks.
    network : (N,) ndarray of int64
        The network of each request, counted from 0.
    traffic : Traffic
        The requests that arrived; exits are those of their networks.
    parts : tuple of Replay
        The outcome of the requests of each network, and the use of the device by its runs.
    between : str
        The rule between networks: ``fcfs``, ``edf`` or ``shares``.
    start_s, finish_s, stalled_s, batch, until_s, lanes, offered, on_deadline, left_s
        Of all requests, as in :class:`Replay`.
    """

    names: tuple[str, ...]
    network: NDArray[np.int64]
    traffic: Traffic
    parts: tuple[Replay, ...]
    between: str
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    stalled_s: NDArray[np.float64]
    batch: NDArray[np.int64]
    until_s: float
    lanes: int
    offered: Traffic | None
    on_deadline: str
    left_s: NDArray[np.float64] | None
    refused: NDArray[np.bool_] | None = None

    __repr__ = brief
    _repr_html_ = first_rows

    @property
    def right(self) -> NDArray[Any] | None:
        """Whether the answer of each request is right, or its score; ``None`` if that is not known of a network."""
        known = [right for part in self.parts if (right := part.right) is not None]
        return merged(self.network, known) if len(known) == len(self.parts) else None

    @property
    def depths(self) -> NDArray[np.int64]:
        """Depth of each request in its network."""
        return merged(self.network, [part.depths for part in self.parts])

    def columns(self) -> dict[str, NDArray[Any]]:
        """Outcome of every request as columns, as :meth:`Replay.columns`, with its network."""
        parts = [part.columns() for part in self.parts]
        shared = [name for name in parts[0] if all(name in part for part in parts)]
        found = {name: merged(self.network, [part[name] for part in parts]) for name in shared}
        return found | {"network": np.array(self.names)[self.network]}


def _kinds(table: LatencyTable) -> tuple[list[int], float] | None:
    """What tables of the same cores have alike."""
    return None if table.cores is None else (table.cores.of, table.cores.contention)


def _pinned_faults(item: ServedNetwork, table: LatencyTable) -> list[str]:
    """Faults of the cores that are to serve a network."""
    cores, found = list(item.cores or []), "none"
    if table.cores is None:
        return [f'network "{item.name}": cores: expected none where the latency table has no cores, found some']
    wrong = [number for number in cores if not 1 <= number <= table.lanes]
    if cores and not wrong and len(set(cores)) == len(cores):
        return []
    if cores:
        found = str(wrong[0]) if wrong else "one twice"
    return [f'network "{item.name}": cores: expected some of 1 to {table.lanes}, each once, found {found}']


def _check_device(networks: Sequence[ServedNetwork], tables: Sequence[LatencyTable], scheduler: Scheduler) -> None:
    """Refuse tables of several devices, and what only one network can have."""
    first, faults = tables[0], []
    for item, table in zip(networks, tables, strict=True):
        if (table.platform, table.lanes) != (first.platform, first.lanes):
            faults.append(
                f'network "{item.name}": expected a latency table of {first.platform}, as "{networks[0].name}" has, '
                f"found one of {table.platform}"
            )
        elif _kinds(table) != _kinds(first):
            faults.append(
                f'network "{item.name}": expected a latency table of the same cores as "{networks[0].name}" has, found '
                "other cores; make both with the same --cores"
            )
        if item.cores is not None:
            faults += _pinned_faults(item, table)
        if table.states is not None and len(table.states) > 1:
            faults.append(
                f'network "{item.name}": expected a latency table without states, which the device has for one network '
                "only, found some"
            )
        if table.measured is not None:
            faults.append(
                f'network "{item.name}": expected a latency table without the error of a calibrated engine, whose ends '
                "are computed for one network only, found one"
            )
    if scheduler.policy.thresholds:
        faults.append(
            f"policy {scheduler.spec}: expected one that sets no thresholds where several networks are served; choose "
            "e.g. fluid"
        )
    if scheduler.admit is not None:
        faults.append(f"policy {scheduler.spec}: admit: expected one network, found several; leave it out")
    if faults:
        raise InputError(faults)


def simulate_networks(
    networks: Sequence[ServedNetwork],
    traffic: NetworksTraffic,
    policy: AnyPolicy,
    *,
    until_s: float = math.inf,
    progress: Callable[[int, int], None] | None = None,
) -> NetworksReplay:
    """Serve the requests of several networks on one device.

    A policy serves the queue of each network; its rule ``between``, ``fcfs`` if it states none, says whose turn it is.

    Parameters
    ----------
    networks : sequence of ServedNetwork
        The networks.
    traffic : NetworksTraffic
        Their requests; see :func:`prepare_networks`.
    policy : Scheduler or str
        The policy, e.g. ``"fluid:between=edf"``.
    until_s : float
        Stop then; requests that arrived and have not returned stay unfinished.
    progress : callable, optional
        Called with the requests that were served, and their number.

    Returns
    -------
    NetworksReplay
        The outcome of every request.

    Raises
    ------
    InputError
        If tables are of several devices, a network has no request in time, or the policy broke its contract.
    """
    scheduler, tables = as_scheduler(policy), [as_table(item.table) for item in networks]
    _check_device(networks, tables, scheduler)
    rule, dispatch = scheduler.between or FCFS, scheduler.dispatch or SHARED
    scheduler = replace(scheduler, between=None)
    offered = traffic
    if traffic.whole.think_s is None:
        arrived = int(np.searchsorted(traffic.whole.trace.arrival_s, until_s, side="left"))
        if len(set(traffic.network[:arrived].tolist())) < len(networks):
            raise InputError(f"until: expected a time after the first arrival of every network, found {until_s:g} s")
        offered = traffic.first(arrived)
    cases = []
    for item, table, part in zip(networks, tables, offered.parts, strict=True):
        try:
            cases.append(case_of(table, part, as_scheduler(scheduler, table)))
        except InputError as error:
            raise InputError([f'network "{item.name}": {fault}' for fault in error.faults]) from None
    return _play(networks, offered, cases, (rule, dispatch), until_s, progress)


def _play(
    networks: Sequence[ServedNetwork],
    offered: NetworksTraffic,
    cases: Sequence[Case],
    rules_between: tuple[int, int],
    until_s: float,
    progress: Callable[[int, int], None] | None,
) -> NetworksReplay:
    """Run the event loop, and take its outcome apart."""
    network, scheduler = offered.network, cases[0].scheduler

    columns = zip(*(case.work.requests for case in cases), strict=True)
    requests: Any = cases[0].work.requests._make(merged(network, column) for column in columns)
    work = RequestArrays(requests, merged(network, [case.work.exit_of for case in cases]), np.zeros((0, 0)))
    b_max = max(case.rules.b_max for case in cases)
    terms = terms_of(requests, offered.whole.slo_s, offered.whole.think_s, scheduler.on_deadline, None, b_max)
    cores, lanes = cases[0].table.cores, cases[0].lanes
    serves = [[item.cores is None or k + 1 in item.cores for k in range(lanes)] for item in networks]
    shared = networks_of(
        *rules_between, network, [case.device for case in cases], [case.rules for case in cases],
        [item.weight for item in networks], [item.switch_s for item in networks],
        [0] * lanes if cores is None else cores.of, serves,
    )  # fmt: skip
    rules = cases[0].rules._replace(b_max=b_max)
    run = play(
        scheduler, work, cases[0].device, rules, cases[0].lanes, until_s, (0, 0), progress, terms=terms, networks=shared
    )
    save(shared, run.clock)
    sent = int(run.clock.arrived)
    traffic = offered.first(sent)
    trace = replace(traffic.whole.trace, arrival_s=requests.arrival_s[:sent])
    parts = []
    for number, case in enumerate(cases):
        here = np.flatnonzero(network[:sent] == number)
        if not here.size:
            raise InputError(
                f'networks: expected a request of every network, sent was none of "{offered.names[number]}"'
            )
        parts.append(
            _part(case, number, here, traffic.parts[number], shared, run.record, work, terms, run.state, until_s)
        )
    exits = merged(traffic.network, [part.traffic.exits for part in parts])
    return NetworksReplay(
        traffic.names, traffic.network, replace(traffic.whole, trace=trace, exits=exits), tuple(parts),
        BETWEEN[rules_between[0]],
        requests.start_s[:sent], requests.finish_s[:sent], requests.stalled_s[:sent], requests.batch[:sent], until_s,
        cases[0].lanes, traffic.whole, ON_DEADLINE[scheduler.on_deadline],
        terms.left_s[:sent] if scheduler.on_deadline else None,
    )  # fmt: skip


def _part(
    case: Case, number: int, here: NDArray[np.int64], offered: Traffic, shared: Any, record: Record,
    work: RequestArrays, terms: Any, state: Any, until_s: float,
) -> Replay:  # fmt: skip
    """The replay of one network."""
    served: Any = work.requests
    cut = cut_off(state, served, case.device, until_s, number, shared.lanes[KIND])
    trace = replace(offered.trace, arrival_s=served.arrival_s[here])
    exits = np.minimum(work.exit_of[here], len(case.table.exits))
    own, scheduler = shared.records[number], case.scheduler
    shape = case.device.time_s.shape
    launches = record.launches.reshape(-1)[shared.starts[0, number] : shared.starts[0, number + 1]].reshape(shape)
    return Replay(
        replace(offered, trace=trace, exits=exits), case.table, served.start_s[here], served.finish_s[here],
        served.stalled_s[here], served.preempted[here], case.segments, served.variant[here], served.batch[here],
        launches, cut.launches, int(own.preemptions), int(own.calls),
        int(own.calls) * scheduler.call_s - cut.call_s, until_s, case.lanes, float(own.overhead_s) - cut.overhead_s,
        None, offered, ON_DEADLINE[scheduler.on_deadline], terms.left_s[here] if scheduler.on_deadline else None,
    )  # fmt: skip
