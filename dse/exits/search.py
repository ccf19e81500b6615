"""Choice of the exits of a network for a device, a load and a precision, as a plan (PAME, Section 6)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...formats import AnyPath, InputError, OwnFolder, is_folder, read_table, table_text
from ...formats.array_types import Floats
from ...models.candidates import find_candidates, with_exits
from ...models.loader import build_network
from ...models.schema import NetworkFile
from ...models.writer import network_text
from ...platforms import Device, load_platform
from ...rules.exit_choice import ChoiceStep, ExitChoice, choose_exits
from ...rules.exit_log import Log, log_of
from ...rules.exit_thresholds import ExitGoal
from ...rules.exit_times import replay_exits
from ...tables.exit_plan import (
    NETWORK_FILE,
    PATTERN_FILE,
    PLAN_FILES,
    SAMPLES_FILE,
    TIMES_FILE,
    BatchingPattern,
    ExitPlan,
    InferenceTime,
    PlanFigures,
    PlannedExit,
)
from ...tables.files import EXITS_FILE, LATENCY_FILE
from ...tables.latency import LatencyTable, read_latency
from ...traffic.measures import Measure
from ...traffic.samples import Samples, samples_bytes
from ..device.tabulate import tabulate_file
from .measured_times import read_measured_times
from .stage_times import keep_exits
from .tabulate import ASKED, expected_of, table_of_times, tabulate_pattern, tabulate_step, tabulate_times

EXITS_FOLDER = OwnFolder("a plan of exits", EXITS_FILE, PLAN_FILES)


class PlanResult(NamedTuple):
    """A plan with all that belongs to it."""

    plan: ExitPlan
    times: InferenceTime
    pattern: BatchingPattern
    network: NetworkFile  # with the exits
    latency: LatencyTable  # of that network, on the same hardware
    samples: Samples  # the half of the log that did not choose, at the chosen exits
    log: Log  # the half that chose
    unguarded: PlanFigures | None  # expected without the guard; None if there is no guard, or no exit without it


def times_of(file: NetworkFile, path: AnyPath, target: str) -> LatencyTable | InferenceTime:
    """The latency table of a network with an exit at each of its candidates, or times of all its possible stages."""
    place = Path(target)
    if is_folder(place):
        return read_latency(place)
    if place.suffix == ".csv":
        return read_measured_times(place, file.name, [candidate.after for candidate in find_candidates(file, path)])
    if place.suffix == ".json":
        return read_table(InferenceTime, place)
    device = load_platform(target, kind=Device)
    return tabulate_file(with_exits(file, path), path, device)


def plan_exits(
    file: NetworkFile, path: AnyPath, given: LatencyTable | InferenceTime, samples: Samples, goal: ExitGoal
) -> PlanResult:
    """Choose the exits of a network. The first half of the log chooses, the second half checks (Section 7.1)."""
    every = with_exits(file, path)
    names = [exit_.after for exit_ in every.exits]
    table = given if isinstance(given, LatencyTable) else table_of_times(given, file.layers[-1].name)
    _check(names, table, samples, goal)
    measure = samples.measure
    goal = replace(goal, thresholds=tuple(sorted(set(map(measure.to_array, goal.thresholds)))))
    half = len(samples) // 2
    log = log_of(samples[slice(0, half)])
    if isinstance(given, LatencyTable):
        times = tabulate_times(file.name, table, build_network(every, path))
    else:
        times = given.model_copy(update={"network": file.name, "inputs": {}})
    stage_s = times.array()
    choice = choose_exits(log, stage_s, goal)
    if not choice.exits:
        bridged = {exit_.after for exit_ in every.exits if any(op.bridge for op in exit_.layers or ())}
        raise InputError(_nearest_miss(choice.steps[0], names, goal, measure, bridged))
    rest = samples[slice(half, None)]
    expected = replay_exits(log, stage_s, goal.batch, choice.exits, choice.settings)
    checked = replay_exits(log_of(rest), stage_s, goal.batch, choice.exits, choice.settings)
    rates = expected.exit_shares.tolist()
    exits = _planned_exits(log, choice, names, measure, rates)
    network = with_exits(file, path, [exit_.after for exit_ in exits], rates[:-1])
    pattern = tabulate_pattern(file.name, names, goal, log, choice, measure)
    plan = ExitPlan(
        network=file.name,
        platform=table.platform,
        **{name: getattr(goal, name) for name in ASKED},
        measure=measure.name,
        confidences=[measure.to_file(value) for value in goal.thresholds],
        exits=exits,
        samples_chosen=half,
        samples_checked=len(rest),
        expected=expected_of(expected),
        checked=expected_of(checked),
        steps=[tabulate_step(step, names, log, measure) for step in choice.steps],
        ended=choice.ended,
    )
    plan = plan.derived_from(times, pattern)
    latency = keep_exits(table, network.name, choice.exits, rates, plan.service, stage_s)
    return PlanResult(
        plan=plan,
        times=times,
        pattern=pattern,
        network=network,
        latency=latency.derived_from(plan),
        samples=rest.at_exits(choice.exits, [exit_.count for exit_ in exits]),
        log=log,
        unguarded=None if goal.guard is None else _unguarded(log, stage_s, goal),
    )


def _planned_exits(
    log: Log, choice: ExitChoice, names: list[str], measure: Measure, rates: list[float]
) -> list[PlannedExit]:
    """The chosen exits with their thresholds; ``rates`` also has the share of the end."""
    return [
        PlannedExit(
            after=names[place - 1],
            place=place,
            confidence=measure.to_file(setting.threshold),
            count=int(log.counts[setting.column]),
            rate=rate,
        )
        for place, setting, rate in zip(choice.exits, choice.settings, rates, strict=False)
    ]


def _unguarded(log: Log, stage_s: Floats, goal: ExitGoal) -> PlanFigures | None:
    """Figures that are expected without the guard."""
    choice = choose_exits(log, stage_s, goal.unguarded)
    if not choice.exits:
        return None
    return expected_of(replay_exits(log, stage_s, goal.batch, choice.exits, choice.settings))


def _check(names: list[str], table: LatencyTable, samples: Samples, goal: ExitGoal) -> None:
    """Refuse inputs that do not fit each other, with a line for each fault."""
    faults, source = [], str(samples.source or "samples")
    timed = [exit_.name for exit_ in table.exits[:-1]]
    strange = [f"{value:g}" for value in goal.thresholds if not samples.measure.fits(value)]
    if strange or not goal.thresholds:
        faults.append(f"thresholds: expected {samples.measure.plural}, found {', '.join(strange) or 'none'}")
    if timed != names:
        faults.append(
            f"{table.platform}: expected times of the network with an exit at each of its {len(names)} candidates, "
            f"found times of {table.network} with {len(timed)} exits; write that network with `fluidb models exits`"
        )
    if table.exits[-1].steps > 1:
        faults.append(
            f"{table.network}: expected a network without steps, found up to {table.exits[-1].steps}; which layers "
            "repeat would depend on the exits"
        )
    if table.variants > 1:
        faults.append(
            f"{table.platform}: expected times of one variant, found {table.variants}: exits are chosen for one width"
        )
    if samples.exits != len(names) + 1:
        faults.append(
            f"{source}: expected answers at {len(names) + 1} exits, the {len(names)} candidates of the network and its "
            f"end, found {samples.exits}"
        )
    if not 1 <= goal.batch <= table.b_max:
        faults.append(f"batch: expected 1 to {table.b_max}, the largest batch of the table, found {goal.batch}")
    elif not 1 <= goal.width <= goal.batch:
        faults.append(f"width: expected 1 to the batch size, {goal.batch}, found {goal.width}")
    shares = {"precision": goal.precision} | ({"guard": goal.guard} if isinstance(goal.guard, float) else {})
    for name, share in shares.items():
        if not 0 < share <= 1:
            faults.append(f"{name}: expected more than 0 % and at most 100 %, found {100 * share:g} %")
    if goal.searched < goal.precision:
        faults.append(
            f"guard: expected at least the precision, {100 * goal.precision:g} %, found {100 * goal.searched:g} %"
        )
    faults += [
        f"{name}: expected 0 % to less than 100 %, found {100 * share:g} %"
        for name, share in (("slow", goal.slow), ("gain", goal.gain))
        if not 0 <= share < 1
    ]
    if len(samples) // 2 < goal.batch:
        faults.append(
            f"{source}: expected at least {2 * goal.batch:,} samples, as each half must hold a batch of {goal.batch}, "
            f"found {len(samples):,}"
        )
    elif not samples.correct[: len(samples) // 2, -1].any():
        faults.append(f"{source}: expected some right answers at the end of the network, found none in the first half")
    if faults:
        raise InputError(faults)


def _nearest_miss(
    step: ChoiceStep, names: list[str], goal: ExitGoal, measure: Measure, bridged: Collection[str]
) -> str:
    """The fault if no candidate is left: the reason of the one that came nearest."""
    slow = [verdict for verdict in step.verdicts if verdict.outcome == "slow"]
    if slow:
        nearest = min(slow, key=lambda verdict: verdict.slow_share or 0.0)
        after = names[nearest.candidate - 1]
        head = "; its bridge takes part of the time: a named head needs none (head of the candidates)"
        return (
            f"slow: no candidate is left; the nearest, after {after}, makes {nearest.slow_share:.2%} of the batches "
            f"slower than without exits, where at most {goal.slow:.2%} may be{head if after in bridged else ''}"
        )
    leaving = [verdict for verdict in step.verdicts if verdict.setting.exits]
    if not leaving:
        loosest = measure.to_file(goal.thresholds[0])
        return (
            f"thresholds: no candidate is left; no sample leaves at any of them with {measure.name} "
            f"{measure.reached} {loosest:g}; try a threshold that is easier to reach"
        )
    nearest = max(leaving, key=lambda verdict: verdict.setting.precision)
    guarded = "" if goal.guard is None else f" with the guard {goal.guard}"
    return (
        f"precision: no candidate is left; the nearest, after {names[nearest.candidate - 1]}, keeps "
        f"{nearest.setting.precision:.2%} of the precision, where more than {goal.precision:.2%} must be kept{guarded}"
    )


def write_plan(planned: PlanResult, folder: AnyPath, *, replace: bool = False) -> None:
    """Write a plan into a folder of its own, whole or not at all."""
    tables = {
        EXITS_FILE: planned.plan,
        TIMES_FILE: planned.times,
        PATTERN_FILE: planned.pattern,
        LATENCY_FILE: planned.latency,
    }
    files: dict[str, str | bytes] = {name: table_text(table) for name, table in tables.items()}
    files |= {NETWORK_FILE: network_text(planned.network), SAMPLES_FILE: samples_bytes(planned.samples)}
    EXITS_FOLDER.write(folder, files, replace=replace)
