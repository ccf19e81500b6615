"""The figures of a replay, of all its requests and of the requests of each network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ..formats import InputError, brief
from .saturation import Saturation
from .statistics import Interval
from .subnets import SubNetSummary

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
"""The percentiles that are reported."""


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of latency, by nearest rank over all requests."""

    name: str  # e.g. ``"p99"``
    latency_s: float
    interval_s: Interval | None  # at 95 % (:mod:`.one_run`); ``None`` if the run is too short
    more_requests_needed: int  # about how many more requests there must be for an interval


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Use of a stage: the share of the span in which it ran, its runs, their mean batch, and runs by b = 1..b_max.

    The share is the mean over the lanes, without gathers, delays and slowdowns.  ``segments`` is 1, or the number of
    the stage's layers for a policy that decides after each layer.
    """

    stage: int
    segments: int
    busy_share: float
    runs: int
    mean_batch: float
    runs_by_batch: list[int]


@dataclass(frozen=True, slots=True)
class ExitSummary:
    """Requests that left at an exit, and their latency; ``accuracy`` if the trace states which answers are right."""

    exit: int
    requests: int
    mean_latency_s: float | None
    p99_latency_s: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Use of the NPU's MAC units: shares of the MACs possible in the span that were made, or lost by cause."""

    mac_share: float
    idle_share: float
    scheduler_share: float
    memory_bound_share: float
    tile_padding_share: float
    batch_padding_share: float


@dataclass(frozen=True, slots=True)
class AdmissionSummary:
    """Requests that were refused at their arrival, and their share of all requests."""

    refused: int
    refused_rate: float


@dataclass(frozen=True, slots=True)
class DeadlineSummary:
    """Requests that were dropped, or answered early at their deadlines, and figures of those with an answer."""

    # requests that were dropped; and those that returned with the answer of an exit before their own
    dropped: int
    early: int
    # their shares of all requests
    dropped_rate: float
    early_rate: float
    answered_latency_s: float | None  # mean latency of the requests that returned, ``None`` if none did
    # share of right answers of all requests, where one without an answer counts as wrong; ``None`` if the trace does
    # not state which answers are right
    accuracy_of_all: float | None


