"""Columns of a file: texts are parsed to values, and the rows with faults are noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import read_number
from ..formats.array_types import Bools, Ints
from .rows import Cells, Tally, batches, quoted

Parsed = tuple[NDArray[Any], Bools]
"""Values of some rows, and which of them are bad; the value of a bad row is undefined."""


class Column(NamedTuple):
    """A column that is read."""

    name: str  # in the file
    expected: str  # of its values, for faults
    parse: Callable[[Sequence[str]], Parsed]  # from texts to values


@dataclass(frozen=True, slots=True)
class Number:
    """Numbers within bounds."""

    kind: type[np.int64 | np.float64]
    low: float  # least and greatest value; NaN is outside of any bounds
    high: float
    expected: str  # of its values, for faults

    def hold(self, values: NDArray[Any]) -> bool:
        """Whether no value is out of bounds, without a mask."""
        return values.size == 0 or bool(self.low <= values.min() and values.max() <= self.high)

    def outside(self, values: NDArray[Any]) -> Bools:
        """Mask of values that are out of bounds."""
        return np.asarray(~((values >= self.low) & (values <= self.high)), dtype=np.bool_)

    def parse(self, texts: Sequence[str]) -> Parsed:
        """Values of texts."""
        kind: type[float] = int if self.kind is np.int64 else float
        try:
            values = np.array([read_number(text, kind) for text in texts], dtype=self.kind)
        except (ValueError, OverflowError):  # one by one, to find which texts are bad
            numbers = [_number(text, kind) for text in texts]
            unread = np.array([value is None or not self.low <= value <= self.high for value in numbers])
            values = np.array(
                [0 if bad else value for value, bad in zip(numbers, unread, strict=True)], dtype=self.kind
            )
            return values, unread
        return values, self.outside(values)


@dataclass(frozen=True, slots=True)
class Name:
    """Names: a letter, then letters, digits, ``_``, ``-`` or ``.``."""

    expected: str = "a name of letters, digits, _, - or ., which begins with a letter"

    def fits(self, text: str) -> bool:
        """True for a name."""
        return re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,79}", text) is not None

    def parse(self, texts: Sequence[str]) -> Parsed:
        """Values of texts."""
        return np.array(texts, dtype=np.str_), np.array([not self.fits(text) for text in texts])


def _number(text: str, kind: type[float]) -> float | None:
    try:
        return read_number(text, kind)
    except ValueError:
        return None


def collect(rows: Cells, columns: Sequence[Column], tally: Tally) -> tuple[list[list[NDArray[Any]]], Bools, Ints]:
    """Read columns, and note faults."""
    pieces: list[list[NDArray[Any]]] = [[] for _ in columns]
    used, lines = [np.ones(0, dtype=np.bool_)], [np.zeros(0, dtype=np.int64)]
    for numbers, ends, cells in batches(rows):
        good = np.ones(len(numbers), dtype=np.bool_)
        for column, texts, kept in zip(columns, zip(*cells, strict=True), pieces, strict=True):
            values, bad = column.parse(texts)
            kept.append(values)
            good &= ~bad
            if bad.any():
                first = int(bad.argmax())
                fault = f"{column.name}: expected {column.expected}, found {quoted(texts[first])}"
                tally.note(numbers[first], ends[first], fault, column.name, int(bad.sum()))
        tally.bad += int((~good).sum())
        used.append(good)
        lines.append(np.array(ends, dtype=np.int64))
    return pieces, np.concatenate(used), np.concatenate(lines)


def repeated(ids: Ints) -> Ints:
    """Rows with an id that an earlier row has too, counted from 0, in order."""
    if np.all(ids[1:] > ids[:-1]):
        return np.zeros(0, dtype=np.int64)
    return np.delete(np.arange(len(ids)), np.unique(ids, return_index=True)[1])
