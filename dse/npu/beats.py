"""Beats in which the NPU as built moves a layer's words (docs/model.md, Beats), compiled.

Symbols are as in :mod:`.kernels`; ``source`` is as in :mod:`.schedule`, ``words`` has a beat.
"""

import numpy as np

from .kernels import formula, tiles_along


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


@formula
def beats_of_layer(gemm, source, tile, layout, rows, words, fetched, adds):
    """Beats of each block for :func:`pass_beats`, of a share of a store at most, and of one group and run in all."""
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
    most = beats = 0.0
    t = 0
    while t < tiles:
        part, more = columns_of(gemm, tile, layout, t, words), tiles_alike(gemm, tile, layout, t, tiles)
        for m in range(blocks):
            full, final, store = pass_beats(gemm, source, tile, part, of_blocks[m], words, fetched)
            most = max(most, store)
            beats += more * ((steps - 1) * full + final + (1 + adds) * store)
        t += more
    return of_blocks, np.ceil(most / steps), beats
