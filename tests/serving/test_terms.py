"""Clients that wait, deadlines and admission: against a plain loop, and against closed forms."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import naive_terms as naive
import numpy as np
import pytest
from builders import (
    COMPILED,
    SEEDS,
    assert_mean,
    everybody,
    mean_value_analysis,
    repeating,
    scheduler_of,
    table_of,
    trace_of,
    traffic_of,
)
from fluidb.formats import InputError
from fluidb.plots.replay import waiting
from fluidb.serving import find_policy, least_violations, serve, simulate, summarise
from fluidb.serving.admission import parse_admission
from fluidb.serving.deadlines import ON_DEADLINE
from fluidb.serving.inputs import Requests
from fluidb.serving.networks import ServedNetwork, as_served
from fluidb.serving.policies import Policy, go_on, launch, sleep
from fluidb.serving.replay import record_runs
from fluidb.serving.timeline import timeline_events
from fluidb.traffic import cameras, offline, poisson, prepare
from fluidb.traffic.clients import Clients, parse_think
from test_networks import random_admission, random_host, traffic_with

CASES = 200 if COMPILED else 60


@pytest.mark.parametrize("rule", ["serve", "drop", "answer"])
@pytest.mark.parametrize("policy", ["serial", "adaptb", "fluid"])
def test_clients_deadlines_and_admission_equal_a_plain_loop_to_the_bit(policy: str, rule: str):
    outcomes, drawn, lost = np.zeros(3, dtype=int), Counter[str](), Counter[str]()
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        stages, b_max, count = int(random.integers(1, 5)), int(random.integers(1, 5)), int(random.integers(1, 40))
        whole = seed % 2  # half of the cases have times in quarters of a second, so that events coincide
        grain = (lambda values: np.ceil(4 * values) / 4) if whole else (lambda values: values)
        times = grain(random.uniform(0.2, 1.0, stages))[:, None] * grain(1 + random.uniform(0, 0.6) * np.arange(b_max))
        table = table_of(times.tolist(), np.full(stages, 1 / stages).tolist())
        exits = random.integers(1, stages + 1, count)
        slo_s = np.round(4 * random.uniform(0.5, 1.5 * stages + 2, count)) / 4 + 0.25
        if seed % 4 < 2:
            slo_s[:] = slo_s[0]
        timeout_s = float(random.choice([0.25, 1.0, 2.5]))
        think_s = arrival_s = None
        if seed % 3:
            clients = int(random.integers(1, 9))
            think_s = grain(random.exponential(float(random.choice([0.3, 2.0])), clients + count))
            if seed % 5 == 0:
                think_s[:] = 0.0
            sent = Clients(clients).send(traffic_of(replace(offline(count), slo_s=slo_s), exits, None), 0)
            traffic = replace(sent, think_s=think_s)
        else:
            arrival_s = np.cumsum(grain(random.exponential(0.8, count)))
            traffic = traffic_of(trace_of(arrival_s, slo_s), exits, None)
        admit, admission = random_admission(random)
        more = f",timeout={timeout_s}s" if policy == "adaptb" else ""
        if admit is not None:
            more += f",admit={admit}"
        together = int(random.integers(3)) == 0
        more += ",together=on" * together
        hosted = np.random.default_rng([seed, 1])
        host, slow_host = random_host(hosted, bool(hosted.integers(2)), grain)
        table = table.model_copy(update={"host": host})
        replay = simulate(table, traffic, find_policy(f"{policy}:b_max={b_max},on_deadline={rule}{more}"))
        latency = table.arrays()[0].tolist()
        world = naive.World(
            exits.tolist(), slo_s.tolist(), rule, None if arrival_s is None else arrival_s.tolist(),
            None if think_s is None else think_s.tolist(), admission, latency,
        )  # fmt: skip
        world.together, world.host = together, slow_host
        naive.POLICIES[policy](world, latency, b_max, timeout_s)
        about = f"seed {seed}"
        assert replay.traffic.trace.arrival_s.tolist() == [request.arrival_s for request in world.sent], about
        assert replay.start_s.tolist() == [request.start_s for request in world.sent], about
        assert replay.finish_s.tolist() == [request.finish_s for request in world.sent], about
        answered = np.where(np.isfinite(replay.finish_s), replay.traffic.exits, 0)
        assert answered.tolist() == [request.answered for request in world.sent], about
        form = str(admit).partition(":")[0]
        refused = np.zeros(len(replay.dropped), dtype=bool) if replay.refused is None else replay.refused
        assert (replay.refused is None) == (form in ("None", "newest")), about
        assert refused.tolist() == [request.refused for request in world.sent], about
        if admit is not None:
            displaced = replay.dropped & (replay.gone_s < replay.traffic.trace.arrival_s + slo_s[: len(replay.dropped)])
            drawn[form] += 1
            lost[form] += displaced.sum() if form == "newest" else refused.sum()
        if replay.left_s is not None:
            outcomes += [replay.dropped.sum(), replay.early.sum(), (~replay.violated).sum()]
    assert len(drawn) == 4
    assert all(lost[form] > 3 * count for form, count in drawn.items())
    assert rule == "serve" or outcomes[0] > CASES
    assert rule != "answer" or outcomes[1] > CASES


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
@pytest.mark.parametrize("clients", [1, 2, 8, 64])
def test_exponential_service_is_that_of_mean_value_analysis(clients: int) -> None:
    service_s, think_s, count, means = 0.1, 0.8, 10_000, []
    for seed in SEEDS:
        table, trace = exponential_service(count, service_s, seed)
        requests = Requests(trace=trace, slo_s=1.0, seed=seed, clients=Clients(clients, think_s, exponential=True))
        means.append(serve(table, requests, "serial").summary.mean_latency_s)
    assert_mean(np.array(means), mean_value_analysis(clients, service_s, think_s))


def blocking(servers: int, places: int, load: float) -> float:
    """Share of requests lost by M/M/c/c+q: Erlang's formula B without places, and M/M/1/K with one server."""
    weights = [1.0]
    for number in range(1, servers + places + 1):
        weights.append(weights[-1] * load / min(number, servers))
    return weights[-1] / sum(weights)


