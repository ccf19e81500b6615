"""The Pareto front: the designs that no other one beats in the objective without taking more of something."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from ..models import Network
from ..platforms import LUT_KEYS, Platform
from .objectives import OBJECTIVES, Objective, check_objectives
from .search import Evaluator, SearchOptions
from .space import Tile, buffer_bits, designs, luts

MAX_AXES = 2
"""Most axes beside the objective: with three figures in all, one sweep over sorted designs finds the front."""


class Axis(StrEnum):
    """What a design takes; less is better."""

    DSP = "dsp"
    RAM = "ram"
    LUT = "lut"
    ENERGY = "energy"
    LATENCY = "latency"


class Scale(NamedTuple):
    """How an axis is written.

    Attributes
    ----------
    key : str
        Its name in files, with the unit of :attr:`Point.takes`.
    label : str
        Its name for people, with the unit they read.
    factor : float
        From the one unit to the other.
    """

    key: str
    label: str
    factor: float


SCALES = {
    Axis.DSP: Scale("dsps", "DSPs", 1.0),
    Axis.RAM: Scale("ram_bits", "on-chip Mb", 2**-20),
    Axis.LUT: Scale("luts", "LUTs", 1.0),
    Axis.ENERGY: Scale("energy_j", "mJ an inference", 1e3),
    Axis.LATENCY: Scale("latency_s", "ms at b = 1", 1e3),
}

RATED = {Axis.ENERGY: Objective.ENERGY, Axis.LATENCY: Objective.LATENCY}
"""Axes that a search may have as its objective too."""


class Point(NamedTuple):
    """A design on the front.

    Attributes
    ----------
    tile : Tile
        The design.
    takes : tuple of float
        What it takes, by axis.
    objective : float
        Its objective.
    of_best : float
        The objective as a share of the best on the front, 1 for the best.
    """

    tile: Tile
    takes: tuple[float, ...]
    objective: float
    of_best: float


class Front(NamedTuple):
    """The whole front.

    Attributes
    ----------
    over : tuple of Axis
        The axes beside the objective.
    points : list of Point
        By what they take, axis after axis.
    knee : int
        Which point is nearest to the best objective for nothing: ``of_best`` = 1 with
        shares of 0 of the most that a point takes (compromise programming; Zeleny, 1973).
    designs_evaluated : int
        How many designs were looked at.
    """

    over: tuple[Axis, ...]
    points: list[Point]
    knee: int
    designs_evaluated: int

    def least(self, axis: int, of_best: float) -> Point:
        """The point that takes least on an axis, among those whose ``of_best`` is at least the one given."""
        found = [point for point in self.points if point.of_best >= of_best]
        return min(found, key=lambda point: (point.takes[axis], -point.of_best))


class _Staircase:
    """Of the points (x, y) added so far, those that no other one matches or beats in both."""

    def __init__(self) -> None:
        self._x: list[float] = []  # rising
        self._y: list[float] = []  # falling

    def below(self, x: float) -> tuple[float, float]:
        """The point of least y among those with no larger x."""
        i = bisect_right(self._x, x) - 1
        return (self._x[i], self._y[i]) if i >= 0 else (np.inf, np.inf)

    def add(self, x: float, y: float) -> None:
        """Take a point whose y is less than that of :meth:`below`."""
        i = j = bisect_left(self._x, x)
        while j < len(self._x) and self._y[j] >= y:
            j += 1
        self._x[i:j], self._y[i:j] = [x], [y]


def undominated(losses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows that no other row equals or beats in every column.

    Parameters
    ----------
    losses : (N, 3) ndarray of float64
        The less the better.

    Returns
    -------
    (M,) ndarray of int64
        Their indices, ordered by the columns; of equal rows the first.
    """
    order = np.lexsort(losses.T[::-1])
    stairs, kept = _Staircase(), []
    for index, (_, x, y) in zip(order.tolist(), losses[order].tolist(), strict=True):
        if stairs.below(x)[1] > y:
            stairs.add(x, y)
            kept.append(index)
    return np.array(kept, dtype=np.int64)


