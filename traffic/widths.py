"""Draws the widths of requests, and the steps that follow from them, where nobody has recorded any.

The width of a request is the length of its sequence, or the width at which a slimmable network runs it.  The steps are
those of a decoder that runs until the output of the request is complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, read_number

MAX_WIDTH = 10**6
"""A width beyond is no length of a sequence."""

SHARES_SUM = 1e-6
"""Shares may miss a sum of 1 by so much, as they are written with few digits."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Widths whose logarithm is normal, rounded to whole numbers.

    Attributes
    ----------
    mean, sd : float
        Mean and standard deviation of the widths before limits and rounding.
    low, high : float
        Least and greatest width; others are moved there.
    multiple : float
        Widths are then rounded up to multiples of this whole number, as texts are padded.
    """

    mean: float
    sd: float
    low: float = 1.0
    high: float = float(MAX_WIDTH)
    multiple: float = 1.0

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw so many widths."""
        spread = math.log1p((self.sd / self.mean) ** 2)  # variance of the logarithm
        drawn = np.exp(math.log(self.mean) - spread / 2 + math.sqrt(spread) * random.standard_normal(count))
        whole = np.clip(np.rint(drawn), self.low, self.high)
        return np.asarray(np.ceil(whole / self.multiple) * self.multiple)


@dataclass(frozen=True, slots=True)
class Shares:
    """A few widths, each with its share of the requests; shares sum to 1."""

    widths: tuple[float, ...]
    shares: tuple[float, ...]

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw so many widths."""
        below = np.cumsum(self.shares)[:-1]
        return np.array(self.widths)[np.searchsorted(below, random.random(count), side="right")]


@dataclass(frozen=True, slots=True)
class Follow:
    """Steps of a decoder that follow from the width n: ratio n (1 + relative N) + absolute N', rounded.

    N and N' are independent standard normal numbers.

    Attributes
    ----------
    ratio, relative, absolute : float
        See the formula.
    high : float
        Most steps; there is at least one.
    """

    ratio: float = 1.0
    relative: float = 0.0
    absolute: float = 0.0
    high: float = float(MAX_WIDTH)

    def draw(self, random: np.random.Generator, widths: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw the steps of requests of these widths."""
        relative, absolute = random.standard_normal((2, len(widths)))
        steps = self.ratio * widths * (1 + self.relative * relative) + self.absolute * absolute
        return np.asarray(np.clip(np.rint(steps), 1, self.high), dtype=np.int64)


_LOGNORMAL = "lognormal:mean=39,sd=19,low=6,high=256,multiple=8"
_SHARES = "shares:64=0.3,96=0.7"
_FOLLOW = "ratio=1.08,relative=0.205,absolute=1.5,high=103"

Kind = TypeVar("Kind", LogNormal, Follow)


def parse_widths(text: str, what: str = "width") -> LogNormal | Shares:
    """Read a distribution of widths.

    Parameters
    ----------
    text : str
        ``lognormal:mean=,sd=,low=,high=,multiple=`` or ``shares:WIDTH=SHARE,...``.
    what : str
        Name of the option, for the fault.

    Returns
    -------
    LogNormal or Shares
        The distribution.

    Raises
    ------
    InputError
        If the text is none.

    Examples
    --------
    >>> parse_widths("shares:64=0.3,96=0.7").widths
    (64.0, 96.0)
    """
    name, _, rest = text.partition(":")
    if name == "lognormal":
        return _filled(LogNormal, rest, what, _LOGNORMAL)
    if name != "shares":
        raise InputError(f'{what}: expected lognormal:... or shares:..., found "{text}"; write e.g. {_LOGNORMAL}')
    pairs = _pairs(rest, what, _SHARES, lambda key: _positive(key, what, _SHARES))
    if not math.isclose(sum(pairs.values()), 1.0, abs_tol=SHARES_SUM) or max(pairs) > MAX_WIDTH:
        raise InputError(
            f"{what}: expected widths up to {MAX_WIDTH:,} with shares that sum to 1, found a sum of "
            f"{sum(pairs.values()):g} and widths up to {max(pairs):g}; write e.g. {_SHARES}"
        )
    return Shares(tuple(pairs), tuple(pairs.values()))


def parse_steps(text: str, what: str = "steps") -> Follow:
    """Read how steps follow from widths: ``ratio=,relative=,absolute=,high=``, each optional.

    Raises
    ------
    InputError
        If the text says something else.
    """
    return _filled(Follow, text, what, _FOLLOW)


def _filled(kind: type[Kind], text: str, what: str, example: str) -> Kind:
    """A distribution from the parameters that a user wrote."""
    names = [field.name for field in fields(kind)]
    pairs = _pairs(text, what, example, str)
    unknown = sorted(set(pairs) - set(names))
    if unknown:
        raise InputError(f'{what}: unknown parameter "{unknown[0]}"; known: {", ".join(names)}')
    missing = [name for name in ("mean", "sd") if name in names and name not in pairs]
    if missing:
        raise InputError(f"{what}: expected the parameter {missing[0]}, found none; write e.g. {example}")
    found = kind(**pairs)
    limits = {"mean": 1e-3, "low": 1.0, "high": getattr(found, "low", 1.0), "multiple": 1.0}
    for name, value in pairs.items():
        least = limits.get(name, 0.0)
        if not least <= value <= MAX_WIDTH or (name == "multiple" and value % 1):
            raise InputError(f"{what}: {name}: expected {least:g} to {MAX_WIDTH:,}, found {value:g}")
    return found


Key = TypeVar("Key")


def _pairs(text: str, what: str, example: str, read: Callable[[str], Key]) -> dict[Key, float]:
    """Keys and numbers >= 0 from ``key=number,...``."""
    found: dict[Key, float] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f'{what}: expected key=number, found "{item}"; write e.g. {example}')
        name = read(key)
        if name in found:
            raise InputError(f"{what}: expected every key once, found {key} twice")
        found[name] = _positive(value, what, example, zero=True)
    return found


def _positive(text: str, what: str, example: str, *, zero: bool = False) -> float:
    """A finite number above 0, or also 0."""
    try:
        value = read_number(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (value == 0 and not zero):
        raise InputError(f'{what}: expected a number {">=" if zero else ">"} 0, found "{text}"; write e.g. {example}')
    return value
