"""What a report shows: the records that the other commands print, read and simulated as they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...dse.design import DesignTable, read_design
from ...dse.fbcb import FbcbTable
from ...dse.latency import read_latency
from ...experiments.comparison import COMPARE_FILE, Comparison, read_comparison
from ...serving import Contender, Replay, Summary, simulate, summarise
from ...tables.latency import LatencyTable
from ...traffic import Trace, read_trace, resolve

OPENING_PASSES = 20
"""Length of the picture of the first moments, in times that one sample takes through the whole network."""


@dataclass(frozen=True, slots=True)
class Served:
    """A policy's replay of the trace on a design.

    Attributes
    ----------
    policy : str
        As the user wrote it.
    exits_from : str
        Where the requests' exits came from.
    replay : Replay
        What happened to every request.
    summary : Summary
        Its figures.
    opening : Replay
        The first moments again, with every run recorded.
    """

    policy: str
    exits_from: str
    replay: Replay
    summary: Summary
    opening: Replay


@dataclass(frozen=True, slots=True)
class Shown:
    """A design, and what was simulated on it.

    Attributes
    ----------
    name : str
        Its folder, as the user wrote it.
    design, fbcb, table
        Its tables.
    served : list of Served
        One for each policy; none without a trace.
    """

    name: str
    design: DesignTable
    fbcb: FbcbTable
    table: LatencyTable
    served: list[Served] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The design and its policies as ``--json`` prints them."""
        design = self.design
        return {
            "design": self.name,
            "network": design.network.name,
            "platform": design.platform.name,
            **design.ranking[0].model_dump(),
            "dsp_share": design.dsp_share,
            "ram_share": design.ram_share,
            "gop_s": design.gop_s,
            "policies": [
                {"policy": item.policy, "exits_from": item.exits_from, **asdict(item.summary)} for item in self.served
            ],
        }


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


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a page shows.

    Attributes
    ----------
    sections : list of Shown or Compared
        In the order of the page.
    source : Path or None
        File of the trace that was simulated, if one was.
    trace : Trace or None
        Its requests.
    slo_s : float or None
        Latency objective in seconds of all requests; None if the trace has one for each.
    """

    sections: list[Shown | Compared]
    source: Path | None = None
    trace: Trace | None = None
    slo_s: float | None = None

    @property
    def designs(self) -> list[Shown]:
        """Sections that show a design."""
        return [item for item in self.sections if isinstance(item, Shown)]

    @property
    def comparisons(self) -> list[Compared]:
        """Sections that show a comparison."""
        return [item for item in self.sections if isinstance(item, Compared)]

    def record(self) -> dict[str, Any]:
        """What went into the page, as ``--json`` prints it."""
        return {
            "trace": None if self.source is None else str(self.source),
            "slo_s": self.slo_s,
            "designs": [item.record() for item in self.designs],
            "comparisons": [
                {"folder": item.name, "scenario_sha256": item.found.scenario_sha256} for item in self.comparisons
            ],
        }


def make_report(
    folders: Sequence[Path], source: Path | None = None, policies: Sequence[Contender] = (), *,
    slo_s: float | None = None, seed: int = 0,
) -> Report:  # fmt: skip
    """Read what a page is to show, and simulate a trace on its designs.

    Parameters
    ----------
    folders : sequence of Path
        Of designs with their latency tables, or of comparisons: a section for each.
    source : Path, optional
        File of a trace to simulate.
    policies : sequence of Contender
        Those that serve it, one after another.
    slo_s : float, optional
        Latency objective in seconds, if the trace has none of its own.
    seed : int
        Of the exits, if the trace does not decide them.

    Returns
    -------
    Report
        What to show.

    Raises
    ------
    InputError
        If a file is missing, damaged or stale, the trace does not fit a network, there is no SLO, or a policy broke
        its contract.
    """
    sections = [
        Compared(str(folder), read_comparison(folder / COMPARE_FILE))
        if (folder / COMPARE_FILE).exists()
        else Shown(str(folder), *read_design(folder), read_latency(folder))
        for folder in folders
    ]
    report = Report(sections, source, None if source is None else read_trace(source), slo_s)
    if report.source is not None and report.trace is not None:
        for shown in report.designs:
            shown.served.extend(
                serve(shown.table, report.trace, policies, slo_s=slo_s, seed=seed, source=report.source)
            )
    return report


def serve(
    table: LatencyTable, trace: Trace, policies: Sequence[Contender], *, slo_s: float | None, seed: int, source: Path
) -> list[Served]:
    """Replay a trace under several policies, with the same exits for all of them; parameters as in `make_report`."""
    exits, origin = resolve(trace, [row.rate for row in table.exits], seed, None, source)
    # no policy sees the future: stopped early, it does at first what it does in the whole
    opening_s = float(trace.arrival_s[0]) + OPENING_PASSES * float(table.array()[0, -1, 1])
    found = []
    for policy in policies:
        replay = simulate(table, trace, policy, exits=exits, slo_s=slo_s)
        opening = simulate(table, trace, policy, exits=exits, slo_s=slo_s, until_s=opening_s, record=True)
        found.append(Served(policy.spec, origin, replay, summarise(replay, table), opening))
    return found
