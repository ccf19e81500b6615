"""The layout and the blocks of rows that a layer gets on a design, and what all layers then take; compiled.

Symbols are as in :mod:`.kernels`, ``port`` and ``source`` as in :mod:`.schedule`, by which a layer runs; ``blocks`` is
the number of blocks into which the rows are divided.  Bounds rule most choices out before they run.
"""

import numpy as np

from ..engine import IN_FLIGHT, START, Port
from .beats import along_P, beats_of, least_seconds, line_of, rows_of_beat, seconds_of_weights
from .kernels import (
    fewest_blocks,
    formula,
    gemm_at,
    kernel,
    layout_at,
    moved_words,
    on_chip_words,
    price,
    shape_of,
    tile_at,
    tiles_along,
)
from .schedule import EngineTimes, LayerSizes, run_layer

AS_BUILT, IDEAL, BOUND = 0, 1, 2
"""Modes of :func:`run_designs`: cycles as built; of transfers that all overlap; a bound of the cycles as built."""


CODES = 64
"""Codes of the blocks, at most."""


@formula
def source_at(work, u):
    """The source of a layer, as a tuple."""
    return work.sources[u, 0], work.sources[u, 1], work.sources[u, 2], work.sources[u, 3], work.sources[u, 4]


@formula
def following(blocks):
    """The next number of blocks of 1, 2, 3, 4, 6, 8, 12, ..."""
    return 2 if blocks == 1 else blocks + blocks // (3 if blocks % 3 == 0 else 2)


@formula
def room_of(tile, most):
    """Rows that a block may have: samples that a tile of columns touches, ``most`` of them, share the buffer's rows."""
    return max(np.floor(tile[0] / most), 1.0)


@formula
def rows_of(down, source, V, blocks):
    """Rows of each block but the last: whole lines if it has one, else a multiple of V if it has as many.

    They do not depend on T_R, so that every division of a design fits a design with a larger T_R, too.
    """
    each, unit = down / blocks, 1.0
    if 0 < source[0] <= each:
        unit = source[0]
    elif each >= V:
        unit = V
    return min(unit * np.ceil(each / unit), down)


@formula
def seconds_at_least(layer, port):
    """Second lines of the inputs of a sample, at least."""
    return least_seconds(layer.gemm, layer.source, port[0]) if port[4] > 0 else 0.0


