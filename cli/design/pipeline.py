"""``fluidb pipeline``: images that follow each other on a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...formats.display import as_word
from ..declare import argument, option, written
from ..options import AsJson, DevicesFile, Force, duration
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

    While one image is on the links, another one is on the processors. The command lists
    schedules: with more images a second, each image takes longer. It writes the first schedule
    that is within --latency (`fluidb docs edgesp`).
    """
    from ...dse.partition.pipeline import pipeline_partition

    latency_s = duration(latency, "latency") or math.inf
    pipelined = pipeline_partition(directory, latency_s, groups, output, timeline, replace=force)
    record = {
        "partition": directory,
        "output": output,
        "lanes": pipelined.lanes,
        "groups": groups,
        **_record(pipelined),
    }
    then = f"fluidb serve-sim {as_word(output)} --trace FILE --slo 200ms --policy serial:lanes={pipelined.lanes}"
    show(as_json, "fluidb.pipeline-output/1", record, _text(pipelined, groups), output, then, [timeline])


def _record(pipelined: ChosenSchedule) -> dict[str, Any]:
    schedules = pipelined.schedules
    return {
        "alone_s": schedules.alone_s,
        "average_s": schedules.average_s,
        "busiest_s": schedules.busiest_s,
        "most_gain": schedules.most_gain,
        "busy_s": schedules.busy_s,
        "chosen": schedules.choices.index(pipelined.chosen),
        "choices": [
            {
                "interval_s": schedule.interval_s,
                "mean_interval_s": schedule.mean_interval_s,
                "exit_s": schedule.exit_s,
                "in_flight": schedule.in_flight,
                "gain": schedules.gain(schedule),
            }
            for schedule in schedules.choices
        ],
    }


def _text(pipelined: ChosenSchedule, groups: int) -> Iterator[str]:
    partition, schedules, chosen = pipelined.partition, pipelined.schedules, pipelined.chosen
    yield facts(
        {
            "partition": f"{partition.network} on {len(partition.devices)} devices of {partition.cluster.name}",
            "groups": f"{groups}, side by side: images/s are the sum of all" if groups > 1 else None,
            "one at a time": f"{groups / schedules.average_s:,.2f} images/s, {ms(schedules.alone_s)} to the end",
            "average": f"{ms(schedules.average_s)} over the exits" if len(partition.exits) > 1 else None,
            "chosen": f"{groups / chosen.mean_interval_s:,.2f} images/s, {ms(chosen.latency_s)} to the end: "
            f"{schedules.gain(chosen):.2f} times as many",
            "bound": f"{schedules.most_gain:.2f} times as many: the busiest device or link is never idle",
        }
    )
    choices = [
        (
            ms(schedule.mean_interval_s),
            f"{groups / schedule.mean_interval_s:,.2f}",
            f"{schedules.gain(schedule):.2f}",
            ms(schedule.latency_s),
            schedule.in_flight,
            "*" if schedule is chosen else "",
        )
        for schedule in schedules.choices
    ]
    yield table(["interval", "images/s", "gain", "latency", "on their way", "chosen"], choices)
    longest_s = max(schedules.busy_s.values())
    busy = [
        (name, ms(time_s), *(percent(time_s / whole_s, 1) for whole_s in (schedules.alone_s, chosen.interval_s)),
         "*" if time_s == longest_s else "")
        for name, time_s in schedules.busy_s.items()
    ]  # fmt: skip
    yield table(["link or processor", "an image takes", "busy one at a time", "busy now", "busiest"], busy)
