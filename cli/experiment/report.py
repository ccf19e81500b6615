"""``fluidb report``: a page to read and to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force
from ..render import blank, emit_facts, emit_json, emit_table, ms, note, percent

if TYPE_CHECKING:
    from ...plots.report import Report


def command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folders of designs or devices with their latency tables, or of `fluidb compare -o`."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")],
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Requests to simulate; without them the designs alone are shown."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]", help="As in `fluidb serve-sim`; all that ship if not given. Repeatable."
        ),
    ] = None,
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, where the trace has none.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the exits, where the trace decides none.  [default: 0]")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.  [default: network and board]")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a search and its simulations as one HTML page.

    The page needs no network. Design, resources, utilisation and latency table of every folder; with --trace
    also the policies: figures with intervals, distributions, the first moments.
    """
    from ...formats import InputError, parse_duration, write_file
    from ...plots import check_picture
    from ...plots.report import MAX_SERIES, make_report, report_text
    from ...serving import POLICIES, find_policy

    check_picture(output, replace=force, suffixes=None)
    for name, given in (("--policy", policy), ("--slo", slo), ("--seed", seed)):
        if trace is None and given is not None:
            raise InputError(f"{name}: would change nothing without --trace; add a trace or leave it out")
    specs = policy or list(POLICIES)
    if len(specs) > MAX_SERIES or len(set(specs)) < len(specs):
        raise InputError(
            f"--policy: expected at most {MAX_SERIES} policies, as many as a reader tells apart, each once, "
            f"found {', '.join(specs)}"
        )
    slo_s = None if slo is None else parse_duration(slo, "--slo")
    report = make_report(directories, trace, [find_policy(spec) for spec in specs], slo_s=slo_s, seed=seed or 0)
    if trace is not None and not report.designs:
        raise InputError("--trace: would change nothing without a design; add a design's folder or leave it out")
    write_file(output, report_text(report, title), replace=force)
    if as_json:
        emit_json("fluidb.report-output/1", {"output": str(output), **report.record()})
    else:
        _emit_text(report)
    note(f"wrote {output}")


def _emit_text(report: Report) -> None:
    rows: list[tuple[str, ...]] = []
    for shown in report.designs:
        tile = str(shown.design.tile) if shown.design else "-"
        about = (shown.name, shown.table.network, shown.table.platform, tile)
        rows += [
            (*about, item.policy, ms(item.summary.percentile("p99").latency_s), percent(item.summary.violation_rate))
            for item in shown.served
        ] or [about]
    if rows:
        emit_table(["design", "network", "board", "<T_R,T_P,T_C>", "policy", "p99", "violations"][: len(rows[0])], rows)
    if rows and report.comparisons:
        blank()
    if report.comparisons:
        emit_facts([(item.name, f"{item.found.title}, {len(item.found.points)} points") for item in report.comparisons])
