"""The search of every design in C, with NumPy and in plain Python, from the same inputs as the kernel."""

from __future__ import annotations

import ctypes
import functools
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fluidb.dse import OBJECTIVES, SearchOptions
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.layouts import LayerKind, Layouts, arrange
from fluidb.dse.npu.search import TOP, RankedDesign, rank
from fluidb.dse.npu.space import designs
from fluidb.dse.npu.tiles import Tiles, tiles_of
from fluidb.dse.npu.workload import LayerArrays, distinct
from fluidb.models import Network
from fluidb.platforms import Board
from numpy.typing import NDArray

HERE = Path(__file__).parent
FLAGS = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
# the same bits as the kernel: no fused multiply-add; but ceil is one instruction
EXACT = ["-ffp-contract=off", "-fno-trapping-math"]


class SearchProblem(NamedTuple):
    """A search problem, with the inputs of all implementations."""

    network: Network
    platform: Board
    options: SearchOptions
    tiles: Tiles

    @classmethod
    def of(cls, network: Network, platform: Board, options: SearchOptions) -> SearchProblem:
        """Every design of a board."""
        return cls(network, platform, options, designs(options.supply(network, platform)))

    @property
    def designs(self) -> int:
        """Number of designs."""
        return int(self.tiles.shape[1])

    @property
    def shapes(self) -> int:
        """Number of pairs (design, k); k = 2 and 1/2 need tiles that can be halved."""
        T_R, T_P, T_C, *_ = self.tiles // 2 > 0
        return int(self.designs + (T_R & T_C).sum() + (T_R & T_P).sum())

    @property
    def evaluations(self) -> int:
        """Tuples (T_P, T_C, k, B_R, layer, b) of the full space: every layer, every B_R = 1..b."""
        return self.shapes * len(self.network.gemms) * self.options.b_max * (self.options.b_max + 1) // 2

    @property
    def evaluated(self) -> int:
        """Evaluations without repeated layers, and with only the smallest B_R of each B_P."""
        work, layouts = self.inputs
        return self.shapes * int(np.diff(layouts.starts)[work.kinds].sum())

    @property
    def inputs(self) -> tuple[LayerArrays, Layouts]:
        """Inputs of the kernel: distinct layers, and their layouts."""
        work, _ = distinct(self.network, pooled=False, memory_layers=self.options.memory_layers)
        return work, self.options.layouts(self.platform)

    @property
    def memory_words(self) -> float:
        """Words that memory-only layers move for each sample."""
        return float(self.inputs[0].memory_words.sum())


