"""Devices that are known by the times of the stages of one network, and the form that states them by a model."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from ..formats import Strict
from ..formats.array_types import Floats, Ints
from .device import MAX_BATCH, MAX_STAGES, Device, Seconds, linear_s

Width = Annotated[float, Field(gt=0, le=1e9)]
"""Width of a sample: tokens of a sequence, multiply-accumulates of a slimmable network, ..."""


class TimedDevice(Device):
    """A device that is known by the times of the stages of one network."""

    no_numbers: ClassVar[set[str]] = Device.no_numbers | {"network", "stages"}

    network: str
    if TYPE_CHECKING:  # each form has its own

        @property
        def stage_count(self) -> int: ...  # noqa: D102

        @property
        def times_s(self) -> list[list[list[float]]]: ...  # noqa: D102

        @property
        def widest_first(self) -> list[float] | None: ...  # noqa: D102


class Term(Strict):
    """A part of a stage's time for one sample: ``seconds`` times the width to the power ``power``."""

    seconds: Seconds
    power: Annotated[float, Field(ge=0, le=4)]

    def __str__(self) -> str:
        return f"{self.seconds:g} W^{self.power:g}" if self.power else f"{self.seconds:g}"


class StageGroup(Strict):
    """Consecutive stages whose times are the same."""

    stages: Annotated[int, Field(ge=1, le=MAX_STAGES)] = 1  # their number
    floor_s: Seconds  # of the layers with a very small batch: kernels take a least time
    # of the layers for each sample of a large batch, as a sum; a file may state one number instead
    slope_s_per_sample: Annotated[list[Term], Field(min_length=1)]
    check_s: Seconds = 0.0  # at the exit where each stage ends, for its head and its check on the host
    check_s_per_sample: Seconds = 0.0
    gather_floor_s: Seconds | None = None  # to gather behind each stage, where it differs from the device's
    gather_s_per_sample: Seconds | None = None

    @field_validator("slope_s_per_sample", mode="before")
    @classmethod
    def _one_term(cls, value: object) -> object:
        return value if isinstance(value, list) else [{"seconds": value, "power": 0}]

    @property
    def by_width(self) -> bool:
        """True if its time depends on the width."""
        return any(term.power for term in self.slope_s_per_sample)

    def times_s(self, batches: Ints, width: float) -> Floats:
        """Time of one of its stages with each of these batch sizes."""
        sample_s = sum(term.seconds * float(width**term.power) for term in self.slope_s_per_sample)
        layers_s = np.maximum(self.floor_s, sample_s * batches)
        return layers_s + self.check_s + self.check_s_per_sample * batches


class StagedDevice(TimedDevice):
    """A device that is described by a model of each stage: a least time, and one for each sample of a large batch."""

    form: ClassVar[str] = "by stage"

    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    # ascending, if times depend on the width
    widths: Annotated[list[Width], Field(min_length=1, max_length=256)] | None = None
    groups: Annotated[list[StageGroup], Field(min_length=1)]  # from input to end
    sources: dict[str, str] = {}  # a key of the groups counts for all of them

    @classmethod
    def source_keys(cls) -> set[str]:
        """Keys that may have a source: of the file, and of its groups."""
        return super().source_keys() | set(StageGroup.model_fields)

    @model_validator(mode="after")
    def _widths_of_terms(self) -> Self:
        if any(a >= b for a, b in pairwise(self.widths or [])):
            raise ValueError("widths: expected every width once, in ascending order")
        depends = any(group.by_width for group in self.groups)
        if depends and self.widths is None:
            raise ValueError(
                "widths: expected the widths that batches run at, as times of a stage depend on the width, found none; "
                "state e.g. widths = [4, 16]"
            )
        if self.widths is not None and not depends:
            raise ValueError(
                "widths: expected a slope_s_per_sample with a power of the width beside it, found none; leave it out"
            )
        return self

    @property
    def shown(self) -> dict[str, Any]:
        """Its content to show: a key of the groups with the values of all groups."""
        content = super().shown
        del content["groups"]
        for key in StageGroup.model_fields:
            values = [getattr(group, key) for group in self.groups]
            if any(values):
                content[f"groups.{key}"] = [" + ".join(map(str, v)) if isinstance(v, list) else v for v in values]
        return content

    @property
    def unsourced(self) -> list[str]:
        """Keys of the numbers without a source, also of numbers in the groups."""
        numbers: dict[str, Any] = self.model_dump(exclude=self.no_numbers | {"groups"}, exclude_defaults=True)
        for group in self.groups:
            numbers |= group.model_dump(exclude={"stages"}, exclude_defaults=True)
        return [key for key in numbers if key not in self.sources]

    @property
    def stages(self) -> list[StageGroup]:
        """The group of each stage."""
        return [group for group in self.groups for _ in range(group.stages)]

    @property
    def stage_count(self) -> int:
        """Stages of the network."""
        return len(self.stages)

    @property
    def widest_first(self) -> list[float] | None:
        """Its widths in the order of a latency table."""
        return self.widths and self.widths[::-1]

    @property
    def times_s(self) -> list[list[list[float]]]:
        """Time by width (the widest first; one if there are none), stage and batch size b = 1..b_max."""
        batches = np.arange(1, self.b_max + 1)
        widths = self.widest_first or [1.0]
        return [[group.times_s(batches, width).tolist() for group in self.stages] for width in widths]

    def gathers_s(self, stages: int) -> list[list[float]] | None:
        """Time to gather, by stages that have run and by batch size b = 0..b_max; ``None`` if the file states none."""
        rows = [linear_s(self.gather_floor_s, self.gather_s_per_sample, self.b_max)]
        for group in self.stages[: stages - 1]:
            floor_s, sample_s = group.gather_floor_s, group.gather_s_per_sample
            floor_s = self.gather_floor_s if floor_s is None else floor_s
            sample_s = self.gather_s_per_sample if sample_s is None else sample_s
            rows.append(linear_s(floor_s, sample_s, self.b_max))
        return [row or [0.0] * (self.b_max + 1) for row in rows] if any(rows) else None
