"""Columns that are drawn for the requests of a trace: widths, steps, predictions, constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .constraints import Constraint, parse_accuracies, parse_slos
from .predictions import predict
from .randomness import ACCURACIES, SLOS, STEPS, WIDTHS, stream
from .shares import Shares
from .trace import Trace
from .widths import Follow, LogNormal, parse_steps, parse_widths


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Columns to be drawn, each by where its values come from; ``None`` where a column is not drawn.

    Attributes
    ----------
    width : LogNormal or Shares, optional
        Where widths are drawn from.
    steps : Follow, optional
        How steps follow from widths.
    predict_width : float, optional
        Correlation (:func:`.predictions.predict`) of predictions with widths.
    min_accuracy, slo_s : Constraint or Shares, optional
        Where the accuracies that requests ask for, and their latency objectives, are drawn from.
    """

    width: LogNormal | Shares | None = None
    steps: Follow | None = None
    predict_width: float | None = None
    min_accuracy: Constraint | Shares | None = None
    slo_s: Constraint | Shares | None = None

    def useless(self, *, widths: object | None, steps: int, subnets: object | None) -> list[str]:
        """Columns that change nothing where they are served."""
        faults = []
        if self.width is not None and self.steps is None and widths is None:
            faults.append("width: expected a table with widths, or steps that follow from them, found neither")
        if self.steps is not None and steps == 1:
            faults.append("steps: expected a network whose last stage repeats, found one that runs each stage once")
        if self.min_accuracy is not None and subnets is None:
            faults.append("min_accuracy: expected a table with SubNets, found one network alone")
        return faults


def parse_columns(
    *,
    width: str | None = None,
    steps: str | None = None,
    predict_width: float | None = None,
    min_accuracy: str | None = None,
    slo: str | None = None,
    named: Callable[[str], str] = str,
) -> Columns:
    """Read which columns are to be drawn."""
    return Columns(
        width=None if width is None else parse_widths(width, named("width")),
        steps=None if steps is None else parse_steps(steps, named("steps")),
        predict_width=predict_width,
        min_accuracy=None if min_accuracy is None else parse_accuracies(min_accuracy, named("min_accuracy")),
        slo_s=None if slo is None else parse_slos(slo, named("slo")),
    )


def add_columns(trace: Trace, seed: int, columns: Columns, *, predict_depth: float | None = None) -> Trace:
    """Draw columns that a trace does not have, each from a random stream of its own."""
    asked = {
        "width": columns.width, "steps": columns.steps, "predicted_depth": predict_depth,
        "predicted_width": columns.predict_width, "min_accuracy": columns.min_accuracy, "slo_s": columns.slo_s,
    }  # fmt: skip
    where = trace.source or "the trace"
    faults = [
        f"{name}: expected no such column in {where}, as it is to be drawn; leave out one of the two"
        for name, value in asked.items()
        if value is not None and getattr(trace, name) is not None
    ]
    if columns.width is None and trace.width is None:
        if columns.steps is not None:
            faults.append("steps: expected widths, which steps follow from, found none; draw the column width too")
        if columns.predict_width is not None:
            faults.append("predict_width: expected widths to predict, found none; draw the column width too")
    if predict_depth is not None and trace.exits is None and trace.steps is None and columns.steps is None:
        faults.append(
            f"predict_depth: expected a column exit or steps in {where} to predict, found neither; where exits are "
            "drawn later, `fluidb serve-sim --predict-depth` predicts them"
        )
    if faults:
        raise InputError(faults)
    if columns.min_accuracy is not None:
        trace = replace(trace, min_accuracy=columns.min_accuracy.draw(stream(seed, ACCURACIES), len(trace)))
    if columns.slo_s is not None:
        trace = replace(trace, slo_s=columns.slo_s.draw(stream(seed, SLOS), len(trace)))
    if columns.width is not None:
        trace = replace(trace, width=columns.width.draw(stream(seed, WIDTHS), len(trace)))
    if columns.steps is not None:
        assert trace.width is not None  # a fault above
        trace = replace(trace, steps=columns.steps.draw(stream(seed, STEPS), trace.width))
    depths = trace.exits if trace.steps is None else trace.steps
    if predict_depth is not None and depths is not None:
        trace = replace(trace, predicted_depth=_predicted("predicted_depth", depths, predict_depth, seed))
    if columns.predict_width is not None and trace.width is not None:
        trace = replace(trace, predicted_width=_predicted("predicted_width", trace.width, columns.predict_width, seed))
    return trace


def _predicted(
    column: str, actual: NDArray[np.int64] | NDArray[np.float64], rho: float, seed: int
) -> NDArray[np.float64]:
    """Predictions within the limits of what is predicted."""
    return predict(actual, rho, seed, column, low=float(actual.min()), high=float(actual.max()))
