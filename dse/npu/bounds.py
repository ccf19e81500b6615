"""A bound of the cost of designs, and of all smaller ones, compiled (docs/search.md, Pruning)."""

from typing import Any, NamedTuple

import numpy as np

from ..engine import START
from .beats import least_seconds
from .kernels import gemm_at, kernel, layout_at, sample_words, smaller, tiles_along, weight_words


class Paces(NamedTuple):
    """Cycles that D designs take at least for each word and each tile of U layers."""

    word: Any  # (D,), of weights and of what no product needs
    input: Any  # (U, D), a word of inputs
    output: Any  # (U, D), a word of outputs
    asking: float  # a tile, to ask for its load;
    waiting: float  # and to wait for it; both are 0 where transfers overlap


def overlapping(work, cycles_per_word):
    """Paces of designs whose transfers all overlap."""
    alike = np.broadcast_to(cycles_per_word, (len(work.gemms), len(cycles_per_word))).copy()
    return Paces(cycles_per_word, alike, alike, 0.0, 0.0)


@kernel
def second_lines_of(gemms, sources, words):
    """Second lines of a sample's inputs, at least, for each of some words of a beat. Shapes: returns (words, U)."""
    seconds = np.empty((len(words), len(gemms)))
    for n in range(len(words)):
        for u in range(len(gemms)):
            gemm = gemms[u, 0], gemms[u, 1], gemms[u, 2], gemms[u, 3]
            source = sources[u, 0], sources[u, 1], sources[u, 2], sources[u, 3], sources[u, 4]
            seconds[n, u] = least_seconds(gemm, source, words[n])
    return seconds


def of_beats(work, cycles_per_word, port):
    """Paces of designs as built, whose words come in beats of a :class:`..engine.Port`."""
    R, line, stride = work.gemms[:, :1], work.sources[:, :1], work.sources[:, 1:2]
    beat = port.cycles / port.ready
    line = np.where(line > 0, line, R)
    inputs = beat * np.ceil(line / np.maximum(np.floor(port.words / np.maximum(stride, 1)), 1)) / line
    outputs = beat * np.ceil(R / port.words) / R
    if port.aligned:
        widths, which = np.unique(port.words, return_inverse=True)
        seconds = second_lines_of(work.gemms, work.sources, widths)[which].T
        inputs = inputs + beat * seconds / (R * work.gemms[:, 1:2])
    along_P = (stride == 0) | ((R == 1) & (work.sources[:, :1] == 0))
    inputs, outputs = np.where(along_P, beat / port.words, inputs), np.where(R == 1, beat / port.words, outputs)
    return Paces(cycles_per_word, inputs, outputs, 1.0, port.latency + START)


@kernel
def bound_designs(tiles, work, layouts, paces, least):
    """Fill in figures that no layout goes below, each of them apart from the others (docs/search.md, Pruning).

    Shapes: ``tiles`` (4, codes, D); ``least`` (figures, S, B_max, D): cycles, or cycles, words and accesses.
    """
    figures, stages, batches, count = least.shape
    inner, each, weights, across, over = np.empty((5, count))
    best = np.empty((figures, batches, count))
    for figure in range(figures):
        for s in range(stages):
            for i in range(batches):
                words = (i + 1) * work.memory_words[s]
                for j in range(count):
                    least[figure, s, i, j] = words * (paces.word[j] if figure == 0 else figure)
    for u in range(work.gemms.shape[0]):
        R, P, C, groups = gemm_at(work, u)
        per_input, per_output, adds = paces.input[u], paces.output[u], work.adds[u] * R * C
        best[:] = np.inf
        for code in range(layouts.codes):
            T_R, T_P, T_C, V = tiles[0, code], tiles[1, code], tiles[2, code], tiles[3, code]
            for j in range(count):
                # in Equation (1) as printed samples share the tiles along P
                inner[j] = R * (P / T_P[j] if layouts.literal else tiles_along(P, T_P[j]))
                each[j] = sample_words(R, P, C, T_C[j])
                weights[j] = work.fetched[u] * weight_words(R, P, C, T_R[j], 1)
                across[j], over[j] = tiles_along(C, T_C[j]), R * C / (T_R[j] * T_C[j])
            for i in range(batches):
                # no layout computes less, and each reads the weights in every pass
                b, B_R, B_P, passes = layout_at(layouts, layouts.fewest_rows[work.kinds[u], i])
                runs, columns = passes * B_R, B_P * C
                if layouts.literal:
                    runs, columns = runs * B_P, C
                cycles, per_pass, passes_of_rows = best[0, i], b / passes, passes / R
                for j in range(count):
                    # tiles along P, times tiles of columns, times blocks of rows: no layout has fewer
                    turns = passes_of_rows * inner[j] * max(across[j], per_pass * over[j])
                    compute = runs * inner[j] * tiles_along(columns, T_C[j]) / V[j]
                    load = b * (each[j] - R * C) * per_input[j] + passes * weights[j] * paces.word[j]
                    moved = load + b * (R * C + adds) * per_output[j] + paces.asking * turns
                    # a tile is loaded when the last but one is computed, so every other tile waits for its own load
                    alternating = (load + (paces.asking + paces.waiting) * turns + compute) * 0.5
                    cycles[j] = smaller(max(compute, moved, alternating), cycles[j])
                if figures > 1:
                    words, accesses = best[1, i], best[2, i]
                    for j in range(count):
                        moved = b * (each[j] + adds) + passes * weights[j]
                        words[j] = smaller(moved, words[j])
                        accesses[j] = smaller(2 * (moved + b * C * (inner[j] - R)), accesses[j])
        for figure in range(figures):
            for s in range(stages):
                for i in range(batches):
                    for j in range(count):
                        least[figure, s, i, j] += work.repeats[u, s] * groups * best[figure, i, j]
