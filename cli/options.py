"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from .declare import argument, flag, option, written
from .names import offering, policy_names

if TYPE_CHECKING:
    from ..serving import Replay
    from ..serving.inputs import Requests
    from ..traffic.distributions import Objective
    from ..traffic.trace import Trace

OF_POLICY = ("on_deadline", "admit", "between")
"""Parameters of a policy that are options, too."""


DesignFolder = Annotated[Path, argument("A design's folder, written by `fluidb dse -o DIR`.", "DIR")]
Served = Annotated[
    Path, argument("Folder of a latency table, of a design or of a device; or a file of several networks.", "DIR|FILE")
]
AsJson = Annotated[bool, flag("Print JSON (`fluidb docs file-formats`) and nothing else.", "--json")]
Force = Annotated[bool, flag("Replace an output that exists.", "--force")]
Output = Annotated[Path, written("The file to write; - is standard output.", "FILE")]
Think = Annotated[
    str | None,
    option("Time from an answer to a client's next request; 0 if not given.", "[exponential:]DURATION|trace:FILE"),
]
Seed = Annotated[int, option("Seed of exits or samples that are drawn.")]
Threads = Annotated[int | None, option("Threads; all cores if not given.", min=1, max=1024)]
Cluster = Annotated[str | None, option("Run on a Dask cluster (`fluidb docs compare`).", "tcp://HOST:PORT|local")]
_TRACE = option("The requests (`fluidb docs file-formats`, Traces); - is standard input.", "FILE")
TraceFile = Annotated[Path, _TRACE]
OptionalTrace = Annotated[Path | None, _TRACE]
_POLICY = f"{', '.join(policy_names())} or path/to/file.py:NAME (`fluidb docs policies`)."
_POLICIES = "As in serve-sim; all for one network if not given. Repeatable."
Policy = Annotated[str, option(_POLICY, "NAME[:KEY=VALUE,...]", **offering(policy_names))]
Policies = Annotated[list[str] | None, option(_POLICIES, "NAME[:KEY=VALUE,...]", **offering(policy_names))]
Slo = Annotated[
    str | None,
    option(
        "Latency objective (SLO) of requests without one: 200ms, or drawn for each request: uniform:LOW,HIGH, "
        "normal:MEAN,DEVIATION,LOW,HIGH (clipped), list:VALUE,... or shares:VALUE=SHARE,...",
        "DURATION|DISTRIBUTION",
    ),
]
Threshold = Annotated[
    str | None,
    option(
        "How sure an answer must be so that its sample leaves: one value for all exits, or one for each but the last.",
        "P[,P,...]",
    ),
]
RequestsFile = Annotated[Path | None, written("Write what happened to every request, as CSV.", "FILE", "--requests")]
TimelineFile = Annotated[Path | None, written("Write what ran when, for ui.perfetto.dev (JSON).", "FILE", "--timeline")]
DevicesFile = Annotated[
    Path | None, written("Write when each device works, for ui.perfetto.dev (JSON).", "FILE", "--timeline")
]
Required = Annotated[
    list[str] | None,
    option("A requirement, e.g. 'p99 <= 200ms'; exit code 1 if it does not hold. Repeatable.", "REQUIREMENT"),
]
MUST_HOLD = option("What must hold, e.g. 'violation_rate <= 1 %'. Repeatable.", "REQUIREMENT")
StageThreads = Annotated[int, option("Threads of a stage.", min=1, max=1024)]
Model = Annotated[str, argument("An ONNX file, or digits, which ships (`fluidb docs real-device`).", "MODEL")]
OF_MODELS = "As for `fluidb measure`; for several networks one each, with commas between."
Models = Annotated[str, argument(OF_MODELS, "MODEL[,MODEL,...]")]
Inputs = Annotated[
    Path | None,
    option("Samples (.npz): an array for each input, or one named input; label, if known.", "FILE"),
]
Ends = Annotated[
    str | None, option("Outputs or nodes that give the answers of exits; all outputs if not given.", "NAME,NAME")
]
PredictDepth = Annotated[
    float | None,
    option("Correlation of predicted with actual depth, -1 to 1, if the input has no predictions.", "RHO"),
]
Samples = Annotated[Path | None, option("Answers to draw from, and how sure they are.", "FILE")]
_TRIED = "Thresholds to try; LOW..HIGH tries ten at equal distances; the usual ones if not given."
ThresholdsTried = Annotated[str | None, option(_TRIED, "P,P,...|LOW..HIGH")]


@dataclass(frozen=True, kw_only=True)
class ReplayFiles:
    """What is written of requests that were served, and what must hold."""

    requests: RequestsFile = None
    timeline: TimelineFile = None
    require: Required = None

    @property
    def required(self) -> list[str]:
        """The requirements."""
        return self.require or []

    def check(self, picture: PictureOptions, sources: Sequence[Path | None]) -> None:
        """Refuse, before any work is done, a file that cannot be written, or that is one of the sources or another."""
        from ..formats import check_free

        picture.check([*sources, self.requests, self.timeline])
        for output, other in ((self.requests, self.timeline), (self.timeline, self.requests)):
            if output is not None:
                check_free(output, picture.force, apart=[*sources, other])

    def write(self, replay: Replay, policy: str, picture: PictureOptions) -> list[Path | None]:
        """Write them and the picture together, and return the names of all."""
        from ..formats import together
        from ..plots.replay import draw_replay
        from ..serving import write_requests, write_timeline

        with together():
            if self.timeline is not None:
                write_timeline(replay, self.timeline, replace=picture.force)
            if self.requests is not None:
                write_requests(replay, self.requests, replace=picture.force)
            picture.write(lambda: draw_replay(replay, policy))
        return [self.requests, self.timeline, picture.plot]


