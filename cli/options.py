"""Options that several commands share, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..serving import Contender
    from ..traffic import Trace

DesignFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A design's folder, written by `fluidb dse -o DIR`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (docs/file-formats.md) and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
Seed = Annotated[int, typer.Option(help="Seed of exits or samples that are drawn.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; all cores if not given.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="tcp://HOST:PORT|local", help="Run on a Dask cluster; local makes one (docs/cluster.md)."),
]
TraceFile = Annotated[Path, typer.Option(metavar="FILE", help="The requests (docs/file-formats.md, Traces).")]
Policy = Annotated[
    str,
    typer.Option(
        metavar="NAME[:KEY=VALUE,...]",
        help="serial, adaptb, lazy, fluid, fluid-slack or path/to/file.py:NAME (docs/policies.md).",
    ),
]
Slo = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, if the trace has none.")
]
Samples = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Confidences and answers to draw from, if the trace has none (.npz, CSV)."),
]


@dataclass(frozen=True, kw_only=True)
class Requests:
    """A trace and who serves it: the options of every command that simulates one."""

    trace: TraceFile
    policy: Policy = "fluid"
    slo: Slo = None
    seed: Seed = 0

    @property
    def slo_s(self) -> float | None:
        """The objective of all requests, if one was typed."""
        return duration(self.slo, "--slo")

    @property
    def contender(self) -> Contender:
        """The policy with its parameters."""
        from ..serving import find_policy

        return find_policy(self.policy)

    def read(self, report: Callable[[int, int], None] | None = None) -> Trace:
        """The trace."""
        from ..traffic import read_trace

        return read_trace(self.trace, report)


@dataclass(frozen=True, kw_only=True)
class SampledRequests(Requests):
    """Requests that may draw their confidences and answers from a file."""

    samples: Samples = None

    def read(self, report: Callable[[int, int], None] | None = None) -> Trace:
        """The trace, with the samples that its requests drew."""
        from ..traffic import draw_samples, read_samples

        loaded = super().read(report)
        return (
            loaded if self.samples is None else draw_samples(loaded, read_samples(self.samples), self.seed, self.trace)
        )


def duration(text: str | None, option: str) -> float | None:
    """Seconds typed for an option, if it was given."""
    from ..formats import parse_duration

    return None if text is None else parse_duration(text, option)


def numbers(text: str | None, option: str, kind: type[float], example: str) -> list[float]:
    """Numbers with commas between; none in no text."""
    from ..formats import InputError

    try:
        return [] if text is None else [kind(item) for item in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(f'{option}: expected {what} with commas between, found "{text}"; e.g. {example}') from None


def followed(ctx: typer.Context, as_json: bool) -> bool:
    """Whether a command stands behind a group that by itself prints a list."""
    if ctx.invoked_subcommand is not None and as_json:
        raise typer.BadParameter("--json stands behind the command after it, e.g. show", ctx)
    return ctx.invoked_subcommand is not None


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses are replaced by their fields, as options of its own."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, list[str]]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            members = inspect.signature(parameter.annotation, eval_str=True).parameters
            groups[name] = parameter.annotation, list(members)
            parameters += members.values()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        for name, (kind, members) in groups.items():
            given[name] = kind(**{member: given.pop(member) for member in members})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
