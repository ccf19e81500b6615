"""Several cores on one memory: against a plain loop, against queueing theory, and their faults."""

from __future__ import annotations

import os
from dataclasses import replace

import naive_cores as naive
import numpy as np
import pytest
from builders import (
    COMPILED,
    assert_mean,
    everybody,
    mean_latencies,
    scheduler_of,
    table_of,
    trace_of,
    traffic_of,
)
from fluidb.formats import InputError
from fluidb.papers.hardware.cores import slowdown
from fluidb.serving import find_policy, simulate, summarise
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.policies import go_on, launch
from fluidb.serving.state import BETWEEN, DISPATCH
from fluidb.tables.hardware import Cores
from fluidb.tables.latency import LatencyTable
from test_networks import random_admission, random_requests, traffic_with

CASES = int(os.environ.get("FLUIDB_CORES_CASES", "60" if COMPILED else "15"))
"""Random cases of each policy."""


def cores_of(
    stage_s: list[list[list[float]]], of: list[int], moving: float | list[list[list[float]]] = 0.0,
    contention: float = 1.0, rates: list[float] | None = None,
) -> LatencyTable:  # fmt: skip
    """The table of cores, from the times of each kind by stage and batch size."""
    one = table_of(stage_s[0], rates)
    if isinstance(moving, float):
        moving = [[[moving] * one.b_max] * len(one.exits)] * len(stage_s)
    cores = Cores(names=[f"k{k}" for k in range(len(stage_s))], of=of, contention=contention, moving=moving)
    return LatencyTable(
        network="test", platform="test", exits=one.exits, b_max=one.b_max, stage_s=stage_s, lanes=len(of), cores=cores
    )


def random_case(seed: int, policy: str) -> None:
    """Serve random requests, all at once.

    Networks, own traffic, unequal cores, dispatch, deadlines, clients, admission, words.
    """
    random = np.random.default_rng(seed)
    count, b_max = int(random.integers(8, 40)), int(random.integers(1, 5))
    grain = (lambda values: np.ceil(4 * values) / 4) if seed % 2 else (lambda values: values)
    number, lanes, kinds = int(random.integers(1, 4)), int(random.integers(2, 5)), int(random.integers(1, 3))
    of = [*range(kinds), *random.integers(0, kinds, lanes - kinds).tolist()]
    timeout_s, contention = float(random.choice([0.25, 1.0])), float(random.choice([0.0, 0.25, 1.0]))
    between, dispatch = str(random.choice(BETWEEN)), str(random.choice(DISPATCH))
    priorities = random.permutation(number).tolist()
    rule = str(random.choice(["serve", "drop", "answer"]))
    nets, networks, tables = [], [], []
    for k in range(number):
        stages = int(random.integers(1, 4))
        times = grain(random.uniform(0.2, 1.0, (kinds, stages)))[..., None] * grain(
            1 + random.uniform(0, 0.6) * np.arange(b_max)
        )
        moving = random.choice([0.0, 0.5, 0.75, 1.0], times.shape)
        rates = np.full(stages, 1 / stages).tolist()
        table = cores_of(times.tolist(), of, moving.tolist(), contention, rates)
        weight, switch_s = float(random.choice([0.5, 1.0, 3.0])), float(random.choice([0.0, 0.25])) * (number > 1)
        pinned = sorted(random.choice(lanes, random.integers(1, lanes + 1), replace=False).tolist())
        pinned = pinned if number > 1 and random.integers(2) else list(range(lanes))
        admit, admission = random_admission(random)
        tables.append(table)
        nets.append(
            naive.Net(
                table.arrays().tolist(), np.insert(moving, 0, 0.0, axis=2).tolist(), b_max, timeout_s, weight,
                switch_s, pinned, admission, priorities[k],
            )
        )  # fmt: skip
        own = [core + 1 for core in pinned]
        networks.append(
            ServedNetwork(
                name=f"n{k}", table=table, weight=weight, switch_s=switch_s, cores=own, admit=admit,
                priority=priorities[k],
            )
        )  # fmt: skip
    asked = random_requests(random, seed, tables, count, 0.3, grain)
    together = int(random.integers(3)) == 0
    more = ",together=on" * together + (f",timeout={timeout_s}s" if policy == "adaptb" else "")
    spec = f"{policy}:b_max={b_max},on_deadline={rule},dispatch={dispatch}{more}"
    device = naive.Cores(
        nets, of, asked.network.tolist(), (policy, between, dispatch), contention, *asked.lists(rule)
    )  # fmt: skip
    if asked.clients:
        device.let_send(asked.owns)
    device.together = together
    device.serve()
    about = f"seed {seed}: {spec}, {[item.admit for item in networks]}, cores {of}"
    if device.out_of_requests:
        with pytest.raises(InputError, match="count: expected more than"):
            simulate(networks, asked.traffic, f"{spec},between={between}")
        return
    replay = simulate(networks, asked.traffic, f"{spec},between={between}")
    if asked.clients:  # of equal times in the order of networks
        device.sent.sort(key=lambda request: (request.arrival_s, request.client[0]))
    assert replay.traffic.trace.arrival_s.tolist() == [request.arrival_s for request in device.sent], about
    assert replay.start_s.tolist() == [request.start_s for request in device.sent], about
    assert replay.finish_s.tolist() == [request.finish_s for request in device.sent], about
    answered = np.where(np.isfinite(replay.finish_s), replay.traffic.exits, 0)
    assert answered.tolist() == [request.answered for request in device.sent], about
    refused = np.zeros(len(answered)) if replay.refused is None else replay.refused
    assert refused.tolist() == [request.refused for request in device.sent], about


