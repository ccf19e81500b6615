"""Decisions that a device's times imply, tabulated before serving (BatchCond, Section IV)."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Bools, Floats
from ...rules.pad_or_split import decision_map, ideal_batch_sizes
from ...tables.decisions import DecisionTable, PointRow, WidthRow
from ...tables.latency import LatencyTable


class SplitRule(NamedTuple):
    """Split if ``terminated`` samples or more have terminated in a batch of ``places`` or more; else pad."""

    terminated: int
    places: int

    def map(self, sizes: int) -> Bools:
        """True where it splits, by places and terminated samples below ``sizes``."""
        places, terminated = np.indices((sizes, sizes))
        return (terminated >= self.terminated) & (places >= self.places)


ALWAYS_SPLIT = SplitRule(1, 2)


class RuleScore(NamedTuple):
    """Score of a rule over the cells of a decision map with a choice: some samples have terminated, but not all.

    ``balanced`` is the balanced accuracy, the mean of ``right`` over the cells that split and over the cells that pad;
    ``None`` if the map has cells of one kind only.
    """

    right: float  # share of cells that it decides as Equation (1) does
    balanced: float | None
    lost: float  # share by which the stages behind the cells take longer than with Equation (1)


class DecisionPoint(NamedTuple):
    """A row of the table with its summary; ``least`` and ``rule`` are ``None`` if splitting never pays."""

    row: PointRow
    least: SplitRule | None  # splitting never pays with fewer terminated samples or fewer places
    rule: SplitRule | None  # nearest to the map in balanced accuracy
    by_rule: RuleScore  # score of ``rule``
    always_split: RuleScore
    always_pad: RuleScore


def _points(table: LatencyTable) -> tuple[list[int], Floats, Floats]:
    """Exits with a decision point; by variant, times of the stages behind; and times of the gathers there."""
    last = len(table.exits)
    after = [*range(1, last), *([last] if table.exits[-1].steps > 1 else [])]
    place = np.minimum(after, last - 1).astype(np.int64)
    time_s = table.segments(by_layer=False).time_s[:, place]
    return after, time_s, table.gather_array()[place]


def tabulate_decisions(table: LatencyTable) -> DecisionTable:
    """Equation (1) at every decision point, and the ideal batch size of every width."""
    after, time_s, gather_s = _points(table)
    alike: dict[tuple[tuple[int, ...], bytes], list[int]] = {}  # variants by exits and map
    for variant in range(table.variants):
        maps = decision_map(time_s[variant], gather_s)
        for split, group in groupby(zip(after, maps, strict=True), key=lambda point: point[1].tobytes()):
            alike.setdefault((tuple(number for number, _ in group), split), []).append(variant)
    points = []
    for (exits, split), variants in alike.items():
        ranges = _ranges(np.frombuffer(split, np.bool_).reshape(table.b_max + 1, -1))
        points.append(PointRow(variants=variants, after_exits=list(exits), split=ranges))
    # Sub-batches of different widths stay apart until the end, so whole passes decide.  BatchCond, Section III-B, names
    # the layers up to the next decision point, which is the end in its networks of several widths: they have no exits.
    passes_s = table.pass_s()
    ideal = ideal_batch_sizes(passes_s)
    decisions = DecisionTable(
        network=table.network,
        platform=table.platform,
        b_max=table.b_max,
        points=points,
        variants=[
            WidthRow(width=width, ideal_batch=int(batch), samples_per_s=float(batch / times_s[batch]))
            for width, batch, times_s in zip(_widths(table), ideal, passes_s, strict=True)
        ],
    )
    return decisions.derived_from(table)


def _widths(table: LatencyTable) -> list[float | None]:
    """The width of each variant."""
    widths: list[float | None] = [None] if table.widths is None else [*table.widths]
    return [widths[variant % len(widths)] for variant in range(table.variants)]


def _ranges(split: Bools) -> list[list[list[int]]]:
    """For every batch size from 1, the counts of terminated samples with which splitting pays, as ranges."""
    ranges = []
    for places in range(1, len(split)):
        edges = np.flatnonzero(np.diff(split[places, 1:places].astype(np.int8), prepend=0, append=0))
        ranges.append([[int(first) + 1, int(behind)] for first, behind in edges.reshape(-1, 2)])
    return ranges


def sum_up(table: LatencyTable, decisions: DecisionTable) -> list[DecisionPoint]:
    """Sum up every row of a decision table."""
    after, time_s, gather_s = _points(table)
    points = []
    for row in decisions.points:
        point = after.index(row.after_exits[0])
        split = row.map()
        nearest, never = nearest_rule(split), np.zeros_like(split)
        tried = nearest.map(len(split)) if nearest else never, ALWAYS_SPLIT.map(len(split)), never
        judged = (judge(each, split, time_s[row.variants[0], point], gather_s[point]) for each in tried)
        points.append(DecisionPoint(row, least_rule(split), nearest, *judged))
    return points


def _cells(sizes: int) -> Bools:
    """Cells of a map with a choice: some samples have terminated, but not all."""
    places, terminated = np.indices((sizes, sizes))
    return (terminated >= 1) & (terminated < places)


def least_rule(split: Bools) -> SplitRule | None:
    """The smallest counts with which splitting pays anywhere in a map; ``None`` if it never does."""
    places, terminated = np.nonzero(split & _cells(len(split)))
    return SplitRule(int(terminated.min()), int(places.min())) if places.size else None


def nearest_rule(split: Bools) -> SplitRule | None:
    """The rule with the largest balanced accuracy; of equals, the one that splits most often."""
    cells = _cells(len(split))
    if not (cells & split).any():
        return None
    if not (cells & ~split).any():
        return ALWAYS_SPLIT
    # for every rule: cells that split and that pad among those where it splits
    right, wrong = (np.cumsum(np.cumsum((cells & kind)[::-1, ::-1], 0), 1)[::-1, ::-1] for kind in (split, ~split))
    score = right / right[0, 0] - wrong / wrong[0, 0]
    places, terminated = (max(int(number), 1) for number in np.unravel_index(score.argmax(), score.shape))
    return SplitRule(terminated, max(places, terminated + 1))


def judge(tried: Bools, split: Bools, time_s: Floats, gather_s: Floats) -> RuleScore:
    """Score of the map ``tried`` against ``split``, the map of Equation (1), by the times of the stage behind."""
    places, terminated = np.nonzero(_cells(len(split)))
    if not places.size:
        return RuleScore(1.0, None, 0.0)
    ours, best = tried[places, terminated], split[places, terminated]
    staying = places - terminated
    pad_s, split_s = time_s[places], time_s[staying] + gather_s[staying]  # the two sides of Equation (1)
    ours_s, best_s = (np.where(decided, split_s, pad_s).sum() for decided in (ours, best))
    balanced = None
    if 0 < best.sum() < best.size:
        balanced = float(ours[best].mean() + (~ours[~best]).mean()) / 2
    return RuleScore(float((ours == best).mean()), balanced, float(ours_s / best_s - 1))
