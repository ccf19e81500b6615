"""Request traces: the CSV that a simulation replays (``docs/file-formats.md``)."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from ..formats import AnyPath, brief, first_rows, write_file
from ..formats.array_types import Bools, Floats, Ints
from .measures import CONFIDENCE, Measure
from .request_columns import REQUEST_COLUMNS

_SAME_TIME_S = 1e-12
"""A trace of a shorter span has no rate, which would overflow."""

_EQUAL_GAPS_CV = 1e-9
"""Gaps of a smaller coefficient of variation differ only by the rounding of their times."""

PIECE = 2**12
"""Rows that are written at a time; more would not stay in the processor's caches."""

_PLAIN = 1e-4, 1e16
"""Numbers from the first and below the second have no exponent, in Python as in JSON."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival.

    Attributes
    ----------
    request_id : (N,) ndarray of int64
        Unique.
    arrival_s : (N,) ndarray of float64
        Seconds from time zero, not decreasing.
    exits : (N,) ndarray of int64, optional
        1-based exit at which each request leaves.
    confidences : (N, C) ndarray of float64, optional
        How sure the answers at exits 1..C are, as ``measure`` is held in arrays.
    slo_s : (N,) ndarray of float64, optional
        Latency objective of each request in seconds.
    correct : (N, E) ndarray of bool or float64, optional
        Whether the answer at exits 1..E is right; scores in [0, 1] if the requests drew samples of a dense task.
    source : str or Path, optional
        The file that the requests came from, for faults.
    steps : (N,) ndarray of int64, optional
        Runs of the last stage for each request that reaches it, where it repeats: words that a decoder writes.
    width : (N,) ndarray of float64, optional
        Width of each request, e.g. the length of its sequence.
    predicted_depth, predicted_width : (N,) ndarray of float64, optional
        Predictions on arrival: of the exit, or of the steps if the last stage repeats; and of the width.
    min_accuracy : (N,) ndarray of float64, optional
        Accuracy that each request asks for, in [0, 1].
    network : (N,) ndarray of str, optional
        Name of the network that each request is for, where several are served.
    admitted_with : (N,) ndarray of int64, optional
        Id of the first of the requests that arrive together with each, and are admitted with it or not at all.
    measure : Measure
        The measure of ``confidences``.
    drawn_from : mapping of str to str
        The file of samples from which attributes were drawn, by their names.
    """

    request_id: Ints
    arrival_s: Floats
    exits: Ints | None = None
    confidences: Floats | None = None
    slo_s: Floats | None = None
    correct: Bools | Floats | None = None
    source: Path | None = None
    steps: Ints | None = None
    width: Floats | None = None
    predicted_depth: Floats | None = None
    predicted_width: Floats | None = None
    min_accuracy: Floats | None = None
    network: NDArray[np.str_] | None = None
    admitted_with: Ints | None = None
    measure: Measure = CONFIDENCE
    drawn_from: Mapping[str, str] = dataclasses.field(default_factory=dict)

    __repr__ = brief
    _repr_html_ = first_rows

    def __len__(self) -> int:
        return len(self.arrival_s)

    def file_of(self, column: str) -> str:
        """The file that an attribute came from, for faults."""
        return self.drawn_from.get(column) or str(self.source or "trace")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The attributes that are known and have an entry for each request."""
        values = {column.name: getattr(self, column.name) for column in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def at(self, rows: slice | Ints) -> Trace:
        """Some of the requests, in their order."""
        given: dict[str, Any] = {name: values[rows] for name, values in self.arrays().items()}
        return dataclasses.replace(self, **given)

    def first(self, count: int) -> Trace:
        """The first requests."""
        return self.at(slice(count))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns that are known, by their names in a file."""
        columns: dict[str, NDArray[Any]] = {"request_id": self.request_id, "arrival_s": self.arrival_s}
        if self.exits is not None:
            columns["exit"] = self.exits
        if self.confidences is not None:
            columns |= {
                f"{self.measure.name}_{i}": column
                for i, column in enumerate(self.measure.to_file(self.confidences).T, 1)
            }
        if self.correct is not None:
            columns |= {f"correct_{i}": column for i, column in enumerate(self.correct.T, 1)}
        stated = {column.name: getattr(self, column.name) for column in REQUEST_COLUMNS}
        stated |= {"admitted_with": self.admitted_with, "network": self.network}
        return columns | {name: values for name, values in stated.items() if values is not None}

    @property
    def firsts(self) -> Ints:
        """The place of the first of the requests that each is admitted with; its own if it comes by itself."""
        places = np.arange(len(self))
        if self.admitted_with is None:
            return places
        begins = np.append(True, self.admitted_with[1:] != self.admitted_with[:-1])[: len(self)]
        return np.maximum.accumulate(np.where(begins, places, 0))

    @property
    def rate_per_s(self) -> float:
        """Mean arrival rate in requests/s between the first and the last arrival; 0 if they coincide."""
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > _SAME_TIME_S else 0.0

    @property
    def at_once(self) -> bool:
        """True if there are several requests, and all arrive at one time."""
        return len(self) > 1 and not self.rate_per_s

    @property
    def gap_cv(self) -> float:
        """Coefficient of variation (standard deviation/mean) of the gaps between arrivals; 0 if all coincide."""
        if not self.rate_per_s:
            return 0.0
        gaps = np.diff(self.arrival_s)
        return float(gaps.std() / gaps.mean())

    @property
    def gap_lag1(self) -> float:
        """Correlation of each gap with the next, -1 to 1; 0 if they differ by rounding only."""
        if self.gap_cv < _EQUAL_GAPS_CV:
            return 0.0
        gaps = np.diff(self.arrival_s)
        gaps -= gaps.mean()
        # sums of numpy, not a product: a linear algebra library adds up in an order that depends on the number of cores
        return float((gaps[1:] * gaps[:-1]).sum() / (gaps * gaps).sum())


