"""The timeline of a partition's links and processors, for Perfetto and Chrome's tracing page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...formats import write_file
from ...formats.trace_events import Event, slice_event, timeline_text, track_names
from ...tables.partition import PartitionTable
from .schedule import Schedule, busy_s

SCHEMA = "fluidb.partition-timeline/1"


def timeline_events(table: PartitionTable, choice: Schedule, images: int) -> Iterator[Event]:
    """Events of images that follow each other; a track for each link and processor."""
    tracks = {name: number for number, name in enumerate(busy_s(table))}
    yield from track_names(table.cluster.name, {number: name for name, number in tracks.items()})
    for image in range(images):
        start_s = image * choice.interval_s
        for task in choice.tasks:
            args: Event = {"image": image + 1, "stage": task.stage}
            begin_s, end_s = start_s + task.begin_s, start_s + task.end_s
            yield slice_event(f"{task.step} {image + 1}", begin_s, end_s, tracks[task.resource], args)


def write_partition_timeline(
    table: PartitionTable, choice: Schedule, images: int, path: Path, *, replace: bool = True
) -> None:
    """Write a timeline (``docs/file-formats.md``), whole or not at all."""
    header = {"schema": SCHEMA, "network": table.network, "images": images, "interval_s": choice.interval_s}
    write_file(path, timeline_text(header, timeline_events(table, choice, images)), replace=replace)
