"""Columns of a CSV file, checked: every fault names its row."""

from __future__ import annotations

import contextlib
import csv
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_UNREAD = "unread"

_NUMBER = re.compile(r"[1-9][0-9]{0,2}")


class Columns:
    """Columns of a CSV file while they are checked, piece by piece, with the faults found so far.

    Parameters
    ----------
    path : Path
        The file, for the faults.
    columns : dict of str to sequence of str
        Its columns, as text: all rows, or the first piece of them.
    """

    def __init__(self, path: Path, columns: dict[str, Sequence[str]]) -> None:
        self.path = path
        self.text = columns
        self._rows_before = 0
        self._wrong: dict[tuple[str, str], tuple[str, int]] = {}  # by column and kind: first fault, rows that have it

    def go_on(self, columns: dict[str, Sequence[str]], rows_before: int) -> None:
        """Check the next piece, which that many rows stand before."""
        self.text, self._rows_before = columns, rows_before

    @property
    def faults(self) -> list[str]:
        """One line for each column that is wrong, in the order of the checks; what is no number is told first."""
        unread = {column for (column, kind), (_, rows) in self._wrong.items() if rows and kind == _UNREAD}
        return [
            text + (f" (and {rows - 1} more rows)" if rows > 1 else "")
            for (column, kind), (text, rows) in self._wrong.items()
            if rows and (kind == _UNREAD or column not in unread)
        ]

    def reject(self, wrong: NDArray[np.bool_], column: str, expected: str, kind: str = "") -> None:
        """One fault for the first row that is wrong; the others are counted."""
        rows = np.flatnonzero(wrong)
        line = ""
        if rows.size:
            line = self.fault(self._rows_before + int(rows[0]), column, expected, self.text[column][rows[0]])
        self.note(line, rows.size, column, kind or expected)

    def note(self, line: str, rows: int, column: str, kind: str) -> None:
        """One line for so many rows that are wrong; that of an earlier piece stands."""
        before, count = self._wrong.get((column, kind), ("", 0))
        self._wrong[column, kind] = before or line, count + rows

    def fault(self, row: int, column: str, expected: str, text: str) -> str:
        """The line that tells what is wrong in a row, counted from 0."""
        found = f'"{text[:40]}"' if text.strip() else "nothing"
        return f"{self.path}: row {row + 1} (line {row + 2}): {column}: expected {expected}, found {found}"

    def whole(self, column: str, low: int, high: int, expected: str) -> NDArray[np.int64] | None:
        """A column of whole numbers within bounds."""
        text = self.text[column]
        unread = np.zeros(0, dtype=bool)
        try:
            values = np.array([int(item) for item in _plain(text)], dtype=np.int64)
        except (ValueError, OverflowError):
            unread, values = np.array([not _is_whole(item) for item in text]), None
        self.reject(unread, column, expected, _UNREAD)
        if values is not None:
            self.reject((values < low) | (values > high), column, expected)
        return values

    def real(self, column: str, low: float, high: float, expected: str) -> NDArray[np.float64] | None:
        """A column of numbers within bounds; NaN is outside of any."""
        text = self.text[column]
        unread = np.zeros(0, dtype=bool)
        try:
            values = np.array([float(item) for item in _plain(text)])
        except ValueError:
            unread, values = np.array([not _is_real(item) for item in text]), None
        self.reject(unread, column, expected, _UNREAD)
        if values is not None:
            self.reject(~((values >= low) & (values <= high)), column, expected)
        return values

    def confidences(self, count: int) -> NDArray[np.float64]:
        """The columns ``confidence_1`` to ``confidence_count``, side by side; for use if there is no fault."""
        names = [f"confidence_{i + 1}" for i in range(count)]
        return self._beside([self.real(name, 0, 1, "a confidence from 0 to 1") for name in names])

    def correct(self, count: int) -> NDArray[np.bool_]:
        """The columns ``correct_1`` to ``correct_count``, side by side; for use if there is no fault."""
        names = [f"correct_{i + 1}" for i in range(count)]
        return self._beside([self.whole(name, 0, 1, "0 or 1") for name in names]).astype(np.bool_)

    def _beside(self, found: Sequence[NDArray[Any] | None]) -> NDArray[np.float64]:
        rows = len(next(iter(self.text.values())))
        whole = [np.empty((rows, 0)), *(column for column in found if column is not None)]
        return np.column_stack(whole).astype(np.float64)


