"""Readers of request traces, and of other files with our own columns.

numpy reads a file of plain numbers, four times as fast as the reader of the importers, which reads every other file and
finds the row of a fault.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import AnyPath, InputError, did_you_mean
from ..formats.array_types import Floats, Ints
from .columns import Column, Name, Number, collect, repeated
from .measures import CONFIDENCE, MEASURES, Measure
from .request_columns import REQUEST_COLUMNS
from .rows import Tally, opened, records, select, tally_of
from .times import MAX_ARRIVAL_S
from .trace import Trace

PIECE_BYTES = 2**22
"""Bytes that are read at a time; the rest of the last line is read too."""

_HEADER = re.compile(rb'[^"\r\n]*\r?\n')
_PLAIN = b"0123456789.,eE+-\n"
_MEMBER = re.compile(r"[1-9][0-9]{0,2}")

CORRECT = Number(np.int64, 0, 1, "0 or 1")
FAMILIES = {**{name: measure.values for name, measure in MEASURES.items()}, "correct": CORRECT}
"""Families of columns, with a column for each exit: ``confidence_1``, ``confidence_2``, ..."""

REQUEST_ID = Number(np.int64, 0, 2**63 - 1, "a whole number >= 0")
EXIT = Number(np.int64, 1, 10**6, "an exit, counted from 1")
COLUMNS = {
    "request_id": REQUEST_ID,
    "arrival_s": Number(np.float64, 0, MAX_ARRIVAL_S, f"seconds >= 0 and <= {MAX_ARRIVAL_S:g}"),
    "exit": EXIT,
    **FAMILIES,
    **{column.name: column.values for column in REQUEST_COLUMNS},
    "admitted_with": REQUEST_ID,
}
"""Columns of numbers, in the order in which their faults are reported."""

NETWORK = Name()


def read_trace(path: AnyPath, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : str or Path
        A CSV file with the columns ``request_id``, ``arrival_s`` and, where known, ``exit``, ``confidence_1``... (or
        another measure), ``correct_1``..., the ``REQUEST_COLUMNS``, ``admitted_with`` and ``network``; ``-`` is
        standard input.
    progress : callable, optional
        Called with the bytes read so far, and the size of the file.

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
    missing = "expected a trace, found no such file; make one with `fluidb trace`"
    with tally_of(Path(path), skip_blank=False, missing=missing) as tally:
        return _trace(tally, progress)


def _trace(tally: Tally, progress: Callable[[int, int], None] | None) -> Trace:
    """The trace of a file, or all of its faults."""
    columns = read_columns(tally, COLUMNS | {"network": NETWORK}, ("request_id", "arrival_s"), progress)
    ids, arrival_s = columns["request_id"], columns["arrival_s"]
    rows = {
        ("request_id", "a new id"): repeated(ids),
        ("arrival_s", "no earlier arrival than the row before"): np.flatnonzero(np.diff(arrival_s) < 0) + 1,
        ("admitted_with", "a new number, or the one of the row before with its arrival and network"): _apart(columns),
    }
    for (name, expected), wrong in rows.items():
        if wrong.size and name not in tally.faults and "" not in tally.faults:
            value = repr(columns[name][wrong[0]].item()).removesuffix(".0")
            fault = f'{name}: expected {expected}, found "{value}"'
            tally.note(int(wrong[0]) + 1, int(wrong[0]) + 2, fault, f"{name} {expected}", wrong.size)
    tally.refuse()
    correct = columns.get("correct")
    confidences, measure = measured(columns)
    stated: dict[str, Any] = {column.name: columns.get(column.name) for column in REQUEST_COLUMNS}
    return Trace(
        ids, arrival_s, columns.get("exit"), confidences, source=tally.path, measure=measure,
        correct=None if correct is None else correct.astype(np.bool_),
        **stated, network=columns.get("network"), admitted_with=columns.get("admitted_with"),
    )  # fmt: skip


def _apart(columns: Mapping[str, NDArray[Any]]) -> Ints:
    """Rows that cannot be admitted with the rows that state the same number."""
    stated = columns.get("admitted_with")
    if stated is None or not len(stated):
        return np.zeros(0, dtype=np.int64)
    same = stated[1:] == stated[:-1]
    other = np.zeros(len(same), dtype=np.bool_)
    for name in ("arrival_s", "network"):
        if name in columns:
            other |= columns[name][1:] != columns[name][:-1]
    begins = np.append(0, np.flatnonzero(~same) + 1)
    return np.sort(np.append(np.flatnonzero(same & other) + 1, begins[repeated(stated[begins])]))


def measured(columns: Mapping[str, NDArray[Any]]) -> tuple[Floats | None, Measure]:
    """The values of a measure as an array, and the measure; ``None`` and confidence if no column has its name."""
    measure = next((measure for name, measure in MEASURES.items() if name in columns), CONFIDENCE)
    return measure.to_array(columns[measure.name]) if measure.name in columns else None, measure


def read_columns(
    tally: Tally,
    known: Mapping[str, Number | Name],
    needed: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Read all columns of a CSV file with a header.  It is opened once, as a pipe has its rows only once."""
    with opened(tally) as tally.held:
        with records(tally) as (header, _):
            members = _members(tally.path, header, known, needed)
        numbers = {name: known[kept] for kept, names in members.items() for name in names}
        typed = {name: kind for name in header if isinstance(kind := numbers[name], Number)}
        plain = _read_plain(tally, typed, progress) if len(typed) == len(header) else None
        if plain is None:
            with records(tally) as (_, rows):
                columns = [Column(name, number.expected, number.parse) for name, number in numbers.items()]
                pieces, _, _ = collect(select(rows, [header.index(name) for name in numbers]), columns, tally)
        else:
            pieces = [[piece[name] for piece in plain] for name in numbers]
    if not tally.faults:
        tally.check(sum(map(len, pieces[0])))
    values = {name: np.concatenate(parts or [np.zeros(0)]) for name, parts in zip(numbers, pieces, strict=True)}
    return {
        kept: np.column_stack([values.pop(name) for name in names]) if kept in FAMILIES else values[kept]
        for kept, names in members.items()
    }


