"""``fluidb explain``: what bounds a design, layer by layer, and what other choices would cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, DesignFolder, Force
from ..render import blank, emit_facts, emit_json, emit_table, ms, note, percent, percents
from .dse import emit_ranking

if TYPE_CHECKING:
    from ...dse.explanation import Configuration, Explanation, Fixed


def command(
    directory: DesignFolder,
    batch: Annotated[
        int | None, typer.Option(min=1, metavar="B", help="Batch size to look at; the largest if not given.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=100_000, help="Layers to list, by time.")] = 15,
    layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="One layer: every batch size, and every (k, B_R) with its cost.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw roofline, causes and utilisation of layers by batch (.svg or .png; extra plot)."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Say what a design's time goes into, and what other choices would cost.

    Of every layer and batch size: MACs, padding, waiting for memory; the chosen
    k and B_R and the next best; the loss under one fixed configuration; the
    designs that came next.  docs/explain.md reads an example.
    """
    from ...dse.design import read_design
    from ...dse.explanation import candidates, explain
    from ...formats import InputError
    from ...plots import check_picture
    from ...plots.explain import draw_explanation

    if plot is not None:
        check_picture(plot, replace=force)
    design, fbcb = read_design(directory)
    b_max = design.options.b_max
    if batch is not None and batch > b_max:
        raise InputError(f"--batch: expected 1 to {b_max}, the design's largest batch size, found {batch}")
    found = explain(design, fbcb)
    index = None if layer is None else found.index(layer)
    weighed = [] if index is None else candidates(design, found.layers[index])
    if plot is not None:
        draw_explanation(found, batch or b_max, plot, replace=force)
    if as_json:
        _emit_json(found, directory, index, weighed)
    elif index is None:
        _emit_network(found, batch or b_max, top)
    else:
        _emit_layer(found, index, weighed)
    if plot is not None:
        note(f"wrote {plot}")


