"""Compares the simulator with this machine (``fluidb validate``)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from ..formats import InputError
from ..serving.case import case_of
from ..serving.device_traffic import DeviceTraffic
from ..serving.inputs import Requests
from ..serving.metrics import summarise
from ..serving.networks import AnyServed, ServedNetwork, as_served, scheduler_on
from ..serving.outcome import Replay
from ..serving.replay import simulate
from ..serving.scheduler import Scheduler, find_policy
from ..serving.statistics import welch_interval
from ..tables.latency import LatencyTable
from ..traffic.arrivals import offline, poisson
from ..traffic.clients import Clients
from ..traffic.distributions import Objective
from .clock import VirtualClock, WallClock
from .measurement import MeasuredTimes, measure
from .network import RealNetwork
from .protocol import blank_table
from .runner import TableRunner, as_measured, serve_in_steps
from .serve import MachineResult, check_models, prepare_here, serve_traffic

DEFAULT_POLICIES = ("serial", "adaptb", "fluid")

STEP = 0.01
"""Share by which the table is changed to see how sensitive a figure is."""

SLO_PASSES = 20
"""The latency objective if none is given, in passes of one sample through the whole network."""

CALIBRATION = 5
"""Rounds of each calibration, after one to warm up."""


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """Figures of a replay that are compared."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    violation_rate: float

    @classmethod
    def of(cls, replay: Replay) -> TrialFigures:
        """The figures of a replay."""
        summary = summarise(replay)
        p50_s, p95_s, p99_s = (summary.percentile(name).latency_s for name in ("p50", "p95", "p99"))
        return cls(summary.mean_latency_s, p50_s, p95_s, p99_s, summary.violation_rate)


@dataclass(frozen=True, slots=True)
class Trial:
    """A run on the machine, and the simulations of it."""

    policy: str
    load: float  # arrival rate, as a share of what the device serves one by one; or the number of clients
    repeat: int  # repetition, from 0; it is the seed of the trace
    # on the machine; by the simulator with the table measured just before and after the run; and by the simulator
    # with the time that each run took on the machine
    real: TrialFigures
    simulated: TrialFigures
    replayed: TrialFigures
    drift: float  # share by which the table after the run is slower than the one before it
    # half-width of the 95 % interval of the times that the simulator gets, as a share of them: from the rounds of the
    # measurements before and after the run
    half_width: float
    sensitivity: float  # growth of the simulated mean latency, in per cent, if the table grows by one per cent
    answers_wrong: int  # answers that the network alone does not give


@dataclass(frozen=True, slots=True)
class Error:
    """Error of a figure of the simulator, over the repeats: a share of the real figure, or of all requests."""

    figure: str  # name of the field of :class:`TrialFigures`
    # of the simulation, with its sign. The median of all repeats lies between the least and the most of n with a
    # confidence of 1 - 2 ** (1 - n)
    median: float
    least: float
    most: float
    # median of the errors without their sign; the second with the times measured in the run
    size: float
    replayed_size: float


@dataclass(frozen=True, slots=True)
class LoadVerdict:
    """The verdict about a policy at a load."""

    policy: str
    load: float
    errors: list[Error]  # by figure
    # possible error of the mean latency because the machine was measured badly: sensitivity times drift and
    # half-width, which are independent and so add as squares. The median over the repeats, as of the errors
    doubt: float
    says: str  # within, off, or refused, where the doubt is larger than the limit


@dataclass(frozen=True, slots=True)
class Order:
    """Policies from the shortest mean latency to the longest, on the machine and in the simulator."""

    load: float
    real: list[str]
    simulated: list[str]


