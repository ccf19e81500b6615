"""The application: its commands, and how faults leave the process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from .interrupt import leave
from .render import fail

GROUPS = {
    "Which hardware, exits and policy keep my requirements, and what is cheapest?": (
        "decide",
        {"plan": "Find the cheapest board, NPU, exits and policy that keep requirements."},
    ),
    "How does my network run best on this hardware, and how fast?": (
        "design",
        {
            "dse": "Search an NPU, SubGraphs, an engine's shape, or a partition.",
            "latency": "Write the latency table of a design or a device.",
            "exits": "Choose the exits of a network, and their thresholds.",
            "explain": "Explain the time of a design or of a partition.",
            "pareto": "Find the designs that no other beats with fewer resources.",
            "fbcb": "Show a design's FBCB: how it runs each layer and batch.",
            "hardware": "Write a design as hardware: SystemVerilog, control block, C header.",
            "quantise": "Quantise a trained network to 16-bit integers.",
            "pipeline": "Find how much faster a cluster is when it pipelines images.",
        },
    ),
    "What happens to my requests?": (
        "serve",
        {
            "trace": "Make request traces.",
            "samples": "Draw or describe the answers of a network at its exits.",
            "serve-sim": "Replay a trace on a design: latency, violations, utilisation.",
            "adapt": "Replay a trace while exits and thresholds follow the load.",
        },
    ),
    "Which policy, thresholds or rate?": (
        "decide",
        {
            "compare": "Compare policies under the same traffic, or designs.",
            "capacity": "Find the highest rate or most clients that requirements allow.",
            "thresholds": "Sweep the exit threshold, or find thresholds for a latency.",
            "report": "Write a search and its simulations as one HTML page.",
        },
    ),
    "How far is the simulator from this machine?": (
        "machine",
        {
            "measure": "Measure a network on this machine, stage by stage.",
            "serve-real": "Serve requests on this machine, in real time.",
            "validate": "Compare the simulator with this machine.",
        },
    ),
    "How do I serve a network to clients?": (
        "machine",
        {"serve": "Serve a network over HTTP, for clients of Open Inference Protocol 2."},
    ),
    "How do I use my own network, platform or measured times?": (
        "bring",
        {
            "models": "List, show, check and import networks.",
            "platforms": "List, show, check, import and measure platforms.",
            "calibrate": "Fit the constants of an engine to measured times.",
        },
    ),
    "Do the papers' figures come out, and where do I read on?": (
        "papers",
        {
            "reproduce": "Run the papers' experiments and compare every figure.",
            "docs": "Show a page of the documentation.",
        },
    ),
}
"""The commands in the groups of ``--help``: a question, the folder of the commands, and the first line of each help.

