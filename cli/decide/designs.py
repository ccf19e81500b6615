"""Designs side by side: what differs between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..design.problem import board_of, design_record
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...dse.npu.design import DesignTable
    from ...dse.npu.fbcb import FbcbTable
    from ...tables.latency import LatencyTable


def compare_designs(folders: list[Path], *, as_json: bool) -> None:
    """Print designs side by side."""
    from ...dse.npu.design import read_design
    from ...dse.npu.latency import tabulate_latency

    designs = [read_design(folder) for folder in folders]
    tables = [tabulate_latency(*pair) for pair in designs]
    records = [
        {"design": folder, **design_record(*pair), "exits": [row.name for row in latency.exits],
         "latency_s": latency.array()[0, 1:, 1:].tolist()}
        for folder, pair, latency in zip(folders, designs, tables, strict=True)
    ]  # fmt: skip
    columns = [_facts(*pair, latency) for pair, latency in zip(designs, tables, strict=True)]
    show(as_json, "fluidb.compare-designs-output/1", {"designs": records}, _text(folders, columns))


def _text(folders: list[Path], columns: list[dict[str, str]]) -> Iterator[str]:
    """What all have in common, and a row for all else."""
    names = dict.fromkeys(name for column in columns for name in column)
    rows = {name: [column.get(name, "") for column in columns] for name in names}
    same = {name: values[0] for name, values in rows.items() if len(set(values)) == 1}
    if same:
        yield facts(same)
    differ = [(name, *values) for name, values in rows.items() if name not in same]
    yield table(["", *map(str, folders)], differ) if differ else "the designs do not differ"


def _facts(design: DesignTable, fbcb: FbcbTable, latency: LatencyTable) -> dict[str, str]:
    """The figures of a design, by their names."""
    from ...dse.npu.choices import Objective
    from ...dse.npu.objectives import OBJECTIVES

    options, board = design.options, design.platform
    layouts = f"{options.batching} batching, {'stackable PEs' if options.stacking else 'no stacking'}"
    lines = {
        "network": design.network.name,
        "board": board_of(board),
        "engine": f"{layouts}, b = 1..{options.b_max}",
        "design": f"{design.tile.names} = {design.tile}",
        OBJECTIVES[options.objective].title: design.objective_text,
        "DSPs": f"{design.dsps:,} ({percent(design.dsp_share)})",
        "on-chip RAM": percent(design.ram_share),
        "FBCB": f"{fbcb.register_bits:,} flip-flops",
    }
    times_s = latency.array()[0]
    for b in sorted({1, options.b_max}):
        lines |= {f"to {row.name}, b={b}": ms(times_s[end, b]) for end, row in enumerate(latency.exits, 1)}
        lines[f"throughput, b={b}"] = f"{design.gop_s[b - 1]:,.1f} GOP/s"
        if design.energy_j is not None:
            energy = OBJECTIVES[Objective.ENERGY].text(design.energy_j[b - 1])
            lines[f"energy an inference, b={b}"] = energy
    return lines