def exponential_service(count: int, service_s: float, seed: int):
    """A table, and requests at time 0: a geometric number of short steps is nearly exponential, and memoryless."""
    steps = 100
    drawn = np.minimum(np.random.default_rng(seed).geometric(1 / steps, count), 30 * steps)
    return repeating([[service_s / steps]], 30 * steps), replace(offline(count), steps=drawn)


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
@pytest.mark.parametrize(
    ("servers", "places", "load"), [(1, 0, 0.7), (3, 0, 2.0), (1, 4, 0.9), (1, 3, 1.5), (2, 3, 1.6)]
)
def test_a_limit_of_the_queue_blocks_as_erlang_says(servers: int, places: int, load: float) -> None:
    count, service_s, lost = 10_000, 0.1, []
    for seed in SEEDS:
        table, trace = exponential_service(count, service_s, seed)
        table = table.model_copy(update={"lanes": servers, "load": [0.0, 0.0]})
        trace = replace(trace, arrival_s=poisson(load / service_s, count, seed).arrival_s)
        traffic = prepare(trace, [1.0], slo_s=1.0, seed=seed)
        summary = summarise(simulate(table, traffic, f"serial:lanes={servers},admit=queue:{places}"))
        assert summary.admission is not None
        lost.append(summary.admission.refused_rate)
    assert_mean(np.array(lost), blocking(servers, places, load))


def test_a_token_bucket_lets_in_its_burst_and_then_its_rate() -> None:
    """Two tokens at first, one a second: of requests every half second every other one enters, refused ones at once."""
    traffic = traffic_of(trace_of(0.5 * np.arange(9)), np.ones(9, int), 10.0)
    replay = simulate(table_of([[0.25]]), traffic, "serial:admit=bucket:1:2")
    assert replay.refused is not None
    assert np.flatnonzero(replay.refused).tolist() == [3, 5, 7]
    assert replay.gone_s[replay.refused].tolist() == [1.5, 2.5, 3.5]
    assert np.array_equal(replay.refused, replay.violated)
    assert not replay.dropped.any()
    closed = Clients(1).send(traffic_of(offline(5), np.ones(5, int), 10.0), 0)
    storm = simulate(table_of([[0.25]]), closed, "serial:admit=bucket:1:1")
    # a client that does not think asks again when a sample alone would be done, and gets the next token
    assert storm.traffic.trace.arrival_s.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert storm.refused is not None
    assert storm.refused.tolist() == [False, True, True, True, False]


