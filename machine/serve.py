"""Requests served on this machine in real time, by a network that really runs (``fluidb serve-real``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats, Ints
from ..serving.case import case_of
from ..serving.device_traffic import DeviceTraffic, prepare_requests
from ..serving.inputs import AnyPolicy, AnyThresholds, Requests, as_thresholds
from ..serving.networks import AnyServed, ServedNetwork, as_served, scheduler_on
from ..serving.requirements import Requirement, check_stated
from ..serving.scheduler import Scheduler, losses_of
from ..serving.serve import ServeResult
from ..tables.latency import LatencyTable
from ..traffic.exits import levels
from .clock import LiveClock, VirtualClock, WallClock
from .cores import pinned
from .maps import DeviceRunner, MapRunner
from .network import RealNetwork
from .runner import RunnerResult, TableRunner, serve_in_steps

MAX_RATE_PER_S = 20_000
"""Arrivals a second that a thread of Python can tell apart."""

REHEARSAL = 64
"""Requests that are served on a virtual clock first, so that the policy is compiled before time begins."""


@dataclass(frozen=True, slots=True)
class MachineResult:
    """The outcome of requests that were served on this machine."""

    served: ServeResult  # as of a simulation
    outcome: RunnerResult  # the replay, with the time of every run
    # answers that the network run alone does not give, and requests that were answered more than once
    answers_wrong: int
    # how much later than the request that an idle device waited for its run began; latency counts from the arrival
    late_mean_s: float
    late_p99_s: float

    @classmethod
    def of(cls, served: ServeResult, outcome: RunnerResult, wrong: int) -> MachineResult:
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
        return not self.answers_wrong and all(verdict.holds for verdict in self.served.requirements)


def check_fits(network: RealNetwork, table: LatencyTable) -> None:
    """Refuse a latency table of another network, or of a device that this machine cannot be."""
    exits = [row.name for row in table.exits]
    if (table.network, exits) != (network.name, network.exits):
        raise InputError(
            f"expected the latency table of {network.name} with the exits {', '.join(network.exits)}, found the table "
            f"of {table.network} with {', '.join(exits)}; measure this network with `fluidb measure`"
        )
    if table.variants > 1 or table.exits[-1].steps > 1 or table.lanes > 1:
        raise InputError("expected a latency table with one lane, one variant and no stage that repeats")


def check_models(models: Sequence[RealNetwork], networks: Sequence[ServedNetwork]) -> None:
    """Refuse models that do not belong to the networks, in their order."""
    if len(models) != len(networks):
        raise InputError(
            f"model: expected one for each network that is served, {len(networks)}, with commas between, found "
            f"{len(models)}; several need a file of networks"
        )
    for model, network in zip(models, networks, strict=True):
        if network.traffic is not None:
            fault = (
                "traffic: expected none of its own on a real machine, found some; leave it out and state a trace or "
                "clients for all networks, or simulate it with `fluidb serve-sim`"
            )
            raise InputError(network.about([fault]))
        if network.samples is not None:
            raise InputError(network.about(["samples: expected none, as its model answers; leave them out"]))
        try:
            check_fits(model, network.latency)
        except InputError as error:
            raise InputError(network.about(error.faults)) from None


class ServedHere(NamedTuple):
    """A network as it is served on this machine."""

    model: RealNetwork
    network: ServedNetwork  # its table, and the thresholds at which samples leave, if the model does not state them
    rows: Ints  # its sample that each request of the device is

    @property
    def levels(self) -> Floats:
        """The least confidences, or negative entropies, with which samples leave."""
        last, own = len(self.network.latency.exits), self.network.threshold
        threshold = self.model.thresholds if own is None else own
        return np.broadcast_to(np.array(levels(threshold, last, self.model.measure)), last - 1)


def warm_up(served: Sequence[ServedHere], traffic: DeviceTraffic, scheduler: Scheduler) -> None:
    """Run all stages once, and the policy on a virtual clock, so that nothing is compiled when time begins."""
    for here in served:
        here.model.warm_up(here.network.latency.b_max)
    each = (
        max(int((traffic.network == number).argmax()) for number in range(len(served))) + 1
    )  # begins with one of each
    rehearsed = min(len(traffic), max(REHEARSAL, each))
    virtual, networks = VirtualClock(traffic.whole.trace.arrival_s[:rehearsed]), [here.network for here in served]
    serve_in_steps(case_of(networks, traffic.first(rehearsed), scheduler), virtual, TableRunner(virtual))


def serve_traffic(
    served: Sequence[ServedHere],
    traffic: DeviceTraffic,
    scheduler: Scheduler,
    clock: LiveClock,
    requirements: Sequence[Requirement] = (),
    *,
    returned: Callable[[int], None] = lambda _: None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineResult:
    """Serve requests on this machine, as a :class:`WallClock` or the client of a :class:`LiveClock` lets them arrive.

    With such a client, the trace says only how many there are, and the client fills in ``rows`` before each arrives.
    """
    whole, networks = traffic.whole, [here.network for here in served]
    rate_per_s = 0.0 if whole.clients else whole.trace.rate_per_s
    if rate_per_s > MAX_RATE_PER_S:
        raise InputError(
            f"trace: expected at most {MAX_RATE_PER_S:,} requests/s, which is the most that the clock tells apart, "
            f"found {rate_per_s:,.0f}"
        )
    levels_of = [here.levels for here in served]
    warm_up(served, traffic, scheduler)
    runners = [here.model.runner(here.rows, returned) for here in served]
    case, runner = case_of(networks, traffic, scheduler), DeviceRunner(runners, traffic.network)
    with clock.running(), pinned(served[0].model.cores):
        outcome = serve_in_steps(case, clock, runner, levels=levels_of, stopped=clock.stop.is_set, progress=progress)
    result = ServeResult.of(scheduler.spec, outcome.replay, requirements)
    return MachineResult.of(result, outcome, _wrong(served, runners, outcome))


def prepare_here(
    models: Sequence[RealNetwork], networks: Sequence[ServedNetwork], requests: Requests
) -> tuple[DeviceTraffic, list[ServedHere]]:
    """Requests ready to be served on this machine: each is a sample of the model of its network."""
    drawn = [replace(network, samples=model.samples()) for model, network in zip(models, networks, strict=True)]
    traffic, served = prepare_requests(drawn, requests, requests.read()), []
    for number, (model, network) in enumerate(zip(models, networks, strict=True)):
        here, rows = traffic.network == number, np.zeros(len(traffic), dtype=np.int64)
        rows[here] = model.samples().drawn(int(here.sum()), traffic.seeds[number])
        stated = as_thresholds(network.threshold, network.latency, traffic.parts[number].trace)
        table = network.latency.model_copy(update={"host": None})  # this machine's own host is in what it takes
        served.append(ServedHere(model, replace(network, table=table, threshold=stated), rows))
    return traffic, served


def _wrong(served: Sequence[ServedHere], runners: Sequence[MapRunner], outcome: RunnerResult) -> int:
    """Answers that the model alone does not give, and requests that were answered more than once."""
    replay, wrong = outcome.replay, 0
    for number, (here, runner) in enumerate(zip(served, runners, strict=True)):
        done = np.flatnonzero(np.isfinite(replay.finish_s) & (replay.network == number))
        exits = replay.traffic.exits[done]
        answers = [
            runner.answers[request][exit_ - 1] for request, exit_ in zip(done.tolist(), exits.tolist(), strict=True)
        ]
        wrong += here.model.differing(here.rows[done], exits, answers) + int((runner.answered[done] != 1).sum())
    return wrong


def serve_real(
    model: RealNetwork | Sequence[RealNetwork],
    table: AnyServed,
    requests: Requests,
    policy: AnyPolicy,
    *,
    threshold: AnyThresholds = None,
    requirements: Sequence[Requirement] = (),
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineResult:
    """Serve the requests of a trace, or of clients, on this machine; each is a sample of a model.

    Of several networks, models stand in their order.
    """
    networks, models = as_served(table, threshold), [model] if isinstance(model, RealNetwork) else list(model)
    check_models(models, networks)
    scheduler, limits = scheduler_on(networks, policy), [network.limit for network in networks if network.limit]
    check_stated(requirements, mac_share=None, energy=None, **losses_of(scheduler, *limits))
    traffic, served = prepare_here(models, networks, requests)
    clock = WallClock(traffic.whole.trace.arrival_s, stop or threading.Event())
    return serve_traffic(served, traffic, scheduler, clock, requirements, progress=progress)
