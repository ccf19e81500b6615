"""Ten million requests through ``fluid``, and the same policy in SimPy: requests a second.

The SimPy model is written as its users write one, a process for the arrivals and
one for the server; on the requests that both serve, completion times must be
equal.  Writes ``simulator.json`` and prints a table; ``--smoke`` runs a few
requests and writes nothing.  Needs ``pip install simpy``.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from fluidb.dse import SearchOptions, search, tabulate_design, tabulate_latency
from fluidb.dse.latency import LatencyTable
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.serving import Trace, find_policy, poisson, resolve, simulate, summarise

HERE = Path(__file__).parent
SLO_S = 0.2


class Server:
    """Algorithm 1 of Fluid Batching on one NPU, as a SimPy process."""

    def __init__(self, table: LatencyTable, trace: Trace, exits: Any) -> None:
        self.env = simpy.Environment()
        self.latency = table.array().tolist()
        self.b_max, self.end = table.b_max, len(table.exits)
        self.arrival_s, self.exits = trace.arrival_s.tolist(), exits.tolist()
        self.finish_s = [0.0] * len(trace)
        self.queue: deque[int] = deque()
        self.wake = self.env.event()

    def arrivals(self) -> Generator[Any, Any, None]:
        """Put every request into the queue when it arrives."""
        for request, arrival_s in enumerate(self.arrival_s):
            yield self.env.timeout(arrival_s - self.env.now)
            self.queue.append(request)
            if not self.wake.triggered:
                self.wake.succeed()

    def stage(self, batch: list[int], stage: int) -> Generator[Any, Any, list[int]]:
        """Run one stage; who exits returns, the others remain."""
        yield self.env.timeout(self.latency[stage][stage + 1][len(batch)])
        for request in batch:
            if self.exits[request] == stage + 1:
                self.finish_s[request] = self.env.now
        return [request for request in batch if self.exits[request] != stage + 1]

    def take(self, count: int) -> list[int]:
        """The oldest waiting requests."""
        return [self.queue.popleft() for _ in range(min(count, len(self.queue)))]

    def serve(self) -> Generator[Any, Any, None]:
        """Launch, run to the end, backfill at each exit."""
        while True:
            if not self.queue:
                self.wake = self.env.event()
                yield self.wake
            batch, reached = self.take(self.b_max), 0
            while batch:
                batch = yield from self.stage(batch, reached)
                reached += 1
                while batch and self.queue and len(batch) < self.b_max:
                    count = min(len(self.queue), self.b_max - len(batch))
                    ahead = self.latency[0][reached][count] + self.latency[reached][self.end][len(batch) + count]
                    if ahead >= min(self.arrival_s[request] for request in batch) + SLO_S - self.env.now:
                        break
                    fresh = self.take(count)
                    for stage in range(reached):
                        if fresh:
                            fresh = yield from self.stage(fresh, stage)
                    batch += fresh

    def run(self) -> list[float]:
        """Serve every request; when each returned."""
        self.env.process(self.arrivals())
        self.env.process(self.serve())
        self.env.run()
        return self.finish_s


def measure(count: int, simpy_count: int) -> dict[str, float]:
    """Requests a second of both, on the paper's first cell, and the memory of the whole process."""
    network, board, options = load_network("resnet50"), load_platform("zc706"), SearchOptions()
    table = tabulate_latency(*tabulate_design(network, board, options, search(network, board, options)))
    rates = [row.rate for row in table.exits]
    fluid = find_policy("fluid")

    few = poisson(15.0, simpy_count, 1)
    exits, _ = resolve(few, rates, 1, None)
    begin = time.perf_counter()
    theirs = Server(table, few, exits).run()
    simpy_s = time.perf_counter() - begin
    ours = simulate(table, few, fluid, exits=exits, slo_s=SLO_S).finish_s
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)

    begin = time.perf_counter()
    trace = poisson(15.0, count, 1)
    exits, _ = resolve(trace, rates, 1, None)
    drawn = time.perf_counter()
    replay = simulate(table, trace, fluid, exits=exits, slo_s=SLO_S)
    replayed = time.perf_counter()
    summarise(replay, table)
    end = time.perf_counter()
    return {
        "requests": count,
        "event_loop_requests_per_s": count / (replayed - drawn),
        "whole_requests_per_s": count / (end - begin),
        "whole_s": end - begin,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "simpy_requests": simpy_count,
        "simpy_requests_per_s": simpy_count / simpy_s,
    }


def main() -> None:
    """Measure and write, or only run once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few requests, write nothing")
    smoke = parser.parse_args().smoke
    found = measure(2_000, 500) if smoke else measure(10_000_000, 50_000)
    print(f"| {'fluid':<28} | {'figure':>14} |\n|---|---:|")
    for name, value in found.items():
        print(f"| {name:<28} | {value:>14,.1f} |")
    if not smoke:
        (HERE / "simulator.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
