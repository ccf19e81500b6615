"""Picture of ``fluidb serve-sim``: the distribution of latency, and latency and queue over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..formats.array_types import Bools, Floats, Ints
from ..serving.one_run import nearest_rank
from ..serving.outcome import Replay
from ..serving.summary import QUANTILES
from .canvas import COLOURS, canvas, describe, durations, legible, round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 300
"""Most points of a curve; a picture cannot show more."""

SPELLS = 200
"""Intervals of equal length into which time is divided."""


def draw_replay(replay: Replay, title: str = "") -> Figure:
    """Draw the shares of requests beyond each latency, and latency and queue over time."""
    with canvas(10.0, 4.4) as figure:
        left, right = figure.subfigures(1, 2, squeeze=False)[0]
        _tail(left.subplots(), replay)
        above, below = right.subplots(2, 1, sharex=True)
        _over_time(above, below, replay)
        tables = [use.table for use in replay.uses]
        heading = f"{', '.join(legible(table.network) for table in tables)} on {legible(tables[0].platform)}"
        latency_s, violations = np.sort(replay.latency_s), float(replay.violated.mean())
        p50, p99 = (nearest_rank(latency_s, QUANTILES[name]) for name in ("p50", "p99"))
        said = (
            f"{100 * violations:.2f} % of {len(latency_s):,} requests are later than their SLO. "
            f"{_up_to('Half', p50)}, {_up_to('99 %', p99)}."
        )
        return describe(figure, f"Latency of {heading}" + (f", {legible(title)}" if title else ""), said)


def _up_to(share: str, latency_s: float) -> str:
    """How long a share of the requests takes."""
    if np.isinf(latency_s):
        return f"{share} are not answered"
    return f"{share} take up to {1e3 * latency_s:,.4g} ms"


def tail_of(latency_s: Floats) -> tuple[Floats, Floats]:
    """Rising latencies, and the share of requests that take longer: some :data:`STEPS`, with all of the longest."""
    count, finite = len(latency_s), np.sort(latency_s[np.isfinite(latency_s)])
    longer = np.unique(np.geomspace(1, count, min(STEPS, count)).round().astype(np.int64))  # numbers of requests
    ranks = (count - longer)[::-1]
    ranks = ranks[ranks < len(finite)]
    return finite[ranks], 1 - (ranks + 1) / count


def waiting(replay: Replay) -> tuple[Floats, Ints]:
    """Times at which the queue changes, rising, and its length from each on."""
    left_s = replay.left_queue_s[np.isfinite(replay.left_queue_s)]
    at_s = np.concatenate([replay.traffic.trace.arrival_s, left_s])
    change = np.concatenate([np.ones(len(replay.start_s), np.int64), -np.ones(len(left_s), np.int64)])
    order = np.argsort(at_s, kind="stable")  # arrivals first, so that no queue is negative
    at_s, queue = at_s[order], np.cumsum(change[order])
    last = np.append(np.diff(at_s) > 0, True)
    return at_s[last], queue[last]


def _kinds(replay: Replay) -> list[tuple[str, Bools]]:
    """The requests of each network that has a name, or else of each exit."""
    exits, rows = replay.traffic.exits, enumerate(replay.uses[0].table.exits, 1)
    return [(legible(name), replay.network == number) for number, name in replay.named] or [
        (f"exit {index} {legible(row.name)}", exits == index) for index, row in rows
    ]


def _tail(axes: Axes, replay: Replay) -> None:
    latency_s = replay.latency_s
    finite = latency_s[np.isfinite(latency_s)]
    unit, per_s = durations(float(finite.max(initial=0.0)))
    curves = [("all requests", np.ones(len(latency_s), bool), "black", 1.8)]
    curves += [
        (name, here, COLOURS[index % (len(COLOURS) - 1)], 1.0) for index, (name, here) in enumerate(_kinds(replay))
    ]
    for name, here, colour, width in curves:
        if here.any() and (len(curves) > 2 or name == curves[0][0]):  # a single exit has all requests
            x, longer = tail_of(latency_s[here])
            axes.step(per_s * x, 100 * longer, where="post", color=colour, linewidth=width, label=name)
    if replay.traffic.objective_s is not None:
        slo = per_s * replay.traffic.objective_s
        axes.axvline(slo, color="black", linestyle="--", linewidth=1, label=f"SLO {slo:,g} {unit}")
    axes.set(  # limits first: with a single request no share is positive, and no scale follows from the data
        ylim=(100 / len(latency_s), 110), xscale="log", yscale="log", xlabel=f"latency, {unit}",
        ylabel="% of requests that take longer", title="distribution of latency",
    )  # fmt: skip
    round_ticks(axes.xaxis, axes.yaxis)
    axes.legend()


def _over_time(above: Axes, below: Axes, replay: Replay) -> None:
    arrival_s, latency_s = replay.traffic.trace.arrival_s, replay.latency_s
    begin_s = float(arrival_s[0])
    edges_s = np.linspace(begin_s, max(float(arrival_s[-1]), begin_s + 1e-6), SPELLS + 1)
    middle_s = (edges_s[1:] + edges_s[:-1]) / 2
    unit, per_s = durations(float(latency_s[np.isfinite(latency_s)].max(initial=0.0)))
    first = np.searchsorted(arrival_s, edges_s[:-1])
    some = np.diff(np.append(first, len(arrival_s))) > 0  # intervals with arrivals
    starts = first[some]
    mean_s = np.add.reduceat(latency_s, starts) / np.diff(np.append(starts, len(latency_s)))
    above.fill_between(
        middle_s[some], per_s * mean_s, per_s * np.maximum.reduceat(latency_s, starts), color=COLOURS[0], alpha=0.25,
        linewidth=0, label="largest",
    )  # fmt: skip
    above.plot(middle_s[some], per_s * mean_s, color=COLOURS[0], linewidth=1.2, label="mean")
    if replay.traffic.objective_s is not None:
        above.axhline(per_s * replay.traffic.objective_s, color="black", linestyle="--", linewidth=1, label="SLO")
    above.set(ylabel=f"latency, {unit}", title="over time of arrival")
    above.legend(ncols=3, loc="upper left")
    at_s, queue = waiting(replay)
    here = np.searchsorted(at_s, edges_s, side="right") - 1
    area = np.concatenate([[0.0], np.cumsum(queue[:-1] * np.diff(at_s))])  # requests times seconds, up to each time
    spent = area[here] + queue[here] * (edges_s - at_s[here])
    mean = np.diff(spent) / np.diff(edges_s)
    largest = np.maximum(queue[here[:-1]], np.maximum.reduceat(queue, here[:-1]))
    below.fill_between(middle_s, mean, largest, color=COLOURS[2], alpha=0.25, linewidth=0, label="largest")
    below.plot(middle_s, mean, color=COLOURS[2], linewidth=1.2, label="mean")
    below.set(ylabel="requests in the queue", xlabel="time, s")
    below.legend(ncols=2, loc="upper left")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
