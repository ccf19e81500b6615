"""Picture of ``fluidb dse`` over a growing cluster: the gain of each further device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dse.partition.study import Study
from ..tables.partition import counted_devices
from .canvas import COLOURS, canvas, describe, durations

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_devices(studies: Sequence[Study]) -> Figure:
    """Draw the average time and the data sent over the number of devices."""
    counts, every = [len(study.every.devices) for study in studies], [study.every for study in studies]
    name, scale = durations(max(partition.average_s for partition in every))
    with canvas(6.0, 5.0) as figure:
        above, below = figure.subplots(2, 1, sharex=True)
        above.plot(counts, [scale * partition.average_s for partition in every], marker="o", label="all devices")
        sent_s = [scale * partition.communication_s for partition in every]
        above.plot(counts, sent_s, marker="^", color=COLOURS[3], label="communication, last exit")
        above.set(ylabel=f"average time, {name}", ylim=(0, None))
        above.legend()
        below.plot(counts, [partition.communication_bytes / 1e6 for partition in every], marker="^", color=COLOURS[3])
        below.set(xlabel="devices", ylabel="sent, MB", ylim=(0, None), xticks=counts)
        best = min(every, key=lambda partition: partition.average_s)
        said = f"The average time is shortest with {counted_devices(len(best.devices))}: {1e3 * best.average_s:.4g} ms."
        where = f"{every[0].network} over {every[0].cluster.name}, rule {every[0].options.rule}"
        return describe(figure, f"Average time and data sent over the number of devices, {where}", said)
