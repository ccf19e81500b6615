"""Causes of the time of a design: the bound of each layer and batch, and the cost of other choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError, brief, did_you_mean, first_rows
from ...formats.array_types import Floats, Ints
from ...models import Layer
from . import kernels, layer_choice, schedule
from .board_use import BoardUse
from .choices import Batching, Overlap
from .costs import Cause, board_use_of, layer_costs
from .design import DesignTable
from .fbcb import K_NAMES, FbcbTable
from .objectives import prices_of
from .tiles import stacked
from .workload import distinct


class Configuration(NamedTuple):
    """One choice (k, B_R) for a layer and batch, and its cost."""

    k: str
    B_R: int
    time_s: float
    dram_bytes: float


class FixedConfiguration(NamedTuple):
    """The whole network with a choice taken away from every layer and batch."""

    k: str | None  # the one stacking; None if each layer and batch has its best
    # "b": all samples down the rows, "1": all side by side, None: the best; products of two activations run one by one
    B_R: str | None
    time_s: Floats  # (b_max,), of a batch through the network
    mean_gop_s: float  # over batch sizes with their weights, Equation (2)
    single: bool  # nothing is left to choose


@dataclass(frozen=True, slots=True)
class Explanation:
    """The bound of each layer and batch of a design, and its other choices."""

    design: DesignTable
    layers: list[Layer]  # that take time, in execution order
    time_s: Floats  # (L, b_max)
    dram_bytes: Floats  # (L, b_max)
    parts_s: dict[Cause, Floats]  # each (L, b_max); they sum to the time
    beats: Floats  # (2, L, b_max), of the NPU, and of its bus
    bound: NDArray[np.object_]  # (L, b_max), the largest part; the first of two that are equal
    chosen: list[list[tuple[str, int]]]  # k and B_R by layer and batch; a memory-only layer has no choice
    candidates: list[list[list[Configuration]]]  # all that the search weighs by layer and batch, the fastest first
    fixed: list[FixedConfiguration]
    mean_gop_s: float  # as configured
    block_rows: Ints | None  # (L, b_max), rows of a block, 0 for a memory-only layer; none if ideal
    board_use: BoardUse | None  # what the design takes of its board

    __repr__ = brief
    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[Any]]:
        """Time, causes and choice of each layer and batch size as columns; a memory-only layer has no choice."""
        choices: list[Sequence[tuple[str, int | str]]] = [
            pairs or [("", "")] * self.time_s.shape[1] for pairs in self.chosen
        ]
        return {
            "layer": [layer.name for layer in self.layers for _ in range(self.time_s.shape[1])],
            "batch": list(range(1, self.time_s.shape[1] + 1)) * len(self.layers),
            "k": [k for pairs in choices for k, _ in pairs],
            "B_R": [B_R for pairs in choices for _, B_R in pairs],
            "time_s": self.time_s.ravel().tolist(),
            **{f"{cause.value}_s": part.ravel().tolist() for cause, part in self.parts_s.items()},
            "bound": [cause.value for cause in self.bound.ravel()],
            "dram_bytes": self.dram_bytes.ravel().tolist(),
            "lost_beat_share": [share for i in range(len(self.layers)) for share in self.lost_share([i]).tolist()],
            "block_rows": ["" for _ in self.bound.flat]
            if self.block_rows is None
            else self.block_rows.ravel().tolist(),
        }

    @property
    def best_fixed(self) -> FixedConfiguration | None:
        """The best single configuration for all layers and batches; ``None`` if the engine has no choice at all."""
        return max((fixed for fixed in self.fixed if fixed.single), key=lambda fixed: fixed.mean_gop_s, default=None)

    def runner_up(self, index: int) -> list[Configuration | None]:
        """The fastest configuration of a layer but the chosen one, by batch; ``None`` where there is no other."""
        pairs = self.chosen[index] or repeat(None)
        return [
            next((choice for choice in column if choice[:2] != pair), None)
            for pair, column in zip(pairs, self.candidates[index], strict=False)
        ]

    def lost_share(self, layers: Sequence[int] | None = None) -> Floats:
        """Share of the beats of the bus that some layers lose, all by default; 0 without beats. (b_max,)."""
        asked, moved = self.beats[:, slice(None) if layers is None else layers].sum(axis=1)
        return np.where(moved, 1 - asked / np.where(moved, moved, np.inf), 0.0)

    def index(self, name: str) -> int:
        """Index of a layer in ``layers``."""
        names = [layer.name for layer in self.layers]
        if name in names:
            return names.index(name)
        hint = did_you_mean(name, names, f"the first are {', '.join(names[:5])}")
        raise InputError(f'unknown layer "{name}" of {self.design.network.name}; {hint}')


def _weigh(design: DesignTable) -> list[list[list[Configuration]]]:
    """Every (k, B_R) that the search weighs, the fastest first, for each of the network's products and each batch."""
    platform, overlap = design.platform, design.options.overlap
    layouts = design.options.layouts(platform)
    work, rows = distinct(design.network, pooled=design.options.pooled, room=design.options.resident_words(platform))
    tiles = stacked(design.tile.array, layouts.codes)[..., 0]
    codes = np.flatnonzero(tiles.min(axis=0) >= 1)  # those that fit the design
    rate, prices = design.words_per_cycle, prices_of(platform, design.options.objective)
    fitting, mode = np.ascontiguousarray(tiles[:, codes]), int(overlap is Overlap.IDEAL)
    engine = schedule.engine_times(design.port, float(design.tile.T_P), design.most_samples, rate, prices)
    by_product: list[list[list[Configuration]]] = []
    for gemm, source, fetched, adds, kind in zip(*work.sizes, work.kinds, strict=True):
        of_kind = layouts.table[layouts.starts[kind] : layouts.starts[kind + 1]]
        if overlap is Overlap.PAPER:
            cycles, words = kernels.gemm_cost(
                gemm, fitting[..., None], of_kind.T[:, None], rate, layouts.literal, fetched
            )
            ties = words if layouts.literal else kernels.count_tile_words(gemm, fitting, of_kind, fetched)
        else:
            layer = schedule.LayerSizes(tuple(gemm.tolist()), tuple(source.tolist()), float(fetched), float(adds))
            cycles, _, words = layer_choice.weigh(layer, fitting, layouts, kind, engine, mode)
            ties = words
        columns = np.broadcast_arrays(cycles, ties, codes[:, None], of_kind[:, 1], of_kind[:, 0], words)
        batches: list[list[Configuration]] = [[] for _ in range(design.options.b_max)]
        # fewer cycles are better, then fewer words tile by tile, then the smaller code, then the smaller B_R
        for taken, _, code, B_R, b, moved in sorted(zip(*(column.ravel().tolist() for column in columns), strict=True)):
            if taken == np.inf:
                continue  # more samples side by side than the engine can have
            choice = Configuration(K_NAMES[code], B_R, taken / platform.clock_hz, moved * platform.word_bits / 8)
            batches[b - 1].append(choice)
        by_product.append(batches)
    return [by_product[row] for row in rows]


