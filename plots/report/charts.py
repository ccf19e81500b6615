"""The report's pictures: matplotlib lays them out, and the page's style sheet colours them.

matplotlib writes colours into the shapes, which neither a dark page nor the page's Content-Security-Policy allows.
So each artist carries a tag (its ``gid``) with the class of its shapes and its text, and only tagged shapes and ticks
are taken from matplotlib's SVG, without any style.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element, fromstring

import numpy as np

from ...formats.array_types import Bools, Floats, Ints
from ...serving.batches import PREEMPTS
from ...serving.outcome import Runs
from ..canvas import COLOURS, canvas, durations, round_places
from .markup import element, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 360.0
"""Width of every picture, in points: the width of a phone's screen."""

MAX_SERIES = len(COLOURS)
"""Most series, which differ in colours and dashes."""

_MARGIN, _LEFT, _RIGHT = 8.0, 34.0, 352.0
"""Margin of the plotting area; its left end if numbers stand beside it; its right end."""


class ChartUnit(NamedTuple):
    """A unit in which values are shown."""

    name: str
    scale: float  # number of units in a second or a byte
    digits: int  # behind the point

    def number(self, value: float) -> str:
        """Write a value with the digits of the unit."""
        return f"{self.scale * value:,.{self.digits}f}"

    def short(self, value: float) -> str:
        """Write a value for a tick."""
        return f"{self.scale * value:,.6g}"


def time_unit(longest_s: float) -> ChartUnit:
    """Unit of durations up to ``longest_s``: one for a whole table, so that columns align."""
    name, per_s = durations(longest_s)
    return ChartUnit(name, per_s, {"us": 1, "ms": 2, "s": 3}[name])


PERCENT = ChartUnit("%", 1e2, 2)
"""Shares."""


class ChartPoint(NamedTuple):
    """A value with its name."""

    name: str
    value: float
    text: str  # stands beside the value
    interval: tuple[float, float] | None = None
    series: int = 0


def draw_bars(points: Sequence[ChartPoint]) -> Element:
    """Draw shares as bars, one under another, each on a track for the whole."""
    with _sheet(31.0 * len(points)) as sheet:
        _write_rows(sheet, 31, points)
        tops = 31 * np.arange(len(points)) + 19
        sheet.barh(tops, WIDTH, 8, align="edge", gid=_tag("track"))
        sheet.barh(tops, [WIDTH * min(point.value, 1) for point in points], 8, align="edge", gid=_tag("bar"))
        return _picture(sheet, _said(points))


def draw_intervals(
    points: Sequence[ChartPoint], tick: Callable[[float], str], mark: tuple[float, str] | None
) -> Element:
    """Draw values with their intervals, one under another; ``mark`` is a value to mark on the axis, and its name."""
    bottom = 36.0 * len(points) + 4
    most = (
        max((max(point.value, *(point.interval or ()), mark[0] if mark else 0) for point in points), default=0) or 1.0
    )
    with _sheet(bottom + (36 if mark else 20)) as sheet:
        axes = _area(sheet, _MARGIN, 0, bottom, (0, most), tick)
        _write_rows(sheet, 36, points)
        if mark is not None:
            axes.axvline(mark[0], gid=_tag("mark"))
            _write(sheet, WIDTH, bottom + 30, f"dashed: {mark[1]}", "tick", "end")
        for y, point in zip(range(26, 10**9, 36), points, strict=False):
            if point.interval is not None:
                ends = [max(bound, 0.0) for bound in point.interval]  # Student's interval may reach below 0
                axes.plot(ends, [y, y], marker="|", markersize=10, gid=_tag(f"whisker s{point.series}"))
            axes.plot(point.value, y, "o", markersize=8, gid=_tag(f"dot s{point.series}"))
        return _picture(sheet, _said(points))


