"""The hardware that a plan may take: every design that fits a board, or a latency table as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...dse.exits.stage_times import keep_exits
from ...dse.npu.board_use import BoardUse
from ...dse.npu.choices import Overlap
from ...dse.npu.costs import board_use_of
from ...dse.npu.design import DesignTable, tabulate_design
from ...dse.npu.evaluation import MARGIN, Evaluator, on_threads
from ...dse.npu.fbcb import FbcbTable
from ...dse.npu.latency import tabulate_latency
from ...dse.npu.objectives import dynamic_energy
from ...dse.npu.options import SearchOptions
from ...dse.npu.search import RankedDesign, SearchResult
from ...dse.npu.space import designs
from ...dse.npu.tiles import Tile, Tiles, tiles_of
from ...formats import InputError
from ...models import Exit, Network
from ...platforms import Board
from ...tables.latency import LatencyTable, SubNetEntry
from ...tables.partition import PartitionTable
from .exits import ExitSetting
from .layer_times import LayerTimes, TimesOfLayers, evaluator_of, stages_of

BLOCK = 256
"""Designs whose least times are computed at once."""

TOGETHER = 16
"""Designs whose times a thread finds at once."""

KEPT = 2**14
"""Designs whose times are kept: some tens of MB."""


class Source(ABC):
    """Hardware of one kind, in rows: designs, or one table."""

    name: str  # of the board or the folder
    counted: str  # what its cost counts: DSPs, devices, or nothing where hardware is given
    tiles: list[Tile] | None  # the design of each row
    dsps: NDArray[np.int64]  # (N,), that each row takes, or devices of a cluster; 0 where hardware is given
    share: NDArray[np.float64]  # (N,), of the board's DSPs, or the cluster's devices; 0 where hardware is given
    parts_s: NDArray[np.float64]  # (N, E, 2, B), least time of each stage's backbone, and of what its exit adds
    speedup: float  # throughput with several lanes, relative to one batch at a time
    drops: bool  # whether exits can be left out: its times are known by layer
    accuracy: float | None = None  # of its SubNet, or of the most accurate of several, if it is known
    subnet: SubNetEntry | None = None  # that it runs
    several_subnets: bool = False  # a policy may choose one for each request

    def __getstate__(self) -> dict[str, Any]:
        """Without the least times and energies, which are large: a worker that is sent a source makes tables only."""
        return {name: value for name, value in vars(self).items() if name != "energy_j"} | {"parts_s": self.parts_s[:0]}

    def _choose(self, subnet: SubNetEntry | None) -> None:
        """Take the SubNet that the hardware is to run, if there is one."""
        if subnet is not None:
            self.name, self.subnet, self.accuracy = f"{self.name}: SubNet {subnet.name}", subnet, subnet.accuracy

    def labelled(self, table: LatencyTable) -> LatencyTable:
        """A latency table with the SubNet that the hardware runs."""
        return table if self.subnet is None else table.model_copy(update={"subnets": [self.subnet]})

    @property
    @abstractmethod
    def energy_j(self) -> NDArray[np.float64]:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (N, E, 2)."""

    @property
    def unjudged(self) -> dict[str, str]:
        """Keys of the board's file that no design is held against, each with the reason."""
        return {}

    def board_use(self, row: int) -> BoardUse | None:
        """What a row takes of a board, where that is counted."""
        del row  # of no board
        return None

    @property
    def stages(self) -> int:
        """Exits of the network, E."""
        return int(self.parts_s.shape[1])

    @property
    def work_s(self) -> NDArray[np.float64]:
        """Least time of the hardware for a sample that passes all exits, by row."""
        work_s: NDArray[np.float64] = work_of(self.parts_s).sum(axis=(1, 2))
        return work_s

    @abstractmethod
    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The latency table of a row, with all exits; without the causes of its times it is found sooner."""

    def found_times(self, rows: NDArray[np.int64], threads: int | None = None) -> NDArray[np.float64]:
        """The times of some rows that their tables have, by part as ``parts_s``, found on all threads."""
        del threads
        return self.parts_s[rows]


class BoardSource(Source):
    """Every design that fits a board."""

    drops, speedup, counted = True, 1.0, "DSPs"

    def __init__(
        self, network: Network, board: Board, options: SearchOptions, subnet: SubNetEntry | None = None
    ) -> None:
        self.name, self.network, self.board, self.options = board.name, network, board, options
        self._choose(subnet)
        supply = options.supply(network, board)
        tiles = designs(supply)
        dsps = supply.demand(tiles).dsps
        parts_s = least_parts(network, board, options, tiles)
        # of designs with as many DSPs the one with the least work for a sample first
        order = np.lexsort((np.arange(len(dsps)), work_of(parts_s).sum(axis=(1, 2)), dsps))
        self.tiles = tiles_of(tiles[:, order])
        self.dsps, self.share, self.parts_s = dsps[order], dsps[order] / board.dsps, parts_s[order]
        self._found: dict[int, TimesOfLayers] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker finds itself where it needs it."""
        return {name: value for name, value in super().__getstate__().items() if name != "_times"} | {"_found": {}}

    @cached_property
    def _times(self) -> LayerTimes:
        return LayerTimes(self.network, self.board, self.options)

    @cached_property
    def energy_j(self) -> NDArray[np.float64]:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (N, E, 2)."""
        assert self.tiles is not None
        return least_energies(self.network, self.board, self.options, np.array(self.tiles).T)

    def found_times(self, rows: NDArray[np.int64], threads: int | None = None) -> NDArray[np.float64]:
        """The times of some rows that their tables have, by part as ``parts_s``, found on all threads."""
        assert self.tiles is not None
        if len(self._found) + len(rows) > KEPT:
            self._found.clear()
        new = [row for row in rows.tolist() if row not in self._found]
        tiles = np.array([self.tiles[row] for row in new]).T

        def find(start: int) -> None:
            times = self._times.of(tiles[:, start : start + TOGETHER])
            self._found.update(zip(new[start:], times.each(), strict=False))

        for _ in on_threads(find, range(0, len(new), TOGETHER), threads):
            pass
        return np.stack([self._times.parts(self._found[row]) for row in rows.tolist()])

    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The latency table of a row, with all exits; without the causes of its times it is found sooner."""
        assert self.tiles is not None
        if not causes:
            times = self._found.get(row) or next(self._times.of(self.tiles[row].array).each())
            return self.labelled(self._times.table(times))
        return self.labelled(tabulate_latency(*design_of(self.network, self.board, self.options, self.tiles[row])))

    @property
    def unjudged(self) -> dict[str, str]:
        """Keys of the board's file that no design is held against, each with the reason."""
        return self.options.unjudged(self.board)

    def board_use(self, row: int) -> BoardUse | None:
        """What a row takes of the board, where that is counted."""
        assert self.tiles is not None
        return board_use_of(*design_of(self.network, self.board, self.options, self.tiles[row]))