@dataclass(frozen=True, slots=True)
class Validation:
    """The errors of the simulator on this machine."""

    slo_s: float | None  # latency objective of all requests; None if each has its own
    rates_per_s: list[float]  # arrival rate of each load; none with clients
    trials: list[Trial]  # in the order in which they ran
    verdicts: list[LoadVerdict]  # by load and policy
    orders: list[Order]  # by load

    @property
    def answers_wrong(self) -> int:
        """Answers of all trials that the network alone does not give."""
        return sum(trial.answers_wrong for trial in self.trials)

    @property
    def refused(self) -> int:
        """Verdicts that the noise of the machine does not permit."""
        return sum(verdict.says == "refused" for verdict in self.verdicts)

    @property
    def holds(self) -> bool:
        """True if every answer is right and every error is within the limit."""
        return not self.answers_wrong and all(verdict.says == "within" for verdict in self.verdicts)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialGrid:
    """The runs of a validation."""

    policies: tuple[str, ...] = DEFAULT_POLICIES  # with their parameters
    # arrival rates, as shares of what the device serves one by one; with ``clients`` numbers of them
    loads: tuple[float, ...] = (0.3, 0.6)
    repeats: int = 11  # traces of each policy at each load
    count: int = 400  # requests of each trace
    within: float = 0.05  # largest relative error of the mean latency that passes
    clients: Clients | None = None  # clients that wait for their answers, in place of arrivals; their number is a load
    seed: int = 0  # seed of the order of the runs

    def __post_init__(self) -> None:
        faults, loads = [], self.loads
        stated, distinct = ", ".join(f"{load:g}" for load in loads) or "none", len(set(loads)) == len(loads)
        if self.clients is not None:
            if not (loads and distinct and all(load == int(load) >= 1 for load in loads)):
                faults.append(f"clients: expected different whole numbers >= 1, found {stated}")
        elif not (loads and distinct and all(0 < load <= 10 for load in loads)):
            faults.append(f"loads: expected different shares above 0, up to 10, found {stated}")
        if self.repeats < 1:
            faults.append(f"repeats: expected at least 1, found {self.repeats}")
        if self.count < 2:
            faults.append(f"count: expected at least 2, found {self.count}")
        if not 0 < self.within < 1:
            faults.append(f"within: expected a share between 0 and 1, found {self.within:g}")
        if faults:
            raise InputError(faults)
        for policy, scheduler in self.schedulers.items():
            if scheduler.on_deadline or scheduler.admit:
                raise InputError(
                    f"policy {policy}: expected on_deadline=serve and no admit, as latencies are compared, found "
                    "another; serve-real and serve-sim take it"
                )

    @property
    def schedulers(self) -> dict[str, Scheduler]:
        """The policies by their text."""
        return {policy: find_policy(policy) for policy in self.policies}

    def requests(self, point: TrialPoint, one_by_one: float) -> Requests:
        """The requests of a run, given the rate at which the device serves them one by one."""
        if self.clients is None:
            return Requests(trace=poisson(point.load * one_by_one, self.count, point.repeat), seed=point.repeat)
        clients = replace(self.clients, count=int(point.load))
        return Requests(trace=offline(self.count), seed=point.repeat, clients=clients)


