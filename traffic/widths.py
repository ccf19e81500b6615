"""Widths of requests and decoder steps that follow from them, drawn where they have not been recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats, Ints
from .shares import Shares, read_pairs, read_positive, read_shares

MAX_WIDTH = 10**6
"""A width beyond is no length of a sequence."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Widths whose logarithm is normal, rounded to whole numbers."""

    mean: float  # mean and standard deviation of the widths before limits and rounding
    sd: float
    low: float = 1.0  # least and greatest width; others are moved there
    high: float = float(MAX_WIDTH)
    multiple: float = 1.0  # widths are then rounded up to multiples of this whole number, as texts are padded

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """Draw widths."""
        spread = math.log1p((self.sd / self.mean) ** 2)  # variance of the logarithm
        drawn = np.exp(math.log(self.mean) - spread / 2 + math.sqrt(spread) * random.standard_normal(count))
        whole = np.clip(np.rint(drawn), self.low, self.high)
        return np.asarray(np.ceil(whole / self.multiple) * self.multiple)


@dataclass(frozen=True, slots=True)
class Follow:
    """Steps of a decoder that follow from the width n: ratio n (1 + relative N) + absolute N', with normal N and N'."""

    ratio: float = 1.0
    relative: float = 0.0
    absolute: float = 0.0
    high: float = float(MAX_WIDTH)  # most steps; there is at least one

    def draw(self, random: np.random.Generator, widths: Floats) -> Ints:
        """Draw the steps of requests of these widths."""
        relative, absolute = random.standard_normal((2, len(widths)))
        steps = self.ratio * widths * (1 + self.relative * relative) + self.absolute * absolute
        return np.asarray(np.clip(np.rint(steps), 1, self.high), dtype=np.int64)


_LOGNORMAL = "lognormal:mean=39,sd=19,low=6,high=256,multiple=8"
_SHARES = "shares:64=0.3,96=0.7"
_FOLLOW = "ratio=1.08,relative=0.205,absolute=1.5,high=103"

Kind = TypeVar("Kind", LogNormal, Follow)


def parse_widths(text: str, what: str = "width") -> LogNormal | Shares:
    """Read a distribution of widths, e.g. ``shares:64=0.3,96=0.7``."""
    name, _, rest = text.partition(":")
    if name == "lognormal":
        return _filled(LogNormal, rest, what, _LOGNORMAL)
    if name != "shares":
        raise InputError(f'{what}: expected lognormal:... or shares:..., found "{text}"; write e.g. {_LOGNORMAL}')
    shares = read_shares(rest, what, _SHARES, lambda key: read_positive(key, what, _SHARES))
    if max(shares.values) > MAX_WIDTH:
        raise InputError(f"{what}: expected widths up to {MAX_WIDTH:,}, found {max(shares.values):g}")
    return shares


def parse_steps(text: str, what: str = "steps") -> Follow:
    """Read how steps follow from widths: ``ratio=,relative=,absolute=,high=``, each optional."""
    return _filled(Follow, text, what, _FOLLOW)


def _filled(kind: type[Kind], text: str, what: str, example: str) -> Kind:
    """A distribution from the parameters that a user wrote."""
    names = [field.name for field in fields(kind)]
    pairs = read_pairs(text, what, example, str)
    unknown = sorted(set(pairs) - set(names))
    if unknown:
        raise InputError(f'{what}: unknown parameter "{unknown[0]}"; known: {", ".join(names)}')
    missing = [name for name in ("mean", "sd") if name in names and name not in pairs]
    if missing:
        raise InputError(f"{what}: expected the parameter {missing[0]}, found none; write e.g. {example}")
    filled = kind(**pairs)
    limits = {"mean": 1e-3, "low": 1.0, "high": getattr(filled, "low", 1.0), "multiple": 1.0}
    for name, value in pairs.items():
        least = limits.get(name, 0.0)
        if not least <= value <= MAX_WIDTH or (name == "multiple" and value % 1):
            raise InputError(f"{what}: {name}: expected {least:g} to {MAX_WIDTH:,}, found {value:g}")
    return filled
