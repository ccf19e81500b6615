"""A lower bound on violations of every scheduler, even of one that knows the future; proof in ``docs/policies.md``."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..formats import memoized
from ..formats.array_types import Floats, Ints
from ..jit import compiled
from ..tables.latency import LatencyTable
from ..traffic.traffic import Traffic, places
from .outcome import Replay

ROUNDING = 1e-6
"""Objectives are relaxed by this share, because sums of times differ in their last digits from the event loop's."""


class Trades(NamedTuple):
    """NPU time that a sample needs in each stage of a network, against the latency that it allows.

    A sample that shares layer l with a batch of b takes T_l^b/b of the NPU's time and T_l^b of its own.  The least sum
    of the first with the second within the SLO, relaxed to mixtures of batch sizes, is a linear program, whose optimum
    follows the lower convex hull of each layer's points (T_l^b, T_l^b/b), steepest piece of all layers first.
    """

    first_s: Floats  # (2, E): latency and NPU time of each stage in its fastest batches
    stage: Ints  # (N,): the stage of each piece, counted from 1, the steepest piece first
    more_s: Floats  # (2, N): latency and NPU time that a piece adds

    @classmethod
    def of(cls, stage: Ints, time_s: Floats) -> Trades:
        """From the stage of each layer, and its times for b = 1..b_max. Shapes: (L,), (L, b_max)."""
        largest = time_s.shape[1] - np.argmin(time_s[:, ::-1], axis=1)  # of the batch sizes with which it is fastest
        latency_s = time_s.min(axis=1)
        first_s = np.array([np.bincount(stage - 1, values) for values in (latency_s, latency_s / largest)])
        slope, *more_s, layer = _hulls(np.ascontiguousarray(time_s))
        order = np.lexsort((*more_s[::-1], slope))
        return cls(first_s, stage[layer.astype(np.int64)][order], np.array([values[order] for values in more_s]))

    def work(self, ends: Ints, limit_s: Floats) -> Floats:
        """NPU time of samples that leave at a place each, within a limit each; infinite where it cannot be kept.

        Places are stages, and behind them further runs of the last one. Shapes: (N,), counted from 1, and (N,).
        """
        if limit_s.strides == (0,) and len(ends):  # all share one: by the place alone
            places_ = np.arange(1, ends.max() + 1)
            return self.work(places_, np.full(len(places_), limit_s[0]))[ends - 1]
        limit_s = np.ascontiguousarray(limit_s)
        work_s: Floats = _least_work(self.first_s, self.stage, self.more_s, ends, limit_s)
        return work_s


@compiled("float64[:](float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[::1])")
def _least_work(first_s: Floats, stage: Ints, more_s: Floats, ends: Ints, limit_s: Floats) -> Floats:
    """NPU time of each sample by trades; most have a limit and a place that an earlier one had."""
    last, works_s, known_s = first_s.shape[1], np.empty(ends.size), np.full(ends.max() + 1 if ends.size else 1, np.nan)
    for sample in range(ends.size):
        end, limit = ends[sample], limit_s[sample]
        if sample > 0 and limit != limit_s[sample - 1]:
            known_s[:] = np.nan
        if np.isnan(known_s[end]):
            again = 1 + max(0, end - last)  # how often the last stage runs
            latency_s = work_s = 0.0
            for at in range(min(end, last)):
                runs = again if at == last - 1 else 1
                latency_s += runs * first_s[0, at]
                work_s += runs * first_s[1, at]
            if latency_s > limit:
                work_s = np.inf
            for piece in range(stage.size):
                if latency_s >= limit:
                    break
                if stage[piece] > end:
                    continue
                runs = again if stage[piece] == last else 1
                share = min(1.0, (limit - latency_s) / (runs * more_s[0, piece]))
                latency_s += runs * more_s[0, piece]
                work_s += share * runs * more_s[1, piece]
            known_s[end] = work_s
        works_s[sample] = known_s[end]
    return works_s


def least_work(table: LatencyTable, exits: Ints, steps: Ints | int, slo_s: Floats) -> Floats:
    """The least NPU time that each request needs to meet its objective.

    Several lanes do at most :attr:`LatencyTable.speedup` times as much work in a second.
    """
    return _trades(table).work(places(exits, steps, len(table.exits)), slo_s) / table.speedup


@memoized
def _trades(table: LatencyTable) -> Trades:
    """The trades of a latency table; a scheduler may choose the variant."""
    segments = table.segments(by_layer=True)
    return Trades.of(segments.stage, segments.time_s[:, :, 1:].min(axis=0))


@compiled("float64[:, :](float64[:, ::1])")
def _hulls(time_s: Floats) -> Floats:
    """Pieces of the lower convex hull of the points (T_l^b, T_l^b/b) of each layer.

    Shapes: ``time_s`` (L, b_max), returns (4, N): slope, latency, share, and the layer.
    """
    layers, batches = time_s.shape
    pieces, count = np.zeros((4, layers * batches)), 0
    hull = np.empty((2, batches))
    for layer in range(layers):
        corners = 0
        for place in np.argsort(time_s[layer, ::-1], kind="mergesort"):  # of equal times the largest batch first
            b = batches - place
            latency_s = time_s[layer, b - 1]
            share_s = latency_s / b
            if corners > 0 and share_s >= hull[1, corners - 1]:
                continue  # this point is slower and saves no NPU time
            while corners > 1:
                first_s, last_s = latency_s - hull[0, corners - 2], hull[0, corners - 1] - hull[0, corners - 2]
                if (share_s - hull[1, corners - 2]) / first_s > (hull[1, corners - 1] - hull[1, corners - 2]) / last_s:
                    break
                corners -= 1
            hull[0, corners], hull[1, corners] = latency_s, share_s
            corners += 1
        for at in range(1, corners):
            latency_s, share_s = hull[0, at] - hull[0, at - 1], hull[1, at] - hull[1, at - 1]
            pieces[0, count], pieces[1, count], pieces[2, count] = share_s / latency_s, latency_s, share_s
            pieces[3, count] = layer
            count += 1
    return pieces[:, :count]


