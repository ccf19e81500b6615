"""Intervals of figures over seeds end where the figures do."""

from __future__ import annotations

import math

import pytest
from fluidb.serving.figures import FIGURES
from fluidb.serving.statistics import Interval
from fluidb.studies.estimates import Estimate


@pytest.mark.parametrize(
    ("name", "values", "low", "high"),
    [
        ("violation_rate", [0.97, 1.0, 1.0], None, 1.0),
        ("violation_rate", [0.0, 0.01, 0.0], 0.0, None),
        ("violation_rate", [0.0, 1.0], 0.0, 1.0),
        ("load", [0.9, 1.1], 0.0, None),
        ("backlog_growth", [-1.0, 1.0], None, 1.0),
        ("mean", [0.001, 2.0, 0.002], 0.0, None),
    ],
)
def test_an_interval_over_seeds_ends_where_the_figure_does(name, values, low, high):
    """``None`` is Student's end, which no limit of the figure moves."""
    spread = {2: 12.706, 3: 4.303}[len(values)] / math.sqrt(len(values))
    mean = sum(values) / len(values)
    half = spread * math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    estimate = Estimate.of(FIGURES[name], values, range(len(values)), [None] * len(values))
    assert (estimate.low, estimate.high) == pytest.approx(
        (mean - half if low is None else low, mean + half if high is None else high)
    )
    assert estimate.mean == pytest.approx(mean)


def test_with_one_seed_the_interval_is_the_run_s():
    estimate = Estimate.of(FIGURES["violation_rate"], [0.5], [7], [Interval(0.4, 0.6)])
    assert (estimate.low, estimate.high, estimate.seeds) == (0.4, 0.6, {"7": 0.5})
    assert Estimate.of(FIGURES["violation_rate"], [0.5], [7], [None]).low is None
