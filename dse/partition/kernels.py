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
    is_first: bool  # the input is that of the network, which only the owner holds


@compiled()
def has_room(block, devices, k, first, end):
    """True if device k can compute the output rows from ``first`` to ``end``; a share without rows needs no room."""
    if first == end:
        return True
    return devices.flop_s[k] > 0 and block.map_end[end] - block.map_first[first] <= devices.memory[k]


@compiled()
def spend(block, devices, rows, held, compute_s, link_bytes, time_s):
    """Fill in the costs of a block: computing time, bytes on the link and time of each device.

    ``held`` (K + 1,) are the bounds of the rows of the block's input that the devices hold.
    """
    count = len(devices.flop_s)
    total = 0.0
    for k in range(count):
        compute_s[k] = link_bytes[k] = time_s[k] = 0.0
        o0, o1 = rows[k], rows[k + 1]
        if o1 == o0:
            continue
        if not has_room(block, devices, k, o0, o1):
            compute_s[k] = NEVER
            continue
        flops = block.flops_end[o1] - block.flops_first[o0]
        compute_s[k] = flops / devices.flop_s[k] + block.layers * devices.layer_s[k]
        i0, i1 = block.need_first[o0], block.need_end[o1]
        needed = i1 - i0
        at_owner = block.is_first and devices.owner == k and (devices.owner_has_input or count == 1)
        if at_owner or (count == 1 and not block.is_first):  # one device communicates nothing
            needed = 0
        elif devices.reading == HALO and not block.is_first:
            needed -= max(0, min(i1, held[k + 1]) - max(i0, held[k]))
        link_bytes[k] = needed * block.source_bytes
        if devices.reading == EQ3 and count > 1:
            link_bytes[k] += (o1 - o0) * block.row_bytes  # Equation 3 counts the block's output, too
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
    found = np.full(count + 1, len(block.need_first) - 1)
    for k in range(count - 1, -1, -1):
        found[k] = found[k + 1]
        while found[k] > 0 and has_room(block, devices, k, found[k] - 1, found[k + 1]):
            found[k] -= 1
    return found


@compiled()
def share(block, devices, zeta, rows):
    """Algorithm 1 (EdgeSP, Section 3.3), mended: fill in the bounds of the shares, and return the time of the block.

    One row at a time moves from the slowest device to the fastest that has room, until all are within zeta of their
    mean or a division returns; the best division that was seen counts. All rows go to the first device if none fits.
    """
    count, height = len(devices.flop_s), len(block.need_first) - 1
    least = least_starts(block, devices)
    if least[0] > 0:
        rows[0], rows[1:] = 0, height
        return NEVER
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
    bounds, held = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    wanted = 0
    for k in range(count):  # the nearest division that fits
        wanted += width[k]
        bounds[k + 1] = max(wanted, least[k + 1], bounds[k])
        while not has_room(block, devices, k, bounds[k], bounds[k + 1]):
            bounds[k + 1] -= 1
        width[k] = bounds[k + 1] - bounds[k]
    compute_s, link_bytes, time_s = np.zeros(count), np.zeros(count), np.zeros(count)
    best, earlier, until = -1.0, width.copy(), 1
    for turn in range(4 * height + 64):
        for k in range(count):
            bounds[k + 1] = bounds[k] + width[k]
            held[k + 1] = bounds[k + 1] * block.source_height // height  # as if the block before had the same shares
        spend(block, devices, bounds, held, compute_s, link_bytes, time_s)
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
    return best


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
