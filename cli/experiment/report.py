"""``fluidb report``: a page to read and to pass on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, Force
from ..render import blank, emit_facts, emit_json, emit_table, ms, note, percent

if TYPE_CHECKING:
    from ...plots.report import Compared, Shown


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
    from dataclasses import replace

    from ...formats import InputError, check_free, parse_duration, write_file
    from ...plots.report import MAX_SERIES, Compared, Shown, read_entry, report_text, serve
    from ...serving import POLICIES, find_policy
    from ...traffic import prepare, read_trace

    check_free(output, force)
    for name, given in (("--policy", policy), ("--slo", slo), ("--seed", seed)):
        if trace is None and given is not None:
            raise InputError(f"{name}: would change nothing without --trace; add a trace or leave it out")
    specs = policy or list(POLICIES)
    if len(specs) > MAX_SERIES or len(set(specs)) < len(specs):
        raise InputError(
            f"--policy: expected at most {MAX_SERIES} policies, as many as a reader tells apart, each once, "
            f"found {', '.join(specs)}"
        )
    contenders = [find_policy(spec) for spec in specs]
    entries = [read_entry(directory) for directory in directories]
    slo_s = parse_duration(slo, "--slo") if slo is not None else None
    if trace is not None:
        if not any(isinstance(entry, Shown) for entry in entries):
            raise InputError("--trace: would change nothing without a design; add a design's folder or leave it out")
        requests = read_trace(trace)
        for index, entry in enumerate(entries):
            if isinstance(entry, Shown):
                rates = [row.rate for row in entry.table.exits]
                traffic = prepare(requests, rates, slo_s=slo_s, seed=seed or 0, source=trace)
                entries[index] = replace(entry, served=serve(entry.table, traffic, contenders))
    write_file(output, report_text(entries, None if trace is None else str(trace), title), replace=force)
    designs = [entry for entry in entries if isinstance(entry, Shown)]
    compared = [entry for entry in entries if isinstance(entry, Compared)]
    if as_json:
        run: dict[str, Any] = {"output": str(output), "trace": None if trace is None else str(trace)}
        run["slo_s"] = slo_s
        comparisons = [{"folder": item.name, "scenario_sha256": item.found.scenario_sha256} for item in compared]
        emit_json(
            "fluidb.report-output/1",
            {**run, "designs": [_record(item) for item in designs], "comparisons": comparisons},
        )
    else:
        _emit_text(designs, compared)
    note(f"wrote {output}")


def _record(shown: Shown) -> dict[str, Any]:
    design = shown.design
    searched = design and {
        **design.ranking[0].model_dump(),
        "dsp_share": design.dsp_share,
        "ram_share": design.ram_share,
        "gop_s": design.gop_s,
    }
    return {
        "design": shown.name,
        "network": shown.table.network,
        "platform": shown.table.platform,
        **(searched or {}),
        "policies": [
            {"policy": item.policy, "exits_from": item.replay.traffic.origin, **asdict(item.summary)}
            for item in shown.served
        ],
    }


def _emit_text(designs: list[Shown], compared: list[Compared]) -> None:
    rows: list[tuple[str, ...]] = []
    for shown in designs:
        tile = str(shown.design.tile) if shown.design else "-"
        about = (shown.name, shown.table.network, shown.table.platform, tile)
        rows += [
            (*about, item.policy, ms(item.summary.percentile("p99").latency_s), percent(item.summary.violation_rate))
            for item in shown.served
        ] or [about]
    if rows:
        emit_table(["design", "network", "board", "<T_R,T_P,T_C>", "policy", "p99", "violations"][: len(rows[0])], rows)
    if rows and compared:
        blank()
    if compared:
        emit_facts([(item.name, f"{item.found.title}, {len(item.found.points)} points") for item in compared])
