"""Picture of ``fluidb explain`` for SubGraphs: the effect of a persistent buffer on layers and SubNets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dse.subgraphs.explanation import Roofline
from ..tables.subgraphs import SubGraphTable
from .canvas import COLOURS, canvas, describe, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EMPTY, RESIDENT = (COLOURS[0], "o"), (COLOURS[1], "^")
"""Colour and marker without and with the SubGraph."""


def draw_roofline(roofline: Roofline) -> Figure:
    """Draw the roofline without and with the SubGraph (SUSHI, Fig. 11), times of SubNets (Fig. 10) and of sizes."""
    table = roofline.table
    count = 3 if table.sizes else 2
    with canvas(4.6 * count, 3.8) as figure:
        axes = figure.subplots(1, count)
        subnet, state = table.subnets[roofline.subnet].name, table.subgraphs[roofline.state].name
        title = f"{legible(table.supernet)} on {legible(table.accelerator.name)}"
        _roofline(axes[0], roofline, f"layers of SubNet {legible(subnet)}")
        _times(axes[1], table, roofline.state)
        if table.sizes:
            _sizes(axes[2], table)
        before, after = (
            roofline.memory_bound(moved).sum() for moved in (roofline.bytes_empty, roofline.bytes_resident)
        )
        said = f"With {state} resident, {after} of {len(roofline.layers)} layers wait for memory, without it {before}."
        return describe(figure, f"Roofline of SubNet {subnet} of {title}", said)


def _roofline(axes: Axes, roofline: Roofline, title: str) -> None:
    """Layers under the roof without and with the SubGraph; layers without off-chip traffic are left out."""
    chip, operations = roofline.table.accelerator, 2 * roofline.macs
    peak, rate = chip.peak_gop_s, chip.bandwidth_gb_s
    ridge = peak / rate
    shown = [ridge]
    for (colour, marker), moved, times, label in (
        (EMPTY, roofline.bytes_empty, roofline.empty_s, "empty"),
        (RESIDENT, roofline.bytes_resident, roofline.resident_s, "with SubGraph"),
    ):
        here = moved > 0
        intensity = operations[here] / moved[here]
        shown += intensity.tolist()
        axes.scatter(
            intensity, operations[here] / times[here] / 1e9, 22, color=colour, marker=marker, alpha=0.6, label=label
        )
    ends = min(shown) / 2, max(shown) * 2
    axes.plot([ends[0], ridge, ends[1]], [rate * ends[0], peak, peak], color="black", linewidth=1, zorder=0)
    axes.set(
        xscale="log", yscale="log", xlim=ends, xlabel="operations per off-chip byte", ylabel="throughput, GOP/s",
        title=title,
    )  # fmt: skip
    axes.legend()
    round_ticks(axes.xaxis, axes.yaxis)


def _times(axes: Axes, table: SubGraphTable, state: int) -> None:
    places = np.arange(len(table.subnets))
    for shift, (colour, _), column, label in ((-0.2, EMPTY, 0, "empty"), (0.2, RESIDENT, state, "with SubGraph")):
        axes.bar(places + shift, [1e3 * row[column] for row in table.time_s], 0.4, color=colour, label=label)
    axes.set_xticks(places, [legible(subnet.name, 12) for subnet in table.subnets])
    axes.set(xlabel="SubNet", ylabel="time of a query, ms", title=f"{table.subgraphs[state].name} resident")
    axes.legend()


def _sizes(axes: Axes, table: SubGraphTable) -> None:
    """Mean time by size of the persistent buffer, or by array if only arrays were searched."""
    if len({size.persistent_kib for size in table.sizes}) > 1:
        axes.plot([size.persistent_kib for size in table.sizes], [1e3 * size.time_s for size in table.sizes])
        axes.axvline(table.accelerator.persistent_kib, color=COLOURS[1], linewidth=1)
        axes.set(xlabel="persistent buffer, KiB", title="the buffers share one memory (Fig. 12)")
    else:
        axes.plot([size.K_P for size in table.sizes], [1e3 * size.time_s for size in table.sizes], "o")
        axes.axvline(table.accelerator.K_P, color=COLOURS[1], linewidth=1)
        axes.set(xscale="log", xlabel="K_P, with the largest C_P that fits", title="arrays within the DSPs")
        round_ticks(axes.xaxis)
    axes.set_ylabel("mean time of a query, ms")