@dataclass(frozen=True, slots=True)
class HostSummary:
    """The host's part: its mean time for a request that returned, and the share of its latency."""

    time_s: float
    latency_share: float
    overlaps: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a replay (``docs/metrics.md``, Metrics, defines each).

    Attributes
    ----------
    requests, unfinished : int
        Requests that arrived, and those neither returned, refused nor dropped when the simulation was stopped.
    span_s : float
        From the first arrival to the last return, or until the simulation was stopped.
    independent_requests : float
        Number of independent requests with as much information (:class:`.one_run.OneRun`).
    more_requests_needed : int
        About how many more there must be for intervals of the mean latency and the violation rate.
    mean_latency_s, max_latency_s : float
        Latency from arrival; infinite with requests unfinished, refused or dropped.
    mean_interval_s : Interval or None
        Of the mean latency, at 95 %; ``None`` if the run is too short, or with requests unfinished.
    percentiles : list of Percentile
        Of latency.
    mean_wait_s : float
        Time in the queue, before entering the NPU; a host that overlaps prepares inputs before it.
    violations : int
        Requests that took longer than their SLO, or did not return; those refused or dropped are among them.
    violation_rate : float
        Their share of all requests.
    violation_interval : Interval or None
        Of that share, at 95 %; ``None`` if the run is too short.
    arrival_rate_per_s, processing_rate_per_s, goodput_per_s : float
        Rate of arrivals from the first to the last; requests returned, and returned within their SLO, over the span.
    makespan_s : float
        From the first arrival to the last return or drop; infinite with requests unfinished.
    depth_variance : float
        Mean over batches, as they entered, of the variance of depth in each: of the exits, where the last counts
        once for each of its steps.
    width_variance : float or None
        The same of the widths; ``None`` if the trace states none.
    warm_up_requests : int
        Requests of the start-up transient, by MSER-5; all other figures include them.
    busy_share : float
        Share of the span in which the NPU ran; of several lanes that the policy uses, the mean.
    utilisation : Utilisation or None
        Use of its MAC units; ``None`` if the latency table states no causes.
    mean_batch : float
        Samples in the running batch, averaged over the time the NPU ran.
    preemptions, scheduler_calls : int
        See :class:`Replay`.
    stalled_s : float
        Time for which a request was preempted, on average over all requests.
    accuracy : float or None
        Share of right answers of those that were given, if there are any and the trace states which are right.
    stages : list of StageSummary
        By stage; empty of several networks together, as ``exits``.
    exits : list of ExitSummary
        By exit.
    subnets : SubNetSummary or None
        Figures of SubNets; ``None`` if the latency table has none, or of several networks together.
    deadlines : DeadlineSummary or None
        What became of requests at their deadlines, and figures of answers; ``None`` if all were served.
    admission : AdmissionSummary or None
        Requests that were refused; ``None`` if all may wait.
    saturation : Saturation or None
        Whether the queue drained, lasted or grew; ``None`` if the run is too short, or all requests arrive at once.
    energy_j : float or None
        Energy of the NPU for each request that returned, its static power over the span included; ``None`` if the
        latency table states no energies.
    host : HostSummary or None
        The host's part of the latency; ``None`` if it takes no time, or no request returned.
    fairness : float or None
        Of K networks with names, Jain's index of their shares of requests in time: from 1/K to 1, which equal shares
        have.
    """

    requests: int
    unfinished: int
    span_s: float
    independent_requests: float
    more_requests_needed: int
    mean_latency_s: float
    mean_interval_s: Interval | None
    max_latency_s: float
    percentiles: list[Percentile]
    mean_wait_s: float
    violations: int
    violation_rate: float
    violation_interval: Interval | None
    arrival_rate_per_s: float
    processing_rate_per_s: float
    goodput_per_s: float
    makespan_s: float
    depth_variance: float
    width_variance: float | None
    warm_up_requests: int
    busy_share: float
    utilisation: Utilisation | None
    mean_batch: float
    preemptions: int
    scheduler_calls: int
    stalled_s: float
    accuracy: float | None
    stages: list[StageSummary] = field(default_factory=list)
    exits: list[ExitSummary] = field(default_factory=list)
    subnets: SubNetSummary | None = None
    deadlines: DeadlineSummary | None = None
    admission: AdmissionSummary | None = None
    saturation: Saturation | None = None
    energy_j: float | None = None
    host: HostSummary | None = None
    fairness: float | None = None

    __repr__ = brief

    def record(self) -> dict[str, Any]:
        """The figures for JSON; without deadlines, admission, energy, host and fairness if there are none."""
        optional = ("deadlines", "admission", "energy_j", "host", "fairness")
        return {key: value for key, value in asdict(self).items() if value is not None or key not in optional}

    def percentile(self, name: str | float) -> Percentile:
        """The percentile of a name, e.g. ``"p99"``, or of a number, e.g. 99."""
        wanted = name if isinstance(name, str) else f"p{name:g}"
        if wanted not in QUANTILES:
            raise InputError(f'percentile: expected one of {", ".join(QUANTILES)}, found "{name}"')
        return next(percentile for percentile in self.percentiles if percentile.name == wanted)


class Figures(NamedTuple):
    """The figures of all requests together, and of each network that has a request, over the span of all."""

    whole: Summary
    parts: dict[str, Summary]  # by the name of the network, which the only one of a device may lack

    @property
    def networks(self) -> dict[str, Summary]:
        """The figures of networks that have a name."""
        return {name: part for name, part in self.parts.items() if name}

    def of(self, network: str | None) -> Summary:
        """The figures of a network, or of all requests."""
        if network is None:
            return self.whole
        if network not in self.networks:
            raise InputError(
                f'network: expected a request of "{network}", as one of its figures is required, found none; serve '
                "more requests, or leave out the requirement"
            )
        return self.networks[network]