def design_of(network: Network, board: Board, options: SearchOptions, tile: Tile) -> tuple[DesignTable, FbcbTable]:
    """A design that was chosen elsewhere."""
    result = SearchResult([RankedDesign.of(tile, 0.0)], 1)
    return tabulate_design(network, board, options.model_copy(update={"tile": tile}), result)


class TableSource(Source):
    """Hardware that is given by its latency table, perhaps of some of the ``devices`` of a cluster."""

    def __init__(
        self,
        name: str,
        table: LatencyTable,
        partition: PartitionTable | None = None,
        subnet: SubNetEntry | None = None,
        *,
        devices: int = 1,
    ) -> None:
        self.name, self.tiles, self.speedup, self.partition = name, None, table.speedup, partition
        self._choose(subnet)
        self._table = table = self.labelled(table)
        self.dsps = np.array([len(partition.devices) if partition else 0])
        self.share = self.dsps / devices
        self.counted = "devices" if partition else "nothing"
        self.drops = bool(table.layers) and table.variants == 1
        self.parts_s = parts_of(table, "time_s")[None]
        accuracies = [entry.accuracy for entry in table.subnets or []]
        known = [accuracy for accuracy in accuracies if accuracy is not None]
        self.accuracy = max(known) if known and len(known) == len(accuracies) else None
        self.several_subnets = len(accuracies) > 1

    @property
    def energy_j(self) -> NDArray[np.float64]:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (1, E, 2)."""
        if not self.drops or self._table.layers[0].energy_j is None:
            raise InputError(
                f"minimise: {self.name}: expected energies by layer, as a design on a board has whose file states "
                "energies, found none; minimise dsps, or leave it out"
            )
        return work_of(parts_of(self._table, "energy_j")[None])

    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The table; there is one row."""
        assert row == 0
        del causes  # as it has them
        return self._table


