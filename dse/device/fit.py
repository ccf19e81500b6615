"""The constants of an engine that are nearest to measured times (docs/search.md, Engines of fixed shape)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...platforms.engine import Engine
from .engine import Floats
from .measurements import Measurement

CONSTANTS = ("effective_gb_s", "not_hidden", "layer_s", "inference_s")
"""What is fitted."""

SLOWEST = 1e-3
"""Least share of the peak bandwidth that is tried."""

ALIKE = 0.1
"""Constants are not told apart if predicted times change by this share when all change, compared with each alone."""

STEP = 1e-3
"""Share by which the bandwidth is changed to see that."""

STEPS, REFINEMENTS = 80, 25
"""Bandwidths tried, at equal ratios, and steps that refine the best."""

EQUAL = 1e-3
"""Losses are equal if they differ by this share, or by the loss of errors of this size."""

EDGE = 0.05
"""Errors below count by their square, larger ones by their size: a few gross errors do not move the constants."""

RANK = 1e-12
"""Share of the largest singular value below which columns are taken as dependent."""

ROUNDS, SAME = 50, 1e-5
"""Most rounds of weights beside a bandwidth, and the share of the loss by which a further round must be better."""


class _Rows:
    """Rows as arrays, to predict all of them for a bandwidth; shares are of the measured times."""

    def __init__(self, rows: Sequence[Measurement], engine: Engine) -> None:
        self.measured_s = np.array([row.seconds for row in rows])
        counts = np.array([len(row.needs.works) for row in rows])
        self.starts = np.append(0, np.cumsum(counts)[:-1])
        self.computing = np.concatenate([row.needs.cycles for row in rows]) / engine.clock_hz
        self.bytes = np.concatenate([row.needs.bytes for row in rows])
        self.fixed = np.array([counts, [row.layer is None for row in rows]])  # layers and inferences

    def summed(self, layers: Floats) -> Floats:
        """Sums over the layers of each row."""
        sums: Floats = np.add.reduceat(layers, self.starts)
        return sums

    def shares(self, gb_s: float) -> tuple[Floats, Floats]:
        """The longer of computing and moving, and a column for each constant but the bandwidth."""
        moving = self.bytes / (1e9 * gb_s)
        longer = self.summed(np.maximum(self.computing, moving))
        columns = np.array([self.summed(np.minimum(self.computing, moving)), *self.fixed])
        return longer / self.measured_s, (columns / self.measured_s).T


def fitted(engine: Engine, measurements: Sequence[Measurement], free: Sequence[str]) -> Engine:
    """The engine with the constants in ``free`` that are nearest to measured times."""
    rows = _Rows(measurements, engine)
    stated = np.array([engine.not_hidden, engine.layer_s, engine.inference_s])
    fixed = np.array([name not in free for name in CONSTANTS[1:]])
    gb_s = engine.effective_gb_s or engine.bandwidth_gb_s
    if CONSTANTS[0] in free:
        equal = len(measurements) * EQUAL**2 / (2 * EDGE)
        gb_s = _least(lambda rate: _solve(rows, rate, stated, fixed)[1], engine.bandwidth_gb_s, equal)
    values = dict(zip(CONSTANTS, [gb_s, *_solve(rows, gb_s, stated, fixed)[0]], strict=True))
    near = engine.model_copy(update={name: float(f"{values[name]:.4g}") for name in free})
    if near.effective_gb_s is not None:
        near = near.model_copy(update={"effective_gb_s": min(near.effective_gb_s, engine.bandwidth_gb_s)})
    return near


def _loss(shares: Floats) -> float:
    """Huber's loss of the logarithms of predicted over measured times: a time is as bad doubled as halved."""
    sizes = np.abs(np.log(shares))
    return float(np.where(sizes < EDGE, sizes * sizes / (2 * EDGE), sizes - EDGE / 2).sum())


