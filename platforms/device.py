"""The kind ``device``: a fixed machine, described by a model of its kernels or by measured times."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from ..formats import InputError, Strict, read_text, validate
from .described import Described, plain_name

MAX_BATCH = 256
"""Largest b_max."""

MAX_STAGES = 1000
MAX_CELL_S = 1e6

Seconds = Annotated[float, Field(ge=0, le=MAX_CELL_S)]


Lanes = Annotated[int, Field(ge=1, le=64)]
Load = Annotated[float, Field(gt=0, le=1e6)]


class Device(Described):
    """The keys that both forms of a device have (``docs/add-a-device.md``); its file says which form it is.

    Attributes
    ----------
    lanes : int
        Batches that may run side by side.
    load_full : float, optional
        Share of the device that a very large batch takes.  Batches side by side take longer by the sum of their
        shares, if that is above 1.  Stated if there are several lanes.
    load_half_batch : float
        Batch size that takes half of that share; 0 if every batch takes the same.
    gather_floor_s, gather_s_per_sample : float, optional
        Time to gather the survivors of a batch: a fixed part, and one for each sample.
    wake_up_s : float, optional
        Time until a batch begins on the device after it was idle: its runtime wakes up and launches.
    """

    form: ClassVar[str]
    kind: ClassVar[str] = "device"
    table_made_by: ClassVar[str] = "make its table with `fluidb latency NETWORK {} -o DIR`"
    listed_as: ClassVar[str] = "devices"
    headers: ClassVar[tuple[str, ...]] = ("device", "form", "b_max", "lanes", "")
    no_numbers: ClassVar[set[str]] = Described.no_numbers | {"network", "stages"}

    schema_: Literal["fluidb.device/1"] = Field("fluidb.device/1", alias="schema")
    lanes: Lanes = 1
    load_full: Load | None = None
    load_half_batch: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    gather_floor_s: Seconds | None = None
    gather_s_per_sample: Seconds | None = None
    wake_up_s: Seconds | None = None
    if TYPE_CHECKING:  # each form has its own

        @property
        def b_max(self) -> int: ...  # noqa: D102

    @model_validator(mode="after")
    def _load_of_lanes(self) -> Self:
        if (self.lanes > 1) != (self.load_full is not None):
            raise ValueError("lanes, load_full: expected load_full if there are several lanes, and only then")
        return self

    @classmethod
    def read(cls, data: dict[str, Any], path: Path) -> Any:
        """A device of the form that the file has: measured if it names a table."""
        return Measured.read(data, path) if "table" in data else validate(Analytic, data, path)

    @property
    def row(self) -> tuple[str, ...]:
        """Its main facts as text."""
        return self.name, self.form, str(self.b_max), str(self.lanes), self.title

    @property
    def summary(self) -> str:
        """Its main facts in a line."""
        return f"{self.form}, b = 1..{self.b_max}, lanes: {self.lanes}"

    def load(self) -> list[float] | None:
        """Share of the device that a batch of b takes, for b = 0..b_max; ``None`` if there is one lane."""
        if self.load_full is None:
            return None
        # paper 001, Section 4.2: the larger two batches are, the more they slow each other
        return [0.0, *(self.load_full * b / (b + self.load_half_batch) for b in range(1, self.b_max + 1))]

    def gather_s(self) -> list[float] | None:
        """Time to gather survivors into a batch of b, for b = 0..b_max; ``None`` if the file states no time."""
        floor_s, sample_s = self.gather_floor_s, self.gather_s_per_sample
        if floor_s is None and sample_s is None:
            return None
        return [0.0, *((floor_s or 0.0) + (sample_s or 0.0) * b for b in range(1, self.b_max + 1))]


class Analytic(Device):
    """A device that is described by a model: a kernel takes a fixed time, or a time that grows with its work.

    Attributes
    ----------
    b_max : int
        Largest batch.
    floor_s : float
        Time of a very small product: the time to launch it.
    slope_s_per_mac : float
        Time of one multiply-accumulate in a large product.
    launch_samples : float, optional
        Samples by which every product takes longer than its batch, B0: what a launch costs, in samples.
    batch_multiple : int, optional
        The compiler pads every batch to a multiple of this size.
    bridge_factor : float, optional
        Factor by which the layers of an exit's bridge take longer than the same layers in the backbone.
    check_s : float, optional
        Time of an exit check, after the head of an exit.
    restart_s, move_s_per_sample : float, optional
        Time to start the stage behind an exit: a fixed part, and one for each sample that is moved to it.
    bandwidth_gb_s, word_bits : float and int, optional
        Memory bandwidth and width of a value, for layers that only move data. Without them such layers take no time.
    sources : dict of str to str
        Where each number comes from, by key.
    """

    form: ClassVar[str] = "analytic"

    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    floor_s: Seconds
    slope_s_per_mac: Annotated[float, Field(ge=1e-24, le=1.0)]
    launch_samples: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    batch_multiple: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 1
    bridge_factor: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    check_s: Seconds = 0.0
    restart_s: Seconds = 0.0
    move_s_per_sample: Seconds = 0.0
    bandwidth_gb_s: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    word_bits: Annotated[int, Field(ge=1, le=64)] | None = None
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _bandwidth_of_words(self) -> Self:
        if (self.bandwidth_gb_s is None) != (self.word_bits is None):
            raise ValueError("bandwidth_gb_s, word_bits: expected both or neither")
        return self

    def product_s(self, macs: int, batch: int, *, in_bridge: bool = False) -> float:
        """Time of a matrix product with this many MACs for each sample."""
        samples = math.ceil(batch / self.batch_multiple) * self.batch_multiple + self.launch_samples
        return max(self.floor_s, self.slope_s_per_mac * macs * samples * (self.bridge_factor if in_bridge else 1.0))

    def resume_s(self, batch: int) -> float:
        """Time to start a stage behind an exit with this many samples."""
        return self.restart_s + self.move_s_per_sample * batch

    def memory_s(self, words: int, batch: int) -> float:
        """Time of a layer that only moves data, this many words for each sample."""
        if self.bandwidth_gb_s is None or self.word_bits is None:
            return 0.0
        return words * batch * self.word_bits / 8 / (1e9 * self.bandwidth_gb_s)


class Measured(Device):
    """A device that is described by times that were measured on it, for one network.

    Attributes
    ----------
    table : str
        CSV with the columns stage, batch, seconds; its path starts at the folder of the device's file.
    network : str
        Name of the network that was measured.
    stages : int
        Its stages: one for each exit.
    sources : dict of str to str
        Where each number comes from, by key.
    """

    form: ClassVar[str] = "measured"

    table: str
    network: str
    stages: Annotated[int, Field(ge=1, le=MAX_STAGES)]
    sources: dict[str, str] = {}
    _stage_s: list[list[float]] = PrivateAttr(default_factory=list)

    @classmethod
    def read(cls, data: dict[str, Any], path: Path) -> Self:
        """A device from what its file holds, with the table that it names."""
        found = validate(cls, data, path)
        file = path.parent / found.table
        if not file.is_file():
            raise InputError(f"{path}: table: expected a CSV file of measured times, found none at {file}")
        found._stage_s = _stage_times(file, found.stages)  # noqa: SLF001  (of its own class)
        return found

    @property
    def stage_s(self) -> list[list[float]]:
        """Time of each stage, for b = 1..b_max."""
        return self._stage_s

    @property
    def b_max(self) -> int:
        """Largest batch size that was measured."""
        return len(self._stage_s[0])


def import_times(path: Path, file: Path, network: str, stages: int, name: str | None = None) -> Measured:
    """Make a device from measured times.

    Parameters
    ----------
    path : Path
        CSV with the columns stage, batch, seconds.
    file : Path
        Where the device's file will be written; the path of the CSV starts at its folder.
    network : str
        Name of the network that was measured.
    stages : int
        Its stages.
    name : str, optional
        The device's name; if not given, that of the CSV.

    Returns
    -------
    Measured
        The device.

    Raises
    ------
    InputError
        With a line for every fault of the CSV.
    """
    content = {
        "name": name or plain_name(path.stem),
        "title": f"Times of {network}, measured",
        "table": os.path.relpath(path, file.parent),
        "network": network,
        "stages": stages,
        "sources": {"table": f"measured; imported from {path.name}"},
    }
    return Measured.read(content, file)


class _Time(Strict):
    """A row of a measured table. Cells are text, therefore numbers are converted here."""

    model_config = ConfigDict(strict=False)

    stage: Annotated[int, Field(ge=1, le=MAX_STAGES)]
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    seconds: Annotated[float, Field(gt=0, le=MAX_CELL_S)]


def _stage_times(path: Path, stages: int) -> list[list[float]]:
    """Read times by stage and batch; every fault has a line with its row and column."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    cells: dict[tuple[int, int], float] = {}
    faults: list[str] = []
    try:
        absent = [name for name in _Time.model_fields if name not in (reader.fieldnames or ())]
        if absent:
            raise InputError(
                f"{path}: line 1: expected the columns stage, batch, seconds; found no {', '.join(absent)}"
            )
        for row in reader:
            line = Path(f"{path}: line {reader.line_num}")
            try:
                found = validate(_Time, {name: row[name] for name in _Time.model_fields}, line)
            except InputError as error:
                faults += error.faults
                continue
            if found.stage > stages:
                faults.append(f"{line}: stage: expected at most the {stages} of the device, found {found.stage}")
            elif (found.stage, found.batch) in cells:
                faults.append(f"{line}: stage {found.stage}, batch {found.batch}: expected one row, found a second")
            cells[found.stage, found.batch] = found.seconds
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: expected CSV, found none ({error})") from None
    batches = range(1, max((batch for _, batch in cells), default=1) + 1)
    if not faults:
        pairs = ((stage, batch) for stage in range(1, stages + 1) for batch in batches)
        faults = [f"{path}: stage {i}, batch {b}: expected a row, found none" for i, b in pairs if (i, b) not in cells]
    if faults:
        raise InputError(faults)
    return [[cells[stage, batch] for batch in batches] for stage in range(1, stages + 1)]
