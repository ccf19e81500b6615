"""Section of a design or of a device: facts, pictures, and latency table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from xml.etree.ElementTree import Element

import numpy as np

from ...dse.npu.design import DesignTable
from ...dse.npu.explanation import Explanation, explain
from ...dse.npu.fbcb import FbcbTable
from ...tables.latency import LatencyTable
from . import charts
from .charts import ChartPoint, time_unit
from .content import ReportEntry
from .markup import Node, element, figure, figures, named, table

_EVERY_BATCH = 8
"""Largest b_max for which every batch size is shown; beyond it, powers of two and b_max."""

_MANY_PAIRS = 36
"""Most pairs of exits that are shown: as many as eight exits have."""


def network_parts(_: str, shown: ReportEntry) -> list[Element]:
    """What the networks of a device state, and their latency tables."""
    tables = [_latency(latency, _batches(latency), f" of {latency.network}") for latency in shown.tables]
    return [element("h3", "Networks"), _networks(shown), element("h3", "Latency tables"), *tables]


def design_parts(ident: str, shown: ReportEntry) -> list[Element]:
    """Facts, pictures, ranking and latency table of a design; facts and latency table of a device."""
    design, fbcb, latency = shown.design, shown.fbcb, shown.table
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
