"""The simulator against closed-form queueing theory."""

from __future__ import annotations

import numpy as np
import pytest
from builders import COMPILED, SEEDS, assert_mean, mean_latencies, table_of, trace_of, traffic_of
from fluidb.serving import find_policy, simulate, summarise
from fluidb.traffic import poisson, prepare

COUNT = 40_000 if COMPILED else 8_000


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_serial_without_exits_is_an_M_D_1_queue(load):
    service_s = 0.05
    expected = service_s + load * service_s / (2 * (1 - load))
    assert_mean(mean_latencies(table_of([[service_s]]), load / service_s, COUNT), expected)


def test_serial_with_exits_is_an_M_G_1_queue():
    """Pollaczek-Khinchine: exits make the service time random."""
    rates, stage_s = [0.2, 0.3, 0.1, 0.4], [0.02, 0.03, 0.01, 0.05]
    service_s = np.cumsum(stage_s)
    mean, square = np.dot(rates, service_s), np.dot(rates, service_s**2)
    rate_per_s = 0.7 / mean
    expected = mean + rate_per_s * square / (2 * (1 - 0.7))
    table = table_of([[time] for time in stage_s], rates)
    assert_mean(mean_latencies(table, rate_per_s, COUNT), expected)


@pytest.mark.parametrize("policy", ["serial", "fluid"])
def test_regular_arrivals_and_service_are_exact(policy):
    """D/D/1 below saturation: everyone takes the service time; above: the queue grows by a line."""
    table, count = table_of([[0.25], [0.25]]), 1000
    exits = np.full(count, 2)
    easy = simulate(table, traffic_of(trace_of(np.arange(count) * 0.5), exits, 0.5), find_policy(policy))
    assert np.all(easy.latency_s == 0.5)
    assert summarise(easy).violations == 0
    assert summarise(easy).busy_share == 1.0
    hard = simulate(table, traffic_of(trace_of(np.arange(count) * 0.25), exits, 0.5), find_policy(policy))
    assert hard.latency_s.tolist() == (0.5 + 0.25 * np.arange(count)).tolist()


def test_utilisation_law():
    """Busy share is arrival rate times mean service time, below saturation."""
    table = table_of([[0.02], [0.04]])
    traffic = prepare(poisson(12.0, COUNT, 1), [0.5, 0.5], slo_s=1, seed=1)
    summary = summarise(simulate(table, traffic, find_policy("serial")))
    assert summary.busy_share == pytest.approx(12.0 * (0.5 * 0.02 + 0.5 * 0.06), rel=5 / np.sqrt(COUNT))


@pytest.mark.parametrize("load", [0.5, 2.0, 5.0])
def test_greedy_batches_of_any_size_have_a_closed_form(load):
    """One stage whose time D does not depend on the batch: a batch takes everything that came during the one before.

    Of the requests of a service and the idle time that may follow, load = rate * D
    on average come during it and wait D/2 and then D; with probability exp(-load)
    none does, and the next one finds the NPU idle and takes D.
    """
    service_s, batch = 0.05, 64
    none = np.exp(-load)
    expected = service_s * (1.5 * load + none) / (load + none)
    table = table_of([[service_s] * batch])
    means = []
    for seed in SEEDS:
        trace = poisson(load / service_s, COUNT, seed)
        replay = simulate(table, traffic_of(trace, np.ones(COUNT, dtype=np.int64), 1), find_policy("fluid"))
        means.append(replay.latency_s.mean())
    assert_mean(np.array(means), expected)
