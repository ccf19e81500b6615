"""Outcome of a replay, by request."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import brief, first_rows
from ..tables.latency import LatencyTable, Segments
from ..traffic.request_columns import REQUEST_COLUMNS
from ..traffic.traffic import Traffic, places


@dataclass(frozen=True, slots=True)
class Runs:
    """Every run of a segment, in order of time; recorded only if asked for."""

    begin_s: NDArray[np.float64]  # (M,): start and end of each run
    end_s: NDArray[np.float64]
    # (M,): 0-based segment, batch size, level in the stack from 0, flags of :mod:`.event_loop`, lane
    segment: NDArray[np.int64]
    batch: NDArray[np.int64]
    level: NDArray[np.int64]
    flags: NDArray[np.int64]
    lane: NDArray[np.int64]
    members: NDArray[np.int64]  # (sum of batch,): the requests of each run, by index, one run after the other


class Outcome(ABC):
    """What follows for every request from its arrival, its return and its deadline."""

    __slots__ = ()

    traffic: Traffic
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    stalled_s: NDArray[np.float64]
    batch: NDArray[np.int64]
    until_s: float
    lanes: int
    offered: Traffic | None
    on_deadline: str
    left_s: NDArray[np.float64] | None
    refused: NDArray[np.bool_] | None

    @property
    @abstractmethod
    def by_network(self) -> Sequence[Replay]:
        """The replay of each network, of which there may be one."""

    @property
    @abstractmethod
    def right(self) -> NDArray[Any] | None:
        """Whether the answer of each request is right, or its score; ``None`` if that is not known."""

    @property
    @abstractmethod
    def depths(self) -> NDArray[np.int64]:
        """Depth of each request: its exit, of which the last counts once for each step."""

    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """Outcome of every request as columns; times that never came are infinite."""

    @property
    def latency_s(self) -> NDArray[np.float64]:
        """Latency of each request, from its arrival to its return; infinite if it did not return."""
        return self.finish_s - self.traffic.trace.arrival_s

    @property
    def begun(self) -> NDArray[np.int64]:
        """The requests that were begun, in that order."""
        order = np.argsort(self.start_s, kind="stable")
        return order[: int(np.isfinite(self.start_s).sum())]

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """True for each request that found the system empty when it arrived."""
        arrival_s = self.traffic.trace.arrival_s
        return np.append(True, np.maximum.accumulate(self.gone_s)[:-1] <= arrival_s[1:])

    @property
    def gone_s(self) -> NDArray[np.float64]:
        """When each request left the queue or the NPU for good; infinite if the simulation was stopped before."""
        return self.finish_s if self.left_s is None else self.left_s

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """True for each request that was dropped at its deadline."""
        lost = np.isinf(self.finish_s) & np.isfinite(self.gone_s)
        return lost if self.refused is None else lost & ~self.refused

    @property
    def left_queue_s(self) -> NDArray[np.float64]:
        """When each request stopped to wait: it entered the NPU, was dropped, or was refused."""
        return np.minimum(self.start_s, self.gone_s)

    @property
    def early(self) -> NDArray[np.bool_]:
        """True for each request that returned at its deadline, with the answer of an exit before its own."""
        if self.offered is None or self.on_deadline != "answer":
            return np.zeros(len(self.finish_s), dtype=np.bool_)
        return np.isfinite(self.finish_s) & (self.traffic.exits < self.offered.exits)

    @property
    def violated(self) -> NDArray[np.bool_]:
        """True for each request that took longer than its SLO, or did not return; those refused are among them."""
        return self.finish_s > self.traffic.trace.arrival_s + self.traffic.slo_s  # due times as the policy sees them

    @property
    def end_s(self) -> float:
        """The time at which the last request left, or the time at which the simulation was stopped."""
        last_s = float(self.gone_s.max())
        return last_s if math.isfinite(last_s) else self.until_s


@dataclass(frozen=True, slots=True)
class Replay(Outcome):
    """Outcome of a simulation for every request.

    Attributes
    ----------
    traffic : Traffic
        The requests that arrived, with their exits and objectives.
    table : LatencyTable
        Latency table of the design that served them.
    start_s, finish_s : (N,) ndarray of float64
        Entry into the NPU, and return; infinite if the simulation was stopped before.
    stalled_s : (N,) ndarray of float64
        Time for which each was preempted.
    preempted : (N,) ndarray of int32
        Preemptions of each.
    segments : Segments
        The units in which the network ran: stages, or layers.
    variant : (N,) ndarray of int64
        The variant of the network that served each; 0 if it has not started.
    batch : (N,) ndarray of int64
        The batch with which each entered the NPU, counted from 1; 0 if it has not.
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
    until_s : float
        When the simulation was stopped; infinity if it served every request.
    lanes : int
        Lanes of the device that were used.
    overhead_s : float
        Busy time of the lanes that no segment accounts for: gathers, delays, slowdown by other lanes.
    runs : Runs or None
        Every run, if recorded.
    offered : Traffic or None
        With clients or deadlines, the traffic as it was before: ``traffic`` has the arrivals that came about, and the
        exits whose answers were given.
    on_deadline : str
        What happened to requests at their deadline: ``serve``, ``drop`` or ``answer``.
    left_s : (N,) ndarray of float64 or None
        When each request left the queue or the NPU for good, if it may be refused, or deadlines drop or answer it;
        infinite if the simulation was stopped before.
    refused : (N,) ndarray of bool or None
        Which requests were refused at their arrival; ``None`` if the policy admits all.
    """

    traffic: Traffic
    table: LatencyTable
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    stalled_s: NDArray[np.float64]
    preempted: NDArray[np.int32]
    segments: Segments
    variant: NDArray[np.int64]
    batch: NDArray[np.int64]
    launches: NDArray[np.int64]
    cut: NDArray[np.float64]
    preemptions: int
    scheduler_calls: int
    scheduler_s: float
    until_s: float
    lanes: int = 1
    overhead_s: float = 0.0
    runs: Runs | None = None
    offered: Traffic | None = None
    on_deadline: str = "serve"
    left_s: NDArray[np.float64] | None = None
    refused: NDArray[np.bool_] | None = None

    __repr__ = brief
    _repr_html_ = first_rows

    @property
    def by_network(self) -> Sequence[Replay]:
        """The replay itself: it is of one network."""
        return (self,)

    @property
    def subnet(self) -> NDArray[np.int64]:
        """The SubNet that served each request; 0 if the latency table has none, or it has not started."""
        return np.unravel_index(self.variant, self.table.axes)[1]

    @property
    def state(self) -> NDArray[np.int64]:
        """The state of the device in which each request was served."""
        return np.unravel_index(self.variant, self.table.axes)[0]

    @property
    def right(self) -> NDArray[Any] | None:
        """Whether the answer of each request is right, or its score; ``None`` if that is not known."""
        correct, exits = self.traffic.trace.correct, self.traffic.exits
        return None if correct is None else correct[np.arange(len(exits)), exits - 1]

    @property
    def depths(self) -> NDArray[np.int64]:
        """Depth of each request: its exit, of which the last counts once for each step."""
        steps = self.traffic.trace.steps
        return places(self.traffic.exits, self.table.exits[-1].steps if steps is None else steps, len(self.table.exits))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Outcome of every request as columns; times that never came are infinite.

        Returns
        -------
        dict of str to (N,) ndarray
            In the order of ``serve-sim --requests``; ``pandas.DataFrame`` takes it as it is.
        """
        trace = self.traffic.trace
        happened = {
            "request_id": trace.request_id,
            "arrival_s": trace.arrival_s,
            "start_s": self.start_s,
            "finish_s": self.finish_s,
            "latency_s": self.latency_s,
            "slo_s": self.traffic.slo_s,
            "violated": self.violated,
            **({"refused": self.refused} if self.refused is not None else {}),
            **({"dropped": self.dropped} if self.on_deadline != "serve" else {}),
            "exit": self.traffic.exits,
            "preempted": self.preempted,
            "stalled_s": self.stalled_s,
            **({} if self.table.subnets is None else {"subnet": self.subnet, "state": self.state}),
        }
        reported = {column.name: getattr(trace, column.name) for column in REQUEST_COLUMNS if column.reported}
        return happened | {name: values for name, values in reported.items() if values is not None}

    @property
    def ran(self) -> NDArray[np.float64]:
        """Number of runs of each segment by variant and batch size; a run that was cut off counts as the share done."""
        return self.launches - self.cut
