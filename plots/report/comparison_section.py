"""Section of a comparison: every point of its grid."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

import numpy as np

from ...serving.figures import FIGURES, SHOWN_IN
from ...studies.comparison import Comparison, PointResult
from ...studies.estimates import Estimate
from . import charts
from .cells import difference_cells, estimate_cells
from .charts import PERCENT, ChartPoint, ChartUnit, time_unit
from .markup import element, figure, figures, named, table


def comparison_parts(ident: str, comparison: Comparison) -> list[Element]:
    """Every point of a comparison's grid, with the contenders' figures and their intervals over seeds."""
    note = (
        f"Means over seeds {', '.join(map(str, comparison.seeds))}, with Student's 95 % interval; differences to the "
        "baseline are taken seed by seed, and lie beyond noise where their interval excludes 0."
    )
    if len(comparison.seeds) == 1:
        note = f"Seed {comparison.seeds[0]}, with the 95 % interval of the run if it is long enough for one."
    parts = [
        element("p", named(comparison.title), class_="lead"),
        element("p", note, class_="note"),
        _against(comparison),
    ]
    for number, point in enumerate(comparison.points, 1):
        parts.append(element("h3", named(point.case), f", {point.objective}, {point.arrivals}"))
        where = f"{ident}-{number}"
        charts = []
        # infinite where requests were dropped
        if all("mean_latency_s" in standing.metrics for standing in point.contenders):
            longest_s = max(value.high or value.mean for value in _estimates(point, "mean_latency_s"))
            charts.append(
                _contenders(where, "Mean latency", point, "mean_latency_s", time_unit(longest_s), comparison.baseline)
            )
        parts.append(
            figures([
                *charts,
                _contenders(where, "Violations", point, "violation_rate", PERCENT, comparison.baseline),
                *(_contenders(where, *subnets, comparison.baseline) for subnets in _of_subnets(point)),
            ])
        )  # fmt: skip
    return parts


def _against(comparison: Comparison) -> Element:
    """At how many points each contender has fewer or more violations than the baseline, beyond noise."""
    rows = []
    for name in (contender.name for contender in comparison.contenders if contender.name != comparison.baseline):
        standings = [standing for point in comparison.points for standing in point.contenders if standing.name == name]
        changes = [standing.differences["violation_rate"] for standing in standings if standing.differences]
        sure = np.array([change.mean if change.beyond_noise else 0.0 for change in changes])
        rows.append((name, [f"{(sure < 0).sum()}", f"{(sure > 0).sum()}", f"{(sure == 0).sum()}"]))
    headers = ["contender", "points with fewer", "with more", "not told apart"]
    return table(f"Violations, less {comparison.baseline}, beyond noise", headers, rows)


def _of_subnets(point: PointResult) -> Iterator[tuple[str, PointResult, str, ChartUnit]]:
    """Title, point, key and unit of each figure of SubNets that a point has."""
    for subnets_figure in FIGURES.values():
        if subnets_figure.part == "subnets" and subnets_figure.key in point.contenders[0].metrics:
            title = subnets_figure.heading[0].upper() + subnets_figure.heading[1:]
            yield title, point, subnets_figure.key, ChartUnit(*SHOWN_IN[subnets_figure.unit], subnets_figure.digits)


def _estimates(point: PointResult, metric: str) -> list[Estimate]:
    return [standing.metrics[metric] for standing in point.contenders]


def _contenders(ident: str, title: str, point: PointResult, metric: str, unit: ChartUnit, baseline: str) -> Element:
    points, rows = [], []
    for standing, value in zip(point.contenders, _estimates(point, metric), strict=True):
        bounds = None if value.low is None or value.high is None else (value.low, value.high)
        half = "" if bounds is None else f" ±{unit.number((bounds[1] - bounds[0]) / 2)}"
        points.append(ChartPoint(standing.name, value.mean, f"{unit.number(value.mean)}{half} {unit.name}", bounds))
        change = (standing.differences or {}).get(metric)
        cells = [""] * 4
        if change is not None:
            cells = difference_cells(unit, change)
        rows.append((standing.name, [*estimate_cells(unit, value), *cells]))
    headers = ["contender", "mean", "95 % from", "to", f"less {baseline}", "95 % from", "to", "beyond noise"]
    data = table(f"{title}, {unit.name}", headers, rows)
    drawn = charts.draw_intervals(points, unit.short, None)
    return figure(f"{ident}-{metric}", title, f"With its 95 % interval, {unit.name}.", drawn, data)
