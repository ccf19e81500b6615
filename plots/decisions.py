"""Picture of ``fluidb latency`` for a device: maps of pad or split, and batches that fill the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..tables import LatencyTable
from ..tables.decisions import DecisionTable, PointRow, spans
from .canvas import COLOURS, canvas, describe, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6
"""Most maps, and most curves, of a picture; of more, these are drawn, evenly spread from first to last."""


def draw_decisions(table: LatencyTable, decisions: DecisionTable) -> Figure:
    """Draw maps of pad or split, the throughput by batch size, and the ideal batch by width."""
    title = f"{legible(decisions.network)} on {legible(decisions.platform)}"
    drawn = [decisions.points[place] for place in _some(len(decisions.points))]
    panels: list[Callable[[Axes], None]] = [partial(_map, decisions=decisions, row=row) for row in drawn]
    panels.append(partial(_throughput, table=table, decisions=decisions))
    if table.widths is not None:
        panels.append(partial(_ideal, widths=table.widths, decisions=decisions))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with canvas(max(3.6 * columns, 5.0), 3.2 * rows + 0.5) as figure:
        every = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, draw in zip(every, panels, strict=False):
            draw(axes)
        for axes in every[len(panels) :]:
            axes.set_axis_off()
        ideal = sorted({row.ideal_batch for row in decisions.variants})
        spread = str(ideal[0]) if len(ideal) == 1 else f"{ideal[0]} to {ideal[-1]}"
        said = f"The ideal batch is {spread}."
        if decisions.points:
            maps = [len(row.after_exits) * len(row.variants) for row in decisions.points]  # alike, so stated once
            pays = sum(count * int(row.map().sum()) for count, row in zip(maps, decisions.points, strict=True))
            pairs = sum(maps) * max(decisions.b_max * (decisions.b_max - 1) // 2, 1)
            said = f"Splitting a batch pays for {100 * pays / pairs:.1f} % of the pairs of b and E. {said}"
        return describe(figure, f"Where splitting pays: {title}; {len(drawn)} of {len(decisions.points)} maps", said)


def _some(count: int) -> list[int]:
    """Places in a list of this length, at most `MOST` of them, evenly spread."""
    return sorted(set(np.linspace(0, count - 1, min(MOST, count)).astype(int).tolist()))


def _map(axes: Axes, *, decisions: DecisionTable, row: PointRow) -> None:
    """Map of pad or split by places and terminated samples; blank where all samples have terminated."""
    from matplotlib.colors import ListedColormap

    places, terminated = np.indices((decisions.b_max + 1, decisions.b_max + 1))
    cells = np.ma.masked_where((terminated < 1) | (terminated >= places), row.map()).T
    edges, colours = np.arange(decisions.b_max + 2) - 0.5, ListedColormap([COLOURS[4], COLOURS[0]])
    axes.pcolormesh(edges, edges, cells, cmap=colours, vmin=0, vmax=1, rasterized=True)
    exits = "exit" if len(row.after_exits) == 1 else "exits"
    axes.set(
        xlabel="places b", ylabel="terminated samples E",
        xlim=(0.5, decisions.b_max + 0.5), ylim=(0.5, decisions.b_max + 0.5),
        title=f"behind {exits} {spans(row.after_exits)}, width {spans(row.variants, decisions.width_names)}",
    )  # fmt: skip
    for colour, label in ((COLOURS[0], "split"), (COLOURS[4], "pad")):
        axes.scatter([], [], 40, color=colour, marker="s", label=label)
    axes.legend(loc="upper left")


def _throughput(axes: Axes, *, table: LatencyTable, decisions: DecisionTable) -> None:
    batches = np.arange(1, decisions.b_max + 1)
    times_s = table.pass_s()
    for variant in _some(len(decisions.variants)):
        row = decisions.variants[variant]
        (line,) = axes.plot(batches, batches / times_s[variant, 1:], label=f"width {decisions.width_names[variant]}")
        axes.plot(row.ideal_batch, row.samples_per_s, marker="o", color=line.get_color())
    axes.set(xlabel="batch", ylabel="samples/s", title="from input to end; o: ideal batch", ylim=(0, None))
    if table.widths is not None:
        axes.legend()


def _ideal(axes: Axes, *, widths: list[float], decisions: DecisionTable) -> None:
    axes.plot(widths, [row.ideal_batch for row in decisions.variants[: len(widths)]], marker=".")
    axes.set(xlabel="width", ylabel="batch", title="ideal batch", ylim=(0, None))
