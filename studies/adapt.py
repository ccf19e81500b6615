"""A plan of exits served while the load or the hardware changes (PAME, Section 7.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..dse.exits.tabulate import goal_of
from ..formats import AnyPath, InputError, read_table
from ..rules.exit_choice import Log, log_of
from ..serving.adaptation import AdaptiveRun, Hardware, Observation, adapt
from ..serving.inputs import AnyPolicy, as_scheduler
from ..serving.judgement import Exits
from ..serving.policies import POLICIES
from ..tables.exit_plan import TIMES_FILE, ExitPlan, InferenceTime, read_plan
from ..tables.latency import read_latency
from ..traffic.distributions import Objective
from ..traffic.measures import MEASURES, Measure
from ..traffic.samples import Samples, read_samples
from ..traffic.trace import Trace
from ..traffic.traffic import objectives


@dataclass(frozen=True, slots=True)
class AdaptationResult:
    """The outcome of all requests."""

    plan: ExitPlan  # at the beginning
    candidates: list[str]  # the layers that candidates follow
    served: AdaptiveRun  # every request, and every change
    log: Log  # the answers that each request drew
    whole: Observation  # precision, slow batches and latencies of all batches
    arrival_s: np.ndarray  # of each request


def serve_adaptively(
    folder: AnyPath,
    trace: Trace,
    samples: AnyPath,
    policy: AnyPolicy,
    *,
    window: int = 100,
    slo_s: Objective | None = None,
    seed: int = 0,
    from_s: float | None = None,
    until_s: float | None = None,
    then_samples: AnyPath | None = None,
    then_times: AnyPath | None = None,
) -> AdaptationResult:
    """Serve a trace with a plan, and let exits and thresholds follow."""
    if until_s is not None and not until_s > (math.inf if from_s is None else from_s):
        raise InputError(f"until: expected a time after that of from, found {until_s:g} s")
    if (from_s is None) != (then_samples is None and then_times is None):
        raise InputError(
            "from: expected a time, and samples or inference times that hold from then on, found only one of them"
        )
    scheduler = as_scheduler(policy)
    if scheduler.policy is not POLICIES["pame"]:
        raise InputError(f"policy: expected pame, whose exits are adapted, found {scheduler.spec}")
    plan, table = read_plan(folder), read_latency(folder)
    times = read_table(InferenceTime, Path(folder, TIMES_FILE))
    if scheduler.on_deadline or scheduler.admit:
        name = "on_deadline" if scheduler.on_deadline else "admit"
        raise InputError(
            f"policy: {name}: expected all served where exits are adapted, found another rule; leave it out"
        )
    if scheduler.lanes > table.lanes:
        raise InputError(f"policy: lanes: expected at most {table.lanes} on {table.platform}, found {scheduler.lanes}")
    if scheduler.b_max not in (None, plan.batch):
        raise InputError(
            f"policy: b_max: expected {plan.batch}, the batch that the exits were chosen for, found "
            f"{scheduler.b_max}; leave it out, or choose exits for it with `fluidb exits --batch {scheduler.b_max}`"
        )
    measure = MEASURES[plan.measure]
    logged = _fitting(samples, times, measure)
    changed, back = np.searchsorted(trace.arrival_s, [np.inf if at is None else at for at in (from_s, until_s)])
    first = logged.draw(len(trace), seed)
    other = logged if then_samples is None else _fitting(then_samples, times, measure)
    if other.values != first.values:
        raise InputError(f"{then_samples}: expected {first.values} values of an answer as before, found {other.values}")
    then = other.draw(back - changed, seed)
    parts = first[slice(0, changed)], then, first[slice(back, None)]
    log = log_of(
        Samples(
            np.concatenate([part.confidences[:, : part.exits - 1] for part in parts]),
            np.concatenate([part.correct for part in parts]),
        )
    )
    hardware, stage_s = [], times.array()[..., : plan.batch + 1]
    if then_times is not None:
        assert from_s is not None
        changed_times = read_table(InferenceTime, then_times)
        if (changed_times.candidates, changed_times.b_max >= plan.batch) != (times.candidates, True):
            raise InputError(
                f"{then_times}: expected times at the {len(times.candidates)} candidates of {times.network} up to a "
                f"batch of {plan.batch}, found {len(changed_times.candidates)} of {changed_times.network} up "
                f"to {changed_times.b_max}"
            )
        hardware.append(Hardware(from_s, changed_times.array()[..., : plan.batch + 1]))
        if until_s is not None:
            hardware.append(Hardware(until_s, stage_s))
    counts = log.counts.tolist()
    exits = Exits(
        tuple(item.place for item in plan.exits),
        tuple(measure.to_array(item.confidence) for item in plan.exits),
        tuple(counts.index(item.count) for item in plan.exits),
    )
    served = adapt(
        log, trace.arrival_s, stage_s, goal_of(plan), exits, log_of(logged), scheduler,
        window=window, slo_s=objectives(slo_s, len(trace), seed), hardware=hardware, load=table.load,
        wake_up_s=table.wake_up_s or 0.0,
    )  # fmt: skip
    return AdaptationResult(plan, times.candidates, served, log, served.observe(log), trace.arrival_s)


def _fitting(path: AnyPath, times: InferenceTime, measure: Measure) -> Samples:
    """Samples with answers at every candidate and at the end."""
    found = read_samples(path)
    if found.exits != len(times.candidates) + 1:
        raise InputError(
            f"{path}: expected answers at {len(times.candidates) + 1} exits, the candidates of {times.network} and its "
            f"end, found {found.exits}"
        )
    if found.measure is not measure:
        raise InputError(f"{path}: expected {measure.name}, by which the plan was chosen, found {found.measure.name}")
    return found
