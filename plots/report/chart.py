"""What the report's pictures share: one width, which a phone shows at its full size, scales, ticks and axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

from ..canvas import COLOURS
from .markup import Node, element

WIDTH = 360.0
LEFT, RIGHT = 34.0, 352.0
"""Of the plotting area, where there is an axis to its left."""

MAX_SERIES = len(COLOURS)
"""Series that colours and dashes tell apart."""

Scale = Callable[[float], float]
"""From a value to a place along an axis."""


def place(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    return f"{round(value, 1):g}"


def picture(ident: str, title: str, description: str, height: float, shapes: Iterable[Node]) -> Element:
    """An SVG with its name and description for those who cannot see it."""
    names = (element("title", title, id=f"{ident}-title"), element("desc", description, id=f"{ident}-desc"))
    return element(
        "svg", *names, *shapes,
        role="img", aria_labelledby=f"{ident}-title", aria_describedby=f"{ident}-desc", id=ident,
        viewBox=f"0 0 {place(WIDTH)} {place(height)}",
    )  # fmt: skip


def rect(x: float, y: float, width: float, height: float, *children: Node, **attributes: object) -> Element:
    """A rectangle."""
    corner = {"x": place(x), "y": place(y), "width": place(width), "height": place(height)}
    return element("rect", *children, **corner, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Element:
    """A straight line."""
    return element("path", d=f"M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}", class_=class_)


def label(x: float, y: float, text: str, class_: str = "label", anchor: str = "start") -> Element:
    """A text, its baseline at y."""
    return element("text", text, x=place(x), y=place(y), class_=class_, text_anchor=anchor)


def linear(low: float, high: float, first: float, last: float) -> Scale:
    """A scale from [low, high] to [first, last]."""
    return lambda value: first + (value - low) / (high - low) * (last - first)


def logarithmic(low: float, high: float, first: float, last: float) -> Scale:
    """The same for logarithms."""
    inner = linear(math.log(low), math.log(high), first, last)
    return lambda value: inner(math.log(value))


def round_ticks(high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 to ``high``, at most ``most`` steps."""
    step = 10.0 ** math.floor(math.log10(high / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if high / (factor * step) <= most)
    return [index * step for index in range(int(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in [low, high]; powers alone over more than three decades."""
    factors = (1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**decade for decade in decades for factor in factors]
    return [value for value in found if low <= value <= high]


class TimeUnit(NamedTuple):
    """A unit of time: its name, how many there are in a second, and digits behind the point."""

    name: str
    per_s: float
    digits: int

    def number(self, seconds: float) -> str:
        """A duration, with the digits of the unit."""
        return f"{self.per_s * seconds:,.{self.digits}f}"

    def short(self, seconds: float) -> str:
        """A duration beside a tick."""
        return f"{self.per_s * seconds:,.6g}"


def time_unit(longest_s: float) -> TimeUnit:
    """The unit in which durations up to ``longest_s`` are read: one for a whole table, so that columns align."""
    if longest_s < 1e-2:
        return TimeUnit("us", 1e6, 1)
    return TimeUnit("ms", 1e3, 2) if longest_s < 10 else TimeUnit("s", 1.0, 3)


def bottom_axis(
    scale: Scale, values: Iterable[float], texts: Iterable[str], top: float, bottom: float
) -> list[Element]:
    """Grid lines over a plotting area and numbers below it; one that would touch its neighbour is left out."""
    found: list[Element] = []
    free = -math.inf
    for value, text in zip(values, texts, strict=True):
        x, half = scale(value), 3.0 * len(text) + 2
        found.append(line(x, top, x, bottom, "grid"))
        if x - half >= free:
            middle = min(x, WIDTH - half)
            found.append(label(middle, bottom + 14, text, "tick", "middle"))
            free = middle + half + 2
    return found
