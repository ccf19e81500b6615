"""The policies as a user of SimPy would write them: a server takes requests from a queue, by one method per policy.

A server runs on a clock: SimPy's, or a plain one that only jumps from event to event.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import simpy
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import Trace
from numpy.typing import NDArray


class Work(NamedTuple):
    """Requests and tables, as Python's own lists."""

    arrival_s: list[float]
    exit_of: list[int]
    slo_s: float
    latency: list[list[list[float]]]  # T_{i:j}^b as latency[i][j][b]
    layer_s: list[list[float]]  # by layer and batch size
    stage_after: list[int]  # stage that each layer completes, or 0
    b_max: int

    @classmethod
    def of(cls, table: LatencyTable, trace: Trace, exits: NDArray[Any], slo_s: float) -> Work:
        """Convert fluidb's tables."""
        layers = table.segments(by_layer=True)
        stage = [*layers.stage.tolist(), 0]
        ends = [here if here != after else 0 for here, after in itertools.pairwise(stage)]
        return cls(
            trace.arrival_s.tolist(), exits.tolist(), slo_s,
            table.array().tolist(), layers.time_s[0].tolist(), ends, table.b_max,
        )  # fmt: skip


class SimpyClock(simpy.Environment):
    """SimPy's clock, with a process that puts each request into the queue when it arrives."""

    def __init__(self, arrival_s: list[float]) -> None:
        super().__init__()
        self.queue: deque[int] = deque()
        self.wake = self.event()
        self.process(self.arrivals(arrival_s))

    def arrivals(self, arrival_s: list[float]) -> Generator[Any, Any, None]:
        """Put each request into the queue at its time."""
        for request, at_s in enumerate(arrival_s):
            yield self.timeout(at_s - self.now)
            self.queue.append(request)
            if not self.wake.triggered:
                self.wake.succeed()

    def arrival(self, until_s: float = math.inf) -> simpy.Event:
        """The next arrival, but no later than ``until_s``."""
        self.wake = self.event()
        return self.wake if until_s == math.inf else self.wake | self.timeout(until_s - self.now)

    def serve(self, process: Generator[Any, Any, None]) -> None:
        """Run a server to its end."""
        self.process(process)
        self.run()


class PlainClock:
    """A clock in plain Python: a server yields the time at which it goes on."""

    def __init__(self, arrival_s: list[float]) -> None:
        self.queue: deque[int] = deque()
        self.now = 0.0
        self.arrival_s, self.tail = [*arrival_s, math.inf], 0

    def timeout(self, seconds: float) -> float:
        """Time this many seconds from now."""
        return self.now + seconds

    def arrival(self, until_s: float = math.inf) -> float:
        """The next arrival, but no later than ``until_s``."""
        return min(until_s, self.arrival_s[self.tail])

    def serve(self, process: Generator[Any, Any, None]) -> None:
        """Run a server to its end."""
        for time_s in process:
            self.now = time_s
            while self.arrival_s[self.tail] <= time_s:
                self.queue.append(self.tail)
                self.tail += 1


