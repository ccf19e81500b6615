"""Stage times T(a, b, B): from one place of a network to another, with no exit between (PAME, Section 4.2).

T(a, a, B) is the time to gather B samples at a.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats
from ...models import Exit, Network
from ...models.network import at_places
from ...tables.exit_plan import PlannedService
from ...tables.latency import LatencyTable


def stage_times(table: LatencyTable, network: Network | None = None) -> Floats:
    """Times of all stages that a network could be cut into. Shapes: returns (K + 2, K + 2, b_max + 1).

    Only the heads at the two ends of a stage count, while a latency table also has the heads of exits between them.
    Where only whole stages were measured, the head of a stage takes its share of the MACs of ``network``.
    """
    ends = len(table.exits) + 1
    backbone, head, resume = (np.zeros((ends, table.b_max + 1)) for _ in range(3))
    if not table.layers:
        shares = head_shares(table, network)
        backbone[1:], head[1:] = np.array([1 - shares, shares])[..., None] * table.stage_array()[0]
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


def head_shares(table: LatencyTable, network: Network | None) -> Floats:
    """Share of the MACs of each stage that its head makes."""
    if network is None or len(network.exits) != len(table.exits):
        raise InputError(
            f"{table.platform}: expected times by layer, or times of the stages of a network with an exit at each "
            f"candidate, found times of {len(table.exits)} stages"
        )
    macs = np.zeros((2, len(table.exits)))
    for layer in network.layers:
        macs[int(layer.in_head), layer.stage - 1] += layer.gemm.macs if layer.gemm else 0
    shares: Floats = macs[1] / np.maximum(macs.sum(axis=0), 1.0)
    return shares


def keep_exits(
    table: LatencyTable,
    network: str,
    places: Sequence[int],
    rates: Sequence[float],
    planned: PlannedService | None = None,
    stage_s: Floats | None = None,
) -> LatencyTable:
    """The latency table of the same hardware for the network with fewer exits.

    If the table has no layers, its times are ``stage_s``, as :func:`stage_times` returns them.
    """
    layers = at_places(table.layers, places, lambda layer: layer.exit)
    ends = [*(table.exits[place - 1].name for place in places), table.exits[-1].name]
    exits = [Exit(name=name, rate=rate) for name, rate in zip(ends, rates, strict=True)]
    gather_s = None if table.gather_s is None else [table.gather_s[place] for place in (0, *places)]
    changed = {"network": network, "exits": exits, "layers": layers, "gather_s": gather_s, "planned": planned}
    if stage_s is not None and not layers:
        changed["stage_s"] = [[stage_s[a, b, 1:].tolist() for a, b in pairwise((0, *places, len(stage_s) - 1))]]
    return LatencyTable.model_validate(dict(table) | changed | {"inputs": {}})
