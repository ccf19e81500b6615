"""The latency table of a device, which needs no search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...formats import AnyPath, InputError, OwnFolder, table_text
from ...models import Layer, Network
from ...models.loader import build_network
from ...models.schema import NetworkFile
from ...platforms.by_stage import TimedDevice
from ...platforms.device import AnalyticDevice, Device
from ...platforms.engine import Engine
from ...platforms.writer import platform_text
from ...tables.decisions import DECISIONS_FILE, DecisionTable
from ...tables.files import LATENCY_FILE
from ...tables.latency import LatencyTable
from ...tables.layer_use import MAX_S
from .decisions import DecisionPoint, sum_up, tabulate_decisions
from .engine import tabulate_engine
from .layer_uses import TimedLayer, table_on, timed_layers

ENGINE_FILE = "engine.toml"
DEVICE_FOLDER = OwnFolder("the latency table of a device", LATENCY_FILE, {LATENCY_FILE, DECISIONS_FILE, ENGINE_FILE})


def tabulate_file(file: NetworkFile, path: AnyPath, device: Device) -> LatencyTable:
    """Time between every two exits, for every batch size, of the network of a file on a device of any form."""
    if isinstance(device, Engine):
        return tabulate_engine(file, path, device)
    return tabulate_device(build_network(file, path), device)


def tabulate_device(network: Network, device: Device) -> LatencyTable:
    """The same for a network as lowered; an engine needs the file, which has the windows of its layers."""
    count, widths = len(network.exits), None
    layers: list[TimedLayer] = []
    if isinstance(device, TimedDevice):
        if (device.network, device.stage_count) != (network.name, count):
            raise InputError(
                f"{device.name}: expected the network whose times it has, {device.network} with {device.stage_count} "
                f"stages, found {network.name} with {count}; measure this one (`fluidb docs your-own`)"
            )
        stage_s, widths = np.array(device.times_s), device.widest_first
    elif not isinstance(device, AnalyticDevice):
        raise InputError(f"{device.name}: an engine needs the network's file (tabulate_file), found a lowered network")
    else:
        times = np.array([_layer_s(layer, device) for layer in network.layers])
        layers = [*_resumes(count, device), *timed_layers(network.layers, times), *_checks(count, device)]
        layers.sort(key=lambda layer: layer.stage)  # stable: a stage is resumed before its layers, and checked after
        stage_s = np.zeros((1, count, device.b_max))
        for layer in layers:
            stage_s[0, layer.stage - 1] += layer.time_s
    runs = [exit_.steps for exit_ in network.exits]
    if not (stage_s[:, :, 0].min() > 0 and np.einsum("vsb,s->vb", stage_s, runs).max() <= MAX_S):
        raise InputError(
            f"{device.name}: expected every stage of {network.name} to take time, and a pass at most {MAX_S:g} s; "
            "found another: check the floors and slopes, and bandwidth_gb_s"
        )
    return table_on(device, network, layers, widths=widths, stage_s=None if layers else stage_s.tolist())


def _layer_s(layer: Layer, device: AnalyticDevice) -> list[float]:
    """Time of a layer for b = 1..b_max."""
    batches = range(1, device.b_max + 1)
    if layer.gemm is None:
        return [device.memory_s(layer.memory_words, b) for b in batches]
    return [device.product_s(layer.gemm.macs, b, in_bridge=layer.role == "bridge") for b in batches]


def _resumes(count: int, device: AnalyticDevice) -> list[TimedLayer]:
    """Starts of the stages behind an exit."""
    time_s = [device.resume_s(b) for b in range(1, device.b_max + 1)]
    return [TimedLayer(f"exit{number}/resume", number + 1, "resume", time_s) for number in range(1, count) if time_s[0]]


def _checks(count: int, device: AnalyticDevice) -> list[TimedLayer]:
    """Exit checks, after the heads of all exits but the last."""
    time_s = [device.check_s] * device.b_max
    return [TimedLayer(f"exit{number}/check", number, "check", time_s) for number in range(1, count) if device.check_s]


class DeviceTables(NamedTuple):
    """The tables of a network on a device."""

    latency: LatencyTable
    decisions: DecisionTable

    @property
    def points(self) -> list[DecisionPoint]:
        """The decision points with their summaries."""
        return sum_up(self.latency, self.decisions)


def write_device(
    table: LatencyTable, folder: AnyPath, engine: Engine | None = None, *, replace: bool = False
) -> DeviceTables:
    """Compute the decisions of a device's latency table, and write both into a folder of their own or neither.

    With them an engine that was searched.
    """
    made = DeviceTables(table, tabulate_decisions(table))
    files = {LATENCY_FILE: table_text(made.latency), DECISIONS_FILE: table_text(made.decisions)}
    if engine is not None:
        files[ENGINE_FILE] = platform_text(engine)
    DEVICE_FOLDER.write(folder, files, replace=replace)
    return made
