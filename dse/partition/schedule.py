"""Schedules of the links and processors of a cluster, for one image or for images that follow each other.

All devices work on every block, so that blocks of several images compete for the same processors and links.
Pipelining gains time in which one image leaves the busiest of them idle.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ...formats import InputError
from ...tables.latency import LatencyTable
from ...tables.partition import BlockRows, PartitionTable, WholeStep

STEPS_PER_INTERVAL = 100
"""Intervals that are tried differ by the least one, divided by this."""

NEARLY = 1e-9
"""Tasks that overlap by less than this share of an interval touch: their times are rounded sums."""


class DeviceTask(NamedTuple):
    """Work of one link or processor without a pause."""

    step: str  # last layer of the block, or the first of the layers that need a whole map
    stage: int  # from 1
    resource: str  # "<device> link", "<device> processor", or "uplink", the link that all share
    begin_s: float  # from the begin of the image
    end_s: float


class ScheduleStep(NamedTuple):
    """A block, or layers that need a whole map; it begins when all devices have finished the step before."""

    name: str  # last layer of the block, or the first of the layers that need a whole map
    stage: int  # from 1
    taken: dict[str, tuple[float, str]]  # by link and processor: its time, and the link that a processor waits for
    wait_s: float = 0.0  # by which it is longer because devices wait for each other inside a block


def steps_of(table: PartitionTable) -> list[ScheduleStep]:
    """The steps of an image that runs to the end, in the order in which they run."""
    records: list[BlockRows | WholeStep] = [*table.blocks, *table.wholes]
    records.sort(key=lambda step: (step.stage, isinstance(step, WholeStep)))  # stable: blocks are in execution order
    last = [record for record in records if record.stage == len(table.exits)]
    records += (table.exits[-1].steps - 1) * last
    steps: list[ScheduleStep] = []
    for record in records:
        gates = record.gates if isinstance(record, BlockRows) else []
        parts = [_step(table, part) for part in (record, *gates) if part.time_s > 0]
        steps += [step for step in parts if step.taken]  # a block may do nothing but wait for its gates
        if isinstance(record, BlockRows) and any(gate.time_s for gate in gates):
            wait_s = min(record.wait_s) - sum(gate.time_s for gate in gates)
            steps[-1] = steps[-1]._replace(wait_s=max(0.0, wait_s))
    return steps


def _step(table: PartitionTable, record: BlockRows | WholeStep) -> ScheduleStep:
    names = table.devices
    links = ["uplink" if table.cluster.uplink else f"{name} link" for name in names]
    if isinstance(record, BlockRows):
        name, transfers_s, computes_s = record.name, record.transfer_s, record.compute_s
    else:
        sends = zip(names, record.sent_bytes, strict=True)
        name = record.layers[0]
        transfers_s = [record.gather_s * (sent > 0 or device == record.device) for device, sent in sends]
        computes_s = [record.compute_s * (device == record.device) for device in names]
    transfer_s: dict[str, float] = {}
    for link, time_s in zip(links, transfers_s, strict=True):
        transfer_s[link] = max(time_s, transfer_s.get(link, 0.0))
    taken = {link: (time_s, "") for link, time_s in transfer_s.items()}
    taken |= {
        f"{device} processor": (time_s, link) for device, time_s, link in zip(names, computes_s, links, strict=True)
    }
    return ScheduleStep(name, record.stage, {resource: pair for resource, pair in taken.items() if pair[0]})


class _Calendar:
    """Times at which a link or processor is taken, modulo the interval."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.taken: list[tuple[float, float]] = []

    def place(self, ready_s: float, time_s: float) -> float | None:
        """Take the earliest gap of ``time_s`` from ``ready_s`` on; ``None`` if there is none."""
        whole, slack_s = self.interval_s, NEARLY * time_s
        if not self.taken or math.isinf(whole):
            begin_s = ready_s if not self.taken else max(ready_s, self.taken[-1][1])
            if time_s > whole + slack_s:
                return None
            insort(self.taken, (begin_s % whole, begin_s % whole + time_s))
            return begin_s
        ends = [end for _, end in self.taken]
        gaps = zip(ends, [*(begin for begin, _ in self.taken[1:]), self.taken[0][0] + whole], strict=True)
        begins_s = []
        for gap, until in gaps:
            # the first round in which this gap ends late enough
            turns = math.ceil((ready_s - until + time_s - slack_s) / whole)
            begin_s = max(ready_s, gap + turns * whole)
            if begin_s + time_s <= until + turns * whole + slack_s:
                begins_s.append(begin_s)
        if not begins_s:
            return None
        insort(self.taken, (min(begins_s) % whole, min(begins_s) % whole + time_s))
        return min(begins_s)


def schedule(table: PartitionTable, interval_s: float = math.inf) -> list[DeviceTask] | None:
    """Schedule one image so that another one can begin after every interval.

    Each task begins as early as its step may, and as its link or processor is free of all other images: free at this
    time modulo the interval (a modulo reservation table; B. R. Rau, Iterative Modulo Scheduling, MICRO 1994).
    """
    calendars: dict[str, _Calendar] = defaultdict(lambda: _Calendar(interval_s))
    tasks: list[DeviceTask] = []
    ready_s = 0.0
    for step in steps_of(table):
        ends_s: dict[str, float] = {}
        for resource, (time_s, link) in step.taken.items():
            begin_s = calendars[resource].place(ends_s.get(link, ready_s), time_s)
            if begin_s is None:
                return None
            ends_s[resource] = begin_s + time_s
            tasks.append(DeviceTask(step.name, step.stage, resource, begin_s, ends_s[resource]))
        ready_s = max(ends_s.values()) + step.wait_s
    return tasks


