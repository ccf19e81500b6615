"""The paper's comparisons on engines as built, which run tile by tile, beside the ideal that reproduces its figures."""

from __future__ import annotations

import math
from dataclasses import replace

from ...dse.npu.choices import Overlap
from ...dse.npu.options import SearchOptions
from ...models import load_network
from ...platforms import load_platform
from ..lab import Lab, design, row
from ..rows import PREDICTED, Item, Row
from .npu import BATCH, STRATEGIES, UNIFORM
from .tables import CELLS, WORTH

ENDLESS = 10
"""A mean latency of more SLOs is taken to say that the queue grows as long as requests come."""

TIMES = {Overlap.PAPER: "paper's words", Overlap.IDEAL: "ideal", Overlap.TILES: "as built"}


def _table2(lab: Lab) -> tuple[list[Row], list[str]]:
    """Table II, every contender on the design that is searched for it under each time."""
    scenario, rows, notes = lab.scenario("table2"), [], []
    for overlap, name in TIMES.items():
        gains = []
        for point in scenario.points:
            free = point._replace(site=replace(point.site, keys=point.site.keys.model_copy(update={"tiles": {}})))
            late = []
            for contender in scenario.contenders:
                timed = replace(contender, options=contender.options.model_copy(update={"overlap": overlap}))
                figures = lab.figures(free, timed, scenario.file.seeds)
                late.append(float(figures["mean_latency_s"].mean()))
                worth = (
                    WORTH[contender.name] if overlap is Overlap.PAPER or contender.name == "LazyBatching" else PREDICTED
                )
                endless = free.slo_s is not None and late[-1] > ENDLESS * free.slo_s
                for quantity, unit, metric, scale in CELLS.values():
                    if metric == "violation_rate" or not endless:  # a latency would only tell how long the run was
                        at = f"{quantity}, {free.site.keys.label}"
                        rows.append(row(at, contender.name, name, unit, scale * figures[metric], basis=worth))
                if endless:
                    late[-1] = math.inf
            gain = "no end" if math.isinf(late[0]) else f"{late[0] / late[1]:.2f}"
            gains.append(f"{gain} ({free.site.keys.label})")
        notes.append(
            f"Mean latency of LazyBatching over the mean latency of FluidB at Table II's rates, {name}: "
            f"{', '.join(gains)}."
            + (
                " Where it says no end, the queue of LazyBatching grows as long as requests come."
                if "no end" in str(gains)
                else ""
            )
        )
    return rows, notes


def _throughput() -> tuple[list[Row], list[str]]:
    """Fig. 10's strategies at b = 8, each on the design that is searched for it under each time."""
    rows, notes = [], []
    for network_name, platform_name in (("resnet50", "zc706"), ("inception_v3", "zcu104")):
        network, platform = load_network(network_name).backbone(), load_platform(platform_name)
        at = f"{network_name} on {platform_name}"
        for overlap, time in TIMES.items():
            rates = {}
            for name, (batching, stacking) in STRATEGIES.items():
                options = SearchOptions(batching=batching, stacking=stacking, overlap=overlap)
                rates[name] = design(network, platform, options)[0].gop_s
                gop_s = rates[name][BATCH - 1]
                rows.append(Row(f"throughput, {at}", name, time, "GOP/s", gop_s, basis=PREDICTED))
            best = max(UNIFORM, key=lambda name: rates[name][-1])
            lead = 100 * (rates["with Stackable PEs"][-1] / rates[best][-1] - 1)
            notes.append(
                f"{at}, b = {BATCH}, {time}: Stackable PEs differ by {lead:+.1f} % from {best}, the best uniform "
                "strategy."
            )
    return rows, notes


def built(lab: Lab) -> Item:
    """Table II and Fig. 10 under each time."""
    table, gains = _table2(lab)
    rates, leads = _throughput()
    notes = [
        (
            "These are the same comparisons under three models of time (docs/model.md). *Paper's words* has the "
            "words and the perfect overlap that reproduce the paper's figures. *Ideal* has the words as an engine "
            "moves them, with perfect overlap. *As built* is an engine that runs tile by tile. Every contender has "
            "the design that is searched for it under that model, at the board's bandwidth. Where logic is counted, a "
            "design leaves a fifth of the board's look-up tables free."
        ),
        *gains,
        *leads,
    ]
    return Item("built", "What is left on an engine as built", notes, table + rates, picture="bars")
