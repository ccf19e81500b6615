"""A comparison in the report: at every point of its grid the contenders' figures with intervals over seeds."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ...experiments.comparison import Comparison, PointResult
from ...experiments.estimates import Difference, Estimate
from .chart import TimeUnit, time_unit
from .intervals import Point, draw_intervals
from .markup import element, figure, named, table

_TITLES = {"mean_latency_s": "Mean latency", "violation_rate": "Violations"}
_PERCENT = TimeUnit("%", 1e2, 2)


def comparison_parts(ident: str, found: Comparison) -> list[Element]:
    """What the report says of a comparison.

    Parameters
    ----------
    ident : str
        Identifier of its section.
    found : Comparison
        The outcome.

    Returns
    -------
    list of Element
        Parts of the section.
    """
    seeds = ", ".join(map(str, found.seeds))
    note = (
        f"Means over seeds {seeds}, with Student's 95 % interval; differences to the baseline are taken seed by seed, "
        "and lie beyond noise where their interval excludes 0."
    )
    parts = [element("p", named(found.title), class_="lead"), element("p", note, class_="note")]
    for number, point in enumerate(found.points, 1):
        figures = (_figure(f"{ident}-{number}", point, metric, found.baseline) for metric in _TITLES)
        traffic = "its trace" if point.rate_per_s is None else f"{point.rate_per_s:g} /s"
        heading = element("h3", named(point.case), f", SLO {1e3 * point.slo_s:g} ms, {traffic}")
        parts += [heading, element("div", *figures, class_="figures")]
    return parts


def _figure(ident: str, point: PointResult, metric: str, baseline: str) -> Element:
    title = _TITLES[metric]
    found = [(item, item.metrics[metric]) for item in point.contenders]
    in_seconds = metric.endswith("_s")
    unit = time_unit(max(value.high or value.mean for _, value in found)) if in_seconds else _PERCENT
    points, rows = [], []
    for item, value in found:
        bounds = None if value.low is None or value.high is None else (value.low, value.high)
        half = "" if bounds is None else f" ±{unit.number((bounds[1] - bounds[0]) / 2)}"
        points.append(Point(item.name, value.mean, bounds, f"{unit.number(value.mean)}{half} {unit.name}"))
        change = (item.differences or {}).get(metric)
        differences = [""] * 4
        if change is not None:
            beyond = {True: "yes", False: "no", None: ""}[change.beyond_noise]
            differences = [*_numbers(unit, change), beyond]
        rows.append((named(item.name), [*_numbers(unit, value), *differences]))
    headers = ["contender", "mean", "95 % from", "to", f"less {baseline}", "95 % from", "to", "beyond noise"]
    drawn = draw_intervals(f"{ident}-{metric}", title, points, unit.short, None)
    return figure(title, f"With its 95 % interval, {unit.name}.", drawn, table(f"{title}, {unit.name}", headers, rows))


def _numbers(unit: TimeUnit, found: Estimate | Difference) -> list[str]:
    return ["" if value is None else unit.number(value) for value in (found.mean, found.low, found.high)]
