"""Content of a report: tables and comparisons that other commands wrote, and simulations on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...dse.npu.design import DesignTable, read_design
from ...dse.npu.fbcb import FbcbTable
from ...formats import AnyPath, InputError
from ...serving import DeviceTraffic, Replay, Scheduler, ServedNetwork, Summary, figures_of, prepare_requests, simulate
from ...serving.inputs import AnyPolicy, Requests
from ...serving.networks import as_served, names_of, scheduler_on, stated_for
from ...serving.requirements import Requirement, RequirementVerdict, judge_all
from ...studies.comparison import COMPARE_FILE, Comparison, read_comparison
from ...studies.paired import differences
from ...tables.files import DESIGN_FILE
from ...tables.latency import LatencyTable

OPENING_PASSES = 20
"""Length of the picture of the first moments, in passes of one sample through the whole network."""


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """A replay of the trace on a design."""

    policies: list[str]  # under all of them every request fares the same
    replay: Replay
    summary: Summary
    networks: dict[str, Summary]  # the figures of each network that has a name and a request
    opening: Replay  # the first moments again, with every run recorded
    verdicts: list[RequirementVerdict] = field(default_factory=list)  # on the report's requirements

    @property
    def kept(self) -> bool:
        """True if every requirement holds."""
        return all(verdict.holds for verdict in self.verdicts)

    @property
    def policy(self) -> str:
        """Name of the row of tables and pictures."""
        return ", ".join(self.policies)

    def _record_of(self, name: str) -> dict[str, Any]:
        """Figures of a network; one without a request has none."""
        own = self.networks.get(name)
        return {"name": name, **({"requests": 0} if own is None else own.record())}

    def record(self, best: PolicyReplay) -> list[dict[str, Any]]:
        """Content of ``--json`` for each of the policies."""
        networks = stated_for(self.replay.names, {"networks": list(map(self._record_of, self.replay.names))})
        return [
            {
                "policy": policy,
                "same_as": None if policy == self.policies[0] else self.policies[0],
                "exits_from": self.replay.traffic.origin,
                **self.summary.record(),
                **networks,
                **({"requirements": self.verdicts} if self.verdicts else {}),
                "differences": None if self is best else differences(self.replay, best.replay),
            }
            for policy in self.policies
        ]


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A design or a device with its networks, and the policies that were simulated on it."""

    name: str  # its folder, or the file of the networks
    networks: tuple[ServedNetwork, ...]
    design: DesignTable | None = None  # if it is an NPU that was searched, as is fbcb
    fbcb: FbcbTable | None = None
    served: list[PolicyReplay] = field(default_factory=list)  # none without a trace

    @property
    def tables(self) -> list[LatencyTable]:
        """The latency table of each network."""
        return [network.latency for network in self.networks]

    @property
    def table(self) -> LatencyTable:
        """The latency table of the first network."""
        return self.tables[0]

    @property
    def named(self) -> list[str]:
        """The names of networks that have one."""
        return names_of(self.networks)

    @property
    def network(self) -> str:
        """The networks, in few words."""
        return ", ".join(table.network for table in self.tables)

    def record(self, best: PolicyReplay | None) -> dict[str, Any]:
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
            "network": self.network,
            "platform": self.table.platform,
            **(searched or {}),
            "policies": [policy for entry in self.served if best for policy in entry.record(best)],
        }


Served = tuple[ReportEntry, PolicyReplay]
"""A replay, and the design or device that it ran on."""


