"""A comparison held against an earlier one: which figures moved beyond noise."""

from __future__ import annotations

from ..formats import AnyPath, InputError, JsonRecord
from .comparison import ClosedKeys, Comparison, described
from .scenario import Scenario
from .store import figure_of

ALWAYS = ("violation_rate", "processing_rate_per_s")
"""Figures that every run has: a mean latency, for one, is infinite where a request was dropped."""


class FigureChange(ClosedKeys):
    """A figure that moved against an earlier comparison, beyond noise."""

    # which
    case: str
    slo_s: float | None
    rate_per_s: float | None
    offline: bool = False
    contender: str
    metric: str
    # its means
    earlier: float
    now: float
    difference: float  # now less earlier
    # its 95 % interval
    low: float | None
    high: float | None


class EarlierComparison(JsonRecord):
    """The changes of a comparison since an earlier one."""

    method: str  # "paired" where both have the same seeds, else "welch"
    figures: int  # figures that were judged
    # those that moved beyond noise
    worse: list[FigureChange]
    better: list[FigureChange]


def check_match(scenario: Scenario, earlier: Comparison, path: AnyPath) -> None:
    """Refuse, before any work is done, an earlier comparison of other points or contenders."""
    names = {contender.name for contender in scenario.contenders}
    here = {point.key: point for point in (described(point, []) for point in scenario.points)}
    there = {point.key: point for point in earlier.points}
    faults = [f"has no {here[key]}" for key in here.keys() - there]
    faults += [f"{there[key]} is not in this scenario" for key in there.keys() - here]
    for key in here.keys() & there:
        odd = names ^ {standing.name for standing in there[key].contenders}
        if odd:
            faults.append(f"{here[key]}: contender {', '.join(sorted(odd))} is in one of the two only")
    if not all(standing.metrics.keys() >= set(ALWAYS) for point in earlier.points for standing in point.contenders):
        faults.append(f"expected the figures {', '.join(ALWAYS)} of every contender")
    if faults:
        raise InputError(f"{path}: does not match: {min(faults)}")
    counts = [len(standing.metrics[m].seeds) for p in earlier.points for standing in p.contenders for m in ALWAYS]
    if min([len(scenario.file.seeds), *counts]) < 2:
        raise InputError(f"{path}: expected two seeds or more, here and there, to tell a change from noise")


def changes_since(now: Comparison, earlier: Comparison) -> EarlierComparison:
    """Hold a comparison against an earlier one: seed by seed where both have the same, else by Welch's interval."""
    there = {(point.key, standing.name): standing for point in earlier.points for standing in point.contenders}
    worse: list[FigureChange] = []
    better: list[FigureChange] = []
    methods: list[str] = []
    for point in now.points:
        for standing in point.contenders:
            earlier_metrics = there[point.key, standing.name].metrics
            for key, value in standing.metrics.items():
                figure, before = figure_of(key), earlier_metrics.get(key)
                if not figure.better or before is None:
                    continue
                methods.append("paired" if value.paired(before) else "welch")
                difference = value.less(before)
                if not difference.beyond_noise:
                    continue
                (better if figure.better * difference.mean > 0 else worse).append(
                    FigureChange(
                        case=point.case,
                        slo_s=point.slo_s,
                        rate_per_s=point.rate_per_s,
                        clients=point.clients,
                        think=point.think,
                        offline=point.offline,
                        contender=standing.name,
                        metric=key,
                        earlier=float(before.values.mean()),
                        now=float(value.values.mean()),
                        difference=difference.mean,
                        low=difference.low,
                        high=difference.high,
                    )
                )
    return EarlierComparison(
        method=" and ".join(sorted(set(methods))), figures=len(methods), worse=worse, better=better
    )
