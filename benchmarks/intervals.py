"""Measure how often printed intervals contain the truth: ``make coverage``.

At six loads of two networks, runs with different seeds are simulated as
``serve-sim`` does, short ones and long ones, and again under another policy for
the differences.  The truth is the figure of all requests of the long runs
together.  Writes ``intervals.json``, and the tables of
``README.md`` from it.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fluidb import __version__
from fluidb.dse import Overlap, SearchOptions, search, tabulate_design, tabulate_latency
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.serving import Replay, find_policy, simulate
from fluidb.serving.figures import FIGURES
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.one_run import ROUNDING, OneRun, nearest_rank
from fluidb.serving.statistics import Interval, mean_interval
from fluidb.serving.summary import QUANTILES
from fluidb.studies.estimates import Difference
from fluidb.studies.paired import differences
from fluidb.studies.saturation import saturation_rate
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import poisson, prepare
from numpy.typing import NDArray
from pages import write_part

HERE = Path(__file__).parent
RESULTS = HERE / "intervals.json"
PAGE = HERE / "README.md"
SCHEMA = "fluidb.coverage/1"

NETWORKS = {"resnet50": 0.2, "alexnet": 0.12}
"""Networks, and their latency objectives in seconds: the first gains little from batches, the second much."""
BOARD, POLICY, OTHER = "zc706", "fluid", "adaptb"
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Arrival rates, as shares of the saturation rate."""
NAMES = ("violation_rate", "mean", "p50", "p90", "p99")
SHORT = ("mean", "p99")
"""Figures for which the page tells how many runs are too short."""
FEW = 10
"""Least number of intervals for a share; of fewer, only the number is printed."""
TOGETHER = 5
"""Seeds in a group."""
KINDS = {
    "one": "one run (`serve-sim`)",
    "joined": f"{TOGETHER} runs as one (`capacity`)",
    "means": f"mean over {TOGETHER} runs (`compare`)",
    "paired": "one run, less another policy's (`report`)",
}
"""Data from which an interval is computed."""
PAIRED = ("violation_rate", "mean")
"""Figures whose differences have intervals."""


class LoadPoint(NamedTuple):
    """A network at a load."""

    network: str
    load: float

    @property
    def rate_per_s(self) -> float:
        """Arrival rate."""
        return self.load * saturation_rate(ServedNetwork(table=table_of(self.network)))

    def run(self, count: int, seed: int, policy: str = POLICY) -> Replay:
        """Simulate one run."""
        table = table_of(self.network)
        rates = [row.rate for row in table.exits]
        traffic = prepare(poisson(self.rate_per_s, count, seed), rates, slo_s=NETWORKS[self.network], seed=seed)
        return simulate(table, traffic, find_policy(policy))


@functools.cache
def table_of(network: str) -> LatencyTable:
    """Latency table of the best design."""
    problem = load_network(network), load_platform(BOARD), SearchOptions(overlap=Overlap.PAPER)
    return tabulate_latency(*tabulate_design(*problem, search(*problem)))


def intervals_of(run: OneRun, slo_s: float) -> dict[str, Interval | None]:
    """Interval of every figure."""
    figures = {"violation_rate": run.share(run.latency_s > slo_s), "mean": run.mean()}
    figures |= {name: run.quantile(QUANTILES[name]) for name in NAMES if name in QUANTILES}
    return {name: item.interval for name, item in figures.items()}


def figures_of(latency_s: NDArray[np.float64], slo_s: float) -> dict[str, float]:
    """Every figure of some requests."""
    found = {"violation_rate": float((latency_s > slo_s).mean()), "mean": float(latency_s.mean())}
    ordered = np.sort(latency_s)
    return found | {name: nearest_rank(ordered, QUANTILES[name]) for name in NAMES if name in QUANTILES}


def judged(found: Sequence[Interval | None], truth: float) -> dict[str, float | None]:
    """Share of intervals that were printed, share of these that contain the truth, and half their median width."""
    printed = [item for item in found if item is not None]
    if not printed:
        return {"printed": 0.0, "covered": None, "half_width": None}
    rounding = ROUNDING * abs(truth)
    inside = [item.low - rounding <= truth <= item.high + rounding for item in printed]
    half = float(np.median([item.high - item.low for item in printed])) / 2
    return {"printed": len(printed) / len(found), "covered": float(np.mean(inside)), "half_width": half}


