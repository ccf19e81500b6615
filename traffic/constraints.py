"""Distributions of what requests ask for: an accuracy, and a latency objective of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, parse_duration, read_number
from .shares import Shares, read_shares
from .trace import MAX_ARRIVAL_S

FORMS = {
    "uniform": ("LOW,HIGH", 2),
    "normal": ("MEAN,DEVIATION,LOW,HIGH", 4),
    "list": ("VALUE,...", None),
    "shares": ("VALUE=SHARE,...", None),
}
"""Distributions: how their values are written, and how many there are; ``shares`` are :class:`.shares.Shares`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A distribution that constraints are drawn from.

    Attributes
    ----------
    form : str
        ``uniform``, from low to high; ``normal``, with mean and standard deviation, values below low or above high
        replaced by these; ``list``, each value with the same probability.
    values : tuple of float
        Its values, as in :data:`FORMS`.
    """

    form: str
    values: tuple[float, ...]

    @property
    def single(self) -> float | None:
        """The value that all requests have, if there is only one."""
        return self.values[0] if self.form == "list" and len(set(self.values)) == 1 else None

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        """So many values.

        Shapes: returns (count,).
        """
        if self.form == "uniform":
            low, high = self.values
            return generator.uniform(low, high, count)
        if self.form == "list":
            return np.array(self.values)[generator.integers(len(self.values), size=count)]
        mean, deviation, low, high = self.values
        return np.clip(generator.normal(mean, deviation, count), low, high)


def _parse(
    text: str, option: str, read: Callable[[str], float], low: float, high: float, example: str
) -> Constraint | Shares:
    """A distribution of values that ``read`` reads, all of them within bounds."""
    match = re.fullmatch(r"\s*(?:(\w+):)?(.*)", text, re.DOTALL)
    assert match is not None
    form, listed = match[1] or "list", match[2].split(",")
    count = FORMS.get(form, ("", None))[1]
    if form not in FORMS or (count is not None and len(listed) != count):
        known = ", ".join(f"{name}:{shape}" for name, (shape, _) in FORMS.items())
        raise InputError(f'{option}: expected {known} or a value, found "{text}"; e.g. {example}')
    if form == "shares":
        found: Constraint | Shares = read_shares(match[2], option, example, lambda item: read(item.strip()))
    else:
        found = Constraint(form, tuple(read(item.strip()) for item in listed))
    values = found.values
    bounds = values if form != "normal" else values[2:]
    wrong = [value for value in bounds if not low <= value <= high]
    if wrong:
        raise InputError(f"{option}: expected values from {low:g} to {high:g}, found {wrong[0]:g}")
    if form in ("uniform", "normal") and bounds[0] > bounds[1]:
        raise InputError(f"{option}: expected LOW <= HIGH, found {bounds[0]:g} and {bounds[1]:g}")
    if form == "normal" and not (np.isfinite(values[0]) and 0 <= values[1] < np.inf):
        raise InputError(f"{option}: expected a mean and a deviation >= 0, found {values[0]:g} and {values[1]:g}")
    return found


def parse_accuracies(text: str, option: str = "min_accuracy") -> Constraint | Shares:
    """A distribution of accuracies.

    Examples
    --------
    >>> parse_accuracies("uniform:0.75,0.79").values
    (0.75, 0.79)
    """

    def read(item: str) -> float:
        try:
            return read_number(item)
        except ValueError:
            raise InputError(f'{option}: expected numbers from 0 to 1, found "{item}"') from None

    return _parse(text, option, read, 0.0, 1.0, "uniform:0.75,0.79")


def parse_slos(text: str, option: str = "slo") -> Constraint | Shares:
    """A distribution of latency objectives in seconds, written as durations.

    Examples
    --------
    >>> parse_slos("list:10ms,20ms").values
    (0.01, 0.02)
    """

    def read(item: str) -> float:
        return 0.0 if item == "0" else parse_duration(item, option)

    return _parse(text, option, read, 1e-12, MAX_ARRIVAL_S, "uniform:10ms,40ms")
