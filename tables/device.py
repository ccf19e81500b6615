"""The latency table of a device, which needs no search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, check_own_folder, table_text, write_directory
from ..models import Layer, Network
from ..platforms.device import Analytic, Device, Measured
from .latency import LATENCY_FILE, MAX_S, LatencyTable, LayerUse, layer_groups, pair_rows


def tabulate_device(network: Network, device: Device) -> LatencyTable:
    """Time between every two exits, for every batch size.

    Parameters
    ----------
    network : Network
        What runs.
    device : Device
        What it runs on.

    Returns
    -------
    LatencyTable
        The table; it has times by layer if the device's model computes them.

    Raises
    ------
    InputError
        If the device was measured for another network, or a stage takes no time or centuries.
    """
    count = len(network.exits)
    layers: list[tuple[Layer, NDArray[np.float64]]] = []
    if isinstance(device, Measured):
        if (device.network, device.stages) != (network.name, count):
            raise InputError(
                f"{device.name}: expected the network it was measured for, {device.network} with {device.stages} "
                f"stages, found {network.name} with {count}; measure this one (`fluidb docs add-a-device`)"
            )
        stage_s = np.array(device.stage_s)
    else:
        assert isinstance(device, Analytic)
        stage_s = np.zeros((count, device.b_max))
        for group in layer_groups(network.layers):
            time_s = np.zeros(device.b_max)
            for index in group:
                time_s += _layer_s(network.layers[index], device)
            first = network.layers[group[0]]
            stage_s[first.stage - 1] += time_s
            layers.append((first, time_s))
    if not (stage_s[:, 0].min() > 0 and stage_s.sum(axis=0).max() <= MAX_S):
        raise InputError(
            f"{device.name}: expected every stage of {network.name} to take time, and a pass at most {MAX_S:g} s; "
            "found another: check floor_s, slope_s_per_mac and bandwidth_gb_s"
        )
    return LatencyTable(
        network=network.name,
        platform=device.name,
        exits=network.exits,
        b_max=device.b_max,
        layers=[
            LayerUse(name=layer.name, stage=layer.stage, time_s=time_s.tolist())
            for layer, time_s in layers
            if time_s[0]
        ],
        rows=pair_rows(stage_s),
        slowdown=device.slowdown,
        gather_s=device.gather_s(),
    )


def _layer_s(layer: Layer, device: Analytic) -> list[float]:
    """Time of a layer for b = 1..b_max."""
    batches = range(1, device.b_max + 1)
    if layer.gemm is None:
        return [device.memory_s(layer.memory_words, b) for b in batches]
    return [device.product_s(layer.gemm.macs, b) for b in batches]


def write_device(network: Network, device: Device, folder: Path, *, replace: bool = False) -> LatencyTable:
    """Compute the latency table of a device, and write it into a folder of its own, whole or not at all.

    Parameters
    ----------
    network : Network
        What runs.
    device : Device
        What it runs on.
    folder : Path
        Destination.
    replace : bool
        Whether an earlier table of a device may be replaced; nothing else is ever replaced.

    Returns
    -------
    LatencyTable
        What was written.

    Raises
    ------
    InputError
        As :func:`tabulate_device` does, and if the folder holds something else or the file system refuses.
    """
    check_own_folder(folder, replace, "the latency table of a device", LATENCY_FILE, {LATENCY_FILE})
    table = tabulate_device(network, device)
    write_directory(folder, {LATENCY_FILE: table_text(table)}, replace=replace)
    return table
