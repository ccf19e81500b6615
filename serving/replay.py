"""Replaying a trace on a design, under a policy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..formats import AnyPath, InputError, memoized
from ..jit import FunctionAddress, compile_for
from ..tables.latency import LatencyTable, Segments, SubNetEntry
from ..traffic.rows import more
from ..traffic.trace import Trace, write_columns
from ..traffic.traffic import Traffic, places
from .event_loop import (
    FAULTS,
    OK,
    PLAIN,
    WITH_QUEUES,
    WITH_TERMS,
    run_events,
    run_on_terms,
    run_plain,
    run_several,
)
from .inputs import AnyPolicy, as_scheduler
from .outcome import Outcome, Replay, Runs
from .policies import Decide, Decision, LaneView, Policy, compile_policy
from .policies.interface import CARRIED, COLUMNS, DECIDE, VARIANT, Data, Requests
from .scheduler import Scheduler
from .state import (
    SHARED,
    DeviceArrays,
    Networks,
    OneNetwork,
    Record,
    RequestArrays,
    Rules,
    State,
    begin,
    networks_of,
    times_of,
)
from .terms import ON_DEADLINE, Terms, terms_of

OUR_POLICIES = Policy.__module__.rpartition(".")[0]
"""The package of the policies that ship."""

EVENTS = 2**20
"""Instants that the event loop looks at before it reports progress and answers Ctrl-C: some tenths of a second."""


def simulate(
    table: LatencyTable,
    traffic: Traffic,
    scheduler: AnyPolicy,
    *,
    until_s: float = math.inf,
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Serve traffic with a policy.

    Parameters
    ----------
    table : LatencyTable
        Times of the design that serves it.
    traffic : Traffic
        Requests with their exits and objectives; see :func:`fluidb.traffic.prepare`.
    scheduler : Scheduler or str
        The policy, e.g. ``"fluid"``.
    until_s : float
        Stop then; requests that arrived and have not returned stay unfinished.
    record : bool
        Keep every run, for a timeline (see :func:`record_runs`).
    progress : callable, optional
        Called with the requests that were served, and their number.

    Returns
    -------
    Replay
        The outcome of every request.

    Raises
    ------
    InputError
        If nothing arrives in time, or the policy broke its contract.
    """
    scheduler = as_scheduler(scheduler)
    arrival_s = traffic.trace.arrival_s if traffic.think_s is None else np.sort(traffic.think_s[: traffic.clients])
    arrived = int(np.searchsorted(arrival_s, until_s, side="left"))
    if arrived == 0:
        raise InputError(f"until: expected a time after the first arrival at {arrival_s[0]:g} s, found {until_s:g} s")
    offered = traffic.first(arrived) if traffic.think_s is None else traffic
    replay = _replay(table, offered, scheduler, until_s, None, progress)
    return record_runs(replay, scheduler) if record else replay


def record_runs(replay: Replay, scheduler: Scheduler) -> Replay:
    """Replay again and keep every run, for a timeline; the first replay knows their number."""
    launches = replay.launches
    room = int(launches.sum()), int(launches.sum(axis=(0, 1)) @ np.arange(launches.shape[2]))
    return _replay(replay.table, replay.offered or replay.traffic, scheduler, replay.until_s, room)


