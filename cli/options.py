"""Options that several commands share, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer

if TYPE_CHECKING:
    from ..serving.inputs import Requests
    from ..traffic.additions import Columns


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option by its help; its name is the parameter's unless others are given."""
    return typer.Option(*names, help=text, metavar=metavar, **more)


def flag(text: str, name: str) -> Any:
    """An option that takes no value."""
    return option(text, None, name)


def argument(text: str, metavar: str | None = None) -> Any:
    """An argument by its help."""
    return typer.Argument(help=text, metavar=metavar)


def written(text: str, metavar: str = "DIR") -> Any:
    """The option ``-o``, which names the file or folder to write."""
    return option(text, metavar, "--output", "-o")


DesignFolder = Annotated[Path, argument("A design's folder, written by `fluidb dse -o DIR`.", "DIR")]
TableFolder = Annotated[Path, argument("Folder of a latency table, of a design or of a device.", "DIR")]
AsJson = Annotated[bool, flag("Print JSON (`fluidb docs file-formats`) and nothing else.", "--json")]
Force = Annotated[bool, flag("Replace an output that exists.", "--force")]
Output = Annotated[Path, written("The file to write.", "FILE")]
Seed = Annotated[int, option("Seed of exits or samples that are drawn.")]
Threads = Annotated[int | None, option("Threads; all cores if not given.", min=1, max=1024)]
Cluster = Annotated[str | None, option("Run on a Dask cluster (`fluidb docs compare`).", "tcp://HOST:PORT|local")]
TraceFile = Annotated[Path, option("The requests (`fluidb docs file-formats`, Traces); - is standard input.", "FILE")]
_POLICY = (
    "serial, adaptb, lazy, fluid, fluid-slack, pame, batchcond, sushi or path/to/file.py:NAME (`fluidb docs policies`)."
)
Policy = Annotated[str, option(_POLICY, "NAME[:KEY=VALUE,...]")]
Policies = Annotated[
    list[str] | None, option("As in serve-sim; all for one network if not given. Repeatable.", "NAME[:KEY=VALUE,...]")
]
Slo = Annotated[str | None, option("Latency objective, e.g. 200ms, if the trace has none.", "DURATION")]
Threshold = Annotated[str | None, option("Confidence or entropy to exit: of all, or each but the last.", "P[,P,...]")]
RequestsFile = Annotated[Path | None, option("Write what happened to every request, as CSV.", "FILE")]
TimelineFile = Annotated[Path | None, option("Write what ran when, for ui.perfetto.dev (JSON).", "FILE")]
Required = Annotated[list[str] | None, option("What must hold, else exit code 1: 'p99 <= 200ms'.", "REQUIREMENT")]
StageThreads = Annotated[int, option("Threads of a stage.", min=1, max=1024)]
Model = Annotated[str, argument("An ONNX file, or digits, which ships (`fluidb docs real-device`).", "MODEL")]
Inputs = Annotated[
    Path | None, option("Samples (.npz): the array input, or one for each input; perhaps label.", "FILE")
]
Ends = Annotated[str | None, option("Outputs or nodes that answer; all outputs if not given.", "NAME,NAME")]
PredictDepth = Annotated[
    float | None,
    option("Correlation of predicted with actual depth, -1 to 1, where nothing states predictions.", "RHO"),
]
Samples = Annotated[Path | None, option("Confidences or entropies, and answers, to draw from.", "FILE")]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """What is simulated, and who decides: the options of every command that serves a trace."""

    trace: TraceFile
    policy: Policy = "fluid"
    samples: Samples = None
    slo: Slo = None
    seed: Seed = 0
    predict_depth: PredictDepth = None

    @property
    def requests(self) -> Requests:
        """The requests as the library takes them."""
        from ..serving.inputs import Requests

        slo_s = duration(self.slo, "--slo")
        return Requests(
            trace=self.trace, samples=self.samples, slo_s=slo_s, seed=self.seed, predict_depth=self.predict_depth
        )


