"""The traffic that a plan is to serve."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...traffic.arrivals import poisson
from ...traffic.distributions import Objective
from ...traffic.measures import Measure
from ...traffic.samples import Samples, draw_samples
from ...traffic.trace import Trace
from ...traffic.traffic import Traffic, prepare
from .exits import ExitSetting


@dataclass(frozen=True)
class PlanTraffic:
    """The traffic that a plan is to serve: Poisson arrivals of a rate, or a trace."""

    rate_per_s: float | None
    trace: Trace | None
    count: int  # requests of a run with a rate
    slo_s: Objective | None
    samples: Samples | None
    seed: int  # of the race; fresh runs have the seeds after it
    seeds: int  # fresh runs

    @property
    def measure(self) -> Measure | None:
        """The measure of the samples' thresholds."""
        return None if self.samples is None else self.samples.measure

    @property
    def requests(self) -> int:
        """Requests of a run."""
        return self.count if self.trace is None else len(self.trace)

    @property
    def fresh(self) -> range:
        """Seeds of the fresh runs."""
        return range(self.seed + 1, self.seed + 1 + self.seeds)

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> Traffic:
        """The requests of a run; ``faster``: the factor by which more arrive in a second."""
        trace = self.trace if self.rate_per_s is None else poisson(self.rate_per_s, self.count, seed)
        assert trace is not None
        trace = replace(trace, arrival_s=trace.arrival_s / faster)
        if self.samples is not None:
            trace = draw_samples(trace, self.samples.at_exits(setting.kept, [1] * len(setting.kept)), seed)
        return prepare(trace, setting.rates, slo_s=self.slo_s, seed=seed, threshold=setting.thresholds)


def right_share(traffic: Traffic, *, early: bool = False) -> float:
    """Share of the requests whose answer at their exit is right; ``early``: at their exit or at one before it."""
    correct = traffic.trace.correct
    assert correct is not None
    if early:
        passed = np.arange(1, correct.shape[1] + 1) <= traffic.exits[:, None]
        return float((correct.astype(np.bool_) & passed).any(axis=1).mean())
    return float(correct[np.arange(len(traffic)), traffic.exits - 1].mean())
