"""Picture of ``fluidb platforms fit``: measured times over work, the fitted line, and the residuals."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ..machine.fit import DeviceFit
from .canvas import COLOURS, canvas, describe, durations, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_fit(fit: DeviceFit, title: str) -> Figure:
    """Draw measured times with the fitted line, and residuals, a colour for each size of the kernel."""
    points = fit.points
    work, measured_s = (np.array([getattr(point, key) for point in points]) for key in ("gflop", "measured_s"))
    residual_s = np.array([point.residual_s for point in points])
    kernels = np.array([point.convolution.kernel for point in points])
    unit, per_s = durations(float(measured_s.max()))
    line = np.geomspace(work.min(), work.max(), 200)
    with canvas(9, 3.8) as figure:
        times, left = figure.subplots(1, 2)
        times.plot(line, per_s * (line / fit.gflop_s + fit.layer_s), color="0.3", linewidth=1, label="fit")
        for colour, kernel in zip(itertools.cycle(COLOURS), np.unique(kernels)):
            here = kernels == kernel
            times.plot(
                work[here], per_s * measured_s[here], "o", markersize=4, color=colour, label=f"{kernel} x {kernel}"
            )
            left.plot(work[here], per_s * residual_s[here], "o", markersize=4, color=colour)
        left.axhline(0, color="0.3", linewidth=1)
        times.set(xscale="log", yscale="log", ylabel=f"measured, {unit}")
        left.set(xscale="log", ylabel=f"measured less fitted, {unit}")
        for axes in (times, left):
            axes.set_xlabel("GFLOP")
            round_ticks(axes.xaxis)
        round_ticks(times.yaxis)
        times.legend(title="kernel", fontsize=7)
        said = (
            f"The device makes {fit.gflop_s:.4g} GFLOP/s and needs {per_s * fit.layer_s:.3g} {unit} more for each "
            f"layer (R2 = {fit.r2:.4f})."
        )
        return describe(figure, f"Times of {len(points)} convolutions of {legible(title)}", said)
