"""The cost model of an NPU and its search, compiled; the typed functions are in ``evaluation`` and ``costs``.

The kernels compile the formulas of cycles, words and accesses; the bound of the search, the energy and the explanation
call the same formulas with arrays.  Quantities are float64 that hold whole numbers, exact below 2**52, so that a
division that is rounded up is exact too (``docs/search.md``, Arithmetic).

Symbols are from Fluid Batching: a layer is R x P by P x C; a design, and its ``tile`` after stacking, has the sizes of
:class:`.tiles.Tile` in its order.
A ``layout`` is (b, B_R, B_P, passes): ``b`` samples, ``B_R`` down the rows times ``B_P`` side by side in each of
``passes`` runs.  ``work`` is a :class:`.workload.LayerArrays`, ``layouts`` a :class:`.layouts.Layouts`.
"""

import numpy as np
from numba.extending import register_jitable

from ...jit import compiled

# A search takes at most this many designs at a time. Its tables then stay in the cache. Inner loops run over designs
# and contain no branch and no call, so that LLVM can turn them into vector instructions.
BLOCK = 128

# numpy's error model divides without a test for zero, which no vector loop could carry
kernel = compiled(error_model="numpy")
# a formula is a plain function for Python, which may call it with arrays; kernels compile it
formula = register_jitable(error_model="numpy")


@formula
def smaller(x, y):
    """The smaller of two numbers, none of them -0."""
    # adding zero changes no value, and keeps LLVM from a masked store, which costs AMD's cores twice the loop
    return min(x, y) + 0.0


@formula
def tiles_along(extent, tile):
    """Tiles that an extent takes, rounded up."""
    return np.ceil(extent / tile)


@formula
def inner_tiles(P, T_P, B_P, literal):
    """Tiles along P."""
    # Equation (1) as printed: samples side by side along P, each with P % T_P guard elements
    return tiles_along(B_P * (P + P % T_P) if literal else P, T_P)


@formula
def column_tiles(C, T_C, B_P, literal):
    """Tiles along the columns, which samples side by side share, except in Equation (1) as printed."""
    return tiles_along(C if literal else B_P * C, T_C)


@formula
def sample_words(R, P, C, T_C):
    """Words moved for each sample: its input once per column tile, its output once."""
    return R * P * tiles_along(C, T_C) + R * C


@formula
def weight_words(R, P, C, T_R, B_R):
    """Words of weights moved: every weight once for each T_R rows."""
    return P * C * tiles_along(B_R * R, T_R)


@formula
def partial_words(R, P, C, T_P):
    """Partial sums that return to the output buffer for each sample, after every tile along P except the last."""
    return R * C * (tiles_along(P, T_P) - 1)


@formula
def on_chip_words(gemm, tile, layout, stayed):
    """Words of one layer moved on the chip only: returning partial sums, and weights that stay.

    A weight that stays is read where it stays, then written and read as others: three accesses, where a word has two.
    """
    R, P, C, groups = gemm
    return groups * layout[0] * partial_words(R, P, C, tile[1]) + 1.5 * stayed


TIME_ONLY = 1.0, 0.0, 0.0
"""Prices of layouts that are chosen by their time."""


@formula
def price(prices, cycles, words, on_chip):
    """What a layer costs by an objective, at the prices of a cycle, a word off chip, and a word on the chip only."""
    return prices[0] * cycles + prices[1] * words + prices[2] * on_chip


@formula
def shape_of(gemm, tile, layout):
    """Samples that one tile of columns touches at most, (tile, sample column) pairs, and distinct weight columns.

    Also the tiles in which the last sample column lies.
    """
    C, T_C = gemm[2], tile[2]
    B_P = layout[2]
    tiles = tiles_along(B_P * C, T_C)
    most, here, before, touched = 1, 1, -1.0, tiles
    for i in range(1, B_P):
        begins_in = np.floor(i * C / T_C)
        if i * C > begins_in * T_C:  # sample i begins within a tile, which holds the end of the one before it, too
            here = here + 1 if begins_in == before else 2
            most, before, touched = max(most, here), begins_in, touched + 1
    columns = B_P * C
    if T_C > C:  # each tile but the last has the weights of all columns, once
        columns = (tiles - 1) * C + min(columns - (tiles - 1) * T_C, C)
    return most, touched, columns, tiles - np.floor((B_P - 1) * C / T_C)


