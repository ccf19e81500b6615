"""Requests of the networks of a device under a policy, as the event loop takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, memoized
from ..formats.array_types import Floats, Ints
from ..tables.latency import LatencyTable
from ..tables.layer_use import Segments
from ..tables.reuse import SubNetEntry
from ..traffic.traffic import Traffic, places
from .admission import Admission
from .deadlines import ON_DEADLINE
from .device_traffic import DeviceTraffic, merged
from .fits import check_columns, check_device, check_policy
from .host import known_times, sent_at
from .inputs import as_scheduler
from .networks import ServedNetwork
from .outcome import DeviceUse, Replay
from .play import LoopRun, cut_off, runs_of
from .policies import Policy
from .policies.interface import CARRIED, COLUMNS, VARIANT, Requests, zeros
from .scheduler import Scheduler, losses_of
from .sources import Sending
from .state import (
    BETWEEN,
    FCFS,
    SHARED,
    DeviceArrays,
    Networks,
    OneNetwork,
    RequestArrays,
    Rules,
    in_one_queue,
    networks_of,
    times_of,
)
from .terms import Terms, terms_of


class NetworkCase(NamedTuple):
    """A network of a device under a policy: its table, and its requests, times and rules as the event loop has them."""

    table: LatencyTable
    segments: Segments  # that run between two decisions
    work: RequestArrays
    device: DeviceArrays
    rules: Rules


@dataclass(frozen=True, slots=True)
class Case:
    """Requests of the networks of a device under a policy, as the event loop takes them; it can be played once."""

    offered: DeviceTraffic
    scheduler: Scheduler
    networks: tuple[NetworkCase, ...]
    work: RequestArrays  # of all networks
    lanes: int  # lanes that are used
    levels: int  # thresholds that the policy sets
    limits: tuple[Admission, ...]  # rules of admission, if there are any
    terms: Terms | None  # clients that wait, deadlines and admission, if there are any
    shared: Networks  # the networks as they share the device

    def replay(self, run: LoopRun, until_s: float, *, recorded: bool) -> Replay:
        """The replay of these runs, whose requests are recorded by the numbers that they were offered with."""
        sent = self._sent(run, until_s)
        offered = self.offered.at(sent)
        uses = tuple(self._use(number, run, until_s) for number in range(len(self.networks)))
        requests: Any = run.work.requests._make(column[sent] for column in run.work.requests)
        exits = run.work.exit_of[sent]
        if any(case.table.exits[-1].steps > 1 for case in self.networks):  # else no stage is behind the last exit
            exits = np.minimum(exits, np.array([len(case.table.exits) for case in self.networks])[offered.network])
        sent_s = requests.arrival_s if self.terms is None else sent_at(self.terms, requests.arrival_s, sent)
        served = offered.served_at(sent_s, exits)
        lost, left_s, refused = losses_of(self.scheduler, *self.limits), None, None
        if self.terms is not None:
            left_s = self.terms.left_s[sent] if any(lost.values()) else None
            refused = self.terms.refused[sent] if lost["refused"] else None
        return Replay(
            served, offered, uses, requests.start_s, requests.finish_s, requests.stalled_s, requests.preempted,
            requests.variant, requests.batch, until_s, self.lanes, BETWEEN[self.scheduler.between or FCFS],
            runs_of(run.record, int(run.clock.run_members)) if recorded else None,
            ON_DEADLINE[self.scheduler.on_deadline], left_s, refused, bool(lost["dropped"]),
        )  # fmt: skip

    def _sent(self, run: LoopRun, until_s: float) -> slice | Ints:
        """The requests that arrived, in order of arrival; they are the first ones where there is one source."""
        terms = self.terms
        if terms is None or not self.offered.clients:
            return slice(int(run.clock.arrived))
        numbers = np.bincount(self.offered.network, minlength=len(self.networks))
        self._check_ready(numbers, until_s)
        if len(terms.sources) == 1:
            return slice(int(run.clock.arrived))
        begins = np.cumsum(numbers) - numbers
        sent = [terms.order[begin:end] for begin, end in zip(begins, terms.sources.next, strict=True)]
        joined = np.concatenate(sent)
        sent_s = sent_at(terms, run.work.requests.arrival_s[joined], joined)
        return joined[np.argsort(sent_s, kind="stable")]

    def _check_ready(self, numbers: Ints, until_s: float) -> None:
        """Refuse clients that had no request left before they stop to send, given each network's requests."""
        assert self.terms is not None
        ends = zip(self.terms.sources, np.cumsum(numbers), self.offered.names, numbers, strict=True)
        for source, end, name, ready in ends:
            if source.next == end and source.thinking and source.stop_s < math.inf:
                again_s = self.terms.think_s[self.terms.clients[source.clients_at]]
                if again_s <= source.stop_s and again_s < until_s:
                    raise InputError(
                        f'network "{name}": count: expected more than {ready:,} requests, found none left for the '
                        f"one at {again_s:g} s, though clients send until {source.stop_s:g} s; "
                        f"state e.g. count = {10 * ready}"
                    )

    def _use(self, number: int, run: LoopRun, until_s: float) -> DeviceUse:
        """The use of the device by a network."""
        case, counts, cut = self.networks[number], run.state.counts[number], cut_off(run, self.shared, number, until_s)
        return DeviceUse(
            case.table, case.segments, times_of(self.shared, number, run.record.launches), cut.launches,
            int(counts.preemptions), int(counts.calls), int(counts.calls) * self.scheduler.call_s - cut.call_s,
            float(counts.overhead_s) - cut.overhead_s,
        )  # fmt: skip


