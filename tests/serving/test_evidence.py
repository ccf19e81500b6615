"""Evidence for another load: against plain loops, fair bets, and how often they raise a false alarm."""

from __future__ import annotations

import math

import naive_adaptation as naive
import numpy as np
import pytest
from fluidb.serving.evidence import Evidence, Rate, on_mean, on_rate, on_share, rate_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.lists(st.integers(-24, 24), min_size=1, max_size=9), min_size=1, max_size=9))
def test_stakes_are_those_of_plain_loops_however_often_one_looks(looks: list[list[int]]) -> None:
    """Every look counts some batches; of two bets one says the contrary. Gains are eighths, so that sums are exact."""
    found, bets, batch = Evidence(2, 1e-3), (naive.Bet(), naive.Bet()), 0
    for eighths in looks:
        gains = [item / 8 for item in eighths]
        found.add(np.array([gains, [-gain for gain in gains]]))
        for gain in gains:
            for bet, sign in zip(bets, (1, -1), strict=True):
                bet.add(sign * gain, batch)
            batch += 1
        assert found.gain.tolist() == [bet.gain for bet in bets]
        assert found.since.tolist() == [bet.since for bet in bets]
        enough = [at for at, bet in enumerate(bets) if bet.gain >= math.log(2000) and batch - bet.since >= 2]
        assert found.found(2).tolist() == enough


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("odds", [0.77, 1.3, 2.0, 4.0])
def test_a_bet_on_a_share_is_fair_while_the_share_is_what_it_was(share: float, odds: float) -> None:
    hits = np.arange(17)
    chances = [math.comb(16, k) * share**k * (1 - share) ** (16 - k) for k in hits]
    factors = np.exp(on_share(hits, 16, share, odds))
    assert np.dot(chances, factors) == pytest.approx(1)
    assert factors == pytest.approx([naive.odds_factor(int(k), 16, share, odds) for k in hits])


def test_a_bet_on_a_mean_loses_while_the_mean_is_not_above_0() -> None:
    values, chances = np.array([-1.0, -0.01, 0.99]), np.array([0.02, 0.96, 0.02])
    assert chances @ values < 0
    for stake in (0.25, 0.75):
        assert chances @ np.exp(on_mean(values, stake)) < 1


def test_false_alarms_are_as_rare_as_they_are_said_to_be() -> None:
    """Six bets that look after every batch: the first alarm comes after 1/a batches on average, or later."""
    random, wait = np.random.default_rng(1), []
    for _ in range(30):
        evidence = Evidence(6, 1 / 100)
        while not evidence.found(1).size:
            hits, slow = random.binomial(16, 0.5, 100), random.random(100) < 0.02
            lost = random.choice([-1.0, 0.0, 1.0], size=(100, 16), p=[0.02, 0.96, 0.02])
            gains = [on_share(hits, 16, 0.5, odds) for odds in (0.77, 1.3)]
            gains += [on_share(slow, 1, 0.02, odds) for odds in (2.0, 4.0)]
            gains += [on_mean(lost, stake).sum(axis=1) for stake in (0.25, 0.75)]
            for batch in np.array(gains).T:
                evidence.add(batch[:, None])
                if evidence.found(1).size:
                    break
        wait.append(evidence.batches)
    assert np.mean(wait) - 3 * np.std(wait) / math.sqrt(len(wait)) > 100


@pytest.mark.parametrize("factor", [0.25, 0.67, 1.5, 4.0])
def test_a_bet_on_a_rate_is_fair_while_the_rate_is_what_it_was(factor: float) -> None:
    """Three Poisson arrivals at 5/s take a time of Erlang's distribution; four that come together count as one."""
    step_s = 1e-3
    span_s = np.arange(step_s / 2, 20, step_s)
    density = 5**3 * span_s**2 / 2 * np.exp(-5 * span_s)
    gains = on_rate(np.full(len(span_s), 3), span_s, Rate(5.0, 1.0, 0.1), factor, 0.0)
    assert (density * np.exp(gains)).sum() * step_s == pytest.approx(1, abs=1e-6)
    fours = on_rate(np.full(len(span_s), 12), span_s, Rate(20.0, 4.0, 0.1), factor, 0.0)
    assert fours == pytest.approx(gains)
    doubtful = on_rate(np.full(len(span_s), 3), span_s, Rate(5.0, 1.0, 0.1), factor, 3.0)
    assert np.all(doubtful < gains)


@pytest.mark.parametrize(("together", "known", "per_batch"), [(1, 3, 4), (1, 100, 4), (4, 100, 8)])
def test_an_unchanged_rate_is_no_evidence(together: int, known: int, per_batch: int) -> None:
    """The first alarm comes after 1/a batches on average, or later, though the rate is known from few batches only."""
    random, wait = np.random.default_rng(1), []
    for _ in range(30):
        groups = random.gamma(per_batch / together, together, 8 * 300 + known)
        arrived = np.full(len(groups), per_batch)
        rate = rate_of(arrived[:known], groups[:known])
        assert rate is not None
        evidence = Evidence(2, 1 / 300)
        for some in np.array_split(np.arange(known, len(groups)), 200):
            evidence.add(np.array([on_rate(arrived[some], groups[some], rate, factor, 3.0) for factor in (0.67, 1.5)]))
            if evidence.found(1).size:
                break
        wait.append(evidence.batches)
    assert np.mean(wait) - 3 * np.std(wait) / math.sqrt(len(wait)) > 300


def test_a_rate_says_how_sure_it_is() -> None:
    """Of Poisson arrivals, of four that come together, and of regular ones; all at once have none."""
    random, arrived = np.random.default_rng(2), np.full(4000, 8)
    for together in (1, 4):
        rates = [rate_of(arrived, random.gamma(8 / together, together, 4000)) for _ in range(40)]
        assert np.mean([rate.together for rate in rates if rate]) == pytest.approx(together, rel=0.2)
        logs = [math.log(rate.per_s) for rate in rates if rate]
        assert np.std(logs) == pytest.approx(math.sqrt(together / 32_000), rel=0.4)
    assert rate_of(arrived, np.full(4000, 8.0)) == pytest.approx((1.0, 1.0, 1 / math.sqrt(32_000)))
    assert rate_of(arrived, np.zeros(4000)) is None