RELEASE, WORK, START, LONGEST = range(4)
"""Rows of the table of kept jobs: release time, work, start time, and the longest work among the jobs up to this one
since the machine was last idle."""


@compiled("int64(float64[::1], float64[::1], float64[::1], int64)")
def least_tardy(release_s: Floats, due_s: Floats, work_s: Floats, most: int) -> int:
    """Least number of jobs that miss their due times: Kise, Ibaraki and Mine (Operations Research, 1978).

    A job is due no earlier than those before it. The count ends once it is more than ``most``.

    Jobs enter a set in the order of their due times.  When a job would miss its due time, one job leaves the set: the
    job without which the set ends earliest.  When the machine becomes idle, the set becomes empty, because earlier jobs
    can then delay no later job.
    """
    kept = np.empty((4, release_s.size))
    tardy = n = 0
    end_s = latest_s = -np.inf
    for job in range(release_s.size):
        if tardy > most:
            break
        latest_s = max(latest_s, due_s[job])
        if release_s[job] + work_s[job] > latest_s:
            tardy += 1  # it misses its due time even when it runs alone
            continue
        if release_s[job] > end_s:
            n = 0  # the machine was idle: without an earlier job, this one would not begin earlier
        begin_s = max(release_s[job], end_s)
        kept[RELEASE, n], kept[WORK, n], kept[START, n] = release_s[job], work_s[job], begin_s
        kept[LONGEST, n] = max(work_s[job], kept[LONGEST, n - 1]) if n > 0 and begin_s == end_s else work_s[job]
        end_s = begin_s + work_s[job]
        n += 1
        if end_s <= latest_s:
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


@compiled("int64(float64[::1], float64[::1], float64[::1], int64)")
def tardy_in_order(release_s: Floats, due_s: Floats, work_s: Floats, most: int) -> int:
    """Jobs that miss their due times if each is left out that would, one after the other: at least the least number.

    The count ends once it is more than ``most``.
    """
    end_s = latest_s = -np.inf
    tardy = 0
    for job in range(release_s.size):
        latest_s = max(latest_s, due_s[job])
        done_s = max(release_s[job], end_s) + work_s[job]
        if done_s <= latest_s:
            end_s = done_s
        else:
            tardy += 1
            if tardy > most:
                break
    return tardy


def least_tardy_at_once(due_s: Floats, work_s: Floats) -> int:
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

    Of several networks, each has at least those that it would have alone.

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
    late = 0
    for part in replay.by_network:
        traffic = part.traffic
        if replay.on_deadline == "answer":  # then the first exit is enough
            one = np.ones_like(traffic.exits)
            traffic = replace(traffic, trace=replace(traffic.trace, steps=one), exits=one)
        late += least_late(part.table, traffic, traffic.slo_s, replay.until_s)
    return late


def least_late(table: LatencyTable, traffic: Traffic, longer_than_s: Floats, until_s: float = math.inf) -> int:
    """Requests that surely take longer than a time each, or than there is left before ``until_s``.

    A lower bound, as of :func:`least_violations`; requests arrive by themselves. Shapes: ``longer_than_s`` (N,).
    """
    steps = table.exits[-1].steps if traffic.trace.steps is None else traffic.trace.steps
    host_s = 0.0 if table.host is None else table.host.before_s + table.host.after_s
    # of the time of a request, or of the device
    beside_s, kept_s = (host_s, 0.0) if table.host is not None and table.host.overlaps else (0.0, host_s)

    def work_of(limit_s: Floats) -> Floats:
        return least_work(table, traffic.exits, steps, limit_s - kept_s) + kept_s

    return late_jobs(traffic, longer_than_s - beside_s, work_of, until_s)


def late_jobs(
    traffic: Traffic,
    longer_than_s: Floats,
    work_of: Callable[[Floats], Floats],
    until_s: float = math.inf,
    most: int | None = None,
) -> int:
    """The same from the least NPU time of each request within a limit each; with ``most`` any number on its side of it.

    If objectives differ, a time that is due before an older request's is moved to that one.
    """
    arrival_s, limit_s = np.ascontiguousarray(traffic.trace.arrival_s), (1 + ROUNDING) * longer_than_s
    if len(limit_s) and longer_than_s.strides == (0,):  # one for all
        limit_s = np.broadcast_to(limit_s[0], len(limit_s))
    due_s, work_s = np.minimum(arrival_s + limit_s, until_s), work_of(limit_s)
    if traffic.trace.at_once:
        return least_tardy_at_once(np.maximum.accumulate(due_s) - arrival_s[0], work_s)
    if most is None:
        return int(least_tardy(arrival_s, due_s, work_s, len(due_s)))
    if (late := int(tardy_in_order(arrival_s, due_s, work_s, most))) <= most:
        return late
    return int(least_tardy(arrival_s, due_s, work_s, most))
