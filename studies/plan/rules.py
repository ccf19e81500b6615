"""Rules that discard plans by proof, before any simulation (``docs/plan.md``, How it searches)."""

from __future__ import annotations

import math
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


def least_energy(
    source: Source, setting: ExitSetting, traffic: Traffic, fate: Fate, rows: NDArray[np.int64] | slice = slice(None)
) -> NDArray[np.float64]:
    """Energy that a request with an answer takes at least on rows of a source, on average. Shapes: returns (N,)."""
    shares = _shares(source.least.stages, setting, surely_run(traffic, fate))
    if fate.drops:  # as if only those that leave first had one
        shares = np.eye(len(shares))[np.flatnonzero(shares)[0]]
    energy_j: NDArray[np.float64] = MARGIN * (_until(source.energy_j[rows], setting) @ shares)
    return energy_j


def surely_run(traffic: Traffic, fate: Fate) -> Traffic:
    """The requests with the exit up to which each surely runs if it gets an answer."""
    return replace(traffic, exits=np.ones_like(traffic.exits)) if fate.early else traffic


def _shares(stages: int, setting: ExitSetting, traffic: Traffic) -> NDArray[np.float64]:
    """Share of the requests that leaves at each exit of the whole network. Shapes: returns (E,)."""
    left = np.array([*setting.kept, stages])[traffic.exits - 1] - 1
    return np.bincount(left, minlength=stages) / len(traffic)


def _until(parts_s: NDArray[np.float64], setting: ExitSetting) -> NDArray[np.float64]:
    """Sums of parts on the way to each exit, with what the exits that are kept add. Shapes: (N, E, 2) to (N, E)."""
    counts = np.zeros(parts_s.shape[1])
    counts[[place - 1 for place in setting.kept] + [-1]] = 1.0
    sums: NDArray[np.float64] = (parts_s[:, :, 0] + counts * parts_s[:, :, 1]).cumsum(axis=1)
    return sums


class LateBound(NamedTuple):
    """A requirement that bounds how many requests are late, as the rules need it."""

    allowed: int  # late requests, at most
    longer_than_s: list[NDArray[np.float64]]  # by exit, ascending: one for each request there, or one for all
    room_s: float  # from the first arrival until the last request is late


class Load(NamedTuple):
    """What the rules need to know of the requests of a run with a setting of the exits."""

    ends: NDArray[np.int64]  # (K,), places in the whole network of the exits that are kept and the last, from 0
    counts: NDArray[np.int64]  # (K,), requests that leave at each
    mean_s: float  # what the mean latency may be at most
    bounds: list[LateBound]

    @classmethod
    def of(cls, stages: int, setting: ExitSetting, traffic: Traffic, requirements: Sequence[Requirement]) -> Load:
        """Of the traffic of a network with a number of stages."""
        ends, arrival_s = np.array([*setting.kept, stages]) - 1, traffic.trace.arrival_s
        counts = np.bincount(traffic.exits - 1, minlength=len(ends))
        means = [
            requirement.bound
            for requirement in requirements
            if requirement.name == "mean" and requirement.comparator in ("<=", "<")
        ]
        bounds = []
        for _, longer_than_s, allowed in limits_of(requirements, traffic):
            alike = longer_than_s.strides == (0,)
            here = [
                np.sort(longer_than_s[:1] if alike else longer_than_s[traffic.exits == end])
                for end in range(1, len(ends) + 1)
            ]
            bounds.append(LateBound(allowed, here, float((arrival_s + longer_than_s).max() - arrival_s[0])))
        return cls(ends, counts, min(means, default=math.inf), bounds)

    def excluded(self, until: Until, speedup: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows of hardware on which the requests cannot keep requirements: by latency, and by utilisation alone.

        A request takes at least the least time of its path, alone in the best batch for it. Those that may be late
        aside, all work must be done before the last request is late, on hardware that is busy from the first arrival.
        """
        latency_s, work_s = until.latency_s[:, self.ends], until.work_s[:, self.ends]
        count = int(self.counts.sum())
        slow, busy = latency_s @ (self.counts / count) > self.mean_s, np.zeros(len(latency_s), np.bool_)
        for bound in self.bounds:
            late = np.zeros(len(slow), np.int64)
            for here_s, of, longer_than_s in zip(latency_s.T, self.counts, bound.longer_than_s, strict=True):
                each = 1 if len(longer_than_s) == of else of
                late += each * np.searchsorted(longer_than_s, here_s, side="left")
            slow |= late > bound.allowed
            most_s = work_s @ self.counts - bound.allowed * work_s.max(axis=1)
            busy |= most_s > speedup * bound.room_s
        return slow, busy & ~slow

    def least_p99(self, until: Until) -> NDArray[np.float64]:
        """Least 99th percentile of the latency: as if each request were alone. Shapes: returns (N,)."""
        late = int((1 - QUANTILES["p99"]) * int(self.counts.sum()) + 1e-6)  # requests that may be slower
        behind = np.cumsum(self.counts[::-1])[::-1]  # that leave at an exit or later; later ones take longer
        p99_s: NDArray[np.float64] = MARGIN * until.latency_s[:, self.ends[np.flatnonzero(behind > late)[-1]]]
        return p99_s


class Until(NamedTuple):
    """What a sample takes at least until it leaves at each exit, with the exits of a setting, by row of hardware."""

    latency_s: NDArray[np.float64]  # (N, E)
    work_s: NDArray[np.float64]  # (N, E)

    @classmethod
    def of(cls, least: LeastTimes, setting: ExitSetting) -> Until:
        """From the least times of some rows."""
        return cls(least_latency(least, setting), least_work(least, setting))

    def at(self, rows: NDArray[np.int64]) -> Until:
        """Of some rows."""
        return Until(self.latency_s[rows], self.work_s[rows])
