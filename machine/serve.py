"""Requests served on this machine in real time, by a network that really runs (``fluidb serve-real``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import AnyPath, InputError
from ..serving.bound import least_violations
from ..serving.inputs import AnyPolicy, AnyTable, AnyThresholds, Requests, as_scheduler, as_table, as_thresholds
from ..serving.metrics import summarise
from ..serving.networks import ServedNetwork, prepare_networks
from ..serving.networks_replay import NetworksCase, NetworksReplay, networks_case_of
from ..serving.replay import Case, case_of
from ..serving.requirements import Requirement, check_stated, judge
from ..serving.scheduler import Scheduler, losses_of
from ..serving.serve import NetworksResult, ServeResult, networks_result
from ..tables.latency import LATENCY_FILE, LatencyTable, read_latency
from ..traffic.exits import levels
from ..traffic.samples import draw_samples
from ..traffic.traffic import Traffic
from .clock import LiveClock, VirtualClock, WallClock
from .cores import pinned
from .maps import NetworksEngine
from .network import RealNetwork
from .runner import RunnerResult, TableEngine, serve_in_steps

MAX_RATE_PER_S = 20_000
"""Arrivals a second that a thread of Python can tell apart."""

REHEARSAL = 64
"""Requests that are served on a virtual clock first, so that the policy is compiled before time begins."""


@dataclass(frozen=True, slots=True)
class MachineResult:
    """The outcome of requests that were served on this machine."""

    served: ServeResult | NetworksResult  # as of a simulation
    outcome: RunnerResult  # the replay, with the time of every run
    # answers that are not those of the network run alone, and requests that were answered more than once
    answers_wrong: int
    # how much later than the request that an idle device waited for its run began; latency counts from the arrival
    late_mean_s: float
    late_p99_s: float

    @classmethod
    def of(cls, served: ServeResult | NetworksResult, outcome: RunnerResult, wrong: int) -> MachineResult:
        """The outcome of a run, with how late the device was."""
        late_s = outcome.woke_s[outcome.woke_s > 0]
        if not len(late_s):
            return cls(served, outcome, wrong, 0.0, 0.0)
        return cls(
            served, outcome, wrong, float(late_s.mean()), float(np.quantile(late_s, 0.99, method="inverted_cdf"))
        )

    @property
    def returned(self) -> int:
        """Requests that were answered."""
        return int(np.isfinite(self.served.replay.finish_s).sum())

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


class ServedHere(NamedTuple):
    """A network as it is served on this machine."""

    network: RealNetwork
    table: LatencyTable
    rows: NDArray[np.int64]  # its sample that each request is
    threshold: AnyThresholds  # at which samples leave; else that of the network


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

    With such a client, the trace says only how many there are, and the client fills in ``rows`` before each arrives.
    """

    def case(count: int) -> Case:
        return case_of(table, traffic.first(count), scheduler)

    outcome, wrong = _run(
        [ServedHere(network, table, rows, threshold)], np.zeros(len(traffic), np.int64), traffic, case, clock, returned,
        progress,
    )  # fmt: skip
    replay = outcome.alone
    unavoidable = None if traffic.clients else least_violations(replay)
    return MachineResult.of(ServeResult(scheduler.spec, replay, summarise(replay), unavoidable, []), outcome, wrong)