def test_the_newest_frame_of_a_camera_is_answered_sooner_than_the_next_one() -> None:
    """A frame every 33 ms, while a device serves one in 100 ms: it takes the last one, and not the one that waits.

    docs/policies.md has the figures.
    """
    traffic = traffic_of(cameras(1, 30, 6000, 3, jitter_s=0.005), np.ones(6000, int), 1.0)
    found = {rule: summarise(simulate(table_of([[0.1]]), traffic, f"serial:admit={rule}")) for rule in RULES}
    newest, queue = found.values()
    assert newest.admission is None  # it lets all wait
    assert queue.admission is not None
    assert newest.deadlines is not None
    assert queue.deadlines is not None
    ages_s = (newest.deadlines.answered_latency_s, queue.deadlines.answered_latency_s)
    assert [f"{1e3 * (age_s or 0):.1f}" for age_s in ages_s] == ["120.6", "183.5"]
    assert newest.deadlines.dropped == queue.admission.refused
    assert newest.processing_rate_per_s == pytest.approx(queue.processing_rate_per_s)


RULES = "newest:1", "queue:1"


def test_only_requests_that_have_not_begun_make_way() -> None:
    """Three arrive while one runs, and two may wait; on an idle lane nobody makes way, and a client asks later."""
    traffic = traffic_of(trace_of([0.0, 0.25, 0.5, 0.75]), np.ones(4, int), 9.0)
    replay = simulate(table_of([[1.0]]), traffic, "serial:admit=newest:2")
    assert replay.finish_s.tolist() == [1.0, math.inf, 2.0, 3.0]
    assert replay.gone_s.tolist() == [1.0, 0.75, 2.0, 3.0]
    assert replay.dropped.tolist() == replay.columns()["dropped"].tolist() == [False, True, False, False]
    pair = table_of([[1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.0]})
    at_once = simulate(pair, everybody(3, 1), "serial:lanes=2,admit=newest:1")
    assert at_once.finish_s.tolist() == [math.inf, 1.0, 1.0]  # two lanes are idle, so that two may wait
    closed = Clients(3).send(traffic_of(offline(6), np.ones(6, int), 9.0), 0)
    storm = simulate(table_of([[1.0]]), closed, "serial:admit=newest:1")
    assert storm.traffic.trace.arrival_s.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert storm.asked_again.tolist() == storm.dropped.tolist() == [True, True, False, True, True, False]
    with pytest.raises(InputError, match="admit: expected no newest:N under batchcond:admit=newest:1, which counts on"):
        simulate(table_of([[1.0]]), traffic, "batchcond:admit=newest:1")


def test_who_cannot_be_in_time_is_refused_as_alpaserve_does() -> None:
    """Li et al., OSDI 2023: a clock of the queue of three networks, which a request in time moves on."""
    random, count, service_s = np.random.default_rng(1), 600, [0.5, 1.25, 2.0]
    network, slo_s = random.integers(0, 3, count), np.round(4 * random.uniform(0.5, 8, count)) / 4
    arrival_s = np.cumsum(np.ceil(4 * random.exponential(0.75, count)) / 4)
    clock_s, ends_s = 0.0, []
    for number, at_s, limit_s in zip(network, arrival_s, slo_s, strict=True):
        end_s = max(clock_s, at_s) + service_s[number]
        in_time = end_s <= at_s + limit_s
        clock_s = end_s if in_time else clock_s
        ends_s.append(end_s if in_time else math.inf)
    tables = [table_of([[time_s / 2], [time_s / 2]], [0.0, 1.0]) for time_s in service_s]
    networks = [ServedNetwork(name=f"n{k}", table=table) for k, table in enumerate(tables)]
    traffic = traffic_with(np.full(count, 2), slo_s, network, arrival_s, None)
    replay = simulate(networks, traffic, "serial:admit=in_time")
    assert replay.refused is not None
    assert 100 < replay.refused.sum() < 500
    assert replay.finish_s.tolist() == ends_s
    assert not replay.violated[~replay.refused].any()
    alone = simulate(table_of([[1.0, 1.5]]), everybody(5, 1), "fluid:admit=in_time:2")  # whose SLO is 100 s
    assert alone.finish_s.tolist() == [1.5, 1.5, 3.0, 3.0, 4.0]
    short = traffic_of(offline(5), np.ones(5, int), 3.0)  # batches of two are in time where two alone are not
    for rule, served in (("in_time", 3), ("in_time:2", 4), ("in_time:9", 4)):
        assert np.isfinite(simulate(table_of([[1.0, 1.5]]), short, f"fluid:admit={rule}").finish_s).sum() == served


