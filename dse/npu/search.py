"""Search for the best NPU (Fluid Batching, Section III-A, Equation 2), with a bound that rules designs out."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import Field

from ...formats import AnyPath, SparseRecord, brief, first_rows
from ...formats.array_types import Floats, Ints
from ...models import Network, as_network
from ...models.network import Count
from ...platforms import Board, as_board
from .choices import Objective
from .evaluation import Evaluator, LayoutChoice, Progress
from .objectives import OBJECTIVES, check_objectives
from .options import SearchOptions
from .space import DesignSpace, check_fit
from .tiles import Tile, Tiles, macs_of, tiles_of
from .workload import Workload, as_workload

FEW = 128
"""Spaces up to this size are evaluated whole: bounds would take as long."""

FEW_BUILT = 16
"""Designs as built that are evaluated before the bounds of the others are looked at again."""

ROUND = 8
"""Boxes of designs that a search evaluates, at least, before it looks at the bounds of the others again."""

TOP = 5
"""Designs of a ranking."""


class RankedDesign(SparseRecord):
    """A design and its objective, in the unit of :data:`.objectives.OBJECTIVES`."""

    T_R: Count
    T_P: Count
    T_C: Count
    V: Count = 1
    W: Annotated[int, Field(ge=0)] = 0
    objective: float

    @classmethod
    def of(cls, tile: Tile, objective: float) -> Self:
        """A design with its objective."""
        return cls(**tile._asdict(), objective=objective)

    @property
    def tile(self) -> Tile:
        """The design."""
        return Tile(self.T_R, self.T_P, self.T_C, self.V, self.W)


class SearchResult(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    ranking : list of RankedDesign
        The best designs, best first.
    designs_evaluated : int
        Designs that were evaluated.
    designs_ruled_out : int
        Designs that were not: by a bound they are worse than all of the ranking.
    """

    ranking: list[RankedDesign]
    designs_evaluated: int
    designs_ruled_out: int = 0

    def __repr__(self) -> str:
        return brief(self)

    def _repr_html_(self) -> str:
        return first_rows(self)

    def columns(self) -> dict[str, list[float]]:
        """The ranking as columns."""
        sizes = max((tuple(design.tile.by_name) for design in self.ranking), key=len)
        return {name: [getattr(design, name) for design in self.ranking] for name in (*sizes, "objective")}

    @property
    def best(self) -> RankedDesign:
        """The first of the ranking."""
        return self.ranking[0]


def rank(tiles: Tiles, losses: Floats) -> Ints:
    """Sort designs, best first (docs/search.md, Ties)."""
    T_R, T_P, _, V, W = tiles
    narrower = np.where(W, -W, np.iinfo(np.int64).min)
    return np.lexsort((narrower, V, T_P, -T_R, -macs_of(tiles), losses))


