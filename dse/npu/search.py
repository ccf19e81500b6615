"""Search for the best NPU (Fluid Batching, Section III-A, Equation 2), with a bound that rules designs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...formats import AnyPath, InputError, SparseRecord, Strict, brief, first_rows
from ...models import Network, as_network
from ...models.network import Count
from ...platforms import Board, as_board
from ...platforms.board import ONE_PIXEL
from .choices import MAX_DESIGN_BATCH, Batching, Objective, Overlap
from .fbcb import MAX_BLOCK_BITS, entry_bits
from .logic import Entries
from .objectives import OBJECTIVES, Cost, check_objectives, weighted
from .resources import beside_by_banks, counts_logic, most_beside
from .space import ANY, Beside, DesignSpace, LayoutPlan, Limits, Tile, check_fit, make_plan, pixels_of, stacked
from .workload import distinct

PIECE = 8_000_000
"""Layouts that a thread evaluates in one task: about a millisecond, so all threads stay busy and Ctrl-C acts soon."""

STEPS = {Overlap.PAPER: 20, Overlap.IDEAL: 20, Overlap.TILES: 400}
"""How many times as long designs take one by one as by vectors, about."""

FEW = 128
"""So many designs are all evaluated, as bounds would take as long."""

FEW_BUILT = 16
"""Designs as built that are evaluated before the bounds of the others are looked at again."""

ROUND = 8
"""Boxes of designs that a search evaluates, at least, before it looks at the bounds of the others again."""

TOP = 5
"""Designs of a ranking."""

MARGIN = 1 - 1e-9
"""Every bound is lowered by this factor, far more than rounding could raise it (docs/search.md, Pruning)."""

Progress = Callable[[int, int], None]

Result = TypeVar("Result")


class SearchOptions(Strict):
    """Options of a search.

    Attributes
    ----------
    batching : Batching
        Layout of a batch on the engine.
    stacking : bool
        Stackable PEs, k in {1/2, 1, 2}; else k = 1.
    overlap : Overlap
        Time of a layer: as built, or an ideal.
    b_max : int
        Largest batch size.
    weights : list of float
        w_b of Equation (2), for b = 1..b_max; empty for all ones.
    memory_layers : bool
        Count the time of the traffic of memory-only layers (pooling).
    tile : Tile or None
        A given design, which is evaluated instead of searched for.
    objective : Objective
        Quantity that is maximised or minimised.
    limits : Limits
        The most that a design may take of the board.
    launches : list of list of float
        For the objective ``traffic``: runs that a simulation counted of each stage with
        b = 1..b_max samples.
    persistent_mbit : float
        On-chip memory in Mb of 2**20 bits in which the weights of the first layers stay.
    """

    batching: Annotated[Batching, Field(strict=False)] = Batching.FLUID
    stacking: bool = True
    overlap: Annotated[Overlap, Field(strict=False)] = Overlap.TILES
    b_max: Annotated[int, Field(ge=1, le=MAX_DESIGN_BATCH)] = 8
    weights: list[Annotated[float, Field(ge=0, le=1e6)]] = []
    memory_layers: bool = True
    tile: Tile | None = None
    objective: Annotated[Objective, Field(strict=False)] = Objective.GOP_S
    limits: Limits = Limits()
    launches: list[list[Annotated[float, Field(ge=0, le=1e15)]]] = []
    persistent_mbit: Annotated[float, Field(ge=0, le=1e6)] = 0.0

    @model_serializer(mode="wrap")
    def _without_a_buffer(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A file has no key for a buffer that the design does not have, and no V where it is 1."""
        found = {key: value for key, value in write(self).items() if key != "persistent_mbit" or value}
        if self.tile and "tile" in found:
            found["tile"] = self.tile.stated
        return found

    @model_validator(mode="before")
    @classmethod
    def _equation_1_is_an_ideal(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batching") == Batching.EQ1:
            return {"overlap": Overlap.PAPER, **values}
        return values

    @model_validator(mode="after")
    def _equation_1_as_printed(self) -> Self:
        if self.batching is Batching.EQ1 and self.overlap is not Overlap.PAPER:
            raise ValueError("overlap: Equation (1) as printed goes with the paper's count of words, and nothing else")
        return self

    @model_validator(mode="after")
    def _one_weight_for_each_batch(self) -> Self:
        if self.weights and len(self.weights) != self.b_max:
            raise ValueError(
                f"weights: expected {self.b_max} values, one for each batch size 1..{self.b_max}, "
                f"found {len(self.weights)}"
            )
        if self.weights and max(self.weights) < 1e-6:
            raise ValueError("weights: expected at least one of 1e-6 or more, found none")
        return self

    @model_validator(mode="after")
    def _launches_with_their_objective(self) -> Self:
        if (self.objective is Objective.TRAFFIC) != bool(self.launches):
            raise ValueError("objective: traffic goes with the launches of a simulation, and with nothing else")
        if self.launches and self.weights:
            raise ValueError("weights: expected either w_b or launches, found both")
        if any(len(row) != self.b_max for row in self.launches):
            raise ValueError(f"launches: expected {self.b_max} counts for each stage, one for each batch size")
        if self.launches and not any(any(row) for row in self.launches):
            raise ValueError("launches: expected at least one run, found none")
        return self

    @property
    def placed(self) -> bool:
        """Whether memories are counted as they are placed; the paper counts their bits."""
        return self.overlap is not Overlap.PAPER

    def counts_logic(self, platform: Board) -> bool:
        """Whether look-up tables and flip-flops of the NPU are counted; else the former as the paper has them."""
        return self.placed and counts_logic(platform)

    def room(self, platform: Board) -> Limits:
        """The most that a design may take of a board beside the weights that stay.

        Parameters
        ----------
        platform : Board
            The board.

        Returns
        -------
        Limits
            The limits, less the persistent memory.

        Raises
        ------
        InputError
            If the weights that stay leave nothing.
        """
        if not self.persistent_mbit:
            return self.limits
        whole = self.limits.confine(platform).on_chip_mbit
        if self.persistent_mbit >= whole:
            raise InputError(
                f"persistent: expected less than the {whole:g} Mb on chip of {platform.name}, "
                f"found {self.persistent_mbit:g} Mb"
            )
        return self.limits.model_copy(update={"max_ram_mbit": whole - self.persistent_mbit})

    def resident_words(self, platform: Board) -> int:
        """Words of weights that stay on the chip."""
        return int(self.persistent_mbit * 2**20) // platform.word_bits

    def weight_array(self) -> NDArray[np.float64]:
        """w_b for b = 1..b_max."""
        return np.array(self.weights) if self.weights else np.ones(self.b_max)

    def text(self, objective: float) -> str:
        """One value of the objective as it is printed, with its unit."""
        return OBJECTIVES[self.objective].text(objective)

    def plan(self, platform: Board) -> LayoutPlan:
        """Choices of each layer on a board."""
        every = pixels_of(platform, placed=self.placed) != ONE_PIXEL
        return make_plan(self.batching, self.b_max, stacking=self.stacking, every=every)

    def words_per_cycle(self, platform: Board) -> float:
        """Off-chip words of a cycle: as built no more than the port has, otherwise what the bandwidth allows."""
        port = float(platform.port.words) if self.overlap is Overlap.TILES else np.inf
        return min(platform.words_per_cycle, port)

    def beside(self, network: Network) -> Beside:
        """Samples that an engine must have side by side: those of the only layout of a batch."""
        if self.batching is not Batching.COLUMN:
            return ANY
        return Beside(self.b_max, min(layer.gemm.C for layer in network.layers if layer.gemm))

    def entries(self, network: Network) -> Entries:
        """The control block of a network, whose entries are as wide as they may get."""
        products = sum(layer.gemm is not None for layer in network.layers)
        return Entries(products * self.b_max, entry_bits(self.b_max, MAX_BLOCK_BITS))

    def counting(self, network: Network) -> dict[str, Any]:
        """How designs for a network are counted: as ``designs``, ``DesignSpace`` and ``check_fit`` take it."""
        return {"placed": self.placed, "beside": self.beside(network), "entries": self.entries(network)}

    def most_beside(self, network: Network, platform: Board, space: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find how many samples designs can have side by side in a tile of columns.

        Parameters
        ----------
        network : Network
            The network.
        platform : Board
            The board.
        space : array
            The designs. Shapes: (D, 4).

        Returns
        -------
        array
            The most, by their banks of inputs and, where these are counted, the look-up tables and flip-flops that they
            may take; at most b_max.
        """
        most = int(self.plan(platform).layouts[:, 2].max())
        by_banks = np.minimum(beside_by_banks(platform, space[:, 3]), most)
        if not self.counts_logic(platform):
            return by_banks
        by_logic = most_beside(self.limits.confine(platform), space, most, self.entries(network))
        return np.maximum(np.minimum(by_logic, by_banks), 1)


class RankedDesign(SparseRecord):
    """A design and its objective, in the unit of :data:`.objectives.OBJECTIVES`."""

    T_R: Count
    T_P: Count
    T_C: Count
    V: Count = 1
    objective: float

    @classmethod
    def of(cls, tile: Tile, objective: float) -> Self:
        """A design with its objective."""
        return cls(**tile._asdict(), objective=objective)

    @property
    def tile(self) -> Tile:
        """The design."""
        return Tile(self.T_R, self.T_P, self.T_C, self.V)


class LayoutChoice(NamedTuple):
    """Configuration of every layer and batch on one design, and its cost; all fields are (L, b_max)."""

    codes: NDArray[np.int64]  # stacking code: 0, 1, 2 for k = 1, 2, 1/2
    B_R: NDArray[np.int64]  # samples down the rows
    blocks: NDArray[np.int64]  # of rows; 1 if the paper's count takes as many as the buffers need
    cycles: NDArray[np.float64]
    words: NDArray[np.float64]  # moved off chip
    on_chip: NDArray[np.float64]  # moved on the chip only: returning partial sums, resident weights


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


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Evaluator:
    """Cost of designs, and their values for objectives; ``work`` and ``plan`` are what the kernels take."""

    def __init__(self, network: Network, platform: Board, options: SearchOptions) -> None:
        from . import kernels, schedule  # here, because reading a design needs no numba

        self._kernels, self._schedule, self._network, self._platform, self._options = (
            kernels,
            schedule,
            network,
            platform,
            options,
        )
        self._launches, self.plan = np.array(options.launches), options.plan(platform)
        self._beside: dict[tuple[int, ...], int] = {}  # what :meth:`find_beside` found
        self._macs = network.macs
        room = options.resident_words(platform)
        self.work, self._rows = distinct(network, memory_layers=options.memory_layers, room=room)
        if not options.launches:  # the network as one stage
            repeats, words = self.work.repeats.sum(axis=1, keepdims=True), self.work.memory_words.sum(keepdims=True)
            self.work = self.work._replace(repeats=repeats, memory_words=words)
        elif len(options.launches) != len(network.exits):
            raise InputError(
                f"launches: expected {len(network.exits)} stages, those of {network.name}, "
                f"found {len(options.launches)}; take the results of a simulation of this network"
            )

    def cost(self, space: NDArray[np.int64], *, traffic: bool) -> Cost:
        """Time of D designs and, if asked for, their traffic off chip and on."""
        if self.by_vectors and not traffic:
            return self._cost(self.cycles(space))
        return self._cost(*self.account(space)[0])

    @property
    def as_built(self) -> bool:
        """True if layers are run tile by tile."""
        return self._options.overlap is Overlap.TILES

    @property
    def by_vectors(self) -> bool:
        """True if cycles alone are computed many designs at a time."""
        return self._options.overlap is Overlap.PAPER and not self.plan.literal

    def evaluate(self, tile: Tile) -> tuple[Cost, LayoutChoice]:
        """Cost of a design, and the best (k, B_R) of each of the network's products and each batch."""
        found, chosen = self.account(np.array([tile]))
        return self._cost(*found), LayoutChoice._make(table[self._rows] for table in chosen)

    def choose(self, tile: Tile) -> LayoutChoice:
        """The best (k, B_R) of each of the network's products and each batch on a design."""
        return self.evaluate(tile)[1]

    def _tiles(self, space: NDArray[np.int64]) -> NDArray[np.float64]:
        """Tiles of designs under each stacking code; where a code does not fit, those of k = 1, which wins ties.

        Always in one order in memory: a kernel would be compiled for each.
        """
        tiles = stacked(space, self.plan.codes)
        return np.ascontiguousarray(np.where(tiles.min(axis=0) < 1, tiles[:, :1], tiles))

    def cycles(self, space: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cycles of D designs by the paper's count, by stage and batch."""
        found = np.empty((len(self.work.memory_words), self._options.b_max, len(space)))
        rate = self._platform.words_per_cycle
        self._kernels.search_designs(self._tiles(space), self.work, self.plan, rate, found)
        return found.transpose(2, 0, 1)

    def account(self, space: NDArray[np.int64], *, bound: bool = False) -> tuple[NDArray[np.float64], LayoutChoice]:
        """Cycles, words and accesses of D designs, and what each distinct layer chooses on the last of them.

        With ``bound``, cycles as built that no layout goes below.
        """
        shape = len(self.work.gemms), self._options.b_max
        codes, B_R, blocks = np.ones((3, *shape), np.int64)
        choice = LayoutChoice(codes, B_R, blocks, *np.empty((3, *shape)))
        found = np.empty((3, len(space), len(self.work.memory_words), self._options.b_max))
        tiles, board, run = self._tiles(space), self._platform, self._schedule
        if self._options.overlap is Overlap.PAPER:
            self._kernels.account_designs(tiles, self.work, self.plan, board.words_per_cycle, choice, *found)
            return found, choice
        mode = run.IDEAL if self._options.overlap is Overlap.IDEAL else run.BOUND if bound else run.AS_BUILT
        run.run_designs(
            tiles, self.work, self.plan, self._most_beside(space), board.port, run.drain_cycles(space[:, 1]), mode,
            self._options.words_per_cycle(board), choice, *found,
        )  # fmt: skip
        return found, choice

    def find_beside(self, space: NDArray[np.int64]) -> None:
        """Find :meth:`SearchOptions.most_beside` of designs at once, which takes about as long as of a few."""
        found = self._options.most_beside(self._network, self._platform, space)
        self._beside = dict(zip(map(tuple, space.tolist()), found.tolist(), strict=True))

    def _most_beside(self, space: NDArray[np.int64]) -> NDArray[np.int64]:
        designs = [*map(tuple, space.tolist())]
        if self._beside.keys() >= set(designs):
            return np.array([self._beside[design] for design in designs], np.int64)
        return self._options.most_beside(self._network, self._platform, space)

    def least(self, space: NDArray[np.int64], *, traffic: bool) -> NDArray[np.float64]:
        """Cycles, and words and accesses, that no design goes below, nor one with smaller T_R, T_P or T_C.

        See docs/search.md, Pruning. Shapes: returns (3 or 1, D, stages, b_max).
        """
        least = np.empty((3 if traffic else 1, len(self.work.memory_words), self._options.b_max, len(space)))
        self._kernels.bound_designs(self._tiles(space), self.work, self.plan, self._platform.words_per_cycle, least)
        least *= MARGIN
        return least.transpose(0, 3, 1, 2)

    def least_cost(self, space: NDArray[np.int64], *, traffic: bool) -> Cost:
        """Cost at :meth:`least`."""
        return self._cost(*self.least(space, traffic=traffic))

    def bound(self, space: NDArray[np.int64], objective: Objective) -> NDArray[np.float64]:
        """Value of the objective at the least cost of D designs. Shapes: returns (D,)."""
        goal = OBJECTIVES[objective]
        return goal.evaluate(self.least_cost(space, traffic=bool(goal.needs)), self._options.weight_array())

    def near_bound(self, space: NDArray[np.int64], objective: Objective) -> NDArray[np.float64]:
        """The same, nearer to the value as built, by the layouts of each layer; slower."""
        cost = self._cost(*MARGIN * self.account(space, bound=True)[0])
        return OBJECTIVES[objective].evaluate(cost, self._options.weight_array())

    def _cost(self, *found: NDArray[np.float64]) -> Cost:
        """From cycles, and perhaps words and accesses, by design, stage and batch."""
        cost = Cost(self._macs, self._platform, *(array.sum(axis=1) for array in found))
        if not self._launches.size:
            return cost
        samples = self._launches @ cost.batch
        return cost._replace(
            launched_macs=float(samples @ (self.work.repeats.T @ self.work.gemms.prod(axis=1))),
            busy_cycles=weighted(self._launches.ravel(), found[0].reshape(len(found[0]), -1)),
        )

    def rate(
        self,
        space: NDArray[np.int64],
        objectives: Sequence[Objective],
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:
        """Values of designs, on all threads. Shapes: ``space`` (D, 4)."""
        asked = [OBJECTIVES[name] for name in objectives]
        traffic = any(item.needs for item in asked)
        values = np.empty((len(space), len(asked)))
        layouts = len(space) * len(self.work.gemms) * self.plan.codes * len(self.plan.layouts)
        slower = 1 if self.by_vectors and not traffic else STEPS[self._options.overlap]
        pieces = -(-layouts * slower // PIECE)
        step, weights = -(-len(space) // max(1, pieces)), self._options.weight_array()

        def evaluate(start: int) -> int:
            part = space[start : start + step]
            cost = self.cost(part, traffic=traffic)
            for i, item in enumerate(asked):
                values[start : start + step, i] = item.evaluate(cost, weights)
            return len(part)

        done = 0
        for part in on_threads(evaluate, range(0, len(space), step), threads):
            done += part
            if progress:
                progress(done, len(space))
        return values


def on_threads(task: Callable[[int], Result], items: Sequence[int], threads: int | None) -> Iterator[Result]:
    """Results of a task for each item, in the order in which they end."""
    threads = min(threads or available_threads(), len(items))
    if threads <= 1:  # needs no pool
        yield from map(task, items)
        return
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(threads)
    try:
        for future in as_completed([pool.submit(task, item) for item in items]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for kernels


def rank(space: NDArray[np.int64], losses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sort designs, best first; on a tie more DSPs, then the larger T_R, then the smaller T_P, then the smaller V.

    docs/search.md, Ties.
    """
    return np.lexsort((space[:, 3], space[:, 1], -space[:, 0], -space[:, 1:].prod(axis=1), losses))


def search(
    network: Network | AnyPath,
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
    network : Network, str or Path
        The network, heads included, or its name or file.
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
    network, platform, options = as_network(network), as_board(platform), options or SearchOptions()
    check_objectives(platform, [options.objective])
    room, goal = options.room(platform), OBJECTIVES[options.objective]
    if options.tile is None:
        space = DesignSpace(platform, room, **options.counting(network))
        evaluator, total = Evaluator(network, platform, options), space.size
        found, values = _by_bound(evaluator, space, options.objective, top, threads, progress)
    else:
        check_fit(platform, options.tile, room, **options.counting(network))
        found, total = np.array([options.tile]), 1
        values = Evaluator(network, platform, options).rate(found, [options.objective])[:, 0]
    if progress:
        progress(total, total)
    order = rank(found, goal.losses(values))[:top]
    ranking = [RankedDesign.of(Tile(*found[i].tolist()), float(values[i])) for i in order]
    return SearchResult(ranking, len(found), total - len(found))


def _by_bound(
    evaluator: Evaluator, space: DesignSpace, objective: Objective, top: int, threads: int | None,
    progress: Progress | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:  # fmt: skip
    """Designs with their values, among them the best ``top``; the boxes of the others have worse bounds than these."""
    goal = OBJECTIVES[objective]
    boxes, hopes = space.whole, np.full(space.whole.shape[1], -np.inf)
    if space.size > max(top, FEW):
        boxes = space.boxes()
        hopes = goal.losses(evaluator.bound(space.corners(boxes), objective))
    order = np.argsort(hopes, kind="stable")
    hopes, done = hopes[order], 0
    found: list[NDArray[np.int64]] = []
    values, worst = np.empty(0), np.inf  # the loss of the last one of the ranking so far

    def rate(part: NDArray[np.int64]) -> None:
        nonlocal values, worst
        found.append(part)
        values = np.append(values, evaluator.rate(part, [objective], threads)[:, 0])
        if values.size >= top:
            worst = np.partition(goal.losses(values), top - 1)[top - 1]
        if progress:
            progress(values.size, space.size)

    while done < hopes.size and hopes[done] <= worst:
        last = min(done + max(ROUND, done), int(np.searchsorted(hopes, worst, side="right")))
        part = space.within(boxes[:, order[done:last]])
        done = last
        if not part.size:
            continue
        if not evaluator.as_built:
            rate(part)
            continue
        # each takes so long that the bounds of each are worth their time
        losses = goal.losses(evaluator.bound(part, objective))
        by_loss = np.argsort(losses, kind="stable")
        evaluator.find_beside(part[losses <= worst])
        for begin in range(0, len(part), FEW_BUILT):
            at = by_loss[begin : begin + FEW_BUILT]
            few = part[at[losses[at] <= worst]]
            if few.size and not goal.needs:
                few = few[goal.losses(evaluator.near_bound(few, objective)) <= worst]
            if few.size:
                rate(few)
    if not found:
        raise InputError(space.refusal)
    return np.concatenate(found), values


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
