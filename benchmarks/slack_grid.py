"""fluid-slack against FluidB on every network and platform that ships: ``python benchmarks/slack_grid.py poisson``.

Six loads, as shares of the rate beyond which queues grow, times six SLOs, as multiples of the time of one sample
alone.  Both policies get the same arrivals and exits under the same seed.  On boards, ``poisson`` and ``gamma`` (CV 3)
draw arrivals, and ``azure`` takes the CSV file named by ``--trace``, faster or slower.  ``large`` (boards with B_max 32
and 64), ``devices`` (one lane) and ``lanes`` (all lanes, of devices that have several) draw Poisson arrivals.  Each
writes ``benchmarks/slack-grid/GROUND.csv``; ``render`` draws the picture from these files and writes the table of
README.md.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fluidb.dse import Overlap, SearchOptions, search, tabulate_design, tabulate_latency
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.models import NETWORKS, load_network
from fluidb.platforms import PLATFORMS, Board, Device, Platform, kind_of, load_platform
from fluidb.plots.canvas import canvas, describe, save
from fluidb.serving import find_policy, simulate
from fluidb.serving.networks import ServedNetwork
from fluidb.studies.saturation import saturation_rate
from fluidb.tables import LatencyTable
from fluidb.traffic import Trace, prepare
from fluidb.traffic.arrivals import gamma, poisson
from fluidb.traffic.importers import import_trace
from pages import write_part
from rounds import HERE

LOADS = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3)
SLOS = (1.05, 1.5, 2.0, 3.0, 5.0, 8.0)
SEEDS, REQUESTS = (301, 302, 303, 304, 305), 3_000
LARGE = (32, 64)
FOLDER, PAGE = HERE / "slack-grid", HERE / "README.md"
PICTURE = HERE.parent / "docs" / "images" / "fluid-slack-grid.svg"
GROUNDS = {
    "poisson": "boards, Poisson",
    "gamma": "boards, gamma, CV 3",
    "azure": "boards, Azure code trace",
    "large": "boards, B_max 32 and 64",
    "devices": "devices, one lane",
    "lanes": "devices, two lanes",
}
POINT = 0.01
SAMPLE = [name for name in NETWORKS.names() if name != "digits" and not name.endswith(("_caffe", "_tfslim"))]
"""The networks, without other forms of ResNets, whose times are nearly the same."""

LATENCIES = ("mean_most_x", "p99_most_x", "longest_most_x")


class GridPoint(NamedTuple):
    """fluid-slack and FluidB at one point: means over the seeds, and the least and largest difference of violations."""

    network: str
    platform: str
    load: float
    slo_x: float  # in times of one sample alone
    fluid: float  # violation rate
    slack: float
    least: float  # fluid-slack's violation rate less FluidB's, on its best seed
    most: float  # on its worst
    mean_x: float  # ratio of the average latencies
    p99_x: float
    longest_x: float  # ratio of the longest latencies

    @property
    def worse(self) -> bool:
        """Tell if fluid-slack has more violations on every seed."""
        return self.least > 0


LATER = {"arty-a7", "ulx3s"}
"""Boards that came after the grids were run."""


def engines(sizes: tuple[int, ...] = (8,)) -> Iterator[tuple[str, str, LatencyTable]]:
    """Latency tables of the best NPU for every network on every board, with each B_max."""
    for b_max, network, board in itertools.product(sizes, SAMPLE, PLATFORMS.names()):
        platform = load_platform(board, kind=Platform)
        if isinstance(platform, Board) and board not in LATER:
            problem = load_network(network), platform, SearchOptions(b_max=b_max, overlap=Overlap.PAPER)
            yield network, board, tabulate_latency(*tabulate_design(*problem, search(*problem)))


def devices() -> Iterator[tuple[str, str, LatencyTable]]:
    """Latency tables of every device, for every network or for its own; engines gain nothing by batches."""
    for network, name in itertools.product(SAMPLE, PLATFORMS.names()):
        if kind_of(name) is not Device:
            continue
        platform = load_platform(name, kind=Device)
        if getattr(platform, "network", network) == network:
            yield network, name, tabulate_device(load_network(network), platform)


def tables(ground: str) -> Iterator[tuple[str, str, LatencyTable]]:
    """Latency tables of a ground."""
    if ground in ("devices", "lanes"):
        return (found for found in devices() if ground == "devices" or found[2].lanes > 1)
    return engines(LARGE) if ground == "large" else engines()


def arrivals(ground: str, rate_per_s: float, recorded: Trace | None) -> list[tuple[int, Trace]]:
    """Seeds and arrivals at a rate; a recorded trace is sped up or slowed down, and has one seed."""
    if recorded is not None:
        own_per_s = len(recorded) / float(recorded.arrival_s[-1])
        return [(SEEDS[0], Trace(recorded.request_id, recorded.arrival_s * own_per_s / rate_per_s))]
    if ground == "gamma":
        return [(seed, gamma(rate_per_s, 3.0, REQUESTS, seed)) for seed in SEEDS]
    return [(seed, poisson(rate_per_s, REQUESTS, seed)) for seed in SEEDS]


def figures(table: LatencyTable, trace: Trace, slo_s: float, seed: int, policy: str) -> list[float]:
    """Violation rate, and average, p99 and longest latency of a run."""
    traffic = prepare(trace, [exit_.rate for exit_ in table.exits], slo_s=slo_s, seed=seed)
    replay = simulate(table, traffic, find_policy(policy))
    latency_s = replay.latency_s
    return [replay.violated.mean(), latency_s.mean(), np.percentile(latency_s, 99), latency_s.max()]


def measure(ground: str, recorded: Trace | None) -> Iterator[GridPoint]:
    """Every point of the grid."""
    for network, platform, table in tables(ground):
        lanes, faster = (table.lanes, 1.0) if ground == "lanes" else (1, table.speedup)
        alone_s, saturation = table.array()[0, -1, 1], saturation_rate(ServedNetwork(table=table)) / faster
        for load in LOADS:
            traces = arrivals(ground, load * saturation, recorded)
            for slo in SLOS:
                fluid, slack = (
                    np.array([figures(table, trace, slo * alone_s, seed, policy) for seed, trace in traces])
                    for policy in (f"fluid:lanes={lanes}", f"fluid-slack:lanes={lanes}")
                )
                more = slack[:, 0] - fluid[:, 0]
                ratios = slack[:, 1:].mean(axis=0) / fluid[:, 1:].mean(axis=0)
                rates = fluid[:, 0].mean(), slack[:, 0].mean()
                yield GridPoint(network, platform, load, slo, *rates, more.min(), more.max(), *ratios)


class GridCell(NamedTuple):
    """Summary of all networks and platforms at one load and SLO."""

    load: float
    slo_x: float
    pairs: int  # of a network and a platform (with a B_max)
    worse: int  # pairs with more violations on every seed
    most: float  # largest mean difference of the violation rates
    typical: float  # median difference
    mean_x: float  # median ratio of the average latencies
    mean_most_x: float
    p99_x: float
    p99_most_x: float
    longest_x: float
    longest_most_x: float


def summarised(points: list[GridPoint]) -> Iterator[GridCell]:
    """Summaries of a grid: one line for each load and SLO."""
    for load, slo in itertools.product(LOADS, SLOS):
        here = [point for point in points if (point.load, point.slo_x) == (load, slo)]
        more = np.array([point.slack - point.fluid for point in here])
        ratios = np.array([[point.mean_x, point.p99_x, point.longest_x] for point in here])
        spread = itertools.chain(*zip(np.median(ratios, axis=0), ratios.max(axis=0), strict=True))
        yield GridCell(load, slo, len(here), sum(p.worse for p in here), more.max(), float(np.median(more)), *spread)


def write(path: Path, rows: list[Any]) -> None:
    """Write named tuples as CSV, with six digits."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(rows[0]._fields)
        out.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)


