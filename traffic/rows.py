"""Rows of a file as text, in batches of bounded size, and a count of the rows that were used, blank or bad."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import shutil
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

from ..formats import InputError, open_input, shown, unreadable
from ..formats.display import counted
from ..formats.files import as_csv, status_of

STANDARD_INPUT = Path("-")

BATCH = 1024
"""Rows in memory as text at a time; with more, the garbage collector takes longer than the parsing."""

MAX_LINE = 2**24
"""The longest line in characters; a file with a longer one is not a list of requests."""


class Fault(NamedTuple):
    """One kind of fault: the first row that has it, the message for that row, and how many rows have it."""

    row: int
    text: str
    rows: int


@dataclass(slots=True)
class Tally:
    """Counts of the rows of a file that were used, blank or bad, and the faults of the bad ones."""

    path: Path  # the file as faults name it
    skip_bad: bool = False  # whether rows that cannot be used are left out rather than refused
    skip_blank: bool = True  # whether rows without content are left out; else they are bad
    missing: str = "expected a file to import, found no such file"  # the message if the file does not exist
    content: str = "request"  # kind of thing that a row describes
    held: BinaryIO | None = None  # the file, if it is open already
    read: int = 0  # all rows that were read; rows without content; rows that cannot be used
    blank: int = 0
    bad: int = 0
    # by kind: the name of the column, or an empty text if the whole row is wrong
    faults: dict[str, Fault] = field(default_factory=dict, repr=False)

    def note(self, row: int, line: int, text: str, kind: str, count: int) -> None:
        """Note that some rows have a fault of a kind; ``row`` is the first of them."""
        before = self.faults.get(kind)
        place = f"line {line}" if row == line else f"row {row} (line {line})"
        first = Fault(row, f"{place}: {text}", count)
        if before is not None:
            first = min(before, first)._replace(rows=before.rows + count)
        self.faults[kind] = first

    def reject(self, row: int, line: int, text: str) -> None:
        """Count a row that cannot be used."""
        self.bad += 1
        self.note(row, line, text, "", 1)

    @property
    def first_bad(self) -> str | None:
        """The first row that cannot be used, and its fault."""
        return min(self.faults.values(), key=lambda fault: fault.row).text if self.faults else None

    @property
    def kept(self) -> int:
        """Rows that are used."""
        return self.read - self.blank - self.bad

    def check(self, kept: int) -> None:
        """Refuse a file with bad rows, unless they may be skipped, and a file without a row that can be used."""
        if self.bad and not self.skip_bad:
            fault = f"{self.first_bad}{more(self.bad)}; mend it, or let such rows be left out (--skip-bad)"
            raise InputError(f"{self.path}: {fault}")
        if not kept:
            rows = f"{counted(self.read, 'row')} ({self.blank:,} blank, {self.bad:,} bad)" if self.read else "no rows"
            raise InputError(f"{self.path}: expected at least one {self.content}, found {rows}")

    def refuse(self) -> None:
        """Refuse a file with faults, with a line for each kind of fault."""
        if self.faults:
            faults = sorted(self.faults.values(), key=lambda fault: fault.row)
            raise InputError(f"{self.path}: {fault.text}{more(fault.rows)}" for fault in faults)


class _Twice:
    """The value of a key that stands twice: nobody knows which value is meant."""

    def __str__(self) -> str:
        return "two values"


_TWICE = _Twice()


def _record(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; Python's own keeps the last value of a key that stands twice."""
    record = dict(pairs)
    if len(record) < len(pairs):
        times = Counter(key for key, _ in pairs)
        record |= {key: _TWICE for key, count in times.items() if count > 1}
    return record


_JSON = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_record)
"""Keeps numbers as the texts that the file has."""

Cells = Iterator[tuple[int, int, list[str]]]
"""Rows: the number of each, from 1 and without the header; the line it ends on; its texts."""

Source = Callable[[Tally, Sequence[str]], Cells]
"""Reads the named columns of a file, and counts rows in the tally."""


def more(rows: int) -> str:
    """Number of rows that have a fault beside the one that a message names."""
    return f" (and {counted(rows - 1, 'more row')})" if rows > 1 else ""


def quoted(text: str) -> str:
    """The text that was found, for a message."""
    return f'"{text[:40]}"' if text.strip() else "nothing"