def _weights(shares: Floats) -> Floats:
    """Weights with which squares of the errors have the slope of the loss."""
    logs, errors = np.log(shares), shares - 1
    slopes = np.divide(logs, errors, out=np.ones_like(logs), where=errors != 0)
    weights: Floats = slopes / shares / np.maximum(np.abs(logs), EDGE)
    return weights


def _solve(rows: _Rows, gb_s: float, stated: Floats, fixed: NDArray[np.bool_]) -> tuple[Floats, float]:
    """The best constants beside a bandwidth, and their loss: least squares, repeated with the weights of the last."""
    longer, columns = rows.shares(gb_s)
    best, least = stated, np.inf
    weights = np.ones_like(longer)
    for _ in range(ROUNDS):
        constants = _within(columns, 1 - longer, weights, stated, fixed)
        shares = longer + columns @ constants
        loss = _loss(shares)
        if loss >= least * (1 - SAME):
            break
        best, least, weights = constants, loss, _weights(shares)
    return best, least


def _within(columns: Floats, left: Floats, weights: Floats, stated: Floats, fixed: NDArray[np.bool_]) -> Floats:
    """The constants of least weighted squares, each 0 at least and ``not_hidden`` 1 at most.

    Each lies inside of its bounds or on one, and every case is a linear problem.
    """
    sizes = np.sqrt(weights @ np.square(columns))
    sizes[sizes == 0] = 1.0
    scaled = columns / sizes
    products, aims = scaled.T @ (weights[:, None] * scaled), scaled.T @ (weights * left)
    best, least = stated, np.inf
    choices = [[value] if kept else [None, 0.0] for value, kept in zip(stated, fixed, strict=True)]
    if not fixed[0]:
        choices[0].append(1.0)
    for case in product(*choices):
        inside = np.array([value is None for value in case])
        constants = np.array([0.0 if value is None else value for value in case])
        if inside.any():
            rest = (aims - products @ (constants * sizes))[inside]
            solution = np.linalg.lstsq(products[np.ix_(inside, inside)], rest, rcond=RANK)[0]
            constants[inside] = solution / sizes[inside]
        if (constants < 0).any() or constants[0] > 1:
            continue
        scales = constants * sizes
        error = float(scales @ products @ scales - 2 * aims @ scales)
        if error < least:
            best, least = constants, error
        if (inside | fixed).all():
            break  # no bound binds
    return best


def _least(loss: Callable[[float], float], peak: float, equal: float) -> float:
    """The bandwidth of the least loss: the best of a grid, refined between its neighbours by golden section.

    If there is a higher one whose loss is equal, no row needs less, and the highest is taken.
    """
    grid = peak * np.geomspace(SLOWEST, 1, STEPS)
    losses = np.array([loss(rate) for rate in grid])
    at = int(np.argmin(losses))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, STEPS - 1)]
    golden = (np.sqrt(5) - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(REFINEMENTS):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = loss(b)
    rates, all_losses = np.append(grid, (a, b)), np.append(losses, (at_a, at_b))
    best = int(np.argmin(all_losses))
    highest = grid[losses <= all_losses[best] * (1 + EQUAL) + equal]
    return float(max(rates[best], highest.max(initial=0.0)))


def alike(engine: Engine, measurements: Sequence[Measurement], free: Sequence[str]) -> list[list[str]]:
    """Groups of fitted constants that can change together, with hardly a change of any predicted time."""
    rows, gb_s = _Rows(measurements, engine), engine.bytes_per_s / 1e9

    def predicted(rate: float) -> Floats:
        longer, columns = rows.shares(rate)
        shares: Floats = longer + columns @ np.array([engine.not_hidden, engine.layer_s, engine.inference_s])
        return shares

    changes = dict(zip(CONSTANTS[1:], rows.shares(gb_s)[1].T, strict=True))
    changes[CONSTANTS[0]] = predicted(gb_s * (1 - STEP)) - predicted(gb_s)
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
