"""A window: the first requests of the queue, sorted by a prediction (SimBatch; BatchCond, Section III-A).

The rule by which a window is filled again is ours; ``docs/policies.md`` proves a bound on the wait of every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...formats.array_types import Floats
from ...jit import compiled
from .parameters import Parameter, at_least, choice

if TYPE_CHECKING:
    from ...tables.latency import LatencyTable
    from ...traffic.trace import Trace

SIMILAR, WINDOW, PATIENCE = range(3)  # places in settings
LEFT, REFILLS, END = range(3)  # places in memory; requests before END are in the window, and later ones behind it
OFF, DEPTH, WIDTH = range(3)

PARAMETERS = (
    Parameter("similar", "off", choice("similar", "off", "depth", "width")),
    Parameter("window", "512", at_least("window", 1.0, whole=True)),
    Parameter("patience", "4", at_least("patience", 0.0, whole=True)),
)
"""The prediction by which requests are alike; most that are sorted together; refills of a window in a row."""


def check_window(settings: Floats, table: LatencyTable, trace: Trace, b_max: int) -> list[str]:
    """Faults of these parameters (see :data:`.interface.Check`)."""
    similar, size, faults = settings[SIMILAR], settings[WINDOW], []
    if size < b_max and similar != OFF:
        faults.append(f"window: expected at least {b_max}, the largest batch, found {size:g}")
    if similar == DEPTH and trace.predicted_depth is None:
        faults.append(
            "similar=depth: expected a trace with predicted_depth, found none; draw it (predict_depth), e.g. 0.7"
        )
    if similar == WIDTH and trace.predicted_width is None and trace.width is None:
        faults.append(
            "similar=width: expected a trace with predicted_width or width, found neither; draw one: `trace add`"
        )
    return faults


@compiled()
def fill_window(view, data):
    """Sort the first requests of the queue, stably; how many these are."""
    count, first = int(min(data.settings[WINDOW], view.waiting)), view.first
    data.memory[END] = data.queue[first : first + count].max() + 1
    if count == 1:
        return 1
    waiting, keys = data.queue[first : first + count].copy(), np.empty(count)
    predicted = data.requests.predicted_depth if data.settings[SIMILAR] == DEPTH else data.requests.predicted_width
    for m in range(count):
        keys[m] = predicted[waiting[m]]
    order = np.argsort(keys, kind="mergesort")
    for m in range(count):
        data.queue[first + m] = waiting[order[m]]
    return count


@compiled()
def count_alike(view, data, wanted):
    """Number of those wanted from the head of the queue that may be launched; they are then alike.

    A window with too few is filled again from the queue, at most ``patience`` times in a row; then those left go first.
    """
    memory = data.memory
    left = min(int(memory[LEFT]), view.waiting)
    while left > 0 and data.queue[view.first + left - 1] >= memory[END]:
        left -= 1  # one of the window was dropped
    memory[LEFT] = left
    if left < wanted and (left == 0 or memory[REFILLS] < data.settings[PATIENCE]):
        memory[REFILLS] = 0 if left == 0 else memory[REFILLS] + 1
        left = fill_window(view, data)
        memory[LEFT] = left
    return min(wanted, left)
