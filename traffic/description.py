"""Description of samples: accuracy and confidence of the answers at every exit, and shares that would leave there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .exits import check_tried
from .measures import CONFIDENCE, Threshold
from .samples import Samples

BINS = 10
"""Ranges of confidence for which the accuracy is compared with the confidence."""


@dataclass(frozen=True, slots=True)
class ThresholdEffect:
    """Samples that leave at an exit with a threshold, if it were the only exit."""

    threshold: Threshold  # confidence or entropy from which a sample leaves
    exit_share: float  # share of the samples that leave
    accuracy: float | None  # accuracy of those


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
    # their means.  A sample has one of the two, or none at the last exit.
    confidence: float | None = None
    entropy: float | None = None
    # mean difference between confidence and accuracy over the ten ranges, weighted by samples (expected calibration
    # error, Guo et al., ICML 2017); ``None`` without confidences
    calibration_error: float | None = None
    calibration: tuple[ConfidenceRange, ...] = ()  # the ranges that hold samples
    thresholds: tuple[ThresholdEffect, ...] = ()  # for each threshold asked for


def describe_samples(samples: Samples, thresholds: Sequence[Threshold], count: int = 1) -> list[ExitDescription]:
    """Describe the answers at every exit."""
    if not 1 <= count <= samples.values:
        raise InputError(f"count: expected 1 to {samples.values}, the principal values of an answer, found {count}")
    check_tried(thresholds, samples.measure)
    found = []
    for exit_ in range(1, samples.exits + 1):
        scores = samples.correct[:, exit_ - 1].astype(np.float64)
        accuracy = float(scores.mean())
        if exit_ > samples.confidences.shape[1]:
            found.append(ExitDescription(accuracy))
            continue
        sure = samples.confidence_at(exit_, count)
        rows = []
        for threshold in thresholds:
            leaves = sure >= samples.measure.least(threshold)
            rows.append(
                ThresholdEffect(threshold, float(leaves.mean()), float(scores[leaves].mean()) if leaves.any() else None)
            )
        mean = float(samples.measure.to_file(sure).mean())
        if samples.measure is not CONFIDENCE:
            found.append(ExitDescription(accuracy, entropy=mean, thresholds=tuple(rows)))
            continue
        ranges = _ranges(sure, scores)
        error = sum(item.samples * abs(item.confidence - item.accuracy) for item in ranges) / len(samples)
        found.append(ExitDescription(accuracy, mean, None, error, ranges, tuple(rows)))
    return found


def _ranges(sure: NDArray[np.float64], scores: NDArray[np.float64]) -> tuple[ConfidenceRange, ...]:
    """The ranges of confidence that hold samples."""
    inside = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    number = np.bincount(inside, minlength=BINS)
    sums = [np.bincount(inside, values, BINS) for values in (sure, scores)]
    return tuple(
        ConfidenceRange(int(n), float(total / n), float(right / n))
        for n, total, right in zip(number, *sums, strict=True)
        if n
    )
