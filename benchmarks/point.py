"""One point of the scale tables, in a process of its own: times of one round and peak memory, as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fluidb.dse import Objective, Overlap, SearchOptions, search
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.models import Exit, Gemm, Layer, Network, Shape, load_network
from fluidb.platforms import Board, load_platform
from fluidb.serving import find_policy, simulate, summarise
from fluidb.traffic import poisson, prepare
from simulator import RATE_PER_S, SLO_S, paper_table
from yardsticks import SearchProblem, c_available, prepare_c

THREADS = 2


def seconds(function: Callable[[], object]) -> float:
    """Wall time of a call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def peak_mb() -> float:
    """Peak memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss starts at the peak of the parent process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def board_of(dsps: int) -> Board:
    """The largest board of the catalogue, with fewer DSPs."""
    return load_platform("u250").model_copy(update={"dsps": dsps})


def random_network(layers: int) -> Network:
    """A network whose layers all differ and have usual sizes."""
    draw = np.random.default_rng(layers)
    products: dict[Gemm, None] = {}
    while len(products) < layers:
        R, P, C = (int(2 ** draw.uniform(low, high)) for low, high in ((0, 14), (5, 13), (3, 12)))
        products[Gemm(R, P, C)] = None
    rows = [Layer(name=f"layer{i}", stage=1, gemm=gemm, shape=Shape(1, 1, 1)) for i, gemm in enumerate(products)]
    return Network(name="random", title="Random layers", exits=[Exit(name=rows[-1].name, rate=1.0)], layers=rows)


def search_point(network: Network, board: Board, b_max: int) -> dict[str, float | None]:
    """Times of all designs of a board, by the kernel and by C, and of the whole search."""
    options = SearchOptions(b_max=b_max, overlap=Overlap.PAPER)
    problem, evaluator = SearchProblem.of(network, board, options), Evaluator(network, board, options)
    evaluator.cost(problem.tiles[:, :1], traffic=False)  # loads the kernel
    search(load_network("resnet50"), board_of(220), SearchOptions(overlap=Overlap.PAPER))
    times: dict[str, float | None] = {
        "every design": seconds(lambda: evaluator.rate(problem.tiles, [Objective.GOP_S], threads=THREADS)),
        "search": seconds(lambda: search(network, board, options, threads=THREADS)),
        "peak_mb": peak_mb(),
        "evaluations": float(problem.evaluations),
        "C": None,
    }
    if c_available():
        prepare_c(problem._replace(tiles=problem.tiles[:, :1]))(THREADS)  # starts the threads
        in_c = prepare_c(problem)
        times["C"] = seconds(lambda: in_c(THREADS))
    return times


def requests_point(count: int) -> dict[str, float | None]:
    """Time to draw a trace with exits, replay it under ``fluid`` and summarise it."""
    table, fluid = paper_table(), find_policy("fluid")
    rates = [row.rate for row in table.exits]

    def whole(requests: int) -> None:
        traffic = prepare(poisson(RATE_PER_S, requests, 1), rates, slo_s=SLO_S, seed=1)
        summarise(simulate(table, traffic, fluid))

    whole(100)  # loads the event loop
    return {"whole": seconds(lambda: whole(count)), "peak_mb": peak_mb()}


def measure(axis: str, size: int) -> dict[str, float | None]:
    """Measure a point of an axis."""
    resnet = load_network("resnet50")
    if axis == "dsps":
        return search_point(resnet, board_of(size), 8)
    if axis == "largest":
        return search_point(resnet, board_of(size), 64)
    if axis == "b_max":
        return search_point(resnet, load_platform("zc706"), size)
    if axis == "layers":
        return search_point(random_network(size), load_platform("zc706"), 8)
    return requests_point(size)


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
