"""Arrival processes against the moments and distributions of theory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from builders import SEEDS, assert_mean
from fluidb.formats import InputError
from fluidb.traffic import Trace, cameras, daily, gamma, mmpp, poisson
from fluidb.traffic.arrivals.draws import pass_through
from fluidb.traffic.roots import bisect

COUNT = 100_000
HOUR_S, DAY_S = 3600.0, 86400.0
KS = 1.95
"""99.9 % quantile of Kolmogorov's distribution, to be divided by the root of the sample."""
CHI2_24 = (8.085, 51.18)
"""0.1 % and 99.9 % quantiles of chi-square with 24 degrees of freedom."""

PROCESSES = {
    "poisson": (15.0, lambda count, seed: poisson(15, count, seed)),
    "gamma, regular": (15.0, lambda count, seed: gamma(15, 0.3, count, seed)),
    "gamma, bursty": (15.0, lambda count, seed: gamma(15, 2.5, count, seed)),
    "mmpp": (12.5, lambda count, seed: mmpp(5, 50, 10, 2, count, seed)),
    "mmpp, silent when quiet": (10.0, lambda count, seed: mmpp(0, 40, 1.5, 0.5, count, seed)),
    "cameras": (54.0, lambda count, seed: cameras(3, 20, count, seed, jitter_s=0.01, drop=0.1)),
    "daily": (15.0, lambda count, seed: daily(15, 1, 14, count, seed)),
}
"""Mean rate, and the process."""


def gaps_of(trace: Trace) -> np.ndarray:
    return np.diff(trace.arrival_s)


def counts_in(trace: Trace, window_s: float) -> np.ndarray:
    """Arrivals in each whole window from time zero."""
    counts: np.ndarray = np.bincount((trace.arrival_s / window_s).astype(np.int64))
    return counts[:-1]


def dispersion(trace: Trace, window_s: float) -> float:
    """Variance/mean of the counts in windows."""
    counts = counts_in(trace, window_s)
    return float(counts.var() / counts.mean())


def assert_distributed(sample: np.ndarray, cumulative) -> None:
    """Kolmogorov and Smirnov's test of a continuous distribution."""
    at = cumulative(np.sort(sample))
    ranks = np.arange(len(sample) + 1) / len(sample)
    assert max(np.abs(ranks[1:] - at).max(), np.abs(at - ranks[:-1]).max()) < KS / np.sqrt(len(sample))


def exponential(x):
    return 1 - np.exp(-x)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_makes_a_trace_of_its_rate(name):
    rate_per_s, make = PROCESSES[name]
    for count in (1, 2, 7, 1000):
        trace = make(count, 3)
        assert trace.request_id.tolist() == list(range(count))
        assert trace.arrival_s.shape == (count,)
        assert trace.arrival_s[0] >= 0
        assert gaps_of(trace).min(initial=0) >= 0
    assert_mean(np.array([make(COUNT, seed).rate_per_s for seed in SEEDS]), rate_per_s)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_follows_its_seed(name):
    _, make = PROCESSES[name]
    assert np.array_equal(make(50, 1).arrival_s, make(50, 1).arrival_s)
    assert not np.array_equal(make(50, 1).arrival_s, make(50, 2).arrival_s)


@pytest.mark.parametrize(
    "other",
    [
        lambda: gamma(1, 1, 20_000, 7),
        lambda: mmpp(1, 1, 9, 9, 20_000, 7),
        lambda: daily(1, 1, 12, 20_000, 7),
    ],
)
def test_equal_seeds_do_not_tie_two_processes(other):
    """Each of these is a Poisson process by other means; merged with one of the same seed it must not double it."""
    tied = np.corrcoef(gaps_of(poisson(1, 20_000, 7)), gaps_of(other()))[0, 1]
    assert abs(tied) < 4 / np.sqrt(20_000)


@pytest.mark.parametrize("cv", [0.001, 0.25, 1.0, 2.0, 4.0])
def test_gamma_gaps_have_the_variation_asked_for_and_no_memory(cv):
    traces = [gamma(15, cv, COUNT, seed) for seed in SEEDS]
    assert_mean(np.array([trace.gap_cv for trace in traces]), cv)
    assert_mean(1 + np.array([trace.gap_lag1 for trace in traces]), 1)


