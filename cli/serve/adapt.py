"""``fluidb adapt``: a plan of exits served while the load or the hardware changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..declare import argument, option
from ..options import AsJson, Seed, Slo, TraceFile, duration, objective
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...serving.judgement import Exits
    from ...studies.adapt import AdaptationResult, LoadChange

SAMPLES = "The log by which the plan was chosen; requests are drawn from it."
POLICY = "pame with its parameters (`fluidb docs policies`)."
WINDOW = "Fewest batches from which exits are chosen; with 0 nothing is adapted."
THEN = "Requests that come after --from are drawn from these samples."
TIMES = "The hardware takes these inference times after --from."


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """What adapts, and what changes while the trace is served."""

    policy: Annotated[str, option(POLICY, "pame[:KEY=VALUE,...]")] = "pame"
    window: Annotated[int, option(WINDOW, min=0)] = 100
    start: Annotated[str | None, option("When the load or the hardware changes.", "DURATION", "--from")] = None
    until: Annotated[str | None, option("When the load or the hardware is as before again.", "DURATION")] = None
    then_samples: Annotated[Path | None, option(THEN, "FILE")] = None
    then_times: Annotated[Path | None, option(TIMES, "inference_time.json")] = None

    @property
    def change(self) -> LoadChange | None:
        """What changes, if anything does."""
        from ...studies.adapt import LoadChange

        from_s, until_s = duration(self.start, "from"), duration(self.until, "until")
        if all(given is None for given in (from_s, until_s, self.then_samples, self.then_times)):
            return None
        start_s = math.inf if from_s is None else from_s
        return LoadChange(from_s=start_s, until_s=until_s, samples=self.then_samples, times=self.then_times)


def command(
    plan: Annotated[Path, argument("A folder that `fluidb exits -o DIR` wrote.", "DIR")],
    trace: TraceFile,
    samples: Annotated[Path, option(SAMPLES, "FILE")],
    *,
    asked: AdaptOptions,
    slo: Slo = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Replay a trace while exits and thresholds follow the load.

    Exits are chosen again when there is evidence that the precision, the share of slow batches
    or the samples that leave differ from the plan, that requests arrive at another rate than at
    first, or that the hardware has changed. The plan's exits return with its load (PAME,
    Section 7.6). It is meant for changes that last. Every change is printed.
    """
    from ...serving import Requests
    from ...studies.adapt import serve_adaptively

    requests = Requests(trace=trace, samples=samples, slo_s=objective(slo), seed=seed)
    adapted = serve_adaptively(plan, requests, asked.policy, window=asked.window, change=asked.change)
    latency_s = adapted.served.finish_s - adapted.arrival_s
    record = {
        "plan": plan,
        "trace": trace,
        "policy": asked.policy,
        "requests": len(latency_s),
        "mean_latency_s": float(latency_s.mean()),
        **adapted.whole._asdict(),
        "changes": [
            {**change._asdict(), "exits": _exits(adapted, change.exits)} for change in adapted.served.changes
        ],
    }  # fmt: skip
    show(as_json, "fluidb.adapt-output/2", record, _text(adapted, asked.policy, float(latency_s.mean())))


def _exits(adapted: AdaptationResult, exits: Exits) -> list[dict[str, Any]]:
    from ...traffic.measures import MEASURES

    counts, measure = adapted.log.counts.tolist(), MEASURES[adapted.plan.measure]
    return [
        {"after": adapted.candidates[place - 1], "confidence": measure.to_file(threshold), "count": counts[column]}
        for place, threshold, column in zip(*exits, strict=True)
    ]


def _text(adapted: AdaptationResult, policy: str, mean_latency_s: float) -> Iterator[str]:
    from ...traffic.measures import MEASURES

    whole, changes, measure = adapted.whole, adapted.served.changes, MEASURES[adapted.plan.measure]
    yield facts(
        {
            "plan": f"{adapted.plan.network} on {adapted.plan.platform}, batches of {adapted.plan.batch}",
            "policy": policy,
            "requests": f"{len(adapted.arrival_s):,}",
            "average latency": f"{ms(mean_latency_s)}, with {ms(whole.average_s)} in a batch",
            "last of a batch": f"{ms(whole.tail_s)} after its start, on average",
            "precision": f"{percent(whole.precision)} of the network's; {percent(adapted.plan.precision)} must be kept",
            "slow batches": f"{percent(whole.slow_share)}; at most {percent(adapted.plan.slow)} are allowed, or "
            f"{percent(whole.slow_allowed)} of batches of these sizes",
            "changes": f"{len(changes)}",
        }
    )
    if changes:
        yield table(
            ["from request", "time", "because of", "precision", "slow", "exits", adapted.plan.measure],
            [
                (
                    f"{change.request:,}", f"{change.time_s:.3f} s", change.cause, percent(change.precision),
                    percent(change.slow_share),
                    ", ".join(adapted.candidates[place - 1] for place in change.exits.places) or "none",
                    ", ".join(f"{measure.to_file(level):g}" for level in change.exits.thresholds),
                )
                for change in changes
            ],
            text=True,
        )  # fmt: skip