def measure(point: LoadPoint, seeds: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Coverage of the intervals at a point, by length of the runs; the last length gives the truth."""
    slo_s = NETWORKS[point.network]
    rows: list[dict[str, Any]] = []
    for length in lengths:
        latency_s, fresh = np.empty((seeds, length)), np.empty((seeds, length), dtype=np.bool_)
        paired = []
        for seed in range(seeds):
            replay, other = point.run(length, seed), point.run(length, seed, OTHER)
            latency_s[seed], fresh[seed] = replay.latency_s, replay.fresh
            paired.append({key: item for key, item in differences(replay, other).items() if item is not None})
        each = [OneRun(*run) for run in zip(latency_s, fresh, strict=True)]
        found = {"one": [intervals_of(run, slo_s) for run in each]}
        if length == min(lengths):
            joined = (OneRun(latency_s[of].ravel(), fresh[of].ravel()) for of in groups(seeds))
            found["joined"] = [intervals_of(run, slo_s) for run in joined]
        figures = [figures_of(run, slo_s) for run in latency_s]
        values = {name: np.array([figure[name] for figure in figures]) for name in NAMES}
        means = {
            name: judged([mean_interval(column[of]) for of in groups(seeds)], float(column.mean()))
            for name, column in values.items()
        }
        worth = float(np.median([run.independent for run in each]))
        rows.append(
            {"requests": length, "independent_requests": worth, "intervals": found, "means": means, "paired": paired}
        )
    truth = figures_of(latency_s.ravel(), slo_s)
    less = {name: float(np.mean([change[FIGURES[name].key].mean for change in paired])) for name in PAIRED}
    for row in rows:
        row["paired"] = {
            name: judged([span(change[FIGURES[name].key]) for change in row["paired"]], less[name]) for name in PAIRED
        }
        for kind, intervals in row.pop("intervals").items():
            row[kind] = {name: judged([interval[name] for interval in intervals], truth[name]) for name in NAMES}
    return {
        "network": point.network, "load": point.load, "rate_per_s": point.rate_per_s, "truth": truth,
        "true_differences": less,
        "standard_error": {name: float(column.std(ddof=1)) / math.sqrt(seeds) for name, column in values.items()},
        "runs": rows,
    }  # fmt: skip


def span(found: Difference) -> Interval | None:
    """The interval of a difference."""
    return None if found.low is None or found.high is None else Interval(found.low, found.high)


def groups(seeds: int) -> Iterator[NDArray[np.int64]]:
    """Each group of consecutive seeds; the first seed follows the last."""
    for first in range(seeds):
        yield np.arange(first, first + TOGETHER) % seeds


def tables(run: dict[str, Any]) -> str:
    """What the page shows of a run; ``intervals.json`` has every point."""
    names = [FIGURES[name].heading for name in NAMES]
    held = [
        [about, f"{length:,}", *(_covered(run, at, kind, name) for name in NAMES)]
        for kind, about in KINDS.items()
        for at, length in enumerate(run["lengths"])
        if kind in run["points"][0]["runs"][at]
    ]
    short = [
        [f"{load:.2f}", *(_too_short(run, at, load, name) for at in range(len(run["lengths"])) for name in SHORT)]
        for load in LOADS
    ]
    lengths = [f"{FIGURES[name].heading}, {length:,}" for length in run["lengths"] for name in SHORT]
    return (
        f"Measured with {run['seeds']} seeds by\n`{run['command']}`, {run['version']}.\n\n"
        f"**Share of intervals that contain the truth: median (least) over networks and loads**\n\n"
        f"{_rows(['interval of', 'requests each', *names], held)}"
        f"\n**Share of single runs that are too short for an interval, of the network with more of them**\n\n"
        f"{_rows(['load', *lengths], short)}"
    )


def _rows(header: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ["---"] * len(header), *rows])


def _covered(run: dict[str, Any], at: int, kind: str, name: str) -> str:
    found = [point["runs"][at][kind][name] for point in run["points"] if name in point["runs"][at][kind]]
    if not found:
        return ""
    shares = [item["covered"] for item in found if item["printed"] * run["seeds"] >= FEW]
    return f"{np.median(shares):.1%} ({min(shares):.1%})"


def _too_short(run: dict[str, Any], at: int, load: float, name: str) -> str:
    printed = [point["runs"][at]["one"][name]["printed"] for point in run["points"] if point["load"] == load]
    return f"{1 - min(printed):.0%}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="make coverage", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="runs at each point")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=[20_000, 100_000], help="requests of short and long runs"
    )
    parser.add_argument("--out", type=Path, metavar="JSON", help="write this file only")
    parser.add_argument("--render", action="store_true", help="measure nothing; write the page from intervals.json")
    options = parser.parse_args()
    if options.render:
        write_part(PAGE, "coverage", tables(json.loads(RESULTS.read_text())))
        return
    points = []
    begin = time.perf_counter()
    for network in NETWORKS:
        for load in LOADS:
            points.append(measure(LoadPoint(network, load), options.seeds, options.lengths))
            print(f"{network} at {load}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    chosen = f"--seeds {options.seeds} --lengths {' '.join(map(str, options.lengths))}"
    run = {
        "schema": SCHEMA, "command": f"python benchmarks/intervals.py {chosen}",
        "version": f"fluidb {__version__}", "seeds": options.seeds, "lengths": options.lengths, "points": points,
    }  # fmt: skip
    (options.out or RESULTS).write_text(json.dumps(run, indent=1) + "\n")
    print(tables(run))
    if options.out is None:
        write_part(PAGE, "coverage", tables(run))


if __name__ == "__main__":
    main()
