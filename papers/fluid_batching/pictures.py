"""The paper's figures with our values, in its arrangement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...plots import COLOURS, canvas, save
from .rows import Item, Row

LOOKS: dict[str, tuple[str, str, str]] = {
    "SERIAL": (COLOURS[6], "-", "o"),
    "FC-AdaptB-S": (COLOURS[4], "-", "^"),
    "FC-AdaptB-M": (COLOURS[4], "--", "s"),
    "FC-AdaptB-L": (COLOURS[4], ":", "v"),
    "R-AdaptB-S": (COLOURS[5], "-", "^"),
    "R-AdaptB-M": (COLOURS[5], "--", "s"),
    "R-AdaptB-L": (COLOURS[5], ":", "v"),
    "LazyBatching": (COLOURS[1], "-", "D"),
    "FluidB": (COLOURS[0], "-", "o"),
    "serial": (COLOURS[6], "-", "o"),
    "FC": (COLOURS[4], "-", "^"),
    "R": (COLOURS[5], "-", "s"),
    "P": (COLOURS[3], "-", "v"),
    "Fluid Batching": (COLOURS[0], "--", "o"),
    "with Stackable PEs": (COLOURS[0], "-", "D"),
    "peak": ("#777777", "--", ""),
}
"""Colour, line and mark of a contender: the same in every figure."""

LOGARITHMIC = ("mean latency", "tail latency")
"""Quantities that grow without bound where an NPU is overloaded."""


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _label(row: Row) -> str:
    return f"{row.quantity}, {row.unit}" if row.unit else row.quantity


def _plain(value: float, _position: int) -> str:
    """A tick of a logarithmic axis, written out."""
    return f"{value:,.0f}"


def _lines(axes: Any, rows: list[Row], axis: str) -> None:
    """One panel: a line for each contender."""
    for name in _unique([row.of for row in rows]):
        own = [row for row in rows if row.of == name]
        colour, style, mark = LOOKS[name]
        axes.plot(
            [row.x for row in own],
            [row.ours for row in own],
            color=colour,
            linestyle=style,
            marker=mark,
            ms=3.5,
            lw=1.3,
            label=name,
        )
        if own[0].low is not None:
            axes.fill_between(
                [row.x for row in own],
                [row.low for row in own],
                [row.high for row in own],
                color=colour,
                alpha=0.15,
                lw=0,
            )
        if own[0].paper is not None:
            axes.axhline(own[0].paper, color=colour, linestyle="--", lw=1)
    axes.set_xlabel(axis)
    axes.set_ylabel(_label(rows[0]))
    if rows[0].quantity in LOGARITHMIC and rows[0].paper is None:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain)
    else:
        axes.set_ylim(bottom=0)


def _bars(axes: Any, rows: list[Row]) -> None:
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
        axes.bar(
            at,
            [row.ours for row in own],
            0.92 * width,
            yerr=spread,
            capsize=2,
            color=COLOURS[index],
            label=name,
            error_kw={"lw": 1},
        )
        printed = [(x, row.paper) for x, row in zip(at, own, strict=True) if row.paper is not None]
        if printed:
            label = "paper" if index == len(names) - 1 else None
            axes.plot(*zip(*printed, strict=True), "D", color="white", markeredgecolor="black", ms=5, label=label)
    axes.set_xticks(range(len(places)), [place.replace(" on ", "\n") for place in places], fontsize=7)
    axes.set_ylabel(_label(rows[0]))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=7)


def _dots(axes: Any, rows: list[Row]) -> None:
    """One panel: a line for each setting, a mark for each cell."""
    settings, cells = _unique([row.of for row in rows]), _unique([row.at for row in rows])
    studied = rows[0].paper is not None
    for index, cell in enumerate(cells):
        own = [row for row in rows if row.at == cell]
        values = [row.difference if studied else row.ours for row in own]
        axes.plot(
            values, [settings.index(row.of) for row in own], "osD^"[index % 4], color=COLOURS[index], ms=4.5, label=cell
        )
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(settings)), settings)
    axes.invert_yaxis()
    if max(abs(value or 0.0) for row in rows for value in (row.difference if studied else row.ours,)) > 300:
        axes.set_xscale("symlog", linthresh=100)
        axes.xaxis.set_major_formatter(_plain)
    unit = "points" if rows[0].in_points and (studied or rows[0].unit == "points") else "%"
    axes.set_xlabel(f"{rows[0].quantity}{', less the paper' if studied else ''}, {unit}")


def _panels(
    figure: Any, groups: list[list[Row]], columns: int, panel: Callable[[Any, list[Row]], None], titles: list[str]
) -> Any:
    """A grid of panels with one legend."""
    grid = figure.subplots(-(-len(groups) // columns), columns, squeeze=False)
    for axes, rows, title in zip(grid.flat, groups, titles, strict=True):
        panel(axes, rows)
        axes.set_title(title)
    handles = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(5, len(handles)))
    return grid


def draw(item: Item, path: Path) -> None:
    """Draw an item; one without rows has no picture.

    Parameters
    ----------
    item : Item
        What was reproduced.
    path : Path
        Where the picture goes.

    Raises
    ------
    InputError
        If the file system refuses.
    """
    if not item.rows:
        return
    by_quantity = [
        [row for row in item.rows if row.quantity == name] for name in _unique([row.quantity for row in item.rows])
    ]
    by_place = [[row for row in item.rows if row.at == name] for name in _unique([row.at for row in item.rows])]

    def lines(axes: Any, rows: list[Row]) -> None:
        _lines(axes, rows, item.axis)

    if item.name in ("ablation", "sensitivity"):
        settings = len({row.of for row in item.rows})
        with canvas(9, 1.6 + 0.24 * settings) as figure:
            grid = _panels(figure, by_quantity, 2, _dots, [""] * 2)
            grid[0, 1].tick_params(labelleft=False)
            save(figure, path, replace=True)
    elif item.name == "calls":
        with canvas(8, 6) as figure:
            cells = [
                [row for row in rows if row.at == at]
                for rows in by_quantity
                for at in _unique([row.at for row in rows])
            ]
            _panels(figure, cells, 4, lines, [rows[0].at.replace(" on ", "\n") for rows in cells])
            save(figure, path, replace=True)
    elif item.axis:
        groups = by_quantity if len(by_quantity) > 1 else by_place
        titles = [
            f"({letter}) {rows[0].quantity if groups is by_quantity else rows[0].at}"
            for letter, rows in zip("abcd", groups, strict=False)
        ]
        with canvas(8, 3.2 * (len(groups) // 2) + 0.6) as figure:
            _panels(figure, groups, 2, lines, titles)
            save(figure, path, replace=True)
    else:
        shown = [rows for rows in by_quantity if rows[0].unit]
        with canvas(8.5, 3.1 * -(-len(shown) // 2) + 0.5) as figure:
            grid = figure.subplots(-(-len(shown) // 2), 2, squeeze=False)
            for axes, rows in zip(grid.flat, shown, strict=False):
                _bars(axes, rows)
                axes.set_title(rows[0].quantity)
            save(figure, path, replace=True)
