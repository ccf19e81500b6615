"""Section of the policies that were simulated on a design or a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from ...formats.array_types import Floats
from ...serving.figures import FIGURES, SHOWN_IN
from ...serving.networks import stated_for
from ...serving.requirements import Requirement
from ...studies.paired import differences
from ...tables.latency import LatencyTable
from . import charts
from .cells import difference_cells
from .charts import PERCENT, ChartPoint, ChartUnit, time_unit
from .content import PolicyReplay, ReportEntry, Served
from .markup import element, figure, figures, table

_MANY_EXITS = 8
"""Exits that are drawn."""


def policy_parts(
    ident: str, shown: ReportEntry, best: Served | None, requirements: Sequence[Requirement]
) -> list[Element]:
    """Figures with intervals, distributions and first moments of a design's policies; none without a trace."""
    if not shown.served:
        return []
    slo_s = shown.served[0].replay.traffic.objective_s
    unit = time_unit(max(_longest_s(replayed.replay.latency_s) for replayed in shown.served))
    note = (
        "Latency counts from arrival; percentiles are nearest ranks over all requests. Intervals are at 95 %; they "
        "account for requests that depend on each other, and a run that is too short for one says so."
    )
    if any(len(replayed.policies) > 1 for replayed in shown.served):
        note += " Policies in one row, with commas between, gave every request the same outcome."
    by_kind = stated_for(shown.named, {"networks": _by_network, "network": _exits})
    drawn = [
        _tail(ident, shown.served, unit, slo_s),
        _violations(ident, shown.served),
        _distribution(ident, shown.served, unit, slo_s),
        *(draw(ident, shown.served, unit) for draw in by_kind.values()),
        _opening(ident, shown.served, shown.tables),
    ]
    tables = [_policies(shown.served, unit), *_to_the_best(shown, best, unit)]
    required = [_requirements(shown.served, requirements)] if requirements else []
    return [element("h3", "Policies"), *tables, *required, element("p", note, class_="note"), figures(drawn)]


def _requirements(served: Sequence[PolicyReplay], requirements: Sequence[Requirement]) -> Element:
    """Which policy keeps which requirement, and whether that is beyond doubt."""
    rows = []
    for index, requirement in enumerate(requirements):
        verdicts = [replayed.verdicts[index] for replayed in served]
        cells = [
            ("kept" if verdict.holds else "not kept") + ("?" if verdict.certain is False else "")
            for verdict in verdicts
        ]
        rows.append((requirement.text, cells))
    headers = ["requirement", *(replayed.policy for replayed in served)]
    return table("Requirements; ? where 95 % intervals leave it open", headers, rows)


def _longest_s(latency_s: Floats) -> float:
    """The longest latency of an answer."""
    return float(latency_s[np.isfinite(latency_s)].max(initial=0.0))


_PARTS = ("subnets", "admission", "deadlines")
"""Parts of a summary whose figures have columns, where a policy has them."""


def _policies(served: Sequence[PolicyReplay], unit: ChartUnit) -> Element:
    summaries = [replayed.summary for replayed in served]
    known = [
        figure
        for figure in FIGURES.values()
        if (figure.part in _PARTS or figure.name == "fairness")
        and any(figure.of(summary) is not None for summary in summaries)
        and (figure.name != "early" or any(figure.of(summary) for summary in summaries))
    ]
    rows, waiting = [], served[0].replay.traffic.trace.at_once
    for replayed in served:
        summary = replayed.summary
        times_s = (summary.mean_latency_s, summary.percentile("p50").latency_s, summary.percentile("p99").latency_s)
        cells = [
            *map(unit.number, times_s),
            f"{100 * summary.violation_rate:.2f}",
            *([f"{summary.makespan_s:,.3f}"] if waiting else []),
            f"{summary.processing_rate_per_s:,.3f}",
            f"{summary.goodput_per_s:,.3f}",
            f"{100 * summary.busy_share:.1f}",
            *([f"{100 * summary.utilisation.mac_share:.1f}"] if summary.utilisation else []),
            *(
                ""
                if (value := figure.of(summary)) is None
                else f"{SHOWN_IN[figure.unit][1] * value:,.{figure.digits}f}"
                for figure in known
            ),
            f"{summary.mean_batch:.2f}",
            f"{summary.preemptions:,}",
        ]
        rows.append((replayed.policy, cells))
    headers = ["policy", f"mean {unit.name}", f"p50 {unit.name}", f"p99 {unit.name}", "violations %"]
    macs = ["MACs made %"] if served[0].summary.utilisation else []
    subnets = [f"{figure.heading} {SHOWN_IN[figure.unit][0]}" for figure in known]
    headers += ["makespan s"] if waiting else []
    headers += ["done /s", "in time /s", "busy %", *macs, *subnets, "samples", "preemptions"]
    return table("Policies under the same requests", headers, rows)


