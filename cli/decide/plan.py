"""``fluidb plan``: which board, NPU, exits, thresholds and policy serve the traffic within the limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...dse.npu.stated import DesignOptions
from ...formats.display import as_word
from ..declare import argument, option, written
from ..interrupt import resumable
from ..names import NETWORK, PLATFORM, named
from ..options import AsJson, Cluster, PictureOptions, Threads
from ..render import fail, progress, show, warn
from .plan_scenario import Question, asked

_NETWORK = (
    "A network or a SuperNet: a name from `fluidb models`, or a TOML file; or the file of a scenario or of networks."
)
_PLATFORMS = "Boards, devices, accelerators or clusters, with commas between: names, TOML files, or folders of tables."


@dataclass(frozen=True, kw_only=True)
class PlanSearch:
    """Where the search writes and runs."""

    output: Annotated[Path | None, written("Write the cheapest plan with its design and tables here.")] = None
    runs: Annotated[Path | None, option("Keep finished simulations here, and continue from them.", "FILE")] = None
    scheduler: Cluster = None
    threads: Threads = None


def command(
    ctx: typer.Context,
    network: Annotated[str, argument(_NETWORK, "NETWORK|SCENARIO", **named(NETWORK))],
    platforms: Annotated[str | None, argument(_PLATFORMS, "PLATFORM[,DIR,...]", **named(PLATFORM))] = None,
    *,
    question: Question,
    designs: DesignOptions,
    search: PlanSearch,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest board, NPU, exits and policy that keep requirements.

    A plan has a design that fits a board, some of the exits, their threshold, a SubNet and a
    policy. All plans count: proofs discard most of them, and the others are simulated in
    the order of their cost. The printed figures come from fresh seeds. Exit code 1 if no
    plan surely keeps the requirements (`fluidb docs plan`). For a file of networks, one NPU, or
    one device, serves all of them, and each policy has every rule between them.
    """
    from ...plots.plan import draw_plans
    from ...studies.plan import ask
    from .plan_answer import answer_record, answer_text, miss

    output, runs = search.output, search.runs
    picture.check([output, runs])
    scenario = asked(ctx, network, platforms, designs, question)
    with resumable(runs, "simulations"), progress("rates" if scenario.rate == "max" else "designs") as report:
        answer = ask.plan(
            scenario, output=output, replace=picture.force, runs=runs, scheduler=search.scheduler,
            threads=search.threads, progress=report,
        )  # fmt: skip
    for text in answer.notes:
        warn(text)
    if answer.front:
        picture.write(lambda: draw_plans(answer))
    if as_json or answer.front:
        written_to, pictures = (output, [picture.plot]) if answer.front else (None, [])
        record = answer_record(answer, scenario) | {"output": written_to}
        then = f"fluidb serve-sim {as_word(output)} --policy POLICY --trace FILE --slo 200ms"
        show(as_json, "fluidb.plan-output/2", record, answer_text(answer), written_to, then, pictures)
    if missed := [searched for searched in answer.searches if not searched.front]:
        at_any = scenario.rate == "max"
        fail([miss(searched, at_any_rate=at_any) for searched in missed])
    if not answer.front:
        raise typer.Exit(1)
