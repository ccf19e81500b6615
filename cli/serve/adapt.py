"""``fluidb adapt``: a plan of exits served while the load or the hardware changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..options import AsJson, Seed, Slo, TraceFile, argument, duration, objective, option
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...serving.judgement import Exits
    from ...studies.adapt import AdaptationResult

SAMPLES = "The log that the plan was chosen by; requests draw from it."
POLICY = "pame with its parameters (`fluidb docs policies`)."
WINDOW = "Fewest batches that exits are chosen from; 0 adapts nothing."
THEN = "From --from on, requests draw from these samples."
TIMES = "From --from on, the hardware takes these inference times."


def command(
    plan: Annotated[Path, argument("A folder that `fluidb exits -o DIR` wrote.", "DIR")],
    trace: TraceFile,
    samples: Annotated[Path, option(SAMPLES, "FILE")],
    policy: Annotated[str, option(POLICY, "pame[:KEY=VALUE,...]")] = "pame",
    window: Annotated[int, option(WINDOW, min=0)] = 100,
    start: Annotated[str | None, option("When the load or the hardware changes.", "DURATION", "--from")] = None,
    until: Annotated[str | None, option("When it is again as it was.", "DURATION")] = None,
    then_samples: Annotated[Path | None, option(THEN, "FILE")] = None,
    then_times: Annotated[Path | None, option(TIMES, "inference_time.json")] = None,
    slo: Slo = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Replay a trace while exits and thresholds follow the load.

    Where there is evidence that precision, slow batches or the samples that leave
    are not those of the plan, exits are chosen anew, as for other hardware; the
    plan comes back with its load (PAME, Section 7.6). Every change is printed.
    """
    from ...serving import Requests
    from ...studies.adapt import LoadChange, serve_adaptively

    from_s, until_s, change = duration(start, "from"), duration(until, "until"), None
    if any(given is not None for given in (from_s, until_s, then_samples, then_times)):
        change = LoadChange(
            from_s=math.inf if from_s is None else from_s, until_s=until_s, samples=then_samples, times=then_times
        )
    requests = Requests(trace=trace, samples=samples, slo_s=objective(slo), seed=seed)
    found = serve_adaptively(plan, requests, policy, window=window, change=change)
    latency_s = found.served.finish_s - found.arrival_s
    record = {
        "plan": plan,
        "trace": trace,
        "policy": policy,
        "requests": len(latency_s),
        "mean_latency_s": float(latency_s.mean()),
        **found.whole._asdict(),
        "changes": [
            {**change._asdict(), "exits": _exits(found, change.exits)} for change in found.served.changes
        ],
    }  # fmt: skip
    show(as_json, "fluidb.adapt-output/2", record, _text(found, policy, float(latency_s.mean())))


def _exits(found: AdaptationResult, exits: Exits) -> list[dict[str, Any]]:
    from ...traffic.measures import MEASURES

    counts, measure = found.log.counts.tolist(), MEASURES[found.plan.measure]
    return [
        {"after": found.candidates[place - 1], "confidence": measure.to_file(confidence), "count": counts[column]}
        for place, confidence, column in zip(*exits, strict=True)
    ]


def _text(found: AdaptationResult, policy: str, mean_latency_s: float) -> Iterator[str]:
    from ...traffic.measures import MEASURES

    whole, changes, measure = found.whole, found.served.changes, MEASURES[found.plan.measure]
    yield facts(
        {
            "plan": f"{found.plan.network} on {found.plan.platform}, batches of {found.plan.batch}",
            "policy": policy,
            "requests": f"{len(found.arrival_s):,}",
            "average latency": f"{ms(mean_latency_s)}, of which {ms(whole.average_s)} in a batch",
            "last of a batch": f"{ms(whole.tail_s)} after its start, on average",
            "precision": f"{percent(whole.precision)} of that without exits, {percent(found.plan.precision)} to keep",
            "slow batches": f"{percent(whole.slow_share)}, at most {percent(found.plan.slow)}, or "
            f"{percent(whole.slow_allowed)} of batches of these sizes",
            "changes": f"{len(changes)}",
        }
    )
    if changes:
        yield table(
            ["from request", "time", "because of", "precision", "slow", "exits", found.plan.measure],
            [
                (
                    f"{change.request:,}", f"{change.time_s:.3f} s", change.cause, percent(change.precision),
                    percent(change.slow_share),
                    ", ".join(found.candidates[place - 1] for place in change.exits.places) or "none",
                    ", ".join(f"{measure.to_file(level):g}" for level in change.exits.confidences),
                )
                for change in changes
            ],
            text=True,
        )  # fmt: skip
