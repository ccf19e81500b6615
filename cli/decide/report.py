"""``fluidb report``: one HTML page of designs, simulations and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...formats.display import printable
from ..declare import argument, option, written
from ..options import (
    AsJson,
    ClientCount,
    Force,
    Policies,
    PredictDepth,
    Required,
    SentCount,
    ServiceOptions,
    Slo,
    Think,
)
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...plots.report import Report
    from ...serving import Requests

FOLDERS = (
    "Folders of designs or devices with their latency tables, or of `fluidb compare -o`; files of several networks."
)


@dataclass(frozen=True, kw_only=True)
class ReportedRequests:
    """The requests to simulate, with which policies, and what must hold."""

    trace: Annotated[Path | None, option("Requests to simulate; without them only designs are shown.", "FILE")] = None
    policy: Policies = None
    slo: Slo = None
    seed: Annotated[int | None, option("Seed of exits that are drawn.  [default: 0]")] = None
    predict_depth: PredictDepth = None
    clients: ClientCount = None
    think: Think = None
    count: SentCount = None
    require: Required = None

    @property
    def policies(self) -> list[str]:
        """The policies to simulate."""
        from ...formats import InputError
        from ...plots.report import MAX_SERIES
        from ...serving.policies import FOR_ONE_NETWORK

        specs = self.policy or list(FOR_ONE_NETWORK)
        if len(specs) > MAX_SERIES or len(set(specs)) < len(specs):
            raise InputError(
                f"policy: expected at most {MAX_SERIES} policies, each once, so that a reader can tell them "
                f"apart, found {', '.join(specs)}"
            )
        return specs

    @property
    def requests(self) -> Requests | None:
        """The requests as the library takes them; ``None`` if the designs alone are shown."""
        from ...formats import InputError

        given = {name: value for name, value in vars(self).items() if value is not None}
        if not given.keys() & {"trace", "clients"}:
            if given:
                name = next(iter(given))
                raise InputError(f"{name}: would change nothing without a trace; add a trace or leave it out")
            return None
        given = {name: value for name, value in given.items() if name not in ("policy", "require")}
        return ServiceOptions(**given).requests


def command(
    directories: Annotated[list[Path], argument(FOLDERS, "DIR|FILE")],
    output: Annotated[Path, written("The page to write.", "FILE")],
    *,
    asked: ReportedRequests,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a search and its simulations as one HTML page.

    The page loads nothing from the network. It shows design, resources, utilisation and latency table
    of every folder; with --trace or --clients also the policies, with figures, intervals,
    distributions, and what ran at the beginning.
    """
    from ...formats import InputError, write_file
    from ...plots import check_picture
    from ...plots.report import make_report, report_text
    from ...serving import parse_requirement
    from ...serving.networks import files_of, named_in
    from ...studies.comparison import COMPARE_FILE

    tables = [file for folder in directories for file in (*files_of(folder), folder / COMPARE_FILE)]
    check_picture(output, replace=force, suffixes=None, apart=[asked.trace, *tables])
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output}: expected a page that ends in .html, found {output.name}")
    requests, specs = asked.requests, asked.policies
    networks = [name for path in directories for name in named_in(path)]
    required = [parse_requirement(text, networks=networks) for text in asked.require or []]
    report = make_report(directories, requests, specs, required)
    if requests is not None and not report.designs:
        raise InputError("trace: would change nothing without a design; add a design's folder or leave it out")
    write_file(output, report_text(report), replace=force)
    show(as_json, "fluidb.report-output/2", {"output": output, **report.record()}, _text(report), output)
    if not report.kept:
        raise typer.Exit(1)


def _text(report: Report) -> Iterator[str]:
    from ...plots.report import verdict_lines

    rows: list[tuple[object, ...]] = []
    for shown in report.designs:
        about = (shown.name, shown.network, shown.table.platform, shown.design.tile if shown.design else "-")
        figures = [
            (served.policy, served.summary.percentile("p99"), served.summary.violation_rate) for served in shown.served
        ]
        rows += [(*about, policy, ms(p99.latency_s), percent(share)) for policy, p99, share in figures] or [about]
    if rows:
        yield table(
            ["design", "network", "platform", "<T_R,T_P,T_C>", "policy", "p99", "violations"][: len(rows[0])], rows
        )
    if report.designs and report.requests:
        yield "\n".join(map(printable, verdict_lines(report)))
    if report.comparisons:
        yield facts(
            (compared.name, f"{compared.comparison.title}, {len(compared.comparison.points)} points")
            for compared in report.comparisons
        )
