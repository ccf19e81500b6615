"""``fluidb thresholds``: accuracy, latency and violations by threshold."""

from __future__ import annotations

from ..options import (
    AsJson,
    PictureOptions,
    SimulationOptions,
    TableFolder,
    ThresholdsTried,
    objective_record,
    tried_thresholds,
)
from ..render import facts, ms, percent, progress, show, table


def command(
    directory: TableFolder,
    simulated: SimulationOptions,
    thresholds: ThresholdsTried = None,
    *,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Sweep the exit threshold: accuracy against latency.

    Every threshold, the same for all exits, replays the same requests with the
    same samples. A star marks what no other threshold beats in accuracy, mean
    latency and violations at once. `fluidb target` finds thresholds for a latency.
    """
    from ...plots.thresholds import draw_thresholds
    from ...studies.thresholds import sweep_thresholds

    picture.check()
    requests, tried = simulated.requests, tried_thresholds(thresholds)
    with progress("thresholds") as report:
        found = sweep_thresholds(directory, requests, simulated.policy, tried, progress=report)
    picture.write(lambda: draw_thresholds(found))
    record = {
        "design": directory,
        "trace": requests.trace,
        "samples": requests.samples,
        "policy": found.policy,
        **objective_record(simulated.slo),
        "seed": requests.seed,
        "requests": found.requests,
        "measure": found.measure,
        "points": found.points,
    }
    origin = requests.trace if requests.samples is None else f"{requests.samples}, seed {requests.seed}"
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
        for point in found.points
    ]
    names = [f"{index} {name}" for index, name in enumerate(found.exits, 1)]
    text = [
        facts({"policy": found.policy, "requests": f"{found.requests:,}", found.measure: str(origin)}),
        table(["threshold", *names, "accuracy", "mean latency", "p99", "violations", "best"], rows),
    ]
    show(as_json, "fluidb.thresholds-output/1", record, text, picture.plot)
