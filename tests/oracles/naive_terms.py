"""A slow, obvious simulator of clients that wait, of deadlines and of admission, under three policies, for comparison.

It shares no code with the package. One NPU runs one stage of one batch at a time. At one instant a stage ends first,
then deadlines pass, then a host that overlaps has prepared inputs, then requests are sent, then the policy decides.
Requests are refused or not when they come to the queue. Everything is searched for anew at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

Latency = list[list[list[float]]]
"""``latency[i][j][b]``: seconds from exit i (0 = input) to exit j with batch b."""


@dataclass
class Request:
    """A request that was sent."""

    client: Any
    arrival_s: float
    joined_s: float  # when it comes to the queue
    due_s: float
    exit: int
    prepares: bool = True  # the host has its input
    waits: bool = False
    open: bool = True  # no answer yet, and not dropped
    passed: int = 0  # last exit that it passed
    answered: int = 0  # exit whose answer it got; 0 for none
    start_s: float = inf
    finish_s: float = inf
    refused: bool = False


class Bucket:
    """Tokens that admit requests: their rate, and the most of them; without a rule all are admitted."""

    def __init__(self, rule: tuple[float, float] | None) -> None:
        self.rule, self.tokens, self.looked_s = rule, 0.0 if rule is None else rule[1], 0.0

    def gives(self, at_s: float) -> bool:
        if self.rule is None:
            return True
        per_s, most = self.rule
        self.tokens = min(most, self.tokens + per_s * (at_s - self.looked_s))
        self.looked_s = at_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass
class Rule:
    """Who may wait."""

    places: int | None = None  # in the queue; None for no limit
    newest: bool = False  # the oldest that waits makes way
    bucket: Bucket = field(default_factory=lambda: Bucket(None))
    batch: int = 0  # in which requests are expected to be served, who must be in time; 0 for no such rule


@dataclass
class Host:
    """Times of each input and output, beside the NPU's work or while it waits."""

    before_s: float = 0.0
    after_s: float = 0.0
    overlaps: bool = True

    def known(self, latency: Latency) -> Latency:
        """Times that policies reckon with."""
        if self.overlaps:
            return latency
        last = len(latency) - 1
        return [
            [
                [
                    time_s + self.before_s * b * (i == 0 < j) + self.after_s * b * (i < j == last)
                    for b, time_s in enumerate(times)
                ]
                for j, times in enumerate(row)
            ]
            for i, row in enumerate(latency)
        ]


@dataclass
class Own:
    """Requests that a network has for itself: they arrive, or its clients send them."""

    exits: list[int]
    slo_s: list[float]
    arrival_s: list[float]  # where there are no clients
    first_s: list[float]  # for how long each client thinks at first
    think_s: list[float]  # and after each request
    stop_s: float
    sent: int = 0


