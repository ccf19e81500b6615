"""A slow, obvious simulator of several cores on one memory, on top of the one of clients, deadlines and admission.

It shares no code with the package. A core runs one stage of one batch at a time, and a batch is of one network. Every
core is a list of batches, and the last one runs; from event to event the ends of running stages are moved, because
cores that move words at the same time wait for each other. At one instant stages end first, core by core, then
deadlines pass, then requests are sent, then the policy decides, core by core.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from naive_networks import Networks
from naive_terms import Latency, Request, Rule


@dataclass
class Net:
    """A network, and what is known of it."""

    latency: list[Latency]  # by kind of core
    moving: list[list[list[float]]]  # share of the time in which words move, by kind, stage and batch
    b_max: int
    timeout_s: float
    weight: float
    switch_s: float
    cores: Sequence[int]  # those that serve it
    admit: Rule = field(default_factory=Rule)
    priority: int = 0
    tag_s: float = 0.0  # time on cores over weight


@dataclass
class Batch:
    net: int
    requests: list[Request]
    stage: int = 0  # last exit that it passed


@dataclass
class Core:
    kind: int
    stack: list[Batch] = field(default_factory=list)
    loaded: int | None = None  # network whose weights it has
    running: bool = False
    goes_on: int = 0  # stages that it runs without asking
    wakes_s: float = inf
    begin_s: float = 0.0
    end_s: float = 0.0
    share: float = 0.0  # of the running stage, in which words move
    slowed: float = 1.0


class Cores(Networks):
    """The cores, and the requests of all networks."""

    def __init__(
        self, nets: Sequence[Net], kinds: Sequence[int], network: Sequence[int], rules: tuple[str, str, str],
        contention: float, *of: object,
    ) -> None:  # fmt: skip
        self.policy, between, self.dispatch = rules
        super().__init__(nets, network, between, *of)
        self.contention = contention
        self.cores = [Core(kind) for kind in kinds]
        self.joined: list[int | None] = []  # core whose queue each request is in; none where they share one

    # queues

    def waiting(self, net: int, k: int | None) -> list[Request]:
        """Requests of a network that a core may take."""
        if k is not None and k not in self.nets[net].cores:
            return []
        return [
            request
            for n, request in enumerate(self.sent)
            if request.waits and self.network[n] == net and (k is None or self.joined[n] in (None, k))
        ]

    def join(self, number: int, at_s: float) -> None:
        net = self.network[number]
        if not self.waiting(net, None):
            self.nets[net].tag_s = max(self.nets[net].tag_s, self.virtual_s)
        self.joined.append(None if self.dispatch == "shared" else self.best_core(net, at_s))
        super().join(number, at_s)

    def best_core(self, net: int, at_s: float) -> int:
        left = {k: self.left(k, at_s) for k in self.nets[net].cores}
        if self.dispatch == "least_work":
            left = {k: value + self.alone(net, k, 0) for k, value in left.items()}
        return min(left, key=lambda k: (left[k], k))

    def alone(self, net: int, k: int, stage: int) -> float:
        return self.nets[net].latency[self.cores[k].kind][stage][-1][1]

    def left(self, k: int, at_s: float) -> float:
        """Requests on a core and in its queues, or their work."""
        core, left = self.cores[k], 0.0
        for net in range(len(self.nets)):
            count = sum(self.joined[n] == k for n, request in enumerate(self.sent) if self.is_in(request, n, net))
            left += count * (self.alone(net, k, 0) if self.dispatch == "least_work" else 1.0)
        if self.dispatch == "shortest":
            return left + sum(len(batch.requests) for batch in core.stack)
        for batch in reversed(core.stack):
            stage = batch.stage
            if batch is core.stack[-1] and core.running:
                left += core.end_s - at_s
                stage += 1
            left += len(batch.requests) * self.alone(batch.net, k, stage)
        return left

    def is_in(self, request: Request, n: int, net: int) -> bool:
        return request.waits and self.network[n] == net

    def mates(self, number: int) -> list[Request]:
        return self.waiting(self.network[number], None)

    def may_begin(self, number: int) -> bool:
        """Whether more cores that may take a request are idle than requests wait for them."""
        own = self.joined[-1]
        mine = [k for k in self.nets[self.network[number]].cores if own in (None, k)]
        idle = [k for k in mine if not self.cores[k].stack]
        rivals = [
            n
            for n, request in enumerate(self.sent)
            if request.waits
            and any(k in self.nets[self.network[n]].cores and self.joined[n] in (None, k) for k in mine)
        ]
        return len(rivals) < len(idle)

    def returns_s(self, number: int, at_s: float, largest: int) -> float:
        """When a request would return behind all others; each batch takes the core that is free first."""
        free_s = []
        for core in self.cores:
            end_s = core.end_s if core.running else at_s
            for batch in reversed(core.stack):
                stage = batch.stage + (core.running and batch is core.stack[-1])
                end_s += self.nets[batch.net].latency[core.kind][stage][-1][len(batch.requests)]
            free_s.append(end_s)
        queues: list[tuple[int | None, int]] = [
            (k, net)
            for k in ([None] if self.dispatch == "shared" else range(len(self.cores)))
            for net in range(len(self.nets))
        ]
        own, end_s = (self.joined[-1], self.network[number]), 0.0
        queues.remove(own)
        for k, net in [*queues, own]:
            count = len(self.waiting(net, k)) + ((k, net) == own)
            most = min(largest, self.nets[net].b_max)
            while count > 0:
                first = min(self.nets[net].cores if k is None else [k], key=lambda core: (free_s[core], core))
                free_s[first] += self.nets[net].latency[self.cores[first].kind][0][-1][min(count, most)]
                end_s, count = free_s[first], count - most
        return end_s

    def alone_s(self, number: int) -> float:
        net = self.network[number]
        return min(self.alone(net, k, 0) for k in self.nets[net].cores)

    # time

    def serve(self) -> None:
        """Serve all requests."""
        while True:
            event = self._next()
            outside_s = inf if event is None else event[0]
            times = [core.end_s if core.running else min(core.wakes_s, outside_s) for core in self.cores]
            if not self.open_requests() and event is None:
                return
            now = min(times)
            assert now < inf
            self.before(now)
            self.now = now
            for k, core in enumerate(self.cores):
                if core.running and core.end_s <= now:
                    self.end(k)
            self.at(now)
            for core in self.cores:
                while not core.running and core.stack:
                    top = core.stack[-1]
                    top.requests = [request for request in top.requests if request.open]
                    if top.requests:
                        break
                    core.stack.pop()
                    core.goes_on = 0
            for k in range(len(self.cores)):
                self.ask(k)
            self.slow()

    def open_requests(self) -> bool:
        return any(request.open for request in self.sent) or any(core.stack for core in self.cores)

    def end(self, k: int) -> None:
        """The stage of a core ends."""
        core = self.cores[k]
        batch, core.running = core.stack[-1], False
        batch.stage += 1
        self.finish(batch.requests, batch.stage, self.now)
        batch.requests = [request for request in batch.requests if request.open]
        if not batch.requests:
            core.stack.pop()
            core.goes_on = 0
        elif len(core.stack) > 1 and core.stack[-2].stage == batch.stage:
            core.stack.pop()
            core.stack[-1].requests += batch.requests
            core.goes_on = 0

    def slow(self) -> None:
        """Cores that move words at the same time wait for each other."""
        busy = [core for core in self.cores if core.running]
        if len(self.cores) == 1:
            return
        stretch = {id(core): 1.0 + self.contention * (len(busy) - 1) for core in busy}

        def moving(core: Core) -> float:
            moved = core.share * stretch[id(core)]
            return moved / (1.0 - core.share + moved)

        for _ in range(100):
            total = 0.0
            for core in busy:
                total += moving(core)
            new = {id(core): 1.0 + self.contention * max(0.0, total - moving(core)) for core in busy}
            change = max((stretch[key] - new[key] for key in new), default=0.0)
            stretch = new
            if change < 1e-12:
                break
        for core in busy:
            slowed = 1.0 + core.share * (stretch[id(core)] - 1.0)
            core.end_s += (core.end_s - max(self.now, core.begin_s)) * (slowed / core.slowed - 1.0)
            core.slowed = slowed

    # decisions

    def ask(self, k: int) -> None:
        core = self.cores[k]
        if core.running:
            return
        if core.goes_on == 0:
            core.wakes_s = inf
        if core.stack:
            if core.goes_on == 0:
                core.goes_on = 1
                if self.policy == "fluid":
                    self.backfill(k)
            self.begin(k)
            return
        for net in self.in_turn(k):
            waiting, one = self.waiting(net, k), self.nets[net]
            launch_s = waiting[0].arrival_s + one.timeout_s
            if self.policy == "adaptb" and len(waiting) < one.b_max and self.now < launch_s:
                core.wakes_s = min(core.wakes_s, launch_s)
                continue
            self.enter(core, net, waiting[: 1 if self.policy == "serial" else one.b_max])
            core.goes_on = 1
            wait_s = one.switch_s if core.loaded not in (None, net) else 0.0
            core.loaded = net
            self.begin(k, wait_s)
            return

    def enter(self, core: Core, net: int, requests: list[Request]) -> None:
        for request in requests:
            request.waits, request.start_s = False, self.now
        core.stack.append(Batch(net, requests))

    def backfill(self, k: int) -> None:
        """Fluid Batching, Algorithm 1: a new batch on top, up to where the other stands."""
        core = self.cores[k]
        top = core.stack[-1]
        one, order = self.nets[top.net], self.in_turn(k)
        room = one.b_max - len(top.requests)
        if not order or order[0] != top.net or room < 1:
            return
        latency, waiting = one.latency[core.kind], self.waiting(top.net, k)
        b_incr, last = min(len(waiting), room), len(one.latency[core.kind][0]) - 1
        overhead_s = latency[0][top.stage][b_incr] + latency[top.stage][last][len(top.requests) + b_incr]
        if overhead_s < min(request.due_s for request in top.requests) - self.now:
            self.enter(core, top.net, waiting[:b_incr])
            core.goes_on = top.stage

    def begin(self, k: int, wait_s: float = 0.0) -> None:
        """The next stage of a core."""
        core = self.cores[k]
        batch = core.stack[-1]
        one = self.nets[batch.net]
        size = len(batch.requests)
        core.begin_s = self.now + wait_s
        core.end_s = core.begin_s + one.latency[core.kind][batch.stage][batch.stage + 1][size]
        core.share, core.slowed = one.moving[core.kind][batch.stage][size], 1.0
        core.running = True
        core.goes_on -= 1
        self.virtual_s = max(self.virtual_s, one.tag_s)
        one.tag_s += (core.end_s - self.now) / one.weight
