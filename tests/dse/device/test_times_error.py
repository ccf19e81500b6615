"""The error of a calibrated engine: how often a further network lies within it."""

from __future__ import annotations

import numpy as np
import pytest
from fluidb.dse.device.errors import FEWEST, RowFit, times_error
from fluidb.rules.quantiles import student_t


def rows(ratios: list[float], layer: str | None = None) -> list[RowFit]:
    """A network for each ratio of measured to predicted time."""
    return [RowFit(f"n{at}", layer, ratio, 1.0, True, None, 0.0, 0.0) for at, ratio in enumerate(ratios)]


@pytest.mark.parametrize(("count", "confidence"), [(3, 0.9), (6, 0.8)])
def test_a_further_network_lies_within_as_often_as_is_said(count: int, confidence: float) -> None:
    """Logarithms of a normal distribution; the range of as many ratios would hold (n - 1) / (n + 1) of them."""
    draw, tries = np.random.default_rng(7), 2000
    within = ranged = 0
    for _ in range(tries):
        *seen, further = np.exp(draw.normal(0.2, 0.3, count + 1)).tolist()
        error = times_error(rows(seen), confidence)
        assert error is not None
        within += error.low <= further <= error.high
        ranged += min(seen) <= further <= max(seen)
    for hits, share in ((within, confidence), (ranged, (count - 1) / (count + 1))):
        assert hits / tries == pytest.approx(share, abs=4 * (share * (1 - share) / tries) ** 0.5)


def test_networks_count_once_and_few_are_not_enough() -> None:
    seen = [0.9, 1.0, 1.2]
    assert times_error(rows(seen[: FEWEST - 1]), 0.9) is None
    assert times_error(rows([1.0, 30.0, 900.0]), 0.9) is None  # an end beyond 1,000 says nothing
    pair = [times_error(rows(seen), 0.9, chose=chose) for chose in (False, True)]
    widths = [np.log(each.high / each.low) for each in pair if each is not None]
    assert widths[1] / widths[0] == pytest.approx(student_t(0.95, 1) / student_t(0.95, 2), rel=1e-2)
    error = times_error(rows(seen), 0.9)
    assert times_error([*rows(seen), *rows(seen[:1]) * 5], 0.9) == error
    assert times_error([*rows([0.9, 1.0]), *rows([1.0, 1.0, 1.2])[2:] * 3, *rows([1, 1, 9.0])[2:]], 0.9) == error
    layers = [row for ratio in (0.5, 1.3) for row in rows([ratio] * 3, "layer")]
    assert times_error(layers, 0.9) == times_error(rows([0.9] * 3), 0.9)  # their sums
