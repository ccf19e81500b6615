"""``fluidb trace``: make request traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force, Output, duration, flat
from ..render import facts, note, show
from . import trace_import

if TYPE_CHECKING:
    from ...traffic import Trace

app = typer.Typer(no_args_is_help=True, help="Make request traces.")

Rate = Annotated[float, typer.Option(metavar="REQUESTS/S", help="Mean arrival rate in requests a second.")]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What every drawn trace is told."""

    count: Annotated[int, typer.Option(help="Requests.")]
    seed: Annotated[
        int, typer.Option(help="Same seed, same trace; sources that are merged need seeds of their own.")
    ] = 0


@dataclass(frozen=True, kw_only=True)
class Made:
    """Where a trace goes."""

    output: Output
    force: Force = False
    as_json: AsJson = False

    def write(self, process: str, make: Callable[[], Trace], seed: int | None = None) -> None:
        """Make a trace, write it and say what it is like; ``seed`` is ``None`` where nothing is drawn."""
        from ...formats import check_free
        from ...traffic import write_trace

        check_free(self.output, self.force)
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
            "rate": f"{rate:{'.3f' if rate >= 1 else '.3g'}} /s",
            "CV of gaps": f"{trace.gap_cv:.3f}",
            "lag-1 correlation": f"{trace.gap_lag1:.3f}",
            "last arrival": f"{span_s:,.3f} s",
        }
        show(self.as_json, "fluidb.trace-output/1", record, [facts(text)])
        note(f"wrote {self.output}")


@app.callback()
def _group() -> None:
    """Make request traces."""


@app.command()
@flat
def poisson(rate: Rate, drawn: Drawn, made: Made) -> None:
    """Write a trace of Poisson arrivals."""
    from ...traffic import arrivals

    made.write("poisson", lambda: arrivals.poisson(rate, drawn.count, drawn.seed), drawn.seed)


@app.command()
@flat
def gamma(
    rate: Rate,
    cv: Annotated[
        float, typer.Option(metavar="RATIO", help="Standard deviation/mean of the gaps, 0.001 to 20; 1 is Poisson.")
    ],
    drawn: Drawn,
    made: Made,
) -> None:
    """Write a trace with gamma gaps: regular to bursty."""
    from ...traffic import arrivals

    made.write("gamma", lambda: arrivals.gamma(rate, cv, drawn.count, drawn.seed), drawn.seed)


@app.command()
@flat
def mmpp(
    quiet_rate: Annotated[float, typer.Option(metavar="REQUESTS/S", help="Arrival rate while quiet; may be 0.")],
    burst_rate: Annotated[float, typer.Option(metavar="REQUESTS/S", help="Arrival rate during a burst.")],
    quiet_dwell: Annotated[str, typer.Option(metavar="DURATION", help="Mean time between bursts, e.g. 10s.")],
    burst_dwell: Annotated[str, typer.Option(metavar="DURATION", help="Mean duration of a burst, e.g. 500ms.")],
    drawn: Drawn,
    made: Made,
) -> None:
    """Write a trace of a two-state MMPP: bursts that last."""
    from ...formats import parse_duration
    from ...traffic import arrivals

    quiet_s, burst_s = parse_duration(quiet_dwell, "--quiet-dwell"), parse_duration(burst_dwell, "--burst-dwell")
    states = (quiet_rate, burst_rate, quiet_s, burst_s)
    made.write("mmpp", lambda: arrivals.mmpp(*states, drawn.count, drawn.seed), drawn.seed)


@app.command()
@flat
def cameras(
    number: Annotated[int, typer.Option("--cameras", metavar="N", help="Cameras, each with a random phase.")],
    fps: Annotated[float, typer.Option(metavar="FRAMES/S", help="Frame rate of each camera.")],
    *,
    jitter: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Standard deviation of a frame's arrival, e.g. 5ms; else 0.")
    ] = None,
    drop: Annotated[float, typer.Option(metavar="SHARE", help="Probability that a frame is lost, 0 to 0.99.")] = 0.0,
    drawn: Drawn,
    made: Made,
) -> None:
    """Write a trace of the frames of periodic cameras.

    A request is a frame that arrives, of any camera.
    """
    from ...traffic import arrivals

    more = {"jitter_s": duration(jitter, "--jitter") or 0.0, "drop": drop}
    made.write("cameras", lambda: arrivals.cameras(number, fps, drawn.count, drawn.seed, **more), drawn.seed)


@app.command()
@flat
def daily(
    rate: Rate,
    peak_to_mean: Annotated[float, typer.Option(metavar="RATIO", help="Rate at the peak/mean rate, 1 to 24.")],
    peak_hour: Annotated[float, typer.Option(metavar="HOUR", help="Hour of the peak, 0 to 24; time zero is midnight.")],
    drawn: Drawn,
    made: Made,
) -> None:
    """Write a trace that follows a smooth daily curve."""
    from ...traffic import arrivals

    made.write("daily", lambda: arrivals.daily(rate, peak_to_mean, peak_hour, drawn.count, drawn.seed), drawn.seed)


@app.command()
@flat
def merge(
    traces: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The traces to merge.")], made: Made
) -> None:
    """Write one trace of the requests of several."""
    from ...traffic import read_trace, superpose

    made.write("merge", lambda: superpose([read_trace(path) for path in traces]))


@app.command()
@flat
def rescale(
    trace: Annotated[Path, typer.Argument(metavar="FILE", help="The trace to rescale.")],
    *,
    rate: Annotated[
        float | None, typer.Option(metavar="REQUESTS/S", help="Mean arrival rate to reach, by scaling all times.")
    ] = None,
    cv: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Standard deviation/mean of the gaps to reach, by a power of the gaps."),
    ] = None,
    made: Made,
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

    made.write("rescale", make)


app.command("import")(trace_import.command)
