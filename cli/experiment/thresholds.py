"""``fluidb thresholds``: what a threshold costs and brings."""

from __future__ import annotations

from typing import Annotated

from ..options import AsJson, SampledRequests, TableFolder, option
from ..render import facts, ms, percent, progress, show, table


def command(
    directory: TableFolder,
    requests: SampledRequests,
    first: Annotated[float, option("The lowest threshold.", "THRESHOLD", "--from")] = 0.5,
    last: Annotated[float, option("The highest threshold.", "THRESHOLD", "--to")] = 0.95,
    steps: Annotated[int, option("Thresholds, at equal distances.", min=2, max=1000)] = 10,
    as_json: AsJson = False,
) -> None:
    """Sweep the exit threshold: accuracy against latency.

    Every threshold, the same for all exits, replays the same requests with the
    same samples.  A star marks what no other threshold beats in accuracy, mean
    latency and violations at once.
    """
    from ...experiments.thresholds import spread, sweep_thresholds
    from ...tables import read_latency

    slo_s, thresholds, scheduler = requests.slo_s, spread(first, last, steps), requests.scheduler
    latency, trace, source = read_latency(directory), requests.read(), requests.source
    with progress("thresholds") as report:
        points = sweep_thresholds(latency, trace, scheduler, thresholds, slo_s=slo_s, source=source, progress=report)
    record = {
        "design": directory,
        "trace": requests.trace,
        "samples": requests.samples,
        "policy": requests.policy,
        "slo_s": slo_s,
        "seed": requests.seed,
        "requests": len(trace),
        "points": points,
    }
    origin = str(source) if requests.samples is None else f"{source}, seed {requests.seed}"
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
    names = [f"{index} {row.name}" for index, row in enumerate(latency.exits, 1)]
    text = [
        facts({"policy": requests.policy, "requests": f"{len(trace):,}", "confidences": origin}),
        table(["threshold", *names, "accuracy", "mean latency", "p99", "violations", "best"], rows),
    ]
    show(as_json, "fluidb.thresholds-output/1", record, text)