@formula
def moved_words(gemm, layout, shape, blocks, fetched=1.0):
    """Words of inputs and outputs, and of weights, of one layer (docs/model.md, Words)."""
    R, P, C, groups = gemm
    b, B_R, B_P, passes = layout
    _, touched, columns, last = shape
    missing = B_R * B_P - b // passes  # places of the last sample column that hold no sample
    maps = R * P * (B_R * touched - missing * last) + b // passes * R * C
    return groups * passes * maps, groups * passes * fetched * P * columns * blocks


@formula
def fewest_blocks(gemm, tile, layout, most):
    """Blocks if each has the most rows that fit: samples that a tile touches share the rows of the input buffer."""
    return tiles_along(layout[1] * gemm[0], max(np.floor(tile[0] / most), 1))


@formula
def tile_words(gemm, tile, layout, fetched=1.0):
    """Words of one layer, tile by tile, if each block has the most rows that fit."""
    shape = shape_of(gemm, tile, layout)
    maps, weights = moved_words(gemm, layout, shape, fewest_blocks(gemm, tile, layout, shape[0]), fetched)
    return maps + weights


@formula
def gemm_at(work, u):
    """R, P, C and groups of a layer, as a tuple."""
    return work.gemms[u, 0], work.gemms[u, 1], work.gemms[u, 2], work.gemms[u, 3]


@formula
def layout_at(layouts, n):
    """The layout in a row, as a tuple."""
    return layouts.table[n, 0], layouts.table[n, 1], layouts.table[n, 2], layouts.table[n, 3]


@formula
def tile_at(tiles, code):
    """The tile of a design under a stacking code, as a tuple."""
    return tiles[0, code], tiles[1, code], tiles[2, code], tiles[3, code]


