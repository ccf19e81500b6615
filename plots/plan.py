"""Picture of ``fluidb plan``: what accuracy costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..studies.plan.search import Plans
from .canvas import COLOURS, canvas, describe

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_plans(found: Plans) -> Figure:
    """Draw the front: the accuracy of each plan, or its 99th percentile if none is known, over its DSPs or energy."""
    problem, cost = found.problem, "DSPs"
    costs = np.array([int(problem.sources[item.candidate.source].dsps[item.candidate.row]) for item in found.front])
    if found.minimised == "energy":
        cost, costs = "mJ", np.array([1e3 * item.fresh.figures["energy"].mean for item in found.front])
    right = all("accuracy" in item.fresh.figures for item in found.front)
    name, scale, label = ("accuracy", 1e2, "accuracy, %") if right else ("p99", 1e3, "p99, ms")
    figures = [item.fresh.figures[name] for item in found.front]
    means = scale * np.array([item.mean for item in figures])
    with canvas(7.0, 4.2) as figure:
        axes = figure.subplots()
        for number, (source, colour) in enumerate(zip(problem.sources, COLOURS * len(problem.sources), strict=False)):
            here = np.array([item.candidate.source == number for item in found.front])
            if here.any():
                axes.plot(costs[here], means[here], "o", color=colour, label=source.name)
        axes.step(costs, means, where="post", color=COLOURS[0], linewidth=0.8, alpha=0.5)
        for x, item in zip(costs, figures, strict=True):
            if item.low is not None and item.high is not None:
                axes.plot([x, x], [scale * item.low, scale * item.high], color=COLOURS[0], linewidth=0.8)
        for plan, x, y in zip(found.front, costs, means, strict=True):
            setting = problem.settings[plan.candidate.setting].text(problem.network.exits)
            axes.annotate(setting, (x, y), (5, -9), textcoords="offset points", fontsize=7)
        axes.set_xlabel("DSPs" if cost == "DSPs" else "energy of a request, mJ")
        axes.set_ylabel(label)
        axes.legend()
        said = (
            f"{len(found.front)} plans from {costs.min():,.4g} to {costs.max():,.4g} {cost}; {label} from "
            f"{means.min():.4g} to {means.max():.4g}. Lines are 95 % intervals on fresh seeds."
        )
        return describe(figure, "What accuracy costs", said)
