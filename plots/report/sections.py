"""Sections of a report: a design or a device, the policies that were simulated on it, and a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from ...dse.npu.design import DesignTable
from ...dse.npu.explanation import Explanation, explain
from ...dse.npu.fbcb import FbcbTable
from ...serving.figures import FIGURES, SHOWN_IN
from ...serving.requirements import Requirement
from ...studies.comparison import Comparison, PointResult
from ...studies.estimates import Difference, Estimate
from ...studies.paired import differences
from ...tables.latency import LatencyTable
from . import charts
from .charts import PERCENT, ChartPoint, ChartUnit, time_unit
from .content import PolicyReplay, ReportEntry, Served
from .markup import Node, element, figure, figures, named, table

_EVERY_BATCH = 8
"""Largest b_max for which every batch size is shown; beyond it, powers of two and b_max."""


_MANY_EXITS = 8
"""Exits that are drawn."""

_MANY_PAIRS = 36
"""Most pairs of exits that are shown: as many as eight exits have."""


def design_parts(ident: str, shown: ReportEntry) -> list[Element]:
    """Facts, pictures, ranking and latency table of a design; facts and latency table of a device."""
    design, fbcb, latency = shown.design, shown.fbcb, shown.table
    if shown.named:
        tables = [
            _latency(network_latency, _batches(network_latency), f" of {network_latency.network}")
            for network_latency in shown.tables
        ]
        return [element("h3", "Networks"), _networks(shown), element("h3", "Latency tables"), *tables]
    batches = _batches(latency)
    times = [element("h3", "Latency table"), _latency(latency, batches)]
    if design is None or fbcb is None:
        return [element("h3", "Device"), _device_facts(latency), *times]
    drawn = [
        _resources(ident, design, fbcb),
        _roofline(ident, explain(design, fbcb)),
        _utilisation(ident, latency, batches),
        _throughput(ident, design, batches),
    ]
    if len(design.ranking) > 1:
        drawn.append(_ranking(design))
    return [element("h3", "Design"), _design_facts(design), figures(drawn), *times]


def _batches(latency: LatencyTable) -> list[int]:
    """The batch sizes that are shown."""
    if latency.b_max <= _EVERY_BATCH:
        return list(range(1, latency.b_max + 1))
    return sorted({*(2**power for power in range(latency.b_max.bit_length())), latency.b_max})


def _networks(shown: ReportEntry) -> Element:
    """What the file of networks states."""
    whole, rows = sum(network.share for network in shown.networks), []
    for network, latency in zip(shown.networks, shown.tables, strict=True):
        slo_s = network.slo_s
        slo = f"{1e3 * slo_s:g} ms" if isinstance(slo_s, float) else "" if slo_s is None else "drawn"
        limit = "" if network.admit is None else str(network.admit)
        switch = f"{1e3 * network.switch_s:g} ms"
        cells = [latency.network, f"{100 * network.share / whole:.1f}", slo, f"{network.weight:g}", switch, limit]
        rows.append((network.name, cells))
    headers = ["name", "network", "share of requests %", "SLO", "weight", "switch", "admit"]
    return table(f"Networks on {shown.table.platform}", headers, rows)


def _design_facts(design: DesignTable) -> Element:
    board, options = design.platform, design.options
    gemms = sum(row.gemm is not None for row in design.network.layers)
    stacking = "with stacking" if options.stacking else "no stacking"
    return _facts({
        "network": [named(design.network.title), f", {gemms} GEMMs"],
        "board": [named(board.title), f", {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s"],
        "design": [f"{design.tile.names} = {design.tile}, {design.origin}"],
        "engine": [f"{options.batching.value} batching, {stacking}, b = 1..{options.b_max}"],
        "objective": [design.objective_text],
        "peak": [f"{2e-9 * design.peak_macs_per_s:,.1f} GOP/s"],
    })  # fmt: skip


def _device_facts(latency: LatencyTable) -> Element:
    return _facts({
        "network": [named(latency.network), f", {len(latency.exits)} exits"],
        "device": [named(latency.platform), f", b = 1..{latency.b_max}"],
        "utilisation": ["not known: the latency table states no causes"],
    })  # fmt: skip


def _facts(facts: dict[str, list[Node]]) -> Element:
    return element(
        "dl", *(part for name, text in facts.items() for part in (element("dt", name), element("dd", *text)))
    )


def _resources(ident: str, design: DesignTable, fbcb: FbcbTable) -> Element:
    board, title = design.platform, "Resources"
    ram_mbit = design.tile.buffer_bits(board.word_bits) / 2**20 + design.options.persistent_mbit
    resources = [
        ("DSPs", f"{design.dsps:,}", f"{board.dsps:,}", design.dsp_share),
        ("on-chip memory, Mbit", f"{ram_mbit:,.2f}", f"{board.on_chip_mbit:,.2f}", design.ram_share),
    ]
    share = design.register_share(fbcb)
    if share is not None:
        resources.append(("flip-flops of the FBCB", f"{fbcb.register_bits:,}", f"{board.flip_flops:,}", share))
    bars = [
        ChartPoint(name, share, f"{used} of {whole}, {100 * share:.2f} %") for name, used, whole, share in resources
    ]
    rows = [(name, [used, whole, f"{100 * share:.3f}"]) for name, used, whole, share in resources]
    data = table(title, ["resource", "used", "of the board", "%"], rows)
    return figure(f"{ident}-resources", title, "What the design takes of the board.", charts.draw_bars(bars), data)


def _throughput(ident: str, design: DesignTable, batches: Sequence[int]) -> Element:
    peak, title = 2e-9 * design.peak_macs_per_s, "Throughput"
    rates = [(b, f"{design.gop_s[b - 1]:,.1f}", design.gop_s[b - 1] / peak) for b in batches]
    bars = [ChartPoint(f"b = {b}", share, f"{gop_s} GOP/s, {100 * share:.1f} %") for b, gop_s, share in rates]
    rows = [(str(b), [gop_s, f"{100 * share:.1f}"]) for b, gop_s, share in rates]
    data = table(title, ["batch", "GOP/s", "% of peak"], rows)
    return figure(f"{ident}-throughput", title, "By batch size, against the peak.", charts.draw_bars(bars), data)


def _utilisation(ident: str, latency: LatencyTable, batches: Sequence[int]) -> Element:
    layers, title = latency.segments(by_layer=True), "Utilisation"
    assert layers.useful_s is not None  # a design's table states its causes
    share = layers.useful_s[0][:, batches] / layers.time_s[0][:, batches]
    names = [layer.name for layer in latency.layers]
    rows = [(name, [f"{100 * value:.1f}" for value in row]) for name, row in zip(names, share, strict=True)]
    data = table("Utilisation, %, by layer and batch size", ["layer", *(f"b = {b}" for b in batches)], rows)
    drawn = charts.draw_heatmap(share, names, layers.stage, batches)
    remark = "Share of a layer's time, on the whole array, that makes MACs."
    return figure(f"{ident}-utilisation", title, remark, drawn, data)


def _roofline(ident: str, explanation: Explanation) -> Element:
    title, design = "Roofline", explanation.design
    products = [(index, layer.gemm) for index, layer in enumerate(explanation.layers) if layer.gemm is not None]
    rows = np.array([index for index, _ in products])
    names, time_s = [explanation.layers[index].name for index in rows], explanation.time_s[rows, 0]
    operations = 2.0 * np.array([gemm.macs for _, gemm in products])
    intensity, gop_s = operations / explanation.dram_bytes[rows, 0], operations / time_s / 1e9
    share, bound = time_s / explanation.time_s[:, 0].sum(), [explanation.bound[index, 0].label for index in rows]
    roof = charts.Roof(2e-9 * design.peak_macs_per_s, design.platform.bandwidth_gb_s)
    cells = zip(names, intensity, gop_s, share, bound, strict=True)
    table_rows = [(name, [f"{x:,.2f}", f"{y:,.1f}", f"{100 * part:.1f}", why]) for name, x, y, part, why in cells]
    headers = ["layer", "operations/byte", "GOP/s", "% of the time", "bound by"]
    data = table("Layers at b = 1", headers, table_rows)
    remark = "Layers of one sample under the peak and the bandwidth; a dot's area is its share of the time."
    return figure(f"{ident}-roofline", title, remark, charts.draw_roofline(names, intensity, gop_s, share, roof), data)


def _ranking(design: DesignTable) -> Element:
    best, text = design.ranking[0].objective, design.options.text
    rows = [(str(row.tile), [text(row.objective), f"{100 * (row.objective / best - 1):.2f}"]) for row in design.ranking]
    data = table("By objective", ["<T_R,T_P,T_C>", "objective", "% to the best"], rows)
    return figure("", "Ranking", "The best designs of the search.", None, data)


def _latency(latency: LatencyTable, batches: Sequence[int], whose: str = "") -> Element:
    times_s = latency.array()
    unit = time_unit(float(times_s[:, :, -1].max()))
    ends = ["input", *(row.name for row in latency.exits)]
    pairs, caption = list(combinations(range(len(ends)), 2)), "From exit to exit"
    if len(pairs) > _MANY_PAIRS:
        pairs, caption = pairs[: len(latency.exits)], "From the input to each exit (latency.json has every pair)"
    rows = []
    for i, j in pairs:
        name = element("span", named(ends[i]), " to ", named(ends[j]))
        rows.append((name, [unit.number(times_s[i, j, b]) for b in batches]))
    return table(f"{caption}{whose}, {unit.name}, by batch size", ["from, to", *(f"b = {b}" for b in batches)], rows)


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
    drawn = [
        _tail(ident, shown.served, unit, slo_s),
        _violations(ident, shown.served),
        _distribution(ident, shown.served, unit, slo_s),
        (_by_network if shown.named else _exits)(ident, shown.served, unit),
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


def _longest_s(latency_s: NDArray[np.float64]) -> float:
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
            cells = _difference(PERCENT, changes["violation_rate"]) + _difference(unit, changes["mean_latency_s"])
            rows.append((replayed.policy, cells))
    if rows:
        ends = ["95 % from", "to", "beyond noise"]
        headers = ["policy", "violations, points", *ends, f"mean {unit.name}", *ends]
        yield table(f"Less {best[1].policy} on {best[0].name}, on the same requests", headers, rows)


def _difference(unit: ChartUnit, change: Difference | None) -> list[str]:
    if change is None:
        return ["none", "", "", ""]
    return [*_numbers(unit, change), {True: "yes", False: "no", None: ""}[change.beyond_noise]]


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
            cells = _difference(unit, change)
        rows.append((standing.name, [*_numbers(unit, value), *cells]))
    headers = ["contender", "mean", "95 % from", "to", f"less {baseline}", "95 % from", "to", "beyond noise"]
    data = table(f"{title}, {unit.name}", headers, rows)
    drawn = charts.draw_intervals(points, unit.short, None)
    return figure(f"{ident}-{metric}", title, f"With its 95 % interval, {unit.name}.", drawn, data)


def _numbers(unit: ChartUnit, estimate: Estimate | Difference) -> list[str]:
    return ["" if value is None else unit.number(value) for value in (estimate.mean, estimate.low, estimate.high)]
