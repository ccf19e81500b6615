"""The replay of several networks on one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, brief, first_rows
from ..tables.latency import LatencyTable
from ..traffic.traffic import Traffic
from .admission import Admission
from .inputs import AnyPolicy, as_scheduler, as_table
from .networks import NetworksTraffic, ServedNetwork, merged
from .outcome import Outcome, Replay, Runs
from .replay import Case, LoopRun, case_of, cut_off, play, runs_of
from .scheduler import Scheduler
from .state import BETWEEN, FCFS, SHARED, Networks, OneNetwork, RequestArrays, networks_of, times_of
from .terms import ON_DEADLINE, Terms, terms_of


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
    start_s, finish_s, stalled_s, batch, until_s, lanes, offered, on_deadline, left_s, refused
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
    def by_network(self) -> Sequence[Replay]:
        """The replay of each network."""
        return self.parts

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
    if scheduler.policy.thresholds:
        faults.append(
            f"policy {scheduler.spec}: expected one that sets no thresholds where several networks are served; choose "
            "e.g. fluid"
        )
    if faults:
        raise InputError(faults)


@dataclass(frozen=True, slots=True)
class NetworksCase:
    """Requests of several networks under a policy, as the event loop takes them; it can be played once."""

    offered: NetworksTraffic
    cases: tuple[Case, ...]  # of each network alone
    between: int
    work: RequestArrays
    admission: tuple[Admission, ...]  # of each network; empty if all requests are admitted
    terms: Terms
    shared: Networks

    @property
    def scheduler(self) -> Scheduler:
        """The policy that serves each queue."""
        return self.cases[0].scheduler

    def replay(self, run: LoopRun, until_s: float, *, recorded: bool) -> NetworksReplay:
        """The replay of these runs."""
        requests: Any = run.work.requests
        sent, whole = int(run.clock.arrived), self.offered.whole
        network = self.offered.network[:sent]
        missing = set(range(len(self.cases))) - set(network.tolist())
        if missing:
            names = ", ".join(self.offered.names[number] for number in sorted(missing))
            raise InputError(
                f"networks: expected a request of every network before the end, found none of {names}; serve for longer"
            )
        traffic = self.offered.first(sent)
        parts = [self._part(number, part, run, until_s) for number, part in enumerate(traffic.parts)]
        if recorded:
            runs = runs_of(run.record, int(run.clock.run_members))
            parts = [replace(part, runs=_own(runs, network, number)) for number, part in enumerate(parts)]
        trace = replace(whole.trace.first(sent), arrival_s=requests.arrival_s[:sent])
        whole = replace(traffic.whole, trace=trace, exits=merged(network, [part.traffic.exits for part in parts]))
        return NetworksReplay(
            traffic.names, network, whole, tuple(parts), BETWEEN[self.between], requests.start_s[:sent],
            requests.finish_s[:sent], requests.stalled_s[:sent], requests.batch[:sent], until_s, self.cases[0].lanes,
            traffic.whole, ON_DEADLINE[self.scheduler.on_deadline], *self._left(slice(sent)),
        )  # fmt: skip

    def _left(self, here: Any) -> tuple[NDArray[np.float64] | None, NDArray[np.bool_] | None]:
        """When requests left for good, and whether they were refused, as far as that may be."""
        refused = self.terms.refused[here] if self.admission else None
        known = self.scheduler.on_deadline or refused is not None
        return self.terms.left_s[here] if known else None, refused

    def _part(self, number: int, offered: Traffic, run: LoopRun, until_s: float) -> Replay:
        """The replay of one network."""
        case, served = self.cases[number], run.work.requests
        here = np.flatnonzero(self.offered.network[: int(run.clock.arrived)] == number)
        cut = cut_off(run, self.shared, number, until_s)
        trace = replace(offered.trace, arrival_s=served.arrival_s[here])
        exits = np.minimum(run.work.exit_of[here], len(case.table.exits))
        own, calls_s = run.state.counts[number], self.scheduler.call_s
        launches = times_of(self.shared, number, run.record.launches)
        return Replay(
            replace(offered, trace=trace, exits=exits), case.table, served.start_s[here], served.finish_s[here],
            served.stalled_s[here], served.preempted[here], case.segments, served.variant[here], served.batch[here],
            launches, cut.launches, int(own.preemptions), int(own.calls), int(own.calls) * calls_s - cut.call_s,
            until_s, case.lanes, float(own.overhead_s) - cut.overhead_s, None, offered,
            ON_DEADLINE[self.scheduler.on_deadline], *self._left(here),
        )  # fmt: skip


def _own(runs: Runs, network: NDArray[np.int64], number: int) -> Runs:
    """The runs of one network; their members are counted among its own requests."""
    mine = network[runs.members] == number
    here = mine[np.cumsum(runs.batch) - runs.batch]  # all members of a batch are of one network
    members = (np.cumsum(network == number) - 1)[runs.members[mine]]
    return Runs(
        runs.begin_s[here], runs.end_s[here], runs.segment[here], runs.batch[here], runs.level[here], runs.flags[here],
        runs.lane[here], members,
    )  # fmt: skip


def networks_case_of(networks: Sequence[ServedNetwork], offered: NetworksTraffic, scheduler: Scheduler) -> NetworksCase:
    """Requests of several networks under a policy, after a check that they fit each other."""
    tables = [as_table(item.table) for item in networks]
    _check_device(networks, tables, scheduler)
    rule = scheduler.between or FCFS
    scheduler, cases = replace(scheduler, between=None), []
    for item, table, part in zip(networks, tables, offered.parts, strict=True):
        try:
            cases.append(case_of(table, part, as_scheduler(scheduler, table)))
        except InputError as error:
            raise InputError([f'network "{item.name}": {fault}' for fault in error.faults]) from None
    network = offered.network
    columns = zip(*(case.work.requests for case in cases), strict=True)
    requests: Any = cases[0].work.requests._make(merged(network, column) for column in columns)
    work = RequestArrays(requests, merged(network, [case.work.exit_of for case in cases]), np.zeros((0, 0)))
    limits = [item.limit or scheduler.admit for item in networks]
    admission = tuple(limit or Admission() for limit in limits) if any(limits) else ()
    whole, b_max = offered.whole, max(case.rules.b_max for case in cases)
    terms = terms_of(requests, whole.slo_s, whole.think_s, scheduler.on_deadline, admission, b_max)
    cores, lanes = cases[0].table.cores, cases[0].lanes
    serves = [[item.cores is None or k + 1 in item.cores for k in range(lanes)] for item in networks]
    each = [
        OneNetwork(case.device, case.rules, item.weight, item.switch_s, own)
        for case, item, own in zip(cases, networks, serves, strict=True)
    ]
    shared = networks_of(each, [0] * lanes if cores is None else cores.of, network, rule, scheduler.dispatch or SHARED)
    return NetworksCase(offered, tuple(cases), rule, work, admission, terms, shared)


def simulate_networks(
    networks: Sequence[ServedNetwork],
    traffic: NetworksTraffic,
    policy: AnyPolicy,
    *,
    until_s: float = math.inf,
    record: bool = False,
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
    record : bool
        Keep every run, for a timeline (see :func:`record_networks_runs`).
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
    scheduler, offered = as_scheduler(policy), traffic
    if traffic.whole.think_s is None:
        arrived = int(np.searchsorted(traffic.whole.trace.arrival_s, until_s, side="left"))
        if len(set(traffic.network[:arrived].tolist())) < len(networks):
            raise InputError(f"until: expected a time after the first arrival of every network, found {until_s:g} s")
        offered = traffic.first(arrived)
    replay = _replay(networks, offered, scheduler, until_s, None, progress)
    return record_networks_runs(replay, networks, scheduler) if record else replay


def record_networks_runs(
    replay: NetworksReplay, networks: Sequence[ServedNetwork], scheduler: Scheduler
) -> NetworksReplay:
    """Replay again and keep every run, for a timeline; the first replay knows their number."""
    offered = tuple(part.offered or part.traffic for part in replay.parts)
    traffic = NetworksTraffic(replay.names, replay.network, offered, replay.offered or replay.traffic)
    launches = [part.launches for part in replay.parts]
    members = sum(int(runs.sum(axis=(0, 1)) @ np.arange(runs.shape[2])) for runs in launches)
    return _replay(networks, traffic, scheduler, replay.until_s, (sum(int(runs.sum()) for runs in launches), members))


def _replay(
    networks: Sequence[ServedNetwork], traffic: NetworksTraffic, scheduler: Scheduler, until_s: float,
    room: tuple[int, int] | None, progress: Callable[[int, int], None] | None = None,
) -> NetworksReplay:  # fmt: skip
    """A replay; it keeps its runs if it gets ``room``: the number of runs, and of samples in them."""
    case = networks_case_of(networks, traffic, scheduler)
    run = play(
        case.scheduler, case.work, case.shared, case.terms, until_s=until_s, room=room or (0, 0), progress=progress
    )
    return case.replay(run, until_s, recorded=room is not None)
