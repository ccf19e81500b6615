"""The hardware that a plan may take: every design that fits a board, or a latency table as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from ...dse.exits.stage_times import keep_exits
from ...dse.npu.board_use import BoardUse
from ...dse.npu.costs import board_use_of
from ...dse.npu.design import DesignTable, tabulate_design
from ...dse.npu.evaluation import on_threads
from ...dse.npu.fbcb import FbcbTable
from ...dse.npu.latency import tabulate_latency
from ...dse.npu.options import SearchOptions
from ...dse.npu.search import RankedDesign, SearchResult
from ...dse.npu.space import designs
from ...dse.npu.tiles import Tile, tiles_of
from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ...models import Network
from ...platforms import Board
from ...tables.latency import LatencyTable
from ...tables.partition import PartitionTable
from ...tables.reuse import SubNetEntry
from ...traffic.measures import Measure
from .exits import ExitSetting
from .layer_times import LayerTimes, TimesOfLayers
from .least import LeastOfDesigns, LeastTimes, work_of

TOGETHER = 16
"""Designs whose times a thread finds at once."""

KEPT = 2**14
"""Designs whose times are kept: some tens of MB."""


class Source(ABC):
    """Hardware of one kind, in rows: designs, or one table."""

    name: str  # of the board or the folder
    counted: str  # what its cost counts: DSPs, multipliers, devices, or nothing where hardware is given
    dsps: Ints  # (N,), that each row takes, or what else is counted; 0 where hardware is given
    share: Floats  # (N,), of the board's DSPs, or the cluster's devices; 0 where hardware is given
    least: LeastTimes  # by row
    speedup: float  # throughput with several lanes, relative to one batch at a time
    drops: bool  # whether exits can be left out: its times are known by layer
    accuracy: float | None = None  # of its SubNet, or of the most accurate of several, if it is known
    subnet: SubNetEntry | None = None  # that it runs
    several_subnets: bool = False  # a policy may choose one for each request

    def __getstate__(self) -> dict[str, Any]:
        """Without the least times and energies, which are large: a worker that is sent a source makes tables only."""
        sent = {name: value for name, value in vars(self).items() if name != "energy_j"}
        return sent | {"least": self.least.at(slice(0))}

    def _choose(self, subnet: SubNetEntry | None) -> None:
        """Take the SubNet that the hardware is to run, if there is one."""
        if subnet is not None:
            self.name, self.subnet, self.accuracy = f"{self.name}: SubNet {subnet.name}", subnet, subnet.accuracy

    def labelled(self, table: LatencyTable) -> LatencyTable:
        """A latency table with the SubNet that the hardware runs."""
        return table if self.subnet is None else table.model_copy(update={"subnets": [self.subnet]})

    @property
    @abstractmethod
    def energy_j(self) -> Floats:
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
        return self.least.stages

    def tile(self, row: int) -> Tile | None:
        """The design of a row, where it is one of a board's."""
        del row
        return None

    def nearer(self, rows: Ints, threads: int | None = None) -> LeastTimes:
        """The least times of some rows, nearer to the times of their tables if there are such."""
        del threads
        return self.least.at(rows)

    def lowest(self, value: Callable[[LeastTimes], Floats]) -> tuple[float, int]:
        """The lowest value of any row by nearer times, and the row; longer times never have a lower value."""
        coarse = value(self.least)
        most = value(self.nearer(np.array([coarse.argmin()])))[0]
        rows = np.flatnonzero(coarse <= most)
        near = value(self.nearer(rows))
        return float(near.min()), int(rows[near.argmin()])

    @cached_property
    def fastest(self) -> int:
        """The row that takes the least time for a sample that passes all exits."""
        return self.lowest(lambda least: least.whole_s)[1]

    @abstractmethod
    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The latency table of a row, with all exits; without the causes of its times it is found sooner."""

    @abstractmethod
    def tables(self, row: int, *, causes: bool = True) -> list[LatencyTable]:
        """The latency table of each network on a row."""

    @abstractmethod
    def layer_times(self, row: int) -> tuple[Ints, Floats]:
        """The times of the layers of a row by batch size, and the part of each: its stage's backbone, or its exit.

        Shapes: returns (L,), twice the stage and 1 of what its exit adds, counted from 0; (L, B).
        """

    def near_times(self, rows: Ints, threads: int | None = None) -> Floats:
        """Times that the tables of some rows do not go below, in the shape of theirs; by default their own."""
        return self.found_times(rows, threads)

    @abstractmethod
    def found_times(self, rows: Ints, threads: int | None = None) -> Floats:
        """The times that the tables of some rows have, by stage, for backbone and head, found on all threads.

        Shapes: (N,); returns (N, E, 2, B).
        """


class BoardSource(Source):
    """Every design that fits a board."""

    drops, speedup, counted = True, 1.0, "DSPs"

    def __init__(
        self,
        network: Network,
        board: Board,
        options: SearchOptions,
        networks: Sequence[Network],
        subnet: SubNetEntry | None = None,
    ) -> None:
        self.name, self.network, self.board, self.options = board.name, network, board, options
        self.networks = networks
        self._choose(subnet)
        supply = options.supply(network, board)
        self.tiles = designs(supply)
        self.dsps = supply.demand(self.tiles).dsps
        self.share = self.dsps / board.dsps
        self.least = self._bounds.coarse(self.tiles)
        self._near = LeastTimes(*np.zeros((2, *self.least.work_s.shape)))  # 0 where they are not known
        self._found: dict[int, TimesOfLayers] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker finds itself where it needs it."""
        sent = {name: value for name, value in super().__getstate__().items() if name not in ("_bounds", "_times")}
        return sent | {"_near": self._near.at(slice(0)), "_found": {}}

    @cached_property
    def _bounds(self) -> LeastOfDesigns:
        return LeastOfDesigns(self.network, self.board, self.options)

    @cached_property
    def _times(self) -> LayerTimes:
        return LayerTimes(self.network, self.board, self.options)

    @cached_property
    def energy_j(self) -> Floats:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (N, E, 2)."""
        return self._bounds.energies(self.tiles)

    def tile(self, row: int) -> Tile:
        """The design of a row."""
        return tiles_of(self.tiles[:, row : row + 1])[0]

    def nearer(self, rows: Ints, threads: int | None = None) -> LeastTimes:
        """The least times of some rows by the layouts of each layer; never lower than without."""
        new = rows[self._near.at(rows).whole_s == 0]
        near = self._bounds.near(self.tiles[:, new], threads)
        for kept, coarse, nearer in zip(self._near, self.least, near, strict=True):
            kept[new] = np.maximum(coarse[new], nearer)
        return self._near.at(rows)

    def near_times(self, rows: Ints, threads: int | None = None) -> Floats:
        """Times by the layouts of each layer, which are found ten times as fast as the times of tables."""
        return self._bounds.near_parts(self.tiles[:, rows], threads)

    def found_times(self, rows: Ints, threads: int | None = None) -> Floats:
        """The times that the tables of some rows have, by stage, for backbone and head, found on all threads.

        Shapes: (N,); returns (N, E, 2, B).
        """
        if len(self._found) + len(rows) > KEPT:
            self._found.clear()
        new = [row for row in rows.tolist() if row not in self._found]
        tiles = self.tiles[:, new]

        def find(start: int) -> None:
            times = self._times.of(tiles[:, start : start + TOGETHER])
            self._found.update(zip(new[start:], times.each(), strict=False))

        for _ in on_threads(find, range(0, len(new), TOGETHER), threads):
            pass
        return np.stack([self._times.parts(self._found[row]) for row in rows.tolist()])

    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The latency table of a row, with all exits; without the causes of its times it is found sooner."""
        if not causes:
            return self.labelled(self._times.table(self._times_at(row)))
        return self.labelled(tabulate_latency(*design_of(self.network, self.board, self.options, self.tile(row))))

    def tables(self, row: int, *, causes: bool = True) -> list[LatencyTable]:
        """The latency table of each network on a row."""
        return cut_apart(self.table(row, causes=causes), self.networks)

    def layer_times(self, row: int) -> tuple[Ints, Floats]:
        """The times of the layers of a row by batch size, and the part of each."""
        return self._times.part, self._times_at(row).time_s

    def _times_at(self, row: int) -> TimesOfLayers:
        return self._found.get(row) or next(self._times.of(self.tile(row).array).each())

    @property
    def unjudged(self) -> dict[str, str]:
        """Keys of the board's file that no design is held against, each with the reason."""
        return self.options.unjudged(self.board)

    def board_use(self, row: int) -> BoardUse | None:
        """What a row takes of the board, where that is counted."""
        tile = self.tile(row)
        return board_use_of(*design_of(self.network, self.board, self.options, tile))


