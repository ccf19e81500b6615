"""The explanation of a design: the bound of every layer, and the cost of other choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...declare import KindOptions, option, written
from ...options import PictureOptions
from ...render import facts, ms, note, percent, percents, show, table
from ..problem import board_of, not_judged
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
    output: Annotated[
        Path | None, written("Write the time, its causes and the choice for each layer and batch size as CSV.", "FILE")
    ] = None

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
        explanation = explain(design, fbcb)
        index = None if self.layer is None else explanation.index(self.layer)
        with together():
            if self.output is not None:
                write_columns(explanation.columns(), self.output, replace=picture.force)
            picture.write(lambda: draw_explanation(explanation, self.batch or b_max))
        text = _network(explanation, self.batch or b_max, self.top) if index is None else _layer(explanation, index)
        record = {"design": directory, **_record(explanation, index)}
        show(as_json, "fluidb.explain-output/3", record, text, picture.plot)
        if self.output is not None:
            note(f"wrote {self.output}")


def _network(explanation: Explanation, b: int, top: int) -> Iterator[str]:
    import numpy as np

    design, at = explanation.design, b - 1
    board, products = design.platform, len(design.network.gemms)
    pools = sum(layer.gemm is None for layer in explanation.layers if layer.product(pooled=design.options.pooled))
    time_s, parts_s = explanation.time_s[:, at], np.array([part[:, at] for part in explanation.parts_s.values()])
    totals = percents(parts_s.sum(axis=1))
    worst = max(range(1, len(totals)), key=lambda i: parts_s[i].sum())
    label = list(explanation.parts_s)[worst].label
    bounded = explanation.bound[:, at] == list(explanation.parts_s)[worst]
    reach = f"it bounds {bounded.sum()} layers, which take {percent(time_s[bounded].sum() / time_s.sum(), 1)}"
    about: dict[str, str | None] = {
        "network": f"{design.network.title} ({design.network.name})",
        "layers": f"{products} GEMMs{f', {pools} pools' if pools else ''} and "
        f"{len(explanation.layers) - products - pools} memory-only that take time",
        "board": board_of(board),
        "design": f"{design.tile.names} = {design.tile}, {design.dsps:,} of {board.dsps:,} DSPs in use",
        **blocks(explanation.board_use),
        "not judged": not_judged(design.options.unjudged(board)),
        f"batch of {b}": f"{ms(time_s.sum())}; MACs are made in {totals[0]} % of it",
        "largest loss": f"{label}, {totals[worst]} % of the time; {reach}",
    }
    if design.ideal_gop_s is not None:
        ideal_s = 2e-9 * design.network.macs * b / design.ideal_gop_s[at]
        about["its ideal"] = f"{ms(ideal_s)} if all transfers overlapped with products (`fluidb docs model`)"
    yield facts(about)
    sums_s = explanation.time_s.sum(axis=0)
    rows = [
        (
            i + 1,
            _ms(whole),
            *_shares(part[:, i].sum() for part in explanation.parts_s.values()),
            _lost(explanation, None, i),
        )
        for i, whole in enumerate(sums_s)
    ]
    yield _table(explanation, _BATCHES, rows, _LOST)
    order = np.argsort(-time_s, kind="stable")
    lines: list[tuple[Any, ...]] = [
        ([i], explanation.layers[i].name, *_choice(explanation, i, at)) for i in order[:top]
    ]
    if len(order) > top:
        lines.append((order[top:], f"the other {len(order) - top}", "", "", ""))
    shares = percents([time_s[indices].sum() for indices, *_ in lines])
    lines.append((order, "all", "", "", ""))
    cells = [
        (
            name,
            _ms(time_s[indices].sum()),
            share,
            *_shares(parts_s[:, indices].sum(axis=1)),
            _lost(explanation, indices, at),
            *more,
        )
        for (indices, name, *more), share in zip(lines, [*shares, "100.0"], strict=True)
    ]
    yield _table(explanation, (f"layer at b={b},\nand shares in %", "\nms", "of\nall"), cells, (*_LOST, *_CHOICE))
    yield from _fixed(explanation, b)
    yield from ranking(design)


_BATCHES = ("batch, and\nshares in %", "\nms")
_LOST = ("beats\nlost",)
_CHOICE = ("\nbound", "\nk:B_R", "\nnext best")


def _table(explanation: Explanation, before: Sequence[str], rows: Iterable[Sequence[Any]], after: Sequence[str]) -> str:
    """A table with a column for each cause that occurs, its header in two lines, and beats that are lost."""
    causes = [
        cause.label.replace(" ", "\n") if " " in cause.label else f"\n{cause.label}" for cause in explanation.parts_s
    ]
    headers = [*before, *causes, *after]
    absent = {len(before) + i for i, part in enumerate(explanation.parts_s.values()) if not part.any()}
    if not explanation.lost_share().any():
        absent.add(len(before) + len(causes))
    kept = [i for i in range(len(headers)) if i not in absent]
    return table([headers[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _lost(explanation: Explanation, layers: Sequence[int] | None, at: int) -> str:
    """Share of the beats of the bus that some layers lose, in per cent."""
    return f"{100 * explanation.lost_share(layers)[at]:.1f}"


def _choice(explanation: Explanation, index: int, at: int) -> tuple[str, str, str]:
    """Bound of a layer, its k:B_R, and the next best choice with its cost."""
    following, next_best = explanation.runner_up(index)[at], ""
    if following:
        longer = 100 * (following.time_s / explanation.time_s[index, at] - 1)
        next_best = f"{following.k}:{following.B_R} {longer:+.1f} %"
    pair = "{}:{}".format(*explanation.chosen[index][at]) if explanation.chosen[index] else ""
    return explanation.bound[index, at].label, pair, next_best


def _fixed(explanation: Explanation, b: int) -> Iterator[str]:
    """Cost of leaving a choice out: B_R, k, both; and the best of all single configurations."""
    best = explanation.best_fixed
    wanted = [
        configuration
        for configuration in explanation.fixed
        if configuration.k in (None, "1") and configuration.B_R in (None, "b") and configuration is not best
    ]
    base_s = explanation.time_s.sum(axis=0)[b - 1]
    rows = [("k and B_R as configured", ms(base_s), "", f"{explanation.mean_gop_s:,.1f}", "")]
    for configuration in wanted if best is None else [*wanted, best]:
        fixed = [
            f"{name} = {value}"
            for name, value in (("k", configuration.k), ("B_R", configuration.B_R))
            if value is not None
        ]
        name = ", ".join([*fixed, "the best single one"] if configuration is best else fixed)
        time_s, gop_s = configuration.time_s[b - 1], f"{configuration.mean_gop_s:,.1f}"
        less = 1 - configuration.mean_gop_s / explanation.mean_gop_s
        rows.append((name, ms(time_s), percent(time_s / base_s - 1), gop_s, percent(less)))
    if len(rows) > 1:
        yield table(["all layers and batch sizes with", f"time at b={b}", "longer by", "mean GOP/s", "less by"], rows)


def _layer(explanation: Explanation, index: int) -> Iterator[str]:
    from ....dse.npu.fbcb import K_NAMES

    layer = explanation.layers[index]
    product = "none: memory only"
    if layer.gemm:
        size = "x".join(map(str, layer.gemm[:3]))
        product = f"R x P x C = {size}, groups {layer.gemm.groups}, {layer.gemm.macs:,} MACs"
    elif pool := layer.product(pooled=explanation.design.options.pooled):
        product = f"a pool, R x P x C = {'x'.join(map(str, pool[:3]))}, groups {pool.groups}"
    place = f"{layer.name}, {index + 1} of {len(explanation.layers)}, in stage {layer.stage}"
    yield facts(
        {"layer": place, "product": product, "design": f"{explanation.design.tile.names} = {explanation.design.tile}"}
    )
    rows = []
    for i, (time_s, dram_bytes) in enumerate(
        zip(explanation.time_s[index], explanation.dram_bytes[index], strict=True)
    ):
        shares = _shares(part[index, i] for part in explanation.parts_s.values())
        of_block = "" if explanation.block_rows is None else explanation.block_rows[index, i] or ""
        rows.append(
            (
                i + 1, _ms(time_s), f"{dram_bytes / 1e6:,.3f}", of_block, *shares, _lost(explanation, [index], i),
                *_choice(explanation, index, i),
            )
        )  # fmt: skip
    yield _table(explanation, (*_BATCHES, "\nMB", "rows of\na block"), rows, (*_LOST, *_CHOICE))
    costs = [
        {(candidate.B_R, K_NAMES.index(candidate.k)): _ms(candidate.time_s) for candidate in column}
        for column in explanation.candidates[index]
    ]
    pairs = sorted({pair for column in costs for pair in column})
    if pairs:
        cells = [(f"{K_NAMES[k]}:{B_R}", *(column.get((B_R, k), "") for column in costs)) for B_R, k in pairs]
        yield table(["ms by k:B_R", *(f"b={b}" for b in range(1, len(costs) + 1))], cells)


def _record(explanation: Explanation, index: int | None) -> dict[str, Any]:
    design = explanation.design

    def times(of: Any) -> dict[str, Any]:
        return {"time_s": of(explanation.time_s)} | {
            f"{cause}_s": of(part) for cause, part in explanation.parts_s.items()
        }

    def row(i: int) -> dict[str, Any]:
        layer, following = explanation.layers[i], explanation.runner_up(i)
        product = layer.product(pooled=design.options.pooled)
        return {
            "layer": layer.name,
            "stage": layer.stage,
            "gemm": layer.gemm and {**layer.gemm._asdict(), "per_sample": layer.per_sample},
            "pool": None if layer.gemm or product is None else product._asdict(),
            **times(lambda part: part[i]),
            "block_rows": None if explanation.block_rows is None or product is None else explanation.block_rows[i],
            "dram_bytes": explanation.dram_bytes[i],
            "lost_beat_share": explanation.lost_share([i]),
            "bound": explanation.bound[i],
            "k": [k for k, _ in explanation.chosen[i]] or None,
            "B_R": [B_R for _, B_R in explanation.chosen[i]] or None,
            "next_k": [following_one and following_one.k for following_one in following],
            "next_B_R": [following_one and following_one.B_R for following_one in following],
            "next_time_s": [following_one and following_one.time_s for following_one in following],
        }

    def fixed(configuration: FixedConfiguration) -> dict[str, Any]:
        return {
            "k": configuration.k,
            "B_R": configuration.B_R,
            "time_s": configuration.time_s,
            "mean_gop_s": configuration.mean_gop_s,
        }

    layers = [row(i) for i in (range(len(explanation.layers)) if index is None else [index])]
    if index is not None:
        layers[0]["candidates"] = [
            {"b": b, **candidate._asdict()}
            for b, column in enumerate(explanation.candidates[index], 1)
            for candidate in column
        ]
    return {
        "network": design.network.name,
        "platform": design.platform.name,
        "options": design.options,
        **design.tile.by_name,
        "dsp_share": design.dsp_share,
        "blocks": explanation.board_use and explanation.board_use.record,
        "unjudged": list(design.options.unjudged(design.platform)),
        "mean_gop_s": explanation.mean_gop_s,
        **times(lambda part: part.sum(axis=0)),
        "lost_beat_share": explanation.lost_share(),
        "layers": layers,
        "fixed": [fixed(configuration) for configuration in explanation.fixed],
        "best_fixed": explanation.best_fixed and fixed(explanation.best_fixed),
        "ranking": design.ranking,
    }


def _ms(time_s: float) -> str:
    """Milliseconds for a column that names the unit."""
    return f"{1e3 * time_s:,.3f}"


def _shares(parts: Iterable[float]) -> list[str]:
    """Parts of a whole in per cent, blank where there is nothing."""
    values = list(parts)
    return [text if value else "" for value, text in zip(values, percents(values), strict=True)]
