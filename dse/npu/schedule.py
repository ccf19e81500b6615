"""The NPU as built: it runs a layer tile by tile (docs/model.md, Time of a layer), compiled.

Symbols are as in :mod:`.kernels`.  ``port`` is (words of a beat, numerator and denominator of the share of cycles in
which it is ready, latency, whether its bus is aligned, cycles to turn to writing and back).  ``source`` is (rows of a
line of the map from which inputs come, or 0 if the inputs of all rows follow one another; words from the input of one
row to the input of the next, or 0 if the inputs of each row follow one another; step and window of
:class:`fluidb.models.Layer`).  Times are cycles, float64 that hold whole numbers.
"""

from typing import Any, NamedTuple

import numpy as np

from ..engine import ADD_START, AHEAD, DRAIN, IN_FLIGHT, START, Port
from .beats import beats_of_layer, columns_of, pass_beats, seconds_of_layer, tiles_alike
from .kernels import (
    TIME_ONLY,
    formula,
    tiles_along,
)  # fmt: skip


class LayerSizes(NamedTuple):
    """A layer, or N layers in arrays of a row for each."""

    gemm: Any  # R, P, C, groups
    source: Any  # line, stride, step, rows and columns of the window
    fetched: Any  # share of the weights that does not stay on the chip
    adds: Any  # 1 if the store adds a residual map to the outputs, else 0


class EngineTimes(NamedTuple):
    """What sets the times of a design beside its sizes; of D designs all but the port's latency are arrays (D,)."""

    port: Any  # a :class:`..engine.Port`
    drain: Any  # cycles from the last product to the first word stored
    samples: Any  # most samples side by side in a tile of columns
    words_per_cycle: Any  # off chip, if all transfers overlap
    prices: Any = TIME_ONLY  # by which layouts are chosen (:func:`.kernels.price`), the same for all designs


@formula
def drain_cycles(T_P):
    """Cycles from the last product of a design to its first word stored."""
    return DRAIN + np.maximum(np.ceil(np.log2(T_P)) - 1, 0.0)


@formula
def engine_times(port, T_P, samples, words_per_cycle, prices=TIME_ONLY):
    """The times of a design, or of several."""
    return EngineTimes(port, drain_cycles(T_P), samples, words_per_cycle, prices)


@formula
def burst(beats, port):
    """Cycles of beats that follow one another: one of set-up, then the port's pace begins anew."""
    return 1 + np.ceil(beats * port[2] / port[1])


@formula
def written(beats, port):
    """Cycles of a burst that stores beats: the memory turns to writing, and back."""
    return burst(beats, port) + (port[5] if beats > 0 else 0.0)


@formula
def slower(port, share):
    """A port of which a share of the beats costs two."""
    return Port(port[0], port[1], np.ceil(port[2] * (1 + share)), port[3], port[4], port[5])


@formula
def share_times(beats, port, adds):
    """Cycles of a share of a store: to read the first chunk that is added, until its words are there, to store.

    The other chunks are read within the last one.  If nothing is added, the first two are 0.
    """
    if adds == 0 or beats == 0:
        return 0.0, 0.0, written(beats, port)
    there, first = burst(1, port) + port[3] + ADD_START, min(beats, AHEAD)
    whole = np.floor((beats - first) / AHEAD)
    rest, store = beats - first - whole * AHEAD, written(first, port)
    if whole > 0:
        store += whole * (max(burst(AHEAD, port), there) + written(AHEAD, port))
    if rest > 0:
        store += max(burst(rest, port), there) + written(rest, port)
    return burst(first, port), there, store


@formula
def turn(free, before, load, beats, begin, times):
    """Ends of a load and of the share of a store behind it, if it has beats; ``times``: of :func:`share_times`."""
    fetch, there, store = times
    if beats == 0:
        fetch = 0.0
    loaded = max(free + fetch, before) + load
    return loaded, max(loaded, begin, free + there) + store if beats > 0 else loaded


