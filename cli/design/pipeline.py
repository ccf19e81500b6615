"""``fluidb pipeline``: images that follow each other on a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..options import AsJson, DevicesFile, Force, argument, duration, option, written
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...dse.partition.pipeline import ChosenSchedule

GROUPS = "Equal groups of devices that serve side by side; DIR is the partition over one of them."
LATENCY = "Longest time of an image to the end; any if not given."


def command(
    directory: Annotated[
        Path, argument("A partition's folder, written by `fluidb dse NETWORK CLUSTER -o DIR`.", "DIR")
    ],
    latency: Annotated[str | None, option(LATENCY, "DURATION")] = None,
    groups: Annotated[int, option(GROUPS, min=1, max=64)] = 1,
    output: Annotated[Path | None, written("Write the latency table of the schedule here, for serve-sim.")] = None,
    timeline: DevicesFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Find how much faster a cluster is when it pipelines images.

    While one image is on the links, another one is on the processors. Lists
    schedules: the more images a second, the longer each of them takes. The first
    that is within --latency is written (`fluidb docs edgesp`).
    """
    from ...dse.partition.pipeline import pipeline_partition

    latency_s = duration(latency, "latency") or math.inf
    found = pipeline_partition(directory, latency_s, groups, output, timeline, replace=force)
    record = {"partition": directory, "output": output, "lanes": found.lanes, "groups": groups, **_record(found)}
    then = f"; next: fluidb serve-sim {output} --trace FILE --slo 200ms --policy serial:lanes={found.lanes}"
    show(as_json, "fluidb.pipeline-output/1", record, _text(found, groups), output, then, [timeline])


def _record(found: ChosenSchedule) -> dict[str, Any]:
    schedules = found.schedules
    return {
        "alone_s": schedules.alone_s,
        "average_s": schedules.average_s,
        "busiest_s": schedules.busiest_s,
        "most_gain": schedules.most_gain,
        "busy_s": schedules.busy_s,
        "chosen": schedules.choices.index(found.chosen),
        "choices": [
            {
                "interval_s": item.interval_s,
                "mean_interval_s": item.mean_interval_s,
                "exit_s": item.exit_s,
                "in_flight": item.in_flight,
                "gain": schedules.gain(item),
            }
            for item in schedules.choices
        ],
    }


def _text(found: ChosenSchedule, groups: int) -> Iterator[str]:
    partition, schedules, chosen = found.partition, found.schedules, found.chosen
    yield facts(
        {
            "partition": f"{partition.network} on {len(partition.devices)} devices of {partition.cluster.name}",
            "groups": f"{groups}, side by side: images/s are those of all of them" if groups > 1 else None,
            "one at a time": f"{groups / schedules.average_s:,.2f} images/s, {ms(schedules.alone_s)} to the end",
            "average": f"{ms(schedules.average_s)} over the exits" if len(partition.exits) > 1 else None,
            "chosen": f"{groups / chosen.mean_interval_s:,.2f} images/s, {ms(chosen.latency_s)} to the end: "
            f"{schedules.gain(chosen):.2f} times as many",
            "bound": f"{schedules.most_gain:.2f} times as many: the busiest device or link is never idle",
        }
    )
    choices = [
        (
            ms(item.mean_interval_s),
            f"{groups / item.mean_interval_s:,.2f}",
            f"{schedules.gain(item):.2f}",
            ms(item.latency_s),
            item.in_flight,
            "*" if item is chosen else "",
        )
        for item in schedules.choices
    ]
    yield table(["interval", "images/s", "gain", "latency", "on their way", "chosen"], choices)
    longest_s = max(schedules.busy_s.values())
    busy = [
        (name, ms(time_s), *(percent(time_s / whole_s, 1) for whole_s in (schedules.alone_s, chosen.interval_s)),
         "*" if time_s == longest_s else "")
        for name, time_s in schedules.busy_s.items()
    ]  # fmt: skip
    yield table(["link or processor", "an image takes", "busy one at a time", "busy now", "busiest"], busy)
