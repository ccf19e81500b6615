"""``fluidb plan`` of a file of networks: which of some designs serves them, and under which policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..options import typed
from ..render import facts, fail, progress, quantity, show, table
from .plan_scenario import Question

if TYPE_CHECKING:
    from ...serving.requirements import Requirement
    from ...studies.plan.served import ServedAnswer, ServedPlan

TAKEN = {"network", "platforms", "require", "rate", "trace", "slo", "policy", "seed", "seeds", "count", "threads",
         "as_json"}  # fmt: skip
"""Parameters that a plan of several networks takes."""


def plan_networks(
    ctx: typer.Context, file: Path, folders: str | None, question: Question, threads: int | None, *, as_json: bool
) -> None:
    """Find the cheapest design and a policy that serve the networks of a file."""
    from ...formats import InputError
    from ...serving import parse_requirement
    from ...serving.networks import named_in
    from ...studies.plan.served import ServedTraffic, plan_served
    from ...traffic.request_columns import parse_slo

    if others := [option for name, option in typed(ctx).items() if name not in TAKEN]:
        raise InputError(f"{others[0]}: expected it with one network, found a file of networks; leave it out")
    if not folders or not question.require:
        key = "platforms" if not folders else "require"
        raise InputError(f"{key}: expected at least one, found none; state it")
    required = [parse_requirement(text, networks=named_in(file)) for text in question.require]
    traffic = ServedTraffic(
        trace=question.trace, rate_per_s=None if question.rate is None else _rate(question.rate), count=question.count,
        slo_s=None if question.slo is None else parse_slo(question.slo), seed=question.seed, seeds=question.seeds,
    )  # fmt: skip
    hardware = [name.strip() for name in folders.split(",")]
    with progress("plans") as report:
        answer = plan_served(file, hardware, required, question.policy or (), traffic, threads=threads, progress=report)
    if as_json or answer.best is not None:
        record = {"networks": file, "requirements": [requirement.text for requirement in required]}
        record |= {"best": None if answer.best is None else _record(answer.best), "left": answer.left}
        record |= {"plans": [_record(plan) for plan in answer.plans]}
        show(as_json, "fluidb.plan-networks-output/1", record, _text(answer, required), None)
    if answer.best is None:
        nearest = next((plan for plan in answer.plans if plan.kept is None), answer.plans[0])
        place = nearest.verdicts.index(None if nearest.kept is None else False)
        figure, requirement = nearest.figures[place], required[place]
        mean = "infinite" if figure is None else quantity(figure.mean, requirement.unit)
        what = "undecided" if nearest.kept is None else "not kept"
        nearby = f"{nearest.policy} on {nearest.hardware}"
        fail([f'no plan surely keeps the requirements; with {nearby} "{requirement.text}" is {what}: {mean}'])
        raise typer.Exit(1)


def _rate(text: str) -> float:
    """The rate of all requests together."""
    from ...formats import InputError, read_number

    try:
        rate = read_number(text)
    except ValueError:
        rate = 0.0
    if not 1e-6 <= rate <= 1e9:
        raise InputError(f'rate: expected requests a second of all networks together, found "{text}"; write e.g. 15')
    return rate


def _record(plan: ServedPlan) -> dict[str, Any]:
    figures = [None if figure is None else figure.model_dump(mode="json") for figure in plan.figures]
    return asdict(plan) | {"figures": figures, "kept": plan.kept}


def _text(answer: ServedAnswer, required: Sequence[Requirement]) -> Iterator[str]:
    assert answer.best is not None
    best = answer.best
    yield facts({
        "hardware": best.hardware,
        "multipliers": None if best.multipliers is None else f"{best.multipliers:,}",
        "policy": best.policy,
        "searched": f"{len(answer.plans):,} plans simulated, {answer.left:,} on dearer hardware left out",
    })  # fmt: skip
    rows = [
        (
            plan.hardware, "" if plan.multipliers is None else f"{plan.multipliers:,}", plan.policy,
            *("infinite" if figure is None else quantity(figure.mean, requirement.unit)
              for figure, requirement in zip(plan.figures, required, strict=True)),
            {True: "kept", None: "undecided", False: "not kept"}[plan.kept],
        )
        for plan in answer.plans
    ]  # fmt: skip
    yield table(["hardware", "multipliers", "policy", *(requirement.text for requirement in required), ""], rows)
