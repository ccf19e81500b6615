"""Look-up tables and flip-flops of the NPU in ``rtl`` by parts (docs/model.md, Resources).

``benchmarks/synthesis.csv`` has the syntheses, and ``tests/dse/npu/test_logic.py`` fits the numbers below to it anew.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..engine import SUM_BITS, WORD_BITS
from .tiles import Tile, Tiles

Values = NDArray[np.float64]

FBE_FLIP_FLOPS = 45
"""Flip-flops of the Fluid Batching Engine beside those of its entries, at most."""

TOP_FLIP_FLOPS = 2312
"""Flip-flops of the NPU beside the two engines: most hold a layer's record."""

PER_ELEMENT = ("elements", "weights", "sums")
"""Parts that each element has; the engine has one of each other part."""

SHARED = "weights"
"""The part of an element that the elements of all pixels share."""

LUTS: dict[str, tuple[float, ...]] = {
    "elements": (0.108, 0.776, 0.747),
    "weights": (1.163, 44.073, 1.572, 17.595),
    "sums": (312.111, 0.106),
    "inputs": (1.049, 0.234, 1.272, 68.643),
    "outputs": (0.881, 213.762),
    "loader": (1237.164, 46.082),
    "control": (3476.074, 58.543, 131.527),
    "fbe": (0.669,),
    "top": (105.420,),
}
"""Look-up tables of three inputs or more, for each feature of a part (:func:`features`, :func:`features_beyond`)."""

UNPAIRED: dict[str, tuple[float, ...]] = {
    "elements": (1.363, -0.565, -0.130),
    "weights": (-0.911, -12.291, -0.289, 14.716),
    "sums": (33.466, 1.464),
    "inputs": (1.309, 0.210, -0.648, -23.450),
    "outputs": (-0.424, -289.345),
    "loader": (521.836, 73.401),
    "control": (-341.197, 57.788, -2.378),
    "fbe": (0.079,),
    "top": (514.623,),
}
"""The same of small tables that share none of these (``benchmarks/synthesis.py``); below 0 if these are too few."""


class Entries(NamedTuple):
    """Entries of a control block."""

    number: int = 0
    bits: int = 0  # of each


NO_ENTRIES = Entries()


class Logic(NamedTuple):
    """What the parts of designs take; each value has the designs' shape."""

    luts: dict[str, Values]
    unpaired: dict[str, Values]
    flip_flops: dict[str, Values]

    @property
    def small_luts(self) -> Values:
        """Look-up tables that hold two small ones each, which share no table of any part."""
        return np.maximum(sum(self.unpaired.values(), np.zeros(())), 0) / 2

    @property
    def total_luts(self) -> Values:
        """Look-up tables of all parts."""
        return sum(self.luts.values(), self.small_luts)

    @property
    def total_flip_flops(self) -> Values:
        """Flip-flops of all parts."""
        return sum(self.flip_flops.values(), np.zeros(()))


def bits(count: ArrayLike) -> Values:
    """Bits of an address of so many places."""
    address: Values = np.ceil(np.log2(np.maximum(count, 1)))
    return address


def chosen(ways: ArrayLike) -> Values:
    """Look-up tables that choose one bit among several: one for each four, and multiplexers behind them."""
    ways = np.asarray(ways, np.float64)
    return np.where(ways > 1, np.maximum(ways / 4, 1.0), 0.0)


@cache
def _levels_up_to(most: int) -> tuple[Values, Values]:
    """What :func:`_levels` finds for each T_P from 0 on."""
    T_P = np.arange(most + 1.0)
    lower = np.floor(T_P / 2)
    sums, adders = np.zeros_like(T_P), np.zeros_like(T_P)
    levels = bits(np.ceil(T_P / 2))
    for level in range(2, int(levels.max()) + 1):
        for leaves in (lower, T_P - lower):
            exists = level <= levels
            sums = sums + exists * np.ceil(leaves / 2**level)
            adders = adders + exists * np.floor(np.ceil(leaves / 2 ** (level - 1)) / 2)
    return sums, adders


def _levels(T_P: Values) -> tuple[Values, Values]:
    """Sums that the trees of an element keep beyond those in its DSPs, and its adders beyond theirs."""
    most = int(T_P.max(initial=0))
    sums, adders = _levels_up_to(1 << most.bit_length())  # few tables, as a search asks for the same T_P many times
    at = T_P.astype(np.int64)
    return sums[at], adders[at]


