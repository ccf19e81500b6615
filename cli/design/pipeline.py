"""``fluidb pipeline``: images that follow each other on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import AsJson, Force, argument, duration, option, written
from ..render import facts, ms, note, percent, show, table

GROUPS = "Equal groups of devices that serve side by side; DIR is the partition over one of them."
LATENCY = "Longest time of an image to the end; any if not given."


def command(
    directory: Annotated[
        Path, argument("A partition's folder, written by `fluidb dse NETWORK CLUSTER -o DIR`.", "DIR")
    ],
    latency: Annotated[str | None, option(LATENCY, "DURATION")] = None,
    groups: Annotated[int, option(GROUPS, min=1, max=64)] = 1,
    output: Annotated[Path | None, written("Write the latency table of the schedule here, for serve-sim.")] = None,
    timeline: Annotated[Path | None, option("Write the schedule for ui.perfetto.dev (JSON).", "FILE")] = None,
    images: Annotated[int | None, option("Images of the timeline.  [default: 8]", min=1, max=1000)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Say what images that follow each other gain on a cluster.

    While one image is on the links, another one is on the processors. Lists
    schedules: the more images a second, the longer each of them takes. The first
    that is within --latency is written (`fluidb docs edgesp`).
    """
    from ...dse.partition.schedule import pipelined_table, pipelining
    from ...dse.partition.tabulate import check_folder, write_partition
    from ...dse.partition.timeline import write_partition_timeline
    from ...formats import InputError, check_free
    from ...tables.partition import read_partition

    if output is not None:
        check_folder(output, replace=force)
    if timeline is not None:
        check_free(timeline, force)
    elif images is not None:
        raise InputError("--images: would change nothing without --timeline; add a timeline or leave it out")
    partition, most_s = read_partition(directory), duration(latency, "--latency")
    found = pipelining(partition)
    chosen = found.choices[0] if most_s is None else found.within(most_s)
    if chosen is None:
        raise InputError(
            f"--latency: expected at least {ms(found.alone_s)}, the time of an image alone, found {latency}"
        )
    lanes = None
    if output is not None:
        lanes = write_partition(output, partition, pipelined_table(partition, chosen, groups), replace=force).lanes
    if timeline is not None:
        write_partition_timeline(partition, chosen, images or 8, timeline, replace=force)
    exits = len(partition.exits) > 1
    about = facts(
        {
            "partition": f"{partition.network} on {len(partition.devices)} devices of {partition.cluster.name}",
            "groups": f"{groups}, side by side: images/s are those of all of them" if groups > 1 else None,
            "one at a time": f"{groups / found.average_s:,.2f} images/s, {ms(found.alone_s)} to the end",
            "average": f"{ms(found.average_s)} over the exits" if exits else None,
            "chosen": f"{groups / chosen.mean_interval_s:,.2f} images/s, {ms(chosen.latency_s)} to the end: "
            f"{found.gain(chosen):.2f} times as many",
            "bound": f"{found.most_gain:.2f} times as many: the busiest device or link is never idle",
        }
    )
    choices = [
        (
            ms(item.mean_interval_s),
            f"{groups / item.mean_interval_s:,.2f}",
            f"{found.gain(item):.2f}",
            ms(item.latency_s),
            item.in_flight,
            "*" if item is chosen else "",
        )
        for item in found.choices
    ]
    longest_s = max(found.busy_s.values())
    busy = [
        (name, ms(time_s), *(percent(time_s / whole_s, 1) for whole_s in (found.alone_s, chosen.interval_s)),
         "*" if time_s == longest_s else "")
        for name, time_s in found.busy_s.items()
    ]  # fmt: skip
    text = [
        about,
        table(["interval", "images/s", "gain", "latency", "on their way", "chosen"], choices),
        table(["link or processor", "an image takes", "busy one at a time", "busy now", "busiest"], busy),
    ]
    record = {
        "partition": directory,
        "output": output,
        "lanes": lanes,
        "groups": groups,
        "alone_s": found.alone_s,
        "average_s": found.average_s,
        "busiest_s": found.busiest_s,
        "most_gain": found.most_gain,
        "busy_s": found.busy_s,
        "chosen": found.choices.index(chosen),
        "choices": [
            {
                "interval_s": item.interval_s,
                "mean_interval_s": item.mean_interval_s,
                "exit_s": item.exit_s,
                "in_flight": item.in_flight,
                "gain": found.gain(item),
            }
            for item in found.choices
        ],
    }
    then = f"; next: fluidb serve-sim {output} --trace FILE --slo 200ms --policy serial:lanes={lanes}"
    show(as_json, "fluidb.pipeline-output/1", record, text, output, then)
    if timeline is not None:
        note(f"wrote {timeline}")
