"""Cells of the tables of a report: an estimate, or a difference, with the ends of its interval."""

from __future__ import annotations

from ...studies.estimates import Difference, Estimate
from .charts import ChartUnit


def estimate_cells(unit: ChartUnit, estimate: Estimate | Difference) -> list[str]:
    """The value and the ends of its interval; empty where it has none."""
    return ["" if value is None else unit.number(value) for value in (estimate.mean, estimate.low, estimate.high)]


def difference_cells(unit: ChartUnit, change: Difference | None) -> list[str]:
    """The same of a difference, and whether it is beyond noise."""
    if change is None:
        return ["none", "", "", ""]
    return [*estimate_cells(unit, change), {True: "yes", False: "no", None: ""}[change.beyond_noise]]
