"""Conclusions of a report in words, computed from the figures that the page shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...dse.npu.costs import Cause
from ...dse.npu.explanation import explain
from ...studies.comparison import Comparison
from ...studies.estimates import Difference
from ...studies.paired import differences
from .charts import PERCENT, ChartUnit, time_unit
from .content import ComparisonFolder, PolicyReplay, Report, ReportEntry, Served
from .markup import Node, named

MOST = 5
"""Most lines below the verdict."""


def conclusions(report: Report) -> tuple[list[Node], list[list[Node]]]:
    """The verdict, a sentence, and at most `MOST` lines: what holds for the whole page, then for its only section."""
    (first, *lines) = verdicts(report) or [[]]
    if len(report.sections) == 1:
        own = section_lines(report, report.sections[0])
        first, own = (first, own) if first else (own[0] if own else [], own[1:])
        lines += own
    return first, lines[:MOST]


def section_lines(report: Report, section: ReportEntry | ComparisonFolder) -> list[list[Node]]:
    """What holds for a section."""
    lines = _of_design(report, section) if isinstance(section, ReportEntry) else _of_comparison(section.comparison)
    return [list(line) for line in lines]


def verdict_lines(report: Report) -> list[str]:
    """What holds for the whole page, as plain text."""
    return ["".join(node if isinstance(node, str) else node.text or "" for node in line) for line in verdicts(report)]


def verdicts(report: Report) -> list[list[Node]]:
    """Which design and policy are best, a sentence; then by how much, and who keeps the requirements."""
    ranked, many = report.ranked, len(report.designs) > 1
    if not ranked:
        return []
    lines: list[list[Node]] = [_best(report, ranked, many)]
    if many:
        other = next(pair for pair in ranked if pair[0] is not ranked[0][0])
        lines.append(["On ", named(other[0].name), " the best is ", *_apart(ranked[0], other, many)])
    else:
        lines.extend(["Next is ", *_apart(ranked[0], other, many)] for other in ranked[1:2])
    if not report.requirements:
        said = "No requirement was stated, so this page does not say whether the SLO is kept. "
        lines.append([f"{said}To state one, add e.g. --require 'violation_rate <= 5 %'."])
    told = [_kept(report, index, many) for index in range(len(report.requirements))]
    if len(told) > MOST - len(lines) + 1:  # each is in the table of requirements below
        judged = zip(report.requirements, ranked[0][1].verdicts, strict=True)
        broken = [requirement.text for requirement, verdict in judged if not verdict.holds]
        kept = len(told) - len(broken)
        said = f" keeps {kept} of {len(told)} requirements" + (f"; broken: {', '.join(broken)}" if broken else "")
        told = [[*_under(ranked[0], many), f"{said}."]]
    return lines + told


def _under(served: Served, many: bool) -> list[Node]:
    """A policy, with its design where there are several."""
    shown, replayed = served
    return [named(replayed.policy), *_on(shown, many)]


def _on(shown: ReportEntry, many: bool) -> list[Node]:
    """A design, where there are several."""
    return [" on ", named(shown.name)] if many else []


def _best(report: Report, ranked: Sequence[Served], many: bool) -> list[Node]:
    """The violations of the first, with their interval."""
    best = ranked[0]
    summary = best[1].summary
    rate, interval = PERCENT.number(summary.violation_rate), summary.violation_interval
    sure = "no interval"
    if interval is not None:
        sure = f"95 % interval {PERCENT.number(interval.low)} % to {PERCENT.number(interval.high)} %"
    if len(ranked) == 1:
        return ["Under ", *_under(best, many), f", {rate} % of the requests are later than their SLO ({sure})."]
    alike = sum(
        (replayed.kept, replayed.summary.violation_rate) == (best[1].kept, summary.violation_rate)
        for _, replayed in ranked
    )
    none = "No policy keeps all requirements; " if report.requirements and not best[1].kept else ""
    among = " of all that keep the requirements" if report.requirements and best[1].kept else ""
    tied = f", and the shortest mean latency of the {alike} with as few violations" if alike > 1 else ""
    said = f" has the fewest violations{among}: {rate} % of the requests ({sure}){tied}."
    return [*([none] if none else []), *_under(best, many), said]


def _apart(best: Served, other: Served, many: bool) -> list[Node]:
    """Another policy, and how far the best is from it, on the same requests."""
    summaries = best[1].summary, other[1].summary
    changes, rate = differences(best[1].replay, other[1].replay), PERCENT.number(summaries[1].violation_rate)
    unit = time_unit(max(summary.mean_latency_s for summary in summaries))
    late, longer = changes["violation_rate"], changes["mean_latency_s"]
    if late is None:
        return [named(other[1].policy), f" with {rate} %. Its clients send other requests, which are not compared."]
    violations = _span(late, PERCENT, "percentage points", ("fewer", "more"))
    apart = ", so this run does not tell the two apart" if late.beyond_noise is False else ""
    latency = ""
    if longer is not None:
        latency = f"; the mean latency is {_span(longer, unit, unit.name, ('shorter', 'longer'))}"
    return [
        named(other[1].policy), f" with {rate} %. On the same requests, violations under ", *_under(best, many),
        f" are {violations}{apart}{latency}.",
    ]  # fmt: skip


def _span(change: Difference, unit: ChartUnit, name: str, words: tuple[str, str]) -> str:
    """A difference in words, with the ends of its interval."""
    if change.low is None or change.high is None:
        return f"{unit.number(abs(change.mean))} {name} {words[change.mean > 0]} (no interval)"
    if change.low > 0 or change.high < 0:
        low, high = sorted((abs(change.low), abs(change.high)))
        return f"{unit.number(low)} to {unit.number(high)} {name} {words[change.mean > 0]}"
    return f"between {unit.number(-change.low)} {name} {words[0]} and {unit.number(change.high)} {words[1]}"


def _kept(report: Report, index: int, many: bool) -> list[Node]:
    """Who keeps a requirement, and how certain that is."""
    parts: list[list[Node]] = []
    for shown in report.designs:
        groups: dict[str, list[Node]] = {}
        for replayed in report.ranked_on(shown):
            verdict = replayed.verdicts[index]
            sure = {None: "", True: ", beyond doubt at 95 %,", False: ", but not beyond doubt at 95 %,"}[
                verdict.certain
            ]
            members = groups.setdefault(f"{'kept' if verdict.holds else 'not kept'}{sure} by ", [])
            members += [*([", "] if members else []), named(replayed.policy)]
        for words, members in groups.items():
            everyone: list[Node] = [f"all {len(shown.served)}"] if len(groups) == 1 < len(shown.served) else members
            parts.append([words, *everyone, *_on(shown, many)])
    line: list[Node] = [f"Requirement {report.requirements[index].text}: "]
    for part in sorted(parts, key=lambda part: str(part[0]).startswith("not")):
        line += [*(["; "] if len(line) > 1 else []), *part]
    return [*line, "."]


def _of_design(report: Report, shown: ReportEntry) -> Iterator[Sequence[Node]]:
    if shown.design is not None and shown.fbcb is not None:
        explanation = explain(shown.design, shown.fbcb)
        parts = []
        for b in sorted({1, shown.table.b_max}):
            time_s = explanation.time_s[:, b - 1].sum()
            shares = {cause: part[:, b - 1].sum() / time_s for cause, part in explanation.parts_s.items()}
            made = shares.pop(Cause.COMPUTE)
            worst = max(shares, key=lambda cause: shares[cause])
            lost = f", and {worst.label} loses most, {100 * shares[worst]:.1f} %" if shares[worst] else ""
            parts.append(f"at batch {b} {100 * made:.1f} % of the time makes MACs{lost}")
        yield [f"{parts[0][0].upper()}{'; '.join(parts)[1:]}."]
    ranked = [(shown, replayed) for replayed in report.ranked_on(shown)]
    if len(report.designs) > 1 and len(ranked) > 1:  # of a single one the page says it already
        yield _best(report, ranked, many=False)
        yield ["Next is ", *_apart(ranked[0], ranked[1], many=False)]
    if shown.served:
        yield _shortest(shown.served)


def _shortest(served: Sequence[PolicyReplay]) -> list[Node]:
    """The policies with the lowest and the highest 99th percentile of latency."""
    ranked = sorted(served, key=lambda replayed: replayed.summary.percentile("p99").latency_s)
    low_s, high_s = (replayed.summary.percentile("p99").latency_s for replayed in (ranked[0], ranked[-1]))
    if not np.isfinite(low_s):
        return ["Under no policy are 99 % of the requests answered."]
    unit = time_unit(high_s if np.isfinite(high_s) else low_s)
    line: list[Node] = [
        "99 % of the requests take up to ",
        f"{unit.number(low_s)} {unit.name} under ",
        named(ranked[0].policy),
    ]
    if len(ranked) > 1:
        longest = f"{unit.number(high_s)} {unit.name}" if np.isfinite(high_s) else "not all of these are answered"
        line += [f", the shortest; {longest} under ", named(ranked[-1].policy), ", the longest"]
    return [*line, "."]


def _of_comparison(comparison: Comparison) -> Iterator[Sequence[Node]]:
    """Who has the fewest violations, and at how many points; beyond noise where seeds tell."""
    leads = [point.lead for point in comparison.points]
    own = {
        name: [lead for lead in leads if lead and lead.first == name] for name in (lead.first for lead in leads if lead)
    }
    line: list[Node] = []
    for name, won in sorted(own.items(), key=lambda pair: -len(pair[1]))[:MOST]:
        sure = sum(lead.less.beyond_noise is True for lead in won)
        at = f" at {len(won)} of {len(leads)} points, at {sure} of these beyond noise"
        line += [*([", "] if line else []), named(name), at if line else f" has the fewest violations{at}"]
    yield [*line, "."] if line else ["No contender has fewer violations than all others."]