def subnet_sources(name: str, table: LatencyTable) -> list[Source]:
    """Each SubNet of a table alone, with that in the buffer with which it is fastest; and all, for a policy to choose.

    Parameters
    ----------
    name : str
        Of the hardware.
    table : LatencyTable
        Stages of SubNets, perhaps by states of a buffer.

    Returns
    -------
    list of Source
        One source for each SubNet, then one for all.
    """
    assert table.subnets is not None
    assert table.stage_s is not None
    sources: list[Source] = []
    states, subnets, _ = table.axes
    for number, subnet in enumerate(table.subnets):
        here = [table.stage_s[state * subnets + number] for state in range(states)]
        fastest = min(here, key=lambda stages: sum(times_s[0] for times_s in stages))
        alone = table.model_copy(update={"states": None, "reuse": None, "stage_s": [fastest]})
        sources.append(TableSource(name, alone, subnet=subnet))
    return [*sources, TableSource(f"{name}: all SubNets", table)]


def work_of(parts_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least time of the hardware for a sample, by part: with the best batch size. Shapes: (..., B) to (...)."""
    least: NDArray[np.float64] = (parts_s / np.arange(1, parts_s.shape[-1] + 1)).min(axis=-1)
    return least


def least_parts(network: Network, board: Board, options: SearchOptions, tiles: Tiles) -> NDArray[np.float64]:
    """Times that no layout goes below, of each stage's backbone and head. Shapes: returns (N, E, 2, B)."""
    places, evaluator = _by_part(network, board, options)
    bound = options.overlap is Overlap.TILES
    times_s = np.zeros((tiles.shape[1], len(network.exits), 2, options.b_max))
    for start in range(0, tiles.shape[1], BLOCK):
        cycles = MARGIN * evaluator.account(tiles[:, start : start + BLOCK], bound=bound)[0][0]
        times_s[(slice(start, start + BLOCK), *places)] = cycles / board.clock_hz
    return times_s


def least_energies(network: Network, board: Board, options: SearchOptions, tiles: Tiles) -> NDArray[np.float64]:
    """Energy for a sample that no layout goes below, of each stage's backbone and head. Shapes: returns (N, E, 2)."""
    places, evaluator = _by_part(network, board, options)
    macs = np.zeros((len(network.exits), 2))
    for layer in network.layers:
        macs[layer.stage - 1, int(layer.in_head)] += layer.gemm.macs if layer.gemm else 0
    batch, least_j = np.arange(1, options.b_max + 1), np.zeros((tiles.shape[1], *macs.shape))
    for start in range(0, tiles.shape[1], BLOCK):
        _, words, accesses = evaluator.least(tiles[:, start : start + BLOCK], traffic=True)
        energy_j = dynamic_energy(board, np.outer(macs[places], batch), words, accesses)
        least_j[(slice(start, start + BLOCK), *places)] = work_of(energy_j)
    return least_j


def _by_part(
    network: Network, board: Board, options: SearchOptions
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Evaluator]:
    """Stages (from 0) of the backbone and heads that a network has, and 1 for heads; and what counts them apart."""
    order = sorted({(layer.stage, layer.in_head) for layer in network.layers})
    number = {part: at for at, part in enumerate(order, 1)}
    apart = stages_of(network, [number[layer.stage, layer.in_head] for layer in network.layers])
    stages, heads = np.array(order).T
    return (stages - 1, heads), evaluator_of(apart, board, options)


def parts_of(table: LatencyTable, column: Literal["time_s", "energy_j"]) -> NDArray[np.float64]:
    """Times or energies of each stage's backbone and of what its exit adds; of stages alone if more is not known.

    Shapes: returns (E, 2, B).
    """
    parts = np.zeros((len(table.exits), 2, table.b_max))
    if not table.layers or table.variants > 1:
        parts[:, 0] = table.stage_array()[:, :, 1:].min(axis=0)
        return parts
    for layer in table.layers:
        parts[(layer.exit or layer.stage) - 1, int(layer.exit > 0)] += getattr(layer, column)
    return parts


def with_setting(table: LatencyTable, setting: ExitSetting, exits: list[Exit]) -> LatencyTable:
    """The latency table of the same hardware with the exits of a setting."""
    if len(exits) < len(table.exits):
        table = keep_exits(table, table.network, setting.kept, setting.rates)
    return table.model_copy(update={"exits": exits})
