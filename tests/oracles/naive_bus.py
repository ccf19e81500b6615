"""The beats of a layer on an aligned bus, address by address, as the bridge of the NPU fetches and writes lines.

Addresses are words; ``window`` has the fields of ``fluidb.dse.integers.window.Window``, ``tile`` is after stacking.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple


class Places(NamedTuple):
    """First words of a layer, and words from a sample, a channel, a group of the inputs, of the outputs to the next."""

    x: int
    w: int
    y: int
    x_sample: int
    x_channel: int
    x_group: int
    y_sample: int
    y_channel: int
    w_group: int


def alone(window, C, groups, words):
    """A layer whose maps and weights begin at 0; channels of more than a word, except in one row, begin at lines."""
    (height, width), channels = window.size, window.channels
    plane, one_row = height * width, window.along_P
    if window.in_rows:
        channels, plane, one_row = height, width, False
    pitch, y_channel = (n if n == 1 else ceil(n / words) * words for n in (plane, window.R))
    x_channel = plane if one_row else pitch
    x_group, y_group = channels * x_channel, C * y_channel
    return Places(0, 0, 0, groups * x_group, x_channel, x_group, groups * y_group, y_channel, window.P * C)


def address_of(window, at, p, row, channel_words):
    """Of the input with which the weight ``p`` of an output ``row`` is multiplied; outside of a map in its padding."""
    (_, width), (_, across) = window.size, window.outputs
    (stride_y, stride_x), (pad_y, pad_x), (apart_y, apart_x) = window.stride, window.pad, window.dilation
    if window.along_P:
        return at + row * (channel_words if window.in_rows else width) + p
    y, x = row // across, row % across
    channel, place = p // (window.kernel[0] * window.kernel[1]), p % (window.kernel[0] * window.kernel[1])
    ky, kx = place // window.kernel[1], place % window.kernel[1]
    line = y * stride_y + ky * apart_y - pad_y
    return at + channel * channel_words + line * width + x * stride_x + kx * apart_x - pad_x


def cut(first, length, words):
    """Beats of a run of words."""
    return [(first + at, min(words, length - at)) for at in range(0, length, words)]


def pieces(rows, line):
    """Rows that follow one another in a line, piece by piece."""
    found = []
    for row in rows:
        if found and found[-1][-1] == row - 1 and row % line:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def passes(window, C, groups, layout, tile, rows, words, places):
    """Each pass: the beats (address, words) of the loads of its tiles, and of its store, in the order of the port."""
    b, B_R, B_P, runs = layout
    _, T_P, T_C, *_ = tile
    R, P, per_run = window.R, window.P, b // runs
    line = R if window.joined and not window.along_P else window.outputs[1]
    of_beat = max(words // window.stride[1], 1)
    for run in range(runs):
        for group in range(groups):
            for start in range(0, B_P * C, T_C):
                places_of_tile = [divmod(place, C) for place in range(start, min(start + T_C, B_P * C))]
                slots = list(dict(places_of_tile))
                for top in range(0, B_R * R, rows):
                    block = range(top, min(top + rows, B_R * R))
                    held = {q: [row for row in block if q * B_R + row // R < per_run] for q in slots}
                    loads = []
                    for begin in range(0, P, T_P):
                        inner = range(begin, min(begin + T_P, P))
                        load = []
                        for p in inner:
                            at = places.w + group * places.w_group + p * C
                            if len(places_of_tile) >= C:
                                load += cut(at, C, words)
                                continue
                            for q in slots:
                                of_q = [c for other, c in places_of_tile if other == q]
                                load += cut(at + of_q[0], len(of_q), words)
                        samples = places.x + run * per_run * places.x_sample + group * places.x_group
                        if window.along_P:
                            for q in slots:
                                for row in held[q]:
                                    at = samples + (q * B_R + row // R) * places.x_sample
                                    first = address_of(window, at, begin, row % R, places.x_channel)
                                    load += [(at, words) for at, _ in cut(first, len(inner), words)]
                        else:
                            for p in inner:
                                for q in slots:
                                    for piece in pieces(held[q], line):
                                        for row in piece[::of_beat]:
                                            at = samples + (q * B_R + row // R) * places.x_sample
                                            first = address_of(window, at, p, row % R, places.x_channel)
                                            load.append((first, words))
                        loads.append(load)
                    store = []
                    outputs = places.y + run * per_run * places.y_sample + group * C * places.y_channel
                    for q in slots:
                        of_q = [c for other, c in places_of_tile if other == q]
                        at = outputs + q * B_R * places.y_sample
                        if R == 1:
                            for row in held[q]:
                                store += cut(at + row * places.y_sample + of_q[0] * places.y_channel, len(of_q), words)
                            continue
                        for c in of_q:
                            for piece in pieces(held[q], R):
                                sample, row = divmod(piece[0], R)
                                first = at + sample * places.y_sample + c * places.y_channel + row
                                store += cut(first, len(piece), words)
                    yield loads, store


def of_lines(beats, words, newest=None):
    """Beats of the bus: lines that are moved; the same if each beat costs one at least; the line that is known then."""
    moved = taken = 0
    for address, count in beats:
        first, last = address // words, (address + count - 1) // words
        lines = last - first + (first != newest)
        moved, taken, newest = moved + lines, taken + max(lines, 1), last
    return moved, taken, newest


class Counted(NamedTuple):
    """Beats of the NPU, lines that the bus moves, and these if each beat costs one at least: of loads, and of stores.

    Those that read what a store adds are apart.
    """

    loads: int
    moved: int
    taken: int
    stores: int
    written: int
    stored: int
    adds: int
    added: int
    add_taken: int


def count(window, C, groups, layout, tile, rows, words, places, distance=None):
    """Beats of a layer, whose store adds a map that lies at a ``distance`` from the outputs.

    A load ends the line of outputs that is made up, and the line that was read of the other map.
    """
    every = list(passes(window, C, groups, layout, tile, rows, words, places))
    share = ceil(max(len(store) for _, store in every) / ceil(window.P / tile[1]))
    totals, newest = [0] * 9, None
    for number, (loads, store) in enumerate(every):
        for load in loads:
            moved, taken, newest = of_lines(load, words, None if distance is not None else newest)
            totals[0], totals[1], totals[2] = totals[0] + len(load), totals[1] + moved, totals[2] + taken
        at_once = share if number + 1 < len(every) else len(store)
        for at in range(0, len(store), at_once or 1):
            part = store[at : at + at_once]
            written, stored, _ = of_lines(part, words)
            totals[3], totals[4], totals[5] = totals[3] + len(part), totals[4] + written, totals[5] + stored
            if distance is not None:
                added, taken, _ = of_lines([(address + distance, words) for address, _ in part], words)
                totals[6], totals[7], totals[8] = totals[6] + len(part), totals[7] + added, totals[8] + taken
    return Counted(*totals)
