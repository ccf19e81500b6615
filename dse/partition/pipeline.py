"""Files of a partition that serves several images at a time."""

from __future__ import annotations

from pathlib import Path

from ...formats import table_text, write_directory
from ...tables.latency import LATENCY_FILE, PARTITION_FILE, LatencyTable
from ...tables.partition import PartitionTable
from ...tables.partition_schedule import Choice, pipelined_table
from .tabulate import check_folder


def write_pipelined(
    folder: Path, table: PartitionTable, choice: Choice, *, groups: int = 1, replace: bool = False
) -> LatencyTable:
    """Write a partition and the latency table of its pipelined schedule, whole or not at all.

    Parameters
    ----------
    folder : Path
        Destination.
    table : PartitionTable
        The partition.
    choice : Choice
        The schedule.
    groups : int
        Equal groups of devices that serve side by side, each with this partition.
    replace : bool
        Whether an earlier partition may be replaced; nothing else is ever replaced.

    Returns
    -------
    LatencyTable
        What serving reads.

    Raises
    ------
    InputError
        If pipelining gains nothing, the folder holds something else, or the file system refuses.
    """
    check_folder(folder, replace=replace)
    latency = pipelined_table(table, choice, groups)
    write_directory(folder, {PARTITION_FILE: table_text(table), LATENCY_FILE: table_text(latency)}, replace=replace)
    return latency