def read(kind: str) -> list[GridCell]:
    """Read the cells of a grid that was measured."""
    with (FOLDER / f"{kind}.csv").open() as file:
        return [
            GridCell._make(int(text) if name in ("pairs", "worse") else float(text) for name, text in row.items())
            for row in csv.DictReader(file)
        ]


def draw(grids: dict[str, list[GridCell]]) -> None:
    """Draw a grid for each ground: the median difference of each load and SLO as colour, the largest as number."""
    with canvas(10.8, 6.8) as figure:
        for axes, (kind, cells) in zip(figure.subplots(2, 3).flat, grids.items(), strict=True):
            shape = len(LOADS), len(SLOS)
            typical = np.array([cell.typical for cell in cells]).reshape(shape) / POINT
            most = np.array([cell.most for cell in cells]).reshape(shape) / POINT
            image = axes.imshow(typical, origin="lower", aspect="auto", cmap="Blues_r", vmin=-30, vmax=0)
            for (row, column), value in np.ndenumerate(most):
                ink = "white" if typical[row, column] < -18 else "#111111"
                label = f"{value:+.2f}" if round(value, 2) else ""
                axes.text(column, row, label, ha="center", va="center", fontsize=5.5, color=ink)
            axes.set_xticks(range(len(SLOS)), [f"{slo:g}" for slo in SLOS])
            axes.set_yticks(range(len(LOADS)), [f"{100 * load:g} %" for load in LOADS])
            axes.set(title=GROUNDS[kind], xlabel="SLO, in times of one sample alone", ylabel="load")
            axes.grid(visible=False)
        figure.colorbar(image, ax=figure.axes, label="violations, difference in points (median)", shrink=0.9)
        fewer, every = (sum(cell.typical < bound for cells in grids.values() for cell in cells) for bound in (0, 1e9))
        said = f"fluid-slack has fewer violations than FluidB, in the median, in {fewer} of {every} cells."
        describe(figure, "Violations of fluid-slack less violations of FluidB; numbers: the largest difference", said)
        save(figure, PICTURE, replace=True)


