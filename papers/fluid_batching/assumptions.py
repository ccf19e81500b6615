"""What Table II owes to each assumption: the ablation, and how far it moves when one is off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...dse.search import SearchOptions
from ...dse.space import Batching
from ...experiments.scenarios import Entrant, Point
from ...formats import read_toml
from ...models import NETWORKS, Exit, Network
from ...models.loader import build_network
from ...models.schema import Conv, ExitFile, GlobalPool, Linear, NetworkFile, Op
from ...serving.scheduler import find_policy
from .lab import Lab, published, row
from .rows import Item
from .tables import CELLS

SEEDS = 5
"""Seeds of a study: enough to see what an assumption is worth."""

FEWER = f"The first {SEEDS} seeds of Table II."

DEEPER = {"inception_v3": ("maxpool2", "Mixed_6a", "Mixed_6d")}
"""The exits nearest to equal MACs if they need not end an Inception block (/docs/model.md, Exits)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Table II, ready to be changed.

    Attributes
    ----------
    point : Point
        Network, board, SLO, rate.
    entrant : Entrant
        Who.
    options : SearchOptions
        Its NPU, with the design given.
    """

    point: Point
    entrant: Entrant
    options: SearchOptions

    def on(self, network: Network) -> Cell:
        """The same with another network."""
        return replace(self, point=self.point._replace(site=replace(self.point.site, network=network)))

    def engine(self, **changes: object) -> Cell:
        """The same on another NPU."""
        return replace(self, options=self.options.model_copy(update=changes))

    def bandwidth(self, factor: float) -> Cell:
        """The same with another off-chip bandwidth."""
        site = self.point.site
        board = site.platform.model_copy(update={"bandwidth_gb_s": factor * site.platform.bandwidth_gb_s})
        return replace(self, point=self.point._replace(site=replace(site, platform=board)))

    def call(self, microseconds: int) -> Cell:
        """The same with another time of a scheduler call."""
        spec = f"{self.entrant.spec.partition(':')[0]}:call={f'{microseconds}us' if microseconds else '0'}"
        return replace(self, entrant=replace(self.entrant, spec=spec, contender=find_policy(spec)))


def _cells(lab: Lab, contender: str) -> Iterator[Cell]:
    """Table II's cells of a contender, each on the design that it has there."""
    scenario = lab.scenario("table2")
    entrant = next(item for item in scenario.entrants if item.name == contender)
    for point in scenario.points:
        options = point.site.options(entrant)
        tile = lab.engine(point, options).design.tile
        yield Cell(point, entrant, options.model_copy(update={"tile": list(tile)}))


