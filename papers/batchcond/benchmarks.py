"""The five networks of the BatchCond paper on modelled hardware, all inputs waiting from the beginning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ...dse.device.tabulate import tabulate_device
from ...formats.array_types import Floats
from ...models import load_network
from ...platforms import load_platform
from ...platforms.by_stage import StagedDevice
from ...serving import find_policy, simulate, summarise
from ...serving.outcome import Replay
from ...tables.latency import LatencyTable
from ...traffic import Traffic, offline, prepare
from ...traffic.additions import add_columns, parse_columns
from ..lab import Lab

SEEDS = 8
OBJECTIVE_S = 1e6
"""Requests have no deadline; a latency objective must be stated, and this one is never missed."""

MOST = 16.0
"""Largest factor of least times, for reduced runs that cannot reach their target."""

CLOSE = 1e-3
"""Relative difference from its target below which a gain counts as found."""

SENTENCES = "lognormal:mean=39,sd=19,low=6,high=256"
"""Lengths in MNLI, in tokens."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A row of the paper's tables."""

    name: str  # as printed
    network: str
    device: str
    requests: int  # samples of the data set
    similar: str  # inputs of a batch are alike in "depth" or "width"
    reorganise: str  # batches are reorganised by "depth", "width" or "both"
    predictor: str = "0"  # time of a prediction
    widths: str | None = None  # a distribution (fluidb.traffic.widths), as are the steps
    steps: str | None = None
    # correlation of predictions; transformers have one only to compare batches alike in depth and in width
    predict_depth: float | None = None
    predict_width: float | None = None  # a length is known and needs none

    @property
    def batch(self) -> int:
        """Its batch size."""
        return table(self.name).b_max


CNN = Benchmark(
    "early-exit CNN", "ee_resnet34", "rtx-2080-ti-ee-resnet34", 10_000, "depth", "depth", "4.5us", predict_depth=0.71
)
SLIMMABLE = Benchmark(
    "slimmable CNN", "ds_mobilenet", "rtx-2080-ti-ds-mobilenet", 10_000, "width", "width", "5us",
    widths="shares:153=0.07,255=0.53,355=0.16,474=0.04,565=0.20", predict_width=0.42,
)  # fmt: skip
ENCODER = Benchmark("transformer encoder", "bert_base", "rtx-2080-ti-bert", 9_815, "width", "width", widths=SENTENCES)
EARLY_EXIT = Benchmark(
    "early-exit transformer", "ee_bert", "rtx-2080-ti-ee-bert", 9_815, "width", "both", widths=SENTENCES,
    predict_depth=0.71,
)  # fmt: skip
SEQUENCES = Benchmark(
    "sequence to sequence", "transformer_seq2seq", "rtx-2080-ti-seq2seq", 1_997, "width", "depth",
    widths="lognormal:mean=33.3,sd=9.9,high=100", steps="ratio=1.08,relative=0.205,absolute=1.5,high=103",
    predict_depth=0.71,
)  # fmt: skip
BENCHMARKS = (CNN, SLIMMABLE, ENCODER, EARLY_EXIT, SEQUENCES)
NAMES = {benchmark.name: benchmark for benchmark in BENCHMARKS}


class BatchingMethod(NamedTuple):
    """A way to batch inputs."""

    similar: bool  # SimBatch
    reorganise: bool  # adaptive batch reorganisation (ABR)
    batch: int | None = None  # if not the benchmark's
    window: int | None = None  # inputs that are sorted together; all if not given
    by: str | None = None  # property in which inputs are alike, if not the benchmark's

    def spec(self, benchmark: Benchmark, count: int) -> str:
        """The policy, as a user writes it."""
        size = min(self.batch or benchmark.batch, benchmark.batch)
        words = {
            "window": max(self.window or count, size),
            "similar": (self.by or benchmark.similar) if self.similar else "off",
            "reorganise": benchmark.reorganise if self.reorganise else "off",
            "patience": 0,
            "predictor": benchmark.predictor if self.similar else "0",
            "b_max": size,
        }
        return f"batchcond:{','.join(f'{key}={value}' for key, value in words.items())}"