@pytest.mark.parametrize("policy", ["serial", "adaptb", "fluid"])
def test_cores_equal_a_plain_loop_to_the_bit(policy: str):
    for seed in range(CASES):
        random_case(seed, policy)


COUNT = 40_000 if COMPILED else 4_000


def exponential() -> tuple[list[list[float]], list[float]]:
    """Times of stages and rates of exits whose service times have the first 19 moments of an exponential one, mean 1 s.

    They are from Gauss and Laguerre's quadrature.
    """
    ends_s, rates = np.polynomial.laguerre.laggauss(10)
    return [[time_s] for time_s in np.diff(ends_s, prepend=0.0).tolist()], rates.tolist()


def erlang_c(servers: int, load: float) -> float:
    """Probability that a request waits, of a number of servers at a load each: Erlang, 1917."""
    offered = servers * load
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_shared_queue_without_words_is_an_M_M_2_queue(load: float):
    """Erlang C; cores of two kinds that have equal times do the same, in the loop of unequal cores."""
    stage_s, rates = exponential()
    expected = 1 + erlang_c(2, load) / (2 * (1 - load))
    for kinds in ([stage_s], [stage_s, stage_s]):
        table = cores_of(kinds, [0, len(kinds) - 1], rates=rates)
        assert_mean(mean_latencies(table, 2 * load, COUNT), expected)


def shortest_queue(load: float, most: int = 40) -> float:
    """Mean time in the system where requests join the shorter of two queues, each with a server of rate 1.

    The chain of both lengths has no closed form (Haight, Biometrika 45, 1958); here it is solved up to ``most``.
    """
    size = most + 1
    rates = np.zeros((size, size, size, size))
    for i, j in np.ndindex(size, size):
        if min(i, j) < most:
            rates[i, j, *((i + 1, j) if i <= j else (i, j + 1))] += 2 * load
        if i > 0:
            rates[i, j, i - 1, j] += 1
        if j > 0:
            rates[i, j, i, j - 1] += 1
    flow = rates.reshape(size**2, size**2)
    balance = (flow - np.diag(flow.sum(axis=1))).T
    balance[0] = 1.0
    chances = np.linalg.solve(balance, np.eye(size**2)[0])
    return float(chances @ np.add.outer(np.arange(size), np.arange(size)).ravel() / (2 * load))


@pytest.mark.parametrize(("load", "expected"), [(0.5, 1.4263), (0.8, 2.9557)])
def test_join_the_shortest_of_two_queues(load: float, expected: float):
    assert shortest_queue(load, 25) == pytest.approx(expected, abs=2e-3)
    stage_s, rates = exponential()
    table = cores_of([stage_s], [0, 0], rates=rates)
    assert_mean(mean_latencies(table, 2 * load, COUNT, "serial:dispatch=shortest"), expected)


def test_least_work_left_of_known_times_is_one_queue():
    """Kiefer and Wolfowitz: who joins the core that is free first waits as in a queue that all cores share."""
    times = {"": None, ":dispatch=least_work": None}
    table = cores_of([[[0.75]]], [0, 0, 0])
    traffic = traffic_of(trace_of(np.cumsum(np.random.default_rng(3).exponential(0.27, 400))), np.ones(400, int), 1.0)
    for more in times:
        times[more] = simulate(table, traffic, find_policy(f"serial{more}")).finish_s.tolist()
    assert times[""] == times[":dispatch=least_work"]


def pile_up(view, data):
    """Put every request that waits on top, behind each stage."""
    return launch(1, 1) if view.waiting > 0 else go_on(1)


