"""Look-up tables and flip-flops of the NPU in ``rtl`` by parts (docs/model.md, Resources).

``benchmarks/synthesis.csv`` has the syntheses, and ``tests/dse/npu/test_logic.py`` fits the numbers below to it anew.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...formats.array_types import Floats
from ..engine import MOVE_BITS, SIZE_BITS, SUM_BITS, WORD_BITS
from .tiles import Tile, Tiles

FBE_FLIP_FLOPS = 45
"""Flip-flops of the Fluid Batching Engine beside its entries, at most."""

TOP_FLIP_FLOPS = 2369
"""Flip-flops of the NPU beside the two engines: most hold a layer's record."""

PER_ELEMENT = ("elements", "weights", "sums", "maxima")
"""Parts that each element has; the engine has one of each other part."""

MAXIMA = 2
"""Elements that find maxima, too: the first ones, whose part is ``maxima``."""

SHARED = "weights"
"""The part of an element that the elements of all pixels share."""

LUTS: dict[str, tuple[float, ...]] = {
    "elements": (0.078, 0.791, 0.75),
    "maxima": (26.0, 26.0, 22.0),
    "weights": (0.157, 0.675, 1.525),
    "sums": (313.315,),
    "inputs": (0.623, 1.547, 1.921),
    "outputs": (2.223, 2.227),
    "residual": (11.375,),
    "loader": (1217.039, 39.144),
    "control": (2965.444, 69.052, 151.384, 89.429),
    "fbe": (0.455,),
    "top": (111.46,),
}
"""Look-up tables of three inputs or more, for each feature of a part (:func:`features`, :func:`features_beyond`)."""

UNPAIRED: dict[str, tuple[float, ...]] = {
    "elements": (1.324, -0.583, -0.15),
    "maxima": (34.0, 2.0, -18.0),
    "weights": (0.016, -0.132, -0.128),
    "sums": (42.025,),
    "inputs": (0.528, -0.909, -1.648),
    "outputs": (-1.36, -1.85),
    "residual": (-5.741,),
    "loader": (801.924, 35.606),
    "control": (1380.425, 45.653, -83.055, -0.573),
    "fbe": (0.102,),
    "top": (512.027,),
}
"""The same of small tables that share none of these (``benchmarks/synthesis.py``); below 0 if these are too few."""


class Entries(NamedTuple):
    """Entries of a control block."""

    number: int = 0
    bits: int = 0  # of each


NO_ENTRIES = Entries()


class Logic(NamedTuple):
    """What the parts of designs take; each value has the designs' shape."""

    luts: dict[str, Floats]
    unpaired: dict[str, Floats]
    flip_flops: dict[str, Floats]

    @property
    def small_luts(self) -> Floats:
        """Look-up tables that hold two small ones each, which share no table of any part."""
        return np.maximum(sum(self.unpaired.values(), np.zeros(())), 0) / 2

    @property
    def total_luts(self) -> Floats:
        """Look-up tables of all parts."""
        return sum(self.luts.values(), self.small_luts)

    @property
    def total_flip_flops(self) -> Floats:
        """Flip-flops of all parts."""
        return sum(self.flip_flops.values(), np.zeros(()))


def bits(count: ArrayLike) -> Floats:
    """Bits of an address of a number of places."""
    return np.ceil(np.log2(np.maximum(count, 1)))


def chosen(ways: ArrayLike) -> Floats:
    """Look-up tables that choose one bit among several: one for each four, and multiplexers behind them."""
    ways = np.asarray(ways, np.float64)
    return np.where(ways > 1, np.maximum(ways / 4, 1.0), 0.0)


class _Trees(NamedTuple):
    """Sums and registers without a sum of the trees of an element, in the first level and in the others."""

    first: Floats
    first_alone: Floats
    others: Floats
    others_alone: Floats
    kept: Floats  # of the others both, also where one register is left


