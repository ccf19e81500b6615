"""How time and memory grow: DSPs, batch sizes, layers, requests, each point in a process of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from rounds import Row, Table, script


class Axis(NamedTuple):
    """What grows, and from where to where."""

    key: str
    title: str
    label: str
    about: str
    sizes: list[int]


DSPS = Axis(
    "dsps", "Growth with DSPs", "{:,} DSPs", "ResNet-50 on U250 with fewer DSPs, B_max = 8.",
    [220, 900, 2_520, 6_840, 12_288],
)  # fmt: skip
B_MAX = Axis("b_max", "Growth with B_max", "B_max = {}", "ResNet-50 on ZC706.", [1, 2, 4, 8, 16, 32, 64])
LAYERS = Axis(
    "layers",
    "Growth with layers",
    "{:,} layers",
    "Random layers, all different, on ZC706, B_max = 8.",
    [54, 200, 600, 2_000],
)
REQUESTS = Axis(
    "requests", "Growth with requests", "{:,} requests",
    "Requests and exits drawn, replayed under `fluid` and summarised, otherwise as in the table of the simulator.",
    [10**4, 10**5, 10**6, 10**7, 10**8],
)  # fmt: skip
LARGEST = Axis("largest", "The largest board", "{:,} DSPs, B_max = 64", "ResNet-50 on all DSPs of U250.", [12_288])
SMALL = [DSPS._replace(sizes=[32, 64]), B_MAX._replace(sizes=[2]), REQUESTS._replace(sizes=[1_000])]
FULL = [DSPS, B_MAX, LAYERS, LARGEST]


LABELS = {"whole": "time", "every design": "every design", "search": "the search", "peak_mb": "peak memory"}
"""Figures of a point, and what their exponents are called."""


def measure(axis: Axis, rounds: int) -> Table:
    """The table of an axis: times, peak memory, and the exponents of their growth."""
    points: dict[int, list[dict[str, Any]]] = {size: [] for size in axis.sizes}
    for turn in range(rounds):
        for size in axis.sizes if turn % 2 == 0 else reversed(axis.sizes):
            points[size].append(script("point", axis=axis.key, size=size))
    rows = [row for size, samples in points.items() for row in _rows(axis.label.format(size), size, samples)]
    unit = "requests" if axis.key == "requests" else "evaluations"
    remarks = []
    if len(axis.sizes) > 1:
        known = [name for name in LABELS if name in points[axis.sizes[0]][0]]
        growth = ", ".join(f"{LABELS[name]} {_exponent(points, name):.2f}" for name in known)
        remarks.append(f"Exponents of growth, by least squares of the logarithms: {growth}.")
    return Table(f"scale-{axis.key}", axis.title, axis.about, rows, unit, remarks)


def _rows(where: str, size: int, samples: list[dict[str, Any]]) -> list[Row]:
    """The rows of one size; C's own time is kept, and shows as a ratio."""
    peak_mb = [sample["peak_mb"] for sample in samples]

    def times(name: str) -> list[float]:
        return [sample[name] for sample in samples]

    if "whole" in samples[0]:
        return [Row(where, times("whole"), None, size, ours=True, peak_mb=peak_mb)]
    work = samples[0]["evaluations"]
    in_c = [Row(f"C, {where}", times("C"), None, work, shown=False)] if samples[0]["C"] is not None else []
    against = in_c[0].name if in_c else None
    return [
        *in_c,
        Row(f"{where}, every design", times("every design"), against, work, ours=True, peak_mb=peak_mb),
        Row(f"{where}, search", times("search"), against, work, ours=True),
    ]


def _exponent(points: dict[int, list[dict[str, Any]]], name: str) -> float:
    """How a figure grows with size: the slope of its median, both as logarithms."""
    medians = [np.median([sample[name] for sample in samples]) for samples in points.values()]
    return float(np.polyfit(np.log(list(points)), np.log(medians), 1)[0])
