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
from ..render import facts, ms, percent, progress, show, spread, table


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
    exits = spread([(index, f"{index + 1} {name}") for index, name in enumerate(found.exits)])
    rows = [
        (
            f"{point.threshold:g}",
            *(percent(point.exit_shares[index], 1) for index, _ in exits),
            percent(point.accuracy),
            ms(point.mean_latency_s),
            ms(point.p99_latency_s),
            percent(point.violation_rate),
            "*" if point.pareto else "",
        )
        for point in found.points
    ]
    text = [
        facts({"policy": found.policy, "requests": f"{found.requests:,}", found.measure: str(origin)}),
        table(
            ["threshold", *(name for _, name in exits), "accuracy", "mean latency", "p99", "violations", "best"], rows
        ),
    ]
    if len(exits) < len(found.exits):
        text.append(f"{len(exits)} of {len(found.exits)} exits; --json has all")
    show(as_json, "fluidb.thresholds-output/1", record, text, picture.plot)
