"""Where the time of a design goes: what bounds each layer and batch, and what other choices would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from ..models import Layer
from . import kernels
from .costs import Cause, layer_costs
from .design import DesignTable
from .fbcb import K_NAMES, FbcbTable
from .space import Batching
from .workload import distinct


class Configuration(NamedTuple):
    """One (k, B_R) for a layer and batch, and what it costs."""

    k: str
    B_R: int
    time_s: float
    dram_bytes: float


class Pairs(NamedTuple):
    """A choice for each layer and batch.

    Attributes
    ----------
    codes, B_R : (L, b_max) ndarray of int64
        Stacking code (0, 1, 2 for k = 1, 2, 1/2) and samples down the rows; B_R is 0 where there is no choice.
    time_s : (L, b_max) ndarray of float64
        What it costs; infinite where there is no choice.
    """

    codes: NDArray[np.int64]
    B_R: NDArray[np.int64]
    time_s: NDArray[np.float64]


class Fixed(NamedTuple):
    """The whole network with a choice taken away from every layer and batch.

    Attributes
    ----------
    k : str or None
        The one stacking; ``None`` if each layer and batch has its best.
    B_R : str or None
        ``"b"`` for all samples down the rows, ``"1"`` for all side by side, ``None`` for the best; products of
        two activations run sample by sample under all three.
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
        The largest part, the first of equals.
    chosen, runner_up : Pairs
        The FBCB's choice, and the best of all others that the search weighs.
    fixed : list of Fixed
        The network with choices taken away.
    gop_s : float
        Throughput as configured, summed as in :class:`Fixed`.
    """

    design: DesignTable
    layers: list[Layer]
    time_s: NDArray[np.float64]
    dram_bytes: NDArray[np.float64]
    parts_s: dict[Cause, NDArray[np.float64]]
    bound: NDArray[np.object_]
    chosen: Pairs
    runner_up: Pairs
    fixed: list[Fixed]
    gop_s: float

    @property
    def best_fixed(self) -> Fixed | None:
        """The best single configuration for all layers and batches; ``None`` if the engine has no choice at all."""
        return max((item for item in self.fixed if item.single), key=lambda item: item.gop_s, default=None)

    def index(self, name: str) -> int:
        """Where a layer stands in ``layers``.

        Raises
        ------
        InputError
            If there is none of that name; the nearest names are given.
        """
        names = [layer.name for layer in self.layers]
        if name in names:
            return names.index(name)
        from difflib import get_close_matches

        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the first are {', '.join(names[:5])}"
        raise InputError(f'unknown layer "{name}" of {self.design.network.name}; {hint}')


class _Weighed(NamedTuple):
    """What the search weighs for one batch size: M pairs (k, B_R), infinite cycles where a layer has no such choice."""

    codes: NDArray[np.int64]  # (M,)
    B_R: NDArray[np.int64]  # (M,)
    cycles: NDArray[np.float64]  # (L, M)
    words: NDArray[np.float64]  # (L, M)

    def order(self) -> NDArray[np.int64]:
        """Best first for each layer: fewer cycles, then fewer words, then the smaller code, then the smaller B_R."""
        keys = np.broadcast_arrays(self.B_R, self.codes, self.words, self.cycles)
        found: NDArray[np.int64] = np.lexsort(keys, axis=-1)
        return found

    def best(self, code: int | None, rule: str | None) -> NDArray[np.float64]:
        """Fewest cycles of each layer with one stacking code, and as many (``"b"``) or few (``"1"``) rows as it can."""
        allowed = np.isfinite(self.cycles)
        if rule is not None:
            rows = np.where(allowed, self.B_R, 0)
            allowed &= (rows == rows.max(axis=1, keepdims=True)) if rule == "b" else (rows == 1)
        if code is not None:
            allowed &= self.codes == code
        found: NDArray[np.float64] = np.where(allowed, self.cycles, np.inf).min(axis=1)
        return found


def _weigh(design: DesignTable) -> list[_Weighed]:
    """Every pair that the search weighs for the network's products, for b = 1..b_max."""
    options, plan = design.options, design.options.plan
    work, rows = distinct(design.network)
    layouts = np.repeat(plan.layouts, plan.codes, axis=0)
    codes = np.tile(np.arange(plan.codes), len(plan.layouts))
    kinds = np.repeat(np.arange(len(plan.starts) - 1), plan.codes * np.diff(plan.starts))
    each = len(work.gemms)
    cycles, words, _ = kernels.cost_layouts(
        np.array(design.tile), work, np.tile(codes, (each, 1)), np.tile(layouts, (each, 1, 1)),
        design.platform.words_per_cycle, plan.literal,
    )  # fmt: skip
    cycles[work.kinds[:, None] != kinds] = np.inf  # a layer chooses from the list of its kind
    return [
        _Weighed(codes[here], layouts[here, 1], cycles[rows][:, here], words[rows][:, here])
        for here in (np.flatnonzero(layouts[:, 0] == b) for b in range(1, options.b_max + 1))
    ]


