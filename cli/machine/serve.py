"""``fluidb serve``: the networks of this machine over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..interrupt import draining
from ..options import (
    Admit,
    Between,
    Ends,
    Inputs,
    Models,
    OnDeadline,
    Policy,
    Served,
    ServiceOptions,
    Slo,
    StageThreads,
    Threshold,
    names,
    objective,
    option,
)
from ..render import fail
from ..values import Values
from .serve_real import RealOptions

if TYPE_CHECKING:
    from ...machine.server.run import Server


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The policy, how the network is run, and where clients find it."""

    policy: Policy = "fluid"
    on_deadline: OnDeadline = None
    admit: Admit = None
    between: Between = None
    inputs: Inputs = None
    exits: Ends = None
    values: Values = None
    slo: Slo = None
    threshold: Threshold = None
    threads: StageThreads = 1
    host: Annotated[str, option("Name or address of this machine at which clients connect.", "HOST")] = "127.0.0.1"
    port: Annotated[int, option("Port; 0 is any that is free.", min=0, max=65535)] = 8000
    record: Annotated[Path | None, option("A new folder that keeps what arrives and what becomes of it.", "DIR")] = None
    grace: Annotated[
        str, option("Time for the requests that are here after the first SIGTERM or Ctrl-C.", "DURATION")
    ] = "10s"


def command(model: Models, directory: Served, *, asked: ServerOptions) -> None:
    """Serve a network over HTTP, for clients of Open Inference Protocol 2.

    The network of `fluidb measure` runs under the policy as in the simulator and in serve-real.
    A request with n rows is n samples; its timeout is its deadline. SIGTERM or Ctrl-C ends the
    service once all requests are answered, a second one at once. A file of several networks takes
    a model for each, in its order: a.onnx,b.onnx.
    """
    from ...formats import check_installed, parse_duration
    from ...machine.needs import check_runtime
    from ...machine.serve import read_measured
    from ...serving.networks import as_served
    from ...traffic import parse_thresholds

    for needed in ("uvicorn", "prometheus_client"):
        check_installed("fluidb serve", needed, "onnx,runtime,server")
    check_runtime(model)
    from ...machine.server.run import listen, make_server

    grace_s = parse_duration(asked.grace, "grace")
    levels = None if asked.threshold is None else parse_thresholds(asked.threshold, "threshold")
    networks = as_served(read_measured(directory), levels)
    same = {key: getattr(asked, key) for key in ("policy", "on_deadline", "admit", "between", "slo")}
    slo = objective(asked.slo)
    with listen(asked.host, asked.port) as listening:
        real = RealOptions(inputs=asked.inputs, exits=asked.exits, values=asked.values, threads=asked.threads)
        server = make_server(
            real.run(names(model) or []), networks, ServiceOptions(**same).scheduler, slo, asked.record
        )
        host, port = listening.getsockname()[:2]

        with draining() as when:

            def begun(drain: Callable[[], None]) -> None:
                when(drain)
                sys.stderr.write(f"fluidb: {_line(server, host, port)}\n")

            cut = server.run(listening, grace_s, begun)
    faults = [f"{cut:,} samples had no answer when the grace time was over"] if cut else []
    if server.recorder is not None and server.recorder.fault:
        faults.append(server.recorder.fault)
    if faults:
        fail(faults)
        raise typer.Exit(1)


def _line(server: Server, host: str, port: int) -> str:
    """What is served, where, and under which policy."""
    at = f"[{host}]" if ":" in host else host
    of = ", ".join(
        f"{model.name} (exits {', '.join(model.exits)}, SLO {1e3 * model.slo_s:g} ms)" for model in server.models
    )
    runs_on = server.served[0].model.runs_on
    return f"serving {of} at http://{at}:{port}/v2 under {server.scheduler.spec}; {runs_on}"
