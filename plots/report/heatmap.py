"""Utilisation by layer and batch size."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from .chart import LEFT, RIGHT, label, line, picture, rect
from .markup import element

_ROW, _TOP, _KEY = 16.0, 18.0, 5


def draw_heatmap(
    ident: str, title: str, share: NDArray[np.float64], layers: Sequence[str], stage: NDArray[np.int64],
    batches: Sequence[int],
) -> Element:  # fmt: skip
    """Draw a cell for each layer, left to right, and batch size, top to bottom.

    Parameters
    ----------
    ident : str
        Identifier in the page.
    title : str
        What is shown.
    share : (L, len(batches)) ndarray of float64
        The stronger a cell, the more; 1 is full.
    layers : sequence of str
        Names, in execution order.
    stage : (L,) ndarray of int64
        1-based stage of each, marked above.
    batches : sequence of int
        Batch sizes.

    Returns
    -------
    Element
        The picture.
    """
    width = (RIGHT - LEFT) / len(layers)
    bottom = _TOP + _ROW * len(batches)
    shapes = [label(LEFT - 6, _TOP + _ROW * row + 12, str(b), "tick", "end") for row, b in enumerate(batches)]
    shapes.append(label(0, _TOP - 6, "batch", "tick"))
    for column, layer in enumerate(layers):
        for row, b in enumerate(batches):
            value = float(share[column, row])
            said = element("title", f"{layer}, batch {b}: {100 * value:.1f} %")
            corner = (LEFT + width * column, _TOP + _ROW * row)
            shapes.append(rect(*corner, width, _ROW - 1, said, class_="cell", fill_opacity=f"{value:.3f}"))
    starts = np.flatnonzero(np.diff(stage, prepend=0))
    for number, start in enumerate(starts.tolist(), 1):
        x = LEFT + width * start
        shapes.append(line(x, _TOP - 14, x, bottom, "cut"))
        shapes.append(label(x + 4, _TOP - 6, f"stage {number}" if number == 1 else str(number), "tick"))
    shapes.append(label(LEFT, bottom + 14, f"{len(layers)} layers, in execution order", "tick"))
    for step in range(_KEY):
        value = step / (_KEY - 1)
        shapes.append(rect(RIGHT - 126 + 18 * step, bottom + 6, 18, 10, class_="cell", fill_opacity=f"{value:g}"))
    shapes.append(rect(RIGHT - 126, bottom + 6, 90, 10, class_="frame"))
    shapes.append(label(RIGHT - 130, bottom + 14, "0", "tick", "end"))
    shapes.append(label(RIGHT, bottom + 14, "100 %", "tick", "end"))
    low, high = 100 * share.min(), 100 * share.max()
    description = f"{len(layers)} layers by {len(batches)} batch sizes, from {low:.1f} % to {high:.1f} %."
    return picture(ident, title, description, bottom + 22, shapes)
