"""Serving step by step: on a virtual clock it is the simulator, whatever the policy; maps follow their requests."""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from builders import COMPILED, everybody, scheduler_named, scheduler_of, table_of, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.machine.clock import LiveClock, VirtualClock, WallClock
from fluidb.machine.maps import MapRunner
from fluidb.machine.runner import TableRunner, as_measured, serve_in_steps
from fluidb.serving import POLICIES, Requests, ServedNetwork, find_policy, simulate
from fluidb.serving.case import case_of
from fluidb.serving.device_traffic import DeviceTraffic, prepare_requests
from fluidb.serving.networks import as_served
from fluidb.serving.policies import Decision, sleep
from fluidb.traffic import Samples, offline, poisson, prepare
from fluidb.traffic.clients import Clients
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not COMPILED, reason="the loop is tested as plain Python elsewhere")

KEYS = ("start_s", "finish_s", "stalled_s", "preempted", "launches")


def in_steps(table, traffic, scheduler, runner=TableRunner, **more):
    clock = VirtualClock(traffic.trace.arrival_s)
    case = case_of(as_served(table), DeviceTraffic.of(traffic), scheduler)
    return serve_in_steps(case, clock, runner(clock), **more)


def assert_same(found, expected):
    for key in KEYS:
        np.testing.assert_array_equal(getattr(found, key), getattr(expected, key), key)
    np.testing.assert_array_equal(found.traffic.exits, expected.traffic.exits)
    assert found.preemptions == expected.preemptions
    assert found.scheduler_calls == expected.scheduler_calls


def with_costs(table, gather_s, wake_up_s):
    rows = [[gather_s * b for b in range(table.b_max + 1)]] * len(table.exits)
    return table.model_copy(update={"gather_s": rows, "wake_up_s": wake_up_s})


@given(workloads(), st.sampled_from([0.0, 1 / 64]), st.sampled_from([0.0, 1 / 32]), st.sampled_from([0.0, 1 / 64]))
@settings(max_examples=40, deadline=None)
def test_on_a_virtual_clock_every_request_returns_when_the_simulator_says(workload, gather_s, wake_up_s, call_s):
    """40 traces under every policy that ships."""
    table, trace, exits = workload
    table, traffic = with_costs(table, gather_s, wake_up_s), traffic_of(trace, exits)
    for policy in POLICIES:
        scheduler = scheduler_named(policy, call_s)
        found = in_steps(table, traffic, scheduler)
        assert_same(found.replay, simulate(table, traffic, scheduler))
        again = in_steps(table, traffic, scheduler, lambda clock, found=found: TableRunner(clock, as_measured(found)))
        np.testing.assert_allclose(again.replay.finish_s, found.replay.finish_s, rtol=0, atol=1e-9)


class Answers(TableRunner):
    """Tells the confidences when a stage has run, as a network does."""

    def __init__(self, clock, confidences):
        super().__init__(clock)
        self.confidences = confidences

    def run(self, launch):
        super().run(launch)
        return self.confidences[launch.members, launch.stage - 1]


