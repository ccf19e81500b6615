"""Thresholds with which a mean latency meets a target (EdgeSP, Section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..formats import AnyPath, InputError, brief
from ..rules.exit_shares import least_of_shares, shares_of_best, shares_of_latest
from ..serving.inputs import AnyTable, as_table
from ..traffic.exits import decide
from ..traffic.measures import Threshold
from ..traffic.samples import Samples, as_samples

Preference = Literal["latest", "accuracy"]


@dataclass(frozen=True, slots=True)
class TargetExit:
    """An exit under a latency target."""

    name: str
    time_s: float  # T_n, of one sample, alone on the machine, that leaves here
    accuracy: float  # A_n, of its answers to all samples that chose
    wanted_share: float  # P_n, of the samples that is to leave here
    threshold: Threshold | None  # None at the last exit
    chosen_share: float  # that leaves, of the samples that chose
    checked_share: float  # that leaves, of the others


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """Figures of thresholds on some samples."""

    samples: int
    mean_s: float  # of a sample alone
    accuracy: float


@dataclass(frozen=True, slots=True)
class TargetThresholds:
    """Thresholds for a latency target."""

    network: str  # name, of the latency table
    platform: str
    target_s: float  # largest mean time, T_th
    feasible: bool  # True if the first exit is fast enough; if not, every sample leaves there
    measure: str  # of the thresholds
    exits: list[TargetExit]  # all exits, the last included
    chosen: TargetFigures  # on the half of the samples that chose
    checked: TargetFigures  # on the other half

    __repr__ = brief


def meet_target(
    table: AnyTable, samples: Samples | AnyPath, target_s: float, *, objective: Preference = "latest"
) -> TargetThresholds:
    """Find the thresholds with which samples take a mean time of at most a target.

    The first half of the samples chooses, the second half checks, as for ``fluidb exits``.

    Parameters
    ----------
    table : LatencyTable or str or Path
        Times of the network, or the folder with them; a sample runs alone.
    samples : Samples or str or Path
        Its answers at every exit, or their file.
    target_s : float
        Largest mean time.
    objective : {"latest", "accuracy"}
        The best shares of the exits: the most samples at the latest exit, or the highest sum of P_n A_n.

    Returns
    -------
    TargetThresholds
        The thresholds, and what they give on either half of the samples.

    Raises
    ------
    InputError
        If the table has no single time for each exit, or the samples do not fit it.
    """
    latency = as_table(table)
    if latency.variants > 1 or latency.places > len(latency.exits):
        raise InputError(
            f"{latency.platform}: expected one time for each exit, found times by width, SubNet, state or step; their "
            "mean depends on the requests, so try thresholds with `fluidb thresholds`"
        )
    all_samples = as_samples(samples)
    last, half = len(latency.exits), len(all_samples) // 2
    where = all_samples.source or "samples"
    if all_samples.exits != last or all_samples.values > 1:
        raise InputError(
            f"{where}: expected one {all_samples.measure.name} at each exit of {latency.network}, {last} in all, found "
            f"{all_samples.exits} exits with {all_samples.values} values each"
        )
    if not half:
        raise InputError(f"{where}: expected at least 2 samples, one that chooses and one that checks, found 1")
    time_s = latency.array()[0, 1:, 1]
    chose, others = all_samples[slice(0, half)], all_samples[slice(half, None)]
    accuracy = chose.correct.mean(axis=0, dtype=np.float64)
    shares = shares_of_latest(time_s, target_s) if objective == "latest" else shares_of_best(time_s, accuracy, target_s)
    least = least_of_shares(chose.confidences[:, : last - 1], shares)
    parts = [_left(part, least) for part in (chose, others)]
    thresholds = [*map(all_samples.measure.threshold, least), None]
    left = (part.mean(axis=1).tolist() for part in parts)
    figures: list[Any] = [time_s.tolist(), accuracy.tolist(), np.asarray(shares).tolist(), thresholds, *left]
    return TargetThresholds(
        network=latency.network,
        platform=latency.platform,
        target_s=target_s,
        feasible=bool(time_s.min() <= target_s),
        measure=all_samples.measure.name,
        exits=[TargetExit(row.name, *there) for row, *there in zip(latency.exits, *figures, strict=True)],
        chosen=_met(chose, parts[0], time_s),
        checked=_met(others, parts[1], time_s),
    )


def _left(samples: Samples, least: list[float]) -> np.ndarray:
    exits = decide(samples.confidences, least, samples.exits) if least else np.ones(len(samples), dtype=np.int64)
    return np.equal.outer(np.arange(1, samples.exits + 1), exits)


def _met(samples: Samples, left: np.ndarray, time_s: np.ndarray) -> TargetFigures:
    return TargetFigures(
        len(samples), float((left * time_s[:, None]).sum() / len(samples)), float(samples.correct[left.T].mean())
    )