def table_text(grids: dict[str, list[GridCell]]) -> str:
    """The grids in numbers, as Markdown."""
    columns = ("ground", "points", "worse on every seed", "largest difference", "average", "p99", "longest latency")
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    for kind, cells in grids.items():
        row = [GROUNDS[kind], f"{sum(cell.pairs for cell in cells):,}", f"{sum(cell.worse for cell in cells)}"]
        row.append(f"{max(cell.most for cell in cells) / POINT + 0:+.2f} points")
        row += [f"x{max(getattr(cell, name) for cell in cells):.2f}" for name in LATENCIES]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def render() -> None:
    """Draw the picture and put the table into the page."""
    grids = {kind: read(kind) for kind in GROUNDS}
    draw(grids)
    write_part(PAGE, "grid", table_text(grids))


def main() -> None:
    """Measure one grid, or render all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*GROUNDS, "render"])
    parser.add_argument("--trace", type=Path, help="the Azure code trace, for azure")
    options = parser.parse_args()
    if options.what == "render":
        render()
        return
    if (options.what == "azure") != (options.trace is not None):
        parser.error("azure, and no other, needs --trace")
    recorded = options.trace and import_trace("azure-llm-2023", options.trace).trace
    points = []
    for point in measure(options.what, recorded):
        points.append(point)
        if len(points) % (len(LOADS) * len(SLOS)) == 0:
            print(f"{len(points):,} points, {sum(item.worse for item in points)} worse", file=sys.stderr)
    write(FOLDER / f"{options.what}.csv", list(summarised(points)))
    for point in sorted(points, key=lambda item: item.fluid - item.slack)[:10]:
        print(*(f"{value:.4g}" if isinstance(value, float) else value for value in point))


if __name__ == "__main__":
    main()
