"""Columns that are drawn for the requests of a trace: widths, steps, predictions, constraints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .constraints import Constraint
from .predictions import predict
from .randomness import ACCURACIES, SLOS, STEPS, WIDTHS, stream
from .trace import Trace
from .widths import Follow, LogNormal, Shares


def add_columns(
    trace: Trace,
    seed: int,
    *,
    width: LogNormal | Shares | None = None,
    steps: Follow | None = None,
    predict_depth: float | None = None,
    predict_width: float | None = None,
    min_accuracy: Constraint | None = None,
    slo_s: Constraint | None = None,
) -> Trace:
    """Draw columns that a trace does not have, each from a random stream of its own.

    Parameters
    ----------
    trace : Trace
        Requests.
    seed : int
        Same seed, same columns.
    width : LogNormal or Shares, optional
        Where widths are drawn from.
    steps : Follow, optional
        How steps follow from widths.
    predict_depth : float, optional
        Correlation (:func:`.predictions.predict`) of predictions with the steps of the trace, or with its exits if it
        has none.
    predict_width : float, optional
        Correlation of predictions with its widths.
    min_accuracy, slo_s : Constraint, optional
        Where the accuracies that requests ask for, and their latency objectives, are drawn from.

    Returns
    -------
    Trace
        The requests with these columns.

    Raises
    ------
    InputError
        If a column is there already, what it follows from is not, or nothing is to be added.
    """
    asked = {
        "width": width, "steps": steps, "predicted_depth": predict_depth, "predicted_width": predict_width,
        "min_accuracy": min_accuracy, "slo_s": slo_s,
    }  # fmt: skip
    wanted = [name for name, value in asked.items() if value is not None]
    if not wanted:
        raise InputError(f"add: expected at least one of the columns {', '.join(asked)}, found none; add e.g. --width")
    where = trace.source or "trace"
    faults = [
        f"{where}: expected no column {name}, which is to be drawn; leave out one of the two"
        for name in wanted
        if getattr(trace, name) is not None
    ]
    if steps is not None and width is None and trace.width is None:
        faults.append(f"{where}: expected a column width, which steps follow from, found none; draw one with --width")
    if predict_depth is not None and trace.exits is None and trace.steps is None and steps is None:
        faults.append(
            f"{where}: expected a column exit or steps to predict, found neither; where exits are drawn later, "
            "`fluidb serve-sim --predict-depth` predicts them"
        )
    if predict_width is not None and width is None and trace.width is None:
        faults.append(f"{where}: expected a column width to predict, found none; draw one with --width")
    if faults:
        raise InputError(faults)
    if min_accuracy is not None:
        trace = replace(trace, min_accuracy=min_accuracy.draw(stream(seed, ACCURACIES), len(trace)))
    if slo_s is not None:
        trace = replace(trace, slo_s=slo_s.draw(stream(seed, SLOS), len(trace)))
    if width is not None:
        trace = replace(trace, width=width.draw(stream(seed, WIDTHS), len(trace)))
    if steps is not None:
        assert trace.width is not None  # a fault above
        trace = replace(trace, steps=steps.draw(stream(seed, STEPS), trace.width))
    depths = trace.exits if trace.steps is None else trace.steps
    if predict_depth is not None and depths is not None:
        trace = replace(trace, predicted_depth=_predicted("predicted_depth", depths, predict_depth, seed))
    if predict_width is not None and trace.width is not None:
        trace = replace(trace, predicted_width=_predicted("predicted_width", trace.width, predict_width, seed))
    return trace


def _predicted(
    column: str, actual: NDArray[np.int64] | NDArray[np.float64], rho: float, seed: int
) -> NDArray[np.float64]:
    """Predictions within the limits of what is predicted."""
    return predict(actual, rho, seed, column, low=float(actual.min()), high=float(actual.max()))
