"""The timeline of a simulation, for Perfetto and Chrome's tracing page."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from ..formats import AnyPath, InputError, write_file
from ..formats.array_types import Floats
from ..formats.trace_events import PROCESS, Event, microseconds, slice_event, timeline_text, track_names
from .batches import MERGES, PREEMPTS
from .outcome import Replay, Runs
from .subnets import swaps_of

SCHEMA = "fluidb.timeline/1"

MAX_EVENTS = 2_000_000
"""A longer timeline is refused: at about 100 bytes an event, viewers fail to open it."""

QUEUE = 0
"""The track of the queue.  The tracks of the stages follow, lane by lane."""


def check_timeline_size(replay: Replay) -> None:
    """Refuse, before it is recorded, a timeline that is too long for viewers."""
    # a slice for each run; arrival, exit and at most four changes of counters for each request;
    # one event and at most one merge for each preemption; a swap for each change of state
    events = 6 * len(replay.traffic)
    for part in replay.by_network:
        events += int(part.launches.sum()) + 2 * part.preemptions + int(swaps_of(part.state[part.begun]).sum())
    if events > MAX_EVENTS:
        first_s = float(replay.traffic.trace.arrival_s[0])
        until_s = first_s + 0.9 * (replay.end_s - first_s) * MAX_EVENTS / events
        raise InputError(
            f"timeline: expected at most {MAX_EVENTS:,} events, found about {events:,}; "
            f"shorten the simulation (until), e.g. {until_s:.3g}s"
        )


def _instant(name: str, at_s: float, track: int, args: Event) -> Event:
    return {"name": name, "ph": "i", "s": "t", "ts": microseconds(at_s), "pid": PROCESS, "tid": track, "args": args}


def _metadata(replay: Replay, names: Sequence[str]) -> Iterator[Event]:
    """Names of the process and its tracks, from the queue down to the last stage of the last lane."""
    stages = [
        f"{name}stage {number}: {row.name}"
        for name, part in zip(names, replay.by_network, strict=True)
        for number, row in enumerate(part.table.exits, 1)
    ]
    if replay.lanes > 1:
        stages = [f"lane {lane}, {stage}" for lane in range(1, replay.lanes + 1) for stage in stages]
    yield from track_names(replay.by_network[0].table.machine, dict(enumerate(["queue", *stages], QUEUE)))


def _runs(replay: Replay, runs: Runs, lane: int, first: int) -> Iterator[Event]:
    """A slice for each run of a lane, and the events at its ends; the stack is rebuilt from levels and flags.

    The network's stages have the tracks after ``first``.
    """
    stages = replay.use.segments.stage.tolist()
    by_layer = len(stages) > len(replay.table.exits)
    names = [layer.name for layer in replay.table.layers] if by_layer else [f"stage {number}" for number in stages]
    ids = replay.traffic.trace.request_id
    levels: list[list[int]] = [[]]  # requests of each sub-batch, bottom first
    table, subnets, states, held = replay.table, replay.subnet, replay.state, 0
    here, behind = runs.lane == lane, np.cumsum(runs.batch)
    columns = (runs.begin_s, runs.end_s, runs.segment, runs.batch, runs.level, runs.flags, behind)
    for begin_s, end_s, segment, batch, level, flags, end in zip(
        *(column[here].tolist() for column in columns), strict=True
    ):
        members = runs.members[end - batch : end]
        if begin_s >= replay.until_s:
            return  # decided before the simulation was stopped, but it would run after
        stage = stages[segment]
        track = first + stage
        if flags & PREEMPTS:
            below = ids[levels[level - 1]].tolist()
            yield _instant("preemption", float(replay.start_s[members[0]]), track, {"preempted": below})
        state = int(states[members[0]])
        if table.states is not None and state != held:
            swap = {"from": table.states[held], "to": table.states[state]}
            yield _instant("swap", float(replay.start_s[members[0]]), track, swap)
            held = state
        ran = {} if table.subnets is None else {"subnet": table.subnets[subnets[members[0]]].name}
        args = {"batch": batch, "level": level, "requests": ids[members].tolist()} | ran
        yield slice_event(names[segment], begin_s, min(end_s, replay.until_s), track, args)
        if end_s > replay.until_s:
            return
        left = (replay.finish_s[members] == end_s) & (replay.traffic.exits[members] <= stage)
        for request in members[left]:
            exited = {"request": ids[request].item(), "exit": int(replay.traffic.exits[request])}
            yield _instant("exit", end_s, track, exited)
        del levels[level:]
        levels.append(members[~left].tolist())
        if flags & MERGES:
            levels[level - 1] += levels.pop()
            yield _instant("merge", end_s, track, {"requests": ids[levels[level - 1]].tolist()})


def _counter(name: str, unit: str, up_s: Floats, down_s: Floats) -> Iterator[Event]:
    """A counter's value at every time at which it changes, after all changes of that time."""
    times = np.concatenate([up_s, down_s])
    steps = np.repeat([1, -1], [len(up_s), len(down_s)])[np.isfinite(times)]
    times = times[np.isfinite(times)]
    order = np.argsort(times, kind="stable")
    values = np.cumsum(steps[order])
    times = times[order]
    last = np.diff(times, append=np.inf) > 0
    before = 0
    for at_s, value in zip(times[last].tolist(), values[last].tolist(), strict=True):
        if value != before:
            yield {"name": name, "ph": "C", "ts": microseconds(at_s), "pid": PROCESS, "args": {unit: value}}
        before = value


def timeline_events(replay: Replay) -> Iterator[Event]:
    """Events of a replay, in order of time."""
    ran = []
    names = [f"{name}, " if name else "" for name in replay.names]
    stages = np.cumsum([QUEUE, *(len(part.table.exits) for part in replay.by_network)]).tolist()
    for part, first in zip(replay.by_network, stages[:-1], strict=True):
        if part.runs is None:
            raise InputError("timeline: expected a replay with its runs, found none; simulate with record=True")
        ran += [_runs(part, part.runs, lane, lane * (stages[-1] - QUEUE) + first) for lane in range(replay.lanes)]
    yield from _metadata(replay, names)
    trace = replay.traffic.trace
    arrived = zip(trace.request_id.tolist(), trace.arrival_s.tolist(), strict=True)
    arrivals = (_instant("arrival", at_s, QUEUE, {"request": request}) for request, at_s in arrived)
    queue = _counter("queue", "requests", trace.arrival_s, replay.left_queue_s)
    left_s = np.where(np.isfinite(replay.start_s), replay.gone_s, np.inf)
    in_flight = _counter(f"on the {replay.by_network[0].table.machine}", "samples", replay.start_s, left_s)
    yield from heapq.merge(arrivals, *ran, queue, in_flight, key=lambda event: float(event["ts"]))


def write_timeline(replay: Replay, path: AnyPath, *, replace: bool = True) -> None:
    """Write a timeline (``docs/file-formats.md``), whole or not at all.

    Parameters
    ----------
    replay : Replay
        The simulation, with every run: ``record=True``.
    path : str or Path
        Destination.
    replace : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If it is too long, the runs were not recorded, the file system refuses, or the file exists.
    """
    check_timeline_size(replay)
    header = {"schema": SCHEMA, "requests": len(replay.traffic), "preemptions": replay.preemptions}
    write_file(path, timeline_text(header, timeline_events(replay)), replace=replace)
