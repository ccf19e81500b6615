"""``fluidb serve-real``: a trace on this machine, in real time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..interrupt import stopping
from ..options import (
    AsJson,
    ClientCount,
    Models,
    OptionalTrace,
    PictureOptions,
    ReplayFiles,
    Seed,
    SentCount,
    Served,
    ServiceOptions,
    Think,
    clients_record,
    names,
)
from ..render import facts, ms, outcomes, progress, show
from ..serve.serve_sim import record_of, text_of
from .running import RunningOptions

if TYPE_CHECKING:
    from ...machine.network import RealNetwork
    from ...machine.serve import MachineResult


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The requests."""

    trace: OptionalTrace = None
    clients: ClientCount = None
    think: Think = None
    count: SentCount = None
    seed: Seed = 0


def command(
    model: Models,
    directory: Served,
    *,
    asked: RequestOptions,
    running: RunningOptions,
    files: ReplayFiles,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Serve requests on this machine, in real time.

    The network of `fluidb measure` runs under the policy as in the simulator, with real
    batches, real answers, and exits by real confidences. Ctrl-C stops after the run that is on
    the device, and keeps what was served. A file of several networks takes a model for each, in
    its order: a.onnx,b.onnx.
    """
    from ...formats import InputError
    from ...machine.measurement import MEASURED_FOLDER
    from ...machine.serve import serve_real
    from ...serving import parse_requirement
    from ...serving.networks import files_of, named_in

    models = names(model) or []
    sources = [asked.trace, running.inputs, directory, *files_of(directory), *map(Path, models)]
    files.check(picture, [*sources, *(directory / name for name in MEASURED_FOLDER.own)])
    required = [parse_requirement(text, networks=named_in(directory)) for text in files.required]
    networks, policy = running.served(directory), running.scheduler
    requests = ServiceOptions(slo=running.slo, **asdict(asked)).requests
    real = running.models(models)
    with progress("serving") as report, stopping() as stop:
        done = serve_real(real, networks, requests, policy, requirements=required, stop=stop, progress=report)
        served = done.served
        written = files.write(served.replay, served.policy, picture)
    record = {
        "model": model, "design": directory, "trace": asked.trace,
        **clients_record(asked.clients, asked.think),
        **_record_of(done, real[0], running.slo), **({"requirements": served.requirements} if required else {}),
    }  # fmt: skip
    text = [_facts(done, real[0]), *text_of(served)]
    if required:
        text.append(outcomes([requirement.text for requirement in required], served.requirements))
    show(as_json, "fluidb.serve-real-output/1", record, text, others=written)
    if done.outcome.failure:
        fault = f"{done.outcome.failure}; {done.returned:,} requests were served before, and are kept"
        raise InputError(f"{', '.join(str(network.path) for network in real)}: {fault}")
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