def design_of(network: Network, board: Board, options: SearchOptions, tile: Tile) -> tuple[DesignTable, FbcbTable]:
    """A design that was chosen elsewhere."""
    result = SearchResult([RankedDesign.of(tile, 0.0)], 1)
    return tabulate_design(network, board, options.model_copy(update={"tile": tile}), result)


class HardwareCost(NamedTuple):
    """What hardware that is given by its latency tables costs."""

    counted: str = "nothing"  # what is counted
    amount: int = 0
    share: float = 0.0  # of a cluster's devices


FREE = HardwareCost()
"""Of hardware that is there already."""


class TableSource(Source):
    """Hardware that is given by the latency table of each network, one behind the other."""

    def __init__(
        self,
        name: str,
        tables: Sequence[LatencyTable],
        cost: HardwareCost = FREE,
        subnet: SubNetEntry | None = None,
        partition: PartitionTable | None = None,
    ) -> None:
        self.name, self.speedup, self.partition = name, tables[0].speedup, partition
        self._choose(subnet)
        self._tables = tables = [self.labelled(table) for table in tables]
        self.counted, self.dsps, self.share = cost.counted, np.array([cost.amount]), np.array([cost.share])
        self.drops = all(table.layers and table.variants == 1 for table in tables)
        least = [LeastTimes.of(parts_of(table, "time_s")[None]) for table in tables]
        self.least = LeastTimes(*(np.concatenate(each, axis=1) for each in zip(*least, strict=True)))
        accuracies = [entry.accuracy for table in tables for entry in table.subnets or []]
        known = [accuracy for accuracy in accuracies if accuracy is not None]
        self.accuracy = max(known) if known and len(known) == len(accuracies) else None
        self.several_subnets = any(len(table.subnets or []) > 1 for table in tables)

    @property
    def energy_j(self) -> Floats:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (1, E, 2)."""
        if not self.drops or any(table.layers[0].energy_j is None for table in self._tables):
            raise InputError(
                f"minimise: {self.name}: expected energies by layer, found none; they are known of a design on a "
                "board whose file states energies; minimise dsps, or leave this hardware out"
            )
        return np.concatenate([work_of(parts_of(table, "energy_j")[None]) for table in self._tables], axis=1)

    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The table of the first network; there is one row, and all have the same hardware."""
        return self.tables(row, causes=causes)[0]

    def tables(self, row: int, *, causes: bool = True) -> list[LatencyTable]:
        """The latency table of each network."""
        assert row == 0
        del causes  # as they have them
        return self._tables

    def layer_times(self, row: int) -> tuple[Ints, Floats]:
        """The times of the layers of the tables by batch size, and the part of each; of variants the fastest."""
        assert row == 0
        parts, times_s, begin = [], [], 0
        for table in self._tables:
            segments = table.segments(by_layer=True)
            layered = table.layers and table.variants == 1
            heads = [layer.exit > 0 for layer in table.layers] if layered else np.zeros(len(segments.stage))
            parts.append(2 * (begin + segments.stage - 1) + np.array(heads, np.int64))
            times_s.append(segments.time_s[:, :, 1:].min(axis=0))
            begin += len(table.exits)
        return np.concatenate(parts), np.concatenate(_as_wide(times_s))

    def found_times(self, rows: Ints, threads: int | None = None) -> Floats:
        """The times of the tables, for each of some rows. Shapes: (N,); returns (N, E, 2, B)."""
        del threads
        return np.concatenate(_as_wide([parts_of(table, "time_s") for table in self._tables]))[None][rows]


