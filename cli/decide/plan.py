"""``fluidb plan``: which board, NPU, exits, thresholds and policy serve the traffic within the limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..design.problem import NetworkName, Space
from ..names import PLATFORM, named, offering
from ..options import (
    POLICY_NAMES,
    AsJson,
    Cluster,
    OptionalTrace,
    PictureOptions,
    Samples,
    Slo,
    Threads,
    ThresholdsTried,
    argument,
    names,
    objective,
    objective_record,
    option,
    tried_thresholds,
    written,
)
from ..render import facts, fail, percent, progress, quantity, show, table

if TYPE_CHECKING:
    from ...models import Network
    from ...models.schema import NetworkFile
    from ...studies.estimates import Estimate
    from ...studies.plan.problem import PlanProblem
    from ...studies.plan.runs import FreshFigures
    from ...studies.plan.search import Plan, Plans
    from ...studies.plan.sources import Source
    from ...studies.plan.steps import PlanStep
    from ...traffic.samples import Samples as Answers

DEFAULT_POLICIES = ("serial", "adaptb", "fluid", "fluid-slack")
"""Policies that need nothing beside the table and the traffic."""

_PLATFORMS = "Boards or devices, with commas between: names, TOML files, or folders of latency tables."
_POLICIES = f"As in serve-sim; {', '.join(DEFAULT_POLICIES)} if not given. Repeatable."


def command(
    network: NetworkName,
    platforms: Annotated[str, argument(_PLATFORMS, "PLATFORM[,DIR,...]", **named(PLATFORM))],
    require: Annotated[list[str], option("What must hold, e.g. 'violation_rate <= 1 %'. Repeatable.", "REQUIREMENT")],
    rate: Annotated[
        str | None, option("Poisson arrivals, in requests a second; max: the highest that a plan keeps.", "RATE|max")
    ] = None,
    trace: OptionalTrace = None,
    slo: Slo = None,
    samples: Samples = None,
    thresholds: ThresholdsTried = None,
    policy: Annotated[list[str] | None, option(_POLICIES, "NAME[:KEY=VALUE,...]", **offering(POLICY_NAMES))] = None,
    minimise: Annotated[
        Literal["dsps", "share", "energy"], option("DSPs, their share of the board's, or the energy of a request.")
    ] = "dsps",
    *,
    space: Space,
    seed: Annotated[int, option("Seed of the search; fresh runs have the seeds after it.")] = 0,
    seeds: Annotated[int, option("Fresh runs of each plan that is printed.", min=2, max=1000)] = 5,
    count: Annotated[int, option("Requests of a run with a rate.", min=100, max=10**7)] = 20_000,
    output: Annotated[Path | None, written("Write the cheapest plan with its design and tables here.")] = None,
    scheduler: Cluster = None,
    threads: Threads = None,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest board, NPU, exits and policy that keep requirements.

    Every design that fits a board, every subset of the exits with every threshold (of
    samples), and every policy is a plan. Proofs discard most of them; the others are
    simulated by rising cost. What is printed was simulated again on fresh seeds. Exit
    code 1 if no plan keeps the requirements (`fluidb docs plan`).
    """
    from ...models.loader import build_network
    from ...plots.plan import draw_plans
    from ...serving import parse_requirement
    from ...serving.scheduler import find_policy
    from ...studies.plan.problem import PlanTraffic, problem_of
    from ...studies.plan.record import check_plan_output, write_plan
    from ...studies.plan.search import find_highest_rate, find_plans
    from ...studies.plan.steps import steps_of
    from ...traffic.reading import read_trace
    from ...traffic.samples import read_samples

    if output is not None:
        check_plan_output(output, force=picture.force)
    picture.check([output])
    drawn = None if samples is None else read_samples(samples)
    file, path = _network(network, drawn)
    net = build_network(file, path)
    rate_per_s = None if rate is None else 1.0 if rate == "max" else _rate(rate)
    replayed = None if trace is None else read_trace(trace)
    asked = PlanTraffic(rate_per_s, replayed, count, objective(slo), drawn, seed, seeds)
    problem = problem_of(
        net,
        [item for name in names(platforms) or [] for item in _sources(net, file, path, name, space)],
        [find_policy(text) for text in policy or DEFAULT_POLICIES],
        [parse_requirement(text) for text in require],
        asked,
        tried_thresholds(thresholds),
    )
    if rate == "max":
        with progress("rates") as report:
            rate_per_s = find_highest_rate(problem, scheduler=scheduler, threads=threads, progress=report)
        if rate_per_s is None:
            fail(["no plan keeps the requirements at any rate; state a rate to see the nearest plan"])
            raise typer.Exit(1)
        problem = problem.at_rate(rate_per_s)
    with progress("designs") as report:
        found = find_plans(problem, minimise, scheduler=scheduler, threads=threads, progress=report)
    steps, wrote = [], output if found.front else None
    if found.front:
        steps = steps_of(problem, found.front[0])
        if output is not None:
            write_plan(output, problem, found.front[0], replace=picture.force)
        picture.write(lambda: draw_plans(found))
    stated = {"network": net.name, "platforms": [item.name for item in problem.sources], "rate_per_s": rate_per_s}
    record = stated | {"trace": trace, "samples": samples, **objective_record(slo)} | _record(found, steps)
    then = f"; next: fluidb serve-sim {output} --policy POLICY --trace FILE --slo 200ms"
    if as_json or found.front:
        pictures = [picture.plot] if found.front else []
        text = _text(found, steps)
        show(as_json, "fluidb.plan-output/1", record | {"output": wrote}, text, wrote, then, pictures)
    if not found.front:
        fail([_miss(found)])
        raise typer.Exit(1)


