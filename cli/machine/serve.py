"""``fluidb serve``: the networks of this machine over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..declare import option
from ..interrupt import draining
from ..options import Models, Served, names, objective
from ..render import fail
from .running import RunningOptions

if TYPE_CHECKING:
    from ...machine.server.run import Server


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where clients find it, what is kept, and how it ends."""

    host: Annotated[str, option("Name or address of this machine to which clients connect.", "HOST")] = "127.0.0.1"
    port: Annotated[int, option("Port; 0 takes any free port.", min=0, max=65535)] = 8000
    record: Annotated[Path | None, option("A new folder for a record of all requests and their outcomes.", "DIR")] = (
        None
    )
    grace: Annotated[str, option("Time to answer what has arrived, after the first SIGTERM or Ctrl-C.", "DURATION")] = (
        "10s"
    )


def command(model: Models, directory: Served, *, running: RunningOptions, asked: ServerOptions) -> None:
    """Serve a network over HTTP, for clients of Open Inference Protocol 2.

    The network of `fluidb measure` runs under the policy as in the simulator and in serve-real.
    A request with n rows is n samples; its timeout is its deadline. SIGTERM or Ctrl-C ends the
    service once all requests are answered; a second one ends it at once. A file of several networks takes
    a model for each, in its order: a.onnx,b.onnx.
    """
    from ...formats import check_installed, parse_duration
    from ...machine.needs import check_runtime

    for needed in ("uvicorn", "httptools", "prometheus_client"):
        check_installed("fluidb serve", needed, "onnx,runtime,server")
    check_runtime(model)
    from ...machine.server.run import listen, make_server

    grace_s = parse_duration(asked.grace, "grace")
    networks, scheduler = running.served(directory), running.scheduler
    slo = objective(running.slo)
    with listen(asked.host, asked.port) as listening:
        server = make_server(running.models(names(model) or []), networks, scheduler, slo, asked.record)
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
