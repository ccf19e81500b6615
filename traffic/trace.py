"""Request traces: the CSV that a simulation replays (``docs/file-formats.md``)."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import write_file
from .storage import Derived, release, total

MAX_ARRIVAL_S = 1e10
"""Three centuries: a later arrival is a unit gone wrong."""

_SAME_TIME_S = 1e-12
"""Arrivals no further apart coincide: a rate must not overflow."""

_EQUAL_GAPS_CV = 1e-9
"""Gaps of a smaller coefficient of variation differ by the rounding of their times."""

_PRODUCTS = 2**21
"""Gaps whose products are added at once; the sums of longer traces are added."""

PIECE = 2**14
"""Rows written at a time."""


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
        Confidence at exits 1..C, in [0, 1].
    slo_s : (N,) ndarray of float64, optional
        Latency objective of each request in seconds.
    correct : (N, E) ndarray of bool, optional
        Whether the answer at exits 1..E is right.
    """

    request_id: NDArray[np.int64]
    arrival_s: NDArray[np.float64]
    exits: NDArray[np.int64] | None = None
    confidences: NDArray[np.float64] | None = None
    slo_s: NDArray[np.float64] | None = None
    correct: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    def first(self, count: int) -> Trace:
        """The first requests."""
        columns = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        given = {name: values[:count] for name, values in columns.items() if values is not None}
        return dataclasses.replace(self, **given)

    def release(self) -> None:
        """Let go of the memory of columns that lie in files."""
        release(*(getattr(self, item.name) for item in dataclasses.fields(self)))

    @property
    def rate_per_s(self) -> float:
        """Mean arrival rate in requests/s between the first and the last arrival; 0 if they coincide."""
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > _SAME_TIME_S else 0.0

    def _gaps(self, compute: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Derived:
        """A figure of each gap between arrivals."""

        def of(part: slice) -> NDArray[np.float64]:
            found = compute(np.diff(self.arrival_s[part.start : part.stop + 1]))
            release(self.arrival_s)
            return found

        return Derived(len(self) - 1, of)

    def _mean_gap_s(self) -> float:
        return total(self._gaps(lambda gaps: gaps)) / (len(self) - 1)

    @property
    def gap_cv(self) -> float:
        """Coefficient of variation (standard deviation/mean) of the gaps between arrivals; 0 if all coincide."""
        if not self.rate_per_s:
            return 0.0
        mean_s = self._mean_gap_s()
        return math.sqrt(total(self._gaps(lambda gaps: (gaps - mean_s) ** 2)) / (len(self) - 1)) / mean_s

    @property
    def gap_lag1(self) -> float:
        """Correlation of each gap with the next, -1 to 1; 0 if they differ by rounding only."""
        if self.gap_cv < _EQUAL_GAPS_CV:
            return 0.0
        mean_s = self._mean_gap_s()
        apart = self._gaps(lambda gaps: gaps - mean_s)
        products = squares = 0.0
        for start in range(0, len(apart), _PRODUCTS):
            found = apart[slice(start, min(start + _PRODUCTS + 1, len(apart)))]
            products += float(found[1:] @ found[:-1])
            squares += float(found[:_PRODUCTS] @ found[:_PRODUCTS])
        return products / squares


def write_trace(trace: Trace, path: Path, *, replace: bool = True) -> None:
    """Write a trace, whole or not at all.

    Parameters
    ----------
    trace : Trace
        Requests.
    path : Path
        Destination.
    replace : bool
        Whether an existing file is replaced; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    write_file(path, _csv_pieces(trace), replace=replace)


def _csv_columns(trace: Trace, part: slice) -> dict[str, Sequence[object]]:
    """Columns of a slice of the requests, as a file has them."""
    columns = {"request_id": trace.request_id[part].tolist(), "arrival_s": trace.arrival_s[part].tolist()}
    if trace.exits is not None:
        columns["exit"] = trace.exits[part].tolist()
    if trace.confidences is not None:
        columns |= {f"confidence_{i + 1}": column.tolist() for i, column in enumerate(trace.confidences[part].T)}
    if trace.correct is not None:
        answers = trace.correct[part].astype(np.int64)
        columns |= {f"correct_{i + 1}": column.tolist() for i, column in enumerate(answers.T)}
    if trace.slo_s is not None:
        columns["slo_s"] = trace.slo_s[part].tolist()
    return columns


def _csv_pieces(trace: Trace) -> Iterator[str]:
    """CSV of a trace, some rows at a time: as text they take ten times the memory."""
    yield csv_text(dict.fromkeys(_csv_columns(trace, slice(0, 0)), ()))
    for start in range(0, len(trace), PIECE):
        yield csv_text(_csv_columns(trace, slice(start, start + PIECE)), header=False)
        trace.release()


def csv_text(columns: dict[str, Sequence[object]], *, header: bool = True) -> str:
    """CSV; floats in the shortest form that reads back the same."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()