@dataclass(frozen=True, slots=True)
class ComparisonFolder:
    """The outcome of ``fluidb compare -o``, by the name of its folder."""

    name: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Report:
    """Content of a page."""

    sections: list[ReportEntry | ComparisonFolder]  # in the order of the page
    requests: Requests | None = None  # that were simulated, if any
    requirements: list[Requirement] = field(default_factory=list)  # on every policy

    @property
    def designs(self) -> list[ReportEntry]:
        """Sections that show a design or a device."""
        return [section for section in self.sections if isinstance(section, ReportEntry)]

    @property
    def comparisons(self) -> list[ComparisonFolder]:
        """Sections that show a comparison."""
        return [section for section in self.sections if isinstance(section, ComparisonFolder)]

    @property
    def ranked(self) -> list[Served]:
        """Designs and policies, the best first: those that keep all requirements before others, by violations."""
        pairs = [(shown, replayed) for shown in self.designs for replayed in shown.served]
        return sorted(pairs, key=lambda pair: _badness(pair[1]))

    def ranked_on(self, shown: ReportEntry) -> list[PolicyReplay]:
        """Policies on one design, the best first."""
        return sorted(shown.served, key=_badness)

    @property
    def kept(self) -> bool:
        """True unless there are requirements, and no policy keeps them all."""
        return not self.requirements or self.ranked[0][1].kept

    def record(self) -> dict[str, Any]:
        """Content of ``--json``."""
        slo_s, ranked = self.requests and self.requests.slo_s, self.ranked
        first, best = ranked[0] if ranked else (None, None)
        return {
            "trace": self.requests and self.requests.file,
            "slo_s": slo_s if isinstance(slo_s, float) else None,
            "best": first and best and {"design": first.name, "policy": best.policies[0]},
            "designs": [design.record(best) for design in self.designs],
            "comparisons": [
                {"folder": folder.name, "scenario_sha256": folder.comparison.scenario_sha256}
                for folder in self.comparisons
            ],
        }


def _badness(replayed: PolicyReplay) -> tuple[bool, float, float]:
    """The order of policies: the better of two has the smaller value."""
    return not replayed.kept, replayed.summary.violation_rate, replayed.summary.mean_latency_s


def make_report(
    folders: Sequence[AnyPath],
    requests: Requests | None = None,
    policies: Sequence[AnyPolicy] = (),
    requirements: Sequence[Requirement] = (),
) -> Report:
    """Read the tables of a report, and simulate the requests, if any, on its designs under each policy."""
    report = Report([_read_section(Path(folder)) for folder in folders], requests, list(requirements))
    for shown in report.designs:
        unknown = [requirement.text for requirement in requirements if requirement.network not in (None, *shown.named)]
        if unknown:
            raise InputError(
                f'require: expected a network of {shown.name}, found "{unknown[0]}"; write one report each'
            )
    if requests is not None:
        trace = requests.read()
        for shown in report.designs:
            traffic = prepare_requests(shown.networks, requests, trace)
            schedulers = [scheduler_on(shown.networks, policy) for policy in policies]
            shown.served.extend(serve(shown.networks, traffic, schedulers, requirements))
    return report


def _read_section(folder: Path) -> ReportEntry | ComparisonFolder:
    if (folder / COMPARE_FILE).exists():
        return ComparisonFolder(str(folder), read_comparison(folder / COMPARE_FILE))
    searched = read_design(folder) if (folder / DESIGN_FILE).exists() else (None, None)
    return ReportEntry(str(folder), as_served(folder), *searched)


def serve(
    networks: Sequence[ServedNetwork],
    traffic: DeviceTraffic,
    policies: Sequence[Scheduler],
    requirements: Sequence[Requirement] = (),
) -> list[PolicyReplay]:
    """Serve the same traffic under several policies, one after another; the same outcome is one entry."""
    served: list[PolicyReplay] = []
    for policy in policies:
        replay = simulate(networks, traffic, policy)
        figures = figures_of(replay)
        same = next(
            (other for other in served if other.summary == figures.whole and _fares_the_same(other.replay, replay)),
            None,
        )
        if same is not None:
            same.policies.append(policy.spec)
            continue
        # no policy sees the future, so a replay that stops early begins like the whole one
        passes_s = OPENING_PASSES * max(float(use.table.pass_s()[0, 1]) for use in replay.uses)
        opening_s = float(replay.traffic.trace.arrival_s[0]) + passes_s
        first_s = max(float(part.traffic.trace.arrival_s[0]) for part in replay.by_network if len(part.traffic))
        opening_s = max(opening_s, math.nextafter(first_s, math.inf))  # one request of each must have arrived
        opening = simulate(networks, traffic, policy, until_s=opening_s, record=True)
        verdicts = judge_all(requirements, figures)
        served.append(PolicyReplay([policy.spec], replay, figures.whole, figures.networks, opening, verdicts))
    return served


def _fares_the_same(replay: Replay, other: Replay) -> bool:
    """True if every request has the same outcome in both."""
    columns = other.columns()
    return all(np.array_equal(values, columns[name]) for name, values in replay.columns().items())
