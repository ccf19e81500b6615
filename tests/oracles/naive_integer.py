"""Layers of an integer network by plain loops over Python's integers, written from docs/npu.md."""

from __future__ import annotations

from itertools import product
from typing import Any

Maps = Any  # [channel][row][column]


def scaled(total: int, shift: int, low: int = -(2**15), high: int = 2**15 - 1) -> int:
    """Divided, rounded to the nearest, halves up; kept within 16 bits, and then within bounds."""
    halved = total if shift == 0 else (total + 2 ** (shift - 1)) // 2**shift
    kept = min(max(halved, -(2**15)), 2**15 - 1)
    return low if kept < low else min(kept, high)


def seen(maps: Maps, channel: int, y: int, x: int, beyond: int = 0) -> int:
    """A value, or what lies beyond the map."""
    if 0 <= y < len(maps[channel]) and 0 <= x < len(maps[channel][0]):
        return int(maps[channel][y][x])
    return beyond


def convolved(maps: Maps, weights: Any, constant: int, layer: Any) -> Maps:
    """A product; ``weights`` are [group][P][C], and the last channel of a group is the constant, inside the map."""
    groups, columns = len(weights), len(weights[0][0])
    kernel, (lines, width) = layer.kernel, layer.shape[1:]
    own = len(maps) // groups  # channels of a group
    found = []
    for group, column in product(range(groups), range(columns)):
        plane = []
        for i, j in product(range(lines), range(width)):
            total = 0
            for channel, ky, kx in product(range(own + (constant != 0)), range(kernel[0]), range(kernel[1])):
                y = i * layer.stride[0] + ky * layer.dilation[0] - layer.pad[0]
                x = j * layer.stride[1] + kx * layer.dilation[1] - layer.pad[1]
                if channel < own:
                    value = seen(maps, group * own + channel, y, x)
                else:
                    value = constant if 0 <= y < len(maps[0]) and 0 <= x < len(maps[0][0]) else 0
                total += value * int(weights[group][(channel * kernel[0] + ky) * kernel[1] + kx][column])
            plane.append(scaled(total, layer.shift, layer.low, layer.high))
        found.append([plane[i * width : (i + 1) * width] for i in range(lines)])
    return found


def pooled(maps: Maps, layer: Any) -> Maps:
    """The largest of each window; or the sum, times the factor."""
    (lines, width), largest = layer.shape[1:], layer.op == "maxpool"
    found = []
    for channel in range(len(maps)):
        plane = []
        for i, j in product(range(lines), range(width)):
            values = [
                seen(maps, channel, i * layer.stride[0] + ky * layer.dilation[0] - layer.pad[0],
                     j * layer.stride[1] + kx * layer.dilation[1] - layer.pad[1], -(2**15) if largest else 0)
                for ky, kx in product(range(layer.kernel[0]), range(layer.kernel[1]))
            ]  # fmt: skip
            plane.append(max(values) if largest else scaled(sum(values) * layer.factor, layer.shift))
        found.append([plane[i * width : (i + 1) * width] for i in range(lines)])
    return found


def behind(maps: list[Maps], layer: Any) -> Maps:
    """Maps behind one another by channels, each divided first."""
    return [
        [[scaled(value, shift) for value in row] for row in plane]
        for each, shift in zip(maps, layer.shifts, strict=True)
        for plane in each
    ]


def added(one: int, other: int, layer: Any) -> int:
    """A value of a sum."""
    return scaled(one * 2 ** layer.left[0] + other * 2 ** layer.left[1], layer.shift, layer.low, layer.high)
