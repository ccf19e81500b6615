"""Quantities typed by a person: a number and its unit, never a bare number."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping

from .errors import InputError

_DURATION_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_BANDWIDTH_GB_S = {"MB/s": 1e-3, "GB/s": 1.0}
_LEAST, _MOST = 1e-12, 1e9  # a value beyond has a wrong unit
_NUMBER_AND_UNIT = re.compile(r"\s*([0-9.eE+-]*[0-9.])\s*([A-Za-z/%]*)\s*")


def read_number(text: str, kind: type[float] = float) -> float:
    """A number as files and options write it; Python would also read ``1_000`` and digits of other scripts.

    It may be infinite or NaN where it is not whole.

    Examples
    --------
    >>> read_number("1e3")
    1000.0
    """
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return kind(text)


def parse_quantity(text: str, units: Mapping[str, float], what: str, example: str, *, zero: bool = False) -> float:
    """A positive number in one of some units, in the unit that counts 1; the unit ``""`` is none.

    ``what`` and ``example`` are for the fault.

    Examples
    --------
    >>> parse_quantity("5 %", {"%": 1.0}, "share", "10 %")
    5.0
    """
    known = ", ".join(filter(None, units))
    wanted = (
        f"a {'number >= 0' if zero else 'positive number'}{f' and a unit ({known})' if known else ' without a unit'}"
    )
    match = _NUMBER_AND_UNIT.fullmatch(text)
    number = math.nan
    if match:
        with contextlib.suppress(ValueError):
            number = float(match[1])
    if match is None or not 0 <= number < math.inf or (number == 0 and not zero):
        raise InputError(f'{what}: expected {wanted}, found "{text}"; write e.g. {example}')
    if match[2] not in units:
        unit = f'unit "{match[2]}"' if match[2] else "no unit"
        expected = f"a unit ({known})" if known else "no unit"
        raise InputError(f'{what}: expected {expected}, found {unit} in "{text}"; write e.g. {example}')
    value = number * units[match[2]]
    if number and not _LEAST <= value <= _MOST:
        raise InputError(f'{what}: expected {_LEAST:g} to {_MOST:g} in the base unit, found "{text}"; check the unit')
    return value


def parse_duration(text: str, what: str = "duration", *, zero: bool = False) -> float:
    """Seconds in a text such as ``200ms``, which has a unit; 0, where it is allowed, needs none.

    Examples
    --------
    >>> parse_duration("200ms")
    0.2
    """
    if zero and text.strip() == "0":
        return 0.0
    return parse_quantity(text, _DURATION_S, what, "200ms", zero=zero)


def parse_bandwidth(text: str) -> float:
    """Gigabytes (1e9 bytes) a second in a text such as ``4.267GB/s`` or ``500MB/s``.

    Examples
    --------
    >>> parse_bandwidth("3200MB/s")
    3.2
    """
    return parse_quantity(text, _BANDWIDTH_GB_S, "bandwidth", "4.267GB/s")


def parse_numbers(text: str | None, what: str, kind: type[float], example: str) -> list[float]:
    """Numbers in a text such as ``1,2,4``, if one was given; ``what`` and ``example`` are for the fault.

    Examples
    --------
    >>> parse_numbers("1,2,4", "pixels", int, "1,2,4")
    [1, 2, 4]
    """
    try:
        return [] if text is None else [read_number(number, kind) for number in text.split(",")]
    except ValueError:
        numbers = "whole numbers" if kind is int else "numbers"
        raise InputError(f'{what}: expected {numbers} with commas between, found "{text}"; e.g. {example}') from None
