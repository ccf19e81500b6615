"""Answers of a network with exits, drawn where they have not been measured.

Confidence and correctness follow from the margin between the ability of an exit and the difficulty of a sample.  The
parameters were calibrated by figures of PAME, which publishes no log (``docs/exits.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats
from .measures import Measure
from .randomness import ANSWERS, stream
from .samples import MAX_VALUES, Samples

SCALE = 11
"""Candidates of the networks by which the presets were calibrated; candidates of other networks are spread over the
same depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerModel:
    """Parameters of the model."""

    # candidate, counted as if there were eleven, at which accuracy is half-way between lowest and highest, x0
    half_depth: float
    steepness: float  # candidates over which accuracy grows, s
    lowest: float  # accuracy that the curve of the candidates begins and ends with, lo and hi
    highest: float
    final: float  # accuracy at the end of the network
    noise: float  # standard deviation of the luck of a sample beside its difficulty, sigma
    shared: float  # share of its variance that all exits have in common, rho
    sureness: float  # growth of confidence with the margin, kc
    doubt: float  # standard deviation of the noise of confidence, nc
    wrong_margin: float  # factor of the margin of wrong answers; below 1, they are less sure than right ones
    classes: int  # classes of answers, C; the lowest confidence is 1/C


PRESETS = {
    "imagenet": AnswerModel(
        half_depth=3.73, steepness=0.316, lowest=0.189, highest=0.758, final=0.774, noise=0.618, shared=0.551,
        sureness=1.214, doubt=0.461, wrong_margin=1.13, classes=1000,
    ),
    "glue": AnswerModel(
        half_depth=4.957, steepness=0.951, lowest=0.554, highest=0.908, final=0.91, noise=0.307, shared=0.9,
        sureness=1.598, doubt=0.123, wrong_margin=0.992, classes=2,
    ),
    "qnli": AnswerModel(
        half_depth=4.768, steepness=0.412, lowest=0.525, highest=0.895, final=0.91, noise=0.706, shared=0.597,
        sureness=1.612, doubt=0.145, wrong_margin=0.659, classes=2,
    ),
}  # fmt: skip
"""ImageNet on ResNet-101; the tasks of GLUE that have two exits, and QNLI alone, on BERT-base."""


def accuracies(model: AnswerModel, candidates: int) -> Floats:
    """Accuracy at each candidate and at the end."""
    depth = np.arange(1, candidates + 1) * (SCALE + 1) / (candidates + 1)
    curve = model.lowest + (model.highest - model.lowest) / (1 + np.exp(-(depth - model.half_depth) / model.steepness))
    return np.append(curve, model.final)


def draw_answers(
    model: AnswerModel,
    candidates: int,
    count: int,
    seed: int,
    *,
    values: int = 1,
    difficulty: float = 0.0,
    overconfidence: float = 0.0,
) -> Samples:
    """Draw the answers of a network."""
    limits = {"candidates": (candidates, 1, 1000), "count": (count, 1, 10**8), "values": (values, 1, 10**6)}
    faults = [
        f"{name}: expected {low} to {high:,}, found {given:,}"
        for name, (given, low, high) in limits.items()
        if not low <= given <= high
    ]
    if not -10 <= difficulty <= 10:
        faults.append(f"difficulty: expected -10 to 10, found {difficulty:g}")
    if not faults and count > (most := MAX_VALUES // ((candidates + 1) * values)):
        faults = [f"count: expected at most {most:,} samples of {candidates + 1} exits and {values} values each"]
    if faults:
        raise InputError(faults)
    random = stream(seed, ANSWERS)
    right_share = accuracies(model, candidates)
    able = np.array([NormalDist().inv_cdf(share) for share in right_share]) * math.sqrt(1 + model.noise**2)
    hard = random.normal(difficulty, 1.0, count)[:, None]
    common = random.normal(size=count)[:, None]
    confidences = np.empty((count, candidates + 1, values))
    scores = np.empty((count, candidates + 1))
    for place in range(candidates + 1):
        own = random.normal(size=(count, values))
        luck = model.noise * (math.sqrt(model.shared) * common + math.sqrt(1 - model.shared) * own)
        margin = able[place] - hard + luck
        right = margin > 0
        sure = np.abs(margin) * np.where(right, 1.0, model.wrong_margin) + model.doubt * random.normal(size=own.shape)
        floor = 1 / model.classes
        confidence = floor + (1 - floor) * -np.expm1(-model.sureness * np.maximum(sure + overconfidence, 0.0))
        confidences[:, place] = -np.sort(-confidence, axis=1)
        scores[:, place] = right.mean(axis=1)
    return Samples(confidences[:, :, 0], scores == 1) if values == 1 else Samples(confidences, scores)


def as_measured(samples: Samples, measure: Measure, classes: int) -> Samples:
    """The same samples with another measure: of answers whose other classes are all equally probable."""
    return replace(
        samples, confidences=measure.to_array(measure.of_largest(samples.confidences, classes)), measure=measure
    )
