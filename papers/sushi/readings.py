"""How the paper's text can be read: what is resident, which layers count, and what the SubNets run on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ...dse.subgraphs.search import find_subgraphs, latency_table, resize
from ...models.supernets import Family, load_family
from ...platforms import Accelerator, load_platform
from ...tables.choices import Layers, Maps, SubGraphCut
from ...tables.latency import LatencyTable
from ...tables.subgraphs import SubGraphOptions, SubGraphTable
from . import PUBLISHED

SUPERNETS = {"ResNet-50": "ofa_resnet50", "MobileNet-V3": "ofa_mobilenet_v3"}
"""The paper's names, and ours."""

SHARED_MB: dict[str, float] = PUBLISHED["shared"]
BOARD_MB = 1.728
"""The persistent buffer of Table 3; the paper counts 1000 KB to the MB."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the paper for one SuperNet.

    Attributes
    ----------
    name : str
        What a row calls it.
    net : str
        The SuperNet, as printed.
    megabytes : float or None
        Weights that are resident at most; ``None`` for the chip's own buffer.
    chip : str
        What the SubNets run on.
    engines : (int, int), optional
        K_P and C_P, if not the chip's own.
    bandwidth_gb_s : float, optional
        Off-chip bandwidth, if not the chip's own.
    layers : Layers
        Which layers count.
    maps : Maps
        Which feature maps move off chip.
    smallest, side : int, optional
        Side of the input of the smallest SubNet, and of all of them, if not 224.
    """

    name: str
    net: str
    megabytes: float | None = None
    chip: str = "sushi-fig10"
    engines: tuple[int, int] | None = None
    bandwidth_gb_s: float | None = None
    layers: Layers = Layers.ALL
    maps: Maps = Maps.SPILLED
    smallest: int | None = None
    side: int | None = None

    @property
    def family(self) -> Family:
        """The SubNets."""
        found = load_family(SUPERNETS[self.net])
        first, *others = found.subnets
        subnets = [first.model_copy(update={"r": self.smallest or self.side})]
        subnets += [subnet.model_copy(update={"r": self.side}) for subnet in others]
        return found._replace(subnets=subnets) if self.smallest or self.side else found

    @property
    def accelerator(self) -> Accelerator:
        """What they run on."""
        chip = load_platform(self.chip, self.bandwidth_gb_s, kind=Accelerator)
        changed: dict[str, Any] = {}
        if self.megabytes is not None:
            changed["persistent_kib"] = self.megabytes * 1e6 / 1024
        if self.engines is not None:
            changed |= zip(("K_P", "C_P"), self.engines, strict=True)
        return resize(chip, **changed) if changed else chip

    def subgraphs(self) -> SubGraphTable:
        """Every SubNet with nothing resident, and with what all SubNets share, cut to the buffer."""
        return _subgraphs(self, 1)

    def latency(self, columns: int) -> LatencyTable:
        """Every SubNet with so many SubGraphs; the first is what all SubNets share, cut to the buffer."""
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

BY_FIG10 = {RESNET, RESNET_WIDE, MOBILENET}
"""Readings whose array or input was chosen by Fig. 10."""


def saved(figures: list[list[float]]) -> list[float]:
    """By what a figure of each SubNet, time or bytes off chip, is less with the first SubGraph than with none, in %."""
    return [100 * (1 - row[1] / row[0]) for row in figures]
