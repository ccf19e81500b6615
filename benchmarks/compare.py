"""Comparison of two runs of the benchmarks: changes beyond noise.

For each row that measures fluidb, the samples of both runs are compared.  A sample
is the ratio of its time to the time of a reference row in the same round, so that a
machine that is slower as a whole changes nothing.  A row without a reference is listed, not judged.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rounds import BenchmarkRow, BenchmarkTable

from tables import read_results

CONFIDENCE = 0.99
"""Confidence of each interval: of a hundred rows that did not change, one is expected outside."""

MARGIN = 0.05
"""Least change that counts: two builds of the same code differ by up to this much."""


class Verdict(StrEnum):
    """Verdict on a row."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "within noise"
    FEW = "too few rounds"
    UNJUDGED = "held against nothing"


class RowChange(NamedTuple):
    """Ratio of a row's time to its time before: estimate and interval."""

    name: str
    factor: float
    low: float
    high: float
    verdict: Verdict


@functools.cache
def _ways(m: int, n: int) -> tuple[int, ...]:
    """Numbers of arrangements of m and n samples with u = 0, 1, ..., mn pairs in order (Mann, Whitney 1947)."""
    if m == 0 or n == 0:
        return (1,)
    counts = [0] * (m * n + 1)
    for u, count in enumerate(_ways(m - 1, n)):
        counts[u + n] += count
    for u, count in enumerate(_ways(m, n - 1)):
        counts[u] += count
    return tuple(counts)


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float] | None:
    """Factor between two sets of positive samples, and the ends of its interval; None if there are too few samples.

    Hodges and Lehmann's estimate for ratios: the median of all after/before, with the interval that the Mann-Whitney
    distribution gives (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, Section 4.3).
    """
    ratios = sorted(late / early for early, late in itertools.product(before, after))
    ways = np.array(_ways(len(before), len(after)), dtype=np.float64)
    tail = np.cumsum(ways / ways.sum())
    outside = int(np.searchsorted(tail, (1 - CONFIDENCE) / 2, side="right"))  # ratios left out on each side
    if outside == 0:
        return None
    return float(np.median(ratios)), ratios[outside - 1], ratios[len(ratios) - outside]


def judge(name: str, before: Sequence[float], after: Sequence[float]) -> RowChange:
    """Compare the samples of a row."""
    ratio = interval(before, after)
    if ratio is None:
        return RowChange(name, float(np.median(after) / np.median(before)), 0.0, np.inf, Verdict.FEW)
    factor, low, high = ratio
    verdict = Verdict.SLOWER if low > 1 + MARGIN else Verdict.FASTER if high < 1 / (1 + MARGIN) else Verdict.SAME
    return RowChange(name, factor, low, high, verdict)


def changes(before: Sequence[BenchmarkTable], after: Sequence[BenchmarkTable]) -> list[RowChange]:
    """Changes of all rows that measure fluidb and are in both runs."""
    earlier = {(table.key, row.name): (table, row) for table in before for row in table.rows if row.ours}
    return [
        _change(table, row, *earlier[table.key, row.name])
        for table in after
        for row in table.rows
        if row.ours and (table.key, row.name) in earlier
    ]


def _change(
    table: BenchmarkTable, row: BenchmarkRow, table_before: BenchmarkTable, row_before: BenchmarkRow
) -> RowChange:
    name = f"{table.title}: {row.name}"
    if row.against is None or row.against != row_before.against:
        return RowChange(name, row.median_s / row_before.median_s, 0.0, np.inf, Verdict.UNJUDGED)
    return judge(name, table_before.ratios(row_before), table.ratios(row))


def main(paths: Sequence[str]) -> int:
    """Print the changes; return 1 if any row is slower beyond noise, 2 if the runs cannot be compared."""
    try:
        if len(paths) != 2 or not all(paths):
            raise ValueError("expected two runs: make bench-compare A=old.json B=new.json")
        (machine_before, before), (machine_after, after) = (read_results(Path(path)) for path in paths)
        changed = changes(before, after)
        if not changed:
            raise ValueError(f"{paths[0]}, {paths[1]}: expected rows that both have, found none")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for key in machine_before.keys() | machine_after.keys():
        if machine_before.get(key) != machine_after.get(key):
            print(f"note: {key}: {machine_before.get(key)} before, {machine_after.get(key)} after")
    width = max(len(change.name) for change in changed)
    for change in changed:
        span = f"{change.low:.2f} to {change.high:.2f}" if change.low else ""
        print(f"{change.name:<{width}}  x {change.factor:5.2f}  {span:<14}  {change.verdict}")
    slower = sum(change.verdict is Verdict.SLOWER for change in changed)
    faster = sum(change.verdict is Verdict.FASTER for change in changed)
    print(f"beyond noise at {CONFIDENCE:.0%}: {slower} slower, {faster} faster, of {len(changed)}")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