def test_gamma_counts_have_the_dispersion_of_a_renewal_process():
    """Variance/mean of counts in long windows is cv^2."""
    for cv in (0.5, 2.0):
        found = [dispersion(gamma(15, cv, COUNT, seed), 10.0) for seed in SEEDS]
        assert_mean(np.array(found), cv**2)


def test_gamma_gaps_are_gamma():
    """Shape 2 is Erlang's distribution, shape 1 the exponential."""
    assert_distributed(2 * gaps_of(gamma(1, 2**-0.5, COUNT, 5)), lambda x: 1 - np.exp(-x) * (1 + x))
    assert_distributed(gaps_of(gamma(1, 1, COUNT, 5)), exponential)
    assert_distributed(gaps_of(poisson(1, COUNT, 5)), exponential)


MMPPS = [(5.0, 50.0, 10.0, 2.0), (0.0, 40.0, 1.5, 0.5), (20.0, 100.0, 0.5, 0.5), (8.0, 8.0, 1.0, 3.0)]


def mmpp_theory(quiet: float, burst: float, quiet_s: float, burst_s: float) -> dict[str, float]:
    """Moments from the matrices of the process: the chain, and the phase-type gaps between arrivals."""
    chain = np.array([[-1 / quiet_s, 1 / quiet_s], [1 / burst_s, -1 / burst_s]])
    rates = np.diag([quiet, burst])
    stationary = np.array([quiet_s, burst_s]) / (quiet_s + burst_s)
    mean_rate = float((stationary @ rates).sum())
    until = np.linalg.inv(rates - chain)  # mean time in each state before an arrival
    seen = stationary @ rates / mean_rate  # the state just after an arrival
    ones = np.ones(2)
    mean = seen @ until @ ones
    variance = 2 * seen @ until @ until @ ones - mean**2
    step = until @ rates  # from the state after an arrival to that after the next
    lags = [seen @ until @ np.linalg.matrix_power(step, lag) @ until @ ones - mean**2 for lag in (1, 2, 3)]
    # variance of counts in a long window: Poisson's, and twice the integral of the rate's autocovariance
    deviation = np.linalg.inv(np.outer(ones, stationary) - chain) - np.outer(ones, stationary)
    limit = 1 + 2 * stationary @ rates @ deviation @ rates @ ones / mean_rate
    correlations = {f"lag{i}": covariance / variance for i, covariance in enumerate(lags, 1)}
    return {"rate": mean_rate, "cv": math.sqrt(variance) / mean, "limit": limit, **correlations}


def mmpp_dispersion(quiet: float, burst: float, quiet_s: float, burst_s: float, window_s: float) -> float:
    """The docstring's formula."""
    s1, s2 = 1 / quiet_s, 1 / burst_s
    s = s1 + s2
    limit = 2 * s1 * s2 * (quiet - burst) ** 2 / (s**2 * (quiet * s2 + burst * s1))
    return 1 + limit * (1 - (1 - math.exp(-s * window_s)) / (s * window_s))


@pytest.mark.parametrize(("quiet", "burst", "quiet_s", "burst_s"), MMPPS)
def test_the_formulas_of_the_mmpp_agree_with_its_matrices(quiet, burst, quiet_s, burst_s):
    """The formulas of the docstring and of docs/traffic.md."""
    l1, l2, s1, s2 = quiet, burst, 1 / quiet_s, 1 / burst_s
    theory = mmpp_theory(quiet, burst, quiet_s, burst_s)
    assert mmpp_dispersion(quiet, burst, quiet_s, burst_s, 1e9) == pytest.approx(theory["limit"])
    assert mmpp_dispersion(quiet, burst, quiet_s, burst_s, 1e-5) == pytest.approx(1, abs=1e-3)
    below = l1 * l2 + l1 * s2 + l2 * s1
    cv2 = 1 + 2 * s1 * s2 * (l1 - l2) ** 2 / ((s1 + s2) ** 2 * below)
    assert cv2 == pytest.approx(theory["cv"] ** 2)
    for lag in (1, 2, 3):
        assert (cv2 - 1) / (2 * cv2) * (l1 * l2 / below) ** lag == pytest.approx(theory[f"lag{lag}"], abs=1e-12)