def _emit_network(found: Explanation, b: int, top: int) -> None:
    import numpy as np

    design, at = found.design, b - 1
    board, products = design.platform, len(design.network.gemms)
    time_s, parts_s = found.time_s[:, at], np.array([part[:, at] for part in found.parts_s.values()])
    totals = percents(parts_s.sum(axis=1))
    worst = max(range(1, len(totals)), key=lambda i: parts_s[i].sum())
    label = list(found.parts_s)[worst].label
    bounded = found.bound[:, at] == list(found.parts_s)[worst]
    reach = f"layers it bounds: {bounded.sum()}, with {percent(time_s[bounded].sum() / time_s.sum(), 1)}"
    emit_facts(
        [
            ("network", f"{design.network.title} ({design.network.name})"),
            ("layers", f"{products} GEMMs and {len(found.layers) - products} memory-only that take time"),
            ("board", f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s"),
            ("design", f"<T_R,T_P,T_C> = {design.tile}, {design.tile.dsps:,} of {board.dsps:,} DSPs in use"),
            (f"batch of {b}", f"{ms(time_s.sum())}, of which {totals[0]} % makes MACs"),
            ("largest loss", f"{label}, {totals[worst]} % of the time; {reach}"),
        ]
    )
    causes = _headers(found)
    blank()
    rows = [
        (i + 1, f"{1e3 * whole:,.3f}", *_cells(part[:, i].sum() for part in found.parts_s.values()))
        for i, whole in enumerate(found.time_s.sum(axis=0))
    ]
    emit_table(["batch, and\nshares in %", "\nms", *causes], rows)
    blank()
    order = np.argsort(-time_s, kind="stable")
    shown, rest = order[:top], order[top:]
    lines: list[tuple[Any, ...]] = [([index], found.layers[index].name, *_choice(found, index, at)) for index in shown]
    if len(rest):
        lines.append((rest, f"the other {len(rest)}", "", "", ""))
    shares = percents([time_s[indices].sum() for indices, *_ in lines])
    lines.append((order, "all", "", "", ""))
    table = [
        (name, f"{1e3 * time_s[indices].sum():,.3f}", share, *_cells(parts_s[:, indices].sum(axis=1)), *more)
        for (indices, name, *more), share in zip(lines, [*shares, "100.0"], strict=True)
    ]
    headers = [f"layer at b={b},\nand shares in %", "\nms", "of\nall", *causes, "\nbound", "\nk:B_R", "\nnext best"]
    emit_table(headers, table)
    _emit_fixed(found, b)
    emit_ranking(design)


def _headers(found: Explanation) -> list[str]:
    """The causes in two lines each."""
    return [cause.label.replace(" ", "\n") if " " in cause.label else f"\n{cause.label}" for cause in found.parts_s]


def _choice(found: Explanation, index: int, at: int) -> tuple[str, str, str]:
    """What bounds a layer, its k:B_R, and the next best with what it would cost."""
    from ...dse.fbcb import K_NAMES

    def pair(codes: Any, B_R: Any) -> str:
        return f"{K_NAMES[codes[index, at]]}:{B_R[index, at]}" if B_R[index, at] else ""

    chosen, following = found.chosen, found.runner_up
    next_best = pair(following.codes, following.B_R)
    if next_best:
        next_best += f" {100 * (following.time_s[index, at] / chosen.time_s[index, at] - 1):+.1f} %"
    return found.bound[index, at].label, pair(chosen.codes, chosen.B_R), next_best


def _emit_fixed(found: Explanation, b: int) -> None:
    """What a choice taken away costs: B_R, k, both; and the best of all single configurations."""
    best = found.best_fixed
    wanted = [item for item in found.fixed if item.k in (None, "1") and item.B_R in (None, "b")]
    shown = [(item, _rule(item)) for item in wanted if item is not best]
    if best is not None:
        shown.append((best, f"{_rule(best)}, the best single one"))
    if not shown:
        return
    base_s = found.time_s.sum(axis=0)[b - 1]
    rows = [("k and B_R as configured", ms(base_s), "", f"{found.gop_s:,.1f}", "")]
    for item, name in shown:
        time_s = item.time_s[b - 1]
        longer, less = percent(time_s / base_s - 1), percent(1 - item.gop_s / found.gop_s)
        rows.append((name, ms(time_s), longer, f"{item.gop_s:,.1f}", less))
    blank()
    emit_table(["all layers and batch sizes with", f"time at b={b}", "longer by", "GOP/s, all b", "less by"], rows)


def _rule(item: Fixed) -> str:
    return ", ".join([f"k = {item.k}"] * (item.k is not None) + [f"B_R = {item.B_R}"] * (item.B_R is not None))


def _emit_layer(found: Explanation, index: int, weighed: list[list[Configuration]]) -> None:
    from ...dse.fbcb import K_NAMES

    layer = found.layers[index]
    product = layer.gemm and "R x P x C = " + "x".join(map(str, layer.gemm[:3])) + f", groups {layer.gemm.groups}"
    emit_facts(
        [
            ("layer", f"{layer.name}, {index + 1} of {len(found.layers)}, in stage {layer.stage}"),
            ("product", f"{product}, {layer.gemm.macs:,} MACs" if layer.gemm else "none: memory only"),
            ("design", f"<T_R,T_P,T_C> = {found.design.tile}"),
        ]
    )
    blank()
    rows = [
        (
            i + 1,
            f"{1e3 * found.time_s[index, i]:,.3f}",
            f"{found.dram_bytes[index, i] / 1e6:,.3f}",
            *_cells(part[index, i] for part in found.parts_s.values()),
            *_choice(found, index, i),
        )
        for i in range(found.time_s.shape[1])
    ]
    headers = ["batch, and\nshares in %", "\nms", "\nMB", *_headers(found), "\nbound", "\nk:B_R", "\nnext best"]
    emit_table(headers, rows)
    pairs = sorted(
        {(item.k, item.B_R) for column in weighed for item in column},
        key=lambda pair: (pair[1], K_NAMES.index(pair[0])),
    )
    if pairs:
        blank()
        cost = [{(item.k, item.B_R): item.time_s for item in column} for column in weighed]
        cells = [
            (f"{k}:{B_R}", *(f"{1e3 * column[k, B_R]:,.3f}" if (k, B_R) in column else "" for column in cost))
            for k, B_R in pairs
        ]
        emit_table(["ms by k:B_R", *(f"b={b}" for b in range(1, len(cost) + 1))], cells)


def _emit_json(found: Explanation, directory: Path, index: int | None, weighed: list[list[Configuration]]) -> None:
    from ...dse.fbcb import K_NAMES

    design = found.design

    def row(index: int) -> dict[str, Any]:
        layer, chosen, following = found.layers[index], found.chosen, found.runner_up
        has = [bool(B_R) for B_R in following.B_R[index]]
        return {
            "layer": layer.name,
            "stage": layer.stage,
            "gemm": layer.gemm and {**layer.gemm._asdict(), "per_sample": layer.per_sample},
            "time_s": found.time_s[index].tolist(),
            **{f"{cause}_s": part[index].tolist() for cause, part in found.parts_s.items()},
            "dram_bytes": found.dram_bytes[index].tolist(),
            "bound": found.bound[index].tolist(),
            "k": [K_NAMES[code] for code in chosen.codes[index]] if layer.gemm else None,
            "B_R": chosen.B_R[index].tolist() if layer.gemm else None,
            "next_k": [
                K_NAMES[code] if there else None for code, there in zip(following.codes[index], has, strict=True)
            ],
            "next_B_R": [int(B_R) or None for B_R in following.B_R[index]],
            "next_time_s": [
                float(time_s) if there else None for time_s, there in zip(following.time_s[index], has, strict=True)
            ],
        }

    def fixed(item: Fixed) -> dict[str, Any]:
        return {"k": item.k, "B_R": item.B_R, "time_s": item.time_s.tolist(), "gop_s_sum": item.gop_s}

    layers = [row(i) for i in (range(len(found.layers)) if index is None else [index])]
    if index is not None:
        layers[0]["candidates"] = [{"b": b, **item._asdict()} for b, column in enumerate(weighed, 1) for item in column]
    content = {
        "design": str(directory),
        "network": design.network.name,
        "platform": design.platform.name,
        "options": design.options.model_dump(mode="json"),
        **design.tile._asdict(),
        "dsp_share": design.dsp_share,
        "gop_s_sum": found.gop_s,
        "time_s": found.time_s.sum(axis=0).tolist(),
        **{f"{cause}_s": part.sum(axis=0).tolist() for cause, part in found.parts_s.items()},
        "layers": layers,
        "fixed": [fixed(item) for item in found.fixed],
        "best_fixed": found.best_fixed and fixed(found.best_fixed),
        "ranking": [item.model_dump() for item in design.ranking],
    }
    emit_json("fluidb.explain-output/1", content)


def _cells(parts: Iterable[float]) -> list[str]:
    """Parts of a whole in per cent, blank where there is nothing."""
    values = list(parts)
    return [text if value else "" for value, text in zip(values, percents(values), strict=True)]
