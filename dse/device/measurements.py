"""Measured times of networks or layers on an engine, read from a CSV (docs/your-own.md, An engine)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from ...formats import AnyPath, InputError, Strict, did_you_mean, read_text, validate
from ...formats.files import as_csv
from ...models.loader import read_backbone_file
from ...models.network import Gemm
from ...models.works import LayerWork
from ...platforms.engine import Engine
from .engine import Needs, needs, needs_of

SHAPE = ("input_height", "input_width", "input_channels", "output_channels")
"""Columns for the sizes of a layer, in place of a network that has it."""

SHORTEST, LONGEST = 1e-12, 1e6
"""Times in seconds that are taken."""

MANY = 4
"""Rows that stand for more times of one thing."""

FAULTS = 10
"""Faults that have a line each."""

Size = Annotated[int, Field(ge=1, le=2**20)]

TIMES = ("latency_ms", "latency_us", "cycles")
"""Columns for a time; a row has one of them."""


class Measurement(NamedTuple):
    """A measured time of a network, or of a layer of it."""

    network: str
    layer: str | None
    seconds: float
    needs: Needs
    repeats: int = 1  # rows of the table that it stands for


class _MeasuredRow(Strict):
    """A row of the table. Cells of a CSV are text, therefore numbers are converted here."""

    model_config = ConfigDict(strict=False)

    network: str
    layer: str | None = None
    latency_ms: Annotated[float | None, Field(gt=0, le=1e9)] = None
    latency_us: Annotated[float | None, Field(gt=0, le=1e12)] = None
    cycles: Annotated[float | None, Field(gt=0, le=1e18)] = None
    clock_mhz: Annotated[float | None, Field(gt=0, le=1e6)] = None
    input_height: Size | None = None
    input_width: Size | None = None
    input_channels: Size | None = None
    output_channels: Size | None = None
    kernel_height: Size = 1
    kernel_width: Size = 1
    stride: Size = 1
    padding: Annotated[int, Field(ge=0, le=4096)] = 0
    groups: Size = 1

    def second(self, line: str) -> float:
        """Seconds for each unit of the column with the time, or a fault."""
        stated = [key for key in TIMES if getattr(self, key) is not None]
        if len(stated) != 1:
            raise InputError(
                f"{line}: {', '.join(TIMES)}: expected one of them, found {' and '.join(stated) or 'none'}"
            )
        if self.cycles is None:
            return 1e-3 if self.latency_us is None else 1e-6
        if self.clock_mhz is None:
            raise InputError(f"{line}: clock_mhz: expected the clock whose cycles these are, found none")
        return 1 / (1e6 * self.clock_mhz)

    @property
    def time(self) -> float:
        """The time in its column."""
        return next(value for value in (self.latency_ms, self.latency_us, self.cycles) if value is not None)

    def work(self, line: str) -> LayerWork | None:
        """The layer that the row describes itself, if it does."""
        stated = {key: getattr(self, key) for key in SHAPE}
        if not any(stated.values()):
            return None
        if None in stated.values() or self.layer is None:
            raise InputError(
                f"{line}: expected layer and all of {', '.join(SHAPE)}, or none of these sizes, found some"
            )
        channels, outputs = (value // self.groups for value in (self.input_channels or 0, self.output_channels or 0))
        if (channels * self.groups, outputs * self.groups) != (self.input_channels, self.output_channels):
            raise InputError(f"{line}: groups: expected a divisor of both channels, found {self.groups}")
        sides = (self.input_height or 0, self.kernel_height), (self.input_width or 0, self.kernel_width)
        height, width = ((side + 2 * self.padding - kernel) // self.stride + 1 for side, kernel in sides)
        if min(height, width) < 1:
            raise InputError(
                f"{line}: kernel_height, kernel_width: expected a window within the padded map, found more"
            )
        gemm = Gemm(height * width, self.kernel_height * self.kernel_width * channels, outputs, self.groups)
        read = (self.input_height or 0) * (self.input_width or 0) * (self.input_channels or 0)
        return LayerWork(
            self.layer, 1, in_head=False, gemm=gemm, window=(self.kernel_height, self.kernel_width),
            stride=(self.stride, self.stride), line=width if width > 1 else height,
            words=read + height * width * (self.output_channels or 0), weights=gemm.P * gemm.C * gemm.groups,
        )  # fmt: skip


def read_measurements(path: AnyPath, engine: Engine) -> list[Measurement]:
    """Read measured times of networks or layers on an engine: a few rows in place of many times of one thing.

    The CSV has ``network`` and ``latency_ms``, ``latency_us``, or ``cycles`` and ``clock_mhz``; with ``layer``, for
    times of layers; with ``platform``, rows of other engines are left out.  A network is a name, or a TOML file beside
    the CSV; its exits do not count.  A layer whose sizes the row states needs neither.
    """
    reader = csv.reader(io.StringIO(read_text(Path(path)).removeprefix("\ufeff"), newline=""), strict=True)
    with as_csv(path, reader):
        header = next(reader, [])
        _check_header(path, header)
        measured = _MeasuredRows(path, engine, header)
        for cells in reader:
            if cells:
                measured.add(cells, reader.line_num)
    return measured.checked()


def _check_header(path: AnyPath, header: Sequence[str]) -> None:
    if "network" not in header or not set(TIMES) & set(header):
        raise InputError(
            f"{path}: line 1: expected the columns network, and latency_ms, latency_us, or cycles and clock_mhz, "
            f"found {', '.join(header) or 'nothing'}"
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path}: line 1: expected every column once, found {twice[0]} again")


class _Read(NamedTuple):
    """A thing that was measured, as its first row says: its other rows differ in the time and its unit only."""

    first: Measurement
    column: int  # of the first time
    second: float  # seconds for each of its units
    seconds: list[float]


class _MeasuredRows:
    """The rows of a table as they are read, with their faults."""

    def __init__(self, path: AnyPath, engine: Engine, header: Sequence[str]) -> None:
        self.path, self.engine, self.header = path, engine, header
        self.same = [at for at, name in enumerate(header) if name in _MeasuredRow.model_fields and name not in TIMES]
        self.same += [at for at, name in enumerate(header) if name == "platform"]
        self.times = [at for at, name in enumerate(header) if name in TIMES]
        self.read: dict[tuple[str, ...], _Read | None] = {}  # by all cells but the time; nothing of another engine
        self.order: list[tuple[_Read, float]] = []
        self.faults: list[str] = []
        self.others: set[str] = set()  # engines whose rows are left out
        self.needs: dict[str, Needs] = {}  # of each network
        self.refused: set[str] = set()  # networks with a fault that one row has told already
        self.unnamed: dict[str, list[str]] = {}  # faults of rows that name no layer, by network

    def add(self, cells: list[str], number: int) -> None:
        """Take a row, or note its fault."""
        if len(cells) == len(self.header):
            key = tuple(cells[at] for at in self.same)
            if key in self.read:
                read = self.read[key]
                if read is None or self._again(read, cells):
                    return
            try:
                self._first(key, cells, f"{self.path}: line {number}")
            except InputError as error:
                self.faults += error.faults
        elif len(cells) > len(self.header):
            expected = f"expected {len(self.header)} values, found {len(cells)}"
            self.faults.append(f"{self.path}: line {number}: {expected}")
        else:
            self.add([*cells, *[""] * (len(self.header) - len(cells))], number)

    def _again(self, read: _Read, cells: list[str]) -> bool:
        """Take another time of the same thing, if it is one that needs no closer look."""
        if any(cells[at] for at in self.times if at != read.column):
            return False
        try:
            seconds = float(cells[read.column]) * read.second
        except ValueError:
            return False
        if not SHORTEST <= seconds <= LONGEST:
            return False
        read.seconds.append(seconds)
        self.order.append((read, seconds))
        return True

    def _first(self, key: tuple[str, ...], cells: list[str], line: str) -> None:
        stated = {name: cell for name, cell in zip(self.header, cells, strict=True) if cell}
        if (platform := stated.get("platform", self.engine.name)) != self.engine.name:
            self.others.add(platform)
            self.read[key] = None
            return
        row = validate(_MeasuredRow, {k: v for k, v in stated.items() if k in _MeasuredRow.model_fields}, Path(line))
        second = row.second(line)
        need = self._need(row, line)
        if need is not None:
            seconds = row.time * second
            if not SHORTEST <= seconds <= LONGEST:
                name = next(name for name in TIMES if getattr(row, name) is not None)
                raise InputError(
                    f"{line}: {name}: expected a time from {SHORTEST:g} s to {LONGEST:g} s, found {seconds:g} s; "
                    "check the unit, and clock_mhz where there are cycles"
                )
            column = next(at for at in self.times if cells[at])
            read = self.read.get(key) or _Read(Measurement(row.network, row.layer, seconds, need), column, second, [])
            read.seconds.append(seconds)
            self.read[key] = read
            self.order.append((read, seconds))

    def _need(self, row: _MeasuredRow, line: str) -> Needs | None:
        """What a row's network or layer needs; ``None`` if its fault is told elsewhere."""
        work = row.work(line)
        if work is not None:
            return needs_of([work], self.engine)
        if row.network in self.refused:
            return None
        if row.network not in self.needs:
            self.refused.add(row.network)
            self.needs[row.network] = _needs(row.network, Path(self.path), self.engine, line)
            self.refused.remove(row.network)
        need = self.needs[row.network]
        if row.layer is None:
            return need
        names = [work.name for work in need.works]
        if row.layer not in names:
            self.unnamed.setdefault(row.network, []).append(_no_layer(row.network, row.layer, names, line))
            return None
        return need.of_layer(names.index(row.layer))

    def checked(self) -> list[Measurement]:
        """The measurements, or the faults of all rows."""
        for network, (first, *more) in self.unnamed.items():
            hint = f"; {len(more)} more rows of {network} have no layer of it" if more else ""
            self.faults.append(first + hint)
        if len(self.faults) > FAULTS:
            self.faults[FAULTS:] = [f"{self.path}: {len(self.faults) - FAULTS} more faults"]
        if self.faults:
            raise InputError(self.faults)
        if not self.order:
            rest = f"rows of {', '.join(sorted(self.others))}" if self.others else "none"
            raise InputError(f"{self.path}: expected rows of {self.engine.name}, found {rest}")
        measurements = []
        done: set[int] = set()
        for read, seconds in self.order:
            if len(read.seconds) <= MANY:
                measurements.append(read.first._replace(seconds=seconds))
            elif id(read) not in done:
                done.add(id(read))
                measurements += _few(read)
        return measurements


def _few(read: _Read) -> list[Measurement]:
    """A few rows in place of many times of one thing: the mean logarithm of each part of them, in their order."""
    parts = np.array_split(np.sort(np.log(read.seconds)), MANY)
    return [read.first._replace(seconds=float(np.exp(part.mean())), repeats=len(part)) for part in parts]


def _needs(network: str, table: Path, engine: Engine, line: str) -> Needs:
    """The needs of a network without its exits."""
    try:
        return needs(*read_backbone_file(table.parent / network if network.endswith(".toml") else network), engine)
    except InputError as error:
        raise InputError(f"{line}: network: {fault}" for fault in error.faults) from None


def _no_layer(network: str, layer: str, names: Sequence[str], line: str) -> str:
    """The fault of a row that names none of the layers."""
    hint = did_you_mean(layer, names, f"the first is {names[0]}")
    return f'{line}: layer: expected a layer of {network} that takes time, found "{layer}"; {hint}'
