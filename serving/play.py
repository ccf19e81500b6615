"""The event loop, run to its end or step by step, compiled or as plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from operator import index
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted

from ..formats import InputError
from ..formats.array_types import Floats
from ..jit import FunctionAddress, as_python, compile_for
from .batches import HANDS_OUT
from .event_loop import FAULTS, OK, SIGNATURES, run_beside, run_events, run_on_terms, run_plain
from .lateness import TOO_LATE, LateLimits, Played, run_unless_late, unless_late
from .outcome import Runs
from .policies import Decide, Decision, LaneView, Policy, compile_policy
from .policies.interface import DECIDE, Data
from .scheduler import Scheduler
from .state import Networks, Record, RequestArrays, State, begin, times_of
from .terms import Terms
from .watch import line_of, watched

OUR_POLICIES = Policy.__module__.rpartition(".")[0]
"""The package of the policies that ship."""

EVENTS = 2**20
"""Instants that the event loop looks at before it reports progress and answers Ctrl-C: some tenths of a second."""

FEW = 2**12
"""Where instants of a step, or requests, are fewer, calls of a policy by its address cost less than one look-up."""

LOOK = 2**7
"""Instants after which late requests are counted: some microseconds."""

OUTCOMES = {"start_s": math.inf, "finish_s": math.inf, "stalled_s": 0.0, "preempted": 0, "variant": 0, "batch": 0}
"""Columns of requests that a run writes, and what they are before it."""


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


class Loop:
    """The event loop on some requests, in steps or to its end."""

    def __init__(
        self,
        scheduler: Scheduler,
        work: RequestArrays,
        networks: Networks,
        terms: Terms | None = None,
        room: tuple[int, int] = (0, 0),
    ) -> None:
        self._scheduler, self._terms, (runs, members) = scheduler, terms, room
        self._memory = networks.memory
        state = begin(networks, len(work.exit_of))
        record = Record(
            np.zeros(networks.time_s.size, dtype=np.int64), np.zeros((runs, 2)), np.zeros((runs, 5), dtype=np.int64),
            np.zeros(members, dtype=np.int64),
        )  # fmt: skip
        self._run = LoopRun(state.clock[0], state, work, record)
        self._advance = stepper(scheduler, work, networks, state, record, terms)

    def to(
        self,
        until_s: float = math.inf,
        *,
        progress: Callable[[int, int], None] | None = None,
        control: Control | None = None,
    ) -> LoopRun:
        """Run to the end, or stop for good at a time; ``progress`` only reports."""
        run, events = self._run, EVENTS if control is None else control.events
        clock, count = run.clock, len(run.work.exit_of)
        while clock.returned < count and clock.now_s < until_s:
            self._advance(until_s, events)
            if control is not None:
                control.look(int(clock.returned))
            if progress is not None:
                progress(int(clock.returned), count)
        if clock.returned >= count:
            self._check_all_left()
        return run

    def exceeds(self, limits: LateLimits) -> bool:
        """Run to the end, or until more requests are late than may be; whether it is so."""
        exceeds = self._advance(math.inf, LOOK, limits)
        if not exceeds:
            self._check_all_left()
        return exceeds

    def remember(self) -> Callable[[], None]:
        """A function that brings all that a run changes, but the exits, back to what it is now: before the run."""
        run, terms = self._run, self._terms
        changed = run.state._replace(waiting=run.state.waiting[:0], joined=run.state.joined), run.record, self._memory
        others = [(values, values.copy()) for values in _arrays_in((changed, terms or ()))]
        if terms is not None:  # clients write arrivals
            others.append((run.work.requests.arrival_s, run.work.requests.arrival_s.copy()))

        def back() -> None:
            arrived = slice(int(run.clock.arrived) if terms is None else None)  # no later one has changed
            for name, before in OUTCOMES.items():
                getattr(run.work.requests, name)[arrived] = before
            for values, before in others:
                values[:] = before

        return back

    def _check_all_left(self) -> None:
        requests, terms = self._run.work.requests, self._terms
        left_s = requests.finish_s
        if terms is not None:  # a request that clients did not send any more never arrived
            left_s = np.where(requests.arrival_s < math.inf, np.minimum(left_s, terms.left_s), 0.0)
        if left_s.max(initial=0.0) == math.inf:
            lost = int(np.argmax(left_s))  # the first
            raise InputError(
                f"policy {self._scheduler.spec}: lost request {lost}, as data.queue had another one twice; "
                "`debug=on` finds the first time (`fluidb docs extend`)"
            )


def _arrays_in(values: Any) -> Iterator[Any]:
    """The arrays of tuples of tuples, which take their values sooner if they are no record arrays."""
    for value in values:
        if isinstance(value, tuple):
            yield from _arrays_in(value)
        else:
            yield value.view(np.ndarray)


def stepper(
    scheduler: Scheduler,
    work: RequestArrays,
    networks: Networks,
    state: State,
    record: Record,
    terms: Terms | None = None,
) -> Callable[..., bool]:
    """The event loop on these arrays: a function of the time at which it stops, and of the instants it looks at.

    With limits it runs to its end, or until too many requests are late after one step, and says whether that is so.

    In a step of few instants a policy that ships is called by its address, with which a step begins in a fifth of the
    time.  Many instants take a quarter longer so, and exceptions of a user's policy would be lost.
    """
    beside = None if terms is None and len(state.lanes) == 1 else len(state.lanes)
    own = scheduler.policy.decide
    if scheduler.debug:
        decide, loop = _whole_numbers(watched(own)), as_python(run_events)
    else:
        plain = run_plain if beside is None else run_beside
        decide, loop = _compiled(own, plain if terms is None else run_on_terms)
    address = _address(decide) if is_jitted(decide) and _ours(decide) else None
    few = len(work.exit_of) < FEW

    def advance(until_s: float, events: int, limits: LateLimits | None = None) -> bool:
        policy: Any = decide if address is None or not (few or events < FEW) else address
        try:
            if limits is None:
                status = loop(policy, work, networks, state, record, until_s, events, terms, beside)
            else:
                run, each = (run_unless_late, loop) if address is None else unless_late(loop)
                status = run(each, policy, Played(work, networks, state, record, terms, beside), events, limits)
        except InputError as fault:
            raise InputError(f"policy {scheduler.spec}: {fault}; see `fluidb docs extend`") from None
        except (Exception, SystemExit) as error:  # an exception of a user's policy is a fault of the user
            raise InputError(
                f"policy {scheduler.spec}: raised {type(error).__name__}: {error}{line_of(own, error)}; see "
                "`fluidb docs extend`"
            ) from error
        if status not in (OK, TOO_LATE):
            raise InputError(f"policy {scheduler.spec}: {FAULTS[status]}; see `fluidb docs extend`")
        return bool(status == TOO_LATE)

    return advance


class CutOff(NamedTuple):
    """Work that had begun and was not done when a simulation was stopped."""

    # (V, S, B + 1): the share that is missing of each run, by variant, segment and batch size
    launches: Floats
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
    for k in np.flatnonzero((lanes["network"] == number) & (lanes["depth"] > 0)):
        # at once: to read each field of a record takes a microsecond, and `plan` stops many thousand runs
        lane = SimpleNamespace(**dict(zip(lanes.dtype.names, lanes[k].item(), strict=True)))
        if lane.depth > 1:
            below = batches[lane.offset : lane.offset + lane.depth - 1]
            for batch, next_first in zip(below, [*below.first[1:], lane.first], strict=True):
                stalled = state.members[lane.offset + batch.first : lane.offset + next_first]
                requests.stalled_s[stalled] += until_s - batch.paused_s
        if not lane.running:
            continue
        if lane.running == HANDS_OUT:
            overhead_s += lane.end_s - max(lane.begin_s, until_s)
            continue
        segment = networks.segment_at[its.places_at + lane.segment]
        taken = lane.kind * its.variants + lane.variant, segment, lane.places
        lasts_s = lane.end_s - lane.begin_s  # 0 beside a policy's delay of ages, behind which it does not begin
        missing = (lane.end_s - max(lane.begin_s, until_s)) / lasts_s if lasts_s else 1.0
        late_s = max(0.0, lane.begin_s - until_s)  # by which gathers and delays, and before them the call, end later
        launches[taken] += missing
        overhead_s += missing * (lasts_s - time_s[taken]) + min(late_s, lane.wait_s)
        call_s += max(0.0, late_s - lane.wait_s)
    return CutOff(launches, overhead_s, call_s)


@cache
def _address(decide: Decide) -> FunctionAddress:
    """A compiled decision by its address."""
    return FunctionAddress(decide, DECIDE)


def _ours(decide: Decide) -> bool:
    return decide.__module__.startswith(OUR_POLICIES)


@cache
def _compiled(decide: Decide, loop: Any) -> tuple[Decide, Any]:
    """A decision and the event loop that runs it: compiled, or plain Python if numba cannot."""
    if is_jitted(loop):
        compile_for(SIGNATURES[loop], loop)
    if is_jitted(decide):
        if _ours(decide):
            compile_for(DECIDE, decide)
        return decide, loop
    if is_jitted(loop):
        with suppress(Exception):  # numba raises many kinds
            return compile_policy(decide), loop
    return _whole_numbers(decide), as_python(run_events)


def _whole_numbers(decide: Decide) -> Decide:
    """The decision with the types that compiled code gives it; a number that is not whole raises ``TypeError``."""

    def checked(view: LaneView, data: Data) -> Decision:
        admit, skip, run, wake_s, compact, variant, delay_s = decide(view, data)
        return Decision(index(admit), index(skip), index(run), wake_s, compact, index(variant), delay_s)

    return checked
