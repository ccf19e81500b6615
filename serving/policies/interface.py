"""Interface of scheduling policies: what they see, what they may decide, and what they state.

A policy decides with one function ``decide(view, data)``, which the event loop calls
whenever a lane of the device could do something else:

* the lane is idle and a request waits;
* the batch on top of the lane has run the segments that it was given, has
  merged with the batch below it, or has left the lane with another one waiting there.

A segment is a stage of the network (from exit to exit), or a layer if the policy
asks for layers.  An NPU has one lane; a device that runs several batches side by
side has as many lanes.  On each lane batches stand on a stack: the top one runs, those below
are preempted.  ``decide`` answers with a :class:`Decision`, made by :func:`launch`, :func:`go_on`
or :func:`sleep`, or written out where a policy does more than these can say.

The function is compiled by numba with :data:`DECIDE`, and must also run as plain
Python.  ``data.requests`` holds every request of the traffic: a policy reads those
that wait (``data.queue``) or run (``data.members``), and no other, since no
scheduler sees the future.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ...formats.array_types import Floats, Ints
from ...jit import Reference, compiled
from ...traffic.request_columns import REQUEST_COLUMNS
from .parameters import Parameter

if TYPE_CHECKING:
    from ...tables.latency import LatencyTable
    from ...traffic.trace import Trace

CARRIED = tuple(column for column in REQUEST_COLUMNS if column.carried)
"""Columns of requests that policies read: ``width``, ``predicted_depth``, ``predicted_width``, ``min_accuracy``."""

COLUMNS = {
    "arrival_s": "f8",
    "due_s": "f8",  # arrival plus SLO
    **{column.name: "f8" for column in CARRIED},  # what the request states; 0 where it does not
    "start_s": "f8",  # entry into the device; infinite until then
    "finish_s": "f8",  # return; infinite until then
    "stalled_s": "f8",  # time spent preempted
    "preempted": "i4",  # how often
    "variant": "i4",  # of the network, that its batch began with
    "batch": "i4",  # with which it entered, counted from 1; 0 until then
}
"""What is known of each request on arrival, and what has happened to it so far: an array each.

Of the columns of :data:`CARRIED`, ``width`` is e.g. the length of a sequence, ``predicted_width`` and
``predicted_depth`` are the width, and the exit or the steps of the last stage, that a predictor expects, and
``min_accuracy`` is the accuracy that the request asks for.
"""

Requests: Any = namedtuple("Requests", [*COLUMNS])  # type: ignore[misc]  # noqa: PYI024  its fields are a table
"""Every request of the traffic: the arrays of :data:`COLUMNS`."""


def record_type(fields: Sequence[tuple[str, Any]]) -> np.dtype[Any]:
    """The type of records with these fields; made once, since compiled code must get to know each that is made."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


def zeros(count: int, kind: np.dtype[Any]) -> Any:
    """Records whose fields are all 0."""
    return np.zeros(count, kind).view(np.recarray)


VARIANT = record_type(
    [
        ("width", "f8"),  # largest that it serves; infinite if the network has one width
        ("accuracy", "f8"),  # of its SubNet; NaN if it is not known
        ("subnet", "i8"),  # counted from 0
        ("state", "i8"),  # of the device, counted from 0
        ("overlap", "f8"),  # inner product of the vectors of its SubNet and of what its state keeps on chip
        ("content", "f8"),  # inner product of the latter with itself
        ("refill_s", "f8"),  # time to load what its state keeps
    ]
)
"""A variant of the network, or of the device's state."""

BATCH = record_type(
    [
        ("first", "i8"),  # its first sample among the lane's
        ("began_with", "i8"),  # samples
        ("places", "i8"),  # batch size at which the device runs it
        ("segment", "i8"),  # segments that it has completed
        ("stage", "i8"),  # stages that it has completed
        ("variant", "i8"),
        ("compact", "i8"),  # whether it gives up the places of samples that exit
        ("due_s", "f8"),  # earliest due time in it and in those below
        ("paused_s", "f8"),  # when it was preempted
    ]
)
"""A batch.  Its samples lie behind those in the batches below: to merge two is to forget where the upper one began."""