@formula
def gemm_cost(gemm, tile, layout, words_per_cycle, literal, fetched=1.0):
    """Cycles and words of one layer in one layout.

    ``literal`` is Equation (1) as printed; ``fetched`` is the share of the weights that does not stay on the chip.
    """
    R, P, C, groups = gemm
    T_R, T_P, T_C = tile[0], tile[1], tile[2]
    b, B_R, B_P, passes = layout
    compute = B_R * R * (inner_tiles(P, T_P, B_P, literal) * column_tiles(C, T_C, B_P, literal))
    words = (b // passes) * sample_words(R, P, C, T_C) + fetched * weight_words(R, P, C, T_R, B_R)
    # double buffering hides the smaller of the two (docs/model.md, Time of a layer)
    return groups * passes * np.maximum(compute, words / words_per_cycle), groups * passes * words


@kernel
def search_designs(tiles, work, layouts, words_per_cycle, cycles):
    """Fill in the cycles of each stage and batch on each design, with the best (k, B_R) for each layer and batch.

    Equation (1) as printed is for :func:`account_designs`, which is slower.
    Shapes: ``tiles`` (4, codes, D): T_R, T_P, T_C and V, which is 1; ``cycles`` (S, B_max, D).
    """
    stages, batches, count = cycles.shape
    inner, each = np.empty(BLOCK), np.empty(BLOCK)
    busy, weights = np.empty((batches + 1, BLOCK)), np.empty((batches + 1, BLOCK))
    best = np.empty((batches, BLOCK))
    for begin in range(0, count, BLOCK):
        part = slice(begin, min(begin + BLOCK, count))
        width = part.stop - begin
        for s in range(stages):
            for i in range(batches):
                cycles[s, i][part] = (i + 1) * work.memory_words[s] / words_per_cycle
        for u in range(work.gemms.shape[0]):
            R, P, C, groups = gemm_at(work, u)
            best[:] = np.inf
            for code in range(layouts.codes):
                T_R, T_P, T_C = tiles[0, code][part], tiles[1, code][part], tiles[2, code][part]
                # terms that do not depend on the pair (b, B_R) are computed once
                for j in range(width):
                    inner[j] = R * tiles_along(P, T_P[j])
                    each[j] = sample_words(R, P, C, T_C[j])
                for n in range(1, batches + 1):
                    for j in range(width):
                        busy[n, j] = inner[j] * tiles_along(n * C, T_C[j])
                        weights[n, j] = work.fetched[u] * weight_words(R, P, C, T_R[j], n)
                for n in range(layouts.starts[work.kinds[u]], layouts.starts[work.kinds[u] + 1]):
                    b, B_R, B_P, passes = layout_at(layouts, n)
                    for j in range(width):
                        words = (b // passes) * each[j] + weights[B_R, j]
                        taken = passes * max(B_R * busy[B_P, j], words / words_per_cycle)
                        best[b - 1, j] = smaller(taken, best[b - 1, j])
            for s in range(stages):
                for i in range(batches):
                    total = cycles[s, i][part]
                    for j in range(width):
                        total[j] += work.repeats[u, s] * groups * best[i, j]


@kernel
def account_designs(tiles, work, layouts, words_per_cycle, prices, choice, figures):
    """Fill in the same cycles, words moved off chip, accesses to buffers, and the layouts of the last design.

    Slower: designs are taken one by one.  The least price wins, on equal ones fewer cycles, then fewer words tile by
    tile, then the smaller stacking code, then the smaller B_R.
    Shapes: ``tiles`` (4, codes, D); ``figures`` (3, D, S, B_max).
    """
    cycles, words, accesses = figures[0], figures[1], figures[2]
    stages, batches = cycles.shape[1], cycles.shape[2]
    least, lowest = np.empty((2, batches))
    for d in range(tiles.shape[2]):
        for s in range(stages):
            for i in range(batches):
                words[d, s, i] = (i + 1) * work.memory_words[s]
                cycles[d, s, i] = words[d, s, i] / words_per_cycle
                accesses[d, s, i] = 2 * words[d, s, i]
        for u in range(work.gemms.shape[0]):
            R, P, C, groups = gemm_at(work, u)
            lowest[:] = np.inf
            for code in range(layouts.codes):
                tile = tiles[0, code, d], tiles[1, code, d], tiles[2, code, d]
                for n in range(layouts.starts[work.kinds[u]], layouts.starts[work.kinds[u] + 1]):
                    layout = layout_at(layouts, n)
                    taken, moved = gemm_cost(
                        (R, P, C, groups), tile, layout, words_per_cycle, layouts.literal, work.fetched[u]
                    )
                    i, weights = layout[0] - 1, weight_words(R, P, C, tile[0], layout[1])
                    stayed = groups * (1 - work.fetched[u]) * layout[3] * weights
                    on_chip = on_chip_words((R, P, C, groups), tile, layout, stayed)
                    cost = price(prices, taken, moved, on_chip)
                    if cost > lowest[i]:
                        continue
                    by_tiles = moved  # in Equation (1) as printed, samples side by side lie along P
                    if not layouts.literal:
                        by_tiles = tile_words((R, P, C, groups), tile, layout, work.fetched[u])
                    faster = taken - choice.cycles[u, i]
                    if cost < lowest[i] or faster < 0 or (faster == 0 and by_tiles < least[i]):
                        lowest[i], least[i] = cost, by_tiles
                        choice.codes[u, i], choice.B_R[u, i] = code, layout[1]
                        choice.cycles[u, i], choice.words[u, i], choice.on_chip[u, i] = taken, moved, on_chip
            for i in range(batches):
                for s in range(stages):
                    repeats = work.repeats[u, s]
                    cycles[d, s, i] += repeats * choice.cycles[u, i]
                    words[d, s, i] += repeats * choice.words[u, i]
                    # each word is written to a buffer once and read once (docs/model.md, Energy)
                    accesses[d, s, i] += 2 * repeats * (choice.words[u, i] + choice.on_chip[u, i])


@kernel
def count_tile_words(gemm, tiles, layouts, fetched):
    """:func:`tile_words` of each layout on each tile. Shapes: ``tiles`` (4, K), ``layouts`` (N, 4), returns (K, N)."""
    words = np.empty((tiles.shape[1], layouts.shape[0]))
    for n in range(layouts.shape[0]):
        layout = layouts[n, 0], layouts[n, 1], layouts[n, 2], layouts[n, 3]
        for j in range(tiles.shape[1]):
            tile = tiles[0, j], tiles[1, j], tiles[2, j]
            words[j, n] = tile_words((gemm[0], gemm[1], gemm[2], gemm[3]), tile, layout, fetched)
    return words
