"""NVDLA's performance sheet, layer by layer: MAC cycles, and times."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...dse.device.engine import batch_times, needs, needs_of, product_cycles
from ...models import Gemm
from ...models.loader import read_backbone_file
from ...models.works import LayerWork
from ...platforms import load_platform
from ...platforms.engine import Engine
from ..lab import Lab
from ..rows import GIVEN, PREDICTED, Claim, Item, Row
from . import SHEET

EQUAL = 1e-9
"""Ratio less 1 within which cycles are equal."""

NEAR = 10.0
"""Per cent that the cycles or the time of a network may be off."""

SHIPPED = {"alexnet": "alexnet", "resnet50": "resnet50_caffe"}
"""Networks of the sheet that ship, by their names there."""

BATCH = {"alexnet": 16}
"""Samples for which the sheet reads the weights of fully connected layers once; it is one in other networks."""

KB = 1024

CYCLES, TIME = "MAC cycles", "time"
EVERY, WITH_WEIGHTS = "all layers", "all layers, the sheet's weights"
"""What a row gives, and for which layers."""


class SheetLayer(NamedTuple):
    """A layer of the sheet, and what it needs there and here."""

    network: str
    work: LayerWork
    winograd: bool
    printed: float  # MAC cycles
    printed_s: float  # without SRAM
    weight_bytes: float
    ours: float  # MAC cycles
    our_weight_bytes: float

    @property
    def equal(self) -> bool:
        """True if the sheet has our cycles."""
        return abs(self.ours / self.printed - 1) < EQUAL

    @property
    def weight_ratio(self) -> float:
        """Weights that the sheet counts, over ours."""
        return self.weight_bytes / self.our_weight_bytes


def sheet_layers(engine: Engine) -> list[SheetLayer]:
    """The layers of the sheet."""
    layers = []
    with SHEET.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            work = _work(cells)
            (our_bytes,) = needs_of([work._replace(words=0)], engine).bytes
            seconds = float(cells["max_cycles"]) / engine.clock_hz
            layers.append(
                SheetLayer(
                    cells["network"], work, cells["winograd"] == "yes", float(cells["mac_cycles"]), seconds,
                    KB * float(cells["weight_kb"]), product_cycles(work, engine), float(our_bytes),
                )
            )  # fmt: skip
    return layers


def _work(cells: dict[str, str]) -> LayerWork:
    """A row as a layer, with its pool and its addition."""
    inputs, outputs, high, wide, height, width, stride, *sides = (
        int(cells[key])
        for key in ("inputs", "outputs", "window_height", "window_width", "height", "width", "stride",
                    "input_height", "input_width", "stored_height", "stored_width")
    )  # fmt: skip
    gemm = Gemm(height * width, high * wide * inputs, outputs)
    words = inputs * sides[0] * sides[1] + outputs * sides[2] * sides[3]
    return LayerWork(
        cells["layer"], 1, in_head=False, gemm=gemm, window=(high, wide), stride=(stride, stride), line=width,
        words=words + gemm.R * outputs * (cells["added"] == "yes"), weights=gemm.P * outputs,
    )  # fmt: skip


def seconds(layers: Sequence[SheetLayer], engine: Engine, *, given: bool = False) -> float:
    """Time of layers for one sample, perhaps with the weights that the sheet counts."""
    batch = BATCH.get(layers[0].network, 1) if layers else 1
    need = needs_of([layer.work for layer in layers], engine)
    if given:
        more = [layer.weight_bytes - layer.our_weight_bytes for layer in layers]
        need = need._replace(bytes=need.bytes + more)
    return float(batch_times(need, engine, batch).sum()) / batch


def _shipped_ms(name: str, engine: Engine) -> float:
    """Time of a network that ships for one sample, without its exits."""
    batch = BATCH.get(name, 1)
    need = needs(*read_backbone_file(SHIPPED[name]), engine)
    return 1e3 * float(batch_times(need, engine, batch).sum()) / batch


NOTES = [
    (
        "The sheet divides MACs by 2,048, with channels rounded up to 16. Our engine does the same with 8 pixels that "
        "stream, 16 input and 16 output channels. Where a map is one pixel, outputs stream, too: the sheet does not "
        "round the 1,000 outputs of last layers. First layers follow no rule, and so their cycles differ from ours. 3 "
        "channels count as 4 in GoogLeNet and ResNet-50, which NVDLA's pixel formats support. In AlexNet they count "
        "as 3, and its map counts as 54 x 54 though the sheet states 55 x 55."
    ),
    "In Winograd's form, 3x3 windows of stride 1 take cycles / 2.25, and have 16 weights in place of 9.",
    (
        "We compare the sheet's times without SRAM. A layer takes the longer time of MACs and DRAM, as in our model. A "
        "pool and an addition are part of the layer before them. Branches of GoogLeNet that read one map are one "
        "layer. Fully connected layers of AlexNet read their weights once for 16 samples. The sheet moves 1,024 bytes "
        "in 100 cycles (our model in 102.4), and doubles the cycles of ResNet-50's layers of 64 outputs."
    ),
    (
        "In all three networks the sheet rounds a window with a stride up to a multiple of the stride, so that a 1x1 "
        "window of stride 2 has weights for 2x2. NVDLA's page on data formats says so of Winograd's form only. The "
        "time of GoogLeNet differs because some weights follow no rule: eight of its ten layers in Winograd's form "
        "have 9 weights, though this page, the other two layers, AlexNet and ResNet-50 have 16."
    ),
]


def hardware_nvdla(_: Lab) -> Item:
    """Layers whose cycles are equal, and sums, of each network."""
    engine = load_platform("nvdla-2048", kind=Engine)
    networks = defaultdict(list)
    for layer in sheet_layers(engine):
        networks[layer.network].append(layer)
    rows: list[Row] = []
    claims: list[Claim] = []
    for name, layers in networks.items():
        here = [*_cycles(name, layers), *_times(name, layers, engine)]
        rows += here
        claims += _claims(name, layers, here)
    return Item("hardware_nvdla", "NVDLA's performance sheet", NOTES, rows, claims=claims, picture="bars")


def _cycles(name: str, layers: Sequence[SheetLayer]) -> Iterator[Row]:
    """MAC cycles of parts of a network."""
    parts = {"first layer": layers[:1], "layers between": layers[1:-1], "last layer": layers[-1:], EVERY: layers}
    for of, part in parts.items():
        there, here = (sum(getattr(layer, key) for layer in part) for key in ("printed", "ours"))
        yield Row(CYCLES, of, name, "cycles", here, paper=there, basis=PREDICTED)


def _with_other_weights(layers: Sequence[SheetLayer]) -> list[SheetLayer]:
    return [layer for layer in layers if abs(layer.weight_ratio - 1) >= EQUAL]


def _times(name: str, layers: Sequence[SheetLayer], engine: Engine) -> Iterator[Row]:
    """Times of a network: by whose weights are counted, and of the network that ships."""
    others = _with_other_weights(layers)
    parts = {
        "layers with our weights": [layer for layer in layers if layer not in others],
        "layers with other weights": others,
        EVERY: layers,
    }
    for of, part in parts.items():
        if part:
            there = 1e3 * sum(layer.printed_s for layer in part)
            yield Row(TIME, of, name, "ms", 1e3 * seconds(part, engine), paper=there, basis=PREDICTED)
    given = 1e3 * seconds(layers, engine, given=True)
    yield Row(TIME, WITH_WEIGHTS, name, "ms", given, paper=there, basis=GIVEN)
    if name in SHIPPED:
        ours = _shipped_ms(name, engine)
        yield Row(TIME, "the network that ships", name, "ms", ours, paper=there, basis=PREDICTED)


def _claims(name: str, layers: Sequence[SheetLayer], rows: Sequence[Row]) -> list[Claim]:
    """What the layers and the sums of a network say."""
    apart = {(row.quantity, row.of): row.difference or 0.0 for row in rows}
    cycles, time, with_weights = (apart[key] for key in ((CYCLES, EVERY), (TIME, EVERY), (TIME, WITH_WEIGHTS)))
    counts = [[layer.equal for layer in layers if layer.winograd == winograd] for winograd in (False, True)]
    wanted = f"within {NEAR:g} %"
    return [
        Claim(
            f"{name}: MAC cycles of layers are equal",
            "sheet",
            f"{len(counts[0])} layers without Winograd, {len(counts[1])} with it",
            f"{sum(counts[0])} and {sum(counts[1])}",
            all(map(all, counts)),
            f"not equal are {', '.join(layer.work.name for layer in layers if not layer.equal)}",
        ),
        Claim(f"{name}: the sum of MAC cycles is near", "sheet", wanted, f"{cycles:+.1f} %", abs(cycles) <= NEAR),
        Claim(
            f"{name}: the time is near", "sheet", wanted, f"{time:+.1f} %", abs(time) <= NEAR,
            _why(_with_other_weights(layers)),
        ),
        Claim(
            f"{name}: the time is near with the sheet's weights", "sheet", wanted, f"{with_weights:+.1f} %",
            abs(with_weights) <= NEAR, basis=GIVEN,
        ),
    ]  # fmt: skip


def _why(layers: Sequence[SheetLayer]) -> str:
    """The layers whose weights the sheet counts otherwise."""
    by_ratio = defaultdict(list)
    for layer in layers:
        by_ratio[f"{layer.weight_ratio:.3g}"].append(layer.work.name)
    each = [f"{ratio} times in {', '.join(names)}" for ratio, names in by_ratio.items()]
    return f"the sheet has more or fewer weights than ours: {'; '.join(each)}"
