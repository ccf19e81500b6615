"""A picture of an item: our values, in the arrangement of papers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from ..plots import COLOURS, canvas, describe, inches, legible
from .rows import Item, Row

Looks = dict[str, tuple[str, str, str]]
"""Colour, line and mark of a contender: the same in every picture of a paper."""

PEAK = ("#777777", "--", "")
"""Style of a bound."""

LOGARITHMIC = ("mean latency", "tail latency")
"""Quantities that grow without bound where an NPU is overloaded."""


HALF_IN, SIDES_IN, APART_IN = 3.65, 0.8, 0.03
"""Room for bars in half of a picture, what stands beside them in a whole one, and the gap of labels, in inches."""

BELOW = 7
"""Size of the labels below bars, in points."""

NARROW = ("precision",)
"""Quantities whose differences do not show on an axis from 0."""


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _groups(rows: list[Row], key: str) -> list[list[Row]]:
    return [[row for row in rows if getattr(row, key) == name] for name in _unique([getattr(row, key) for row in rows])]


def _label(row: Row) -> str:
    return f"{row.quantity}, {row.unit}" if row.unit else row.quantity


def _plain(value: float, _position: int) -> str:
    return f"{value:,.0f}"


def _equal(rows: list[Row]) -> dict[str, str]:
    """By contender, its label; those with the same values everywhere have one, and are drawn once."""
    values = {
        name: repr([(row.quantity, row.at, row.x, row.ours, row.paper) for row in rows if row.of == name])
        for name in _unique([row.of for row in rows])
    }
    together: dict[str, list[str]] = {}
    for name, own in values.items():
        together.setdefault(own, []).append(name)
    return {names[0]: " = ".join(names) for names in together.values()}


def _lines(axes: Any, rows: list[Row], axis: str, looks: Looks, equal: dict[str, str]) -> None:
    names = [name for name in _unique([row.of for row in rows]) if name in equal]
    for index, name in enumerate(names):
        own = [row for row in rows if row.of == name]
        colour, style, mark = looks.get(name, PEAK if name == "peak" else (COLOURS[index % len(COLOURS)], "-", "o"))
        x, y = [row.x for row in own], [row.ours for row in own]
        width = 0.8 + 1.4 * (1 - index / len(names))  # thinner above: no line is hidden
        axes.plot(x, y, color=colour, linestyle=style, marker=mark, ms=3.5, lw=width, label=equal[name])
        if own[0].low is not None:
            low, high = [row.low for row in own], [row.high for row in own]
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        if own[0].paper is not None:
            axes.axhline(own[0].paper, color=colour, linestyle="--", lw=1)
    axes.set_xlabel(axis)
    axes.set_ylabel(_label(rows[0]))
    if rows[0].quantity in LOGARITHMIC and rows[0].paper is None:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain)
    elif rows[0].quantity not in NARROW and min(row.ours for row in rows) >= 0:
        axes.set_ylim(bottom=0)


def _wrapped(place: str, most: int) -> str:
    """A place below its bars, in several lines if it has more than ``most`` letters."""
    lines = place.replace(" on ", "\n").split("\n")
    return "\n".join(textwrap.fill(line, most, break_long_words=False, break_on_hyphens=False) for line in lines)


def _room(rows: list[Row], most: int) -> float:
    """Width that the labels below a panel's bars take in lines of ``most`` letters, in inches."""
    places = _unique([row.at for row in rows])
    return len(places) * (max(inches(_wrapped(place, most), BELOW) for place in places) + APART_IN)


def _letters(groups: list[list[Row]]) -> int | None:
    """Letters in a line of the labels below bars with which each panel fits half of a picture; none if none fits."""
    return next((most for most in (14, 11) if max(_room(rows, most) for rows in groups) <= HALF_IN), None)


