"""``fluidb plan``: which board, NPU, exits, thresholds and policy serve the traffic within the limits."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..design.problem import Space
from ..interrupt import resumable
from ..names import NETWORK, PLATFORM, named, offering
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
    flag,
    objective_record,
    option,
    written,
)
from ..render import fail, progress, show

_NETWORK = "A network or a SuperNet: a name from `fluidb models`, or a TOML file; or the file of a scenario."
_PLATFORMS = "Boards, devices, accelerators or clusters, with commas between: names, TOML files, or folders of tables."
_POLICIES = "As in serve-sim, with alternatives: adaptb:timeout=S|M|L; the usual ones if not given. Repeatable."


def command(
    ctx: typer.Context,
    network: Annotated[str, argument(_NETWORK, "NETWORK|SCENARIO", **named(NETWORK))],
    platforms: Annotated[str | None, argument(_PLATFORMS, "PLATFORM[,DIR,...]", **named(PLATFORM))] = None,
    require: Annotated[
        list[str] | None, option("What must hold, e.g. 'violation_rate <= 1 %'. Repeatable.", "REQUIREMENT")
    ] = None,
    rate: Annotated[
        str | None,
        option("Poisson arrivals in requests a second, one or more rates; max finds the highest.", "RATE,...|max"),
    ] = None,
    trace: OptionalTrace = None,
    slo: Slo = None,
    samples: Samples = None,
    thresholds: ThresholdsTried = None,
    policy: Annotated[list[str] | None, option(_POLICIES, "NAME[:KEY=VALUE,...]", **offering(POLICY_NAMES))] = None,
    minimise: Annotated[
        Literal["dsps", "share", "energy"], option("DSPs, their share of the board's, or the energy of a request.")
    ] = "dsps",
    over_p99: Annotated[
        bool, flag("Also show dearer plans with a lower 99th percentile, not only a higher accuracy.", "--over-p99")
    ] = False,
    *,
    space: Space,
    seed: Annotated[int, option("Seed of the search; fresh runs have the seeds after it.")] = 0,
    seeds: Annotated[int, option("Fresh runs of each plan that is printed.", min=2, max=1000)] = 5,
    count: Annotated[int, option("Requests of a run with a rate.", min=100, max=10**7)] = 20_000,
    output: Annotated[Path | None, written("Write the cheapest plan with its design and tables here.")] = None,
    runs: Annotated[Path | None, option("Keep finished simulations here, and continue from them.", "FILE")] = None,
    scheduler: Cluster = None,
    threads: Threads = None,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest board, NPU, exits and policy that keep requirements.

    A plan has a design that fits a board, some of the exits, their threshold, a SubNet and a
    policy. All plans count: proofs discard most of them, and the others are simulated in
    the order of their cost. The printed figures come from fresh seeds. Exit code 1 if no
    plan keeps the requirements (`fluidb docs plan`).
    """
    from ...plots.plan import draw_plans
    from ...studies.plan.kept import kept_races
    from ...studies.plan.rates import find_at_rates, find_highest_rate
    from ...studies.plan.record import check_plan_output, write_plan
    from ...studies.plan.steps import steps_of
    from .plan_answer import answer_record, answer_text, miss
    from .plan_scenario import asked, problem_of

    if output is not None:
        check_plan_output(output, force=picture.force)
    picture.check([output, runs])
    given = {
        "require": require, "rate": rate, "trace": trace, "slo": slo, "samples": samples, "thresholds": thresholds,
        "policy": policy, "minimise": minimise, "over_p99": over_p99, "seed": seed, "seeds": seeds, "count": count,
    }  # fmt: skip
    scenario = asked(ctx, network, platforms, space, given)
    problem = problem_of(scenario)
    with resumable(runs, "simulations"), nullcontext() if runs is None else kept_races(runs) as kept:
        rates_per_s = scenario.rates_per_s
        if scenario.rate == "max":
            with progress("rates") as report:
                highest = find_highest_rate(problem, kept=kept, scheduler=scheduler, threads=threads, progress=report)
            if highest is None:
                fail(["no plan keeps the requirements at any rate; state a rate to see the nearest plan"])
                raise typer.Exit(1)
            rates_per_s = [highest]
        with progress("designs") as report:
            found = find_at_rates(
                problem,
                rates_per_s,
                scenario.minimise,
                over_p99=scenario.over_p99,
                kept=kept,
                scheduler=scheduler,
                threads=threads,
                progress=report,
            )
    steps, wrote = [], output if found.front else None
    if found.front:
        best = found.front[0]
        steps = steps_of(best.found.problem, best.plan)
        if output is not None:
            write_plan(output, best.found.problem, best.plan, replace=picture.force)
        picture.write(lambda: draw_plans(found))
    record = {
        "network": problem.network.name,
        "platforms": [item.name for item in problem.sources],
        "trace": scenario.trace,
        "samples": scenario.samples,
        **objective_record(scenario.slo),
        **answer_record(found, steps),
        "output": wrote,
    }
    then = f"; next: fluidb serve-sim {output} --policy POLICY --trace FILE --slo 200ms"
    if as_json or found.front:
        pictures = [picture.plot] if found.front else []
        show(as_json, "fluidb.plan-output/2", record, answer_text(found, steps), wrote, then, pictures)
    missed = [item for item in found.searches if not item.front]
    if missed:
        fail([miss(item) for item in missed])
    if not found.front:
        raise typer.Exit(1)
