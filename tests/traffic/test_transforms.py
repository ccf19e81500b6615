"""Traces made from traces keep what they promise."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fluidb.formats import InputError
from fluidb.traffic import Trace, cameras, poisson, rescale_burstiness, rescale_rate, superpose
from hypothesis import assume, example, given
from hypothesis import strategies as st

gaps_s = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=30)
COLUMNS = ("exits", "confidences", "slo_s", "correct")


def trace_of(gaps: list[float], first_s: float = 0.25, columns: tuple[str, ...] = COLUMNS, seed: int = 0) -> Trace:
    """Requests with these gaps, and other columns that tell them apart."""
    rng, count = np.random.default_rng(seed), len(gaps) + 1
    drawn: dict[str, Any] = {
        "exits": rng.integers(1, 5, count),
        "confidences": rng.random((count, 2)),
        "slo_s": rng.random(count),
        "correct": rng.random((count, 3)) < 0.5,
    }
    return Trace(
        rng.permutation(10 * count)[:count],
        np.cumsum([first_s, *gaps]),
        **{name: drawn[name] for name in columns},
    )


def assert_same_requests(found: Trace, before: Trace) -> None:
    for name in ("request_id", *COLUMNS):
        assert np.array_equal(getattr(found, name), getattr(before, name)), name


@given(st.lists(gaps_s, min_size=1, max_size=4), st.sets(st.sampled_from(COLUMNS)))
@example([[0.0, 1.0], [0.0, 1.0], [1.0]], set(COLUMNS))
def test_superpose_is_a_merge(lists, names):
    """Against sorting (time, source, place): ties go by source, then by place."""
    columns = tuple(sorted(names))
    traces = [trace_of(gaps, columns=columns, seed=i) for i, gaps in enumerate(lists)]
    places = sorted((time, i, j) for i, trace in enumerate(traces) for j, time in enumerate(trace.arrival_s.tolist()))
    found = superpose(traces)
    assert found.request_id.tolist() == list(range(len(places)))
    assert found.arrival_s.tolist() == [time for time, _, _ in places]
    for name in COLUMNS:
        if name in columns:
            assert getattr(found, name).tolist() == [getattr(traces[i], name)[j].tolist() for _, i, j in places]
        else:
            assert getattr(found, name) is None


def test_what_is_admitted_together_stays_together_in_a_merge():
    one = Trace(np.arange(3), np.array([0.0, 1.0, 1.0]), admitted_with=np.array([0, 1, 1]))
    other = Trace(np.array([5, 7, 9]), np.array([1.0, 1.0, 2.0]), admitted_with=np.array([5, 5, 9]))
    merged = superpose([one, other])
    assert merged.arrival_s.tolist() == [0, 1, 1, 1, 1, 2]
    assert (merged.admitted_with, merged.firsts) == (
        pytest.approx([0, 1, 1, 3, 3, 5]),
        pytest.approx(merged.admitted_with),
    )
    assert other.firsts.tolist() == [0, 0, 2]
    assert other.at(slice(1, None)).firsts.tolist() == [0, 1]


def test_superposed_poisson_traces_are_poisson():
    """Mean and variance of counts, and gaps, are as of one Poisson process of the rates' sum."""
    rates = (2.0, 5.0, 8.0)
    end_s = 12_000
    merged = superpose([poisson(rate, int(1.1 * rate * end_s), seed) for seed, rate in enumerate(rates)])
    inside = merged.arrival_s < end_s
    merged = Trace(merged.request_id[inside], merged.arrival_s[inside])
    counts = np.bincount(merged.arrival_s.astype(int), minlength=end_s)
    assert counts.mean() == pytest.approx(15, abs=4 * math.sqrt(15 / end_s))
    assert counts.var() == pytest.approx(15, rel=4 * math.sqrt(2 / end_s))
    assert merged.gap_cv == pytest.approx(1, abs=4 / math.sqrt(len(merged)))
    assert merged.gap_lag1 == pytest.approx(0, abs=4 / math.sqrt(len(merged)))


def test_columns_of_some_sources_only_are_refused():
    full, bare = trace_of([1.0]), trace_of([1.0], columns=())
    with pytest.raises(InputError) as caught:
        superpose([bare, full, full])
    assert caught.value.faults == tuple(
        f"traces: expected the column {name} in all 3 or in none, found it only in number 2, 3; "
        f"add it to the others or remove it"
        for name in ("confidence_1", "confidence_2", "correct_1", "correct_2", "correct_3", "exit", "slo_s")
    )
    wide = Trace(np.arange(2), np.arange(2.0), None, np.zeros((2, 3)))
    narrow = Trace(np.arange(2), np.arange(2.0), None, np.zeros((2, 2)))
    with pytest.raises(InputError, match="column confidence_3 in all 2 or in none, found it only in number 1;"):
        superpose([wide, narrow])
    with pytest.raises(InputError, match="traces: expected at least one, found none"):
        superpose([])


