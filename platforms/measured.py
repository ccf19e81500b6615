"""The form of a device that was measured: a CSV with the times of a network's stages, and a CSV of gathers."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, PrivateAttr

from ..formats import InputError, Strict, is_input, read_text, validate
from ..formats.files import as_csv
from . import triton
from .by_stage import TimedDevice, Width
from .detect import READ
from .device import MAX_BATCH, MAX_CELL_S, MAX_STAGES
from .platform import NAME

NO_WIDTH, EVERY_STAGE = 0.0, -1
"""Values for columns that a file does not have."""

Cells = dict[tuple[float, ...], float]
"""Seconds by stage and batch size, and by width if it is a stage that takes them."""


class MeasuredDevice(TimedDevice):
    """A device that is described by times that were measured on it, for one network."""

    form: ClassVar[str] = "measured"

    table: str  # CSV with stage, batch, seconds, and width where times depend on it; relative to the device's file
    # CSV with batch, seconds, and stage where they differ: that before the gather, 0 at the input
    gather_table: str | None = None
    stages: Annotated[int, Field(ge=1, le=MAX_STAGES)]  # of the network, one for each exit
    sources: dict[str, str] = {}
    _times: Cells = PrivateAttr(default_factory=dict)
    _gathers: list[list[float]] | None = PrivateAttr(default=None)

    @classmethod
    def read(cls, data: dict[str, Any], path: Path) -> Self:
        """A device from what its file holds, with the tables that it names."""
        device = validate(cls, data, path)
        device._times = _stage_times(_beside(path, "table", device.table), device.stages)  # noqa: SLF001  (of its own class)
        if device.gather_table is not None:
            if (device.gather_floor_s, device.gather_s_per_sample) != (None, None):
                raise InputError(
                    f"{path}: gather_table: expected no gather_floor_s and gather_s_per_sample beside it, found some"
                )
            file = _beside(path, "gather_table", device.gather_table)
            device._gathers = _gather_times(file, device.stages, device.b_max)  # noqa: SLF001  (of its own class)
        return device

    @classmethod
    def of(cls, content: dict[str, Any], stage_s: list[list[float]]) -> Self:
        """A device whose CSV is still to be written, from its keys and the times by stage and batch size."""
        device = validate(cls, content, Path("device"))
        device._times = {  # noqa: SLF001  (of its own class)
            (stage, batch, NO_WIDTH): seconds
            for stage, row in enumerate(stage_s, 1)
            for batch, seconds in enumerate(row, 1)
        }
        return device

    @property
    def stage_count(self) -> int:
        """Stages of the network."""
        return self.stages

    @property
    def b_max(self) -> int:
        """Largest batch size that was measured."""
        return int(max(batch for _, batch, _ in self._times))

    @property
    def widest_first(self) -> list[float] | None:
        """Widths that were measured, in the order of a latency table."""
        return sorted({width for *_, width in self._times if width != NO_WIDTH}, reverse=True) or None

    @property
    def times_s(self) -> list[list[list[float]]]:
        """Time by width (the widest first; one if there are none), stage and batch size b = 1..b_max."""
        batches, stages, widths = range(1, self.b_max + 1), range(1, self.stages + 1), self.widest_first or [NO_WIDTH]
        return [[[self._times[stage, b, width] for b in batches] for stage in stages] for width in widths]

    def gathers_s(self, stages: int) -> list[list[float]] | None:
        """Time to gather, by stages that have run and by batch size b = 0..b_max; ``None`` if nothing states it."""
        return super().gathers_s(stages) if self._gathers is None else self._gathers


def import_times(
    path: Path, file: Path, network: str, stages: int, name: str | None = None, gathers: Path | None = None
) -> MeasuredDevice:
    """Make a device from measured times."""
    tables = {"table": path} | ({} if gathers is None else {"gather_table": gathers})
    content: dict[str, Any] = {
        "name": name or NAME.plain(path.stem),
        "title": f"Times of {network}, measured",
        "network": network,
        "stages": stages,
        **{key: os.path.relpath(table, file.parent) for key, table in tables.items()},
        "sources": {key: f"measured; imported from {table.name}" for key, table in tables.items()},
    }
    if is_input(path) and (description := triton.describe(path)):
        content["sources"]["table"] += f", {description}"
    return MeasuredDevice.read(content, file)


def _beside(path: Path, key: str, table: str) -> Path:
    """A CSV file that a device's file names."""
    file = path.parent / table
    if not is_input(file):
        raise InputError(f"{path}: {key}: expected a CSV file of measured times, found none at {file}")
    return file