def test_the_work_left_on_a_core_is_that_of_all_its_batches():
    """Three requests stand on a stack of the first core, where each of three stages takes 1 s.

    When the fourth arrives they have passed two exits, one, and none, and the last one's stage ends in 0.5 s: 1, 2 and
    2.5 s are left.  With its own 3 s these are 8.5 s, so that a core which takes 8.25 s is better, and one of 8.75 s
    is not.
    """
    for whole_s, core in ((8.25, 1), (8.75, 0)):
        kinds = [[[1.0] * 4] * 3, [[whole_s / 3] * 4] * 3]
        traffic = traffic_of(trace_of([0.0, 1.5, 2.5, 3.5]), np.full(4, 3), 100.0)
        scheduler = replace(scheduler_of(pile_up), dispatch=DISPATCH.index("least_work"))
        replay = simulate(cores_of(kinds, [0, 1]), traffic, scheduler, record=True)
        assert replay.runs is not None
        lane = np.repeat(replay.runs.lane, replay.runs.batch)
        assert sorted(set(lane[replay.runs.members == 3].tolist())) == [core]
        assert set(lane[replay.runs.members < 3].tolist()) == {0}


def test_cores_that_move_words_all_the_time_share_the_bandwidth():
    """N of them take N times as long; what moves no words is not slowed, and half of the words wait half as long."""
    for cores in (2, 3, 4):
        replay = simulate(cores_of([[[1.0]]], [0] * cores, 1.0), everybody(cores, 1), find_policy("serial"))
        assert replay.finish_s == pytest.approx([float(cores)] * cores)
    apart = cores_of([[[1.0]], [[1.0]]], [0, 1], [[[1.0]], [[0.0]]])
    assert simulate(apart, everybody(2, 1), find_policy("serial")).finish_s.tolist() == [1.0, 1.0]
    half = simulate(cores_of([[[1.0]]], [0, 0], 1.0, 0.5), everybody(2, 1), find_policy("serial"))
    assert half.finish_s == pytest.approx([1.5, 1.5])


@pytest.mark.parametrize("seed", range(20))
def test_the_memory_never_moves_more_words_than_it_can(seed: int):
    """In each instant the shares of words moved in time sum to at most 1, and to what the closed form says."""
    random = np.random.default_rng(seed)
    count, moving = int(random.integers(2, 9)), float(random.uniform(0.01, 1))
    contention = float(random.choice([0.25, 1.0]))
    replay = simulate(cores_of([[[1.0]]], [0] * count, moving, contention), everybody(count, 1), find_policy("serial"))
    assert replay.finish_s == pytest.approx([slowdown(moving, contention, count)] * count, rel=1e-9)
    assert count * moving / replay.finish_s[0] <= (1 + 1e-9) / contention
    shares = random.uniform(0, 1, count)
    table = cores_of([[[1.0]]] * count, list(range(count)), [[[share]] for share in shares.tolist()], contention)
    first_s = simulate(table, everybody(count, 1), find_policy("serial"), record=True)
    assert first_s.runs is not None
    assert first_s.finish_s.max() <= 1 + contention * (count - 1) + 1e-9


@pytest.mark.parametrize(
    "policy", ["serial", "adaptb:timeout=500ms", "lazy", "fluid", "batchcond:window=4,similar=depth"]
)
def test_a_core_with_its_queue_serves_as_if_alone(policy: str):
    """Where no words wait, each reads its own times and memory, whatever the other core and its queue do."""
    random, count = np.random.default_rng(4), 300
    kinds = [[[0.25, 0.375, 0.5], [0.5, 0.75, 1.0]], [[0.5, 0.75, 0.875], [0.25, 0.25, 0.5]]]
    trace = trace_of(np.cumsum(np.ceil(8 * random.exponential(0.3, count)) / 16))
    trace = replace(trace, predicted_depth=random.integers(1, 3, count).astype(float))
    traffic = traffic_of(trace, random.integers(1, 3, count), 2.0)
    joined = "," if ":" in policy else ":"
    both = cores_of(kinds, [0, 1], rates=[0.5, 0.5])
    replay = simulate(both, traffic, find_policy(f"{policy}{joined}dispatch=shortest"), record=True)
    assert replay.runs is not None
    lane = np.empty(count, int)
    lane[replay.runs.members] = np.repeat(replay.runs.lane, replay.runs.batch)
    assert 50 < lane.sum() < 250
    for number, stage_s in enumerate(kinds):
        here = np.flatnonzero(lane == number)
        one = LatencyTable(network="t", platform="t", exits=both.exits, b_max=3, stage_s=[stage_s])
        own = replace(traffic, trace=trace.at(here), exits=traffic.exits[here], slo_s=traffic.slo_s[here])
        alone = simulate(one, own, find_policy(policy))
        assert replay.start_s[here].tolist() == alone.start_s.tolist()
        assert replay.finish_s[here].tolist() == alone.finish_s.tolist()
        assert replay.launches[number].tolist() == alone.launches[0].tolist()


