"""A slow, obvious simulator of BatchCond under any traffic, for comparison with the fast compiled one.

It is written from BatchCond, Section III, and from ``docs/policies.md``, which says when a window is filled; it
shares no code with the package. It decides as ``naive_batchcond``. Requests are numbers in order of arrival;
stages count from 1, and each step of a stage that repeats is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import naive_batchcond
from naive_serving import Latency, Outcome


class Machine(NamedTuple):
    """Times of a device: seconds by width, stage and batch; seconds to gather after a stage; widths; stages by step."""

    stage_s: Callable[[float, int, int], float]
    gather_s: Callable[[int, int], float]
    widths: Sequence[float]
    stages: int
    b_max: int


@dataclass
class Options:
    """Options of the policy; ``keys`` are the predictions by which a window is sorted, if it is."""

    keys: Sequence[float] | None = None
    window: float = 512
    patience: float = 4
    reorganise: str = "both"
    lookahead: int = 1
    predictor_s: float = 0.0
    timeout_s: float = 0.0


@dataclass
class _Queue:
    """Requests of the window, in the order of their launch, and requests behind it, in order of arrival."""

    window: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    refills: int = 0

    def offer(self, wanted: int, options: Options) -> int:
        """Number of wanted requests that may be taken, after the window is filled if it must and may be."""
        keys, waiting = options.keys, self.window + self.behind
        if keys is None:
            self.window, self.behind = waiting, []
        elif not self.window or (len(self.window) < wanted and self.refills < options.patience):
            self.refills = self.refills + 1 if self.window else 0
            size = int(min(options.window, len(waiting)))
            self.window, self.behind = sorted(waiting[:size], key=lambda request: keys[request]), waiting[size:]
        return min(wanted, len(self.window))

    def take(self, count: int) -> list[int]:
        """Take the first requests of the window."""
        batch, self.window = self.window[:count], self.window[count:]
        return batch


def least_cut(
    widths: list[float], whole_s: Callable[[int, float], float], gather_s: Callable[[int], float]
) -> list[list[float]]:
    """Sub-batches of least time among runs of the sorted samples; of equal ones, those with the largest last one."""
    best: list[tuple[float, list[list[float]]]] = [(0.0, [])]
    for end in range(1, len(widths) + 1):
        ways = []
        for begin in range(end):
            seconds, parts = best[begin]
            part = widths[begin:end]
            ways.append((seconds + whole_s(len(part), part[0]) + gather_s(len(part)), [*parts, part]))
        best.append(min(ways, key=lambda way: way[0]))  # the first of equal ones
    seconds, parts = best[-1]
    return [widths] if whole_s(len(widths), widths[0]) <= seconds else parts


def cut(widths: list[float], end: int, machine: Machine, optimal: bool) -> list[list[float]]:
    """Sub-batches of sorted samples of several widths, which are expected to have left by a stage."""

    def whole_s(batch: int, width: float) -> float:
        return sum(machine.stage_s(width, stage, batch) for stage in range(1, end + 1))

    def gather_s(batch: int) -> float:
        return machine.gather_s(0, batch)

    if optimal:
        return least_cut(widths, whole_s, gather_s)
    ideal = {width: naive_batchcond.ideal_batch(whole_s, width, machine.b_max) for width in machine.widths}
    return naive_batchcond.width_decision(widths, whole_s, gather_s, ideal)[0]


def batchcond(
    arrival_s: Sequence[float],
    leaves_after: Sequence[int],
    expected_after: Sequence[int],
    width_of: Sequence[float],
    machine: Machine,
    options: Options,
) -> Outcome:
    """Serve by BatchCond.

    Parameters
    ----------
    arrival_s, leaves_after, expected_after, width_of
        Of each request: when it arrives (not decreasing), after how many stages it leaves, by which stage it is
        expected to have left, and its width.
    machine, options
        Times of the device, and options of the policy.
    """
    total, queue = len(arrival_s), _Queue()
    start_s, finish_s = [float("nan")] * total, [float("nan")] * total
    now, arrived = 0.0, 0
    own = [min(width for width in machine.widths if width >= wanted) for wanted in width_of]

    while arrived < total or queue.window or queue.behind:
        while arrived < total and arrival_s[arrived] <= now:
            queue.behind.append(arrived)
            arrived += 1
        waiting = queue.window + queue.behind
        if not waiting:
            now = arrival_s[arrived]
            continue
        launch_s = min(arrival_s[request] for request in waiting) + options.timeout_s
        if len(waiting) < machine.b_max and now < launch_s:
            now = launch_s if arrived == total else min(launch_s, arrival_s[arrived])
            continue
        batch = queue.take(queue.offer(min(len(waiting), machine.b_max), options))

        cuts = [[own[request] for request in batch]]
        if options.reorganise in ("both", "optimal", "width") and len({own[request] for request in batch}) > 1:
            batch = sorted(batch, key=lambda request: -own[request])
            end = max(expected_after[request] for request in batch)
            cuts = cut([own[request] for request in batch], end, machine, options.reorganise == "optimal")
        for part in cuts:
            samples, batch = batch[: len(part)], batch[len(part) :]
            for request in samples:
                start_s[request] = now
            if options.keys is not None:
                now += options.predictor_s * len(samples)
            if len(cuts) > 1:
                now += machine.gather_s(0, len(samples))
            now = _run(samples, now, leaves_after, max(own[request] for request in samples), machine, options, finish_s)
    return Outcome(finish_s, start_s, [0] * total, 0)


def _run(
    samples: list[int],
    now: float,
    leaves_after: Sequence[int],
    width: float,
    machine: Machine,
    options: Options,
    finish_s: list[float],
) -> float:
    """Run a batch until all have left; pad or split it at every exit. Returns the time of its end."""
    staying, places, stage = samples, len(samples), 0
    while staying:
        stage += 1
        now += machine.stage_s(width, stage, places)
        for request in staying:
            if leaves_after[request] == stage:
                finish_s[request] = now
        staying = [request for request in staying if leaves_after[request] > stage]
        if not staying or options.reorganise in ("width", "off"):
            continue
        following = range(stage + 1, stage + 1 + options.lookahead)

        def next_s(batch: int, stages: range = following) -> float:
            return sum(machine.stage_s(width, at, batch) for at in stages if at <= machine.stages)

        gathered_s = machine.gather_s(stage, len(staying))
        gather_s = partial(machine.gather_s, stage)
        if naive_batchcond.depth_decision(next_s, gather_s, places, places - len(staying)) == "split":
            now += gathered_s
            places = len(staying)
    return now


def fluid(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    slo_s: Sequence[float],
    latency: Latency,
    b_max: int,
    options: Options,
) -> Outcome:
    """Serve by Algorithm 1 of Fluid Batching, with windows of similar requests.

    As ``naive_serving.fluid``; of the options, the window's count.
    """
    total, last, queue = len(arrival_s), len(latency[0]) - 1, _Queue()
    start_s, finish_s, preempted = [float("nan")] * total, [float("nan")] * total, [0] * total
    now, arrived, preemptions = 0.0, 0, 0

    def waiting() -> int:
        nonlocal arrived
        while arrived < total and arrival_s[arrived] <= now:
            queue.behind.append(arrived)
            arrived += 1
        return len(queue.window) + len(queue.behind)

    def enter(count: int) -> list[int]:
        batch = queue.take(count)
        for request in batch:
            start_s[request] = now
        return batch

    def run(batch: list[int], first: int, to: int) -> list[int]:
        nonlocal now
        for stage in range(first, to + 1):
            if not batch:
                break
            now += latency[stage - 1][stage][len(batch)]
            for request in batch:
                if exit_of[request] == stage:
                    finish_s[request] = now
            batch = [request for request in batch if exit_of[request] != stage]
        return batch

    while arrived < total or waiting() > 0:
        if waiting() == 0:
            now = arrival_s[arrived]
        active, stage = enter(queue.offer(min(waiting(), b_max), options)), 0
        while active:
            stage += 1
            active = run(active, stage, stage)
            while 0 < len(active) < b_max and waiting() > 0:
                count = queue.offer(min(waiting(), b_max - len(active)), options)
                overhead_s = latency[0][stage][count] + latency[stage][last][len(active) + count]
                if overhead_s >= min(arrival_s[request] + slo_s[request] for request in active) - now:
                    break
                preemptions += 1
                for request in active:
                    preempted[request] += 1
                active = active + run(enter(count), 1, stage)
    return Outcome(finish_s, start_s, preempted, preemptions)
