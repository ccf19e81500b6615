"""Shares as bars, one under another, each on the track of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from .chart import WIDTH, label, picture, rect

_ROW, _BAR = 31.0, 8.0


class Bar(NamedTuple):
    """A bar: its name, its share of the whole, and what is written at its end."""

    name: str
    share: float
    text: str


def draw_bars(ident: str, title: str, bars: Sequence[Bar]) -> Element:
    """Draw bars.

    Parameters
    ----------
    ident : str
        Identifier in the page.
    title : str
        What is shown.
    bars : sequence of Bar
        From top to bottom.

    Returns
    -------
    Element
        The picture.
    """
    shapes = []
    for index, bar in enumerate(bars):
        y = _ROW * index
        shapes += [
            label(0, y + 14, bar.name),
            label(WIDTH, y + 14, bar.text, "value", "end"),
            rect(0, y + 19, WIDTH, _BAR, class_="track", rx=2),
            rect(0, y + 19, WIDTH * min(bar.share, 1.0), _BAR, class_="bar", rx=2),
        ]
    said = "; ".join(f"{bar.name}: {bar.text}" for bar in bars)
    return picture(ident, title, said, _ROW * len(bars), shapes)
