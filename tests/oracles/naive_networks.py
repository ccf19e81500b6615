"""A slow, obvious simulator of several networks on one NPU, on top of the one of clients and deadlines.

It shares no code with the package. The NPU runs one stage of one batch at a time, and a batch is of one network.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from naive_terms import Host, Latency, Request, Rule, World


@dataclass
class Net:
    """A network, and what is known of it."""

    latency: Latency
    b_max: int
    timeout_s: float
    weight: float
    switch_s: float
    admit: Rule = field(default_factory=Rule)
    priority: int = 0
    host: Host = field(default_factory=Host)
    tag_s: float = 0.0  # time on the NPU over weight


class Networks(World):
    """The requests of several networks, on one device."""

    def __init__(self, nets: Sequence[Any], network: Sequence[int], between: str, *of: object) -> None:
        super().__init__(*of)
        self.nets, self.network, self.between = nets, list(network), between
        self.virtual_s = 0.0

    def rule_of(self, number: int) -> Rule:
        return self.nets[self.network[number]].admit

    def _do(self, event: tuple[float, int, Any]) -> None:
        if event[1] == 2:
            self.number(event[2])
        super()._do(event)

    @abstractmethod
    def waiting(self, net: int, *where: int) -> list[Request]:
        """Requests of a network that may begin, there."""

    def in_turn(self, *where: int) -> list[int]:
        """Networks with requests that may begin there, in the order in which they may."""
        keys = []
        for net in range(len(self.nets)):
            if waiting := self.waiting(net, *where):
                first = waiting[0]
                one = self.nets[net]
                key = {
                    "fcfs": first.joined_s, "edf": first.due_s, "shares": one.tag_s, "priority": one.priority
                }[self.between]  # fmt: skip
                keys.append((key, net))
        return [net for _, net in sorted(keys)]


class Device(Networks):
    """One NPU, on which the requests of several networks wait."""

    def __init__(self, nets: Sequence[Net], network: Sequence[int], between: str, *of: object) -> None:
        super().__init__(nets, network, between, *of)
        self.loaded: int | None = None

    def host_of(self, number: int) -> Host:
        return self.nets[self.network[number]].host

    def known(self, net: int) -> Latency:
        return self.nets[net].host.known(self.nets[net].latency)

    def mates(self, number: int) -> list[Request]:
        return self.waiting(self.network[number])

    def returns_s(self, number: int, at_s: float, largest: int) -> float:
        own, free_s = self.network[number], at_s
        if self.loaded is not None:
            free_s = self.free_s(at_s, self.known(self.loaded))
        for net in range(len(self.nets)):
            if net != own:
                free_s = self.behind(free_s, len(self.waiting(net)), self.known(net), largest)
        return self.behind(free_s, len(self.waiting(own)) + 1, self.known(own), largest)

    def alone_s(self, number: int) -> float:
        return self.known(self.network[number])[0][-1][1]

    def waiting(self, net: int) -> list[Request]:
        return [request for k, request in enumerate(self.sent) if request.waits and self.network[k] == net]

    def join(self, number: int, at_s: float) -> None:
        net = self.network[number]
        if self.sent[number].open and not self.waiting(net):
            self.nets[net].tag_s = max(self.nets[net].tag_s, self.virtual_s)
        super().join(number, at_s)

    def handle_outputs(self, batch: list[Request], stage: int, below: Sequence[tuple[int, int]], host: Host) -> None:
        end_s = self.ends_s
        assert end_s is not None
        assert self.loaded is not None
        one = self.nets[self.loaded]
        if not host.overlaps and host.after_s * len(self.leavers(batch, stage)):
            longer_s = end_s + host.after_s * len(self.leavers(batch, stage)) - end_s
            self.virtual_s = max(self.virtual_s, one.tag_s)
            one.tag_s += longer_s / one.weight
        super().handle_outputs(batch, stage, below, host)

    def mine(self, net: int) -> list[Request]:
        """Requests that may join a batch that runs: none while it is another's turn."""
        order = self.in_turn()
        return self.waiting(net) if order and order[0] == net else []

    def begin(self, net: int, requests: list[Request]) -> list[Request]:
        for request in requests:
            request.waits, request.start_s = False, self.now
        return requests

    def stage(
        self, net: int, batch: list[Request], stage: int, wait_s: float = 0.0, below: Sequence[tuple[int, int]] = ()
    ) -> list[Request]:
        one = self.nets[net]
        wait_s += self.inputs_s(batch, stage, one.host)
        end_s = (self.now + wait_s) + one.latency[stage - 1][stage][len(batch)]
        self.virtual_s = max(self.virtual_s, one.tag_s)
        one.tag_s += (end_s - self.now) / one.weight
        return self.until_end(batch, stage, end_s, below)


def serve(device: Device, policy: str) -> None:
    """Serve all requests."""
    while True:
        chosen, again_s = None, inf
        for net in device.in_turn():
            waiting, one = device.waiting(net), device.nets[net]
            launch_s = waiting[0].joined_s + one.timeout_s
            if policy != "adaptb" or len(waiting) >= one.b_max or device.now >= launch_s:
                chosen = net
                break
            again_s = min(again_s, launch_s)
        if chosen is None:
            if not device.idle(again_s):
                return
            continue
        one = device.nets[chosen]
        wait_s = one.switch_s if device.loaded not in (None, chosen) else 0.0
        device.loaded = chosen
        active = device.begin(chosen, device.waiting(chosen)[: 1 if policy == "serial" else one.b_max])
        stage = 0
        while active:
            stage += 1
            active = device.stage(chosen, active, stage, wait_s)
            wait_s = 0.0
            if policy == "fluid":
                active = backfill(device, chosen, active, stage)


def backfill(device: Device, net: int, active: list[Request], i: int) -> list[Request]:
    """Fluid Batching, Algorithm 1, behind exit i."""
    one = device.nets[net]
    last, known = len(one.latency[0]) - 1, device.known(net)
    while 0 < len(active) < one.b_max and device.mine(net):
        b_incr = min(len(device.waiting(net)), one.b_max - len(active))
        overhead_s = known[0][i][b_incr] + known[i][last][len(active) + b_incr]
        if not overhead_s < min(request.due_s for request in active) - device.now:
            break
        incoming = device.begin(net, device.waiting(net)[:b_incr])
        for stage in range(1, i + 1):
            if incoming:
                incoming = device.stage(net, incoming, stage, below=[(i, len(active))])
        active = [request for request in [*active, *incoming] if request.open]
    return active
