"""The policies as a user of SimPy would write them: a server that takes requests from a queue, one method for each.

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
    """What is served, as Python's own lists.

    Attributes
    ----------
    arrival_s, exit_of
        Of each request.
    slo_s
        Of all requests.
    latency
        T_{i:j}^b as ``latency[i][j][b]``.
    layer_s, stage_after
        Time of each layer by batch size, and the stage that it completes, or 0.
    b_max
        Largest batch.
    """

    arrival_s: list[float]
    exit_of: list[int]
    slo_s: float
    latency: list[list[list[float]]]
    layer_s: list[list[float]]
    stage_after: list[int]
    b_max: int

    @classmethod
    def of(cls, table: LatencyTable, trace: Trace, exits: NDArray[Any], slo_s: float) -> Work:
        """From fluidb's tables."""
        layers = table.segments(by_layer=True)
        stage = [*layers.stage.tolist(), 0]
        ends = [here if here != after else 0 for here, after in itertools.pairwise(stage)]
        return cls(
            trace.arrival_s.tolist(), exits.tolist(), slo_s,
            table.array().tolist(), layers.time_s.tolist(), ends, table.b_max,
        )  # fmt: skip


class SimpyClock(simpy.Environment):
    """SimPy's clock, with a process that puts each request into the queue when it arrives."""

    def __init__(self, arrival_s: list[float]) -> None:
        super().__init__()
        self.queue: deque[int] = deque()
        self.wake = self.event()
        self.process(self.arrivals(arrival_s))

    def arrivals(self, arrival_s: list[float]) -> Generator[Any, Any, None]:
        """Request after request."""
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
    """The same in plain Python: a server yields the time at which it goes on."""

    def __init__(self, arrival_s: list[float]) -> None:
        self.queue: deque[int] = deque()
        self.now = 0.0
        self.arrival_s, self.tail = [*arrival_s, math.inf], 0

    def timeout(self, seconds: float) -> float:
        """Some time from now."""
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
        """The oldest waiting requests, or all that wait."""
        return [self.queue.popleft() for _ in range(min(count, len(self.queue)))]

    def leave(self, batch: list[int], stage: int) -> list[int]:
        """Who exits after a stage returns; the others remain."""
        remaining = []
        for request in batch:
            if self.work.exit_of[request] == stage:
                self.finish_s[request] = self.env.now
                self.left -= 1
            else:
                remaining.append(request)
        return remaining

    def stages(self, batch: list[int], first: int, last: int) -> Generator[Any, Any, list[int]]:
        """Run from stage ``first`` to ``last``, as long as anybody remains; who does."""
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
        """A full batch, or what waits once the oldest has waited for 5 % of the SLO."""
        while self.left:
            while not self.queue:
                yield self.env.arrival()
            due_s = self.work.arrival_s[self.queue[0]] + 0.05 * self.work.slo_s
            while len(self.queue) < self.work.b_max and self.env.now < due_s:
                yield self.env.arrival(due_s)
            yield from self.stages(self.take(self.work.b_max), 1, self.end)

    def lazy(self) -> Generator[Any, Any, None]:
        """At every layer, admit who waits while all on the NPU keep their slack by single-sample times."""
        work = self.work
        stack: list[tuple[int, list[int], int]] = []  # next layer, batch, samples it began with; the top last
        alone_s = work.latency[0][self.end][1]
        while self.left:
            while not stack and not self.queue:
                yield self.env.arrival()
            room = min(len(self.queue), work.b_max - sum(began for _, _, began in stack))
            if stack:
                running = [request for _, batch, _ in stack for request in batch]
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
        """Launch and backfill as many as save the most requests (docs/fluid-slack.md)."""
        late: deque[int] = deque()
        turn_s = 0.0
        while self.left:
            while not self.queue and not late:
                yield self.env.arrival()
            self.step_aside(late)
            if late and self.turn_is_due(late, turn_s):
                turn_s = self.env.now
                batch = [late.popleft() for _ in range(min(len(late), self.work.b_max))]
                batch += self.take(self.work.b_max - len(batch))
            elif self.queue:
                if not late:
                    turn_s = self.env.now
                batch = self.take(self.best([], 0, 1))
            else:
                batch = [late.popleft()]
            reached = 0
            while batch:
                reached += 1
                batch = yield from self.stages(batch, reached, reached)
                while batch:
                    self.step_aside(late)
                    if self.turn_is_due(late, turn_s):
                        break
                    count = self.best(batch, reached, 0)
                    if count == 0:
                        break
                    batch += yield from self.stages(self.take(count), 1, reached)

    def step_aside(self, late: deque[int]) -> None:
        """Who could not be in time even alone lets the others pass."""
        alone_s = self.env.now + self.work.latency[0][self.end][1]
        while self.queue and self.due_s[self.queue[0]] < alone_s:
            late.append(self.queue.popleft())

    def turn_is_due(self, late: deque[int], turn_s: float) -> bool:
        """Whether the oldest are served next: the last turn was longer ago than the patience."""
        if not late and not self.queue:
            return False
        oldest = late[0] if late else self.queue[0]
        patience_s = 6 * (self.due_s[oldest] - self.work.arrival_s[oldest])
        return bool(self.env.now >= turn_s + patience_s * min(1.0, self.work.b_max / max(len(late), 1)))

    def best(self, batch: list[int], reached: int, least: int) -> int:
        """How many should enter: the count that keeps most requests in time; if several do, the one that ends first."""
        running = [self.due_s[request] for request in batch]
        waiting = [self.due_s[self.queue[i]] for i in range(min(len(self.queue), self.work.b_max))]
        room = min(len(waiting), self.work.b_max - len(batch))
        best, saved, done_s = room, -1, math.inf
        for count in range(least, room + 1):
            in_time, time_s = self.outlook(running, waiting, reached, count)
            if in_time > saved or (in_time == saved and time_s < done_s):
                best, saved, done_s = count, in_time, time_s
        return best

    def outlook(self, running: list[float], waiting: list[float], reached: int, count: int) -> tuple[int, float]:
        """How many would be in time if ``count`` entered now, and when all were served."""
        latency, b_max = self.work.latency, self.work.b_max
        whole = latency[0][self.end]
        time_s = self.env.now + latency[0][reached][count] + latency[reached][self.end][len(running) + count]
        in_time = sum(due_s >= time_s for due_s in running) + sum(due_s >= time_s for due_s in waiting[:count])
        first, known = count, len(waiting)
        while first < known + b_max:
            size = min(known + b_max - first, b_max)
            if first < known:
                if time_s + whole[1] > waiting[first]:
                    first += 1
                    continue
                while time_s + whole[size] > waiting[first]:
                    size -= 1
            time_s += whole[size]
            in_time += sum(due_s >= time_s for due_s in waiting[first : first + size])
            first += size
        return in_time, time_s


SERVERS: dict[str, Callable[[Server], Generator[Any, Any, None]]] = {
    "serial": Server.serial,
    "adaptb": Server.adaptb,
    "lazy": Server.lazy,
    "fluid": Server.fluid,
    "fluid-slack": Server.fluid_slack,
    "pame": Server.adaptb,  # on one lane they are the same
}


def run(policy: str, clock: type[SimpyClock | PlainClock], work: Work) -> list[float]:
    """Serve every request; when each returned."""
    env = clock(work.arrival_s)
    server = Server(env, work)
    env.serve(SERVERS[policy](server))
    return server.finish_s
