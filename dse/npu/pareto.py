"""The Pareto front: a design is on it if every better one takes more of something."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import AnyPath, InputError, brief, first_rows
from ...formats.array_types import Bools, Floats, Ints
from ...models import Network, as_network
from ...platforms import LUT_KEYS, Board, as_board
from .choices import Objective
from .evaluation import Evaluator, Progress
from .objectives import OBJECTIVES, check_objectives
from .options import SearchOptions
from .resources import COUNTS, Resource
from .rows import Ranges
from .search import rank
from .space import DesignSpace, designs
from .tiles import Tile, Tiles, tiles_of, with_rows

MAX_AXES = 2
"""Most axes beside the objective: with three figures in all, one sweep over sorted designs finds the front."""

WIDE = 1.2
"""Times the smallest T_R up to which the largest of a range is rated; wider ranges are divided before."""

Table = Floats
"""A row for each design, three columns: what it takes by axis, and its objective; the less the better."""


class Axis(StrEnum):
    """Figure of a design beside the objective; less is better."""

    DSP = "dsp"
    RAM = "ram"
    LUT = "lut"
    ENERGY = "energy"
    LATENCY = "latency"


class Scale(NamedTuple):
    """Names and units of an axis."""

    key: str  # in files, with the unit of FrontPoint.takes
    label: str  # on screen
    factor: float  # from the unit in files to that on screen


SCALES = {
    Axis.DSP: Scale("dsps", "DSPs", 1.0),
    Axis.RAM: Scale("ram_bits", "on-chip Mb", 2**-20),
    Axis.LUT: Scale("luts", "LUTs", 1.0),
    Axis.ENERGY: Scale("energy_j", "mJ an inference", 1e3),
    Axis.LATENCY: Scale("latency_s", "ms at b = 1", 1e3),
}

RATED = {Axis.ENERGY: Objective.ENERGY, Axis.LATENCY: Objective.LATENCY}
"""Axes that a search may have as its objective too."""

TAKEN = {Axis.DSP: Resource.DSPS, Axis.RAM: Resource.BUFFER_BITS}
"""Axes that are resources of the board."""


class FrontPoint(NamedTuple):
    """A design on the front."""

    tile: Tile
    takes: tuple[float, ...]  # by axis
    objective: float
    of_best: float  # the objective as a share of the best on the front


class Front(NamedTuple):
    """The whole front."""

    over: tuple[Axis, ...]
    points: list[FrontPoint]  # ordered by their axes, the first axis first
    # the point nearest to the ideal one, with the best objective and 0 on all axes, each axis as a share of its largest
    # value (compromise programming; Zeleny, 1973)
    knee: int
    designs_evaluated: int

    def __repr__(self) -> str:
        return brief(self)

    def _repr_html_(self) -> str:
        return first_rows(self)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes of its designs; V only where one is not 1."""
        return max((tuple(point.tile.by_name) for point in self.points), key=len)

    def columns(self) -> dict[str, list[float]]:
        """The designs on the front as columns."""
        return {
            **{name: [getattr(point.tile, name) for point in self.points] for name in self.sizes},
            **{axis.value: [point.takes[i] for point in self.points] for i, axis in enumerate(self.over)},
            **{name: [getattr(point, name) for point in self.points] for name in ("objective", "of_best")},
        }

    def least(self, axis: int, of_best: float) -> FrontPoint:
        """Point with the least value on an axis, among those that reach a share of the best objective."""
        good = [point for point in self.points if point.of_best >= of_best]
        return min(good, key=lambda point: (point.takes[axis], -point.of_best))


def undominated(losses: Table) -> Ints:
    """Rows that no other row equals or beats in every column. Shapes: ``losses`` (N, 3), returns (M,)."""
    from . import dominance  # here, because the names of the axes need no numba

    order = np.lexsort(losses.T[::-1])
    kept: Ints = order[dominance.mark_undominated(losses[order])]
    return kept


def _beaten(front: Table, losses: Table) -> Bools:
    """Mask of rows that a front, ordered by its first column, beats.

    A row beats another if it is as good in every column, and better in the second or third.
    """
    from . import dominance

    order, beaten = np.argsort(losses[:, 0], kind="stable"), np.empty(len(losses), np.bool_)
    beaten[order] = dominance.mark_beaten(front, losses[order])
    return beaten


class _Hopes(NamedTuple):
    """Designs that may be on a front, each with several T_R, and what none of these goes below."""

    ranges: Ranges
    losses: Table
    near: Bools  # (N,), whether there is no nearer bound

    def at(self, places: NDArray[Any]) -> _Hopes:
        """Those at some places."""
        return _Hopes(self.ranges.at(places), self.losses[places], self.near[places])


