"""Evidence for another load: against plain loops, fair bets, and how often they raise a false alarm."""

from __future__ import annotations

import math

import naive_adaptation as naive
import numpy as np
import pytest
from fluidb.serving.evidence import Evidence, on_mean, on_share
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
    for _ in range(60):
        evidence = Evidence(6, 1 / 300)
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
    assert np.mean(wait) - 3 * np.std(wait) / math.sqrt(len(wait)) > 300