def test_every_core_serves_and_shows_in_the_summary():
    """Two cores of 1 s and 3 s: of four requests at once the fast one serves three."""
    table = cores_of([[[1.0]], [[3.0]]], [0, 1])
    replay = simulate(table, everybody(4, 1), find_policy("serial"), record=True)
    assert replay.finish_s.tolist() == [1.0, 3.0, 2.0, 3.0]
    assert replay.launches[:, 0, 1].tolist() == [3, 1]
    assert replay.runs is not None
    assert sorted(replay.runs.lane.tolist()) == [0, 0, 0, 1]
    assert summarise(replay).busy_share == 1.0
    cut = simulate(table, everybody(4, 1), find_policy("serial"), until_s=1.5)
    assert summarise(cut).busy_share == 1.0
    assert cut.use.ran[:, 0, 1].tolist() == [1.5, 0.5]


@pytest.mark.parametrize("dispatch", DISPATCH)
def test_a_limit_of_the_queue_counts_what_waits_at_all_cores(dispatch: str):
    """Of twelve requests at once four may wait, whether they share a queue or each core has its own."""
    table = cores_of([[[1.0]]], [0, 0])
    replay = simulate(table, everybody(12, 1), find_policy(f"serial:dispatch={dispatch},admit=queue:4"))
    assert replay.refused is not None
    assert replay.refused.tolist() == [False] * 4 + [True] * 8


def test_where_the_macs_of_cores_went_sums_over_all_cores():
    """A layer of 0.25 s, and one of 0.75 s that makes its MACs in 0.01 s; beside each other both cores wait 1 s."""
    one = table_of([[1.0]])
    cores = Cores(names=["k"], of=[0, 0], contention=1.0, moving=[[[1.0]]])
    table = LatencyTable(**dict(one) | {"lanes": 2, "cores": cores})
    summary = summarise(simulate(table, everybody(3, 1), find_policy("serial")))
    assert summary.busy_share == pytest.approx(5 / 6)
    use = summary.utilisation
    assert use is not None
    assert use.mac_share == pytest.approx(3 * 0.01 / 6)
    assert use.memory_bound_share == pytest.approx(2 / 6)
    assert use.idle_share == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"of": [0, 2]}, "cores: of: expected every kind from 0 to 0"),
        ({"moving": [[[0.5, 0.5]]]}, "cores: moving: expected 1 kinds of 1 stages, each with 1 shares"),
        ({"of": [0, 0, 0]}, "lanes: expected as many as cores"),
        ({"contention": 1.5}, "less than or equal to 1"),
    ],
)
def test_a_damaged_table_of_cores_is_refused(change: dict[str, object], said: str):
    table = cores_of([[[1.0]]], [0, 0]).model_dump(exclude_none=True)
    with pytest.raises(ValueError, match=said):
        LatencyTable.model_validate(table | {"cores": table["cores"] | change})


ONE = table_of([[1.0]])


@pytest.mark.parametrize(
    ("table", "spec", "said"),
    [
        (ONE, "fluid:dispatch=shared", "dispatch: expected a latency table of several cores, found one of test"),
        (cores_of([[[1.0]]], [0, 0]), "fluid:lanes=2", "lanes: expected none on test, whose 2 cores all serve"),
        (ONE, "fluid:dispatch=random", "dispatch: expected shared or shortest or least_work, found"),
    ],
)
def test_what_does_not_fit_is_refused(table: LatencyTable, spec: str, said: str):
    with pytest.raises(InputError, match=said):
        simulate(table, everybody(2, 1), find_policy(spec))


@pytest.mark.parametrize(
    ("tables", "cores", "said"),
    [
        ([ONE, ONE], [1], "cores: expected none where the latency table has no cores, found some"),
        ([cores_of([[[1.0]]], [0, 0])] * 2, [3], "cores: expected some of 1 to 2, each once, found 3"),
        ([cores_of([[[1.0]]], [0, 0])] * 2, [], "cores: expected some of 1 to 2, each once, found none"),
        ([cores_of([[[1.0]]], [0, 0])] * 2, [1, 1], "cores: expected some of 1 to 2, each once, found one twice"),
        (
            [cores_of([[[1.0]]], [0, 0]), cores_of([[[1.0]]] * 2, [0, 1])],
            None,
            'expected a latency table of the same cores as "n0" has',
        ),
    ],
)
def test_networks_need_cores_that_serve_them(tables: list[LatencyTable], cores: list[int] | None, said: str):
    networks = [ServedNetwork(name=f"n{k}", table=table, cores=cores) for k, table in enumerate(tables)]
    ones = np.ones(4, int)
    traffic = traffic_with(ones, np.ones(4), np.arange(4) % 2, np.zeros(4), None)
    with pytest.raises(InputError, match=said):
        simulate(networks, traffic, "serial")
