"""The latency table: what a scheduler reads (paper 000, Section III-B, Exit-Level Latency Prediction)."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..formats import Strict, Table
from ..models import MAX_WORK

MAX_BATCH = 256
"""Largest B_max: the number of layouts of a batch grows with its square."""

MAX_S = 1e9
"""Longest pass through a network: thirty years."""

Seconds = Annotated[float, Field(gt=0, le=MAX_S)]


class ExitRow(Strict):
    """An exit: the layer it follows and the share of samples it takes."""

    name: str
    rate: Annotated[float, Field(ge=0, le=1)]


class LatencyRow(Strict):
    """T_{i:j}^b: time from exit ``from_exit`` (0: the input) to exit ``to_exit``, for b = 1..b_max."""

    from_exit: Annotated[int, Field(ge=0)]
    to_exit: Annotated[int, Field(ge=1)]
    time_s: list[Seconds]


class LayerUse(Strict):
    """A layer with a product, and the memory-only layers that follow it: its time, and where that goes.

    Attributes
    ----------
    name : str
        The layer's name.
    stage : int
        1-based stage it runs in; a stage's last layer ends at its exit.
    macs : int
        MACs of one sample.
    time_s : list of float
        Time for b = 1..b_max.
    tile_padding_s, batch_padding_s, memory_bound_s : list of float
        Of that time, in seconds of the whole array: units idle because the layer
        does not fill its last tiles; because the grid B_R x B_P has places
        without a sample; waiting for off-chip memory.  The rest makes MACs.
    """

    name: str
    stage: Annotated[int, Field(ge=1)]
    macs: Annotated[int, Field(ge=0, le=MAX_WORK)]
    time_s: list[Seconds]
    tile_padding_s: list[Annotated[float, Field(ge=0)]]
    batch_padding_s: list[Annotated[float, Field(ge=0)]]
    memory_bound_s: list[Annotated[float, Field(ge=0)]]


class Segments(NamedTuple):
    """What a scheduler may run without being asked: stages, or layers.

    Attributes
    ----------
    stage : (S,) ndarray of int64
        1-based stage of each.
    time_s, useful_s, tile_padding_s, batch_padding_s, memory_bound_s : (S, b_max + 1) ndarray of float64
        Its time by batch size, 0 at b = 0, and where that goes: the other four sum to it.
    """

    stage: NDArray[np.int64]
    time_s: NDArray[np.float64]
    useful_s: NDArray[np.float64]
    tile_padding_s: NDArray[np.float64]
    batch_padding_s: NDArray[np.float64]
    memory_bound_s: NDArray[np.float64]


class LatencyTable(Table):
    """The latency table as a file, ``fluidb.latency/1`` (``docs/file-formats.md``).

    Attributes
    ----------
    exits : list of ExitRow
        In order of depth; the last is the end of the network.
    b_max : int
        Batch sizes covered.
    layers : list of LayerUse
        Times layer by layer, and where they go.
    peak_macs_per_s : float
        MACs a second with every unit busy.
    rows : list of LatencyRow
        Every pair of exits, heads included where they run.
    """

    schema_name: ClassVar[str] = "fluidb.latency/1"
    made_by: ClassVar[str] = "fluidb latency"

    exits: Annotated[list[ExitRow], Field(min_length=1)]
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    layers: list[LayerUse]
    peak_macs_per_s: Annotated[float, Field(ge=1e-6, le=1e24)]
    rows: list[LatencyRow]

    @model_validator(mode="after")
    def _every_pair(self) -> Self:
        ends = range(len(self.exits) + 1)
        expected = [(i, j) for i in ends for j in ends if i < j]
        if [(row.from_exit, row.to_exit) for row in self.rows] != expected:
            raise ValueError(f"rows: expected every pair of exits from 0 to {len(self.exits)} in order")
        if any(len(row.time_s) != self.b_max for row in self.rows):
            raise ValueError(f"rows: expected {self.b_max} times each, one for each batch size")
        order = [layer.stage for layer in self.layers]
        if order != sorted(order) or set(order) != set(range(1, len(self.exits) + 1)):
            raise ValueError(f"layers: expected stages 1 to {len(self.exits)} in order")
        columns = [
            column
            for layer in self.layers
            for column in (layer.time_s, layer.tile_padding_s, layer.batch_padding_s, layer.memory_bound_s)
        ]
        if any(len(column) != self.b_max for column in columns):
            raise ValueError(f"layers: expected {self.b_max} times each, one for each batch size")
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

    def segments(self, *, by_layer: bool) -> Segments:
        """What a scheduler runs at a time.

        Parameters
        ----------
        by_layer : bool
            Layers; else stages, from exit to exit.

        Returns
        -------
        Segments
            Their times and uses.
        """
        layers = self.layers
        stage = np.array([layer.stage for layer in layers], dtype=np.int64)
        macs = np.array([layer.macs for layer in layers], dtype=np.float64)
        useful_s = np.outer(macs, np.arange(1, self.b_max + 1)) / self.peak_macs_per_s
        tables = [
            np.array([layer.time_s for layer in layers]),
            useful_s,
            np.array([layer.tile_padding_s for layer in layers]),
            np.array([layer.batch_padding_s for layer in layers]),
            np.array([layer.memory_bound_s for layer in layers]),
        ]
        if not by_layer:
            numbers = np.arange(1, len(self.exits) + 1)
            tables = [np.array([table[stage == number].sum(axis=0) for number in numbers]) for table in tables]
            tables[0] = np.array([row.time_s for row in self.rows if row.to_exit == row.from_exit + 1])
            stage = numbers
        return Segments(stage, *(np.pad(table, ((0, 0), (1, 0))) for table in tables))