def _least_s(column: list[Configuration], k: str | None, rule: str | None) -> float:
    """The least time of a layer and batch if ``k`` or the samples down the rows are fixed; infinite if none fits."""
    B_R = {None: None, "1": 1, "b": max(choice.B_R for choice in column)}[rule]
    allowed = [choice.time_s for choice in column if k in (None, choice.k) and B_R in (None, choice.B_R)]
    return min(allowed, default=np.inf)


def _mean_gop_s(design: DesignTable, time_s: Floats) -> float:
    """Throughput as the weighted mean over batch sizes, Equation (2), in GOP/s."""
    operations = 2.0 * design.network.macs * np.arange(1, len(time_s) + 1)
    return float(np.average(operations / time_s, weights=design.options.weight_array()) / 1e9)


def explain(design: DesignTable, fbcb: FbcbTable) -> Explanation:
    """Find the bound of each layer and batch, and the cost of other choices.

    Parameters
    ----------
    design, fbcb
        The design's tables.

    Returns
    -------
    Explanation
        For b = 1..b_max.

    Raises
    ------
    InputError
        If the FBCB stacks processing elements that the design does not have.
    """
    costs = layer_costs(design, fbcb)
    network, platform, options = design.network, design.platform, design.options
    weighed = _weigh(design)
    products = [index for index, layer in enumerate(network.layers) if layer.product(pooled=options.pooled)]
    bound = np.array(list(Cause), dtype=object)[np.argmax(list(costs.parts_s.values()), axis=0)]
    # a memory-only layer has no choice
    chosen: list[list[tuple[str, int]]] = [[] for _ in network.layers]
    candidates: list[list[list[Configuration]]] = [[[]] * options.b_max for _ in network.layers]
    for index, columns, codes, _, B_R in zip(products, weighed, *fbcb.unpack(), strict=True):
        candidates[index] = columns
        chosen[index] = [(K_NAMES[code], rows) for code, rows in zip(codes, B_R.tolist(), strict=True)]
    fixed = []
    stackings = [None, *K_NAMES] if options.stacking else [None]
    rules = [None, "b", "1"] if options.batching in (Batching.FLUID, Batching.EQ1) else [None]
    for k, rule in list(product(stackings, rules))[1:]:  # without the first, which takes nothing away
        table = costs.time_s.copy()
        table[products] = [[_least_s(column, k, rule) for column in columns] for columns in weighed]
        total_s = table.sum(axis=0)
        if np.isfinite(total_s).all():
            single = (len(stackings) == 1 or k is not None) and (len(rules) == 1 or rule is not None)
            fixed.append(FixedConfiguration(k, rule, total_s, _mean_gop_s(design, total_s), single))
    takes_time = np.flatnonzero(costs.time_s.any(axis=1)).tolist()
    return Explanation(
        design=design,
        layers=[network.layers[index] for index in takes_time],
        time_s=costs.time_s[takes_time],
        dram_bytes=costs.words[takes_time] * platform.word_bits / 8,
        parts_s={cause: part[takes_time] for cause, part in costs.parts_s.items()},
        beats=costs.beats[:, takes_time],
        bound=bound[takes_time],
        chosen=[chosen[index] for index in takes_time],
        candidates=[candidates[index] for index in takes_time],
        fixed=fixed,
        mean_gop_s=_mean_gop_s(design, costs.time_s.sum(axis=0)),
        block_rows=None if costs.block_rows is None else costs.block_rows[takes_time],
        board_use=board_use_of(design, fbcb),
    )