def _bars(axes: Any, rows: list[Row], most: int) -> None:
    """One panel: a group of bars for each place, the paper's value as a mark."""
    names, places = _unique([row.of for row in rows if row.of != "peak"]), _unique([row.at for row in rows])
    for row in rows[-1:]:
        if row.of == "peak":
            axes.axhline(row.ours, color="black", linestyle="--", lw=1, label="peak")
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        own = [row for row in rows if row.of == name]
        at = np.array([places.index(row.at) for row in own]) + (index - (len(names) - 1) / 2) * width
        spread = [0.0 if row.low is None or row.high is None else (row.high - row.low) / 2 for row in own]
        style: dict[str, Any] = {"capsize": 2, "color": COLOURS[index], "label": name, "error_kw": {"lw": 1}}
        axes.bar(at, [row.ours for row in own], 0.92 * width, yerr=spread, **style)
        printed = [(x, row.paper) for x, row in zip(at, own, strict=True) if row.paper is not None]
        if printed:
            label = "paper" if index == len(names) - 1 else None
            axes.plot(*zip(*printed, strict=True), "D", color="white", markeredgecolor="black", ms=5, label=label)
    axes.set_xticks(range(len(places)), [_wrapped(place, most) for place in places], fontsize=BELOW)
    axes.set_ylabel(_label(rows[0]))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=7)


def _dots(axes: Any, rows: list[Row]) -> None:
    """One panel: a line for each setting, a mark for each cell."""
    settings, cells = _unique([row.of for row in rows]), _unique([row.at for row in rows])
    studied = rows[0].paper is not None
    value_of = attrgetter("difference" if studied else "ours")
    for index, cell in enumerate(cells):
        own = [row for row in rows if row.at == cell]
        x, y = [value_of(row) for row in own], [settings.index(row.of) for row in own]
        axes.plot(x, y, "osD^"[index % 4], color=COLOURS[index], ms=4.5, label=cell)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(settings)), settings)
    axes.invert_yaxis()
    if max(abs(value_of(row) or 0.0) for row in rows) > 300:
        axes.set_xscale("symlog", linthresh=100)
        axes.xaxis.set_major_formatter(_plain)
    unit = "points" if rows[0].in_points and (studied or rows[0].unit == "points") else "%"
    label = f"{rows[0].quantity}{', less the paper' if studied else ''}, {unit}"
    axes.set_xlabel(textwrap.fill(label, 44, break_long_words=False))


