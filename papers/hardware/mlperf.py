"""Whether an interval of one run's p99 holds the p99 of runs beside it: MLPerf's submissions, and runs of ours."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from ...dse.device.tabulate import tabulate_device
from ...models import load_network
from ...platforms import load_platform
from ...platforms.device import Device
from ...serving import find_policy, simulate
from ...serving.networks import ServedNetwork
from ...serving.one_run import OneRun, nearest_rank
from ...serving.statistics import Interval
from ...studies.saturation import saturation_rate
from ...tables.latency import LatencyTable
from ...traffic import poisson, prepare
from ..lab import Lab, row
from ..rows import PREDICTED, Claim, Item, Row
from . import MLPERF

QUANTILE, NORMAL = 0.99, 1.96
TOGETHER = 5
"""Runs of a submission."""

RIGHT = 100 * math.erf(NORMAL / 2)
"""Per cent of 95 % intervals that hold the figure of another run, which is as far from the truth as their own: the
difference of two normal variables is less than 1.96 of the standard deviation of one."""

MIN_DURATION_S = 60.0
"""The least duration of a run in MLPerf's rules of v0.7; the file says that every run has it."""

NETWORK, DEVICE, POLICY, OBJECTIVE_S = "resnet50", "rtx-2080-ti", "adaptb", 0.015
LOADS = (0.5, 0.7, 0.8, 0.9)
"""The simulated runs: MLPerf's latency bound of ResNet-50, at these shares of the saturation rate."""

REQUESTS, GROUPS = 270_336, 8
"""Requests of a simulated run, the least that MLPerf asks for; and the number of groups of five runs."""

INSIDE, APART = "p99 of other runs inside", "p99 of five runs apart"
SUMMARY, OWN, LENT = "independent latencies", "fluidb's interval", "worth as much as ours"


class SubmittedRun(NamedTuple):
    """What MLPerf's summary of a run says: how many requests it had, and three percentiles of their latencies."""

    requests: float
    percentiles: tuple[float, float, float]  # p97, p99, p99.9

    @property
    def p99(self) -> float:
        """The figure."""
        return self.percentiles[1]

    def interval(self, worth: float = 1.0) -> Interval:
        """The interval of its p99, if the run is worth this share of its requests as independent ones.

        Its ends are the latencies at the ends of an interval of ranks, as in :class:`.one_run.OneRun`.  Between printed
        percentiles the logarithm of the latency is linear in the logarithm of the share of slower requests, because a
        p99.9 may be thousands of times the p99.
        """
        half = NORMAL * math.sqrt(QUANTILE * (1 - QUANTILE) / (worth * self.requests))
        shares = -np.log([0.03, 0.01, 0.001])
        ends = -np.log([1 - QUANTILE + half, max(1 - QUANTILE - half, 0.001)])
        return Interval(*np.exp(np.interp(ends, shares, np.log(self.percentiles))).tolist())


def read_submissions() -> tuple[dict[str, list[list[SubmittedRun]]], int]:
    """The runs of each submission, by benchmark, and how many are left out because their runs had different rates."""
    with MLPERF.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    by_benchmark, left_out = defaultdict(list), 0
    for runs in (rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)):
        if len({cells["target_qps"] for cells in runs}) > 1:
            left_out += 1
        else:
            by_benchmark[runs[0]["benchmark"]].append([_summary(cells) for cells in runs])
    return dict(sorted(by_benchmark.items())), left_out


def _summary(cells: dict[str, str]) -> SubmittedRun:
    requests = max(float(cells["min_query_count"]), MIN_DURATION_S * float(cells["target_qps"]))
    return SubmittedRun(requests, (float(cells["p97_ns"]), float(cells["p99_ns"]), float(cells["p99_9_ns"])))


def inside(figures: Sequence[float], intervals: Sequence[Interval | None]) -> float:
    """Per cent of pairs of runs in which the interval of one holds the figure of the other."""
    held = [
        interval is not None and interval.low <= figure <= interval.high
        for (_, interval), (figure, _) in permutations(zip(figures, intervals, strict=True), 2)
    ]
    return 100 * float(np.mean(held))


def apart(figures: Sequence[float]) -> float:
    """How much more the largest figure is than the least, in per cent."""
    return 100 * (max(figures) / min(figures) - 1)


class Group(NamedTuple):
    """Five simulated runs: their p99, intervals of it, and the median share that a run is worth."""

    figures: list[float]
    own: list[Interval | None]
    independent: list[Interval]
    worth: float


@cache
def _table() -> LatencyTable:
    return tabulate_device(load_network(NETWORK).backbone(), load_platform(DEVICE, kind=Device))


def simulate_group(load: float, number: int, requests: int) -> Group:
    """Simulate five runs, each with arrivals of its own."""
    runs = []
    for seed in range(TOGETHER * number, TOGETHER * (number + 1)):
        trace = poisson(load * saturation_rate(ServedNetwork(table=_table())), requests, seed)
        replay = simulate(_table(), prepare(trace, [1.0], slo_s=OBJECTIVE_S, seed=seed), find_policy(POLICY))
        runs.append(OneRun(replay.latency_s, replay.fresh))
    half = NORMAL * math.sqrt(QUANTILE * (1 - QUANTILE) / requests)
    ends = [[nearest_rank(run.ordered_s, min(QUANTILE + side, 1.0)) for side in (-half, half)] for run in runs]
    return Group(
        [nearest_rank(run.ordered_s, QUANTILE) for run in runs],
        [run.quantile(QUANTILE).interval for run in runs],
        [Interval(low, high) for low, high in ends],
        float(np.median([run.independent for run in runs])) / requests,
    )


