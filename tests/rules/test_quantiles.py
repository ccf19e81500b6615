"""Student's t against a printed table, and against the density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fluidb.rules.quantiles import student_t

TABLE = {1: (6.314, 63.657), 2: (2.920, 9.925), 5: (2.015, 4.032), 10: (1.812, 3.169), 30: (1.697, 2.750)}
"""Abramowitz and Stegun, Table 26.10: t below which 0.95 and 0.995 lie, by degrees of freedom."""


@pytest.mark.parametrize("degrees", TABLE)
def test_student_t_is_that_of_the_printed_table(degrees: int) -> None:
    assert [student_t(share, degrees) for share in (0.95, 0.995)] == pytest.approx(TABLE[degrees], abs=5.1e-4)


@pytest.mark.parametrize("degrees", [*range(2, 36), 100, 10_000])
def test_student_t_leaves_its_share_outside(degrees: int) -> None:
    """The density, summed up from 0 to t."""
    steps = np.linspace(0.0, student_t(0.975, degrees), 20_001)
    density = (1 + steps**2 / degrees) ** (-(degrees + 1) / 2)
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    inside = 2 * scale * np.sum((density[1:] + density[:-1]) / 2) * steps[1]
    assert inside == pytest.approx(0.95, abs=1e-7)