def search(
    network: Network | AnyPath | Workload,
    platform: Board | AnyPath,
    options: SearchOptions | None = None,
    *,
    top: int = TOP,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Rank all designs that fit a board by an objective, by default Equation (2).

    Designs are bounded in boxes of nearly equal T_P and T_C, and the boxes with the best
    bounds are evaluated first.  The search ends when the bounds of all others are worse
    than the last design of the ranking: the answer is then the same as if all were
    evaluated, ties included (docs/search.md, Pruning).

    Parameters
    ----------
    network : Network, str, Path or Workload
        The network, heads included, or its name or file; or several that share the NPU.
    platform : Board, str or Path
        The board, or its name or file.
    options : SearchOptions, optional
        Engine, batch sizes, objective; by default Fluid Batching with Stackable PEs up to 8.
    top : int
        Designs of the ranking.
    threads : int, optional
        Threads to use, by default all cores; the result does not depend on it.
    progress : callable, optional
        Called with (designs done, designs in all).

    Returns
    -------
    SearchResult
        The best designs, best first.

    Raises
    ------
    InputError
        If no design fits or the given one does not, or the board does not state what
        the objective needs.

    Examples
    --------
    >>> str(search("resnet50", "zc706").best.tile)
    '<1024,7,128>'
    """
    workload, platform, options = as_workload(network), as_board(platform), options or SearchOptions()
    check_objectives(platform, [options.objective])
    supply, goal = options.supply(workload, platform), OBJECTIVES[options.objective]
    if options.tile is None:
        space = DesignSpace(supply)
        ranked = _BoundedSearch(Evaluator(workload, platform, options), options.objective, top, threads, progress)
        ranked.run(space)
        tiles, values, total = ranked.tiles, ranked.values, space.size
    else:
        check_fit(supply, options.tile)
        tiles, total = options.tile.array, 1
        values = Evaluator(workload, platform, options).rate(tiles, [options.objective])[:, 0]
    if progress:
        progress(total, total)
    order = rank(tiles, goal.losses(values))[:top]
    best = zip(tiles_of(tiles[:, order]), values[order].tolist(), strict=True)
    ruled_out = total - len(set(map(tuple, tiles[1:].T.tolist())))
    return SearchResult([RankedDesign.of(tile, value) for tile, value in best], values.size, ruled_out)


class _BoundedSearch:
    """Evaluates designs, the best ones among them; the boxes of all others have worse bounds than these."""

    def __init__(
        self, evaluator: Evaluator, objective: Objective, top: int, threads: int | None, progress: Progress | None
    ) -> None:
        self._evaluator, self._objective, self._goal, self._top = evaluator, objective, OBJECTIVES[objective], top
        self._threads, self._progress, self._total = threads, progress, 0
        self._parts: list[Tiles] = []
        self.values = np.empty(0)
        self._worst = np.inf  # the loss of the last one of the ranking so far

    @property
    def tiles(self) -> Tiles:
        """The designs that were evaluated."""
        return np.concatenate(self._parts, axis=1)

    def run(self, space: DesignSpace) -> None:
        """Evaluate boxes of a space, the best bounds first, as long as a box may hold one of the best designs."""
        self._total = space.size
        boxes, hopes = space.whole, np.full(space.whole.shape[1], -np.inf)
        if space.size > max(self._top, FEW):
            boxes = space.boxes()
            hopes = self._least_losses(space.corners(boxes))
        order = np.argsort(hopes, kind="stable")
        hopes, done = hopes[order], 0
        while done < hopes.size and hopes[done] <= self._worst:
            last = min(done + max(ROUND, done), int(np.searchsorted(hopes, self._worst, side="right")))
            tiles = space.within(boxes[:, order[done:last]])
            done = last
            if tiles.size:
                (self._rate_by_bound if self._evaluator.as_built else self._rate)(tiles)
        if not self._parts:
            raise space.refusal

    def _losses(self, values: Floats) -> Floats:
        return self._goal.losses(values)

    def _least_losses(self, tiles: Tiles) -> Floats:
        """What no design of these, nor a smaller one, goes below."""
        return self._losses(self._evaluator.bound(tiles, [self._objective], self._threads)[:, 0])

    def _rate(self, tiles: Tiles, samples: Ints | None = None) -> None:
        self._parts.append(tiles)
        rated = self._evaluator.rate(tiles, [self._objective], self._threads, samples=samples)[:, 0]
        self.values = np.append(self.values, rated)
        if self.values.size >= self._top:
            self._worst = np.partition(self._losses(self.values), self._top - 1)[self._top - 1]
        if self._progress:
            self._progress(self.values.size, self._total)

    def _rate_by_bound(self, tiles: Tiles) -> None:
        """Evaluate those that may be among the best; each takes so long that a bound of each is worth its time."""
        losses = self._least_losses(tiles)
        order = np.argsort(losses, kind="stable")[: np.count_nonzero(losses <= self._worst)]
        tiles, losses = tiles[:, order], losses[order]
        samples = self._evaluator.samples(tiles)
        for begin in range(0, losses.size, FEW_BUILT):
            at = np.arange(begin, min(begin + FEW_BUILT, losses.size))
            at = at[losses[at] <= self._worst]
            if at.size and not self._goal.needs:
                near = self._evaluator.near_bound(tiles[:, at], self._objective, samples[at])
                at = at[self._losses(near) <= self._worst]
            if at.size:
                self._rate(tiles[:, at], samples[at])


def configure(
    network: Network | AnyPath, platform: Board | AnyPath, tile: Tile, options: SearchOptions
) -> LayoutChoice:
    """Find the best (k, B_R) of each layer and batch on a given design.

    On equal cycles fewer words win, then k = 1 before 2 before 1/2, then the smaller B_R, then fewer blocks.

    Parameters
    ----------
    network, platform
        As for :func:`search`.
    tile : Tile
        The design.
    options : SearchOptions
        As for :func:`search`.

    Returns
    -------
    LayoutChoice
        One row for each GEMM, in execution order.
    """
    return Evaluator(as_network(network), as_board(platform), options).choose(tile)
