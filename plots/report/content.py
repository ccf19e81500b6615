"""Content of a report: tables and comparisons that other commands wrote, and simulations on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...dse.npu.design import DesignTable, read_design
from ...dse.npu.fbcb import FbcbTable
from ...formats import AnyPath
from ...serving import Replay, Scheduler, Summary, simulate, summarise
from ...serving.inputs import AnyPolicy, Requests, as_scheduler, as_thresholds
from ...studies.comparison import COMPARE_FILE, Comparison, read_comparison
from ...tables.latency import DESIGN_FILE, LATENCY_FILE, LatencyTable, read_latency
from ...traffic import Traffic

OPENING_PASSES = 20
"""Length of the picture of the first moments, in passes of one sample through the whole network."""


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """A policy's replay of the trace on a design."""

    policy: str
    replay: Replay
    summary: Summary
    opening: Replay  # the first moments again, with every run recorded


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A design or a device, and the policies that were simulated on it."""

    name: str  # its folder
    table: LatencyTable
    design: DesignTable | None = None  # if it is an NPU that was searched, as is fbcb
    fbcb: FbcbTable | None = None
    served: list[PolicyReplay] = field(default_factory=list)  # one for each policy; none without a trace

    def record(self) -> dict[str, Any]:
        """Content of ``--json`` for this section."""
        design = self.design
        searched = design and {
            **design.ranking[0].model_dump(),
            "dsp_share": design.dsp_share,
            "ram_share": design.ram_share,
            "gop_s": design.gop_s,
        }
        return {
            "design": self.name,
            "network": self.table.network,
            "platform": self.table.platform,
            **(searched or {}),
            "policies": [
                {"policy": item.policy, "exits_from": item.replay.traffic.origin, **asdict(item.summary)}
                for item in self.served
            ],
        }


@dataclass(frozen=True, slots=True)
class ComparisonFolder:
    """The outcome of ``fluidb compare -o``, by the name of its folder."""

    name: str
    found: Comparison


@dataclass(frozen=True, slots=True)
class Report:
    """Content of a page."""

    sections: list[ReportEntry | ComparisonFolder]  # in the order of the page
    requests: Requests | None = None  # that were simulated, if any

    @property
    def designs(self) -> list[ReportEntry]:
        """Sections that show a design or a device."""
        return [item for item in self.sections if isinstance(item, ReportEntry)]

    @property
    def comparisons(self) -> list[ComparisonFolder]:
        """Sections that show a comparison."""
        return [item for item in self.sections if isinstance(item, ComparisonFolder)]

    def record(self) -> dict[str, Any]:
        """Content of ``--json``."""
        slo_s = self.requests and self.requests.slo_s
        return {
            "trace": self.requests and self.requests.file,
            "slo_s": slo_s if isinstance(slo_s, float) else None,
            "designs": [item.record() for item in self.designs],
            "comparisons": [
                {"folder": item.name, "scenario_sha256": item.found.scenario_sha256} for item in self.comparisons
            ],
        }


def make_report(
    folders: Sequence[AnyPath], requests: Requests | None = None, policies: Sequence[AnyPolicy] = ()
) -> Report:
    """Read the tables of a report, and simulate the requests, if any, on its designs under each policy."""
    report = Report([_read_section(Path(folder)) for folder in folders], requests)
    if requests is not None:
        trace = requests.read()
        for shown in report.designs:
            table = shown.table
            traffic = requests.traffic(trace, [row.rate for row in table.exits], as_thresholds(None, table, trace))
            shown.served.extend(serve(table, traffic, [as_scheduler(policy, table) for policy in policies]))
    return report


def _read_section(folder: Path) -> ReportEntry | ComparisonFolder:
    if (folder / COMPARE_FILE).exists():
        return ComparisonFolder(str(folder), read_comparison(folder / COMPARE_FILE))
    if (folder / LATENCY_FILE).exists() and not (folder / DESIGN_FILE).exists():
        return ReportEntry(str(folder), read_latency(folder))
    design, fbcb = read_design(folder)
    return ReportEntry(str(folder), read_latency(folder), design, fbcb)


def serve(table: LatencyTable, traffic: Traffic, policies: Sequence[Scheduler]) -> list[PolicyReplay]:
    """Serve the same traffic under several policies, one after another."""
    # no policy sees the future, so a replay that stops early begins like the whole one
    opening_s = float(traffic.trace.arrival_s[0]) + OPENING_PASSES * float(table.pass_s()[0, 1])
    found = []
    for policy in policies:
        replay = simulate(table, traffic, policy)
        opening = simulate(table, traffic, policy, until_s=opening_s, record=True)
        found.append(PolicyReplay(policy.spec, replay, summarise(replay), opening))
    return found