@formula
def least_cycles(layer, tile, layout, shape, blocks, ends, engine, seconds):
    """Cycles that a layer takes at least: to compute, with what precedes and follows; and to move and wait.

    ``ends``: no more rows than the first and the last block have; ``seconds``: of :func:`seconds_at_least`.
    """
    gemm, source, fetched, adds = layer
    rows, last_rows = ends
    port, drain, _, _, _ = engine
    R, P, C, groups = gemm
    _, T_P, T_C, V = tile
    b, B_R, B_P, runs = layout
    _, touched, _, last = shape
    down, words, missing = B_R * R, port[0], B_R * B_P - b // runs
    steps, tiles = tiles_along(P, T_P), tiles_along(B_P * C, T_C)
    deep, wide, end = min(T_P, P), min(T_C, C), B_P * C - (tiles - 1) * T_C
    line, of_beat = line_of(R, source), rows_of_beat(source, words)
    along, first = P, deep * beats_of(line, 0.0, rows, of_beat)
    if along_P(R, source):
        along = (steps - 1) * np.ceil(T_P / words) + np.ceil((P - (steps - 1) * T_P) / words)
        first = rows * np.ceil(deep / words)
    store = np.ceil(end / words) * last_rows if R == 1 else end * np.ceil(last_rows / words)
    each = np.ceil(wide / words)
    weights = (tiles - 1) * each + np.ceil(min(end, C) / words)
    maps = (B_R * touched - missing * last) * (along * (R / line) * np.ceil(line / of_beat) + seconds)
    stores = (1 + adds) * (b // runs) * (C / words if R == 1 else C * np.ceil(R / words))
    loads, turns = maps + fetched * P * weights * blocks, tiles * steps * blocks
    if port[4] > 0:
        loads += fetched * seconds_of_weights(gemm, tile, layout, touched, blocks, words)
    compute, wait = tiles * steps * max(np.ceil(down / V), IN_FLIGHT * blocks), port[3] + START
    if missing > 0:
        store = 0.0  # the last pass may have no samples
    pace = port[2] / port[1]
    fill = (first + fetched * deep * each) * pace + wait + 1
    # a tile is loaded when the last but one is computed, so every other tile waits for its own load
    alternating = (loads * pace + turns * (1 + wait) + compute) / 2
    return (
        groups * runs * compute + fill + drain + store * pace + 1,
        groups * runs * max((loads + stores) * pace + turns, alternating),
    )


@formula
def layer_words(layer, layout, shape, blocks):
    """Words of maps, also of one that is added, and of weights."""
    R, _, C, groups = layer.gemm
    maps, weights = moved_words(layer.gemm, layout, shape, blocks, layer.fetched)
    return maps + layer.adds * groups * layout[0] * R * C, weights


@formula
def ideal_cycles(layer, tile, layout, shape, blocks, engine):
    """Cycles of a layer whose transfers all overlap with its layers."""
    gemm = layer.gemm
    R, P, C, groups = gemm
    _, B_R, B_P, runs = layout
    compute = groups * runs * tiles_along(B_R * R, tile[3]) * tiles_along(P, tile[1]) * tiles_along(B_P * C, tile[2])
    maps, weights = layer_words(layer, layout, shape, blocks)
    return max(compute, (maps + weights) / engine.words_per_cycle)


@formula
def stayed_words(weights, fetched):
    """Words of weights that are read where they stay, beside those that are fetched."""
    return (1 - fetched) / fetched * weights if fetched else 0.0


@formula
def price_of(layer, tile, layout, cycles, words, prices):
    """The price of a layer; ``words``: of maps and of weights."""
    on_chip = on_chip_words(layer.gemm, tile, layout, stayed_words(words[1], layer.fetched))
    return price(prices, cycles, words[0] + words[1], on_chip)


@formula
def place_of_least(values, count):
    """The place of the least of the first values; ``np.argmin`` would load SciPy with the compiled function."""
    least = 0
    for place in range(1, count):
        if values[place] < values[least]:
            least = place
    return least


@kernel
def bound_layouts(layer, tiles, layouts, first, last, engine, room, only_least):
    """Fill in a bound of each (k, layout) as built, whatever the number of blocks; infinite for too many samples.

    Returns the least one.  If ``only_least`` is asked for, others may be infinite, too.
    """
    wide, gemm = last - first, layer.gemm
    known, seconds = np.inf, seconds_at_least(layer, engine.port)  # known: the least bound so far
    for code in range(tiles.shape[1]):
        tile = tile_at(tiles, code)
        steps = tiles_along(gemm[1], tile[1])
        for n in range(first, last):
            at, layout = code * wide + n - first, layout_at(layouts, n)
            _, B_R, B_P, runs = layout
            down = B_R * gemm[0]
            room[at] = np.inf
            if only_least and gemm[3] * runs * (down / tile[3]) * steps * tiles_along(B_P * gemm[2], tile[2]) > known:
                continue  # its products alone take longer
            shape = shape_of(gemm, tile, layout)
            if shape[0] > engine.samples:
                continue
            fewest = tiles_along(down, room_of(tile, shape[0]))
            compute, moved = least_cycles(layer, tile, layout, shape, fewest, (1.0, 0.0), engine, seconds)
            words = layer_words(layer, layout, shape, fewest)
            room[at] = price_of(layer, tile, layout, max(compute, moved), words, engine.prices)
            known = min(known, room[at])
    return known


@formula
def bound_blocks(layer, tile, layout, shape, engine, seconds, best, blocks_of):
    """Fill in numbers of blocks that may be the best for a layout, and a bound of each; returns their count.

    ``seconds``: of :func:`seconds_at_least`.
    """
    down, room = layout[1] * layer.gemm[0], room_of(tile, shape[0])
    count, rows, blocks = 0, 0.0, 1
    while rows != 1:
        before, rows = rows, rows_of(down, layer.source, tile[3], blocks)
        if rows != before and rows <= room:  # another division, which fits
            divided = np.ceil(down / rows)
            rest = down - (divided - 1) * rows
            compute, moved = least_cycles(layer, tile, layout, shape, divided, (rows, rest), engine, seconds)
            words = layer_words(layer, layout, shape, divided)
            if price_of(layer, tile, layout, moved, words, engine.prices) > best:
                break  # more blocks read the weights more often
            blocks_of[0, count] = blocks
            blocks_of[1, count] = price_of(layer, tile, layout, max(compute, moved), words, engine.prices)
            count += 1
        blocks = following(blocks)
    return count


@kernel
def choose_as_built(layer, tiles, layouts, first, last, engine, room):
    """The best (k, B_R, blocks) of a layer as built; ``room`` has the bounds of :func:`bound_layouts`."""
    wide, gemm = last - first, layer.gemm
    count = tiles.shape[1] * wide
    blocks_of, seconds = np.empty((2, CODES)), seconds_at_least(layer, engine.port)
    numbers, bounds = blocks_of[0], blocks_of[1]
    best, taken, chosen, chosen_blocks, least = np.inf, np.inf, -1, 1.0, (0.0, 0.0)
    for _ in range(count):  # the layouts with the least bounds first, so that most others need not run
        at = place_of_least(room, count)
        if room[at] > best or room[at] == np.inf:
            break
        room[at] = np.inf
        tile, layout = tile_at(tiles, at // wide), layout_at(layouts, first + at % wide)
        shape, down = shape_of(gemm, tile, layout), layout[1] * gemm[0]
        several = bound_blocks(layer, tile, layout, shape, engine, seconds, best, blocks_of)
        for _ in range(several):
            which = place_of_least(bounds, several)
            if bounds[which] > best:
                break
            blocks, bounds[which] = numbers[which], np.inf
            rows = rows_of(down, layer.source, tile[3], blocks)
            cycles = run_layer(layer, tile, layout, rows, engine)[0]
            words = layer_words(layer, layout, shape, np.ceil(down / rows))
            cost = price_of(layer, tile, layout, cycles, words, engine.prices)
            if cost > best:
                continue
            faster, fewer = cycles - taken, words[0] + words[1] - least[0] - least[1]
            earlier = at < chosen or (at == chosen and blocks < chosen_blocks)
            if cost < best or faster < 0 or (faster == 0 and (fewer < 0 or (fewer == 0 and earlier))):
                best, taken, chosen, chosen_blocks, least = cost, cycles, at, blocks, words
    return taken, chosen // wide, first + chosen % wide, chosen_blocks, least[0], least[1]


@kernel
def choose_ideal(layer, tiles, layouts, first, last, engine):
    """The best (k, B_R) of a layer if all transfers overlap; each block has the most rows that fit."""
    wide, gemm = last - first, layer.gemm
    best, taken, chosen, chosen_blocks, least = np.inf, np.inf, -1, 1.0, (0.0, 0.0)
    for at in range(tiles.shape[1] * wide):
        tile, layout = tile_at(tiles, at // wide), layout_at(layouts, first + at % wide)
        shape = shape_of(gemm, tile, layout)
        if shape[0] > engine.samples:
            continue
        blocks = fewest_blocks(gemm, tile, layout, shape[0])
        cycles = ideal_cycles(layer, tile, layout, shape, blocks, engine)
        words = layer_words(layer, layout, shape, blocks)
        cost = price_of(layer, tile, layout, cycles, words, engine.prices)
        if cost > best:
            continue
        faster, fewer = cycles - taken, words[0] + words[1] - least[0] - least[1]
        if cost < best or faster < 0 or (faster == 0 and fewer < 0):
            best, taken, chosen, chosen_blocks, least = cost, cycles, at, blocks, words
    return taken, chosen // wide, first + chosen % wide, chosen_blocks, least[0], least[1]


@kernel
def choose(layer, tiles, layouts, first, last, engine, mode, room):
    """The best (k, B_R, blocks) of a layer for one batch size, of the layouts ``first`` to ``last``.

    It has the least price; on equal ones fewer cycles win, then fewer words, then the smaller stacking code, then the
    smaller B_R, then fewer blocks.
    ``tiles`` (4, codes) is a design under each stacking code, ``room`` (codes * layouts,) is for bounds.  Layouts that
    need more samples side by side than the design has are left out.
    Returns cycles (infinite if none is left), code, row of ``layouts``, blocks, words of maps and of weights; in mode
    ``BOUND`` the least bound and no choice.
    """
    if mode == IDEAL:
        return choose_ideal(layer, tiles, layouts, first, last, engine)
    least = bound_layouts(layer, tiles, layouts, first, last, engine, room, mode == BOUND)
    if mode == BOUND:
        return least, 0, first, 0.0, 0.0, 0.0
    return choose_as_built(layer, tiles, layouts, first, last, engine, room)


@kernel
def run_designs(tiles, work, layouts, engines, mode, choice, figures):
    """Fill in cycles, words moved off chip and accesses to buffers, and the layouts of the last design.

    Shapes: ``tiles`` (4, codes, D); ``figures`` (3, D, S, B_max).
    """
    cycles, words, accesses = figures[0], figures[1], figures[2]
    stages, batches = cycles.shape[1], cycles.shape[2]
    room = np.empty(layouts.codes * len(layouts.table))
    for d in range(tiles.shape[2]):
        of_all = engines.port
        port = Port(of_all.words[d], of_all.ready[d], of_all.cycles[d], of_all.latency, of_all.aligned, of_all.turn)
        engine = EngineTimes(port, engines.drain[d], engines.samples[d], engines.words_per_cycle[d], engines.prices)
        for s in range(stages):
            for i in range(batches):
                words[d, s, i] = (i + 1) * work.memory_words[s]
                cycles[d, s, i] = words[d, s, i] / engine.words_per_cycle
                accesses[d, s, i] = 2 * words[d, s, i]
        for u in range(work.gemms.shape[0]):
            gemm, kind, fetched = gemm_at(work, u), work.kinds[u], work.fetched[u]
            layer = LayerSizes(gemm, source_at(work, u), fetched, work.adds[u])
            first = layouts.starts[kind]
            for i in range(batches):
                last = layouts.starts[kind + 1]
                if i + 1 < batches:
                    last = layouts.fewest_rows[kind, i + 1]
                taken, code, n, blocks, maps, weights = choose(
                    layer, tiles[:, :, d], layouts, first, last, engine, mode, room
                )
                first = last
                _, B_R, _, _ = layout_at(layouts, n)
                moved = maps + weights
                choice.codes[u, i], choice.B_R[u, i], choice.blocks[u, i] = code, B_R, int(blocks)
                choice.cycles[u, i], choice.words[u, i] = taken, moved
                stayed = stayed_words(weights, fetched)
                choice.on_chip[u, i] = on_chip_words(gemm, tile_at(tiles[:, :, d], code), layout_at(layouts, n), stayed)
                for s in range(stages):
                    repeats = work.repeats[u, s]
                    cycles[d, s, i] += repeats * taken
                    words[d, s, i] += repeats * moved
                    # each word is written to a buffer once and read once (docs/model.md, Energy)
                    accesses[d, s, i] += 2 * repeats * (moved + choice.on_chip[u, i])


@kernel
def run_layers(layers, tiles, layouts, blocks, engine, mode):
    """What :func:`run_layer` returns of N layers, then their words, the words of weights, blocks and their rows.

    If transfers are ideal, each block has the most rows that fit, and no part is known but the computing.
    Shapes: ``tiles`` (N, 4), ``layouts`` (N, 4), ``blocks`` (N,), returns (N, 10).
    """
    figures = np.zeros((len(blocks), 10))
    for n in range(len(blocks)):
        sizes, source = layers.gemm[n], layers.source[n]
        gemm = sizes[0], sizes[1], sizes[2], sizes[3]
        layer = LayerSizes(
            gemm, (source[0], source[1], source[2], source[3], source[4]), layers.fetched[n], layers.adds[n]
        )
        tile = tiles[n, 0], tiles[n, 1], tiles[n, 2], tiles[n, 3]
        layout = layouts[n, 0], layouts[n, 1], layouts[n, 2], layouts[n, 3]
        shape, down = shape_of(gemm, tile, layout), layout[1] * gemm[0]
        if mode == IDEAL:
            divided = fewest_blocks(gemm, tile, layout, shape[0])
            figures[n, 0] = ideal_cycles(layer, tile, layout, shape, divided, engine)
            steps = tiles_along(gemm[1], tile[1]) * tiles_along(layout[2] * gemm[2], tile[2])
            figures[n, 1] = gemm[3] * layout[3] * tiles_along(down, tile[3]) * steps
        else:
            rows = rows_of(down, layer.source, tile[3], blocks[n])
            divided, figures[n, 9] = np.ceil(down / rows), rows
            # one by one: to put a tuple into a slice takes four seconds to compile
            taken = run_layer(layer, tile, layout, rows, engine)
            figures[n, 0], figures[n, 1], figures[n, 2] = taken[0], taken[1], taken[2]
            figures[n, 3], figures[n, 4], figures[n, 5] = taken[3], taken[4], taken[5]
        maps, weights = layer_words(layer, layout, shape, divided)
        figures[n, 6], figures[n, 7], figures[n, 8] = maps + weights, weights, divided
    return figures


@kernel
def weigh(layer, tiles, layouts, kind, engine, mode):
    """Cycles, blocks, words of every (k, layout) of a layer; infinite cycles where too many samples are side by side.

    Shapes: ``tiles`` (4, codes), returns (3, codes, N).
    """
    first, last = layouts.starts[kind], layouts.starts[kind + 1]
    figures, room = np.empty((3, tiles.shape[1], last - first)), np.empty(1)
    for code in range(tiles.shape[1]):
        for n in range(first, last):
            cycles, _, _, blocks, maps, weights = choose(
                layer, tiles[:, code : code + 1], layouts, n, n + 1, engine, mode, room
            )
            figures[0, code, n - first], figures[1, code, n - first] = cycles, blocks
            figures[2, code, n - first] = maps + weights
    return figures