class _Time(Strict):
    """The time of a stage. Cells of a CSV are text, therefore numbers are converted here."""

    model_config = ConfigDict(strict=False)

    stage: Annotated[int, Field(ge=1, le=MAX_STAGES)]
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    width: Width = NO_WIDTH
    seconds: Annotated[float, Field(gt=0, le=MAX_CELL_S)]


class _Gather(Strict):
    """The time of a gather behind a stage. Cells of a CSV are text here, too."""

    model_config = ConfigDict(strict=False)

    stage: Annotated[int, Field(ge=0, le=MAX_STAGES)] = EVERY_STAGE
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    seconds: Annotated[float, Field(ge=0, le=MAX_CELL_S)]


def _stage_times(path: Path, stages: int) -> Cells:
    """Times by stage, batch size and width; a table of Triton's tools has times of a whole network."""
    if triton.table_of(triton.header_of(path)) is not None:
        if stages != 1:
            raise InputError(
                f"{path}: expected times of {stages} stages, found {triton.describe(path)}, which is of a whole "
                "network; name a network without exits"
            )
        return {(1, batch, NO_WIDTH): seconds for batch, seconds in triton.batch_times(path).items()}
    cells, columns = _read_times(path, _Time, {"stage": (stages, "of the device")})
    batches = range(1, int(max((batch for _, batch, _ in cells), default=1)) + 1)
    widths = sorted({width for *_, width in cells}) or [NO_WIDTH]
    _complete(path, columns, cells, {"stage": range(1, stages + 1), "batch": batches, "width": widths})
    return cells


def _gather_times(path: Path, stages: int, b_max: int) -> list[list[float]]:
    """Times of gathers by stages that have run and by batch size 0..b_max; 0 at the input if it is not stated."""
    limits = {"stage": (stages - 1, "that a gather can be behind"), "batch": (b_max, "of the times of stages")}
    cells, columns = _read_times(path, _Gather, limits)
    batches, at_input = range(1, b_max + 1), any(stage == 0 for stage, _ in cells)
    behind: Iterable[int] = range(0 if at_input else 1, stages) if "stage" in columns else [EVERY_STAGE]
    _complete(path, columns, cells, {"stage": behind, "batch": batches})
    if "stage" not in columns:
        return [[0.0, *(cells[EVERY_STAGE, batch] for batch in batches)]] * stages
    return [[0.0, *(cells.get((stage, batch), 0.0) for batch in batches)] for stage in range(stages)]


def _read_times(path: Path, model: type[_Time | _Gather], most: dict[str, tuple[int, str]]) -> tuple[Cells, list[str]]:
    """Read times by the axes of a file; ``most`` has the largest value of an axis, and a word for it."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    cells: Cells = {}
    faults: list[str] = []
    with as_csv(path, reader):
        header = reader.fieldnames or ()
        needed = [name for name, field in model.model_fields.items() if field.is_required()]
        if absent := [name for name in needed if name not in header]:
            also = f"; known: {READ}" if model is _Time else ""
            raise InputError(
                f"{path}: line 1: expected the columns {', '.join(needed)}; found no {', '.join(absent)}{also}"
            )
        columns = [name for name in model.model_fields if name in header]
        for row in reader:
            line = f"{path}: line {reader.line_num}"
            try:
                record = validate(model, {name: row[name] for name in columns}, Path(line))
            except InputError as error:
                faults += error.faults
                continue
            place = record.model_dump()
            seconds = place.pop("seconds")
            over = [axis for axis, (limit, _) in most.items() if place[axis] > limit]
            for axis in over:
                limit, of = most[axis]
                faults.append(f"{line}: {axis}: expected at most the {limit} {of}, found {place[axis]}")
            if not over and tuple(place.values()) in cells:
                faults.append(f"{line}: {_label(place, columns)}: expected one row, found a second")
            cells[tuple(place.values())] = seconds
    if faults:
        raise InputError(faults)
    return cells, columns


def _complete(path: Path, columns: list[str], cells: Cells, places: dict[str, Iterable[float]]) -> None:
    """Refuse a table that lacks a place."""
    every = (dict(zip(places, values, strict=True)) for values in product(*places.values()))
    faults = [
        f"{path}: {_label(place, columns)}: expected a row, found none"
        for place in every
        if tuple(place.values()) not in cells
    ]
    if faults:
        raise InputError(faults)


def _label(place: dict[str, float], columns: list[str]) -> str:
    """A place in a table, by the columns that its file has."""
    return ", ".join(f"{axis} {value:g}" for axis, value in place.items() if axis in columns)
