"""A plan of exits served while the load or the hardware changes (PAME, Section 7.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..dse.exits.tabulate import goal_of
from ..formats import AnyPath, InputError, read_table
from ..rules.exit_log import Log, log_of
from ..serving.adaptation import AdaptiveRun, DeviceTimes, Hardware, Observation, PlannedExits, adapt
from ..serving.inputs import AnyPolicy, Requests, as_scheduler
from ..serving.judgement import Exits
from ..serving.policies import POLICIES
from ..serving.scheduler import Scheduler
from ..tables.exit_plan import TIMES_FILE, ExitPlan, InferenceTime, read_plan
from ..tables.latency import LatencyTable, read_latency
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


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadChange:
    """A change of the load or the hardware during a run.

    Attributes
    ----------
    from_s : float
        When it comes.
    until_s : float, optional
        When all is again as it was.
    samples : str or Path, optional
        From then on, requests draw from these samples.
    times : str or Path, optional
        From then on, the hardware takes these inference times.

    Raises
    ------
    InputError
        If it ends before it begins, or nothing changes.
    """

    from_s: float = math.inf
    until_s: float | None = None
    samples: AnyPath | None = None
    times: AnyPath | None = None

    def __post_init__(self) -> None:
        if self.until_s is not None and not self.until_s > self.from_s:
            raise InputError(f"until: expected a time after the time of from, found {self.until_s:g} s")
        if math.isinf(self.from_s) or (self.samples is None and self.times is None):
            raise InputError(
                "from: expected a time, and samples or inference times that hold from then on, found only one of them"
            )


def serve_adaptively(
    folder: AnyPath, requests: Requests, policy: AnyPolicy, *, window: int = 100, change: LoadChange | None = None
) -> AdaptationResult:
    """Serve requests, which draw from the log of a plan, and let exits and thresholds follow.

    Parameters
    ----------
    folder : str or Path
        The plan of exits.
    requests : Requests
        The requests, with the log that the plan was chosen by as their samples.
    policy : Scheduler or str
        PAME, with its parameters.
    window : int
        Fewest batches that exits are chosen from; 0 adapts nothing.
    change : LoadChange, optional
        What changes during the run.

    Returns
    -------
    AdaptationResult
        Every request, and every change of exits.

    Raises
    ------
    InputError
        If an input cannot be read or does not fit the plan.
    """
    plan, table = read_plan(folder), read_latency(folder)
    scheduler = _checked(as_scheduler(policy), plan, table)
    times, measure, trace = read_table(InferenceTime, Path(folder, TIMES_FILE)), MEASURES[plan.measure], requests.read()
    if requests.samples is None:
        raise InputError("samples: expected the log by which the plan was chosen, found none")
    logged = _fitting(requests.samples, times, measure)
    log = log_of(_drawn(logged, trace, requests.seed, change, lambda path: _fitting(path, times, measure)))
    stage_s, counts = times.array()[..., : plan.batch + 1], log.counts.tolist()
    exits = Exits(
        tuple(exit_.place for exit_ in plan.exits),
        tuple(measure.to_array(exit_.confidence) for exit_ in plan.exits),
        tuple(counts.index(exit_.count) for exit_ in plan.exits),
    )
    served = adapt(
        log, trace.arrival_s, PlannedExits(exits, goal_of(plan), log_of(logged)),
        DeviceTimes(stage_s, table.load, table.wake_up_s or 0.0, _hardware(change, plan, times)), scheduler,
        window=window, slo_s=objectives(requests.slo_s, len(trace), requests.seed),
    )  # fmt: skip
    return AdaptationResult(plan, times.candidates, served, log, served.observe(log), trace.arrival_s)


def _checked(scheduler: Scheduler, plan: ExitPlan, table: LatencyTable) -> Scheduler:
    """The policy, which must be PAME as the plan has it."""
    if scheduler.policy is not POLICIES["pame"]:
        raise InputError(f"policy: expected pame, whose exits are adapted, found {scheduler.spec}")
    for name in ("on_deadline", "admit", "together"):
        if getattr(scheduler, name):
            raise InputError(
                f"policy: {name}: expected none where exits are adapted, as every request is served up to its exit, "
                "found some; leave it out"
            )
    if table.host is not None:
        raise InputError(
            f"host: expected none of {table.platform} where exits are adapted, found some; leave it out of the device"
        )
    if scheduler.lanes > table.lanes:
        raise InputError(f"policy: lanes: expected at most {table.lanes} on {table.platform}, found {scheduler.lanes}")
    if scheduler.b_max not in (None, plan.batch):
        raise InputError(
            f"policy: b_max: expected {plan.batch}, the batch that the exits were chosen for, found "
            f"{scheduler.b_max}; leave it out, or choose exits for it with `fluidb exits --batch {scheduler.b_max}`"
        )
    return scheduler


def _drawn(
    logged: Samples, trace: Trace, seed: int, change: LoadChange | None, read: Callable[[AnyPath], Samples]
) -> Samples:
    """The answers that each request draws: from the log, and during a change from its samples."""
    first = logged.draw(len(trace), seed)
    if change is None:
        return first
    ends_s = change.from_s, math.inf if change.until_s is None else change.until_s
    changed, back = np.searchsorted(trace.arrival_s, ends_s)
    other = logged if change.samples is None else read(change.samples)
    if other.values != first.values:
        raise InputError(
            f"{change.samples}: expected {first.values} values of an answer as before, found {other.values}"
        )
    parts = first[slice(0, changed)], other.draw(back - changed, seed), first[slice(back, None)]
    return Samples(
        np.concatenate([part.confidences[:, : part.exits - 1] for part in parts]),
        np.concatenate([part.correct for part in parts]),
    )


def _hardware(change: LoadChange | None, plan: ExitPlan, times: InferenceTime) -> list[Hardware]:
    """The hardware of a change, and after it the hardware of the plan again."""
    if change is None or change.times is None:
        return []
    changed = read_table(InferenceTime, change.times)
    if (changed.candidates, changed.b_max >= plan.batch) != (times.candidates, True):
        raise InputError(
            f"{change.times}: expected times at the {len(times.candidates)} candidates of {times.network} up to a "
            f"batch of {plan.batch}, found {len(changed.candidates)} of {changed.network} up to {changed.b_max}"
        )
    hardware = [Hardware(change.from_s, changed.array()[..., : plan.batch + 1])]
    if change.until_s is not None:
        hardware.append(Hardware(change.until_s, times.array()[..., : plan.batch + 1]))
    return hardware


def _fitting(path: AnyPath, times: InferenceTime, measure: Measure) -> Samples:
    """Samples with answers at every candidate and at the end."""
    samples = read_samples(path)
    if samples.exits != len(times.candidates) + 1:
        raise InputError(
            f"{path}: expected answers at {len(times.candidates) + 1} exits, the candidates of {times.network} and its "
            f"end, found {samples.exits}"
        )
    if samples.measure is not measure:
        raise InputError(f"{path}: expected {measure.name}, by which the plan was chosen, found {samples.measure.name}")
    return samples
