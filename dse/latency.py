"""Exit-level latency table: what the scheduler reads (paper 000, Section III-B, Exit-Level Latency Prediction)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..formats import Strict, Table, read_table, write_table
from . import kernels
from .design import DesignTable, ExitRow, read_design
from .fbcb import FbcbTable
from .space import Batching, arrange
from .workload import workload

LATENCY_FILE = "latency.json"

Seconds = Annotated[float, Field(gt=0)]


class LatencyRow(Strict):
    """T_{i:j}^b: time from exit ``from_exit`` (0: the input) to exit ``to_exit``, for b = 1..b_max."""

    from_exit: Annotated[int, Field(ge=0)]
    to_exit: Annotated[int, Field(ge=1)]
    time_s: list[Seconds]


class LatencyTable(Table):
    """The latency table as a file, ``fluidb.latency/1`` (``docs/file-formats.md``).

    Attributes
    ----------
    exits : list of ExitRow
        In order of depth; the last is the end of the network.
    b_max : int
        Batch sizes covered.
    stage_macs : list of int
        MACs of one sample in each stage, its head included.
    peak_macs_per_s : float
        MACs a second with every unit busy.
    rows : list of LatencyRow
        Every pair of exits, heads included where they run.
    """

    schema_name: ClassVar[str] = "fluidb.latency/1"
    made_by: ClassVar[str] = "fluidb latency"

    exits: Annotated[list[ExitRow], Field(min_length=1)]
    b_max: Annotated[int, Field(ge=1)]
    stage_macs: list[Annotated[int, Field(ge=0)]]
    peak_macs_per_s: Annotated[float, Field(gt=0)]
    rows: list[LatencyRow]

    @model_validator(mode="after")
    def _every_pair(self) -> Self:
        ends = range(len(self.exits) + 1)
        expected = [(i, j) for i in ends for j in ends if i < j]
        if [(row.from_exit, row.to_exit) for row in self.rows] != expected:
            raise ValueError(f"rows: expected every pair of exits from 0 to {len(self.exits)} in order")
        if any(len(row.time_s) != self.b_max for row in self.rows):
            raise ValueError(f"rows: expected {self.b_max} times each, one for each batch size")
        if len(self.stage_macs) != len(self.exits):
            raise ValueError(f"stage_macs: expected {len(self.exits)} values, one for each stage")
        return self

    def array(self) -> NDArray[np.float64]:
        """Times in seconds by (from exit, to exit, b).

        Returns
        -------
        (E + 1, E + 1, b_max + 1) ndarray of float64
            Zero where nothing runs: at b = 0, and from an exit to itself or back.
        """
        ends = len(self.exits) + 1
        table = np.zeros((ends, ends, self.b_max + 1))
        for row in self.rows:
            table[row.from_exit, row.to_exit, 1:] = row.time_s
        return table


def layer_seconds(design: DesignTable, fbcb: FbcbTable) -> NDArray[np.float64]:
    """Time of each layer and batch on a design, as its FBCB configures it.

    Parameters
    ----------
    design, fbcb
        The design's tables.

    Returns
    -------
    (L, b_max) ndarray of float64
        Seconds, memory-only layers included, in execution order.
    """
    options, platform, network = design.options, design.platform, design.network.network()
    work = workload(network.gemms)
    codes, B_R = fbcb.unpack()
    grid = np.array(
        [
            [arrange(options.batching, b, rows, single_row=bool(single)) for b, rows in enumerate(row, 1)]
            for row, single in zip(B_R.tolist(), work.single_row, strict=True)
        ],
        dtype=np.int64,
    )
    cycles, _ = kernels.cost_layouts(
        np.array(design.tile, dtype=np.int64), work.gemms, codes, B_R,
        np.ascontiguousarray(grid[..., 0]), np.ascontiguousarray(grid[..., 1]),
        platform.words_per_cycle, options.batching is Batching.EQ1,
    )  # fmt: skip
    words = np.array([layer.memory_words for layer in network.layers]) * options.memory_layers
    table = np.outer(words, np.arange(1, options.b_max + 1)) / platform.words_per_cycle
    table[[layer.gemm is not None for layer in network.layers]] = cycles
    seconds: NDArray[np.float64] = table / platform.clock_hz
    return seconds


def tabulate_latency(design: DesignTable, fbcb: FbcbTable) -> LatencyTable:
    """Time between every two exits, for every batch size.

    Parameters
    ----------
    design, fbcb
        The design's tables.

    Returns
    -------
    LatencyTable
        The table.
    """
    network = design.network.network()
    seconds = layer_seconds(design, fbcb)
    stage = np.array([layer.stage for layer in network.layers])
    stages = range(1, len(network.exits) + 1)
    time_s = np.array([seconds[stage == s].sum(axis=0) for s in stages])
    macs = [sum(layer.gemm.macs for layer in network.layers if layer.gemm and layer.stage == s) for s in stages]
    rows = [
        LatencyRow(from_exit=i, to_exit=j, time_s=time_s[i:j].sum(axis=0).tolist())
        for i in range(len(stages))
        for j in range(i + 1, len(stages) + 1)
    ]
    table = LatencyTable(
        exits=design.network.exits,
        b_max=design.options.b_max,
        stage_macs=macs,
        peak_macs_per_s=design.peak_macs_per_s,
        rows=rows,
    )
    return table.derived_from(design, fbcb)


def write_latency(folder: Path) -> LatencyTable:
    """Compute a design's latency table and put it beside the design.

    Parameters
    ----------
    folder : Path
        The design's folder.

    Returns
    -------
    LatencyTable
        What was written.

    Raises
    ------
    InputError
        If the design is missing, damaged or stale, or the file system refuses.
    """
    table = tabulate_latency(*read_design(folder))
    write_table(table, folder / LATENCY_FILE)
    return table


def read_latency(folder: Path) -> LatencyTable:
    """Read a design's latency table.

    Parameters
    ----------
    folder : Path
        The design's folder.

    Returns
    -------
    LatencyTable
        The table.

    Raises
    ------
    InputError
        If it is missing or damaged, or the design was changed after it.
    """
    return read_table(LatencyTable, folder / LATENCY_FILE, *read_design(folder))
