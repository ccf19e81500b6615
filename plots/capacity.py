"""Picture of ``fluidb capacity``: the required figures at each rate that was tried, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..serving.figures import SHOWN_IN
from ..serving.requirements import Requirement
from ..studies.capacity import Capacity
from ..studies.load_search import KEPT, NOT_KEPT, UNDECIDED
from .canvas import COLOURS, canvas, describe, durations, say_infinite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICTS = {KEPT: (COLOURS[2], "o"), UNDECIDED: (COLOURS[4], "D"), NOT_KEPT: (COLOURS[1], "X")}
"""Colour and marker of each verdict."""


def draw_capacity(capacity: Capacity, requirements: Sequence[Requirement]) -> Figure:
    """Draw the required figures over the rate, or the number of clients, with intervals, bounds and verdicts."""
    axis, at, unit = "arrival rate, requests/s", "arrival rate", "requests/s"
    if capacity.clients is not None:
        axis, at, unit = "clients", "number of clients", "clients"
    if capacity.growth is not None:
        axis, at, unit = "factor of the rates", "factor of the rates", "times the rates"
    with canvas(6.5, 1.6 + 2.5 * len(requirements)) as figure:
        panels = figure.subplots(len(requirements), 1, sharex=True, squeeze=False)[:, 0]
        for index, (axes, requirement) in enumerate(zip(panels, requirements, strict=True)):
            _panel(axes, capacity, requirement, index)
        panels[-1].set_xlabel(axis)
        handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
        kept, not_kept = _reached(capacity)
        said = f"No {at} keeps all requirements." if kept is None else f"All requirements hold up to {kept:.4g} {unit}."
        if not_kept is not None:
            said += f" At {not_kept:.4g} {unit}, {capacity.limited_by} is surely broken."
        return describe(figure, f"Requirements over the {at}", said)


def _reached(capacity: Capacity) -> tuple[float | None, float | None]:
    """The highest rate, factor of rates or number of clients that is kept, and the lowest that is not."""
    if capacity.growth is not None:
        return capacity.growth.kept, capacity.growth.not_kept
    if capacity.clients is None:
        return capacity.kept_per_s, capacity.not_kept_per_s
    return capacity.clients.kept, capacity.clients.not_kept


def _panel(axes: Axes, capacity: Capacity, requirement: Requirement, index: int) -> None:
    values = [probe.estimates[index] for probe in capacity.probes]
    longest = max(requirement.bound, *(value.value for value in values if np.isfinite(value.value)))
    name, scale = durations(longest) if requirement.unit == "s" else SHOWN_IN[requirement.unit]
    ends_at = [value.interval.high for value in values if np.isfinite(value.interval.high)]
    top = 1.3 * scale * max([longest, *ends_at])
    for verdict, (colour, marker) in VERDICTS.items():
        here = [
            (probe, value) for probe, value in zip(capacity.probes, values, strict=True) if probe.verdict == verdict
        ]
        loads, mean = [probe.load for probe, _ in here], scale * np.array([value.value for _, value in here])
        ends = np.array([value.interval for _, value in here], dtype=np.float64).reshape(-1, 2).T
        ends = np.where(np.isfinite(ends), ends, 10 * top / scale)  # a run that is too short has no upper end
        axes.errorbar(
            loads, mean, np.abs(scale * ends - mean), color=colour, marker=marker, linestyle="none", markersize=5,
            capsize=2, label=verdict,
        )  # fmt: skip
    endless = [
        f"{probe.load:.4g}" for probe, value in zip(capacity.probes, values, strict=True) if np.isinf(value.value)
    ]
    say_infinite(axes, endless)
    axes.axhline(scale * requirement.bound, color="black", linestyle="--", linewidth=1, label="bound")
    kept, highest = _reached(capacity)[0], capacity.probes[-1].load
    if kept is not None:
        axes.axvspan(0, kept, color=VERDICTS[KEPT][0], alpha=0.08, linewidth=0)
    if capacity.clients is None:
        highest = max(capacity.saturation_per_s, capacity.high_per_s)
        axes.axvline(capacity.saturation_per_s, color="gray", linestyle=":", linewidth=1.2, label="saturation")
    # an overloaded NPU's latency grows with the length of the run: the part beyond twice the bound is compressed
    axes.set_yscale("symlog", linthresh=2 * scale * requirement.bound, linscale=2)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set(xlim=(0, 1.05 * highest), ylabel=f"{requirement.figure}, {name}")
    axes.set_ylim(0, top)
    axes.set_title(requirement.text)
