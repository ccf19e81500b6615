"""What `fluidb plan` is asked, by the file of a scenario or by options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..options import tried_thresholds, typed

if TYPE_CHECKING:
    from ...dse.npu.stated import DesignOptions
    from ...studies.plan.scenario import PlanScenario
    from .plan import Question

BESIDE_SCENARIO = {"network", "runs", "output", "plot", "force", "as_json", "threads", "scheduler"}
"""Parameters that may stand beside a scenario."""


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
                f"{others[0]}: expected it in {network}, which states the question, found it beside; move it"
            )
        return read_plan_scenario(network)
    stated = {key: value for key, value in vars(question).items() if value is not None and value != []}
    for key, value in (("platforms", platforms), ("require", stated.get("require"))):
        if not value:
            what = "expected at least one, found none; state it, or name a scenario in place of the network"
            raise InputError(f"{key}: {what}")
    assert platforms is not None
    stated |= {key: str(stated[key]) for key in ("trace", "samples") if key in stated}
    if "rate" in stated:
        stated["rate"] = _rates(stated["rate"])
    if "thresholds" in stated:
        stated["thresholds"] = list(tried_thresholds(stated["thresholds"]) or ())
    named = [name.strip() for name in platforms.split(",")]
    content = {"schema": SCHEMA, "network": network, "platforms": named, "space": vars(designs), **stated}
    return validate(PlanScenario, content, Path("options"))


def _rates(text: str) -> list[float] | str:
    """The rates that were typed, or ``max``."""
    from ...formats import InputError, read_number

    if text == "max":
        return text
    try:
        found = [read_number(item) for item in text.split(",")]
    except ValueError:
        found = [0.0]
    if not all(1e-6 <= item <= 1e9 for item in found):
        raise InputError(f'rate: expected requests a second, or max, found "{text}"; write e.g. 15 or 15,30')
    return found
