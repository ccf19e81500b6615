"""``fluidb pareto``: the best designs with fewer resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from ..declare import option
from ..options import AsJson, PictureOptions, Threads
from ..render import facts, percent, progress, show, table
from .problem import NetworkName, PlatformName, Search, board_of, not_judged

if TYPE_CHECKING:
    from ...dse.npu.pareto import Axis, Front, FrontPoint
    from ...dse.npu.stated import Problem

SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.25, 0.1)
"""Shares of the best objective for which the text lists the least resources."""

AXES = "One or two of dsp (the default), ram, lut, energy, latency."


def command(
    network: NetworkName,
    platform: PlatformName,
    asked: Search,
    over: Annotated[str | None, option(AXES, "AXES")] = None,
    *,
    picture: PictureOptions,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Find the designs that no other beats with fewer resources.

    The command prints the least resources of designs that reach a share of the best objective;
    --json has the whole front.
    """
    from ...dse.npu.pareto import find_front
    from ...plots.pareto import draw_front

    picture.check()
    problem = asked.read(network, platform)
    with progress("designs") as report:
        front = find_front(*problem, over=_axes(over), threads=threads, progress=report)
    picture.write(lambda: draw_front(front, *problem))
    record, plot = _record(front, problem), picture.plot
    show(as_json, "fluidb.pareto-output/2", record | {"plot": plot}, _text(front, problem), plot)


def _axes(text: str | None) -> list[Axis] | None:
    from ...dse.npu.pareto import Axis
    from ...formats import InputError

    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in list(Axis)]
    if unknown:
        raise InputError(f'over: expected one or two of {", ".join(Axis)}, found "{unknown[0]}"; write e.g. dsp,ram')
    return [Axis(name) for name in names]


def _record(front: Front, asked: Problem) -> dict[str, Any]:
    from ...dse.npu.objectives import OBJECTIVES
    from ...dse.npu.pareto import SCALES

    keys = [SCALES[axis].key for axis in front.over]

    def point(member: FrontPoint) -> dict[str, Any]:
        takes = dict(zip(keys, member.takes, strict=True))
        return {**member.tile.by_name, **takes, "objective": member.objective, "of_best": member.of_best}

    return {
        "network": asked.network.name,
        "platform": asked.platform.name,
        "bandwidth_gb_s": asked.platform.bandwidth_gb_s,
        "word_bits": asked.platform.word_bits,
        "options": asked.options,
        "unjudged": list(asked.options.unjudged(asked.platform)),
        "over": keys,
        "objective_unit": OBJECTIVES[asked.options.objective].unit,
        "designs_evaluated": front.designs_evaluated,
        "knee": front.knee,
        "points": [point(member) for member in front.points],
    }


def _text(front: Front, asked: Problem) -> Iterator[str]:
    from ...dse.npu.objectives import OBJECTIVES
    from ...dse.npu.pareto import SCALES

    net, board, options = asked
    goal, scales = OBJECTIVES[options.objective], [SCALES[axis] for axis in front.over]

    def row(label: str, point: FrontPoint) -> list[str]:
        pairs = zip(scales, point.takes, strict=True)
        takes = [f"{scale.factor * value:,.{0 if scale.factor == 1 else 2}f}" for scale, value in pairs]
        return [label, *takes, str(point.tile), options.text(point.objective), percent(point.of_best, 1)]

    lines = {
        "network": f"{net.title} ({net.name})",
        "board": board_of(board),
        "objective": f"{goal.title}, {goal.unit} {goal.summary.format(options.b_max)}",
        "not judged": not_judged(options.unjudged(board)),
        "front": f"{len(front.points):,} designs; {front.designs_evaluated:,} evaluated",
    }
    yield facts(lines)
    headers = [*(scale.label for scale in scales), "design", "objective", "of the best"]
    for axis, scale in enumerate(scales):
        least: dict[FrontPoint, float] = {}
        for share in SHARES:  # a design that is the least for several shares is listed once, with the largest
            least.setdefault(front.least(axis, share), share)
        rows = [row(f">= {share:.0%}", point) for point, share in least.items()]
        yield table([f"least {scale.label}", *headers], [*rows, row("knee", front.points[front.knee])])
