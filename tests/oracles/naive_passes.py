"""An engine that runs tile by tile, step by step: two of each buffer, one port.

Loads go before stores, unless both halves of the output buffer are full.
"""

from __future__ import annotations

from collections import deque


def tiles_of(gemm, tile, layout, rows):
    """(words loaded, cycles of compute, words to store after it) of each tile in order; None if it ends no pass."""
    R, P, C, groups = gemm
    _, T_P, T_C = tile
    b, B_R, B_P, runs = layout
    samples = b // runs
    columns = [(q, c) for q in range(B_P) for c in range(C)]
    found = []
    for start in range(0, len(columns), T_C):
        part = columns[start : start + T_C]
        for top in range(0, B_R * R, rows):
            block = range(top, min(top + rows, B_R * R))
            held = {q: sum(q * B_R + row // R < samples for row in block) for q, _ in part}
            for begin in range(0, P, T_P):
                depth = min(T_P, P - begin)
                words = depth * (sum(held.values()) + len({c for _, c in part}))
                found.append([words, len(block), None])
            found[-1][2] = sum(held[q] for q, _ in part)
    return found * (groups * runs)


def run(gemm, tile, layout, rows, rate):
    """Cycles until the last output is stored; ``rate`` is the words that the port moves in a cycle."""
    tiles = tiles_of(gemm, tile, layout, rows)
    port = 0.0  # the port is free; a tile is loaded; a tile has been computed
    loaded: list[float] = []
    ends: list[float] = []
    waiting: deque[list[float]] = deque()  # outputs: pass, words that are left, when they are complete
    stored: list[float] = []  # when the outputs of each pass were all stored
    number, starts_pass = 0, True
    while True:
        while len(ends) < len(loaded):
            at = len(ends)
            if starts_pass and number >= 2 and len(stored) < number - 1:
                break  # both halves of the output buffer are in use
            begin = max([loaded[at], *ends[-1:], *([stored[number - 2]] if starts_pass and number >= 2 else [])])
            ends.append(begin + tiles[at][1])
            starts_pass = tiles[at][2] is not None
            if starts_pass:
                waiting.append([tiles[at][2], ends[-1]])
                number += 1
        load = len(loaded)
        if load < len(tiles) and load - 2 < len(ends):
            free = ends[load - 2] if load >= 2 else 0.0
            while waiting and max(port, waiting[0][1]) < free:
                begin = max(port, waiting[0][1])
                done = min(waiting[0][0], (free - begin) * rate)
                port, waiting[0][0] = begin + done / rate, waiting[0][0] - done
                if waiting[0][0] > 1e-9:
                    break
                waiting.popleft()
                stored.append(port)
            begin = max(port, free)
            if len(waiting) == 2 and waiting[1][1] <= begin:  # both halves are full: the next pass needs one of them
                port = begin + waiting.popleft()[0] / rate
                stored.append(port)
                continue
            port = begin + tiles[load][0] / rate
            loaded.append(port)
        elif waiting:
            words, complete = waiting.popleft()
            port = max(port, complete) + words / rate
            stored.append(port)
        else:
            return port
