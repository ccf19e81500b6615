"""The figures that replay traffic: Figs. 1a, 7, 8 and 9."""

from __future__ import annotations

from collections.abc import Callable

from ...formats.array_types import Floats
from ...models import Network
from ...platforms import load_platform
from ...studies.comparison import Standing
from ...studies.scenario import GridPoint
from ..lab import Lab, by_seed, row
from ..rows import ASSUMED, PREDICTED, Item, Row
from .npu import fig1b

PANELS: dict[str, tuple[str, Callable[[Standing], Floats]]] = {
    "processing rate": ("/s", lambda standing: by_seed(standing, "processing_rate_per_s", 1.0)),
    "mean latency": ("ms", lambda standing: by_seed(standing, "mean_latency_s", 1e3)),
    "utilisation": ("%", lambda standing: by_seed(standing, "mac_share", 100.0) / by_seed(standing, "busy_share", 1.0)),
    "tail latency": ("ms", lambda standing: by_seed(standing, "p99_latency_s", 1e3)),
}
"""The four panels of Figs. 7 and 8 in the paper's order: unit, and values of a contender by seed."""


UTILISATION = (
    "Utilisation is the share of its MACs that the NPU makes while it is busy. The paper does not define the word."
)

DRAWN = "The paper draws this figure and prints no values. The item claims judges what its text says of it."

RATE_PER_S = 25.0
"""Arrival rate of Fig. 1a."""


def _worth(name: str) -> str:
    """Basis of a contender's figures: the time of LazyBatching's scheduler calls has no source."""
    return ASSUMED if name == "LazyBatching" else PREDICTED


def _sweep(lab: Lab, name: str, title: str) -> Item:
    rows = []
    for point in lab.compare(name).points:
        for standing in point.contenders:
            for panel, (unit, values) in PANELS.items():
                worth, x = _worth(standing.name), point.rate_per_s
                rows.append(row(panel, standing.name, point.case, unit, values(standing), x=x, basis=worth))
    return Item(name, title, [DRAWN, UTILISATION], rows, "arrival rate, 1/s")


def fig7(lab: Lab) -> Item:
    """ResNet-50 on ZC706 from light to heavy traffic."""
    return _sweep(lab, "fig7", "Fig. 7: 4-exit ResNet-50 on ZC706, SLO 400 ms")


def fig8(lab: Lab) -> Item:
    """Inception-v3 on ZCU104 from light to heavy traffic."""
    return _sweep(lab, "fig8", "Fig. 8: 4-exit Inception-v3 on ZCU104, SLO 200 ms")


def fig9(lab: Lab) -> Item:
    """Violations as the SLO is relaxed."""
    rows = []
    for point in lab.compare("fig9").points:
        slo_ms = 1e3 * (point.slo_s or 0.0)
        rows += [
            row(
                "violations", standing.name, point.case, "%", by_seed(standing, "violation_rate", 100.0), x=slo_ms,
                basis=_worth(standing.name),
            )
            for standing in point.contenders
        ]  # fmt: skip
    title = "Fig. 9: violations by SLO, 15 /s on ZC706 and 35 /s on ZCU104"
    return Item("fig9", title, [DRAWN], rows, "tail latency SLO, ms")


def fig1a(lab: Lab) -> Item:
    """Utilisation with and without exits."""
    scenario = lab.scenario("fig7")
    contenders = {contender.name: contender for contender in scenario.contenders}
    point = next(point for point in scenario.points if point.rate_per_s == RATE_PER_S)
    rows: list[Row] = []
    for board in ("zc706", "zcu104"):
        for network, label in ((point.site.npu.network.backbone(), "no exits"), (point.site.npu.network, "4 exits")):
            here = _at(point, network, board)
            for name in ("SERIAL", "R-AdaptB-M"):
                figures = lab.figures(here, contenders[name], scenario.file.seeds)
                values = 100 * figures["mac_share"] / figures["busy_share"]
                rows.append(row("utilisation", f"{name}, {label}", board, "%", values, basis=PREDICTED))
    use = {(row_.at, row_.of): row_.ours for row_ in rows}
    changes = [
        f"{use[board, 'R-AdaptB-M, 4 exits'] - use[board, 'R-AdaptB-M, no exits']:+.1f} points on {board}"
        for board in ("zc706", "zcu104")
    ]
    shape = f"Exits change the utilisation of R-AdaptB-M by {', '.join(changes)}; Fig. 1a draws a loss (see claims)."
    notes = [shape, f"{DRAWN} {UTILISATION} Batches are formed by R-AdaptB-M under an SLO of 400 ms."]
    return Item("fig1a", "Fig. 1a: what exits do to utilisation, ResNet-50 at 25 /s", notes, rows)


def fig1(lab: Lab) -> Item:
    """Both halves of Fig. 1."""
    left, right = fig1a(lab), fig1b(lab)
    title = f"{left.title}; {right.title}"
    return Item("fig1", title, left.notes + right.notes, left.rows + right.rows, picture="bars")


def _at(point: GridPoint, network: Network, board: str) -> GridPoint:
    return point._replace(site=point.site.with_npu(network=network, platform=load_platform(board)))
