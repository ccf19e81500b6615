"""The partition of a network over a cluster, as a file: the rows that each device computes (EdgeSP)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from ..formats import AnyPath, SparseRecord, Strict, Table, by_name, check_folder, read_table
from ..models import Exit
from ..models.schema import MAX_SIZE
from ..platforms.cluster import MAX_MEMBERS, Cluster
from .files import PARTITION_FILE
from .layer_use import SecondsOrNone

Index = Annotated[int, Field(ge=0, le=MAX_SIZE)]

NEARLY = 1e-6
"""Share by which sums may differ, which are rounded."""


class RowRange(NamedTuple):
    """Rows from ``first`` up to ``end``, which is not among them."""

    first: Index
    end: Index


Bytes = Annotated[float, Field(ge=0)]


def first_to_last(names: Sequence[str]) -> str:
    """Layers that follow each other, as text."""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"


def counted_devices(count: int) -> str:
    """A number of devices, as text."""
    return "one device" if count == 1 else f"{count} devices"


class FusionRule(StrEnum):
    """A rule that fuses units into blocks (EdgeSP, Section 3.3)."""

    MARGINAL = "marginal"
    """Extend a block while that takes no longer than the block and the next unit on its own."""
    OPTIMAL = "optimal"
    """The blocks with the least average time of all."""
    PAPER = "paper"
    """Algorithm 2, mended: extend while the overlap takes no longer than the communication that fusing saves."""
    LAYERWISE = "layerwise"
    """Every unit is a block, as in MoDNN."""


class PartitionOptions(Strict):
    """Options of the search; Algorithm 1 ends when every device is within the share ``zeta`` of the mean time."""

    rule: Annotated[FusionRule, by_name(FusionRule)] = FusionRule.MARGINAL
    zeta: Annotated[float, Field(ge=0, le=10)] = 0.1


class LayerRows(Strict):
    """The rows of a layer's output by the device that computes them; several may compute the same row."""

    name: str  # of a branch: exit<number>/<layer>
    height: Annotated[int, Field(ge=1, le=MAX_SIZE)]  # rows of the output
    rows: list[RowRange]


class WholeStep(Strict):
    """Layers on whole maps: one device receives the map, if it has not made it, and runs them.

    Inside a block they need averages of whole maps: the others send the sums of their rows, and receive what is made.
    """

    stage: Annotated[int, Field(ge=1)]  # at whose end they run
    in_branch: bool  # in the branch of the stage's exit, not in the backbone
    device: str  # the one that runs them
    layers: list[str]
    sent_bytes: list[Bytes]  # by device; by the one that runs them if no other of these has the input
    gather_s: SecondsOrNone  # time to gather the map, or to exchange the averages
    compute_s: SecondsOrNone

    @property
    def title(self) -> str:
        """Its first and its last layer, as text."""
        return first_to_last(self.layers)

    @property
    def time_s(self) -> float:
        """Its time."""
        return self.gather_s + self.compute_s


class BlockRows(SparseRecord):
    """A block: fused layers, which every device runs on its rows without communicating; lists are by device."""

    stage: Annotated[int, Field(ge=1)]
    in_branch: bool  # in the branch of the stage's exit, not in the backbone
    source: str  # the layer whose output it reads, or ``input``
    source_height: Annotated[int, Field(ge=1, le=MAX_SIZE)]
    layers: Annotated[list[LayerRows], Field(min_length=1)]  # in execution order; the shares tile the last one
    held: list[RowRange]  # rows of the input that the device holds
    needed: list[RowRange]  # rows of the input that its share needs
    missing_rows: list[Index]  # rows that it needs and does not hold: the halo
    link_bytes: list[Bytes]  # as the cluster's ``communication`` counts them
    compute_s: list[SecondsOrNone]
    transfer_s: list[SecondsOrNone]  # before it computes
    time_s: SecondsOrNone  # until the last device has finished
    gates: list[WholeStep] = []  # where all devices wait inside the block, in execution order

    def check(self, devices: int) -> None:
        """Refuse, as a ``ValueError``, lists that do not fit the number of devices, or each other."""
        where = f"blocks: {self.name}: expected"
        rows = [self.held, self.needed, *(layer.rows for layer in self.layers)]
        numbers = self.link_bytes, self.compute_s, self.transfer_s
        if {*map(len, rows), *map(len, numbers), len(self.missing_rows)} != {devices}:
            raise ValueError(f"{where} {devices} entries by device")
        heights = [self.source_height, self.source_height, *(layer.height for layer in self.layers)]
        for height, column in zip(heights, rows, strict=True):
            if not all(first <= end <= height for first, end in column):
                raise ValueError(f"{where} ranges of rows within {height}")
        bounds = [0, *(end for _, end in self.shares)]
        if [first for first, _ in self.shares] != bounds[:-1] or bounds[-1] != self.layers[-1].height:
            raise ValueError(f"{where} shares that tile its {self.layers[-1].height} rows")
        last_s = max(map(sum, zip(self.compute_s, self.transfer_s, strict=True)))
        longer_s = self.time_s - last_s  # where all wait at gates, they may wait for another device at each
        if longer_s < -NEARLY * last_s or (longer_s > NEARLY * last_s and not self.gates):
            raise ValueError(f"{where} the time of its last device, {last_s:g} s, found {self.time_s:g}")

    @property
    def name(self) -> str:
        """Name of its last layer."""
        return self.layers[-1].name

    @property
    def title(self) -> str:
        """Its first and its last layer, as text."""
        return first_to_last([layer.name for layer in self.layers])

    @property
    def shares(self) -> list[RowRange]:
        """The rows of its output, by device."""
        return self.layers[-1].rows

    @property
    def wait_s(self) -> list[float]:
        """Time that each device waits for the last one; one without rows waits all the time."""
        spent = zip(self.compute_s, self.transfer_s, strict=True)
        return [max(0.0, self.time_s - compute - transfer) for compute, transfer in spent]

    @property
    def last(self) -> int:
        """Index of the device that finishes last."""
        return self.wait_s.index(min(self.wait_s))

    @property
    def mean_wait_s(self) -> float:
        """Mean waiting time of the devices with rows, without the last one."""
        busy = [wait_s for wait_s, (first, end) in zip(self.wait_s, self.shares, strict=True) if end > first]
        return sum(busy) / max(1, len(busy) - 1)


