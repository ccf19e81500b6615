"""``fluidb trace``: make request traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..columns import ColumnOptions
from ..declare import argument, flat, option
from ..options import AsJson, Force, Output, duration
from ..render import facts, show
from . import trace_import

if TYPE_CHECKING:
    from ...traffic import Trace

app = typer.Typer(no_args_is_help=True, help="Make request traces.")

Rate = Annotated[float, option("Mean arrival rate in requests a second.", "REQUESTS/S")]


@dataclass(frozen=True, kw_only=True)
class TraceOutput:
    """Options of the file that a trace is written to."""

    output: Output
    force: Force = False
    as_json: AsJson = False

    def write(
        self, process: str, make: Callable[[], Trace], seed: int | None = None, sources: Sequence[Path] = ()
    ) -> None:
        """Make a trace, of other traces or with a seed; write it and describe it."""
        from ...formats import check_free
        from ...traffic import write_trace

        check_free(self.output, self.force, apart=sources)
        trace = make()
        write_trace(trace, self.output, replace=self.force)
        rate, span_s = trace.rate_per_s, float(trace.arrival_s[-1])
        record = {
            "output": self.output,
            "process": process,
            "requests": len(trace),
            "seed": seed,
            "last_arrival_s": span_s,
            "arrival_rate_per_s": rate,
            "cv": trace.gap_cv,
            "lag1_correlation": trace.gap_lag1,
        }
        text = {
            "requests": f"{len(trace):,}",
            "rate": trace_import.rate_text(rate),
            "CV of gaps": f"{trace.gap_cv:.3f}" if rate else None,
            "lag-1 correlation": f"{trace.gap_lag1:z.3f}" if rate else None,
            "last arrival": f"{span_s:,.3f} s",
        }
        show(self.as_json, "fluidb.trace-output/1", record, [facts(text)], self.output)


@dataclass(frozen=True, kw_only=True)
class ProcessOptions(TraceOutput):
    """Options of arrivals that are drawn, and of the file that they are written to."""

    count: Annotated[int, option("Requests.")]
    seed: Annotated[int, option("Seed; equal seeds give equal traces, and traces to merge need different seeds.")] = 0

    def draw(self, process: str, *parameters: float | None, **more: float) -> None:
        """Write the trace of a process of ``traffic.arrivals``."""
        from ...traffic import arrivals

        draw: Callable[..., Trace] = getattr(arrivals, process)
        self.write(process, lambda: draw(*parameters, self.count, self.seed, **more), self.seed)


def poisson(rate: Rate, drawn: ProcessOptions) -> None:
    """Write a trace of Poisson arrivals."""
    drawn.draw("poisson", rate)


def gamma(
    rate: Rate,
    cv: Annotated[float, option("CV of the gaps (standard deviation / mean), 0.001 to 20; 1 is Poisson.", "RATIO")],
    drawn: ProcessOptions,
) -> None:
    """Write a trace with gamma gaps: regular to bursty."""
    drawn.draw("gamma", rate, cv)


def mmpp(
    quiet_rate: Annotated[float, option("Arrival rate in a quiet time; may be 0.", "REQUESTS/S")],
    burst_rate: Annotated[float, option("Arrival rate in a burst.", "REQUESTS/S")],
    quiet_dwell: Annotated[str, option("Mean duration of a quiet time, e.g. 10s.", "DURATION")],
    burst_dwell: Annotated[str, option("Mean duration of a burst, e.g. 500ms.", "DURATION")],
    drawn: ProcessOptions,
) -> None:
    """Write a trace of a two-state MMPP: bursts that last.

    In a Markov-modulated Poisson process (MMPP) quiet times and bursts alternate, each for a random
    duration.
    """
    quiet_s, burst_s = duration(quiet_dwell, "quiet_dwell"), duration(burst_dwell, "burst_dwell")
    drawn.draw("mmpp", quiet_rate, burst_rate, quiet_s, burst_s)


def cameras(
    number: Annotated[int, option("Cameras, each with a random phase.", "N", "--cameras")],
    fps: Annotated[float, option("Frame rate of each camera.", "FRAMES/S")],
    *,
    jitter: Annotated[str, option("Standard deviation of a frame's arrival, e.g. 5ms.", "DURATION")] = "0",
    drop: Annotated[float, option("Probability that a frame is lost, 0 to 0.99.", "SHARE")] = 0.0,
    drawn: ProcessOptions,
) -> None:
    """Write a trace of the frames of periodic cameras.

    Each frame that arrives is a request.
    """
    from ...formats import parse_duration

    drawn.draw("cameras", number, fps, jitter_s=parse_duration(jitter, "jitter", zero=True), drop=drop)


def daily(
    rate: Rate,
    peak_to_mean: Annotated[float, option("Rate at the peak, divided by the mean rate; 1 to 24.", "RATIO")],
    peak_hour: Annotated[float, option("Hour of the peak, 0 to 24; time zero is midnight.", "HOUR")],
    drawn: ProcessOptions,
) -> None:
    """Write a trace that follows a smooth daily curve."""
    drawn.draw("daily", rate, peak_to_mean, peak_hour)


def offline(count: Annotated[int, option("Requests.")], made: TraceOutput) -> None:
    """Write a trace in which all requests wait at time 0.

    This is MLPerf's Offline scenario: the figure that counts is the time until all have
    returned.
    """
    from ...traffic import offline

    made.write("offline", lambda: offline(count))


def merge(
    traces: Annotated[
        list[str], argument("The traces to merge; NETWORK=FILE names the network of one.", "[NETWORK=]FILE")
    ],
    made: TraceOutput,
) -> None:
    """Write the requests of several traces into one.

    All keep their arrival times. With NETWORK=FILE, the requests of a file are for that network.
    """
    from ...traffic import read_trace, superpose
    from ...traffic.transforms import for_network, named_files

    files = named_files(traces)

    def make() -> Trace:
        read = [(name, read_trace(path)) for name, path in files]
        return superpose([trace if name is None else for_network(trace, name) for name, trace in read])

    made.write("merge", make, sources=[path for _, path in files])


def rescale(
    trace: Annotated[Path, argument("The trace to rescale.", "FILE")],
    *,
    rate: Annotated[float | None, option("Mean arrival rate to reach, by scaling all times.", "REQUESTS/S")] = None,
    cv: Annotated[float | None, option("CV of the gaps to reach: standard deviation / mean.", "RATIO")] = None,
    made: TraceOutput,
) -> None:
    """Write a trace at another mean rate or burstiness."""
    from ...formats import InputError
    from ...traffic import read_trace, rescale_burstiness, rescale_rate

    if rate is None and cv is None:
        raise InputError("rescale: expected --rate, --cv or both, found neither; add e.g. --rate 20")

    def make() -> Trace:
        made = read_trace(trace)
        if cv is not None:
            made = rescale_burstiness(made, cv)
        return rescale_rate(made, rate) if rate is not None else made

    made.write("rescale", make, sources=[trace])


def add(
    trace: Annotated[Path, argument("The trace to add columns to.", "FILE")],
    *,
    drawn: ColumnOptions,
    seed: Annotated[int, option("Seed; equal seeds give equal columns.")] = 0,
    made: TraceOutput,
) -> None:
    """Write a trace with columns that are drawn.

    Each column is drawn independently of all other draws with the seed.
    """
    from ...formats import InputError
    from ...traffic import read_trace
    from ...traffic.additions import add_columns

    columns = drawn.columns()
    if not columns:
        raise InputError("add: expected at least one column to draw, found none; add e.g. --width")
    made.write("add", lambda: add_columns(read_trace(trace), seed, columns), seed, [trace])


for _command in (poisson, gamma, mmpp, cameras, daily, offline, merge, rescale, add):
    app.command()(flat(_command))
app.command("import")(flat(trace_import.command))
