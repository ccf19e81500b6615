"""Distributions of latency."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from .chart import LEFT, RIGHT, bottom_axis, label, line, log_ticks, logarithmic, picture, place, time_unit
from .markup import element, shortened

_TOP, _BOTTOM = 8.0, 178.0


def thinned(latency_s: NDArray[np.float64], grid_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The empirical distribution function at some latencies, exactly.

    Parameters
    ----------
    latency_s : (N,) ndarray of float64
        Latencies, in any order.
    grid_s : (M,) ndarray of float64
        Where.

    Returns
    -------
    (M,) ndarray of float64
        Share of the latencies that are no longer.
    """
    return np.searchsorted(np.sort(latency_s), grid_s, side="right") / len(latency_s)


def draw_cdf(
    ident: str, title: str, latencies: Sequence[tuple[str, NDArray[np.float64]]], slo_s: float | None
) -> Element:
    """Draw a distribution function for each series, one point for each unit of width.

    Parameters
    ----------
    ident : str
        Identifier in the page.
    title : str
        What is shown.
    latencies : sequence of (str, ndarray)
        Names, and latencies in seconds, > 0.
    slo_s : float or None
        Latency objective to mark, where all requests have the same.

    Returns
    -------
    Element
        The picture.
    """
    low = 0.9 * min(float(values.min()) for _, values in latencies)
    high = 1.1 * max(float(values.max()) for _, values in latencies)
    scale, unit = logarithmic(low, high, LEFT, RIGHT), time_unit(high)
    ticks = log_ticks(low, high)
    shapes = bottom_axis(scale, ticks, [unit.short(value) for value in ticks], _TOP, _BOTTOM)
    for percent in range(0, 101, 25):
        y = _BOTTOM - (_BOTTOM - _TOP) * percent / 100
        shapes += [line(LEFT, y, RIGHT, y, "grid"), label(LEFT - 6, y + 4, str(percent), "tick", "end")]
    if slo_s is not None and low < slo_s < high:
        shapes.append(line(scale(slo_s), _TOP, scale(slo_s), _BOTTOM, "mark"))
    places = np.linspace(LEFT, RIGHT, int(RIGHT - LEFT) + 1)
    grid_s = np.geomspace(low, high, len(places))
    for index, (_, values) in enumerate(latencies):
        shapes.append(element("path", d=_path(places, thinned(values, grid_s)), class_=f"curve s{index}"))
    slo = "" if slo_s is None else f"; dashed: SLO {unit.short(slo_s)} {unit.name}"
    shapes.append(label(RIGHT, _BOTTOM + 30, f"latency, {unit.name}, logarithmic{slo}", "tick", "end"))
    for index, (name, _) in enumerate(latencies):
        x, y = LEFT + (RIGHT - LEFT) / 2 * (index % 2), _BOTTOM + 50 + 18 * (index // 2)
        shapes += [line(x, y - 4, x + 24, y - 4, f"curve s{index}"), label(x + 30, y, shortened(name, 18))]
    said = f"Share of requests by latency, from {unit.number(low / 0.9)} to {unit.number(high / 1.1)} {unit.name}."
    return picture(ident, title, said, _BOTTOM + 38 + 18 * ((len(latencies) + 1) // 2), shapes)


def _path(places: NDArray[np.float64], shares: NDArray[np.float64]) -> str:
    """A staircase, each flat step once."""
    heights = [place(y) for y in (_BOTTOM - (_BOTTOM - _TOP) * shares).tolist()]
    steps = [f"M{place(float(places[0]))} {heights[0]}"]
    for x, before, here in zip(places[1:].tolist(), heights, heights[1:], strict=False):
        if here != before:
            steps.append(f"H{place(x)}V{here}")
    return "".join([*steps, f"H{place(float(places[-1]))}"])