class PartitionTable(Table):
    """The partition of a network over a cluster as a file, ``fluidb.partition/1`` (``docs/file-formats.md``).

    Lists by device are in the order of ``devices``.  ``blocks`` are in execution order, a branch's behind the
    backbone's of its stage; ``wholes`` run at the end of their stage, a branch's behind the backbone's.
    """

    schema_name: ClassVar[str] = "fluidb.partition/1"
    made_by: ClassVar[str] = "fluidb dse NETWORK CLUSTER -o DIR"

    network: str
    exits: Annotated[list[Exit], Field(min_length=1)]
    cluster: Cluster
    options: PartitionOptions
    devices: Annotated[list[str], Field(min_length=1, max_length=MAX_MEMBERS)]
    blocks: list[BlockRows]
    wholes: list[WholeStep]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        known = [device.name for device in self.cluster.devices]
        if [name for name in known if name in self.devices] != self.devices:
            raise ValueError("devices: expected devices of the cluster, in its order")
        if abs(sum(exit_.rate for exit_ in self.exits) - 1) > NEARLY:
            raise ValueError("exits: expected rates that sum to 1")
        for block in self.blocks:
            block.check(len(self.devices))
        for step in self.wholes:
            if len(step.sent_bytes) != len(self.devices) or step.device not in self.devices:
                raise ValueError(f"wholes: stage {step.stage}: expected {len(self.devices)} entries by device, and one")
            if step.time_s and not step.layers:
                raise ValueError(f"wholes: stage {step.stage}: expected layers that take its time, found none")
        for stages in [block.stage for block in self.blocks], [step.stage for step in self.wholes]:
            if stages != sorted(stages) or not set(stages) <= set(range(1, len(self.exits) + 1)):
                raise ValueError(f"blocks, wholes: expected stages 1 to {len(self.exits)} in order")
        return self

    @property
    def idle(self) -> list[str]:
        """Devices that compute neither a row of any block nor layers that need a whole map."""
        busy = {self.devices[k] for block in self.blocks for k, (first, end) in enumerate(block.shares) if end > first}
        busy |= {step.device for block in self.blocks for step in block.gates}
        busy |= {step.device for step in self.wholes if step.layers}
        return [name for name in self.devices if name not in busy]

    @property
    def stage_s(self) -> list[float]:
        """Time of each stage, of one step if it repeats."""
        times_s = [0.0] * len(self.exits)
        for block in self.blocks:
            times_s[block.stage - 1] += block.time_s
        for step in self.wholes:
            times_s[step.stage - 1] += step.time_s
        return times_s

    @property
    def exit_s(self) -> list[float]:
        """Time from the input to each exit, T_n, with all steps of a stage that repeats."""
        return list(accumulate(exit_.steps * time_s for exit_, time_s in zip(self.exits, self.stage_s, strict=True)))

    @property
    def average_s(self) -> float:
        """Average time over the exits, weighted by the shares of samples that leave there."""
        return sum(exit_.rate * time_s for exit_, time_s in zip(self.exits, self.exit_s, strict=True))

    @property
    def communication_s(self) -> float:
        """Time to the last exit spent on communication of the slowest device of each block, and on gathering maps."""
        blocks_s = sum(self.runs(block) * block.transfer_s[block.last] for block in self.blocks)
        return blocks_s + sum(self.runs(step) * step.gather_s for step in self.steps)

    @property
    def communication_bytes(self) -> float:
        """Bytes to the last exit that are communicated on all links."""
        blocks = sum(self.runs(block) * sum(block.link_bytes) for block in self.blocks)
        return blocks + sum(self.runs(step) * sum(step.sent_bytes) for step in self.steps)

    def runs(self, part: BlockRows | WholeStep) -> int:
        """How often an image that runs to the end runs a block or step."""
        return self.exits[part.stage - 1].steps

    @property
    def steps(self) -> list[WholeStep]:
        """All layers that one device runs for all, by where they run."""
        return [*self.wholes, *(gate for block in self.blocks for gate in block.gates)]


def read_partition(folder: AnyPath) -> PartitionTable:
    """Read the partition of a folder."""
    check_folder(folder, "the folder of a partition", f"make it with `{PartitionTable.made_by}`")
    return read_table(PartitionTable, Path(folder, PARTITION_FILE))
