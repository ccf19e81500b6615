"""Thumbnail of a timeline: when the NPU was busy, and with how many samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from ...serving.event_loop import PREEMPTS
from ...serving.metrics import Runs
from .chart import WIDTH, bottom_axis, label, line, linear, picture, place, round_ticks, time_unit
from .markup import element, shortened

_ROW, _STRIP, _MARGIN = 60.0, 34.0, 8.0


class Block(NamedTuple):
    """Runs of one batch without a pause: when, how many samples, and whether they began by preempting others."""

    begin_s: float
    end_s: float
    batch: int
    preempts: bool


def blocks(runs: Runs, until_s: float) -> list[Block]:
    """Runs that follow each other with the same samples in number, as one; what goes on at ``until_s`` is cut."""
    preempts = (runs.flags & PREEMPTS) > 0
    fresh = preempts | (runs.begin_s > np.append(-np.inf, runs.end_s[:-1]))
    fresh |= np.diff(runs.batch, prepend=0) != 0
    first = np.flatnonzero(fresh & (runs.begin_s < until_s))
    last = np.append(np.flatnonzero(fresh)[1:], len(fresh))[: len(first)] - 1
    columns = (runs.begin_s[first], np.minimum(runs.end_s[last], until_s), runs.batch[first], preempts[first])
    return [Block(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def draw_strips(
    ident: str, title: str, strips: Sequence[tuple[str, list[Block]]], begin_s: float, end_s: float, b_max: int
) -> Element:
    """Draw a strip for each series: blocks as high as their batch, with a mark where one preempted another.

    Parameters
    ----------
    ident : str
        Identifier in the page.
    title : str
        What is shown.
    strips : sequence of (str, list of Block)
        Names and blocks.
    begin_s, end_s : float
        What is shown of them.
    b_max : int
        Batch of full height.

    Returns
    -------
    Element
        The picture.
    """
    span_s = end_s - begin_s
    scale, unit = linear(0, span_s, _MARGIN, WIDTH - _MARGIN), time_unit(span_s)
    bottom = _ROW * len(strips) + 4
    ticks = [value / unit.per_s for value in round_ticks(unit.per_s * span_s)]
    shapes = bottom_axis(scale, ticks, map(unit.short, ticks), 0, bottom)
    for index, (name, found) in enumerate(strips):
        y = _ROW * index
        base = y + 20 + _STRIP
        bars, marks = [], []
        for block in found:
            x, end = scale(block.begin_s - begin_s), scale(block.end_s - begin_s)
            height = _STRIP * block.batch / b_max
            bars.append(f"M{place(x)} {place(base)}v{place(-height)}H{place(end)}V{place(base)}z")
            if block.preempts:
                marks.append(f"M{place(x)} {place(base + 1)}l-2.5 4.5h5z")
        shapes.append(label(0, y + 14, shortened(name, 26)))
        shapes.append(line(scale(0), base, scale(span_s), base, "base"))
        shapes.append(element("path", d="".join(bars), class_=f"fill s{index}"))
        if marks:
            shapes.append(element("path", d="".join(marks), class_="ink"))
    shapes.append(label(WIDTH, bottom + 30, f"{unit.name} after the first arrival", "tick", "end"))
    said = "; ".join(f"{name}: {len(found)} blocks" for name, found in strips)
    return picture(ident, title, said, bottom + 36, shapes)
