"""Predictions of depth or width with a given correlation, for traces that have none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats, Ints

LEAST = 0.01
"""With a smaller correlation the noise would be a hundred times the deviation: every prediction would be a limit."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predictions with a given correlation rho with the value that they predict.

    A prediction is round(d + N(0, sd(d) sqrt(1/rho^2 - 1))), moved into the limits, which makes the correlation
    somewhat smaller.  A negative ``rho`` predicts the mirror image low + high - d, and 0 predicts the mean.
    """

    rho: float

    def draw(
        self, random: np.random.Generator, actual: Ints | Floats, /, low: float | None = None, high: float | None = None
    ) -> Floats:
        """Predict values, within limits that by default are the least and the greatest of them."""
        low, high = float(actual.min()) if low is None else low, float(actual.max()) if high is None else high
        if self.rho == 0:
            return np.full(len(actual), round(float(actual.mean())), dtype=np.float64)
        towards = actual if self.rho > 0 else low + high - actual
        noise = float(actual.std()) * math.sqrt(1 / self.rho**2 - 1) * random.standard_normal(len(actual))
        return np.asarray(np.clip(np.rint(towards + noise), low, high), dtype=np.float64)


def parse_prediction(rho: float, what: str) -> Prediction:
    """Predictions with a correlation, which must be one that predictions can have."""
    if not (rho == 0 or LEAST <= abs(rho) <= 1):
        raise InputError(f"{what}: expected a correlation from -1 to 1, 0 or at least {LEAST:g} in size, found {rho:g}")
    return Prediction(rho)
