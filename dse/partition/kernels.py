"""The compiled part of the partition: the costs of a block by device, and the shares of its rows.

Arrays are indexed by k, the device in the order of its rows. ``rows`` (K + 1,) are the bounds of the devices' shares:
device k computes the output rows from ``rows[k]`` to ``rows[k + 1]`` of a block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...jit import compiled

EQ3, ONCE, HALO = range(3)
"""Data that a device communicates, as ``fluidb.platforms.cluster.Communication`` explains it."""

NEVER = np.inf


class Devices(NamedTuple):
    """The K devices that may take part."""

    flop_s: Any  # (K,), floating-point operations a second
    layer_s: Any  # (K,), fixed time of a layer with weights
    bytes_s: Any  # (K,), bandwidth of the device's link
    latency_s: Any  # (K,), latency of the device's link
    memory: Any  # (K,), bytes that are left for maps
    owner: int  # the device that holds the input; -1 if it is none of these
    reading: int  # ``EQ3``, ``ONCE`` or ``HALO``
    shared_bytes_s: float  # bandwidth of the uplink that all share; 0 if each has its own link
    owner_has_input: bool  # the owner receives no input


class Block(NamedTuple):
    """Fused units. A share from row o0 to row o1 of the output takes ``end[o1] - first[o0]`` of each quantity."""

    need_first: Any  # (H + 1,), rows of the block's input
    need_end: Any
    flops_first: Any  # (H + 1,), floating-point operations
    flops_end: Any
    map_first: Any  # (H + 1,), bytes of all maps in the block
    map_end: Any
    layers: int  # with weights
    source_height: int  # rows of the input
    source_bytes: float  # of a row of the input
    row_bytes: float  # of a row of the output
    is_first: bool  # the input is the input of the network, which only the owner holds


@compiled()
def has_room(block, devices, k, first, end):
    """True if device k can compute the output rows from ``first`` to ``end``; a share without rows needs no room."""
    if first == end:
        return True
    return devices.flop_s[k] > 0 and block.map_end[end] - block.map_first[first] <= devices.memory[k]


@compiled()
def share_costs(block, devices, k, rows, held):
    """Computing time, and bytes on the link, of device k for a share of some rows; NEVER without room.

    ``rows`` and ``held`` are the first and the end of its output rows, and of the rows of the input that it holds.
    """
    (o0, o1), (h0, h1) = rows, held
    if not has_room(block, devices, k, o0, o1):
        return NEVER, 0.0
    count = len(devices.flop_s)
    flops = block.flops_end[o1] - block.flops_first[o0]
    compute_s = flops / devices.flop_s[k] + block.layers * devices.layer_s[k]
    i0, i1 = block.need_first[o0], block.need_end[o1]
    needed = i1 - i0
    at_owner = block.is_first and devices.owner == k and (devices.owner_has_input or count == 1)
    if at_owner or (count == 1 and not block.is_first):  # one device communicates nothing
        needed = 0
    elif devices.reading == HALO and not block.is_first:
        needed -= max(0, min(i1, h1) - max(i0, h0))
    sent = needed * block.source_bytes
    if devices.reading == EQ3 and count > 1:
        sent += (o1 - o0) * block.row_bytes  # Equation 3 counts the block's output, too
    return compute_s, sent


@compiled()
def spend(block, devices, rows, held, compute_s, link_bytes, time_s):
    """Fill in the costs of a block: computing time, bytes on the link and time of each device.

    ``held`` (K + 1,) are the bounds of the rows of the block's input that the devices hold.
    """
    count = len(devices.flop_s)
    total = 0.0
    for k in range(count):
        compute_s[k] = link_bytes[k] = 0.0
        if rows[k + 1] > rows[k]:
            compute_s[k], link_bytes[k] = share_costs(block, devices, k, (rows[k], rows[k + 1]), (held[k], held[k + 1]))
        total += link_bytes[k]
    for k in range(count):
        time_s[k] = compute_s[k]
        if link_bytes[k] > 0:
            shared = devices.shared_bytes_s
            time_s[k] += devices.latency_s[k] + (total / shared if shared > 0 else link_bytes[k] / devices.bytes_s[k])


@compiled()
def least_starts(block, devices):
    """The least row from which each device and those behind it can compute the rest; the block fits if it is 0 first.

    A share that begins later needs no more room. So if the rest can be computed from a row, it can be from each later.
    """
    count = len(devices.flop_s)
    starts = np.full(count + 1, len(block.need_first) - 1)
    for k in range(count - 1, -1, -1):
        starts[k] = starts[k + 1]
        while starts[k] > 0 and has_room(block, devices, k, starts[k] - 1, starts[k + 1]):
            starts[k] -= 1
    return starts


@compiled()
def first_widths(block, devices, least):
    """Numbers of rows in proportion to the devices' rates, or the nearest that fit. ``least`` is of `least_starts`."""
    count, height = len(devices.flop_s), len(block.need_first) - 1
    width, rest = np.zeros(count, np.int64), np.zeros(count)
    total = devices.flop_s.sum()
    for k in range(count):  # largest remainders
        exact = height * devices.flop_s[k] / total
        width[k] = int(exact)
        rest[k] = exact - width[k]
    for _ in range(height - width.sum()):
        k = int(np.argmax(rest))
        width[k] += 1
        rest[k] = -1.0
    first = wanted = 0
    for k in range(count):
        wanted += width[k]
        end = max(wanted, least[k + 1], first)
        while not has_room(block, devices, k, first, end):
            end -= 1
        width[k] = end - first
        first = end
    return width


