"""``fluidb serve-real``: a trace on this machine, in real time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..interrupt import stopping
from ..options import (
    Admit,
    AsJson,
    Between,
    ClientCount,
    Ends,
    Inputs,
    Models,
    OnDeadline,
    OptionalTrace,
    PictureOptions,
    Policy,
    RequestsFile,
    Required,
    Seed,
    SentCount,
    Served,
    ServiceOptions,
    Slo,
    StageThreads,
    Think,
    Threshold,
    TimelineFile,
    names,
)
from ..render import facts, ms, outcomes, progress, show
from ..serve.serve_sim import record_of, text_of

if TYPE_CHECKING:
    from ...machine.network import RealNetwork
    from ...machine.serve import MachineResult


def command(
    model: Models,
    directory: Served,
    trace: OptionalTrace = None,
    clients: ClientCount = None,
    think: Think = None,
    count: SentCount = None,
    policy: Policy = "fluid",
    on_deadline: OnDeadline = None,
    admit: Admit = None,
    between: Between = None,
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
    """Serve requests on this machine, in real time.

    The network of `fluidb measure` runs under the policy as in the simulator:
    real batches, real answers, exits by real confidences. Ctrl-C stops after the
    run that is on the device, and keeps what was served. A file of several networks
    takes a model for each, in its order: a.onnx,b.onnx.
    """
    from ...formats import InputError, check_free, together
    from ...machine.measurement import MEASURED_FILES
    from ...machine.network import RealNetwork
    from ...machine.serve import read_measured, serve_real
    from ...plots.replay import draw_replay
    from ...serving import parse_requirement, write_requests, write_timeline
    from ...serving.networks import as_served, names_of
    from ...traffic import parse_thresholds

    models = names(model) or []
    if len(models) > 1:  # each has its own
        for name, given in (("inputs", inputs), ("exits", exits)):
            if given is not None:
                raise InputError(f"{name}: expected one network, found a file of several; leave it out")
    sources = [trace, inputs, directory, *map(Path, models), *(directory / name for name in MEASURED_FILES)]
    picture.check([*sources, requests, timeline])
    for output, other in ((requests, timeline), (timeline, requests)):
        if output is not None:
            check_free(output, picture.force, apart=[*sources, other])
    levels = None if threshold is None else parse_thresholds(threshold, "threshold")
    networks = as_served(read_measured(directory), levels)
    required = [parse_requirement(text, networks=names_of(networks)) for text in require or []]
    asked = ServiceOptions(
        trace=trace, clients=clients, think=think, count=count, policy=policy, slo=slo, seed=seed,
        on_deadline=on_deadline, admit=admit, between=between,
    )  # fmt: skip
    with progress("samples answered alone") as report:
        running = [RealNetwork(item, inputs, names(exits), threads, report) for item in models]
    with progress("serving") as report, stopping() as stop:
        done = serve_real(
            running, networks, asked.requests, asked.scheduler, requirements=required, stop=stop, progress=report
        )
        found = done.served
        with together():
            if timeline is not None:
                write_timeline(found.replay, timeline, replace=picture.force)
            if requests is not None:
                write_requests(found.replay, requests, replace=picture.force)
            picture.write(lambda: draw_replay(found.replay, found.policy))
    record = {
        "model": model, "design": directory, "trace": trace,
        **({} if clients is None else {"clients": clients, "think": think or "0"}),
        **_record_of(done, running[0], slo), **({"requirements": found.requirements} if required else {}),
    }  # fmt: skip
    text = [_facts(done, running[0]), *text_of(found)]
    if required:
        text.append(outcomes([item.text for item in required], found.requirements))
    show(as_json, "fluidb.serve-real-output/1", record, text, others=(requests, timeline, picture.plot))
    if done.outcome.failure:
        fault = f"{done.outcome.failure}; {done.returned:,} requests were served before, and are kept"
        raise InputError(f"{', '.join(str(item.path) for item in running)}: {fault}")
    if stop.is_set():
        raise KeyboardInterrupt(f"interrupted; {done.returned:,} requests were served, and are kept")
    if not done.holds:
        raise typer.Exit(1)


def _record_of(done: MachineResult, network: RealNetwork, slo: str | None) -> dict[str, object]:
    """The JSON of requests that this machine served."""
    from ...machine.measurement import machine

    late = {"late_mean_s": done.late_mean_s, "late_p99_s": done.late_p99_s}
    here = {"machine": machine(), "runtime": network.runtime, "answers_wrong": done.answers_wrong}
    return here | late | record_of(done.served, slo)


def _facts(done: MachineResult, network: RealNetwork) -> str:
    """The text about the machine that served."""
    from ...machine.measurement import machine

    late = f"{ms(done.late_mean_s)} on average, p99 {ms(done.late_p99_s)}; counted in latencies"
    return facts(
        {
            "machine": f"{machine()}; {network.runs_on}",
            "answers": f"{done.answers_wrong:,} are wrong" if done.answers_wrong else "all as the network alone gives",
            "idle device late by": late,
        }
    )
