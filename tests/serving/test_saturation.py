"""The verdict on saturation: of queues whose load is known, and its figures by plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from builders import COMPILED, table_of, trace_of, traffic_of
from fluidb.serving import Replay, simulate, summarise
from fluidb.serving.saturation import BACKLOGGED, OVERLOADED, STABLE, Saturation, saturation_of
from fluidb.traffic import offline, poisson
from fluidb.traffic.clients import Clients

SERVICE_S = 0.05


def judged(replay: Replay) -> Saturation:
    found = saturation_of(replay)
    assert found is not None
    return found


def replay_at(load: float, count: int, seed: int = 0, policy: str = "serial") -> Replay:
    trace = poisson(load / SERVICE_S, count, seed)
    return simulate(table_of([[SERVICE_S]]), traffic_of(trace, np.ones(count, int), 1.0), policy)


def found_at(load: float, count: int, seed: int = 0, policy: str = "serial") -> Saturation:
    return judged(replay_at(load, count, seed, policy))


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
@pytest.mark.parametrize(
    ("load", "count", "verdict"), [(0.5, 2000, STABLE), (0.95, 200_000, STABLE), (1.2, 2000, OVERLOADED)]
)
def test_m_d_1_is_judged_by_its_load(load: float, count: int, verdict: str) -> None:
    found = [found_at(load, count, seed) for seed in range(20)]
    assert {item.verdict for item in found} == {verdict}
    assert np.mean([item.load for item in found]) == pytest.approx(load, rel=0.02)
    # of 1.2 arrivals in a service, one is served: 1/6 is left over; below saturation none
    assert np.mean([item.backlog_growth for item in found]) == pytest.approx(max(0.0, 1 - 1 / load), abs=0.01)


@pytest.mark.skipif(not COMPILED, reason="takes minutes as plain Python")
def test_near_saturation_a_run_is_backlogged_until_it_is_long_enough() -> None:
    found = [found_at(0.95, 2000, seed).verdict for seed in range(40)]
    assert found.count(BACKLOGGED) > 20
    assert found.count(OVERLOADED) <= 2


def test_the_figures_are_those_of_a_plain_loop() -> None:
    count, random = 410, np.random.default_rng(3)
    arrival_s, service_s = np.cumsum(random.exponential(0.26, count)), 0.25
    found = judged(
        simulate(table_of([[service_s]]), traffic_of(trace_of(arrival_s), np.ones(count, int), 1.0), "serial")
    )
    start_s = [0.0] * count
    for k in range(count):
        start_s[k] = max(arrival_s[k], start_s[k - 1] + service_s) if k else arrival_s[0]
    parts, drained, marks = [], 0, [count * part // 10 for part in range(10)] + [count - 1]
    for first, last in pairwise(marks):
        waiting = [sum(start_s[j] > arrival_s[k] for j in range(k)) for k in (first, last)]
        parts.append((waiting[1] - waiting[0]) / (last - first))
        end = count if last == count - 1 else last
        drained += any(all(start_s[j] <= arrival_s[k] for j in range(k)) for k in range(first, end))
    mean = sum(parts) / 10
    half = 2.262 * (sum((part - mean) ** 2 for part in parts) / 9 / 10) ** 0.5
    assert found.drained_parts == drained
    assert found.backlog_growth == pytest.approx(mean)
    assert found.backlog_growth_interval == pytest.approx((mean - half, mean + half))
    assert found.load == pytest.approx(service_s * (count - 1) / (arrival_s[-1] - arrival_s[0]))
    assert 0 < drained < 10


def test_a_long_surge_that_drains_is_a_backlog_and_growth_an_overload() -> None:
    even, surge = 0.5 * np.arange(1000), 100.0 + 0.05 * np.arange(1000)
    table, ones = table_of([[0.2]]), np.ones(2000, int)
    for arrival_s, verdict in (
        (np.sort([*even, *surge]), BACKLOGGED),
        (0.25 * np.arange(2000), STABLE),
        (0.19 * np.arange(2000), OVERLOADED),
    ):
        assert judged(simulate(table, traffic_of(trace_of(arrival_s), ones, 1.0), "serial")).verdict == verdict


def test_a_device_that_is_never_empty_may_be_stable() -> None:
    """Five arrivals in a service of any batch: each launch takes all that wait."""
    count = 4000
    trace = poisson(5 / SERVICE_S, count, 1)
    replay = simulate(table_of([[SERVICE_S] * 64]), traffic_of(trace, np.ones(count, int), 1.0), "fluid")
    assert judged(replay).verdict == STABLE
    assert replay.fresh.mean() < 0.05


def test_a_policy_may_be_overloaded_where_another_is_not() -> None:
    """A batch of two takes no longer than one request; the serial policy serves one after the other."""
    trace = poisson(1.2 / SERVICE_S, 2000, 1)
    traffic, table = traffic_of(trace, np.ones(2000, int), 1.0), table_of([[SERVICE_S] * 2])
    serial, fluid = (judged(simulate(table, traffic, policy)) for policy in ("serial", "fluid"))
    assert (serial.verdict, fluid.verdict) == (OVERLOADED, STABLE)
    assert serial.load == fluid.load == pytest.approx(0.6, rel=0.1)


@pytest.mark.parametrize("policy", ["serial:on_deadline=drop", "serial:admit=queue:2"])
def test_an_overload_that_is_shed_is_still_one(policy: str) -> None:
    found = found_at(2.0, 1000, policy=policy)
    assert (found.verdict, found.backlog_growth_interval.low < 0) == (OVERLOADED, True)
    assert found.load == pytest.approx(2.0, rel=0.1)


def test_requests_that_clients_send_again_count_once() -> None:
    """Of four clients without a think time one is served, and the others are refused after each service."""
    traffic = Clients(4).send(traffic_of(offline(2000), np.ones(2000, int), 1.0), 0)
    replay = simulate(table_of([[SERVICE_S]]), traffic, "serial:admit=queue:0")
    assert replay.refused is not None
    assert replay.refused.sum() == 1500
    assert (np.diff(replay.traffic.trace.arrival_s) == 0.0).sum() == 1500  # all four at each end of a service
    assert judged(replay).load == pytest.approx(1.0)


@pytest.mark.parametrize("slo_s", [1.0, SERVICE_S / 4])
def test_a_request_that_a_newer_one_drops_is_sent_again_even_after_its_deadline(slo_s: float) -> None:
    """Of three clients one is served and one waits, which the next one's request drops."""
    traffic = Clients(3, SERVICE_S / 2).send(traffic_of(offline(2000), np.ones(2000, int), slo_s), 0)
    replay = simulate(table_of([[SERVICE_S]]), traffic, "serial:admit=newest:1")
    assert replay.dropped.sum() > 500
    assert replay.asked_again.tolist() == replay.dropped.tolist()
    assert judged(replay).load == pytest.approx(1.0, abs=0.01)


def test_clients_that_all_wait_are_a_backlog() -> None:
    traffic = Clients(4, 0.01).send(traffic_of(offline(500), np.ones(500, int), 1.0), 0)
    assert judged(simulate(table_of([[SERVICE_S]]), traffic, "serial")).verdict == BACKLOGGED


def test_a_short_run_and_one_of_a_single_instant_have_no_verdict() -> None:
    assert summarise(replay_at(0.5, 399)).saturation is None
    at_once = simulate(table_of([[SERVICE_S]]), traffic_of(offline(500), np.ones(500, int), 1.0), "serial")
    assert summarise(at_once).record()["saturation"] is None
    assert replace(summarise(at_once), saturation=found_at(0.5, 400)).record()["saturation"]["verdict"] == STABLE
