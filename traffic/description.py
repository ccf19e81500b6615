"""Description of samples: how good and how sure the answers at every exit are, and which samples leave there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats
from .exits import check_tried, decide
from .measures import Threshold
from .samples import Samples

BINS = 10
"""Ranges of confidence for which the accuracy is compared with the confidence."""


@dataclass(frozen=True, slots=True)
class ThresholdEffect:
    """Samples that leave at an exit if a threshold holds at every exit."""

    threshold: Threshold  # from which a sample leaves; at the last exit all leave that are left
    exit_share: float  # share of all samples; the shares of all exits sum to 1
    accuracy: float | None  # of the samples that leave


@dataclass(frozen=True, slots=True)
class ConfidenceRange:
    """Samples whose confidence lies in one of ten equal ranges: their number, mean confidence and accuracy."""

    samples: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class ExitDescription:
    """The answers at one exit."""

    accuracy: float  # share of right answers, or the mean score
    mean: float | None = None  # of the measure; at the last exit samples may have none
    # mean difference between confidence and accuracy over the ten ranges, weighted by samples (expected calibration
    # error, Guo et al., ICML 2017); ``None`` of other measures than a confidence
    calibration_error: float | None = None
    calibration: tuple[ConfidenceRange, ...] = ()  # the ranges that hold samples
    thresholds: tuple[ThresholdEffect, ...] = ()  # for each threshold asked for


def describe_samples(samples: Samples, thresholds: Sequence[Threshold], count: int = 1) -> list[ExitDescription]:
    """Describe the answers at every exit."""
    if not 1 <= count <= samples.values:
        raise InputError(f"count: expected 1 to {samples.values}, the principal values of an answer, found {count}")
    measure, last = samples.measure, samples.exits
    check_tried(thresholds, measure)
    columns = [samples.confidence_at(exit_, count) for exit_ in range(1, samples.confidences.shape[1] + 1)]
    sure = np.column_stack(columns[: last - 1]) if columns[: last - 1] else np.empty((len(samples), 0))
    left = [decide(sure, measure.least(threshold), last) for threshold in thresholds]
    described = []
    for exit_ in range(1, last + 1):
        scores = samples.correct[:, exit_ - 1].astype(np.float64)
        effects = [
            _effect(threshold, scores[exits == exit_], len(samples))
            for threshold, exits in zip(thresholds, left, strict=True)
        ]
        about = ExitDescription(float(scores.mean()), thresholds=tuple(effects))
        if exit_ <= len(columns):
            values = columns[exit_ - 1]
            about = replace(about, mean=float(measure.to_file(values).mean()))
            if measure.probability:
                ranges = _ranges(values, scores)
                error = sum(row.samples * abs(row.confidence - row.accuracy) for row in ranges) / len(samples)
                about = replace(about, calibration_error=error, calibration=ranges)
        described.append(about)
    return described


def _effect(threshold: Threshold, scores: Floats, samples: int) -> ThresholdEffect:
    """The effect of a threshold, by the scores of the samples that leave."""
    return ThresholdEffect(threshold, len(scores) / samples, float(scores.mean()) if scores.size else None)


def _ranges(sure: Floats, scores: Floats) -> tuple[ConfidenceRange, ...]:
    """The ranges of confidence that hold samples."""
    inside = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    number = np.bincount(inside, minlength=BINS)
    sums = [np.bincount(inside, values, BINS) for values in (sure, scores)]
    return tuple(
        ConfidenceRange(int(n), float(total / n), float(right / n))
        for n, total, right in zip(number, *sums, strict=True)
        if n
    )
