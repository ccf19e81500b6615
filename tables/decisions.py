"""The decisions that a device's times imply, ahead of serving: pad or split at every exit, and the ideal batch sizes.

BatchCond (paper 002, Section IV) calls this the hardware precharacterisation.  Nothing is decided here: the table holds
what Equation (1) says (:mod:`fluidb.tables.reorganisation`), and run time asks the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..formats import Strict, Table
from .latency import MAX_BATCH, LatencyTable
from .reorganisation import Bools, Floats, decision_map, ideal_batch_sizes

DECISIONS_FILE = "decisions.json"

Counts = Annotated[list[Annotated[int, Field(ge=1, le=MAX_BATCH)]], Field(min_length=2, max_length=2)]
"""The first and the last of consecutive counts of terminated samples."""


class PointRow(Strict):
    """Decision points where Equation (1) decides alike.

    Attributes
    ----------
    variants : list of int
        Variants of the latency table, counted from 0.
    after_exits : list of int
        The exits behind which the points are; behind the last one if its stage repeats.
    split : list of list of Counts
        For b = 1..b_max places, the counts of terminated samples with which splitting pays, as ranges.  With all other
        counts from 1 to b - 1 the batch is padded.  If nobody terminated it goes on, if everybody did it stops.
    """

    variants: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    after_exits: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    split: list[list[Counts]]

    def map(self) -> Bools:
        """Whether splitting pays, by places 0..b_max and terminated samples 0..b_max; never if none or all have."""
        sizes = len(self.split) + 1
        found = np.zeros((sizes, sizes), dtype=np.bool_)
        for places, ranges in enumerate(self.split, 1):
            for first, last in ranges:
                found[places, first : last + 1] = True
        return found


class WidthRow(Strict):
    """The smallest batch that fills the device in a variant of the network (Algorithm 1), and its throughput.

    Attributes
    ----------
    width : float, optional
        Its width, if the table has widths.
    ideal_batch : int
        Smallest batch with at least 95 % of the largest throughput.
    samples_per_s : float
        Throughput with that batch, from the input to the end.
    """

    width: Annotated[float, Field(gt=0)] | None
    ideal_batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    samples_per_s: Annotated[float, Field(gt=0)]


class DecisionTable(Table):
    """The decisions of a latency table as a file, ``fluidb.decisions/1`` (``docs/file-formats.md``).

    Attributes
    ----------
    network, platform : str
        Names of the network, and of what runs it.
    b_max : int
        Batch sizes covered.
    points : list of PointRow
        Every decision point of every variant once.
    variants : list of WidthRow
        One for each variant.
    """

    schema_name: ClassVar[str] = "fluidb.decisions/1"
    made_by: ClassVar[str] = "fluidb latency"

    network: str
    platform: str
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    points: list[PointRow]
    variants: Annotated[list[WidthRow], Field(min_length=1)]

    @property
    def width_names(self) -> list[str]:
        """The width of each variant as people call it."""
        return ["any" if row.width is None else f"{row.width:g}" for row in self.variants]

    @model_validator(mode="after")
    def _every_batch(self) -> Self:
        if any(len(row.split) != self.b_max for row in self.points):
            raise ValueError(f"points: expected {self.b_max} lists of ranges each, one for each batch size")
        return self


class Rule(NamedTuple):
    """Split if at least so many samples have terminated in a batch of at least so many places; else pad."""

    terminated: int
    places: int

    def map(self, sizes: int) -> Bools:
        """Where it splits, by places and terminated samples below ``sizes``."""
        places, terminated = np.indices((sizes, sizes))
        return (terminated >= self.terminated) & (places >= self.places)


ALWAYS_SPLIT = Rule(1, 2)


class Judged(NamedTuple):
    """How a rule does in the cells of a decision map where some samples have terminated, but not all; each counts once.

    Attributes
    ----------
    right : float
        Share of cells that it decides as Equation (1) does.
    balanced : float, optional
        Balanced accuracy: mean of that share over the cells that split and over those that pad.  ``None`` if the map
        has cells of one kind only.
    lost : float
        Share by which the stages behind the cells take longer than with Equation (1).
    """

    right: float
    balanced: float | None
    lost: float


class Point(NamedTuple):
    """A row of the table with what sums it up.

    Attributes
    ----------
    row : PointRow
        The row.
    least : Rule, optional
        Splitting never pays with fewer terminated samples or fewer places than this; ``None`` if it never does.
    rule : Rule, optional
        The rule that comes nearest to the map in balanced accuracy; ``None`` likewise.
    by_rule, always_split, always_pad : Judged
        How this rule does, and two that need no table.
    """

    row: PointRow
    least: Rule | None
    rule: Rule | None
    by_rule: Judged
    always_split: Judged
    always_pad: Judged


def _points(table: LatencyTable) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64]]:
    """The exits with a decision point; by variant the times of the stages behind; and those of the gathers there."""
    last = len(table.exits)
    after = [*range(1, last), *([last] if table.exits[-1].steps > 1 else [])]
    place = np.minimum(after, last - 1).astype(np.int64)
    time_s = table.segments(by_layer=False).time_s[:, place]
    return after, time_s, table.gather_array()[place]


def tabulate_decisions(table: LatencyTable) -> DecisionTable:
    """Equation (1) at every decision point, and the ideal batch size of every width.

    Parameters
    ----------
    table : LatencyTable
        Times of a device or a design.

    Returns
    -------
    DecisionTable
        The table, derived from it.
    """
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
    # Sub-batches of different widths stay apart until the end, so that whole passes decide.  Section III-B names the
    # layers up to the next decision point, which is the end in its networks of several widths: they have no exits.
    passes_s = table.pass_s()
    ideal = ideal_batch_sizes(passes_s)
    found = DecisionTable(
        network=table.network,
        platform=table.platform,
        b_max=table.b_max,
        points=points,
        variants=[
            WidthRow(width=width, ideal_batch=int(batch), samples_per_s=float(batch / times_s[batch]))
            for width, batch, times_s in zip(_widths(table), ideal, passes_s, strict=True)
        ],
    )
    return found.derived_from(table)


def _widths(table: LatencyTable) -> list[float | None]:
    """The width of each variant."""
    widths: list[float | None] = [None] if table.widths is None else [*table.widths]
    return [widths[variant % len(widths)] for variant in range(table.variants)]


def _ranges(split: Bools) -> list[list[list[int]]]:
    """For every batch size from 1, the counts of terminated samples with which splitting pays, as ranges."""
    found = []
    for places in range(1, len(split)):
        edges = np.flatnonzero(np.diff(split[places, 1:places].astype(np.int8), prepend=0, append=0))
        found.append([[int(first) + 1, int(behind)] for first, behind in edges.reshape(-1, 2)])
    return found


def sum_up(table: LatencyTable, decisions: DecisionTable) -> list[Point]:
    """Sum up every row of a decision table.

    Parameters
    ----------
    table : LatencyTable
        The times.
    decisions : DecisionTable
        Its decisions.

    Returns
    -------
    list of Point
        One for each row, in order.
    """
    after, time_s, gather_s = _points(table)
    found = []
    for row in decisions.points:
        point = after.index(row.after_exits[0])
        split = row.map()
        nearest, never = nearest_rule(split), np.zeros_like(split)
        tried = nearest.map(len(split)) if nearest else never, ALWAYS_SPLIT.map(len(split)), never
        judged = (judge(each, split, time_s[row.variants[0], point], gather_s[point]) for each in tried)
        found.append(Point(row, least_rule(split), nearest, *judged))
    return found


def _cells(sizes: int) -> Bools:
    """Cells of a map with a choice: some samples have terminated, but not all."""
    places, terminated = np.indices((sizes, sizes))
    return (terminated >= 1) & (terminated < places)


def spans(numbers: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Ascending numbers, or their names, for people: consecutive ones by the first and the last.

    Examples
    --------
    >>> spans([1, 2, 3, 5]), spans([0, 1, 3], ["256", "128", "64", "32"])
    ('1 to 3, 5', '256 to 128, 32')
    """
    found = []
    for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [str(number) if names is None else names[number] for _, number in pairs]
        found.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}")
    return ", ".join(found)


