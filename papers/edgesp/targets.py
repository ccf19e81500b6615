"""Fig. 7: the accuracy that a latency requirement allows."""

from __future__ import annotations

import numpy as np

from ...dse.partition.study import study
from ...rules.exit_shares import shares_of_latest
from ...tables.partition import PartitionOptions, counted_devices
from ..lab import Lab
from ..rows import CALIBRATED, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .cluster import cluster, network, over_devices

ACCURACY = (76.6, 78.5, 79.2)
"""Accuracy of each exit of AlexNet, in %. The paper prints the first and the last one, for all samples leaving there.
Nothing depends on the second one, as no sample leaves there."""

TARGETS_MS = np.arange(10, 91, 2.5)


def edgesp_fig7(_: Lab) -> Item:
    """AlexNet's average accuracy over the requirement, for one, two and six devices."""
    partitions = {len(studied.every.devices): studied.every for studied in over_devices("alexnet_cifar10", "A")}
    rows: list[Row] = []
    for printed in PUBLISHED["time"]:
        ours = 1e3 * partitions[printed["devices"]].exit_s[printed["exit"] - 1]
        where = f"exit {printed['exit']}, {printed['bound']}"
        rows.append(
            Row("time", counted_devices(printed["devices"]), where, "ms", ours, paper=printed["ms"], basis=CALIBRATED)
        )
    for printed in PUBLISHED["accuracy"]:
        count, target_ms = printed["devices"], printed["target_ms"]
        ours = accuracy_within(partitions[count].exit_s, target_ms)
        basis = PREDICTED if count == 1 else CALIBRATED  # rates also by six devices, which need about 25 ms to the end
        rows.append(
            Row("average accuracy", counted_devices(count), f"within {target_ms:g} ms", "%", ours,
                paper=printed["accuracy"], basis=basis)
        )  # fmt: skip
    for count in (1, 2, 6):
        times = partitions[count].exit_s
        rows += [
            Row("accuracy lost to exits", counted_devices(count), "AlexNet", "points",
                ACCURACY[-1] - accuracy_within(times, target), x=float(target))
            for target in TARGETS_MS
            if 1e-3 * target >= times[0]
        ]  # fmt: skip
    first = [1e3 * partitions[count].exit_s[0] for count in (1, 2)]
    slow, fast = (line["ms"] for line in PUBLISHED["time"][:2])
    reason = (
        f"no rate of the devices fits both statements: where one device takes {slow:g} ms, two take "
        f"{_first_exit_ms(first[0] / slow):.1f} ms, more than {fast:g} ms"
    )
    better = accuracy_within(partitions[6].exit_s, 24.0) - accuracy_within(partitions[2].exit_s, 24.0)
    claims = [
        Claim(f"One device cannot answer within {slow:g} ms", "4.4", f"> {slow:g} ms", f"{first[0]:.1f} ms",
              first[0] > slow, reason, CALIBRATED),
        Claim(f"Two devices answer within {fast:g} ms", "4.4", f"<= {fast:g} ms", f"{first[1]:.1f} ms",
              first[1] <= fast, reason, CALIBRATED),
        Claim("More devices allow a higher accuracy within the same time", "4.4", "76.6 and 79 % at 24 ms",
              f"{better:+.1f} points from two to six devices", better > 0, basis=CALIBRATED),
    ]  # fmt: skip
    notes = [
        "ResNet-50 and ResNet-101 are left out: the paper prints no accuracy of their exits.",
        "The curves show how much lower the accuracy is than at the last exit.",
        (
            "As many samples take the last exit as the requirement allows. A requirement below the time of exit 1 "
            "is not met."
        ),
    ]
    return Item("edgesp_fig7", "Fig. 7: accuracy within a latency requirement", notes, rows, "ms", claims)


def _first_exit_ms(speed: float) -> float:
    """Time to exit 1 on the first two devices of preset A, if all compute faster by a factor."""
    owner = cluster("A")
    devices = [device.model_copy(update={"gflop_s": speed * device.gflop_s}) for device in owner.devices]
    changed = owner.model_copy(update={"devices": devices})
    (studied,) = study(network("alexnet_cifar10"), changed, PartitionOptions(), [2])
    return 1e3 * studied.every.exit_s[0]


def accuracy_within(exit_s: list[float], target_ms: float) -> float:
    """The average accuracy in % with the shares of exits that a requirement allows."""
    shares = shares_of_latest(np.array(exit_s), 1e-3 * target_ms)
    return float(shares @ np.array(ACCURACY))
