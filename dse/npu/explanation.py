"""Where the time of a design goes: what bounds each layer and batch, and what other choices would cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError, did_you_mean
from ...models import Layer
from . import kernels
from .choices import Batching
from .costs import Cause, layer_costs
from .design import DesignTable
from .fbcb import K_NAMES, FbcbTable
from .space import stacked
from .workload import distinct


class Configuration(NamedTuple):
    """One choice (k, B_R) for a layer and batch, and what it costs."""

    k: str
    B_R: int
    time_s: float
    dram_bytes: float


class FixedConfiguration(NamedTuple):
    """The whole network, when a choice is taken away from every layer and batch.

    Attributes
    ----------
    k : str or None
        The one stacking; ``None`` if each layer and batch has its best.
    B_R : str or None
        ``"b"`` if all samples go down the rows, ``"1"`` if all stand side by side, ``None`` for the best.
        Products of two activations run sample by sample in all three cases.
    time_s : (b_max,) ndarray of float64
        Time of a batch through everything.
    gop_s : float
        Throughput summed over batch sizes with their weights, Equation (2).
    single : bool
        Whether nothing is left to choose.
    """

    k: str | None
    B_R: str | None
    time_s: NDArray[np.float64]
    gop_s: float
    single: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """What bounds each layer and batch of a design, and what else could be chosen.

    Attributes
    ----------
    design : DesignTable
        The design.
    layers : list of Layer
        Those that take time, in execution order.
    time_s, dram_bytes : (L, b_max) ndarray of float64
        Time and off-chip traffic.
    parts_s : dict of Cause to (L, b_max) ndarray of float64
        What the time goes into; sums to it.
    bound : (L, b_max) ndarray of Cause
        The largest part; if two are equal, the first.
    chosen : list of list of (str, int), by layer and batch
        k and B_R in the FBCB; an empty list for a memory-only layer, which has no choice.
    candidates : list of list of list of Configuration, by layer and batch
        All that the search weighs, best first.
    fixed : list of FixedConfiguration
        The network with choices taken away.
    gop_s : float
        Throughput as configured, summed as in :class:`FixedConfiguration`.
    """

    design: DesignTable
    layers: list[Layer]
    time_s: NDArray[np.float64]
    dram_bytes: NDArray[np.float64]
    parts_s: dict[Cause, NDArray[np.float64]]
    bound: NDArray[np.object_]
    chosen: list[list[tuple[str, int]]]
    candidates: list[list[list[Configuration]]]
    fixed: list[FixedConfiguration]
    gop_s: float

    @property
    def best_fixed(self) -> FixedConfiguration | None:
        """The best single configuration for all layers and batches; ``None`` if the engine has no choice at all."""
        return max((item for item in self.fixed if item.single), key=lambda item: item.gop_s, default=None)

    def runner_up(self, index: int) -> list[Configuration | None]:
        """The best configuration of a layer but the chosen one, by batch; ``None`` where there is no other."""
        pairs = self.chosen[index] or repeat(None)
        return [
            next((item for item in column if item[:2] != pair), None)
            for pair, column in zip(pairs, self.candidates[index], strict=False)
        ]

    def index(self, name: str) -> int:
        """Where a layer stands in ``layers``."""
        names = [layer.name for layer in self.layers]
        if name in names:
            return names.index(name)
        hint = did_you_mean(name, names, f"the first are {', '.join(names[:5])}")
        raise InputError(f'unknown layer "{name}" of {self.design.network.name}; {hint}')


def _weigh(design: DesignTable) -> list[list[list[Configuration]]]:
    """Every (k, B_R) that the search weighs, best first, for each of the network's products and each batch."""
    plan, platform = design.options.plan, design.platform
    work, rows = distinct(design.network, room=design.options.resident_words(platform))
    tiles = stacked(np.array([design.tile]), plan.codes)[..., 0]
    codes = np.flatnonzero(tiles.min(axis=0) >= 1)  # those that fit the design
    found: list[list[list[Configuration]]] = []
    for gemm, kind, fetched in zip(work.gemms, work.kinds, work.fetched, strict=True):
        layout = plan.layouts[plan.starts[kind] : plan.starts[kind + 1]].T[..., None]
        rate = platform.words_per_cycle
        cycles, words = kernels.gemm_cost(gemm, tiles[:, codes], layout, rate, plan.literal, fetched)
        columns = np.broadcast_arrays(cycles, words, codes, layout[1], layout[0])
        batches: list[list[Configuration]] = [[] for _ in range(design.options.b_max)]
        # fewer cycles are better, then fewer words, then the smaller code, then the smaller B_R
        for taken, moved, code, B_R, b in sorted(zip(*(column.ravel().tolist() for column in columns), strict=True)):
            item = Configuration(K_NAMES[code], B_R, taken / platform.clock_hz, moved * platform.word_bits / 8)
            batches[b - 1].append(item)
        found.append(batches)
    return [found[row] for row in rows]


def _least_s(column: list[Configuration], k: str | None, rule: str | None) -> float:
    """The least time of a layer and batch if some choices are taken away, infinite if none is left.

    ``k`` is the one stacking; ``rule`` asks for the most (``"b"``) or the fewest
    (``"1"``) samples down the rows.
    """
    B_R = {None: None, "1": 1, "b": max(item.B_R for item in column)}[rule]
    allowed = [item.time_s for item in column if k in (None, item.k) and B_R in (None, item.B_R)]
    return min(allowed, default=np.inf)


def _gop_s(design: DesignTable, time_s: NDArray[np.float64]) -> float:
    """Throughput summed over batch sizes with their weights, Equation (2), in GOP/s."""
    operations = 2.0 * design.network.macs * np.arange(1, len(time_s) + 1)
    return float((design.options.weight_array() * operations / time_s).sum() / 1e9)


def explain(design: DesignTable, fbcb: FbcbTable) -> Explanation:
    """Say of each layer and batch what bounds it, and what other choices would cost.

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
    products = [index for index, layer in enumerate(network.layers) if layer.gemm]
    bound = np.array(list(Cause), dtype=object)[np.argmax(list(costs.parts_s.values()), axis=0)]
    # a memory-only layer has no choice
    chosen: list[list[tuple[str, int]]] = [[] for _ in network.layers]
    candidates: list[list[list[Configuration]]] = [[[]] * options.b_max for _ in network.layers]
    for index, columns, codes, B_R in zip(products, weighed, *fbcb.unpack(), strict=True):
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
            fixed.append(FixedConfiguration(k, rule, total_s, _gop_s(design, total_s), single))
    takes_time = np.flatnonzero(costs.time_s.any(axis=1)).tolist()
    return Explanation(
        design=design,
        layers=[network.layers[index] for index in takes_time],
        time_s=costs.time_s[takes_time],
        dram_bytes=costs.words[takes_time] * platform.word_bits / 8,
        parts_s={cause: part[takes_time] for cause, part in costs.parts_s.items()},
        bound=bound[takes_time],
        chosen=[chosen[index] for index in takes_time],
        candidates=[candidates[index] for index in takes_time],
        fixed=fixed,
        gop_s=_gop_s(design, costs.time_s.sum(axis=0)),
    )
