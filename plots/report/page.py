"""Page of a report: its head, and its sections from top to bottom."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from ... import __version__
from ...dse.npu.design import DesignTable
from ...formats.display import counted
from ...serving.networks import stated_for
from ..canvas import COLOURS
from .comparison_section import comparison_parts
from .conclusion import conclusions, section_lines
from .content import ComparisonFolder, Report, ReportEntry
from .design_section import design_parts, network_parts
from .markup import Node, document, element, named, style_sheet, table
from .policy_section import policy_parts

SHEET = Path(__file__).with_name("style.css")


def report_text(report: Report) -> str:
    """A page that loads and runs nothing: its Content-Security-Policy allows its own style sheet only."""
    sections = report.sections
    title = _title(sections[0]) if len(sections) == 1 else f"{len(sections)} designs and comparisons"
    parts = [element("h1", title)]
    if any(shown.served for shown in report.designs):
        parts.append(element("p", *_served(report), class_="lead"))
    verdict, said = conclusions(report)
    if verdict or said:
        lead = [element("p", *verdict, class_="verdict")] if verdict else []
        parts.append(_section("conclusion", "Conclusion", [*lead, *_bullets(said)]))
    if len(sections) > 1:
        links = (element("a", named(section.name), href=f"#section-{n}") for n, section in enumerate(sections, 1))
        parts.append(element("nav", element("ul", *(element("li", link) for link in links)), aria_label="Sections"))
    if len(report.designs) > 1:
        parts.append(_section("overview", "At a glance", [_overview(report)]))
    best = next(iter(report.ranked), None)
    for number, section in enumerate(sections, 1):
        ident = f"section-{number}"
        body = _bullets(section_lines(report, section)) if len(sections) > 1 else []
        if isinstance(section, ReportEntry):
            for make in stated_for(section.named, {"networks": network_parts, "network": design_parts}).values():
                body += make(ident, section)
            body += policy_parts(ident, section, best, report.requirements)
        else:
            body += comparison_parts(ident, section.comparison)
        parts.append(_section(ident, named(section.name), body))
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    made = element("footer", element("p", f"Made by fluidb {__version__}."))
    return document(_head(title), [skip, element("main", *parts, id="content", tabindex=-1), made])


def _bullets(lines: Sequence[Sequence[Node]]) -> list[Element]:
    return [element("ul", *(element("li", *line) for line in lines))] if lines else []


def _section(ident: str, name: Node, body: Sequence[Element]) -> Element:
    return element("section", element("h2", name, id=f"{ident}-name"), *body, id=ident, aria_labelledby=f"{ident}-name")


def _title(section: ReportEntry | ComparisonFolder) -> str:
    if isinstance(section, ComparisonFolder):
        return section.comparison.title
    if section.design is None:
        return f"{section.network}, on {section.table.platform}"
    return f"{section.design.network.title}, on {section.design.platform.title}"


def _head(title: str) -> list[Element]:
    palette = "".join(f"--c{index}:{colour};" for index, colour in enumerate(COLOURS))
    css = f":root{{{palette}}}\n{SHEET.read_text(encoding='utf-8')}"
    digest = b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        style_sheet(css),
    ]


def _served(report: Report) -> list[Node]:
    """Description of the served requests, in a sentence."""
    served = [replayed.replay.traffic for shown in report.designs for replayed in shown.served]
    trace, slo_s = served[0].trace, served[0].objective_s
    slo = "the requests' own SLOs" if slo_s is None else f"an SLO of {1e3 * slo_s:g} ms"
    origins = sorted({traffic.origin for traffic in served})
    pace = f" at {trace.rate_per_s:,.3f} /s" if trace.rate_per_s else ""
    if trace.at_once:
        pace = ", all waiting from the beginning"
    who: list[Node] = [named(str(report.requests and report.requests.file))]
    if served[0].clients:
        several = f"{served[0].clients:,} clients that wait for their answers"
        who, pace = ["1 client that waits for its answers" if served[0].clients == 1 else several], ""
    return ["Serving ", *who, f": {counted(len(trace), 'request')}{pace}, {slo}; ", f"exits from {', '.join(origins)}."]


def _overview(report: Report) -> Element:
    designs = report.designs
    headers = ["design", "network", "platform", "<T_R,T_P,T_C>", "GOP/s, b = 1", "GOP/s, b = b_max", "DSPs %", "RAM %"]
    rows = [(shown.name, [shown.network, shown.table.platform, *_searched(shown.design)]) for shown in designs]
    if designs[0].served:
        headers += ["best policy", "its violations %"]
        for (_, cells), shown in zip(rows, designs, strict=True):
            best = report.ranked_on(shown)[0]
            cells += [best.policy, f"{100 * best.summary.violation_rate:.2f}"]
    return table("Designs", headers, rows)


def _searched(design: DesignTable | None) -> list[str]:
    if design is None:
        return ["-"] * 5
    speeds = (f"{gop_s:,.1f}" for gop_s in (design.gop_s[0], design.gop_s[-1]))
    shares = (f"{100 * share:.2f}" for share in (design.dsp_share, design.ram_share))
    return [str(design.tile), *speeds, *shares]
