"""The schedule of images that follow each other over a partition, its latency table and its timeline."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from ...formats import InputError, check_free, together
from ...tables.files import TABLE_FILES
from ...tables.partition import PartitionTable, read_partition
from .schedule import Pipelining, Schedule, pipelined_table, pipelining
from .tabulate import PARTITION_FOLDER, write_partition
from .timeline import write_partition_timeline

IMAGES = 8
"""Images of a timeline."""


class ChosenSchedule(NamedTuple):
    """A schedule of a partition; ``lanes`` are the lanes of its latency table, if it was written."""

    partition: PartitionTable
    schedules: Pipelining
    chosen: Schedule
    lanes: int | None


def pipeline_partition(
    folder: Path,
    latency_s: float = math.inf,
    groups: int = 1,
    output: Path | None = None,
    timeline: Path | None = None,
    *,
    replace: bool = False,
) -> ChosenSchedule:
    """The schedule with the most images a second within a latency, for equal groups side by side, and its files."""
    PARTITION_FOLDER.check(output, replace, apart=[folder])
    if timeline is not None:
        check_free(timeline, replace, apart=[output, *(folder / name for name in TABLE_FILES)])
    partition = read_partition(folder)
    schedules = pipelining(partition)
    chosen = schedules.within(latency_s)
    if chosen is None:
        raise InputError(
            f"latency: expected at least {1e3 * schedules.alone_s:.3g} ms, the time of an image alone, found "
            f"{1e3 * latency_s:.3g} ms"
        )
    lanes = None
    with together():
        if output is not None:
            table = pipelined_table(partition, chosen, groups)
            lanes = write_partition(output, partition, table, replace=replace).lanes
        if timeline is not None:
            write_partition_timeline(partition, chosen, IMAGES, timeline, replace=replace)
    return ChosenSchedule(partition, schedules, chosen, lanes)