def _plain(text: Sequence[str]) -> Sequence[str]:
    """The same; Python reads ``1_0`` and the digits of every script as numbers, a trace means neither."""
    joined = "".join(text)
    if "_" in joined or not joined.isascii():
        raise ValueError
    return text


def _is_whole(text: str) -> bool:
    try:
        return -(2**63) <= int(_plain([text])[0]) < 2**63
    except ValueError:
        return False


def _is_real(text: str) -> bool:
    try:
        float(_plain([text])[0])
    except ValueError:
        return False
    return True


def check_header(
    path: Path, names: Sequence[str], known: Sequence[str], needed: Sequence[str], families: Sequence[str]
) -> list[int]:
    """Check the names of columns, and count those of each numbered family.

    Parameters
    ----------
    path : Path
        The file, for the faults.
    names : sequence of str
        What its columns are called.
    known, needed : sequence of str
        Columns that may be there beside the families, and those that must.
    families : sequence of str
        E.g. ``"confidence"`` for ``confidence_1``, ``confidence_2``, ...

    Returns
    -------
    list of int
        Columns of each family.

    Raises
    ------
    InputError
        If a name is missing, unknown or stands twice, or a family has a gap.
    """
    offered = ", ".join([*known, *(f"{family}_1..." for family in families)])
    numbers: dict[str, list[int]] = {family: [] for family in families}
    strangers = []
    for name in names:
        family, _, number = name.partition("_")
        if family in numbers and _NUMBER.fullmatch(number):
            numbers[family].append(int(number))
        elif name not in known:
            strangers.append(name)
    faults = [f"{path}: header: expected a column {name}, found none" for name in needed if name not in names]
    faults += [f'{path}: header: unknown column "{name[:40]}"; expected {offered}' for name in strangers]
    faults += [
        f'{path}: header: column "{name}" stands twice'
        for name in sorted(n for n, count in Counter(names).items() if count > 1)
    ]
    faults += [
        f"{path}: header: expected {family}_1 to {family}_{len(found)} without a gap"
        for family, found in numbers.items()
        if sorted(found) != list(range(1, len(found) + 1))
    ]
    if faults:
        raise InputError(faults)
    return [len(found) for found in numbers.values()]


@contextlib.contextmanager
def opened(path: Path, missing: str) -> Iterator[BinaryIO]:
    """A CSV file to read; what is wrong with it as a file, as text or as CSV becomes one line.

    Parameters
    ----------
    path : Path
        The file.
    missing : str
        The fault if it is not there.

    Raises
    ------
    InputError
        If it is unreadable or no CSV, also while it is read.
    """
    try:
        if stat.S_ISCHR(path.stat().st_mode):
            raise InputError(f"{path}: expected a file, found a device")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: {missing}") from None
    except OSError as error:
        raise InputError(f"{path}: could not be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}") from error
    except csv.Error as error:
        raise InputError(f"{path}: not valid CSV: {error}") from error


def text_rows(file: BinaryIO) -> Iterator[list[str]]:
    """Rows of an open CSV file from where it stands, as text."""
    return csv.reader(_lines(file), strict=True)


def _lines(file: BinaryIO) -> Iterator[str]:
    encoding = "utf-8" if file.tell() else "utf-8-sig"
    for line in file:
        text = line.decode(encoding)
        yield from _LINE.findall(text) if "\r" in text else (text,)
        encoding = "utf-8"


def split(path: Path, missing: str, content: str) -> tuple[list[str], dict[str, Sequence[str]]]:
    """Header and columns of a CSV file, as text.

    Parameters
    ----------
    path : Path
        The file.
    missing, content : str
        The fault if it is not there, and what a row of it is, e.g. ``"request"``.

    Returns
    -------
    names : list of str
        The header.
    columns : dict of str to sequence of str
        What stands below it.

    Raises
    ------
    InputError
        If it is unreadable, no CSV or empty, or its rows differ in length.
    """
    with opened(path, missing) as file:
        rows = list(text_rows(file))
    if len(rows) < 2:
        raise InputError(f"{path}: expected a header and at least one {content}, found {len(rows)} lines")
    names = [name.strip() for name in rows[0]]
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if ragged is not None:
        raise InputError(
            f"{path}: row {ragged} (line {ragged + 1}): expected {len(names)} values, found {len(rows[ragged])}"
        )
    return names, dict(zip(names, zip(*rows[1:], strict=True), strict=True))
