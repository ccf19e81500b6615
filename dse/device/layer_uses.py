"""Layers with their times on a device, and the latency table that has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...formats.array_types import Floats
from ...models import Layer, Network
from ...models.works import LayerWork
from ...platforms.device import Device
from ...tables.latency import LatencyTable
from ...tables.layer_use import LayerRole, LayerUse, layer_groups


class TimedLayer(NamedTuple):
    """A :class:`LayerUse` whose times are not checked yet."""

    name: str
    stage: int
    role: LayerRole
    time_s: list[float]


def timed_layers(layers: Sequence[Layer | LayerWork], time_s: Floats) -> Iterator[TimedLayer]:
    """The layers that take any time; memory-only layers are counted with the product before. Shape: time_s (L, B)."""
    for group in layer_groups(layers):
        first, together_s = layers[group[0]], time_s[group].sum(axis=0)
        if together_s[0]:
            yield TimedLayer(first.name, first.stage, "head" if first.in_head else "backbone", together_s.tolist())


def table_on(device: Device, network: Network, layers: Sequence[TimedLayer], **more: Any) -> LatencyTable:
    """The latency table of a network, with what its device states."""
    return LatencyTable(
        network=network.name,
        platform=device.name,
        exits=network.exits,
        b_max=device.b_max,
        layers=[LayerUse(**layer._asdict()) for layer in layers],
        lanes=device.lanes,
        load=device.load(),
        gather_s=device.gathers_s(len(network.exits)),
        wake_up_s=device.wake_up_s,
        host=device.host,
        **more,
    )
