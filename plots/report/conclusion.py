"""Conclusions of a report in words, computed from the figures that the page shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...dse.npu.costs import Cause
from ...dse.npu.explanation import explain
from ...studies.comparison import Comparison
from .charts import time_unit
from .content import PolicyReplay, Report, ReportEntry
from .markup import Node, named


def conclusions(report: Report) -> list[list[Node]]:
    """A line for each conclusion, in the order of the sections."""
    many = len(report.sections) > 1
    lines: list[list[Node]] = []
    for item in report.sections:
        found = _of_design(item) if isinstance(item, ReportEntry) else _of_comparison(item.found)
        lines += [[named(item.name), ": ", *line] if many else list(line) for line in found]
    return lines


def _of_design(shown: ReportEntry) -> Iterator[Sequence[Node]]:
    if shown.design is not None and shown.fbcb is not None:
        found = explain(shown.design, shown.fbcb)
        for b in sorted({1, shown.table.b_max}):
            time_s = found.time_s[:, b - 1].sum()
            shares = {cause: part[:, b - 1].sum() / time_s for cause, part in found.parts_s.items()}
            made = shares.pop(Cause.COMPUTE)
            worst = max(shares, key=lambda cause: shares[cause])
            lost = f"; the largest loss is {worst.label}, with {100 * shares[worst]:.1f} %" if shares[worst] else ""
            yield [f"At batch {b}, {100 * made:.1f} % of the time makes MACs{lost}."]
    if shown.served:
        yield _fewest(shown.served)
        yield _shortest(shown.served)


def _fewest(served: Sequence[PolicyReplay]) -> list[Node]:
    """The policy with the fewest violations, and a comparison of its interval with that of the next one."""
    first, *others = sorted(served, key=lambda item: item.summary.violation_rate)
    rate = f" has {100 * first.summary.violation_rate:.2f} % violations"
    if not others:
        return [named(first.policy), f"{rate}."]
    second = others[0]
    own, next_ones = first.summary.violation_interval, second.summary.violation_interval
    if own is None or next_ones is None:
        apart = "the run is too short for an interval"
    elif own.high < next_ones.low:
        apart = "their intervals do not meet"
    else:
        apart = "their intervals overlap, so this run does not tell them apart"
    then = f"; {100 * second.summary.violation_rate:.2f} %: {apart}."
    return [named(first.policy), f"{rate}, the fewest. Next is ", named(second.policy), then]


def _shortest(served: Sequence[PolicyReplay]) -> list[Node]:
    """The policies with the lowest and the highest 99th percentile of latency."""
    ranked = sorted(served, key=lambda item: item.summary.percentile("p99").latency_s)
    low_s, high_s = (item.summary.percentile("p99").latency_s for item in (ranked[0], ranked[-1]))
    unit = time_unit(high_s)
    line: list[Node] = [
        "99 % of the requests take up to ",
        f"{unit.number(low_s)} {unit.name} under ",
        named(ranked[0].policy),
    ]
    if len(ranked) > 1:
        line += [f", the shortest; {unit.number(high_s)} {unit.name} under ", named(ranked[-1].policy), ", the longest"]
    return [*line, "."]


def _of_comparison(found: Comparison) -> Iterator[Sequence[Node]]:
    """Numbers of points at which a contender has fewer or more violations than the baseline, beyond noise."""
    for item in found.contenders:
        if item.name == found.baseline:
            continue
        changes = [
            other.differences["violation_rate"]
            for point in found.points
            for other in point.contenders
            if other.name == item.name and other.differences
        ]
        sure = np.array([change.mean if change.beyond_noise else 0.0 for change in changes])
        counts = f" at {(sure < 0).sum()} of {len(sure)} points and more at {(sure > 0).sum()}, beyond noise."
        yield [named(item.name), " has fewer violations than ", named(found.baseline), counts]