def busy_s(table: PartitionTable, *, to_end: bool = True) -> dict[str, float]:
    """Time for which one image takes each link and processor."""
    reach = 1 - np.append(0.0, np.cumsum([exit_.rate for exit_ in table.exits])[:-1])
    times_s = {f"{name} {part}": 0.0 for name in table.devices for part in ("link", "processor")}
    if table.cluster.uplink:
        times_s = {"uplink": 0.0} | {name: 0.0 for name in times_s if name.endswith("processor")}
    for step in steps_of(table):
        share = 1.0 if to_end else float(reach[step.stage - 1])
        for name, (time_s, _) in step.taken.items():
            times_s[name] += share * time_s
    return times_s


class Schedule(NamedTuple):
    """A schedule of images that follow each other."""

    interval_s: float  # from the start of an image to the start of the next, if all run to the end
    mean_interval_s: float  # on average over the exits; shorter only if images run one at a time
    exit_s: list[float]  # from the start of an image to each exit
    tasks: list[DeviceTask]  # of one image

    @property
    def latency_s(self) -> float:
        """Time of an image that runs to the end."""
        return self.exit_s[-1]

    @property
    def in_flight(self) -> int:
        """Largest number of images in flight."""
        return math.ceil(self.latency_s / self.interval_s - NEARLY)


class Pipelining(NamedTuple):
    """Schedules with more images a second than one image at a time, by interval; the last is one image at a time."""

    alone_s: float  # one image at a time, to the end
    average_s: float  # one image at a time, on average over the exits
    busy_s: dict[str, float]  # time of an image that runs to the end, by link and processor
    busiest_s: float  # time of an image on the busiest of them, on average over the exits: the bound of any schedule
    choices: list[Schedule]

    def gain(self, choice: Schedule) -> float:
        """Images a second, as a ratio to images that run one at a time and leave at their exits."""
        return self.average_s / choice.mean_interval_s

    @property
    def most_gain(self) -> float:
        """The bound of any schedule."""
        return self.average_s / self.busiest_s

    def within(self, latency_s: float) -> Schedule | None:
        """The schedule with the shortest interval in which an image takes at most ``latency_s``."""
        return next((choice for choice in self.choices if choice.latency_s <= latency_s * (1 + NEARLY)), None)


def pipelining(table: PartitionTable) -> Pipelining:
    """Find schedules in which images follow each other."""
    one, busy = alone(table), busy_s(table)
    least_s = max(busy.values())
    count = max(0, math.ceil(STEPS_PER_INTERVAL * (one.mean_interval_s / least_s - 1) - NEARLY))
    choices: list[Schedule] = []
    for number in range(count):
        interval_s = least_s * (1 + number / STEPS_PER_INTERVAL)
        tasks = schedule(table, interval_s)
        if tasks is None:
            continue
        candidate = Schedule(interval_s, interval_s, _exit_s(table, tasks), tasks)
        if candidate.latency_s < (choices[-1].latency_s if choices else math.inf) * (1 - NEARLY):
            choices.append(candidate)
    most = max(busy_s(table, to_end=False).values())
    return Pipelining(one.latency_s, table.average_s, busy, most, [*choices, one])


def alone(table: PartitionTable) -> Schedule:
    """The schedule of one image at a time."""
    tasks = schedule(table)
    assert tasks is not None
    exit_s = _exit_s(table, tasks)
    return Schedule(exit_s[-1], _average_s(table, exit_s), exit_s, tasks)


def _exit_s(table: PartitionTable, tasks: list[DeviceTask]) -> list[float]:
    """Time from the start of an image to each exit."""
    stages = range(1, len(table.exits) + 1)
    return [max(task.end_s for task in tasks if task.stage <= stage) for stage in stages]


def _average_s(table: PartitionTable, exit_s: list[float]) -> float:
    """Average time over the exits."""
    return float(np.dot([exit_.rate for exit_ in table.exits], exit_s))


def pipelined_table(table: PartitionTable, choice: Schedule, groups: int = 1) -> LatencyTable:
    """The latency table of a pipelined cluster: images side by side, each with a share of the cluster."""
    share = choice.mean_interval_s / _average_s(table, choice.exit_s) / groups
    lanes = math.ceil(1 / share - NEARLY)
    if lanes < 2:
        raise InputError(
            f"{table.network} on {table.cluster.name}: expected a schedule with images side by side, found one that "
            f"begins an image every {1e3 * choice.mean_interval_s:.4g} ms, when the image before has left, on average; "
            "serve the partition as it is"
        )
    stage_s = np.diff(choice.exit_s, prepend=0.0) / [exit_.steps for exit_ in table.exits]
    latency = LatencyTable(
        network=table.network, platform=table.cluster.name, exits=table.exits, b_max=1, lanes=lanes, load=[0.0, share],
        stage_s=[stage_s[:, None].tolist()],
    )  # fmt: skip
    return latency.derived_from(table)
