"""Shares of the exits under a latency target: against all shares of a grid; thresholds against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fluidb.rules.exit_shares import least_of_shares, shares_of_best, shares_of_latest
from hypothesis import given, settings
from hypothesis import strategies as st

TENTHS = [np.array(row) / 10 for row in itertools.product(range(11), repeat=3) if sum(row) == 10]
times = st.lists(st.integers(1, 12), min_size=3, max_size=3, unique=True).map(lambda row: np.array(sorted(row), float))


def test_shares_by_hand():
    time_s = np.array([10.0, 20.0, 40.0])
    for target_s, latest, best in (
        (5.0, [1, 0, 0], [1, 0, 0]),
        (10.0, [1, 0, 0], [1, 0, 0]),
        (25.0, [0.5, 0, 0.5], [0, 0.75, 0.25]),
        (40.0, [0, 0, 1], [0, 0, 1]),
        (99.0, [0, 0, 1], [0, 0, 1]),
    ):
        assert shares_of_latest(time_s, target_s).tolist() == pytest.approx(latest)
        assert shares_of_best(time_s, np.array([0.6, 0.75, 0.8]), target_s).tolist() == pytest.approx(best)
    assert shares_of_latest(np.array([3.0]), 1.0).tolist() == [1.0]
    assert shares_of_best(time_s, np.array([0.8, 0.8, 0.8]), 99.0).tolist() == [1, 0, 0]  # of equal ones the fastest
    assert shares_of_best(np.array([2.0, 1.0]), np.array([0.5, 0.9]), 0.5).tolist() == [0, 1]  # none is in time


@settings(max_examples=40)
@given(times, st.lists(st.integers(0, 8), min_size=3, max_size=3), st.integers(0, 13))
def test_no_shares_of_a_grid_are_better(time_s, right, target_s):
    """Lexicographically later, or more accurate, within the target; and the mean time meets it."""
    accuracy = np.array(right) / 8
    latest, best = shares_of_latest(time_s, target_s), shares_of_best(time_s, accuracy, target_s)
    for found in (latest, best):
        assert found.sum() == pytest.approx(1)
        assert (found > 0).sum() <= 2
        assert found.min() >= 0
    if target_s < time_s[0]:
        assert latest.tolist() == best.tolist() == [1, 0, 0]
        return
    assert max(latest @ time_s, best @ time_s) <= target_s + 1e-9
    for other in TENTHS:
        if other @ time_s <= target_s + 1e-12:
            assert other @ accuracy <= best @ accuracy + 1e-9
            later = [a - b for a, b in zip(other[::-1], latest[::-1], strict=True) if abs(a - b) > 1e-9]
            assert not later or later[0] < 0


@settings(max_examples=40)
@given(st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=1, max_size=12), st.sampled_from(TENTHS))
def test_thresholds_by_plain_loops(rows, shares):
    """The surest of the samples that are still there leave, with all that equal them."""
    samples = [list(row) for row in rows]
    least = least_of_shares(np.array(samples, dtype=float), shares)
    staying = list(range(len(samples)))
    for column, value in enumerate(least):
        due = next(n for n in range(len(samples) + 1) if n >= len(samples) * (shares[: column + 1].sum() - 1e-9))
        candidates = sorted((samples[i][column] for i in staying), reverse=True)
        leave = due - (len(samples) - len(staying))
        if due == len(samples):
            assert value == -np.inf
        elif leave <= 0:
            assert value == np.inf
        else:
            assert value == candidates[leave - 1]
        staying = [i for i in staying if not samples[i][column] >= value]
        assert len(samples) - len(staying) >= due


@pytest.mark.parametrize(("correlation", "text"), [(0.7, 0.411), (0.4, 0.438), (0.0, 0.480)])
def test_the_literal_text_overshoots_where_exits_differ(correlation, text):
    """Of three exits with 40, 40 and 20 %, the second gets more than its share, the more the less exits agree."""
    rng = np.random.default_rng(1)
    first, own = rng.normal(size=(2, 40_000))
    sure = np.column_stack([first, correlation * first + np.sqrt(1 - correlation**2) * own])
    one, two = least_of_shares(sure, [0.4, 0.4, 0.2])
    among_all = np.sort(sure[:, 1])[8_000]  # as the text says: the next 40 % below the surest 40 % of all values
    for least, expected, within in ((two, 0.4, 1e-9), (among_all, text, 4e-3)):
        leave = ((sure[:, 0] < one) & (sure[:, 1] >= least)).mean()
        assert leave == pytest.approx(expected, abs=within)
