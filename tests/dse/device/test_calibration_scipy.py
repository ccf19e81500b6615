"""The linear part of a calibration against SciPy, where it is installed: `.ci/run` installs it with the exporters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fluidb.dse.device.fit import CONSTANTS, cases_of
from fluidb.dse.device.kernels import nearest
from fluidb.platforms.engine import Engine
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def lsq_linear() -> Any:
    """Imported by the worker that needs it: it takes seconds."""
    return pytest.importorskip("scipy.optimize", reason="needs SciPy: pip install --group exporters").lsq_linear


NAMES = [name for name, value in CONSTANTS.items() if value is not None]
KEYS = {"name": "e", "title": "e", "clock_mhz": 1.0, "word_bits": 8, "bandwidth_gb_s": 1.0}
ENGINE = Engine.read(KEYS | dict.fromkeys(("pixels", "input_channels", "output_channels"), 1), Path("e.toml"))

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
    engine = ENGINE.model_copy(update=dict(zip(NAMES, stated.tolist(), strict=True)))
    cases = cases_of(engine, [name for name, keeps in zip(NAMES, kept, strict=True) if not keeps])
    found, _ = nearest(np.ascontiguousarray(table[None, :, :4]), weights, np.ones(1), cases, 1, 0.0)
    constants = found[0, 1:]
    assert found[0, 0] == 1
    high = np.where(kept, stated + 1e-12, [1.0, np.inf, np.inf])
    bounds = np.where(kept, stated, 0.0), high
    roots = np.sqrt(weights)
    best = lsq_linear(roots[:, None] * columns, roots * left, bounds, method="bvls")
    assert weights @ np.square(columns @ constants - left) <= 2 * best.cost + 1e-6
    assert (constants >= 0).all()
    assert constants[0] <= 1
    assert (constants == stated)[kept].all()
