"""Requests served on this machine in real time, by a network that really runs (``fluidb serve-real``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import AnyPath, InputError
from ..serving.bound import least_violations
from ..serving.inputs import AnyPolicy, AnyTable, AnyThresholds, Requests, as_scheduler, as_table, as_thresholds
from ..serving.metrics import summarise
from ..serving.replay import case_of
from ..serving.requirements import Requirement, check_stated, judge
from ..serving.scheduler import Scheduler
from ..serving.serve import ServeResult
from ..tables.latency import LATENCY_FILE, LatencyTable, read_latency
from ..traffic.exits import levels
from ..traffic.samples import draw_samples
from ..traffic.traffic import Traffic
from .clock import LiveClock, VirtualClock, WallClock
from .cores import pinned
from .network import RealNetwork
from .runner import RunnerResult, TableEngine, serve_in_steps

MAX_RATE_PER_S = 20_000
"""Arrivals a second that a thread of Python can tell apart."""

REHEARSAL = 64
"""Requests that are served on a virtual clock first, so that the policy is compiled before time begins."""


@dataclass(frozen=True, slots=True)
class MachineResult:
    """The outcome of requests that were served on this machine."""

    served: ServeResult  # as of a simulation
    outcome: RunnerResult  # the replay, with the time of every run
    # answers that are not those of the network run alone, and requests that were answered more than once
    answers_wrong: int
    # how much later than the request that an idle device waited for its run began; latency counts from the arrival
    late_mean_s: float
    late_p99_s: float

    @property
    def returned(self) -> int:
        """Requests that were answered."""
        return self.served.summary.requests - self.served.summary.unfinished

    @property
    def holds(self) -> bool:
        """True if every answer is right and every requirement holds."""
        return not self.answers_wrong and all(item.holds for item in self.served.requirements)


def check_fits(network: RealNetwork, table: LatencyTable) -> None:
    """Refuse a latency table of another network, or of a device that this machine cannot be."""
    exits = [row.name for row in table.exits]
    if (table.network, exits) != (network.name, network.exits):
        raise InputError(
            f"expected the latency table of {network.name} with the exits {', '.join(network.exits)}, found that of "
            f"{table.network} with {', '.join(exits)}; measure this network with `fluidb measure`"
        )
    if table.variants > 1 or table.exits[-1].steps > 1 or table.lanes > 1:
        raise InputError("expected a latency table with one lane, one variant and no stage that repeats")


def read_measured(folder: AnyPath) -> LatencyTable:
    """The latency table that `fluidb measure` wrote."""
    if not Path(folder, LATENCY_FILE).is_file():
        raise InputError(f"{folder}: expected the folder of a measured device, found no {LATENCY_FILE} there; "
                         "make one with `fluidb measure`")  # fmt: skip
    return read_latency(folder)


def serve_traffic(
    network: RealNetwork,
    table: LatencyTable,
    traffic: Traffic,
    rows: NDArray[np.int64],
    scheduler: Scheduler,
    threshold: AnyThresholds,
    clock: LiveClock,
    *,
    returned: Callable[[int], None] = lambda _: None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineResult:
    """Serve requests on this machine, as a :class:`WallClock` or the client of a :class:`LiveClock` lets them arrive.

    With a client, the trace says only how many there are, and the client fills in ``rows`` before each arrives.
    """
    check_fits(network, table)
    trace = traffic.trace
    if trace.rate_per_s > MAX_RATE_PER_S:
        raise InputError(
            f"trace: expected at most {MAX_RATE_PER_S:,} requests/s, which is as fast as the clock, "
            f"found {trace.rate_per_s:,.0f}"
        )
    last = len(table.exits)
    threshold = network.thresholds if threshold is None else threshold
    least = np.broadcast_to(np.array(levels(threshold, last, network.measure)), last - 1)
    network.warm_up(table.b_max)
    rehearsed = traffic.first(min(len(traffic), REHEARSAL))
    virtual = VirtualClock(rehearsed.trace.arrival_s)
    serve_in_steps(case_of(table, rehearsed, scheduler), virtual, TableEngine(virtual))
    engine, case = network.engine(rows, returned), case_of(table, traffic, scheduler)
    with clock.running(), pinned(network.cores):
        outcome = serve_in_steps(case, clock, engine, levels=least, stopped=clock.stop.is_set, progress=progress)
    replay = outcome.replay
    done = np.flatnonzero(np.isfinite(replay.finish_s))
    answers = [answer for request in done.tolist() if (answer := engine.answers[request]) is not None]
    differing = network.differing(rows[done], replay.traffic.exits[done], answers)
    late_s = outcome.woke_s[outcome.woke_s > 0]
    return MachineResult(
        ServeResult(scheduler.spec, replay, summarise(replay), least_violations(replay), []), outcome,
        differing + int((engine.answered[done] != 1).sum()),
        float(late_s.mean()) if len(late_s) else 0.0,
        float(np.quantile(late_s, 0.99, method="inverted_cdf")) if len(late_s) else 0.0,
    )  # fmt: skip


def serve_real(
    network: RealNetwork,
    table: AnyTable,
    requests: Requests,
    policy: AnyPolicy,
    *,
    threshold: AnyThresholds = None,
    requirements: Sequence[Requirement] = (),
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineResult:
    """Serve the requests of a trace on this machine; each is a sample of the network, drawn with the seed."""
    latency = as_table(table)
    scheduler = as_scheduler(policy, latency)
    check_stated(requirements, mac_share=None)
    samples = network.samples()
    trace = draw_samples(requests.read(), samples, requests.seed)
    threshold = as_thresholds(threshold, latency, trace)
    traffic = requests.traffic(trace, [row.rate for row in latency.exits], threshold)
    rows = samples.drawn(len(trace), requests.seed)
    clock = WallClock(trace.arrival_s, stop or threading.Event())
    found = serve_traffic(network, latency, traffic, rows, scheduler, threshold, clock, progress=progress)
    found.served.requirements.extend(judge(item, found.served.summary) for item in requirements)
    return found