@pytest.mark.parametrize(("quiet", "burst", "quiet_s", "burst_s"), MMPPS)
def test_mmpp_has_the_moments_of_theory(quiet, burst, quiet_s, burst_s):
    theory = mmpp_theory(quiet, burst, quiet_s, burst_s)
    traces = [mmpp(quiet, burst, quiet_s, burst_s, 2 * COUNT, seed) for seed in SEEDS]
    assert_mean(np.array([trace.rate_per_s for trace in traces]), theory["rate"])
    assert_mean(np.array([trace.gap_cv for trace in traces]), theory["cv"])
    assert_mean(1 + np.array([trace.gap_lag1 for trace in traces]), 1 + theory["lag1"])
    if 0 < quiet < burst:
        assert theory["lag1"] > 0.02
        assert min(trace.gap_lag1 for trace in traces) > 0.01
    for switches in (0.5, 8.0):
        window_s = switches * min(quiet_s, burst_s)
        found = [dispersion(trace, window_s) for trace in traces]
        assert_mean(np.array(found), mmpp_dispersion(quiet, burst, quiet_s, burst_s, window_s))


def test_mmpp_starts_in_its_stationary_state():
    """The first instants see the mean rate, not the rate of a state: 100/s for 1 s in 5."""
    first = [(mmpp(0, 100, 400, 100, 3, seed).arrival_s[0] < 1).sum() for seed in range(3000)]
    share = 0.2 + 0.8 * (1 - math.exp(-1 / 400))
    assert np.mean(first) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 3000))


def test_cameras_without_jitter_are_a_clock():
    trace = cameras(5, 25, 1000, 3)
    assert trace.arrival_s[:5].max() < 1 / 25
    assert np.unique(trace.arrival_s[:5]).size == 5
    assert trace.arrival_s[5:] - trace.arrival_s[:-5] == pytest.approx(1 / 25, rel=1e-9)
    assert np.all(counts_in(trace, 1 / 5) == 25)


def test_phases_are_uniform():
    assert_distributed(25 * cameras(10_000, 25, 10_000, 1).arrival_s, lambda x: x)


def test_jitter_has_its_variance():
    """One camera: deviations from its clock; gaps share them, so neighbours are correlated by -1/2."""
    jitter_s = 0.002
    trace = cameras(1, 10, COUNT, 4, jitter_s=jitter_s)
    deviations = trace.arrival_s - np.arange(COUNT) / 10
    deviations -= deviations.mean()
    assert deviations.std() == pytest.approx(jitter_s, rel=4 / np.sqrt(2 * COUNT))
    assert_distributed(deviations / jitter_s, lambda x: np.array([statistics.NormalDist().cdf(item) for item in x]))
    assert trace.gap_cv == pytest.approx(math.sqrt(2) * jitter_s * 10, rel=0.02)
    assert trace.gap_lag1 == pytest.approx(-0.5, abs=0.01)


def test_frames_are_lost_one_by_one():
    share = 0.3
    trace = cameras(1, 10, COUNT, 4, drop=share)
    skipped = np.round(10 * gaps_of(trace)).astype(int)
    frames = skipped.sum()
    assert 1 - len(skipped) / frames == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / frames))
    for step in (1, 2, 3):
        expected = share ** (step - 1) * (1 - share)
        found = np.mean(skipped == step)
        assert found == pytest.approx(expected, abs=4 * math.sqrt(expected / len(skipped)))
    assert trace.gap_cv == pytest.approx(math.sqrt(share), rel=0.01)


