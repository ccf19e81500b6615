"""Fig. 7: the accuracy that a latency requirement allows."""

from __future__ import annotations

import numpy as np

from ...rules.exit_shares import shares_of_latest
from ..lab import Lab
from ..rows import CALIBRATED, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .cluster import over_devices

ACCURACY = (76.6, 78.5, 79.2)
"""Of AlexNet's exits, in %. The paper prints the first and the last, where all samples leave there; nothing depends on
the one between, as no sample leaves there."""

_REASON = "no rate fits both: one that is low enough for 38 ms on one device is too low for 24 ms on two"

TARGETS_MS = np.arange(10, 91, 2.5)


def edgesp_fig7(lab: Lab) -> Item:
    """AlexNet's average accuracy over the requirement, for one, two and six devices."""
    del lab  # nothing is drawn
    found = {len(item.every.devices): item.every for item in over_devices("alexnet_cifar10", "A")}
    rows: list[Row] = []
    for printed in PUBLISHED["time"]:
        ours = 1e3 * found[printed["devices"]].exit_s[printed["exit"] - 1]
        where = f"exit {printed['exit']}, {printed['bound']}"
        rows.append(Row("time", _devices(printed["devices"]), where, "ms", ours, paper=printed["ms"], basis=CALIBRATED))
    for printed in PUBLISHED["accuracy"]:
        count, target_ms = printed["devices"], printed["target_ms"]
        ours = accuracy_within(found[count].exit_s, target_ms)
        basis = CALIBRATED if count == 2 else PREDICTED
        rows.append(
            Row("average accuracy", _devices(count), f"within {target_ms:g} ms", "%", ours,
                paper=printed["accuracy"], basis=basis)
        )  # fmt: skip
    for count in (1, 2, 6):
        times = found[count].exit_s
        rows += [
            Row("accuracy lost to exits", _devices(count), "AlexNet", "points",
                ACCURACY[-1] - accuracy_within(times, target), x=float(target))
            for target in TARGETS_MS
            if 1e-3 * target >= times[0]
        ]  # fmt: skip
    first = [1e3 * found[count].exit_s[0] for count in (1, 2, 6)]
    better = accuracy_within(found[6].exit_s, 24.0) - accuracy_within(found[2].exit_s, 24.0)
    claims = [
        Claim("One device cannot answer within 38 ms", "4.4", "> 38 ms", f"{first[0]:.1f} ms", bool(first[0] > 38),
              _REASON),
        Claim("Two devices answer within 24 ms", "4.4", "<= 24 ms", f"{first[1]:.1f} ms", bool(first[1] <= 24),
              _REASON),
        Claim("More devices allow a higher accuracy within the same time", "4.4", "76.6 and 79 % at 24 ms",
              f"{better:+.1f} points from two to six devices", better > 0),
    ]  # fmt: skip
    notes = [
        "ResNet-50 and ResNet-101 are left out: the paper prints no accuracy of their exits.",
        "The curves are drawn as what is lost against the accuracy of the last exit.",
        "Shares are the most of the last exit that the requirement allows; a requirement below exit 1 is not met.",
    ]
    return Item("edgesp_fig7", "Fig. 7: accuracy within a latency requirement", notes, rows, "ms", claims)


def _devices(count: int) -> str:
    return "one device" if count == 1 else f"{count} devices"


def accuracy_within(exit_s: list[float], target_ms: float) -> float:
    """The average accuracy in % with the shares of exits that a requirement allows."""
    shares = shares_of_latest(np.array(exit_s), 1e-3 * target_ms)
    return float(shares @ np.array(ACCURACY))
