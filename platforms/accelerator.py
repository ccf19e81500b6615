"""The kind ``accelerator``: dot-product engines and buffers; one buffer keeps weights between queries (SUSHI)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .platform import Platform

DPE_MACS = 9
"""Multipliers of a dot-product engine, DPE (SUSHI, Section 4.2.1)."""

Side = Annotated[int, Field(ge=1, le=4096)]
Kibibytes = Annotated[float, Field(ge=0, le=1e6, strict=False)]
Amount = Annotated[float, Field(ge=1e-6, le=1e6, strict=False)]


class Depthwise(StrEnum):
    """Part of the array that a depthwise convolution uses: one row of K_P DPEs, or all K_P x C_P."""

    ROW = "row"
    FULL = "full"


class Accelerator(Platform):
    """An accelerator, as its TOML file describes it (``docs/sushi.md``).

    Attributes
    ----------
    K_P, C_P : int
        Sides of the array of DPEs: kernels and channels that are computed side by side.
    clock_mhz : float
        Clock.
    bandwidth_gb_s : float
        Off-chip bandwidth in 1e9 bytes per second.
    word_bits : int
        Width of weights and activations.
    depthwise : Depthwise
        How a depthwise convolution uses the array.
    distinct_kib : float
        Each of the two halves of the buffer for weights that are fetched.
    streaming_kib, output_kib, persistent_kib : float
        Buffers for input maps, for partial sums, and for weights that stay between queries.
    other_kib : float
        Line buffer, and scales and zero points.
    on_chip_kib : float, optional
        On-chip memory of the chip.
    dsps : int, optional
        Multipliers of the chip, for the search of K_P and C_P.
    off_chip_pj_per_byte : float, optional
        Energy of a byte that is read or written off chip.
    """

    kind: ClassVar[str] = "accelerator"
    table_made_by: ClassVar[str] = "search its SubGraphs with `fluidb dse SUPERNET {} -o DIR` (`fluidb docs sushi`)"
    listed_as: ClassVar[str] = "accelerators"
    headers: ClassVar[tuple[str, ...]] = ("accelerator", "K_P x C_P", "persistent KiB", "MHz", "GB/s", "")

    schema_: Literal["fluidb.accelerator/1"] = Field("fluidb.accelerator/1", alias="schema")
    K_P: Side
    C_P: Side
    clock_mhz: Amount
    bandwidth_gb_s: Amount
    word_bits: Annotated[int, Field(ge=1, le=64)] = 8
    depthwise: Annotated[Depthwise, Field(strict=False)] = Depthwise.FULL
    distinct_kib: Kibibytes
    streaming_kib: Kibibytes
    output_kib: Kibibytes = 0.0
    persistent_kib: Kibibytes = 0.0
    other_kib: Kibibytes = 0.0
    on_chip_kib: Amount | None = None
    dsps: Annotated[int, Field(ge=DPE_MACS, le=10**6)] | None = None
    off_chip_pj_per_byte: Amount | None = None
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _fits_the_chip(self) -> Self:
        if self.on_chip_kib is not None and self.buffers_kib > self.on_chip_kib:
            raise ValueError(
                f"persistent_kib and the other buffers: expected at most the {self.on_chip_kib:g} KiB of the chip, "
                f"found {self.buffers_kib:g} KiB"
            )
        if self.dsps is not None and self.macs_per_cycle > self.dsps:
            raise ValueError(
                f"K_P, C_P: expected at most the {self.dsps} DSPs of the chip, found {DPE_MACS} * {self.K_P} * "
                f"{self.C_P} = {self.macs_per_cycle}"
            )
        return self

    @property
    def buffers_kib(self) -> float:
        """On-chip memory of all buffers."""
        return self.shared_kib + self.output_kib + self.other_kib

    @property
    def shared_kib(self) -> float:
        """On-chip memory for which the persistent buffer competes: its own, the distinct and the streaming buffer's."""
        return 2 * self.distinct_kib + self.streaming_kib + self.persistent_kib

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in a cycle with every DPE busy."""
        return DPE_MACS * self.K_P * self.C_P

    @property
    def clock_hz(self) -> float:
        """Cycles per second."""
        return self.clock_mhz * 1e6

    @property
    def bytes_per_s(self) -> float:
        """Off-chip bytes in a second."""
        return self.bandwidth_gb_s * 1e9

    @property
    def peak_gop_s(self) -> float:
        """Operations in a second with every DPE busy, two to a MAC, in 1e9."""
        return 2e-9 * self.macs_per_cycle * self.clock_hz

    @property
    def row(self) -> tuple[str, ...]:
        """Its main numbers as text."""
        numbers = (f"{value:g}" for value in (self.persistent_kib, self.clock_mhz, self.bandwidth_gb_s))
        return self.name, f"{self.K_P} x {self.C_P}", *numbers, self.title

    @property
    def summary(self) -> str:
        """Its main numbers in one line."""
        array = f"{self.K_P} x {self.C_P} DPEs, {self.peak_gop_s:,.1f} GOP/s"
        return f"{array}, {self.persistent_kib:g} KiB persistent, {self.clock_mhz:g} MHz, {self.bandwidth_gb_s:g} GB/s"
