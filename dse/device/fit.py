"""The constants of an engine that are nearest to measured times (docs/search.md, Engines of fixed shape)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Floats, Ints
from ...platforms.engine import Engine
from .engine import Needs
from .kernels import EDGE, Cases, nearest
from .measurements import Measurement

CONSTANTS: dict[str, float | None] = {
    "effective_gb_s": None, "effective_mhz": None, "not_hidden": 0.0, "layer_s": 0.0, "inference_s": 0.0,
}  # fmt: skip
"""What is fitted, and what it is without a fit: both rates are the peaks."""

SLOWEST = 1e-3
"""Least share of a peak that is tried."""

ALIKE = 0.1
"""Constants are not told apart if predicted times change by this share when all change, compared with each alone."""

STEP = 1e-3
"""Share by which a rate is changed to see that."""


class Effort(NamedTuple):
    """How closely constants are searched."""

    decade: int  # ratios of both rates that are tried in a decade
    zooms: int  # how often the neighbours of the best are divided
    rounds: int  # most rounds of weights beside a ratio
    same: float  # share of the loss by which a further round must be better


COARSE, FINE = Effort(8, 3, 8, 1e-4), Effort(24, 5, 50, 1e-5)
"""To choose constants, and to fit them."""

PARTS = 10
"""Parts into which these are divided."""

EQUAL = 1e-3
"""Losses are equal if they differ by this share, or by the loss of errors of this size."""


class TimedRows:
    """Rows as arrays, to predict all of them for many rates at once; shares are of the measured times.

    With slowdowns u of computing and v of moving a row takes u * (longer + not_hidden * shorter) + fixed times, where
    both sums over its layers depend on the ratio v / u only, and the rest is linear.
    """

    def __init__(self, rows: Sequence[Measurement], engine: Engine) -> None:
        self.engine = engine
        self.measured_s = np.array([row.seconds for row in rows])
        self.counts = np.array([row.repeats for row in rows], np.float64)
        different: dict[int, Needs] = {id(row.needs): row.needs for row in rows}
        places = {key: place for place, key in enumerate(different)}
        self.place = np.array([places[id(row.needs)] for row in rows])
        layers = np.array([len(needs.works) for needs in different.values()])
        self.starts = np.append(0, np.cumsum(layers)[:-1])
        self.computing = np.concatenate([needs.cycles for needs in different.values()]) / engine.clock_hz
        self.moving = np.concatenate([needs.bytes for needs in different.values()]) / (1e9 * engine.bandwidth_gb_s)
        whole = np.array([row.layer is None for row in rows])
        self.fixed = np.array([layers[self.place], whole]) / self.measured_s
        self.every = np.arange(len(rows))

    def sums(self, ratios: Floats, rows: Ints) -> Floats:
        """The longer and the shorter of computing and moving, for each ratio of slowdowns, as shares."""
        moving = ratios[:, None] * self.moving
        parts = np.maximum(self.computing, moving), np.minimum(self.computing, moving)
        summed = np.array([np.add.reduceat(part, self.starts, axis=1) for part in parts])
        shares: Floats = summed[:, :, self.place[rows]] / self.measured_s[rows]
        return shares

    def shares(self, engine: Engine, rows: Ints) -> Floats:
        """Predicted over measured times with an engine's constants."""
        u, v = slowdowns(engine)
        longer, shorter = self.sums(np.array([v / u]), rows)[:, 0]
        fixed = np.array([engine.layer_s, engine.inference_s]) @ self.fixed[:, rows]
        shares: Floats = u * (longer + engine.not_hidden * shorter) + fixed
        return shares

    def fitted(self, free: Sequence[str], rows: Ints | None = None, effort: Effort = FINE) -> Engine:
        """The engine with the constants ``free`` that are nearest to the times of rows, of all if none are named."""
        search = _Search(self, free, self.every if rows is None else rows, effort)
        ratios = grid = _ratios(self.engine, free, effort.decade)
        best = first = search.best(ratios)
        for _ in range(effort.zooms if len(grid) > 1 else 0):
            at = int(np.argmin(best[1]))
            ends = ratios[[max(at - 1, 0), min(at + 1, len(ratios) - 1)]]
            ratios = np.geomspace(ends[0], ends[1], PARTS + 1)
            ratios[[0, -1]] = ends
            best = search.best(ratios)
        return _with(self.engine, free, *search.chosen([(grid, first), (ratios, best)]))


def slowdowns(engine: Engine) -> tuple[float, float]:
    """Times that computing and moving take, as multiples of the times at the peaks."""
    return engine.clock_hz / engine.cycles_per_s, 1e9 * engine.bandwidth_gb_s / engine.bytes_per_s


def _ratios(engine: Engine, free: Sequence[str], decade: int) -> Floats:
    """Ratios of the slowdowns that are tried."""
    u, v = slowdowns(engine)
    ends = {
        (True, True): (SLOWEST, 1 / SLOWEST),
        (True, False): (1 / u, 1 / (u * SLOWEST)),
        (False, True): (v * SLOWEST, v),
        (False, False): (v / u, v / u),
    }["effective_gb_s" in free, "effective_mhz" in free]
    count = round(np.log10(ends[1] / ends[0]) * decade) + 1
    ratios = np.geomspace(*ends, count)
    ratios[[0, -1]] = ends[0], ends[-1]  # exactly the peaks
    return ratios