def _matrix(axes: Any, rows: list[Row], axis: str) -> None:
    """One panel: a coloured field for each pair of name and ``x``; grey where there is none."""
    names, places = _unique([row.of for row in rows]), sorted({row.x for row in rows if row.x is not None})
    values = np.full((len(names), len(places)), np.nan)
    for row in rows:
        if row.x is not None:
            values[names.index(row.of), places.index(row.x)] = row.ours
    axes.set_facecolor("#cccccc")
    shown = axes.imshow(values, aspect="auto", cmap="viridis")
    axes.figure.colorbar(shown, ax=axes, label=_label(rows[0]))
    axes.set_yticks(range(len(names)), names)
    step = max(1, len(places) // 8)
    axes.set_xticks(range(0, len(places), step), [f"{place:g}" for place in places[::step]])
    axes.set_xlabel(axis)
    axes.grid(visible=False)


def draw(item: Item, looks: Looks) -> Any:
    """Draw an item with at least one row: a figure with a panel for each quantity, place or cell."""
    drawn = [row for row in item.rows if row.x is not None] if item.axis else item.rows
    by_quantity = _groups(drawn, "quantity")
    panel: Callable[[Any, list[Row]], None] = partial(_lines, axis=item.axis, looks=looks, equal=_equal(drawn))
    columns = 2
    if item.picture == "dots":
        groups, titles, panel = by_quantity, [""] * len(by_quantity), _dots
        size = 9.0, 0.3 + (1.3 + 0.24 * len({row.of for row in drawn})) * -(-len(groups) // 2)
    elif item.picture == "matrix":
        groups = [cell for rows in by_quantity for cell in _groups(rows, "at")]
        titles, panel = [f"{rows[0].quantity}\n{rows[0].at}" for rows in groups], partial(_matrix, axis=item.axis)
        size = 9.0, 3.4 * -(-len(groups) // 2) + 0.4
    elif item.picture == "cells":
        groups, columns = [cell for rows in by_quantity for cell in _groups(rows, "at")], 4
        titles, size = [rows[0].at.replace(" on ", "\n") for rows in groups], (8.0, 6.0)
    elif item.picture == "lines":
        key = "quantity" if len(by_quantity) > 1 else "at"
        groups = _groups(drawn, key)
        titles = [f"({letter}) {getattr(rows[0], key)}" for letter, rows in zip("abcdefgh", groups, strict=False)]
        size = 8.0, 3.2 * -(-len(groups) // 2) + 0.6
    else:
        groups = [rows for rows in by_quantity if rows[0].unit]
        most, width = _letters(groups), 8.5
        if most is None:
            columns, most = 1, 14
            width = max(width, max(_room(rows, most) for rows in groups) * 1.1 + SIDES_IN)
        panel = partial(_bars, most=most)
        titles, size = [rows[0].quantity for rows in groups], (width, 3.1 * -(-len(groups) // columns) + 0.5)
    with canvas(*size) as figure:
        grid = figure.subplots(-(-len(groups) // columns), columns, squeeze=False)
        for axes, rows, title in zip(grid.flat, groups, titles, strict=False):
            panel(axes, rows)
            axes.set_title(title)
        for axes in grid.flat[len(groups) :]:
            axes.remove()
        _one_scale(grid.flat, groups)
        if item.picture == "dots":
            grid[0, 1].tick_params(labelleft=False)
        if item.picture not in ("bars", "matrix"):
            pairs = [pair for axes in grid.flat for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
            legend = {label: handle for handle, label in pairs}
            columns = int(13 * size[0] / (max(map(len, legend), default=0) + 8))  # that the picture has room for
            figure.set_figheight(size[1] + 0.16 * -(-len(legend) // max(1, columns)))
            figure.legend(
                legend.values(), legend.keys(), loc="outside lower center", fontsize=8, ncols=max(1, min(5, columns))
            )
        return describe(figure, legible(item.title, 160), _said(item))


def _one_scale(every: Any, groups: list[list[Row]]) -> None:
    """Give panels of one quantity one scale, so that they can be compared by eye."""
    for quantity in _unique([rows[0].quantity for rows in groups]):
        panels = [axes for axes, rows in zip(every, groups, strict=False) if rows[0].quantity == quantity]
        fields = [image for axes in panels for image in axes.images]
        if fields:
            ends = np.array([image.get_clim() for image in fields])
            for image in fields:
                image.set_clim(ends[:, 0].min(), ends[:, 1].max())
        elif len(panels) > 1:
            ends = np.array([axes.get_ylim() for axes in panels])
            for axes in panels:
                axes.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def _said(item: Item) -> str:
    """What was found: the paper's statements that hold and its values, or else who has least and most."""
    phrases = []
    if item.claims:
        holds, count = sum(claim.holds for claim in item.claims), len(item.claims)
        if count == 1:
            phrases.append(f"the paper's statement {'holds' if holds else 'does not hold'}")
        elif holds == count:
            phrases.append(f"{'both' if count == 2 else f'all {count}'} statements of the paper hold")
        else:
            phrases.append(f"{holds or 'none'} of the paper's {count} statements {'holds' if holds == 1 else 'hold'}")
    offs = {
        unit: [abs(row.difference) for row in item.rows if row.difference is not None and row.in_points == in_points]
        for in_points, unit in ((False, "%"), (True, "points"))
    }
    medians = [
        f"{np.median(off):.3g} {unit}" + (f" (median of {len(off)} values)" if len(off) > 1 else "")
        for unit, off in offs.items() if off
    ]  # fmt: skip
    if medians:
        phrases.append(f"ours differ from the paper by {' and '.join(medians)}")
    for quantity in () if phrases or item.picture == "matrix" else _unique([row.quantity for row in item.rows])[:2]:
        rows = [row for row in item.rows if row.quantity == quantity and row.of != "peak"]
        means = {name: np.mean([row.ours for row in rows if row.of == name]) for name in _unique([r.of for r in rows])}
        if len(means) > 1:
            least, most = min(means, key=lambda name: means[name]), max(means, key=lambda name: means[name])
            phrases.append(f"{least} has the lowest {quantity} on average, {most} the highest")
    said = "; ".join(phrases) or "computed by us"
    return f"{said[0].upper()}{said[1:]}."
