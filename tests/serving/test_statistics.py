"""The end of a start-up transient, against its definition in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from fluidb.serving.statistics import warm_up


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rising", [0, 40, 200])
def test_the_warm_up_ends_where_the_rest_has_the_least_standard_error(seed, rising):
    """MSER-5: means of five observations, of which the first are left out; at most half of them."""
    values = np.random.default_rng(seed).random(504) + np.minimum(np.arange(504), rising)
    means = [values[i : i + 5].mean() for i in range(0, 500, 5)]
    errors = [np.var(means[cut:]) / len(means[cut:]) for cut in range(50)]
    assert warm_up(values) == 5 * int(np.argmin(errors))


def test_few_observations_and_endless_ones_have_no_warm_up():
    assert warm_up(np.arange(19.0)) == 0
    assert warm_up(np.append(np.arange(99.0), np.inf)) == 0
