"""Whether similar batches help Fluid Batching on its own boards (asked by us)."""

from __future__ import annotations

from ..lab import Lab, by_seed, row
from ..rows import Item

PANELS = {
    "mean latency": ("mean_latency_s", 1e3, "ms"),
    "violations": ("violation_rate", 100.0, "%"),
    "variance of depth in a batch": ("depth_variance", 1.0, ""),
}


def batchcond_npu(lab: Lab) -> Item:
    """Similar batches, and BatchCond, beside Fluid Batching."""
    found, rows, claims = lab.compare("similar"), [], []
    for point in found.points:
        for item in point.contenders:
            rows += [
                row(
                    quantity,
                    item.name,
                    point.case,
                    unit,
                    by_seed(item, key, scale),
                    x=point.rate_per_s,
                    basis="predicted",
                )
                for quantity, (key, scale, unit) in PANELS.items()
            ]
    return Item("batchcond_npu", "Similar batches on an NPU", [], rows, "arrival rate, 1/s", claims)
