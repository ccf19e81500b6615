"""Picture of ``fluidb plan``: what better answers cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..formats.array_types import Floats
from ..studies.plan.rates import FrontPlan, PlanAnswer
from ..studies.plan.search import ACCURACIES
from .canvas import COLOURS, canvas, describe, name_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LABELLED = 12
"""Most plans whose exits are written beside them; where there are more, each setting of the exits has a colour."""


def draw_plans(answer: PlanAnswer) -> Figure:
    """Draw the front: what it is over, over the cost; a colour for each hardware, rate or setting."""
    rows, first = answer.front, answer.searches[0]
    cost, scale = {"share": ("share of the board's DSPs, %", 1e2), "energy": ("energy of a request, mJ", 1e3)}.get(
        first.minimised, ("DSPs", 1.0)
    )
    costs = scale * np.array([row.plan.cost for row in rows])
    known = [name for name in ACCURACIES if all(name in row.plan.fresh.figures for row in rows)]
    names = [*known[:1], *(["p99"] if first.over_p99 or not known else [])]
    by_rate = len(answer.searches) > 1
    crowded = len(rows) > LABELLED
    groups = list(map(_rate if by_rate else _setting if crowded else _hardware, rows))
    colour = dict(zip(dict.fromkeys(groups), COLOURS * len(rows), strict=False))
    with canvas(7.0 * len(names), 4.2) as figure:
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            unit, label = (1e3, "p99, ms") if name == "p99" else (1e2, "accuracy, %")
            for group, shade in colour.items():
                here = [at for at, other in enumerate(groups) if other == group]
                estimates = [rows[at].plan.fresh.figures[name] for at in here]
                means = unit * np.array([estimate.mean for estimate in estimates])
                axes.plot(costs[here], means, "o", color=shade, label=group)
                for x, estimate in zip(costs[here], estimates, strict=True):
                    if estimate.low is not None and estimate.high is not None:
                        axes.plot([x, x], [unit * estimate.low, unit * estimate.high], color=shade, linewidth=0.8)
            axes.set_xlabel(cost)
            axes.set_ylabel(label)
        figure.axes[0].legend()
        for axes, name in zip(figure.axes, names, strict=True) if not crowded else ():
            unit = 1e3 if name == "p99" else 1e2
            heights = [unit * row.plan.fresh.figures[name].mean for row in rows]
            name_points(axes, [(x, y, _setting(row)) for row, x, y in zip(rows, costs, heights, strict=True)])
        said = f"{_ends(rows, costs, names[0], cost)} Lines are 95 % intervals on fresh seeds."
        return describe(figure, "What better answers cost", said)


def _ends(rows: Sequence[FrontPlan], costs: Floats, name: str, cost: str) -> str:
    """What the cheapest plan gives, and the dearest."""
    said = []
    for at in dict.fromkeys((int(costs.argmin()), int(costs.argmax()))):
        mean = rows[at].plan.fresh.figures[name].mean
        gives = f"a p99 of {1e3 * mean:,.4g} ms" if name == "p99" else f"{1e2 * mean:.2f} % accuracy"
        said.append(f"{costs[at]:,.4g} {cost}, {gives}")
    return f"The cheapest plan: {said[0]}." + (f" The dearest: {said[1]}." if len(said) > 1 else "")


def _rate(row: FrontPlan) -> str:
    return f"{row.rate_per_s:g} /s"


def _setting(row: FrontPlan) -> str:
    problem = row.search.problem
    return problem.settings[row.plan.numbers.setting].text(problem.network.exits)


def _hardware(row: FrontPlan) -> str:
    return row.search.problem.sources[row.plan.numbers.source].name
