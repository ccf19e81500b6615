"""The application: its commands, and how faults leave the process."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from .interrupt import leave
from .options import flat
from .render import fail

COMMANDS = {
    "dse": "design",
    "pareto": "design",
    "codesign": "experiment",
    "latency": "design",
    "fbcb": "design",
    "explain": "design",
    "trace": "serve",
    "serve-sim": "serve",
    "thresholds": "experiment",
    "capacity": "experiment",
    "compare": "experiment",
    "reproduce": "experiment",
    "report": "experiment",
    "models": "design",
    "platforms": "design",
}
"""In the order of ``--help``, each with the folder of its module, which has a ``command`` or an ``app`` of several."""


class _Group(TyperGroup):
    """Imports a command when it is asked for, and turns faults into one line on stderr and the documented exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(COMMANDS)  # a run imports its own, `--help` all

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  (click hands it over)
        """The command of a name, if there is one."""
        if cmd_name not in COMMANDS:
            return None
        module: Any = import_module(f".{COMMANDS[cmd_name]}.{cmd_name.replace('-', '_')}", __package__)
        parent = typer.Typer(add_completion=False, rich_markup_mode=None, callback=lambda: None)
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=cmd_name)
        else:
            parent.command(cmd_name)(flat(module.command))
        group: Any = typer.main.get_command(parent)
        return group.commands[cmd_name]

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
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Design an edge NPU and its serving scheduler together, for early-exit networks."""


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
