"""The search kernel against C, NumPy and plain Python."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from fluidb.dse import Objective, Overlap, SearchOptions, SearchResult, search
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.models import load_network
from fluidb.platforms import load_platform
from rounds import HERE, BenchmarkRow, BenchmarkTable, Entrant, Sample, process, take_turns, timed
from yardsticks import SearchProblem, c_available, in_numpy, in_python, prepare_c, without_bound

from tables import quantity

SLICE = 12
"""Number of designs, evenly spread, that plain Python evaluates."""

BOARDS: Sequence[tuple[str, float | None]] = [
    ("pynq-z1", None), ("zc706", None), ("zc706", 0.1), ("zcu102", None), ("u250", None)
]  # fmt: skip
"""Boards of the search by bound, with another bandwidth in GB/s than their own."""

NETWORKS = ("resnet50", "mobilenet_v2")
SEARCHED = (Objective.GOP_S, Objective.LATENCY, Objective.ENERGY)

COLD = [sys.executable, str(HERE / "cold.py")]


def measure(rounds: int, dsps: int = 900) -> BenchmarkTable:
    """ResNet-50 on ZC706, or on a part of it."""
    network, options = load_network("resnet50"), SearchOptions(overlap=Overlap.PAPER)
    board = load_platform("zc706").model_copy(update={"dsps": dsps})
    problem = SearchProblem.of(network, board, options)
    few = problem._replace(tiles=np.ascontiguousarray(problem.tiles[:, :: -(-problem.designs // SLICE)]))
    evaluator = Evaluator(network, board, options)

    result = search(network, board, options)  # compiles what is not compiled yet
    ours = evaluator.cost(problem.tiles, traffic=False).cycles
    np.testing.assert_array_equal(ours, in_numpy(problem))
    np.testing.assert_allclose(evaluator.cost(few.tiles, traffic=False).cycles, in_python(few), rtol=1e-12)

    def row(name: str, function: Callable[[], object], against: str | None, of: SearchProblem = problem) -> Entrant:
        return Entrant(name, timed(function), against, of.evaluations, ours=name.startswith("fluidb"))

    c_rows = []
    if c_available():
        in_c = prepare_c(problem)
        for threads in (1, 2):
            np.testing.assert_array_equal(ours, in_c(threads))  # to the last bit
        c_rows = [
            row("C, 1 thread", lambda: in_c(1), None),
            row("C, 2 threads", lambda: in_c(2), None),
        ]
    one, two = (row.name for row in c_rows) if c_rows else (None, None)
    rows = take_turns(
        [
            *c_rows,
            row("fluidb, 1 thread", lambda: evaluator.cost(problem.tiles, traffic=False), one),
            row("fluidb, 2 threads", lambda: evaluator.rate(problem.tiles, [Objective.GOP_S], threads=2), two),
            row("NumPy", lambda: in_numpy(problem), "fluidb, 1 thread"),
            row("plain Python, as it stands on paper", lambda: in_python(few), "fluidb, 1 thread", few),
            row("fluidb, the whole search", lambda: search(network, board, options, threads=2), two),
        ],
        rounds,
    )
    rows = [_scaled(row, problem) for row in rows]
    return BenchmarkTable(
        "search",
        "Search kernel",
        f"Every design of {network.title} on {board.dsps:,} DSPs of {board.title}: {problem.designs:,} designs, "
        f"{problem.evaluations:,} evaluations (T_P, T_C, k, B_R, layer, b), each counted in every row, however "
        "the work is arranged. All but plain Python take equal layers once and, of the B_R with the same B_P, the "
        f"smallest: {problem.evaluated:,} are left. C, NumPy and fluidb agree to the last bit; plain Python runs "
        f"on {few.designs} designs and is scaled. The whole search ranks designs too.",
        rows,
        "evaluations",
        [_effective(rows, problem, result), *([] if c_rows else ["No gcc: no C reference."])],
    )


def measure_bound(
    rounds: int, boards: Sequence[tuple[str, float | None]] = BOARDS, networks: Sequence[str] = NETWORKS
) -> BenchmarkTable:
    """The search by bound beside one that evaluates every design."""
    entrants = []
    for network, (name, gb_s), objective in product(map(load_network, networks), boards, SEARCHED):
        board, options = load_platform(name, gb_s), SearchOptions(objective=objective, overlap=Overlap.PAPER)
        by_bound = partial(search, network, board, options, threads=1)
        every = partial(without_bound, network, board, options)
        assert by_bound().ranking == every()
        where = f"{network.name}, {board.dsps:,} DSPs{f', {gb_s} GB/s' if gb_s else ''}, {objective}"
        reference = Entrant(f"every design: {where}", timed(every))
        entrants += [reference, Entrant(where, timed(by_bound), reference.name, ours=True)]
    rows = take_turns(entrants, rounds)
    return BenchmarkTable(
        "bound",
        "Search by bound",
        "The whole search, on one thread, for objectives of `dse`, beside one that evaluates and ranks every design. "
        f"Boards: {', '.join(dict(boards))}; one of them once more with scarce bandwidth.",
        [replace(row, shown=row.ours) for row in rows],
    )


BUILT = [("resnet50", "zc706"), ("resnet50", "zcu104"), ("inception_v3", "zcu104"), ("mobilenet_v2", "zcu104")]


def measure_built(rounds: int, problems: Sequence[tuple[str, str]] = BUILT) -> BenchmarkTable:
    """The search by the time as built, which runs layers tile by tile, on one thread and on two."""
    entrants = []
    for network, board in problems:
        asked = load_network(network), load_platform(board)
        one, two = (partial(search, *asked, threads=threads) for threads in (1, 2))
        assert one() == two()
        reference = Entrant(f"{network} on {board}, 1 thread", timed(one), ours=True)
        entrants += [reference, Entrant(f"{network} on {board}, 2 threads", timed(two), reference.name, ours=True)]
    about = "The whole search by the time as built, the default of `dse`. The tables above are with the paper's words."
    return BenchmarkTable("built", "Search as built", about, take_turns(entrants, rounds))


def measure_cold(rounds: int) -> BenchmarkTable:
    """Time of a process that compiles the search kernel, beside one that finds it in the cache."""

    def cold() -> Sample:
        with tempfile.TemporaryDirectory() as cache:
            return process(COLD, {"NUMBA_CACHE_DIR": cache})

    def warm() -> Sample:
        return process(COLD)

    warm()
    rows = [Entrant("compiled before", warm), Entrant("compiles it", cold, "compiled before", ours=True)]
    about = "A Python process that evaluates one design, with and without a compiled kernel in numba's cache."
    return BenchmarkTable("cold", "Cold compilation of the search kernel", about, take_turns(rows, rounds))


def _scaled(row: BenchmarkRow, problem: SearchProblem) -> BenchmarkRow:
    """Scale the time of a row from the designs that it evaluated to the whole space."""
    factor = problem.evaluations / row.work
    return replace(row, seconds=[factor * seconds for seconds in row.seconds], work=problem.evaluations)


def _effective(rows: list[BenchmarkRow], problem: SearchProblem, result: SearchResult) -> str:
    row = next(row for row in rows if row.name == "fluidb, 2 threads")
    return (
        f"Counting only what is left without equal layers and needless B_R, fluidb makes "
        f"{quantity(problem.evaluated / row.median_s, '')} evaluations/s on 2 threads. The whole search evaluates "
        f"{result.designs_evaluated:,} designs; a bound rules the other {result.designs_ruled_out:,} out."
    )
