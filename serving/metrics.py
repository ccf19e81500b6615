"""The figures of a simulation: latency, violations, rates, utilisation (``docs/metrics.md``, Metrics)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Bools, Floats, Ints
from .one_run import OneRun, nearest_rank
from .outcome import DeviceUse, Replay
from .saturation import saturation_of
from .statistics import warm_up
from .subnets import summarise_subnets
from .summary import (
    QUANTILES,
    AdmissionSummary,
    DeadlineSummary,
    ExitSummary,
    Figures,
    HostSummary,
    Percentile,
    StageSummary,
    Summary,
    Utilisation,
)


def _over(amount: float, span_s: float) -> float:
    """An amount by the span; 0 if nothing ran because all requests were refused at one instant."""
    return amount / span_s if span_s else 0.0


def _utilisation(uses: Sequence[DeviceUse], span_s: float) -> Utilisation | None:
    """Shares of the span of all lanes, from the causes in the latency tables; ``None`` if one has none."""
    sums = [[_over(float((use.ran * part).sum()), span_s) for part in use.segments.causes] for use in uses]
    if not all(sums):
        return None
    made, tile, batch, memory = (sum(column) for column in zip(*sums, strict=True))
    scheduler = _over(sum(use.scheduler_s for use in uses), span_s)
    # where a policy delays nothing, the overhead of cores is that they wait for each other's words
    memory += _over(sum(use.overhead_s for use in uses if use.table.cores is not None), span_s)
    idle = _share(1.0 - made - tile - batch - memory - scheduler)
    return Utilisation(made, idle, scheduler, memory, tile, batch)


def _energy(uses: Sequence[DeviceUse], span_s: float) -> float | None:
    """Energy of all runs, with the static power over the span; ``None`` if a latency table states none."""
    energy_j = span_s * max(use.table.static_w or 0.0 for use in uses)
    for use in uses:
        if use.segments.energy_j is None:
            return None
        energy_j += float((use.ran * use.segments.energy_j).sum())
    return energy_j


def _share(value: float) -> float:
    """A share without what rounding puts below 0 or above 1."""
    nearest = min(max(value, 0.0), 1.0)
    return nearest if abs(value - nearest) < 1e-9 else value


def _stage(replay: Replay, stage: int, run_s: Floats, span_s: float) -> StageSummary:
    here = replay.use.segments.stage == stage
    by_batch = replay.launches[:, here].sum(axis=(0, 1))
    runs = int(by_batch.sum())
    mean = float(by_batch @ np.arange(len(by_batch))) / runs if runs else 0.0
    busy_share = _share(_over(float(run_s[:, here].sum()) / replay.lanes, span_s))
    return StageSummary(stage, int(here.sum()), busy_share, runs, mean, by_batch[1:].tolist())


def _exit(
    number: int, exits: Ints, returned: Bools, latency_s: Floats,
    right: NDArray[Any] | None,
) -> ExitSummary:  # fmt: skip
    """Figures of an exit, from the exit of each request, who returned, latencies, and whether answers are right."""
    here = returned & (exits == number)
    ordered, count = np.sort(latency_s[here]), int(here.sum())
    if not count:
        return ExitSummary(number, 0, None, None, None)
    accuracy = None if right is None else float(right[here].sum()) / count
    return ExitSummary(number, count, float(ordered.sum()) / count, nearest_rank(ordered, 0.99), accuracy)


def _deadlines(replay: Replay, right: NDArray[Any] | None) -> DeadlineSummary | None:
    """What became of requests that may go without an answer, given whether answers are right."""
    if replay.left_s is None:
        return None
    returned, count = np.isfinite(replay.finish_s), len(replay.finish_s)
    dropped, early = int(replay.dropped.sum()), int(replay.early.sum())
    latency_s = replay.latency_s[returned]
    return DeadlineSummary(
        dropped, early, dropped / count, early / count, float(latency_s.mean()) if len(latency_s) else None,
        None if right is None else float(right[returned].sum()) / count,
    )  # fmt: skip


def _host(replay: Replay, returned: Bools) -> HostSummary | None:
    """The host's part of the latency of requests that returned."""
    hosts = [use.table.host for use in replay.uses]
    stated = next((host for host in hosts if host is not None), None)
    if stated is None or not returned.any():
        return None
    times_s = np.array([0.0 if host is None else host.before_s + host.after_s for host in hosts])
    time_s = float(times_s[replay.network[returned]].mean())
    return HostSummary(time_s, time_s / float(replay.latency_s[returned].mean()), stated.overlaps)


def variance_within(batch: Ints, values: NDArray[Any]) -> float:
    """Mean over batches of the variance of a value in each batch."""
    inside = batch > 0
    members, own = batch[inside], values[inside].astype(np.float64)
    if not len(members):
        return 0.0
    sizes = np.bincount(members)
    means = np.bincount(members, own) / np.maximum(sizes, 1)
    squares = np.bincount(members, (own - means[members]) ** 2)
    return float((squares / np.maximum(sizes, 1))[sizes > 0].mean())


