"""Similar batches for Fluid Batching on its own boards (a question of ours)."""

from __future__ import annotations

from ..lab import Lab, by_seed, row
from ..rows import PREDICTED, Claim, Item, Row

FLUID, SIMILAR = "FluidB", "FluidB, similar"
PANELS = {
    "violations": ("violation_rate", 100.0, "%"),
    "throughput": ("processing_rate_per_s", 1.0, "/s"),
    "variance of depth within batches": ("depth_variance", 1.0, "exits squared"),
}


def batchcond_npu(lab: Lab) -> Item:
    """Similar batches, and BatchCond, beside Fluid Batching."""
    comparison, rows, claims = lab.compare("similar"), list[Row](), list[Claim]()
    for point in comparison.points:
        offline = point.rate_per_s is None
        for contender in point.contenders:
            for quantity, (key, scale, unit) in PANELS.items():
                if offline == (key in ("processing_rate_per_s", "depth_variance")):
                    values = by_seed(contender, key, scale)
                    rows.append(
                        row(quantity, contender.name, point.case, unit, values, x=point.rate_per_s, basis=PREDICTED)
                    )
        if not offline:
            continue
        own, plain = (
            next(
                by_seed(contender, "processing_rate_per_s", 1.0)
                for contender in point.contenders
                if contender.name == name
            )
            for name in (SIMILAR, FLUID)
        )
        gain = 100 * (own / plain - 1)
        claims.append(
            Claim(f"Similar batches raise the throughput of Fluid Batching, {point.case}", "asked by us", "higher",
                  f"{gain.mean():+.2f} %", bool(gain.min() > 0), "not with every seed")
        )  # fmt: skip
    notes = [
        (
            "This is the scenario `similar`: `fluidb compare similar` prints all its figures, with differences and "
            "intervals."
        ),
        "Depths are predicted with a correlation of .71, at no cost.",
    ]
    title = "Similar batches on an NPU: ResNet-50 on ZC706 and ZCU104"
    return Item("batchcond_npu", title, notes, rows, "arrival rate, 1/s", claims)
