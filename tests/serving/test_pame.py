"""PAME at run time: batches side by side as an independent simulator serves them, and what must hold of any of them."""

from __future__ import annotations

import naive_pame
import numpy as np
import pytest
from builders import table_of, ticks, trace_of, traffic_of, workloads
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import stage_times
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.candidates import find_candidates, load_with_exits
from fluidb.models.loader import read_network_file
from fluidb.platforms import PLATFORMS, Device, Platform, kind_of, load_platform
from fluidb.platforms.by_stage import TimedDevice
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import log_of
from fluidb.rules.exit_thresholds import ExitGoal
from fluidb.rules.exit_times import average_latency, bin_sizes
from fluidb.serving import Replay, Scheduler, find_policy, simulate
from fluidb.tables import LatencyTable
from fluidb.traffic import Trace, prepare
from fluidb.traffic.answers import PRESETS, draw_answers
from hypothesis import given, settings
from hypothesis import strategies as st


def side_by_side(table: LatencyTable, lanes: int, small: int, load: float) -> LatencyTable:
    """A table of several lanes, on which batches of ``small`` samples and fewer slow nobody."""
    shares = [0.0] * (small + 1) + [load] * (table.b_max - small)
    return table.model_copy(update={"lanes": lanes, "load": shares[: table.b_max + 1]})


def pame(timeout_s: float, tau_b: float, lanes: int) -> Scheduler:
    timeout = f"{timeout_s}s" if timeout_s else "0"
    return find_policy(f"pame:timeout={timeout},tau_b={tau_b},lanes={lanes}")


any_table = st.tuples(workloads(), st.sampled_from([2, 3]), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0]))
"""A workload, lanes, and loads with which times stay exact: batches take 1, 2 or 4 times as long."""


@settings(max_examples=80)
@given(any_table, ticks(0, 200), st.integers(0, 6))
def test_every_request_as_in_an_independent_simulator(case, timeout_s, tau_b):
    (table, trace, exits), lanes, small, load = case
    table = side_by_side(table, lanes, small, load)
    replay = simulate(table, traffic_of(trace, exits), pame(timeout_s, tau_b, lanes))
    expected = naive_pame.pame(
        trace.arrival_s.tolist(), exits.tolist(), table.array().tolist(), table.b_max, timeout_s, tau_b,
        table.load or [], lanes,
    )  # fmt: skip
    assert replay.finish_s.tolist() == expected.finish_s
    assert replay.start_s.tolist() == expected.start_s


def batches_of(replay: Replay) -> list[tuple[float, float]]:
    """Start and last return of each batch: its requests start together, and no two batches do."""
    starts = np.unique(replay.start_s)
    return [(start, replay.finish_s[replay.start_s == start].max()) for start in starts]


@settings(max_examples=60)
@given(any_table, st.integers(0, 6))
def test_samples_are_conserved_and_never_three_batches_in_flight(case, tau_b):
    (table, trace, exits), lanes, small, load = case
    replay = simulate(side_by_side(table, lanes, small, load), traffic_of(trace, exits), pame(0.0, tau_b, lanes))
    assert np.all(np.isfinite(replay.finish_s))
    assert np.all(replay.start_s >= trace.arrival_s)
    assert np.all(np.diff(replay.start_s) >= 0)  # first come, first served
    assert int(replay.launches[0, 0] @ np.arange(table.b_max + 1)) == len(trace)
    batches = batches_of(replay)
    for start, _ in batches:
        assert sum(begin <= start < end for begin, end in batches) <= 2


