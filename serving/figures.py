"""The figures of a replay: one list for requirements, comparisons and tables (``docs/metrics.md``, Metrics)."""

from __future__ import annotations

import math
from typing import NamedTuple

from .one_run import RunInterval
from .saturation import GROWTH
from .statistics import SHARE, Interval
from .summary import QUANTILES, Summary


class Figure(NamedTuple):
    """A figure of a replay."""

    name: str  # in a requirement: ``"p99"``
    key: str  # in files and JSON: ``"p99_latency_s"``
    # ``"s"``, ``"share"``, ``"/s"``, ``"requests"``, ``"bytes"``, ``"J"``, or ``"squared"`` for a variance of
    # exits or widths
    unit: str
    better: int  # -1 if less is better, 1 if more is better, 0 if neither is better by itself
    heading: str  # in a table, without the unit
    digits: int  # digits after the point in a table of milliseconds, percent or requests/s
    part: str = ""  # the part of a summary that has it; empty if the summary itself does

    @property
    def limits(self) -> Interval:
        """What it can be at least and at most; a load may be above 1, and a backlog may become smaller."""
        if self.part == "saturation":
            return GROWTH if self.name == "backlog_growth" else Interval(0.0, math.inf)
        return SHARE if self.unit == "share" else Interval(0.0, math.inf)

    def of(self, summary: Summary) -> float | None:
        """The figure of a summary; ``None`` if the trace, the latency table or the summary does not state it."""
        if self.name in QUANTILES:
            return summary.percentile(self.name).latency_s
        value = getattr(getattr(summary, self.part) if self.part else summary, self.key, None)
        return None if value is None else float(value)

    def interval_of(self, summary: Summary) -> RunInterval:
        """Its 95 % interval, or the number of more requests that one needs; empty for a figure that has none."""
        if self.name in QUANTILES:
            percentile = summary.percentile(self.name)
            return RunInterval(percentile.interval_s, percentile.more_requests_needed)
        intervals = {"mean": summary.mean_interval_s, "violation_rate": summary.violation_interval}
        if summary.saturation is not None:
            intervals["backlog_growth"] = summary.saturation.backlog_growth_interval
        if self.name not in intervals:
            return RunInterval(None, 0)
        return RunInterval(intervals[self.name], summary.more_requests_needed)


SHOWN_IN = {"share": ("%", 1e2), "/s": ("/s", 1.0), "bytes": ("MB", 1e-6), "J": ("mJ", 1e3), "squared": ("", 1.0)}
"""The units that tables and pictures show figures in, by :attr:`Figure.unit`, and how many of them there are in one.
Times are scaled by how long they are."""

UNAVOIDABLE = Figure("unavoidable_rate", "unavoidable_rate", "share", 0, "unavoidable", 2)
"""The share of violations that no scheduler could prevent; no summary has it, see :mod:`.bound`."""

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("mean", "mean_latency_s", "s", -1, "mean", 2),
        *(Figure(name, f"{name}_latency_s", "s", -1, name, 1) for name in QUANTILES),
        Figure("max", "max_latency_s", "s", -1, "max", 1),
        Figure("violation_rate", "violation_rate", "share", -1, "violations", 2),
        UNAVOIDABLE,
        Figure("busy_share", "busy_share", "share", 0, "busy", 1),
        Figure("energy", "energy_j", "J", -1, "energy", 2),
        Figure("mac_share", "mac_share", "share", 1, "MACs", 1, "utilisation"),
        Figure("accuracy", "accuracy", "share", 1, "accuracy", 2),
        Figure("served_accuracy", "served_accuracy", "share", 1, "SubNets' accuracy", 2, "subnets"),
        Figure("accuracy_misses", "accuracy_miss_rate", "share", -1, "less accurate", 2, "subnets"),
        Figure("hit_ratio", "hit_ratio", "share", 1, "hits", 1, "subnets"),
        Figure("off_chip", "off_chip_bytes", "bytes", -1, "off chip", 3, "subnets"),
        Figure("off_chip_energy", "off_chip_energy_j", "J", -1, "energy off chip", 3, "subnets"),
        Figure("refused", "refused_rate", "share", -1, "refused", 2, "admission"),
        Figure("dropped", "dropped_rate", "share", -1, "dropped", 2, "deadlines"),
        Figure("early", "early_rate", "share", 0, "early", 2, "deadlines"),
        Figure("accuracy_of_all", "accuracy_of_all", "share", 1, "accuracy of all", 2, "deadlines"),
        Figure("host_share", "latency_share", "share", 0, "host", 1, "host"),
        Figure("fairness", "fairness", "share", 1, "fairness", 2),
        Figure("load", "load", "share", -1, "load", 1, "saturation"),
        Figure("backlog_growth", "backlog_growth", "share", -1, "backlog growth", 2, "saturation"),
        Figure("processing_rate", "processing_rate_per_s", "/s", 1, "done", 2),
        Figure("goodput", "goodput_per_s", "/s", 1, "in time", 2),
        Figure("makespan", "makespan_s", "s", -1, "makespan", 1),
        Figure("depth_variance", "depth_variance", "squared", 0, "variance of depth", 2),
        Figure("width_variance", "width_variance", "squared", 0, "variance of width", 2),
        Figure("unfinished", "unfinished", "requests", -1, "unfinished", 0),
    )
}
"""Every figure, by name."""
