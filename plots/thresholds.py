"""Picture of ``fluidb thresholds``: accuracy over latency, and over violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..studies.thresholds import Sweep, ThresholdPoint, show_level
from .canvas import COLOURS, canvas, describe, durations, name_points, say_infinite

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAMED = 12
"""Most combinations of thresholds that are named."""


def _name(point: ThresholdPoint) -> str:
    """The thresholds of a point."""
    return ", ".join(show_level(network.threshold) for network in point.networks if network.threshold is not None)


def draw_thresholds(sweep: Sweep) -> Figure:
    """Draw accuracy over mean latency and over violations; Pareto points are filled and named.

    Of several networks or exits they are named only if they are few.
    """
    points, swept = sweep.points, [network.measure is not None for network in sweep.networks]
    one = sum(swept) == 1 and not any(isinstance(network.threshold, tuple) for network in points[0].networks)
    few = one or sum(point.pareto for point in points) <= NAMED
    kept = [bool(point.kept) for point in points if point.kept is not None]
    filled, empty = "no other threshold beats it", "beaten by another"
    if kept:
        filled, empty = "best of those that keep the requirements", "other"
    accuracy = 100 * np.array([point.accuracy for point in points])
    best = np.array([point.pareto for point in points])
    latency_s = np.array([point.mean_latency_s for point in points])
    finite_s = latency_s[np.isfinite(latency_s)]
    unit, per_s = durations(float(finite_s.max(initial=0.0)))
    violations = 100 * np.array([point.violation_rate for point in points])
    with canvas(8.0, 3.8) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        costs = (per_s * latency_s, f"mean latency, {unit}"), (violations, "violations, %")
        for axes, (cost, label) in zip(panels, costs, strict=True):
            if one:
                axes.plot(cost, accuracy, color=COLOURS[0], linewidth=0.8, alpha=0.5)
            axes.plot(cost[best], accuracy[best], "o", color=COLOURS[0], label=filled)
            axes.plot(cost[~best], accuracy[~best], "o", color=COLOURS[0], fillstyle="none", label=empty)
            axes.set_xlabel(label)
            axes.set_xlim(left=0)
            say_infinite(axes, [_name(point) for point, x in zip(points, cost, strict=True) if not np.isfinite(x)])
        panels[0].set_ylabel("accuracy, %")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        for axes, (cost, _) in zip(panels, costs, strict=True) if few else ():
            named = [
                (x, y, point)
                for x, y, point in zip(cost, accuracy, points, strict=True)
                if point.pareto and np.isfinite(x)
            ]
            name_points(axes, [(x, y, _name(point)) for x, y, point in named])
        what = "thresholds" if one else "combinations of thresholds"
        said = (
            f"{len(points)} {what} give an accuracy of {accuracy.min():.2f} to {accuracy.max():.2f} % and a mean "
            f"latency of {per_s * latency_s.min():.4g} to {per_s * latency_s.max():.4g} {unit}. "
            f"{f'{sum(kept)} keep the requirements. ' if kept else ''}{int(best.sum())} are beaten by no other."
        )
        return describe(figure, "Accuracy over mean latency, and over violations", said)
