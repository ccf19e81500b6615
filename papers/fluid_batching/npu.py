"""The figures that need no traffic: Figs. 1b and 10."""

from __future__ import annotations

from ...dse.npu.choices import Batching
from ...dse.npu.latency import tabulate_latency
from ...dse.npu.search import configure
from ...models import Network, load_network
from ...platforms import load_platform
from ..lab import Lab, design, paper_options
from ..rows import PREDICTED, Item, Row

UNIFORM = {"serial": Batching.NONE, "FC": Batching.FC, "R": Batching.ROW, "P": Batching.COLUMN}
"""Batching strategies that treat all layers alike."""
STRATEGIES = {name: (batching, False) for name, batching in UNIFORM.items()} | {
    "Fluid Batching": (Batching.FLUID, False),
    "with Stackable PEs": (Batching.FLUID, True),
}
"""Batching strategies of Fig. 10, and whether PEs stack."""

BATCH = 8


def without_heads(network: Network) -> Network:
    """The same stages, no heads."""
    return network.model_copy(update={"layers": [layer for layer in network.layers if not layer.in_head]})


def fig1b(_: Lab) -> Item:
    """Throughput of four groups of layers under uniform strategies."""
    network, platform = without_heads(load_network("resnet50")), load_platform("zc706")
    weights = [float(b == BATCH) for b in range(1, BATCH + 1)]
    rows = []
    for name, batching in UNIFORM.items():
        options = paper_options(batching=batching, stacking=False, weights=weights)
        design_table, fbcb = design(network, platform, options)
        times = tabulate_latency(design_table, fbcb).stage_array()[0, :, -1].tolist()
        for stage, time_s in enumerate(times, 1):
            macs = sum(layer.gemm.macs for layer in network.layers if layer.gemm and layer.stage == stage)
            gop_s = 2e-9 * macs * BATCH / time_s
            rows.append(Row("throughput", name, f"subnet {stage}", "GOP/s", gop_s, basis=PREDICTED))
    peak = 2e-9 * platform.macs_per_cycle * platform.clock_hz
    rows += [Row("throughput", "peak", f"subnet {stage}", "GOP/s", peak, basis=PREDICTED) for stage in range(1, 5)]
    note = (
        "The paper draws this figure and prints no values. Each strategy has the design that is searched for it at "
        "a batch of 8; the subnets end at the exits and bear no heads."
    )
    return Item("fig1b", "Fig. 1b: ResNet-50 on ZC706, throughput of four subnets at a batch of 8", [note], rows)


def fig10(_: Lab) -> Item:
    """Throughput by batch size: uniform strategies, Fluid Batching, Stackable PEs."""
    rows, alike = [], []
    for network_name, platform_name in (("resnet50", "zc706"), ("inception_v3", "zcu104")):
        network, platform = load_network(network_name).backbone(), load_platform(platform_name)
        at = f"{network_name} on {platform_name}"
        for name, (batching, stacking) in STRATEGIES.items():
            design_table = design(network, platform, paper_options(batching=batching, stacking=stacking))[0]
            if name == "Fluid Batching":
                chosen = configure(network, platform, design_table.tile, design_table.options).B_R[:, -1]
                alike.append(f"in {(chosen == 1).sum()} of {chosen.size} products of {at}")
            by_batch = dict(enumerate(design_table.gop_s, 1))
            rows += [Row("throughput", name, at, "GOP/s", by_batch[b], x=b, basis=PREDICTED) for b in by_batch]
        peak = 2e-9 * platform.macs_per_cycle * platform.clock_hz
        rows += [Row("throughput", "peak", at, "GOP/s", peak, x=b, basis=PREDICTED) for b in range(1, BATCH + 1)]
    notes = [
        f"At a batch of {BATCH} the best layout of Fluid Batching is P's, B_R = 1, {' and '.join(alike)}.",
        "The paper draws this figure and prints no values. Every strategy's design is searched with all w_b = 1.",
    ]
    return Item("fig10", "Fig. 10: throughput by batch size on backbones without exits", notes, rows, "batch size")
