"""Picture of ``fluidb samples show``: exit share and accuracy by threshold, and calibration, at every exit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..traffic.description import ExitDescription
from .canvas import canvas, describe, legible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..traffic.measures import Measure

MOST = 7
"""Most exits that are drawn, evenly spread; more lines could not be told apart."""


def draw_samples(exits: Sequence[ExitDescription], measure: Measure, title: str) -> Figure:
    """Draw exit share and accuracy by threshold, and accuracy by confidence if the answers have confidences."""
    sure = [*enumerate(exits, 1)]
    if len(sure) > MOST:
        sure = [sure[round(at * (len(sure) - 1) / (MOST - 1))] for at in range(MOST)]
    calibrated = measure.probability
    with canvas(10 if calibrated else 7, 3.6) as figure:
        shares, accuracies, *others = figure.subplots(1, 2 + calibrated)
        for number, description in sure:
            rows = [row for row in description.thresholds if not isinstance(row.threshold, str)]
            shares.plot(
                [row.threshold for row in rows], [row.exit_share for row in rows], marker=".", label=f"exit {number}"
            )
            kept = [row for row in rows if row.accuracy is not None]
            accuracies.plot([row.threshold for row in kept], [row.accuracy for row in kept], marker=".")
            ranges = description.calibration
            for calibration in others:
                calibration.plot([row.confidence for row in ranges], [row.accuracy for row in ranges], marker=".")
        accuracies.axhline(exits[-1].accuracy, color="0.5", linestyle=":", label="end of the network")
        for calibration in others:
            calibration.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="confidence is accuracy")
            calibration.set_xlabel("confidence")
            calibration.set_ylabel("accuracy")
        for axes, label in ((shares, "share that leaves"), (accuracies, "accuracy of those that leave")):
            axes.set_xlabel(f"{measure.name} threshold{f', {measure.unit}' if measure.unit else ''}")
            axes.set_ylabel(label)
        for axes in (shares, accuracies, *others):
            axes.set_ylim(-0.02, 1.02)
            axes.legend(fontsize=7)
        said = (
            f"The first of {len(exits)} exits has an accuracy of {exits[0].accuracy:.3g}, the last of "
            f"{exits[-1].accuracy:.3g}."
        )
        return describe(figure, f"Samples {legible(title, 60)}", said)