class World:
    """Clients, queue and clock."""

    def __init__(
        self, exits: Sequence[int], slo_s: Sequence[float], rule: str, arrival_s: Sequence[float] | None,
        think_s: Sequence[float] | None, admit: Rule | None = None, latency: Latency | None = None,
    ) -> None:  # fmt: skip
        self.now, self.exits, self.slo_s, self.rule = 0.0, exits, slo_s, rule
        self.sent: list[Request] = []
        # the batches on the NPU, bottom first: the exit that each has passed, or the top one will pass, and its size
        self.stack: list[tuple[int, int]] = []
        self.ends_s: float | None = None  # of the stage that runs
        self.latency = latency
        self.together = False  # a batch waits for its slowest sample
        self.host = Host()
        self.admit = admit
        self.owns: list[Own] = []  # where each network has requests for itself
        self.network: list[int] = []  # of each request
        self.think_s = think_s
        if think_s is not None:
            self.clients = len(think_s) - len(exits)
            # who thinks, and until when
            self.sends: dict[object, float] = {client: think_s[client] for client in range(self.clients)}
        else:
            assert arrival_s is not None
            self.sends = dict(enumerate(arrival_s))

    def let_send(self, owns: Sequence[Own]) -> None:
        """Let each network have requests for itself, in place of shared ones."""
        self.owns, self.network, self.exits, self.slo_s = list(owns), [], [], []
        self.sends = {
            (net, k): at_s for net, own in enumerate(owns) for k, at_s in enumerate(own.first_s or own.arrival_s)
        }

    def more(self, who: object) -> bool:
        """Whether a client, or a request that arrives, has something to send."""
        if isinstance(who, tuple):
            return self.owns[who[0]].sent < len(self.owns[who[0]].exits)
        return len(self.sent) < len(self.exits)

    def number(self, who: object) -> None:
        """Number the next request of a network, which has it for itself."""
        if isinstance(who, tuple):
            own = self.owns[who[0]]
            self.network.append(who[0])
            self.exits = [*self.exits, own.exits[own.sent]]
            self.slo_s = [*self.slo_s, own.slo_s[own.sent]]
            own.sent += 1

    @property
    def out_of_requests(self) -> bool:
        """Whether a client would send a request that there is not, before it stops to send."""
        return any(isinstance(who, tuple) and self.owns[who[0]].stop_s < inf for who in self.sends)

    def queue(self) -> list[Request]:
        return [request for request in self.sent if request.waits]

    def _next(self) -> tuple[float, int, Any] | None:
        """Time, kind (0 for a deadline) and number of the next event outside of the NPU."""
        found: list[tuple[float, int, Any]] = []
        if self.rule != "serve":
            found += [(request.due_s, 0, k) for k, request in enumerate(self.sent) if request.open]
        found += [(request.joined_s, 1, k) for k, request in enumerate(self.sent) if request.prepares]
        found += [(at_s, 2, who) for who, at_s in self.sends.items() if self.more(who)]
        return min(found, default=None)

    def _do(self, event: tuple[float, int, Any]) -> None:
        at_s, kind, who = event
        if kind == 0:
            request = self.sent[who]
            request.open = request.waits = False
            promised_s = request.arrival_s + self.slo_s[who]
            if self.rule == "answer" and request.passed:
                request.finish_s, request.answered = promised_s, min(request.passed, request.exit)
            self.tell(who, promised_s)
        elif kind == 1:
            self.join(who, at_s)
        else:
            number = len(self.sent)
            del self.sends[who]
            client = who if self.think_s is not None or self.owns else None
            host, due_s, joined_s = self.host_of(number), at_s + self.slo_s[number], at_s
            if host.overlaps:
                due_s, joined_s = max(at_s, due_s - host.after_s), at_s + host.before_s
            self.sent.append(Request(client, at_s, joined_s, due_s, self.exits[number]))
            if not host.overlaps:
                self.join(number, at_s)

    def join(self, number: int, at_s: float) -> None:
        """Let a request come to the queue, if it has not given up before."""
        request = self.sent[number]
        request.prepares = False
        if request.open:
            if self.enters(number, at_s):
                request.waits = True
            else:
                request.refused = True
                self.turn_away(number, at_s)

    def host_of(self, number: int) -> Host:
        del number
        return self.host

    def turn_away(self, number: int, at_s: float) -> None:
        self.sent[number].waits = self.sent[number].open = False
        self.tell(number, at_s, self.alone_s(number))

    def enters(self, number: int, at_s: float) -> bool:
        """Whether a request that is sent now gets into the queue."""
        rule = self.rule_of(number)
        if rule.batch and self.returns_s(number, at_s, rule.batch) > self.sent[number].due_s:
            return False
        while rule.places is not None and len(self.mates(number)) >= rule.places and not self.may_begin(number):
            if not rule.newest:
                return False
            oldest = self.mates(number)[0]
            self.turn_away(next(k for k, item in enumerate(self.sent) if item is oldest), at_s)
        return rule.bucket.gives(at_s)

    def rule_of(self, number: int) -> Rule:
        del number
        return self.admit or Rule()

    def mates(self, number: int) -> list[Request]:
        """Requests that wait for the same network as one that comes."""
        del number
        return self.queue()

    def may_begin(self, number: int) -> bool:
        """Whether the NPU is idle and nobody else waits for it."""
        del number
        return not self.stack and not self.queue()

    def returns_s(self, number: int, at_s: float, largest: int) -> float:
        """When a request would return behind all others, if all go to the end."""
        del number
        assert self.latency is not None
        known = self.host.known(self.latency)
        return self.behind(self.free_s(at_s, known), len(self.queue()) + 1, known, largest)

    def free_s(self, at_s: float, latency: Latency) -> float:
        """When the NPU would be free."""
        free_s = at_s if self.ends_s is None else self.ends_s
        for stage, size in reversed(self.stack):
            free_s += latency[stage][-1][size]
        return free_s

    def behind(self, free_s: float, count: int, latency: Latency, largest: int) -> float:
        """When requests would be done that begin then, batch by batch."""
        most = min(largest, len(latency[0][-1]) - 1)
        while count > 0:
            free_s += latency[0][-1][min(count, most)]
            count -= most
        return free_s

    def alone_s(self, number: int) -> float:
        """Time of a request alone, for which its client waits if it was refused."""
        del number
        assert self.latency is not None
        return self.host.known(self.latency)[0][-1][1]

    def tell(self, number: int, at_s: float, least_s: float = 0.0) -> None:
        """A client learns what became of its request, and thinks, at least for some time."""
        request = self.sent[number]
        if self.owns:
            own, place = self.owns[self.network[number]], self.network[:number].count(self.network[number])
            again_s = at_s + max(own.think_s[place], least_s)
            if own.first_s and again_s <= own.stop_s:
                self.sends[request.client] = again_s
        elif self.think_s is not None:
            assert request.client is not None
            assert request.client not in self.sends
            self.sends[request.client] = at_s + max(self.think_s[self.clients + number], least_s)

    def before(self, end_s: float) -> None:
        while (event := self._next()) is not None and event[0] < end_s:
            self._do(event)

    def at(self, end_s: float) -> None:
        while (event := self._next()) is not None and event[0] <= end_s:
            self._do(event)
        self.now = end_s

    def idle(self, until_s: float = inf) -> bool:
        """Let time pass on an idle NPU until something happens; false if nothing will."""
        self.stack = []
        event = self._next()
        at_s = min(until_s, event[0] if event is not None else inf)
        if at_s == inf:
            return False
        self.at(at_s)
        return True

    def take(self, count: int) -> list[Request]:
        batch = self.queue()[:count]
        for request in batch:
            request.waits, request.start_s = False, self.now
        return batch

    def run(
        self, batch: list[Request], stage: int, latency: Latency, below: Sequence[tuple[int, int]] = ()
    ) -> list[Request]:
        """Run a stage, perhaps above a preempted batch; who is still in the batch then."""
        wait_s = self.inputs_s(batch, stage, self.host)
        return self.until_end(batch, stage, (self.now + wait_s) + latency[stage - 1][stage][len(batch)], below)

    def inputs_s(self, batch: list[Request], stage: int, host: Host) -> float:
        """For how long the NPU waits for inputs before a stage."""
        return host.before_s * len(batch) if stage == 1 and not host.overlaps else 0.0

    def leavers(self, batch: list[Request], stage: int) -> list[Request]:
        """Who has reached its exit at a stage; perhaps nobody before all have."""
        running = [request for request in batch if request.open]
        slowest = max((request.exit for request in running), default=0)
        return [request for request in running if (slowest if self.together else request.exit) <= stage]

    def host_of_batch(self, batch: list[Request]) -> Host:
        """The host of the network of a batch."""
        return self.host_of(next(k for k, item in enumerate(self.sent) if item is batch[0]))

    def finish(self, batch: list[Request], stage: int, end_s: float) -> None:
        """Let a batch pass a stage; who has reached its exit returns."""
        leavers = self.leavers(batch, stage)
        for request in batch:
            if request.open:
                request.passed = stage
        for request in leavers:
            number = next(k for k, item in enumerate(self.sent) if item is request)
            host = self.host_of(number)
            out_s = end_s + host.after_s if host.overlaps else end_s
            request.open, request.finish_s, request.answered = False, out_s, request.exit
            self.tell(number, out_s)

    def handle_outputs(self, batch: list[Request], stage: int, below: Sequence[tuple[int, int]], host: Host) -> None:
        """Let the NPU wait for the outputs of those that leave."""
        longer_s = 0.0 if host.overlaps else host.after_s * len(self.leavers(batch, stage))
        if longer_s:
            end_s = self.ends_s
            assert end_s is not None
            self.stack, self.ends_s = [*below, (stage, sum(request.open for request in batch))], end_s + longer_s
            self.at(end_s)
            self.before(self.ends_s)

    def until_end(
        self, batch: list[Request], stage: int, end_s: float, below: Sequence[tuple[int, int]] = ()
    ) -> list[Request]:
        """Run a stage that ends then, with what happens meanwhile; who is still in the batch then."""
        self.stack, self.ends_s = [*below, (stage, len(batch))], end_s
        self.before(end_s)
        self.handle_outputs(batch, stage, below, self.host_of_batch(batch))
        end_s = self.ends_s
        self.finish(batch, stage, end_s)
        left, self.stack, self.ends_s = sum(request.open for request in batch), [*below], None
        if left and below and below[-1][0] == stage:
            self.stack[-1] = (stage, below[-1][1] + left)
        elif left:
            self.stack.append((stage, left))
        self.at(end_s)
        return [request for request in batch if request.open]


