"""Evaluation of designs: their cost, the layouts that they choose, and bounds that no layout goes below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ...models import Network
from ...platforms import Board
from .choices import Objective, Overlap
from .objectives import OBJECTIVES, Cost, prices_of, weighted
from .options import SearchOptions
from .ports import port_of
from .tiles import Tile, Tiles, stacked
from .workload import Workload, as_workload, merged

PIECE = 8_000_000
"""Layouts that a thread evaluates in one task: about a millisecond, so all threads stay busy and Ctrl-C acts soon."""

BOUND_PIECE = 512
"""Designs whose bounds are found in one task: with more, their figures do not stay in the cache of a core."""

STEPS = {Overlap.PAPER: 20, Overlap.IDEAL: 20, Overlap.TILES: 400}
"""How many times as long designs take one by one as by vectors, about."""

MARGIN = 1 - 1e-9
"""Every bound is lowered by this factor, far more than rounding could raise it (docs/search.md, Pruning)."""

Progress = Callable[[int, int], None]

Result = TypeVar("Result")


class LayoutChoice(NamedTuple):
    """Configuration of every layer and batch on one design, and its cost; all fields are (L, b_max)."""

    codes: Ints  # stacking code: 0, 1, 2 for k = 1, 2, 1/2
    B_R: Ints  # samples down the rows
    blocks: Ints  # of rows; 1 if the paper's count takes as many as the buffers need
    cycles: Floats
    words: Floats  # moved off chip
    on_chip: Floats  # moved on the chip only: returning partial sums, resident weights


class Evaluator:
    """Cost of designs, and their values for objectives; ``work`` and ``layouts`` are what the kernels take."""

    def __init__(self, network: Network | Workload, platform: Board, options: SearchOptions) -> None:
        from . import bounds, kernels, layer_choice, schedule  # here, because reading a design needs no numba

        self._bounds, self._kernels, self._choice, self._schedule = bounds, kernels, layer_choice, schedule
        self._workload, self._platform, self._options = as_workload(network), platform, options
        workload = self._workload
        options.check(workload)
        self._launches, self.layouts = np.array(options.launches), options.layouts(platform)
        self._macs, self._prices = workload.macs, prices_of(platform, options.objective)
        room = options.resident_words(platform)
        counted = replace(workload, shares=(1.0,) * len(workload.networks)) if options.launches else workload
        self.work, self._rows = merged(counted, pooled=options.pooled, memory_layers=options.memory_layers, room=room)
        if options.overlap is Overlap.PAPER:  # which counts no residual map
            self.work = self.work._replace(adds=np.zeros_like(self.work.adds))
        stages = len(self.work.memory_words)
        if not options.launches:  # all as one stage
            repeats, words = self.work.repeats.sum(axis=1, keepdims=True), self.work.memory_words.sum(keepdims=True)
            self.work = self.work._replace(repeats=repeats, memory_words=words)
        elif len(options.launches) != stages:
            raise InputError(
                f"launches: expected the {stages} stages of {workload.name}, found {len(options.launches)}; "
                "take the results of a simulation of this network"
            )

    def cost(self, tiles: Tiles, *, traffic: bool, samples: Ints | None = None) -> Cost:
        """Time of D designs and, if asked for, their traffic off chip and on."""
        if self.by_vectors and not traffic:
            return self._cost(self.cycles(tiles))
        return self._cost(*self.account(tiles, samples=samples)[0])

    @property
    def as_built(self) -> bool:
        """True if layers are run tile by tile."""
        return self._options.overlap is Overlap.TILES

    @property
    def by_vectors(self) -> bool:
        """True if cycles alone are computed many designs at a time."""
        by_time = self._prices == self._kernels.TIME_ONLY
        return self._options.overlap is Overlap.PAPER and not self.layouts.literal and by_time

    def evaluate(self, tile: Tile, samples: Ints | None = None) -> tuple[Cost, LayoutChoice]:
        """Cost of a design, and the best (k, B_R) of each product, network by network, and each batch."""
        figures, chosen = self.account(tile.array, samples=samples)
        return self._cost(*figures), LayoutChoice._make(table[self._rows] for table in chosen)

    def choose(self, tile: Tile) -> LayoutChoice:
        """The best (k, B_R) of each of the network's products and each batch on a design."""
        return self.evaluate(tile)[1]

    def _stacked(self, tiles: Tiles) -> Floats:
        """Sizes of designs under each stacking code; where a code does not fit, the tile of k = 1, which wins ties.

        Always in one order in memory: a kernel would be compiled for each.
        """
        by_code = stacked(tiles, self.layouts.codes)
        return np.ascontiguousarray(np.where(by_code.min(axis=0) < 1, by_code[:, :1], by_code))

    def cycles(self, tiles: Tiles) -> Floats:
        """Cycles of D designs by the paper's count, by stage and batch."""
        cycles = np.empty((len(self.work.memory_words), self._options.b_max, tiles.shape[1]))
        rate = self._platform.words_per_cycle
        self._kernels.search_designs(self._stacked(tiles), self.work, self.layouts, rate, cycles)
        return cycles.transpose(2, 0, 1)

    def account(self, tiles: Tiles, *, bound: bool = False, samples: Ints | None = None) -> tuple[Floats, LayoutChoice]:
        """Cycles, words and accesses of D designs, and what each distinct layer chooses on the last of them.

        With ``bound``, cycles as built that no layout goes below.  ``samples`` is what :meth:`samples` finds, if it is
        known.
        """
        shape = len(self.work.gemms), self._options.b_max
        codes, B_R, blocks = np.ones((3, *shape), np.int64)
        choice = LayoutChoice(codes, B_R, blocks, *np.full((3, *shape), np.inf))  # kernels compare with what is here
        figures = np.empty((3, tiles.shape[1], len(self.work.memory_words), self._options.b_max))
        by_code, board, run, prices = self._stacked(tiles), self._platform, self._choice, self._prices
        if self._options.overlap is Overlap.PAPER:
            of_cycle = board.words_per_cycle
            self._kernels.account_designs(by_code, self.work, self.layouts, of_cycle, prices, choice, figures)
            return figures, choice
        mode = run.IDEAL if self._options.overlap is Overlap.IDEAL else run.BOUND if bound else run.AS_BUILT
        samples = self.samples(tiles) if samples is None else samples
        rate = self._options.words_per_cycle(board, tiles)
        engines = self._schedule.engine_times(port_of(board, tiles), tiles[1], samples, rate, prices)
        prices = self._kernels.TIME_ONLY if mode == run.BOUND else prices
        run.run_designs(by_code, self.work, self.layouts, engines, mode, choice, figures)
        return figures, choice

    def samples(self, tiles: Tiles) -> Ints:
        """Most samples that designs can have side by side; finding it for many takes about as long as for a few."""
        return self._options.samples_side_by_side(self._workload, self._platform, tiles)

    def least(self, tiles: Tiles, *, traffic: bool) -> Floats:
        """Cycles, and words and accesses, that no design goes below, nor one with smaller T_R, T_P or T_C.

        See docs/search.md, Pruning. Shapes: returns (3 or 1, D, stages, b_max).
        """
        shape = len(self.work.memory_words), self._options.b_max, tiles.shape[1]
        least = np.empty((3 if traffic else 1, *shape))
        paces = self._bounds.overlapping(self.work, 1 / self._options.words_per_cycle(self._platform, tiles))
        if self.as_built:
            paces = self._bounds.of_beats(self.work, paces.word, port_of(self._platform, tiles))
        self._bounds.bound_designs(self._stacked(tiles), self.work, self.layouts, paces, least)
        least *= MARGIN
        return least.transpose(0, 3, 1, 2)

    def least_cost(self, tiles: Tiles, *, traffic: bool) -> Cost:
        """Cost at :meth:`least`."""
        return self._cost(*self.least(tiles, traffic=traffic))

    def bound(self, tiles: Tiles, objectives: Sequence[Objective], threads: int | None = None) -> Floats:
        """Values of objectives at the least cost of D designs, on all threads. Shapes: returns (D, objectives)."""
        traffic = any(OBJECTIVES[name].needs for name in objectives)

        def cost_of(part: slice) -> Cost:
            return self.least_cost(tiles[:, part], traffic=traffic)

        return self._values(cost_of, objectives, range(0, tiles.shape[1], BOUND_PIECE), threads)

    def near_bound(self, tiles: Tiles, objective: Objective, samples: Ints | None = None) -> Floats:
        """The same, nearer to the value as built, by the layouts of each layer; slower."""
        cost = self._cost(*MARGIN * self.account(tiles, bound=True, samples=samples)[0])
        return OBJECTIVES[objective].evaluate(cost, self._options.weight_array())

    def _cost(self, *figures: Floats) -> Cost:
        """From cycles, and perhaps words and accesses, by design, stage and batch."""
        cost = Cost(self._macs, self._platform, *(array.sum(axis=1) for array in figures))
        if not self._launches.size:
            return cost
        samples = self._launches @ cost.batch
        return cost._replace(
            launched_macs=float(samples @ (self.work.repeats.T @ self.work.macs)),
            busy_cycles=weighted(self._launches.ravel(), figures[0].reshape(len(figures[0]), -1)),
        )

    def rate(
        self,
        tiles: Tiles,
        objectives: Sequence[Objective],
        threads: int | None = None,
        progress: Progress | None = None,
        samples: Ints | None = None,
    ) -> Floats:
        """Values of designs, on all threads. Shapes: ``tiles`` (5, D), returns (D, objectives)."""
        count, traffic = int(tiles.shape[1]), any(OBJECTIVES[name].needs for name in objectives)
        layouts = count * len(self.work.gemms) * self.layouts.codes * len(self.layouts.table)
        slower = 1 if self.by_vectors and not traffic else STEPS[self._options.overlap]
        pieces = max(1, -(-layouts * slower // PIECE))

        def cost_of(part: slice) -> Cost:
            return self.cost(tiles[:, part], traffic=traffic, samples=None if samples is None else samples[part])

        return self._values(cost_of, objectives, range(0, count, -(-count // pieces)), threads, progress)

    def _values(
        self,
        cost_of: Callable[[slice], Cost],
        objectives: Sequence[Objective],
        starts: range,
        threads: int | None,
        progress: Progress | None = None,
    ) -> Floats:
        """Values of designs by the cost of each piece of them. Shapes: returns (D, objectives)."""
        count, weights = starts.stop, self._options.weight_array()
        values = np.empty((count, len(objectives)))

        def evaluate(start: int) -> int:
            part = slice(start, min(start + starts.step, count))
            cost = cost_of(part)
            for i, name in enumerate(objectives):
                values[part, i] = OBJECTIVES[name].evaluate(cost, weights)
            return part.stop - start

        done = 0
        for evaluated in on_threads(evaluate, starts, threads):
            done += evaluated
            if progress:
                progress(done, count)
        return values


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_threads(task: Callable[[int], Result], numbers: Sequence[int], threads: int | None) -> Iterator[Result]:
    """Results of a task for each number, in the order in which they end."""
    threads = min(threads or available_threads(), len(numbers))
    if threads <= 1:  # needs no pool
        yield from map(task, numbers)
        return
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(threads)
    try:
        for future in as_completed([pool.submit(task, number) for number in numbers]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for kernels
