"""A policy in a debug run: plain Python, whose arrays end where what it may read ends.

numba compiles a policy without a test of indices, so that a wrong one reads or writes any memory of the process.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..formats import InputError
from ..formats.array_types import Ints
from ..jit import as_python
from .policies import Decide, Decision, LaneView
from .policies.interface import Data


class WaitingRequests(np.ndarray):
    """The requests that wait.  numpy counts places below 0 from the end, and cuts slices; compiled code does not."""

    def _plain(self, at: Any) -> Ints:
        most = len(self) - (not isinstance(at, slice))
        for place in (at.start, at.stop) if isinstance(at, slice) else (at,):
            if isinstance(place, int | np.integer) and not 0 <= place <= most:
                raise IndexError(f"data.queue[view.first {place:+}], where {len(self)} wait")
        return self.view(np.ndarray)

    def __getitem__(self, at: Any) -> Any:
        return self._plain(at)[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._plain(at)[at] = value


def _read_only(values: Any) -> Any:
    """Arrays that a policy must not write."""
    if not isinstance(values, np.ndarray):
        return values._make(map(_read_only, values))
    shown = values.view()
    shown.flags.writeable = False
    return shown


def watched(decide: Decide) -> Decide:
    """The decision in plain Python, which sees the queue that waits and no more, and must leave each request in it."""
    plain = as_python(decide)

    def decide_watched(view: LaneView, data: Data) -> Decision:
        queue = data.queue[view.first : view.first + view.waiting]
        before = queue.copy()
        shown = _read_only(data)._replace(queue=queue.view(WaitingRequests), memory=data.memory)
        answer: Decision = plain(view._replace(first=0), shown)
        if not np.array_equal(np.sort(queue), np.sort(before)):
            raise InputError(_wrong_queue(queue, before))
        return answer

    return decide_watched


def _wrong_queue(queue: Ints, before: Ints) -> str:
    """What is wrong with a queue that does not have the requests that waited, each once."""
    numbers, times = np.unique(queue, return_counts=True)
    twice, strange = numbers[times > 1], np.setdiff1d(queue, before)
    wrong = f"request {twice[0]} twice" if twice.size else f"{strange[0]}, which does not wait,"
    return (
        f"expected every request that waits once in data.queue, found {wrong} and request "
        f"{np.setdiff1d(before, queue)[0]} lost"
    )


def line_of(decide: Decide, error: BaseException) -> str:
    """The line of a policy's file at which an exception was raised, if it is known."""
    path, step, line = getattr(sys.modules.get(decide.__module__), "__file__", None), error.__traceback__, 0
    while step is not None:
        if step.tb_frame.f_code.co_filename == path:
            line = step.tb_lineno
        step = step.tb_next
    return f" (line {line})" if line else ""
