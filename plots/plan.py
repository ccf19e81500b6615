"""Picture of ``fluidb plan``: what better answers cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..studies.plan.rates import FrontPlan, PlanAnswer
from ..studies.plan.search import ACCURACIES
from .canvas import COLOURS, canvas, describe

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
    costs = scale * np.array([item.plan.cost for item in rows])
    known = [name for name in ACCURACIES if all(name in item.plan.fresh.figures for item in rows)]
    names = [*known[:1], *(["p99"] if first.over_p99 or not known else [])]
    several = len(answer.searches) > 1
    crowded = len(rows) > LABELLED
    groups = list(map(_rate if several else _setting if crowded else _hardware, rows))
    colour = dict(zip(dict.fromkeys(groups), COLOURS * len(rows), strict=False))
    with canvas(7.0 * len(names), 4.2) as figure:
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            unit, label = (1e3, "p99, ms") if name == "p99" else (1e2, "accuracy, %")
            for group, shade in colour.items():
                here = [at for at, other in enumerate(groups) if other == group]
                estimates = [rows[at].plan.fresh.figures[name] for at in here]
                means = unit * np.array([item.mean for item in estimates])
                axes.plot(costs[here], means, "o", color=shade, label=group)
                for x, found in zip(costs[here], estimates, strict=True):
                    if found.low is not None and found.high is not None:
                        axes.plot([x, x], [unit * found.low, unit * found.high], color=shade, linewidth=0.8)
            for item, x in zip(rows, costs, strict=True) if not crowded else ():
                y = unit * item.plan.fresh.figures[name].mean
                axes.annotate(_setting(item), (x, y), (5, -9), textcoords="offset points", fontsize=7)
            axes.set_xlabel(cost)
            axes.set_ylabel(label)
        figure.axes[0].legend()
        spread = f"{len(rows)} plans from {costs.min():,.4g} to {costs.max():,.4g} {cost}"
        said = f"{spread}. Lines are 95 % intervals on fresh seeds."
        return describe(figure, "What better answers cost", said)


def _rate(item: FrontPlan) -> str:
    return f"{item.rate_per_s:g} /s"


def _setting(item: FrontPlan) -> str:
    problem = item.search.problem
    return problem.settings[item.plan.numbers.setting].text(problem.network.exits)


def _hardware(item: FrontPlan) -> str:
    return item.search.problem.sources[item.plan.numbers.source].name