def _sizes(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> tuple[Values, ...]:
    """Words of a beat, T_R, T_P, T_C, V, and samples side by side as numbers."""
    T_R, T_P, T_C, V, _ = np.asarray(tiles, np.float64)
    return np.asarray(words, np.float64), T_R, T_P, T_C, V, np.asarray(samples, np.float64)


def _column_bits(W: Values, T_C: Values) -> Values:
    """Bits of a column of a tile, one for columns beyond all among them."""
    return bits(2 * T_C + W) + 1


def features(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, list[Values]]:
    """What the look-up tables of each kind of parts grow with: those of one element, and of all other parts.

    Parameters
    ----------
    words : int or array
        Words of a beat of each design's port, a power of two.
    tiles : array or Tile
        Designs; V is a power of two. Shapes: (5, ...).
    samples : int or array
        Most samples side by side in a tile of columns, a power of two.

    Returns
    -------
    dict of str to list of array
        The features of each kind.
    """
    W, T_R, T_P, T_C, V, S = _sizes(words, tiles, samples)
    one, half = np.ones_like(T_R), np.ceil(T_R / (2 * V))
    N = np.maximum(W, S * V)
    columns = 2 * W * np.ceil(T_C / W)
    column_bits = _column_bits(W, T_C)
    word = WORD_BITS
    return {
        # a multiplier takes the word of one sample, at one, two or three places by k and the element
        "elements": [SUM_BITS * _levels(T_P)[1], word * T_P, word * T_P * (S - 1)],
        "weights": [word * T_P, column_bits * (S - 1), 2 * word * chosen(W) * one, column_bits],
        "sums": [one, bits(half)],
        # V words of each sample from the banks of an inner row, or of two; words to banks; words of a beat to banks
        "inputs": [
            word * T_P * S * V * (chosen(N / V) + chosen(2 * N / V)), 2 * word * T_P * N, word * N * chosen(N), N,
        ],
        # words turn by steps of 1, 2, 4, ...; later groups may be others; a beat from the groups, and from V of those
        "outputs": [
            word * (V * (columns * (bits(W) + 0.5) + W * (chosen(columns / W) + chosen(W))) + W * chosen(V)), V,
        ],
        "loader": [one, W * one],
        "control": [one, V * T_C, S - 1],
    }  # fmt: skip


def flip_flops(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike) -> dict[str, Values]:
    """Flip-flops of each kind of parts, as for :func:`features`, counted from the registers in the sources."""
    W, T_R, T_P, T_C, V, S = _sizes(words, tiles, samples)
    N = np.maximum(W, S * V)
    line_bits = bits(2 * (np.ceil(np.ceil(T_R / 2) / N) + np.where(V > 1, 2, 1)))
    groups = 2 * np.ceil(T_C / W)
    word = WORD_BITS
    return {
        "elements": SUM_BITS * _levels(T_P)[0],
        "weights": 2 * word * T_P + 8 * bits(S) + 2 * bits(W) + 2,
        "sums": 237 + 2 * bits(np.ceil(T_R / (2 * V))),
        "inputs": 2 * word * T_P * S * V
        + N * (word + 3 + bits(W) + 2 * line_bits)
        + word * W
        + S * (3 * line_bits + 4 * bits(N) + 1)
        + 2 * T_P + 2 * bits(2 * T_P + 1) + 2 * line_bits + 3,
        "outputs": V * (word * W * (groups + 1) + (W + 1) * bits(T_R / V) + (2 * W + 1) * bits(groups) + bits(W) + 35),
        "loader": np.full_like(T_R, 854),
        "control": 240 * V * T_C + W + 236 * (S - 1) + 3153 + bits(2 * T_P + 1),
    }


def features_beyond(entries: Entries) -> dict[str, list[Values]]:
    """As :func:`features`, of the Fluid Batching Engine with its control block, and of what joins it and the engine."""
    return {"fbe": [np.array(float(entries.number * entries.bits))], "top": [np.ones(())]}


def _weighed(weights: dict[str, tuple[float, ...]], features: dict[str, list[Values]]) -> dict[str, Values]:
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
    """Look-up tables and flip-flops of the parts of engines, without their memories.

    Parameters
    ----------
    words : int or array
        Words of a beat; of a port whose words are no power of two, the engine is that of the next one.
    tiles, samples
        As for :func:`features`.

    Returns
    -------
    Logic
        The counts, which are not whole.
    """
    words = 2 ** bits(words)
    grown = features(words, tiles, samples)
    logic = Logic(_weighed(LUTS, grown), _weighed(UNPAIRED, grown), flip_flops(words, tiles, samples))
    _, _, T_C, V, _ = np.asarray(tiles, np.float64)
    for counts in logic:
        for name in PER_ELEMENT:
            counts[name] = counts[name] * T_C * (1 if name == SHARED else V)
    return logic


def npu(words: ArrayLike, tiles: Tiles | Tile, samples: ArrayLike, entries: Entries) -> Logic:
    """Look-up tables and flip-flops of the parts of NPUs, as for :func:`engine`, with a control block."""
    both = zip(engine(words, tiles, samples), beyond(entries), strict=True)
    return Logic(*(of_engine | of_others for of_engine, of_others in both))