def _beaten(front: NDArray[np.float64], losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that some row of a front, which is ordered by its first column, matches everywhere and beats somewhere."""
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


class _Search:
    """Evaluates designs, and makes three columns of losses of what they take and their objective."""

    def __init__(self, network: Network, platform: Platform, options: SearchOptions, over: Sequence[Axis]) -> None:
        self.over, self.platform, self.goal = over, platform, OBJECTIVES[options.objective]
        self.asked = [options.objective, *(RATED[axis] for axis in over if axis in RATED)]
        self.evaluated = 0
        self._evaluator = Evaluator(network, platform, options)

    def rate(
        self, space: NDArray[np.int64], threads: int | None, progress: Callable[[int, int], None] | None
    ) -> NDArray[np.float64]:
        """Values of designs: their objective, then those of the axes that are rated."""
        before = self.evaluated
        report = progress and (lambda done, total: progress(before + done, before + total))
        values = self._evaluator.rate(space, self.asked, threads, report)
        self.evaluated += len(space)
        return values

    def takes(self, space: NDArray[np.int64], values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """What designs take, by axis."""
        T_R, T_P, T_C = space.T
        rated = iter(values.T[1:])
        columns = []
        for axis in self.over:
            if axis in RATED:
                columns.append(next(rated))
            elif axis is Axis.LUT:
                columns.append(luts(self.platform, T_P, T_C))
            else:
                whole = T_P * T_C if axis is Axis.DSP else buffer_bits(self.platform.word_bits, T_R, T_P, T_C)
                columns.append(whole.astype(np.float64))
        return columns

    def losses(self, space: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Two axes, the first of them 0 if there is but one, and the objective: the less the better."""
        columns = self.takes(space, values)
        first = [np.zeros(len(space))] * (MAX_AXES - len(columns))
        return np.column_stack([*first, *columns, self.goal.losses(values[:, 0])])


def _merge(
    search: _Search, *parts: tuple[NDArray[np.int64], NDArray[np.float64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The front of several sets of designs with their values; of equals the one that the search ranks first."""
    space, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((space[:, 1], -space[:, 0], -space[:, 1] * space[:, 2]))
    kept = order[undominated(search.losses(space[order], values[order]))]
    return space[kept], values[kept]


def _with_rows(
    search: _Search, top: NDArray[np.int64], threads: int | None, progress: Callable[[int, int], None] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The front over designs with every even T_R up to that of ``top``.

    A larger T_R takes more memory and is never slower.  So for a pair (T_P, T_C),
    no T_R between two others is better than the memory of the smaller one with the
    values of the larger one.  If the front beats that, or both have the same values,
    the T_R in between are left out; else the middle one is evaluated, and so on.
    """
    low, high = top.copy(), top
    low[:, 0] = 2
    at_low, at_high = (search.rate(space, threads, progress) for space in (low, high))
    front = _merge(search, (low, at_low), (high, at_high))
    while True:
        at_best = low.copy()
        at_best[:, 0] += 2
        split = (high[:, 0] - low[:, 0] > 2) & np.any(at_low != at_high, axis=1)
        split[split] = ~_beaten(search.losses(*front), search.losses(at_best[split], at_high[split]))
        if not split.any():
            return front
        low, high, at_low, at_high = low[split], high[split], at_low[split], at_high[split]
        middle = low.copy()
        middle[:, 0] += 2 * ((high[:, 0] - low[:, 0]) // 4)
        at_middle = search.rate(middle, threads, progress)
        front = _merge(search, front, (middle, at_middle))
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        at_low, at_high = np.concatenate([at_low, at_middle]), np.concatenate([at_middle, at_high])


def default_axes(objective: Objective) -> tuple[Axis, ...]:
    """DSPs and, where a larger T_R is never worse, on-chip memory."""
    return (Axis.DSP,) if OBJECTIVES[objective].needs else (Axis.DSP, Axis.RAM)


def check_axes(platform: Platform, objective: Objective, over: Sequence[Axis]) -> None:
    """Refuse axes that make no front with an objective, or of which a board says nothing.

    Raises
    ------
    InputError
        With what is wrong.
    """
    if not over or len(over) > MAX_AXES or len(set(over)) < len(over):
        raise InputError(f"--over: expected one or two of {', '.join(Axis)}, found {','.join(over) or 'none'}")
    rated = [objective, *(RATED[axis] for axis in over if axis in RATED)]
    if len(set(rated)) < len(rated):
        raise InputError(f"--over: expected axes beside the objective, found {objective} in both")
    if Axis.RAM in over and any(OBJECTIVES[name].needs for name in rated):
        raise InputError(
            "--over: expected no ram beside energy: with fewer rows T_R a design may take less of both or more of "
            "both; take --over dsp, or limit it with --max-ram"
        )
    check_objectives(platform, rated)
    if Axis.LUT in over:
        platform.require(LUT_KEYS, "--over lut")


def find_front(
    network: Network,
    platform: Platform,
    options: SearchOptions | None = None,
    over: Sequence[Axis] | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Front:
    """Every design that no other equals or beats in the objective and in all that it takes.

    Parameters
    ----------
    network, platform, options
        As for :func:`.search.search`.
    over : sequence of Axis, optional
        One or two things that a design takes; by default DSPs and, unless the
        objective is one of energy, on-chip memory.  With memory among them every
        even T_R is considered, else the largest that fits.
    threads, progress
        As for :func:`.search.search`; how many designs there are in all is known only in the end.

    Returns
    -------
    Front
        All its points; of equal designs the one that the search would rank first.

    Raises
    ------
    InputError
        If no design fits, the axes make no front, or the board does not state what they need.
    """
    options = options or SearchOptions()
    axes = tuple(default_axes(options.objective) if over is None else over)
    check_axes(platform, options.objective, axes)
    search, top = _Search(network, platform, options, axes), designs(platform, options.limits)
    if Axis.RAM in axes:
        space, values = _with_rows(search, top, threads, progress)
    else:
        space, values = _merge(search, (top, search.rate(top, threads, progress)))
    losses = search.losses(space, values)[:, -1]
    of_best = losses / losses.min() if search.goal.higher_is_better else losses.min() / losses
    columns = search.takes(space, values)
    distance = (1 - of_best) ** 2 + sum((column / column.max()) ** 2 for column in columns)
    rows = zip(space.tolist(), zip(*columns, strict=True), values[:, 0].tolist(), of_best.tolist(), strict=True)
    points = [Point(Tile(*tile), tuple(map(float, takes)), value, share) for tile, takes, value, share in rows]
    return Front(axes, points, int(np.argmin(distance)), search.evaluated)