def _as_wide(times_s: Sequence[Floats]) -> list[Floats]:
    """Times by batch size, up to the largest of any network: the largest batch of another one stands for larger ones.

    Shapes: (..., B) each; returns (..., B).
    """
    most = max(here_s.shape[-1] for here_s in times_s)
    return [np.concatenate([here_s, here_s[..., -1:].repeat(most - here_s.shape[-1], -1)], -1) for here_s in times_s]


def cut_apart(whole: LatencyTable, networks: Sequence[Network]) -> list[LatencyTable]:
    """The latency tables of networks that are one behind the other in a table."""
    ends = list(accumulate(len(network.exits) for network in networks))
    tables = []
    for network, begin, end in zip(networks, (0, *ends), ends, strict=False):
        layers = [
            layer.model_copy(update={"stage": layer.stage - begin})
            for layer in whole.layers
            if begin < layer.stage <= end
        ]
        tables.append(whole.model_copy(update={"network": network.name, "exits": network.exits, "layers": layers}))
    return tables


def parts_of(table: LatencyTable, column: Literal["time_s", "energy_j"]) -> Floats:
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


def with_setting(table: LatencyTable, setting: ExitSetting, measure: Measure | None) -> LatencyTable:
    """The latency table of the same hardware with the exits of a setting, whose thresholds are of a measure."""
    exits = setting.exits(table.exits, measure)
    if len(exits) < len(table.exits):
        table = keep_exits(table, table.network, setting.kept, setting.rates)
    return table.model_copy(update={"exits": exits})