LANE = record_type(
    [
        *((name, BATCH[name]) for name in BATCH.names or () if name != "paused_s"),  # the batch on top of its stack
        ("samples", "i8"),  # of that batch
        ("offset", "i8"),  # where its batches and samples begin among all lanes'
        ("depth", "i8"),  # batches on its stack; 0 when idle
        ("in_flight", "i8"),  # samples of all of them
        ("admitted", "i8"),  # samples that they began with, those included that have exited since
        ("running", "i8"),  # 1 while a segment runs, 2 while it waits as the host handles outputs behind one
        ("left", "i8"),  # segments that the top batch still runs before the policy is asked
        ("network", "i8"),  # of its batches, or of the last one; -1 before the first
        ("kind", "i8"),  # of core
        ("queue", "i8"),  # which queue of each network it takes requests from
        ("run", "i8"),  # place of the running segment in the record
        ("marks", "i8"),  # what the next recorded run began with
        ("begin_s", "f8"),  # of the running segment
        ("end_s", "f8"),
        ("wait_s", "f8"),  # time that passes before its segment begins: to gather samples
        ("wake_s", "f8"),  # when an idle lane is asked again, if no request arrives earlier
        # of several lanes: the share that the running segment takes of the device, or of its time to move words
        ("load", "f8"),
        ("stretch", "f8"),  # factor by which moving words takes longer on this core, beside the others
        ("slowdown", "f8"),  # factor of other lanes that the end of the running segment has in it
    ]
)
"""State of a lane; a policy may read it, of every lane."""


class LaneView(NamedTuple):
    """View of the lane for which a policy is asked.

    Attributes
    ----------
    now_s : float
        Time.
    lane : int
        The lane that it is asked for.
    b_max : int
        Most samples that may be on a lane at once.
    segments : int
        Segments from the input to the end of the network; a last stage that repeats counts for each step.
    stages : int
        Stages, counted in the same way.
    steps : int
        How often the last stage may run.
    variants : int
        Of the network.
    waiting : int
        Requests in the queue.
    head_arrival_s, head_due_s : float
        Arrival of the first in the queue, and the time at which it is due (arrival plus SLO); infinity if none waits.
    depth : int
        Batches on the lane: 0 when it is idle.
    in_flight : int
        Samples on the lane, in all its batches.
    admitted : int
        Samples that the batches on the lane began with, those included that have exited since.
    deadline_s : float
        Earliest time at which a sample on the lane is due; infinity if it is idle.
    size : int
        Samples of the top batch.
    places : int
        Batch size at which the device runs it: ``size``, and the places of samples that exited and were not
        compacted.
    stage : int
        Stages it has completed: the last exit it has passed.
    segment : int
        Segments it has completed.
    variant : int
        In which it runs.
    first : int
        Where the requests that wait begin in ``data.queue``.
    offset : int
        Where the requests on the lane begin in ``data.members``.
    """

    now_s: float
    lane: int
    b_max: int
    segments: int
    stages: int
    steps: int
    variants: int
    waiting: int
    head_arrival_s: float
    head_due_s: float
    depth: int
    in_flight: int
    admitted: int
    deadline_s: float
    size: int
    places: int
    stage: int
    segment: int
    variant: int
    first: int
    offset: int


class Data(NamedTuple):
    """The arrays that a policy reads, and its own.

    Attributes
    ----------
    requests : Requests
        Every request: (N,) arrays by the names of COLUMNS.
    queue : (N,) ndarray of int64
        Those that wait, in order of arrival: ``waiting`` from ``first`` on.  A policy may put them into another order.
        With ``on_deadline`` or ``admit=newest:N`` they may be others at the next call.
    members : (L * b_max,) ndarray of int64
        Those on the lane, bottom batch first: ``in_flight`` from ``offset`` on.
    lanes : (L,) record array of LANE
        All lanes.
    latency_s : (V, E + 1, E + 1, B + 1) ndarray of float64
        T_{i:j}^b of each variant of the network, seconds; a last stage that repeats has one entry, and
        :func:`.estimates.between_s` counts its steps.
    gather_s : (P + 1, B + 1) ndarray of float64
        Time to gather samples into a smaller batch, by the stages that it has completed and its size.  Each step of a
        last stage that repeats has an entry, as if it were a stage.
    variants : (V,) record array of VARIANT
        The variants.
    settings : (K,) ndarray of float64
        The policy's parameters, in order.
    memory : (M,) ndarray of float64
        Its own numbers, kept from call to call; zeros at the start.  If it sets the exits' thresholds, they
        are the first ones: for each variant of the network, one for each exit but the last.
    """

    requests: Any
    queue: Ints
    members: Ints
    lanes: NDArray[np.void]
    latency_s: Floats
    gather_s: Floats
    variants: NDArray[np.void]
    settings: Floats
    memory: Floats