def draw_heatmap(
    share: Floats, layers: Sequence[str], stage: Ints,
    batches: Sequence[int],
) -> Element:  # fmt: skip
    """Draw a cell for each layer, left to right, and batch size, top to bottom; a darker cell has a larger share."""
    from matplotlib.patches import Rectangle

    top, width = 18.0, (_RIGHT - _LEFT) / len(layers)
    bottom = top + 16 * len(batches)
    with _sheet(bottom + 22) as sheet:
        _write(sheet, 0, top - 6, "batch", "tick")
        for row, b in enumerate(batches):
            _write(sheet, _LEFT - 6, top + 16 * row + 12, str(b), "tick", "end")
        for (column, row), value in np.ndenumerate(share):
            said = f"{layers[column]}, batch {batches[row]}: {100 * value:.1f} %"
            tag = _tag("cell", fill_opacity=f"{value:.3f}", title=said)
            sheet.add_patch(Rectangle((_LEFT + width * column, top + 16 * row), width, 15, gid=tag))
        free = 0.0
        for number, start in enumerate(np.flatnonzero(np.diff(stage, prepend=0)).tolist(), 1):
            x = _LEFT + width * start
            sheet.plot([x, x], [top - 14, bottom], gid=_tag("cut"))
            if x >= free:  # numbers do not overlap
                _write(sheet, x + 4, top - 6, f"stage {number}" if number == 1 else str(number), "tick")
                free = x + (50 if number == 1 else 22)
        _write(sheet, _LEFT, bottom + 14, f"{len(layers)} layers, in execution order", "tick")
        for step in range(5):
            tag = _tag("cell", fill_opacity=f"{step / 4:g}")
            sheet.add_patch(Rectangle((226 + 18 * step, bottom + 6), 18, 10, gid=tag))
        sheet.add_patch(Rectangle((226, bottom + 6), 90, 10, gid=_tag("frame")))
        _write(sheet, 222, bottom + 14, "0", "tick", "end")
        _write(sheet, _RIGHT, bottom + 14, "100 %", "tick", "end")
        low, high = 100 * share.min(), 100 * share.max()
        said = f"{len(layers)} layers by {len(batches)} batch sizes, from {low:.1f} % to {high:.1f} %."
        return _picture(sheet, said)


class Roof(NamedTuple):
    """Bounds of every layer of a design: peak of compute, and bandwidth of off-chip memory."""

    peak_gop_s: float
    bandwidth_gb_s: float


def draw_roofline(
    layers: Sequence[str], intensity: Floats, gop_s: Floats, share: Floats,
    roof: Roof,
) -> Element:  # fmt: skip
    """Draw a dot for each layer, its area the share of the time, under the two roofs; both axes are logarithmic."""
    bottom, ridge = 218.0, roof.peak_gop_s / roof.bandwidth_gb_s
    left, right = min(float(intensity.min()), ridge) / 2, max(float(intensity.max()), ridge) * 2
    low, high = min(float(gop_s.min()), roof.peak_gop_s / 10) / 1.5, 1.6 * roof.peak_gop_s

    def height(value: float) -> float:
        return bottom - (bottom - 8) * float(np.log(value / low) / np.log(high / low))

    with _sheet(bottom + 38) as sheet:
        axes = _area(sheet, _LEFT, 8, bottom, (left, right), "{:,g}".format, scale="log")
        ticks = [value for value in round_places(low, high).tick_values(low, high) if low < value < high]
        axes.set_yticks([height(value) for value in ticks], [f"{value:,g}" for value in ticks])
        start = max(left, low / roof.bandwidth_gb_s)
        ends = [height(roof.bandwidth_gb_s * start), height(roof.peak_gop_s), height(roof.peak_gop_s)]
        axes.plot([start, ridge, right], ends, gid=_tag("base"))
        for name, x, y, part in sorted(zip(layers, intensity, gop_s, share, strict=True), key=lambda layer: -layer[3]):
            said = f"{name}: {x:,.3g} operations/byte, {y:,.4g} GOP/s, {100 * part:.1f} % of the time"
            axes.plot(x, height(y), "o", markersize=2 + 24 * np.sqrt(part), gid=_tag("dot s0 faint", title=said))
        _write(sheet, _RIGHT, height(roof.peak_gop_s) - 5, f"{roof.peak_gop_s:,.1f} GOP/s", "tick", "end")
        _write(sheet, _LEFT + 4, 16, f"GOP/s; slope: {roof.bandwidth_gb_s:g} GB/s", "tick")
        _write(sheet, _RIGHT, bottom + 30, "operations per off-chip byte, both axes logarithmic", "tick", "end")
        bound = int((intensity < ridge).sum())
        return _picture(sheet, f"{len(layers)} layers, {bound} of them left of the ridge, where memory is the roof.")


def shares_up_to(latency_s: Floats, grid_s: Floats) -> Floats:
    """Share of the latencies that are no longer than each of ``grid_s``."""
    return np.searchsorted(np.sort(latency_s), grid_s, side="right") / len(latency_s)