@compiled()
def share(block, devices, zeta, rows):
    """Algorithm 1 (EdgeSP, Section 3.3), mended: fill in the bounds of the shares, and return the time of the block.

    One row at a time moves from the slowest device to the fastest that has room, until all are within zeta of their
    mean or a division returns; the best division that was seen counts. Where a device has no room for one row more,
    moves may end far from the best: all divisions are then compared. All rows go to the first device if none fits.
    """
    count, height = len(devices.flop_s), len(block.need_first) - 1
    least = least_starts(block, devices)
    if least[0] > 0:
        rows[0], rows[1:] = 0, height
        return NEVER
    width = first_widths(block, devices, least)
    bounds = np.zeros(count + 1, np.int64)
    time_s = np.zeros(count)
    best, earlier, until = -1.0, width.copy(), 1
    for turn in range(4 * height + 64):
        for k in range(count):
            bounds[k + 1] = bounds[k] + width[k]
        spend_alone(block, devices, bounds, time_s)
        slowest, active, mean = 0, 0, 0.0
        for k in range(count):
            if time_s[k] > time_s[slowest]:
                slowest = k
            if width[k] > 0:
                active += 1
                mean += time_s[k]
        mean /= active
        if best < 0 or time_s[slowest] < best:
            best = time_s[slowest]
            rows[:] = bounds
        near = True
        for k in range(count):
            if width[k] > 0 and abs(mean - time_s[k]) > zeta * mean:
                near = False
        if near or (turn > 0 and np.array_equal(width, earlier)):
            break
        if turn == until:  # if divisions return, this one or one that is noted later does (Brent)
            earlier[:] = width
            until *= 2
        if not move(block, devices, slowest, time_s, width):
            break
    return search_all(block, devices, best, rows) if is_tight(block, devices, rows) else best


@compiled()
def spend_alone(block, devices, bounds, time_s):
    """Fill in the times of the devices as if the block before had the same shares."""
    count, height = len(devices.flop_s), len(block.need_first) - 1
    held = bounds * block.source_height // height
    spend(block, devices, bounds, held, np.zeros(count), np.zeros(count), time_s)


@compiled()
def is_tight(block, devices, rows):
    """True if a device has no room for one row more at either end of its share."""
    for k in range(len(devices.flop_s)):
        first, end = max(0, rows[k] - 1), min(rows[-1], rows[k + 1] + 1)
        if devices.flop_s[k] > 0 and not has_room(block, devices, k, first, end):
            return True
    return False


@compiled()
def search_all(block, devices, limit_s, rows):
    """The division of all whose slowest device is the quickest, if it takes less than a limit; its time, or the limit.

    Dynamic programming over the ends of the shares. On an uplink that all share, a share counts with its own bytes.
    """
    count, height = len(devices.flop_s), len(block.need_first) - 1
    least_s, begin = np.full((count + 1, height + 1), NEVER), np.zeros((count + 1, height + 1), np.int64)
    least_s[0, 0] = 0.0
    for k in range(count):
        bytes_s = devices.shared_bytes_s if devices.shared_bytes_s > 0 else devices.bytes_s[k]
        for first in range(height + 1):
            if least_s[k, first] >= limit_s:
                continue
            for end in range(first, height + 1):
                time_s = sent = 0.0
                if end > first:
                    held = (first * block.source_height // height, end * block.source_height // height)
                    time_s, sent = share_costs(block, devices, k, (first, end), held)
                    if time_s >= limit_s:  # and so does every longer share
                        break
                if sent > 0:
                    time_s += devices.latency_s[k] + sent / bytes_s
                time_s = max(time_s, least_s[k, first])
                if time_s < least_s[k + 1, end]:
                    least_s[k + 1, end], begin[k + 1, end] = time_s, first
    if least_s[count, height] >= limit_s:
        return limit_s
    bounds, times_s = np.full(count + 1, height), np.zeros(count)
    for k in range(count, 0, -1):
        bounds[k - 1] = begin[k, bounds[k]]
    spend_alone(block, devices, bounds, times_s)
    if times_s.max() >= limit_s:
        return limit_s
    rows[:] = bounds
    return times_s.max()


@compiled()
def move(block, devices, slowest, time_s, width):
    """Move a row from the slowest device to the fastest for which all shares have room; false if there is none."""
    count = len(width)
    tried = np.zeros(count, np.bool_)
    for _ in range(count):
        fastest = slowest
        for k in range(count):
            if devices.flop_s[k] > 0 and not tried[k] and time_s[k] < time_s[fastest]:
                fastest = k
        if fastest == slowest:
            return False
        tried[fastest] = True
        width[slowest] -= 1
        width[fastest] += 1
        first, fit = 0, True
        for k in range(count):
            fit = fit and has_room(block, devices, k, first, first + width[k])
            first += width[k]
        if fit:
            return True
        width[slowest] += 1
        width[fastest] -= 1
    return False