def case_of(networks: Sequence[ServedNetwork], offered: DeviceTraffic, scheduler: Scheduler) -> Case:
    """Requests of the networks of a device under a policy, after a check that they fit each other."""
    check_device(networks, scheduler)
    cases = []
    for network, part in zip(networks, offered.parts, strict=True):
        try:
            cases.append(_network_case(network, part, scheduler))
        except InputError as error:
            raise InputError(network.about(error.faults)) from None
    table = cases[0].table
    lanes = scheduler.lanes if table.cores is None else table.lanes
    work, whole = _together(offered, [case.work for case in cases]), offered.whole
    limits = [network.limit or scheduler.admit for network in networks]
    shared, terms = _shared(networks, offered, cases, scheduler, lanes), None
    hosts = [case.table.host for case in cases]
    plain = whole.think_s is None and not any((scheduler.on_deadline, scheduler.together, *limits, *hosts))
    if not (plain and in_one_queue(shared)):
        # early answers change exits, which may be the traffic's own
        requests = work.requests
        if any(hosts):  # for the device, requests arrive later
            requests = requests._replace(arrival_s=requests.arrival_s.copy())
        work = work._replace(requests=requests, exit_of=work.exit_of.copy())
        b_max = max(case.rules.b_max for case in cases)
        admission = tuple(limit or Admission() for limit in limits) if any(limits) else ()
        terms = terms_of(
            work.requests,
            whole.slo_s,
            Sending(whole.think_s, offered.clients, offered.network, offered.stop_s)
            if offered.clients
            else Sending(whole.think_s, [whole.clients], np.zeros(len(whole), np.int64)),
            scheduler.on_deadline,
            admission,
            (lanes, b_max),
            together=scheduler.together,
            hosts=hosts,
        )
        if admission and whole.trace.admitted_with is not None:
            terms = terms._replace(first=whole.trace.firsts)
    levels = _levels(scheduler.policy, whole, len(table.exits))
    return Case(offered, scheduler, tuple(cases), work, lanes, levels, tuple(filter(None, limits)), terms, shared)


def _together(offered: DeviceTraffic, works: Sequence[RequestArrays]) -> RequestArrays:
    """The requests of all networks."""
    columns = zip(*(work.requests for work in works), strict=True)
    requests = works[0].requests._make(merged(offered.network, column) for column in columns)
    if offered.whole.think_s is not None:  # arrivals are written
        requests = requests._replace(arrival_s=requests.arrival_s.copy())
    exit_of = merged(offered.network, [work.exit_of for work in works])
    return RequestArrays(requests, exit_of, works[0].confidences)  # which only a network that is alone has


def _shared(
    networks: Sequence[ServedNetwork], offered: DeviceTraffic, cases: Sequence[NetworkCase], scheduler: Scheduler,
    lanes: int,
) -> Networks:  # fmt: skip
    """The networks as they share lanes."""
    cores, each = cases[0].table.cores, []
    for network, case in zip(networks, cases, strict=True):
        serves = [network.cores is None or k + 1 in network.cores for k in range(lanes)]
        each.append(
            OneNetwork(case.device, case.rules, network.weight, network.switch_s, serves, network.priority or 0)
        )
    kinds = [0] * lanes if cores is None else cores.of
    return networks_of(each, kinds, offered.network, scheduler.between or FCFS, scheduler.dispatch or SHARED)


def _network_case(network: ServedNetwork, traffic: Traffic, scheduler: Scheduler) -> NetworkCase:
    """A network of a device under a policy, after a check that its requests fit it."""
    table, policy = network.latency, scheduler.policy
    scheduler = as_scheduler(scheduler, table)
    segments, device = _device(table, by_layer=policy.by_layer)
    check_policy(scheduler, table, traffic, float(segments.time_s[:, :, 1].min()))
    b_max = scheduler.b_max or table.b_max
    settings, levels = scheduler.settings(traffic.objective_s), _levels(policy, traffic, len(table.exits))
    if policy.check is not None and (faults := policy.check(settings, table, traffic.trace, b_max)):
        raise InputError([f"policy {scheduler.spec}: {fault}" for fault in faults])
    kept = policy.memory + policy.memory_by_subnet * table.axes[1]
    memory = np.zeros(levels * table.variants + kept)
    rules = Rules(settings, memory, b_max, scheduler.call_s)
    check_columns(table, traffic.trace)
    work = work_of(traffic, len(table.exits), table.exits[-1].steps, levels)
    if table.widths is not None and traffic.trace.width is None:
        work.requests.width[:] = table.widths[0]  # a request that states no width may have the widest
    return NetworkCase(table, segments, work, device, rules)


