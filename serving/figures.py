"""The figures of a replay: one list for requirements, comparisons and tables (``docs/model.md``, Metrics)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .metrics import QUANTILES, Summary


class Figure(NamedTuple):
    """A figure of a replay.

    Attributes
    ----------
    name : str
        What a requirement calls it: ``"p99"``.
    key : str
        What files and ``--json`` call it: ``"p99_latency_s"``.
    unit : str
        ``"s"``, ``"share"``, ``"/s"`` or ``"requests"``.
    better : int
        -1 if less is better, 1 if more is better, 0 if neither is better by itself.
    heading : str
        What a table calls it, without the unit.
    digits : int
        Digits after the point in a table of milliseconds, percent or requests/s.
    take : callable or None
        The figure of a summary, ``None`` where trace or latency table do not say; no function for
        what a summary does not hold.
    """

    name: str
    key: str
    unit: str
    better: int
    heading: str
    digits: int
    take: Callable[[Summary], float | None] | None


def _percentile(name: str) -> Figure:
    return Figure(name, f"{name}_latency_s", "s", -1, name, 1, lambda summary: summary.percentile(name).latency_s)


def _mac_share(summary: Summary) -> float | None:
    return None if summary.utilisation is None else summary.utilisation.mac_share


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("mean", "mean_latency_s", "s", -1, "mean", 2, lambda summary: summary.mean_latency_s),
        *map(_percentile, QUANTILES),
        Figure("max", "max_latency_s", "s", -1, "max", 1, lambda summary: summary.max_latency_s),
        Figure("violation_rate", "violation_rate", "share", -1, "late", 2, lambda summary: summary.violation_rate),
        # the replay alone shows this one (bound.least_violations)
        Figure("unavoidable_rate", "unavoidable_rate", "share", 0, "least", 2, None),
        Figure("busy_share", "busy_share", "share", 0, "busy", 1, lambda summary: summary.busy_share),
        Figure("mac_share", "mac_share", "share", 1, "MACs", 1, _mac_share),
        Figure("accuracy", "accuracy", "share", 1, "accuracy", 2, lambda summary: summary.accuracy),
        Figure(
            "processing_rate",
            "processing_rate_per_s",
            "/s",
            1,
            "done",
            2,
            lambda summary: summary.processing_rate_per_s,
        ),
        Figure("goodput", "goodput_per_s", "/s", 1, "in time", 2, lambda summary: summary.goodput_per_s),
        Figure("unfinished", "unfinished", "requests", -1, "unfinished", 0, lambda summary: float(summary.unfinished)),
    )
}
"""Every figure, by name."""
