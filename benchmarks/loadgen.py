"""MLPerf LoadGen, an independent client, sends requests to the runner of ``fluidb serve-real``.

Both time every request: LoadGen from the scheduled call to the reported completion, fluidb from the arriving call to
the end of the run.  So fluidb's latency is shorter by the cost of the calls between them.

    python benchmarks/loadgen.py digits here --scenario Server --rate 60
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import mlperf_loadgen
import numpy as np
from fluidb.machine.clock import LiveClock
from fluidb.machine.network import RealNetwork
from fluidb.machine.serve import MachineResult, ServedHere, serve_traffic
from fluidb.serving import DeviceTraffic, ServedNetwork, find_policy
from fluidb.tables.latency import LatencyTable, read_latency
from fluidb.traffic import prepare
from fluidb.traffic.trace import Trace
from numpy.typing import NDArray
from tabulate import tabulate

SCENARIOS = ("Offline", "Server", "SingleStream")


@dataclass(frozen=True)
class LoadgenRun:
    """The same requests as the runner and as LoadGen timed them."""

    ours: MachineResult
    latency_s: NDArray[np.float64]  # (N,) by LoadGen, in the order of sending
    completed_s: NDArray[np.float64]  # (N,) times at which LoadGen saw the completions


class Client:
    """Bridge to LoadGen: its queries arrive on the runner's clock, and requests that return are completed."""

    def __init__(self, samples: int, count: int, clock: LiveClock) -> None:
        self.samples, self.count, self.clock = samples, count, clock
        self.rows = np.zeros(count, dtype=np.int64)
        self.ids: list[int] = []
        self.open: set[int] = set()

    def issue(self, queries: list[Any]) -> None:
        """Requests arrive now."""
        first = len(self.ids)
        self.rows[first : first + len(queries)] = [query.index for query in queries]
        self.ids += [query.id for query in queries]
        self.open.update(range(first, len(self.ids)))
        self.clock.arrive(len(queries))
        if self.clock.stop.is_set():  # the runner has stopped
            self.complete_rest()

    def complete(self, request: int) -> None:
        """Complete a request that has returned."""
        self.open.discard(request)
        complete(self.ids[request])

    def complete_rest(self) -> None:
        """Complete requests that were not served: LoadGen waits for them even if the device has failed."""
        with suppress(KeyError):  # none is left; both threads may be here at once
            while True:
                complete(self.ids[self.open.pop()])


def run_test(
    issue: Callable[[list[Any]], None], scenario: str, samples: int, count: int, rate_per_s: float, folder: Path
) -> None:
    """Let LoadGen issue its queries, and return when it has ended its test."""
    settings = mlperf_loadgen.TestSettings()
    settings.scenario = getattr(mlperf_loadgen.TestScenario, scenario)
    settings.mode = mlperf_loadgen.TestMode.PerformanceOnly
    settings.min_query_count = settings.max_query_count = count
    settings.min_duration_ms = 0
    settings.offline_expected_qps = 1  # with this, Offline has as many samples as there are queries elsewhere
    settings.server_target_qps = rate_per_s
    log = mlperf_loadgen.LogSettings()
    log.enable_trace, log.log_output.outdir, log.log_output.copy_summary_to_stdout = True, str(folder), False
    system = mlperf_loadgen.ConstructSUT(issue, lambda: None)
    library = mlperf_loadgen.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
    try:
        mlperf_loadgen.StartTestWithLogSettings(system, library, settings, log)
    finally:
        mlperf_loadgen.DestroyQSL(library)
        mlperf_loadgen.DestroySUT(system)


def complete(query: int) -> None:
    """Tell LoadGen that a query has its answer."""
    mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(query, 0, 0)])


def events_in(folder: Path) -> list[dict[str, Any]]:
    """What LoadGen noted of each query, in the order of sending; times count from when it was scheduled for."""
    lines = (folder / "mlperf_log_trace.json").read_text().splitlines()
    # the file is no JSON, but these lines are
    events = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"name":"Sample",')]
    found = {event["args"]["sample_seq"]: event for event in events if "args" in event}
    return [found[number] for number in sorted(found)]


def drive(
    network: RealNetwork,
    latency: LatencyTable,
    policy: str,
    scenario: str,
    *,
    count: int,
    rate_per_s: float = 1.0,
    slo_s: float = 1.0,
) -> LoadgenRun:
    """Let LoadGen send requests to the runner.

    Scenarios are ``Offline`` (all at once), ``Server`` (Poisson arrivals) and ``SingleStream`` (each when the one
    before is complete).
    """
    clock, last = LiveClock(count, Event()), len(latency.exits)
    client = Client(len(network), count, clock)
    trace = Trace(np.arange(count), np.zeros(count), confidences=np.zeros((count, last)))
    traffic = DeviceTraffic.of(prepare(trace, [row.rate for row in latency.exits], slo_s=slo_s))
    here = ServedHere(network, ServedNetwork(table=latency), client.rows)
    with tempfile.TemporaryDirectory() as folder:

        def send() -> None:
            clock.begun.wait()
            if not clock.stop.is_set():
                run_test(client.issue, scenario, client.samples, client.count, rate_per_s, Path(folder))

        sending = Thread(target=send)
        sending.start()
        try:
            served = serve_traffic([here], traffic, find_policy(policy), clock, returned=client.complete)
        finally:
            clock.stop.set()
            clock.begun.set()
            client.complete_rest()
            sending.join()
        sent = events_in(Path(folder))
    latency_s = np.array([event["args"]["complete_ns"] for event in sent]) / 1e9
    scheduled_s = np.array([event["ts"] for event in sent]) / 1e6
    assert [event["args"]["sample_idx"] for event in sent] == client.rows.tolist(), (
        "samples are in the order of sending"
    )
    return LoadgenRun(served, latency_s, scheduled_s + latency_s)


def main() -> None:
    """Drive the given scenarios, and print the latencies that both measured."""
    parser = argparse.ArgumentParser(description="MLPerf LoadGen sends requests to the runner of fluidb serve-real.")
    parser.add_argument("model", help="an ONNX file, or digits, which ships")
    parser.add_argument("folder", type=Path, help="a folder that `fluidb measure` wrote")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="repeatable; all if not given")
    parser.add_argument("--policy", default="fluid")
    parser.add_argument("--count", type=int, default=300, help="requests")
    parser.add_argument("--rate", type=float, default=60.0, help="requests/s of Server")
    parser.add_argument("--slo", type=float, default=0.05, help="seconds")
    given = parser.parse_args()
    network, latency, rows = RealNetwork(given.model), read_latency(given.folder), []
    for scenario in given.scenario or SCENARIOS:
        driven = drive(
            network, latency, given.policy, scenario, count=given.count, rate_per_s=given.rate, slo_s=given.slo
        )
        for name, seconds in (("LoadGen", driven.latency_s), ("fluidb", driven.ours.served.replay.latency_s)):
            figures = (seconds.mean(), *np.percentile(seconds, [50, 99], method="inverted_cdf"))
            rows.append([scenario, name, str(len(seconds)), *(f"{1e3 * value:.3f}" for value in figures)])
    heads = ["scenario", "measured by", "requests", "mean (ms)", "p50 (ms)", "p99 (ms)"]
    print(tabulate(rows, heads, disable_numparse=True))


if __name__ == "__main__":
    main()
