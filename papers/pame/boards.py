"""Fluid Batching with the exits that PAME chooses, beside the three that its paper places by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...dse.exits.stage_times import stage_times
from ...formats.array_types import Floats
from ...models import Network, load_network
from ...models.candidates import find_candidates, load_with_exits
from ...models.loader import read_network_file
from ...rules.exit_choice import choose_exits
from ...rules.exit_log import log_of
from ...rules.exit_thresholds import ExitGoal, Setting
from ...rules.exit_times import replay_exits
from ...studies.scenario import Contender, GridPoint
from ...traffic.answers import PRESETS, draw_answers
from ...traffic.exits import PAPER_THRESHOLD
from ..fluid_batching import PUBLISHED
from ..lab import Lab, row
from ..rows import PREDICTED, Claim, Item, Row
from .rehearsal import half

NETWORK = "resnet50"
BATCH = 8
BY_HAND = "by hand, our log"
PANELS = {"mean latency": ("mean_latency_s", 1e3, "ms"), "violations": ("violation_rate", 100.0, "%")}


class Contestant(NamedTuple):
    """A network, and what share of its precision the half of a log that did not choose keeps; unknown without one."""

    name: str
    network: Network
    precision: float | None
    accuracy: float | None = None  # of its answers to that half, in %


def _with_rates(network: Network, shares: Sequence[float]) -> Network:
    exits = [exit_.model_copy(update={"rate": share}) for exit_, share in zip(network.exits, shares, strict=True)]
    return network.model_copy(update={"exits": exits})


def contestants(lab: Lab, point: GridPoint, fluid: Contender) -> list[Contestant]:
    """Exits by hand and by PAME."""
    candidates = find_candidates(*read_network_file(NETWORK))
    names, after = [candidate.name for candidate in candidates], [candidate.after for candidate in candidates]
    every = load_with_exits(NETWORK)
    stage_s = stage_times(lab.engine(point._replace(site=point.site.with_npu(network=every)), fluid).table)
    log = log_of(draw_answers(PRESETS["imagenet"], len(names), 2 * half(lab), 0))
    past, fresh = log.part(slice(0, half(lab))), log.part(slice(half(lab), 2 * half(lab)))

    def judged(name: str, network: Network, places: Sequence[int], settings: Sequence[Setting]) -> Contestant:
        replay = replay_exits(fresh, stage_s, BATCH, places, settings)
        rates, kept = replay.exit_shares.tolist(), 100 * replay.precision
        return Contestant(name, _with_rates(network, rates), kept, kept * float(fresh.scores[:, -1].mean()))

    def chosen(name: str, goal: ExitGoal) -> Contestant:
        choice = choose_exits(past, stage_s, goal)
        network = load_with_exits(NETWORK, [names[place - 1] for place in choice.exits])
        return judged(name, network, choice.exits, choice.settings)

    by_hand = load_network(NETWORK)
    quarters = [after.index(exit_.name) + 1 for exit_ in by_hand.exits[:-1]]
    usual = [Setting(PAPER_THRESHOLD, 0, 0, 0.0)] * len(quarters)
    return [
        Contestant("no exits", by_hand.backbone(), 100.0),
        Contestant("by hand, printed rates", by_hand, None),
        judged(BY_HAND, by_hand, quarters, usual),
        chosen("PAME", ExitGoal(batch=BATCH)),
        chosen("PAME, guard 99.5 %", ExitGoal(batch=BATCH, guard=0.995)),
    ]


def pame_fluid(lab: Lab) -> Item:
    """Fluid Batching with exits by hand and by PAME."""
    scenario, rows = lab.scenario(str(Path(__file__).parent / "fluid.toml")), []
    (fluid,) = scenario.contenders
    entries = contestants(lab, scenario.points[0], fluid)
    middle = scenario.points[len(scenario.points) // 2]
    judged: dict[tuple[str, str], Floats] = {}
    for point in scenario.points:
        for entry in entries:
            here = point._replace(site=point.site.with_npu(network=entry.network))
            figures = lab.figures(here, fluid, scenario.file.seeds)
            for quantity, (key, scale, unit) in PANELS.items():
                values, at = scale * figures[key], point.site.keys.label
                rows.append(row(quantity, entry.name, at, unit, values, x=point.rate_per_s, basis=PREDICTED))
                if point is middle:
                    judged[entry.name, quantity] = values
    accuracy = {entry.name: entry.accuracy for entry in entries if entry.accuracy is not None}
    printed, at = {BY_HAND: PUBLISHED["accuracy_percent"][NETWORK]}, middle.site.keys.label
    rows += [
        Row("accuracy", name, at, "%", value, paper=printed.get(name), basis=PREDICTED)
        for name, value in accuracy.items()
    ]
    pame, precision = entries[-1].name, {entry.name: entry.precision for entry in entries}
    claims = []
    for hand in (entry.name for entry in entries[1:3]):
        for quantity, (_, _, unit) in PANELS.items():
            own, other = judged[pame, quantity], judged[hand, quantity]
            statement = f"PAME's exits lower the {quantity} of Fluid Batching at {middle.rate_per_s:g} /s"
            ours = f"{own.mean():.3g} {unit}; {hand}: {other.mean():.3g} {unit}"
            less = own < other
            reason = f"with {less.sum()} of {less.size} seeds"
            claims.append(Claim(statement, "asked by us", "lower", ours, bool(less.all()), reason))
    kept = precision[pame]
    assert kept is not None
    claims.append(
        Claim("PAME's exits keep 99 % of the precision", "6.2", ">= 99 %",
              f"{kept:.1f} %; exits by hand, on our log, keep {precision[entries[2].name]:.1f} %", kept >= 99.0)
    )  # fmt: skip
    notes = [
        f"Every network has an NPU that was searched for it, and PAME chooses with its times for n = {BATCH}.",
        "The log for the candidates of ResNet-50 is drawn in the same way as for ResNet-101 on ImageNet.",
        (
            "Exits by hand are the exits of the Fluid Batching paper. They have the rates that it prints, or the rates "
            "that its threshold of 0.8 gives on our log. There we assume that its cheaper heads answer as PAME's would "
            "at the same places."
        ),
        (
            f"With its exits and its threshold the Fluid Batching paper prints an accuracy of {printed[BY_HAND]:g} "
            f"%. On our log the same threshold lets {100 * _early(entries[2]):.1f} % of the samples leave early; by "
            f"the printed rates {100 * _early(entries[1]):.1f} % leave early."
        ),
        *map(_described, entries),
    ]
    title = "Exits chosen by PAME under Fluid Batching, ResNet-50 on ZC706"
    return Item("pame_fluid", title, notes, rows, "arrival rate, 1/s", claims)


def _early(entry: Contestant) -> float:
    """Share of the samples that leave before the end."""
    return 1.0 - entry.network.exits[-1].rate


def _described(entry: Contestant) -> str:
    """Exits at which samples leave, and the precision that is kept."""
    ends = ", ".join(f"{100 * exit_.rate:.1f} % at {exit_.name}" for exit_ in entry.network.exits)
    kept = "precision not known" if entry.precision is None else f"{entry.precision:.2f} % of the precision"
    return f"{entry.name}: {ends}; {kept}."
