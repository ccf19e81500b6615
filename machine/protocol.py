"""The requests that measure a machine, and the times that they show (``fluidb measure``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats, Ints
from ..models import Exit
from ..serving.case import case_of
from ..serving.device_traffic import DeviceTraffic
from ..serving.networks import as_served
from ..serving.policies.given_batches import POLICY
from ..serving.scheduler import Scheduler
from ..tables.latency import LatencyTable
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic
from .clock import WallClock
from .cores import pinned
from .network import RealNetwork
from .runner import RunnerResult, serve_in_steps

ALONE = 20
"""Requests that find the device idle, in every round."""

PAUSES = 1.0
"""Mean pause before each of these requests, in their mean times: the load is a half."""

IN_A_ROW = 4
"""Batches of the largest size in a row where stages are measured; smaller sizes run as many samples."""

MARGIN = 1.2
"""Safety factor on expected times, as the machine may be slower."""

BUSY, MIXED, IDLE = range(3)
"""Purpose of requests: to measure the times of stages, of gathers, of waking up."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Times that were seen in each of R rounds."""

    stage_s: Floats  # time of each stage at each batch size from 1
    # mean time that requests took longer than these at an idle device; not a number if none found it idle
    wake_up_s: Floats
    gathers: Floats  # round, samples, and seconds, of each gather


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of some rounds: arrival, exit, size of their batch, round and purpose of each."""

    arrival_s: Floats
    exits: Ints
    batch: Ints
    round: Ints
    part: Ints


def run_protocol(
    network: RealNetwork,
    shares: Floats,
    b_max: int,
    rounds: int,
    random: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> RoundTimes:
    """Measure a network by a trace that the runner of real traffic serves.

    In a round every batch size comes through all stages twice, in random order, and the device is never idle. First
    batches leave as a whole, which gives the times of stages; then samples leave at random, which gives the
    times of gathers. Then requests arrive one by one at an idle device: what they take longer is its wake-up time.
    """
    stages = len(shares)
    busy_s, pass_s = 0.0, np.zeros(stages)
    for _ in range(2):  # the first compiles and wakes up what is needed
        rehearsed = _joined(_busy(random, b_max, shares, mixed=mixed) for mixed in (False, True))
        outcome, _ = _serve(network, rehearsed, b_max, random)
        busy_s = MARGIN * float(outcome.took_s.sum())
        pass_s = MARGIN * np.cumsum(_stage_times(rehearsed, outcome, stages, b_max, 1)[0, :, 1])
    parts, begin_s = [], 0.0
    for number in range(rounds):
        parts += [_busy(random, b_max, shares, mixed=mixed, begin_s=begin_s, number=number) for mixed in (False, True)]
        parts.append(_alone(random, shares, pass_s, begin_s + busy_s, number))
        begin_s = float(parts[-1].arrival_s[-1] + pass_s[-1])
    requests = _joined(parts)
    outcome, gathers = _serve(network, requests, b_max, random, progress)
    stage_s = _stage_times(requests, outcome, stages, b_max, rounds)
    alone_s = np.cumsum(stage_s[:, :, 1].mean(axis=0))
    late_s = outcome.replay.latency_s - alone_s[requests.exits - 1]
    idle = (requests.part == IDLE) & outcome.replay.fresh
    by_round = [late_s[idle & (requests.round == number)] for number in range(rounds)]
    wake_up_s = np.array([late.mean() if len(late) else np.nan for late in by_round])
    assert outcome.replay.runs is not None
    first = outcome.replay.runs.firsts
    rows = [(requests.round[first[run]], samples, seconds) for run, samples, seconds in gathers]
    return RoundTimes(stage_s, wake_up_s, np.array(rows, dtype=np.float64).reshape(-1, 3))


def blank_table(network: RealNetwork, b_max: int) -> LatencyTable:
    """A table for an event loop that plans with it and is then told what runs took: every stage takes 1 ms."""
    exits = [Exit(name=name, rate=1 / len(network.exits)) for name in network.exits]
    stage_s = [[[1e-3] * b_max] * len(exits)]
    return LatencyTable(network=network.name, platform="none", exits=exits, b_max=b_max, stage_s=stage_s)


def _joined(parts: Iterable[_Requests]) -> _Requests:
    columns = zip(*((p.arrival_s, p.exits, p.batch, p.round, p.part) for p in parts), strict=True)
    return _Requests(*map(np.concatenate, columns))


def _busy(
    random: np.random.Generator, b_max: int, shares: Floats, *, mixed: bool, begin_s: float = 0.0, number: int = 0
) -> _Requests:
    """Batches of every size, after one of one sample, which finds the device idle and is not counted.

    For stages, each size comes some times in a row, as mostly in service, where caches stay warm. The second batch goes
    through all stages, the others leave as a whole. For gathers (``mixed``) sizes come once and samples leave alone.
    """
    sizes, stages = random.permutation(np.arange(1, b_max + 1)), len(shares)
    times = np.ones_like(sizes) if mixed else 1 - IN_A_ROW * (-b_max // sizes)
    batches = np.append(1, np.repeat(sizes, times))
    batch = np.repeat(batches, batches)
    if mixed:
        exits = random.integers(1, stages + 1, size=len(batch))
    else:
        leaves = random.choice(np.arange(1, stages + 1), len(batches), p=shares)
        leaves[2 + np.cumsum(times) - times] = stages
        exits = np.repeat(leaves, batches)
    part = np.full(len(batch), MIXED if mixed else BUSY)
    part[0] = MIXED
    return _Requests(np.full(len(batch), begin_s), exits, batch, np.full(len(batch), number), part)


def _alone(random: np.random.Generator, shares: Floats, pass_s: Floats, begin_s: float, number: int) -> _Requests:
    """Requests that come one by one, each some time after the one before has returned; the first is not counted."""
    exits = random.choice(np.arange(1, len(shares) + 1), 1 + ALONE, p=shares)
    pauses_s = random.exponential(PAUSES * float(shares @ pass_s), 1 + ALONE)
    arrival_s = begin_s + np.cumsum(pauses_s + np.append(0.0, pass_s[exits[:-1] - 1]))
    part = np.full(1 + ALONE, IDLE)
    part[0] = MIXED
    return _Requests(arrival_s, exits, np.ones_like(exits), np.full_like(exits, number), part)


def _serve(
    network: RealNetwork,
    requests: _Requests,
    b_max: int,
    random: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RunnerResult, list[tuple[int, int, float]]]:
    count = len(requests.exits)
    sizes = requests.batch.astype(np.float64)
    trace = Trace(np.arange(count), requests.arrival_s, exits=requests.exits, predicted_depth=sizes)
    traffic = Traffic(trace, requests.exits, np.full(count, np.inf), None, "drawn")
    served = as_served(blank_table(network, b_max))
    case = case_of(served, DeviceTraffic.of(traffic), Scheduler("given-batches", POLICY, {}))
    clock = WallClock(trace.arrival_s, threading.Event())
    runner = network.runner(random.integers(len(network), size=count))
    with clock.running(), pinned(network.cores):
        outcome = serve_in_steps(case, clock, runner, progress=progress)
    if outcome.failure:
        raise InputError(f"{network.path}: {outcome.failure}")
    return outcome, runner.gathers


def _stage_times(requests: _Requests, outcome: RunnerResult, stages: int, b_max: int, rounds: int) -> Floats:
    runs, sums, counts = outcome.replay.runs, *np.zeros((2, rounds, stages, b_max + 1))
    assert runs is not None
    first = runs.firsts
    busy = requests.part[first] == BUSY
    cell = requests.round[first[busy]], runs.segment[busy], runs.batch[busy]
    np.add.at(sums, cell, outcome.took_s[busy])
    np.add.at(counts, cell, 1)
    return sums / np.maximum(1, counts)
