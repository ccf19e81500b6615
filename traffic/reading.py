"""Reading request traces, piece by piece: plain numbers fast, all else with the csv module, every fault by its row."""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from . import storage
from .columns import Columns, check_header, opened, text_rows
from .storage import Growing, release
from .trace import MAX_ARRIVAL_S, Trace

PIECE_BYTES = 2**22
"""Of the file that are read at a time, and up to the end of their last line."""

PIECE_ROWS = 2**14
"""Rows that are read at a time where they are not plain."""

_MISSING = "expected a trace, found no such file; make one with `fluidb trace`"
_HEADER = re.compile(rb'[^"\r\n]*\r?\n')
_PLAIN = b"0123456789.,eE+-\n"

_Spec = tuple[type[Any], float, float, str]
_SPECS: dict[str, _Spec] = {
    "request_id": (np.int64, 0, 2**63 - 1, "a whole number >= 0"),
    "arrival_s": (np.float64, 0, MAX_ARRIVAL_S, f"seconds >= 0 and <= {MAX_ARRIVAL_S:g}"),
    "exit": (np.int64, 1, 10**6, "an exit, counted from 1"),
    "confidence": (np.float64, 0, 1, "a confidence from 0 to 1"),
    "correct": (np.int64, 0, 1, "0 or 1"),
    "slo_s": (np.float64, 1e-12, MAX_ARRIVAL_S, "seconds > 0"),
}
"""Type and bounds of each column, and what a fault says was expected, in the order in which faults are told."""
_FAMILIES = ("confidence", "correct")
_SORTED, _NEW = "no earlier arrival than the row before", "a new id"