@pytest.mark.parametrize(("slo_s", "refused"), [(8.5, False), (8.25, True)])
def test_every_batch_on_a_stack_counts_before_a_request(slo_s: float, refused: bool) -> None:
    """One runs until 4 s and then has two stages left, as one below has; the lowest has one: 9 s, and 3 more."""
    trace = trace_of([0.0, 1.5, 2.5, 3.5], [100.0, 100.0, 100.0, slo_s])
    stacking = replace(scheduler_of(newest_first), admit=parse_admission("in_time"))
    replay = simulate(table_of([[1.0, 1.5, 2.0, 2.5]] * 3), traffic_of(trace, np.full(4, 3)), stacking)
    assert replay.refused is not None
    assert replay.refused.tolist() == [False, False, False, refused]


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
@pytest.mark.parametrize(("load", "slo"), [(0.8, 1.0), (0.8, 2.5), (1.4, 3.25)])
def test_a_queue_of_limited_work_refuses_as_theory_says(load: float, slo: float) -> None:
    """M/D/1 that a request joins if the work before it is at most SLO - D.

    Below that limit the work has the distribution of M/D/1 without one (Erlang), but for a factor; the share of time in
    which there is work is the load of those that are served.
    """
    service_s, most, lost = 0.1, slo - 1.0, []
    unlimited = sum(
        math.exp(load * (most - k)) * (-load * (most - k)) ** k / math.factorial(k) for k in range(int(most) + 1)
    )
    for seed in SEEDS:
        traffic = prepare(poisson(load / service_s, 10_000, seed), [1.0], slo_s=slo * service_s, seed=seed)
        replay = simulate(table_of([[service_s]]), traffic, "serial:admit=in_time")
        assert replay.refused is not None
        lost.append(replay.refused.mean())
    assert_mean(np.array(lost), 1 - unlimited / (1 + load * unlimited))


def test_a_batch_that_answers_together_waits_for_its_slowest_sample() -> None:
    table, traffic = table_of([[0.25, 0.25]] * 3), traffic_of(offline(2), np.array([1, 3]), 0.625)
    apart, together = (simulate(table, traffic, f"fluid:together={value}", record=True) for value in ("off", "on"))
    assert apart.finish_s.tolist() == [0.25, 0.75]
    assert together.finish_s.tolist() == [0.75, 0.75]
    assert together.traffic.exits.tolist() == [1, 3]  # whose answers they have
    assert together.launches.sum(axis=(0, 1)).tolist() == [0, 0, 3]  # three stages with both
    left = [event["args"] for event in timeline_events(together) if event["name"] == "exit"]
    assert left == [{"request": 0, "exit": 1}, {"request": 1, "exit": 3}]
    early = simulate(table, traffic, "fluid:together=on,on_deadline=answer")
    assert (early.finish_s.tolist(), early.traffic.exits.tolist()) == ([0.625, 0.625], [1, 2])
    with pytest.raises(InputError, match='^policy: together: expected off or on, found "yes"'):
        find_policy("adaptb:together=yes")
    setting = replace(scheduler_of(newest_first), policy=Policy(newest_first, thresholds=True), together=True)
    with pytest.raises(InputError, match="together: expected a policy that sets no thresholds, found one that does"):
        simulate(table, traffic, setting)


