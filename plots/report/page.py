"""The report's page: its head, and its sections from top to bottom."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from ... import __version__
from ...dse.design import DesignTable
from ..canvas import COLOURS
from .comparison import comparison_parts
from .content import Entry, Shown
from .design import design_parts
from .markup import Node, document, element, named, style_sheet, table
from .policies import policy_parts

SHEET = Path(__file__).with_name("style.css")


def report_text(entries: Sequence[Entry], trace: str | None, title: str | None = None) -> str:
    """Write a report.

    Parameters
    ----------
    entries : sequence of Shown or Compared
        Designs, with what was simulated on them, and comparisons; a section for each.
    trace : str or None
        Name of the trace that the designs served, if any.
    title : str, optional
        Of the page, by default that of its only section.

    Returns
    -------
    str
        A page that loads nothing and runs nothing: its policy forbids both, its style sheet excepted.
    """
    designs = [entry for entry in entries if isinstance(entry, Shown)]
    title = title or (_title(entries[0]) if len(entries) == 1 else f"{len(entries)} designs and comparisons")
    parts = [element("h1", title)]
    if trace is not None:
        parts.append(element("p", *_said(designs, trace), class_="lead"))
    if len(entries) > 1:
        links = (element("a", named(entry.name), href=f"#section-{n}") for n, entry in enumerate(entries, 1))
        parts.append(element("nav", element("ul", *(element("li", link) for link in links)), aria_label="Sections"))
    if len(designs) > 1:
        parts.append(_overview(designs))
    for number, entry in enumerate(entries, 1):
        ident = f"section-{number}"
        body = [element("h2", named(entry.name), id=f"{ident}-name")]
        if isinstance(entry, Shown):
            body += [*design_parts(ident, entry), *policy_parts(ident, entry)]
        else:
            body += comparison_parts(ident, entry.found)
        parts.append(element("section", *body, id=ident, aria_labelledby=f"{ident}-name"))
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    made = element("footer", element("p", f"Made by fluidb {__version__}."))
    return document(_head(title), [skip, element("main", *parts, id="content", tabindex=-1), made])


def _title(entry: Entry) -> str:
    if not isinstance(entry, Shown):
        return entry.found.title
    if entry.design is None:
        return f"{entry.table.network}, on {entry.table.platform}"
    return f"{entry.design.network.title}, on {entry.design.platform.title}"


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


def _said(designs: Sequence[Shown], trace: str) -> list[Node]:
    """What was served, in a sentence."""
    traffic = designs[0].served[0].replay.traffic
    slo_s = traffic.objective_s
    slo = "the trace's own SLOs" if slo_s is None else f"an SLO of {1e3 * slo_s:g} ms"
    origins = sorted({item.replay.traffic.origin for shown in designs for item in shown.served})
    figures = f": {len(traffic):,} requests at {traffic.trace.rate_per_s:,.3f} /s, {slo}; "
    return ["Serving ", named(trace), figures, f"exits from {', '.join(origins)}."]


def _overview(shown: Sequence[Shown]) -> Element:
    rows = [(named(item.name), [item.table.network, item.table.platform, *_searched(item.design)]) for item in shown]
    headers = ["design", "network", "board", "<T_R,T_P,T_C>", "GOP/s, b = 1", "GOP/s, b = b_max", "DSPs %", "RAM %"]
    heading = element("h2", "At a glance", id="overview-name")
    return element("section", heading, table("Designs", headers, rows), id="overview", aria_labelledby="overview-name")


def _searched(design: DesignTable | None) -> list[str]:
    """What only a searched NPU has."""
    if design is None:
        return ["-"] * 5
    rates = (f"{design.gop_s[0]:,.1f}", f"{design.gop_s[-1]:,.1f}")
    return [str(design.tile), *rates, f"{100 * design.dsp_share:.2f}", f"{100 * design.ram_share:.2f}"]