A command's module has a ``command``, or an ``app`` of several. The help is repeated here so that ``--help`` imports no
command.
"""

COMMANDS = {name: (folder, text) for folder, commands in GROUPS.values() for name, text in commands.items()}


def _module(name: str) -> Any:
    """The module of a command, imported only now."""
    return import_module(f".{COMMANDS[name][0]}.{name.replace('-', '_')}", __package__)


class _Command(TyperCommand):
    """A command whose help has a heading for each kind of input, and whose faults name its options."""

    def invoke(self, ctx: Any) -> Any:
        from ..formats.errors import InputError
        from ..formats.files import keep_pipes
        from .declare import check_printed
        from .names import check_places

        check_printed(ctx)
        check_places(ctx)
        try:
            with keep_pipes():
                return super().invoke(ctx)
        except InputError as error:
            raise type(error)(_with_options(error.faults, ctx.command.params)) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command; an option given twice is an error where only the last one would count."""
        given: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[-1]
        for parameter in given:
            repeats = parameter.param_type_name != "option" or parameter.multiple or parameter.is_flag
            if not repeats and given.count(parameter) > 1:
                raise typer.BadParameter(f"expected it once, found it {given.count(parameter)} times", ctx, parameter)
        return list(super().parse_args(ctx, args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, section by section."""
        headings = getattr(self.callback, "sections", {})
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            heading = (
                "Arguments" if parameter.param_type_name == "argument" else headings.get(parameter.name, "Options")
            )
            sections.setdefault(heading, []).extend([_plain(*record)] if record else [])
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _plain(name: str, text: str) -> tuple[str, str]:
    """A line of the help without the types of Python: ``N`` for a number, ``NAME`` for a text, ``a|b`` for a choice."""
    name = re.sub(r" <(str|path|list\[\w+\])>$", "", name) if not name.startswith("-") else name
    name = re.sub(r"<(int|float)( range)?>", "N", name.replace("<str>", "NAME"))
    name = re.sub(r"[<[](\w+(\|\w+)+)[]>]$", r"\1", name)
    return name, re.sub(r"(?<=<=)x(?=<=)|\bx(?=>=)", "N", text)


def _with_options(faults: Iterable[str], parameters: Iterable[Any]) -> Iterator[str]:
    """Faults that begin with parameters of the running command (``slow, gain: ...``), with its options instead.

    The library knows its parameters only; those that are fields of a schema begin with ``options: ``, and may end with
    an index. Some parameters of a policy are options too. Faults that begin with anything else, such as the path of
    a file, stay.
    """
    options: dict[str, str] = {}
    for parameter in parameters:
        if parameter.param_type_name == "option":
            option = max(parameter.opts, key=len)
            options |= {parameter.name: option, option.lstrip("-").replace("-", "_"): option}
    from .options import OF_POLICY

    of_policy = "|".join(name for name in OF_POLICY if name in options)
    for fault in faults:
        begin = f"^(options: |policy: (?=({of_policy}): ))" if of_policy else "^options: "
        named, colon, rest = re.sub(begin, "", fault).partition(": ")
        names = re.sub(r"\[\d+\]", "", named).split(", ")
        yield ", ".join(options[name] for name in names) + colon + rest if set(names) <= options.keys() else fault


@cache
def _made(name: str) -> Any:
    """The command of a name with its options, made once, as a process may run it again."""
    from .declare import flat

    module = _module(name)
    parent = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not hasattr(module, "app"):
        parent.command(name, cls=_Command)(flat(module.command))
        return typer.main.get_command(parent)
    for command in module.app.registered_commands:
        command.cls = _Command
    parent.add_typer(module.app, name=name)
    group: Any = typer.main.get_command(parent)
    return group.commands[name]


class _Group(TyperGroup):
    """Imports a command only when it runs, and ends on faults as documented."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read ``help dse`` as ``dse --help``."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write the commands under the questions of their groups."""
        for question, (_, commands) in GROUPS.items():
            formatter.write(f"\n{question}\n")
            with formatter.indentation():
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, imported only now, and what follows it."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, _made(name), rest

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Read the words, which prints a help or the version."""
        with _faults():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _faults():
            return super().invoke(ctx)


@contextmanager
def _faults() -> Iterator[None]:
    """Turn faults into one line on stderr and the documented exit code."""
    from ..formats.errors import InputError

    try:
        yield
    except KeyboardInterrupt as stop:  # before typer turns it into an exit of its own
        leave(str(stop))
    except InputError as error:
        fail(error.first_faults)
        raise SystemExit(2) from None
    except MemoryError as error:  # its text, if any, says how much an array takes
        why = f" ({error})" if str(error) else ""
        fail([f"expected enough memory, found too little{why}; use fewer requests, samples or designs"])
        raise SystemExit(2) from None
    except OSError as error:  # a path too long, a folder that may not be entered, a full disk behind stdout
        if isinstance(error, BrokenPipeError):  # the reader, say `head`, has seen all that it wants
            raise SystemExit(0) from None
        fail([f"{error.filename or 'output'}: {error.strerror}"])
        raise SystemExit(2) from None


def _version(value: bool) -> None:
    if value:
        from .. import __version__

        typer.echo(f"fluidb {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Design an edge NPU and its serving scheduler together, for early-exit networks."""


def _command_path(arguments: Sequence[str]) -> str:
    """The command that was typed, as faults in its options show it."""
    first, second, *_ = *arguments, "", ""
    if first not in COMMANDS:
        return "fluidb"
    return f"fluidb {first} {second}" if hasattr(_module(first), "app") and second[:1] != "-" else f"fluidb {first}"


def _misread(arguments: list[str]) -> Iterator[str]:
    """The faults of words that click would read otherwise: a value without a letter, and ``-o=d`` as ``-o '=d'``."""
    for at, text in enumerate(arguments):
        before = arguments[at - 1] if at else ""
        option = before if before.startswith("-") else f"argument {at + 1}"
        if text == "" or re.fullmatch(r"--?[a-z-]+=", text):
            yield f'{text[:-1] or option}: expected a value, found ""; is a variable of the shell empty?'
        elif short := re.fullmatch(r"(-[a-zA-Z])=(.+)", text, re.DOTALL):
            from ..formats.display import as_word

            yield f'{short[1]}: expected a value after a space, found "{text}"; write {short[1]} {as_word(short[2])}'


def run() -> None:
    """Run the command line and leave the process with its exit code."""
    usage_error: Any = typer.BadParameter.__base__
    if faults := list(_misread(sys.argv[1:])):
        fail(faults)
        sys.exit(2)
    try:
        code = app(prog_name="fluidb", standalone_mode=False)
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
        else:
            from .usage import usage_fault

            help_of = error.ctx.command_path if error.ctx else _command_path(sys.argv[1:])
            fail([f"{usage_fault(error)} (see {help_of} --help)"])
        code = 2
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # what is still buffered goes nowhere, so that the exit does not meet the same fault again
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code if isinstance(code, int) else 0)
