"""Intervals of one run: against queueing theory, where every figure is known, and against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fluidb.serving.one_run import (
    LEAST,
    PARTS,
    RARE,
    OneRun,
    dependence,
    nearest_rank,
    part_starts,
    requests_for,
)
from fluidb.serving.statistics import Interval, share_interval
from hypothesis import given
from hypothesis import strategies as st

ALONE = np.ones(5000, dtype=bool)
"""Every request finds the system empty."""


def queues(load: float, count: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Latencies of M/M/1 queues that begin empty, one a row, and who finds them empty (Lindley, 1952)."""
    draws = np.random.default_rng(1)
    gap, work = draws.exponential(1 / load, (count, seeds)), draws.exponential(1.0, (count, seeds))
    wait, waits = np.zeros(seeds), np.empty((count, seeds))
    for i in range(count):
        waits[i] = wait
        wait = np.maximum(0.0, wait + work[i] - gap[i])
    return (waits + work).T, (waits == 0).T


@pytest.mark.parametrize(("load", "count"), [(0.5, 5000), (0.8, 30_000)])
def test_as_many_intervals_as_promised_hold_the_figures_of_an_M_M_1_queue(load, count):
    """Latency is exponential with mean 1/(1 - load)."""
    mean, runs = 1 / (1 - load), [OneRun(*run) for run in zip(*queues(load, count, 150), strict=True)]
    for quantile in (0.5, 0.9, 0.95):
        truth = -mean * math.log1p(-quantile)
        assert_covered([run.quantile(quantile).interval for run in runs], truth)
        assert_covered([run.share(run.latency_s > truth).interval for run in runs], 1 - quantile)
    assert_covered([run.mean().interval for run in runs], mean)


def assert_covered(found: list[Interval | None], truth: float) -> None:
    printed = [item for item in found if item is not None]
    assert len(printed) > 0.6 * len(found)
    assert np.mean([item.low <= truth <= item.high for item in printed]) >= 0.93
    assert np.median([item.high - item.low for item in printed]) < truth  # else they would say nothing


def two_queues(count: int, seeds: int) -> list[tuple[OneRun, OneRun]]:
    """The same customers at a server, and at one that is 5 % faster."""
    draws = np.random.default_rng(4)
    gap, work = draws.exponential(1 / 0.7, (count, seeds)), draws.exponential(1.0, (count, seeds))
    runs = []
    for times in (work, 0.95 * work):
        wait, waits = np.zeros(seeds), np.empty((count, seeds))
        for i in range(count):
            waits[i] = wait
            wait = np.maximum(0.0, wait + times[i] - gap[i])
        runs.append([OneRun(*run) for run in zip((waits + times).T, (waits == 0).T, strict=True)])
    return list(zip(*runs, strict=True))


def test_as_many_paired_intervals_as_promised_hold_the_difference_of_two_M_M_1_queues():
    """Latency is exponential with mean 1/(1/work - rate); the two runs alone do not tell the servers apart."""
    runs = two_queues(10_000, 150)
    means, late_s = (1 / (1 - 0.7), 1 / (1 / 0.95 - 0.7)), 5.0
    assert_covered([one.less(two, one.latency_s, two.latency_s).interval for one, two in runs], means[0] - means[1])
    rates = [math.exp(-late_s / mean) for mean in means]
    found = [one.less(two, one.latency_s > late_s, two.latency_s > late_s).interval for one, two in runs]
    assert_covered(found, rates[0] - rates[1])
    alone = [(one.mean().interval, two.mean().interval) for one, two in runs]
    assert np.mean([one is not None and two is not None and two.high < one.low for one, two in alone]) < 0.2
    assert np.mean([item is not None and item.low > 0 for item in found]) > 0.9


