"""The simulator against SimPy, plain Python and the barest loop, policy by policy on one workload."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from fluidb.dse import Overlap, SearchOptions, search, tabulate_design, tabulate_latency
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.serving import POLICIES, Replay, find_policy, simulate
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import poisson, prepare
from numba import njit
from rounds import BenchmarkTable, Entrant, take_turns, timed
from servers import SERVERS, PlainClock, SimpyClock, Work, run

SLO_S = 0.2
RATE_PER_S = 15.0
CORRELATION = 0.71
"""Correlation of predictions with outcomes, for windows of similar requests."""
BARE = "the barest loop in numba"


@njit
def bare(arrival_s: Any, exit_of: Any, stage_s: Any, b_max: int, finish_s: Any) -> None:
    """Launch the waiting requests, run them to the end and note when each returns: less work than any policy does."""
    batch = np.empty(b_max, np.int64)
    head, now = 0, 0.0
    while head < arrival_s.size:
        now = max(now, arrival_s[head])
        size = 0
        while size < b_max and head < arrival_s.size and arrival_s[head] <= now:
            batch[size] = head
            size += 1
            head += 1
        for stage in range(stage_s.shape[0]):
            if size == 0:
                break
            now += stage_s[stage, size]
            kept = 0
            for i in range(size):
                if exit_of[batch[i]] == stage + 1:
                    finish_s[batch[i]] = now
                else:
                    batch[kept] = batch[i]
                    kept += 1
            size = kept


@functools.cache
def paper_table() -> LatencyTable:
    """Latency table of the first design in the Fluid Batching paper."""
    network, board, options = load_network("resnet50"), load_platform("zc706"), SearchOptions(overlap=Overlap.PAPER)
    return tabulate_latency(*tabulate_design(network, board, options, search(network, board, options)))


class Workload:
    """Requests with their exits, and one method for each way to serve them."""

    def __init__(self, count: int) -> None:
        self.table, self.count = paper_table(), count
        rates = [row.rate for row in self.table.exits]
        self.traffic = prepare(poisson(RATE_PER_S, count, 1), rates, slo_s=SLO_S, seed=1, predict_depth=CORRELATION)
        self.stage_s, self.finish_s = self.table.segments(by_layer=False).time_s[0], np.empty(count)

    def barest(self) -> None:
        """Serve by the barest loop."""
        bare(self.traffic.trace.arrival_s, self.traffic.exits, self.stage_s, self.table.b_max, self.finish_s)

    def simulated(self, policy: str) -> Callable[[], Replay]:
        """Serve by fluidb."""
        return functools.partial(simulate, self.table, self.traffic, find_policy(policy))

    def served(self, policy: str, clock: type[SimpyClock | PlainClock]) -> Callable[[], list[float]]:
        """Serve by SimPy, or in plain Python."""
        return functools.partial(run, policy, clock, Work.of(self.table, self.traffic.trace, self.traffic.exits, SLO_S))


def measure(rounds: int, count: int, few: int) -> BenchmarkTable:
    """Time of every policy on the first cell of Fluid Batching's Table II; Python serves ``few`` requests."""
    many, shared = Workload(count), Workload(few)
    assert set(SERVERS) == set(POLICIES)
    many.barest()  # compiles it
    entrants = [Entrant(BARE, timed(many.barest), None, count)]
    for policy in POLICIES:
        ours, plain, theirs = (
            shared.simulated(policy),
            shared.served(policy, PlainClock),
            shared.served(policy, SimpyClock),
        )
        np.testing.assert_array_equal(ours().finish_s, plain())
        # SimPy is told delays, not times: an arrival is now + (arrival - now), rounded twice
        np.testing.assert_allclose(ours().finish_s, theirs(), rtol=0, atol=1e-9)
        same = f"{policy}, {few:,} requests"
        entrants += [
            Entrant(policy, timed(many.simulated(policy)), BARE, count, ours=True),
            Entrant(same, timed(ours), None, few),
            Entrant(f"{same}, plain Python", timed(plain), same, few),
            Entrant(f"{same}, SimPy", timed(theirs), same, few),
        ]
    for policy in ("batchcond", "fluid"):
        window = timed(many.simulated(f"{policy}:similar=depth,window=512"))
        entrants.append(Entrant(f"{policy}, similar in a window of 512", window, BARE, count, ours=True))
    return BenchmarkTable(
        "simulator",
        "Simulator",
        f"{count:,} Poisson requests at {RATE_PER_S:g}/s on the paper's design for ResNet-50 on ZC706, SLO "
        f"{1e3 * SLO_S:g} ms, one core; as many fewer as stated where others serve the same. Plain Python returns "
        "every request at the same time to the last bit, SimPy to a nanosecond. The barest loop launches what waits "
        "and runs it to the end: no policy, nothing kept but when each request returned.",
        take_turns(entrants, rounds),
        "requests",
    )
