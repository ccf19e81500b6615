"""The kind ``device``: a fixed machine, and the form of it that is a model of its kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .host import Host
from .platform import Platform

MAX_BATCH = 512
"""Largest batch of a latency table."""

MAX_STAGES = 1000
MAX_CELL_S = 1e6

Seconds = Annotated[float, Field(ge=0, le=MAX_CELL_S)]


Lanes = Annotated[int, Field(ge=1, le=64)]
Load = Annotated[float, Field(gt=0, le=1e6)]


def linear_s(floor_s: float | None, sample_s: float | None, b_max: int) -> list[float] | None:
    """A fixed part and one for each sample, for b = 0..b_max; nothing for no samples; ``None`` if neither is stated."""
    if floor_s is None and sample_s is None:
        return None
    return [0.0, *((floor_s or 0.0) + (sample_s or 0.0) * b for b in range(1, b_max + 1))]


class Device(Platform):
    """A device; its attributes are the keys that all forms of device files have (``docs/your-own.md``).

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
    host : Host, optional
        Fixed times of the host for each request.
    """

    form: ClassVar[str]
    kind: ClassVar[str] = "device"
    table_made_by: ClassVar[str] = "make its table with `fluidb latency NETWORK {} -o DIR`"
    listed_as: ClassVar[str] = "devices"
    headers: ClassVar[tuple[str, ...]] = ("device", "form", "b_max", "lanes", "")
    schema_: Literal["fluidb.device/1"] = Field("fluidb.device/1", alias="schema")
    lanes: Lanes = 1
    load_full: Load | None = None
    load_half_batch: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    gather_floor_s: Seconds | None = None
    gather_s_per_sample: Seconds | None = None
    wake_up_s: Seconds | None = None
    host: Host | None = None
    if TYPE_CHECKING:  # each form has its own

        @property
        def b_max(self) -> int: ...  # noqa: D102

    @model_validator(mode="after")
    def _load_of_lanes(self) -> Self:
        if (self.lanes > 1) != (self.load_full is not None):
            raise ValueError("lanes, load_full: expected load_full if there are several lanes, and only then")
        if self.host is not None:
            self.host.check_lanes(self.lanes)
        return self

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
        # PAME, Section 4.2: the larger two batches are, the more they slow each other
        return [0.0, *(self.load_full * b / (b + self.load_half_batch) for b in range(1, self.b_max + 1))]

    def gathers_s(self, stages: int) -> list[list[float]] | None:
        """Time to gather survivors into a batch of b, for b = 0..b_max; ``None`` if the file states no time.

        A row for each of the ``stages`` of a network: at the input, and behind every stage but the last.
        """
        row = linear_s(self.gather_floor_s, self.gather_s_per_sample, self.b_max)
        return None if row is None else [row] * stages


class AnalyticDevice(Device):
    """A device that is described by a model: a kernel takes a fixed time, or a time that grows with its work."""

    form: ClassVar[str] = "analytic"

    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    floor_s: Seconds  # of a very small product: the time to launch it
    slope_s_per_mac: Annotated[float, Field(ge=1e-24, le=1.0)]  # of a large product
    launch_samples: Annotated[float, Field(ge=0, le=1e6)] = 0.0  # B0: cost of a launch, in samples added to every batch
    batch_multiple: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 1  # the compiler pads batches to multiples of it
    # by which layers of a bridge take longer than in the backbone
    bridge_factor: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    check_s: Seconds = 0.0  # of an exit check, after the head
    restart_s: Seconds = 0.0  # to start the stage behind an exit
    move_s_per_sample: Seconds = 0.0  # for each sample that is moved to it
    # of layers that only move data; without it they take no time
    bandwidth_gb_s: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    word_bits: Annotated[int, Field(ge=1, le=64)] | None = None  # of a value that they move
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _bandwidth_of_words(self) -> Self:
        if (self.bandwidth_gb_s is None) != (self.word_bits is None):
            raise ValueError("bandwidth_gb_s, word_bits: expected both or neither")
        return self

    def product_s(self, macs: int, batch: int, *, in_bridge: bool) -> float:
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
