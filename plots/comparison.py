"""Picture of ``fluidb compare``: violations and tail latency of every contender at every point, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..studies.comparison import Comparison, PointResult
from .canvas import COLOURS, canvas, describe, durations, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Most panels in a row."""

MARKERS = "osD^vPX"


def draw_comparison(found: Comparison) -> Figure:
    """Draw violations and p99 over the rate or the SLO, with intervals; a case of one point side by side."""
    series = _series(found.points)
    columns, bands = min(COLUMNS, len(series)), -(-len(series) // COLUMNS)
    names = [item.name for item in found.contenders]
    with canvas(max(2.6 * columns, 5.0), 4.6 * bands + 0.7) as figure:
        grid = figure.subplots(2 * bands, columns, squeeze=False)
        for index, points in enumerate(series):
            row, column = 2 * (index // columns), index % columns
            _panel(grid[row, column], points, "violation_rate", "violations, %", 100.0)
            unit, per_s = durations(max(item.metrics["p99_latency_s"].mean for p in points for item in p.contenders))
            _panel(grid[row + 1, column], points, "p99_latency_s", f"p99 latency, {unit}", per_s)
            grid[row, column].set_title(_title(points), fontsize=8)
        for index in range(len(series), columns * bands):
            for row in (0, 1):
                grid[2 * (index // columns) + row, index % columns].set_axis_off()
        handles = grid[0, 0].get_legend_handles_labels()[0]
        figure.legend(handles, list(map(legible, names)), loc="outside lower center", ncols=min(4, len(names)))
        figure.suptitle(legible(found.title, 60), fontsize=11)
        return describe(figure, f"Comparison: {legible(found.title, 60)}", _said(found))


def _series(points: Sequence[PointResult]) -> list[list[PointResult]]:
    """Points of a panel: a case over its rates, or over its SLOs if it has one rate."""
    panels: dict[tuple[object, ...], list[PointResult]] = {}
    for point in points:
        rates = {other.rate_per_s for other in points if other.case == point.case}
        panels.setdefault((point.case, point.slo_s if len(rates) > 1 else None), []).append(point)
    return list(panels.values())


def _title(points: Sequence[PointResult]) -> str:
    """Title of a panel: the values that its points share."""
    first, slos = points[0], {point.slo_s for point in points}
    rates = {point.rate_per_s for point in points}
    shared = [legible(first.case)]
    if len(slos) == 1:
        shared.append(legible(first.objective))
    if len(rates) == 1:
        shared.append(first.arrivals if first.rate_per_s is None else f"{first.rate_per_s:g} requests/s")
    return f"{shared[0]}\n{', '.join(shared[1:])}"


def _panel(axes: Axes, points: Sequence[PointResult], metric: str, label: str, scale: float) -> None:
    over_rate = len({point.rate_per_s for point in points}) > 1
    contenders = points[0].contenders
    for index, contender in enumerate(contenders):
        values = [point.contenders[index].metrics[metric] for point in points]
        mean = scale * np.array([value.mean for value in values])
        ends = np.array([(value.low, value.high) for value in values], dtype=np.float64).T
        spread = np.nan_to_num(np.maximum(np.abs(scale * ends - mean), 0.0))
        x: Sequence[float] = [index]
        if len(points) > 1:
            x = [point.rate_per_s or 0.0 if over_rate else 1e3 * (point.slo_s or 0.0) for point in points]
            aside = 0.012 * (max(x) - min(x)) * (index - (len(contenders) - 1) / 2)  # intervals stay apart
            x = [value + aside for value in x]
        axes.errorbar(
            x, mean, spread, color=COLOURS[index % len(COLOURS)], marker=MARKERS[index % len(MARKERS)], markersize=4,
            linewidth=1.2, capsize=2, label=legible(contender.name),
        )  # fmt: skip
    if len(points) > 1:
        axes.set_xlabel("requests/s" if over_rate else "SLO, ms")
    else:
        axes.set_xticks(range(len(contenders)), [""] * len(contenders))
        axes.set_xlim(-0.6, len(contenders) - 0.4)
    means = [item.metrics[metric].mean for point in points for item in point.contenders]
    if metric == "p99_latency_s" and max(means) > 20 * min(means):
        axes.set_yscale("log")  # an overloaded NPU's queue grows without end
        round_ticks(axes.yaxis)
    else:
        axes.set_ylim(0, max(axes.get_ylim()[1], 1.0))
    axes.set_ylabel(label)


def _said(found: Comparison) -> str:
    """Number of points at which each contender has the fewest violations, in words."""
    fewest = [
        min(point.contenders, key=lambda item: item.metrics["violation_rate"].mean).name for point in found.points
    ]
    ranked = sorted({name: fewest.count(name) for name in fewest}.items(), key=lambda pair: -pair[1])
    counts = "; ".join(f"{legible(name)} at {count}" for name, count in ranked)
    return f"Fewest violations at {len(found.points)} points: {counts}. Intervals are at 95 %, over the seeds."
