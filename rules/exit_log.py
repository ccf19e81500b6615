"""Answers of a network at candidates for exits (PAME, Section 5.3), on plain arrays.

The *log* holds how sure the answer of each sample is at every candidate, and its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Floats, Ints
from ..traffic.samples import Samples

COUNTS = 10
"""Count thresholds that are tried where an answer has several principal values: ten equal fractions of their number."""


class Log(NamedTuple):
    """Answers of a network with K candidates to N samples."""

    # (N, K, M), how sure each answer is, as the measure has it: for each count threshold m the m-th largest principal
    # value of the sample at the candidate, the highest threshold with which it leaves (Section 5.3)
    sureness: Floats
    scores: Floats  # (N, K + 1), of the answers at each candidate and at the end, in [0, 1]; 0 or 1 if wrong or right
    counts: Ints  # (M,), principal values that must reach the threshold; a classification has one: M = 1

    @property
    def candidates(self) -> int:
        """Candidates, K; the end is not counted."""
        return int(self.sureness.shape[1])

    def part(self, rows: slice | Ints) -> Log:
        """The log of some samples."""
        return Log(self.sureness[rows], self.scores[rows], self.counts)


def count_thresholds(values: int) -> Ints:
    """Count thresholds to try for answers with this many principal values.

    Examples
    --------
    >>> count_thresholds(1), count_thresholds(80)
    (array([1]), array([ 8, 16, 24, 32, 40, 48, 56, 64, 72, 80]))
    """
    return np.unique([-(-values * part // COUNTS) for part in range(1, COUNTS + 1)])


def log_of(samples: Samples) -> Log:
    """The log of samples: how sure they are, for each count threshold, at every exit but the last."""
    counts = count_thresholds(samples.values)
    places = range(1, samples.exits)
    columns = [[samples.confidence_at(place, int(count)) for count in counts] for place in places]
    sureness = np.array(columns).reshape(len(places), len(counts), len(samples)).transpose(2, 0, 1)
    return Log(sureness, samples.correct.astype(np.float64), counts)


def levels_of(log: Log, thresholds: Sequence[float]) -> NDArray[np.uint8]:
    """Number of thresholds that each sample reaches: it leaves at all of these.

    Shapes: returns (N, K, M).
    """
    samples, candidates, columns = log.sureness.shape
    # samples last: they are read candidate by candidate
    levels = np.empty((candidates, columns, samples), dtype=np.uint8)
    for at, column in np.ndindex(candidates, columns):
        levels[at, column] = np.searchsorted(thresholds, log.sureness[:, at, column], side="right")
    return levels.transpose(2, 0, 1)
