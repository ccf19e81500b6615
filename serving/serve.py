"""One simulation: requests on a device under a policy, with its figures and the requirements on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..formats import brief
from .bound import least_violations
from .device_traffic import prepare_requests
from .inputs import AnyPolicy, AnyThresholds, Requests
from .metrics import figures_of
from .networks import AnyServed, ServedNetwork, as_served, ends_of, scheduler_on
from .outcome import Replay
from .replay import record_runs, simulate
from .requirements import Requirement, RequirementVerdict, check_stated, judge_all
from .scheduler import losses_of
from .subnets import stated_of
from .summary import Summary
from .timeline import check_timeline_size


class MeasuredEnd(NamedTuple):
    """What a calibrated engine serves if all times are at an end of its error."""

    factor: float  # of the predicted times
    summary: Summary
    requirements: list[RequirementVerdict]


class NetworkFigures(NamedTuple):
    """Figures of a network that has a name and a request."""

    name: str
    summary: Summary  # over the span of all requests
    unavoidable_violations: int | None  # if it had the device to itself


@dataclass(frozen=True, slots=True)
class ServeResult:
    """Result of a simulation.

    Attributes
    ----------
    policy : str
        The policy with its parameters, and of a table's network with the batch size of its plan of exits.
    replay : Replay
        The outcome of every request.
    summary : Summary
        The figures of all requests.
    networks : tuple of NetworkFigures
        The figures of each network that has a name and a request.
    unavoidable_violations : int or None
        Violations that no scheduler prevents: of several networks those that each has even alone; ``None`` with clients
        that wait, who send other requests under another. A network without clients of its own has a number.
    requirements : list of RequirementVerdict
        Whether each requirement holds, in their order.
    ends : tuple of MeasuredEnd
        Of a calibrated engine: the same where times are the least and the largest that were measured.
    """

    policy: str
    replay: Replay
    summary: Summary
    networks: tuple[NetworkFigures, ...]
    unavoidable_violations: int | None
    requirements: list[RequirementVerdict]
    ends: tuple[MeasuredEnd, ...] = ()

    __repr__ = brief

    @classmethod
    def of(cls, policy: str, replay: Replay, requirements: Sequence[Requirement]) -> ServeResult:
        """The figures of a replay, and the verdicts on requirements."""
        figures = figures_of(replay)
        shared = replay.traffic.clients and not replay.offered.clients  # clients send requests of all networks
        bounds = [None if shared or part.traffic.clients else least_violations(part) for part in replay.by_network]
        unavoidable = None if None in bounds else sum(filter(None, bounds))
        networks = tuple(
            NetworkFigures(name, figures.networks[name], bound)
            for name, bound in zip(replay.names, bounds, strict=True)
            if name in figures.networks
        )
        return cls(policy, replay, figures.whole, networks, unavoidable, judge_all(requirements, figures))

    @property
    def undecided(self) -> list[bool]:
        """Whether each requirement holds at one end of the error and fails at the other."""
        return [
            len({verdict.holds, *(end.requirements[at].holds for end in self.ends)}) > 1
            for at, verdict in enumerate(self.requirements)
        ]


def serve(
    table: AnyServed,
    requests: Requests,
    policy: AnyPolicy,
    *,
    threshold: AnyThresholds = None,
    until_s: float = math.inf,
    requirements: Sequence[Requirement] = (),
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ServeResult:
    """Serve requests, and compute the figures of the service.

    Parameters
    ----------
    table : LatencyTable, sequence of ServedNetwork, str or Path
        Times of the design that serves one network, or its folder; or the networks of a device, or their file. What
        networks state goes before what ``requests`` state.
    requests : Requests
        The requests: each is for the network that its trace names, or that is drawn by shares. Without a trace, those
        that networks have for themselves.
    policy : Scheduler or str
        The policy, with its parameters: it serves the queue of each network, and its rule ``between``, as in
        ``"fluid:between=edf"``, says whose turn it is.
    threshold : Threshold or sequence of Threshold, optional
        Value of the measure at which a sample of a table's network leaves: one for all exits, or one for each but the
        last; by default what its plan of exits states.
    until_s : float
        Stop then; unfinished requests are violations.
    requirements : sequence of Requirement
        Requirements that must hold.
    record : bool
        Keep every run, for :func:`fluidb.serving.write_timeline`.
    progress : callable, optional
        Called with (bytes read so far, bytes), then with (requests served so far, requests).

    Returns
    -------
    ServeResult
        The replay, its figures and the outcome.

    Raises
    ------
    InputError
        If an input cannot be read or does not fit the others, a required figure is not known, the policy breaks its
        contract, or the timeline would be too long.
    """
    networks = as_served(table, threshold)
    scheduler = scheduler_on(networks, policy)
    _check_known(requirements, {network.name: _stated(network) for network in networks})
    check_stated(requirements, **losses_of(scheduler, *(network.limit for network in networks if network.limit)))
    traffic = prepare_requests(networks, requests, None if requests.trace is None else requests.read(progress))
    answers = {
        name: {
            "accuracy": part.trace.correct, "accuracy_of_all": part.trace.correct,
            "accuracy_misses": part.trace.min_accuracy, "width_variance": part.trace.width,
        }
        for name, part in zip(traffic.names, traffic.parts, strict=True)
    }  # fmt: skip
    _check_known(requirements, answers)
    replay = simulate(networks, traffic, scheduler, until_s=until_s, progress=progress)
    if record:
        check_timeline_size(replay)
        replay = record_runs(replay, networks, scheduler)
    ends = []
    for factor, slower in ends_of(networks).items():
        there = figures_of(simulate(slower, traffic, scheduler, until_s=until_s))
        ends.append(MeasuredEnd(factor, there.whole, judge_all(requirements, there)))
    return replace(ServeResult.of(scheduler.spec, replay, requirements), ends=tuple(ends))


def _stated(network: ServedNetwork) -> dict[str, object]:
    """Inputs of figures, as far as the latency table of a network states them."""
    table = network.latency
    energy_j = table.segments(by_layer=False).energy_j
    return {"mac_share": table.peak_macs_per_s, "energy": energy_j, "host_share": table.host, **stated_of(table)}


def _check_known(requirements: Sequence[Requirement], known: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse a requirement on a figure for which a network lacks an input, given what each network states."""
    for requirement in requirements:
        for name, stated in known.items():
            if requirement.network in (None, name):
                check_stated([requirement], **stated)