def write_trace(trace: Trace, path: AnyPath, *, replace: bool = True) -> None:
    """Write a trace, whole or not at all.

    Parameters
    ----------
    trace : Trace
        Requests.
    path : str or Path
        Destination.
    replace : bool
        Whether an existing file is replaced; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    write_columns(trace.columns(), path, replace=replace)


def write_columns(columns: Mapping[str, NDArray[Any] | list[Any]], path: AnyPath, *, replace: bool) -> None:
    """Write columns as CSV, whole or not at all; a number that is not finite is left empty."""
    arrays = [np.asarray(column) for column in columns.values()]
    write_rows = _text_rows if any(array.dtype.kind == "U" for array in arrays) else _number_rows

    def pieces() -> Iterator[bytes]:
        yield ",".join(columns).encode() + b"\n"
        for start in range(0, len(arrays[0]), PIECE):
            yield write_rows(list(zip(*(_cells(array[start : start + PIECE]) for array in arrays), strict=True)))

    write_file(path, pieces(), replace=replace)


def _number_rows(rows: list[tuple[Any, ...]]) -> bytes:
    """Rows of numbers, four times as fast as the module csv."""
    return to_json(rows)[2:-2].replace(b"],[", b"\n").replace(b'"', b"") + b"\n"


def _text_rows(rows: list[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cells(column: NDArray[Any]) -> list[Any]:
    """Values for JSON: numbers, and as text those that it would write otherwise than Python."""
    if column.dtype.kind == "U":
        return list(column.tolist())
    values: list[Any] = (column.astype(np.int64) if column.dtype == np.bool_ else column).tolist()
    size = np.abs(column)
    for i in np.flatnonzero((size != 0) & ~((size >= _PLAIN[0]) & (size < _PLAIN[1]))).tolist():
        values[i] = repr(values[i]) if math.isfinite(values[i]) else ""
    return values