def _members(
    path: Path, header: Sequence[str], known: Mapping[str, Number | Name], needed: Sequence[str]
) -> dict[str, list[str]]:
    """Names of the header by column or family; names that are missing, unknown or repeated are refused."""
    names_of: dict[str, list[str]] = {name: [] for name in known}
    offered = [f"{kept}_1..." if kept in FAMILIES else kept for kept in known]
    if not any(name.partition("_")[0] in FAMILIES or name in known for name in header):
        raise InputError(
            f"{path}: header: expected columns such as {', '.join(needed or offered)}, found "
            f'"{",".join(header)[:60]}"; the first line names the columns, with commas between'
        )
    faults = [f"{path}: header: expected a column {name}, found none" for name in needed if name not in header]
    for name in header:
        family, _, number = name.partition("_")
        kept = family if family in FAMILIES and _MEMBER.fullmatch(number) else name
        if kept in names_of and (kept in FAMILIES) == (kept != name):
            names_of[kept].append(name)
        else:
            hint = did_you_mean(name, offered, f"expected {', '.join(offered)}")
            faults.append(f'{path}: header: unknown column "{name[:40]}"; {hint}')
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    faults += [f'{path}: header: column "{name}" stands twice' for name in twice]
    for family in (name for name in FAMILIES if name in known):
        names = [f"{family}_{i + 1}" for i in range(len(names_of[family]))]
        if set(names) != set(names_of[family]):
            faults.append(f"{path}: header: expected {names[0]} to {names[-1]} without a gap")
        names_of[family] = names
    measures = [name for name in MEASURES if names_of.get(name)]
    if len(measures) > 1:
        faults.append(f"{path}: header: expected columns of one measure, found {' and '.join(measures)}; leave one out")
    if faults:
        raise InputError(faults)
    return {name: names for name, names in names_of.items() if names}


def _read_plain(
    tally: Tally, numbers: Mapping[str, Number], progress: Callable[[int, int], None] | None
) -> list[NDArray[Any]] | None:
    """Pieces of a file of plain numbers without a fault; ``None`` if the file has anything else in it."""
    row = np.dtype([(name, number.kind) for name, number in numbers.items()])
    pieces: list[NDArray[Any]] = []
    with opened(tally) as file:
        size = os.fstat(file.fileno()).st_size
        if not _HEADER.fullmatch(file.readline()):
            return None
        while piece := file.read(PIECE_BYTES) + file.readline():
            rows = _parse_plain(piece.replace(b"\r\n", b"\n"), row)
            if rows is None or any(number.outside(rows[name]).any() for name, number in numbers.items()):
                return None
            pieces.append(rows)
            if progress is not None:
                progress(file.tell(), size)
    return pieces


def _parse_plain(piece: bytes, row: np.dtype[Any]) -> NDArray[Any] | None:
    """Whole lines of plain numbers; ``None`` if there is anything else in them."""
    if piece.translate(None, _PLAIN) or b"\n\n" in piece or piece.startswith(b"\n"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of whole numbers that are written with a point
            return np.loadtxt(io.StringIO(piece.decode()), row, delimiter=",", comments=None, ndmin=1)
    except (ValueError, OverflowError, Warning):
        return None
