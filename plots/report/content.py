"""What a report shows: the records that the other commands print, read and simulated as they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...dse.design import DesignTable, read_design
from ...dse.fbcb import FbcbTable
from ...experiments.comparison import COMPARE_FILE, Comparison, read_comparison
from ...serving import Replay, Scheduler, Summary, simulate, summarise
from ...tables.latency import DESIGN_FILE, LATENCY_FILE, LatencyTable, read_latency
from ...traffic import Traffic

OPENING_PASSES = 20
"""Length of a timeline's thumbnail, in times that one sample takes through the whole network."""


@dataclass(frozen=True, slots=True)
class Served:
    """A policy's replay of the trace on a design.

    Attributes
    ----------
    policy : str
        As the user wrote it.
    replay : Replay
        What happened to every request.
    summary : Summary
        Its figures.
    opening : Replay
        The first moments again, with every run recorded.
    """

    policy: str
    replay: Replay
    summary: Summary
    opening: Replay


@dataclass(frozen=True, slots=True)
class Shown:
    """A design or a device, and what was simulated on it.

    Attributes
    ----------
    name : str
        Its folder, as the user wrote it.
    table : LatencyTable
        Its times.
    design, fbcb : DesignTable and FbcbTable, or None
        Its other tables, if it is an NPU that was searched.
    served : list of Served
        One for each policy; none without a trace.
    """

    name: str
    table: LatencyTable
    design: DesignTable | None = None
    fbcb: FbcbTable | None = None
    served: list[Served] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Compared:
    """What ``fluidb compare -o`` left in a folder.

    Attributes
    ----------
    name : str
        The folder, as the user wrote it.
    found : Comparison
        The outcome.
    """

    name: str
    found: Comparison


Entry = Shown | Compared
"""A section of the report."""


def read_entry(folder: Path) -> Entry:
    """Read a folder for a report.

    Parameters
    ----------
    folder : Path
        Of a design or device with its latency table, or of a comparison.

    Returns
    -------
    Shown or Compared
        A design or device with nothing simulated yet, or a comparison.

    Raises
    ------
    InputError
        If a table is missing, damaged or stale.
    """
    if (folder / COMPARE_FILE).exists():
        return Compared(str(folder), read_comparison(folder / COMPARE_FILE))
    if (folder / LATENCY_FILE).exists() and not (folder / DESIGN_FILE).exists():
        return Shown(str(folder), read_latency(folder))
    design, fbcb = read_design(folder)
    return Shown(str(folder), read_latency(folder), design, fbcb)


def serve(table: LatencyTable, traffic: Traffic, contenders: list[Scheduler]) -> list[Served]:
    """Serve the same traffic under several policies.

    Parameters
    ----------
    table : LatencyTable
        The design that serves it.
    traffic : Traffic
        Requests with their exits and objectives.
    contenders : list of Scheduler
        Policies.

    Returns
    -------
    list of Served
        One for each policy, in order.

    Raises
    ------
    InputError
        If a policy broke its contract.
    """
    # no policy sees the future: stopped early, it does at first what it does in the whole
    opening_s = float(traffic.trace.arrival_s[0]) + OPENING_PASSES * float(table.array()[0, -1, 1])
    found = []
    for contender in contenders:
        replay = simulate(table, traffic, contender)
        opening = simulate(table, traffic, contender, until_s=opening_s, record=True)
        found.append(Served(contender.spec, replay, summarise(replay), opening))
    return found
