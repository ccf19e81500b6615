"""The explanation of a design: the bound of every layer, and the cost of other choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...options import KindOptions, PictureOptions, option, written
from ...render import facts, ms, note, percent, percents, show, table
from ..problem import board_of
from ..searches.board import blocks, ranking
from . import Layer, Top

if TYPE_CHECKING:
    from ....dse.npu.explanation import Explanation, FixedConfiguration


@dataclass(frozen=True, kw_only=True)
class DesignExplainOptions(KindOptions):
    """The options of the explanation of a design, and the explanation."""

    with_: ClassVar[str] = "a design"

    batch: Annotated[int | None, option("Batch size to look at; the largest if not given.", "B", min=1)] = None
    top: Top = 15
    layer: Layer = None
    output: Annotated[Path | None, written("Write time, causes and choice by layer and batch as CSV.", "FILE")] = None

    def run(self, directory: Path, picture: PictureOptions, *, as_json: bool) -> None:
        """Explain the design of a folder."""
        from ....dse.npu.design import read_design
        from ....dse.npu.explanation import explain
        from ....formats import InputError, check_free, together
        from ....plots.explain import draw_explanation
        from ....traffic.trace import write_columns

        if self.output is not None:
            check_free(self.output, picture.force, apart=[picture.plot])
        design, fbcb = read_design(directory)
        b_max = design.options.b_max
        if self.batch is not None and self.batch > b_max:
            raise InputError(f"batch: expected 1 to {b_max}, the design's largest batch size, found {self.batch}")
        found = explain(design, fbcb)
        index = None if self.layer is None else found.index(self.layer)
        with together():
            if self.output is not None:
                write_columns(found.columns(), self.output, replace=picture.force)
            picture.write(lambda: draw_explanation(found, self.batch or b_max))
        text = _network(found, self.batch or b_max, self.top) if index is None else _layer(found, index)
        record = {"design": directory, **_record(found, index)}
        show(as_json, "fluidb.explain-output/3", record, text, picture.plot)
        if self.output is not None:
            note(f"wrote {self.output}")


def _network(found: Explanation, b: int, top: int) -> Iterator[str]:
    import numpy as np

    design, at = found.design, b - 1
    board, products = design.platform, len(design.network.gemms)
    time_s, parts_s = found.time_s[:, at], np.array([part[:, at] for part in found.parts_s.values()])
    totals = percents(parts_s.sum(axis=1))
    worst = max(range(1, len(totals)), key=lambda i: parts_s[i].sum())
    label = list(found.parts_s)[worst].label
    bounded = found.bound[:, at] == list(found.parts_s)[worst]
    reach = f"layers it bounds: {bounded.sum()}, with {percent(time_s[bounded].sum() / time_s.sum(), 1)}"
    about = {
        "network": f"{design.network.title} ({design.network.name})",
        "layers": f"{products} GEMMs and {len(found.layers) - products} memory-only that take time",
        "board": board_of(board),
        "design": f"{design.tile.names} = {design.tile}, {design.dsps:,} of {board.dsps:,} DSPs in use",
        **blocks(found.board_use),
        f"batch of {b}": f"{ms(time_s.sum())}, of which {totals[0]} % makes MACs",
        "largest loss": f"{label}, {totals[worst]} % of the time; {reach}",
    }
    if design.ideal_gop_s is not None:
        ideal_s = 2e-9 * design.network.macs * b / design.ideal_gop_s[at]
        about["its ideal"] = f"{ms(ideal_s)} if all transfers overlapped with products (`fluidb docs model`)"
    yield facts(about)
    sums_s = found.time_s.sum(axis=0)
    rows = [
        (i + 1, _ms(whole), *_shares(part[:, i].sum() for part in found.parts_s.values()))
        for i, whole in enumerate(sums_s)
    ]
    yield _table(found, _BATCHES, rows, [])
    order = np.argsort(-time_s, kind="stable")
    lines: list[tuple[Any, ...]] = [([i], found.layers[i].name, *_choice(found, i, at)) for i in order[:top]]
    if len(order) > top:
        lines.append((order[top:], f"the other {len(order) - top}", "", "", ""))
    shares = percents([time_s[indices].sum() for indices, *_ in lines])
    lines.append((order, "all", "", "", ""))
    cells = [
        (name, _ms(time_s[indices].sum()), share, *_shares(parts_s[:, indices].sum(axis=1)), *more)
        for (indices, name, *more), share in zip(lines, [*shares, "100.0"], strict=True)
    ]
    yield _table(found, (f"layer at b={b},\nand shares in %", "\nms", "of\nall"), cells, _CHOICE)
    yield from _fixed(found, b)
    yield from ranking(design)


_BATCHES = ("batch, and\nshares in %", "\nms")
_CHOICE = ("\nbound", "\nk:B_R", "\nnext best")


def _table(found: Explanation, before: Sequence[str], rows: Iterable[Sequence[Any]], after: Sequence[str]) -> str:
    """A table with a column for each cause that occurs, its header in two lines."""
    causes = [cause.label.replace(" ", "\n") if " " in cause.label else f"\n{cause.label}" for cause in found.parts_s]
    headers = [*before, *causes, *after]
    absent = {len(before) + i for i, part in enumerate(found.parts_s.values()) if not part.any()}
    kept = [i for i in range(len(headers)) if i not in absent]
    return table([headers[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _choice(found: Explanation, index: int, at: int) -> tuple[str, str, str]:
    """Bound of a layer, its k:B_R, and the next best choice with its cost."""
    following, next_best = found.runner_up(index)[at], ""
    if following:
        longer = 100 * (following.time_s / found.time_s[index, at] - 1)
        next_best = f"{following.k}:{following.B_R} {longer:+.1f} %"
    pair = "{}:{}".format(*found.chosen[index][at]) if found.chosen[index] else ""
    return found.bound[index, at].label, pair, next_best


def _fixed(found: Explanation, b: int) -> Iterator[str]:
    """Cost of leaving a choice out: B_R, k, both; and the best of all single configurations."""
    best = found.best_fixed
    wanted = [item for item in found.fixed if item.k in (None, "1") and item.B_R in (None, "b") and item is not best]
    base_s = found.time_s.sum(axis=0)[b - 1]
    rows = [("k and B_R as configured", ms(base_s), "", f"{found.mean_gop_s:,.1f}", "")]
    for item in wanted if best is None else [*wanted, best]:
        fixed = [f"{name} = {value}" for name, value in (("k", item.k), ("B_R", item.B_R)) if value is not None]
        name = ", ".join([*fixed, "the best single one"] if item is best else fixed)
        time_s, gop_s, less = item.time_s[b - 1], f"{item.mean_gop_s:,.1f}", 1 - item.mean_gop_s / found.mean_gop_s
        rows.append((name, ms(time_s), percent(time_s / base_s - 1), gop_s, percent(less)))
    if len(rows) > 1:
        yield table(["all layers and batch sizes with", f"time at b={b}", "longer by", "mean GOP/s", "less by"], rows)


def _layer(found: Explanation, index: int) -> Iterator[str]:
    from ....dse.npu.fbcb import K_NAMES

    layer = found.layers[index]
    product = "none: memory only"
    if layer.gemm:
        size = "x".join(map(str, layer.gemm[:3]))
        product = f"R x P x C = {size}, groups {layer.gemm.groups}, {layer.gemm.macs:,} MACs"
    place = f"{layer.name}, {index + 1} of {len(found.layers)}, in stage {layer.stage}"
    yield facts({"layer": place, "product": product, "design": f"{found.design.tile.names} = {found.design.tile}"})
    rows = []
    for i, (time_s, dram_bytes) in enumerate(zip(found.time_s[index], found.dram_bytes[index], strict=True)):
        shares = _shares(part[index, i] for part in found.parts_s.values())
        of_block = "" if found.block_rows is None else found.block_rows[index, i] or ""
        rows.append((i + 1, _ms(time_s), f"{dram_bytes / 1e6:,.3f}", of_block, *shares, *_choice(found, index, i)))
    yield _table(found, (*_BATCHES, "\nMB", "rows of\na block"), rows, _CHOICE)
    costs = [
        {(item.B_R, K_NAMES.index(item.k)): _ms(item.time_s) for item in column} for column in found.candidates[index]
    ]
    pairs = sorted({pair for column in costs for pair in column})
    if pairs:
        cells = [(f"{K_NAMES[k]}:{B_R}", *(column.get((B_R, k), "") for column in costs)) for B_R, k in pairs]
        yield table(["ms by k:B_R", *(f"b={b}" for b in range(1, len(costs) + 1))], cells)


def _record(found: Explanation, index: int | None) -> dict[str, Any]:
    design = found.design

    def times(of: Any) -> dict[str, Any]:
        return {"time_s": of(found.time_s)} | {f"{cause}_s": of(part) for cause, part in found.parts_s.items()}

    def row(i: int) -> dict[str, Any]:
        layer, following = found.layers[i], found.runner_up(i)
        return {
            "layer": layer.name,
            "stage": layer.stage,
            "gemm": layer.gemm and {**layer.gemm._asdict(), "per_sample": layer.per_sample},
            **times(lambda part: part[i]),
            "block_rows": None if found.block_rows is None or not layer.gemm else found.block_rows[i],
            "dram_bytes": found.dram_bytes[i],
            "bound": found.bound[i],
            "k": [k for k, _ in found.chosen[i]] or None,
            "B_R": [B_R for _, B_R in found.chosen[i]] or None,
            "next_k": [item and item.k for item in following],
            "next_B_R": [item and item.B_R for item in following],
            "next_time_s": [item and item.time_s for item in following],
        }

    def fixed(item: FixedConfiguration) -> dict[str, Any]:
        return {"k": item.k, "B_R": item.B_R, "time_s": item.time_s, "mean_gop_s": item.mean_gop_s}

    layers = [row(i) for i in (range(len(found.layers)) if index is None else [index])]
    if index is not None:
        layers[0]["candidates"] = [
            {"b": b, **item._asdict()} for b, column in enumerate(found.candidates[index], 1) for item in column
        ]
    return {
        "network": design.network.name,
        "platform": design.platform.name,
        "options": design.options,
        **design.tile.by_name,
        "dsp_share": design.dsp_share,
        "blocks": found.board_use and found.board_use.record,
        "mean_gop_s": found.mean_gop_s,
        **times(lambda part: part.sum(axis=0)),
        "layers": layers,
        "fixed": [fixed(item) for item in found.fixed],
        "best_fixed": found.best_fixed and fixed(found.best_fixed),
        "ranking": design.ranking,
    }


def _ms(time_s: float) -> str:
    """Milliseconds for a column that names the unit."""
    return f"{1e3 * time_s:,.3f}"


def _shares(parts: Iterable[float]) -> list[str]:
    """Parts of a whole in per cent, blank where there is nothing."""
    values = list(parts)
    return [text if value else "" for value, text in zip(values, percents(values), strict=True)]