@pytest.mark.parametrize("jitter_s", [0.0, 0.03, 0.3])
def test_cameras_ran_before_time_zero_and_run_on_after_the_end(jitter_s):
    """Jitter of three periods: neither the first nor the last period may lack late or early frames."""
    trace = cameras(2000, 10, 40_000, 2, jitter_s=jitter_s)
    assert counts_in(trace, 0.1)[:19] == pytest.approx(2000, abs=4 * math.sqrt(2000))
    assert np.sum(trace.arrival_s > trace.arrival_s[-1] - 0.1) == pytest.approx(2000, abs=4 * math.sqrt(2000))


KAPPA = 2.0


def von_mises(hour: float, kappa: float = KAPPA) -> float:
    """The daily curve, not yet divided by its mean, with its peak at 14:30."""
    return math.exp(kappa * math.cos(2 * math.pi * (hour - 14.5) / 24))


STEPS = 200
CURVE_BY_HOUR = [sum(von_mises(hour + (i + 0.5) / STEPS) for i in range(STEPS)) / STEPS for hour in range(24)]
PEAK_TO_MEAN = math.exp(KAPPA) / (sum(CURVE_BY_HOUR) / 24)


def test_daily_counts_by_hour_are_poisson_with_the_rate_of_the_curve():
    days = 40
    trace = daily(0.3, PEAK_TO_MEAN, 14.5, int(1.1 * 0.3 * DAY_S * days), 6)
    hours = (trace.arrival_s[trace.arrival_s < days * DAY_S] / HOUR_S).astype(int)
    mean_by_hour = 0.3 * HOUR_S * np.array(CURVE_BY_HOUR) / (sum(CURVE_BY_HOUR) / 24)
    by_hour = np.bincount(hours % 24)
    assert by_hour.argmax() == 14
    assert CHI2_24[0] < np.sum((by_hour - days * mean_by_hour) ** 2 / (days * mean_by_hour)) < CHI2_24[1]
    by_day = np.bincount(hours, minlength=24 * days).reshape(days, 24)
    scatter = np.mean((by_day - mean_by_hour) ** 2 / mean_by_hour)
    assert scatter == pytest.approx(1, abs=4 * math.sqrt(2 / by_day.size))


@pytest.mark.parametrize("rate_per_s", [0.01, 200.0])
def test_daily_arrivals_become_unit_poisson_when_time_runs_with_the_rate(rate_per_s):
    """Exact within a minute and over many days: gaps of the integrated rate are exponential."""
    trace = daily(rate_per_s, PEAK_TO_MEAN, 14.5, 50_000, 8)
    edges = np.linspace(0, 24, 24 * 400 + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    done = np.concatenate([[0], np.cumsum([von_mises(hour) for hour in middles])])
    days, rest = np.divmod(trace.arrival_s, DAY_S)
    work = rate_per_s * DAY_S * (days + np.interp(rest / HOUR_S, edges, done / done[-1]))
    gaps = np.diff(work, prepend=0.0)
    assert_distributed(gaps, exponential)
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(len(gaps)))


@pytest.mark.parametrize("peak_to_mean", [1.0, 1.5, 24.0])
def test_daily_peak_is_as_high_as_asked(peak_to_mean):
    """Over four days of 5,000: the ten minutes around the peak; the docs' formula for the gaps."""
    trace = daily(5_000 / DAY_S, peak_to_mean, 0, 21_000, 2)
    inside = trace.arrival_s[trace.arrival_s < 4 * DAY_S]
    near = np.minimum(inside % DAY_S, DAY_S - inside % DAY_S) < 300
    expected = 4 * 5_000 / 144 * peak_to_mean
    assert near.sum() == pytest.approx(expected, abs=4 * math.sqrt(expected))


