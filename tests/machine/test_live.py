"""A service without end: on a virtual clock it is the simulator, though it forgets requests while it runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from builders import COMPILED, call_fluidb, lines, table_of
from fluidb.machine.live import LiveService, OpenClock, Outcome, Sample
from fluidb.machine.recorded import compare_recorded
from fluidb.machine.runner import TableRunner
from fluidb.machine.server.record import Recorder
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


class Knows(TableRunner):
    """Tells how sure the answers of samples are, which hold their own numbers."""

    def __init__(self, clock, confidences):
        super().__init__(clock)
        self.confidences = confidences

    def run(self, launch):
        super().run(launch)
        numbers = [int(self.clock.samples[number].tensors["x"]) for number in launch.members]
        assert {self.clock.samples[number].network for number in launch.members} == {launch.network}
        sure = self.confidences[numbers, launch.stage - 1]
        for number, value in zip(launch.members.tolist(), sure.tolist(), strict=True):
            self.clock.samples[number].sure.append(value)
        return sure


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


def test_a_record_of_what_the_simulator_says_is_the_simulators(tmp_path):
    """Served with the times of the table, samples are recorded as the simulator of the record serves them."""
    table, rng = table_of([[1.0, 1.5, 2.0], [0.5, 0.75, 1.0]]), np.random.default_rng(4)
    trace = poisson(1.2, COUNT, 3)
    spec = "adaptb:timeout=S,on_deadline=drop,admit=queue:6"
    network, scheduler, confidences = ServedNetwork(table=table), find_policy(spec), rng.random((COUNT, 2))
    traffic = prepare_requests([network], Requests(trace=trace, slo_s=5.0), trace)
    arrivals, slos = trace.arrival_s.tolist(), rng.uniform(2.0, 8.0, COUNT).tolist()
    sent = [Sample(0, {"x": np.array(n)}, slos[n], arrivals[n]) for n in range(COUNT)]
    left: list[Sample] = []
    clock, recorder = VirtualOpenClock(2 * MOST, sent), Recorder(tmp_path / "kept", [network], [5.0], scheduler)
    recorder.arrived(sent)

    def told(samples):
        left.extend(samples)
        recorder.note(samples)

    case = case_of([network], traffic.first(2 * MOST), scheduler)
    service = LiveService(case, clock, Knows(clock, confidences), [np.array([0.6])], told)
    service.serve(lambda: len(left) >= COUNT - 3)  # the last ones have not left
    found = compare_recorded(tmp_path / "kept")
    assert (found.samples, found.samples + found.open) == (len(left), COUNT)
    assert found.real == found.simulated
    assert 0.5 < found.real.answered_rate < 1
    assert found.error == 0
    done = call_fluidb("validate", "--recorded", "kept", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["comparison"]["samples"] == found.samples
    assert "simulator off by +0.0 %" in call_fluidb("validate", "--recorded", "kept", cwd=tmp_path).stdout
    (fault,) = lines(call_fluidb("validate", "--recorded", "kept", "--repeats", 3, cwd=tmp_path))
    assert fault == "fluidb: --recorded: expected --within and --json beside it, found repeats"
    (fault,) = lines(call_fluidb("validate", cwd=tmp_path))
    assert fault.startswith("fluidb: model: expected an ONNX file, or digits, found none")
    (fault,) = lines(call_fluidb("validate", "--recorded", ".", cwd=tmp_path))
    assert fault.startswith("fluidb: served.json: expected a record, found no such file")
    assert call_fluidb("serve-sim", "kept", "--trace", "kept/trace.csv", cwd=tmp_path).returncode == 0
