"""The partition of a network over a cluster, as a file: who computes which rows (paper 004)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from ..formats import Strict, Table, check_folder, read_table
from ..models import Exit
from ..platforms.cluster import MAX_MEMBERS, Cluster
from .latency import PARTITION_FILE, SecondsOrNone

Index = Annotated[int, Field(ge=0)]


class RowRange(NamedTuple):
    """Rows from ``first`` up to ``end``, which is not among them."""

    first: Index
    end: Index


Bytes = Annotated[float, Field(ge=0)]


def first_to_last(names: Sequence[str]) -> str:
    """Layers that follow each other, for people."""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"


class FusionRule(StrEnum):
    """Which units are fused into a block (paper 004, Section 3.3)."""

    MARGINAL = "marginal"
    """Extend a block while that takes no longer than the block and the next unit on its own."""
    OPTIMAL = "optimal"
    """The blocks with the least average time of all."""
    PAPER = "paper"
    """Algorithm 2, mended: extend while the overlap takes no longer than the communication that fusing saves."""
    LAYERWISE = "layerwise"
    """Every unit is a block, as in MoDNN."""


class PartitionOptions(Strict):
    """How a partition is searched.

    Attributes
    ----------
    rule : FusionRule
        How blocks are chosen.
    zeta : float
        Algorithm 1 ends when every device is within this share of the mean time.
    """

    rule: FusionRule = FusionRule.MARGINAL
    zeta: Annotated[float, Field(ge=0, le=10)] = 0.1

    @field_validator("rule", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if isinstance(value, str) and value in list(FusionRule):
            return FusionRule(value)
        raise ValueError(f"expected one of {', '.join(FusionRule)}, found {value}")


class LayerRows(Strict):
    """The rows of a layer's output that each device computes; rows that several compute are computed twice.

    Attributes
    ----------
    name : str
        The layer; one of a branch is ``exit<number>/<layer>``.
    height : int
        Rows of its output.
    rows : list of RowRange
        By device.
    """

    name: str
    height: Annotated[int, Field(ge=1)]
    rows: list[RowRange]


class BlockRows(Strict):
    """A block: fused layers, which every device runs on its rows without a word to the others.

    Attributes
    ----------
    stage : int
        1-based stage it runs in.
    in_branch : bool
        Whether it belongs to the branch of the stage's exit instead of the backbone.
    source : str
        The layer whose output it reads; ``input`` is that of the network.
    source_height : int
        Rows of that map.
    layers : list of LayerRows
        In execution order; the rows of the last one are the devices' shares, which tile it.
    held, needed : list of RowRange
        Rows of the input, by device: those that it holds, and those that its share needs.
    missing_rows : list of int
        Rows that it needs and does not hold: the halo.
    link_bytes : list of float
        Bytes on the link of each device, as the cluster's ``communication`` counts them.
    compute_s, transfer_s : list of float
        Its time to compute, and to communicate before.
    time_s : float
        When the last device has finished.
    """

    stage: Annotated[int, Field(ge=1)]
    in_branch: bool
    source: str
    source_height: Annotated[int, Field(ge=1)]
    layers: Annotated[list[LayerRows], Field(min_length=1)]
    held: list[RowRange]
    needed: list[RowRange]
    missing_rows: list[Index]
    link_bytes: list[Bytes]
    compute_s: list[SecondsOrNone]
    transfer_s: list[SecondsOrNone]
    time_s: SecondsOrNone

    @property
    def name(self) -> str:
        """Name of its last layer."""
        return self.layers[-1].name

    @property
    def title(self) -> str:
        """Its first and its last layer, for people."""
        return first_to_last([layer.name for layer in self.layers])

    @property
    def shares(self) -> list[RowRange]:
        """The rows of its output, by device."""
        return self.layers[-1].rows

    @property
    def wait_s(self) -> list[float]:
        """Time that each device waits for the last one; one without rows waits all the time."""
        spent = zip(self.compute_s, self.transfer_s, strict=True)
        return [self.time_s - compute - transfer for compute, transfer in spent]

    @property
    def last(self) -> int:
        """Index of the device that finishes last."""
        return self.wait_s.index(min(self.wait_s))

    @property
    def mean_wait_s(self) -> float:
        """The same on average over the devices with rows, but for the last one."""
        busy = [wait_s for wait_s, (first, end) in zip(self.wait_s, self.shares, strict=True) if end > first]
        return sum(busy) / max(1, len(busy) - 1)


class WholeStep(Strict):
    """Layers that need a whole map: the others send their rows to one device, which runs them.

    Attributes
    ----------
    stage : int
        1-based stage, at whose end they run.
    in_branch : bool
        Whether they belong to the branch of the stage's exit.
    device : str
        The device that runs them: the strongest.
    layers : list of str
        Their names.
    sent_bytes : list of float
        What each device sends.
    gather_s, compute_s : float
        Time to gather the map, and to compute.
    """

    stage: Annotated[int, Field(ge=1)]
    in_branch: bool
    device: str
    layers: list[str]
    sent_bytes: list[Bytes]
    gather_s: SecondsOrNone
    compute_s: SecondsOrNone

    @property
    def title(self) -> str:
        """Its first and its last layer, for people."""
        return first_to_last(self.layers)

    @property
    def time_s(self) -> float:
        """Its time."""
        return self.gather_s + self.compute_s


class PartitionTable(Table):
    """The partition of a network over a cluster as a file, ``fluidb.partition/1`` (``docs/file-formats.md``).

    Attributes
    ----------
    network : str
        Name of the network.
    exits : list of Exit
        Its exits, in order of depth.
    cluster : Cluster
        The whole cluster.
    options : PartitionOptions
        How it was searched.
    devices : list of str
        The devices among which rows were shared, in the order of their rows; lists by device have this order.
    blocks : list of BlockRows
        In execution order; those of a branch follow the backbone's of its stage.
    wholes : list of WholeStep
        One at the end of every stage.
    """

    schema_name: ClassVar[str] = "fluidb.partition/1"
    made_by: ClassVar[str] = "fluidb dse NETWORK CLUSTER -o DIR"

    network: str
    exits: Annotated[list[Exit], Field(min_length=1)]
    cluster: Cluster
    options: PartitionOptions
    devices: Annotated[list[str], Field(min_length=1, max_length=MAX_MEMBERS)]
    blocks: Annotated[list[BlockRows], Field(min_length=1)]
    wholes: list[WholeStep]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        known, count = [item.name for item in self.cluster.devices], len(self.devices)
        if [name for name in known if name in self.devices] != self.devices:
            raise ValueError("devices: expected devices of the cluster, in its order")
        for block in self.blocks:
            lengths = {len(column) for column in (block.held, block.needed, *(item.rows for item in block.layers))}
            lengths |= {len(column) for column in (block.link_bytes, block.compute_s, block.transfer_s)}
            if lengths | {len(block.missing_rows)} != {count}:
                raise ValueError(f"blocks: {block.name}: expected {count} entries by device")
            bounds = [0, *(end for _, end in block.shares)]
            if [first for first, _ in block.shares] != bounds[:-1] or bounds[-1] != block.layers[-1].height:
                raise ValueError(f"blocks: {block.name}: expected shares that tile its {block.layers[-1].height} rows")
        stages = [block.stage for block in self.blocks]
        every = list(range(1, len(self.exits) + 1))
        if stages != sorted(stages) or not set(stages) <= set(every) or [item.stage for item in self.wholes] != every:
            raise ValueError(f"blocks, wholes: expected stages 1 to {len(self.exits)} in order")
        return self

    @property
    def idle(self) -> list[str]:
        """Devices that compute no row of any block."""
        busy = {k for block in self.blocks for k, (first, end) in enumerate(block.shares) if end > first}
        return [name for k, name in enumerate(self.devices) if k not in busy]

    @property
    def stage_s(self) -> list[float]:
        """Time of each stage."""
        found = [0.0] * len(self.exits)
        for block in self.blocks:
            found[block.stage - 1] += block.time_s
        for step in self.wholes:
            found[step.stage - 1] += step.time_s
        return found

    @property
    def exit_s(self) -> list[float]:
        """Time from the input to each exit, T_n."""
        return list(accumulate(self.stage_s))

    @property
    def average_s(self) -> float:
        """Average time over the exits, by the shares of samples that leave there."""
        return sum(item.rate * time_s for item, time_s in zip(self.exits, self.exit_s, strict=True))

    @property
    def communication_s(self) -> float:
        """Time to the last exit in which the slowest device of a block communicates, and maps are gathered."""
        return sum(step.gather_s for step in self.wholes) + sum(item.transfer_s[item.last] for item in self.blocks)

    @property
    def communication_bytes(self) -> float:
        """Bytes to the last exit that are communicated on all links."""
        return sum(sum(block.link_bytes) for block in self.blocks) + sum(sum(s.sent_bytes) for s in self.wholes)


def read_partition(folder: Path) -> PartitionTable:
    """Read the partition of a folder."""
    check_folder(folder, "the folder of a partition", f"make it with `{PartitionTable.made_by}`")
    return read_table(PartitionTable, folder / PARTITION_FILE)