def _to_the_best(shown: ReportEntry, best: Served | None, unit: ChartUnit) -> Iterator[Element]:
    """How far each policy is from the best of the page, request by request."""
    if best is None:
        return
    rows = []
    for replayed in shown.served:
        if replayed is not best[1]:
            changes = differences(replayed.replay, best[1].replay)
            cells = difference_cells(PERCENT, changes["violation_rate"]) + difference_cells(
                unit, changes["mean_latency_s"]
            )
            rows.append((replayed.policy, cells))
    if rows:
        ends = ["95 % from", "to", "beyond noise"]
        headers = ["policy", "violations, points", *ends, f"mean {unit.name}", *ends]
        yield table(f"Less {best[1].policy} on {best[0].name}, on the same requests", headers, rows)


def _with_intervals(
    name: str, served: Sequence[PolicyReplay], unit: ChartUnit
) -> tuple[list[ChartPoint], list[tuple[str, list[str]]]]:
    """Points of a picture, and rows of a table: a figure of every policy with its 95 % interval."""
    points, rows = [], []
    for index, replayed in enumerate(served):
        exact, (interval, needed) = FIGURES[name].of(replayed.summary), FIGURES[name].interval_of(replayed.summary)
        assert exact is not None  # every replay has these figures
        value, *bounds = map(unit.number, (exact, *(interval or ())))
        text = f"{value} {unit.name}" + (f", {bounds[0]} to {bounds[1]}" if bounds else "")
        points.append(ChartPoint(replayed.policy, exact, text, interval, index))
        missing = (f"{needed:,} more requests needed" if needed else "none", "")
        rows.append((replayed.policy, [value, *(bounds or missing)]))
    return points, rows


def _tail(ident: str, served: Sequence[PolicyReplay], unit: ChartUnit, slo_s: float | None) -> Element:
    title = "99th percentile of latency"
    points, rows = _with_intervals("p99", served, unit)
    mark = None if slo_s is None else (slo_s, f"SLO {unit.short(slo_s)} {unit.name}")
    data = table(f"{title}, {unit.name}", ["policy", "p99", "95 % from", "to"], rows)
    drawn = charts.draw_intervals([point for point in points if np.isfinite(point.value)], unit.short, mark)
    remark = f"With its 95 % interval, {unit.name}."
    if not all(np.isfinite(point.value) for point in points):
        remark += " It is infinite where fewer requests are answered."
    return figure(f"{ident}-p99", title, remark, drawn, data)


def _violations(ident: str, served: Sequence[PolicyReplay]) -> Element:
    title = "Violations"
    points, rows = _with_intervals("violation_rate", served, PERCENT)
    counts = [f"{replayed.summary.violations:,}" for replayed in served]
    rows = [(policy, [count, *cells]) for (policy, cells), count in zip(rows, counts, strict=True)]
    data = table(title, ["policy", "requests", "%", "95 % from", "to"], rows)
    drawn = charts.draw_intervals(points, PERCENT.short, None)
    remark = "Share of requests later than their SLO, with its 95 % interval, %."
    return figure(f"{ident}-violations", title, remark, drawn, data)


def _distribution(ident: str, served: Sequence[PolicyReplay], unit: ChartUnit, slo_s: float | None) -> Element:
    title = "Distribution of latency"
    rows = []
    for replayed in served:
        times_s = [
            *(percentile.latency_s for percentile in replayed.summary.percentiles),
            replayed.summary.max_latency_s,
        ]
        rows.append((replayed.policy, [unit.number(time_s) for time_s in times_s]))
    headers = ["policy", *(percentile.name for percentile in served[0].summary.percentiles), "worst"]
    drawn = charts.draw_cdf([(replayed.policy, replayed.replay.latency_s) for replayed in served], slo_s)
    data = table(f"Percentiles of latency, {unit.name}", headers, rows)
    return figure(f"{ident}-cdf", title, "Share of requests, %, that took no longer.", drawn, data)


