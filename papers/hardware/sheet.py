"""MAC cycles of NVDLA's performance sheet, layer by layer."""

from __future__ import annotations

import csv
from collections import defaultdict
from typing import NamedTuple

from ...dse.device.engine import product_cycles
from ...models import Gemm
from ...models.works import LayerWork
from ...platforms import load_platform
from ...platforms.engine import Engine
from ..lab import Lab
from ..rows import PREDICTED, Claim, Item, Row
from . import SHEET

EQUAL = 1e-9
"""Ratio less 1 within which cycles are equal."""

NEAR = 10.0
"""Per cent that the cycles of a network may be off."""


class SheetLayer(NamedTuple):
    """A layer of the sheet, and its MAC cycles there and here."""

    network: str
    layer: str
    winograd: bool
    printed: float
    ours: float

    @property
    def equal(self) -> bool:
        """True if the sheet has our cycles."""
        return abs(self.ours / self.printed - 1) < EQUAL


def sheet_layers() -> list[SheetLayer]:
    """The layers of the sheet."""
    engine = load_platform("nvdla-2048", kind=Engine)
    found = []
    with SHEET.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            inputs, outputs, high, wide, height, width, stride = (
                int(row[key])
                for key in ("inputs", "outputs", "window_height", "window_width", "height", "width", "stride")
            )
            work = LayerWork(
                row["layer"], 1, in_head=False, gemm=Gemm(height * width, high * wide * inputs, outputs),
                window=(high, wide), strided=stride > 1, line=width, words=0, added=False,
            )  # fmt: skip
            ours, printed = product_cycles(work, engine), float(row["mac_cycles"])
            found.append(SheetLayer(row["network"], row["layer"], row["winograd"] == "yes", printed, ours))
    return found


def hardware_nvdla(_: Lab) -> Item:
    """Layers whose cycles are equal, and sums, of each network."""
    networks = defaultdict(list)
    for layer in sheet_layers():
        networks[layer.network].append(layer)
    rows, claims = [], []
    for name, layers in networks.items():
        parts = {
            "first layer": layers[:1],
            "layers between": layers[1:-1],
            "last layer": layers[-1:],
            "all layers": layers,
        }
        for of, part in parts.items():
            there, here = (sum(getattr(layer, key) for layer in part) for key in ("printed", "ours"))
            rows.append(Row("MAC cycles", of, name, "cycles", here, paper=there, basis=PREDICTED))
        counts = [[layer.equal for layer in layers if layer.winograd == winograd] for winograd in (False, True)]
        off = 100 * (rows[-1].ours / (rows[-1].paper or 1) - 1)
        claims += [
            Claim(
                f"{name}: MAC cycles of layers are equal",
                "sheet",
                f"{len(counts[0])} layers without Winograd, {len(counts[1])} with it",
                f"{sum(counts[0])} and {sum(counts[1])}",
                all(map(all, counts)),
                f"others are {', '.join(layer.layer for layer in layers if not layer.equal)}",
            ),
            Claim(f"{name}: their sum is near", "sheet", f"within {NEAR:g} %", f"{off:+.1f} %", abs(off) <= NEAR),
        ]
    notes = [
        (
            "The sheet divides MACs by 2,048 with channels rounded up to 16: so do 8 pixels that stream, by 16 input, "
            "by 16 output channels. It counts first layers in a form of their own: 3 channels as 4 in GoogLeNet and "
            "ResNet-50; as 3, and a map of 54 x 54, in AlexNet. It does not round the 1,000 outputs of last layers."
        ),
        "In Winograd's form 3x3 windows of stride 1 take cycles / 2.25.",
    ]
    return Item("hardware_nvdla", "NVDLA's performance sheet", notes, rows, claims=claims, picture="bars")
