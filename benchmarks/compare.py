"""Two runs of the benchmarks: what is beyond noise.

For each row that measures fluidb, the samples of both runs are compared: its time
by that of the row it is held against in the same round, so that a machine that
is slower as a whole changes nothing.  A row held against nothing is listed, not judged.
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
from rounds import Row, Table

from tables import read_results

CONFIDENCE = 0.99
"""Of each interval: of a hundred rows that did not change, one is expected outside."""

MARGIN = 0.05
"""A change that may be smaller than this is nobody's concern: two builds of the same code differ as much."""


class Verdict(StrEnum):
    """What is to be said of a row."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "within noise"
    FEW = "too few rounds"
    UNJUDGED = "held against nothing"


class Change(NamedTuple):
    """How much longer a row takes than before: estimate and interval, as a factor."""

    name: str
    factor: float
    low: float
    high: float
    verdict: Verdict


@functools.cache
def _ways(m: int, n: int) -> tuple[int, ...]:
    """Of the arrangements of m and n samples, how many have u = 0, 1, ..., mn pairs in order (Mann, Whitney 1947)."""
    if m == 0 or n == 0:
        return (1,)
    counts = [0] * (m * n + 1)
    for u, count in enumerate(_ways(m - 1, n)):
        counts[u + n] += count
    for u, count in enumerate(_ways(m, n - 1)):
        counts[u] += count
    return tuple(counts)


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float] | None:
    """The factor between two sets of samples, with its interval.

    Hodges and Lehmann's estimate on a scale of ratios: the median of all
    after/before, and between which of them the factor lies by the Mann-Whitney
    distribution (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, Section 4.3).

    Parameters
    ----------
    before, after : sequence of float
        Positive samples.

    Returns
    -------
    factor, low, high : float
        ``None`` if there are too few samples for an interval of :data:`CONFIDENCE`.
    """
    ratios = sorted(late / early for early, late in itertools.product(before, after))
    ways = np.array(_ways(len(before), len(after)), dtype=np.float64)
    tail = np.cumsum(ways / ways.sum())
    outside = int(np.searchsorted(tail, (1 - CONFIDENCE) / 2, side="right"))  # ratios left out on each side
    if outside == 0:
        return None
    return float(np.median(ratios)), ratios[outside - 1], ratios[len(ratios) - outside]


def judge(name: str, before: Sequence[float], after: Sequence[float]) -> Change:
    """What became of a row."""
    found = interval(before, after)
    if found is None:
        return Change(name, float(np.median(after) / np.median(before)), 0.0, np.inf, Verdict.FEW)
    factor, low, high = found
    verdict = Verdict.SLOWER if low > 1 + MARGIN else Verdict.FASTER if high < 1 / (1 + MARGIN) else Verdict.SAME
    return Change(name, factor, low, high, verdict)


def changes(before: Sequence[Table], after: Sequence[Table]) -> list[Change]:
    """All rows that measure fluidb and are in both runs."""
    earlier = {(table.key, row.name): (table, row) for table in before for row in table.rows if row.ours}
    return [
        _change(table, row, *earlier[table.key, row.name])
        for table in after
        for row in table.rows
        if row.ours and (table.key, row.name) in earlier
    ]


def _change(table: Table, row: Row, table_before: Table, row_before: Row) -> Change:
    name = f"{table.title}: {row.name}"
    if row.against is None or row.against != row_before.against:
        return Change(name, row.median_s / row_before.median_s, 0.0, np.inf, Verdict.UNJUDGED)
    return judge(name, table_before.ratios(row_before), table.ratios(row))


def main(paths: Sequence[str]) -> int:
    """Print what changed; 1 if anything is slower beyond noise, 2 if the runs cannot be compared."""
    try:
        if len(paths) != 2 or not all(paths):
            raise ValueError("expected two runs: make bench-compare A=old.json B=new.json")
        (machine_before, before), (machine_after, after) = (read_results(Path(path)) for path in paths)
        found = changes(before, after)
        if not found:
            raise ValueError(f"{paths[0]}, {paths[1]}: expected rows that both have, found none")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for key in machine_before.keys() | machine_after.keys():
        if machine_before.get(key) != machine_after.get(key):
            print(f"note: {key}: {machine_before.get(key)} before, {machine_after.get(key)} after")
    width = max(len(change.name) for change in found)
    for change in found:
        span = f"{change.low:.2f} to {change.high:.2f}" if change.low else ""
        print(f"{change.name:<{width}}  x {change.factor:5.2f}  {span:<14}  {change.verdict}")
    slower = sum(change.verdict is Verdict.SLOWER for change in found)
    faster = sum(change.verdict is Verdict.FASTER for change in found)
    print(f"beyond noise at {CONFIDENCE:.0%}: {slower} slower, {faster} faster, of {len(found)}")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
