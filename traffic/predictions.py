"""Predictions of depth or width that are as good as a user says, where there is no predictor yet."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .randomness import PREDICTED_DEPTHS, PREDICTED_WIDTHS, stream

_STREAMS = {"predicted_depth": PREDICTED_DEPTHS, "predicted_width": PREDICTED_WIDTHS}

LEAST = 0.01
"""With a smaller correlation the noise would be a hundred times the deviation: every prediction would be a limit."""


def check_correlation(rho: float, what: str = "") -> None:
    """Refuse a correlation that no prediction can have, naming what states it."""
    if not (rho == 0 or LEAST <= abs(rho) <= 1):
        where = f"{what}: " if what else ""
        raise InputError(f"{where}expected a correlation from -1 to 1, 0 or at least {LEAST:g} in size, found {rho:g}")


def predict(
    actual: NDArray[np.int64] | NDArray[np.float64], rho: float, seed: int, column: str, low: float, high: float
) -> NDArray[np.float64]:
    """Predict values with a given correlation.

    A prediction is round(d + N(0, sd(d) sqrt(1/rho^2 - 1))), moved into the limits, which makes the correlation
    somewhat smaller.  Within batches of equal predictions the variance of d then falls by about 1/(1 - rho^2): by 2 at
    .71 and by 1.2 at .42, what paper 002 measures (Table IV).

    A predictor that lies is one too: a negative ``rho`` predicts the mirror image low + high - d, with the same noise,
    and 0 predicts the mean for everybody.

    Shapes: ``actual`` (N,), returns (N,).
    """
    check_correlation(rho, column)
    if rho == 0:
        return np.full(len(actual), round(float(actual.mean())), dtype=np.float64)
    towards = actual if rho > 0 else low + high - actual
    noise = (
        float(actual.std()) * math.sqrt(1 / rho**2 - 1) * stream(seed, _STREAMS[column]).standard_normal(len(actual))
    )
    return np.asarray(np.clip(np.rint(towards + noise), low, high), dtype=np.float64)