def _rate(text: str) -> float:
    from ...formats import InputError, read_number

    try:
        found = read_number(text)
    except ValueError:
        found = 0.0
    if not 1e-6 <= found <= 1e9:
        raise InputError(f'rate: expected requests a second, or max, found "{text}"; write e.g. 15')
    return found


def _network(name: str, samples: Answers | None) -> tuple[NetworkFile, Path]:
    """The file of the network; with an exit at each of its candidates if the samples answer there."""
    from ...models.candidates import find_candidates, with_exits
    from ...models.loader import read_network_file

    file, path = read_network_file(name)
    if samples is not None and file.candidates and samples.exits == len(find_candidates(file, path)) + 1:
        file = with_exits(file, path)
    return file, path


def _sources(network: Network, file: NetworkFile, path: Path, name: str, space: Space) -> list[Source]:
    """The hardware of a name: every design of a board, a device, devices of a cluster, or the table in a folder."""
    from ...dse.device.tabulate import tabulate_file
    from ...dse.partition.study import study
    from ...dse.partition.tabulate import tabulate_latency
    from ...formats import InputError
    from ...models.rows import cut_into_rows
    from ...platforms import Board, Cluster, Device, Platform, load_platform
    from ...studies.plan.sources import BoardSource, TableSource
    from ...tables.latency import read_latency
    from ...tables.partition import PartitionOptions

    if Path(name).is_dir():
        return [TableSource(name, read_latency(name))]
    found = load_platform(name, kind=Platform)
    if isinstance(found, Board):
        return [BoardSource(*space.read(network, name))]
    if isinstance(found, Device):
        return [TableSource(name, tabulate_file(file, path, found))]
    if isinstance(found, Cluster):
        rows, last = cut_into_rows(file, path), len(found.devices)
        each = study(rows, found, PartitionOptions(), range(1, last + 1), left_out=lambda _count, _fault: None)
        return [
            TableSource(
                f"{name}: {len(item.every.devices)} of {last} devices", tabulate_latency(item.every), item.every
            )
            for item in each
        ]
    raise InputError(
        f"{name}: expected a board, a device or a cluster, found {found.kind}; search it with `dse -o DIR` and name DIR"
    )


def _record(found: Plans, steps: Sequence[PlanStep]) -> dict[str, Any]:
    """The answer as JSON, without what was asked."""
    from ...studies.plan.record import figures_record, plan_record

    problem = found.problem
    return {
        "requirements": [item.text for item in problem.requirements],
        "policies": [item.spec for item in problem.policies],
        "minimised": found.minimised,
        "counts": found.counts,
        "refuted": found.refuted,
        "least_cost": found.least_cost,
        "front": [plan_record(problem, item) for item in found.front],
        "steps": [{"change": item.change, **figures_record(problem, item.fresh)} for item in steps],
        "nearest": found.nearest and plan_record(problem, found.nearest),
    }


def _text(found: Plans, steps: Sequence[PlanStep]) -> Iterator[str]:
    from ...serving.figures import FIGURES

    problem, best, figures = found.problem, found.front[0], _figures(found)
    yield facts(_about(problem, best, steps) | {"searched": _searched(found)})
    rows = [(*_where(problem, item), *_shown(figures, item.fresh)) for item in found.front]
    headings = [FIGURES[name].heading for name in figures]
    yield table(["DSPs", "hardware", "exits", "policy", *headings], rows)
    changes = [(item.change, _kept(item.fresh), *_shown(figures, item.fresh)) for item in steps]
    yield table(["the cheapest plan with", "", *headings], changes)