@given(gaps_s, st.floats(0, 100), st.floats(1e-3, 1e3))
def test_rescale_rate_scales_all_times(gaps, first_s, rate_per_s):
    assume(any(gaps))
    before = trace_of(gaps, first_s)
    found = rescale_rate(before, rate_per_s)
    assert_same_requests(found, before)
    assert found.rate_per_s == pytest.approx(rate_per_s, rel=1e-9)
    factor = before.rate_per_s / rate_per_s
    assert found.arrival_s == pytest.approx(before.arrival_s * factor, rel=1e-12)
    assert np.all(np.diff(found.arrival_s) >= 0)
    assert found.gap_cv == pytest.approx(before.gap_cv, rel=1e-6, abs=1e-9)


def test_rescale_rate_refuses_what_it_cannot_do():
    before = trace_of([1.0, 2.0])
    for rate_per_s in (0, -1, math.nan, math.inf, 1e10):
        with pytest.raises(InputError, match="^rate: expected a positive number of requests a second"):
            rescale_rate(before, rate_per_s)
    for gaps in ([0.0, 0.0], []):
        with pytest.raises(InputError, match="two different times at least, found one; its rate is undefined"):
            rescale_rate(trace_of(gaps), 1)
    with pytest.raises(InputError, match="rate: expected the last arrival within"):
        rescale_rate(trace_of([1.0] * 20), 1e-9)


@given(st.lists(st.one_of(st.just(0.0), st.floats(0.1, 10)), min_size=1, max_size=30), st.floats(0.2, 3))
def test_rescale_burstiness_raises_gaps_to_a_power(gaps, power):
    """The target comes from a known power, which must be found again; rate, count, ends and ranks stay."""
    before = trace_of(gaps)
    raised = [gap**power if gap else 0.0 for gap in np.diff(before.arrival_s).tolist()]
    assume(len({round(gap, 6) for gap in gaps if gap}) > 1)
    cv = statistics.pstdev(raised) / statistics.fmean(raised)
    found = rescale_burstiness(before, cv)
    assert_same_requests(found, before)
    assert found.gap_cv == pytest.approx(cv, rel=1e-6)
    assert found.rate_per_s == pytest.approx(before.rate_per_s, rel=1e-12)
    assert found.arrival_s[[0, -1]] == pytest.approx(before.arrival_s[[0, -1]], rel=1e-12)
    span_s = before.arrival_s[-1] - before.arrival_s[0]
    expected = np.array(raised) * span_s / math.fsum(raised)
    assert np.diff(found.arrival_s) == pytest.approx(expected, rel=1e-5, abs=1e-6 * span_s)
    by_rank = np.diff(found.arrival_s)[np.argsort(np.diff(before.arrival_s), kind="stable")]
    assert all(after >= shorter - 1e-12 * span_s for shorter, after in pairwise(by_rank))


@pytest.mark.parametrize("cv", [0.01, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_a_poisson_trace_takes_any_burstiness(cv):
    before = poisson(15, 20_000, 1)
    found = rescale_burstiness(before, cv)
    assert found.gap_cv == pytest.approx(cv, rel=1e-6)
    assert found.rate_per_s == pytest.approx(before.rate_per_s, rel=1e-12)
    assert np.all(np.diff(found.arrival_s) >= 0)
    assert abs(found.gap_lag1) < 0.05


def test_burstiness_out_of_reach_is_refused_with_what_is_in_reach():
    for cv in (-1, 0, 2.0, 3, math.nan, math.inf):
        with pytest.raises(InputError, match="^cv: expected between 0 and 2, which these gaps can reach, found"):
            rescale_burstiness(trace_of([1.0, 1.5, 2.0, 2.5, 4.0]), cv)  # 2: the longest of five alone
    low = "cv: expected between 0.5 and 2, which these gaps can reach, found 0.4"  # one gap of five stays 0
    with pytest.raises(InputError, match=f"^{low}"):
        rescale_burstiness(trace_of([0.0, 1.5, 2.0, 2.5, 4.0]), 0.4)
    with pytest.raises(InputError, match="^cv: expected between 0 and 0, which"):
        rescale_burstiness(trace_of([1.0, 1.0]), 0.5)
    for gaps in ([0.0, 0.0], []):
        with pytest.raises(InputError, match="two different times at least, found one; it has no gaps to change"):
            rescale_burstiness(trace_of(gaps), 1)


def test_rounding_is_not_blown_up_into_gaps():
    """A clock's gaps differ in their last bits only."""
    with pytest.raises(InputError, match="^cv: expected between 0 and [0-9.]+e-[0-9]+, which these gaps can reach"):
        rescale_burstiness(cameras(1, 30, 1000, 1), 1.0)
