"""The saturation of a run: whether its queue drains, lasts or grows (``docs/metrics.md``, Saturation)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .one_run import LEAST, PARTS
from .outcome import Replay
from .statistics import Interval, mean_interval

GROWTH = Interval(-math.inf, 1.0)
"""The limits of the growth of a backlog: no more requests than arrive begin to wait."""

STABLE, BACKLOGGED, OVERLOADED = "stable", "backlogged", "overloaded"


@dataclass(frozen=True, slots=True)
class Saturation:
    """Whether a run is beyond saturation, and by which figures this is judged."""

    # ``overloaded``: the backlog surely grows, or the load is above 1; ``stable``: in each tenth of the requests one
    # found none waiting; ``backlogged``: neither
    verdict: str
    # work offered over capacity: the least time that the requests take any scheduler, as a share of the time in which
    # they arrived; of clients that wait, until they had their answers, and without requests that they send again
    load: float
    backlog_growth: float  # growth of the number of waiting requests, as a share of the arrivals
    backlog_growth_interval: Interval  # its 95 % interval
    drained_parts: int  # tenths of the requests in which one found none waiting


def saturation_of(replay: Replay) -> Saturation | None:
    """The saturation of a replay.

    It is ``None`` with fewer than :data:`.one_run.LEAST` requests, or with all at once.

    Beyond saturation a queue is nearly a Brownian motion with drift (Iglehart and Whitt, Advances in Applied
    Probability 2, 1970): its growth in each tenth of the run is an independent normal variable, whose mean has
    Student's interval.  Below, what one part adds another takes away, so that this interval is too wide.
    """
    trace, count = replay.traffic.trace, len(replay.traffic)
    if count < LEAST or trace.at_once:
        return None
    order = np.argsort(replay.joined_s, kind="stable")  # hosts of several networks may change it
    arrival_s, left_s = replay.joined_s[order], replay.left_queue_s[order]
    starts = np.arange(PARTS) * count // PARTS
    marks = np.append(starts, count - 1)
    waiting = [np.count_nonzero(left_s[:mark] > arrival_s[mark]) for mark in marks]
    growth = np.diff(waiting) / np.diff(marks)
    interval = mean_interval(growth)
    assert interval is not None
    none_waits = np.append(True, np.maximum.accumulate(left_s)[:-1] <= arrival_s[1:])
    drained = int(np.logical_or.reduceat(none_waits, starts).sum())
    # clients send no more while they wait, so that their last requests count until these have left
    rate_per_s = count / (replay.end_s - float(trace.arrival_s[0])) if replay.traffic.clients else trace.rate_per_s
    load = sum(map(_work_s, replay.by_network)) / count * rate_per_s
    verdict = STABLE if drained == PARTS else BACKLOGGED
    if interval.low > 0 or load > 1:
        verdict = OVERLOADED
    return Saturation(verdict, load, float(growth.mean()), interval.within(GROWTH), drained)


def _work_s(replay: Replay) -> float:
    """Least time of the device for the requests of a network: each layer in the batch that is best for it.

    A device that waits for its host has less time.

    A request that its client sends again counts once.
    """
    table, steps, once = replay.table, replay.traffic.trace.steps, ~replay.asked_again
    exits = replay.traffic.exits[once]
    segments, last = table.segments(by_layer=True), len(table.exits)
    least_s = (segments.time_s[:, :, 1:] / np.arange(1, table.b_max + 1)).min(axis=(0, 2))
    stage_s = np.bincount(segments.stage - 1, least_s, last)
    reached = np.bincount(exits - 1, minlength=last)[::-1].cumsum()[::-1]
    again = reached[-1] * (table.exits[-1].steps - 1.0)
    if steps is not None:
        again = float(steps[once][exits == last].sum() - reached[-1])
    work_s = float(reached @ stage_s + again * stage_s[-1]) / table.speedup
    host = table.host
    return work_s if host is None or host.overlaps else work_s + len(exits) * (host.before_s + host.after_s)