class _FrontSearch:
    """Rates designs and finds their front.  If there is but one axis, the first column of a table is 0."""

    def __init__(
        self, network: Network, platform: Board, options: SearchOptions, over: Sequence[Axis],
        threads: int | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.over, self.platform, self.evaluated = over, platform, 0
        self._supply = options.supply(network, platform)
        self._evaluator, self._threads, self._progress = Evaluator(network, platform, options), threads, progress
        self._asked = [options.objective, *(RATED[axis] for axis in over if axis in RATED)]
        self._rated = np.array([False] * (MAX_AXES - len(over)) + [axis in RATED for axis in over] + [True])

    @property
    def _rows_help(self) -> bool:
        """True if more rows T_R, or samples side by side, make no rated figure worse.

        Layouts are the best for the objective, so that another figure of them may become worse.
        """
        return len({bool(OBJECTIVES[goal].needs) for goal in self._asked}) == 1

    def ranges(self) -> Ranges:
        """All designs that may be on the front."""
        if self._rows_help and not {Axis.RAM, Axis.LUT} & set(self.over):  # the largest T_R is the best
            tiles = designs(self._supply)
            return Ranges(tiles[0], tiles, self._evaluator.samples(tiles))
        return DesignSpace(self._supply).every_row(fewer_samples=Axis.LUT in self.over)

    def rate(self, ranges: Ranges) -> Table:
        """The table of designs, each with its largest T_R."""
        tiles, before, progress = ranges.tiles, self.evaluated, self._progress
        report = progress and (lambda done, total: progress(before + done, before + total))
        values = self._evaluator.rate(tiles, self._asked, self._threads, report, ranges.samples).T
        self.evaluated += tiles.shape[1]
        return self._table(tiles, ranges.samples, values)

    def _table(self, tiles: Tiles, samples: Ints, values: Sequence[Any] | NDArray[Any]) -> Table:
        rated = dict(zip((axis for axis in self.over if axis in RATED), values[1:], strict=True))
        demand = self._supply.demand(tiles, samples)
        columns = [rated[axis] if axis in rated else COUNTS[self._resource(axis)](demand) for axis in self.over]
        columns.append(OBJECTIVES[self._asked[0]].losses(values[0]))
        return np.column_stack([*[np.zeros(tiles.shape[1])] * (MAX_AXES - len(self.over)), *columns])

    def _resource(self, axis: Axis) -> Resource:
        """What designs take on an axis; look-up tables of the NPU, or as the paper has them."""
        if axis is Axis.LUT:
            return Resource.LUTS if Resource.LUTS in self._supply.most else Resource.FITTED_LUTS
        return TAKEN[axis]

    def front(self, *parts: tuple[Tiles, Table]) -> tuple[Tiles, Table]:
        """The front of several sets of designs; if some are equal, the one that the search ranks first."""
        sets, tables = zip(*parts, strict=True)
        tiles, table = np.concatenate(sets, axis=1), np.concatenate(tables)
        order = rank(tiles, np.zeros(tiles.shape[1]))
        kept = order[undominated(table[order])]
        return tiles[:, kept], table[kept]

    def run(self) -> tuple[Tiles, Table]:
        """The front: again and again, designs on the front of the bounds are rated.

        Each gets a nearer bound first, if there is one, and the one with the largest T_R is rated when these designs
        are on the front of the bounds once more.  The others are then divided into halves.  Designs whose bounds the
        front beats are left out.
        """
        hopes = self._hope(self.ranges())
        front = np.empty((5, 0), np.int64), np.empty((0, MAX_AXES + 1))
        while hopes.near.size:
            chosen = np.zeros(hopes.near.size, np.bool_)
            chosen[undominated(hopes.losses)] = True
            few, hopes = hopes.at(chosen), hopes.at(~chosen)
            wide = few.ranges.tiles[0] > WIDE * few.ranges.first
            rated = few.at(few.near & ~wide)
            parts = [hopes, self._nearer(few.at(~few.near & ~wide)), self._halves(few.at(wide))]
            if rated.near.size:
                table = self.rate(rated.ranges)
                front = self.front(front, (rated.ranges.tiles, table))
                rated = rated._replace(losses=np.where(self._rated, table, rated.losses)) if self._rows_help else rated
                smaller = rated.at(rated.ranges.tiles[0] > rated.ranges.first)
                parts.append(self._halves(smaller, below=2))
            hopes = _Hopes(
                Ranges.joined(part.ranges for part in parts),
                np.concatenate([part.losses for part in parts]),
                np.concatenate([part.near for part in parts]),
            )
            hopes = hopes.at(~_beaten(front[1], hopes.losses))
        return front

    def _hope(self, ranges: Ranges, known: Table | None = None) -> _Hopes:
        """Bounds of designs, which take the least with the smallest T_R and may be the best with the largest."""
        if self._rows_help:  # with a smaller T_R that takes as much of all, none is better
            alike = Ranges(ranges.tiles[0], ranges.tiles, ranges.samples)
            same = (self._bounds(ranges, None) == self._bounds(alike, None)).all(axis=1)
            ranges = ranges._replace(first=np.where(same, ranges.tiles[0], ranges.first))
        losses = self._bounds(ranges, self._evaluator.bound(ranges.tiles, self._asked, self._threads).T)
        if known is not None:
            losses = np.maximum(losses, known)
        near = not self._evaluator.as_built or any(OBJECTIVES[goal].needs for goal in self._asked)
        return _Hopes(ranges, losses, np.full(ranges.first.size, near))

    def _bounds(self, ranges: Ranges, values: Sequence[Floats] | Floats | None) -> Table:
        """The table with the smallest T_R, and with given values, or 0."""
        zeros = [np.zeros(ranges.first.size)] * len(self._asked)
        return self._table(ranges.smallest, ranges.samples, zeros if values is None else values)

    def _nearer(self, few: _Hopes) -> _Hopes:
        """The same designs with nearer bounds."""
        tiles, samples = few.ranges.tiles, few.ranges.samples
        values = [self._evaluator.near_bound(tiles, goal, samples) for goal in self._asked]
        losses = np.maximum(few.losses, self._bounds(few.ranges, values))
        return _Hopes(few.ranges, losses, np.ones(len(losses), np.bool_))

    def _halves(self, hopes: _Hopes, below: int = 0) -> _Hopes:
        """Designs in halves by their T_R, perhaps without the largest."""
        first, tiles, samples = hopes.ranges
        last = tiles[0] - below
        middle = first + 2 * ((last - first) // 4)
        upper = middle < last
        halves = [
            Ranges(first, with_rows(tiles, middle), samples),
            Ranges(middle + 2, with_rows(tiles, last), samples).at(upper),
        ]
        return self._hope(Ranges.joined(halves), np.concatenate([hopes.losses, hopes.losses[upper]]))


def check_axes(platform: Board, objective: Objective, over: Sequence[Axis]) -> None:
    """Refuse axes that make no front with an objective, or that need figures a board does not state."""
    if not over or len(over) > MAX_AXES or len(set(over)) < len(over):
        raise InputError(f"over: expected one or two of {', '.join(Axis)}, found {','.join(over) or 'none'}")
    rated = [objective, *(RATED[axis] for axis in over if axis in RATED)]
    if len(set(rated)) < len(rated):
        raise InputError(f"over: expected axes beside the objective, found {objective} in both")
    check_objectives(platform, rated)


def find_front(
    network: Network | AnyPath,
    platform: Board | AnyPath,
    options: SearchOptions | None = None,
    over: Sequence[Axis] | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Front:
    """Find every design that no other equals or beats in the objective and on all axes.

    Parameters
    ----------
    network, platform, options
        As for :func:`.search.search`.
    over : sequence of Axis, optional
        One or two axes, by default DSPs.
    threads, progress
        As for :func:`.search.search`; the number of designs in all is known only in the end.

    Returns
    -------
    Front
        All its points; if designs are equal, the one that the search would rank first.

    Raises
    ------
    InputError
        If no design fits, the axes make no front, or the board does not state what they need.
    """
    network, platform, options = as_network(network), as_board(platform), options or SearchOptions()
    axes = tuple([Axis.DSP] if over is None else over)
    check_axes(platform, options.objective, axes)
    if Axis.LUT in axes and not options.counts_luts(platform):
        platform.require(LUT_KEYS, "the axis lut")
    fronts = _FrontSearch(network, platform, options, axes, threads, progress)
    tiles, table = fronts.run()
    goal, losses, takes = OBJECTIVES[options.objective], table[:, -1], table[:, MAX_AXES - len(axes) : -1]
    of_best = losses / losses.min() if goal.higher_is_better else losses.min() / losses
    distance = (1 - of_best) ** 2 + sum((column / column.max()) ** 2 for column in takes.T)
    rows = zip(tiles_of(tiles), takes.tolist(), goal.losses(losses).tolist(), of_best.tolist(), strict=True)
    points = [FrontPoint(tile, tuple(taken), value, share) for tile, taken, value, share in rows]
    return Front(axes, points, int(np.argmin(distance)), fronts.evaluated)