def least_rule(split: Bools) -> Rule | None:
    """The smallest counts with which splitting pays anywhere in a map; ``None`` if it never does."""
    places, terminated = np.nonzero(split & _cells(len(split)))
    return Rule(int(terminated.min()), int(places.min())) if places.size else None


def nearest_rule(split: Bools) -> Rule | None:
    """The rule with the largest balanced accuracy; of equals, the one that splits most often.

    Parameters
    ----------
    split : (b_max + 1, b_max + 1) ndarray of bool
        Whether splitting pays, by places and terminated samples.

    Returns
    -------
    Rule, optional
        ``ALWAYS_SPLIT`` if no cell with a choice pads; ``None`` if none splits.
    """
    cells = _cells(len(split))
    if not (cells & split).any():
        return None
    if not (cells & ~split).any():
        return ALWAYS_SPLIT
    # for every rule: cells that split and that pad among those where it splits
    right, wrong = (np.cumsum(np.cumsum((cells & kind)[::-1, ::-1], 0), 1)[::-1, ::-1] for kind in (split, ~split))
    score = right / right[0, 0] - wrong / wrong[0, 0]
    places, terminated = (max(int(number), 1) for number in np.unravel_index(score.argmax(), score.shape))
    return Rule(terminated, max(places, terminated + 1))


def judge(tried: Bools, split: Bools, time_s: Floats, gather_s: Floats) -> Judged:
    """Hold a way to decide against Equation (1).

    Parameters
    ----------
    tried, split : (b_max + 1, b_max + 1) ndarray of bool
        Where it splits, and where splitting pays, by places and terminated samples.
    time_s, gather_s : (b_max + 1,) ndarray of float64
        Times of the stage behind, and of gathers, by batch size.

    Returns
    -------
    Judged
        What it gets right, and the time that it loses; nothing of either if there is no cell with a choice.
    """
    places, terminated = np.nonzero(_cells(len(split)))
    if not places.size:
        return Judged(1.0, None, 0.0)
    ours, best = tried[places, terminated], split[places, terminated]
    staying = places - terminated
    pad_s, split_s = time_s[places], time_s[staying] + gather_s[staying]  # the two sides of Equation (1)
    ours_s, best_s = (np.where(decided, split_s, pad_s).sum() for decided in (ours, best))
    balanced = None
    if 0 < best.sum() < best.size:
        balanced = float(ours[best].mean() + (~ours[~best]).mean()) / 2
    return Judged(float((ours == best).mean()), balanced, float(ours_s / best_s - 1))
