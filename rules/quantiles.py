"""Quantiles of Student's distribution, written out because SciPy takes long to import."""

from __future__ import annotations

import math
from functools import cache

import numpy as np


@cache
def student_t(share: float, degrees: int) -> float:
    """The value below which Student's t lies with a probability of ``share``, at least 1/2.

    Examples
    --------
    >>> round(student_t(0.975, 10), 3)
    2.228
    """
    low, high = 0.0, math.pi / 2  # angles whose tangent is t / sqrt(degrees)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < 2 * share - 1 else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """Probability that t lies within plus or minus ``sqrt(degrees) * tan(angle)`` (Abramowitz and Stegun, 26.7.3-4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    i = np.arange(2 + odd, degrees - 1, 2)
    terms = (cosine if odd else 1.0) * np.cumprod((i - 1) / i * cosine * cosine)
    total = ((cosine if odd else 1.0) if degrees > 1 else 0.0) + float(terms.sum())
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