def _exits(ident: str, served: Sequence[PolicyReplay], unit: ChartUnit) -> Element:
    title = "By exit"
    points, rows = [], []
    for index, replayed in enumerate(served):
        exits, late = replayed.replay.traffic.exits, replayed.replay.violated[np.isfinite(replayed.replay.finish_s)]
        exits = exits[np.isfinite(replayed.replay.finish_s)]
        count = len(replayed.summary.exits)
        drawn = {round(k * (count - 1) / max(_MANY_EXITS - 1, 1)) + 1 for k in range(_MANY_EXITS)}  # evenly spread
        for there in replayed.summary.exits:
            name = f"{replayed.policy}, exit {there.exit}"
            times = (there.mean_latency_s, there.p99_latency_s)
            cells = [f"{there.requests:,}", *("" if time_s is None else unit.number(time_s) for time_s in times)]
            if there.requests:
                rate = float(late[exits == there.exit].mean())
                if there.exit in drawn:
                    points.append(ChartPoint(name, rate, f"{100 * rate:.2f} % of {there.requests:,}", series=index))
            rows.append((name, [*cells, f"{100 * rate:.2f}" if there.requests else ""]))
    headers = ["policy, exit", "requests", f"mean {unit.name}", f"p99 {unit.name}", "violations %"]
    data = table("Requests by exit", headers, rows)
    remark = "Share of the requests that leave at each exit and are later than their SLO."
    if len(served[0].summary.exits) > _MANY_EXITS:
        remark += f" {_MANY_EXITS} exits are drawn, evenly spread."
    return figure(f"{ident}-exits", title, remark, charts.draw_bars(points), data)


def _by_network(ident: str, served: Sequence[PolicyReplay], unit: ChartUnit) -> Element:
    title, points, rows = "By network", [], []
    for index, replayed in enumerate(served):
        for network in replayed.replay.names:
            summary = replayed.networks.get(network)
            if summary is None:
                rows.append((f"{network}, {replayed.policy}", ["0", *[""] * 6]))
                continue
            name, rate = f"{network}, {replayed.policy}", f"{100 * summary.violation_rate:.2f}"
            points.append(ChartPoint(name, summary.violation_rate, f"{rate} % of {summary.requests:,}", series=index))
            times = (summary.mean_latency_s, summary.percentile("p99").latency_s)
            lost = [FIGURES[figure].of(summary) for figure in ("refused", "dropped")]
            shares = ["" if share is None else f"{100 * share:.2f}" for share in lost]
            busy = f"{100 * summary.busy_share:.1f}"
            rows.append((name, [f"{summary.requests:,}", *map(unit.number, times), rate, *shares, busy]))
    headers = ["network, policy", "requests", f"mean {unit.name}", f"p99 {unit.name}", "violations %"]
    data = table("Requests by network", [*headers, "refused %", "dropped %", "busy %"], rows)
    remark = "Share of the requests of each network that are later than their SLO."
    return figure(f"{ident}-networks", title, remark, charts.draw_bars(points), data)


def _opening(ident: str, served: Sequence[PolicyReplay], tables: Sequence[LatencyTable]) -> Element:
    title, b_max = "The first moments", max(latency.b_max for latency in tables)
    begin_s = float(served[0].opening.traffic.trace.arrival_s[0])
    end_s = max(replayed.opening.until_s for replayed in served)
    strips, rows, unit = [], [], time_unit(end_s - begin_s)
    for replayed in served:
        busy = charts.busy_until([part.runs for part in replayed.opening.by_network], end_s)
        times_s = busy.end_s - busy.begin_s
        mean = f"{(times_s * busy.batch).sum() / times_s.sum():.2f}" if len(times_s) else ""
        strips.append((replayed.policy, busy))
        busy_s = times_s.sum() / replayed.opening.lanes
        rows.append((replayed.policy, [unit.number(busy_s), mean, f"{busy.preempts.sum():,}"]))
    headers = ["policy", f"busy {unit.name}", "samples", "preemptions"]
    data = table(f"The first {unit.number(end_s - begin_s)} {unit.name}", headers, rows)
    drawn = charts.draw_strips(strips, begin_s, end_s, b_max)
    about = f"height is the batch, up to {b_max}; a triangle marks a preemption."
    remark = f"When the {tables[0].machine} was busy: {about}"
    return figure(f"{ident}-opening", title, remark, drawn, data)
