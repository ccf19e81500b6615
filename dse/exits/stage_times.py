"""Stage times T(a, b, B): from one place of a network to another, with no exit between (PAME, Section 4.2).

T(a, a, B) is the time to gather B samples at a.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError
from ...models import Exit
from ...tables.latency import LatencyTable, PlannedService


def stage_times(table: LatencyTable) -> NDArray[np.float64]:
    """Times of all stages that a network could be cut into. Shapes: returns (K + 2, K + 2, b_max + 1).

    Only the heads at the two ends of a stage count, while times of a latency table contain those of all exits passed.
    """
    _check_layers(table)
    ends = len(table.exits) + 1
    backbone, head, resume = (np.zeros((ends, table.b_max + 1)) for _ in range(3))
    for layer in table.layers:
        if layer.role == "backbone":
            backbone[layer.stage, 1:] += layer.time_s
        elif layer.role == "resume":
            resume[layer.exit, 1:] += layer.time_s
        else:
            head[layer.exit, 1:] += layer.time_s
    times = np.zeros((ends, ends, table.b_max + 1))
    for start in range(ends):
        times[start, start + 1 :] = backbone[start + 1 :].cumsum(axis=0) + head[start + 1 :] + resume[start]
    places = np.arange(1, ends - 1)
    times[places, places] = table.gather_array()[1 : ends - 1]
    return times


def keep_exits(
    table: LatencyTable,
    network: str,
    places: Sequence[int],
    rates: Sequence[float],
    planned: PlannedService | None = None,
) -> LatencyTable:
    """The latency table of the same hardware for the network with fewer exits."""
    _check_layers(table)
    number = {place: at for at, place in enumerate(places, 1)}
    layers = []
    for layer in table.layers:
        if layer.exit and layer.exit not in number:
            continue
        name = f"exit{number[layer.exit]}/{layer.name.partition('/')[2]}" if layer.exit else layer.name
        stage = 1 + sum(place < layer.stage for place in places)
        layers.append(layer.model_copy(update={"name": name, "stage": stage}))
    ends = [*(table.exits[place - 1].name for place in places), table.exits[-1].name]
    exits = [Exit(name=name, rate=rate) for name, rate in zip(ends, rates, strict=True)]
    gather_s = None if table.gather_s is None else [table.gather_s[place] for place in (0, *places)]
    changed = {"network": network, "exits": exits, "layers": layers, "gather_s": gather_s, "planned": planned}
    return LatencyTable.model_validate(dict(table) | changed | {"inputs": {}})


def _check_layers(table: LatencyTable) -> None:
    if not table.layers:
        raise InputError(
            f"{table.platform}: expected times by layer, which tell heads from the backbone, found those of stages "
            "only; take a design, or a device that is described by a model"
        )
