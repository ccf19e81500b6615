"""``fluidb serve-real``: a trace on this machine, in real time."""

from __future__ import annotations

from pathlib import Path

import typer

from ..interrupt import stopping
from ..options import (
    AsJson,
    Ends,
    Inputs,
    Model,
    PictureOptions,
    Policy,
    RequestsFile,
    Required,
    Seed,
    Slo,
    StageThreads,
    TableFolder,
    Threshold,
    TimelineFile,
    TraceFile,
    names,
    objective,
)
from ..render import facts, ms, outcomes, progress, show
from ..serve.serve_sim import record_of, text_of


def command(
    model: Model,
    directory: TableFolder,
    trace: TraceFile,
    policy: Policy = "fluid",
    inputs: Inputs = None,
    exits: Ends = None,
    slo: Slo = None,
    threshold: Threshold = None,
    seed: Seed = 0,
    threads: StageThreads = 1,
    requests: RequestsFile = None,
    timeline: TimelineFile = None,
    require: Required = None,
    *,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Serve a trace on this machine, in real time.

    The network of `fluidb measure` runs under the policy as in the simulator:
    real batches, real answers, exits by real confidences. Ctrl-C stops after the
    run that is on the device, and keeps what was served.
    """
    from ...formats import InputError, check_free, together
    from ...machine.measurement import MEASURED_FILES, machine
    from ...machine.network import RealNetwork
    from ...machine.serve import read_measured, serve_real
    from ...plots.replay import draw_replay
    from ...serving import parse_requirement, write_requests, write_timeline
    from ...serving.inputs import Requests
    from ...traffic import parse_thresholds

    sources = [trace, inputs, Path(model), *(directory / name for name in MEASURED_FILES)]
    picture.check([*sources, requests, timeline])
    for output, other in ((requests, timeline), (timeline, requests)):
        if output is not None:
            check_free(output, picture.force, apart=[*sources, other])
    required = [parse_requirement(text) for text in require or []]
    levels = None if threshold is None else parse_thresholds(threshold, "threshold")
    slo_s = objective(slo)
    table = read_measured(directory)
    with progress("samples answered alone") as report:
        network = RealNetwork(model, inputs, names(exits), threads, report)
    with progress("serving") as report, stopping() as stop:
        done = serve_real(
            network, table, Requests(trace=trace, slo_s=slo_s, seed=seed), policy, threshold=levels,
            requirements=required, stop=stop, progress=report,
        )  # fmt: skip
        found = done.served
        with together():
            if timeline is not None:
                write_timeline(found.replay, timeline, replace=picture.force)
            if requests is not None:
                write_requests(found.replay, requests, replace=picture.force)
            picture.write(lambda: draw_replay(found.replay, found.policy))
    record = {
        "model": model, "design": directory, "trace": trace, "machine": machine(), "runtime": network.runtime,
        "answers_wrong": done.answers_wrong, "late_mean_s": done.late_mean_s, "late_p99_s": done.late_p99_s,
        **record_of(found, slo), **({"requirements": found.requirements} if required else {}),
    }  # fmt: skip
    about = {
        "machine": f"{machine()}; {network.runs_on}",
        "answers": "all as the network alone gives" if not done.answers_wrong else f"{done.answers_wrong:,} are wrong",
        "idle device late by": f"{ms(done.late_mean_s)} on average, p99 {ms(done.late_p99_s)}; counted in latencies",
    }
    text = [facts(about), *text_of(found)]
    if required:
        text.append(outcomes([item.text for item in required], found.requirements))
    show(as_json, "fluidb.serve-real-output/1", record, text, others=(requests, timeline, picture.plot))
    if done.outcome.failure:
        fault = f"{done.outcome.failure}; {done.returned:,} requests were served before, and are kept"
        raise InputError(f"{network.path}: {fault}")
    if stop.is_set():
        raise KeyboardInterrupt(f"interrupted; {done.returned:,} requests were served, and are kept")
    if not done.holds:
        raise typer.Exit(1)
