"""The cost model, compiled: cycles and off-chip words of one layer, and the search over designs.

Everything here is numba and numpy; the typed face is in ``space``, ``search``
and ``costs``.  All kernels live in this one file because numba's disk cache
notices an edit in the file it caches, and in no other.

Cycles, words and accesses of a layer are written once, in the functions above
:func:`search_designs`; the search, its bound, the energy and the explanation
all call them.  Quantities are float64 that hold whole numbers: exact below
2**52, and a division that is rounded up is then exact too (``docs/model.md``,
Arithmetic).

Symbols are the paper's (000): a layer is R x P by P x C, a design or its
stacked ``tile`` is <T_R, T_P, T_C>.  A ``layout`` is (b, B_R, B_P, passes):
``b`` samples, ``B_R`` down the rows times ``B_P`` side by side in each of
``passes`` runs.  ``work`` is a :class:`.workload.Work`, ``plan`` a
:class:`.space.Plan`.
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
def gemm_at(work, u):
    """R, P, C and groups of a layer, as a tuple."""
    return work.gemms[u, 0], work.gemms[u, 1], work.gemms[u, 2], work.gemms[u, 3]


@kernel
def layout_at(plan, n):
    """The layout in a row of a plan, as a tuple."""
    return plan.layouts[n, 0], plan.layouts[n, 1], plan.layouts[n, 2], plan.layouts[n, 3]


@kernel
def gemm_cost(gemm, tile, layout, words_per_cycle, literal):
    """Cycles and words of one layer in one layout; ``literal`` is Equation (1) as printed."""
    R, P, C, groups = gemm
    T_R, T_P, T_C = tile
    b, B_R, B_P, passes = layout
    compute = B_R * R * (inner_tiles(P, T_P, B_P, literal) * column_tiles(C, T_C, B_P, literal))
    words = (b // passes) * sample_words(R, P, C, T_C) + weight_words(R, P, C, T_R, B_R)
    # double buffering hides the smaller of the two (docs/model.md, Time of a layer)
    return groups * passes * max(compute, words / words_per_cycle), groups * passes * words


@kernel
def gemm_parts(gemm, tile, layout, words_per_cycle, literal, units):
    """Cycles and words of :func:`gemm_cost`, and where the cycles go (docs/model.md, Where time goes).

    ``units`` are the multipliers of the design before stacking, ``tile`` is its tile after.
    """
    R, P, C, groups = gemm
    T_R, T_P, T_C = tile
    b, B_R, B_P, passes = layout
    cycles, words = gemm_cost(gemm, tile, layout, words_per_cycle, literal)
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
    parts = (
        made,
        max(grid - made, 0.0),
        max(inner_filled - grid, 0.0),
        max(filled - inner_filled, 0.0),
        max(compute - filled, 0.0),
        max(amortised - compute, 0.0),
        max(cycles - amortised, 0.0),
    )
    return cycles, words, parts


@kernel
def stack_block(designs, first, tiles):
    """Tiles of a block of designs under each stacking code; where a code does not fit, those of k = 1 again.

    The last block is filled up with the last design, so that loops over blocks need no remainder.

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
            design = designs[min(first + j, designs.shape[0] - 1)]
            tile = stacked(design[0], design[1], design[2], code)
            if tile[0] == 0:
                tile = stacked(design[0], design[1], design[2], 0)
            tiles[0, code, j], tiles[1, code, j], tiles[2, code, j] = tile


