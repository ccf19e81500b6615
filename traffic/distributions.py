"""Distributions of what requests ask for: latency objectives, accuracies."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..formats import InputError, parse_duration, read_number
from ..formats.array_types import Floats
from .columns import Number
from .shares import Shares, read_shares

FORMS = {
    "uniform": ("LOW,HIGH", 2),
    "normal": ("MEAN,DEVIATION,LOW,HIGH", 4),
    "list": ("VALUE,...", None),
    "shares": ("VALUE=SHARE,...", None),
}
"""Distributions: how their values are written, and how many there are; ``shares`` are :class:`.shares.Shares`."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution: ``uniform``; ``normal``, cut off at low and high; ``list``, whose values are equally probable."""

    form: str
    values: tuple[float, ...]  # as in FORMS

    @property
    def single(self) -> float | None:
        """The value that all requests have, if there is only one."""
        return self.values[0] if self.form == "list" and len(set(self.values)) == 1 else None

    def draw(self, generator: np.random.Generator, count: int, /) -> Floats:
        """Draw values."""
        if self.form == "uniform":
            low, high = self.values
            return generator.uniform(low, high, count)
        if self.form == "list":
            return np.array(self.values)[generator.integers(len(self.values), size=count)]
        mean, deviation, low, high = self.values
        return np.clip(generator.normal(mean, deviation, count), low, high)


Objective = float | Distribution | Shares
"""A latency objective (SLO) in seconds that all requests share, or the distribution of their own ones."""


def parse_distribution(
    text: str, what: str, *, bounds: Number, example: str, durations: bool = False
) -> Distribution | Shares:
    """Read a distribution of numbers, or of durations, within bounds."""
    low, high = bounds.low, bounds.high

    def number(value: str) -> float:
        written = value.strip()
        if durations:
            return parse_duration(written, what, zero=True)
        try:
            return read_number(written)
        except ValueError:
            raise InputError(f'{what}: expected numbers from {low:g} to {high:g}, found "{written}"') from None

    match = re.fullmatch(r"\s*(?:(\w+):)?(.*)", text, re.DOTALL)
    assert match is not None
    form, listed = match[1] or "list", match[2].split(",")
    count = FORMS.get(form, ("", None))[1]
    if form not in FORMS or (count is not None and len(listed) != count):
        known = ", ".join(f"{name}:{shape}" for name, (shape, _) in FORMS.items())
        raise InputError(f'{what}: expected {known} or a value, found "{text}"; e.g. {example}')
    if form == "shares":
        drawn: Distribution | Shares = read_shares(match[2], what, example, number)
    else:
        drawn = Distribution(form, tuple(map(number, listed)))
    values = drawn.values
    limits = values if form != "normal" else values[2:]
    wrong = [value for value in limits if not low <= value <= high]
    if wrong:
        raise InputError(f"{what}: expected values from {low:g} to {high:g}, found {wrong[0]:g}")
    if form in ("uniform", "normal") and limits[0] > limits[1]:
        raise InputError(f"{what}: expected LOW <= HIGH, found {limits[0]:g} and {limits[1]:g}")
    if form == "normal" and not (np.isfinite(values[0]) and 0 <= values[1] < np.inf):
        raise InputError(f"{what}: expected a mean and a deviation >= 0, found {values[0]:g} and {values[1]:g}")
    return drawn