def test_figures_of_admission_count_every_request() -> None:
    """Four at time 0, and room for two in the queue, through which all go, also those that will not wait."""
    correct = np.array([[True], [True], [False], [True], [True]])
    trace = replace(trace_of([0.0, 0.0, 0.0, 0.0, 2.0]), correct=correct)
    replay = simulate(table_of([[1.0]]), traffic_of(trace, np.ones(5, int), 1.5), "serial:admit=queue:2")
    assert replay.finish_s.tolist() == [1.0, 2.0, math.inf, math.inf, 3.0]
    assert replay.fresh.tolist() == [True, False, False, False, True]
    columns = replay.columns()
    assert columns["refused"].tolist() == [False, False, True, True, False]
    assert "dropped" not in columns
    summary = summarise(replay)
    assert (summary.violations, summary.unfinished, summary.accuracy, summary.mean_latency_s) == (3, 0, 1.0, math.inf)
    assert summary.admission is not None
    assert summary.deadlines is not None
    assert (summary.admission.refused, summary.admission.refused_rate) == (2, 0.4)
    assert (summary.deadlines.dropped, summary.deadlines.accuracy_of_all) == (0, 0.6)
    assert summary.deadlines.answered_latency_s == pytest.approx(4 / 3)
    assert summary.record()["admission"] == {"refused": 2, "refused_rate": 0.4}
    assert "admission" not in summarise(simulate(table_of([[1.0]]), replay.offered, "serial")).record()
    queue = [
        event
        for event in timeline_events(
            record_runs(replay, as_served(table_of([[1.0]])), find_policy("serial:admit=queue:2"))
        )
        if event["name"] == "queue"
    ]
    assert [event["args"]["requests"] for event in queue] == [1, 0]
    assert waiting(replay)[1].tolist() == [1, 0, 0]


@pytest.mark.parametrize("clients", [1, 3, 10])
def test_fixed_times_of_clients_have_a_closed_form(clients: int) -> None:
    """N clients, service S, think time Z, all fixed: each waits so long that N services and Z take turns."""
    table, count, service_s, think_s = table_of([[0.25]]), 400, 0.25, 1.0
    traffic = Clients(clients, think_s).send(traffic_of(offline(count), np.ones(count, int), 1.0), 0)
    replay = simulate(table, traffic, find_policy("serial"))
    steady = replay.latency_s[clients : count - clients]
    assert np.all(steady == max(service_s, clients * service_s - think_s))


def test_one_client_without_think_time_is_a_single_stream() -> None:
    """MLPerf's SingleStream: the next request is sent when the last one has returned; no request ever waits."""
    table, exits = table_of([[0.25], [0.5]], [0.5, 0.5]), np.array([1, 2, 2, 1, 2])
    replay = simulate(table, Clients(1).send(traffic_of(offline(5), exits, 1.0), 0), find_policy("fluid"))
    assert replay.latency_s.tolist() == [0.25, 0.75, 0.75, 0.25, 0.75]
    assert replay.traffic.trace.arrival_s.tolist() == [0.0, *replay.finish_s.tolist()[:-1]]


def test_recorded_think_times_are_drawn_with_replacement() -> None:
    """Alone on a device, a client sends its next request one of the recorded times after its answer."""
    recorded, count = (0.5, 0.25, 4.0), 3000
    traffic = [Clients(1, recorded).send(traffic_of(offline(count), np.ones(count, int), 1.0), seed) for seed in (0, 1)]
    found, other = (simulate(table_of([[0.25]]), sent, "serial") for sent in traffic)
    arrival_s = found.traffic.trace.arrival_s
    paused_s = np.append(arrival_s[0], arrival_s[1:] - found.finish_s[:-1])
    assert sorted(set(paused_s)) == sorted(recorded)
    assert [np.mean(paused_s == time_s) for time_s in recorded] == pytest.approx([1 / 3] * 3, abs=0.04)
    assert not np.array_equal(arrival_s, other.traffic.trace.arrival_s)


