"""Policies in the report: figures with intervals, distributions of latency, the first moments."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ...tables.latency import LatencyTable
from .cdf import draw_cdf
from .chart import TimeUnit, time_unit
from .content import Served, Shown
from .intervals import Point, draw_intervals
from .markup import element, figure, named, table
from .strips import blocks, draw_strips


def policy_parts(ident: str, shown: Shown) -> list[Element]:
    """What the report says of the policies on a design.

    Parameters
    ----------
    ident : str
        Identifier of its section.
    shown : Shown
        The design, with what was simulated on it.

    Returns
    -------
    list of Element
        Parts of the section; none if nothing was simulated.
    """
    served = shown.served
    if not served:
        return []
    slo_s = served[0].replay.traffic.objective_s
    unit = time_unit(max(item.summary.max_latency_s for item in served))
    figures = (
        _tail(ident, served, unit, slo_s),
        _violations(ident, served),
        _distribution(ident, served, unit, slo_s),
        _opening(ident, served, shown.table),
    )
    note = (
        "Latency counts from arrival; percentiles are nearest ranks over all requests. Intervals are at 95 %: "
        "of a percentile from order statistics, of the violation rate Wilson's, requests taken for independent."
    )
    return [
        element("h3", "Policies"),
        _comparison(served, unit),
        element("p", note, class_="note"),
        element("div", *figures, class_="figures"),
    ]


def _comparison(served: list[Served], unit: TimeUnit) -> Element:
    rows = []
    for item in served:
        found = item.summary
        times_s = (found.mean_latency_s, found.percentile("p50").latency_s, found.percentile("p99").latency_s)
        cells = [
            *(unit.number(time_s) for time_s in times_s),
            f"{100 * found.violation_rate:.2f}",
            f"{found.processing_rate_per_s:,.3f}",
            f"{found.goodput_per_s:,.3f}",
            f"{100 * found.busy_share:.1f}",
            *([f"{100 * found.utilisation.mac_share:.1f}"] if found.utilisation else []),
            f"{found.mean_batch:.2f}",
            f"{found.preemptions:,}",
        ]
        rows.append((named(item.policy), cells))
    headers = ["policy", f"mean {unit.name}", f"p50 {unit.name}", f"p99 {unit.name}", "late %"]
    macs = ["MACs made %"] if served[0].summary.utilisation else []
    headers += ["done /s", "in time /s", "busy %", *macs, "samples", "preemptions"]
    return table("Policies under the same requests", headers, rows)


def _tail(ident: str, served: list[Served], unit: TimeUnit, slo_s: float | None) -> Element:
    found = [(item.policy, item.summary.percentile("p99")) for item in served]
    points, rows = [], []
    for index, (name, p99) in enumerate(found):
        bounds = [unit.number(bound) for bound in p99.interval_s or ()]
        text = f"{unit.number(p99.latency_s)} {unit.name}"
        said = f"{text}, {bounds[0]} to {bounds[1]}" if bounds else text
        points.append(Point(name, p99.latency_s, p99.interval_s, said, index))
        missing = f"{p99.more_requests_needed:,} more requests needed"
        rows.append((named(name), [unit.number(p99.latency_s), *(bounds or (missing, ""))]))
    title = "99th percentile of latency"
    mark = None if slo_s is None else (slo_s, f"SLO {unit.short(slo_s)} {unit.name}")
    data = table(f"{title}, {unit.name}", ["policy", "p99", "95 % from", "to"], rows)
    drawn = draw_intervals(f"{ident}-p99", title, points, unit.short, mark)
    return figure(title, f"With its 95 % interval, {unit.name}.", drawn, data)


def _violations(ident: str, served: list[Served]) -> Element:
    points, rows = [], []
    for index, item in enumerate(served):
        rate, interval = item.summary.violation_rate, item.summary.violation_interval
        value, low, high = (f"{100 * share:.2f}" for share in (rate, *interval))
        points.append(Point(item.policy, rate, interval, f"{value} %, {low} to {high}", index))
        rows.append((named(item.policy), [f"{item.summary.violations:,}", value, low, high]))
    title = "Violations"
    data = table(title, ["policy", "requests", "%", "95 % from", "to"], rows)
    drawn = draw_intervals(f"{ident}-violations", title, points, lambda share: f"{100 * share:g}", None)
    return figure(title, "Share of requests later than their SLO, with its 95 % interval, %.", drawn, data)


def _distribution(ident: str, served: list[Served], unit: TimeUnit, slo_s: float | None) -> Element:
    title = "Distribution of latency"
    names = [item.name for item in served[0].summary.percentiles]
    rows = []
    for item in served:
        times_s = [*(found.latency_s for found in item.summary.percentiles), item.summary.max_latency_s]
        rows.append((named(item.policy), [unit.number(time_s) for time_s in times_s]))
    data = table(f"Percentiles of latency, {unit.name}", ["policy", *names, "worst"], rows)
    drawn = draw_cdf(f"{ident}-cdf", title, [(item.policy, item.replay.latency_s) for item in served], slo_s)
    return figure(title, "Share of requests, %, that took no longer.", drawn, data)


def _opening(ident: str, served: list[Served], latency: LatencyTable) -> Element:
    begin_s, end_s = float(served[0].opening.traffic.trace.arrival_s[0]), served[0].opening.until_s
    strips, rows, unit = [], [], time_unit(end_s - begin_s)
    for item in served:
        found = [] if item.opening.runs is None else blocks(item.opening.runs, end_s)
        busy_s = sum(block.end_s - block.begin_s for block in found)
        samples_s = sum(block.batch * (block.end_s - block.begin_s) for block in found)
        mean = f"{samples_s / busy_s:.2f}" if busy_s else ""
        preemptions = sum(block.preempts for block in found)
        strips.append((item.policy, found))
        rows.append((named(item.policy), [unit.number(busy_s), mean, f"{preemptions:,}"]))
    title = "The first moments"
    data = table(
        f"The first {unit.number(end_s - begin_s)} {unit.name}",
        ["policy", f"busy {unit.name}", "samples", "preemptions"], rows,
    )  # fmt: skip
    drawn = draw_strips(f"{ident}-opening", title, strips, begin_s, end_s, latency.b_max)
    about = f"height is the batch, up to {latency.b_max}; a triangle marks a preemption."
    remark = f"When the {latency.machine} was busy: {about}"
    return figure(title, remark, drawn, data)
