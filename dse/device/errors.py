"""Measured times beside predicted ones, and the interval in which a further network lies (docs/intervals.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Floats
from ...platforms.engine import Engine
from ...rules.quantiles import student_t
from .engine import layer_times
from .measurements import Measurement

CONFIDENCE = 0.9
"""Of the interval in which the time of a further network lies, if nothing else is asked for."""

FEWEST = 3
"""Networks that were not fitted, below which the error is not known."""

WIDEST = 1000
"""Multiple of a predicted time beyond which an end of the interval says nothing."""


class Bound(StrEnum):
    """What takes most of a measured time, as predicted."""

    COMPUTE = "compute"
    MEMORY = "memory"
    START_UP = "start-up"


class RowFit(NamedTuple):
    """A measured time beside the predicted one."""

    network: str
    layer: str | None
    measured_s: float
    predicted_s: float
    held_out: bool
    bound: Bound | None  # none of the sum of several
    computing_s: float  # as predicted; a shorter measured time is of another unit, clock or shape
    moving_s: float  # at the peak bandwidth; a shorter one is of other words or another peak
    repeats: int = 1  # rows of the table that it stands for

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


class LeftOut(NamedTuple):
    """How far rows are off that were not fitted, with some constants."""

    constants: list[str]
    rows: int
    mean: float
    worst: float

    @classmethod
    def of(cls, constants: Sequence[str], rows: Sequence[RowFit]) -> LeftOut:
        """The errors of rows."""
        errors = [abs(row.error) for row in rows]
        weights = [row.repeats for row in rows]
        return cls([*constants], sum(weights), float(np.average(errors, weights=weights)), max(errors))


class TimesError(NamedTuple):
    """Between which multiples of its predicted time a network takes that was not fitted."""

    low: float
    high: float
    confidence: float
    networks: int  # that it was computed from


def judge(row: Measurement, engine: Engine, *, held_out: bool) -> RowFit:
    """A row with its predicted time and what takes most of it."""
    computing, moving = row.needs.cycles / engine.cycles_per_s, row.needs.bytes / engine.bytes_per_s
    begun = len(computing) * engine.layer_s + (engine.inference_s if row.layer is None else 0.0)
    rates = engine.cycles_per_s, engine.bytes_per_s, engine.not_hidden
    times = layer_times(row.needs.cycles, row.needs.bytes, *rates, 0.0)
    parts = {
        Bound.COMPUTE: float(times[computing >= moving].sum()),
        Bound.MEMORY: float(times[computing < moving].sum()),
        Bound.START_UP: begun,
    }
    bound = max(parts, key=lambda part: parts[part])
    least = (
        float(row.needs.cycles.sum() / engine.clock_hz),
        float(row.needs.bytes.sum() / (1e9 * engine.bandwidth_gb_s)),
    )
    return RowFit(row.network, row.layer, row.seconds, sum(parts.values()), held_out, bound, *least, row.repeats)


def by_network(rows: Sequence[RowFit]) -> list[RowFit]:
    """Rows of networks, then for each network with measured layers the sum over them."""
    layers: dict[str, dict[tuple[str, bool], list[RowFit]]] = {}
    for row in rows:
        if row.layer is not None:
            layers.setdefault(row.network, {}).setdefault((row.layer, row.held_out), []).append(row)
    sums = []
    for network, by_layer in layers.items():
        for held_out in (False, True):
            means = [_mean_times(of) for (_, held), of in by_layer.items() if held == held_out]
            if means:
                measured_s, *predicted, moving_s = np.sum(means, axis=0).tolist()
                times = measured_s, predicted[0], held_out, None, predicted[1], moving_s
                sums.append(RowFit(network, f"{len(means)} layers", *times))
    return [row for row in rows if row.layer is None] + sums


def _mean_times(rows: Sequence[RowFit]) -> Floats:
    """The times of a layer, each the mean over its rows."""
    times = np.array([(row.measured_s, row.predicted_s, row.computing_s, row.moving_s) for row in rows])
    return np.average(times, axis=0, weights=[row.repeats for row in rows])


def log_ratios(rows: Sequence[RowFit]) -> dict[str, float]:
    """For each network the logarithm of its measured over its predicted time, the median over its rows.

    A gross time, or a network that was measured often, does not count for more.
    """
    ratios: dict[str, list[float]] = {}
    for row in by_network(rows):
        ratios.setdefault(row.network, []).append(math.log(row.measured_s / row.predicted_s))
    return {network: float(np.median(of)) for network, of in ratios.items()}


def times_error(rows: Sequence[RowFit], confidence: float, *, chose: bool = False) -> TimesError | None:
    """The interval in which the next network lies, from rows that were not fitted; ``None`` if it is not known.

    It is Student's prediction interval of :func:`log_ratios`.  If the same networks ``chose`` the constants, one degree
    of freedom is theirs.
    """
    logs = [*log_ratios(rows).values()]
    count = len(logs)
    if count < FEWEST:
        return None
    degrees = count - 1 - chose
    half = student_t((1 + confidence) / 2, degrees) * float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / count)
    mean = float(np.mean(logs))
    if max(abs(mean - half), abs(mean + half)) > math.log(WIDEST):
        return None
    low, high = (float(f"{math.exp(end):.4g}") for end in (mean - half, mean + half))
    return TimesError(low, high, confidence, count)