def test_daily_arrivals_follow_a_steep_curve_within_its_quarters_of_an_hour():
    """Ratio of 19: time of day on whole days, and each minute of the half hour around the peak."""
    kappa, days, a_day = 60.0, 20, 50_000
    edges = np.linspace(0, 24, 24 * 60 * 4 + 1)
    done = np.cumsum([von_mises(hour, kappa) for hour in (edges[1:] + edges[:-1]) / 2])
    share = np.concatenate([[0], done / done[-1]])
    ratio = math.exp(kappa) / (done[-1] / len(done))
    trace = daily(a_day / DAY_S, ratio, 14.5 + 7.5 / 60, int(1.1 * days * a_day), 9)
    hours = (trace.arrival_s[trace.arrival_s < days * DAY_S] % DAY_S) / HOUR_S - 7.5 / 60
    assert_distributed(hours, lambda at: np.interp(at, edges, share))
    minutes = np.histogram(hours, edges[4 * (14 * 60 + 18) : 4 * (14 * 60 + 42) + 1 : 4])[0]
    expected = days * a_day * np.diff(share[4 * (14 * 60 + 18) : 4 * (14 * 60 + 42) + 1 : 4])
    assert CHI2_24[0] < np.sum((minutes - expected) ** 2 / expected) < CHI2_24[1]


def test_daily_gaps_vary_as_the_docs_say():
    i0 = sum(CURVE_BY_HOUR) / 24  # I0(kappa) is the mean of exp(kappa cos)
    traces = [daily(0.5, PEAK_TO_MEAN, 14.5, round(4 * 0.5 * DAY_S), seed) for seed in SEEDS]
    assert_mean(np.array([trace.gap_cv for trace in traces]), math.sqrt(2 * i0**2 - 1))


def test_the_figures_of_a_trace_against_plain_loops():
    times = [0.0, 0.5, 0.75, 3.0, 3.0, 7.0]
    trace = Trace(np.arange(6), np.array(times))
    gaps = [after - before for before, after in pairwise(times)]
    mean = sum(gaps) / 5
    assert trace.rate_per_s == 5 / 7
    assert trace.gap_cv == pytest.approx(statistics.pstdev(gaps) / mean)
    lag1 = sum((a - mean) * (b - mean) for a, b in pairwise(gaps)) / sum((a - mean) ** 2 for a in gaps)
    assert trace.gap_lag1 == pytest.approx(lag1)


def test_the_correlation_of_a_long_trace_has_the_same_digits_on_any_machine():
    """A BLAS product of 100,000 gaps adds up in an order that depends on the number of cores."""
    gaps = np.random.default_rng(1).exponential(1.0, 10**5)
    trace = Trace(np.arange(10**5 + 1), np.append(0.0, np.cumsum(gaps)))
    gaps = np.diff(trace.arrival_s)
    gaps -= gaps.mean()
    assert trace.gap_lag1 == float(np.add.reduce(gaps[1:] * gaps[:-1]) / np.add.reduce(gaps * gaps))


@pytest.mark.parametrize("times", [[1.0], [1.0, 1.0, 1.0], [0.0, 5e-324], [0.1 * i for i in range(1, 99)]])
def test_figures_of_traces_that_have_none(times):
    """One request, one instant, times that differ by less than a rate can say, gaps equal but for rounding."""
    trace = Trace(np.arange(len(times)), np.array(times))
    assert trace.gap_cv == pytest.approx(0, abs=1e-12)
    assert trace.gap_lag1 == 0
    assert np.isfinite(trace.rate_per_s)


def test_a_silent_piece_is_leapt_over():
    """Work done exactly at an edge belongs to the piece that goes on."""
    times_s, pieces = pass_through(np.array([0, 0.5, 1, 2]), np.array([0.0, 1, 2, 3]), np.array([1.0, 0, 2]))
    assert times_s.tolist() == [0, 0.5, 2, 2.5]
    assert pieces.tolist() == [0, 0, 2, 2]


def test_bisect_finds_the_root_to_the_last_bit():
    assert bisect(lambda x: x**3 - 10, 0, 10) == pytest.approx(10 ** (1 / 3), rel=1e-15)
    assert bisect(lambda x: x - 3, 0, 3) == 3
    assert bisect(lambda x: x, 0, 3) < 1e-300