def validate_simulator(
    models: Sequence[RealNetwork],
    grid: TrialGrid,
    *,
    networks: AnyServed | None = None,
    b_max: int = 8,
    slo_s: Objective | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Serve the same traffic on this machine and in the simulator, and compare.

    The repeats of all policies and loads are in one random order, so that drift favours none.  Before and after each,
    the machine is measured anew.  Several models need ``networks``, which say what each is served with beside its
    times; an objective that neither they nor ``slo_s`` states is :data:`SLO_PASSES` passes.
    """
    stated = as_served(blank_table(models[0], b_max) if networks is None else networks)
    check_models(models, stated)
    if limited := [network for network in stated if network.limit]:
        raise InputError(limited[0].about(["admit: expected none, as latencies are compared, found one; leave it out"]))
    random = np.random.default_rng(grid.seed)

    def calibrate() -> list[MeasuredTimes]:
        return [
            measure(model, b_max=b_max, repeats=CALIBRATION, warm_up=1, seed=int(random.integers(2**31)))
            for model in models
        ]

    before = calibrate()
    alone_s = [here.table.array()[0, 1:, 1] for here in before]
    named = [
        replace(
            network,
            slo_s=next(slo for slo in (network.slo_s, slo_s, SLO_PASSES * float(own_s[-1])) if slo is not None),
            threshold=model.thresholds if network.threshold is None else network.threshold,
        )
        for network, model, own_s in zip(stated, models, alone_s, strict=True)
    ]
    rates = [np.array([row.rate for row in here.table.exits]) for here in before]
    whole = sum(network.share for network in named)
    pairs = zip(named, alone_s, rates, strict=True)
    one_by_one = 1.0 / sum(network.share / whole * float(own_s @ own) for network, own_s, own in pairs)
    schedulers = {policy: scheduler_on(stated, policy) for policy in grid.policies}
    points = [(load, policy, repeat) for repeat in range(grid.repeats) for load in grid.loads for policy in schedulers]
    trials: list[Trial] = []
    for number, place in enumerate(random.permutation(len(points)).tolist()):
        point = TrialPoint(*points[place])
        there = with_tables(named, [here.table for here in before])
        traffic, served = prepare_here(models, there, grid.requests(point, one_by_one))
        clock = WallClock(traffic.whole.trace.arrival_s, threading.Event())
        done = serve_traffic(served, traffic, schedulers[point.policy], clock)
        if done.outcome.failure:
            raise InputError(f"{', '.join(str(model.path) for model in models)}: {done.outcome.failure}")
        after = calibrate()
        trials.append(_trial(point, there, traffic, done, (before, after)))
        before = after
        if progress is not None:
            progress(number + 1, len(points))
    shared = {network.slo_s for network in named if isinstance(network.slo_s, float)}
    return Validation(
        shared.pop() if len(shared) == 1 and all(isinstance(network.slo_s, float) for network in named) else None,
        [load * one_by_one for load in grid.loads] if grid.clients is None else [],
        trials,
        [
            judge_point(here, grid.within)
            for load in grid.loads
            for policy in schedulers
            if (here := _at(trials, load, policy))
        ],
        [_order(trials, load, list(schedulers)) for load in grid.loads],
    )


class TrialPoint(NamedTuple):
    """A run: its load, its policy, and its repetition from 0."""

    load: float
    policy: str
    repeat: int


def with_tables(networks: Sequence[ServedNetwork], tables: Sequence[LatencyTable]) -> tuple[ServedNetwork, ...]:
    """The networks with these latency tables."""
    return tuple(replace(network, table=table) for network, table in zip(networks, tables, strict=True))


def _at(trials: Sequence[Trial], load: float, policy: str) -> list[Trial]:
    return [trial for trial in trials if (trial.load, trial.policy) == (load, policy)]


def between(before: MeasuredTimes, after: MeasuredTimes) -> LatencyTable:
    """The latency table of a run, from the measurements before and after it."""
    one, other = before.table, after.table
    stage_s = (np.array(before.device.times_s[0]) + np.array(after.device.times_s[0])) / 2
    gather_s = (one.gather_array() + other.gather_array()) / 2
    wake_up_s = ((one.wake_up_s or 0.0) + (other.wake_up_s or 0.0)) / 2
    given = {"stage_s": [stage_s.tolist()], "gather_s": gather_s[: len(one.exits)].tolist(), "wake_up_s": wake_up_s}
    return one.model_copy(update=given)


def half_width(before: MeasuredTimes, after: MeasuredTimes) -> float:
    """Half-width of the 95 % interval of the times of :func:`between`, as a share of them."""
    apart = welch_interval(before.round_times, after.round_times)
    assert apart is not None, "a measurement has several rounds"
    return (apart.high - apart.low) / 4  # the mean of two figures is known twice as well as their difference


def _trial(
    point: TrialPoint, networks: Sequence[ServedNetwork], traffic: DeviceTraffic, done: MachineResult,
    measured: tuple[Sequence[MeasuredTimes], Sequence[MeasuredTimes]],
) -> Trial:  # fmt: skip
    """A run on the machine, and the simulations of it, given the measurements of each network before and after it."""
    scheduler, pairs = find_policy(point.policy), list(zip(*measured, strict=True))
    tables = [between(*pair) for pair in pairs]
    simulated = TrialFigures.of(simulate(with_tables(networks, tables), traffic, scheduler))
    clock = VirtualClock(traffic.whole.trace.arrival_s)
    runner = TableRunner(clock, as_measured(done.outcome))
    # the policy knew the tables of the measurement before
    replayed = serve_in_steps(case_of(networks, traffic, scheduler), clock, runner).replay
    longer = with_tables(networks, [table.slower(1 + STEP, overheads=True) for table in tables])
    moved_s = TrialFigures.of(simulate(longer, traffic, scheduler)).mean_s
    # of several networks the worst, as an error of one delays all
    drifts = [
        float((np.array(after.device.times_s[0]) / np.array(before.device.times_s[0])).mean() - 1.0)
        for before, after in pairs
    ]
    real = TrialFigures.of(done.outcome.replay)
    return Trial(
        point.policy, point.load, point.repeat, real, simulated, TrialFigures.of(replayed),
        max(drifts, key=abs), max(half_width(*pair) for pair in pairs), (moved_s / simulated.mean_s - 1.0) / STEP,
        done.answers_wrong,
    )  # fmt: skip


def judge_point(trials: Sequence[Trial], within: float) -> LoadVerdict:
    """Judge the trials of a policy at a load; refuse where the machine's noise exceeds the error that is asked for.

    Drift between two calibrations moves the mean latency by its share times the sensitivity; so does the error of the
    calibrations, which their interval bounds.
    """
    errors = []
    for figure in fields(TrialFigures):
        off = [_off(figure.name, trial.simulated, trial.real) for trial in trials]
        again = [abs(_off(figure.name, trial.replayed, trial.real)) for trial in trials]
        errors.append(Error(figure.name, median(off), min(off), max(off), median(map(abs, off)), median(again)))
    doubt = median(math.hypot(trial.drift, trial.half_width) * abs(trial.sensitivity) for trial in trials)
    says = "refused" if doubt > within else "within" if errors[0].size <= within else "off"
    return LoadVerdict(trials[0].policy, trials[0].load, errors, doubt, says)


def _off(figure: str, predicted: TrialFigures, real: TrialFigures) -> float:
    """The error of a figure: a share of the real one; for violations, a difference of shares."""
    value, expected = float(getattr(predicted, figure)), float(getattr(real, figure))
    return value - expected if figure == "violation_rate" else value / expected - 1.0


def _order(trials: Sequence[Trial], load: float, policies: Sequence[str]) -> Order:
    def ranked(kind: str) -> list[str]:
        means = {p: float(np.mean([getattr(trial, kind).mean_s for trial in _at(trials, load, p)])) for p in policies}
        return sorted(policies, key=means.__getitem__)

    return Order(load, ranked("real"), ranked("simulated"))
