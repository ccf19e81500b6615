"""``fluidb exits``: the exits of a network for a device, a load and a precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...formats.display import as_word
from ..declare import argument, option, written
from ..names import DEVICE, NETWORK, named
from ..options import AsJson, Force, ThresholdsTried, tried_thresholds
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...dse.exits.search import PlanResult
    from ...rules.exit_thresholds import ExitGoal
    from ...tables.exit_plan import StepRecord
    from ...traffic.measures import Measure

GUARD = "Guard of the precision on other samples: bound (95 % confidence), a higher precision, e.g. 99.5%, or none."
TARGET = "A device; a folder with times of the network with all its candidates; or measured times of all stages."


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """What the exits are to keep, and for which batches."""

    batch: Annotated[int, option("Samples of a batch.")]
    precision: Annotated[str, option("Share of the network's precision to keep.", "SHARE")] = "99%"
    slow: Annotated[str, option("Share of batches that may take longer than without exits.", "SHARE")] = "2%"
    guard: Annotated[str, option(GUARD, "bound|SHARE|none")] = "bound"
    gain: Annotated[str, option("What a later exit must save, as a share of the time to the end.", "SHARE")] = "2%"
    thresholds: ThresholdsTried = None

    def read(self, measure: Measure) -> ExitGoal:
        """The goal, with thresholds of a measure."""
        from ...rules.exit_thresholds import ExitGoal

        tried = tried_thresholds(self.thresholds)
        named: dict[str, Any] = {"bound": "bound", "none": None}
        return ExitGoal(
            self.batch,
            precision=_share(self.precision, "precision"),
            slow=_share(self.slow, "slow", "2%"),
            gain=_share(self.gain, "gain", "2%"),
            guard=named[self.guard] if self.guard in named else _share(self.guard, "guard"),
            thresholds=measure.searched if tried is None else tried,
        )


def command(
    network: Annotated[
        str, argument("A network with exit candidates: a name, or a TOML file.", "NETWORK", **named(NETWORK))
    ],
    target: Annotated[str, argument(TARGET, "DEVICE|DIR|FILE.csv", **named(DEVICE))],
    samples: Annotated[Path, option("The network's answers at every candidate and at the end.", "FILE")],
    *,
    asked: GoalOptions,
    output: Annotated[Path | None, written("The folder to write.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the exits of a network, and their thresholds.

    Exits are taken where they make answers faster, keep the precision and make
    few batches slower (PAME, `fluidb docs exits`). The folder gets the plan, its two
    matrices, the network with its exits, and its latency table for serve-sim.
    """
    from ...dse.exits.search import EXITS_FOLDER, plan_exits, times_of, write_plan
    from ...models.candidates import find_candidates
    from ...models.loader import read_network_file
    from ...traffic.samples import read_samples

    EXITS_FOLDER.check(output, force, apart=[Path(network), Path(target), samples])
    log = read_samples(samples)
    goal = asked.read(log.measure)
    file, path = read_network_file(network)
    planned = plan_exits(file, path, times_of(file, path, target), log, goal)
    if output is not None:
        write_plan(planned, output, replace=force)
    names = {candidate.after: candidate.name for candidate in find_candidates(file, path)}
    text = _text(planned, names, file.title)
    answers = as_word(f"{output}/samples.npz")
    then = f"fluidb serve-sim {as_word(output)} --samples {answers} --policy pame --trace FILE --slo 200ms"
    show(as_json, "fluidb.exits-output/1", _record(planned, output), text, output, then)


def _share(text: str, name: str, example: str = "99%") -> Any:
    from ...formats.quantities import parse_quantity

    return parse_quantity(text, {"%": 1.0}, name, example, zero=True) / 100


def _record(planned: PlanResult, output: Path | None) -> dict[str, Any]:
    plan = planned.plan.model_dump(mode="json", exclude={"inputs"})
    return {"output": output, **plan, "expected_without_guard": planned.unguarded}


def _text(planned: PlanResult, names: dict[str, str], title: str) -> Iterator[str]:
    from ...traffic.measures import MEASURES

    plan = planned.plan
    expected, checked = plan.expected, plan.checked
    slow = f"at most {percent(plan.slow)} slow batches of {plan.batch}"
    dense = max(planned.log.counts.tolist()) > 1
    about: dict[str, str | None] = {
        "network": f"{title} ({plan.network})",
        "device": plan.platform,
        "to keep": f"{percent(plan.precision)} of the precision, {slow}",
        "samples": f"{plan.samples_chosen:,} to choose, {plan.samples_checked:,} others to check",
    }
    reach = MEASURES[plan.measure].asked
    for number, planned_exit in enumerate(plan.exits, 1):
        enough = f", reached by {planned_exit.count} values" if dense else ""
        where = f"{names[planned_exit.after]}, after {planned_exit.after}"
        about[f"exit {number}"] = (
            f"{where}, {reach} {planned_exit.confidence:g}{enough}: {percent(planned_exit.rate, 1)} leave"
        )
    yield facts(about)
    for step in plan.steps:
        if step.candidates:
            yield _step(step, planned, names, dense)
    rows = [
        ("average latency", ms(expected.original_s), ms(expected.average_s), ms(checked.average_s)),
        ("tail latency", ms(expected.original_s), ms(expected.tail_s), ms(checked.tail_s)),
        ("slow batches", "", percent(expected.slow_share), percent(checked.slow_share)),
        ("precision kept", "", percent(expected.precision), percent(checked.precision)),
    ]
    yield table(["in whole batches", "without exits", "samples that chose", "other samples"], rows)
    if planned.unguarded is not None:
        cost = percent(expected.average_s / planned.unguarded.average_s - 1)
        without = ms(planned.unguarded.average_s)
        yield facts({"the guard costs": f"{cost} of the average latency, {without} without it"})


def _step(step: StepRecord, planned: PlanResult, names: dict[str, str], dense: bool) -> str:
    from ...dse.exits.tabulate import goal_of

    plan = planned.plan
    goal = goal_of(plan)
    sure = " with 95 % confidence" if goal.guard == "bound" else ""
    reasons = {
        "taken": "taken: the smallest",
        "imprecise": f"no thresholds keep more than {percent(goal.searched)}{sure}",
        "slow": f"more than {percent(plan.slow)} of the batches would be slower",
        "no gain": f"saves less than {percent(plan.gain)}",
        "longer": "another is faster",
    }
    if step.after == 0:
        head, value = f"first exit: {ms(step.limit_s)} without exits", "average"
    else:
        after = names[planned.times.candidates[step.after - 1]]
        head, value = f"behind {after}, batches of {step.batch}: {ms(step.limit_s)} to the end", "longest"
    rows = [
        (
            f"{names[candidate.candidate]} {candidate.candidate}",
            f"{candidate.confidence:g}" + (f" by {candidate.count}" if dense else ""),
            percent(candidate.exits / plan.samples_chosen, 1),
            percent(candidate.precision),
            percent(candidate.slow_share, 1),
            "-" if candidate.value_s is None else ms(candidate.value_s),
            reasons[candidate.outcome] if candidate.exits else "no sample is sure enough to leave",
        )
        for candidate in step.candidates
    ]
    return f"{head}\n" + table(["candidate", "threshold", "leave", "precision", "slow", value, ""], rows, text=True)
