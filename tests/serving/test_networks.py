"""Several networks on one device: against a plain loop, against queueing theory, and their faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import naive_networks as naive
import numpy as np
import pytest
from builders import COMPILED, SEEDS, assert_mean, repeating, table_of, trace_of, with_variants
from fluidb.dse.device.tabulate import tabulate_file
from fluidb.formats import InputError
from fluidb.models.loader import read_network_file
from fluidb.platforms import Device, load_platform
from fluidb.platforms.host import Host
from fluidb.serving import find_policy, parse_requirement, serve, simulate
from fluidb.serving.device_traffic import (
    DeviceTraffic,
    prepare_requests,
)
from fluidb.serving.inputs import Requests
from fluidb.serving.metrics import figures_of
from fluidb.serving.networks import (
    NetworkKeys,
    ServedNetwork,
)
from fluidb.serving.state import BETWEEN
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import offline, poisson
from fluidb.traffic.clients import Clients
from fluidb.traffic.traffic import Traffic
from naive_terms import Bucket, Own, Rule
from naive_terms import Host as NaiveHost
from numpy.typing import NDArray

CASES = 30


def random_admission(random: np.random.Generator) -> tuple[str | None, Rule]:
    """A rule of admission as a text, and as the plain loops take it."""
    form = str(random.choice(["", "queue", "newest", "bucket", "in_time"]))
    if form == "bucket":
        per_s, most = float(random.choice([0.3, 1.0, 2.0])), float(random.integers(1, 4))
        return f"bucket:{per_s}:{most}", Rule(bucket=Bucket((per_s, most)))
    if not form:
        return None, Rule()
    if form == "in_time":
        batch = int(random.integers(1, 5))
        return f"in_time:{batch}", Rule(batch=batch)
    places = int(random.integers(form == "newest", 6))
    return f"{form}:{places}", Rule(places, form == "newest")


def random_host(
    random: np.random.Generator, overlaps: bool, grain: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> tuple[Host | None, NaiveHost]:
    """A host that takes some time, or none, and as the plain loops take it."""
    if not random.integers(3):
        return None, NaiveHost(overlaps=overlaps)
    before_s, after_s = grain(random.uniform(0, 0.6, 2) * random.permutation([1, int(random.integers(2))])).tolist()
    return Host(before_s=before_s, after_s=after_s, overlaps=overlaps), NaiveHost(before_s, after_s, overlaps)


class RandomRequests(NamedTuple):
    """Requests of several networks: at their arrivals, or sent by clients that think; or of each network its own."""

    network: NDArray[np.int64]
    exits: NDArray[np.int64]
    slo_s: NDArray[np.float64]
    arrival_s: NDArray[np.float64] | None
    think_s: NDArray[np.float64] | None
    clients: tuple[int, ...] = ()  # of each network, if each has its own requests
    stop_s: tuple[float, ...] = ()

    @property
    def traffic(self) -> DeviceTraffic:
        """The requests as :func:`prepare_requests` makes them."""
        own = self.clients, self.stop_s
        return traffic_with(self.exits, self.slo_s, self.network, self.arrival_s, self.think_s, own)

    def lists(self, rule: str) -> tuple[object, ...]:
        """The requests, and what happens at their deadlines, as the plain loops take them."""
        times = [None if values is None else values.tolist() for values in (self.arrival_s, self.think_s)]
        return self.exits.tolist(), self.slo_s.tolist(), rule, *times

    @property
    def owns(self) -> list[Own]:
        """The requests of each network as the plain loops take them."""
        owns = []
        for number, count in enumerate(self.clients):
            assert self.arrival_s is not None
            assert self.think_s is not None
            here, at = np.flatnonzero(self.network == number), sum(self.clients[:number])
            owns.append(Own(
                self.exits[here].tolist(), self.slo_s[here].tolist(), self.arrival_s[here].tolist(),
                self.think_s[at : at + count].tolist(), self.think_s[sum(self.clients) + here].tolist(),
                self.stop_s[number],
            ))  # fmt: skip
        return owns


def random_requests(
    random: np.random.Generator, seed: int, tables: Sequence[LatencyTable], count: int, gap_s: float,
    grain: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> RandomRequests:  # fmt: skip
    """At least one request for each network; clients send them under two seeds of four, or each has its own."""
    kinds = len(tables)
    network = random.permutation(np.concatenate([np.arange(kinds), random.integers(0, kinds, count - kinds)]))
    exits = np.array([random.integers(1, len(tables[k].exits) + 1) for k in network])
    slo_s = np.round(4 * random.uniform(0.5, 6, count)) / 4 + 0.25
    if seed % 4 == 3:
        numbers = random.integers(0, 5, kinds)
        numbers[random.integers(kinds)] += 1
        arrival_s = np.cumsum(grain(random.exponential(gap_s, count)))
        arrival_s[numbers[network] > 0] = np.inf
        think_s = grain(random.exponential(float(random.choice([0.3, 2.0])), int(numbers.sum()) + count))
        stop_s = random.choice([float(think_s.max()) + 1, 6 + float(think_s.max()), np.inf], kinds)
        return RandomRequests(
            network, exits, slo_s, arrival_s, think_s, tuple(numbers.tolist()), tuple(stop_s.tolist())
        )
    if seed % 4:
        clients = int(random.integers(1, 9))
        think_s = grain(random.exponential(float(random.choice([0.3, 2.0])), clients + count))
        return RandomRequests(network, exits, slo_s, None, think_s)
    return RandomRequests(network, exits, slo_s, np.cumsum(grain(random.exponential(gap_s, count))), None)


def traffic_with(
    exits: np.ndarray, slo_s: np.ndarray, network: np.ndarray, arrival_s: np.ndarray | None,
    think_s: np.ndarray | None, own: tuple[tuple[int, ...], tuple[float, ...]] = ((), ()),
) -> DeviceTraffic:  # fmt: skip
    """Requests of networks 0, 1, ... as :func:`prepare_requests` makes them; ``own`` are clients and their ends."""
    count, clients = len(exits), 0 if think_s is None else len(think_s) - len(exits)
    trace = replace(offline(count) if arrival_s is None else trace_of(arrival_s), slo_s=slo_s)
    whole = Traffic(trace, exits, slo_s, None, "test")
    if own[0]:
        whole = replace(whole, think_s=think_s)
    elif think_s is not None:
        whole = replace(Clients(clients).send(whole, 0), think_s=think_s)
    parts = []
    for number in range(int(network.max()) + 1):
        here = np.flatnonzero(network == number)
        parts.append(Traffic(whole.trace.at(here), exits[here], slo_s[here], None, "test"))
    names = tuple(map(str, range(len(parts))))
    return DeviceTraffic(names, network, tuple(parts), whole, clients=own[0], stop_s=own[1])


@pytest.mark.parametrize("rule", ["serve", "drop", "answer"])
@pytest.mark.parametrize("policy", ["serial", "adaptb", "fluid"])
@pytest.mark.parametrize("between", BETWEEN)
def test_networks_equal_a_plain_loop_to_the_bit(between: str, policy: str, rule: str):
    """With clients, deadlines, admission, own traffic, hosts and times to switch, in many random cases.

    In half of them events coincide.
    """
    several, refused, owned, hosts = 0, 0, 0, [0, 0]
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        count, kinds = int(random.integers(8, 40)), int(random.integers(1, 4))
        grain = (lambda values: np.ceil(4 * values) / 4) if seed % 2 else (lambda values: values)
        tables, nets, networks, timeout_s = [], [], [], float(random.choice([0.25, 1.0, 2.5]))
        b_max, priorities = int(random.integers(1, 5)), random.permutation(kinds).tolist()
        hosted = np.random.default_rng([seed, 1])
        overlaps = bool(hosted.integers(2))
        for number in range(kinds):
            stages = int(random.integers(1, 4))
            times = grain(random.uniform(0.2, 1.0, stages))[:, None] * grain(
                1 + random.uniform(0, 0.6) * np.arange(b_max)
            )
            host, slow_host = random_host(hosted, overlaps, grain)
            table = table_of(times.tolist(), np.full(stages, 1 / stages).tolist())
            tables.append(table.model_copy(update={"host": host}))
            hosts[overlaps] += host is not None
            weight, switch_s = float(random.choice([0.5, 1.0, 3.0])), float(random.choice([0.0, 0.25]))
            latency = tables[-1].arrays()[0].tolist()
            admit, admission = random_admission(random)
            nets.append(
                naive.Net(latency, b_max, timeout_s, weight, switch_s, admission, priorities[number], slow_host)
            )
            networks.append(
                ServedNetwork(
                    name=f"n{number}", table=tables[-1], weight=weight, switch_s=switch_s, admit=admit,
                    priority=priorities[number],
                )
            )  # fmt: skip
        asked = random_requests(random, seed, tables, count, 0.5, grain)
        together = int(random.integers(3)) == 0
        more = ",together=on" * together + (f",timeout={timeout_s}s" if policy == "adaptb" else "")
        spec = f"{policy}:b_max={b_max},on_deadline={rule},between={between}{more}"
        device = naive.Device(nets, asked.network.tolist(), between, *asked.lists(rule))
        if asked.clients:
            device.let_send(asked.owns)
        device.together = together
        naive.serve(device, policy)
        about = f"seed {seed}"
        if device.out_of_requests:
            with pytest.raises(InputError, match="count: expected more than"):
                simulate(networks, asked.traffic, spec)
            continue
        replay = simulate(networks, asked.traffic, spec)
        owned += bool(asked.clients)
        if asked.clients:  # of equal times in the order of networks
            device.sent.sort(key=lambda request: (request.arrival_s, request.client[0]))
        whole = replay.traffic.trace
        assert whole.arrival_s.tolist() == [request.arrival_s for request in device.sent], about
        assert replay.start_s.tolist() == [request.start_s for request in device.sent], about
        assert replay.finish_s.tolist() == [request.finish_s for request in device.sent], about
        answered = np.where(np.isfinite(replay.finish_s), replay.traffic.exits, 0)
        assert answered.tolist() == [request.answered for request in device.sent], about
        if replay.refused is not None:
            assert replay.refused.tolist() == [request.refused for request in device.sent], about
            refused += int(kinds > 1 and replay.refused.any())
        several += kinds > 1
    assert min(hosts) > CASES / 3
    assert several > CASES / 2
    assert owned > CASES / 8
    assert refused > CASES / 6


def test_first_come_first_served_on_two_lanes_is_one_queue_for_two_servers():
    """Networks of different depths stand beside each other; a lane serves one request at a time."""
    random = np.random.default_rng(5)
    stage_s = [[0.25, 0.5, 0.125], [0.75], [0.5, 0.25]]
    load = {"lanes": 2, "load": [0.0, 0.25]}
    tables = [table_of([[time_s] for time_s in times]).model_copy(update=load) for times in stage_s]
    network, arrival_s = random.integers(0, 3, 500), np.cumsum(random.exponential(0.4, 500))
    exits = np.array([random.integers(1, len(stage_s[k]) + 1) for k in network])
    networks = [ServedNetwork(name=f"n{k}", table=table) for k, table in enumerate(tables)]
    traffic = traffic_with(exits, np.ones(500), network, arrival_s, None)
    replay = simulate(networks, traffic, "serial:lanes=2")
    free_s, expected = [0.0, 0.0], []
    for k, at_s, last in zip(network, arrival_s.tolist(), exits.tolist(), strict=True):
        end_s = max(at_s, min(free_s))
        for time_s in stage_s[k][:last]:
            end_s += time_s
        free_s[free_s.index(min(free_s))] = end_s
        expected.append(end_s)
    assert replay.finish_s.tolist() == expected


TABLES = {
    "deep": table_of([[0.25, 0.375, 0.5], [0.5, 0.75, 1.0], [0.25, 0.25, 0.5]], [0.25, 0.25, 0.5]),
    "shallow": table_of([[0.125, 0.1875, 0.25]]),
    "wide": with_variants([[0.5, 0.75, 0.875], [0.25, 0.375, 0.5]], widths=[96.0, 64.0]),
}
ALL = [
    "serial",
    "adaptb:timeout=500ms",
    "lazy",
    "fluid",
    "fluid-slack",
    "pame:timeout=250ms",
    "batchcond",
    "sushi:subnet=0",
]


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("policy", ALL)
def test_networks_that_never_meet_are_served_as_if_alone(policy: str, between: str):
    """Busy times alternate; every policy then reads times, settings and memory of the right network."""
    random, count, tables = np.random.default_rng(2), 240, list(TABLES.values())
    turn = np.arange(count) // 20
    network = turn % len(tables)
    gaps_s = np.ceil(4 * random.exponential(0.2, (count // 20, 20))) / 16
    arrival_s = 4096.0 * turn + gaps_s.cumsum(axis=1).ravel()
    exits = np.array([random.integers(1, len(tables[k].exits) + 1) for k in network])
    slo_s = np.choose(network, [3.0, 1.0, 2.0])
    networks = [ServedNetwork(name=name, table=table, priority=k) for k, (name, table) in enumerate(TABLES.items())]
    traffic = traffic_with(exits, slo_s, network, arrival_s, None)
    widths = random.choice([64.0, 96.0], count)
    parts = tuple(
        replace(part, trace=replace(part.trace, width=widths[network == k]), objective_s=slo_s[network == k][0])
        for k, part in enumerate(traffic.parts)
    )
    traffic = replace(traffic, parts=parts)
    joined = "," if ":" in policy else ":"
    replay = simulate(networks, traffic, f"{policy}{joined}between={between}")
    for table, part, own in zip(tables, traffic.parts, replay.by_network, strict=True):
        alone = simulate(table, part, find_policy(policy))
        assert own.start_s.tolist() == alone.start_s.tolist()
        assert own.finish_s.tolist() == alone.finish_s.tolist()
        assert own.launches.tolist() == alone.launches.tolist()
        assert (own.preemptions, own.scheduler_calls) == (alone.preemptions, alone.scheduler_calls)
        assert own.stalled_s.tolist() == alone.stalled_s.tolist()
        assert own.variant.tolist() == alone.variant.tolist()
        assert own.overhead_s == alone.overhead_s


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_two_networks_first_come_first_served_are_an_M_G_1_queue(load: float):
    """Pollaczek-Khinchine with the mixture of both service times; each waits as long, and takes its own."""
    service_s, shares = np.array([0.02, 0.11]), np.array([0.75, 0.25])
    mean, square = shares @ service_s, shares @ service_s**2
    rate_per_s = load / mean
    wait_s = rate_per_s * square / (2 * (1 - load))
    networks = [
        ServedNetwork(name=f"n{k}", table=table_of([[time_s]]), share=share, slo_s=1.0)
        for k, (time_s, share) in enumerate(zip(service_s.tolist(), (3 * shares).tolist(), strict=True))
    ]
    means = []
    for seed in SEEDS:
        requests = Requests(trace=poisson(rate_per_s, 40_000 if COMPILED else 8_000, seed), seed=seed)
        replay = simulate(networks, prepare_requests(networks, requests, requests.read()), "serial")
        means.append([replay.latency_s.mean(), *(part.latency_s.mean() for part in replay.by_network)])
    for found, expected in zip(np.array(means).T, [mean + wait_s, *(service_s + wait_s)], strict=True):
        assert_mean(found, expected)


def test_shares_divide_a_busy_device_by_weight():
    """Both queues never end before the time: each network gets its part of the time, whatever its requests take."""
    networks = [
        ServedNetwork(name="long", table=table_of([[0.5]]), weight=1.0),
        ServedNetwork(name="short", table=table_of([[0.03125]]), weight=3.0),
    ]
    network = np.arange(8000) % 2
    traffic = traffic_with(np.ones(8000, int), np.ones(8000), network, np.zeros(8000), None)
    replay = simulate(networks, traffic, "serial:between=shares", until_s=100.0)
    busy_s = [float((use.ran * use.segments.time_s).sum()) for use in replay.uses]
    assert sum(busy_s) == 100.0
    assert busy_s[0] == pytest.approx(25.0, abs=0.5)  # a segment of the longer one


def test_an_idle_network_gets_no_credit():
    """It comes back after 50 s alone of the other: from then on they alternate."""
    networks = [ServedNetwork(name=name, table=table_of([[0.5]])) for name in ("first", "second")]
    network = np.repeat([0, 1], [120, 20])
    arrival_s = np.repeat([0.0, 50.25], [120, 20])
    traffic = traffic_with(np.ones(140, int), np.ones(140), network, arrival_s, None)
    replay = simulate(networks, traffic, "serial:between=shares")
    assert np.diff(replay.by_network[1].start_s).tolist() == [1.0] * 19


def test_the_earliest_deadline_goes_first_and_ties_to_the_first_network():
    networks = [ServedNetwork(name=name, table=table_of([[1.0]])) for name in ("a", "b")]
    slo_s = np.array([9.0, 9.0, 2.0, 1.0])
    traffic = traffic_with(np.ones(4, int), slo_s, np.array([1, 0, 0, 1]), np.zeros(4), None)
    replay = simulate(networks, traffic, "serial:between=edf")
    assert replay.start_s.tolist() == [2.0, 0.0, 1.0, 3.0]


def test_a_requests_fate_is_that_of_its_networks_rule_or_the_policys():
    """Requests a second apart, of 2.5 s each: of every network that states nothing as many wait as the policy says."""
    networks = [
        ServedNetwork(name="own", table=table_of([[2.5]]), admit="queue:1"),
        ServedNetwork(name="any", table=table_of([[2.5]])),
    ]
    network = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    traffic = traffic_with(np.ones(8, int), np.full(8, 99.0), network, 0.25 * np.arange(8), None)
    replay = simulate(networks, traffic, "serial:admit=queue:3")
    assert replay.refused is not None
    assert np.flatnonzero(replay.refused).tolist() == [2, 3, 7]
    summary, networks_of = figures_of(replay)
    rates = [item.admission and item.admission.refused_rate for item in (summary, *networks_of.values())]
    assert rates == [3 / 8, 2 / 4, 1 / 4]


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
def test_a_network_without_places_loses_as_erlang_says():
    """Two networks that may not wait share the lanes: each loses what Erlang's formula says for both together."""
    servers, service_s, load, lost = 3, 0.1, 2.0, []
    for seed in SEEDS:
        steps, table = (
            100,
            repeating([[service_s / 100]], 3000).model_copy(update={"lanes": servers, "load": [0.0, 0.0]}),
        )
        trace = replace(
            poisson(load / service_s, 3_000, seed),
            steps=np.minimum(np.random.default_rng(seed).geometric(1 / steps, 3_000), 30 * steps),
        )
        networks = [ServedNetwork(name=name, table=table, slo_s=1.0, admit="queue:0") for name in ("a", "b")]
        requests = Requests(trace=trace, seed=seed)
        replay = simulate(networks, prepare_requests(networks, requests, trace), f"serial:lanes={servers}")
        lost.append([np.isinf(part.finish_s).mean() for part in replay.by_network])
    weights = np.cumprod([1.0, *(load / number for number in range(1, servers + 1))])
    for own in np.array(lost).T:
        assert_mean(own, weights[-1] / weights.sum())


