"""``fluidb trace``: make request traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import trace_import
from .options import AsJson, Force
from .render import emit_facts, emit_json, note

app = typer.Typer(no_args_is_help=True, help="Make request traces.")


@app.callback()
def _group() -> None:
    """Make request traces."""


@app.command()
def poisson(
    rate: Annotated[float, typer.Option(metavar="REQUESTS/S", help="Mean arrival rate in requests a second.")],
    count: Annotated[int, typer.Option(help="Requests.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The CSV file to write.")],
    seed: Annotated[int, typer.Option(help="Same seed, same trace.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace of Poisson arrivals."""
    from ..formats import check_free
    from ..serving.arrivals import poisson as generate
    from ..serving.traces import write_trace

    check_free(output, force)
    made = generate(rate, count, seed)
    write_trace(made, output)
    span_s = float(made.arrival_s[-1])
    if as_json:
        content = {"output": str(output), "requests": count, "seed": seed, "last_arrival_s": span_s}
        emit_json("fluidb.trace-output/1", {**content, "arrival_rate_per_s": made.rate_per_s})
    else:
        emit_facts(
            [("requests", f"{count:,}"), ("rate", f"{made.rate_per_s:.3f} /s"), ("last arrival", f"{span_s:,.3f} s")]
        )
    note(f"wrote {output}")


app.command("import")(trace_import.command)
