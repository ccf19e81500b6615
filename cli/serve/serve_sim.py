"""``fluidb serve-sim``: replay a trace on a design."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, Force, TableFolder
from ..render import blank, emit_facts, emit_json, emit_outcomes, emit_table, ms, note, percent, progress

if TYPE_CHECKING:
    from ...serving.metrics import Summary
    from ...tables import LatencyTable


def command(
    directory: TableFolder,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="The requests (docs/file-formats.md, Traces).")],
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="serial, adaptb, lazy, fluid, fluid-slack or path/to/file.py:NAME, e.g. adaptb:timeout=M "
            "(docs/policies.md).",
        ),
    ] = "fluid",
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, where the trace has none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the exits or samples, where the trace decides none.")] = 0,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="P[,P,...]", help="Confidence from which a sample exits: for all exits, or for each but the last."
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Confidences and answers for requests to draw from (.npz or CSV)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop then; requests not yet returned count as late.")
    ] = None,
    requests: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what happened to every request, as CSV.")
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what ran when, as JSON for ui.perfetto.dev or chrome://tracing."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REQUIREMENT",
            help="What must hold, e.g. 'p99 <= 200ms' (docs/capacity.md); exit code 1 if it does not. Repeatable.",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a design and say what its users would experience."""
    from ...formats import InputError, check_free, parse_duration
    from ...serving.bound import least_violations
    from ...serving.metrics import summarise
    from ...serving.replay import simulate, write_requests
    from ...serving.requirements import check_answerable, check_stated, judge, parse_requirement
    from ...serving.scheduler import find_policy
    from ...serving.timeline import check_timeline_size, write_timeline
    from ...tables import read_latency
    from ...traffic.exits import parse_thresholds
    from ...traffic.reading import read_trace
    from ...traffic.samples import draw_samples, read_samples
    from ...traffic.traffic import prepare

    for output in filter(None, (requests, timeline)):
        check_free(output, force)
    if requests is not None and timeline is not None and requests.absolute() == timeline.absolute():
        raise InputError(f"--timeline: expected another file than --requests, found {timeline} for both")
    required = [parse_requirement(text, "--require") for text in require or []]
    slo_s = parse_duration(slo, "--slo") if slo is not None else None
    until_s = parse_duration(until, "--until") if until is not None else math.inf
    levels = parse_thresholds(threshold, "--threshold") if threshold is not None else None
    contender = find_policy(policy)
    table = read_latency(directory)
    check_stated(required, table)
    with progress("reading") as report:
        loaded = read_trace(trace, report)
    if samples is not None:
        loaded = draw_samples(loaded, read_samples(samples), seed, trace)
    check_answerable(required, loaded)
    rates = [row.rate for row in table.exits]
    traffic = prepare(loaded, rates, slo_s=slo_s, seed=seed, threshold=levels, source=samples or trace)
    origin = traffic.origin if samples is None else f"{traffic.origin} of {samples}, seed {seed}"
    with progress("replaying") as report:
        replay = simulate(table, traffic, contender, until_s=until_s, progress=report)
    summary = summarise(replay)
    unavoidable = least_violations(replay)
    outcomes = [judge(item, summary) for item in required]
    if timeline is not None:
        check_timeline_size(replay)
        replay = simulate(table, traffic, contender, until_s=until_s, record=True)
        write_timeline(replay, timeline, replace=force)
    if requests is not None:
        write_requests(replay, requests, replace=force)
    run = {"design": str(directory), "trace": str(trace), "policy": policy, "exits_from": origin}
    if as_json:
        names = {"network": table.network, "platform": table.platform}
        figures = {**_finite(asdict(summary)), "unavoidable_violations": unavoidable}
        judged = {"requirements": [_finite(asdict(item)) for item in outcomes]} if outcomes else {}
        emit_json("fluidb.serve-sim-output/1", {**run, **names, "slo_s": slo_s, **figures, **judged})
    else:
        _emit_text(run, summary, unavoidable, table)
        if outcomes:
            blank()
            emit_outcomes([item.text for item in required], outcomes)
    for output in filter(None, (requests, timeline)):
        note(f"wrote {output}")
    if not all(item.holds for item in outcomes):
        raise typer.Exit(1)


def _finite(value: Any) -> Any:
    """The same with ``None`` for what is not finite: JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _emit_text(run: dict[str, str], summary: Summary, unavoidable: int, table: LatencyTable) -> None:
    low, high = summary.violation_interval
    unfinished = [("unfinished", f"{summary.unfinished:,} requests, counted as late")] if summary.unfinished else []
    accuracy = [("accuracy", percent(summary.accuracy))] if summary.accuracy is not None else []
    use = summary.utilisation
    emit_facts(
        [
            ("policy", f"{run['policy']}, exits from {run['exits_from']}"),
            ("requests", f"{summary.requests:,} over {summary.span_s:,.1f} s"),
            ("warm-up", f"{summary.warm_up_requests:,} requests, counted in all figures"),
            *unfinished,
            ("arrival rate", f"{summary.arrival_rate_per_s:.3f} /s"),
            ("processing rate", f"{summary.processing_rate_per_s:.3f} /s, {summary.goodput_per_s:.3f} /s in time"),
            ("average latency", f"{ms(summary.mean_latency_s)}, of which {ms(summary.mean_wait_s)} in the queue"),
            ("violations", f"{percent(summary.violation_rate)} ({summary.violations:,} requests)"),
            ("95 % interval", f"{percent(low)} to {percent(high)}"),
            ("any scheduler", f"at least {percent(unavoidable / summary.requests)} ({unavoidable:,} requests)"),
            *accuracy,
            (f"{table.machine} busy", f"{percent(summary.busy_share, 1)}, {summary.mean_batch:.2f} samples on average"),
            ("preemptions", f"{summary.preemptions:,}, {ms(summary.stalled_s)} stood still on average"),
            ("scheduler calls", f"{summary.scheduler_calls:,}"),
        ]
    )
    blank()
    rows = [
        (
            item.name,
            ms(item.latency_s),
            f"{ms(item.interval_s.low)} to {ms(item.interval_s.high)}"
            if item.interval_s
            else f"{item.more_requests_needed:,} more requests needed",
        )
        for item in summary.percentiles
    ]
    emit_table(["latency", "", "95 %"], [*rows, ("worst", ms(summary.max_latency_s), "")])
    blank()
    if use is None:
        emit_facts([("where the MACs went", f"not known: the latency table of {table.platform} states no causes")])
    else:
        shares = {
            "MACs made": use.mac_share,
            "no batch": use.idle_share,
            "scheduler": use.scheduler_share,
            "off-chip memory": use.memory_bound_share,
            "tiles not filled": use.tile_padding_share,
            "batch grid not filled": use.batch_padding_share,
        }
        emit_table(["where the MACs went", "share"], [(name, percent(share, 1)) for name, share in shares.items()])
    blank()
    cells = [
        (
            f"{there.exit} {row.name}",
            f"{there.requests:,}",
            percent(there.requests / summary.requests, 1),
            "" if there.mean_latency_s is None else ms(there.mean_latency_s),
            *([] if there.accuracy is None else [percent(there.accuracy)]),
            f"{stage.runs:,}",
            f"{stage.mean_batch:.2f}",
            percent(stage.busy_share, 1),
        )
        for row, there, stage in zip(table.exits, summary.exits, summary.stages, strict=True)
    ]
    right = ["accuracy"] if summary.accuracy is not None else []
    emit_table(["exit", "requests", "share", "latency", *right, "runs", "samples", table.machine], cells)