def test_ends_of_a_calibrated_engine_are_those_of_all_its_networks():
    engine = tabulate_file(*read_network_file("resnet50"), load_platform("dpu-b4096-zcu104", kind=Device))
    both = [ServedNetwork(name=name, table=engine, slo_s=1.0) for name in ("a", "b")]
    requests = Requests(trace=poisson(9, 500, 0))
    asked = [parse_requirement(text, networks=["a", "b"]) for text in ("mean[a] <= 1 s", "p99 <= 1 s")]
    served = serve(both, requests, "fluid", requirements=asked)
    for end, factor in zip(served.ends, engine.ends, strict=True):
        table = engine.slower(factor)
        again = serve([replace(item, table=table) for item in both], requests, "fluid", requirements=asked)
        assert (end.factor, end.summary, end.requirements) == (factor, again.summary, again.requirements)
    assert served.undecided == [False, False]


def test_a_threshold_in_a_file_may_be_a_number():
    keys = {"name": "a", "table": "t"}
    for stated, expected in ((0.6, "0.6"), (1, "1"), ("0.6,0.7", "0.6,0.7")):
        assert NetworkKeys.model_validate(keys | {"threshold": stated}).threshold == expected
    with pytest.raises(ValueError, match="threshold"):
        NetworkKeys.model_validate(keys | {"threshold": True})
