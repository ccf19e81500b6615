"""The work of the devices of a partition: rows that are computed twice, waiting, bytes on the links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...formats import InputError
from ...tables.partition import BlockRows, LayerRows, PartitionTable, RowRange
from .schedule import busy_s


class RepeatedRows(NamedTuple):
    """The rows of a layer's output that are computed."""

    name: str
    height: int
    rows: list[RowRange]  # by device
    computed: int  # by all devices together
    distinct: int  # different rows among them

    @property
    def twice(self) -> int:
        """Rows that are computed once more than needed."""
        return self.computed - self.distinct


class BlockExplanation(NamedTuple):
    """A block, with the repeated work and the waiting of its devices."""

    block: BlockRows
    layers: list[RepeatedRows]
    twice_share: float  # rows that are computed once more than needed, as a share of those computed
    waits_for: str  # the device that finishes last


class DeviceExplanation(NamedTuple):
    """The work of a device for an image that runs to the end."""

    name: str
    compute_s: float
    transfer_s: float
    idle_s: float  # the rest of the time of the image
    link_bytes: float  # on its link for blocks, as the cluster's ``communication`` counts them
    sent_bytes: float  # that it sends where a map is gathered


class PartitionExplanation(NamedTuple):
    """A partition, explained: its blocks in execution order, its devices in the order of their rows."""

    table: PartitionTable
    blocks: list[BlockExplanation]
    devices: list[DeviceExplanation]

    @property
    def twice_share(self) -> float:
        """Rows that are computed once more than needed, as a share of those computed."""
        layers = [layer for block in self.blocks for layer in block.layers]
        return sum(layer.twice for layer in layers) / max(1, sum(layer.computed for layer in layers))

    def block(self, name: str) -> BlockExplanation:
        """The block with a layer."""
        holder = next((each for each in self.blocks if any(layer.name == name for layer in each.layers)), None)
        if holder is None:
            known = ", ".join(each.block.name for each in self.blocks)
            some = f"e.g. {known}" if known else f"and {self.table.network} has no block"
            raise InputError(f'layer: expected one that runs in a block, {some}; found "{name}"')
        return holder


def explain_partition(table: PartitionTable) -> PartitionExplanation:
    """Explain a partition."""
    taken, end_s = busy_s(table), table.exit_s[-1]
    devices = []
    for k, name in enumerate(table.devices):
        compute_s = taken[f"{name} processor"]
        transfer_s = taken["uplink"] if table.cluster.uplink else taken[f"{name} link"]
        devices.append(
            DeviceExplanation(
                name, compute_s, transfer_s, max(0.0, end_s - compute_s - transfer_s),
                sum(table.runs(block) * block.link_bytes[k] for block in table.blocks),
                sum(table.runs(step) * step.sent_bytes[k] for step in table.steps),
            )
        )  # fmt: skip
    return PartitionExplanation(table, [_block(block, table.devices) for block in table.blocks], devices)


def _block(block: BlockRows, names: list[str]) -> BlockExplanation:
    layers = [_layer(layer) for layer in block.layers]
    return BlockExplanation(
        block,
        layers,
        sum(layer.twice for layer in layers) / sum(layer.computed for layer in layers),
        names[block.last],
    )


def _layer(layer: LayerRows) -> RepeatedRows:
    computed = np.zeros(layer.height, dtype=np.bool_)
    for first, end in layer.rows:
        computed[first:end] = True
    count = sum(end - first for first, end in layer.rows)
    return RepeatedRows(layer.name, layer.height, layer.rows, count, int(computed.sum()))
