"""The linear part of a calibration against SciPy, where it is installed: `.ci/run` installs it with the exporters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fluidb.dse.device.fit import _within
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def lsq_linear() -> Any:
    """Imported by the worker that needs it: it takes seconds."""
    return pytest.importorskip("scipy.optimize", reason="needs SciPy: pip install --group exporters").lsq_linear


SHARES = st.lists(  # of 1/64, as SciPy divides by what is nearly 0
    st.tuples(*(st.integers(0, most).map(lambda n: n / 64) for most in (96, 64, 64, 64, 64))), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(SHARES, st.lists(st.booleans(), min_size=3, max_size=3))
def test_the_linear_part_is_the_best_within_bounds(
    lsq_linear: Any, rows: list[tuple[float, ...]], kept: list[bool]
) -> None:
    """Beside a bandwidth and with weights, against SciPy's bounded least squares."""
    table, stated = np.array(rows), np.array([0.5, 0.1, 0.2])
    columns, left, weights = table[:, 1:4], 1 - table[:, 0], table[:, 4] + 1 / 64
    constants = _within(columns, left, weights, stated, np.array(kept))
    high = np.where(kept, stated + 1e-12, [1.0, np.inf, np.inf])
    bounds = np.where(kept, stated, 0.0), high
    roots = np.sqrt(weights)
    best = lsq_linear(roots[:, None] * columns, roots * left, bounds, method="bvls")
    assert weights @ np.square(columns @ constants - left) <= 2 * best.cost + 1e-6
    assert (constants >= 0).all()
    assert constants[0] <= 1
    assert (constants == stated)[kept].all()
