"""One simulation: requests on a design under a policy, with its figures and the requirements on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..formats import brief
from .bound import least_violations
from .inputs import AnyPolicy, AnyTable, AnyThresholds, Requests, as_scheduler, as_table, as_thresholds
from .metrics import Summary, summarise, summarise_networks
from .networks import ServedNetwork, ends_of, prepare_networks
from .networks_replay import NetworksReplay, record_networks_runs, simulate_networks
from .outcome import Replay
from .replay import record_runs, simulate
from .requirements import Requirement, RequirementVerdict, check_stated, judge, judge_networks
from .scheduler import losses_of
from .subnets import stated_of
from .timeline import check_timeline_size


class MeasuredEnd(NamedTuple):
    """What a calibrated engine serves if all times are at an end of its error."""

    factor: float  # of the predicted times
    summary: Summary
    requirements: list[RequirementVerdict]


@dataclass(frozen=True, slots=True)
class ServeResult:
    """Result of a simulation.

    Attributes
    ----------
    policy : str
        The policy with its parameters, and with the batch size of a plan of exits.
    replay : Replay
        The outcome of every request.
    summary : Summary
        Its figures.
    unavoidable_violations : int or None
        Violations that no scheduler prevents; ``None`` with clients that wait, who send other requests under another.
    requirements : list of RequirementVerdict
        Whether each requirement holds, in their order.
    ends : tuple of MeasuredEnd
        Of a calibrated engine: the same where times are the least and the largest that were measured.
    """

    policy: str
    replay: Replay
    summary: Summary
    unavoidable_violations: int | None
    requirements: list[RequirementVerdict]
    ends: tuple[MeasuredEnd, ...] = ()

    __repr__ = brief

    @property
    def undecided(self) -> list[bool]:
        """Whether each requirement holds at one end of the error and fails at the other."""
        return _undecided(self.requirements, self.ends)


def _undecided(verdicts: Sequence[RequirementVerdict], ends: Sequence[MeasuredEnd]) -> list[bool]:
    return [
        len({verdict.holds, *(end.requirements[at].holds for end in ends)}) > 1 for at, verdict in enumerate(verdicts)
    ]


def serve(
    table: AnyTable,
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
    table : LatencyTable, str or Path
        Times of the design, or its folder.
    requests : Requests
        The requests.
    policy : Scheduler or str
        The policy, with its parameters.
    threshold : Threshold or sequence of Threshold, optional
        Confidence or entropy at which a sample leaves: one for all exits, or one for each but the last; by default
        those of a plan of exits.
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
    latency = as_table(table)
    scheduler = as_scheduler(policy, latency)
    counted = latency.segments(by_layer=False).energy_j
    check_stated(requirements, mac_share=latency.peak_macs_per_s, energy=counted, **stated_of(latency))
    check_stated(requirements, **losses_of(scheduler))
    trace = requests.read(progress)
    check_stated(
        requirements, accuracy=trace.correct, accuracy_of_all=trace.correct, accuracy_misses=trace.min_accuracy,
        width_variance=trace.width,
    )  # fmt: skip
    traffic = requests.traffic(trace, [row.rate for row in latency.exits], as_thresholds(threshold, latency, trace))
    replay = simulate(latency, traffic, scheduler, until_s=until_s, progress=progress)
    if record:
        check_timeline_size(replay)
        replay = record_runs(replay, scheduler)
    summary = summarise(replay)
    verdicts = [judge(item, summary) for item in requirements]
    unavoidable = None if traffic.clients else least_violations(replay)
    ends = []
    for factor in latency.measured or ():
        there = summarise(simulate(latency.slower(factor), traffic, scheduler, until_s=until_s))
        ends.append(MeasuredEnd(factor, there, [judge(item, there) for item in requirements]))
    return ServeResult(scheduler.spec, replay, summary, unavoidable, verdicts, tuple(ends))


class NetworkFigures(NamedTuple):
    """Figures of one of several networks."""

    name: str
    summary: Summary  # over the span of all requests
    unavoidable_violations: int | None  # if it had the device to itself


@dataclass(frozen=True, slots=True)
class NetworksResult:
    """Result of a simulation of several networks.

    Attributes
    ----------
    policy : str
        The policy with its parameters.
    replay : NetworksReplay
        The outcome of every request.
    summary : Summary
        The figures of all requests together.
    networks : tuple of NetworkFigures
        Those of each network.
    requirements : list of RequirementVerdict
        Whether each requirement holds, in their order.
    ends : tuple of MeasuredEnd
        As in :class:`ServeResult`.
    """

    policy: str
    replay: NetworksReplay
    summary: Summary
    networks: tuple[NetworkFigures, ...]
    requirements: list[RequirementVerdict]
    ends: tuple[MeasuredEnd, ...] = ()

    __repr__ = brief

    @property
    def undecided(self) -> list[bool]:
        """Whether each requirement holds at one end of the error and fails at the other."""
        return _undecided(self.requirements, self.ends)

    @property
    def unavoidable_violations(self) -> int | None:
        """Violations that no scheduler prevents: those that each network has even alone; ``None`` with clients."""
        known = [item.unavoidable_violations for item in self.networks]
        return None if None in known else sum(filter(None, known))


def serve_networks(
    networks: Sequence[ServedNetwork],
    requests: Requests,
    policy: AnyPolicy,
    *,
    until_s: float = math.inf,
    requirements: Sequence[Requirement] = (),
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> NetworksResult:
    """Serve the requests of several networks on one device, and compute the figures of the service.

    Parameters
    ----------
    networks : sequence of ServedNetwork
        The networks; what they state goes before what ``requests`` state.
    requests : Requests
        The requests: each is for the network that its trace names, or that is drawn by shares.
    policy : Scheduler or str
        The policy that serves each queue, and the rule between networks, e.g. ``"fluid:between=edf"``.
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
    NetworksResult
        The replay, its figures and the outcome.

    Raises
    ------
    InputError
        If an input cannot be read or does not fit the others, a required figure is not known, the policy breaks its
        contract, or the timeline would be too long.
    """
    scheduler = as_scheduler(policy)
    limits = [item.admit for item in networks if item.admit is not None]
    check_stated(requirements, **losses_of(scheduler, *limits))
    traffic = prepare_networks(networks, requests, replace(requests, samples=None).read(progress))
    replay = simulate_networks(networks, traffic, scheduler, until_s=until_s, progress=progress)
    if record:
        check_timeline_size(replay)
        replay = record_networks_runs(replay, networks, scheduler)
    found, ends = networks_result(scheduler.spec, replay, requirements), []
    for factor, slower in ends_of(networks).items():
        there = simulate_networks(slower, traffic, scheduler, until_s=until_s)
        whole, own = summarise_networks(there)
        ends.append(
            MeasuredEnd(factor, whole, judge_networks(requirements, whole, dict(zip(replay.names, own, strict=True))))
        )
    return replace(found, ends=tuple(ends))


def networks_result(policy: str, replay: NetworksReplay, requirements: Sequence[Requirement]) -> NetworksResult:
    """The figures of a replay of several networks, and the verdicts on requirements."""
    summary, parts = summarise_networks(replay)
    found = tuple(
        NetworkFigures(name, part, None if replay.traffic.clients else least_violations(own))
        for name, part, own in zip(replay.names, parts, replay.parts, strict=True)
    )
    verdicts = judge_networks(requirements, summary, dict(zip(replay.names, parts, strict=True)))
    return NetworksResult(policy, replay, summary, found, verdicts)
