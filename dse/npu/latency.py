"""The latency table of a design, from its FBCB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...formats import AnyPath, InputError, write_table
from ...tables.files import DESIGN_FILE, LATENCY_FILE
from ...tables.hardware import BuiltNpu
from ...tables.latency import LatencyTable
from ...tables.layer_use import MAX_S, LayerUse, layer_groups
from .costs import PADDING, WAITING, Cause, LayerCosts, layer_costs
from .design import DesignTable, read_design
from .fbcb import FbcbTable


def tabulate_latency(design: DesignTable, fbcb: FbcbTable) -> LatencyTable:
    """Make the table of times between every two exits, for every batch size.

    Parameters
    ----------
    design, fbcb
        The design's tables.

    Returns
    -------
    LatencyTable
        The table.

    Raises
    ------
    InputError
        If the FBCB stacks processing elements that the design does not have.
    """
    network = design.network
    costs = layer_costs(design, fbcb)
    longest = float(costs.time_s.sum(axis=0).max())
    if longest > MAX_S:
        raise InputError(
            f"{DESIGN_FILE}: expected a pass of at most {MAX_S:g} s, found {longest:.3g} s; "
            f"check clock_mhz and bandwidth_gb_s of {design.platform.name}, and the network's layers"
        )
    table = LatencyTable(
        network=network.name,
        platform=design.platform.name,
        exits=network.exits,
        b_max=design.options.b_max,
        peak_macs_per_s=design.peak_macs_per_s,
        static_w=design.platform.static_w,
        layers=_layer_uses(design, costs),
        npus=[_npu(design)],
        host=design.platform.host,
    )
    return table.derived_from(design, fbcb)


def _npu(design: DesignTable) -> BuiltNpu:
    """What the hardware of a design is."""
    board = design.platform
    return BuiltNpu(
        board=board.name, tile=list(design.tile.stated), stacking=design.options.stacking, clock_mhz=board.clock_mhz,
        bandwidth_gb_s=board.bandwidth_gb_s, word_bits=board.word_bits,
    )  # fmt: skip


def _layer_uses(design: DesignTable, costs: LayerCosts) -> list[LayerUse]:
    """Use of each layer; a layer without a GEMM is counted with the GEMM before it in its stage."""
    layers, parts = design.network.layers, costs.parts_s
    products = [layer.product(pooled=design.options.pooled) for layer in layers]
    tables = {
        "time_s": costs.time_s,
        "tile_padding_s": np.sum([parts[cause] for cause in PADDING], axis=0),
        "batch_padding_s": parts[Cause.BATCH_PADDING],
        "memory_bound_s": np.sum([parts[cause] for cause in WAITING], axis=0),
    }
    uses = []
    if costs.energy_j is not None:
        tables["energy_j"] = costs.energy_j
    for group in layer_groups(layers):
        first = layers[group[0]]
        columns = {name: table[group].sum(axis=0).tolist() for name, table in tables.items()}
        if not columns["time_s"][0]:
            continue  # the pool of a head, if the traffic of pools does not count
        macs = sum(product.macs for product in (products[index] for index in group) if product)
        uses.append(
            LayerUse(
                name=first.name, stage=first.stage, role="head" if first.in_head else "backbone", macs=macs, **columns
            )
        )
    return uses


def write_latency(folder: AnyPath) -> LatencyTable:
    """Compute a design's latency table and put it beside the design.

    Parameters
    ----------
    folder : str or Path
        The design's folder.

    Returns
    -------
    LatencyTable
        The table as written.

    Raises
    ------
    InputError
        If the design is missing, damaged or stale, or the file system refuses.
    """
    table = tabulate_latency(*read_design(folder))
    write_table(table, Path(folder, LATENCY_FILE))
    return table
