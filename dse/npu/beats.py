"""Beats in which the NPU as built moves a layer's words (docs/model.md, Beats), compiled.

Symbols are as in :mod:`.kernels`; ``source`` is as in :mod:`.schedule`, ``words`` has a beat.

A *line* of an aligned bus is a multiple of ``words`` words and those behind it.  A beat of the NPU costs a beat of the
bus for each line that it lies in, except the line in which the beat before it ended, and one at least.
"""

from typing import Any, NamedTuple

import numpy as np

from .kernels import formula, shape_of, tiles_along


@formula
def pitch_of(plane, words):
    """Words from a channel of a map, of ``plane`` words, to the next: each begins a line.

    A map of one pixel is read, and written, as one row of its channels: these follow one another.
    """
    return plane if plane == 1 else np.ceil(plane / words) * words


@formula
def rows_of_beat(source, words):
    """Rows of inputs that a beat of some words holds."""
    return max(np.floor(words / max(source[1], 1)), 1.0)


@formula
def line_of(R, source):
    """Rows whose inputs lie one after the other."""
    return source[0] if source[0] > 0 else R


@formula
def along_P(R, source):
    """True if the inputs of a row lie one after the other, as in a fully connected layer or a pool of whole maps."""
    return source[1] == 0 or (R == 1 and source[0] == 0)


@formula
def beats_of(line, begin, end, rows_of_beat):
    """Beats of the rows from ``begin`` to ``end`` of one column, which begin anew with each line."""
    if end <= begin:
        return 0.0
    first, last = np.floor(begin / line), np.floor((end - 1) / line)
    if first == last:
        return np.ceil((end - begin) / rows_of_beat)
    return (
        np.ceil(((first + 1) * line - begin) / rows_of_beat)
        + (last - first - 1) * np.ceil(line / rows_of_beat)
        + np.ceil((end - last * line) / rows_of_beat)
    )


@formula
def columns_of(gemm, tile, layout, t, words):
    """What tile ``t`` of columns touches: samples, whether the last is one, columns, the last one's, beats of weights.

    Where R = 1 also the beats of its outputs for each sample down the rows: of all but the last sample, and of it.
    """
    C, T_C = gemm[2], tile[2]
    B_P = layout[2]
    begin = t * T_C
    end = min(begin + T_C, B_P * C)
    first, final = np.floor(begin / C), np.floor((end - 1) / C)
    columns, at = end - begin, begin - first * C
    if columns >= C:
        weights = np.ceil(C / words)
    elif at + columns <= C:
        weights = np.ceil(columns / words)
    else:
        weights = np.ceil((C - at) / words) + np.ceil((at + columns - C) / words)
    has_last = 1.0 if final == B_P - 1 else 0.0
    of_last = max(end - max(begin, (B_P - 1) * C), 0.0)
    outputs, outputs_of_last = 0.0, np.ceil(of_last / words)
    if gemm[0] == 1:
        if first < final:
            outputs = np.ceil((C - at) / words) + (final - first - 1) * np.ceil(C / words)
            if not has_last:
                outputs += np.ceil((end - final * C) / words)
        elif not has_last:
            outputs = np.ceil(columns / words)
    return final - first + 1, has_last, columns, of_last, weights, outputs, outputs_of_last


@formula
def tiles_alike(gemm, tile, layout, t, tiles):
    """Tiles of columns from ``t`` on, at least, for which :func:`columns_of` says the same."""
    C, T_C, B_P = gemm[2], tile[2], layout[2]
    if np.floor(C / T_C) * T_C == C:  # each lies in one sample column
        before_last = int((B_P - 1) * C / T_C)
        return before_last - t if t < before_last else tiles - t
    return max(tiles - 1 - t, 1) if B_P == 1 else 1


@formula
def pass_beats(gemm, source, tile, part, of_block, words, fetched):
    """Beats of a pass: the load of a tile that is full along P, the load of the last along P, and the store.

    ``of_block``: beats of its rows of inputs and of outputs, then of the rows that the last sample column holds.
    """
    P, T_P = gemm[1], tile[1]
    touched, has_last, columns, of_last, weights, outputs, outputs_of_last = part
    all_in, all_out, last_in, last_out = of_block
    final = P - (tiles_along(P, T_P) - 1) * T_P
    inputs = (touched - has_last) * all_in + has_last * last_in
    deep, deep_of_last = T_P, final
    if along_P(gemm[0], source):
        deep, deep_of_last = np.ceil(T_P / words), np.ceil(final / words)
    store = (columns - of_last) * all_out + of_last * last_out
    if gemm[0] == 1:
        store = outputs * all_out + outputs_of_last * last_out
    return (
        inputs * deep + np.ceil(fetched * T_P * weights),
        inputs * deep_of_last + np.ceil(fetched * final * weights),
        store,
    )


