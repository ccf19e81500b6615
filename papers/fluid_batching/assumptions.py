"""Contribution of each assumption to Table II: the ablation, and the shift when an assumption is off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import TypeVar

import numpy as np

from ...dse.npu.choices import Batching, Overlap
from ...dse.npu.tiles import Tile
from ...formats import read_toml
from ...formats.array_types import Floats
from ...models import NETWORKS, Exit, Network
from ...models.loader import build_network
from ...models.schema import Conv, ExitFile, GlobalPool, Linear, NetworkFile, Op
from ...serving.scheduler import find_policy
from ...studies.scenario import Contender, GridPoint
from ..lab import Lab, row
from ..rows import ASSUMED, Item, Row
from . import PUBLISHED
from .tables import CELLS, WORTH

SEEDS = 5
"""Seeds of a study: enough to see what an assumption is worth."""

FEWER = f"The first {SEEDS} seeds of Table II."

DEEPER = {"inception_v3": ("maxpool2", "Mixed_6a", "Mixed_6d")}
"""The exits nearest to equal MACs if they need not end an Inception block (/docs/model.md, Exits)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Table II, ready to be changed."""

    point: GridPoint
    contender: Contender  # with the design given

    def on(self, network: Network) -> Cell:
        """The same with another network."""
        return replace(self, point=self.point._replace(site=self.point.site.with_npu(network=network)))

    def engine(self, **changes: object) -> Cell:
        """The same on another NPU."""
        options = self.contender.options.model_copy(update=changes)
        return replace(self, contender=replace(self.contender, options=options))

    def bandwidth(self, factor: float) -> Cell:
        """The same with another off-chip bandwidth."""
        site = self.point.site
        board = site.npu.platform.model_copy(update={"bandwidth_gb_s": factor * site.npu.platform.bandwidth_gb_s})
        return replace(self, point=self.point._replace(site=site.with_npu(platform=board)))

    def call(self, microseconds: int) -> Cell:
        """The same with another time of a scheduler call."""
        name = self.contender.policy.spec.partition(":")[0]
        spec = f"{name}:call={f'{microseconds}us' if microseconds else '0'}"
        return replace(self, contender=replace(self.contender, policy=find_policy(spec)))


def _cells(lab: Lab, name: str) -> Iterator[Cell]:
    """Table II's cells of a contender, each on the design that it has there."""
    scenario = lab.scenario("table2")
    contender = next(contender for contender in scenario.contenders if contender.name == name)
    for point in scenario.points:
        cell = Cell(point, contender).engine(tile=point.site.options(contender).tile)
        yield cell.engine(tile=lab.engine(point, cell.contender).tile)