def _levels(policy: Policy, traffic: Traffic, exits: int) -> int:
    """Number of thresholds that a policy sets while it runs: one for each exit but the last, or none."""
    if not policy.thresholds:
        return 0
    if traffic.trace.confidences is None:
        raise InputError("policy: expected traffic with confidences, by which its thresholds decide, found none")
    return exits - 1


def requests_of(arrival_s: Floats, slo_s: Floats | float, **stated: NDArray[Any]) -> Any:
    """Requests that have not begun, with what they state, as :data:`Requests`; no memory for what stays 0."""
    count = len(arrival_s)
    known = {name: np.require(values, float, ["C", "W"]) for name, values in {**stated, "arrival_s": arrival_s}.items()}
    known["due_s"] = arrival_s + slo_s
    new = {name: kind for name, kind in COLUMNS.items() if name not in known}
    for kind in set(new.values()):  # at once, as a large array each takes longer than a short run
        names = [name for name in new if new[name] == kind]
        known |= zip(names, np.zeros((len(names), count), kind), strict=True)
    known["start_s"][:] = known["finish_s"][:] = math.inf
    return Requests(*(known[name] for name in COLUMNS))


def work_of(traffic: Traffic, last: int, steps: int = 1, levels: int = 0) -> RequestArrays:
    """Traffic as the event loop takes it; if the policy sets thresholds, its ``levels``, these decide the exits."""
    trace = traffic.trace
    stated = {column.name: getattr(trace, column.name) for column in CARRIED}
    if trace.predicted_width is None:
        stated["predicted_width"] = trace.width  # of a text, say, it is known
    stated = {name: values for name, values in stated.items() if values is not None}
    confidences, exits = np.zeros((0, 0)), traffic.exits
    if levels and trace.confidences is not None:
        confidences, exits = np.ascontiguousarray(trace.confidences[:, :levels]), np.full(len(traffic), last)
    arrival_s = trace.arrival_s if traffic.think_s is None else trace.arrival_s.copy()  # it is written
    return RequestArrays(
        requests_of(arrival_s, traffic.slo_s, **stated),
        np.require(places(exits, steps if trace.steps is None else trace.steps, last), np.int64, ["C", "W"]),
        confidences,
    )


@memoized
def _device(table: LatencyTable, *, by_layer: bool) -> tuple[Segments, DeviceArrays]:
    """A table as the event loop takes it: studies replay many short traces on one."""
    segments = table.segments(by_layer=by_layer)
    return segments, device_of(table, segments)


def devices_of(networks: Sequence[ServedNetwork], scheduler: Scheduler) -> list[DeviceArrays]:
    """The times of networks on a device as the event loop takes them under a policy."""
    return [_device(network.latency, by_layer=scheduler.policy.by_layer)[1] for network in networks]


def device_of(table: LatencyTable, segments: Segments) -> DeviceArrays:
    """A latency table as the event loop takes it."""
    last, steps = len(table.exits), table.exits[-1].steps
    segment, repeated = np.arange(len(segments.stage)), np.flatnonzero(segments.stage == last)
    segment_at = np.concatenate([segment, np.tile(repeated, steps - 1)])
    step = np.repeat(np.arange(steps), [len(segment), *[len(repeated)] * (steps - 1)])
    stage = segments.stage[segment_at] + step
    ends_stage = np.append(stage[1:] != stage[:-1], True)
    moving, cores = np.zeros(0), table.cores
    if cores is not None:
        moving = cores.moving_array()[:, segments.stage - 1].ravel()
    return DeviceArrays(
        time_s=segments.time_s,
        latency_s=known_times(table),
        segment_at=segment_at,
        stage_after=stage - ~ends_stage,
        gather_s=table.gather_array(),
        load=np.zeros(table.b_max + 1) if table.load is None else np.array(table.load),
        variants=variants_of(table),
        wake_up_s=table.wake_up_s or 0.0,
        moving=moving,
        contention=-1.0 if cores is None else cores.contention,
    )


def variants_of(table: LatencyTable) -> Any:
    """Properties of each variant of a table that policies read, as records of ``VARIANT``."""
    variants: Any = zeros(math.prod(table.axes), VARIANT)
    widths = np.array(table.widths or [math.inf])
    known = [net.accuracy for net in table.subnets or [SubNetEntry(name="")]]
    accuracy = np.array([math.nan if value is None else value for value in known])
    variants.state, variants.subnet, width = np.unravel_index(np.arange(len(variants)), table.axes)
    variants.width = widths[width]
    variants.accuracy = accuracy[variants.subnet]
    if table.reuse is not None:
        variants.refill_s = np.array(table.reuse.refill_s)[variants.state]
        if table.reuse.overlap is not None:
            variants.overlap = np.array(table.reuse.overlap)[variants.state, variants.subnet]
            variants.content = np.array(table.reuse.content)[variants.state]
    return variants