class LayerBeats(NamedTuple):
    """Beats of the NPU for one group and run of a layer, of its loads and of its stores."""

    loads: Any
    weights: Any  # among the loads
    stores: Any


@formula
def beats_of_layer(gemm, source, tile, layout, rows, words, fetched):
    """Beats of each block for :func:`pass_beats`, of a share of a store at most, and :class:`LayerBeats`."""
    R, P, C, _ = gemm
    b, B_R, B_P, runs = layout
    down, filled = B_R * R, b // runs - B_R * (B_P - 1)
    steps, tiles, blocks = tiles_along(P, tile[1]), int(tiles_along(B_P * C, tile[2])), int(np.ceil(down / rows))
    line, of_beat = line_of(R, source), rows_of_beat(source, words)
    of_blocks = np.empty((blocks, 4))
    for m in range(blocks):
        begin, end = m * rows, min((m + 1) * rows, down)
        held = min(end, filled * R)
        of_blocks[m, 0], of_blocks[m, 1] = beats_of(line, begin, end, of_beat), beats_of(R, begin, end, words)
        of_blocks[m, 2], of_blocks[m, 3] = beats_of(line, begin, held, of_beat), beats_of(R, begin, held, words)
    most = loads = weights = stores = 0.0
    t = 0
    while t < tiles:
        part, more = columns_of(gemm, tile, layout, t, words), tiles_alike(gemm, tile, layout, t, tiles)
        for m in range(blocks):
            full, final, store = pass_beats(gemm, source, tile, part, of_blocks[m], words, fetched)
            most = max(most, store)
            loads += more * ((steps - 1) * full + final)
            stores += more * store
        weights += more * blocks * fetched * P * part[4]
        t += more
    return of_blocks, np.ceil(most / steps), LayerBeats(loads, weights, stores)


@formula
def share_within(low, high, start, unit, words):
    """Share of addresses, ``start`` and multiples of ``unit`` from there, whose place in its line lies in a range."""
    low, high = max(low, 0.0), min(high, words - 1.0)
    if unit == 0:  # one address
        return 1.0 if low <= start % words <= high else 0.0
    unit = np.gcd(int(unit), int(words))
    first = start % unit
    return max(np.floor((high - first) / unit) - np.ceil((low - first) / unit) + 1, 0.0) * unit / words


@formula
def second_lines(apart, start, unit, words):
    """Share of beats of ``words`` that cost a second line, if the beat before began ``apart`` words before.

    Any other distance than up to two lines counts as far away.  A beat that begins within a line also ends in the next
    one, so the line in which the next beat begins may have been given up for the one behind it.
    """
    if 0 < apart <= words:
        return share_within(apart + 1, words - 1, start, unit, words)
    if words < apart < 2 * words:
        return share_within(1.0, apart - words, start, unit, words)
    return share_within(1.0, words - 1, start, unit, words)


@formula
def crossing(first, gap, start, unit, words):
    """Share of runs whose first beat, of ``first`` words, costs a second line, ``gap`` words behind the run before."""
    return share_within(words - first + 1, gap, start, unit, words)


@formula
def unit_of(extent, tile, several):
    """Words of which the tiles of an extent begin at multiples, and of ``several`` extents that follow; 0: of all."""
    one = 0 if tile >= extent else int(tile)
    return np.gcd(int(extent), one) if several else one


@formula
def seconds_along_P(gemm, tile, layout, words):
    """Second lines of the inputs of a row, which lie one after the other."""
    R, P, _, groups = gemm
    T_P, steps, row = tile[1], tiles_along(P, tile[1]), P if R == 1 else pitch_of(P, words)
    unit = row if layout[0] * R * groups > 1 else 0
    begin, next_row = (steps - 1) * T_P, (groups if R == 1 else 1) * row if layout[1] * R > 1 else np.inf
    full, final = np.ceil(T_P / words), np.ceil((P - begin) / words)
    seconds = second_lines(next_row - (final - 1) * words, begin, unit, words)
    turns = min(steps - 1, words)  # after as many tiles their places repeat
    for step in range(int(turns)):
        seconds += (steps - 1) / turns * second_lines(next_row - (full - 1) * words, step * T_P, unit, words)
    return seconds


