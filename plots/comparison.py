"""Picture of ``fluidb compare``: violations and tail latency of every contender at every point, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..studies.comparison import Comparison, PointResult, Standing
from .canvas import COLOURS, canvas, describe, durations, legible, round_ticks, say_infinite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Most panels in a row."""

MARKERS = "osD^vPX"

DRAWN = ("violation_rate", "p99_latency_s")
"""Metrics of the picture."""


def draw_comparison(comparison: Comparison) -> Figure:
    """Draw violations and p99 over the rate or the SLO, with intervals; a case of one point side by side."""
    series = _series(comparison.points)
    columns, bands = min(COLUMNS, len(series)), -(-len(series) // COLUMNS)
    with canvas(max(2.6 * columns, 5.0), 4.6 * bands + 0.9) as figure:
        grid = figure.subplots(2 * bands, columns, squeeze=False, sharey="row")
        alike = _alike(comparison)
        for band in range(bands):
            drawn = series[band * columns : (band + 1) * columns]
            every = [standing for points in drawn for point in points for standing in point.contenders]
            unit, per_s = durations(max(_means(every, "p99_latency_s"), default=0.0))
            for row, (metric, label, scale) in enumerate(
                (("violation_rate", "violations, %", 100.0), ("p99_latency_s", f"p99 latency, {unit}", per_s))
            ):
                cells = grid[2 * band + row]
                for axes, points in zip(cells, drawn, strict=False):
                    _panel(axes, points, metric, scale, alike)
                    if row == 0:
                        axes.set_title(_title(points), fontsize=8)
                for axes in cells[len(drawn) :]:
                    axes.set_axis_off()
                means = _means(every, metric)
                if metric == "p99_latency_s" and means and max(means) > 20 * min(means):
                    cells[0].set_yscale("log")  # an overloaded NPU's queue grows without end
                    round_ticks(cells[0].yaxis)
                else:
                    cells[0].set_ylim(0, max(cells[0].get_ylim()[1], 1.0))
                cells[0].set_ylabel(label)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        return describe(figure, f"Comparison: {legible(comparison.title, 60)}", _said(comparison))


def _means(contenders: Sequence[Standing], metric: str) -> list[float]:
    """Means of a metric, of those that have it: a p99 is infinite where more than 1 % of the requests were dropped."""
    return [standing.metrics[metric].mean for standing in contenders if metric in standing.metrics]


def _alike(comparison: Comparison) -> list[list[int]]:
    """Contenders by their place; those with the same figures in the whole picture are together, and drawn once."""
    groups: dict[str, list[int]] = {}
    for place in range(len(comparison.contenders)):
        figures = [point.contenders[place].metrics.get(key) for point in comparison.points for key in DRAWN]
        groups.setdefault(
            repr([estimate and (estimate.mean, estimate.low, estimate.high) for estimate in figures]), []
        ).append(place)
    return list(groups.values())


def _series(points: Sequence[PointResult]) -> list[list[PointResult]]:
    """Points of a panel: a case over its rates, or over its SLOs if it has one rate."""
    panels: dict[tuple[object, ...], list[PointResult]] = {}
    for point in points:
        rates = {other.load for other in points if other.case == point.case}
        panels.setdefault((point.case, point.slo_s if len(rates) > 1 else None), []).append(point)
    return list(panels.values())


def _title(points: Sequence[PointResult]) -> str:
    """Title of a panel: the values that its points share."""
    first, slos = points[0], {point.slo_s for point in points}
    rates = {point.load for point in points}
    shared = [legible(first.case)]
    if len(slos) == 1:
        shared.append(legible(first.objective))
    if len(rates) == 1:
        shared.append(first.arrivals if first.rate_per_s is None else f"{first.rate_per_s:g} requests/s")
    return f"{shared[0]}\n{', '.join(shared[1:])}"


def _panel(axes: Axes, points: Sequence[PointResult], metric: str, scale: float, alike: list[list[int]]) -> None:
    over_rate = len({point.load for point in points}) > 1
    contenders = points[0].contenders
    for rank, places in enumerate(alike):  # thinner above: no line is hidden
        index, name = places[0], " = ".join(legible(contenders[place].name) for place in places)
        values = [point.contenders[index].metrics.get(metric) for point in points]
        mean = scale * np.array([np.nan if value is None else value.mean for value in values])
        ends = np.array([(value and value.low, value and value.high) for value in values], dtype=np.float64).T
        spread = np.nan_to_num(np.maximum(np.abs(scale * ends - mean), 0.0))
        x: Sequence[float] = [rank]
        if len(points) > 1:
            x = [point.load or 0.0 if over_rate else 1e3 * (point.slo_s or 0.0) for point in points]
            aside = 0.012 * (max(x) - min(x)) * (rank - (len(alike) - 1) / 2)  # intervals stay apart
            x = [value + aside for value in x]
        axes.errorbar(
            x, mean, spread, color=COLOURS[index % len(COLOURS)], marker=MARKERS[index % len(MARKERS)], markersize=4,
            linewidth=0.8 + 1.6 * (1 - rank / len(alike)), elinewidth=1, capsize=2, label=name,
        )  # fmt: skip
    say_infinite(axes, [
        " = ".join(legible(contenders[place].name) for place in places)
        for places in alike
        if any(metric not in point.contenders[places[0]].metrics for point in points)
    ])  # fmt: skip
    if len(points) > 1:
        axes.set_xlabel(("requests/s" if points[0].clients is None else "clients") if over_rate else "SLO, ms")
    else:
        axes.set_xticks(range(len(alike)), [""] * len(alike))
        axes.set_xlim(-0.6, len(alike) - 0.4)


def _said(comparison: Comparison) -> str:
    """Who has the fewest violations, and at how many points, in words."""
    leads, count = [point.lead for point in comparison.points], len(comparison.points)
    wins = Counter(legible(lead.first, 60) for lead in leads if lead is not None)
    parts = []
    for place, (name, at) in enumerate(wins.most_common()):
        where = f" at {at} of {count} points" if at < count else f" at all {count} points" if count > 1 else ""
        parts.append(f"{name} has the fewest violations{where}" if place == 0 else f"{name} at {at}")
    if (alike := leads.count(None)) > 0:
        parts.append("all are alike" + (f" at {alike} of {count} points" if count > 1 else ""))
    said = ", ".join(parts)
    return f"{said[0].upper() if not wins else said[0]}{said[1:]}. Intervals are at 95 %, over the seeds."
