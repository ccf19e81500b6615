"""A question of ``fluidb plan`` and its answer (``docs/plan.md``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...formats import AnyPath, InputError, validate
from ...serving import parse_requirement
from ...traffic.clients import Clients, parse_think
from ...traffic.reading import read_trace
from ...traffic.request_columns import parse_slo
from ...traffic.samples import read_samples
from .hardware import find_sources
from .kept import kept_races
from .networks import is_networks_file, networks_of_file, only_network
from .plan_traffic import PlanTraffic
from .policies import find_policies
from .problem import PlanProblem, problem_of
from .rates import PlanAnswer, find_at_rates, find_highest_rate, lowest_rate
from .record import PLAN_FOLDER, write_plan
from .scenario import SCHEMA, PlanScenario, read_plan_scenario
from .search import SearchRun
from .steps import steps_of


def plan(
    question: PlanScenario | Mapping[str, Any] | AnyPath,
    *,
    output: AnyPath | None = None,
    replace: bool = False,
    runs: AnyPath | None = None,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PlanAnswer:
    """Find the cheapest hardware, exits, thresholds and policy that keep requirements, and what more costs.

    Parameters
    ----------
    question : str or Path or mapping or PlanScenario
        The file of a scenario, whose paths start from its folder; or its keys, whose paths start from here.
    output : str or Path, optional
        Folder to write the cheapest plan to, with its design and tables, if there is one; not of a file of networks.
    replace : bool
        Whether an existing folder of a plan is replaced; else it is a fault.
    runs : str or Path, optional
        File that keeps finished simulations, for a search that goes on from them.
    scheduler : str, optional
        Address of a Dask scheduler, or ``local``; the answer does not depend on it.
    threads : int, optional
        Threads, by default all cores; the answer does not depend on their number.
    progress : callable, optional
        Called with what is done and all: rows of hardware, or rates if the highest one is asked for.

    Returns
    -------
    PlanAnswer
        The plans, cheapest first; none if no plan keeps the requirements. If none does at any rate, its search is at
        the lowest rate that is tried.

    Raises
    ------
    InputError
        If the question has faults; each has a line.
    """
    scenario = _scenario(question)
    PLAN_FOLDER.check(output, replace)
    problem, rates_per_s = _problem(scenario, output), scenario.rates_per_s
    with nullcontext() if runs is None else kept_races(runs) as kept:
        run = SearchRun(kept=kept, scheduler=scheduler, threads=threads, progress=progress)
        if scenario.rate == "max":
            highest = find_highest_rate(problem, run)
            rates_per_s = [lowest_rate(problem) if highest is None else highest]
            run = dataclasses.replace(run, progress=None)
        answer = find_at_rates(problem, rates_per_s, scenario.minimise, run, over_p99=scenario.over_p99)
    answer = answer._replace(notes=kept.notes if kept else ())
    if not answer.front:
        return answer
    best = answer.front[0]
    answer = answer._replace(steps=steps_of(best.search.problem, best.plan))
    if output is not None:
        write_plan(output, answer, replace=replace)
    return answer


def _scenario(question: PlanScenario | Mapping[str, Any] | AnyPath) -> PlanScenario:
    if isinstance(question, PlanScenario):
        return question
    if isinstance(question, Mapping):
        return validate(PlanScenario, {"schema": SCHEMA, **question}, Path("question"))
    return read_plan_scenario(question)


def _problem(scenario: PlanScenario, output: AnyPath | None) -> PlanProblem:
    """The problem of a scenario, at the first of its rates, checked before anything is simulated."""
    samples = None if scenario.samples is None else read_samples(scenario.samples)
    if scenario.think is not None and scenario.clients is None:
        raise InputError("think: expected clients beside it, who think, found none; state e.g. clients = 4")
    arrivals = PlanTraffic(
        rate_per_s=next(iter(scenario.rates_per_s), None if scenario.rate is None else 1.0),
        trace=None if scenario.trace is None else read_trace(scenario.trace),
        count=scenario.count,
        slo_s=None if scenario.slo is None else parse_slo(scenario.slo),
        seed=scenario.seed,
        seeds=scenario.seeds,
        clients=None if scenario.clients is None else Clients(scenario.clients, *parse_think(scenario.think or "0")),
    )
    if is_networks_file(scenario.network):
        _check_keys(scenario, output)
        asked = networks_of_file(scenario.network)
    else:
        asked = only_network(scenario.network, samples)
    required = [parse_requirement(text, networks=asked.names) for text in scenario.require]
    sources = find_sources(asked, scenario.platforms, scenario.designs)
    policies = find_policies(scenario.policy, asked.keys, sources)
    given, models = asked.on(sources)
    traffic = dataclasses.replace(arrivals, given=given, models=models)
    return problem_of(sources, policies, required, traffic, scenario.thresholds, asked.arrivals)


def _check_keys(scenario: PlanScenario, output: AnyPath | None) -> None:
    """Refuse beside a file of networks what only one network has."""
    for key, given, instead in (
        ("samples", scenario.samples, "state samples of a network in the file"),
        ("clients", scenario.clients, "state clients of a network in the file"),
        ("rate", scenario.rate if scenario.rate == "max" else None, "`fluidb capacity` finds the highest rate"),
        ("output", output, "leave it out, and write the design with `fluidb dse A,B BOARD --together`"),
    ):
        if given is not None:
            raise InputError(
                f"{key}: expected with one network only, found {given} beside a file of networks; {instead}"
            )