def _with(engine: Engine, free: Sequence[str], ratio: float, constants: Floats) -> Engine:
    """The engine with its constants; at four digits none is above its peak."""
    u, part, layer_s, inference_s = constants.tolist()
    values = {
        "effective_gb_s": min(engine.bandwidth_gb_s, float(f"{engine.bandwidth_gb_s / (u * ratio):.4g}")),
        "effective_mhz": min(engine.clock_mhz, float(f"{engine.clock_mhz / u:.4g}")),
        "not_hidden": min(1.0, float(f"{part / u:.4g}")),
        "layer_s": float(f"{layer_s:.4g}"),
        "inference_s": float(f"{inference_s:.4g}"),
    }
    return engine.model_copy(update={name: values[name] for name in free})


class _Search:
    """The constants beside ratios of the rates, for some rows."""

    def __init__(self, table: TimedRows, free: Sequence[str], rows: Ints, effort: Effort) -> None:
        self.table, self.free, self.rows, self.effort = table, free, rows, effort
        self.counts, self.fixed = table.counts[rows], table.fixed[:, rows]
        self.cases = cases_of(table.engine, free)
        self.equal = float(self.counts.sum()) * EQUAL**2 / (2 * EDGE)

    def best(self, ratios: Floats) -> tuple[Floats, Floats]:
        """The best constants by ratio, and their losses."""
        sums = self.table.sums(ratios, self.rows)
        columns = np.concatenate([sums, np.broadcast_to(self.fixed[:, None], sums.shape)])
        ordered = np.ascontiguousarray(columns.transpose(1, 2, 0))
        best: tuple[Floats, Floats] = nearest(
            ordered, self.counts, self._least_slowdown(ratios), self.cases, self.effort.rounds, self.effort.same
        )
        return best

    def _least_slowdown(self, ratios: Floats) -> Floats:
        """The least slowdown of computing with which neither rate is above its peak."""
        u, v = slowdowns(self.table.engine)
        if "effective_mhz" not in self.free:
            return np.full_like(ratios, u)
        return np.maximum(1.0, 1 / ratios) if "effective_gb_s" in self.free else v / ratios

    def chosen(self, tried: Sequence[tuple[Floats, tuple[Floats, Floats]]]) -> tuple[float, Floats]:
        """The ratio of the least loss, and its constants.

        If a first ratio with higher rates is as good, no row needs less, and the one with the highest is taken.
        """
        (grid, (first, first_losses)), (ratios, (constants, losses)) = tried
        at = int(np.argmin(losses))
        good = first_losses <= losses[at] * (1 + EQUAL) + self.equal
        slow = np.where(good, np.square(first[:, 0]) * grid, np.inf)  # the product of both slowdowns
        fastest = int(np.argmin(slow))
        if slow[fastest] < constants[at, 0] ** 2 * ratios[at]:
            return float(grid[fastest]), first[fastest]
        return float(ratios[at]), constants[at]


def cases_of(engine: Engine, free: Sequence[str]) -> Cases:
    """Each choice of bounds; the first has none."""
    both = "effective_gb_s" in free and "effective_mhz" in free
    shares = [None, 0.0, 1.0] if "not_hidden" in free else [engine.not_hidden]
    times = [[None, 0.0] if name in free else [getattr(engine, name)] for name in ("layer_s", "inference_s")]
    choices = list(product([True, False] if both else [False], shares, *times))
    cases = Cases(
        np.zeros((len(choices), 4, 4)), np.zeros(len(choices), np.int64), np.zeros((len(choices), 4)),
        np.zeros((len(choices), 4)),
    )  # fmt: skip
    for at, (slow, share, *fixed) in enumerate(choices):
        computing = np.array([1.0, share or 0.0, 0.0, 0.0])
        directions = [computing] if slow else []
        directions += [np.eye(4)[i] for i, value in enumerate((share, *fixed), 1) if value is None]
        for i, direction in enumerate(directions):
            cases.basis[at, :, i] = direction
        cases.widths[at] = len(directions)
        cases.start[at, 2:] = [value or 0.0 for value in fixed]
        cases.slope[at] = 0.0 if slow else computing
    return cases


def alike(rows: TimedRows, engine: Engine, free: Sequence[str]) -> list[list[str]]:
    """Groups of fitted constants that can change together, with hardly a change of any predicted time."""
    changes = {
        name: rows.shares(engine.model_copy(update={name: value}), rows.every) - rows.shares(engine, rows.every)
        for name, value in (
            ("effective_gb_s", engine.bytes_per_s / 1e9 * (1 - STEP)),
            ("effective_mhz", engine.cycles_per_s / 1e6 * (1 - STEP)),
            ("not_hidden", engine.not_hidden + 1),
            ("layer_s", engine.layer_s + 1),
            ("inference_s", engine.inference_s + 1),
        )
        if name in free
    }
    columns = np.array([changes[name] for name in free]).T
    sizes = np.linalg.norm(columns, axis=0)
    silent = [[name] for name, size in zip(free, sizes, strict=True) if size == 0]
    told = [name for name, size in zip(free, sizes, strict=True) if size > 0]
    alone = columns[:, sizes > 0] / sizes[sizes > 0]
    squares, vectors = np.linalg.eigh(alone.T @ alone)
    # the projection on changes that hardly move a time: eigenvectors of equal values may be turned at will, it may not
    still = vectors[:, squares < ALIKE**2]
    together = np.abs(still @ still.T) > ALIKE**2
    for _ in told:
        together = together @ together  # what changes with one that changes with a third
    groups = [
        [name for name, joins in zip(told, row, strict=True) if joins]
        for place, row in enumerate(together)
        if row.sum() > 1 and not row[:place].any()
    ]
    return silent + groups
