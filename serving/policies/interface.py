"""What a scheduling policy sees and what it may decide.

A policy is one function ``decide(view, latency) -> (admit, stages, wake_s)``
that the event loop calls whenever the NPU could do something else:

* the NPU is idle and a request waits;
* the running sub-batch has come to the end of the stages it was given, has
  merged with the one below it, or has left the NPU with another one waiting.

It answers with

``admit``
    how many waiting requests, oldest first, enter as a new sub-batch on top of
    the stack; what was running is thereby preempted.  0 admits none.
``stages``
    for how many stages the top sub-batch now runs before the policy is asked
    again.  It is asked earlier if all its samples exit, or if it reaches the
    stage of the sub-batch below and merges with it.
``wake_s``
    if nothing is admitted and the NPU is idle: the time to be asked again,
    unless a request arrives earlier.  Infinity waits for the next arrival.

The function is compiled by numba with :data:`DECIDE`, and must also run as
plain Python.  It can see nothing of the future: no arrival, no exit.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray


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
    head_arrival_s : float
        Arrival of the oldest of them; infinity if none waits.
    depth : int
        Sub-batches on the NPU: 0 when idle.
    in_flight : int
        Samples on the NPU, in all sub-batches.
    deadline_s : float
        Earliest arrival plus SLO among the samples on the NPU; infinity if idle.
    size : int
        Samples of the top sub-batch.
    stage : int
        Stages it has completed: it stands at exit ``stage``.
    """

    now_s: float
    b_max: int
    waiting: int
    head_arrival_s: float
    depth: int
    in_flight: int
    deadline_s: float
    size: int
    stage: int


Decision = tuple[int, int, float]
Decide = Callable[[View, NDArray[np.float64]], Decision]

_f, _i = types.float64, types.int64
DECIDE = types.Tuple((_i, _i, _f))(
    types.NamedTuple((_f, _i, _i, _f, _i, _i, _f, _i, _i), View), types.float64[:, :, ::1]
)
"""numba signature of every policy; ``latency[i, j, b]`` is T_{i:j}^b in seconds."""

compile_policy = njit(DECIDE, cache=True, nogil=True)
"""Decorator of a policy's function."""
