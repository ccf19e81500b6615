"""Measured times of networks or layers on an engine, read from a CSV (docs/your-own.md, An engine)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field

from ...formats import AnyPath, InputError, Strict, did_you_mean, read_text, validate
from ...models.loader import read_network_file
from ...platforms.engine import Engine
from .engine import Needs, needs

TIMES = ("latency_ms", "latency_us", "cycles")
"""Columns for a time; a row has one of them."""


class Measurement(NamedTuple):
    """A measured time of a network, or of a layer of it."""

    network: str
    layer: str | None
    seconds: float
    needs: Needs
    count: int = 1  # rows of the table that it stands for


class _MeasuredRow(Strict):
    """A row of the table. Cells of a CSV are text, therefore numbers are converted here."""

    model_config = ConfigDict(strict=False)

    network: str
    layer: str | None = None
    latency_ms: Annotated[float | None, Field(gt=0, le=1e9)] = None
    latency_us: Annotated[float | None, Field(gt=0, le=1e12)] = None
    cycles: Annotated[float | None, Field(gt=0, le=1e18)] = None
    clock_mhz: Annotated[float | None, Field(gt=0, le=1e6)] = None

    def seconds(self, line: str) -> float:
        """The time, or a fault."""
        stated = [key for key in TIMES if getattr(self, key) is not None]
        if len(stated) != 1:
            raise InputError(
                f"{line}: {', '.join(TIMES)}: expected one of them, found {' and '.join(stated) or 'none'}"
            )
        if self.latency_ms is not None:
            return self.latency_ms / 1e3
        if self.latency_us is not None:
            return self.latency_us / 1e6
        if self.clock_mhz is None or self.cycles is None:
            raise InputError(f"{line}: clock_mhz: expected the clock whose cycles these are, found none")
        return self.cycles / (1e6 * self.clock_mhz)


def read_measurements(path: AnyPath, engine: Engine) -> list[Measurement]:
    """Read measured times of networks or layers on an engine.

    Parameters
    ----------
    path : str or Path
        A CSV with ``network`` and ``latency_ms``, ``latency_us``, or ``cycles`` and ``clock_mhz``; with ``layer``, for
        times of layers; with ``platform``, rows of other engines are left out.  A network is a name, or a TOML
        file beside the CSV; its exits do not count.
    engine : Engine
        The engine.

    Returns
    -------
    list of Measurement
        The rows, in the order of the file.

    Raises
    ------
    InputError
        If it cannot be read, or no row is of this engine, or rows have faults: each has a line.
    """
    reader = csv.DictReader(io.StringIO(read_text(Path(path)).removeprefix("\ufeff"), newline=""), strict=True)
    measured = _MeasuredRows(path, engine)
    try:
        header = reader.fieldnames or ()
        _check_header(path, header)
        for cells in reader:
            line = f"{path}: line {reader.line_num}"
            if None in cells:
                fault = f"{line}: expected {len(header)} values, found {len(header) + len(cells[None])}"
                measured.faults.append(fault)
                continue
            try:
                measured.add(cells, line)
            except InputError as error:
                measured.faults += error.faults
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: expected CSV, found none ({error})") from None
    return measured.checked()


def _check_header(path: AnyPath, header: Sequence[str]) -> None:
    if "network" not in header or not set(TIMES) & set(header):
        raise InputError(
            f"{path}: line 1: expected the columns network, and latency_ms, latency_us, or cycles and clock_mhz, "
            f"found {', '.join(header) or 'nothing'}"
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path}: line 1: expected every column once, found {twice[0]} again")


class _MeasuredRows:
    """The rows of a table as they are read, with their faults."""

    def __init__(self, path: AnyPath, engine: Engine) -> None:
        self.path, self.engine = path, engine
        self.measurements: list[Measurement] = []
        self.faults: list[str] = []
        self.others: set[str] = set()  # engines whose rows are left out
        self.needs: dict[str, Needs] = {}  # of each network
        self.layers: dict[tuple[str, str], Needs] = {}  # of each layer that was measured
        self.refused: set[str] = set()  # networks with a fault that one row has told already
        self.unnamed: dict[str, list[str]] = {}  # faults of rows that name no layer, by network

    def add(self, cells: Mapping[str, str | None], line: str) -> None:
        """Take a row, or tell its fault."""
        if (platform := cells.get("platform") or self.engine.name) != self.engine.name:
            self.others.add(platform)
            return
        stated = {key: cells[key] for key in _MeasuredRow.model_fields if cells.get(key)}
        row = validate(_MeasuredRow, stated, Path(line))
        seconds = row.seconds(line)
        if row.network in self.refused:
            return
        if row.network not in self.needs:
            self.refused.add(row.network)
            self.needs[row.network] = _needs(row.network, Path(self.path), self.engine, line)
            self.refused.remove(row.network)
        need = self.needs[row.network]
        if row.layer is not None:
            place = row.network, row.layer
            if place not in self.layers:
                names = [work.name for work in need.works]
                if row.layer not in names:
                    self.unnamed.setdefault(row.network, []).append(_no_layer(*place, names, line))
                    return
                self.layers[place] = need.of_layer(names.index(row.layer))
            need = self.layers[place]
        self.measurements.append(Measurement(row.network, row.layer, seconds, need))

    def checked(self) -> list[Measurement]:
        """The measurements, or the faults of all rows."""
        for network, (first, *more) in self.unnamed.items():
            hint = f"; {len(more)} more rows of {network} have no layer of it" if more else ""
            self.faults.append(first + hint)
        if self.faults:
            raise InputError(self.faults)
        if not self.measurements:
            rest = f"rows of {', '.join(sorted(self.others))}" if self.others else "none"
            raise InputError(f"{self.path}: expected rows of {self.engine.name}, found {rest}")
        return self.measurements


def _needs(network: str, table: Path, engine: Engine, line: str) -> Needs:
    """The needs of a network without its exits."""
    try:
        file, path = read_network_file(table.parent / network if network.endswith(".toml") else network)
        return needs(file.model_copy(update={"exits": []}), path, engine)
    except InputError as error:
        raise InputError(f"{line}: network: {fault}" for fault in error.faults) from None


def _no_layer(network: str, layer: str, names: Sequence[str], line: str) -> str:
    """The fault of a row that names none of the layers."""
    hint = did_you_mean(layer, names, f"the first is {names[0]}")
    return f'{line}: layer: expected a layer of {network} that takes time, found "{layer}"; {hint}'
