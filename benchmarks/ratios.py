"""A few ratios of times within one run, against limits: ``make ratios``, for whoever changes a kernel, and for CI.

An idle machine keeps the limits.  A ratio fails only beyond :data:`MARGIN` times its limit, because a few short rounds
beside other programs tell no less.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from functools import partial

from commands import HELLO, HELP, NUMBA, SERVE, prepared
from fluidb.dse import Overlap, SearchOptions, search
from fluidb.models import load_network
from point import board_of
from rounds import BenchmarkTable, Entrant, take_turns, timed
from servers import SimpyClock
from simulator import BARE, Workload
from yardsticks import without_bound

ROUNDS = 3
MARGIN = 2

COUNT, FEW = 1_000_000, 10_000
"""Requests of the loops, and of the one that SimPy serves too."""

FEWER = f"fluid, {FEW:,} requests"

LIMITS = {
    "serial": 6.0,
    "fluid": 8.0,
    "pame": 6.0,
    FEWER: 1 / 30,
    "search, 220 DSPs": 2 / 3,  # all designs take 4 ms, so what a search makes before it weighs most
    "search, 12,288 DSPs": 1 / 3,
    HELP: 0.5,
    SERVE: 2.0,
}
"""Most of the time of its reference that each may take."""


def loops() -> Iterator[Entrant]:
    """The event loop beside the barest loop, and beside SimPy."""
    many, shared = Workload(COUNT), Workload(FEW)
    many.barest()  # compiles it
    yield Entrant(BARE, timed(many.barest))
    for policy in ("serial", "fluid", "pame"):
        many.simulated(policy)()
        yield Entrant(policy, timed(many.simulated(policy)), BARE)
    yield Entrant("SimPy", timed(shared.served("fluid", SimpyClock)))
    yield Entrant(FEWER, timed(shared.simulated("fluid")), "SimPy")


def searches() -> Iterator[Entrant]:
    """The search by bound beside one of every design, on a small board and on the largest."""
    network, options = load_network("resnet50"), SearchOptions(overlap=Overlap.PAPER)
    for dsps in (220, 12_288):
        board, name, every = board_of(dsps), f"search, {dsps:,} DSPs", f"every design, {dsps:,} DSPs"
        yield Entrant(every, timed(partial(without_bound, network, board, options)))
        yield Entrant(name, timed(partial(search, network, board, options, threads=1)), every)


def main() -> int:
    """Print the ratios; 1 if one is far beyond its limit."""
    with prepared() as commands:
        entrants = [*loops(), *searches(), *(commands[name] for name in (HELLO, HELP, NUMBA, SERVE))]
        table = BenchmarkTable("ratios", "Ratios", "", take_turns(entrants, ROUNDS))
    failed = 0
    for name, limit in LIMITS.items():
        row = table.row(name)
        median = statistics.median(table.ratios(row))
        fails = median > MARGIN * limit
        failed += fails
        print(f"{name:<33}  {median:6.3f} x {row.against:<26}  limit {limit:.3f}  {'FAILS' if fails else ''}".rstrip())
    if failed:
        print(f"{failed} of {len(LIMITS)} beyond {MARGIN} times their limits", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