def hardware_mlperf(lab: Lab) -> Item:
    """Intervals of one run against runs beside it."""
    submissions, left_out = read_submissions()
    every = [runs for submitted in submissions.values() for runs in submitted]
    rows: list[Row] = []
    for name, submitted in {**submissions, "all": every}.items():
        of, at = f"{name}: {len(submitted)} submissions", f"MLPerf, {SUMMARY}"
        rows.append(Row(INSIDE, of, at, "%", _held(submitted), paper=RIGHT, basis=PREDICTED))
        spread = float(np.median([apart([run.p99 for run in runs]) for runs in submitted]))
        rows.append(Row(APART, of, "MLPerf", "%", spread, basis=PREDICTED))
    held, spread = rows[-2].ours, rows[-1].ours
    ours: list[float] = []
    for load in LOADS:
        groups = [simulate_group(load, number, lab.requests or REQUESTS) for number in lab.first(GROUPS)]
        of = f"load {load:g}"
        shares_by_source = {
            f"simulated, {SUMMARY}": [inside(group.figures, group.independent) for group in groups],
            f"simulated, {OWN}": [inside(group.figures, group.own) for group in groups],
            f"MLPerf, {LENT}": [_held(every, group.worth) for group in groups],
        }
        rows += [
            row(INSIDE, of, at, "%", np.array(shares), RIGHT, basis=PREDICTED)
            for at, shares in shares_by_source.items()
        ]
        ours.append(rows[-2].ours)
        rows.append(row(APART, of, "simulated", "%", np.array([apart(group.figures) for group in groups]),
                        basis=PREDICTED))  # fmt: skip
    lent = next(row.ours for row in reversed(rows) if LENT in row.at)
    claims = _claims(every, held, spread, lent, ours)
    return Item("hardware_mlperf", "One run beside the other four (MLPerf Server)", _notes(len(every), left_out), rows,
                claims=claims, picture="dots")  # fmt: skip


def _claims(
    every: Sequence[Sequence[SubmittedRun]], held: float, spread: float, lent: float, ours: Sequence[float]
) -> list[Claim]:
    """What the shares of intervals that hold another figure say: of submissions, with lent widths, and of our runs."""
    widths = [100 * (end.high - end.low) / run.p99 for runs in every for run in runs for end in [run.interval()]]
    reason = (
        f"the p99 of five runs with the same arrivals are {spread:.1f} % apart in the median, and an interval is "
        f"{np.median(widths):.1f} % wide"
    )
    wanted = f"at least {RIGHT:.1f} %"
    return [
        Claim(
            "An interval of one run holds the p99 of the others, if latencies are taken as independent",
            "MLPerf v0.7", wanted,
            f"{held:.1f} %", held >= RIGHT, reason,
        ),
        Claim(
            f"It holds them if a run is as informative as ours at {LOADS[-1]:g} of saturation", "MLPerf v0.7",
            wanted, f"{lent:.1f} %", lent >= RIGHT, reason,
        ),
        Claim(
            "fluidb's interval of one run holds the p99 of other runs of fluidb", "simulated, mean over loads", wanted,
            f"{np.mean(ours):.1f} %", bool(np.mean(ours) >= RIGHT), f"the lowest at one load is {min(ours):.1f} %",
        ),
    ]  # fmt: skip


def _notes(submissions: int, left_out: int) -> list[str]:
    """What a reader must know of the runs."""
    return [
        (
            f"These are {submissions} Server submissions of MLPerf Inference v0.7, closed division, with five runs "
            f"each. We left out {left_out} whose runs had different rates, and the submissions of dlrm-99.9, which "
            "repeat the ones of dlrm-99. All runs had the same seed of arrivals, so that only the machine makes them "
            "differ."
        ),
        (
            "An interval of 95 % misses the figure of another run more often than the truth: it should hold "
            f"{RIGHT:.1f} % of the figures of other runs (*paper*). *Apart* is the largest p99 of five runs over "
            "the smallest, minus 1, as the median over submissions."
        ),
        (
            "A summary has no latencies by request, only p97, p99 and p99.9. Between these we take the logarithm of a "
            "latency as linear in the logarithm of the share of slower requests. For *independent latencies* an "
            "interval has the ranks within 1.96 standard errors of this share of n requests, where n is the least "
            f"number of requests, or the requests of 60 s. For *{LENT}* n is the number of independent requests that "
            "are as informative as our runs at that load."
        ),
        (
            f"We simulate {NETWORK} on {DEVICE} under {POLICY} with an SLO of {1e3 * OBJECTIVE_S:g} ms: {GROUPS} times "
            f"five runs of {REQUESTS:,} requests, each with arrivals of its own. Only the arrivals make the runs "
            "differ, and fluidb's intervals hold. They tell nothing of a machine that is not the same in every run: "
            "measure several runs."
        ),
    ]


def _held(submissions: Sequence[Sequence[SubmittedRun]], worth: float = 1.0) -> float:
    """Per cent of pairs of runs of a submission in which the interval of one holds the p99 of the other."""
    shares = [inside([run.p99 for run in runs], [run.interval(worth) for run in runs]) for runs in submissions]
    return float(np.mean(shares))
