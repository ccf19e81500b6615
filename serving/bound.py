"""A lower bound on violations of every scheduler, even of one that knows the future; proof in ``docs/policies.md``."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..formats import memoized
from ..jit import compiled
from ..tables.latency import LatencyTable
from ..traffic.traffic import Traffic, places
from .outcome import Replay

ROUNDING = 1e-6
"""Objectives are relaxed by this share, because sums of times differ in their last digits from the event loop's."""


def least_work(
    table: LatencyTable, exits: NDArray[np.int64], steps: NDArray[np.int64], slo_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The least NPU time that each request needs to meet its objective.

    A sample that shares layer l with a batch of b takes T_l^b/b of the NPU's time and T_l^b of its own.  The least sum
    of the first with the second within the SLO, relaxed to mixtures of batch sizes, is a linear program, whose optimum
    follows the lower convex hull of each layer's points (T_l^b, T_l^b/b), steepest piece of all layers first.  Several
    lanes do at most :attr:`LatencyTable.speedup` times as much work in a second.
    """
    work_s = np.empty(len(exits))
    ends = places(exits, steps, len(table.exits))
    for number in np.flatnonzero(np.bincount(ends)).tolist():
        here = ends == number
        latency_s, share_s = _trade(table, number)
        work_s[here] = np.interp(slo_s[here], latency_s, share_s / table.speedup, left=np.inf)
    return work_s


@memoized
def _trade(table: LatencyTable, end: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of the curve of least NPU time over latency for a sample that runs to a place."""
    segments, last = table.segments(by_layer=True), len(table.exits)
    time_s = segments.time_s[:, :, 1:].min(axis=0)  # a scheduler may choose the variant
    rows = [time_s[segments.stage <= end], *[time_s[segments.stage == last]] * (end - last)]
    fastest_s, share_s = 0.0, 0.0
    pieces: list[tuple[float, float, float]] = []  # slope, latency, share
    for times in np.concatenate(rows):
        points = sorted(zip(times.tolist(), (times / np.arange(1, len(times) + 1)).tolist(), strict=True))
        hull = [points[0]]
        for point in points[1:]:
            if point[1] >= hull[-1][1]:
                continue  # this point is slower and saves no NPU time
            while len(hull) > 1 and _slope(hull[-2], point) <= _slope(hull[-2], hull[-1]):
                hull.pop()
            hull.append(point)
        fastest_s, share_s = fastest_s + hull[0][0], share_s + hull[0][1]
        pieces += [(_slope(a, b), b[0] - a[0], b[1] - a[1]) for a, b in pairwise(hull)]
    steps = np.array([(fastest_s, share_s), *((item[1], item[2]) for item in sorted(pieces))])
    corners = steps.cumsum(axis=0)
    return corners[:, 0], corners[:, 1]


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


RELEASE, WORK, START, LONGEST = range(4)
"""Rows of the table of kept jobs: release time, work, start time, and the longest work among the jobs up to this one
since the machine was last idle."""


@compiled("int64(float64[::1], float64[::1], float64[::1])")
def least_tardy(release_s: NDArray[np.float64], due_s: NDArray[np.float64], work_s: NDArray[np.float64]) -> int:
    """Least number of jobs that miss their due times: Kise, Ibaraki and Mine (Operations Research, 1978).

    Jobs enter a set in the order of their due times.  When a job would miss its due time, one job leaves the set: the
    job without which the set ends earliest.  When the machine becomes idle, the set becomes empty, because earlier jobs
    can then delay no later job.
    """
    kept = np.empty((4, release_s.size))
    tardy = n = 0
    end_s = -np.inf
    for job in range(release_s.size):
        if release_s[job] + work_s[job] > due_s[job]:
            tardy += 1  # it misses its due time even when it runs alone
            continue
        if release_s[job] > end_s:
            n = 0  # the machine was idle: without an earlier job, this one would not begin earlier
        begin_s = max(release_s[job], end_s)
        kept[RELEASE, n], kept[WORK, n], kept[START, n] = release_s[job], work_s[job], begin_s
        kept[LONGEST, n] = max(work_s[job], kept[LONGEST, n - 1]) if n > 0 and begin_s == end_s else work_s[job]
        end_s = begin_s + work_s[job]
        n += 1
        if end_s <= due_s[job]:
            continue
        tardy += 1
        # without job k, the jobs after it begin earlier: by at most its work, and by at most the wait of each of them
        room_s, gain_s, leaver = np.inf, 0.0, n - 1
        k = n - 1
        while k >= 0:
            gain = min(kept[WORK, k], room_s)
            if gain > gain_s:
                gain_s, leaver = gain, k
            room_s = min(room_s, kept[START, k] - kept[RELEASE, k])
            if min(room_s, kept[LONGEST, k]) <= gain_s:
                break  # no job before this one would gain more
            k -= 1
        end_s = -np.inf if leaver == 0 else kept[START, leaver - 1] + kept[WORK, leaver - 1]
        n -= 1
        for k in range(leaver, n):
            released, work = kept[RELEASE, k + 1], kept[WORK, k + 1]
            kept[RELEASE, k], kept[WORK, k], kept[START, k] = released, work, max(released, end_s)
            kept[LONGEST, k] = max(work, kept[LONGEST, k - 1]) if k > 0 and kept[START, k] == end_s else work
            end_s = kept[START, k] + work
    return tardy


def least_tardy_at_once(due_s: NDArray[np.float64], work_s: NDArray[np.float64]) -> int:
    """Least number of jobs that miss their due times, if all are released at time 0 (Moore, Management Science, 1968).

    It finds what :func:`least_tardy` finds, whose time would grow with the square of the number of jobs.
    """
    kept: list[float] = []  # a heap of the works of those that are in time, negative: the longest is its first
    end_s = 0.0
    for due, work in zip(due_s.tolist(), work_s.tolist(), strict=True):
        if work > due:
            continue  # it misses its due time even when it runs alone
        heapq.heappush(kept, -work)
        end_s += work
        if end_s > due:
            end_s += heapq.heappop(kept)
    return len(due_s) - len(kept)


def least_violations(replay: Replay) -> int:
    """Violations that no scheduler on this NPU can prevent, for the traffic of a replay.

    Parameters
    ----------
    replay : Replay
        The requests, which arrived by themselves, with their exits and objectives, the latency table, and when the
        simulation was stopped; the policy's decisions do not matter.

    Returns
    -------
    int
        A lower bound, also for a scheduler that knows all arrivals and exits
        beforehand, and may batch and preempt at layers at no cost.
    """
    traffic = replay.traffic
    if replay.on_deadline == "answer":  # then the first exit is enough
        one = np.ones_like(traffic.exits)
        traffic = replace(traffic, trace=replace(traffic.trace, steps=one), exits=one)
    return least_late(replay.table, traffic, traffic.slo_s, replay.until_s)


def least_late(
    table: LatencyTable, traffic: Traffic, longer_than_s: NDArray[np.float64], until_s: float = math.inf
) -> int:
    """Requests that take longer than a time each, or than there is left, under every scheduler.

    Parameters
    ----------
    table : LatencyTable
        Times of the design.
    traffic : Traffic
        Requests that arrive by themselves, with their exits.
    longer_than_s : (N,) ndarray of float64
        The time of each.
    until_s : float
        When the simulation is stopped.

    Returns
    -------
    int
        A lower bound, as of :func:`least_violations`.
    """
    arrival_s, limit_s = traffic.trace.arrival_s, (1 + ROUNDING) * longer_than_s
    steps = traffic.trace.steps
    if steps is None:
        steps = np.full(len(traffic), table.exits[-1].steps)
    # if objectives differ, a time that is due before an older request's is moved to that one
    due_s = np.maximum.accumulate(np.minimum(arrival_s + limit_s, until_s))
    work_s = least_work(table, traffic.exits, steps, limit_s)
    if traffic.trace.at_once:
        return least_tardy_at_once(due_s - arrival_s[0], work_s)
    return int(least_tardy(np.ascontiguousarray(arrival_s), due_s, work_s))
