"""BATCHCOND: batches of alike inputs, padded or split as the times of the device say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...formats.array_types import Floats
from ...jit import compiled
from ...platforms.device import MAX_BATCH
from ...rules.pad_or_split import ideal_batch_sizes, partition, reorganise_widths, split_pays
from .estimates import between_s, expected_end, narrowest
from .interface import Decision, Policy, compile_policy, sleep
from .parameters import Parameter, at_least, choice, duration, timeout
from .window import LEFT, OFF, PARAMETERS, SIMILAR, check_window, count_alike

if TYPE_CHECKING:
    from ...tables.latency import LatencyTable
    from ...traffic.trace import Trace

REORGANISE, LOOKAHEAD, PREDICTOR, TIMEOUT = range(3, 7)  # places in settings, behind the window's
PARTS, LAUNCHED, SIZES = range(3, 6)  # and in memory: sub-batches, how many are launched, their sizes
REORGANISED = ("depth", "both", "optimal", "width", "off")
BY_DEPTH, BOTH, OPTIMAL, BY_WIDTH, PAD = range(5)


def check(settings: Floats, table: LatencyTable, trace: Trace, b_max: int) -> list[str]:
    """Faults of the parameters (see :data:`.interface.Check`)."""
    faults, reorganise = check_window(settings, table, trace, b_max), int(settings[REORGANISE])
    if table.widths is None and reorganise in (OPTIMAL, BY_WIDTH):
        faults.append(f"reorganise={REORGANISED[reorganise]}: expected a latency table with widths, found none")
    if settings[PREDICTOR] > 0 and settings[SIMILAR] == OFF:
        faults.append("predictor: expected similar=depth or similar=width, which use predictions, found similar=off")
    if settings[LOOKAHEAD] > 1 and reorganise > OPTIMAL:
        faults.append(
            f"lookahead: expected reorganise=depth, both or optimal, which split at exits, found "
            f"reorganise={REORGANISED[reorganise]}"
        )
    return faults


@compiled()
def cut(view, data, count):
    """Sort the first requests of the queue by decreasing width and cut them into sub-batches; how many these are."""
    widths, variants = narrowest(data.variants, 0, 0.0) + 1, np.empty(count)  # floats, as a window sorts: compiled once
    batch, sizes = data.queue[view.first : view.first + count].copy(), np.zeros(widths, np.int64)
    for m in range(count):
        variant = narrowest(data.variants, 0, data.requests.width[batch[m]])
        variants[m] = variant
        sizes[variant] += 1
    if sizes.max() == count:
        return 1
    order = np.argsort(variants, kind="mergesort")  # widths come widest first
    for m in range(count):
        data.queue[view.first + m] = batch[order[m]]
    end = expected_end(view, data, 0, count) if view.steps > 1 else view.stages
    time_s = np.zeros((widths, view.b_max + 1))
    for width in range(widths):
        for b in range(1, view.b_max + 1):
            time_s[width, b] = between_s(data.latency_s, width, 0, end, b)
    into = np.empty(count, np.int64)
    if data.settings[REORGANISE] == OPTIMAL:
        parts = partition(sizes, time_s, data.gather_s[0], into)
    else:
        parts = reorganise_widths(sizes, time_s, data.gather_s[0], ideal_batch_sizes(time_s), into)
    for k in range(parts):
        data.memory[SIZES + k] = into[k]
    return parts


@compiled()
def next_batch(view, data):
    """Choose the next batch at the head of the queue, and how it is cut; if it is not time yet, when that will be."""
    memory = data.memory
    if view.waiting < view.b_max:
        opens_s = math.inf
        for m in range(view.first, view.first + min(view.waiting, int(memory[LEFT]) + 1)):  # a window is not in order
            opens_s = min(opens_s, data.requests.arrival_s[data.queue[m]] + data.settings[TIMEOUT])
        if view.now_s < opens_s:
            return opens_s
    count = min(view.waiting, view.b_max)
    if data.settings[SIMILAR] != OFF:
        count = count_alike(view, data, count)
        memory[LEFT] -= count
    memory[LAUNCHED], memory[PARTS], memory[SIZES] = 0, 1, count
    if view.variants > 1 and BOTH <= data.settings[REORGANISE] <= BY_WIDTH:
        memory[PARTS] = cut(view, data, count)
    return view.now_s


@compile_policy
def decide(view, data):
    """Launch batches of alike requests; pad or split them at the input, by width, and at every exit, by depth.

    A batch is launched when B_max wait or the oldest has waited for the timeout.  It is the head of a window: of the
    first requests of the queue, sorted by prediction (:func:`.window.count_alike`).  A batch of several widths is cut
    into sub-batches, which run one after the other, if they take less time (Algorithm 1, Equation 2).  At every exit
    those that stay are gathered into a smaller batch, if that takes less time than to carry the others along
    (Equation 1).

    Source: BatchCond, Section III; the timeout as in AdaptB, the patience is ours.  Not work-conserving.

    ``similar``
        ``depth`` or ``width``: the prediction by which a window is sorted; ``off``: batches in order of arrival.
    ``window``
        Most requests that are sorted together; ``inf`` for all that wait.
    ``patience``
        Most times in a row that a window is filled again before those left go first; 0 in the paper.
    ``reorganise``
        ``depth``; ``both``, in depth and, where the table has widths, in width; ``optimal``, which is both with the
        sub-batches that take the least time in place of Algorithm 1; ``width``; or ``off``: pad.
    ``lookahead``
        Number of stages that Equation (1) looks at, as if no sample left on the way; 1 in the paper.
    ``predictor``
        Time to predict a request, before its batch starts.
    ``timeout``
        ``S``, ``M``, ``L`` for 5, 45, 95 % of the SLO, or a duration.
    """
    if view.depth > 0:
        latency_s, i = data.latency_s, view.stage
        j = int(min(i + data.settings[LOOKAHEAD], view.stages))
        pad_s = between_s(latency_s, view.variant, i, j, view.places)
        split_s = between_s(latency_s, view.variant, i, j, view.size)
        return Decision(0, 0, 1, math.inf, split_pays(pad_s, split_s, data.gather_s[i, view.size]), 0, 0.0)
    memory, settings = data.memory, data.settings
    if memory[LAUNCHED] == memory[PARTS]:
        begins_s = next_batch(view, data)
        if begins_s > view.now_s:
            return sleep(begins_s)
    size = int(memory[SIZES + int(memory[LAUNCHED])])
    memory[LAUNCHED] += 1
    delay_s = size * settings[PREDICTOR] if settings[SIMILAR] != OFF else 0.0
    if memory[PARTS] > 1:
        delay_s += data.gather_s[0, size]
    return Decision(size, 0, 1 if settings[REORGANISE] <= OPTIMAL else view.segments, math.inf, False, 0, delay_s)


POLICY = Policy(
    decide,
    (
        *PARAMETERS,
        Parameter("reorganise", "both", choice("reorganise", *REORGANISED)),
        Parameter("lookahead", "1", at_least("lookahead", 1.0, whole=True)),
        Parameter("predictor", "0", duration("predictor")),
        Parameter("timeout", "0", timeout),
    ),
    work_conserving=False,
    memory=SIZES + MAX_BATCH,
    counts_on_queue=True,
    check=check,
)