def _with_exits(network: Network, change: Callable[[ExitFile, int], ExitFile]) -> Network:
    """A shipped network with its exits changed; ``change`` gets the exit and the channels of its map."""
    path = NETWORKS.find(network.name)
    file = read_toml(NetworkFile, path)
    channels = [layer.gemm.P // 9 for layer in network.layers if layer.name.endswith("/conv1") and layer.gemm]
    exits = [change(exit_, width) for exit_, width in zip(file.exits, channels, strict=True)]
    return build_network(file.model_copy(update={"exits": exits}), path)


def _head(name: str) -> Callable[[Network], Network]:
    return lambda network: _with_exits(network, lambda exit_, _width: exit_.model_copy(update={"head": name}))


def _wide_heads(network: Network) -> Network:
    """MSDNet's head with convolutions twice as wide."""

    def change(exit_: ExitFile, width: int) -> ExitFile:
        convs: list[Op] = [
            Conv(op="conv", name=name, out=2 * width, kernel=[3, 3], stride=[2, 2], pad=[1] * 4)
            for name in ("conv1", "conv2")
        ]
        tail: list[Op] = [
            GlobalPool(op="globalavgpool", name="pool"),
            Linear(op="linear", name="linear", out=exit_.classes or 1),
        ]
        return ExitFile(after=exit_.after, rate=exit_.rate, layers=convs + tail)

    return _with_exits(network, change)


def _placed_deeper(network: Network) -> Network:
    """Exits nearest to equal MACs, wherever those fall."""
    names = iter(DEEPER.get(network.name, ()))
    return _with_exits(network, lambda exit_, _width: exit_.model_copy(update={"after": next(names, exit_.after)}))


def _exit_rates(factor: float) -> Callable[[Network], Network]:
    """More or fewer samples at every intermediate exit."""

    def change(network: Network) -> Network:
        early = [Exit(name=exit_.name, rate=factor * exit_.rate) for exit_ in network.exits[:-1]]
        last = Exit(name=network.exits[-1].name, rate=1.0 - sum(exit_.rate for exit_ in early))
        return network.model_copy(update={"exits": [*early, last]})

    return change


def _on(change: Callable[[Network], Network]) -> Callable[[Cell], Cell]:
    return lambda cell: cell.on(change(cell.point.site.npu.network))


def _misprint(cell: Cell) -> Cell:
    """Table I's own words for Inception-v3 on ZCU104."""
    return cell.engine(tile=Tile(6832, 10, 172)) if cell.point.site.keys.label == "inception_v3 on zcu104" else cell


Change = Callable[[Cell], Cell]
Setting = TypeVar("Setting", str, int)

AS_ASSUMED = "all as assumed"

ABLATION: dict[str, Change] = {
    AS_ASSUMED: lambda cell: cell,
    "heads: pool, linear": _on(_head("pool-linear")),
    "heads: none": _on(_head("none")),
    "exits of inception_v3 after its stem": _on(_placed_deeper),
    "pooling moves nothing": lambda cell: cell.engine(memory_layers=False),
    "no samples side by side (R only)": lambda cell: cell.engine(batching=Batching.ROW),
    "no Stackable PEs": lambda cell: cell.engine(stacking=False),
    "three quarters of the bandwidth": lambda cell: cell.bandwidth(0.75),
    "as built, searched": lambda cell: cell.engine(overlap=Overlap.TILES, tile=None),
    "every design searched": lambda cell: cell.engine(tile=None),
    "the misprinted design": _misprint,
}
"""Assumptions behind Table II, each replaced by another."""

SENSITIVITY: dict[str, Change] = {
    "bandwidth -20 %": lambda cell: cell.bandwidth(0.8),
    "bandwidth +20 %": lambda cell: cell.bandwidth(1.2),
    "exit rates -20 %": _on(_exit_rates(0.8)),
    "exit rates +20 %": _on(_exit_rates(1.2)),
    "heads: pool, linear": _on(_head("pool-linear")),
    "heads twice as wide": _on(_wide_heads),
    "scheduler call 0 us": lambda cell: cell.call(0),
    "scheduler call 100 us": lambda cell: cell.call(100),
    "scheduler call 200 us": lambda cell: cell.call(200),
}
"""Inputs that could be otherwise, and the amount."""


def _study(lab: Lab, contender: str, changes: Mapping[Setting, Change]) -> Iterator[tuple[Setting, str, str, Floats]]:
    """Setting, cell, key of :data:`CELLS`, and values by seed."""
    seeds = lab.scenario("table2").file.seeds[:SEEDS]
    cells = list(_cells(lab, contender))
    for setting, change in changes.items():
        for cell in map(change, cells):
            figures = lab.figures(cell.point, cell.contender, seeds)
            for key, (_, _, metric, scale) in CELLS.items():
                yield setting, cell.point.site.keys.label, key, scale * figures[metric]


def _beside_paper(lab: Lab, contender: str, changes: Mapping[Setting, Change]) -> list[Row]:
    """Table II's figures of a contender under each setting; a number is a place on the axis."""
    paper = {line["case"]: line[contender] for line in PUBLISHED["table2"]}
    rows = []
    for setting, cell, key, values in _study(lab, contender, changes):
        of, x = (setting, None) if isinstance(setting, str) else (contender, float(setting))
        quantity, unit, _, _ = CELLS[key]
        worth = WORTH[contender] if setting == AS_ASSUMED else ASSUMED
        rows.append(row(quantity, of, cell, unit, values, paper[cell][key], x, basis=worth))
    return rows


def ablation(lab: Lab) -> Item:
    """Contribution of each assumption to FluidB's cells of Table II."""
    note = "One assumption at a time is replaced. The design stays the same, except in the rows that say otherwise."
    rows = _beside_paper(lab, "FluidB", ABLATION)
    return Item("ablation", "What each assumption contributes to Table II", [note, FEWER], rows, picture="dots")


CALLS_US = (0, 25, 50, 75, 100, 125, 150)
"""Times of a scheduler call that are tried for LazyBatching, in microseconds."""


def calls(lab: Lab) -> Item:
    """Distance of LazyBatching to Table II with one time of a scheduler call, the same for all cells."""
    rows = _beside_paper(lab, "LazyBatching", {us: methodcaller("call", us) for us in CALLS_US})

    def error(quantity: str, us: int) -> float:
        own = [row_.difference or 0.0 for row_ in rows if (row_.quantity, row_.x) == (quantity, us)]
        return float(np.sqrt(np.mean(np.square(own))))

    best = [min(CALLS_US, key=partial(error, quantity)) for quantity in ("mean latency", "violations")]
    lazy = next(contender for contender in lab.scenario("table2").contenders if contender.name == "LazyBatching")
    taken = round(1e6 * lazy.policy.call_s)
    note = (
        "These figures show how near one time of a scheduler call, the same for all cells, brings LazyBatching to the "
        f"paper. The root mean square difference over the four cells is least at {best[0]} us for latency and at "
        f"{best[1]} us for violations. The scenarios take {taken} us, where it is "
        f"{error('mean latency', taken):.0f} % and {error('violations', taken):.1f} points."
    )
    title = "LazyBatching in Table II by the time of a scheduler call; the paper's figure dashed"
    return Item("calls", title, [note, FEWER], rows, "scheduler call, us", picture="cells")


def sensitivity(lab: Lab) -> Item:
    """Shift of Table II when an input is off."""
    rows = []
    for contender in ("FluidB", "LazyBatching"):
        base = {(cell, key): values for _, cell, key, values in _study(lab, contender, {"": lambda cell: cell})}
        for name, cell, key, values in _study(lab, contender, SENSITIVITY):
            of, before = f"{contender}, {name}", base[cell, key]
            if key == "mean_ms":
                rows.append(row("change of mean latency", of, cell, "%", 100 * (values / before - 1), basis=ASSUMED))
            else:
                rows.append(row("change of violations", of, cell, "points", values - before, basis=ASSUMED))
    note = (
        "These are changes to Table II's cells, paired by seed, on the same designs. We assume that a scheduler call "
        "takes 0 us for FluidB and 50 us for LazyBatching."
    )
    return Item("sensitivity", "How Table II moves with its inputs", [note, FEWER], rows, picture="dots")
