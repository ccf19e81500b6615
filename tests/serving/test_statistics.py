"""Intervals against published examples, and the end of a start-up transient against its definition in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fluidb.serving.statistics import mean_interval, warm_up, welch_interval


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rising", [0, 40, 200, 300])
def test_the_warm_up_ends_where_the_rest_has_the_least_standard_error(seed, rising):
    """MSER-5: means of five observations; the first means are left out, at most half of them."""
    values = np.random.default_rng(seed).random(504) + np.minimum(np.arange(504), rising)
    means = [values[i : i + 5].mean() for i in range(0, 500, 5)]
    errors = [np.var(means[cut:]) / len(means[cut:]) for cut in range(50)]
    assert warm_up(values) == 5 * int(np.argmin(errors))


def test_few_observations_and_endless_ones_have_no_warm_up():
    assert warm_up(np.arange(19.0)) == 0
    assert warm_up(np.repeat([9.0, 1.0, 1.0, 1.0], 5)) == 5  # four groups are enough
    assert warm_up(np.append(np.arange(99.0), np.inf)) == 0


def test_welch_interval_against_a_published_example() -> None:
    """Wikipedia, Welch's t-test, example 1: t = -2.46 with 25.0 degrees of freedom, t_975 = 2.06."""
    a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]
    interval = welch_interval(np.array(a), np.array(b))
    assert interval is not None
    difference, half = np.mean(a) - np.mean(b), (interval.high - interval.low) / 2
    assert (interval.low + interval.high) / 2 == pytest.approx(difference)
    assert difference / half * 2.062 == pytest.approx(-2.46, abs=0.01)
    assert welch_interval(np.array([1.0]), np.array(b)) is None
    assert welch_interval(np.array([1.0, 1.0]), np.array([0.5, 0.5])) == (0.5, 0.5)
    same = welch_interval(np.array(a), np.array(a) + 3.0)
    assert same is not None
    assert same.low < -3.0 < same.high


def test_degrees_of_freedom_are_rounded_down() -> None:
    """Two runs each: 2 degrees if they vary alike, and 1.47 if one varies by half as much as the other."""
    a = np.array([0.0, 2.0])
    assert welch_interval(a, a) == pytest.approx((-4.303 * math.sqrt(2), 4.303 * math.sqrt(2)))
    assert welch_interval(a, a / 2) == pytest.approx((0.5 - 12.706 * math.sqrt(1.25), 0.5 + 12.706 * math.sqrt(1.25)))


def test_welch_interval_covers_as_often_as_it_says() -> None:
    draws = np.random.default_rng(5)
    inside = 0
    for _ in range(4000):
        interval = welch_interval(draws.normal(0, 1, 5), draws.normal(0, 4, 12))
        assert interval is not None
        inside += interval.low <= 0 <= interval.high
    assert 0.94 < inside / 4000 < 0.97


def test_student_interval_of_two_runs() -> None:
    assert mean_interval(np.array([1.0, 3.0])) == pytest.approx((2 - 12.706, 2 + 12.706))