def test_the_next_batch_begins_beside_a_second_stage_that_is_small():
    """Fig. 5 of the paper: four wait twice; one of four moves on, and the next four start beside it."""
    table = table_of([[2.0] * 4, [4.0] * 4]).model_copy(update={"lanes": 2, "load": [0.0, 0.5, 0.75, 0.75, 1.0]})
    traffic = traffic_of(trace_of([0.0] * 8), np.array([1, 1, 1, 2, 1, 1, 2, 2]), 100.0)
    serial, parallel, wide = (
        simulate(table, traffic, find_policy(f"pame:{options}"))
        for options in ("tau_b=2", "tau_b=2,lanes=2", "tau_b=1,lanes=2")
    )
    assert serial.finish_s.tolist() == wide.finish_s.tolist() == [2.0, 2.0, 2.0, 6.0, 8.0, 8.0, 12.0, 12.0]
    # 1.5 times slower beside each other: the second batch's stage 1 until 5 s, then 1.25 times: of the 4 s of the
    # first batch's stage 2 are 2 s left, which end at 7.5 s; the second's have 2 s of 4 left then
    assert parallel.finish_s.tolist() == [2.0, 2.0, 2.0, 7.5, 5.0, 5.0, 9.5, 9.5]


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_batch_waits_for_company_no_longer_than_the_timeout(lanes):
    table = table_of([[1.0, 1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.5, 0.5]})
    traffic = traffic_of(trace_of([0.0, 5.0, 5.25]), np.ones(3, dtype=int), 100.0)
    replay = simulate(table, traffic, pame(0.5, 4, lanes))
    assert replay.start_s.tolist() == [0.5, 5.25, 5.25]


SHIPPED = {"v100-tensorrt": "resnet101", "v100-tensorrt-bert": "bert_base", "rtx-2080-ti": "resnet50"}
"""Devices with times by layer, and a network with candidates for each."""


def test_every_device_that_ships_is_estimated_or_says_why_not():
    """Only devices with times by stage are left out: their heads cannot be told from the backbone."""
    shipped = [load_platform(name, kind=Platform) for name in PLATFORMS.names()]
    timed = [device for device in shipped if isinstance(device, TimedDevice)]
    assert {name for name in PLATFORMS.names() if kind_of(name) is Device} == {*SHIPPED, *(d.name for d in timed)}
    for device in timed:
        with pytest.raises(InputError, match="expected times by layer"):
            stage_times(tabulate_device(load_network(device.network), device))


@pytest.mark.parametrize(("device", "network"), SHIPPED.items())
def test_an_estimate_is_within_two_percent_of_what_is_served(device, network):
    """One half of a log is estimated by the matrices, the other half served: one exit, full batches, one after another.

    Average and tail also obey average = (1 - m) f + m tail (PAME, Section 4.2).
    """
    hardware, batch, half = load_platform(device, kind=Device), 16, 16 * 600
    every = tabulate_device(load_with_exits(network), hardware)
    preset = PRESETS["glue" if network == "bert_base" else "imagenet"]
    samples = draw_answers(preset, len(every.exits) - 1, 2 * half, seed=1)
    log, stage_s = log_of(samples), stage_times(every)
    choice = choose_exits(log.part(slice(0, half)), stage_s, ExitGoal(batch=batch))
    verdict = choice.steps[0].taken
    assert verdict is not None
    assert verdict.time_s is not None
    assert verdict.pattern is not None
    sizes = bin_sizes(1, batch, batch)
    average_s = average_latency(verdict.time_s, verdict.pattern, sizes, batch)
    tail_s = float(verdict.time_s @ verdict.pattern / verdict.pattern.sum())

    names = [item.name for item in find_candidates(*read_network_file(network))]
    table = tabulate_device(load_with_exits(network, [names[verdict.candidate - 1]]), hardware)
    fresh = samples[slice(half, 2 * half)].at_exits([verdict.candidate], [1])
    trace = Trace(np.arange(half), np.zeros(half), confidences=fresh.confidences, correct=fresh.correct)
    traffic = prepare(trace, [0.0, 1.0], slo_s=1.0, threshold=verdict.setting.threshold)
    replay = simulate(table, traffic, find_policy(f"pame:timeout=0,b_max={batch}"))
    took_s = (replay.finish_s - replay.start_s).reshape(-1, batch)
    assert took_s.mean() == pytest.approx(average_s, rel=0.02)
    assert took_s.max(axis=1).mean() == pytest.approx(tail_s, rel=0.02)

    moved = (traffic.exits == 2).reshape(-1, batch)
    first_s = took_s[~moved].mean()
    assert np.all(np.ptp(np.where(moved, first_s, took_s), axis=1) < 1e-9)  # all who exit do so at the same time
    share = moved.mean()
    tail_by_sample_s = took_s[moved].mean()
    assert took_s.mean() == pytest.approx((1 - share) * first_s + share * tail_by_sample_s)