@formula
def first_piece(R, begin, end):
    """The place in its sample at which a block begins, and its rows of this sample."""
    at = begin - np.floor(begin / R) * R
    return at, min(end - begin, R - at)


@formula
def pieces_of(line, down, rows):
    """Pieces into which blocks and lines cut the rows."""
    pieces = 0.0
    for m in range(int(np.ceil(down / rows))):
        pieces += np.floor((min((m + 1) * rows, down) - 1) / line) - np.floor(m * rows / line) + 1
    return pieces


@formula
def start_of(place, source):
    """Words from the place of an output on the map to an input of its window."""
    _, _, step, window_rows, window_columns = source
    row, column = np.floor(place / window_columns), place % window_columns
    return (row - np.floor(window_rows / 2)) * step + column - np.floor(window_columns / 2)


@formula
def seconds_of_line(line, source, words, start):
    """Second lines of the first beat of a line of rows behind another line; ``start``: of the place of the window."""
    _, stride, step, _, _ = source
    of_beat = rows_of_beat(source, words)
    apart = stride * step - (np.ceil(line / of_beat) - 1) * of_beat * stride
    return second_lines(apart, start, max(stride * step, 1.0), words)


@formula
def seconds_of_lines(line, source, down, rows, words, start, pieces, beats):
    """Second lines of a sample column, for each inner index, where each line of rows begins a new beat."""
    _, stride, step, _, _ = source
    of_beat, unit = rows_of_beat(source, words), max(stride * step, 1.0)
    lines, blocks = down / line, np.ceil(down / rows)
    seconds = lines * seconds_of_line(line, source, words, start)
    if rows < line:  # blocks also begin within lines
        unit = np.gcd(int(unit), int(rows * stride))
        seconds += (pieces - lines) * second_lines(np.inf, start, unit, words)
    else:
        apart = second_lines(np.inf, start, unit, words)
        seconds += blocks * (apart - seconds / lines)
    return seconds + (beats - pieces) * second_lines(of_beat * stride, start, unit, words)


@formula
def seconds_of_samples(R, source, follows, down, rows, words, deep):
    """Second lines of a sample column, for all places of the window, where a sample's inputs follow one another.

    ``follows``: whether those of the next of ``deep`` inner indices lie in the next channel.
    """
    places, seconds = source[3] * source[4], 0.0
    at_lines = np.zeros(int(words))  # places of the window that begin a line, by the place of the output in its line
    for place in range(int(places)):
        at_lines[int(-start_of(place, source) % words)] += 1
    for m in range(int(np.ceil(down / rows))):
        begin, end = m * rows, min((m + 1) * rows, down)
        at, held = first_piece(R, begin, end)
        first = places - at_lines[int(at % words)]
        if follows and held == end - begin:
            apart = pitch_of(R, words) - (np.ceil(held / words) - 1) * words
            first += (second_lines(apart, at, 0, words) - first) * (deep - 1) / deep
        seconds += first + np.ceil((end - begin - held) / R) * (places - at_lines[0])
    return seconds


@formula
def seconds_of_inputs(gemm, source, tile, layout, rows, words, down, beats):
    """Second lines of the inputs of a sample column of ``down`` rows; ``beats``: of each inner index."""
    R, P, _, _ = gemm
    line, places, seconds = source[0], source[3] * source[4], 0.0
    if along_P(R, source):
        return down * seconds_along_P(gemm, tile, layout, words)
    if line == 0:
        follows = source[2] == 0 and layout[2] == 1
        return P / places * seconds_of_samples(R, source, follows, down, rows, words, min(tile[1], P))
    pieces = pieces_of(line, down, rows)
    for place in range(int(places)):
        seconds += seconds_of_lines(line, source, down, rows, words, start_of(place, source), pieces, beats)
    return P / places * seconds


