"""What a scheduling policy sees, what it may decide, and how its parameters are written.

A policy decides with one function ``decide(view, latency, settings, due_s)``,
which the event loop calls whenever the NPU could do something else:

* the NPU is idle and a request waits;
* the running sub-batch has come to the end of the segments it was given, has
  merged with the one below it, or has left the NPU with another one waiting.

A segment is a stage of the network (from exit to exit), or a layer if the
policy asks for layers.  The answer is a tuple of

``admit``
    how many waiting requests, oldest first, enter as a new sub-batch on top of
    the stack; what was running is thereby preempted.  0 admits none.  If the
    policy lets requests overtake, those that are late already come last; a
    negative number -n admits the n oldest, late or not.
``segments``
    for how many segments the top sub-batch now runs before the policy is asked
    again.  It is asked earlier if all its samples exit, or if it reaches the
    place of the sub-batch below and merges with it.
``wake_s``
    if nothing is admitted and the NPU is idle: the time to be asked again,
    unless a request arrives earlier.  Infinity waits for the next arrival.

If the policy lets requests overtake, ``due_s`` holds deadlines, arrival plus
SLO: in row ``WAITING`` those of the waiting requests that are not late, oldest
request first, at most b_max; in row ``RUNNING`` those of the samples on the NPU.

The function is compiled by numba with :data:`DECIDE`, and must also run as
plain Python.  It can see nothing of the future: no arrival, no exit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...formats import InputError, parse_duration
from ...jit import compiled


class View(NamedTuple):
    """The state of queue and NPU when a policy is asked.

    Attributes
    ----------
    now_s : float
        Time.
    b_max : int
        Most samples that may be on the NPU at once.
    waiting : int
        Requests in the queue.
    late : int
        Of these, how many let the others pass, because not even alone could they
        meet their deadline any more; 0 unless the policy lets requests overtake.
    head_arrival_s, head_due_s : float
        Arrival and deadline of the oldest of all; infinity if none waits.
    turn_s : float
        When requests last entered an idle NPU strictly by arrival; 0 if they never did.
    depth : int
        Sub-batches on the NPU: 0 when idle.
    in_flight : int
        Samples on the NPU, in all sub-batches.
    admitted : int
        Samples that the sub-batches on the NPU began with, those included that have exited since.
    deadline_s : float
        Earliest arrival plus SLO among the samples on the NPU; infinity if idle.
    size : int
        Samples of the top sub-batch.
    stage : int
        Stages it has completed: the last exit it has passed.
    segment : int
        Segments it has completed.
    """

    now_s: float
    b_max: int
    waiting: int
    late: int
    head_arrival_s: float
    head_due_s: float
    turn_s: float
    depth: int
    in_flight: int
    admitted: int
    deadline_s: float
    size: int
    stage: int
    segment: int


Decision = tuple[int, int, float]
Decide = Callable[[View, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], Decision]

_f, _i = types.float64, types.int64
_view = types.NamedTuple((_f, _i, _i, _i, _f, _f, _f, _i, _i, _i, _f, _i, _i, _i), View)
DECIDE = types.Tuple((_i, _i, _f))(_view, types.float64[:, :, ::1], types.float64[::1], types.float64[:, ::1])
"""numba signature of every decision: ``latency[i, j, b]`` is T_{i:j}^b in seconds, ``settings`` the parameters."""

WAITING, RUNNING = 0, 1
"""Rows of ``due_s``."""

compile_policy = compiled(DECIDE)
"""Decorator of a policy's function."""

ReadParameter = Callable[[str, "float | None"], float]
"""Reads a parameter from its text, given the SLO in seconds where there is one for all requests."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a policy.

    Attributes
    ----------
    name : str
        As the user writes it.
    default : str
        Its text if the user does not.
    read : callable
        From text to the number that ``decide`` gets.
    """

    name: str
    default: str
    read: ReadParameter


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy.

    Attributes
    ----------
    decide : Decide
        Its decision, compiled by :data:`compile_policy`; the docstring gives rule and source.
    parameters : tuple of Parameter
        In the order in which ``decide`` gets them as ``settings``.
    by_layer : bool
        Whether segments are layers instead of stages.
    work_conserving : bool
        Whether it claims to run whenever a request waits.
    overtaking : bool
        Whether requests that are late already let the others pass; else the queue is first come, first served.
    """

    decide: Decide
    parameters: tuple[Parameter, ...] = ()
    by_layer: bool = False
    work_conserving: bool = True
    overtaking: bool = False

    def settings(self, texts: Mapping[str, str], slo_s: float | None) -> NDArray[np.float64]:
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
            If a name or a value is unknown.
        """
        strangers = sorted(set(texts) - {item.name for item in self.parameters})
        if strangers:
            known = ", ".join(item.name for item in self.parameters) or "none"
            raise InputError(f'policy: unknown parameter "{strangers[0]}"; known: {known}')
        return np.array([item.read(texts.get(item.name, item.default), slo_s) for item in self.parameters])


def duration(name: str, shares: Mapping[str, float] | None = None) -> ReadParameter:
    """A reader of durations, in seconds; ``shares`` are letters for shares of the SLO."""
    letters = dict(shares or {})

    def read(text: str, slo_s: float | None) -> float:
        if text not in letters:
            return 0.0 if text == "0" else parse_duration(text, f"policy: {name}")
        if slo_s is None:
            raise InputError(f"policy: {name}={text} is a share of the SLO, and the trace has one for each request")
        return letters[text] * slo_s

    return read


def choice(name: str, *options: str) -> ReadParameter:
    """A reader of one of several words, as its index."""

    def read(text: str, _: float | None) -> float:
        if text not in options:
            raise InputError(f'policy: {name}: expected {" or ".join(options)}, found "{text}"')
        return float(options.index(text))

    return read


def at_least(name: str, least: float) -> ReadParameter:
    """A reader of numbers from ``least`` on, infinity included."""

    def read(text: str, _: float | None) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value >= least:
            raise InputError(f'policy: {name}: expected a number >= {least:g} or inf, found "{text}"')
        return value

    return read
