"""Outcome of a replay, by request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import brief, first_rows
from ..formats.array_types import Bools, Floats, Ints
from ..tables.latency import LatencyTable
from ..tables.layer_use import Segments
from ..traffic.request_columns import REQUEST_COLUMNS
from ..traffic.traffic import Traffic, places
from .device_traffic import DeviceTraffic, merged


@dataclass(frozen=True, slots=True)
class Runs:
    """Every run of a segment, in order of time; recorded only if asked for."""

    begin_s: Floats  # (M,): start and end of each run
    end_s: Floats
    # (M,): 0-based segment, batch size, level in the stack from 0, flags of :mod:`.batches`, lane
    segment: Ints
    batch: Ints
    level: Ints
    flags: Ints
    lane: Ints
    members: Ints  # (sum of batch,): the requests of each run, by index, one run after the other

    @property
    def firsts(self) -> Ints:
        """The first request of each run; all requests of a run are of one network."""
        return np.asarray(self.members[np.cumsum(self.batch) - self.batch])

    def of(self, network: Ints, number: int) -> Runs:
        """The runs of one network; their members are counted among its own requests."""
        mine = network[self.members] == number
        here = network[self.firsts] == number
        members = (np.cumsum(network == number) - 1)[self.members[mine]]
        return Runs(
            self.begin_s[here], self.end_s[here], self.segment[here], self.batch[here], self.level[here],
            self.flags[here], self.lane[here], members,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of the device by the runs of a network.

    Attributes
    ----------
    table : LatencyTable
        Latency table of the network.
    segments : Segments
        The units in which it ran: stages, or layers.
    launches : (V, S, b_max + 1) ndarray of int64
        Runs of each segment, by variant and batch size.
    cut : (V, S, b_max + 1) ndarray of float64
        The share that is missing of those runs that were not done when the simulation was stopped.
    preemptions : int
        Preemptions of running batches.
    scheduler_calls : int
        Calls of the policy while samples were on the NPU.
    scheduler_s : float
        Time of those calls.
    overhead_s : float
        Busy time of the lanes that no segment accounts for: gathers, delays, slowdown by other lanes.
    """

    table: LatencyTable
    segments: Segments
    launches: Ints
    cut: Floats
    preemptions: int
    scheduler_calls: int
    scheduler_s: float
    overhead_s: float = 0.0

    @property
    def ran(self) -> Floats:
        """Number of runs of each segment by variant and batch size; a run that was cut off counts as the share done."""
        return self.launches - self.cut


