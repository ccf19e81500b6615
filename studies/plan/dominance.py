"""Hardware that other hardware beats: it is as slow or slower in every part at every batch size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formats.array_types import Floats, Ints
from ...serving.figures import FIGURES
from ...serving.requirements import Requirement

BETTER = {-1: ("<=", "<"), 1: (">=", ">")}
"""Comparators of requirements on figures that are better if lower, or if higher."""

SLOWER_MAY_HELP = {"mac_share", "energy"}
"""Figures that may be better on slower hardware: it has fewer multipliers, or makes larger batches."""


def faster_is_better(requirements: Sequence[Requirement]) -> bool:
    """Whether faster hardware keeps what slower hardware keeps, unless the order of batches happens to be worse."""
    return all(
        requirement.name not in SLOWER_MAY_HELP
        and requirement.comparator in BETTER.get(FIGURES[requirement.name].better, ())
        for requirement in requirements
    )


class Unbeaten:
    """The rows of a source so far that no other one beats."""

    def __init__(self) -> None:
        self._times_s: Floats | None = None  # (N, parts times batch sizes), of those that are not beaten
        self._judged: dict[int, bool] = {}

    def judge(self, rows: Ints, times_s: Floats) -> None:
        """Judge rows by their times. Shapes: (N,), (N, ...)."""
        flat = times_s.reshape(len(rows), -1)
        known = flat[:0] if self._times_s is None else self._times_s
        for at in np.lexsort((rows, flat.sum(axis=1))).tolist():
            beaten = bool((known <= flat[at]).all(axis=1).any())
            self._judged[int(rows[at])] = not beaten
            if not beaten:
                known = np.concatenate([known, flat[at : at + 1]])
        self._times_s = known

    def __contains__(self, row: int) -> bool:
        """Whether no other row beats a row that was judged."""
        return self._judged[row]

    def unknown(self, rows: Ints) -> Ints:
        """The rows that were not judged, of some."""
        return np.array([row for row in rows.tolist() if row not in self._judged], np.int64)
