"""Picture of ``fluidb calibrate``: predicted over measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dse.device.calibration import Calibration
from ..dse.device.errors import Bound
from .canvas import COLOURS, canvas, describe, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_calibration(calibration: Calibration) -> Figure:
    """Draw each row, a colour for what bounds it, filled if it was held out; on the line both times are equal."""
    times = np.array([(row.measured_s, row.predicted_s) for row in calibration.rows]) * 1e3
    ends = np.array([times.min(), times.max()])
    with canvas(5, 4.4) as figure:
        axes = figure.subplots()
        axes.plot(ends, ends, color="0.3", linewidth=1)
        for colour, bound in zip(COLOURS, Bound, strict=False):
            for held_out, fill, word in ((False, "none", "fitted"), (True, colour, "held out")):
                here = [row.bound == bound and row.held_out == held_out for row in calibration.rows]
                if any(here):
                    label = f"{bound}, {word}"
                    axes.plot(*times[here].T, "o", markersize=5, color=colour, markerfacecolor=fill, label=label)
        axes.set(xscale="log", yscale="log", xlabel="measured, ms", ylabel="predicted, ms")
        round_ticks(axes.xaxis, axes.yaxis)
        axes.legend(fontsize=7)
        said = "The error of a further network is not known."
        if calibration.error is not None:
            low, high, sure, _ = calibration.error
            said = f"A further network takes {low:.3g} to {high:.3g} times as long as predicted, at {sure:.0%}."
        return describe(figure, f"Times of {len(calibration.rows)} rows of {legible(calibration.engine.name)}", said)
