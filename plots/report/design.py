"""A design in the report: the search, resources, utilisation, latency table; a device: its latency table."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ...dse.design import DesignTable
from ...dse.fbcb import FbcbTable
from ...dse.objectives import OBJECTIVES
from ...tables.latency import LatencyTable
from .bars import Bar, draw_bars
from .chart import time_unit
from .content import Shown
from .heatmap import draw_heatmap
from .markup import element, figure, named, table

_Fact = tuple[str, tuple[Element | str, ...]]

_EVERY_BATCH = 8
"""Up to this b_max every batch size is shown, beyond it powers of two and b_max."""


def design_parts(ident: str, shown: Shown) -> list[Element]:
    """What the report says of a design or a device.

    Parameters
    ----------
    ident : str
        Identifier of its section.
    shown : Shown
        The design.

    Returns
    -------
    list of Element
        Parts of the section.
    """
    times = [element("h3", "Latency table"), _latency(shown.table)]
    if shown.design is None or shown.fbcb is None:
        return [element("h3", "Device"), _device(shown.table), *times]
    figures = [
        _resources(ident, shown.design, shown.fbcb),
        _utilisation(ident, shown.table),
        _throughput(ident, shown.design),
    ]
    if len(shown.design.ranking) > 1:
        figures.append(_ranking(shown.design))
    return [element("h3", "Design"), _facts(shown.design), element("div", *figures, class_="figures"), *times]


def _batches(b_max: int) -> list[int]:
    if b_max <= _EVERY_BATCH:
        return list(range(1, b_max + 1))
    return sorted({*(2**power for power in range(b_max.bit_length())), b_max})


def _facts(design: DesignTable) -> Element:
    board, options, best = design.platform, design.options, design.ranking[0]
    goal = OBJECTIVES[options.objective]
    stacking = "with stacking" if options.stacking else "no stacking"
    facts: list[_Fact] = [
        (
            "network",
            (named(design.network.title), f", {sum(row.gemm is not None for row in design.network.layers)} GEMMs"),
        ),
        ("board", (named(board.title), f", {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s")),
        ("design", (f"<T_R,T_P,T_C> = {design.tile}, {design.origin}",)),
        ("engine", (f"{options.batching.value} batching, {stacking}, b = 1..{options.b_max}",)),
        ("objective", (f"{goal.text(best.objective)} {goal.summary.format(options.b_max)}",)),
        ("peak", (f"{2e-9 * design.peak_macs_per_s:,.1f} GOP/s",)),
    ]
    return _listed(facts)


def _device(latency: LatencyTable) -> Element:
    facts: list[_Fact] = [
        ("network", (named(latency.network), f", {len(latency.exits)} exits")),
        ("device", (named(latency.platform), f", b = 1..{latency.b_max}")),
        ("utilisation", ("not known: the latency table states no causes",)),
    ]
    return _listed(facts)


def _listed(facts: list[_Fact]) -> Element:
    return element("dl", *(item for name, text in facts for item in (element("dt", name), element("dd", *text))))


def _resources(ident: str, design: DesignTable, fbcb: FbcbTable) -> Element:
    board = design.platform
    ram_mbit = design.tile.buffer_bits(board.word_bits) / 2**20
    found = [
        ("DSPs", f"{design.tile.dsps:,}", f"{board.dsps:,}", design.dsp_share),
        ("on-chip memory, Mbit", f"{ram_mbit:,.2f}", f"{board.on_chip_mbit:,.2f}", design.ram_share),
    ]
    share = design.register_share(fbcb)
    if share is not None:
        found.append(("flip-flops of the FBCB", f"{fbcb.register_bits:,}", f"{board.flip_flops:,}", share))
    title = "Resources"
    bars = [Bar(name, share, f"{used} of {whole}, {100 * share:.2f} %") for name, used, whole, share in found]
    rows = [(name, [used, whole, f"{100 * share:.3f}"]) for name, used, whole, share in found]
    data = table(title, ["resource", "used", "of the board", "%"], rows)
    return figure(title, "What the design takes of the board.", draw_bars(f"{ident}-resources", title, bars), data)


def _throughput(ident: str, design: DesignTable) -> Element:
    peak = 2e-9 * design.peak_macs_per_s
    found = [(b, design.gop_s[b - 1]) for b in _batches(design.options.b_max)]
    title = "Throughput"
    bars = [Bar(f"b = {b}", value / peak, f"{value:,.1f} GOP/s, {100 * value / peak:.1f} %") for b, value in found]
    rows = [(str(b), [f"{value:,.1f}", f"{100 * value / peak:.1f}"]) for b, value in found]
    data = table(title, ["batch", "GOP/s", "% of peak"], rows)
    return figure(title, "By batch size, against the peak.", draw_bars(f"{ident}-throughput", title, bars), data)


def _utilisation(ident: str, latency: LatencyTable) -> Element:
    layers, batches = latency.segments(by_layer=True), _batches(latency.b_max)
    assert layers.useful_s is not None  # a design's table states its causes
    share = layers.useful_s[:, batches] / layers.time_s[:, batches]
    names = [layer.name for layer in latency.layers]
    title = "Utilisation"
    rows = [
        (named(name), [f"{100 * value:.1f}" for value in row]) for name, row in zip(names, share.tolist(), strict=True)
    ]
    data = table("Utilisation, %, by layer and batch size", ["layer", *(f"b = {b}" for b in batches)], rows)
    drawn = draw_heatmap(f"{ident}-utilisation", title, share, names, layers.stage, batches)
    return figure(title, "Share of a layer's time, on the whole array, that makes MACs.", drawn, data)


def _ranking(design: DesignTable) -> Element:
    best, goal = design.ranking[0].objective, OBJECTIVES[design.options.objective]
    rows = [
        (str(row.tile), [goal.text(row.objective), f"{100 * (row.objective / best - 1):.2f}"]) for row in design.ranking
    ]
    caption = element("figcaption", element("strong", "Ranking"), " The best designs of the search.")
    return element("figure", caption, table("By objective", ["<T_R,T_P,T_C>", "objective", "% to the best"], rows))


def _latency(latency: LatencyTable) -> Element:
    batches, unit = _batches(latency.b_max), time_unit(max(row.time_s[-1] for row in latency.rows))
    ends = ["input", *(row.name for row in latency.exits)]
    rows = [
        (
            element("span", named(ends[row.from_exit]), " to ", named(ends[row.to_exit])),
            [unit.number(row.time_s[b - 1]) for b in batches],
        )
        for row in latency.rows
    ]
    return table(f"From exit to exit, {unit.name}, by batch size", ["from, to", *(f"b = {b}" for b in batches)], rows)