@formula
def run_pass(state, steps, compute, full, final, quota, port, adds):
    """Advance the engine by one pass.

    ``state``: end of the last tile computed and of the one before it, end of what the port does; then beats left and
    the time at which they may begin, of the store of the last pass but one, and of the store of the last pass.
    ``full, final``: cycles of the load of a tile, and of the last one along P.
    """
    computed, before, free, pending, begin, left, ready = state
    # with the last share of the store of the last pass but one
    load, free = turn(free, before, full if steps > 1 else final, pending, begin, share_times(pending, port, adds))
    half = free  # of the store buffer that this pass will fill
    pending, begin = left, ready
    whole, wait = share_times(quota, port, adds), port[3] + START
    # from the end of the tile computed to the other ends, after the last step and the one before it
    load_1 = free_1 = before_1 = load_2 = free_2 = before_2 = end_1 = end_2 = -1.0
    last_kind, alike, step = -1, 0, 0
    while step < steps - 1:
        before, computed = computed, max(computed, load + wait) + compute
        kind, beats, times = 0, 0.0, whole
        if pending >= quota > 0:
            kind, beats = 2, quota
        elif pending > 0:
            kind, beats, times = 1, pending, share_times(pending, port, adds)
        load, free = turn(free, before, full if step < steps - 2 else final, beats, begin, times)
        pending -= beats
        step += 1
        alike = alike + 1 if kind == last_kind else 0
        last_kind = kind
        ends = load - computed, free - computed, before - computed
        if alike > 1 and ends == (load_2, free_2, before_2):
            # the last two steps repeat those before them, and so will the next ones until something changes
            more = steps - 2 - step
            if kind:
                more = min(more, int(pending // quota))
            more -= more % 2
            if more > 0:
                later = (computed - end_2) * (more // 2)
                computed, before, load, free = computed + later, before + later, load + later, free + later
                pending -= kind // 2 * quota * more
                step += more
        load_2, free_2, before_2, end_2 = load_1, free_1, before_1, end_1
        load_1, free_1, before_1, end_1 = ends[0], ends[1], ends[2], computed
    before, computed = computed, max(computed, load + wait, half) + compute
    return computed, before, free, pending, begin, left, ready


@formula
def shifted(state, later):
    """A state of :func:`run_pass` some cycles later."""
    computed, before, free, pending, begin, left, ready = state
    return computed + later, before + later, free + later, pending, begin + later, left, ready + later


@formula
def same(one, other):
    """True if two states differ in nothing but the time."""
    if one[3] != other[3] or one[5] != other[5]:
        return False
    later = other[0] - one[0]
    return (
        one[1] + later == other[1]
        and one[2] + later == other[2]
        and one[4] + later == other[4]
        and (one[6] + later == other[6])
    )


@formula
def run_layer(layer, tile, layout, rows, engine):
    """Cycles of one layer, and parts of them: (all, computing, beats, lines of the bus, first load, last store)."""
    gemm, source, fetched, adds = layer
    port, drain, _, _, _ = engine
    R, P, C, groups = gemm
    _, T_P, T_C, V = tile
    _, B_R, B_P, runs = layout
    words, down = port[0], B_R * R
    steps, tiles, blocks = int(tiles_along(P, T_P)), int(tiles_along(B_P * C, T_C)), int(np.ceil(down / rows))
    of_blocks, quota, beats = beats_of_layer(gemm, source, tile, layout, rows, words, fetched)
    loads = stores = port
    if port[4] > 0:
        of_loads, of_stores = seconds_of_layer(layer, tile, layout, rows, words, of_blocks, quota, beats)
        loads, stores = slower(port, of_loads), slower(port, of_stores)
    state = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    known = (-1.0, -1.0, -1.0, -1.0)  # the last pass: compute, loads, store
    first = store = later = 0.0
    times, group = groups * runs, 0
    while group < times:
        at_start, t = state, 0
        while t < tiles:
            part, at_tile = columns_of(gemm, tile, layout, t, words), state
            for m in range(blocks):
                full, final, store = pass_beats(gemm, source, tile, part, of_blocks[m], words, fetched)
                compute = max(np.ceil(min(rows, down - m * rows) / V), IN_FLIGHT)
                this = compute, full, final, store
                if this == known and later > 0:
                    state = shifted(state, later)
                    continue
                before = state
                state = run_pass(state, steps, compute, burst(full, loads), burst(final, loads), quota, stores, adds)
                state = state[0], state[1], state[2], state[3], state[4], store, state[0] + drain
                later = 0.0
                if this == known and same(before, state):
                    later = state[0] - before[0]
                known = this
                if first == 0:
                    first = burst(full if steps > 1 else final, loads) + port[3] + START
            more = tiles_alike(gemm, tile, layout, t, tiles) - 1
            t += 1
            if more > 0 and same(at_tile, state):
                state = shifted(state, (state[0] - at_tile[0]) * more)
                t += more
        group += 1
        if group > 1 and same(at_start, state):
            state = shifted(state, (state[0] - at_start[0]) * (times - group))
            break
    _, _, free, pending, begin, left, ready = state
    _, free = turn(free, free, 0.0, pending, begin, share_times(pending, stores, adds))
    fetch, there, last = share_times(left, stores, adds)
    rest = down - (blocks - 1) * rows
    busy = max(np.ceil(rows / V), IN_FLIGHT) * (blocks - 1) + max(np.ceil(rest / V), IN_FLIGHT)
    return (
        max(free + fetch, free + there, ready) + last,
        times * tiles * steps * busy,
        times * (beats.loads + (1 + adds) * beats.stores) * port[2] / port[1],
        times * (beats.loads * loads[2] + (1 + adds) * beats.stores * stores[2]) / port[1],
        first,
        drain + last,
    )
