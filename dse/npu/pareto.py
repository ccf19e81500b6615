"""The Pareto front: a design is on it if every better one takes more of something."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import AnyPath, InputError, brief, first_rows
from ...models import Network, as_network
from ...platforms import LUT_KEYS, Board, as_board
from .choices import Objective, Overlap
from .evaluation import Evaluator, Progress
from .objectives import OBJECTIVES, check_objectives
from .options import SearchOptions
from .resources import COUNTS, Resource
from .search import rank
from .space import designs
from .tiles import FEWEST_ROWS, Tile, Tiles, buffer_bits, tiles_of, with_rows

MAX_AXES = 2
"""Most axes beside the objective: with three figures in all, one sweep over sorted designs finds the front."""


ROWS = [256 << power for power in range(20)]
"""Smaller T_R of designs as built that a front considers, where memory is an axis: 256, 512, 1024, ..."""

Table = NDArray[np.float64]
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


class _Staircase:
    """The points (x, y) added so far, without those that another one matches or beats in both."""

    def __init__(self) -> None:
        self._x: list[float] = []  # rising
        self._y: list[float] = []  # falling

    def below(self, x: float) -> tuple[float, float]:
        """The point with the least y among those whose x is not larger."""
        i = bisect_right(self._x, x) - 1
        return (self._x[i], self._y[i]) if i >= 0 else (np.inf, np.inf)

    def add(self, x: float, y: float) -> None:
        """Add a point whose y is less than the y of :meth:`below`."""
        i = j = bisect_left(self._x, x)
        while j < len(self._x) and self._y[j] >= y:
            j += 1
        self._x[i:j], self._y[i:j] = [x], [y]


def undominated(losses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows that no other row equals or beats in every column. Shapes: ``losses`` (N, 3), returns (M,)."""
    order = np.lexsort(losses.T[::-1])
    stairs, kept = _Staircase(), []
    for index, (_, x, y) in zip(order.tolist(), losses[order].tolist(), strict=True):
        if stairs.below(x)[1] > y:
            stairs.add(x, y)
            kept.append(index)
    return np.array(kept, dtype=np.int64)


