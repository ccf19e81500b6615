"""Picture of ``fluidb explain`` for a partition: the rows of every map that each device computes (EdgeSP, Fig. 3)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..dse.partition.explanation import PartitionExplanation
from ..formats import InputError
from .canvas import COLOURS, canvas, describe, legible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 60
"""Most layers that are all named, with bars side by side.  With more layers only the last one of every block is named,
and bars overlap: rows that two devices compute have a mixed colour."""


def draw_partition(explanation: PartitionExplanation) -> Figure:
    """Draw the rows of each device as bars, layer by layer; rows in two bars are computed twice."""
    table = explanation.table
    if not table.blocks:
        raise InputError(f"plot: draws rows by device, found none, as one device runs all of {table.network}")
    layers = [(block, layer) for block in explanation.blocks for layer in block.layers]
    count, many = len(table.devices), len(layers) > NAMED
    busy = [k for k, name in enumerate(table.devices) if name not in table.idle]
    width = 1.0 if many else 0.8 / len(busy)
    with canvas(min(16.0, max(7.0, 0.32 * len(layers) + 2)), 4.6) as figure:
        axes = figure.subplots()
        for number, (k, colour) in enumerate(zip(busy, itertools.cycle(COLOURS), strict=False)):
            here = [
                (place, first / layer.height, (end - first) / layer.height)
                for place, (_, layer) in enumerate(layers)
                for first, end in [layer.rows[k]]
                if end > first
            ]
            left = [place - 0.5 if many else place - 0.4 + number * width for place, _, _ in here]
            axes.bar(
                left, [share for *_, share in here], width, [start for _, start, _ in here], align="edge",
                color=colour, alpha=0.6 if many or number >= len(COLOURS) else 1.0, linewidth=0,
                label=legible(table.devices[k], 16),
            )  # fmt: skip
        edges = [place for place in range(1, len(layers)) if layers[place][0] is not layers[place - 1][0]]
        for edge in edges:
            axes.axvline(edge - 0.5, color="0.3", linewidth=1, linestyle=":")
        last = {edge - 1 for edge in edges} | {len(layers) - 1}
        named = [place for place in range(len(layers)) if not many or place in last]
        axes.set_xticks(named, [legible(layers[place][1].name, 20) for place in named], rotation=90, fontsize=6)
        axes.grid(visible=False)
        axes.set(ylim=(1, 0), xlim=(-0.6, len(layers) - 0.4), ylabel="rows of the output, as shares of its height")
        columns = -(-len(busy) // 24)  # 24 names fill the height of the picture
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7, title="computed by", ncols=columns)
        title = f"{legible(table.network)} on {count} devices of {legible(table.cluster.name)}"
        said = f"{100 * explanation.twice_share:.1f} % of the computed rows are computed by another device, too." + (
            f" No row for {', '.join(table.idle)}." if table.idle else ""
        )
        return describe(figure, f"Rows by device: {title}; devices exchange rows at dotted lines", said)