@functools.cache
def _library() -> Any:
    """``search.c``, compiled for this machine; without gcc ``None``, and a line on stderr."""
    if shutil.which("gcc") is None:
        print("no gcc: the rows of the C reference are left out", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "search.so"
        subprocess.run(["gcc", *FLAGS, *EXACT, HERE / "search.c", "-o", built, "-lm"], check=True)
        return ctypes.CDLL(str(built))


def c_available() -> bool:
    """Tell if there is a C compiler."""
    return _library() is not None


def prepare_c(problem: SearchProblem) -> Callable[[int], NDArray[np.float64]]:
    """Bind ``search.c`` to its inputs; the result maps a number of threads to cycles, (D, B_max)."""
    work, layouts = problem.inputs
    times = np.ascontiguousarray(work.repeats.sum(axis=1))
    sizes = np.ascontiguousarray(problem.tiles[:3].T)
    inputs = [sizes, work.gemms, work.kinds, times, layouts.table, layouts.starts]
    assert all(array.flags.c_contiguous and array.dtype in (np.int64, np.float64) for array in inputs)
    space, gemms, kinds, counts, rows, starts = (ctypes.c_void_p(array.ctypes.data) for array in inputs)

    def run(threads: int) -> NDArray[np.float64]:
        cycles = np.empty((len(inputs[0]), problem.options.b_max))
        failed = _library().search(
            space, ctypes.c_int64(len(inputs[0])), gemms, kinds, counts, ctypes.c_int64(len(times)), rows, starts,
            layouts.codes, ctypes.c_double(problem.memory_words),
            ctypes.c_double(problem.platform.words_per_cycle), problem.options.b_max, threads,
            ctypes.c_void_p(cycles.ctypes.data),
        )  # fmt: skip
        if failed:
            raise MemoryError("search.c found no memory")
        return cycles

    return run


def without_bound(network: Network, platform: Board, options: SearchOptions) -> list[RankedDesign]:
    """The ranking of a search on one thread that evaluates every design."""
    tiles = designs(options.supply(network, platform))
    values = Evaluator(network, platform, options).rate(tiles, [options.objective], threads=1)[:, 0]
    best = rank(tiles, OBJECTIVES[options.objective].losses(values))[:TOP]
    return [RankedDesign.of(*row) for row in zip(tiles_of(tiles[:, best]), values[best].tolist(), strict=True)]


def in_numpy(problem: SearchProblem) -> NDArray[np.float64]:
    """Cycles, (D, B_max), with NumPy, all designs at once and equal layers once."""
    work, layouts = problem.inputs
    b_max, bandwidth = problem.options.b_max, problem.platform.words_per_cycle
    T_R, T_P, T_C = problem.tiles[:3].astype(np.float64)
    half = [np.floor(size / 2) for size in (T_R, T_P, T_C)]
    tiles = [(T_R, T_P, T_C), (half[0], 2 * T_P, half[2]), (half[0], half[1], 2 * T_C)]
    n = np.arange(1, b_max + 1)[:, None]
    cycles = np.repeat(n * problem.memory_words / bandwidth, problem.designs, axis=1)
    for (R, P, C, groups), kind, times in zip(work.gemms, work.kinds, work.repeats.sum(axis=1), strict=True):
        best = np.full_like(cycles, np.inf)
        for rows, inner, columns in tiles[: layouts.codes]:
            with np.errstate(divide="ignore"):  # an NPU that is too small for k has an infinite time
                passes_of = R * np.ceil(P / inner) * np.ceil(n * C / columns)
                weights = P * C * np.ceil(n * R / rows)
                each = R * P * np.ceil(C / columns) + R * C
            for b, B_R, B_P, passes in layouts.table[layouts.starts[kind] : layouts.starts[kind + 1]].tolist():
                waits = ((b // passes) * each + weights[B_R - 1]) / bandwidth
                np.minimum(best[b - 1], passes * np.maximum(B_R * passes_of[B_P - 1], waits), out=best[b - 1])
        cycles += times * groups * best
    return cycles.T


def in_python(problem: SearchProblem) -> NDArray[np.float64]:
    """Cycles, (D, B_max), in plain Python as the paper states it: every layer, every k, every B_R = 1..b."""
    options, bandwidth = problem.options, problem.platform.words_per_cycle
    layers = [(layer.gemm, LayerKind.of(layer)) for layer in problem.network.layers if layer.gemm]
    cycles = []
    for T_R, T_P, T_C in problem.tiles[:3].T.tolist():
        shapes = [(T_R, T_P, T_C), (T_R // 2, 2 * T_P, T_C // 2), (T_R // 2, T_P // 2, 2 * T_C)]
        for b in range(1, options.b_max + 1):
            total = b * problem.memory_words / bandwidth
            for (R, P, C, groups), kind in layers:
                best = math.inf
                for rows, inner, columns in shapes[: options.layouts(problem.platform).codes]:
                    if not (rows and inner and columns):
                        continue
                    for B_R in range(1, b + 1):
                        B_P, passes = arrange(options.batching, b, B_R, kind)
                        compute = B_R * R * math.ceil(P / inner) * math.ceil(B_P * C / columns)
                        words = b // passes * (R * P * math.ceil(C / columns) + R * C)
                        words += P * C * math.ceil(B_R * R / rows)
                        best = min(best, passes * max(compute, words / bandwidth))
                total += groups * best
            cycles.append(total)
    return np.array(cycles).reshape(problem.designs, options.b_max)
