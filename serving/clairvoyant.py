"""What no scheduler could prevent: a lower bound on violations, whoever schedules and whatever it foresees.

``docs/fluid-slack.md`` (Clairvoyant bound) has the proof.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ..dse.latency import LatencyTable
from .metrics import Replay

ROUNDING = 1e-6
"""Share by which objectives are relaxed: sums of times differ in their last digits from those of an event loop."""

_f = types.float64[::1]


def least_work(table: LatencyTable, exits: NDArray[np.int64], slo_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """NPU time that each request takes at least, if it is to be in time.

    A sample that shares layer l with a batch of b takes T_l^b/b of the NPU's time
    and T_l^b of its own.  The least sum of the first with the second within the
    SLO, relaxed to mixtures of batch sizes, is a linear program, whose optimum
    follows the lower convex hull of each layer's points (T_l^b, T_l^b/b),
    steepest piece of all layers first.

    Parameters
    ----------
    table : LatencyTable
        Times of the NPU.
    exits : (N,) ndarray of int64
        1-based exit of each request.
    slo_s : (N,) ndarray of float64
        Latency objective of each.

    Returns
    -------
    (N,) ndarray of float64
        Seconds; infinite for a request that could not be in time even alone.
    """
    segments = table.segments(by_layer=True)
    work_s = np.empty(len(exits))
    for number in range(1, len(table.exits) + 1):
        latency_s, share_s = _trade(segments.time_s[segments.stage <= number, 1:])
        here = exits == number
        work_s[here] = np.interp(slo_s[here], latency_s, share_s, left=np.inf)
    return work_s


def _trade(time_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of the least NPU time of a sample over its latency, for layers with times (L, b_max)."""
    fastest_s, share_s = 0.0, 0.0
    pieces: list[tuple[float, float, float]] = []  # slope, latency, share
    for times in time_s:
        points = sorted(zip(times.tolist(), (times / np.arange(1, len(times) + 1)).tolist(), strict=True))
        hull = [points[0]]
        for point in points[1:]:
            if point[1] >= hull[-1][1]:
                continue  # slower, and saves nothing
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


@njit(types.int64(_f, _f, _f), cache=True, nogil=True)
def least_late(release_s: NDArray[np.float64], due_s: NDArray[np.float64], work_s: NDArray[np.float64]) -> int:
    """Least number of late jobs on one machine that may preempt: Kise, Ibaraki and Mine (Operations Research, 1978).

    Jobs enter a set by due time.  When one would be late, the job whose removal
    lets the set end first leaves it; what remains runs in order, without a break.

    Parameters
    ----------
    release_s, due_s : (N,) float64
        When each job may begin and must have ended; neither decreases.
    work_s : (N,) float64
        Time each takes.

    Returns
    -------
    int
        Jobs that are late.
    """
    count = release_s.size
    kept = np.empty(count, dtype=np.int64)
    start_s = np.empty(count)
    longest_s = np.empty(count)  # of the kept jobs up to each, since the machine last stood still
    n = late = 0
    end_s = -np.inf
    for job in range(count):
        begin_s = max(release_s[job], end_s)
        if release_s[job] + work_s[job] > due_s[job]:
            late += 1  # not even alone
            continue
        kept[n], start_s[n] = job, begin_s
        longest_s[n] = max(work_s[job], longest_s[n - 1]) if n > 0 and begin_s == end_s else work_s[job]
        end_s = begin_s + work_s[job]
        n += 1
        if end_s <= due_s[job]:
            continue
        late += 1
        # without job k all behind it begin earlier, by at most its work and by no more than any of them waited
        room_s, gain_s, leaver = np.inf, 0.0, n - 1
        k = n - 1
        while k >= 0:
            gain = min(work_s[kept[k]], room_s)
            if gain > gain_s:
                gain_s, leaver = gain, k
            room_s = min(room_s, start_s[k] - release_s[kept[k]])
            if min(room_s, longest_s[k]) <= gain_s:
                break  # nobody before it would give more
            k -= 1
        end_s = -np.inf if leaver == 0 else start_s[leaver - 1] + work_s[kept[leaver - 1]]
        n -= 1
        for k in range(leaver, n):
            job_k = kept[k + 1]
            kept[k] = job_k
            start_s[k] = max(release_s[job_k], end_s)
            longest_s[k] = max(work_s[job_k], longest_s[k - 1]) if k > 0 and start_s[k] == end_s else work_s[job_k]
            end_s = start_s[k] + work_s[job_k]
    return late


def least_violations(replay: Replay, table: LatencyTable) -> int:
    """Violations that any scheduler on this NPU would suffer from a replay's traffic.

    Parameters
    ----------
    replay : Replay
        Requests with their exits and objectives, and when the simulation was
        stopped; what its policy did does not matter.
    table : LatencyTable
        The NPU.

    Returns
    -------
    int
        A lower bound, also for a scheduler that knows all arrivals and exits
        beforehand, and may batch and preempt at layers at no cost.
    """
    arrival_s, slo_s = replay.trace.arrival_s, (1 + ROUNDING) * replay.slo_s
    # of objectives that differ, deadlines are relaxed until none is before that of an older request
    due_s = np.maximum.accumulate(np.minimum(arrival_s + slo_s, replay.until_s))
    return int(least_late(arrival_s, due_s, least_work(table, replay.exits, slo_s)))
