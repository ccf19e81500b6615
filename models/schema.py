"""The network file: what a person writes (``docs/add-a-network.md``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ..formats import Strict

Positive = Annotated[int, Field(ge=1, le=2**24)]
NotNegative = Annotated[int, Field(ge=0, le=2**24)]
Pair = Annotated[list[Positive], Field(min_length=2, max_length=2)]
PairOrZero = Annotated[list[NotNegative], Field(min_length=2, max_length=2)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,80}$")]


class _Op(Strict):
    name: Name
    inputs: list[Name] | None = Field(None, alias="from")
    shape: Annotated[list[Positive], Field(min_length=3, max_length=3)] | None = None

    @field_validator("inputs", mode="before")
    @classmethod
    def _one_input(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


class _Window(_Op):
    kernel: Pair
    stride: Pair
    pad: PairOrZero = [0, 0]

    @field_validator("kernel", "stride", "pad", "dilation", mode="before", check_fields=False)
    @classmethod
    def _square(cls, value: object) -> object:
        return [value, value] if isinstance(value, int) else value


class Conv(_Window):
    """2-D convolution: ``out`` channels, ``groups`` (as many as inputs: depthwise)."""

    op: Literal["conv"]
    out: Positive
    stride: Pair = [1, 1]
    dilation: Pair = [1, 1]
    groups: Positive = 1


class Pool(_Window):
    """Maximum or average pooling; ``ceil`` keeps a last partial window."""

    op: Literal["maxpool", "avgpool"]
    ceil: bool = False


class GlobalPool(_Op):
    """Average over all positions."""

    op: Literal["globalavgpool"]


class Linear(_Op):
    """Fully connected over the channels of each position."""

    op: Literal["linear"]
    out: Positive


class Flatten(_Op):
    """All values of the map as channels of a single position; moves nothing."""

    op: Literal["flatten"]


class Join(_Op):
    """``add`` (same shapes, fused) or ``concat`` (channels side by side, written in place)."""

    op: Literal["add", "concat"]


Op = Annotated[Conv | Pool | GlobalPool | Linear | Flatten | Join, Field(discriminator="op")]


class ExitFile(Strict):
    """An intermediate exit: where, how often taken, and the head that decides."""

    after: Name
    rate: Annotated[float, Field(ge=0, le=1)]
    head: str | None = None
    classes: Positive | None = None
    layers: list[Op] | None = None

    @model_validator(mode="after")
    def _one_head(self) -> ExitFile:
        if (self.head is None) == (self.layers is None):
            raise ValueError('expected either head (a name, e.g. "msdnet") or layers (a list), and not both')
        return self


class InputShape(Strict):
    """One sample as it enters."""

    height: Positive
    width: Positive
    channels: Positive


class NetworkFile(Strict):
    """The whole file."""

    schema_: Literal["fluidb.network/1"] = Field(alias="schema")
    name: Name
    title: str
    input: InputShape
    layers: Annotated[list[Op], Field(min_length=1, max_length=100_000)]
    exits: Annotated[list[ExitFile], Field(max_length=64)] = []
    sources: dict[str, str] = {}
