"""Common parts of all pictures: the style, and files that are whole and have the same bytes every time."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats import AnyPath, InputError, check_free, check_installed, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

SUFFIXES = (".svg", ".png")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which readers with colour blindness can tell apart."""

STYLE: dict[Any, Any] = {
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: it can be searched, selected and read aloud
    "svg.hashsalt": "fluidb",  # the same identifiers in every run
    "text.parse_math": False,  # names come from files: a dollar in one starts no formula
}


INK = """\
*{stroke-linejoin: round; stroke-linecap: butt}
svg{color-scheme: light dark; color: #000; fill: currentColor}
@media (prefers-color-scheme: dark){svg{color: #e0e0e0}}"""
"""Style sheet of a file: text and axes are dark on a bright page, and bright on a dark one."""


def legible(text: str, most: int = 32) -> str:
    """Shorten a name from a file, and escape control characters and characters that the font lacks."""
    plain = text.encode("unicode_escape").decode()
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def check_picture(
    path: AnyPath, *, replace: bool, suffixes: tuple[str, ...] | None = SUFFIXES, apart: Iterable[AnyPath | None] = ()
) -> None:
    """Refuse a picture that cannot be written, before it is computed; no ``suffixes`` allow every name."""
    path = Path(path)
    if suffixes is not None and path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: expected a picture that ends in {' or '.join(suffixes)}, found {path.name}")
    check_installed(f"{path}: a picture", "matplotlib", "plot")
    check_free(path, replace, apart=apart)


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """A figure in the project's style, its size in inches; the style holds inside the block."""
    from matplotlib.figure import Figure

    with _style():
        yield Figure(figsize=(width, height))


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context(STYLE | {"axes.prop_cycle": cycler(color=COLOURS)}):
        yield


def describe(figure: Figure, title: str, said: str) -> Figure:
    """Finish a figure: what was found is its title, and with what is drawn the text for screen readers in its file."""
    figure.set_label(f"{title}. {said}")
    most = int(13 * figure.get_figwidth())  # characters in a line
    figure.suptitle("\n".join(textwrap.fill(text, most) for text in (said, title)), fontsize=10)
    for axes in figure.axes:
        axes.get_xlim(), axes.get_ylim()  # limits that follow from the data are computed when they are asked for
        _mark(axes.xaxis)
        _mark(axes.yaxis)
    return figure


def _mark(axis: Axis) -> None:
    """Say in an axis' label that its scale is logarithmic, or that it begins far from 0."""
    from matplotlib.scale import SymmetricalLogTransform
    from matplotlib.ticker import FixedFormatter

    low, high = sorted(axis.get_view_interval())
    scale, label = axis.get_scale(), axis.get_label_text()
    mark = "log scale" if scale == "log" else ""
    if isinstance(transform := axis.get_transform(), SymmetricalLogTransform):
        mark = f"linear to {transform.linthresh:,.4g}, then log scale"
    fixed = isinstance(axis.get_major_formatter(), FixedFormatter)
    if scale == "linear" and not fixed and not -high <= 0.1 * (high - low) >= low:
        mark = "not from 0"
    if label and mark:
        axis.set_label_text(f"{label} ({mark})")


def inches(text: str, size: float) -> float:
    """Width of the widest line of a text of this size in points."""
    from matplotlib.textpath import TextPath

    return max(float(TextPath((0, 0), line, size=size).get_extents().width) / 72 for line in text.split("\n"))


NAME_PLACES = (
    (5, -9, "left"),
    (5, 4, "left"),
    (-5, 4, "right"),
    (-5, -9, "right"),
    (5, -18, "left"),
    (-5, 13, "right"),
)
"""Where the name of a point may stand, in points of type from it, the best place first."""


def name_points(axes: Axes, points: Iterable[tuple[float, float, str]]) -> None:
    """Write names beside points, each at the first place inside the axes that covers no other; without room none."""
    figure, taken = axes.get_figure(root=True), list[Any]()
    assert figure is not None
    figure.draw_without_rendering()  # places depend on the layout
    room = axes.get_window_extent()
    for x, y, name in points:
        for right, up, side in NAME_PLACES:
            text = axes.annotate(name, (x, y), (right, up), textcoords="offset points", fontsize=7, ha=side)
            box = text.get_window_extent()
            within = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
            if within and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def say_infinite(axes: Axes, names: Sequence[str]) -> None:
    """Say in a panel whose figures are infinite, because they cannot be drawn."""
    if names:
        said = textwrap.fill(f"infinite, not drawn: {', '.join(names)}", 44)
        axes.text(0.02, 0.98, said, transform=axes.transAxes, va="top", fontsize=7)


def durations(longest_s: float) -> tuple[str, float]:
    """Unit in which durations up to ``longest_s`` are drawn, and its number in a second."""
    return ("us", 1e6) if longest_s < 1e-2 else ("ms", 1e3) if longest_s < 10 else ("s", 1.0)


def round_places(low: float, high: float) -> LogLocator:
    """Ticks of a logarithmic axis with these ends: 1, 2, 5, 10, and so on; over more than three decades 1, 10, 100."""
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(1, 2, 5) if high < 1e3 * low else (1,), numticks=99)


def round_ticks(*logarithmic: Axis) -> None:
    """Put the ticks of logarithmic axes at round places, with plain numbers."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    for axis in logarithmic:
        axis.set_major_locator(round_places(*axis.get_view_interval()))
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: AnyPath, *, replace: bool) -> None:
    """Write a picture, ``.svg`` or ``.png``, whole or not at all; the same figure gives the same bytes."""
    write_file(path, picture_bytes(figure, Path(path).suffix.lower().lstrip(".")), replace=replace)


def picture_bytes(figure: Figure, kind: str) -> bytes:
    """Content of a figure's file of this ``kind``, ``svg`` or ``png``."""
    held = io.BytesIO()
    told = {"Title": figure.get_label()} if figure.get_label() else {}
    with _style():
        ground = "none" if kind == "svg" else "white"  # pixels cannot follow the page
        figure.savefig(
            held, format=kind, facecolor=ground, metadata=told | {"Date" if kind == "svg" else "Software": None}
        )
    if kind == "png":
        return held.getvalue()
    text = held.getvalue().replace(b"#000000", b"currentColor")
    return text.replace(b"*{stroke-linejoin: round; stroke-linecap: butt}", INK.encode(), 1)