def test_a_file_of_think_times_is_read_or_refused_with_its_row(tmp_path: Path) -> None:
    file = tmp_path / "think.csv"
    for text, expected in (
        ("think_s\n0.5\n-1\n", r'think.csv: row 2 .*think_s: expected seconds >= 0 .*, found "-1"'),
        ("think_s\n0.5\nsoon\n", r'think.csv: row 2 .*think_s: expected seconds .*, found "soon"'),
        ("think_s\nnan\n", r'think.csv: row 1 .*think_s: expected seconds .*, found "nan"'),
        ("think_s\n", r"think.csv: "),
        ("seconds\n0.5\n", r"think.csv: header: expected columns such as think_s, found \"seconds\"; the first line"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=expected):
            parse_think(f"trace:{file}")
    with pytest.raises(InputError, match="expected a file of think times, found none"):
        parse_think("trace:nowhere.csv")
    file.write_text("think_s\n0.5\n0\n")
    assert parse_think("trace:think.csv", folder=tmp_path) == ((0.5, 0.0), False)
    assert Clients.of(3, "trace:think.csv", tmp_path) == Clients(3, (0.5, 0.0))
    assert Clients.of(3, None) == Clients(3)
    for think_s, exponential, expected in (
        ((), False, "found none"), ((1.0, -2.0), False, "found -2 s"), ((1.0,), True, "recorded ones that are to be"),
        (math.nan, False, "found nan s"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"^think: expected a duration.*{expected}"):
            Clients(1, think_s, exponential)


def closed(table, clients: int, policy: str, **options):
    exits = np.random.default_rng(1).integers(1, 3, 3000)
    traffic = Clients(clients, 0.5, exponential=True).send(traffic_of(offline(3000), exits, 2.0), 1)
    return simulate(table, traffic, find_policy(policy), **options)


def test_a_slow_server_is_seen_in_every_latency() -> None:
    """Coordinated omission: no request is due at a time at which its client cannot send it."""
    table = table_of([[0.25, 0.375], [0.5, 0.75]], [0.5, 0.5])
    found = closed(table, 6, "fluid")
    arrival_s = found.traffic.trace.arrival_s
    in_system = [(found.finish_s[:k] > arrival_s[k]).sum() for k in range(len(arrival_s))]
    assert max(in_system) == 5  # beside the one that is sent
    assert np.all(np.diff(arrival_s) >= 0)
    # Little's law over the whole run, with the clients that think: N = X (R + Z)
    cycle_s = found.latency_s.mean() + 0.5
    assert 3000 / found.end_s * cycle_s == pytest.approx(6, rel=0.05)


@pytest.mark.parametrize("rule", ["drop", "answer"])
@pytest.mark.parametrize("policy", ["pame:timeout=100ms,lanes=2,tau_b=2", "lazy", "fluid-slack", "fluid:similar=off"])
def test_every_request_gets_an_answer_in_time_or_is_dropped(policy: str, rule: str) -> None:
    table = table_of([[0.25, 0.375], [0.5, 0.75]], [0.5, 0.5])
    if "lanes" in policy:
        table = table.model_copy(update={"lanes": 2, "load": [0.0, 0.5, 0.7]})
    replay = closed(table, 9, f"{policy},on_deadline={rule}" if ":" in policy else f"{policy}:on_deadline={rule}")
    due_s = replay.traffic.trace.arrival_s + 2.0
    assert np.all(replay.dropped | (replay.finish_s <= due_s))
    assert np.array_equal(replay.dropped, replay.violated)
    assert np.all(replay.gone_s >= np.minimum(replay.finish_s, due_s))
    assert replay.dropped.any()
    assert rule == "drop" or replay.early.any()
    assert not replay.early.any() or np.all(replay.finish_s[replay.early] == due_s[replay.early])


def test_requests_that_no_policy_takes_are_dropped_at_their_deadlines() -> None:
    """A deadline is an instant of its own on an idle device; without it nothing would happen any more."""
    asleep = replace(scheduler_of(lambda view, data: sleep(math.inf)), on_deadline=ON_DEADLINE.index("drop"))
    traffic = traffic_of(trace_of([0.0, 2.0]), np.array([1, 1]), 1.5)
    replay = simulate(table_of([[1.0]]), traffic, asleep)
    assert replay.dropped.all()
    assert replay.fresh.all()
    assert replay.gone_s.tolist() == [1.5, 3.5]
    assert replay.end_s == 3.5
    assert not simulate(table_of([[1.0]]), traffic, asleep, until_s=1.5).dropped.any()  # it was stopped just before


def newest_first(view, data):
    """Each request that waits begins at once, above those that run."""
    return launch(1, 1) if view.waiting > 0 else go_on(1)


def test_a_request_below_two_batches_has_the_answer_of_its_own_exit() -> None:
    table = table_of([[1.0] * 3] * 3, [0.2, 0.2, 0.6])
    trace = trace_of([0.0, 1.5, 2.5], [3.5, 100.0, 100.0])
    answering = replace(scheduler_of(newest_first), on_deadline=ON_DEADLINE.index("answer"))
    replay = simulate(table, traffic_of(trace, np.full(3, 3)), answering)
    assert (replay.traffic.exits[0], replay.finish_s[0]) == (2, 3.5)
    assert replay.start_s.tolist() == [0.0, 2.0, 3.0]


def test_figures_of_deadlines_count_every_request() -> None:
    """Three at time 0, one after the other; the SLO is 1.5 s: answered, answered early, dropped."""
    table = table_of([[0.5], [0.5]], [0.5, 0.5])
    correct = np.array([[True, True], [False, True], [True, True]])
    trace = replace(trace_of([0.0, 0.0, 0.0]), correct=correct)
    traffic = traffic_of(trace, np.array([2, 2, 2]), 1.5)
    replay = simulate(table, traffic, find_policy("serial:on_deadline=answer"))
    assert replay.finish_s.tolist() == [1.0, 1.5, math.inf]
    assert replay.traffic.exits.tolist() == [2, 1, 2]
    summary = summarise(replay)
    assert (summary.violations, summary.unfinished, summary.goodput_per_s) == (1, 0, 2 / 1.5)
    assert summary.mean_latency_s == summary.max_latency_s == math.inf
    assert summary.percentile("p50").latency_s == 1.5
    assert summary.accuracy == 0.5
    assert summary.deadlines is not None
    assert (summary.deadlines.dropped, summary.deadlines.early) == (1, 1)
    assert summary.deadlines.accuracy_of_all == 1 / 3
    assert summary.deadlines.answered_latency_s == 1.25
    assert least_violations(replay) == 0
    alone = traffic_of(trace_of([0.0]), np.array([2]), 0.75)
    bounds = [least_violations(simulate(table, alone, f"serial:on_deadline={rule}")) for rule in ON_DEADLINE]
    assert bounds == [1, 1, 0]  # the answer of exit 1 is in time
    dropping = simulate(table, traffic, find_policy("serial:on_deadline=drop"))
    assert dropping.finish_s.tolist() == [1.0, math.inf, math.inf]
    assert dropping.columns()["dropped"].tolist() == [False, True, True]
    assert traffic.exits.tolist() == [2, 2, 2]  # those that were given stay


@pytest.mark.parametrize("rule", ["serve", "drop", "answer"])
def test_a_replay_that_is_stopped_or_recorded_is_the_same_up_to_then(rule: str) -> None:
    table = table_of([[0.25, 0.375], [0.5, 0.75]], [0.5, 0.5])
    policy = f"fluid:on_deadline={rule}"
    whole, part = closed(table, 9, policy), closed(table, 9, policy, until_s=20.0)
    count = len(part.finish_s)
    assert np.array_equal(part.traffic.trace.arrival_s, whole.traffic.trace.arrival_s[:count])
    assert whole.traffic.trace.arrival_s[count] >= 20.0
    before = whole.finish_s[:count] < 20.0
    assert np.array_equal(part.finish_s[before], whole.finish_s[:count][before])
    assert np.all(np.isinf(part.finish_s[~before]))
    recorded = closed(table, 9, policy, record=True)
    assert np.array_equal(recorded.finish_s, whole.finish_s)
    assert recorded.runs is not None
    assert len(recorded.runs.begin_s) == whole.launches.sum()


@pytest.mark.parametrize("policy", ["fluid:on_deadline=drop", "fluid:on_deadline=drop,admit=queue:5"])
def test_who_left_without_an_answer_is_in_no_queue_and_on_no_device(policy: str) -> None:
    """In pictures and timelines the queue and the NPU are empty at the end."""
    table = table_of([[0.25, 0.375], [0.5, 0.75]], [0.5, 0.5])
    replay = closed(table, 9, policy, record=True)
    assert replay.dropped.any()
    assert np.isfinite(replay.start_s[replay.dropped]).any()  # some while they ran
    last = {event["name"]: event["args"] for event in timeline_events(replay) if event["ph"] == "C"}
    assert last == {"queue": {"requests": 0}, "on the NPU": {"samples": 0}}
    assert waiting(replay)[1][-1] == 0


def test_think_times_and_clients_that_cannot_be_are_refused() -> None:
    assert parse_think("exponential:50ms") == (0.05, True)
    assert parse_think("0") == (0.0, False)
    for text in ("-1ms", "normal:5ms", ":5ms", "50"):
        with pytest.raises(InputError, match="^think: expected"):
            parse_think(text)
    for name, told in (("9" * 5000, "File name too long"), ("a\0b", "embedded null byte")):  # no file has such a name
        with pytest.raises(InputError, match=rf"could not be read \({told}\)$"):
            parse_think(f"trace:{name}")
    with pytest.raises(InputError, match="^clients: expected a whole number from 1 to 1,000,000, found 0"):
        Clients(0)
    with pytest.raises(InputError, match="^think: expected a duration >= 0, found -1 s"):
        Clients(1, -1.0)
    with pytest.raises(InputError, match="expected all requests at time 0 beside clients"):
        Clients(1).send(traffic_of(trace_of([0.0, 1.0]), np.array([1, 1]), 1.0), 0)
    for rule in (
        "newest",
        "newest:0",
        "newest:1.5",
        "in_time:0",
        "in_time:1:2",
        "queue",
        "queue:-1",
        "queue:1.5",
        "queue:inf",
        "bucket:0:1",
        "bucket:1:0.5",
        "bucket:1",
        "tokens:3",
        "queue:x",
    ):
        with pytest.raises(InputError, match="^policy: admit: expected queue:N.* found"):
            find_policy(f"fluid:admit={rule}")
    with pytest.raises(InputError, match="on_deadline: expected a policy that plans no batches ahead, found batchcond"):
        find_policy("batchcond:on_deadline=drop")


def test_a_late_request_that_was_dropped_is_late_no_more() -> None:
    """Two late ones wait, and one is dropped meanwhile: the next in time is still the oldest of these."""
    table = table_of([[5.0], [5.0]], [0.5, 0.5])
    trace = trace_of([0.0, 0.25, 0.5, 0.75, 1.0], [100.0, 5.75, 13.5, 39.25, 49.0])
    replay = simulate(table, traffic_of(trace, np.full(5, 2)), "fluid-slack:patience=inf,on_deadline=drop")
    assert replay.start_s.tolist() == [0.0, math.inf, math.inf, 10.0, 20.0]


@pytest.mark.parametrize("gone", [[2], [2, 4]])
def test_a_window_does_not_count_requests_that_were_dropped(gone: list[int]) -> None:
    """Of a sorted window of four, two ran first; of the other two some were dropped before their turn."""
    arrival_s, depths = [0.0] + 4 * [1.0] + 3 * [5.0], [1.0, 1.0, 4.0, 2.0, 3.0, 9.0, 1.0, 5.0]
    slo_s = [5.0 if k in gone else 100.0 for k in range(8)]
    trace = replace(trace_of(arrival_s, slo_s), predicted_depth=np.array(depths))
    policy = "fluid:similar=depth,window=4,patience=0,on_deadline=drop"
    replay = simulate(table_of([[4.0, 4.0]]), traffic_of(trace, np.ones(8, int)), policy)
    assert np.flatnonzero(replay.dropped).tolist() == gone
    left = [k for k in (2, 4) if k not in gone]  # they end their window alone, and those behind are a new one
    launched = [[0], [1, 3], *([left] if left else []), [6, 7], [5]]
    assert [[k for k in range(8) if replay.batch[k] == batch + 1] for batch in range(len(launched))] == launched
