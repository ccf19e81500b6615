"""The baselines of a partition over a cluster: a network whose stages run on one place after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...formats import InputError
from ...models.rows import RowNetwork

WORD_BITS = 32
"""Width of a value of a map."""


class StageHost(NamedTuple):
    """A machine that runs whole stages."""

    name: str
    gflop_s: float
    mbit_s: float  # bandwidth at which it receives maps
    layer_s: float = 0.0  # fixed time of a layer with weights


def run_in_turn(network: RowNetwork, places: Sequence[StageHost], owner: str) -> list[float]:
    """Times to the exits if each stage runs on one place: Edgent, the triple partition network, or one device.

    Where the place changes, the map at the exit is sent to the next one.
    """
    if len(places) != len(network.ends):
        raise InputError(
            f"{network.name}: expected a place for each of {len(network.ends)} stages, found {len(places)}"
        )
    exit_s, total, at, first = [], 0.0, owner, 0
    trunk = network.trunk.units
    for number, (place, end) in enumerate(zip(places, network.ends, strict=True)):
        if place.name != at:
            words = network.sent_words(number - 1) if number else network.source.words
            total += WORD_BITS * words / (1e6 * place.mbit_s)
            at = place.name
        units = [*trunk[first:end], *network.branch_units(number)]
        rows = [layer for unit in units for layer in unit.layers]
        wholes = [layer for run in network.wholes(number) for layer in run.layers]
        wholes += [layer for unit in units for gate in unit.gates for layer in gate.layers]
        flops = sum(layer.row_flops * layer.shape.height for layer in rows) + sum(layer.flops for layer in wholes)
        products = sum(layer.has_product for layer in rows) + sum(layer.weights > 0 for layer in wholes)
        total += flops / (1e9 * place.gflop_s) + products * place.layer_s
        exit_s.append(total)
        first = end
    return exit_s