def draw_cdf(latencies: Sequence[tuple[str, Floats]], slo_s: float | None) -> Element:
    """Draw the distribution function of each series, with a step for each point of the width."""
    bottom = 178.0
    finite = np.concatenate([values[np.isfinite(values)] for _, values in latencies])
    shortest, longest = (float(finite.min()), float(finite.max())) if len(finite) else (1e-3, 1.0)
    low, high = 0.9 * shortest, 1.1 * longest
    unit = time_unit(high)
    with _sheet(bottom + 38 + 18 * ((len(latencies) + 1) // 2)) as sheet:
        axes = _area(sheet, _LEFT, 8, bottom, (low, high), unit.short, scale="log")
        axes.set(ylim=(0, 100), yticks=range(0, 101, 25))
        if slo_s is not None and low < slo_s < high:
            axes.axvline(slo_s, gid=_tag("mark"))
        grid_s = np.geomspace(low, high, int(_RIGHT - _LEFT) + 1)
        for index, (name, values) in enumerate(latencies):
            shares = shares_up_to(values, grid_s)
            steps = np.append(np.flatnonzero(np.diff(shares, prepend=-1.0)), len(shares) - 1)
            axes.step(grid_s[steps], 100 * shares[steps], where="post", gid=_tag(f"curve s{index}"))
            x, y = _LEFT + (_RIGHT - _LEFT) / 2 * (index % 2), bottom + 50 + 18 * (index // 2)
            sheet.plot([x, x + 24], [y - 4, y - 4], gid=_tag(f"curve s{index}"))
            _write(sheet, x + 30, y, shortened(name, 18))
        slo = "" if slo_s is None else f"; dashed: SLO {unit.short(slo_s)} {unit.name}"
        _write(sheet, _RIGHT, bottom + 30, f"latency, {unit.name}, logarithmic{slo}", "tick", "end")
        said = f"Share of requests by latency, from {unit.number(shortest)} to {unit.number(longest)} {unit.name}."
        return _picture(sheet, said)


class BusyTimes(NamedTuple):
    """Times of runs, an item for each: its ends, batch size, lane, and if it preempted other samples."""

    begin_s: Floats
    end_s: Floats
    batch: Ints
    preempts: Bools
    lane: Ints


def busy_until(runs: Sequence[Runs | None], until_s: float) -> BusyTimes:
    """Times of the runs of each network that began before ``until_s``, cut off there, in order of time."""
    known = [network_runs for network_runs in runs if network_runs is not None]
    if not known:
        return BusyTimes(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.int64))
    columns = [
        (
            network_runs.begin_s,
            network_runs.end_s,
            network_runs.batch,
            (network_runs.flags & PREEMPTS) > 0,
            network_runs.lane,
        )
        for network_runs in known
    ]
    begin_s, end_s, batch, preempts, lane = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(begin_s, kind="stable")
    kept = order[begin_s[order] < until_s]
    return BusyTimes(begin_s[kept], np.minimum(end_s[kept], until_s), batch[kept], preempts[kept], lane[kept])


def draw_strips(strips: Sequence[tuple[str, BusyTimes]], begin_s: float, end_s: float, b_max: int) -> Element:
    """Draw a strip for each series: its runs, as high as their batches, with a mark at each preemption."""
    bottom, unit = 60.0 * len(strips) + 4, time_unit(end_s - begin_s)
    with _sheet(bottom + 36) as sheet:
        axes = _area(sheet, _MARGIN, 0, bottom, (0, unit.scale * (end_s - begin_s)), "{:,.6g}".format)
        for index, (name, busy) in enumerate(strips):
            y = 60 * index + 54
            _write(sheet, 0, y - 40, shortened(name, 26))
            axes.axhline(y, gid=_tag("base"))
            for lane in np.unique(busy.lane):  # runs of several lanes overlap: the highest covers the others
                here = busy.lane == lane
                edges = unit.scale * (np.column_stack((busy.begin_s[here], busy.end_s[here])).ravel() - begin_s)
                tops = np.column_stack((y - 34 * busy.batch[here] / b_max, np.full(here.sum(), y))).ravel()[:-1]
                lasting = np.diff(edges) > 0  # no pause where a run begins as another ends
                starts, tops = edges[:-1][lasting], tops[lasting]
                changes = np.diff(tops, prepend=y) != 0
                if changes.any():
                    steps = np.append(starts[changes], edges[-1])
                    axes.stairs(tops[changes], steps, baseline=y, fill=True, gid=_tag(f"fill s{index}"))
            marked = unit.scale * (busy.begin_s[busy.preempts] - begin_s)
            axes.plot(marked, np.full(len(marked), y + 3.5), "^", markersize=5, gid=_tag("ink"))
        _write(sheet, WIDTH, bottom + 30, f"{unit.name} after the first arrival", "tick", "end")
        return _picture(sheet, "; ".join(f"{name}: {len(busy.batch)} runs" for name, busy in strips))


@contextmanager
def _sheet(height: float) -> Iterator[Axes]:
    """Axes over a whole picture, whose coordinates are points from the upper left corner."""
    with canvas(WIDTH / 72, height / 72) as figure:
        figure.set_layout_engine("none")
        sheet = figure.add_axes((0, 0, 1, 1), zorder=1, xlim=(0, WIDTH), ylim=(height, 0))
        sheet.set_axis_off()
        yield sheet


def _area(
    sheet: Axes, left: float, top: float, bottom: float, limits: tuple[float, float], tick: Callable[[float], str],
    scale: str = "linear",
) -> Axes:  # fmt: skip
    """Axes for data on a part of the sheet; their y axis counts points from the top, as the sheet does."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    height = sheet.get_ylim()[0]
    box = (left / WIDTH, 1 - bottom / height, (_RIGHT - left) / WIDTH, (bottom - top) / height)
    axes = sheet.figure.add_axes(box, frame_on=False, axisbelow=True, xscale=scale, xlim=limits, ylim=(bottom, top))
    axes.tick_params(length=0, labelsize=10, pad=6)
    axes.set_yticks([])
    linear = MaxNLocator(6, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_locator(round_places(*limits) if scale == "log" else linear)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: tick(value))
    return axes


def _tag(class_: str, **attributes: str) -> str:
    return json.dumps({"class_": class_} | attributes)


def _write(sheet: Axes, x: float, y: float, text: str, class_: str = "label", anchor: str = "start") -> None:
    sheet.text(x, y, "x", gid=_tag(class_, text=text, text_anchor=anchor))


def _write_rows(sheet: Axes, height: float, points: Sequence[ChartPoint]) -> None:
    for index, point in enumerate(points):
        _write(sheet, 0, height * index + 14, shortened(point.name, 26))
        _write(sheet, WIDTH, height * index + 14, point.text, "value", "end")


def _said(points: Sequence[ChartPoint]) -> str:
    return "; ".join(f"{point.name}: {point.text}" for point in points)


def _picture(sheet: Axes, said: str) -> Element:
    """SVG element of a sheet, with a description for screen readers."""
    for axes in sheet.figure.axes:
        for axis, anchor in ((axes.xaxis, "middle"), (axes.yaxis, "end")):
            for tick in axis.get_major_ticks():
                tick.gridline.set_gid(_tag("grid"))
                tick.label1.set_gid(_tag("tick", text_anchor=anchor))
    held = io.StringIO()
    sheet.figure.canvas.print_figure(held, format="svg")
    drawn = fromstring(held.getvalue())  # noqa: S314  (matplotlib wrote it a moment ago)
    markers = {f"#{path.get('id')}": path.get("d", "") for path in drawn.iterfind(".//{*}defs/{*}path")}
    shapes = (shape for group in drawn.iterfind(".//{*}g") for shape in _shapes(group, markers))
    return element("svg", element("desc", said), *shapes, viewBox=f"0 0 {WIDTH:g} {sheet.get_ylim()[0]:g}")


def _shapes(group: Element, markers: dict[str, str]) -> Iterator[Element]:
    """Shapes of a tagged group of matplotlib's SVG; other groups give none."""
    if not group.get("id", "").startswith("{"):
        return
    tag = json.loads(group.get("id", ""))
    text, said = tag.pop("text", None), tag.pop("title", None)

    def told() -> list[Element]:
        return [] if said is None else [element("title", said)]

    for shape in group.iter():
        kind = shape.tag.rpartition("}")[2]
        places = {key: _short(value) for key, value in shape.items() if key in ("d", "x", "y")}
        if kind == "text":
            yield element("text", text or shape.text or "", **places, **tag)
        elif kind == "use":
            d = markers[shape.get("{http://www.w3.org/1999/xlink}href", "")]
            yield element("path", *told(), d=_short(d), transform=f"translate({places['x']} {places['y']})", **tag)
        elif kind == "path" and shape.get("id") is None:
            yield element("path", *told(), **places, **tag)


def _short(numbers: str) -> str:
    """Round coordinates to a tenth of a point."""
    rounded = re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number[0]), 1):g}", numbers)
    return re.sub(r"\s*([MLCz])\s*", r"\1", rounded)
