"""The application: its commands, and how faults leave the process."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import compare, dse, fbcb, latency, models, platforms, serve_sim, trace
from .render import fail


class _Group(TyperGroup):
    """Turns faults into one line on stderr and the documented exit code."""

    def invoke(self, ctx: Any) -> Any:
        from ..formats.errors import InputError

        try:
            return super().invoke(ctx)
        except InputError as error:
            fail(error.faults)
            raise SystemExit(2) from None
        except BrokenPipeError:
            # the reader, say `head`, has seen enough: leave without a second fault at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        except KeyboardInterrupt as stop:
            fail([str(stop) or "interrupted; nothing was written"])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)  # at once: a thread may still be inside a kernel, and nothing waits for it


def _version(value: bool) -> None:
    if value:
        from .. import __version__

        typer.echo(f"fluidb {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Design an edge NPU and its serving scheduler together, for early-exit networks.",
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Design an edge NPU and its serving scheduler together, for early-exit networks."""


app.command("dse")(dse.command)
app.command("latency")(latency.command)
app.command("fbcb")(fbcb.command)
app.add_typer(trace.app, name="trace")
app.command("serve-sim")(serve_sim.command)
app.command("compare")(compare.command)
app.add_typer(models.app, name="models")
app.add_typer(platforms.app, name="platforms")


def main() -> None:
    """Entry point of the ``fluidb`` command."""
    app(prog_name="fluidb")
