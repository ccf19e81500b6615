"""``fluidb thresholds``: what a threshold costs and brings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..options import AsJson, TableFolder
from ..render import blank, emit_facts, emit_json, emit_table, ms, percent, progress


def command(
    directory: TableFolder,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="The requests (docs/file-formats.md, Traces).")],
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Confidences and answers to draw from, where the trace has none (.npz or CSV)."
        ),
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="As in `fluidb serve-sim`.")] = "fluid",
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, where the trace has none.")
    ] = None,
    first: Annotated[float, typer.Option("--from", metavar="THRESHOLD", help="The lowest threshold.")] = 0.5,
    last: Annotated[float, typer.Option("--to", metavar="THRESHOLD", help="The highest threshold.")] = 0.95,
    steps: Annotated[int, typer.Option(min=2, max=1000, help="Thresholds, at equal distances.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the samples drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Sweep the exit threshold: accuracy against latency and violations.

    Every threshold, the same for all exits, replays the same requests with the
    same samples.  A star marks what no other threshold beats in accuracy, mean
    latency and violations at once.
    """
    from ...experiments.thresholds import spread, sweep_thresholds
    from ...formats import parse_duration
    from ...serving.scheduler import find_policy
    from ...tables import read_latency
    from ...traffic.reading import read_trace
    from ...traffic.samples import draw_samples, read_samples

    slo_s = parse_duration(slo, "--slo") if slo is not None else None
    thresholds = spread(first, last, steps)
    contender = find_policy(policy)
    table = read_latency(directory)
    loaded = read_trace(trace)
    if samples is not None:
        loaded = draw_samples(loaded, read_samples(samples), seed, trace)
    with progress("thresholds") as report:
        points = sweep_thresholds(
            table, loaded, contender, thresholds, slo_s=slo_s, source=samples or trace, progress=report
        )
    if as_json:
        run = {"design": str(directory), "trace": str(trace), "samples": None if samples is None else str(samples)}
        content = {"policy": policy, "slo_s": slo_s, "seed": seed, "requests": len(loaded)}
        emit_json("fluidb.thresholds-output/1", {**run, **content, "points": [asdict(point) for point in points]})
        return
    origin = str(trace) if samples is None else f"{samples}, seed {seed}"
    emit_facts([("policy", policy), ("requests", f"{len(loaded):,}"), ("confidences", origin)])
    blank()
    rows = [
        (
            f"{point.threshold:g}",
            *(percent(share, 1) for share in point.exit_shares),
            percent(point.accuracy),
            ms(point.mean_latency_s),
            ms(point.p99_latency_s),
            percent(point.violation_rate),
            "*" if point.pareto else "",
        )
        for point in points
    ]
    names = [f"{index} {row.name}" for index, row in enumerate(table.exits, 1)]
    emit_table(["threshold", *names, "accuracy", "mean latency", "p99", "violations", "best"], rows)
