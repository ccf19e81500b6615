"""Times and energies of each layer on many designs at once, as the latency tables of the designs have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...dse.npu.choices import Objective
from ...dse.npu.evaluation import Evaluator
from ...dse.npu.objectives import dynamic_energy
from ...dse.npu.options import SearchOptions
from ...dse.npu.tiles import Tiles
from ...formats.array_types import Floats
from ...models import Exit, Network
from ...platforms import ENERGY_KEYS, Board
from ...tables.latency import LatencyTable
from ...tables.layer_use import LayerUse, layer_groups


class TimesOfLayers(NamedTuple):
    """What the layers of a design take, or of D designs, in the groups of a latency table."""

    time_s: Floats  # (L, b_max), or (D, L, b_max)
    energy_j: Floats | None  # of the same shape; none if the board states no energies

    def each(self) -> Iterator[TimesOfLayers]:
        """The layers of each design; copies, so that one does not keep all."""
        for design, time_s in enumerate(self.time_s):
            yield TimesOfLayers(time_s.copy(), None if self.energy_j is None else self.energy_j[design].copy())


def stages_of(network: Network, stages: Sequence[int]) -> Network:
    """The same layers in other stages, in their order."""
    layers = [layer.model_copy(update={"stage": stage}) for layer, stage in zip(network.layers, stages, strict=True)]
    exits = [Exit(name=f"{stage}", rate=0.0) for stage in range(1, max(stages) + 1)]
    return network.model_copy(update={"layers": sorted(layers, key=lambda layer: layer.stage), "exits": exits})


def evaluator_of(network: Network, board: Board, options: SearchOptions) -> Evaluator:
    """What counts each stage of a network apart."""
    launches = [[1.0] * options.b_max] * len(network.exits)
    goal = {"objective": Objective.TRAFFIC, "launches": launches, "weights": [], "tile": None}
    return Evaluator(network, board, SearchOptions.model_validate(dict(options) | goal))


class LayerTimes:
    """The latency tables of designs without the causes of their times, which take most of the time to find."""

    def __init__(self, network: Network, board: Board, options: SearchOptions) -> None:
        self._network, self._board, self._options = network, board, options
        self._evaluator = evaluator_of(stages_of(network, range(1, len(network.layers) + 1)), board, options)
        self._groups = list(layer_groups(network.layers))
        firsts = [network.layers[group[0]] for group in self._groups]
        self.part = np.array([2 * (first.stage - 1) + first.in_head for first in firsts])  # of each entry of a table
        self._layers = [
            LayerUse(
                name=first.name,
                stage=first.stage,
                role="head" if first.in_head else "backbone",
                time_s=[1.0] * options.b_max,
            )
            for first in firsts
        ]

    def of(self, tiles: Tiles) -> TimesOfLayers:
        """Times and energies of D designs."""
        (cycles, words, accesses), _ = self._evaluator.account(tiles)
        energy_j = None
        if self._board.states(ENERGY_KEYS):
            macs = [layer.gemm.macs if layer.gemm else 0 for layer in self._network.layers]
            made = np.outer(macs, np.arange(1, self._options.b_max + 1))
            energy_j = self._summed(dynamic_energy(self._board, made, words, accesses))
        return TimesOfLayers(self._summed(cycles / self._board.clock_hz), energy_j)

    def _summed(self, figures: Floats) -> Floats:
        """Sums over the layers that are one entry of a table, in the order of a table's own sums."""
        return np.stack([figures[:, group].sum(axis=1) for group in self._groups], axis=1)

    def parts(self, times: TimesOfLayers) -> Floats:
        """Times of a design by stage, for its backbone and its head. Shapes: returns (E, 2, b_max)."""
        parts_s = np.zeros((2 * len(self._network.exits), self._options.b_max))
        np.add.at(parts_s, self.part, times.time_s)
        return parts_s.reshape(-1, 2, self._options.b_max)

    def table(self, times: TimesOfLayers) -> LatencyTable:
        """The latency table of a design."""
        time_s = times.time_s.tolist()
        energy_j = None if times.energy_j is None else times.energy_j.tolist()
        layers = [
            layer.model_copy(update={"time_s": time_s[number], "energy_j": energy_j and energy_j[number]})
            for number, layer in enumerate(self._layers)
            if time_s[number][0]  # not the pool of a head, if the traffic of pools does not count
        ]
        return LatencyTable.model_construct(
            network=self._network.name,
            platform=self._board.name,
            exits=self._network.exits,
            b_max=self._options.b_max,
            static_w=self._board.static_w,
            layers=layers,
        )
