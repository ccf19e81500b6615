"""``fluidb trace``: make request traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force
from ..render import emit_facts, emit_json, note
from . import trace_import

if TYPE_CHECKING:
    from ...traffic.trace import Trace

app = typer.Typer(no_args_is_help=True, help="Make request traces.")

Rate = Annotated[float, typer.Option(metavar="REQUESTS/S", help="Mean arrival rate in requests a second.")]
Count = Annotated[int, typer.Option(help="Requests.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The CSV file to write.")]
Seed = Annotated[int, typer.Option(help="Same seed, same trace; sources that are merged need seeds of their own.")]


@app.callback()
def _group() -> None:
    """Make request traces."""


@app.command()
def poisson(
    rate: Rate, count: Count, output: Output, seed: Seed = 0, force: Force = False, as_json: AsJson = False
) -> None:
    """Write a trace of Poisson arrivals."""
    from ...traffic import arrivals

    _make("poisson", lambda: arrivals.poisson(rate, count, seed), output, force, as_json, seed)


@app.command()
def gamma(
    rate: Rate,
    cv: Annotated[
        float, typer.Option(metavar="RATIO", help="Standard deviation/mean of the gaps, 0.001 to 20; 1 is Poisson.")
    ],
    count: Count,
    output: Output,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace with gamma gaps: regular to bursty."""
    from ...traffic import arrivals

    _make("gamma", lambda: arrivals.gamma(rate, cv, count, seed), output, force, as_json, seed)


@app.command()
def mmpp(
    quiet_rate: Annotated[float, typer.Option(metavar="REQUESTS/S", help="Arrival rate while quiet; may be 0.")],
    burst_rate: Annotated[float, typer.Option(metavar="REQUESTS/S", help="Arrival rate during a burst.")],
    quiet_dwell: Annotated[str, typer.Option(metavar="DURATION", help="Mean time between bursts, e.g. 10s.")],
    burst_dwell: Annotated[str, typer.Option(metavar="DURATION", help="Mean duration of a burst, e.g. 500ms.")],
    count: Count,
    output: Output,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace of a two-state MMPP: bursts that last."""
    from ...formats import parse_duration
    from ...traffic import arrivals

    quiet_s, burst_s = parse_duration(quiet_dwell, "--quiet-dwell"), parse_duration(burst_dwell, "--burst-dwell")
    _make(
        "mmpp",
        lambda: arrivals.mmpp(quiet_rate, burst_rate, quiet_s, burst_s, count, seed),
        output,
        force,
        as_json,
        seed,
    )


@app.command()
def cameras(
    number: Annotated[int, typer.Option("--cameras", metavar="N", help="Cameras, each with a random phase.")],
    fps: Annotated[float, typer.Option(metavar="FRAMES/S", help="Frame rate of each camera.")],
    count: Annotated[int, typer.Option(help="Requests: frames that arrive, of all cameras.")],
    output: Output,
    jitter: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Standard deviation of a frame's arrival, e.g. 5ms; none if absent."),
    ] = None,
    drop: Annotated[float, typer.Option(metavar="SHARE", help="Probability that a frame is lost, 0 to 0.99.")] = 0.0,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace of the frames of periodic cameras."""
    from ...formats import parse_duration
    from ...traffic import arrivals

    jitter_s = parse_duration(jitter, "--jitter") if jitter is not None else 0.0
    _make(
        "cameras",
        lambda: arrivals.cameras(number, fps, count, seed, jitter_s=jitter_s, drop=drop),
        output,
        force,
        as_json,
        seed,
    )


@app.command()
def daily(
    rate: Rate,
    peak_to_mean: Annotated[float, typer.Option(metavar="RATIO", help="Rate at the peak/mean rate, 1 to 24.")],
    peak_hour: Annotated[float, typer.Option(metavar="HOUR", help="Hour of the peak, 0 to 24; time zero is midnight.")],
    count: Count,
    output: Output,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace that follows a smooth daily curve."""
    from ...traffic import arrivals

    _make(
        "daily",
        lambda: arrivals.daily(rate, peak_to_mean, peak_hour, count, seed),
        output,
        force,
        as_json,
        seed,
    )


@app.command()
def merge(
    traces: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The traces to merge.")],
    output: Output,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write one trace of the requests of several."""
    from ...traffic.reading import read_trace
    from ...traffic.transforms import superpose

    _make("merge", lambda: superpose([read_trace(path) for path in traces]), output, force, as_json)


@app.command()
def rescale(
    trace: Annotated[Path, typer.Argument(metavar="FILE", help="The trace to rescale.")],
    output: Output,
    rate: Annotated[
        float | None, typer.Option(metavar="REQUESTS/S", help="Mean arrival rate to reach, by scaling all times.")
    ] = None,
    cv: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Standard deviation/mean of the gaps to reach, by a power of the gaps."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace at another mean rate or burstiness."""
    from ...formats import InputError
    from ...traffic.reading import read_trace
    from ...traffic.transforms import rescale_burstiness, rescale_rate

    if rate is None and cv is None:
        raise InputError("rescale: expected --rate, --cv or both, found neither; add e.g. --rate 20")

    def make() -> Trace:
        made = read_trace(trace)
        if cv is not None:
            made = rescale_burstiness(made, cv)
        return rescale_rate(made, rate) if rate is not None else made

    _make("rescale", make, output, force, as_json)


def _make(
    process: str, make: Callable[[], Trace], output: Path, force: bool, as_json: bool, seed: int | None = None
) -> None:
    """Make a trace, write it and say what it is like; ``seed`` is ``None`` where nothing is drawn."""
    from ...formats import check_free
    from ...traffic.trace import write_trace

    check_free(output, force)
    made = make()
    write_trace(made, output, replace=force)
    span_s = float(made.arrival_s[-1])
    if as_json:
        content = {"output": str(output), "process": process, "requests": len(made), "seed": seed}
        figures = {"arrival_rate_per_s": made.rate_per_s, "cv": made.gap_cv, "lag1_correlation": made.gap_lag1}
        emit_json("fluidb.trace-output/1", {**content, "last_arrival_s": span_s, **figures})
    else:
        emit_facts(
            [
                ("requests", f"{len(made):,}"),
                ("rate", f"{made.rate_per_s:{'.3f' if made.rate_per_s >= 1 else '.3g'}} /s"),
                ("CV of gaps", f"{made.gap_cv:.3f}"),
                ("lag-1 correlation", f"{made.gap_lag1:.3f}"),
                ("last arrival", f"{span_s:,.3f} s"),
            ]
        )
    note(f"wrote {output}")


app.command("import")(trace_import.command)