ALONE, PADDED = (
    BatchingMethod(similar=False, reorganise=False, batch=1),
    BatchingMethod(similar=False, reorganise=False),
)
SIMILAR, REORGANISED = BatchingMethod(similar=True, reorganise=False), BatchingMethod(similar=False, reorganise=True)
BOTH = BatchingMethod(similar=True, reorganise=True)


@lru_cache(maxsize=8)  # a table with widths takes tens of megabytes
def table(name: str, floors: float = 1.0) -> LatencyTable:
    """Latency table of a benchmark, with all least times of the device multiplied by a factor."""
    benchmark = NAMES[name]
    device = load_platform(benchmark.device, kind=StagedDevice)
    keys = ("floor_s", "check_s")
    groups = [group.model_copy(update={key: floors * getattr(group, key) for key in keys}) for group in device.groups]
    return tabulate_device(load_network(benchmark.network), device.model_copy(update={"groups": groups}))


def count_of(benchmark: Benchmark, lab: Lab) -> int:
    """Inputs of a run."""
    return min(lab.requests or benchmark.requests, benchmark.requests)


@cache
def traffic(name: str, count: int, seed: int) -> Traffic:
    """Inputs of a benchmark, all waiting, with their predictions."""
    benchmark = NAMES[name]
    columns = parse_columns(width=benchmark.widths, steps=benchmark.steps, predict_width=benchmark.predict_width)
    rates = [row.rate for row in table(name).exits]
    return prepare(
        add_columns(offline(count), seed, columns), rates, slo_s=OBJECTIVE_S, seed=seed,
        predict_depth=benchmark.predict_depth,
    )  # fmt: skip


def replayed(
    benchmark: Benchmark, way: BatchingMethod, lab: Lab, seed: int, floors: float = 1.0, policy: str = ""
) -> Replay:
    """A run, under the way's policy if no other is given."""
    count = count_of(benchmark, lab)
    scheduler = find_policy(policy or way.spec(benchmark, count))
    return simulate(table(benchmark.name, floors), traffic(benchmark.name, count, seed), scheduler)


def makespans(benchmark: Benchmark, way: BatchingMethod, lab: Lab, floors: float = 1.0, policy: str = "") -> Floats:
    """Time until all inputs have returned, by seed."""
    return np.array([_makespan(benchmark, way, lab, seed, floors, policy) for seed in lab.first(SEEDS)])


@cache
def _makespan(benchmark: Benchmark, way: BatchingMethod, lab: Lab, seed: int, floors: float, policy: str) -> float:
    return replayed(benchmark, way, lab, seed, floors, policy).end_s


def gain(benchmark: Benchmark, way: BatchingMethod, over: BatchingMethod, lab: Lab, floors: float = 1.0) -> Floats:
    """Ratio of the throughputs of two ways, by seed."""
    return makespans(benchmark, over, lab, floors) / makespans(benchmark, way, lab, floors)


def variances(benchmark: Benchmark, way: BatchingMethod, lab: Lab) -> Floats:
    """Mean variance within batches of what makes inputs alike, by seed."""
    figures = [summarise(replayed(benchmark, way, lab, seed)) for seed in lab.first(SEEDS)]
    return np.array([getattr(summary, f"{benchmark.similar}_variance") for summary in figures])


def geometric(values: list[Floats]) -> Floats:
    """Geometric mean over benchmarks, by seed."""
    return np.asarray(np.exp(np.mean(np.log(values), axis=0)))


def least_times(benchmark: Benchmark, target: float, lab: Lab) -> float:
    """The factor of the device's least times at which the gain over batch size 1 is a target, for the first seed."""
    first, floors = Lab(requests=lab.requests, seeds=1), 1.0
    for _ in range(10):  # the gain grows nearly as the factor does, so that a few steps are enough
        short = target / float(gain(benchmark, BOTH, ALONE, first, floors)[0])
        if abs(short - 1) < CLOSE:
            break
        floors = min(MOST, max(1 / MOST, floors * short))
    return floors
