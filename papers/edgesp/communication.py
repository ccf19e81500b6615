"""Fig. 6: the data that AlexNet's devices send, and the time to send it."""

from __future__ import annotations

from itertools import pairwise

from ...dse.partition.study import study
from ...tables.partition import PartitionOptions
from ..lab import Lab
from ..rows import PREDICTED, Claim, Item, Row
from .cluster import cluster, network

COUNTS = tuple(range(1, 7))
BANDWIDTHS = (25, 50, 75, 100, 125, 150)
"""Mb/s; the paper's axis has no numbers in its text."""


def edgesp_fig6(lab: Lab) -> Item:
    """Data, time and share of the time by number of devices and bandwidth, for a sample that runs to the end."""
    del lab  # nothing is drawn
    rows, time_ms, share = [], {}, {}
    sent: list[float] = []
    for bandwidth in BANDWIDTHS:
        wired = cluster("A").with_bandwidth(bandwidth)
        for item in study(network("alexnet_cifar10"), wired, PartitionOptions(), COUNTS):
            table, count = item.every, len(item.every.devices)
            if bandwidth == 100:
                sent.append(table.communication_bytes / 1e6)
                rows.append(
                    Row("data sent", "100 Mb/s", "over devices", "MB", sent[-1], x=float(count), basis=PREDICTED)
                )
            time_ms[count, bandwidth] = 1e3 * table.communication_s
            share[count, bandwidth] = 100 * table.communication_s / table.exit_s[-1]
    for count in COUNTS[1:]:
        for bandwidth in BANDWIDTHS:
            where = (f"{count} devices", "over bandwidth, Mb/s")
            values = (("time to send", "ms", time_ms), ("share of the time", "%", share))
            rows += [
                Row(quantity, *where, unit, by[count, bandwidth], x=float(bandwidth), basis=PREDICTED)
                for quantity, unit, by in values
            ]
    grows = all(before <= after for before, after in pairwise(sent))
    falls = [n for n, (before, after) in enumerate(pairwise(sent), 2) if after < before]
    fewer = [time_ms[2, b] > time_ms[COUNTS[-1], b] for b in BANDWIDTHS]
    faster = all(time_ms[n, a] >= time_ms[n, b] for n in COUNTS[1:] for a, b in pairwise(BANDWIDTHS))
    shares = all(share[2, b] < share[COUNTS[-1], b] for b in BANDWIDTHS)
    flat = all(share[n, a] >= share[n, b] for n in COUNTS[1:] for a, b in pairwise(BANDWIDTHS))
    claims = [
        Claim("More devices send more data", "4.3", "grows", ", ".join(f"{mb:.2f}" for mb in sent) + " MB", grows,
              f"with {' and '.join(map(str, falls))} devices other blocks are chosen, which send less"),
        Claim("Fewer devices take longer to send", "4.3", "longer",
              f"2 devices {time_ms[2, 100]:.1f} ms, 6 devices {time_ms[6, 100]:.1f} ms at 100 Mb/s", all(fewer),
              "at some bandwidths the blocks that are chosen differ"),
        Claim("The time falls with the bandwidth", "4.3", "falls", "falls" if faster else "not always", faster,
              "with more bandwidth layers are fused less, so that more is sent"),
        Claim("The share is higher with more devices", "4.3", "higher",
              f"2 devices {share[2, 100]:.0f} %, 6 devices {share[6, 100]:.0f} % at 100 Mb/s", shares),
        Claim("The share falls with the bandwidth", "4.3", "falls", "falls" if flat else "not always", flat,
              "with more bandwidth layers are fused less, so that more is sent"),
    ]  # fmt: skip
    notes = ["Preset A, to the last exit. A time is that of the device which finishes a block last, and of gathering."]
    return Item("edgesp_fig6", "Fig. 6: AlexNet's communication", notes, rows, "devices or Mb/s", claims, "cells")
