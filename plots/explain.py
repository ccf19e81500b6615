"""Picture of ``fluidb explain``: roofline, parts of the time, and utilisation of layers by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dse.npu.costs import Cause
from ..dse.npu.explanation import Explanation
from .canvas import COLOURS, canvas, describe, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

LOOKS = {
    Cause.COMPUTE: (COLOURS[0], "o"),
    Cause.BATCH_PADDING: (COLOURS[5], "^"),
    Cause.P_PADDING: (COLOURS[2], "v"),
    Cause.C_PADDING: (COLOURS[3], "s"),
    Cause.STACKING: (COLOURS[6], "D"),
    Cause.MEMORY: (COLOURS[1], "P"),
    Cause.FEW_ROWS: (COLOURS[4], "X"),
    # muted colours of Paul Tol's for the causes of an engine that runs tile by tile
    Cause.SHORT_BLOCKS: ("#882255", "*"),
    Cause.PARTIAL_BEATS: ("#999933", "<"),
    Cause.UNALIGNED_BEATS: ("#661100", "d"),
    Cause.FIRST_LOAD: ("#44aa99", ">"),
    Cause.LAST_STORE: ("#332288", "p"),
    Cause.BUFFERS: ("#999999", "h"),
}
"""Colour and marker of each cause; the markers differ where colours look alike."""

NAME_IN = 0.09
"""Least distance between the names of two layers under the heat map, in inches."""


def draw_explanation(explanation: Explanation, b: int) -> Figure:
    """Draw the roofline at a batch size, the parts of the time, and the share of MACs of each layer."""
    design = explanation.design
    width = float(np.clip(0.095 * len(explanation.layers) + 1.2, 9.0, 17.0))
    with canvas(width, 7.2) as figure:
        above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
        title = f"{legible(design.network.name)} on {legible(design.platform.name)}, {design.tile}"
        roofline, causes = above.subplots(1, 2)
        _roofline(roofline, explanation, b)
        _causes(causes, explanation)
        _heat(below.subplots(), explanation, b, width)
        share = explanation.parts_s[Cause.COMPUTE][:, b - 1].sum() / explanation.time_s[:, b - 1].sum()
        said = f"At batch {b}, {100 * share:.1f} % of the time makes MACs."
        return describe(figure, f"Roofline, causes and utilisation of {title}", said)


def _roofline(axes: Axes, explanation: Explanation, b: int) -> None:
    """Layers at batch ``b`` under the roofs; the area of a point is the layer's time."""
    peak, bandwidth = 2e-9 * explanation.design.peak_macs_per_s, explanation.design.platform.bandwidth_gb_s
    operations = 2.0 * b * np.array([layer.gemm.macs if layer.gemm else 0 for layer in explanation.layers])
    time_s = explanation.time_s[:, b - 1]
    intensity, gop_s = operations / explanation.dram_bytes[:, b - 1], operations / time_s / 1e9
    products = operations > 0
    for cause, (colour, marker) in LOOKS.items():
        here = products & (explanation.bound[:, b - 1] == cause)
        area = 15 + 900 * time_s[here] / time_s.sum()
        axes.scatter(
            intensity[here], gop_s[here], area, color=colour, marker=marker, alpha=0.6, linewidths=0.5,
            edgecolors="white",
        )  # fmt: skip
    ridge = peak / bandwidth
    ends = min(intensity[products].min(), ridge) / 2, max(intensity[products].max(), ridge) * 2
    axes.plot([ends[0], ridge, ends[1]], [bandwidth * ends[0], peak, peak], color="black", linewidth=1, zorder=0)
    axes.annotate(f"{peak:,.1f} GOP/s", (ends[1], peak), (0, 5), textcoords="offset points", ha="right")
    axes.annotate(
        f"{bandwidth:g} GB/s", (np.sqrt(ends[0] * ridge), bandwidth * np.sqrt(ends[0] * ridge)), (-5, 3),
        textcoords="offset points", ha="right",
    )  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlim=ends, ylim=(min(gop_s[products].min() / 1.5, peak / 10), peak * 1.8),
        xlabel="arithmetic intensity, operations per off-chip byte", ylabel="throughput, GOP/s",
        title=f"roofline: layers at batch {b}, area by time",
    )  # fmt: skip
    round_ticks(axes.xaxis, axes.yaxis)


def _causes(axes: Axes, explanation: Explanation) -> None:
    total_s = explanation.time_s.sum(axis=0)
    batches = np.arange(1, len(total_s) + 1)
    bottom = np.zeros(len(total_s))
    width = 0.8 if len(total_s) <= 32 else 1.0  # many narrow gaps would flicker
    for cause, part_s in explanation.parts_s.items():
        share = 100 * part_s.sum(axis=0) / total_s
        axes.bar(batches, share, width, bottom, color=LOOKS[cause][0])
        bottom += share
    handles = [
        axes.scatter([], [], 40, color=colour, marker=marker, label=cause.label)
        for cause, (colour, marker) in LOOKS.items()
        if explanation.parts_s[cause].any()
    ]
    axes.legend(handles=handles[::-1], loc="center left", bbox_to_anchor=(1, 0.5), title="bound by, goes into")
    axes.grid(visible=False)
    axes.set(ylim=(0, 100), xlabel="batch", ylabel="% of the time", title="what the time goes into")
    _whole_numbers(axes.xaxis)


def _heat(axes: Axes, explanation: Explanation, b: int, width_in: float) -> None:
    """Heat map of the share of each layer's time that makes MACs, with lines after the exits."""
    share = 100 * explanation.parts_s[Cause.COMPUTE] / explanation.time_s
    b_max, time_s = share.shape[1], explanation.time_s[:, b - 1]
    edges = np.concatenate(([0.0], 100 * np.cumsum(time_s) / time_s.sum()))
    rows = np.arange(b_max + 1) + 0.5
    mesh = axes.pcolormesh(edges, rows, share.T, cmap="cividis", vmin=0, vmax=100, rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label="% of the time that makes MACs", pad=0.01)
    middles, named = (edges[:-1] + edges[1:]) / 2, [int(time_s.argmax())]
    for index in np.argsort(-time_s, kind="stable")[1:].tolist():  # the widest column first, then others that have room
        if np.abs(middles[named] - middles[index]).min() >= 100 * NAME_IN / (0.85 * width_in):
            named.append(index)
    names = [legible(explanation.layers[index].name) for index in named]
    axes.set_xticks(middles[named], names, rotation=90, fontsize=5)
    stages = np.array([layer.stage for layer in explanation.layers])
    for edge in edges[1:-1][np.diff(stages) != 0]:
        axes.axvline(edge, color="white", linewidth=1.5)
    axes.grid(visible=False)
    axes.set(ylabel="batch", title=f"utilisation, layer by layer: a column is as wide as its layer's time at batch {b}")
    _whole_numbers(axes.yaxis)


def _whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
