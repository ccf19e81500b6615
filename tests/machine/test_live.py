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
from fluidb.serving.device_traffic import prepare_requests
from fluidb.traffic import Samples, Trace, poisson

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


TABLE = table_of([[1.0, 1.5, 2.0], [0.5, 0.75, 1.0]])


def traffic_of(arrival_s, exits):
    trace = Trace(np.arange(len(exits)), arrival_s, exits=exits)
    return prepare_requests([ServedNetwork(table=TABLE)], Requests(trace=trace, slo_s=5.0), trace)


def samples_of(spec, sizes, arrivals, confidences):
    """What becomes of the samples of requests of these sizes."""
    arrival_s, rows = np.repeat(arrivals, sizes), [row for size in sizes for row in range(size)]
    sent = [
        Sample(0, {"x": np.array(n)}, 5.0, at_s, row)
        for n, (at_s, row) in enumerate(zip(arrival_s.tolist(), rows, strict=True))
    ]
    left: list[Sample] = []
    clock, rooms = VirtualOpenClock(2 * MOST, sent), traffic_of(np.arange(2.0 * MOST), np.full(2 * MOST, 2))
    case = case_of([ServedNetwork(table=TABLE)], rooms, find_policy(spec))
    service = LiveService(case, clock, Knows(clock, confidences), [np.array([0.6])], left.extend)
    assert service.terms is None or (service.terms.first.size > 0) == ("admit" in spec)
    service.serve(lambda: len(left) == len(sent))
    assert len(set(map(id, left))) == len(sent)
    return sent, arrival_s


@pytest.mark.parametrize(
    "spec",
    ["fluid:admit=queue:3", "serial:admit=queue:2,on_deadline=drop", "adaptb:timeout=500ms,admit=in_time:2",
     "fluid-slack:admit=bucket:0.7:3", "lazy:admit=queue:3,on_deadline=answer"],
)  # fmt: skip
def test_the_samples_of_a_request_are_admitted_together(spec):
    """All of them or none; and the others are served as if those that are refused had never come."""
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 4, COUNT)
    confidences = rng.random((int(sizes.sum()), 2))
    sent, arrival_s = samples_of(spec, sizes, poisson(0.5, COUNT, 3).arrival_s, confidences)
    refused = np.array([sample.outcome is Outcome.REFUSED for sample in sent])
    of_request = np.add.reduceat(refused, np.cumsum(sizes) - sizes)
    assert set((of_request / sizes).tolist()) == {0, 1}
    assert set(of_request.tolist()) == {0, 1, 2, 3}
    kept = np.flatnonzero(~refused)
    exits = np.where(confidences[kept, 0] >= 0.6, 1, 2)
    expected = simulate([ServedNetwork(table=TABLE)], traffic_of(arrival_s[kept], exits), find_policy(spec))
    assert expected.refused is not None
    assert not expected.refused.any()
    begun = np.isfinite(expected.start_s)
    queue_s = [sent[number].queue_s for number in kept[begun]]
    np.testing.assert_array_equal(queue_s, (expected.start_s - arrival_s[kept])[begun])


def test_where_all_are_admitted_each_sample_leaves_by_itself():
    """Only samples of a request whose deadlines have passed are dropped; nothing asks for rules of admission."""
    sent, _ = samples_of("serial:on_deadline=drop", [3] * COUNT, np.arange(0.0, COUNT), np.ones((3 * COUNT, 2)))
    lost = np.array([sample.outcome is Outcome.DROPPED for sample in sent]).reshape(-1, 3).sum(axis=1)
    assert {1, 2} & set(lost.tolist())


def test_a_request_that_is_refused_takes_no_tokens():
    sent, _ = samples_of("serial:admit=bucket:1e-9:3", [2, 2, 1], [0.0, 0.1, 0.2], np.ones((5, 2)))
    known = [Outcome.IN_TIME] * 2 + [Outcome.REFUSED] * 2 + [Outcome.IN_TIME]
    assert [sample.outcome for sample in sent] == known


def test_the_samples_of_a_request_give_their_places_together():
    """Where newer requests take the places of older ones, none waits on of a request that has lost a sample."""
    rng, ways = np.random.default_rng(8), set()
    sizes = rng.integers(1, 4, COUNT)
    confidences = rng.random((int(sizes.sum()), 2))
    sent, _ = samples_of("fluid:admit=newest:4", sizes, poisson(0.6, COUNT, 3).arrival_s, confidences)
    ends = np.cumsum(sizes).tolist()
    for size, end in zip(sizes.tolist(), ends, strict=True):
        request = sent[end - size : end]
        lost_s = [sample.queue_s for sample in request if sample.outcome is Outcome.DROPPED]
        begun_s = [sample.queue_s for sample in request if sample.outcome is not Outcome.DROPPED]
        ways.add((bool(lost_s), bool(begun_s)))
        if lost_s:
            assert max(begun_s, default=0.0) <= min(lost_s) == max(lost_s)
    assert ways == {(True, False), (False, True), (True, True)}
    sent, arrival_s = samples_of(
        "fluid:admit=newest:4", [1] * COUNT, poisson(1.5, COUNT, 3).arrival_s, confidences[:COUNT]
    )
    exits = np.where(confidences[:COUNT, 0] >= 0.6, 1, 2)
    expected = simulate([ServedNetwork(table=TABLE)], traffic_of(arrival_s, exits), find_policy("fluid:admit=newest:4"))
    assert [sample.exit == 0 for sample in sent] == np.isinf(expected.finish_s).tolist()


def test_a_record_of_what_the_simulator_says_is_the_simulators(tmp_path):
    """Served with the times of the table, samples are recorded as the simulator of the record serves them.

    Up to three samples are of one request, which is admitted as a whole.
    """
    table, rng = table_of([[1.0, 1.5, 2.0], [0.5, 0.75, 1.0]]), np.random.default_rng(4)
    sizes = rng.integers(1, 4, COUNT)
    rows = np.concatenate([np.arange(size) for size in sizes])[:COUNT].tolist()
    trace = Trace(np.arange(COUNT), np.repeat(poisson(0.6, COUNT, 3).arrival_s, sizes)[:COUNT])
    spec = "adaptb:timeout=S,on_deadline=drop,admit=queue:6"
    network, scheduler, confidences = ServedNetwork(table=table), find_policy(spec), rng.random((COUNT, 2))
    traffic = prepare_requests([network], Requests(trace=trace, slo_s=5.0), trace)
    arrivals, slos = trace.arrival_s.tolist(), rng.uniform(2.0, 8.0, COUNT).tolist()
    sent = [Sample(0, {"x": np.array(n)}, slos[n], arrivals[n], rows[n]) for n in range(COUNT)]
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
