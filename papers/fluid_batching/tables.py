"""Tables I and II."""

from __future__ import annotations

import numpy as np

from ...dse.npu.board_use import board_use
from ...dse.npu.design import DesignTable
from ...models import load_network
from ...platforms import load_platform
from ..lab import Lab, by_seed, design, paper_options, row
from ..rows import ASSUMED, CALIBRATED, GIVEN, Item, Row
from . import PUBLISHED


def _shares(of: str, at: str, design_table: DesignTable, line: dict[str, float], basis: str) -> list[Row]:
    shares = {
        "DSPs": (design_table.dsp_share, line["dsp_percent"], basis),
        "on-chip RAM": (design_table.ram_share, line["ram_percent"], basis),
        "LUTs": (design_table.lut_share or 0.0, line["lut_percent"], CALIBRATED),
    }
    return [
        Row(name, of, at, "%", 100 * ours, paper=theirs, basis=worth) for name, (ours, theirs, worth) in shares.items()
    ]


def _blocks(at: str, design_table: DesignTable) -> str:
    """What a design would need of its board."""
    taken = board_use(design_table.platform, design_table.tile)
    assert taken is not None
    blocks = f"{taken.total_block_rams:,g} block RAMs of {taken.block_rams_of_board:,}"
    if taken.ultra_rams_of_board:
        blocks += f" beside {taken.total_ultra_rams} UltraRAMs of {taken.ultra_rams_of_board}"
    _, T_P, T_C, *_ = design_table.tile
    return (
        f"{at}: placed as the engine of `fluidb hardware`, {design_table.tile} needs {blocks}; with `<T_P,T_C>` = "
        f"<{T_P},{T_C}> T_R can be at most {taken.largest_T_R:,}."
    )


def table1(_: Lab) -> Item:
    """Designs and their shares of the boards."""
    rows, notes = [], []
    printed_before: set[tuple[int, ...]] = set()
    for line in PUBLISHED["table1"]:
        network, platform = load_network(line["network"]), load_platform(line["platform"])
        at = f"{network.name} on {platform.name}"
        repeated = tuple(line["tile"]) in printed_before
        printed_before.add(tuple(line["tile"]))
        searched = design(network, platform, paper_options())[0]
        for name, ours, theirs in zip(("T_R", "T_P", "T_C"), searched.tile[:3], line["tile"], strict=True):
            rows.append(Row(name, "search", at, "", ours, paper=theirs, basis=CALIBRATED))
        rows += _shares("search", at, searched, line, CALIBRATED)
        notes.append(_blocks(at, searched))
        if list(searched.tile[:3]) == line["tile"]:
            continue
        given = paper_options(tile=line["tile"])
        theirs = design(network, platform, given)[0]
        printed, best = theirs.ranking[0], searched.ranking[0]
        loss = 100 * (1 - printed.objective / best.objective)
        rows += _shares("printed design", at, theirs, line, GIVEN)
        notes.append(
            f"{at}: the search finds {best.tile}. The printed {printed.tile} has {loss:.2f} % less throughput at "
            f"{platform.bandwidth_gb_s:g} GB/s."
        )
        if repeated:
            notes.append(
                f"The paper prints the design of {at} in another row, too. This design takes "
                f"{100 * theirs.dsp_share:.2f} % of the board's DSPs, and the one that the search finds "
                f"{100 * searched.dsp_share:.2f} %. As the row prints {line['dsp_percent']} %, docs/model.md takes its "
                "design for a misprint."
            )
    notes.append("The paper truncates some shares and rounds others, which explains differences of 0.01 points.")
    notes.append("LUTs were fitted to these rows (docs/model.md, Resources), so that their agreement says little.")
    return Item("table1", "Table I: designs and resources", notes, rows, picture="bars")


def _signed(percent: dict[str, float]) -> str:
    return ", ".join(f"{value:+.0f} % ({at})" for at, value in percent.items())


WORTH = {"LazyBatching": ASSUMED, "FluidB": CALIBRATED}
"""Basis of a contender's figures in Table II: nothing says how long a call of the scheduler takes, which LazyBatching
calls after each layer; exits and pooling traffic were chosen by FluidB's cells."""

CELLS = {
    "mean_ms": ("mean latency", "ms", "mean_latency_s", 1e3),
    "late_percent": ("violations", "%", "violation_rate", 100.0),
}
"""Figures of a cell in Table II: quantity, unit, our metric and its scale."""


def table2(lab: Lab) -> Item:
    """LazyBatching against Fluid Batching."""
    comparison = lab.compare("table2")
    text = PUBLISHED["table2_text"]
    rows: list[Row] = []
    ratios, gaps = [], []
    for point, line in zip(comparison.points, PUBLISHED["table2"], strict=True):
        assert point.case == line["case"]
        slow, fluid = point.contenders
        for contender in (slow, fluid):
            for key, (quantity, unit, metric, scale) in CELLS.items():
                values = by_seed(contender, metric, scale)
                paper, basis = line[contender.name][key], WORTH[contender.name]
                rows.append(row(quantity, contender.name, point.case, unit, values, paper, basis=basis))
        ratio = by_seed(slow, "mean_latency_s", 1.0) / by_seed(fluid, "mean_latency_s", 1.0)
        gap = by_seed(slow, "violation_rate", 100.0) - by_seed(fluid, "violation_rate", 100.0)
        ratios.append(ratio)
        gaps.append(gap)
        paper_ratio, paper_gap = text["latency_ratio"].get(point.case), text["late_points"].get(point.case)
        both = [
            ("latency ratio", "LazyBatching to FluidB", "x", ratio, paper_ratio),
            ("violations saved", "LazyBatching less FluidB", "points", gap, paper_gap),
        ]
        rows += [
            row(quantity, of, point.case, unit, values, paper, basis=ASSUMED)
            for quantity, of, unit, values, paper in both
        ]
    resnet = [index for index, point in enumerate(comparison.points) if point.network == "resnet50"]
    mean = np.exp(np.mean([np.log(ratios[i]) for i in resnet], axis=0))
    rows.append(
        row("latency ratio", "geometric mean", "resnet50", "x", mean, text["latency_ratio_mean"], basis=ASSUMED)
    )
    saved = np.mean([gaps[i] for i in resnet], axis=0)
    rows.append(row("violations saved", "mean", "resnet50", "points", saved, text["late_points_mean"], basis=ASSUMED))
    off = {
        row_.at: row_.difference
        for row_ in rows
        if (row_.quantity, row_.of) == ("mean latency", "LazyBatching") and row_.difference is not None
    }
    lazy = (
        f"LazyBatching's mean latency differs from the paper's by {_signed(off)}. The item calls asks whether one "
        "time of a scheduler call, the same for all cells, mends this."
    )
    notes = [lazy, "FluidB's NPU on zc706 for inception_v3 is the printed design, as the paper ran it."]
    return Item("table2", "Table II: LazyBatching and Fluid Batching", notes, rows, picture="bars")