def _about(problem: PlanProblem, plan: Plan, steps: Sequence[PlanStep]) -> dict[str, str | None]:
    """The recommended plan, and the requirement that fails first if there is less of anything."""
    item = plan.candidate
    source, setting = problem.sources[item.source], problem.settings[item.setting]
    design = None
    if source.tiles:
        taken = f"{source.dsps[item.row]:,} DSPs, {percent(float(source.share[item.row]), 1)} of the board's"
        design = f"<T_R,T_P,T_C> = {source.tiles[item.row]}: {taken}"
    needs = source.needs(item.row)
    logic = (
        needs
        and needs.luts
        and (
            f"{needs.total_luts:,} LUTs, {percent(needs.lut_share, 1)}; "
            f"{needs.total_flip_flops:,} flip-flops, {percent(needs.flip_flop_share, 1)}"
        )
    )
    failed = [step.fresh.verdicts.index(False) for step in steps if False in step.fresh.verdicts]
    first = problem.requirements[failed[0]] if failed else None
    return {
        "rate": None if problem.traffic.rate_per_s is None else f"{problem.traffic.rate_per_s:.4g} /s",
        "hardware": source.name,
        "design": design,
        "its logic": logic or None,
        "exits": setting.text(problem.network.exits),
        "policy": problem.policies[item.policy].spec,
        "binds": None if first is None else f"{first.text}: {_interval(first.unit, plan.fresh.figures[first.name])}",
    }


def _interval(unit: str, found: Estimate) -> str:
    if found.low is None or found.high is None:
        return quantity(found.mean, unit)
    return f"{quantity(found.mean, unit)}, {quantity(found.low, unit)} to {quantity(found.high, unit)} at 95 %"


def _where(problem: PlanProblem, plan: Plan) -> tuple[str, str, str, str]:
    item = plan.candidate
    source, setting = problem.sources[item.source], problem.settings[item.setting]
    design = f" {source.tiles[item.row]}" if source.tiles else ""
    dsps = f"{source.dsps[item.row]:,}" if source.tiles else ""
    return dsps, source.name + design, setting.text(problem.network.exits), problem.policies[item.policy].spec


def _figures(found: Plans) -> list[str]:
    """The figures of the tables: the usual ones, what is minimised, and those that are required."""
    known = ["accuracy"] if found.problem.traffic.samples is not None else []
    known += ["energy"] if found.minimised == "energy" else []
    return list(dict.fromkeys([*known, "p99", "violation_rate", *(item.name for item in found.problem.requirements)]))


def _shown(figures: Sequence[str], fresh: FreshFigures) -> list[str]:
    from ...serving.figures import FIGURES

    found = fresh.figures
    return [quantity(found[name].mean, FIGURES[name].unit) if name in found else "-" for name in figures]


def _kept(fresh: FreshFigures) -> str:
    return "kept" if fresh.kept else "not kept" if False in fresh.verdicts else "undecided"


def _searched(found: Plans) -> str:
    counts = found.counts
    parts = [f"{counts['all']:,} plans"]
    parts += [f"{number:,} {_RULES[name]}" for name, number in counts.items() if name in _RULES and number]
    again = f"; {found.refuted:,} that kept the requirements did not on fresh seeds" if found.refuted else ""
    return ", ".join(parts) + again


_RULES = {
    "accuracy": "not accurate enough",
    "latency of one sample": "too slow for one sample",
    "utilisation": "too slow for the rate",
    "no policy can save it": "that no policy can save",
    "cost": "dearer",
    "simulated in part": "simulated until they failed",
    "simulated": "simulated whole",
}


def _miss(found: Plans) -> str:
    """The line that says which requirement no plan keeps, and how far off the nearest is."""
    problem, plan = found.problem, found.nearest
    assert plan is not None
    broken = [item for item, kept in zip(problem.requirements, plan.fresh.verdicts, strict=True) if kept is not True]
    item = broken[0]
    found_ = plan.fresh.figures.get(item.name)
    value = "not known" if found_ is None else _interval(item.unit, found_)
    _, hardware, exits, policy = _where(problem, plan)
    return (
        f'no plan keeps "{item.text}"; the nearest has {value}: {hardware}, exits {exits}, policy {policy}; '
        f"{_searched(found)}"
    )
