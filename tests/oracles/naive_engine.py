"""An engine that runs a layer tile by tile, walked step by step; docs/model.md, Time of a layer, says its rules."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from math import ceil, log2

CHUNK, START, IN_FLIGHT, SERIES = 64, 2, 3, [1, *(n << power for power in range(12) for n in (2, 3))]


def drain_of(T_P):
    """Cycles from the last product of a design to its first word stored."""
    return 13 + max(ceil(log2(T_P)) - 1, 0)


def pieces(cells):
    """Lengths of runs of cells (line, place) that lie one after the other in memory."""
    runs = groupby(enumerate(sorted(cells)), lambda item: (item[1][0], item[1][1] - item[0]))
    return [len(list(run)) for _, run in runs]


def beats(cells, words):
    return sum(ceil(length / words) for length in pieces(cells))


def passes_of(gemm, tile, layout, rows, words, source=(0, 1)):
    """Each pass of one group: its tiles as (beats loaded, words loaded), its rows, beats and words stored."""
    line, of_beat = source[0] or gemm[0], max(words // max(source[1], 1), 1)
    R, P, C, _ = gemm
    _, T_P, T_C, *_ = tile
    b, B_R, B_P, runs = layout
    found = []
    for start in range(0, B_P * C, T_C):
        columns = [divmod(place, C) for place in range(start, min(start + T_C, B_P * C))]
        inners = [range(begin, min(begin + T_P, P)) for begin in range(0, P, T_P)]
        weights = [{(p, c) for p in inner for _, c in columns} for inner in inners]
        weights_of = [(beats(cells, words), len(cells)) for cells in weights]
        for top in range(0, B_R * R, rows):
            block = range(top, min(top + rows, B_R * R))
            # sample and row of the matrix, of what exists
            held = {q: [divmod(row, R) for row in block if q * B_R + row // R < b // runs] for q in dict(columns)}
            # of an inner index, which stands apart from the others: rows of a line follow one another
            of_index = sum(beats([((q, i, r // line), r) for i, r in cells], of_beat) for q, cells in held.items())
            rows_held = sum(map(len, held.values()))
            tiles = []
            for inner, (of_weights, number) in zip(inners, weights_of, strict=True):
                loaded = len(inner) * of_index
                if not source[1] or (R == 1 and not source[0]):  # the inner indices of a row follow one another, too
                    alone = [[((q, *row), p) for p in inner for row in cells] for q, cells in held.items()]
                    loaded = sum(beats(cells, words) for cells in alone)
                tiles.append((loaded + of_weights, len(inner) * rows_held + number))
            out = [((q, i, c), r) if R > 1 else ((q, i), c) for q, c in columns for i, r in held[q]]
            found.append((tiles, len(block), beats(out, words), len(out)))
    return found


def words_of(gemm, tile, layout, rows, adds=False):
    """Words that a layer moves, counted address by address."""
    _, _, _, groups = gemm
    passes = passes_of(gemm, tile, layout, rows, 1)
    return (
        groups
        * layout[3]
        * sum(sum(words for _, words in tiles) + (1 + adds) * stored for tiles, _, _, stored in passes)
    )


def run(gemm, tile, layout, rows, port, drain, source=(0, 1), adds=False, seconds=(0, 0)):
    """Cycles until the last output is stored; the fourth number of a tile says how many rows are worked on at once.

    ``seconds`` are the shares of the beats of loads, and of stores, that cost two of the bus.

    If the store ``adds``, the port reads a chunk of the other map before each chunk that is stored, and the first one
    of a share before the load that the share follows.
    """
    V = tile[3]
    words, ready, of_cycles, latency, _, turn = port
    of_loads, of_stores = (Fraction(ceil(of_cycles * (1 + share))) / Fraction(ready) for share in seconds)

    def burst(count, pace=of_stores):
        return 1 - -count * pace.numerator // pace.denominator

    def read(free, chunks):
        """When the port is free, and when the first words are there."""
        if not adds or not chunks:
            return free, 0
        return free + burst(chunks[0]), free + burst(1) + latency + 1

    def store(free, chunks, there):
        for number, count in enumerate(chunks):
            if number:
                free, there = read(free, chunks[number:])
            free = max(free, there) + burst(count) + turn
        return free

    def chunks_of(count):
        most = CHUNK if adds else count
        return [min(most, count - at) for at in range(0, count, most)] if count else []

    passes = passes_of(gemm, tile, layout, rows, int(words), source) * (gemm[3] * layout[3])
    share = ceil(max(stored for _, _, stored, _ in passes) / len(passes[0][0]))
    steps = [(j, i, loaded) for j, (tiles, *_) in enumerate(passes) for i, (loaded, _) in enumerate(tiles)]
    port_free = burst(steps[0][2], of_loads)  # what the port does next begins then
    loaded_at: list[float] = [port_free]
    computed_at: list[float] = []
    left = [stored for _, _, stored, _ in passes]  # beats of each pass to store
    complete: dict[int, float] = {}  # when the outputs of a pass are in the store buffer
    emptied: dict[int, float] = {}  # when they have left it
    for at, (j, i, _) in enumerate(steps):
        begin = max([loaded_at[at] + latency + START, *computed_at[-1:]])
        if i == len(passes[j][0]) - 1:
            begin = max(begin, emptied.get(j - 2, 0))
        computed_at.append(begin + max(len(range(0, passes[j][1], V)), IN_FLIGHT))
        if i == len(passes[j][0]) - 1:
            complete[j] = computed_at[-1] + drain
        chunks = chunks_of(min(share, left[j - 1])) if j else []
        port_free, there = read(port_free, chunks)
        if at + 1 < len(steps):
            port_free = max(port_free, computed_at[at - 1] if at else 0) + burst(steps[at + 1][2], of_loads)
            loaded_at.append(port_free)
        if chunks:
            port_free = store(max(port_free, complete[j - 1]), chunks, there)
            left[j - 1] -= sum(chunks)
            if not left[j - 1]:
                emptied[j - 1] = port_free
    chunks = chunks_of(left[-1])
    port_free, there = read(port_free, chunks)
    port_free = max(port_free, complete[len(passes) - 1])
    return store(port_free, chunks, there) if chunks else port_free + burst(0)


def rows_of_block(down, line, V, blocks):
    """Whole lines if a block has one, else a multiple of V if it has as many."""
    unit = line if line and down >= blocks * line else V if down >= blocks * V else 1
    return min(unit * -(-down // (unit * blocks)), down)


def best(gemm, tiles, layouts, port, drain, source=(0, 1), side_by_side=99, adds=False, seconds_of=None):
    """The least (cycles, words, index of k, B_R, rows negated) over all stacked tiles, layouts and blocks of rows.

    Layouts that have more than `side_by_side` samples in a tile of columns are left out.  `seconds_of` says of a tile,
    a layout and rows which shares of their beats cost two of the bus.
    """
    found = []
    for code, tile in enumerate(tiles):
        if min(tile) < 1:
            continue
        for layout in layouts:
            _, B_R, B_P, _ = layout
            down, C, T_C = B_R * gemm[0], gemm[2], tile[2]
            most = max(
                len({place // C for place in range(start, min(start + T_C, B_P * C))})
                for start in range(0, B_P * C, T_C)
            )
            if most > side_by_side:
                continue
            for n in SERIES:
                rows = rows_of_block(down, source[0], tile[3], n)
                if rows <= max(tile[0] // most, 1):
                    seconds = seconds_of(tile, layout, rows) if seconds_of else (0, 0)
                    cycles = run(gemm, tile, layout, rows, port, drain, source, adds, seconds)
                    found.append((cycles, tile, layout, rows, code, B_R))
                if rows == 1:
                    break
    least = min(found)[0]
    return min(
        (cycles, words_of(gemm, tile, layout, rows, adds), code, B_R, -rows)
        for cycles, tile, layout, rows, code, B_R in found
        if cycles == least
    )