_WIDTH = "Draw widths: lognormal:mean=39,sd=19,low=6,high=256,multiple=8 or shares:64=0.3,96=0.7."
_STEPS = "Draw steps from widths: ratio=1.08,relative=0.205,absolute=1.5,high=103."
CONSTRAINT = (
    "{}: a value, uniform:LOW,HIGH, normal:MEAN,DEVIATION,LOW,HIGH (clipped), list:VALUE,... or shares:VALUE=SHARE,..."
)
PREDICT = "Predict {}, with this correlation, -1 to 1."


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Columns that are drawn for requests: the options of every command that draws some."""

    width: Annotated[str | None, option(_WIDTH, "lognormal:...|shares:...")] = None
    steps: Annotated[str | None, option(_STEPS, "KEY=VALUE,...")] = None
    predict_width: Annotated[float | None, option(PREDICT.format("widths"), "RHO")] = None
    min_accuracy: Annotated[str | None, option(CONSTRAINT.format("Accuracy asked for"), "DISTRIBUTION")] = None

    def columns(self, slo: str | None = None) -> Columns:
        """The columns as the library takes them, with objectives if they are drawn too."""
        from ..traffic.additions import parse_columns

        return parse_columns(**vars(self), slo=slo, named=lambda name: f"--{name.replace('_', '-')}")


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Whether a command draws what it found, and may replace files: the options of every command with a picture."""

    plot: Annotated[Path | None, option("Draw the result: .svg or .png (needs the extra plot).", "FILE")] = None
    force: Force = False

    def check(self, apart: Iterable[Path | None] = ()) -> None:
        """Refuse, before any work is done, a picture that cannot be written, or that is one of the files ``apart``."""
        if self.plot is not None:
            from ..plots import check_picture

            check_picture(self.plot, replace=self.force, apart=apart)

    def write(self, draw: Callable[[], Any]) -> None:
        """Draw and write the picture, if there is to be one."""
        if self.plot is not None:
            from ..plots import save

            save(draw(), self.plot, replace=self.force)


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """Where the folder of a search goes, and how it is printed: what searches of every kind have."""

    output: Annotated[Path | None, written("Write the design here, or each of several in a folder.")] = None
    force: Force = False
    as_json: AsJson = False


def kibibytes(text: str, option: str) -> float:
    """The size of a memory that was typed, in KiB of 1024 bytes."""
    from ..formats import parse_quantity

    return parse_quantity(text, {"KiB": 1.0, "MiB": 1024.0, "MB": 1e6 / 1024}, option, "1728KiB", zero=True)


def names(text: str | None) -> list[str] | None:
    """Names separated by commas, if they were given."""
    return None if text is None else [name.strip() for name in text.split(",")]


def duration(text: str | None, option: str) -> float | None:
    """The duration of an option in seconds, if it was given."""
    from ..formats import parse_duration

    return None if text is None else parse_duration(text, option)


def numbers(text: str | None, option: str, kind: type[float], example: str) -> list[float]:
    """Numbers separated by commas; an empty list if the option was not given."""
    from ..formats import InputError, read_number

    try:
        return [] if text is None else [read_number(item, kind) for item in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(f'{option}: expected {what} with commas between, found "{text}"; e.g. {example}') from None


@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """Options that a command has with one kind of input only."""

    with_: ClassVar[str]
    """The kind, as in ``a board``."""


def refuse_others(ctx: typer.Context, chosen: KindOptions, kinds: Iterable[KindOptions], found: str) -> None:
    """Refuse options that the user gave, and that belong to other kinds than the one that was ``found``."""
    from ..formats import InputError

    own = {field.name for field in fields(chosen)}
    others = {field.name: kind for kind in kinds for field in fields(kind) if field.name not in own}
    typed = [name for name in others if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    names = {parameter.name: parameter.opts[0] for parameter in ctx.command.params}
    if typed:
        raise InputError(
            f"{names[name]}: an option with {others[name].with_}, but {found} is {chosen.with_}; leave it out"
            for name in typed
        )


def followed(ctx: typer.Context, as_json: bool) -> bool:
    """Whether the user gave a command of this group; without one, the group prints its list."""
    if ctx.invoked_subcommand is not None and as_json:
        raise typer.BadParameter("expected --json after the command, e.g. show --json", ctx)
    return ctx.invoked_subcommand is not None


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every dataclass parameter replaced by that dataclass's fields, each of them an option.

    A field that several of its dataclasses have is one option.  The result's ``sections`` say under which heading the
    help lists an option of one kind of input.
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[Any, list[str]]] = {}
    kinds: dict[str, list[str]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            kind: Any = parameter.annotation
            hints = get_type_hints(kind, include_extras=True)
            members = inspect.signature(kind).parameters
            groups[name] = kind, list(members)
            for member, field in members.items():
                parameters.setdefault(member, field.replace(annotation=hints[member]))
                kinds.setdefault(member, []).extend([kind.with_] if issubclass(kind, KindOptions) else [])
        else:
            parameters[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)

    def run(**given: Any) -> None:
        made = {name: kind(**{member: given[member] for member in members}) for name, (kind, members) in groups.items()}
        command(**{name: value for name, value in given.items() if name not in kinds}, **made)

    flattened: Any = run
    flattened.__name__, flattened.__doc__ = command.__name__, command.__doc__
    flattened.__signature__ = inspect.Signature(list(parameters.values()))  # typer reads the options here
    flattened.sections = {  # the help reads its headings here
        member: f"Options with {' or '.join(names)}" for member, names in kinds.items() if names
    }
    return run
