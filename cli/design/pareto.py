"""``fluidb pareto``: what fewer resources cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options as shared
from ..render import blank, emit_facts, emit_json, emit_table, note, percent, progress
from .problem import Problem, problem

if TYPE_CHECKING:
    from ...dse.pareto import Axis, Front, Point

SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.25, 0.1)
"""Shares of the best objective for which the text says what they take."""


def command(
    network: shared.NetworkName,
    platform: shared.PlatformName,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="One or two of dsp, ram, lut, energy, latency; by default dsp,ram, or dsp if energy is the objective.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the front: .svg or .png.")] = None,
    batching: shared.Batching = shared.Engine.fluid,
    stacking: shared.Stacking = True,
    b_max: shared.BMax = 8,
    weights: shared.Weights = None,
    bandwidth: shared.Bandwidth = None,
    memory_layers: shared.MemoryLayers = True,
    backbone: shared.Backbone = False,
    objective: shared.Objective = shared.Goal.gop_s,
    max_dsp: shared.MaxDsp = None,
    max_ram: shared.MaxRam = None,
    max_lut: shared.MaxLut = None,
    threads: shared.Threads = None,
    force: shared.Force = False,
    as_json: shared.AsJson = False,
) -> None:
    """Find every NPU that none beats in the objective without taking more of the board.

    Prints what the designs take that reach some share of the best; --json has
    the whole front.
    """
    from ...dse.pareto import find_front

    if plot is not None:
        from ...plots import check_picture

        check_picture(plot, replace=force)
    asked = problem(
        network, platform, bandwidth=bandwidth, backbone=backbone, weights=weights, max_dsp=max_dsp, max_ram=max_ram,
        max_lut=max_lut, batching=batching.value, stacking=stacking, b_max=b_max, memory_layers=memory_layers,
        objective=objective.value,
    )  # fmt: skip
    with progress("designs") as report:
        front = find_front(*asked, over=_axes(over), threads=threads, progress=report)
    if plot is not None:
        from ...plots.pareto import draw_front

        draw_front(front, asked.network, asked.platform, asked.options, plot, replace=force)
    if as_json:
        _emit_json(front, asked, plot)
    else:
        _emit_text(front, asked)
    if plot is not None:
        note(f"wrote {plot}")


def _axes(text: str | None) -> list[Axis] | None:
    from ...dse.pareto import Axis
    from ...formats import InputError

    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in list(Axis)]
    if unknown:
        raise InputError(f'--over: expected one or two of {", ".join(Axis)}, found "{unknown[0]}"; write e.g. dsp,ram')
    return [Axis(name) for name in names]


def _emit_json(front: Front, asked: Problem, plot: Path | None) -> None:
    from ...dse.objectives import OBJECTIVES
    from ...dse.pareto import SCALES

    keys = [SCALES[axis].key for axis in front.over]
    points = [
        {
            **point.tile._asdict(),
            **dict(zip(keys, point.takes, strict=True)),
            "objective": point.objective,
            "of_best": point.of_best,
        }
        for point in front.points
    ]
    content = {
        "network": asked.network.name,
        "platform": asked.platform.name,
        "bandwidth_gb_s": asked.platform.bandwidth_gb_s,
        "options": asked.options.model_dump(mode="json"),
        "over": keys,
        "objective_unit": OBJECTIVES[asked.options.objective].unit,
        "designs_evaluated": front.designs_evaluated,
        "knee": front.knee,
        "points": points,
        "plot": None if plot is None else str(plot),
    }
    emit_json("fluidb.pareto-output/1", content)


def _emit_text(front: Front, asked: Problem) -> None:
    from ...dse.objectives import OBJECTIVES
    from ...dse.pareto import SCALES

    net, board, options = asked
    goal, scales = OBJECTIVES[options.objective], [SCALES[axis] for axis in front.over]
    knee = front.points[front.knee]

    def row(label: str, point: Point) -> list[str]:
        takes = [
            f"{scale.factor * value:,.{0 if scale.factor == 1 else 2}f}"
            for scale, value in zip(scales, point.takes, strict=True)
        ]
        return [label, *takes, str(point.tile), goal.text(point.objective), percent(point.of_best, 1)]

    emit_facts(
        [
            ("network", f"{net.title} ({net.name})"),
            ("board", f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s"),
            ("objective", f"{goal.title}, {goal.unit} {goal.summary.format(options.b_max)}"),
            ("front", f"{len(front.points):,} designs; {front.designs_evaluated:,} evaluated"),
        ]
    )
    headers = [*(scale.label for scale in scales), "design", "objective", "of the best"]
    for axis, scale in enumerate(scales):
        blank()
        found: dict[Point, float] = {}
        for share in SHARES:
            found.setdefault(front.least(axis, share), share)  # what reaches less for as little is named once
        rows = [row(f">= {share:.0%}", point) for point, share in found.items()]
        emit_table([f"least {scale.label}", *headers], [*rows, row("knee", knee)])
