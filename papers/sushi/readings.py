"""Readings of the paper's text: the resident weights, the layers that count, and the accelerator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ...dse.subgraphs.costs import compute_s
from ...dse.subgraphs.search import find_subgraphs, latency_table, members_of, resize
from ...formats.array_types import Floats
from ...models.supernets import Family, load_family
from ...platforms import Accelerator, load_platform
from ...tables.latency import LatencyTable
from ...tables.subgraphs import Layers, Maps, SubGraphCut, SubGraphOptions, SubGraphTable
from . import PUBLISHED

SUPERNETS = {"ResNet-50": "ofa_resnet50", "MobileNet-V3": "ofa_mobilenet_v3"}
"""The paper's names, and ours."""

SHARED_MB: dict[str, float] = PUBLISHED["shared"]
BOARD_MB = 1.728
"""The persistent buffer of Table 3; the paper counts 1000 KB to the MB."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the paper for one SuperNet; ``None`` stands for the value of the chip or of the SubNets."""

    name: str  # in a row of results
    net: str  # the SuperNet, as printed
    megabytes: float | None = None  # weights that are resident at most
    chip: str = "sushi-fig10"
    engines: tuple[int, int] | None = None  # K_P and C_P
    bandwidth_gb_s: float | None = None
    layers: Layers = Layers.ALL
    maps: Maps = Maps.SPILLED
    smallest: int | None = None  # side of the input of the smallest SubNet
    side: int | None = None  # side of the input of all SubNets
    ideal: bool = False  # every engine is always busy: one engine with the clock of all

    @property
    def family(self) -> Family:
        """The SubNets."""
        family = load_family(SUPERNETS[self.net])
        first, *others = family.subnets
        subnets = [first.model_copy(update={"r": self.smallest or self.side})]
        subnets += [subnet.model_copy(update={"r": self.side}) for subnet in others]
        return family._replace(subnets=subnets) if self.smallest or self.side else family

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator, with the changes of the reading."""
        chip = load_platform(self.chip, self.bandwidth_gb_s, kind=Accelerator)
        changed: dict[str, Any] = {}
        if self.megabytes is not None:
            changed["persistent_kib"] = self.megabytes * 1e6 / 1024
        if self.engines is not None:
            changed |= zip(("K_P", "C_P"), self.engines, strict=True)
        if self.ideal:
            changed |= {"K_P": 1, "C_P": 1, "clock_mhz": chip.clock_mhz * chip.K_P * chip.C_P}
        return resize(chip, **changed) if changed else chip

    @property
    def macs(self) -> Floats:
        """MACs of each SubNet."""
        extents = members_of(self.family, self.layers).work.extents.astype(np.float64)
        macs: Floats = (extents.prod(axis=1) * extents[:, 2]).sum(axis=1)  # K C R^2 Q
        return macs

    @property
    def utilisation(self) -> float:
        """Share of the array that layers use while they are computed, in %, over all SubNets."""
        work, chip = members_of(self.family, self.layers).work, self.accelerator
        return float(100 * self.macs.sum() / (compute_s(work, chip).sum() * chip.clock_hz * chip.macs_per_cycle))

    def subgraphs(self) -> SubGraphTable:
        """Every SubNet with nothing resident, and with the common part of all SubNets, cut to the buffer."""
        return _subgraphs(self, 1)

    def latency(self, columns: int) -> LatencyTable:
        """Every SubNet with ``columns`` SubGraphs; the first of these is the common part of all SubNets."""
        return _latency(self, columns)


@cache
def _subgraphs(reading: Reading, columns: int) -> SubGraphTable:
    options = SubGraphOptions(layers=reading.layers, maps=reading.maps, columns=columns, cuts=list(SubGraphCut))
    return find_subgraphs(reading.family, reading.accelerator, options)


@cache
def _latency(reading: Reading, columns: int) -> LatencyTable:
    return latency_table(_subgraphs(reading, columns))


RESNET = Reading("potential, 20 x 36", "ResNet-50", SHARED_MB["ResNet-50"])
RESNET_WIDE = Reading("potential, 24 x 30", "ResNet-50", SHARED_MB["ResNet-50"], engines=(24, 30))
RESNET_BOARD = Reading("board, 20 x 36", "ResNet-50", BOARD_MB)
MOBILENET = Reading(
    "potential, 80 x 9, smallest at 160", "MobileNet-V3", SHARED_MB["MobileNet-V3"], engines=(80, 9),
    layers=Layers.PAPER, smallest=160,
)  # fmt: skip
MOBILENET_224 = Reading("potential, 20 x 36, all at 224", "MobileNet-V3", SHARED_MB["MobileNet-V3"])
MOBILENET_BOARD = Reading(
    "board, 80 x 9, smallest at 160", "MobileNet-V3", BOARD_MB, engines=(80, 9), layers=Layers.PAPER, smallest=160
)
RESNET_IDEAL = replace(RESNET, name="potential, ideal utilisation", ideal=True)
MOBILENET_IDEAL = replace(MOBILENET, name="potential, ideal utilisation, smallest at 160", engines=None, ideal=True)

CHOSEN = {RESNET, RESNET_WIDE, MOBILENET}
"""Readings that were chosen by the paper's figures: the array or the input by Fig. 10, what is resident by hit ratios,
too."""


def saved(figures: list[list[float]]) -> list[float]:
    """Time or bytes off chip of each SubNet saved by the first SubGraph, in %."""
    return [100 * (1 - row[1] / row[0]) for row in figures]
