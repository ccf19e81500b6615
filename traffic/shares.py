"""A few values, each with its share of the requests; and pairs of keys and numbers, as users write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..formats import InputError, read_number
from ..formats.array_types import Floats

SHARES_SUM = 1e-6
"""Tolerance of the sum of shares, as they are written with few digits."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Shares:
    """A few values, each with its share of the requests; shares sum to 1."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def single(self) -> float | None:
        """The value that all requests have, if there is only one."""
        return self.values[0] if len(self.values) == 1 else None

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """Draw values."""
        below = np.cumsum(self.shares)[:-1]
        return np.array(self.values)[np.searchsorted(below, random.random(count), side="right")]


def read_shares(text: str, what: str, example: str, read: Callable[[str], float]) -> Shares:
    """Read ``VALUE=SHARE,...``."""
    pairs = read_pairs(text, what, example, read)
    total = sum(pairs.values())
    if not math.isclose(total, 1.0, abs_tol=SHARES_SUM):
        raise InputError(f"{what}: expected shares that sum to 1, found a sum of {total:g}; write e.g. {example}")
    return Shares(tuple(pairs), tuple(pairs.values()))


def read_pairs(text: str, what: str, example: str, read: Callable[[str], Key]) -> dict[Key, float]:
    """Keys and numbers >= 0 from ``key=number,...``."""
    pairs: dict[Key, float] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f'{what}: expected key=number, found "{pair}"; write e.g. {example}')
        name = read(key)
        if name in pairs:
            raise InputError(f"{what}: expected every key once, found {key} twice")
        pairs[name] = read_positive(value, what, example, zero=True)
    return pairs


def read_positive(text: str, what: str, example: str, *, zero: bool = False) -> float:
    """A finite number above 0, or also 0."""
    try:
        value = read_number(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (value == 0 and not zero):
        raise InputError(f'{what}: expected a number {">=" if zero else ">"} 0, found "{text}"; write e.g. {example}')
    return value
