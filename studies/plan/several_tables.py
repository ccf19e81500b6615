"""Hardware that is given by the latency tables of several networks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...tables.latency import LatencyTable
from .least import LeastTimes
from .sources import Source, TableSource


class SeveralTables(Source):
    """A design, or a device, that is given by the latency tables of several networks, one behind the other."""

    def __init__(self, name: str, tables: Sequence[LatencyTable]) -> None:
        self.name, self._each = name, [TableSource(name, table) for table in tables]
        multipliers = multipliers_of(tables[0])
        self.dsps, self.share, self.speedup = np.array([multipliers]), np.zeros(1), self._each[0].speedup
        self.counted = "multipliers" if multipliers else "nothing"
        self.drops = all(source.drops for source in self._each)
        self.least = LeastTimes(
            *(np.concatenate(parts, axis=1) for parts in zip(*(source.least for source in self._each), strict=True))
        )

    @property
    def energy_j(self) -> NDArray[np.float64]:
        """Least energy for a sample, of each stage's backbone, and of what its exit adds. Shapes: (1, E, 2)."""
        return np.concatenate([source.energy_j for source in self._each], axis=1)

    def table(self, row: int, *, causes: bool = True) -> LatencyTable:
        """The table of the first network; all have the same hardware."""
        return self._each[0].table(row, causes=causes)

    def tables(self, row: int, *, causes: bool = True) -> list[LatencyTable]:
        """The latency table of each network."""
        return [source.table(row, causes=causes) for source in self._each]

    def layer_times(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The times of the layers of all networks by the batch sizes that all have, and the part of each."""
        parts, times_s = zip(*(source.layer_times(row) for source in self._each), strict=True)
        begins = np.cumsum([0, *(2 * source.stages for source in self._each[:-1])])
        most = max(here_s.shape[1] for here_s in times_s)  # the largest batch of a network stands for larger ones
        wide = [np.pad(here_s, ((0, 0), (0, most - here_s.shape[1])), mode="edge") for here_s in times_s]
        part = np.concatenate([begin + here for begin, here in zip(begins, parts, strict=True)])
        return part, np.concatenate(wide)

    def found_times(self, rows: NDArray[np.int64], threads: int | None = None) -> NDArray[np.float64]:
        """The least times of the tables, for each of some rows. Shapes: (N,); returns (N, E, 2, 1)."""
        del threads
        return self.least.work_s[rows][..., None]


def multipliers_of(table: LatencyTable) -> int:
    """Multipliers of the NPU or the cores of a table: T_P x T_C, times the pixels side by side; 0 of a device."""
    if not table.npus:
        return 0
    numbers = [1] if table.cores is None else [table.cores.of.count(kind) for kind in range(len(table.npus))]
    tiles = [npu.tile for npu in table.npus]
    return sum(number * math.prod(tile[1:4]) for number, tile in zip(numbers, tiles, strict=True))
