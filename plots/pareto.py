"""Picture of ``fluidb pareto``: the objective over the resources that a design takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dse.npu.objectives import OBJECTIVES
from ..dse.npu.options import SearchOptions
from ..dse.npu.pareto import SCALES, Front
from ..models import Network
from ..platforms import Board
from .canvas import COLOURS, canvas, describe, legible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (0.1, 0.3, 0.6, 1.0)
"""Quantiles of the second axis; a step line shows the best design within each."""


def draw_front(front: Front, network: Network, platform: Board, options: SearchOptions) -> Figure:
    """Draw each point of a front, and in steps the best objective within the resources spent."""
    goal, scales = OBJECTIVES[options.objective], [SCALES[axis] for axis in front.over]
    takes = np.array([point.takes for point in front.points]) * [scale.factor for scale in scales]
    values = np.array([point.objective for point in front.points])
    best = np.maximum if goal.higher_is_better else np.minimum
    with canvas(7, 4.2) as figure:
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, StrMethodFormatter

        plain = StrMethodFormatter("{x:,g}")
        axes = figure.subplots()
        # thousands of points: embedded as pixels
        style: dict[str, Any] = {"s": 5, "linewidths": 0, "rasterized": True, "alpha": 0.5}
        if len(scales) == 1:
            axes.scatter(takes[:, 0], values, color=COLOURS[0], **style)
            axes.step(takes[:, 0], best.accumulate(values), where="post", color=COLOURS[0], label="best within")
        else:
            norm = LogNorm(takes[:, 1].min(), takes[:, 1].max())
            dots = axes.scatter(takes[:, 0], values, c=takes[:, 1], cmap="viridis_r", norm=norm, **style)
            figure.colorbar(dots, ax=axes, label=scales[1].label, format=plain)
            budgets = np.quantile(takes[:, 1], BUDGETS)
            for rank, (colour, budget) in enumerate(zip(COLOURS, budgets, strict=False)):
                inside = takes[:, 1] <= budget
                within = best.accumulate(values[inside])
                steps = [*np.flatnonzero(np.diff(within, prepend=np.nan) != 0).tolist(), len(within) - 1]
                axes.step(
                    takes[inside, 0][steps], within[steps], where="post", color=colour,
                    linewidth=0.8 + 1.2 * rank, zorder=9 - rank,  # thinner above: none is hidden
                    label=f"best within {budget:,.3g} {scales[1].label}",
                )  # fmt: skip
        knee = front.points[front.knee]
        axes.plot(
            takes[front.knee, 0], values[front.knee], "o", color=COLOURS[-1], fillstyle="none", linestyle="none",
            zorder=10, label=f"knee {knee.tile}",
        )  # fmt: skip
        if not goal.higher_is_better:  # the smallest designs need a thousand times as much as the best
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(plain)
        axes.set_xlabel(scales[0].label)
        axes.set_ylabel(f"{goal.title}, {goal.unit} {goal.summary.format(options.b_max)}")
        where = f"{legible(network.name)} on {legible(platform.name)}"
        axes.legend()
        share = f"{100 * knee.of_best:.1f} % of the best {goal.title}"
        said = f"Of {len(values):,} designs the knee is {knee.tile}, which reaches {share}."
        return describe(figure, f"{goal.title} over {scales[0].label}, {where}", said)