class Server:
    """One NPU that serves a queue."""

    def __init__(self, env: Any, work: Work) -> None:
        self.env, self.work, self.queue = env, work, env.queue
        self.end, self.left = len(work.latency) - 1, len(work.arrival_s)
        self.due_s = [arrival_s + work.slo_s for arrival_s in work.arrival_s]
        self.finish_s = [0.0] * self.left

    def take(self, count: int) -> list[int]:
        """Remove up to this many waiting requests from the queue, oldest first."""
        return [self.queue.popleft() for _ in range(min(count, len(self.queue)))]

    def leave(self, batch: list[int], stage: int) -> list[int]:
        """Finish the requests that exit after a stage; return the others."""
        remaining = []
        for request in batch:
            if self.work.exit_of[request] == stage:
                self.finish_s[request] = self.env.now
                self.left -= 1
            else:
                remaining.append(request)
        return remaining

    def stages(self, batch: list[int], first: int, last: int) -> Generator[Any, Any, list[int]]:
        """Run from stage ``first`` to ``last`` while any request remains; return those that do."""
        for stage in range(first, last + 1):
            if not batch:
                break
            yield self.env.timeout(self.work.latency[stage - 1][stage][len(batch)])
            batch = self.leave(batch, stage)
        return batch

    def serial(self) -> Generator[Any, Any, None]:
        """One request at a time."""
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            yield from self.stages(self.take(1), 1, self.end)

    def adaptb(self) -> Generator[Any, Any, None]:
        """A full batch, or the waiting requests once the oldest has waited for 5 % of the SLO."""
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            due_s = self.work.arrival_s[self.queue[0]] + 0.05 * self.work.slo_s
            while len(self.queue) < self.work.b_max and self.env.now < due_s:
                yield self.env.arrival(due_s)
            yield from self.stages(self.take(self.work.b_max), 1, self.end)

    def batchcond(self) -> Generator[Any, Any, None]:
        """The waiting requests, up to a full batch; gathers after an exit take no time here."""
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            yield from self.stages(self.take(self.work.b_max), 1, self.end)

    def lazy(self) -> Generator[Any, Any, None]:
        """Admit waiting requests at every layer while all on the NPU keep their slack by single-sample times."""
        work = self.work
        stack: list[tuple[int, list[int], int]] = []  # next layer, batch, samples it began with; the top last
        alone_s = work.latency[0][self.end][1]
        while self.left:
            while not stack and not self.queue:
                yield self.env.arrival()
            room = min(len(self.queue), work.b_max - sum(began for _, _, began in stack))
            if stack:
                running = [request for _, batch, _ in stack for request in batch]  # all older than those that wait
                slack_s = min(self.due_s[request] for request in running) - self.env.now
                while room > 0 and slack_s - alone_s * (len(running) + room) <= 0:
                    room -= 1
            if room > 0:
                stack.append((0, self.take(room), room))
            layer, batch, began = stack.pop()
            yield self.env.timeout(work.layer_s[layer][len(batch)])
            if work.stage_after[layer]:
                batch = self.leave(batch, work.stage_after[layer])
            if batch and stack and stack[-1][0] == layer + 1:
                stack[-1] = (layer + 1, stack[-1][1] + batch, stack[-1][2] + began)
            elif batch:
                stack.append((layer + 1, batch, began))

    def fluid(self) -> Generator[Any, Any, None]:
        """Algorithm 1 of Fluid Batching: launch, run to the end, backfill at each exit."""
        latency, b_max = self.work.latency, self.work.b_max
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            batch, reached = self.take(b_max), 0
            while batch:
                reached += 1
                batch = yield from self.stages(batch, reached, reached)
                while batch and self.queue and len(batch) < b_max:
                    count = min(len(self.queue), b_max - len(batch))
                    ahead_s = latency[0][reached][count] + latency[reached][self.end][len(batch) + count]
                    if ahead_s >= min(self.due_s[request] for request in batch) - self.env.now:
                        break
                    batch += yield from self.stages(self.take(count), 1, reached)

    def fluid_slack(self) -> Generator[Any, Any, None]:
        """Algorithm 1 with smaller launches where they save requests, and late ones last (docs/policies.md)."""
        latency, b_max = self.work.latency, self.work.b_max
        turn_s = 0.0
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            late, size = self.missing(self.env.now + latency[0][self.end][1]), min(len(self.queue), b_max)
            if late and self.turn_is_due(late, turn_s):
                batch, turn_s = self.take(size), self.env.now
            else:
                if late < b_max:
                    size = max(range(1, size + 1), key=lambda size: (self.in_time(late, size), size))
                oldest = [self.queue[i] for i in range(size)]
                batch = self.take_in_time(size, self.env.now + latency[0][self.end][size])
                if batch == oldest:
                    turn_s = self.env.now
            reached = 0
            while batch:
                reached += 1
                batch = yield from self.stages(batch, reached, reached)
                while batch and self.queue and len(batch) < b_max:
                    late = self.missing(self.env.now + latency[0][self.end][1])
                    count = min(len(self.queue), b_max - len(batch))
                    ahead_s = latency[0][reached][count] + latency[reached][self.end][len(batch) + count]
                    slack_s = min(self.due_s[request] for request in batch) - self.env.now
                    if ahead_s >= slack_s or self.turn_is_due(late, turn_s):
                        break
                    batch += yield from self.stages(self.take_in_time(count, self.env.now + ahead_s), 1, reached)

    def missing(self, end_s: float) -> int:
        """Number of requests at the head of the queue with a deadline before a time."""
        return sum(1 for _ in itertools.takewhile(lambda request: self.due_s[request] < end_s, self.queue))

    def take_in_time(self, count: int, end_s: float) -> list[int]:
        """Take requests that will be in time, and then the oldest of the others."""
        missing = self.missing(end_s)
        others = count - min(len(self.queue) - missing, count)
        batch = self.take(others)
        self.queue.rotate(others - missing)
        batch += self.take(count - others)
        self.queue.rotate(missing - others)
        return batch

    def turn_is_due(self, late: int, turn_s: float) -> bool:
        """Tell if the oldest are served next: the last turn was longer ago than the patience."""
        patience_s = 6 * (self.due_s[self.queue[0]] - self.work.arrival_s[self.queue[0]])
        return bool(self.env.now >= turn_s + patience_s * min(1.0, self.work.b_max / max(late, 1)))

    def in_time(self, late: int, size: int) -> int:
        """Number of requests in time if ``size`` were launched now, and the others in batches that suit their first."""
        whole = self.work.latency[0][self.end]
        last = min(len(self.queue), late + 2 * self.work.b_max)
        time_s = self.env.now + whole[size]
        first, count = self.missing(time_s), 0
        while first < last:
            size = min(size, last - first)
            count += size
            first += size
            while first < last and self.due_s[self.queue[first]] < time_s + whole[1]:
                first += 1
            if first < last:
                size = min(last - first, self.work.b_max)
                while self.due_s[self.queue[first]] < time_s + whole[size]:
                    size -= 1
                time_s += whole[size]
        return count


SERVERS: dict[str, Callable[[Server], Generator[Any, Any, None]]] = {
    "serial": Server.serial,
    "adaptb": Server.adaptb,
    "lazy": Server.lazy,
    "fluid": Server.fluid,
    "fluid-slack": Server.fluid_slack,
    "pame": Server.adaptb,  # on one lane they are the same
    "batchcond": Server.batchcond,
    "sushi": Server.serial,  # with one SubNet
}


def run(policy: str, clock: type[SimpyClock | PlainClock], work: Work) -> list[float]:
    """Serve every request; return the time at which each returned."""
    env = clock(work.arrival_s)
    server = Server(env, work)
    env.serve(SERVERS[policy](server))
    return server.finish_s
