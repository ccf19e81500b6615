"""The tables of a partition: the rows of each device, and the latency table that serving reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formats import AnyPath, InputError, OwnFolder, table_text
from ...models.rows import WholeLayer
from ...platforms.cluster import Cluster
from ...tables.files import LATENCY_FILE, PARTITION_FILE
from ...tables.latency import LatencyTable
from ...tables.layer_use import LayerUse
from ...tables.partition import BlockRows, LayerRows, PartitionOptions, PartitionTable, RowRange, WholeStep
from .blocks import Costs, Gather, Rows
from .rules import BlockPlan, BlockStep

PARTITION_FOLDER = OwnFolder("a partition", PARTITION_FILE, (PARTITION_FILE, LATENCY_FILE))


def _block(costs: Costs, stage: int, step: BlockStep, held: Rows) -> BlockRows:
    """The record of a block; a branch reads the layer of its exit."""
    span, rows = step
    units, needs, spent = costs.blocks.units(span), costs.blocks.needs(span), costs.spent(span, rows, held)
    in_branch = span.chain < len(costs.network.branches)
    prefix, source = "", units[0].entry
    if in_branch:
        prefix = f"exit{stage}/"
        source = costs.network.exits[stage - 1].name if source == "input" else prefix + source
    needed = _ranges(needs[units[0].entry], rows)
    owned = list(map(RowRange, held[:-1].tolist(), held[1:].tolist()))
    return BlockRows(
        stage=stage,
        in_branch=in_branch,
        source=source,
        source_height=units[0].source.height,
        layers=[
            LayerRows(name=prefix + layer.name, height=layer.shape.height, rows=_ranges(needs[layer.name], rows))
            for unit in units
            for layer in unit.layers
            if layer.name in needs
        ],
        held=owned,
        needed=needed,
        missing_rows=[
            need.end - need.first - max(0, min(need.end, own.end) - max(need.first, own.first))
            for need, own in zip(needed, owned, strict=True)
        ],
        link_bytes=spent.link_bytes.tolist(),
        compute_s=spent.compute_s.tolist(),
        transfer_s=(spent.time_s - spent.compute_s).tolist(),
        time_s=spent.end_s,
        gates=[
            _step(costs, stage, gate.layers, gather, in_branch=in_branch)
            for gate, gather in zip((gate for unit in units for gate in unit.gates), spent.gates, strict=True)
        ],
    )


def _step(costs: Costs, stage: int, layers: Sequence[WholeLayer], gather: Gather, *, in_branch: bool) -> WholeStep:
    """The record of layers that one device runs."""
    prefix = f"exit{stage}/" if in_branch else ""
    return WholeStep(
        stage=stage,
        in_branch=in_branch,
        device=costs.names[costs.host],
        layers=[prefix + layer.name for layer in layers],
        sent_bytes=gather.sent_bytes.tolist(),
        gather_s=gather.gather_s,
        compute_s=gather.compute_s,
    )


def _ranges(need: tuple[Rows, Rows], rows: Rows) -> list[RowRange]:
    """The rows of a map, by device; of a device without a share, none."""
    first = need[0][rows[:-1]]
    end = np.where(np.diff(rows) > 0, need[1][rows[1:]], first)
    return list(map(RowRange, first.tolist(), end.tolist()))


def tabulate_partition(costs: Costs, cluster: Cluster, options: PartitionOptions, plan: BlockPlan) -> PartitionTable:
    """The table of a partition."""
    network = costs.network
    blocks: list[BlockRows] = []
    wholes = []
    for number, (steps, end) in enumerate(plan.stages(costs.held_at_start())):
        blocks += [_block(costs, number + 1, step, held) for step, held in steps]
        wholes += [
            _step(costs, number + 1, run.layers, gather, in_branch=run.in_branch)
            for run, gather in costs.wholes(number, end)
        ]
    return PartitionTable(
        network=network.name,
        exits=list(network.exits),
        cluster=cluster,
        options=options,
        devices=costs.names,
        blocks=blocks,
        wholes=wholes,
    )


def tabulate_latency(table: PartitionTable) -> LatencyTable:
    """The latency table of a partition, for one image at a time; its layers are the blocks."""
    for exit_, time_s in zip(table.exits, table.stage_s, strict=True):
        if not time_s > 0:
            raise InputError(
                f"{table.cluster.name}: expected the stage up to {exit_.name} of {table.network} to take time, "
                "found 0 s"
            )
    steps: list[tuple[str, BlockRows | WholeStep]] = [(block.name, block) for block in table.blocks]
    steps += [(step.layers[-1], step) for step in table.wholes if step.layers]
    steps.sort(key=lambda pair: pair[1].stage)  # stable: layers that need a whole map come last in their stage
    latency = LatencyTable(
        network=table.network,
        platform=table.cluster.name,
        exits=table.exits,
        b_max=1,
        layers=[
            LayerUse(name=name, stage=step.stage, role="head" if step.in_branch else "backbone", time_s=[step.time_s])
            for name, step in steps
            if step.time_s
        ],
    )
    return latency.derived_from(table)


def write_partition(
    folder: AnyPath, table: PartitionTable, latency: LatencyTable | None = None, *, replace: bool = False
) -> LatencyTable:
    """Write a partition and its latency table, by default that for one image at a time, whole or not at all."""
    latency = latency or tabulate_latency(table)
    files = {PARTITION_FILE: table_text(table), LATENCY_FILE: table_text(latency)}
    PARTITION_FOLDER.write(folder, files, replace=replace)
    return latency
