"""Requests that have returned make room for others, so that what serves without end keeps arrays of one size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Bools, Ints
from .case import Case
from .deadlines import DUE
from .state import Record, RequestArrays, State
from .terms import Terms


def forget_returned(case: Case, work: RequestArrays, state: State, record: Record) -> Ints:
    """Forget the requests that have returned, and what ran; the others keep their order, and are numbered anew.

    ``state`` is one that :func:`.state.begin` made for requests of any network.  Returns the old numbers of those that
    stay.
    """
    clock: Any = state.clock[0]
    requests, arrived, count = work.requests, int(clock.arrived), len(work.exit_of)
    left_s = requests.finish_s if case.terms is None else case.terms.left_s
    stays = left_s[:arrived] == math.inf
    old, new = np.flatnonzero(stays), np.zeros(count + 1, dtype=np.int64)
    new[1 : arrived + 1] = np.cumsum(stays)  # of a request, and of the one behind it: how many before it stay
    new[arrived + 1 :] = len(old)
    for name, column in zip(requests._fields, requests, strict=True):
        _move(column, old, math.inf if name in ("arrival_s", "start_s", "finish_s") else 0)
    for values in (work.exit_of, work.confidences, state.joined):
        _move(values, old, 0)
    if case.terms is not None:
        _forget_terms(case.terms, requests, stays, old, new)
    state.members[:] = new[state.members]
    begins, waiting = np.arange(len(state.queues)) * count, state.waiting.copy()
    for queue, begin in zip(state.queues, begins.tolist(), strict=True):
        size = queue["tail"] - queue["head"]
        state.waiting[begin : begin + size] = new[waiting[queue["head"] : queue["tail"]]]
        queue["head"], queue["tail"] = begin, begin + size
    _forget_runs(state, record)
    clock.arrived, clock.returned = len(old), 0
    return old


def _move(values: NDArray[Any], old: Ints, empty: float) -> None:
    """Move the values of requests that stay to the front; the others are as at the start."""
    if len(values):
        values[: len(old)] = values[old]
        values[len(old) :] = empty


def _forget_terms(terms: Terms, requests: Any, stays: Bools, old: Ints, new: Ints) -> None:
    _move(terms.left_s, old, math.inf)
    _move(terms.refused, old, False)
    _move(terms.first, old, 0)
    terms.first[: len(old)] = new[terms.first[: len(old)]]  # if the first has left, the next one that stays
    due = terms.deadlines[: terms.counts[DUE]]
    due = new[due[stays[due]]]
    terms.counts[DUE] = len(due)
    terms.sources.next[0] = len(old)  # of a live service there is one source
    # what is sorted is a heap; of equal times the first number goes first
    terms.deadlines[: len(due)] = due[np.lexsort((due, requests.due_s[due]))]


def _forget_runs(state: State, record: Record) -> None:
    """Forget the runs that were recorded, but for those on the lanes."""
    lanes, clock = state.lanes, state.clock[0]
    running = np.flatnonzero(lanes["running"])
    at = lanes["run"][running]
    for rows in (record.run_s, record.runs):
        rows[: len(at)] = rows[at]
    lanes["run"][running] = np.arange(len(at))
    clock["runs"], clock["run_members"] = len(at), 0