class Decision(NamedTuple):
    """Next step of a lane.

    Attributes
    ----------
    admit : int
        Waiting requests that enter as a new batch on top of the lane's stack; the batch that ran is then preempted.
    skip : int
        How many at the head of the queue they are taken behind; these keep waiting.
    run : int
        Segments that the top batch then runs before the policy is asked again.  It is asked
        earlier if all its samples exit, or if the batch merges with the one below.
    wake_s : float
        If nothing is admitted and the lane is idle: when to be asked again, unless a request arrives earlier.
    compact : bool
        Whether the batch on top of the lane gives up the places of samples that have exited, and the device gathers
        the others: now, before a request is admitted, and at the exits that it or a new batch passes in this run.  At
        the exit that ends the run the policy is asked again.  Else those places run on as padding.
    variant : int
        Which variant of the network a new batch runs, or which table of times: one for each state of a cache, say.
        If the table has widths, the batch runs at the narrowest width from this one on that serves all its samples.
    delay_s : float
        Time that passes before the run, e.g. for a predictor or for loading weights.
    """

    admit: int
    skip: int
    run: int
    wake_s: float
    compact: bool
    variant: int
    delay_s: float


Decide = Callable[[LaneView, Data], Decision]

_f, _i, _f1, _i1, _f2 = types.float64, types.int64, types.float64[::1], types.int64[::1], types.float64[:, ::1]
_columns = {"f8": _f1, "i8": _i1, "i4": types.int32[::1]}
REQUESTS = types.NamedTuple([_columns[kind] for kind in COLUMNS.values()], Requests)
LANES, VARIANTS = types.Array(from_dtype(LANE), 1, "C"), types.Array(from_dtype(VARIANT), 1, "C")
LATENCY = types.float64[:, :, :, ::1]
_view = Reference(types.NamedTuple((_f, *[_i] * 7, *[_f] * 2, *[_i] * 3, _f, *[_i] * 7), LaneView))
_data = Reference(types.NamedTuple((REQUESTS, _i1, _i1, LANES, LATENCY, _f2, VARIANTS, _f1, _f1), Data))
DECIDE = types.NamedTuple((_i, _i, _i, _f, types.boolean, _i, _f), Decision)(_view, _data)
"""numba signature of every decision."""


def compile_policy(decide: Decide) -> Decide:
    """Decorator of a policy's function.

    A user's function is compiled at once, so that a fault shows when its file is loaded; one of ours when a replay
    first needs it (``replay.py``), since together they take half a minute.  Ours are lean.
    """
    ours = decide.__module__.startswith(f"{__package__}.")
    made: Decide = compiled(None if ours else DECIDE, lean=ours)(decide)
    return made


@compiled(inline="always")
def launch(admit: int, run: int) -> Decision:
    """Admit the first requests of the queue as a new batch and run it for some segments."""
    return Decision(admit, 0, run, math.inf, True, 0, 0.0)


@compiled(inline="always")
def go_on(run: int) -> Decision:
    """Run the top batch for some segments more."""
    return Decision(0, 0, run, math.inf, True, 0, 0.0)


@compiled(inline="always")
def sleep(until_s: float) -> Decision:
    """Leave an idle lane idle until a time, or until the next request arrives."""
    return Decision(0, 0, 0, until_s, True, 0, 0.0)


Check = Callable[[Floats, "LatencyTable", "Trace", int], "list[str]"]
"""Faults of a policy's parameters, one line each, on a latency table, a trace and a largest batch."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy.

    Attributes
    ----------
    decide : Decide
        Its decision, compiled by :data:`compile_policy`; the docstring gives rule and source.
    parameters : tuple of Parameter
        In the order in which ``decide`` finds them in ``data.settings``.
    by_layer : bool
        Whether segments are layers instead of stages.
    work_conserving : bool
        Whether it claims to run whenever a request waits.
    memory, memory_by_subnet : int
        How many numbers it keeps from call to call in ``data.memory``, and how many more for each SubNet behind them.
    thresholds : bool
        Whether it sets the exits' thresholds while it runs; the traffic must then have confidences.
    chooses_variants : bool
        Whether it chooses among variants of a network; where there is one, another policy does the same.
    counts_on_queue : bool
        Whether it counts on requests that wait, which may then not be dropped.
    check : callable, optional
        Says what is wrong with its parameters on a latency table, a trace and a largest batch, before a replay.
    """

    decide: Decide
    parameters: tuple[Parameter, ...] = ()
    by_layer: bool = False
    work_conserving: bool = True
    memory: int = 0
    thresholds: bool = False
    memory_by_subnet: int = 0
    chooses_variants: bool = False
    counts_on_queue: bool = False
    check: Check | None = None

    def settings(self, texts: Mapping[str, str], slo_s: float | None) -> Floats:
        """The parameters as ``decide`` gets them.

        Parameters
        ----------
        texts : mapping of str to str
            What the user wrote, by name.
        slo_s : float or None
            The SLO of all requests in seconds; ``None`` if each has its own.

        Returns
        -------
        (len(parameters),) ndarray of float64
            The values, defaults where the user wrote none.

        Raises
        ------
        InputError
            If a parameter cannot have its value.
        """
        return np.array(
            [parameter.read(texts.get(parameter.name, parameter.default), slo_s) for parameter in self.parameters]
        )
