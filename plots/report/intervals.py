"""Figures with their intervals, one under another on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from .chart import WIDTH, Scale, bottom_axis, label, line, linear, picture, place, round_ticks
from .markup import element, shortened

_ROW, _MARGIN = 36.0, 8.0


class Point(NamedTuple):
    """A figure: whose it is, its value, its interval where there is one, what is written beside it, its series."""

    name: str
    value: float
    interval: tuple[float, float] | None
    text: str
    series: int = 0


def draw_intervals(
    ident: str, title: str, points: Sequence[Point], tick: Callable[[float], str], mark: tuple[float, str] | None
) -> Element:
    """Draw points with whiskers, from 0.

    Parameters
    ----------
    ident : str
        Identifier in the page.
    title : str
        What is shown.
    points : sequence of Point
        From top to bottom; values >= 0.
    tick : callable
        Writes a value beside the axis.
    mark : (float, str) or None
        A value to mark, and what it is.

    Returns
    -------
    Element
        The picture.
    """
    bottom = _ROW * len(points) + 4
    high = max(max((item.value, *(item.interval or ()))) for item in points)
    high = max(high, mark[0] if mark else 0.0) or 1.0
    scale: Scale = linear(0, high, _MARGIN, WIDTH - _MARGIN)
    ticks = round_ticks(high)
    shapes = bottom_axis(scale, ticks, map(tick, ticks), 0, bottom)
    if mark is not None:
        shapes.append(line(scale(mark[0]), 0, scale(mark[0]), bottom, "mark"))
        shapes.append(label(WIDTH, bottom + 30, f"dashed: {mark[1]}", "tick", "end"))
    for index, item in enumerate(points):
        y = _ROW * index
        shapes.append(label(0, y + 14, shortened(item.name, 26)))
        shapes.append(label(WIDTH, y + 14, item.text, "value", "end"))
        if item.interval is not None:
            low, top = (scale(max(bound, 0.0)) for bound in item.interval)  # Student's may reach below 0
            ends = "".join(f"M{place(x)} {place(y + 21)}v10" for x in (low, top))
            path = f"M{place(low)} {place(y + 26)}H{place(top)}{ends}"
            shapes.append(element("path", d=path, class_=f"whisker s{item.series}"))
        shapes.append(
            element("circle", cx=place(scale(item.value)), cy=place(y + 26), r=4, class_=f"dot s{item.series}")
        )
    said = "; ".join(f"{item.name}: {item.text}" for item in points)
    return picture(ident, title, said, bottom + (36 if mark else 20), shapes)
