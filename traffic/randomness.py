"""Random streams: one for each purpose, so that equal seeds never correlate two of them."""

from __future__ import annotations

import numpy as np

from ..formats import InputError

(
    ARRIVALS, EXITS, SAMPLES, GAMMA, MMPP, CAMERAS, DAILY, WITHIN_MINUTE, ANSWERS, WIDTHS, STEPS,
    PREDICTED_DEPTHS, PREDICTED_WIDTHS, ACCURACIES, SLOS, THINK_TIMES, NETWORKS,
) = range(17)  # fmt: skip


def stream(seed: int, purpose: int) -> np.random.Generator:
    """The generator of a purpose."""
    if seed < 0:
        raise InputError(f"seed: expected a whole number >= 0, found {seed}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose,))))