@contextlib.contextmanager
def tally_of(path: Path, **facts: Any) -> Iterator[Tally]:
    """The tally of a file to read; ``-`` is standard input, which is copied first."""
    if path != STANDARD_INPUT:
        yield Tally(path, **facts)
        return
    with TemporaryFile(prefix="fluidb-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        yield Tally(Path("standard input"), **facts, held=copy)


@contextlib.contextmanager
def opened(tally: Tally) -> Iterator[BinaryIO]:
    """Open a file; errors of the file system and of the encoding become :class:`InputError`, also during reading."""
    path = tally.path
    try:
        if tally.held is not None:
            tally.held.seek(0)
            yield tally.held
            return
        if stat.S_ISCHR(status_of(path).st_mode):
            raise InputError(f"{path}: expected a file, found a device")
        with open_input(path) as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(unpacked)
            else:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: expected a whole file packed by gzip, found another or a damaged one") from None
    except FileNotFoundError:
        raise InputError(f"{path}: {tally.missing}") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}") from error


def lines(tally: Tally) -> Generator[str]:
    """Lines of a text file, one after the other."""
    with opened(tally) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        try:
            while line := text.readline(MAX_LINE):
                if len(line) == MAX_LINE:
                    limit = f"expected lines of at most {MAX_LINE:,} characters, found a longer one"
                    raise InputError(f"{tally.path}: {limit}")
                yield line
        finally:
            text.detach()  # who opened the file closes it


@contextlib.contextmanager
def records(tally: Tally, delimiter: str = ",") -> Iterator[tuple[list[str], Cells]]:
    """Header of a CSV file, and its rows with their numbers and lines; blank and ragged ones go to the tally."""
    with contextlib.closing(lines(tally)) as source:
        reader = csv.reader(source, delimiter=delimiter, skipinitialspace=True, strict=True)

        def read() -> Iterator[list[str]]:
            with as_csv(tally.path, reader):
                yield from reader

        def rows() -> Cells:
            for row, cells in enumerate(texts, 1):
                tally.read = row
                if tally.skip_blank and not any(cells):
                    tally.blank += 1
                elif len(cells) != len(header):
                    tally.reject(row, reader.line_num, f"expected {len(header)} values, found {len(cells)}")
                else:
                    yield row, reader.line_num, cells

        texts = read()
        first = next(texts, None)
        if first is None or not any(first):
            beginning = "an empty file" if first is None else "a blank line"
            raise InputError(f"{tally.path}: expected a header, found {beginning}")
        header = [name.strip() for name in first]
        yield header, rows()


def table(tally: Tally, names: Sequence[str], delimiter: str = ",") -> Cells:
    """Named columns of a CSV file with a header."""
    with records(tally, delimiter) as (header, rows):
        faults = []
        for name in dict.fromkeys(names):
            if name not in header:
                names_there = ", ".join(header)
                faults.append(f'{tally.path}: header: expected a column "{name}", found {names_there[:200]}')
            elif header.count(name) > 1:
                faults.append(f'{tally.path}: header: column "{name}" stands twice')
        if faults:
            raise InputError(faults)
        yield from select(rows, [header.index(name) for name in names])


def select(rows: Cells, wanted: Sequence[int]) -> Cells:
    """Rows with some of their texts, by place in the row."""
    return ((row, line, [cells[i] for i in wanted]) for row, line, cells in rows)


def objects(tally: Tally, names: Sequence[str]) -> Cells:
    """Named keys of a file with one JSON object a line."""
    for number, line in enumerate(lines(tally), 1):
        tally.read = number
        if not line.strip():
            tally.blank += 1
            continue
        record = parse_object(line)
        if record is None:
            tally.reject(number, number, f"expected a JSON object, found {quoted(line.strip())}")
            continue
        wrong = next((name for name in names if not isinstance(record.get(name), str)), None)
        if wrong is None:
            yield number, number, [str(record[name]) for name in names]
        else:
            value = record.get(wrong)
            other = "none" if wrong not in record else "it twice" if value is _TWICE else shown(value)
            tally.reject(number, number, f'expected a number or text under the key "{wrong}", found {other}')


def bare(tally: Tally, _names: Sequence[str]) -> Cells:
    """The one column of a file with a value a line and no header."""
    for number, line in enumerate(lines(tally), 1):
        tally.read = number
        if line.strip():
            yield number, number, [line.strip()]
        else:
            tally.blank += 1


def parse_object(line: str) -> dict[str, object] | None:
    """A JSON object whose numbers stay texts as they are written; ``None`` if the line is no JSON object."""
    try:
        content = _JSON.decode(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def batches(rows: Cells) -> Iterator[tuple[Sequence[int], Sequence[int], Sequence[list[str]]]]:
    """Rows in batches of bounded size: their numbers, their lines and their texts."""
    while piece := list(itertools.islice(rows, BATCH)):
        numbers, ends, cells = zip(*piece, strict=True)
        yield numbers, ends, cells