def _runner_up(weighed: _Weighed, codes: NDArray[np.int64], B_R: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Code, B_R and cycles of the best pair of each layer but the chosen one; 0, 0 and infinite if there is none."""
    chosen = (codes[:, None] == weighed.codes) & (B_R[:, None] == weighed.B_R)
    others = weighed._replace(cycles=np.where(chosen, np.inf, weighed.cycles))
    first = others.order()[:, 0]
    cycles = others.cycles[np.arange(len(first)), first]
    exists = np.isfinite(cycles)
    return np.where(exists, weighed.codes[first], 0), np.where(exists, weighed.B_R[first], 0), cycles


def _fixed(
    design: DesignTable, weighed: list[_Weighed], time_s: NDArray[np.float64], products: list[int]
) -> list[Fixed]:
    """Choices taken away from all layers with a product; ``time_s`` is that of all layers as configured."""
    options = design.options
    stackings = [None, *range(options.plan.codes)] if options.stacking else [None]
    rules = [None, "b", "1"] if options.batching in (Batching.FLUID, Batching.EQ1) else [None]
    found = []
    for code in stackings:
        for rule in rules:
            if code is None and rule is None:
                continue
            table = time_s.copy()
            table[products] = np.column_stack([item.best(code, rule) for item in weighed]) / design.platform.clock_hz
            total_s = table.sum(axis=0)
            if np.isfinite(total_s).all():
                k = None if code is None else K_NAMES[code]
                single = (code is not None or len(stackings) == 1) and (rule is not None or len(rules) == 1)
                found.append(Fixed(k, rule, total_s, _gop_s(design, total_s), single))
    return found


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
    network, platform = design.network, design.platform
    products = [index for index, layer in enumerate(network.layers) if layer.gemm]
    weighed = _weigh(design)
    codes, B_R = fbcb.unpack()
    following = [_runner_up(item, codes[:, i], B_R[:, i]) for i, item in enumerate(weighed)]
    next_codes, next_B_R, next_cycles = (np.column_stack(columns) for columns in zip(*following, strict=True))

    def spread(table: NDArray[Any], rest: float = 0) -> NDArray[Any]:
        found = np.full(costs.time_s.shape, rest, dtype=table.dtype)
        found[products] = table
        return found

    chosen = Pairs(spread(codes), spread(B_R), costs.time_s)
    next_s = spread(next_cycles / platform.clock_hz, np.inf)
    runner_up = Pairs(spread(next_codes), spread(next_B_R), next_s)
    bound = np.array(list(Cause), dtype=object)[np.argmax(list(costs.parts_s.values()), axis=0)]
    takes_time = np.flatnonzero(costs.time_s.any(axis=1))
    return Explanation(
        design=design,
        layers=[network.layers[index] for index in takes_time],
        time_s=costs.time_s[takes_time],
        dram_bytes=costs.words[takes_time] * platform.word_bits / 8,
        parts_s={cause: part[takes_time] for cause, part in costs.parts_s.items()},
        bound=bound[takes_time],
        chosen=Pairs._make(table[takes_time] for table in chosen),
        runner_up=Pairs._make(table[takes_time] for table in runner_up),
        fixed=_fixed(design, weighed, costs.time_s, products),
        gop_s=_gop_s(design, costs.time_s.sum(axis=0)),
    )


def candidates(design: DesignTable, layer: Layer) -> list[list[Configuration]]:
    """Every (k, B_R) that the search weighs for a layer, best first.

    Parameters
    ----------
    design : DesignTable
        The design.
    layer : Layer
        One of its layers.

    Returns
    -------
    list of list of Configuration
        For b = 1..b_max; all empty for a memory-only layer, which has no choice.
    """
    if layer.gemm is None:
        return [[] for _ in range(design.options.b_max)]
    platform, products = design.platform, [item for item in design.network.layers if item.gemm]
    row = products.index(layer)
    return [
        [
            Configuration(
                K_NAMES[item.codes[m]],
                int(item.B_R[m]),
                float(item.cycles[row, m] / platform.clock_hz),
                float(item.words[row, m] * platform.word_bits / 8),
            )
            for m in item.order()[row]
            if np.isfinite(item.cycles[row, m])
        ]
        for item in _weigh(design)
    ]