@cache
def _trees_up_to(most: int) -> _Trees:
    """The trees of each T_P from 0 on."""
    T_P = np.arange(most + 1.0)
    lower, levels = np.floor(T_P / 2), bits(np.ceil(T_P / 2))
    trees = _Trees(*np.zeros((5, most + 1)))
    for level in range(1, int(levels.max()) + 1):
        sums, alone = trees[:2] if level == 1 else trees[2:4]
        for leaves in (lower, T_P - lower):
            nodes = np.ceil(leaves / 2 ** (level - 1)) * (level <= levels)
            sums += np.floor(nodes / 2)
            alone += (nodes % 2) * ((level == 1) | (nodes > 1))  # the only one is a word already
            if level > 1:
                trees.kept[:] += np.ceil(nodes / 2)
    return trees


def _trees(T_P: Floats) -> _Trees:
    """The trees of elements; they are made once for each T_P, because a search asks for few T_P many times."""
    most = int(T_P.max(initial=0))
    return _Trees(*(values[T_P.astype(np.int64)] for values in _trees_up_to(1 << most.bit_length())))


def _sizes(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> tuple[Floats, ...]:
    """Words of a beat, T_R, T_P, T_C, V, and samples side by side as numbers."""
    T_R, T_P, T_C, V, _ = np.asarray(tiles, np.float64)
    return np.asarray(words, np.float64), T_R, T_P, T_C, V, np.asarray(samples, np.float64)


def _column_bits(W: Floats, T_C: Floats) -> Floats:
    """Bits of a column of a tile, one for columns beyond all among them."""
    return bits(2 * T_C + W) + 1


def _line_bits(N: Floats, T_R: Floats, V: Floats) -> Floats:
    """Bits of a line of the input buffer."""
    return bits(2 * (np.ceil(np.ceil(T_R / 2) / N) + np.where(V > 1, 2, 1)))


def features(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, list[Floats]]:
    """What the look-up tables of each kind of parts grow with: the tables of one element, and of all other parts.

    Words of a beat, V and the most samples side by side are powers of two. Shapes: ``tiles`` (5, ...).
    """
    W, T_R, T_P, T_C, V, S = _sizes(words, tiles, samples)
    one = np.ones_like(T_R)
    N = np.maximum(W, S * V)
    columns = 2 * W * np.ceil(T_C / W)
    word, trees = WORD_BITS, _trees(T_P)
    # inner rows that choose among other words of a beat; each has the same ones under k = 2 where W divides T_P
    writes = np.minimum(T_P, W) * np.where(T_P % W == 0, 1, 2)
    return {
        # a multiplier takes the word of one sample, at one, two or three places by k and the element
        "elements": [SUM_BITS * trees.others, word * T_P, word * T_P * (S - 1)],
        # a sum, in a DSP otherwise or not, and a register become the larger of two words, too
        "maxima": [trees.first, trees.others, trees.first_alone + trees.others_alone],
        # which weight a word is; the sample of a column, from where each ends; the word of a beat
        "weights": [word * T_P, _column_bits(W, T_C) * S * (S - 1), 2 * word * chosen(W) * one],
        "sums": [one],
        # V words of each sample from the banks of an inner row, or of two, and words to these, which several may share;
        # words of a beat to banks; lines of the samples to banks
        "inputs": [
            word * (T_P * S * V * (chosen(N / V) + chosen(2 * N / V)) + writes * N),
            word * N * chosen(W),
            N * S * _line_bits(N, T_R, V),
        ],
        # words of a row turn; a beat from the groups, and from V of those, which turns back by steps of 1, 2, 4, ...
        "outputs": [word * V * columns, word * W * (V * (chosen(columns / W) + bits(W) / 2) + chosen(V))],
        "residual": [word * W * one],
        "loader": [one, W * one],
        "control": [one, V * T_C, S - 1, W * one],
    }  # fmt: skip


def flip_flops(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, Floats]:
    """Flip-flops of each kind of parts, as for :func:`features`, counted from the registers in the sources.

    Two numbers of ``control``, for all engines and for each sample, are of its syntheses.
    """
    W, T_R, T_P, T_C, V, S = _sizes(words, tiles, samples)
    N = np.maximum(W, S * V)
    line_bits = _line_bits(N, T_R, V)
    row_bits, groups = bits(2 * np.ceil(T_R / (2 * V))), 2 * np.ceil(T_C / W)
    word, trees = WORD_BITS, _trees(T_P)
    return {
        "elements": SUM_BITS * trees.kept,
        "maxima": SUM_BITS * trees.first + 2 * word * trees.first_alone,
        "weights": word * T_P + 8 * bits(S) + 2 * bits(W) + 4,
        "sums": 237 + 2 * bits(np.ceil(T_R / (2 * V))),
        "inputs": 2 * word * T_P * S * V
        + N * (word + 3 + bits(W) + 2 * line_bits)
        + word * np.minimum(2 * T_P, W)
        + (2 * S + 1) * line_bits
        + (5 * S - 1) * bits(N)
        + 2 * S
        + 2 * T_P
        + 2 * bits(2 * T_P + 1)
        + 3,
        "outputs": V * (word * W * (groups + 1) + (W + 4) * row_bits + (2 * W + 1) * bits(groups) + 2 * bits(W) + 3),
        "residual": 3 * (2 * word + 2**MOVE_BITS) * W + 22,
        "loader": (W + 1) * (2 * SIZE_BITS + bits(W + 2)) + 2 * W + 5 * bits(W + 2) + 1299,
        "control": 240 * V * T_C + 6 * word * W + 3 * bits(W) + W + 2 * S * _column_bits(W, T_C) + 170 * (S - 1) + 5510,
    }


def features_beyond(entries: Entries) -> dict[str, list[Floats]]:
    """As :func:`features`, of the Fluid Batching Engine with its control block, and of what joins it and the engine."""
    return {"fbe": [np.array(float(entries.number * entries.bits))], "top": [np.ones(())]}


def _weighed(weights: dict[str, tuple[float, ...]], features: dict[str, list[Floats]]) -> dict[str, Floats]:
    return {
        name: sum((weight * value for weight, value in zip(weights[name], values, strict=True)), np.zeros(()))
        for name, values in features.items()
    }


def beyond(entries: Entries) -> Logic:
    """What the NPU takes beside its engine."""
    grown = features_beyond(entries)
    registers = {"fbe": entries.number * entries.bits + FBE_FLIP_FLOPS, "top": TOP_FLIP_FLOPS}
    flip_flops = {name: np.array(count, np.float64) for name, count in registers.items()}
    return Logic(_weighed(LUTS, grown), _weighed(UNPAIRED, grown), flip_flops)


def engine(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> Logic:
    """Look-up tables and flip-flops, not whole, of the parts of engines without memories; see :func:`features`."""
    grown = features(words, tiles, samples)
    logic = Logic(_weighed(LUTS, grown), _weighed(UNPAIRED, grown), flip_flops(words, tiles, samples))
    _, _, T_C, V, _ = np.asarray(tiles, np.float64)
    largest = np.minimum(T_C, MAXIMA)
    for counts in logic:
        for name in PER_ELEMENT:
            counts[name] = counts[name] * (largest if name == "maxima" else T_C) * (1 if name == SHARED else V)
    for counts, weights in ((logic.luts, LUTS), (logic.unpaired, UNPAIRED)):
        # sums of both trees, of two elements, over the tiles along P; the second element alone
        counts["maxima"] = counts["maxima"] + V * (2 * largest * weights["maxima"][1] + weights["maxima"][2])
    return logic


def npu(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike, entries: Entries) -> Logic:
    """Look-up tables and flip-flops of the parts of NPUs, as for :func:`engine`, with a control block."""
    both = zip(engine(words, tiles, samples), beyond(entries), strict=True)
    return Logic(*(of_engine | of_others for of_engine, of_others in both))
