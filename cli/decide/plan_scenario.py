"""What `fluidb plan` is asked, by the file of a scenario or by options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..declare import flag, option, typed
from ..names import offering, policy_names
from ..options import MUST_HOLD, SENT, ClientCount, OptionalTrace, Samples, Slo, Think, tried_thresholds

if TYPE_CHECKING:
    from ...dse.npu.stated import DesignOptions
    from ...studies.plan.scenario import PlanScenario
    from ...traffic.measures import Threshold

_POLICIES = "As in serve-sim, with alternatives: adaptb:timeout=S|M|L; the usual ones if not given. Repeatable."
_TRIED = "Thresholds to try, perhaps with never; LOW..HIGH tries ten; the usual ones and never if not given."

BESIDE_SCENARIO = {"network", "runs", "output", "plot", "force", "as_json", "threads", "scheduler"}
"""Parameters that may stand beside a scenario."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What must hold for which traffic, and what is tried: the keys of a scenario."""

    require: Annotated[list[str] | None, MUST_HOLD] = None
    rate: Annotated[
        str | None,
        option("Poisson arrivals in requests a second, one or more rates; max finds the highest.", "RATE,...|max"),
    ] = None
    trace: OptionalTrace = None
    clients: ClientCount = None
    think: Think = None
    slo: Slo = None
    samples: Samples = None
    thresholds: Annotated[str | None, option(_TRIED, "P,P,...|LOW..HIGH")] = None
    policy: Annotated[list[str] | None, option(_POLICIES, "NAME[:KEY=VALUE,...]", **offering(policy_names))] = None
    minimise: Annotated[
        Literal["dsps", "share", "energy"],
        option("What to minimise: DSPs, their share of the board's DSPs, or the energy of a request."),
    ] = "dsps"
    over_p99: Annotated[
        bool,
        flag("Also show dearer plans whose accuracy is no higher, but whose 99th percentile is lower.", "--over-p99"),
    ] = False
    seed: Annotated[int, option("Seed of the search; fresh runs have the seeds after it.")] = 0
    seeds: Annotated[int, option("Fresh runs of each plan that is printed.", min=2, max=1000)] = 5
    count: Annotated[int, option("Requests of a run, if a rate or clients are given.", min=100, max=10**7)] = SENT


def asked(
    ctx: typer.Context, network: str, platforms: str | None, designs: DesignOptions, question: Question
) -> PlanScenario:
    """The scenario of a file in the place of the network, or the one that options state."""
    from ...formats import InputError, validate
    from ...studies.plan.scenario import SCHEMA, PlanScenario, is_plan_scenario, read_plan_scenario

    if is_plan_scenario(network):
        others = [option for name, option in typed(ctx).items() if name not in BESIDE_SCENARIO]
        if others:
            raise InputError(
                f"{others[0]}: expected in {network}, which states the question, found as an option; move it there"
            )
        return read_plan_scenario(network)
    stated = {key: value for key, value in vars(question).items() if value is not None and value != []}
    for key, value, example in (
        ("platforms", platforms, "zc706"),
        ("require", stated.get("require"), "'violation_rate <= 1 %'"),
    ):
        if not value:
            or_file = "or name a scenario in place of the network"
            raise InputError(f"{key}: expected at least one, found none; state it, e.g. {example}, {or_file}")
    assert platforms is not None
    stated |= {key: str(stated[key]) for key in ("trace", "samples") if key in stated}
    if "rate" in stated:
        stated["rate"] = _rates(stated["rate"])
    if "thresholds" in stated:
        stated["thresholds"] = _thresholds(stated["thresholds"])
    named = [name.strip() for name in platforms.split(",")]
    content = {"schema": SCHEMA, "network": network, "platforms": named, "space": vars(designs), **stated}
    return validate(PlanScenario, content, Path("options"))


def _thresholds(text: str) -> list[Threshold]:
    """The thresholds that were typed, words last."""
    from ...traffic.measures import WORDS

    typed_ = [part.strip() for part in text.split(",")]
    words = [word for word in WORDS if word in typed_]
    numbers = ",".join(part for part in typed_ if part not in words)
    return [*((tried_thresholds(numbers) or ()) if numbers or not words else ()), *words]


def _rates(text: str) -> list[float] | str:
    """The rates that were typed, or ``max``."""
    from ...formats import InputError, read_number

    if text == "max":
        return text
    try:
        rates = [read_number(number) for number in text.split(",")]
    except ValueError:
        rates = [0.0]
    if not all(1e-6 <= rate <= 1e9 for rate in rates):
        raise InputError(f'rate: expected requests a second, or max, found "{text}"; write e.g. 15 or 15,30')
    return rates