def _run(
    served: Sequence[ServedHere],
    network: NDArray[np.int64],
    traffic: Traffic,
    case: Callable[[int], Case | NetworksCase],
    clock: LiveClock,
    returned: Callable[[int], None],
    progress: Callable[[int, int], None] | None,
) -> tuple[RunnerResult, int]:
    """The outcome, and the number of wrong answers; ``case`` makes that of the first requests."""
    rate_per_s = 0.0 if traffic.clients else traffic.trace.rate_per_s
    if rate_per_s > MAX_RATE_PER_S:
        raise InputError(
            f"trace: expected at most {MAX_RATE_PER_S:,} requests/s, which is as fast as the clock, "
            f"found {rate_per_s:,.0f}"
        )
    levels_of = []
    for item in served:
        last, threshold = len(item.table.exits), item.network.thresholds if item.threshold is None else item.threshold
        levels_of.append(np.broadcast_to(np.array(levels(threshold, last, item.network.measure)), last - 1))
        item.network.warm_up(item.table.b_max)
    each = max(int((network == number).argmax()) for number in range(len(served))) + 1  # begins with one of each
    rehearsed = min(len(network), max(REHEARSAL, each))
    virtual = VirtualClock(traffic.trace.arrival_s[:rehearsed])
    serve_in_steps(case(rehearsed), virtual, TableEngine(virtual))
    engines, whole = [item.network.engine(item.rows, returned) for item in served], case(len(network))
    engine = engines[0] if len(engines) == 1 else NetworksEngine(engines, network)
    with clock.running(), pinned(served[0].network.cores):
        outcome = serve_in_steps(whole, clock, engine, levels=levels_of, stopped=clock.stop.is_set, progress=progress)
    replay, wrong = outcome.replay, 0
    for number, (item, own) in enumerate(zip(served, engines, strict=True)):
        done = np.flatnonzero(np.isfinite(replay.finish_s) & (network[: len(replay.finish_s)] == number))
        exits = replay.traffic.exits[done]
        answers = [
            own.answers[request][exit_ - 1] for request, exit_ in zip(done.tolist(), exits.tolist(), strict=True)
        ]
        wrong += item.network.differing(item.rows[done], exits, answers) + int((own.answered[done] != 1).sum())
    return outcome, wrong


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
    """Serve the requests of a trace, or of clients, on this machine; each is a sample of the network."""
    latency = as_table(table)
    check_fits(network, latency)
    scheduler = as_scheduler(policy, latency)
    check_stated(requirements, mac_share=None, energy=None, **losses_of(scheduler))
    samples = network.samples()
    trace = draw_samples(requests.read(), samples, requests.seed)
    threshold = as_thresholds(threshold, latency, trace)
    traffic = requests.traffic(trace, [row.rate for row in latency.exits], threshold)
    rows = samples.drawn(len(trace), requests.seed)
    clock = WallClock(traffic.trace.arrival_s, stop or threading.Event())
    found = serve_traffic(network, latency, traffic, rows, scheduler, threshold, clock, progress=progress)
    found.served.requirements.extend(judge(item, found.served.summary) for item in requirements)
    return found


def serve_real_networks(
    models: Sequence[RealNetwork],
    networks: Sequence[ServedNetwork],
    requests: Requests,
    policy: AnyPolicy,
    *,
    requirements: Sequence[Requirement] = (),
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineResult:
    """The same with several networks on this machine, whose models stand in their order."""
    if len(models) != len(networks):
        raise InputError(
            f"model: expected one for each of the {len(networks)} networks, with commas between, found {len(models)}"
        )
    scheduler, tables = as_scheduler(policy), [as_table(item.table) for item in networks]
    limits = [item.limit for item in networks if item.limit is not None]
    check_stated(requirements, mac_share=None, energy=None, **losses_of(scheduler, *limits))
    for model, item, latency in zip(models, networks, tables, strict=True):
        if item.samples is not None:
            raise InputError(f'network "{item.name}": samples: expected none, as its model answers; leave them out')
        try:
            check_fits(model, latency)
        except InputError as error:
            raise InputError([f'network "{item.name}": {fault}' for fault in error.faults]) from None
    drawn = [replace(item, samples=model.samples()) for model, item in zip(models, networks, strict=True)]
    traffic = prepare_networks(drawn, requests, requests.read())
    clock, served = WallClock(traffic.whole.trace.arrival_s, stop or threading.Event()), []
    for number, (model, item, latency) in enumerate(zip(models, drawn, tables, strict=True)):
        here, rows = traffic.network == number, np.zeros(len(traffic.network), dtype=np.int64)
        rows[here] = model.samples().drawn(int(here.sum()), traffic.seeds[number])
        served.append(
            ServedHere(model, latency, rows, as_thresholds(item.threshold, latency, traffic.parts[number].trace))
        )

    def case(count: int) -> NetworksCase:
        return networks_case_of(networks, traffic.first(count), scheduler)

    outcome, wrong = _run(served, traffic.network, traffic.whole, case, clock, lambda _: None, progress)
    replay = outcome.replay
    assert isinstance(replay, NetworksReplay)
    return MachineResult.of(networks_result(scheduler.spec, replay, requirements), outcome, wrong)
