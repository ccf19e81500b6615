"""The application: its commands, and how faults leave the process."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import (
    capacity,
    codesign,
    compare,
    dse,
    explain,
    fbcb,
    latency,
    models,
    pareto,
    platforms,
    report,
    reproduce,
    serve_sim,
    thresholds,
    trace,
)
from .interrupt import leave
from .render import fail


class _Group(TyperGroup):
    """Turns faults into one line on stderr and the documented exit code."""

    def invoke(self, ctx: Any) -> Any:
        from ..formats.errors import InputError

        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # before typer turns it into an exit of its own
            leave(str(stop))
        except InputError as error:
            fail(error.first_faults)
            raise SystemExit(2) from None
        except BrokenPipeError:
            # the reader, say `head`, has seen enough: leave without a second fault at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        except OSError as error:  # a path too long, a folder that may not be entered, a full disk behind stdout
            fail([f"{error.filename or 'output'}: {error.strerror}"])
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(2) from None


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
app.command("pareto")(pareto.command)
app.command("codesign")(codesign.command)
app.command("latency")(latency.command)
app.command("fbcb")(fbcb.command)
app.command("explain")(explain.command)
app.add_typer(trace.app, name="trace")
app.command("serve-sim")(serve_sim.command)
app.command("thresholds")(thresholds.command)
app.command("capacity")(capacity.command)
app.command("compare")(compare.command)
app.command("reproduce")(reproduce.command)
app.command("report")(report.command)
app.add_typer(models.app, name="models")
app.add_typer(platforms.app, name="platforms")


def run() -> None:
    """Run the command line and leave the process with its exit code."""
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(prog_name="fluidb", standalone_mode=False)
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
        else:
            help_of = error.ctx.command_path if error.ctx else "fluidb"
            fail([f"{' '.join(error.format_message().split())} (see {help_of} --help)"])
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