ClientCount = Annotated[int | None, option("Clients that wait for their answers, in place of a trace.")]
SENT = 20_000
"""Requests of a run that nobody states."""

SentCount = Annotated[int | None, option(f"Requests that the clients send; {SENT:,} if not given.")]


OnDeadline = Annotated[
    str | None,
    option(
        "At its deadline a request is still served, dropped or answered by the last exit that it passed.",
        "serve|drop|answer",
    ),
]
Admit = Annotated[
    str | None,
    option(
        "Refuse a request on arrival if N wait, if its token bucket is empty, or if it cannot be in time; or drop the "
        "oldest of more than N that wait. All enter if not given.",
        "queue:N|newest:N|bucket:RATE:BURST|in_time[:B]",
    ),
]
Between = Annotated[
    str | None, option("Whose turn it is among several networks; fcfs if not given.", "fcfs|edf|shares|priority")
]


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """The policy, with what happens on arrival, at a deadline and between networks."""

    policy: Policy = "fluid"
    on_deadline: OnDeadline = None
    admit: Admit = None
    between: Between = None

    @property
    def scheduler(self) -> str:
        """The policy as the library takes it."""
        from ..serving.scheduler import with_parameter

        spec = self.policy
        for key in OF_POLICY:
            if (value := getattr(self, key)) is not None:
                spec = with_parameter(spec, key, value)
        return spec


@dataclass(frozen=True, kw_only=True)
class ServiceOptions(PolicyOptions):
    """The same with a trace, or clients that wait for answers, and what their requests are given."""

    samples: Samples = None
    slo: Slo = None
    seed: Seed = 0
    predict_depth: PredictDepth = None
    trace: OptionalTrace = None
    clients: ClientCount = None
    think: Think = None
    count: SentCount = None

    @property
    def requests(self) -> Requests:
        """The requests as the library takes them."""
        from ..formats import InputError
        from ..traffic.arrivals import offline
        from ..traffic.clients import Clients

        if self.clients is None:
            for name in ("think", "count"):
                if getattr(self, name) is not None:
                    other = "a trace; leave out one of the two" if self.trace else "none; leave it out"
                    raise InputError(f"{name}: expected --clients beside it, found {other}")
            return self._requests_of(self.trace)
        if self.trace is not None:
            raise InputError("clients: expected a trace or clients, found both; leave out one of the two")
        clients = Clients.of(self.clients, self.think)
        return replace(self._requests_of(offline(SENT if self.count is None else self.count)), clients=clients)

    def _requests_of(self, trace: Path | Trace | None) -> Requests:
        """The requests of a trace, with what they are given."""
        from ..serving.inputs import Requests

        slo_s = objective(self.slo)
        return Requests(
            trace=trace, samples=self.samples, slo_s=slo_s, seed=self.seed, predict_depth=self.predict_depth
        )


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The picture, and leave to replace files: the options of every command with a picture."""

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
    """The folder and the output of a search: the options of searches of every kind."""

    output: Annotated[
        Path | None, written("Write the design here; each of several designs in a folder of its own.")
    ] = None
    force: Force = False
    as_json: AsJson = False


def names(text: str | None) -> list[str] | None:
    """Names separated by commas, if they were given."""
    return None if text is None else [name.strip() for name in text.split(",")]


def duration(text: str | None, option: str) -> float | None:
    """The duration of an option in seconds, if it was given."""
    from ..formats import parse_duration

    return None if text is None else parse_duration(text, option)


def objective(text: str | None) -> Objective | None:
    """The latency objective that was typed: in seconds, or a distribution."""
    from ..traffic.request_columns import parse_slo

    return None if text is None else parse_slo(text)


def objective_record(text: str | None) -> dict[str, object]:
    """The latency objective for ``--json``: in seconds, or the text of a distribution."""
    limit = objective(text)
    shared = limit is None or isinstance(limit, float)
    return {"slo_s": limit if shared else None, "slo": None if shared else text}


def clients_record(count: object | None, think: str | None) -> dict[str, object]:
    """Clients and their think time for ``--json``, if requests are of clients."""
    return {} if count is None else {"clients": count, "think": think or "0"}


AnyChoice = TypeVar("AnyChoice", bound=StrEnum)


def choice(members: Iterable[AnyChoice], text: str, option: str) -> AnyChoice:
    """The member that was named, of those that may be."""
    from ..formats import InputError

    known = {member.value: member for member in members}
    if text not in known:
        raise InputError(f'{option}: expected one of {", ".join(known)}, found "{text}"')
    return known[text]


def tried_thresholds(text: str | None) -> tuple[float, ...] | None:
    """The thresholds of ``--thresholds``, if it was given: as typed, or ten from LOW to HIGH at equal distances."""
    if text is None:
        return None
    from ..formats import parse_numbers

    low, dots, high = text.partition("..")
    ends = parse_numbers(f"{low},{high}" if dots else text, "thresholds", float, "0.5,0.7,0.9 or 0.5..0.95")
    if not dots:
        return tuple(ends)
    if len(ends) != 2 or not 0 <= ends[0] < ends[1] < inf:
        from ..formats import InputError

        raise InputError(f'thresholds: expected the lower threshold, .. and the higher one, found "{text}"')
    return tuple(round(ends[0] + step * (ends[1] - ends[0]) / 9, 12) for step in range(10))
