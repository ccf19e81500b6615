"""Times and energies that the layers of a network do not go below on a design, by stage, for backbone and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from ...dse.npu.choices import Overlap
from ...dse.npu.evaluation import BOUND_PIECE, MARGIN, Evaluator, on_threads
from ...dse.npu.objectives import dynamic_energy
from ...dse.npu.options import SearchOptions
from ...dse.npu.tiles import Tiles
from ...formats.array_types import Floats, Ints
from ...models import Network
from ...platforms import Board
from .layer_times import evaluator_of, stages_of

NEAR_PIECE = 256
"""Designs whose near bounds are computed at once."""


class LeastTimes(NamedTuple):
    """Times that rows of hardware do not go below, of each stage's backbone and of what its exit adds."""

    alone_s: Floats  # (N, E, 2), of a batch of any size
    work_s: Floats  # (N, E, 2), of the hardware for a sample, in the best batch

    @classmethod
    def of(cls, parts_s: Floats) -> Self:
        """From times by batch size. Shapes: (N, E, 2, B)."""
        return cls(parts_s.min(axis=-1), work_of(parts_s))

    def at(self, rows: Ints | slice) -> LeastTimes:
        """The times of some rows."""
        return LeastTimes(self.alone_s[rows], self.work_s[rows])

    @property
    def stages(self) -> int:
        """Exits of the network, E."""
        return int(self.work_s.shape[1])

    @property
    def whole_s(self) -> Floats:
        """Time of the hardware for a sample that passes all exits. Shapes: returns (N,)."""
        whole_s: Floats = self.work_s.sum(axis=(1, 2))
        return whole_s


def work_of(parts: Floats) -> Floats:
    """Least time of the hardware, or energy, for a sample: with the best batch size. Shapes: (..., B) to (...)."""
    least: Floats = (parts / np.arange(1, parts.shape[-1] + 1)).min(axis=-1)
    return least


class LeastOfDesigns:
    """What a network takes at least on the designs of a board."""

    def __init__(self, network: Network, board: Board, options: SearchOptions) -> None:
        self._network, self._board, self._options = network, board, options
        self._order = sorted({(layer.stage, layer.in_head) for layer in network.layers})
        stages, heads = np.array(self._order).T
        self._places = stages - 1, heads.astype(np.int64)

    @cached_property
    def _evaluator(self) -> Evaluator:
        """What counts each stage's backbone and head apart."""
        number = {part: at for at, part in enumerate(self._order, 1)}
        parts = [number[layer.stage, layer.in_head] for layer in self._network.layers]
        return evaluator_of(stages_of(self._network, parts), self._board, self._options)

    def coarse(self, tiles: Tiles) -> LeastTimes:
        """Times by a bound of each layer, which is found some fifty times as fast as the near one."""
        return self._least(tiles, self._times(tiles, BOUND_PIECE, 1, self._coarse_cycles))

    def near(self, tiles: Tiles, threads: int | None = None) -> LeastTimes:
        """Times by the layouts of each layer, found on all threads."""
        return self._least(tiles, self._times(tiles, NEAR_PIECE, threads, self._near_cycles))

    def near_parts(self, tiles: Tiles, threads: int | None = None) -> Floats:
        """The same by batch size. Shapes: returns (N, E, 2, B)."""
        parts_s = np.zeros((tiles.shape[1], len(self._network.exits), 2, self._options.b_max))
        for at, times_s in self._times(tiles, NEAR_PIECE, threads, self._near_cycles):
            parts_s[(at, *self._places)] = times_s
        return parts_s

    def _coarse_cycles(self, block: Tiles) -> Floats:
        cycles: Floats = self._evaluator.least(block, traffic=False)[0]
        return cycles

    def _near_cycles(self, block: Tiles) -> Floats:
        bound = self._options.overlap is Overlap.TILES
        cycles: Floats = MARGIN * self._evaluator.account(block, bound=bound)[0][0]
        return cycles

    def _times(
        self, tiles: Tiles, block: int, threads: int | None, cycles_of: Callable[[Tiles], Floats]
    ) -> Iterator[tuple[slice, Floats]]:
        """Blocks of designs, and the times of each part of these. Shapes: (N, P, B)."""

        def find(start: int) -> tuple[slice, Floats]:
            at = slice(start, start + block)
            return at, cycles_of(np.ascontiguousarray(tiles[:, at])) / self._board.clock_hz

        return on_threads(find, range(0, tiles.shape[1], block), threads)

    def _least(self, tiles: Tiles, blocks: Iterator[tuple[slice, Floats]]) -> LeastTimes:
        least = LeastTimes(*np.zeros((2, tiles.shape[1], len(self._network.exits), 2)))
        for at, times_s in blocks:
            for all_s, least_s in zip(least, LeastTimes.of(times_s), strict=True):
                all_s[(at, *self._places)] = least_s
        return least

    def energies(self, tiles: Tiles) -> Floats:
        """Energy for a sample that no layout goes below, by stage, for backbone and head. Shapes: returns (N, E, 2)."""
        macs = np.zeros((len(self._network.exits), 2))
        for layer in self._network.layers:
            macs[layer.stage - 1, int(layer.in_head)] += layer.gemm.macs if layer.gemm else 0
        batch, least_j = np.arange(1, self._options.b_max + 1), np.zeros((tiles.shape[1], *macs.shape))
        for start in range(0, tiles.shape[1], BOUND_PIECE):
            at = slice(start, start + BOUND_PIECE)
            _, words, accesses = self._evaluator.least(tiles[:, at], traffic=True)
            energy_j = dynamic_energy(self._board, np.outer(macs[self._places], batch), words, accesses)
            least_j[(at, *self._places)] = work_of(energy_j)
        return least_j
