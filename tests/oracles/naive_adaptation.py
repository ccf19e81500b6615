"""Evidence and figures of PAME's adaptation in plain loops, written from the page on exits alone.

A sample is its confidences and scores at all candidates; ``chain`` are (candidate, confidence) of exits in order of
depth; ``T(a, b, B)`` is the time of a stage, and T(a, a, B) of a gather.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

Chain = Sequence[tuple[int, float]]


class Bet:
    """The logarithm of a stake that is multiplied batch after batch, and begins anew when it has lost."""

    def __init__(self) -> None:
        self.gain, self.since = 0.0, 0

    def add(self, gain: float, batch: int) -> None:
        self.gain += gain
        if self.gain <= 0.0:
            self.gain, self.since = 0.0, batch + 1


def odds_factor(hits: int, of: int, share: float, odds: float) -> float:
    """Likelihood of the hits, where the odds of each are changed, as a multiple of that where they are not."""
    other = share * odds / (1 - share + share * odds)
    return (other / share) ** hits * ((1 - other) / (1 - share)) ** (of - hits)


def leaves_at(confidences: Sequence[float], chain: Chain, end: int) -> int:
    """The candidate where a sample leaves."""
    return next((place for place, level in chain if confidences[place - 1] >= level), end)


def took(left: Sequence[int], chain: Chain, T: Callable[[int, int, int], float], end: int) -> float:
    """Time of a batch whose samples leave there."""
    at, there, time_s = 0, len(left), 0.0
    for place, _ in chain:
        if not there:
            break
        time_s += T(at, place, there)
        stay = sum(other > place for other in left)
        if 0 < stay < there:
            time_s += T(place, place, stay)
        at, there = place, stay
    return time_s + (T(at, end, there) if there else 0.0)


def figures(
    confidences: Any, scores: Any, starts: Sequence[int], chain: Chain, T: Any, end: int
) -> tuple[float, float]:
    """Precision of batches, as a share of the network's own, and the share of slow ones."""
    kept, own, slow = 0.0, 0.0, 0
    for first, behind in itertools.pairwise(starts):
        left = [leaves_at(confidences[row], chain, end) for row in range(first, behind)]
        kept += sum(scores[row][place - 1] for row, place in zip(range(first, behind), left, strict=True))
        own += sum(scores[row][end - 1] for row in range(first, behind))
        slow += took(left, chain, T, end) > T(0, end, behind - first) * (1 + 1e-9)
    return kept / own if own else 1.0, slow / (len(starts) - 1)


def evidence(
    confidences: Any, scores: Any, starts: Sequence[int], chain: Chain, T: Any, end: int, eta: float,
    allowed: Sequence[float], shares: Sequence[float],
) -> dict[str, list[tuple[float, int]]]:  # fmt: skip
    """Logarithm of the stake of each bet, and the first request that counts, after batches from the first on.

    ``allowed`` is the share of each batch that may be slow, ``shares`` are of samples that leave at each exit or
    before it in the log.
    """
    bets: dict[str, list[Bet]] = {
        "precision": [Bet(), Bet()], "slow batches": [Bet(), Bet()], "load": [Bet() for _ in range(2 * len(shares))]
    }  # fmt: skip
    for batch, (first, behind) in enumerate(itertools.pairwise(starts)):
        left = [leaves_at(confidences[row], chain, end) for row in range(first, behind)]
        for bet, stake in zip(bets["precision"], (0.25, 0.75), strict=True):
            factor = 1.0
            for row, place in zip(range(first, behind), left, strict=True):
                factor *= 1 + stake * (eta * scores[row][end - 1] - scores[row][place - 1])
            bet.add(math.log(factor), batch)
        slow = took(left, chain, T, end) > T(0, end, behind - first) * (1 + 1e-9)
        for bet, odds in zip(bets["slow batches"], (2.0, 4.0), strict=True):
            bet.add(math.log(odds_factor(int(slow), 1, allowed[batch], odds)), batch)
        for at, (place, _) in enumerate(chain):
            gone = sum(other <= place for other in left)
            for side, odds in enumerate((0.77, 1.3)):
                factor = odds_factor(gone, behind - first, shares[at], odds)
                bets["load"][2 * at + side].add(math.log(factor), batch)
    return {cause: [(bet.gain, starts[bet.since]) for bet in group] for cause, group in bets.items()}


def rate_evidence(arrival_s: Sequence[float], starts: Sequence[int], window: int) -> list[tuple[float, int]]:
    """Stakes of the bets that requests arrive less or more often than in the first batches, as in :func:`evidence`.

    They gain even if the known rate is three standard deviations off, and requests that come together count as one.
    """
    batches = [(b - a, arrival_s[min(b, len(arrival_s) - 1)] - arrival_s[a]) for a, b in itertools.pairwise(starts)]
    requests, time_s = (sum(column) for column in zip(*batches[:window], strict=True))
    edges = [window * part // 20 for part in range(21)]
    surplus = [sum(n - s * requests / time_s for n, s in batches[a:b]) for a, b in itertools.pairwise(edges)]
    together = max(1.0, sum(more**2 for more in surplus) / requests)
    off, bets = math.exp(3 * math.sqrt(together / requests)), []
    for factor, known in ((0.67, requests / time_s / off), (1.5, requests / time_s * off)):
        bet = Bet()
        bet.since = window
        for batch, (n, s) in enumerate(batches[window:], window):
            # likelihood of n arrivals in s, where the rate is changed, as a multiple of the one where it is not
            bet.add((n * math.log(factor * known / known) - (factor * known - known) * s) / together, batch)
        bets.append((bet.gain, starts[min(bet.since, len(batches))]))
    return bets
