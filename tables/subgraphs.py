"""The table of SubNets and SubGraphs of a SuperNet on an accelerator (SUSHI, Section 3)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from ..formats import AnyPath, Strict, Table, read_table
from ..formats.array_types import Floats
from ..models.supernets.schema import Accuracies
from ..platforms import Accelerator
from .files import SUBGRAPHS_FILE
from .layer_use import NotNegative

EMPTY = "EMPTY"
"""Name of the state in which the persistent buffer holds nothing: the first one."""

Count = Annotated[int, Field(ge=0, le=2**43)]


class Layers(StrEnum):
    """Layers of a SuperNet that count."""

    ALL = "all"  # all with weights
    PAPER = "paper"  # without those that the SuperNet's file lists as uncounted
    WINDOWS = "3x3"  # convolutions of 3x3 in the largest SubNet (SUSHI, Section 5.4)


class Maps(StrEnum):
    """Feature maps that move off chip."""

    NONE = "none"
    ONCE = "once"  # the network's input, and every map larger than the streaming buffer when it is written
    SPILLED = "spilled"  # the input, and every larger map when it is written and when it is read
    ALL = "all"  # every map twice


class StageB(StrEnum):
    """Time to fetch weights that SubNets share, without a persistent buffer (SUSHI, Fig. 9a)."""

    EXPOSED = "exposed"  # before the query, its stage B
    HIDDEN = "hidden"  # while layers compute, as all other weights


class SubGraphCut(StrEnum):
    """A way to cut a candidate to the persistent buffer."""

    UNIFORM = "uniform"  # the same share of the kernels of every layer
    ORDER = "order"  # whole layers from the first on; the last one loses kernels
    RUN = "run"  # whole neighbouring layers from a random one on
    RANDOM = "random"  # whole layers in random order


class SubGraphGoal(StrEnum):
    """Quantity that the best SubGraph has, by the mean over SubNets: least time, least off-chip traffic, most hits."""

    LATENCY = "latency"
    ENERGY = "energy"
    HIT_RATIO = "hit_ratio"


class SubGraphOptions(Strict):
    """Options of the tabulation; ``columns`` are SubGraphs at most, ``seed`` is for random cuts."""

    layers: Annotated[Layers, Field(strict=False)] = Layers.ALL
    maps: Annotated[Maps, Field(strict=False)] = Maps.SPILLED
    stage_b: Annotated[StageB, Field(strict=False)] = StageB.EXPOSED
    columns: Annotated[int, Field(ge=1, le=10_000)] = 100
    cuts: Annotated[list[Annotated[SubGraphCut, Field(strict=False)]], Field(min_length=1)] = list(SubGraphCut)
    seed: int = 0
    goal: Annotated[SubGraphGoal, Field(strict=False)] = SubGraphGoal.LATENCY


class CountedLayer(Strict):
    """A layer with weights of the SuperNet; ``depthwise`` if each kernel has one channel, its own."""

    name: str
    depthwise: bool


class SubNetLayers(Strict):
    """A SubNet: K, C, R, Q (output positions) and values of input and output map, by layer; 0 where it lacks one."""

    name: str
    accuracy: Annotated[float | None, Field(ge=0, le=1)] = None
    bytes: NotNegative
    macs: Count
    K: list[Count]
    C: list[Count]
    R: list[Count]
    Q: list[Count]
    inputs: list[Count]
    outputs: list[Count]


class SubGraph(Strict):
    """Weights that the persistent buffer may hold, cut from the common part of the SubNets ``of``; K, C, R by layer."""

    name: str
    of: list[str] = []
    cut: Annotated[SubGraphCut | None, Field(strict=False)] = None
    bytes: NotNegative
    K: list[Count]
    C: list[Count]
    R: list[Count]


class BufferChoice(Strict):
    """The best SubGraph for one size of the persistent buffer and of the array, by means over the SubNets."""

    K_P: int
    C_P: int
    persistent_kib: NotNegative
    streaming_kib: NotNegative
    distinct_kib: NotNegative
    time_s: NotNegative
    saved: NotNegative
    off_chip_bytes: NotNegative
    hit_ratio: NotNegative


class SubGraphTable(Table):
    """Every SubNet with every SubGraph, ``fluidb.subgraphs/1`` (``docs/file-formats.md``).

    Lists by pair have a list for each SubNet, with a value for each SubGraph.  The first SubGraph is ``EMPTY``.

    Attributes
    ----------
    supernet : str
        Name of the SuperNet.
    accelerator : Accelerator
        The accelerator, with the chosen array and buffers.
    options : SubGraphOptions
        Options of the tabulation.
    accuracies : Accuracies, optional
        Source of the accuracies.
    layers : list of CountedLayer
        The L layers that count.
    subnets : list of SubNetLayers
        The N SubNets.
    subgraphs : list of SubGraph
        The M SubGraphs, which are the states of the accelerator.
    time_s, off_chip_bytes, resident_bytes, hit_ratio : list of list of float
        By pair: time of a query; bytes that it moves off chip; resident bytes that it uses; and
        ||min(SubNet, SubGraph)|| / ||SubNet|| over [K_1, C_1, K_2, C_2, ...] (Appendix A.4).
    refill_s : list of float
        Time to load each SubGraph.
    best : int
        The SubGraph that is best for the goal if it stays resident.
    sizes : list of BufferChoice
        If sizes were searched: the best design for each size of the persistent buffer.
    """

    schema_name: ClassVar[str] = "fluidb.subgraphs/1"
    made_by: ClassVar[str] = "fluidb dse"

    supernet: str
    accelerator: Accelerator
    options: SubGraphOptions
    accuracies: Accuracies | None = None
    layers: Annotated[list[CountedLayer], Field(min_length=1)]
    subnets: Annotated[list[SubNetLayers], Field(min_length=1)]
    subgraphs: Annotated[list[SubGraph], Field(min_length=1)]
    time_s: list[list[NotNegative]]
    off_chip_bytes: list[list[NotNegative]]
    resident_bytes: list[list[NotNegative]]
    hit_ratio: list[list[NotNegative]]
    refill_s: list[NotNegative]
    best: Annotated[int, Field(ge=0)]
    sizes: list[BufferChoice] = []

    @model_validator(mode="after")
    def _one_value_each(self) -> Self:
        rows, columns, layers = len(self.subnets), len(self.subgraphs), len(self.layers)
        for name in ("time_s", "off_chip_bytes", "resident_bytes", "hit_ratio"):
            if [len(row) for row in getattr(self, name)] != [columns] * rows:
                raise ValueError(f"{name}: expected {rows} lists of {columns} values, one for each SubNet and SubGraph")
        if len(self.refill_s) != columns or self.best >= columns:
            raise ValueError(f"refill_s, best: expected {columns} times, and the number of one of the SubGraphs")
        lists = [getattr(graph, key) for graph in (*self.subnets, *self.subgraphs) for key in "KCR"]
        lists += [getattr(subnet, key) for subnet in self.subnets for key in ("Q", "inputs", "outputs")]
        if any(len(values) != layers for values in lists):
            raise ValueError(f"subnets, subgraphs: expected {layers} values in each list, one for each layer")
        return self

    def vectors(self) -> tuple[Floats, Floats]:
        """SubNets and SubGraphs as [K_1, C_1, K_2, C_2, ...] (SUSHI, Section 3.3).

        Returns
        -------
        subnets : (N, 2 L) ndarray of float64
            One row for each SubNet.
        subgraphs : (M, 2 L) ndarray of float64
            One row for each SubGraph, ``EMPTY`` first.
        """
        both = [
            np.array([[graph.K, graph.C] for graph in graphs], dtype=np.float64)
            for graphs in (self.subnets, self.subgraphs)
        ]
        subnets, subgraphs = (vectors.transpose(0, 2, 1).reshape(len(vectors), -1) for vectors in both)
        return subnets, subgraphs


def read_subgraphs(folder: AnyPath) -> SubGraphTable:
    """Read the SubGraphs of a folder that ``fluidb dse SUPERNET ACCELERATOR`` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder.

    Returns
    -------
    SubGraphTable
        The table.

    Raises
    ------
    InputError
        If it is missing or damaged.
    """
    return read_table(SubGraphTable, Path(folder, SUBGRAPHS_FILE))