def _beaten(front: NDArray[np.float64], losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask of rows that a front, ordered by its first column, beats.

    A row beats another if it is as good in every column, and better in the second or third.
    """
    stairs, rows, row = _Staircase(), front.tolist(), 0
    beaten = np.zeros(len(losses), dtype=np.bool_)
    order = np.argsort(losses[:, 0], kind="stable")
    for index, (first, x, y) in zip(order.tolist(), losses[order].tolist(), strict=True):
        while row < len(rows) and rows[row][0] <= first:
            if stairs.below(rows[row][1])[1] > rows[row][2]:
                stairs.add(*rows[row][1:])
            row += 1
        nearest, least = stairs.below(x)
        beaten[index] = least < y or (least == y and nearest < x)
    return beaten


class _FrontSearch:
    """Rates designs and finds their front.  If there is but one axis, the first column of a table is 0."""

    def __init__(
        self, network: Network, platform: Board, options: SearchOptions, over: Sequence[Axis],
        threads: int | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.over, self.platform, self.objective, self.evaluated = over, platform, options.objective, 0
        self._supply = options.supply(network, platform)
        self._evaluator, self._threads, self._progress = Evaluator(network, platform, options), threads, progress

    def rate(self, tiles: Tiles) -> Table:
        """The table of designs."""
        before, progress = self.evaluated, self._progress
        report = progress and (lambda done, total: progress(before + done, before + total))
        values = self._evaluator.rate(tiles, self._asked, self._threads, report).T
        self.evaluated += tiles.shape[1]
        return self._table(tiles, values)

    @property
    def _asked(self) -> list[Objective]:
        return [self.objective, *(RATED[axis] for axis in self.over if axis in RATED)]

    def _table(self, tiles: Tiles, values: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> Table:
        rated = dict(zip((axis for axis in self.over if axis in RATED), values[1:], strict=True))
        demand = self._supply.demand(tiles, self._evaluator.samples(tiles) if Axis.LUT in self.over else None)
        columns = [rated[axis] if axis in rated else COUNTS[self._resource(axis)](demand) for axis in self.over]
        columns.append(OBJECTIVES[self.objective].losses(values[0]))
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

    def front_by_bound(self, tiles: Tiles) -> tuple[Tiles, Table]:
        """The front over designs that take long to rate: again and again, those on the front of the bounds.

        Each gets a nearer bound first, if there is one, and is rated when it is on the front of the bounds once more.
        Those whose bounds the front beats are left out.
        """
        evaluator, count = self._evaluator, tiles.shape[1]
        hopes = self._table(tiles, [evaluator.bound(tiles, goal) for goal in self._asked])
        left = np.arange(count)
        parts: list[tuple[Tiles, Table]] = []
        is_near = np.full(count, any(OBJECTIVES[goal].needs for goal in self._asked))
        while left.size:
            few = left[undominated(hopes[left])]
            far, few = few[~is_near[few]], few[is_near[few]]
            hopes[far] = self._table(tiles[:, far], [evaluator.near_bound(tiles[:, far], goal) for goal in self._asked])
            is_near[far] = True
            if few.size:
                parts = [self.front(*parts, (tiles[:, few], self.rate(tiles[:, few])))]
                left = left[~np.isin(left, few)]
            if parts:
                left = left[~_beaten(parts[0][1], hopes[left])]
        return parts[0]

    def front_with_rows(self, top: Tiles) -> tuple[Tiles, Table]:
        """The front over designs with every even T_R up to the T_R of ``top``.

        A larger T_R takes more memory and is never slower.  So for each pair (T_P, T_C) two T_R bound those between
        them: these take at least the memory of the smallest one, and are at best as good as the larger T_R.  If the
        front beats that bound, or the two differ in memory only, those between are left out.  Else the middle one is
        evaluated, and each half is treated in the same way.
        """
        ram = self.over.index(Axis.RAM) - len(self.over) - 1  # its column
        low, high = with_rows(top, FEWEST_ROWS), top
        at_low, at_high = self.rate(low), self.rate(high)
        front = self.front((low, at_low), (high, at_high))
        while True:
            at_best = at_high.copy()
            at_best[:, ram] = buffer_bits(self.platform.word_bits, with_rows(low, low[0] + 2))
            split = (high[0] - low[0] > 2) & np.delete(at_low != at_high, ram, axis=1).any(axis=1)
            split[split] = ~_beaten(front[1], at_best[split])
            if not split.any():
                return front
            low, high, at_low, at_high = low[:, split], high[:, split], at_low[split], at_high[split]
            middle = with_rows(low, low[0] + 2 * ((high[0] - low[0]) // 4))
            at_middle = self.rate(middle)
            front = self.front(front, (middle, at_middle))
            low, high = np.concatenate([low, middle], axis=1), np.concatenate([middle, high], axis=1)
            at_low, at_high = np.concatenate([at_low, at_middle]), np.concatenate([at_middle, at_high])


def _with_rows(top: Tiles) -> Tiles:
    """Designs with T_R of :data:`ROWS` up to the T_R of ``top``, whose designs are the last ones."""
    fewer = [with_rows(top[:, top[0] > rows], rows) for rows in ROWS]
    return np.concatenate([*fewer, top], axis=1)


def check_axes(platform: Board, objective: Objective, over: Sequence[Axis]) -> None:
    """Refuse axes that make no front with an objective, or that need figures a board does not state."""
    if not over or len(over) > MAX_AXES or len(set(over)) < len(over):
        raise InputError(f"over: expected one or two of {', '.join(Axis)}, found {','.join(over) or 'none'}")
    rated = [objective, *(RATED[axis] for axis in over if axis in RATED)]
    if len(set(rated)) < len(rated):
        raise InputError(f"over: expected axes beside the objective, found {objective} in both")
    if Axis.RAM in over and any(OBJECTIVES[name].needs for name in rated):
        raise InputError(
            "over: expected no ram beside energy: with fewer rows T_R a design may take less of both or more of "
            "both; take dsp alone, and limit the memory"
        )
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
        One or two axes, by default DSPs.  With memory among them smaller T_R are
        considered too: as built the ones of :data:`ROWS`, in an ideal every even one; else
        the largest that fits.
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
    every = designs(options.supply(network, platform))
    if options.overlap is Overlap.TILES:
        tiles, table = fronts.front_by_bound(_with_rows(every) if Axis.RAM in axes else every)
    elif Axis.RAM in axes:
        tiles, table = fronts.front_with_rows(every)
    else:
        tiles, table = fronts.front((every, fronts.rate(every)))
    goal, losses, takes = OBJECTIVES[options.objective], table[:, -1], table[:, MAX_AXES - len(axes) : -1]
    of_best = losses / losses.min() if goal.higher_is_better else losses.min() / losses
    distance = (1 - of_best) ** 2 + sum((column / column.max()) ** 2 for column in takes.T)
    rows = zip(tiles_of(tiles), takes.tolist(), goal.losses(losses).tolist(), of_best.tolist(), strict=True)
    points = [FrontPoint(tile, tuple(taken), value, share) for tile, taken, value, share in rows]
    return Front(axes, points, int(np.argmin(distance)), fronts.evaluated)