def test_a_paired_interval_by_hand():
    """Sums of ten equal parts, in loops; the ends are where Hall's cubic takes Student's t."""
    draws = np.random.default_rng(7)
    own, others = draws.exponential(2.0, 5000), draws.exponential(1.0, 5000)
    one, two = (OneRun(values, np.ones(5000, dtype=bool)) for values in (own, others))
    low, high = one.less(two, own, others).interval or (math.nan, math.nan)
    differences = [float(a - b) for a, b in zip(own, others, strict=True)]
    mean = sum(differences) / 5000
    excess = [sum(differences[k : k + 500]) - 500 * mean for k in range(0, 5000, 500)]
    square = sum(value**2 for value in excess)
    error, lag = math.sqrt(10 / 9 * square) / 5000, sum(value**3 for value in excess) / square**1.5 / 6
    t = 2.262 * math.sqrt(1 + LEAST / min(one.independent, two.independent))
    for end, wanted in ((low, t), (high, -t)):
        x = (mean - end) / error
        assert x + 2 * lag * x**2 + 4 / 3 * lag**2 * x**3 + lag == pytest.approx(wanted)


def test_a_few_requests_that_differ_may_be_one_event():
    latency_s = np.random.default_rng(5).random(5000)
    run = OneRun(latency_s, ALONE)
    none = run.less(run, ~ALONE, ~ALONE).interval
    assert none
    assert -0.01 < none.low == -none.high < -2 * math.sqrt(RARE) / 5000
    assert run.less(run, latency_s, latency_s) == (None, 0)  # nothing says how large a difference would be
    slower_s = latency_s.copy()
    slower_s[2500] += 1.0
    rare = OneRun(slower_s, ALONE).less(run, slower_s, latency_s).interval
    assert rare
    assert rare.low < 0 < 1 / 5000 < rare.high


def test_a_difference_needs_two_runs_that_are_long_enough():
    latency_s = np.random.default_rng(0).random(5000)
    run, few = OneRun(latency_s, ALONE), OneRun(np.repeat(latency_s[:5], 1000), ALONE)
    assert few.independent < LEAST < run.independent
    needed = few.mean().more_requests_needed
    assert run.less(few, run.latency_s, few.latency_s) == few.less(run, few.latency_s, run.latency_s) == (None, needed)
    late_s = np.where(np.arange(5000) < 50, np.inf, latency_s)
    assert run.less(OneRun(late_s, ALONE), latency_s, late_s) == (None, 0)


def test_a_heavy_queue_is_worth_few_requests_and_says_how_many_more():
    """The mean of M/M/1 waits at 0.95 varies as the mean of about 1,500 times fewer independent ones (Whitt, 1989)."""
    runs = [OneRun(*run) for run in zip(*queues(0.95, 10_000, 40), strict=True)]
    assert all(run.mean().interval is None and run.quantile(0.5).interval is None for run in runs)
    assert 50_000 < np.median([run.mean().more_requests_needed for run in runs]) < 500_000


@given(st.lists(st.booleans(), min_size=12, max_size=60), st.integers(2, 12))
def test_parts_begin_where_the_system_is_empty_if_it_is(fresh, parts):
    count, expected = len(fresh), [0]
    for part in range(1, parts):
        begin, end = part * count // parts, (part + 1) * count // parts
        expected.append(next((i for i in range(begin, end) if fresh[i]), begin))
    assert part_starts(np.array(fresh), parts).tolist() == expected


@given(st.integers(0, 2**32), st.integers(2, 10))
def test_dependence_against_its_definition_in_loops(seed, parts):
    draws = np.random.default_rng(seed)
    values, starts = draws.random(60), np.append(0, np.sort(draws.choice(np.arange(1, 60), parts - 1, replace=False)))
    mean, total = sum(values) / 60, 0.0
    for begin, end in zip(starts, [*starts[1:], 60], strict=True):
        total += sum(value - mean for value in values[begin:end]) ** 2
    alone = sum((value - mean) ** 2 for value in values)
    assert dependence(values, starts) == pytest.approx(max(1.0, parts / (parts - 1) * total / alone))


