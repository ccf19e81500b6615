"""Rules that discard plans by proof, before any simulation (``docs/plan.md``, How it searches)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...dse.npu.evaluation import MARGIN
from ...formats.array_types import Bools, Floats, Ints
from ...serving.requirements import Requirement
from ...serving.summary import QUANTILES
from .exits import ExitSetting
from .least import LeastTimes
from .plan_traffic import JointTraffic, of_network, surely_sent
from .problem import Fate
from .sources import Source

LATENCY, UTILISATION = "latency of one sample", "utilisation"
"""Rules, as they are counted."""


class Limit(NamedTuple):
    """How many requests of a run may take longer than a time, at most."""

    requirement: Requirement
    longer_than_s: Floats  # (N,), by request
    allowed: int


def limits_of(requirements: Sequence[Requirement], traffic: JointTraffic) -> list[Limit]:
    """The requirements that bound how many requests of a run are late."""
    limits = []
    for requirement in requirements:
        if requirement.comparator not in ("<=", "<") or not surely_sent(traffic, requirement.network):
            continue
        here = of_network(traffic, requirement.network)
        count = len(traffic) if here is None else int(here.sum())
        if requirement.name == "violation_rate":
            most = min(count, int(requirement.bound * count) + 1)
            allowed, longer_than_s = most - (not requirement.allows(most / max(1, count))), traffic.slo_s
        elif requirement.name in QUANTILES:
            allowed = int((1 - QUANTILES[requirement.name]) * count + 1e-6)
            longer_than_s = np.broadcast_to(np.float64(requirement.bound), len(traffic))
        else:
            continue
        if here is not None:
            longer_than_s = np.where(here, longer_than_s, np.inf)
        limits.append(Limit(requirement, longer_than_s, allowed))
    return limits


def joint_limits(requirements: Sequence[Requirement], traffic: JointTraffic) -> list[Limit]:
    """The same, and one more where they bound several networks: how many of all their requests may be late."""
    limits = limits_of(requirements, traffic)
    of_each = {limit.requirement.network: limit for limit in limits if limit.requirement.network is not None}
    if len(of_each) < 2:
        return limits
    requirement, longer_than_s, allowed = zip(*of_each.values(), strict=True)
    return [*limits, Limit(requirement[0], np.minimum.reduce(longer_than_s), sum(allowed))]


def least_latency(least: LeastTimes, setting: ExitSetting) -> Floats:
    """Time in which a sample can leave at each exit of the whole network, alone. Shapes: returns (N, E)."""
    return _until(least.alone_s, setting)


def least_work(least: LeastTimes, setting: ExitSetting) -> Floats:
    """Time of the hardware that a sample takes at least until it leaves at each exit. Shapes: returns (N, E)."""
    return _until(least.work_s, setting)


def least_energy(
    source: Source, setting: ExitSetting, traffic: JointTraffic, fate: Fate, rows: Ints | slice = slice(None)
) -> Floats:
    """Energy that a request with an answer takes at least on rows of a source, on average. Shapes: returns (N,)."""
    shares = _shares(source.least.stages, setting, surely_run(traffic, fate))
    until_j = _until(source.energy_j[rows], setting)
    if fate.drops or not surely_sent(traffic, None):  # as if only those that take the least had one
        least_j: Floats = MARGIN * until_j[:, shares > 0].min(axis=1)
        return least_j
    energy_j: Floats = MARGIN * (until_j @ shares)
    return energy_j


def surely_run(traffic: JointTraffic, fate: Fate) -> JointTraffic:
    """The requests with the exit up to which each surely runs if it gets an answer."""
    return replace(traffic, exits=1 + traffic.begins[traffic.device.network]) if fate.early else traffic


def _shares(stages: int, setting: ExitSetting, traffic: JointTraffic) -> Floats:
    """Share of the requests that leaves at each exit of the whole network. Shapes: returns (E,)."""
    left = np.array([*setting.kept, stages])[traffic.exits - 1] - 1
    return np.bincount(left, minlength=stages) / len(traffic)


def _until(parts_s: Floats, setting: ExitSetting) -> Floats:
    """Sums of parts on the way to each exit, with what the exits that are kept add. Shapes: (N, E, 2) to (N, E)."""
    counts = np.zeros(parts_s.shape[1])
    counts[[place - 1 for place in setting.kept] + [-1]] = 1.0
    sums: Floats = (parts_s[:, :, 0] + counts * parts_s[:, :, 1]).cumsum(axis=1)
    for last in setting.lasts:  # the next network begins behind it
        sums[:, last:] -= sums[:, last - 1 : last]
    return sums


class LateBound(NamedTuple):
    """A requirement that bounds how many requests are late, as the rules need it."""

    allowed: int  # late requests, at most
    longer_than_s: list[Floats]  # by exit, ascending: one for each request there, or one for all
    counts: Ints  # (K,), requests that leave at each exit, of those that it is about
    among: Bools  # (K,), exits where one of these may leave
    room_s: float  # from the first arrival until the last request is late; infinite if arrivals are not known

    @classmethod
    def of(cls, limit: Limit, traffic: JointTraffic, counts: Ints) -> LateBound:
        """A limit on the requests of a run, with how many of them leave at each exit."""
        arrival_s, longer_than_s = traffic.trace.arrival_s, limit.longer_than_s
        ends, among, bounded = range(1, len(counts) + 1), np.ones(len(counts), np.bool_), longer_than_s < np.inf
        if longer_than_s.strides == (0,):
            here = [longer_than_s[:1]] * len(counts)
        else:
            here = [np.sort(longer_than_s[bounded & (traffic.exits == end)]) for end in ends]
        if not bounded.all():  # it is not about all networks
            counts = np.array([len(times_s) for times_s in here])
            among = counts > 0
        if traffic.think_s is not None or not bounded.any():
            return cls(limit.allowed, here, counts, among, math.inf)
        due_s, first_s = (arrival_s + longer_than_s)[bounded].max(), arrival_s[bounded].min()
        return cls(limit.allowed, here, counts, among, float(due_s - first_s))


class Load(NamedTuple):
    """What the rules need to know of the requests of a run with a setting of the exits."""

    ends: Ints  # (K,), places in the whole network of the exits that are kept and the last, from 0
    counts: Ints  # (K,), requests that leave at each
    means: list[tuple[Floats, float]]  # shares of requests (K,), and their mean latency at most
    bounds: list[LateBound]
    slower: int  # requests that may be slower than the 99th percentile
    rising: bool  # whether each exit takes longer than the one before it, as in one network

    @classmethod
    def of(cls, stages: int, setting: ExitSetting, traffic: JointTraffic, requirements: Sequence[Requirement]) -> Load:
        """Of the traffic of a network with a number of stages."""
        ends = np.array([*setting.kept, stages]) - 1
        counts = np.bincount(traffic.exits - 1, minlength=len(ends))
        means = []
        for requirement in requirements:
            bounded = requirement.name == "mean" and requirement.comparator in ("<=", "<")
            if bounded and surely_sent(traffic, requirement.network):
                here = of_network(traffic, requirement.network)
                exits = traffic.exits if here is None else traffic.exits[here]
                shares = np.bincount(exits - 1, minlength=len(ends)) / max(1, len(exits))
                means.append((shares, requirement.bound))
        bounds = [LateBound.of(limit, traffic, counts) for limit in joint_limits(requirements, traffic)]
        sure, count = surely_sent(traffic, None), len(traffic)
        slower = int((1 - QUANTILES["p99"]) * count + 1e-6) if sure else count - 1
        return cls(ends, counts, means, bounds, slower, not setting.lasts)

    def excluded(self, until: Until, speedup: float) -> tuple[Bools, Bools]:
        """Rows of hardware on which the requests cannot keep requirements: by latency, and by utilisation alone.

        A request takes at least the least time of its path, alone in the best batch for it. Those that may be late
        aside, all work must be done before the last request is late, on hardware that is busy from the first arrival.
        """
        latency_s, work_s = until.latency_s[:, self.ends], until.work_s[:, self.ends]
        slow, busy = np.zeros((2, len(latency_s)), np.bool_)
        for shares, mean_s in self.means:
            slow |= latency_s @ shares > mean_s
        for bound in self.bounds:
            late = np.zeros(len(slow), np.int64)
            for here_s, of, longer_than_s in zip(latency_s.T, bound.counts, bound.longer_than_s, strict=True):
                each = 1 if len(longer_than_s) == of else of
                late += each * np.searchsorted(longer_than_s, here_s, side="left")
            slow |= late > bound.allowed
            if bound.room_s < math.inf:
                most_s = work_s @ bound.counts - bound.allowed * work_s[:, bound.among].max(axis=1)
                busy |= most_s > speedup * bound.room_s
        return slow, busy & ~slow

    def least_p99(self, until: Until) -> Floats:
        """Least 99th percentile of the latency: as if each request were alone. Shapes: returns (N,)."""
        latency_s = until.latency_s[:, self.ends]
        if self.rising:
            behind = np.cumsum(self.counts[::-1])[::-1]  # that leave at an exit or later; later ones take longer
            p99_s: Floats = MARGIN * latency_s[:, np.flatnonzero(behind > self.slower)[-1]]
            return p99_s
        longest = np.argsort(-latency_s, axis=1)
        first = (np.cumsum(self.counts[longest], axis=1) > self.slower).argmax(axis=1)
        rows = np.arange(len(latency_s))
        of_each: Floats = MARGIN * latency_s[rows, longest[rows, first]]
        return of_each


class Until(NamedTuple):
    """What a sample takes at least until it leaves at each exit, with the exits of a setting, by row of hardware."""

    latency_s: Floats  # (N, E)
    work_s: Floats  # (N, E)

    @classmethod
    def of(cls, least: LeastTimes, setting: ExitSetting) -> Until:
        """From the least times of some rows."""
        return cls(least_latency(least, setting), least_work(least, setting))

    def at(self, rows: Ints) -> Until:
        """Of some rows."""
        return Until(self.latency_s[rows], self.work_s[rows])