@formula
def least_seconds(gemm, source, words):
    """Second lines of the inputs of a sample, at least, for any layout and rows of a block.

    Each sample begins a channel, and each of its lines of rows a beat; what else begins costs more.
    """
    R, P, _, _ = gemm
    line, places, seconds = source[0], source[3] * source[4], 0.0
    if along_P(R, source):
        return 0.0
    for place in range(int(places)):
        start = start_of(place, source)
        if line > 0:
            seconds += R / line * seconds_of_line(line, source, words, start)
        else:
            seconds += second_lines(np.inf, start, 0, words)
    return P * seconds / places


@formula
def seconds_of_weights(gemm, tile, layout, touched, blocks, words):
    """Beats that weights cost beyond those of the NPU; ``touched``: pairs of a tile and a sample column in it."""
    _, P, C, groups = gemm
    _, T_P, T_C, _ = tile
    if T_C >= C:  # rows follow one another from the first row of a tile on
        turns = tiles_along(layout[2] * C, T_C) * blocks * tiles_along(P, T_P)
        return turns * crossing(min(C, words), words, 0.0, C * unit_of(P, T_P, groups > 1), words)
    return touched * blocks * P * crossing(min(T_C, words), C - T_C, 0.0, unit_of(C, T_C, True), words)


@formula
def seconds_of_run(length, following, start, unit, words, adds, cuts):
    """Second lines of a run of outputs, for each beat that is stored or added; :func:`crossing` has the other names.

    ``following``: words from the run to the next one; ``cuts``: share of the beats behind a load, which ends the line
    that is made up.
    """
    full = np.floor(length / words)
    rest, first = length - full * words, min(length, words)
    written = crossing(first, following - length, start, unit, words)
    read = second_lines(following - (np.ceil(length / words) - 1) * words, start, unit, words)
    alone = full * crossing(words, words, start, unit, words)  # of the beats of a run, if each is the first of a share
    if rest > 0:
        alone += crossing(rest, words, start, unit, words)
    return cuts * (alone - written) + (written + adds * read) / (1 + adds)


@formula
def seconds_of_stores(layer, tile, layout, rows, words, beats, cuts):
    """Share of the beats of stores that cost a second line, those that read what is added among them.

    ``beats``: of a column of a sample column; ``cuts``: as :func:`seconds_of_run` has it.
    """
    R, _, C, groups = layer[0]
    if R == 1:
        length, unit = min(tile[2], C), unit_of(C, tile[2], layout[0] * groups > 1)
        following = C if groups == 1 and tile[2] >= C else np.inf
        return seconds_of_run(length, following, 0, unit, words, layer[3], cuts) / np.ceil(length / words)
    down, seconds = layout[1] * R, 0.0
    for m in range(int(np.ceil(down / rows))):
        begin, end = m * rows, min((m + 1) * rows, down)
        at, held = first_piece(R, begin, end)
        if at % words > 0:  # a run that begins with a line costs none, as those of the samples behind the first
            following = pitch_of(R, words) if held == end - begin else np.inf
            seconds += seconds_of_run(held, following, at, 0, words, layer[3], cuts)
    return seconds / beats


@formula
def seconds_of_layer(layer, tile, layout, rows, words, of_blocks, share, beats):
    """Shares of the beats of loads, and of stores, that cost a second line of an aligned bus."""
    gemm, source, fetched, _ = layer
    b, B_R, B_P, runs = layout
    blocks, of_inputs, outputs, of_last = len(of_blocks), 0.0, 0.0, 0.0
    for m in range(blocks):
        of_inputs += of_blocks[m, 0]
        outputs += of_blocks[m, 1]
        of_last += of_blocks[m, 2]
    _, touched, _, last = shape_of(gemm, tile, layout)
    passes = tiles_along(B_P * gemm[2], tile[2]) * blocks
    # the last pass of all is stored at once
    cuts = max(1 / share - passes / beats.stores, 0.0) * (1 - 1 / (passes * gemm[3] * runs))
    down, held = B_R * gemm[0], (b // runs - B_R * (B_P - 1)) * gemm[0]
    more = touched * seconds_of_inputs(gemm, source, tile, layout, rows, words, down, of_inputs)
    if held < down:
        whole = more / touched
        more += last * (seconds_of_inputs(gemm, source, tile, layout, rows, words, held, of_last) - whole)
    more += fetched * seconds_of_weights(gemm, tile, layout, touched, blocks, words)
    return more / beats.loads, seconds_of_stores(layer, tile, layout, rows, words, outputs, cuts)