def _with_exits(network: Network, change: Callable[[ExitFile, int], ExitFile]) -> Network:
    """A shipped network with its exits changed; ``change`` gets the exit and the channels of its map."""
    path = NETWORKS.find(network.name)
    file = read_toml(NetworkFile, path)
    channels = [layer.gemm.P // 9 for layer in network.layers if layer.name.endswith("/conv1") and layer.gemm]
    exits = [change(item, width) for item, width in zip(file.exits, channels, strict=True)]
    return build_network(file.model_copy(update={"exits": exits}), path)


def _head(name: str) -> Callable[[Network], Network]:
    """Another named head at every exit."""
    return lambda network: _with_exits(network, lambda item, _width: item.model_copy(update={"head": name}))


def _wide_heads(network: Network) -> Network:
    """MSDNet's head with convolutions twice as wide."""

    def change(item: ExitFile, width: int) -> ExitFile:
        convs: list[Op] = [
            Conv(op="conv", name=name, out=2 * width, kernel=[3, 3], stride=[2, 2], pad=[1] * 4)
            for name in ("conv1", "conv2")
        ]
        tail: list[Op] = [
            GlobalPool(op="globalavgpool", name="pool"),
            Linear(op="linear", name="linear", out=item.classes or 1),
        ]
        return ExitFile(after=item.after, rate=item.rate, layers=convs + tail)

    return _with_exits(network, change)


def _placed_deeper(network: Network) -> Network:
    """Exits nearest to equal MACs, wherever those fall."""
    names = iter(DEEPER.get(network.name, ()))
    return _with_exits(network, lambda item, _width: item.model_copy(update={"after": next(names, item.after)}))


def _exit_rates(factor: float) -> Callable[[Network], Network]:
    """More or fewer samples at every intermediate exit."""

    def change(network: Network) -> Network:
        early = [Exit(item.name, factor * item.rate) for item in network.exits[:-1]]
        last = Exit(network.exits[-1].name, 1.0 - sum(item.rate for item in early))
        return replace(network, exits=(*early, last))

    return change


def _on(change: Callable[[Network], Network]) -> Callable[[Cell], Cell]:
    return lambda cell: cell.on(change(cell.point.site.network))


def _misprint(cell: Cell) -> Cell:
    """Table I's own words for Inception-v3 on ZCU104."""
    return cell.engine(tile=[6832, 10, 172]) if cell.point.site.name == "inception_v3 on zcu104" else cell


Change = Callable[[Cell], Cell]

ABLATION: dict[str, Change] = {
    "all as assumed": lambda cell: cell,
    "heads: pool, linear": _on(_head("pool-linear")),
    "heads: none": _on(_head("none")),
    "exits of inception_v3 after its stem": _on(_placed_deeper),
    "pooling moves nothing": lambda cell: cell.engine(memory_layers=False),
    "no samples side by side (R only)": lambda cell: cell.engine(batching=Batching.ROW),
    "no Stackable PEs": lambda cell: cell.engine(stacking=False),
    "three quarters of the bandwidth": lambda cell: cell.bandwidth(0.75),
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
"""What could be otherwise, and by how much."""


def _study(lab: Lab, contender: str, changes: dict[str, Change]) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    """Setting, cell, and values by seed of both of Table II's figures."""
    seeds = lab.scenario("table2").file.seeds[:SEEDS]
    cells = list(_cells(lab, contender))
    for name, change in changes.items():
        for cell in map(change, cells):
            found = lab.figures(cell.point, cell.entrant, cell.options, seeds)
            yield (
                name,
                cell.point.site.name,
                {
                    key: scale * np.array([getattr(item, metric) for item in found])
                    for key, (_, _, metric, scale) in CELLS.items()
                },
            )


def ablation(lab: Lab) -> Item:
    """What each assumption contributes to FluidB's cells of Table II."""
    paper = {line["case"]: line["FluidB"] for line in published()["table2"]}
    rows = []
    for name, cell, values in _study(lab, "FluidB", ABLATION):
        for key, (quantity, unit, _, _) in CELLS.items():
            rows.append(row(quantity, name, cell, unit, values[key], paper[cell][key]))
    note = "One assumption at a time is replaced; the design stays, but in the rows that say otherwise."
    return Item("ablation", "What each assumption contributes to Table II", [note, FEWER], rows)


CALLS_US = (0, 25, 50, 75, 100, 125, 150)
"""Times of a scheduler call that are tried for LazyBatching, in microseconds."""


def calls(lab: Lab) -> Item:
    """How near one time of a scheduler call, the same for all cells, brings LazyBatching to Table II."""
    paper = {line["case"]: line["LazyBatching"] for line in published()["table2"]}
    changes: dict[str, Change] = {f"{us} us": (lambda cell, us=us: cell.call(us)) for us in CALLS_US}  # type: ignore[misc]
    rows = []
    for name, cell, values in _study(lab, "LazyBatching", changes):
        for key, (quantity, unit, _, _) in CELLS.items():
            us = float(name.removesuffix(" us"))
            rows.append(row(quantity, "LazyBatching", cell, unit, values[key], paper[cell][key], x=us))
    errors = {
        quantity: [
            float(
                np.sqrt(
                    np.mean(
                        [(item.difference or 0.0) ** 2 for item in rows if (item.quantity, item.x) == (quantity, us)]
                    )
                )
            )
            for us in CALLS_US
        ]
        for quantity in ("mean latency", "violations")
    }
    best = {quantity: CALLS_US[int(np.argmin(values))] for quantity, values in errors.items()}
    taken = {
        round(1e6 * item.contender.call_s) for item in lab.scenario("table2").entrants if item.name == "LazyBatching"
    }
    chosen = CALLS_US.index(taken.pop())
    note = (
        "How near one time of a call, the same for all cells, brings LazyBatching to the paper: the root mean square "
        f"difference over the four cells is least at {best['mean latency']} us for latency and at "
        f"{best['violations']} us for violations. The scenarios take {CALLS_US[chosen]} us: "
        f"{errors['mean latency'][chosen]:.0f} % and {errors['violations'][chosen]:.1f} points."
    )
    title = "LazyBatching in Table II by the time of a scheduler call; the paper's figure dashed"
    return Item("calls", title, [note, FEWER], rows, "scheduler call, us")


def sensitivity(lab: Lab) -> Item:
    """How Table II moves when an input is off."""
    rows = []
    for contender in ("FluidB", "LazyBatching"):
        base = {cell: values for _, cell, values in _study(lab, contender, {"": lambda cell: cell})}
        for name, cell, values in _study(lab, contender, SENSITIVITY):
            latency = 100 * (values["mean_ms"] / base[cell]["mean_ms"] - 1)
            rows.append(row("change of mean latency", f"{contender}, {name}", cell, "%", latency))
            late = values["late_percent"] - base[cell]["late_percent"]
            rows.append(row("change of violations", f"{contender}, {name}", cell, "points", late))
    note = (
        "Changes to Table II's cells, paired by seed, on the same designs; a scheduler call is taken to last 0 us "
        "for FluidB and 50 us for LazyBatching."
    )
    return Item("sensitivity", "How Table II moves with its inputs", [note, FEWER], rows)
