"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Engine(StrEnum):
    """The values of ``--batching``; ``dse.space.Batching`` says what they mean."""

    fluid = "fluid"
    row = "row"
    column = "column"
    fc = "fc"
    none = "none"
    eq1 = "eq1"


class Goal(StrEnum):
    """The values of ``--objective``; ``dse.objectives`` says what they are."""

    gop_s = "gop_s"
    latency = "latency"
    energy = "energy"
    gop_s_w = "gop_s_w"


DesignFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of a design, as `fluidb dse -o DIR` writes it.")
]
TableFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of a latency table, of a design or of a device.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (docs/file-formats.md) and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]

# what `dse` and `pareto` search
NetworkName = Annotated[str, typer.Argument(help="A network: a name from `fluidb models`, or a TOML file.")]
PlatformName = Annotated[str, typer.Argument(help="A board: a name from `fluidb platforms`, or a TOML file.")]
Batching = Annotated[Engine, typer.Option(help="How the engine lays out a batch.")]
Stacking = Annotated[bool, typer.Option(help="Stackable PEs: k in {1/2, 1, 2}, or k = 1 only.")]
BMax = Annotated[int, typer.Option(min=1, max=256, help="Largest batch size B_max.")]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="W1,W2,...|FILE",
        help="w_b for b = 1..B_max, or results.json of `serve-sim --json` for the batches that it saw; else all 1.",
    ),
]
Bandwidth = Annotated[
    str | None, typer.Option(metavar="QUANTITY", help="Off-chip bandwidth instead of the board's, e.g. 3.2GB/s.")
]
MemoryLayers = Annotated[bool, typer.Option(help="Count the traffic of pooling layers.")]
Backbone = Annotated[bool, typer.Option("--backbone", help="Leave out exits and heads.")]
Objective = Annotated[
    Goal, typer.Option(help="What is best: GOP/s (Equation 2), latency at b = 1, energy, or GOP/s/W.")
]
MaxDsp = Annotated[str | None, typer.Option(metavar="LIMIT", help="DSPs a design may take: 80% or 720.")]
MaxRam = Annotated[str | None, typer.Option(metavar="LIMIT", help="On-chip memory it may take: 80% or 15Mb.")]
MaxLut = Annotated[str | None, typer.Option(metavar="LIMIT", help="LUTs it may take: 76% or 166000.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT|local", help="Run on a Dask cluster, or on one made of this machine (docs/cluster.md)."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; all cores if not given.")]
