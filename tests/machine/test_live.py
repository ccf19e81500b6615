"""A service without end: on a virtual clock it is the simulator, though it forgets requests while it runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import COMPILED, table_of
from fluidb.machine.live import LiveService, OpenClock, Outcome, Sample
from fluidb.machine.runner import TableEngine
from fluidb.serving import Requests, ServedNetwork, find_policy, simulate
from fluidb.serving.case import case_of
from fluidb.serving.networks import prepare_requests
from fluidb.traffic import Samples, poisson

pytestmark = pytest.mark.skipif(not COMPILED, reason="the loop is tested as plain Python elsewhere")

COUNT, MOST = 300, 40


class VirtualOpenClock(OpenClock):
    """Samples that will be sent at known times, and a time that goes forward only when the device runs or waits."""

    def __init__(self, room, scheduled):
        super().__init__(room)
        self.scheduled, self.time_s, self.forgotten = scheduled[::-1], 0.0, 0

    def now_s(self):
        return self.time_s

    def arrived(self):
        while self.scheduled and self.scheduled[-1].arrival_s <= self.time_s:
            self._take([self.scheduled.pop()])
        return len(self.samples)

    def wait(self, until_s, seen):
        next_s = self.scheduled[-1].arrival_s if self.scheduled else math.inf
        self.time_s = max(self.time_s, min(until_s, next_s))

    def forget(self, old, seen):
        super().forget(old, seen)
        self.forgotten += 1


class Knows(TableEngine):
    """Tells how sure the answers of samples are, which hold their own numbers."""

    def __init__(self, clock, confidences):
        super().__init__(clock)
        self.confidences = confidences

    def run(self, launch):
        super().run(launch)
        numbers = [int(self.clock.samples[number].tensors["x"]) for number in launch.members]
        assert {self.clock.samples[number].network for number in launch.members} == {launch.network}
        return self.confidences[numbers, launch.stage - 1]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "spec",
    ["serial:admit=queue:6", "fluid:on_deadline=answer,admit=queue:6", "fluid:on_deadline=drop,admit=newest:5",
     "adaptb:timeout=500ms,admit=queue:9", "lazy:admit=queue:4", "pame:timeout=0,admit=in_time,on_deadline=drop",
     "fluid-slack:admit=bucket:2:9", "fluid:together=on,admit=queue:6", "lazy"],
)  # fmt: skip
def test_requests_that_arrive_while_it_runs_are_served_as_by_the_simulator(spec, several):
    tables = [table_of([[1.0, 1.5, 2.0], [0.5, 0.75, 1.0]]), table_of([[0.25, 0.5], [0.25, 0.5], [1.0, 1.25]])]
    rng, networks, drawn = np.random.default_rng(4), [], []
    scores = rng.random((50, 3))
    for name, table in zip(["a", "b"] if several else [""], tables, strict=False):
        own = scores[:, : len(table.exits)]
        drawn.append(Samples(own, own > 0.5))
        networks.append(ServedNetwork(name=name, table=table, samples=drawn[-1], threshold=0.6))
    requests = Requests(trace=poisson(0.9, COUNT, 3), slo_s=5.0)
    traffic = prepare_requests(networks, requests, requests.read())
    confidences = np.zeros((COUNT, 3))
    for number, samples in enumerate(drawn):
        here = np.flatnonzero(traffic.network == number)
        rows = samples.drawn(len(here), traffic.seeds[number])
        confidences[here, : len(tables[number].exits)] = samples.confidences[rows]
    arrivals = traffic.whole.trace.arrival_s.tolist()
    sent = [Sample(int(traffic.network[n]), {"x": np.array(n)}, 5.0, arrivals[n]) for n in range(COUNT)]
    left: list[Sample] = []
    clock = VirtualOpenClock(2 * MOST, sent)
    scheduler, rooms = find_policy(spec), traffic.first(2 * MOST)
    levels = [np.full(len(table.exits) - 1, 0.6) for table in tables]
    service = LiveService(case_of(networks, rooms, scheduler), clock, Knows(clock, confidences), levels, left.extend)
    service.serve(lambda: len(left) == COUNT)
    assert clock.forgotten > COUNT // MOST - 2
    assert len(set(map(id, left))) == COUNT
    expected = simulate(networks, traffic, scheduler)
    answered = np.isfinite(expected.finish_s)
    assert [sample.exit for sample in sent] == np.where(answered, expected.traffic.exits, 0).tolist()
    in_time = expected.finish_s <= np.array(arrivals) + 5.0
    refused = np.zeros(COUNT, bool) if expected.refused is None else expected.refused
    known = [Outcome.DROPPED, Outcome.REFUSED, Outcome.LATE, Outcome.IN_TIME]
    kind = np.where(answered, 2 + in_time, refused)
    assert [sample.outcome for sample in sent] == [known[int(number)] for number in kind]
    begun = np.isfinite(expected.start_s)
    queue_s = np.where(begun, expected.start_s, 0.0) - np.array(arrivals)
    np.testing.assert_array_equal(np.array([sample.queue_s for sample in sent])[begun], queue_s[begun])
