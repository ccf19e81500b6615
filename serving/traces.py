"""Request traces: the CSV that a simulation replays (``docs/file-formats.md``)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, write_file

MAX_ARRIVAL_S = 1e10
"""Three centuries: a later arrival is a unit gone wrong."""

PIECE = 2**14
"""Rows written at a time."""

_CONFIDENCE = re.compile(r"confidence_([1-9][0-9]{0,2})")


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
    """

    request_id: NDArray[np.int64]
    arrival_s: NDArray[np.float64]
    exits: NDArray[np.int64] | None = None
    confidences: NDArray[np.float64] | None = None
    slo_s: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate_per_s(self) -> float:
        """Mean arrival rate between the first and the last arrival; 0 if they coincide."""
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > 0 else 0.0


class _Columns:
    """Columns of a trace while they are checked, with the faults found so far."""

    def __init__(self, path: Path, columns: dict[str, Sequence[str]]) -> None:
        self.path = path
        self.text = columns
        self.faults: list[str] = []

    def reject(self, wrong: NDArray[np.bool_], column: str, expected: str) -> None:
        """One fault for the first row that is wrong; the others are counted."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            more = f" (and {rows.size - 1} more rows)" if rows.size > 1 else ""
            text = self.text[column][rows[0]]
            found = f'"{text[:40]}"' if text.strip() else "nothing"
            self.faults.append(
                f"{self.path}: row {rows[0] + 1} (line {rows[0] + 2}): {column}: "
                f"expected {expected}, found {found}{more}"
            )

    def whole(self, column: str, low: int, high: int, expected: str) -> NDArray[np.int64] | None:
        """A column of whole numbers within bounds."""
        text = self.text[column]
        try:
            values = np.array([int(item) for item in text], dtype=np.int64)
        except (ValueError, OverflowError):
            self.reject(np.array([not _is_whole(item) for item in text]), column, expected)
            return None
        self.reject((values < low) | (values > high), column, expected)
        return values

    def real(self, column: str, low: float, high: float, expected: str) -> NDArray[np.float64] | None:
        """A column of numbers within bounds; NaN is outside of any."""
        text = self.text[column]
        try:
            values = np.array([float(item) for item in text])
        except ValueError:
            self.reject(np.array([not _is_real(item) for item in text]), column, expected)
            return None
        self.reject(~((values >= low) & (values <= high)), column, expected)
        return values


def _is_whole(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _is_real(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _header(path: Path, names: Sequence[str]) -> int:
    """Check the column names; the number of confidence columns."""
    known = ("request_id", "arrival_s", "exit", "slo_s")
    faults = [f"{path}: header: expected a column {name}, found none" for name in known[:2] if name not in names]
    faults += [
        f'{path}: header: unknown column "{name[:40]}"; expected {", ".join(known)} or confidence_1, confidence_2, ...'
        for name in names
        if name not in known and not _CONFIDENCE.fullmatch(name)
    ]
    faults += [
        f'{path}: header: column "{name}" stands twice' for name in sorted({n for n in names if names.count(n) > 1})
    ]
    confidences = sorted(int(match[1]) for name in names if (match := _CONFIDENCE.fullmatch(name)))
    if confidences != list(range(1, len(confidences) + 1)):
        faults.append(f"{path}: header: expected confidence_1 to confidence_{len(confidences)} without a gap")
    if faults:
        raise InputError(faults)
    return len(confidences)


def _split(path: Path) -> tuple[list[str], dict[str, Sequence[str]]]:
    """Header and columns of a CSV file, as text."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.reader(stream, strict=True))
    except FileNotFoundError:
        raise InputError(f"{path}: expected a trace, found no such file; make one with `fluidb trace`") from None
    except OSError as error:
        raise InputError(f"{path}: could not be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}") from error
    except csv.Error as error:
        raise InputError(f"{path}: not valid CSV: {error}") from error
    if len(rows) < 2:
        raise InputError(f"{path}: expected a header and at least one request, found {len(rows)} lines")
    names = [name.strip() for name in rows[0]]
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if ragged is not None:
        raise InputError(
            f"{path}: row {ragged} (line {ragged + 1}): expected {len(names)} values, found {len(rows[ragged])}"
        )
    return names, dict(zip(names, zip(*rows[1:], strict=True), strict=True))


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : Path
        A CSV file with the columns ``request_id``, ``arrival_s`` and, where
        known, ``exit``, ``confidence_1``..., ``slo_s``.

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
    names, text = _split(path)
    confidences = _header(path, names)
    columns = _Columns(path, text)
    request_id = columns.whole("request_id", 0, 2**63 - 1, "a whole number >= 0")
    arrival = columns.real("arrival_s", 0, MAX_ARRIVAL_S, f"seconds >= 0 and <= {MAX_ARRIVAL_S:g}")
    exits = columns.whole("exit", 1, 10**6, "an exit, counted from 1") if "exit" in names else None
    scores = [columns.real(f"confidence_{i + 1}", 0, 1, "a confidence from 0 to 1") for i in range(confidences)]
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
    table = np.column_stack([score for score in scores if score is not None]) if scores else None
    return Trace(request_id, arrival, exits, table, slo)


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace, whole or not at all.

    Parameters
    ----------
    trace : Trace
        Requests.
    path : Path
        Destination.

    Raises
    ------
    InputError
        If the file system refuses.
    """
    columns: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {
        "request_id": trace.request_id,
        "arrival_s": trace.arrival_s,
    }
    if trace.exits is not None:
        columns["exit"] = trace.exits
    if trace.confidences is not None:
        columns |= {f"confidence_{i + 1}": column for i, column in enumerate(trace.confidences.T)}
    if trace.slo_s is not None:
        columns["slo_s"] = trace.slo_s
    write_file(path, _csv_pieces(columns))


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