def _replay(
    table: LatencyTable,
    traffic: Traffic,
    scheduler: Scheduler,
    until_s: float,
    room: tuple[int, int] | None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """A replay; it keeps its runs if it gets ``room``: the number of runs, and of samples in them."""
    case = case_of(table, traffic, scheduler)
    run = play(
        scheduler, case.work, case.networks, case.terms, until_s=until_s, room=room or (0, 0), progress=progress
    )  # fmt: skip
    return case.replay(run, until_s, recorded=room is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """Traffic on a table under a policy, as the event loop takes it."""

    table: LatencyTable  # its origin
    traffic: Traffic
    scheduler: Scheduler
    segments: Segments  # that run between two decisions
    work: RequestArrays  # input of the event loop
    device: DeviceArrays
    rules: Rules
    lanes: int  # lanes that are used
    levels: int  # thresholds that the policy sets
    terms: Terms | None  # those of clients that wait, of deadlines and of admission
    networks: Networks  # the network as the event loop takes it

    def replay(self, run: LoopRun, until_s: float, *, recorded: bool) -> Replay:
        """The replay of these runs."""
        (clock, state, (served, exit_of, _), ran), traffic, calls_s = run, self.traffic, self.scheduler.call_s
        launches, counts = times_of(self.networks, 0, ran.launches), state.counts[0]
        cut = cut_off(run, self.networks, 0, until_s)
        last, offered, left_s, refused, rule = len(self.table.exits), None, None, None, self.scheduler.on_deadline
        if self.terms is not None:
            sent = int(clock.arrived)
            offered = traffic.first(sent)
            refused = self.terms.refused[:sent] if self.scheduler.admit else None
            left_s = self.terms.left_s[:sent] if rule or refused is not None else None
            served, exit_of = served._make(column[:sent] for column in served), exit_of[:sent]
            trace = dataclasses.replace(offered.trace, arrival_s=served.arrival_s)
            traffic = dataclasses.replace(offered, trace=trace, exits=np.minimum(exit_of, last))
        elif self.levels:
            traffic = dataclasses.replace(traffic, exits=np.minimum(exit_of, last))
        return Replay(
            traffic, self.table, served.start_s, served.finish_s, served.stalled_s, served.preempted, self.segments,
            served.variant, served.batch, launches, cut.launches, int(counts.preemptions), int(counts.calls),
            int(counts.calls) * calls_s - cut.call_s, until_s, self.lanes, float(counts.overhead_s) - cut.overhead_s,
            runs_of(ran, int(clock.run_members)) if recorded else None, offered, ON_DEADLINE[rule],
            left_s, refused,
        )  # fmt: skip


def case_of(table: LatencyTable, traffic: Traffic, scheduler: Scheduler) -> Case:
    """Traffic on a table under a policy, after a check that they fit each other."""
    policy = scheduler.policy
    if scheduler.between is not None:
        raise InputError(f"policy {scheduler.spec}: between: expected several networks, found one; leave it out")
    if scheduler.dispatch is not None and table.cores is None:
        raise InputError(
            f"policy {scheduler.spec}: dispatch: expected a latency table of several cores, found one of "
            f"{table.platform}; make one with `fluidb latency --cores`, or leave dispatch out"
        )
    segments, device = _device(table, by_layer=policy.by_layer)
    last_s, least_s = float(traffic.trace.arrival_s[-1]), float(segments.time_s[:, :, 1].min())
    if np.spacing(last_s) > 1e-3 * least_s:
        raise InputError(
            f"trace: arrivals as late as {last_s:g} s leave too few digits for a segment of {least_s:g} s; "
            "start the trace near 0"
        )
    b_max, cores = scheduler.b_max or table.b_max, table.cores
    lanes = scheduler.lanes if cores is None else check_cores(scheduler, table)
    for key, asked, most in (("lanes", lanes, table.lanes), ("b_max", b_max, table.b_max)):
        if asked > most:
            raise InputError(
                f"policy {scheduler.spec}: {key}: expected at most {most} on {table.platform}, found {asked}"
            )
    settings, levels = scheduler.settings(traffic.objective_s), _levels(policy, traffic, len(table.exits))
    if policy.check is not None and (faults := policy.check(settings, table, traffic.trace, b_max)):
        raise InputError([f"policy {scheduler.spec}: {fault}" for fault in faults])
    kept = policy.memory + policy.memory_by_subnet * table.axes[1]
    memory = np.zeros(levels * table.variants + kept)
    rules = Rules(settings, memory, b_max, scheduler.call_s)
    _check_columns(table, traffic.trace)
    work = work_of(traffic, len(table.exits), table.exits[-1].steps, levels)
    if table.widths is not None and traffic.trace.width is None:
        work.requests.width[:] = table.widths[0]  # a request that states no width may have the widest
    terms = None
    apart = cores is not None and (scheduler.dispatch or len(cores.names) > 1)
    if traffic.think_s is not None or scheduler.on_deadline or scheduler.admit or apart:
        work = work._replace(exit_of=work.exit_of.copy())  # it may be the traffic's own, and early answers change it
        admission = () if scheduler.admit is None else (scheduler.admit,)
        terms = terms_of(work.requests, traffic.slo_s, traffic.think_s, scheduler.on_deadline, admission, b_max)
    networks = networks_of(
        [OneNetwork(device, rules)], [0] * lanes if cores is None else cores.of, dispatch=scheduler.dispatch or SHARED
    )
    return Case(table, traffic, scheduler, segments, work, device, rules, lanes, levels, terms, networks)


def check_cores(scheduler: Scheduler, table: LatencyTable) -> int:
    """The number of a table's cores, all of which serve; refuse what they cannot have."""
    if scheduler.lanes > 1:
        raise InputError(
            f"policy {scheduler.spec}: lanes: expected none on {table.platform}, whose {table.lanes} cores all serve, "
            "found some; leave it out"
        )
    if scheduler.policy.thresholds:
        raise InputError(f"policy {scheduler.spec}: expected one that sets no thresholds on cores; choose e.g. fluid")
    return table.lanes


def runs_of(record: Record, members: int) -> Runs:
    """Every run that was recorded, a column for each thing known of it, and the samples in them."""
    begin_s, end_s = record.run_s.T
    segment, batch, level, flags, lane = record.runs.T
    return Runs(begin_s, end_s, segment, batch, level, flags, lane, record.members[:members])


class LoopRun(NamedTuple):
    """Result of the event loop: its clock and lanes, the requests as they were served, and what ran."""

    clock: Any
    state: State
    work: RequestArrays
    record: Record


class Control(NamedTuple):
    """What may change the arrays that policies read while the event loop runs."""

    events: int  # instants between two looks
    look: Callable[[int], None]  # gets the number of requests that have returned


def play(
    scheduler: Scheduler,
    work: RequestArrays,
    networks: Networks,
    terms: Terms | None = None,
    *,
    until_s: float = math.inf,
    room: tuple[int, int] = (0, 0),
    progress: Callable[[int, int], None] | None = None,
    control: Control | None = None,
) -> LoopRun:
    """Run the event loop to its end; ``progress`` only reports."""
    count, (runs, members) = len(work.exit_of), room
    state = begin(networks, count)
    record = Record(
        np.zeros(networks.time_s.size, dtype=np.int64), np.zeros((runs, 2)), np.zeros((runs, 5), dtype=np.int64),
        np.zeros(members, dtype=np.int64),
    )  # fmt: skip
    clock, events = state.clock[0], EVENTS if control is None else control.events
    advance = stepper(scheduler, work, networks, state, record, terms)
    while clock.returned < count and clock.now_s < until_s:
        advance(until_s, events)
        if control is not None:
            control.look(int(clock.returned))
        if progress is not None:
            progress(int(clock.returned), count)
    return LoopRun(clock, state, work, record)


def stepper(
    scheduler: Scheduler,
    work: RequestArrays,
    networks: Networks,
    state: State,
    record: Record,
    terms: Terms | None = None,
    *,
    short: bool = False,
) -> Callable[[float, int], None]:
    """The event loop on these arrays: a function of the time at which it stops, and of the instants it looks at.

    Steps of few instants are ``short``: a policy that ships is then called by its address, with which a step begins in
    a fifth of the time.  Many instants take a quarter longer so, and exceptions of a user's policy would be lost.
    """
    several = len(state.queues) if len(state.queues) > 1 or len(set(networks.kinds.tolist())) > 1 else None
    decide, loop = _compiled(scheduler.policy.decide, PLAIN if terms is None else WITH_TERMS if several is None else WITH_QUEUES)
    by_address = short and is_jitted(decide) and _ours(decide)
    policy: Any = FunctionAddress(decide, DECIDE) if by_address else decide

    def advance(until_s: float, events: int) -> None:
        try:
            status = loop(policy, work, networks, state, record, until_s, events, terms, several)
        except (Exception, SystemExit) as error:  # an exception of a user's policy is a fault of the user
            raise InputError(
                f"policy {scheduler.spec}: raised {type(error).__name__}: {error}; see `fluidb docs extend`"
            ) from error
        if status != OK:
            raise InputError(f"policy {scheduler.spec}: {FAULTS[status]}; see `fluidb docs extend`")

    return advance


class CutOff(NamedTuple):
    """Work that had begun and was not done when a simulation was stopped."""

    # (V, S, B + 1): the share that is missing of each run, by variant, segment and batch size
    launches: NDArray[np.float64]
    overhead_s: float  # missing time of gathers, delays and slowdowns, and of scheduler calls
    call_s: float


def cut_off(run: LoopRun, networks: Networks, number: int, until_s: float) -> CutOff:
    """Work of a network that had begun when the simulation was stopped; preempted requests have stood still until then.

    Only those lanes count that run it.
    """
    time_s, its = times_of(networks, number, networks.time_s), networks.records[number]
    launches, overhead_s, call_s = np.zeros(time_s.shape), 0.0, 0.0
    state, requests = run.state, run.work.requests
    lanes: Any = state.lanes
    batches: Any = state.batches
    for k in np.flatnonzero(lanes.network == number):
        lane = lanes[k]
        below = batches[lane.offset : lane.offset + max(0, lane.depth - 1)]
        for batch, next_first in zip(below, [*below.first[1:], lane.first], strict=False):
            stalled = state.members[lane.offset + batch.first : lane.offset + next_first]
            requests.stalled_s[stalled] += until_s - batch.paused_s
        if not lane.running:
            continue
        segment = networks.segment_at[its.places_at + lane.segment]
        taken = lane.kind * its.variants + lane.variant, segment, lane.places
        missing = (lane.end_s - max(lane.begin_s, until_s)) / (lane.end_s - lane.begin_s)
        late_s = max(0.0, lane.begin_s - until_s)  # by which gathers and delays, and before them the call, end later
        launches[taken] += missing
        overhead_s += missing * (lane.end_s - lane.begin_s - time_s[taken]) + min(late_s, lane.wait_s)
        call_s += max(0.0, late_s - lane.wait_s)
    return CutOff(launches, overhead_s, call_s)


def _levels(policy: Policy, traffic: Traffic, exits: int) -> int:
    """Number of thresholds that a policy sets while it runs: one for each exit but the last, or none."""
    if not policy.thresholds:
        return 0
    if traffic.trace.confidences is None:
        raise InputError("policy: expected traffic with confidences, which its thresholds decide by, found none")
    return exits - 1


def _check_columns(table: LatencyTable, trace: Trace) -> None:
    """Refuse values out of bounds, more steps or a greater width than the table has, and predictions of no steps."""
    most, where, faults = table.exits[-1].steps, trace.source or "trace", []
    limits: list[tuple[str, NDArray[Any] | None, float, str]]
    limits = [("steps", trace.steps, most, f"at most {most}, how often the last stage runs")]
    if table.widths is not None:
        limits.append(("width", trace.width, table.widths[0], f"at most {table.widths[0]:g}, the widest of the table"))
    for name, values, limit, expected in limits:
        if values is not None and (wrong := np.flatnonzero(values > limit)).size:
            row, found = wrong[0], values[wrong[0]]
            faults.append(f"{where}: row {row + 1}: {name}: expected {expected}, found {found:g}{more(wrong.size)}")
    if most > 1 and trace.predicted_depth is not None and trace.steps is None:
        faults.append(
            f"{where}: predicted_depth: expected a trace with steps, which it predicts where the last stage repeats, "
            "found none; draw them with `fluidb trace add`"
        )
    for column in CARRIED:
        stated: NDArray[Any] | None = getattr(trace, column.name)
        if stated is not None and (wrong := np.flatnonzero(column.values.outside(stated))).size:
            row, expected = wrong[0], f"{column.name}: expected {column.values.expected}"
            faults.append(f"{where}: row {row + 1}: {expected}, found {stated[row]:g}{more(wrong.size)}")
    if faults:
        raise InputError(faults)


def requests_of(arrival_s: NDArray[np.float64], slo_s: NDArray[np.float64] | float, **stated: NDArray[Any]) -> Any:
    """Requests that have not begun, with what they state, as :data:`Requests`; no memory for what stays 0."""
    count = len(arrival_s)
    known = {name: np.require(values, float, ["C", "W"]) for name, values in {**stated, "arrival_s": arrival_s}.items()}
    known["due_s"] = arrival_s + slo_s
    known |= {name: np.full(count, math.inf) for name in ("start_s", "finish_s")}
    return Requests(*(known[name] if name in known else np.zeros(count, kind) for name, kind in COLUMNS.items()))


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
        latency_s=table.arrays(),
        segment_at=segment_at,
        stage_after=stage - ~ends_stage,
        gather_s=table.gather_array(),
        load=np.zeros(table.b_max + 1) if table.load is None else np.array(table.load),
        variants=variants_of(table),
        wake_up_s=table.wake_up_s or 0.0,
        moving=moving,
        contention=-1.0 if cores is None else cores.contention,
    )


def variants_of(table: LatencyTable) -> NDArray[np.void]:
    """Properties of each variant of a table that policies read, as records of ``VARIANT``."""
    found = np.zeros(math.prod(table.axes), VARIANT).view(np.recarray)
    widths = np.array(table.widths or [math.inf])
    known = [net.accuracy for net in table.subnets or [SubNetEntry(name="")]]
    accuracy = np.array([math.nan if value is None else value for value in known])
    found.state, found.subnet, width = np.unravel_index(np.arange(len(found)), table.axes)
    found.width = widths[width]
    found.accuracy = accuracy[found.subnet]
    if table.reuse is not None:
        found.refill_s = np.array(table.reuse.refill_s)[found.state]
        if table.reuse.overlap is not None:
            found.overlap = np.array(table.reuse.overlap)[found.state, found.subnet]
            found.content = np.array(table.reuse.content)[found.state]
    return found


def _ours(decide: Decide) -> bool:
    return decide.__module__.startswith(OUR_POLICIES)


@cache
def _compiled(decide: Decide, signature: Any) -> tuple[Decide, Any]:
    """A decision and the event loop that runs it: compiled, or plain Python if numba cannot."""
    loop: Any = {WITH_TERMS: run_on_terms, WITH_QUEUES: run_several}.get(signature, run_plain)
    if is_jitted(loop):
        compile_for(signature, loop)
    if is_jitted(decide):
        if _ours(decide):
            compile_for(DECIDE, decide)
        return decide, loop
    if is_jitted(loop):
        with suppress(Exception):  # numba raises many kinds
            return compile_policy(decide), loop
    return _whole_numbers(decide), run_events


def _whole_numbers(decide: Decide) -> Decide:
    """The decision with the types that compiled code gives it; a number that is not whole raises ``TypeError``."""

    def checked(view: LaneView, data: Data) -> Decision:
        admit, skip, run, wake_s, compact, variant, delay_s = decide(view, data)
        return Decision(index(admit), index(skip), index(run), wake_s, compact, index(variant), delay_s)

    return checked


def write_requests(result: Outcome, path: AnyPath, *, replace: bool = True) -> None:
    """Write the outcome of every request as CSV, whole or not at all; times that never came are empty.

    Parameters
    ----------
    result : Replay or NetworksReplay
        The replay.
    path : str or Path
        Destination.
    replace : bool
        Whether an existing file is replaced; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    write_columns(result.columns(), path, replace=replace)