def test_requests_that_come_in_equal_groups_are_worth_one_each():
    draws = np.random.default_rng(3).random(20_000)
    alone, grouped = OneRun(draws, np.ones(20_000, dtype=bool)), OneRun(np.repeat(draws, 20), np.ones(400_000, bool))
    assert alone.independent == pytest.approx(20_000, rel=0.2)
    assert grouped.independent == pytest.approx(alone.independent, rel=1e-6)


def test_equal_latencies_that_differ_by_rounding_are_independent():
    """The last digits of a latency change when the clock passes a power of two."""
    latency_s = np.where(np.arange(5000) < 2500, 0.0627, 0.0627 * (1 + 1e-13))
    latency_s[::3] = 0.1
    run = OneRun(latency_s, ALONE)
    assert run.independent == 5000
    assert run.quantile(0.5).interval == pytest.approx((0.0627, 0.0627))


def test_too_short_a_run_says_how_many_more():
    assert [requests_for(quantile) for quantile in (0.5, 0.9, 0.95, 0.99, 0.999)] == [20, 100, 200, 1000, 10_000]
    few = OneRun(np.random.default_rng(0).random(100), ALONE[:100])
    assert few.mean() == few.share(ALONE[:100]) == few.quantile(0.5) == few.quantile(0.9) == (None, LEAST - 100)
    assert (few.quantile(0.99), few.quantile(0.999)) == ((None, 900), (None, 9900))
    draws = np.random.default_rng(0).random(5000)
    assert OneRun(draws, ALONE).quantile(0.99).interval is not None
    assert OneRun(draws[:801], ALONE[:801]).quantile(0.99).more_requests_needed in range(200, 400, 10)  # two digits


def test_what_nobody_did_is_bounded_as_if_it_were_rare():
    run = OneRun(np.random.default_rng(5).random(5000), ALONE)
    none, everybody = run.share(~ALONE).interval, run.share(ALONE).interval
    assert none
    assert everybody
    assert none.low == pytest.approx(0.0, abs=1e-12)
    assert RARE / 5000 < none.high < 3 * RARE / 5000
    assert everybody == pytest.approx((1 - none.high, 1.0))


def test_an_even_run_has_an_interval_without_width():
    run = OneRun(np.full(5000, 0.25), ALONE)
    assert run.mean().interval == run.quantile(0.99).interval == (0.25, 0.25)


def test_skewed_latencies_have_more_room_above():
    run = OneRun(np.random.default_rng(2).pareto(2.2, 5000), ALONE)
    found, mean = run.mean().interval, run.latency_s.mean()
    assert found
    assert found.high - mean > 1.1 * (mean - found.low)


def test_requests_that_never_return_leave_the_mean_without_an_interval():
    latency_s = np.random.default_rng(2).random(5000)
    latency_s[::500] = np.inf
    run = OneRun(latency_s, ALONE)
    assert run.mean() == (None, 0)
    assert run.quantile(0.5).interval is not None
    late = run.share(np.isinf(latency_s)).interval
    assert late
    assert late.low < 10 / 5000 < late.high
    assert OneRun(np.full(5000, np.inf), ALONE).quantile(0.5).interval == (np.inf, np.inf)


def test_nearest_rank():
    ordered = np.arange(1.0, 21.0)
    assert [nearest_rank(ordered, q) for q in (0.01, 0.05, 0.5, 0.51, 0.95, 0.99)] == [1, 1, 10, 11, 19, 20]


def test_the_interval_of_a_share_by_hand():
    """Wilson: the shares p for which the share found is within t standard errors, t*sqrt(p*(1-p)/n), of p."""
    for bound in share_interval(0.3, 50.0, 2.0):
        assert abs(bound - 0.3) == pytest.approx(2.0 * math.sqrt(bound * (1 - bound) / 50.0))
    assert share_interval(0.0, 50.0, 2.0).low == 0.0
    assert share_interval(0.0, 1.0, 1.96).low == 0.0  # by rounding below 0
    assert share_interval(1.0, 9.0, 2.5).high == 1.0  # and above 1
    assert PARTS > 2  # else Student's t has no variance