class _Reading:
    """A trace while it is read: what was kept of it, and what must be known of the rows before.

    Parameters
    ----------
    path : Path
        The file, for the faults.
    names : list of str
        Its header.
    """

    def __init__(self, path: Path, names: list[str]) -> None:
        known = [name for name in _SPECS if name not in _FAMILIES]
        counts = dict(zip(_FAMILIES, check_header(path, names, known, known[:2], _FAMILIES), strict=True))
        self.path, self.names = path, names
        # by what is kept, the columns that it is made of
        self.parts = {
            name: [f"{name}_{i + 1}" for i in range(counts[name])] if name in counts else [name]
            for name in _SPECS
            if counts.get(name, name in names)
        }
        spec_of = {name: _SPECS[kept] for kept, members in self.parts.items() for name in members}
        self.specs = {name: spec_of[name] for name in names}
        self.kept = {name: Growing(np.bool_ if name == "correct" else _SPECS[name][0]) for name in self.parts}
        self.columns = Columns(path, {})
        self.rows = 0
        self.last_s = -math.inf
        self.last_id = -1
        self.ids_grow = True  # then none stands twice
        self.ragged: str | None = None

    def take_plain(self, piece: bytes) -> bool:
        """Keep whole lines of nothing but numbers, without a fault; ``False`` leaves others to :meth:`take_text`."""
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n")
        if piece.translate(None, _PLAIN) or b"\n\n" in piece or piece.startswith(b"\n"):
            return False
        row = np.dtype([(name, spec[0]) for name, spec in self.specs.items()])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpy's, about whole numbers written as others
                found = np.loadtxt(io.StringIO(piece.decode()), row, delimiter=",", comments=None, ndmin=1)
        except (ValueError, OverflowError, Warning):
            return False
        in_bounds = all(
            found[name].min() >= low and found[name].max() <= high for name, (_, low, high, _) in self.specs.items()
        )
        if not in_bounds or self._early(found["arrival_s"]).any():
            return False
        self._keep({name: found[name] for name in self.names}, len(found))
        return True

    def take_text(self, rows: Iterator[list[str]]) -> None:
        """Keep rows of text, and note their faults."""
        while piece := list(islice(rows, PIECE_ROWS)):
            for number, row in enumerate(piece, self.rows + 1):
                if len(row) != len(self.names) and self.ragged is None:
                    expected = f"expected {len(self.names)} values, found {len(row)}"
                    self.ragged = f"{self.path}: row {number} (line {number + 1}): {expected}"
            if self.ragged is None:
                self._check(dict(zip(self.names, zip(*piece, strict=True), strict=True)), len(piece))
            else:
                self.rows += len(piece)

    def _check(self, text: dict[str, Any], count: int) -> None:
        self.columns.go_on(text, self.rows)
        found: dict[str, NDArray[Any] | None] = {}
        for members in self.parts.values():
            for name in members:
                kind, low, high, expected = self.specs[name]
                if kind is np.int64:
                    found[name] = self.columns.whole(name, int(low), int(high), expected)
                else:
                    found[name] = self.columns.real(name, low, high, expected)
        self.columns.note("", 0, "request_id", _NEW)  # told before the next, found once all are read
        arrival_s = found["arrival_s"]
        early = np.zeros(0, dtype=np.bool_) if arrival_s is None else self._early(arrival_s)
        self.columns.reject(early, "arrival_s", _SORTED)
        self._keep({name: values for name, values in found.items() if values is not None}, count)

    def _early(self, arrival_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        return arrival_s < np.concatenate([[self.last_s], arrival_s[:-1]])

    def _keep(self, found: dict[str, NDArray[Any]], count: int) -> None:
        self.rows += count
        for name, members in self.parts.items():
            whole = [found[member] for member in members if member in found]
            if len(whole) == len(members):
                self.kept[name].append(np.column_stack(whole) if name in _FAMILIES else whole[0])
        if "arrival_s" in found:
            self.last_s = float(found["arrival_s"][-1])
        if "request_id" in found:
            ids = found["request_id"]
            self.ids_grow &= bool(ids[0] > self.last_id and np.all(ids[1:] > ids[:-1]))
            self.last_id = int(ids[-1])

    def finish(self) -> Trace:
        """The trace, if there was no fault."""
        if self.ragged is not None:
            raise InputError(self.ragged)
        held = {name: kept.finish() for name, kept in self.kept.items()}
        if not self.ids_grow and len(held["request_id"]) == self.rows:
            self._check_repeated(held["request_id"])
        if self.columns.faults:
            raise InputError(self.columns.faults)
        return Trace(
            held["request_id"], held["arrival_s"], held.get("exit"), held.get("confidence"), held.get("slo_s"),
            held.get("correct"),
        )  # fmt: skip

    def _check_repeated(self, ids: NDArray[np.int64]) -> None:
        """Note ids that stand twice, looked for among those of equal hash, so many at a time."""
        shares = len(ids) // storage.BLOCK + 1
        again, first = 0, len(ids)
        for share in range(shares):
            rows = []
            for part in storage.blocks(len(ids)):
                hashed = (ids[part].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
                rows.append(np.flatnonzero(hashed % np.uint64(shares) == share) + part.start)
                release(ids)
            among = np.concatenate(rows)
            once = np.unique(ids[among], return_index=True)[1]
            repeated = np.delete(among, once)
            again += len(repeated)
            first = min(first, int(repeated.min(initial=first)))
        if again:
            with opened(self.path, _MISSING) as file:
                text = next(islice(text_rows(file), first + 1, None))[self.names.index("request_id")]
            self.columns.note(self.columns.fault(first, "request_id", _NEW, text), again, "request_id", _NEW)


def _begin(path: Path, file: BinaryIO) -> tuple[_Reading, Iterator[list[str]] | None]:
    """Read the header; the rows below are text if it is not plain, else they are still in the file."""
    line = file.readline()
    rows: Iterator[list[str]] | None = None
    if _HEADER.fullmatch(line):
        header = next(csv.reader([line.decode("utf-8-sig")], strict=True), [])
        found = 1 + bool(file.peek(1))  # type: ignore[attr-defined]
    else:
        file.seek(0)
        text = text_rows(file)
        both = list(islice(text, 2))
        header, found = both[0] if both else [], len(both)
        rows = chain(both[1:], text)
    if found < 2:
        raise InputError(f"{path}: expected a header and at least one request, found {found} lines")
    return _Reading(path, [name.strip() for name in header]), rows


def read_trace(path: Path, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : Path
        A CSV file with the columns ``request_id``, ``arrival_s`` and, where
        known, ``exit``, ``confidence_1``..., ``correct_1``..., ``slo_s``.
    progress : callable, optional
        Called with the bytes that were read, and those of the file.

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
    with opened(path, _MISSING) as file:
        reading, rows = _begin(path, file)
        size = path.stat().st_size
        while rows is None:
            at = file.tell()
            piece = file.read(PIECE_BYTES)
            piece += file.readline()
            if not piece:
                break
            if not reading.take_plain(piece):
                file.seek(at)
                rows = text_rows(file)
            elif progress is not None:
                progress(file.tell(), size)
        if rows is not None:
            reading.take_text(rows)
    return reading.finish()
