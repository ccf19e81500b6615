"""How the parameters of policies are written: readers from text to the numbers that a decision gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...formats import InputError, parse_duration, read_number

ReadParameter = Callable[[str, "float | None"], float]
"""Reads a parameter from its text, given the SLO in seconds where there is one for all requests."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a policy.

    Attributes
    ----------
    name : str
        As the user writes it.
    default : str
        Its text if the user does not write it.
    read : callable
        From text to the number that ``decide`` gets.
    """

    name: str
    default: str
    read: ReadParameter


def duration(name: str, shares: Mapping[str, float] | None = None) -> ReadParameter:
    """A reader of durations, in seconds; ``shares`` are letters for shares of the SLO."""
    letters = dict(shares or {})

    def read(text: str, slo_s: float | None) -> float:
        if text not in letters:
            return parse_duration(text, f"policy: {name}", zero=True)
        if slo_s is None:
            raise InputError(
                f"policy: {name}={text} is a share of the SLO, but no SLO holds for all requests; give one (slo), "
                f"or a duration, e.g. {name}=20ms"
            )
        return letters[text] * slo_s

    return read


timeout = duration("timeout", {"S": 0.05, "M": 0.45, "L": 0.95})
"""Reader of the parameter ``timeout``: a duration, or a letter for a share of the SLO (Fluid Batching, Section IV)."""


def choice(name: str, *options: str) -> ReadParameter:
    """A reader of one of several words, as its index."""

    def read(text: str, _: float | None) -> float:
        if text not in options:
            raise InputError(f'policy: {name}: expected {" or ".join(options)}, found "{text}"')
        return float(options.index(text))

    return read


def at_least(name: str, least: float, *, whole: bool = False) -> ReadParameter:
    """A reader of numbers from ``least`` on, infinity included; only of whole ones, if asked for."""
    kind = "a whole number" if whole else "a number"

    def read(text: str, _: float | None) -> float:
        try:
            value = read_number(text)
        except ValueError:
            value = math.nan
        if not value >= least or (whole and value % 1 > 0):
            raise InputError(f'policy: {name}: expected {kind} >= {least:g} or inf, found "{text}"')
        return value

    return read