@kernel
def search_designs(designs, work, plan, words_per_cycle, cycles):
    """Cycles of each stage and batch on each design, with the best (k, B_R) for each layer and batch.

    Equation (1) as printed is for :func:`account_designs`, which is slower.

    Parameters
    ----------
    designs : (D, 3) int64
        T_R, T_P, T_C of each design.
    work : Work
        Distinct layers.
    plan : Plan
        Layouts and stackings to try.
    words_per_cycle : float
        Off-chip bandwidth.
    cycles : (D, S, B_max) float64
        Output.
    """
    stages, batches = cycles.shape[1], cycles.shape[2]
    tiles = np.empty((3, plan.codes, BLOCK))
    inner, each = np.empty(BLOCK), np.empty(BLOCK)
    busy, weights = np.empty((batches + 1, BLOCK)), np.empty((batches + 1, BLOCK))
    best = np.empty((batches, BLOCK))
    total = np.empty((stages, batches, BLOCK))
    for first in range(0, designs.shape[0], BLOCK):
        stack_block(designs, first, tiles)
        for s in range(stages):
            for i in range(batches):
                for j in range(BLOCK):
                    total[s, i, j] = (i + 1) * work.memory_words[s] / words_per_cycle
        for u in range(work.gemms.shape[0]):
            R, P, C, groups = gemm_at(work, u)
            for i in range(batches):
                for j in range(BLOCK):
                    best[i, j] = np.inf
            for code in range(plan.codes):
                # what does not depend on the pair (b, B_R) is computed once
                for j in range(BLOCK):
                    inner[j] = R * tiles_along(P, tiles[1, code, j])
                    each[j] = sample_words(R, P, C, tiles[2, code, j])
                for n in range(1, batches + 1):
                    for j in range(BLOCK):
                        busy[n, j] = inner[j] * tiles_along(n * C, tiles[2, code, j])
                        weights[n, j] = weight_words(R, P, C, tiles[0, code, j], n)
                for n in range(plan.starts[work.kinds[u]], plan.starts[work.kinds[u] + 1]):
                    b, B_R, B_P, passes = layout_at(plan, n)
                    for j in range(BLOCK):
                        words = (b // passes) * each[j] + weights[B_R, j]
                        found = passes * max(B_R * busy[B_P, j], words / words_per_cycle)
                        best[b - 1, j] = smaller(found, best[b - 1, j])
            for s in range(stages):
                for i in range(batches):
                    for j in range(BLOCK):
                        total[s, i, j] += work.repeats[u, s] * groups * best[i, j]
        for j in range(min(BLOCK, designs.shape[0] - first)):
            for s in range(stages):
                for i in range(batches):
                    cycles[first + j, s, i] = total[s, i, j]


@kernel
def bound_designs(designs, work, plan, words_per_cycle, least):
    """What each design takes at least for each sample of any batch (docs/model.md, Pruning).

    Parameters
    ----------
    designs, work, plan, words_per_cycle
        As for :func:`search_designs`; Equation (1) as printed too.
    least : (3, D, S) float64
        Output: cycles, words moved off chip and accesses to buffers, each by itself.
    """
    tiles = np.empty((3, plan.codes, BLOCK))
    best = np.empty((3, BLOCK))
    for first in range(0, designs.shape[0], BLOCK):
        stack_block(designs, first, tiles)
        for j in range(min(BLOCK, designs.shape[0] - first)):
            for s in range(least.shape[2]):
                words = work.memory_words[s]
                least[0, first + j, s], least[1, first + j, s] = words / words_per_cycle, words
                least[2, first + j, s] = 2 * words
        for u in range(work.gemms.shape[0]):
            R, P, C, groups = gemm_at(work, u)
            share, widest = 1.0, 1  # of one reading of the weights, what falls to a sample; most samples side by side
            for n in range(plan.starts[work.kinds[u]], plan.starts[work.kinds[u] + 1]):
                b, _, B_P, passes = layout_at(plan, n)
                share, widest = min(share, passes / b), max(widest, B_P)
            for j in range(BLOCK):
                best[0, j] = best[1, j] = best[2, j] = np.inf
            for code in range(plan.codes):
                for j in range(BLOCK):
                    T_R, T_P, T_C = tiles[0, code, j], tiles[1, code, j], tiles[2, code, j]
                    # samples side by side share tiles along the columns, in Equation (1) as printed along P
                    inner = P / T_P if plan.literal else tiles_along(P, T_P)
                    columns = C / T_C if widest > 1 and not plan.literal else tiles_along(C, T_C)
                    words = sample_words(R, P, C, T_C) + share * weight_words(R, P, C, T_R, 1)
                    best[0, j] = smaller(max(R * inner * columns, words / words_per_cycle), best[0, j])
                    best[1, j] = smaller(words, best[1, j])
                    best[2, j] = smaller(2 * (words + partial_words(R, P, C, T_P)), best[2, j])
            for j in range(min(BLOCK, designs.shape[0] - first)):
                for s in range(least.shape[2]):
                    for figure in range(3):
                        least[figure, first + j, s] += work.repeats[u, s] * groups * best[figure, j]


@kernel
def choose_layouts(design, work, plan, words_per_cycle, choice):
    """The best (k, B_R) of each layer and batch on one design, with its cycles and words.

    On equal cycles fewer words win, then the smaller stacking code, then the smaller B_R.

    Parameters
    ----------
    design : (3,) int64
        T_R, T_P, T_C.
    work, plan, words_per_cycle
        As for :func:`search_designs`; Equation (1) as printed too.
    choice : Choice
        Output.
    """
    for u in range(work.gemms.shape[0]):
        R, P, C, groups = gemm_at(work, u)
        for i in range(choice.cycles.shape[1]):
            choice.cycles[u, i] = np.inf
        for code in range(plan.codes):
            tile = stacked(design[0], design[1], design[2], code)
            if tile[0] == 0:
                continue
            for n in range(plan.starts[work.kinds[u]], plan.starts[work.kinds[u] + 1]):
                layout = layout_at(plan, n)
                cycles, words = gemm_cost(gemm_at(work, u), tile, layout, words_per_cycle, plan.literal)
                b, i = layout[0], layout[0] - 1
                best = choice.cycles[u, i]
                if cycles < best or (cycles == best and words < choice.words[u, i]):
                    choice.codes[u, i], choice.B_R[u, i] = code, layout[1]
                    choice.cycles[u, i], choice.words[u, i] = cycles, words
                    choice.returned[u, i] = groups * b * partial_words(R, P, C, tile[1])


@kernel
def account_designs(designs, work, plan, words_per_cycle, choice, cycles, words, accesses):
    """What :func:`search_designs` finds and, of the same layouts, words moved off chip and accesses to buffers.

    Slower: designs are taken one by one, and a layout is chosen as :func:`choose_layouts`
    does, by words too, where cycles are equal.

    Parameters
    ----------
    designs, work, plan, words_per_cycle
        As for :func:`search_designs`; Equation (1) as printed too.
    choice : Choice
        Output: the layouts of the last design.
    cycles, words, accesses : (D, S, B_max) float64
        Output.
    """
    stages, batches = cycles.shape[1], cycles.shape[2]
    for d in range(designs.shape[0]):
        choose_layouts(designs[d], work, plan, words_per_cycle, choice)
        for s in range(stages):
            for i in range(batches):
                words[d, s, i] = (i + 1) * work.memory_words[s]
                cycles[d, s, i] = words[d, s, i] / words_per_cycle
                accesses[d, s, i] = 2 * words[d, s, i]
        for u in range(work.gemms.shape[0]):
            for i in range(batches):
                for s in range(stages):
                    repeats = work.repeats[u, s]
                    cycles[d, s, i] += repeats * choice.cycles[u, i]
                    words[d, s, i] += repeats * choice.words[u, i]
                    # each word is written to a buffer once and read once (docs/model.md, Energy)
                    accesses[d, s, i] += 2 * repeats * (choice.words[u, i] + choice.returned[u, i])


@kernel
def cost_layouts(design, work, codes, layouts, words_per_cycle, literal):
    """Cycles and words of each layer under given stackings and layouts, and where the cycles go.

    Parameters
    ----------
    design : (3,) int64
        T_R, T_P, T_C.
    work : Work
        Layers.
    codes : (L, N) int64
        Stacking codes.
    layouts : (L, N, 4) int64
        b, B_R, B_P, passes.
    words_per_cycle : float
        Off-chip bandwidth.
    literal : bool
        Equation (1) as printed.

    Returns
    -------
    cycles, words : (L, N) float64
        What it costs; infinite where the stacking code does not fit the design.
    parts : (PARTS, L, N) float64
        Cycles by cause, in the order of :func:`gemm_parts`.
    """
    cycles, words = np.full(codes.shape, np.inf), np.full(codes.shape, np.inf)
    parts = np.zeros((PARTS, *codes.shape))
    for u in range(codes.shape[0]):
        for n in range(codes.shape[1]):
            tile = stacked(design[0], design[1], design[2], codes[u, n])
            if tile[0] == 0:
                continue
            layout = layouts[u, n, 0], layouts[u, n, 1], layouts[u, n, 2], layouts[u, n, 3]
            cycles[u, n], words[u, n], found = gemm_parts(
                gemm_at(work, u), tile, layout, words_per_cycle, literal, design[1] * design[2]
            )
            for part in range(PARTS):
                parts[part, u, n] = found[part]
    return cycles, words, parts
