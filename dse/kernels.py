"""The cost model, compiled: cycles and off-chip words of one layer, and the search over designs.

Everything here is numba and numpy; the typed face is in ``space``, ``search``
and ``latency``.  All kernels live in this one file because numba's disk cache
notices an edit in the file it caches, and in no other.

Quantities are float64 that hold whole numbers: exact below 2**52, and a
division that is rounded up is then exact too (``docs/model.md``, Arithmetic).

Symbols are the paper's (000): a layer is R x P by P x C, a design
<T_R, T_P, T_C>; ``b`` samples are laid out as ``B_R`` down the rows times
``B_P`` side by side.
"""

import numpy as np

from ..jit import compiled

# causes that a layer's cycles are split into
PARTS = 7
# designs that a search takes at a time: its tables stay in the cache, and its inner loops run over designs,
# without a branch and without a call, so that LLVM turns them into vector instructions
BLOCK = 128

# numpy's error model divides without a test for zero, which no vector loop could carry
kernel = compiled(error_model="numpy")


@kernel
def smaller(x, y):
    """The smaller of two numbers, none of them -0."""
    # adding zero changes no value, and keeps LLVM from a masked store, which costs AMD's cores twice the loop
    return min(x, y) + 0.0


@kernel
def stacked(T_R, T_P, T_C, code):
    """Tile sizes under stacking code 0, 1, 2 (k = 1, 2, 1/2); zeros where the NPU is too small."""
    if code == 0:
        return float(T_R), float(T_P), float(T_C)
    # Section III-A: <floor(T_R/2), k*T_P, floor(T_C/k)>
    shape = (T_R // 2, 2 * T_P, T_C // 2) if code == 1 else (T_R // 2, T_P // 2, 2 * T_C)
    if shape[0] < 1 or shape[1] < 1 or shape[2] < 1:
        return 0.0, 0.0, 0.0
    return float(shape[0]), float(shape[1]), float(shape[2])


@kernel
def tiles_along(extent, tile):
    """Tiles that an extent takes, rounded up."""
    return np.ceil(extent / tile)


@kernel
def inner_tiles(P, T_P, B_P, literal):
    """Tiles along P."""
    # Equation (1) as printed: samples side by side along P, each with P % T_P guard elements
    return tiles_along(B_P * (P + P % T_P) if literal else P, T_P)


@kernel
def column_tiles(C, T_C, B_P, literal):
    """Tiles along the columns; samples side by side share them, but in Equation (1) as printed."""
    return tiles_along(C if literal else B_P * C, T_C)


@kernel
def tile_passes(P, C, T_P, T_C, B_P, literal):
    """Tiles that a row of the output needs: rounded up in P and in C."""
    return inner_tiles(P, T_P, B_P, literal) * column_tiles(C, T_C, B_P, literal)


@kernel
def sample_words(R, P, C, T_C):
    """Words moved for each sample: its input once per column tile, its output once."""
    return R * P * tiles_along(C, T_C) + R * C


@kernel
def weight_words(R, P, C, T_R, B_R):
    """Words of weights moved: all of them once per T_R rows."""
    return P * C * tiles_along(B_R * R, T_R)


@kernel
def partial_words(R, P, C, T_P):
    """Partial sums that return to the output buffer for each sample: after every tile along P but the last."""
    return R * C * (tiles_along(P, T_P) - 1)


@kernel
def gemm_cost(gemm, T_R, T_P, T_C, b, B_R, B_P, passes, words_per_cycle, literal):
    """Cycles and words of one layer for b samples, laid out B_R x B_P in each of ``passes`` passes."""
    R, P, C, groups = gemm[0], gemm[1], gemm[2], gemm[3]
    compute = B_R * R * tile_passes(P, C, T_P, T_C, B_P, literal)
    words = (b // passes) * sample_words(R, P, C, T_C) + weight_words(R, P, C, T_R, B_R)
    # double buffering hides the smaller of the two (docs/model.md, Time of a layer)
    return groups * passes * max(compute, words / words_per_cycle), groups * passes * words


@kernel
def stack_block(designs, first, tiles):
    """Tiles of a block of designs under each stacking code; k = 1, which is tried anyway, where one does not fit.

    Past the last design it is repeated: blocks are whole, so that loops over them need no remainder.

    Parameters
    ----------
    designs : (D, 3) int64
        T_R, T_P, T_C of each design.
    first : int
        Where the block begins.
    tiles : (3, codes, BLOCK) float64
        Output: T_R, T_P, T_C.
    """
    for code in range(tiles.shape[1]):
        for j in range(BLOCK):
            design = min(first + j, designs.shape[0] - 1)
            T_R, T_P, T_C = stacked(designs[design, 0], designs[design, 1], designs[design, 2], code)
            if T_R == 0:
                T_R, T_P, T_C = stacked(designs[design, 0], designs[design, 1], designs[design, 2], 0)
            tiles[0, code, j], tiles[1, code, j], tiles[2, code, j] = T_R, T_P, T_C


@kernel
def search_designs(designs, gemms, kinds, repeats, plans, starts, codes, memory_words, words_per_cycle, cycles):
    """Cycles of each stage and batch on each design, with the best (k, B_R) for each layer and batch.

    Equation (1) as printed is for :func:`account_designs`, which is slower.

    Parameters
    ----------
    designs : (D, 3) int64
        T_R, T_P, T_C of each design.
    gemms : (U, 4) float64
        R, P, C, groups of each distinct layer.
    kinds : (U,) int64
        Which list of layouts it chooses from.
    repeats : (U, S) float64
        How often it occurs in each stage.
    plans : (N, 4) int64
        Layouts (b, B_R, B_P, passes), by b, list after list.
    starts : (lists + 1,) int64
        Where each list begins in ``plans``.
    codes : int
        Stacking codes to try: 1 for k = 1 only, 3 for all.
    memory_words : (S,) float64
        Words that a stage's memory-only layers move for each sample.
    words_per_cycle : float
        Off-chip bandwidth.
    cycles : (D, S, B_max) float64
        Output.
    """
    stages, batches = cycles.shape[1], cycles.shape[2]
    tiles = np.empty((3, codes, BLOCK))
    inner, each = np.empty(BLOCK), np.empty(BLOCK)
    busy, weights = np.empty((batches + 1, BLOCK)), np.empty((batches + 1, BLOCK))
    best = np.empty((batches, BLOCK))
    total = np.empty((stages, batches, BLOCK))
    for first in range(0, designs.shape[0], BLOCK):
        stack_block(designs, first, tiles)
        for s in range(stages):
            for i in range(batches):
                for j in range(BLOCK):
                    total[s, i, j] = (i + 1) * memory_words[s] / words_per_cycle
        for u in range(gemms.shape[0]):
            R, P, C = gemms[u, 0], gemms[u, 1], gemms[u, 2]
            for i in range(batches):
                for j in range(BLOCK):
                    best[i, j] = np.inf
            for code in range(codes):
                # what does not depend on the pair (b, B_R) is computed once
                for j in range(BLOCK):
                    inner[j] = R * tiles_along(P, tiles[1, code, j])
                    each[j] = sample_words(R, P, C, tiles[2, code, j])
                for n in range(1, batches + 1):
                    for j in range(BLOCK):
                        busy[n, j] = inner[j] * tiles_along(n * C, tiles[2, code, j])
                        weights[n, j] = weight_words(R, P, C, tiles[0, code, j], n)
                for n in range(starts[kinds[u]], starts[kinds[u] + 1]):
                    b, B_R, B_P, passes = plans[n, 0], plans[n, 1], plans[n, 2], plans[n, 3]
                    for j in range(BLOCK):
                        words = (b // passes) * each[j] + weights[B_R, j]
                        found = passes * max(B_R * busy[B_P, j], words / words_per_cycle)
                        best[b - 1, j] = smaller(found, best[b - 1, j])
            for s in range(stages):
                for i in range(batches):
                    for j in range(BLOCK):
                        total[s, i, j] += repeats[u, s] * gemms[u, 3] * best[i, j]
        for j in range(min(BLOCK, designs.shape[0] - first)):
            for s in range(stages):
                for i in range(batches):
                    cycles[first + j, s, i] = total[s, i, j]


@kernel
def stack_reciprocals(designs, first, tiles):
    """One by what :func:`stack_block` has, and a little less, for bounds.

    A product is quicker than a quotient, and so it is never more, rounded up or not.
    """
    stack_block(designs, first, tiles)
    for axis in range(3):
        for code in range(tiles.shape[1]):
            for j in range(BLOCK):
                tiles[axis, code, j] = (1 - 1e-12) / tiles[axis, code, j]


@kernel
def bound_designs(designs, gemms, kinds, repeats, codes, memory_words, words_per_cycle, up, shares, least):
    """What each design takes at least for each sample of any batch (docs/model.md, Pruning).

    Parameters
    ----------
    designs, gemms, kinds, repeats, codes, memory_words, words_per_cycle
        As for :func:`search_designs`.
    up : (lists, 2) float64
        1 where each sample takes whole tiles along P and along the columns, 0 where samples share them.
    shares : (lists,) float64
        The least of passes / b in each list: of one reading of the weights, what falls to a sample.
    least : (D, S) float64
        Output: cycles of each stage.
    """
    stages = least.shape[1]
    cycles_per_word = 1 / words_per_cycle
    tiles = np.empty((3, codes, BLOCK))
    best, total = np.empty(BLOCK), np.empty((stages, BLOCK))
    for first in range(0, designs.shape[0], BLOCK):
        stack_reciprocals(designs, first, tiles)
        for s in range(stages):
            for j in range(BLOCK):
                total[s, j] = memory_words[s] * cycles_per_word
        for u in range(gemms.shape[0]):
            R, P, C = gemms[u, 0], gemms[u, 1], gemms[u, 2]
            up_inner, up_columns, share = up[kinds[u], 0], up[kinds[u], 1], shares[kinds[u]]
            for j in range(BLOCK):
                best[j] = np.inf
            for code in range(codes):
                for j in range(BLOCK):
                    inner, columns = P * tiles[1, code, j], C * tiles[2, code, j]
                    whole = np.ceil(columns)
                    columns += up_columns * (whole - columns)
                    compute = R * (inner + up_inner * (np.ceil(inner) - inner)) * columns
                    words = R * (P * whole + C) + share * P * C * np.ceil(R * tiles[0, code, j])
                    best[j] = smaller(max(compute, words * cycles_per_word), best[j])
            for s in range(stages):
                for j in range(BLOCK):
                    total[s, j] += repeats[u, s] * gemms[u, 3] * best[j]
        for j in range(min(BLOCK, designs.shape[0] - first)):
            for s in range(stages):
                least[first + j, s] = total[s, j]


@kernel
def bound_traffic(designs, gemms, kinds, repeats, codes, memory_words, shares, words, accesses):
    """What each design moves at least for each sample of any batch (docs/model.md, Pruning).

    Parameters
    ----------
    designs, gemms, kinds, repeats, codes, memory_words, shares
        As for :func:`bound_designs`.
    words, accesses : (D, S) float64
        Output: words moved off chip, and accesses to buffers.
    """
    stages = words.shape[1]
    tiles = np.empty((3, codes, BLOCK))
    moved, touched = np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, designs.shape[0], BLOCK):
        count = min(BLOCK, designs.shape[0] - first)
        stack_reciprocals(designs, first, tiles)
        for j in range(count):
            for s in range(stages):
                words[first + j, s], accesses[first + j, s] = memory_words[s], 2 * memory_words[s]
        for u in range(gemms.shape[0]):
            R, P, C = gemms[u, 0], gemms[u, 1], gemms[u, 2]
            share = shares[kinds[u]]
            for j in range(BLOCK):
                moved[j] = touched[j] = np.inf
            for code in range(codes):
                for j in range(BLOCK):
                    found = R * (P * np.ceil(C * tiles[2, code, j]) + C)
                    found += share * P * C * np.ceil(R * tiles[0, code, j])
                    returned = R * C * (np.ceil(P * tiles[1, code, j]) - 1)
                    moved[j] = smaller(found, moved[j])
                    touched[j] = smaller(2 * (found + returned), touched[j])
            for j in range(count):
                for s in range(stages):
                    words[first + j, s] += repeats[u, s] * gemms[u, 3] * moved[j]
                    accesses[first + j, s] += repeats[u, s] * gemms[u, 3] * touched[j]


@kernel
def choose_layouts(
    design,
    gemms,
    kinds,
    plans,
    starts,
    codes,
    words_per_cycle,
    literal,
    code_of,
    rows_of,
    cycles_of,
    words_of,
    returned_of,
):
    """The best (k, B_R) of each layer and batch on one design, with its cycles and words.

    On equal cycles fewer words win, then the smaller stacking code, then the smaller B_R.

    Parameters
    ----------
    design : (3,) int64
        T_R, T_P, T_C.
    gemms : (L, 4) float64
        R, P, C, groups of each layer.
    kinds, plans, starts, codes, words_per_cycle, literal
        As for :func:`account_designs`.
    code_of, rows_of : (L, B_max) int64
        Output: the choice.
    cycles_of, words_of, returned_of : (L, B_max) float64
        Output: what it costs, and partial sums that return to the output buffer.
    """
    for u in range(gemms.shape[0]):
        for i in range(code_of.shape[1]):
            code_of[u, i], rows_of[u, i], cycles_of[u, i], words_of[u, i] = 0, 0, np.inf, np.inf
        for code in range(codes):
            T_R, T_P, T_C = stacked(design[0], design[1], design[2], code)
            if T_R == 0:
                continue
            for n in range(starts[kinds[u]], starts[kinds[u] + 1]):
                b, B_R, B_P, passes = plans[n, 0], plans[n, 1], plans[n, 2], plans[n, 3]
                cycles, words = gemm_cost(gemms[u], T_R, T_P, T_C, b, B_R, B_P, passes, words_per_cycle, literal)
                i = b - 1
                if cycles < cycles_of[u, i] or (cycles == cycles_of[u, i] and words < words_of[u, i]):
                    code_of[u, i], rows_of[u, i] = code, B_R
                    cycles_of[u, i], words_of[u, i] = cycles, words
                    returned_of[u, i] = gemms[u, 3] * b * partial_words(gemms[u, 0], gemms[u, 1], gemms[u, 2], T_P)


@kernel
def gemm_parts(gemm, T_R, T_P, T_C, units, b, B_R, B_P, passes, words_per_cycle, literal):
    """Where the cycles of :func:`gemm_cost` go (docs/model.md, Where time goes); they sum to them.

    ``units`` are the multipliers of the design before stacking, ``T_R, T_P, T_C`` its tile after.
    """
    R, P, C, groups = gemm[0], gemm[1], gemm[2], gemm[3]
    cycles, words = gemm_cost(gemm, T_R, T_P, T_C, b, B_R, B_P, passes, words_per_cycle, literal)
    rows = groups * passes * B_R * R
    inner, columns = inner_tiles(P, T_P, B_P, literal), column_tiles(C, T_C, B_P, literal)
    made = groups * b * R * P * C / units
    grid = rows * B_P * P * C / units
    inner_filled = rows * inner * T_P * (C if literal else B_P * C) / units
    filled = rows * inner * T_P * columns * T_C / units
    compute = rows * inner * columns
    # as if every reading of the weights served the T_R rows that the buffers hold
    spared = groups * passes * (weight_words(R, P, C, T_R, B_R) - P * C * B_R * R / T_R)
    amortised = max(compute, (words - spared) / words_per_cycle)
    return (
        made,
        max(grid - made, 0.0),
        max(inner_filled - grid, 0.0),
        max(filled - inner_filled, 0.0),
        max(compute - filled, 0.0),
        max(amortised - compute, 0.0),
        max(cycles - amortised, 0.0),
    )


@kernel
def account_designs(
    designs,
    gemms,
    kinds,
    repeats,
    plans,
    starts,
    codes,
    memory_words,
    words_per_cycle,
    literal,
    cycles,
    words,
    accesses,
):
    """What :func:`search_designs` finds and, of the same layouts, words moved off chip and accesses to buffers.

    Slower: designs are taken one by one, and a layout is chosen as :func:`choose_layouts`
    does, by words too, where cycles are equal.

    Parameters
    ----------
    designs, gemms, kinds, repeats, plans, starts, codes, memory_words, words_per_cycle
        As for :func:`search_designs`.
    literal : bool
        Equation (1) as printed.
    cycles, words, accesses : (D, S, B_max) float64
        Output.
    """
    stages, batches = cycles.shape[1], cycles.shape[2]
    shape = gemms.shape[0], batches
    code_of, rows_of = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    cycles_of, words_of, returned_of = np.empty(shape), np.empty(shape), np.empty(shape)
    for d in range(designs.shape[0]):
        choose_layouts(
            designs[d], gemms, kinds, plans, starts, codes, words_per_cycle, literal,
            code_of, rows_of, cycles_of, words_of, returned_of,
        )  # fmt: skip
        for s in range(stages):
            for i in range(batches):
                words[d, s, i] = (i + 1) * memory_words[s]
                cycles[d, s, i] = words[d, s, i] / words_per_cycle
                accesses[d, s, i] = 2 * words[d, s, i]
        for u in range(gemms.shape[0]):
            for i in range(batches):
                for s in range(stages):
                    cycles[d, s, i] += repeats[u, s] * cycles_of[u, i]
                    words[d, s, i] += repeats[u, s] * words_of[u, i]
                    # each word is written to a buffer once and read once (docs/model.md, Energy)
                    accesses[d, s, i] += 2 * repeats[u, s] * (words_of[u, i] + returned_of[u, i])


@kernel
def cost_layouts(design, gemms, code_of, rows_of, columns_of, passes_of, words_per_cycle, literal):
    """Cycles and words of each layer and batch under a given choice of (k, B_R), and where the cycles go.

    Parameters
    ----------
    design, gemms, words_per_cycle, literal
        As for :func:`choose_layouts`.
    code_of, rows_of, columns_of, passes_of : (L, B_max) int64
        Stacking code, B_R, B_P and passes.

    Returns
    -------
    cycles, words : (L, B_max) float64
        What it costs; infinite where the stacking code does not fit the design.
    parts : (PARTS, L, B_max) float64
        Cycles by cause, in the order of :func:`gemm_parts`.
    """
    cycles_of = np.full(code_of.shape, np.inf)
    words_of = np.full(code_of.shape, np.inf)
    parts_of = np.zeros((PARTS, *code_of.shape))
    for u in range(gemms.shape[0]):
        for i in range(code_of.shape[1]):
            T_R, T_P, T_C = stacked(design[0], design[1], design[2], code_of[u, i])
            if T_R == 0:
                continue
            b, B_R, B_P, passes = i + 1, rows_of[u, i], columns_of[u, i], passes_of[u, i]
            cycles_of[u, i], words_of[u, i] = gemm_cost(
                gemms[u], T_R, T_P, T_C, b, B_R, B_P, passes, words_per_cycle, literal
            )
            parts = gemm_parts(
                gemms[u], T_R, T_P, T_C, design[1] * design[2], b, B_R, B_P, passes, words_per_cycle, literal
            )
            for part in range(PARTS):
                parts_of[part, u, i] = parts[part]
    return cycles_of, words_of, parts_of


@kernel
def cost_candidates(design, gemms, kinds, plans, starts, codes, words_per_cycle, literal):
    """Cycles and words of every (k, B_R) that :func:`choose_layouts` weighs.

    Parameters
    ----------
    design, gemms, kinds, plans, starts, codes, words_per_cycle, literal
        As for :func:`choose_layouts`.

    Returns
    -------
    cycles, words : (L, N, codes) float64
        By layer, layout of ``plans`` and stacking code; infinite where a layer has no such choice.
    """
    cycles_of = np.full((gemms.shape[0], plans.shape[0], codes), np.inf)
    words_of = np.full(cycles_of.shape, np.inf)
    for u in range(gemms.shape[0]):
        for code in range(codes):
            T_R, T_P, T_C = stacked(design[0], design[1], design[2], code)
            if T_R == 0:
                continue
            for n in range(starts[kinds[u]], starts[kinds[u] + 1]):
                b, B_R, B_P, passes = plans[n, 0], plans[n, 1], plans[n, 2], plans[n, 3]
                cycles_of[u, n, code], words_of[u, n, code] = gemm_cost(
                    gemms[u], T_R, T_P, T_C, b, B_R, B_P, passes, words_per_cycle, literal
                )
    return cycles_of, words_of