NAN, INF = math.nan, math.inf
RATE = "rate: expected a positive number of requests a second, from 1e-09 to 1e[+]09, found "
BAD: dict[str, tuple[Callable[..., Trace], list[tuple[dict[str, Any], str]]]] = {
    "poisson": (lambda rate=1.0, count=9, seed=0: poisson(rate, count, seed), [
        ({"rate": 0}, RATE + "0"), ({"rate": -1}, RATE + "-1"), ({"rate": NAN}, RATE + "nan"),
        ({"rate": INF}, RATE + "inf"), ({"rate": 1e-10}, RATE), ({"rate": 1e10}, RATE),
        ({"count": 0}, "count: expected at least 1 request and at most 100,000,000, found 0"),
        ({"count": 10**400}, "count: expected at least 1"), ({"seed": -1}, "seed: expected a whole number >= 0"),
        ({"rate": 1e-9, "count": 100}, r"rate: expected the last arrival within 1e\+10 s, found it at 1[.0-9]*e\+11"),
    ]),
    "gamma": (lambda rate=1.0, cv=2.0, count=9, seed=0: gamma(rate, cv, count, seed), [
        ({"rate": NAN}, RATE + "nan"), ({"count": -5}, "count"), ({"seed": -1}, "seed"),
        *(({"cv": cv}, f"cv: expected a coefficient of variation of the gaps, from 0.001 to 20, found {cv:g}")
          for cv in (0, -1, NAN, INF, 0.0009, 20.1)),
    ]),
    "mmpp": (lambda quiet=1.0, burst=9.0, quiet_s=1.0, burst_s=1.0, count=9, seed=0:
             mmpp(quiet, burst, quiet_s, burst_s, count, seed), [
        *(({"quiet": rate}, "quiet_" + RATE) for rate in (-1, NAN, INF, 1e-10)),
        *(({"burst": rate}, "burst_" + RATE) for rate in (0, -1, NAN, INF, 1e10)),
        ({"burst": 0.5}, "burst_rate: expected at least the quiet rate 1, found 0.5; swap them"),
        *(({"quiet_s": time}, "quiet_dwell: expected a mean duration in seconds") for time in (0, -1, NAN, INF, 2e10)),
        *(({"burst_s": time}, "burst_dwell: expected a mean duration in seconds") for time in (0, -1, NAN, INF, 2e10)),
        ({"quiet_s": 1e-9, "burst_s": 1e-9}, "quiet_dwell, burst_dwell: expected at most 2e[+]07 changes"),
        ({"count": 0}, "count"), ({"seed": -1}, "seed"),
    ]),
    "cameras": (lambda number=2, fps=10.0, count=9, seed=0, jitter=0.0, drop=0.0:
                cameras(number, fps, count, seed, jitter_s=jitter, drop=drop), [
        *(({"number": number}, "cameras: expected at least 1 camera and at most 10,000, found")
          for number in (0, -1, 10_001, 10**400)),
        *(({"fps": fps}, "fps: expected a positive number of frames a second") for fps in (0, -1, NAN, INF, 1e10)),
        *(({"jitter": time}, "jitter: expected a standard deviation in seconds of at most 10 frame periods, from 0 ")
          for time in (-1, NAN, INF, 1.01)),
        *(({"drop": share}, "drop: expected the share of frames that are lost, from 0 to 0.99, found")
          for share in (-0.1, NAN, INF, 1.0, 30)),
        ({"count": 10**7, "drop": 0.95}, "count: expected at most 100,000,000 frames with the lost ones, found 2e"),
        ({"count": 0}, "count"), ({"seed": -1}, "seed"),
    ]),
    "daily": (lambda rate=1.0, ratio=2.0, hour=12.0, count=9, seed=0: daily(rate, ratio, hour, count, seed), [
        ({"rate": NAN}, RATE + "nan"), ({"rate": -1}, RATE),
        *(({"ratio": ratio}, "peak_to_mean: expected the ratio of peak rate to mean rate, from 1 to 24, found")
          for ratio in (0, 0.99, -1, NAN, INF, 25)),
        *(({"hour": hour}, "peak_hour: expected an hour of the day, from 0 to 24, found")
          for hour in (-1, NAN, INF, 24.5)),
        ({"count": 0}, "count"), ({"seed": -1}, "seed"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused(name):
    make, cases = BAD[name]
    assert len(make()) == 9
    for arguments, expected in cases:
        with pytest.raises(InputError, match=f"^{expected}"):
            make(**arguments)
