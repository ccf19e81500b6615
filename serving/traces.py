"""Request traces: the CSV that a simulation replays (``docs/file-formats.md``)."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, write_file
from .columns import Columns, check_header, split
from .storage import release

MAX_ARRIVAL_S = 1e10
"""Three centuries: a later arrival is a unit gone wrong."""

_COLUMNS = ("request_id", "arrival_s", "exit", "slo_s")
_NO_TRACE = "expected a trace, found no such file; make one with `fluidb trace`"

_SAME_TIME_S = 1e-12
"""Arrivals no further apart coincide: a rate must not overflow."""

_EQUAL_GAPS_CV = 1e-9
"""Gaps of a smaller coefficient of variation differ by the rounding of their times."""

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

    @property
    def gap_cv(self) -> float:
        """Coefficient of variation (standard deviation/mean) of the gaps between arrivals; 0 if all coincide."""
        gaps = np.diff(self.arrival_s)
        return float(gaps.std() / gaps.mean()) if self.rate_per_s else 0.0

    @property
    def gap_lag1(self) -> float:
        """Correlation of each gap with the next, -1 to 1; 0 if they differ by rounding only."""
        gaps = np.diff(self.arrival_s)
        if self.gap_cv < _EQUAL_GAPS_CV:
            return 0.0
        apart = gaps - gaps.mean()
        return float(apart[1:] @ apart[:-1] / (apart @ apart))


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : Path
        A CSV file with the columns ``request_id``, ``arrival_s`` and, where
        known, ``exit``, ``confidence_1``..., ``correct_1``..., ``slo_s``.

    Returns
    -------
    Trace
        Its requests.

    Raises
    ------
    InputError
        If it cannot be read, or a value is missing, no number, out of range,
        unsorted or a duplicate; each fault names its row.
    """
    names, text = split(path, _NO_TRACE, "request")
    confidences, answers = check_header(path, names, _COLUMNS, _COLUMNS[:2], ("confidence", "correct"))
    columns = Columns(path, text)
    request_id = columns.whole("request_id", 0, 2**63 - 1, "a whole number >= 0")
    arrival = columns.real("arrival_s", 0, MAX_ARRIVAL_S, f"seconds >= 0 and <= {MAX_ARRIVAL_S:g}")
    exits = columns.whole("exit", 1, 10**6, "an exit, counted from 1") if "exit" in names else None
    scores = columns.confidences(confidences) if confidences else None
    correct = columns.correct(answers) if answers else None
    slo = columns.real("slo_s", 1e-12, MAX_ARRIVAL_S, "seconds > 0") if "slo_s" in names else None
    if request_id is not None:
        repeated = np.ones(len(request_id), dtype=bool)
        repeated[np.unique(request_id, return_index=True)[1]] = False
        columns.reject(repeated, "request_id", "a new id")
    if arrival is not None:
        early = np.concatenate([[False], arrival[1:] < arrival[:-1]])
        columns.reject(early, "arrival_s", "no earlier arrival than the row before")
    if columns.faults or request_id is None or arrival is None:
        raise InputError(columns.faults)
    return Trace(request_id, arrival, exits, scores, slo, correct)


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
    columns: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {
        "request_id": trace.request_id,
        "arrival_s": trace.arrival_s,
    }
    if trace.exits is not None:
        columns["exit"] = trace.exits
    if trace.confidences is not None:
        columns |= {f"confidence_{i + 1}": column for i, column in enumerate(trace.confidences.T)}
    if trace.correct is not None:
        columns |= {f"correct_{i + 1}": column.astype(np.int64) for i, column in enumerate(trace.correct.T)}
    if trace.slo_s is not None:
        columns["slo_s"] = trace.slo_s
    write_file(path, _csv_pieces(columns), replace=replace)


def _csv_pieces(columns: dict[str, NDArray[np.int64] | NDArray[np.float64]]) -> Iterator[str]:
    """CSV of arrays as :func:`csv_text` writes it, some rows at a time: as text they take ten times the memory."""
    yield csv_text(dict.fromkeys(columns, ()))
    for start in range(0, len(columns["request_id"]), PIECE):
        rows = {name: column[start : start + PIECE].tolist() for name, column in columns.items()}
        yield csv_text(rows).partition("\n")[2]


def csv_text(columns: dict[str, Sequence[object]]) -> str:
    """CSV with a header; floats in the shortest form that reads back the same."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()
