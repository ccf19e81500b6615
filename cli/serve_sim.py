"""``fluidb serve-sim``: replay a trace on a design."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson, DesignFolder, Force
from .render import blank, emit_facts, emit_json, emit_table, ms, note, percent

if TYPE_CHECKING:
    from ..serving.metrics import Summary


def command(
    directory: DesignFolder,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="The requests (docs/file-formats.md, Traces).")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="Scheduling policy: serial or fluid.")] = "fluid",
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, where the trace has none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the exits, where the trace decides none.")] = 0,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Confidence from which a sample exits, where the trace has confidences."),
    ] = None,
    requests: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what happened to every request, as CSV.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a design and say what its users would experience."""
    from ..dse.latency import read_latency
    from ..formats import check_free, parse_duration
    from ..serving.exits import resolve
    from ..serving.metrics import summarise
    from ..serving.policies import find_policy
    from ..serving.simulate import simulate, write_requests
    from ..serving.traces import read_trace

    if requests is not None:
        check_free(requests, force)
    slo_s = parse_duration(slo, "--slo") if slo is not None else None
    decide = find_policy(policy)
    table = read_latency(directory)
    loaded = read_trace(trace)
    exits, origin = resolve(loaded, [row.rate for row in table.exits], seed, threshold)
    replay = simulate(table, loaded, decide, exits=exits, slo_s=slo_s)
    summary = summarise(replay, table)
    if requests is not None:
        write_requests(replay, requests)
    run = {"design": str(directory), "trace": str(trace), "policy": policy, "exits_from": origin}
    if as_json:
        emit_json("fluidb.serve-sim-output/1", {**run, "slo_s": slo_s, **asdict(summary)})
    else:
        _emit_text(run, summary, [row.name for row in table.exits])
    if requests is not None:
        note(f"wrote {requests}")


def _emit_text(run: dict[str, str], summary: Summary, exits: list[str]) -> None:
    emit_facts(
        [
            ("policy", f"{run['policy']}, exits from {run['exits_from']}"),
            ("requests", f"{summary.requests:,} over {summary.span_s:,.1f} s"),
            ("arrival rate", f"{summary.arrival_rate_per_s:.3f} /s"),
            ("processing rate", f"{summary.processing_rate_per_s:.3f} /s"),
            ("average latency", ms(summary.mean_latency_s)),
            (
                "p50 / p90 / p99",
                f"{ms(summary.p50_latency_s)} / {ms(summary.p90_latency_s)} / {ms(summary.p99_latency_s)}",
            ),
            ("worst latency", ms(summary.max_latency_s)),
            ("average wait", ms(summary.mean_wait_s)),
            ("violations", f"{percent(summary.violation_rate)} ({summary.violations:,} requests)"),
            ("busy share", percent(summary.busy_share, 1)),
            ("MAC share", percent(summary.mac_share, 1)),
            ("average batch", f"{summary.mean_batch:.2f}"),
            ("preemptions", f"{summary.preemptions:,}"),
            ("scheduler calls", f"{summary.scheduler_calls:,}"),
        ]
    )
    blank()
    rows = [
        (f"{i} {name}", f"{count:,}", percent(count / summary.requests, 1))
        for i, (name, count) in enumerate(zip(exits, summary.samples_per_exit, strict=True), 1)
    ]
    emit_table(["exit", "requests", "share"], rows)