def summarise(replay: Replay) -> Summary:
    """Compute the figures of a replay.

    Parameters
    ----------
    replay : Replay
        The simulation.

    Returns
    -------
    Summary
        The figures of all requests.
    """
    return figures_of(replay).whole


def figures_of(replay: Replay) -> Figures:
    """Compute the figures of a replay, and of each of its networks.

    Parameters
    ----------
    replay : Replay
        The simulation.

    Returns
    -------
    Figures
        The figures of all requests, and of the requests of each network that has one.
    """
    span = float(replay.traffic.trace.arrival_s[0]), replay.end_s
    parts = {
        name: _with_its_own(part, _summary(part, *span))
        for name, part in zip(replay.names, replay.by_network, strict=True)
        if len(part.traffic)
    }
    whole = next(iter(parts.values())) if len(replay.uses) == 1 else _summary(replay, *span)
    figures = Figures(whole, parts)
    in_time = [1.0 - part.violation_rate for part in figures.networks.values()]
    return figures._replace(whole=replace(whole, fairness=jain(in_time) if in_time else None))


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index of values >= 0 (Jain, Chiu, Hawe, DEC-TR-301, 1984); 1 if all are 0, which is equal too.

    >>> jain([1.0, 0.0])
    0.5
    """
    squares = sum(value**2 for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _with_its_own(replay: Replay, summary: Summary) -> Summary:
    """The figures of the requests of a network, with the figures of its stages, exits and SubNets."""
    numbers = range(1, len(replay.table.exits) + 1)
    run_s = replay.use.ran * replay.use.segments.time_s
    left = replay.traffic.exits, np.isfinite(replay.finish_s), replay.latency_s, replay.right
    return replace(
        summary,
        stages=[_stage(replay, stage, run_s, summary.span_s) for stage in numbers],
        exits=[_exit(number, *left) for number in numbers],
        subnets=summarise_subnets(replay),
    )


def _summary(replay: Replay, begin_s: float, end_s: float) -> Summary:
    """The figures of requests, and of the networks that served them."""
    uses, trace, count = replay.uses, replay.traffic.trace, len(replay.traffic)
    span_s = end_s - begin_s
    latency_s, violated = replay.latency_s, replay.violated
    run = OneRun(latency_s, replay.fresh, at_once=trace.at_once)
    ordered = run.ordered_s
    mean, violating = run.mean(), run.share(violated)
    wait_s = np.maximum(np.minimum(replay.left_queue_s, end_s) - replay.joined_s, 0.0)
    returned = np.isfinite(replay.finish_s)
    answered = int(returned.sum())
    refused = None if replay.refused is None else int(replay.refused.sum())
    violations, unfinished = int(violated.sum()), int(np.isinf(replay.gone_s).sum())
    right = replay.right
    run_s = [use.ran * use.segments.time_s for use in uses]
    ran_s = sum(float(time_s.sum()) for time_s in run_s)
    sample_s = sum(float((time_s * np.arange(time_s.shape[2])).sum()) for time_s in run_s)
    overhead_s = replay.overhead_s
    energy_j = _energy(uses, span_s)
    return Summary(
        requests=count,
        unfinished=unfinished,
        span_s=span_s,
        independent_requests=run.independent,
        more_requests_needed=violating.more_requests_needed,
        mean_latency_s=float(latency_s.sum()) / count,
        mean_interval_s=mean.interval,
        max_latency_s=float(ordered[-1]),
        percentiles=[Percentile(name, nearest_rank(ordered, q), *run.quantile(q)) for name, q in QUANTILES.items()],
        mean_wait_s=float(wait_s.sum()) / count,
        violations=violations,
        violation_rate=violations / count,
        violation_interval=violating.interval,
        arrival_rate_per_s=trace.rate_per_s,
        processing_rate_per_s=_over(answered, span_s),
        goodput_per_s=_over(count - violations, span_s),
        makespan_s=math.inf if unfinished else span_s,
        depth_variance=variance_within(replay.batch, replay.depths),
        width_variance=None if trace.width is None else variance_within(replay.batch, trace.width),
        warm_up_requests=0 if trace.at_once else warm_up(latency_s),
        busy_share=_share(_over((ran_s + overhead_s) / replay.lanes, span_s)),
        utilisation=_utilisation(uses, span_s * replay.lanes),
        mean_batch=sample_s / ran_s if ran_s else 0.0,
        preemptions=replay.preemptions,
        scheduler_calls=replay.scheduler_calls,
        stalled_s=float(replay.stalled_s.sum()) / count,
        accuracy=None if right is None or not answered else float(right[returned].sum()) / answered,
        deadlines=_deadlines(replay, right),
        admission=None if refused is None else AdmissionSummary(refused, refused / count),
        saturation=saturation_of(replay),
        energy_j=energy_j / answered if answered and energy_j is not None else None,
        host=_host(replay, returned),
    )