@given(workloads(), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_confidences_that_come_with_the_answers_decide_the_same_exits(workload, seed):
    table, trace, _ = workload
    exits = len(table.exits)
    confidences = np.random.default_rng(seed).random((len(trace), exits))
    traffic = prepare(replace(trace, confidences=confidences), [1.0] * exits, threshold=0.6)
    later = replace(traffic, exits=np.full(len(trace), exits))
    for spec in ("serial", "fluid", "pame:timeout=0"):
        scheduler = find_policy(spec)
        replay = in_steps(
            table, later, scheduler, lambda clock: Answers(clock, confidences), levels=[np.full(exits - 1, 0.6)]
        )
        assert_same(replay.replay, simulate(table, traffic, scheduler))
        moves = replace(scheduler, policy=replace(scheduler.policy, thresholds=True))  # its memory holds thresholds
        levels = np.full(exits - 1, 0.6)
        replay = in_steps(table, later, moves, lambda clock: Answers(clock, confidences), levels=[levels])
        assert_same(replay.replay, simulate(table, later, moves))


def carrying(stages):
    """A network whose maps are the numbers of the samples; a stage that misses one, or gets another's map, is seen."""

    def run_stage(number, tensors):
        (values,) = tensors.values()
        assert number == 0 or (values[:, 1] == number).all()
        return values[:, :1], {"map": np.column_stack([values[:, 0], np.full(len(values), number + 1)])}

    return run_stage


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_every_request_is_answered_once_with_its_own_answer(workload):
    """Preempted, merged and compacted as they may be; ``keep`` carries the places of samples that exited."""
    table, trace, exits = workload
    traffic = traffic_of(trace, exits)
    samples = np.arange(len(trace))[::-1].copy()

    class Both(TableRunner):
        def run(self, launch):
            super().run(launch)
            runner.run(launch)

        def release(self, request):
            runner.release(request)

    for scheduler in (*(scheduler_named(name) for name in POLICIES if name != "lazy"), scheduler_of(keep)):
        runner = MapRunner(
            carrying(len(table.exits)),
            {"x": 7.0 * np.arange(len(trace))[:, None]},
            samples,
            lambda _, a: np.zeros(len(a)),
        )
        in_steps(table, traffic, scheduler, Both)
        assert runner.answered.tolist() == [1] * len(trace)
        assert [float(answers[-1][0]) for answers in runner.answers] == (7.0 * samples).tolist()
        assert runner.held == [None] * len(trace)


def keep(view, data):
    """Batches of all that wait, which keep the places of samples that have exited, and preempt while there is room."""
    return Decision(min(view.waiting, view.b_max - view.admitted), 0, 1, math.inf, False, 0, 0.0)


def test_what_was_served_before_a_stop_or_a_failure_is_kept():
    table, traffic = table_of([[1.0], [1.0]]), everybody(4, 2)
    asked = iter([False] * 3 + [True])
    done = in_steps(table, traffic, find_policy("serial"), stopped=lambda: next(asked))
    assert done.replay.finish_s.tolist() == [2.0, math.inf, math.inf, math.inf]
    assert done.replay.start_s.tolist() == [0.0, 2.0, math.inf, math.inf]
    assert done.replay.until_s == 3.0
    assert done.replay.use.ran.sum() == 3.0

    class Fails(TableRunner):
        def run(self, launch):
            if launch.number == 3:
                raise RuntimeError("stage 2\nfailed")
            super().run(launch)

    done = in_steps(table, traffic, find_policy("serial"), Fails)
    assert done.failure == "stage 2 failed"
    assert done.replay.finish_s.tolist() == [2.0, math.inf, math.inf, math.inf]
    with pytest.raises(InputError, match="stopped before the first request arrived"):
        in_steps(table, traffic_of(trace_of([1.0]), np.array([2]), 1.0), find_policy("serial"),
                 lambda clock: clock.__setattr__("wait", lambda *_: None), stopped=lambda: True)  # fmt: skip


def never(view, data):
    """Waits for ever."""
    return sleep(math.inf)


def test_a_policy_that_never_begins_is_a_fault():
    with pytest.raises(InputError, match="policy mine: did not run"):
        in_steps(table_of([[1.0]]), everybody(2, 1), scheduler_of(never))


def test_the_wall_clock_lets_requests_arrive_and_stops():
    """Nothing here depends on how long it took."""
    stop = Event()
    clock = WallClock(np.array([0.0, 0.001, 1e6]), stop)
    with clock.running():
        while clock.arrived() < 2:
            clock.wait(math.inf, clock.arrived())
        assert clock.now_s() >= 0.001
        clock.wait(clock.now_s() + 1e-4, 2)
        stop.set()
        clock.wait(math.inf, 2)
    assert clock.arrived() == 2


def test_a_client_lets_requests_arrive_when_it_likes():
    """Two at first, and another whenever one has returned; the trace says only that there will be seven."""
    clock, stop = LiveClock(7, Event()), 7

    class Answering:
        def run(self, launch):
            """Takes no time to speak of."""

        def release(self, request):
            if clock.arrived() < stop:
                clock.arrive(1)

    case = case_of(as_served(table_of([[1.0]])), DeviceTraffic.of(everybody(7, 1)), find_policy("serial"))
    with clock.running():
        clock.arrive(2)
        found = serve_in_steps(case, clock, Answering()).replay
    np.testing.assert_array_equal(found.traffic.trace.arrival_s, clock.arrival_s)
    assert clock.arrival_s[0] == clock.arrival_s[1] > 0
    assert (clock.arrival_s[2:] >= found.finish_s[:5]).all()
    assert (np.diff(found.finish_s) > 0).all()
    assert (found.latency_s > 0).all()
    np.testing.assert_array_equal(case.work.requests.due_s, clock.arrival_s + case.offered.whole.slo_s)


@given(
    workloads(),
    st.sampled_from(["serve", "drop", "answer"]),
    st.sampled_from(["", ",admit=queue:1", ",admit=bucket:1:2", ",together=on"]),
    st.sampled_from([None, Clients(2), Clients(5, 0.75, exponential=True)]),
    st.sampled_from([0.0, 1 / 32]),
)
@settings(max_examples=40, deadline=None)
def test_clients_deadlines_and_admission_are_those_of_the_simulator(workload, rule, admit, clients, wake_up_s):
    table, trace, exits = workload
    table, traffic = with_costs(table, 0.0, wake_up_s), traffic_of(trace, exits)
    if clients is not None:
        traffic = clients.send(traffic_of(replace(offline(len(trace)), slo_s=trace.slo_s), exits), 1)
    for policy in ("serial", "adaptb:timeout=500ms,", "lazy", "fluid"):
        scheduler = find_policy(f"{policy}{'' if policy.endswith(',') else ':'}on_deadline={rule}{admit}")
        released: list[int] = []

        class Releases(TableRunner):
            def release(self, request, released=released):
                released.append(request)

        found = in_steps(table, traffic, scheduler, Releases).replay
        expected = simulate(table, traffic, scheduler, record=True)
        assert found.runs is not None
        assert expected.runs is not None
        if not wake_up_s:  # an idle device notices deadlines and clients in time
            np.testing.assert_array_equal(found.runs.begin_s, expected.runs.begin_s)
        assert sorted(released) == np.flatnonzero(np.isfinite(found.start_s)).tolist()
        assert_same(found, expected)
        np.testing.assert_array_equal(found.traffic.trace.arrival_s, expected.traffic.trace.arrival_s)
        np.testing.assert_array_equal(found.early, expected.early)
        np.testing.assert_array_equal(found.dropped, expected.dropped)
        np.testing.assert_array_equal(found.refused, expected.refused)


@pytest.mark.parametrize("clients", [None, Clients(4, 0.5, exponential=True)])
@pytest.mark.parametrize("spec", ["fluid:between=edf,on_deadline=answer", "adaptb:timeout=500ms,between=shares"])
def test_several_networks_are_served_as_by_the_simulator(spec, clients):
    """Samples leave by confidences, which come with the answers of their own network."""
    tables = [table_of([[1.0, 1.5], [0.5, 0.75]]), table_of([[0.25, 0.5], [0.25, 0.5], [1.0, 1.25]])]
    rng = np.random.default_rng(4)
    networks, drawn = [], []
    for number, table in enumerate(tables):
        scores = rng.random((50, len(table.exits)))
        samples = Samples(scores, scores > 0.5)
        drawn.append(samples)
        networks.append(
            ServedNetwork(
                name=f"n{number}",
                table=table,
                slo_s=4.0,
                samples=samples,
                threshold=0.6,
                admit=["queue:2", None][number],
                switch_s=0.125,
            )
        )
    requests = Requests(trace=poisson(0.8, 200, 3) if clients is None else offline(200), clients=clients)
    traffic = prepare_requests(networks, requests, requests.read())
    confidences = np.zeros((200, 3))
    for number, samples in enumerate(drawn):
        here = np.flatnonzero(traffic.network == number)
        rows = samples.drawn(len(here), traffic.seeds[number])
        confidences[here, : len(tables[number].exits)] = samples.confidences[rows]
    clock, levels = VirtualClock(traffic.whole.trace.arrival_s), [np.full(len(t.exits) - 1, 0.6) for t in tables]
    seen = set()

    class Sees(Answers):
        def run(self, launch):
            seen.add((launch.network, set(traffic.network[launch.members].tolist()) == {launch.network}))
            return super().run(launch)

    case = case_of(networks, traffic, find_policy(spec))
    found = serve_in_steps(case, clock, Sees(clock, confidences), levels=levels).replay
    expected = simulate(networks, traffic, spec)
    assert seen == {(0, True), (1, True)}
    for own, other in zip(found.by_network, expected.by_network, strict=True):
        assert_same(own, other)
        np.testing.assert_array_equal(own.early, other.early)
        np.testing.assert_array_equal(own.refused, other.refused)
        assert own.runs is not None
        assert len(own.runs.batch) == own.launches.sum()
    np.testing.assert_array_equal(found.finish_s, expected.finish_s)
    np.testing.assert_array_equal(found.violated, expected.violated)
    assert np.any(found.refused)


def test_a_device_that_was_idle_wakes_up_first():
    """Requests at 0 and 10 s find it idle, the one at 0.5 s does not; each takes 1 s."""
    table = table_of([[1.0]]).model_copy(update={"wake_up_s": 0.25})
    replay = simulate(table, traffic_of(trace_of([0.0, 0.5, 10.0]), np.array([1, 1, 1]), 100.0), find_policy("serial"))
    assert replay.finish_s.tolist() == [1.25, 2.25, 11.25]
    assert replay.overhead_s == 0.5


def test_places_that_were_not_given_up_are_padding_of_a_merged_batch():
    """The second of three requests leaves at exit 1; two others catch up, and stage 2 runs at five places for four."""
    seen = []

    def run_stage(number, tensors):
        seen.append((number, len(tensors["x" if number == 0 else "map"])))
        return carrying(3)(number, tensors)

    class Both(TableRunner):
        def run(self, launch):
            super().run(launch)
            runner.run(launch)

    runner = MapRunner(run_stage, {"x": np.arange(5.0)[:, None]}, np.arange(5), lambda _, found: np.zeros(len(found)))
    traffic = traffic_of(trace_of([0.0, 0.0, 0.0, 0.5, 0.5]), np.array([3, 1, 2, 3, 2]), 100.0)
    in_steps(table_of([[1.0] * 5] * 3), traffic, scheduler_of(keep), Both)
    assert seen == [(0, 3), (0, 2), (1, 5), (2, 5)]
    assert [float(answers[-1][0]) for answers in runner.answers] == [0.0, 1.0, 2.0, 3.0, 4.0]
