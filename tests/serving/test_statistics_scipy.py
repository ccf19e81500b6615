"""Intervals against SciPy, where it is installed: `.ci/run` installs it with the exporters."""

from __future__ import annotations

import numpy as np
import pytest
from fluidb.serving.statistics import (
    mean_interval,
    share_interval,
    welch_interval,
)


@pytest.fixture(scope="module")
def stats():
    """Imported by the worker that needs it: it takes seconds."""
    return pytest.importorskip("scipy.stats", reason="needs SciPy: pip install --group exporters")


@pytest.mark.parametrize("count", [2, 3, 11, 30, 31, 32, 200])
def test_intervals_of_means_are_student_s_and_welch_s(stats, count):
    values, others = np.random.default_rng(count).normal(5, [[1], [3]], (2, count))
    whole = stats.ttest_ind(values, others, equal_var=False).df
    for found, degrees, error in (
        (mean_interval(values), count - 1, stats.sem(values)),
        (welch_interval(values, others), int(whole + 1e-9), np.hypot(stats.sem(values), stats.sem(others))),
    ):
        assert found is not None
        assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, degrees) * error, rel=1e-3)


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (0, 50), (3, 50), (25, 50), (50, 50), (1234, 100_000)])
def test_the_interval_of_a_share_is_wilson_s(stats, hits, count):
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert share_interval(hits / count, count, stats.norm.ppf(0.975)) == pytest.approx(tuple(expected), abs=1e-12)