def serial(world: World, latency: Latency, b_max: int, timeout_s: float) -> None:
    """One request at a time."""
    del b_max, timeout_s
    while True:
        if not world.queue():
            if not world.idle():
                return
            continue
        batch, stage = world.take(1), 0
        while batch:
            stage += 1
            batch = world.run(batch, stage, latency)


def adaptb(world: World, latency: Latency, b_max: int, timeout_s: float) -> None:
    """Launch a full batch, or what waits when the oldest has waited for the timeout."""
    while True:
        waiting = world.queue()
        launch_s = waiting[0].joined_s + timeout_s if waiting else inf
        if not waiting or (len(waiting) < b_max and world.now < launch_s):
            if not world.idle(launch_s):
                return
            continue
        batch, stage = world.take(b_max), 0
        while batch:
            stage += 1
            batch = world.run(batch, stage, latency)


def fluid(world: World, latency: Latency, b_max: int, timeout_s: float) -> None:
    """Fluid Batching, Algorithm 1, in which samples whose deadline has passed leave as if they exited."""
    del timeout_s
    last, known = len(latency[0]) - 1, world.host.known(latency)
    while True:
        if not world.queue():
            if not world.idle():
                return
            continue
        active, i = world.take(b_max), 0
        while active:
            i += 1
            active = world.run(active, i, latency)
            while 0 < len(active) < b_max and world.queue():
                b_incr = min(len(world.queue()), b_max - len(active))
                overhead_s = known[0][i][b_incr] + known[i][last][len(active) + b_incr]
                if not overhead_s < min(request.due_s for request in active) - world.now:
                    break
                incoming = world.take(b_incr)
                for stage in range(1, i + 1):
                    if incoming:
                        incoming = world.run(incoming, stage, latency, [(i, len(active))])
                active = [request for request in [*active, *incoming] if request.open]


POLICIES = {"serial": serial, "adaptb": adaptb, "fluid": fluid}