@dataclass(frozen=True)
class Replay:
    """Outcome of a simulation for every request of the networks of a device.

    Attributes
    ----------
    arrived : DeviceTraffic
        The requests that arrived, with their networks, exits and objectives.
    offered : DeviceTraffic
        The same before they were served: ``arrived`` has the arrivals of clients that came about, and the exits whose
        answers were given.
    uses : tuple of DeviceUse
        The use of the device by each network.
    start_s, finish_s : (N,) ndarray of float64
        Entry into the NPU, and return; infinite if the simulation was stopped before.
    stalled_s : (N,) ndarray of float64
        Time for which each was preempted.
    preempted : (N,) ndarray of int32
        Preemptions of each.
    variant : (N,) ndarray of int64
        The variant of its network that served each; 0 if it has not started.
    batch : (N,) ndarray of int64
        The batch with which each entered the NPU, counted from 1; 0 if it has not.
    until_s : float
        When the simulation was stopped; infinity if it served every request.
    lanes : int
        Lanes of the device that were used.
    between : str
        The rule between networks (:data:`.state.BETWEEN`).
    runs : Runs or None
        Every run, if recorded.
    on_deadline : str
        What happened to requests at their deadline: ``serve``, ``drop`` or ``answer``.
    left_s : (N,) ndarray of float64 or None
        When each request left the queue or the NPU for good, if it may be refused or dropped, or return early; infinite
        if the simulation was stopped before.
    refused : (N,) ndarray of bool or None
        Which requests were refused at their arrival; ``None`` if all may wait.
    drops : bool
        Whether requests may be dropped: at their deadline, or by a newer one.
    """

    arrived: DeviceTraffic
    offered: DeviceTraffic
    uses: tuple[DeviceUse, ...]
    start_s: Floats
    finish_s: Floats
    stalled_s: Floats
    preempted: NDArray[np.int32]
    variant: Ints
    batch: Ints
    until_s: float
    lanes: int = 1
    between: str = "fcfs"
    runs: Runs | None = None
    on_deadline: str = "serve"
    left_s: Floats | None = None
    refused: Bools | None = None
    drops: bool = False

    __repr__ = brief
    _repr_html_ = first_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The networks."""
        return self.arrived.names

    @property
    def named(self) -> list[tuple[int, str]]:
        """The number and the name of each network that has one."""
        return [(number, name) for number, name in enumerate(self.names) if name]

    @property
    def network(self) -> Ints:
        """The network of each request, counted from 0."""
        return self.arrived.network

    @property
    def traffic(self) -> Traffic:
        """All requests that arrived, whatever their network."""
        return self.arrived.whole

    @cached_property
    def by_network(self) -> Sequence[Replay]:
        """The replay of the requests of each network."""
        return [self._of(number) for number in range(len(self.uses))]

    def _of(self, number: int) -> Replay:
        """The replay of the requests of a network."""
        here = np.flatnonzero(self.network == number)
        columns: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[here]
            for name in ("start_s", "finish_s", "stalled_s", "preempted", "variant", "batch", "left_s", "refused")
        }
        return replace(
            self,
            arrived=self.arrived.part(number),
            offered=self.offered.part(number),
            uses=(self.uses[number],),
            runs=None if self.runs is None else self.runs.of(self.network, number),
            **columns,
        )

    @property
    def use(self) -> DeviceUse:
        """The use of the device by the only network."""
        (alone,) = self.uses
        return alone

    @property
    def table(self) -> LatencyTable:
        """The latency table of the only network."""
        return self.use.table

    @property
    def launches(self) -> Ints:
        """Runs of each segment of the only network, by variant and batch size."""
        return self.use.launches

    @property
    def preemptions(self) -> int:
        """Preemptions of running batches."""
        return sum(use.preemptions for use in self.uses)

    @property
    def scheduler_calls(self) -> int:
        """Calls of the policy while samples were on the NPU."""
        return sum(use.scheduler_calls for use in self.uses)

    @property
    def overhead_s(self) -> float:
        """Busy time of the lanes that no segment accounts for: gathers, delays, slowdown by other lanes."""
        return sum(use.overhead_s for use in self.uses)

    @property
    def subnet(self) -> Ints:
        """The SubNet that served each request of the only network; 0 if there is none, or it has not started."""
        return np.unravel_index(self.variant, self.table.axes)[1]

    @property
    def state(self) -> Ints:
        """The state of the device in which each request of the only network was served."""
        return np.unravel_index(self.variant, self.table.axes)[0]

    @property
    def right(self) -> NDArray[Any] | None:
        """Whether the answer of each request is right, or its score; ``None`` if that is not known of a network."""
        known = []
        for part in self.by_network:
            correct, exits = part.traffic.trace.correct, part.traffic.exits
            if correct is None:
                return None
            known.append(correct[np.arange(len(exits)), exits - 1])
        return merged(self.network, known)

    @property
    def depths(self) -> Ints:
        """Depth of each request in its network: its exit; the last one counts once for each step."""
        depths = []
        for part in self.by_network:
            exits, steps = part.table.exits, part.traffic.trace.steps
            depths.append(places(part.traffic.exits, exits[-1].steps if steps is None else steps, len(exits)))
        return merged(self.network, depths)

    @property
    def latency_s(self) -> Floats:
        """Latency of each request, from its arrival to its return; infinite if it did not return."""
        return self.finish_s - self.traffic.trace.arrival_s

    @property
    def begun(self) -> Ints:
        """The requests that were begun, in that order."""
        order = np.argsort(self.start_s, kind="stable")
        return order[: int(np.isfinite(self.start_s).sum())]

    @property
    def fresh(self) -> Bools:
        """True for each request that found the system empty when it arrived."""
        arrival_s = self.traffic.trace.arrival_s
        return np.append(True, np.maximum.accumulate(self.gone_s)[:-1] <= arrival_s[1:])

    @property
    def gone_s(self) -> Floats:
        """When each request left the queue or the NPU for good; infinite if the simulation was stopped before."""
        return self.finish_s if self.left_s is None else self.left_s

    @property
    def dropped(self) -> Bools:
        """True for each request that was dropped: at its deadline, or by a newer one."""
        lost = np.isinf(self.finish_s) & np.isfinite(self.gone_s)
        return lost if self.refused is None else lost & ~self.refused

    @property
    def asked_again(self) -> Bools:
        """True for each request that was turned away and that its client sends again, as the next one."""
        sent = np.isinf(self.offered.whole.trace.arrival_s)  # as only clients leave them
        if not sent.any():
            return sent
        turned_away = sent & np.isinf(self.finish_s) & np.isfinite(self.gone_s)
        if self.on_deadline == "serve":
            return turned_away
        return turned_away & (self.gone_s < self.traffic.trace.arrival_s + self.traffic.slo_s)

    @property
    def joined_s(self) -> Floats:
        """When each request came to the queue: on its arrival, or when a host that overlaps has prepared its input."""
        arrival_s, hosts = self.traffic.trace.arrival_s, [use.table.host for use in self.uses]
        if not any(host is not None and host.overlaps for host in hosts):
            return arrival_s
        before_s = np.array([0.0 if host is None else host.before_s for host in hosts])
        return np.asarray(arrival_s + before_s[self.network])

    @property
    def left_queue_s(self) -> Floats:
        """When each request stopped to wait: it entered the NPU, was dropped, or was refused."""
        return np.minimum(self.start_s, self.gone_s)

    @property
    def early(self) -> Bools:
        """True for each request that returned at its deadline, with the answer of an exit before its own."""
        if self.on_deadline != "answer":
            return np.zeros(len(self.finish_s), dtype=np.bool_)
        return np.isfinite(self.finish_s) & (self.traffic.exits < self.offered.whole.exits)

    @property
    def violated(self) -> Bools:
        """True for each request that took longer than its SLO, or did not return; those refused are among them."""
        return self.finish_s > self.traffic.trace.arrival_s + self.traffic.slo_s  # due times as the policy sees them

    @property
    def end_s(self) -> float:
        """The time at which the last request left, or the time at which the simulation was stopped."""
        last_s = float(self.gone_s.max())
        return last_s if math.isfinite(last_s) else self.until_s

    def columns(self) -> dict[str, NDArray[Any]]:
        """Outcome of every request as columns; times that never came are infinite.

        Returns
        -------
        dict of str to (N,) ndarray
            In the order of ``serve-sim --requests``, as far as all networks have them, and the name of the network
            where they have names; ``pandas.DataFrame`` takes it as it is.
        """
        own = [_columns(part) for part in self.by_network]
        shared = [name for name in own[0] if all(name in columns for columns in own)]
        columns = {name: merged(self.network, [columns[name] for columns in own]) for name in shared}
        return columns | ({"network": np.array(self.names)[self.network]} if all(self.names) else {})


def _columns(replay: Replay) -> dict[str, NDArray[Any]]:
    """Outcome of every request of a network as columns."""
    trace = replay.traffic.trace
    happened = {
        "request_id": trace.request_id,
        "arrival_s": trace.arrival_s,
        "start_s": replay.start_s,
        "finish_s": replay.finish_s,
        "latency_s": replay.latency_s,
        "slo_s": replay.traffic.slo_s,
        "violated": replay.violated,
        **({"refused": replay.refused} if replay.refused is not None else {}),
        **({"dropped": replay.dropped} if replay.drops else {}),
        "exit": replay.traffic.exits,
        "preempted": replay.preempted,
        "stalled_s": replay.stalled_s,
        **({} if replay.table.subnets is None else {"subnet": replay.subnet, "state": replay.state}),
    }
    reported = {column.name: getattr(trace, column.name) for column in REQUEST_COLUMNS if column.reported}
    return happened | {name: values for name, values in reported.items() if values is not None}
