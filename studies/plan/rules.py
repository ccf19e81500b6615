"""Rules that discard plans by proof, before any simulation (``docs/plan.md``, How it searches)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...dse.npu.evaluation import MARGIN
from ...serving.metrics import QUANTILES
from ...serving.requirements import Requirement
from ...traffic.traffic import Traffic
from .exits import ExitSetting
from .least import LeastTimes
from .problem import Fate
from .sources import Source

LATENCY, UTILISATION = "latency of one sample", "utilisation"
"""Rules, as they are counted."""


class Limit(NamedTuple):
    """How many requests of a run may take longer than a time, at most."""

    requirement: Requirement
    longer_than_s: NDArray[np.float64]  # (N,), by request
    allowed: int


def limits_of(requirements: Sequence[Requirement], traffic: Traffic) -> list[Limit]:
    """The requirements that bound how many requests of a run are late."""
    count, limits = len(traffic), []
    for requirement in requirements:
        if requirement.comparator not in ("<=", "<"):
            continue
        if requirement.name == "violation_rate":
            most = min(count, int(requirement.bound * count) + 1)
            limits.append(Limit(requirement, traffic.slo_s, most - (not requirement.allows(most / count))))
        elif requirement.name in QUANTILES:
            allowed = int((1 - QUANTILES[requirement.name]) * count + 1e-6)
            limits.append(Limit(requirement, np.broadcast_to(np.float64(requirement.bound), count), allowed))
    return limits


def least_latency(least: LeastTimes, setting: ExitSetting) -> NDArray[np.float64]:
    """Time in which a sample can leave at each exit of the whole network, alone. Shapes: returns (N, E)."""
    return _until(least.alone_s, setting)


def least_work(least: LeastTimes, setting: ExitSetting) -> NDArray[np.float64]:
    """Time of the hardware that a sample takes at least until it leaves at each exit. Shapes: returns (N, E)."""
    return _until(least.work_s, setting)


def least_energy(source: Source, setting: ExitSetting, traffic: Traffic, fate: Fate) -> NDArray[np.float64]:
    """Energy that a request with an answer takes at least, on average. Shapes: returns (N,)."""
    shares = _shares(source.least.stages, setting, surely_run(traffic, fate))
    if fate.drops:  # as if only those that leave first had one
        shares = np.eye(len(shares))[np.flatnonzero(shares)[0]]
    energy_j: NDArray[np.float64] = MARGIN * (_until(source.energy_j, setting) @ shares)
    return energy_j


def least_p99(least: LeastTimes, setting: ExitSetting, traffic: Traffic) -> NDArray[np.float64]:
    """Least 99th percentile of the latency of some traffic: as if each request were alone. Shapes: returns (N,)."""
    late = int((1 - QUANTILES["p99"]) * len(traffic) + 1e-6)  # requests that may be slower
    counts = _shares(least.stages, setting, traffic) * len(traffic)
    behind = np.cumsum(counts[::-1])[::-1]  # that leave at an exit or later; later ones take longer
    p99_s: NDArray[np.float64] = MARGIN * least_latency(least, setting)[:, np.flatnonzero(behind > late + 0.5)[-1]]
    return p99_s


def surely_run(traffic: Traffic, fate: Fate) -> Traffic:
    """The requests with the exit up to which each surely runs if it gets an answer."""
    return replace(traffic, exits=np.ones_like(traffic.exits)) if fate.early else traffic


def _left(stages: int, setting: ExitSetting, traffic: Traffic) -> NDArray[np.int64]:
    """Place in the whole network where each request leaves, counted from 0."""
    return np.array([*setting.kept, stages])[traffic.exits - 1] - 1


def _shares(stages: int, setting: ExitSetting, traffic: Traffic) -> NDArray[np.float64]:
    """Share of the requests that leaves at each exit of the whole network. Shapes: returns (E,)."""
    return np.bincount(_left(stages, setting, traffic), minlength=stages) / len(traffic)


def _until(parts_s: NDArray[np.float64], setting: ExitSetting) -> NDArray[np.float64]:
    """Sums of parts on the way to each exit, with what the exits that are kept add. Shapes: (N, E, 2) to (N, E)."""
    counts = np.zeros(parts_s.shape[1])
    counts[[place - 1 for place in setting.kept] + [-1]] = 1.0
    sums: NDArray[np.float64] = (parts_s[:, :, 0] + counts * parts_s[:, :, 1]).cumsum(axis=1)
    return sums


def possible(
    least: LeastTimes, setting: ExitSetting, traffic: Traffic, requirements: Sequence[Requirement], speedup: float
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
    """Rows of hardware on which no proof excludes that requests keep requirements, and those that each rule excludes.

    A request takes at least the least time of its path, alone in the best batch for it. Those that may be late aside,
    all work must be done before the last request is late, on hardware that is busy from the first arrival on.
    """
    left, shares = _left(least.stages, setting, traffic), _shares(least.stages, setting, traffic)
    latency_s, work_s = least_latency(least, setting), least_work(least, setting)
    slow, busy = np.zeros((2, len(latency_s)), np.bool_)
    for requirement in requirements:
        if requirement.name == "mean" and requirement.comparator in ("<=", "<"):
            slow |= latency_s @ shares > requirement.bound
    arrival_s = traffic.trace.arrival_s
    for _, longer_than_s, allowed in limits_of(requirements, traffic):
        late = np.zeros(len(slow))
        for exit_ in np.flatnonzero(shares):
            here = np.sort(longer_than_s[left == exit_])
            late += np.searchsorted(here, latency_s[:, exit_], side="left")
        slow |= late > allowed
        room_s = speedup * float((arrival_s + longer_than_s).max() - arrival_s[0])
        busy |= (
            len(traffic) * (work_s @ shares)
            - allowed * work_s[:, [*(place - 1 for place in setting.kept), -1]].max(axis=1)
            > room_s
        )
    return ~(slow | busy), {LATENCY: slow, UTILISATION: busy & ~slow}
