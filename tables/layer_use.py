"""Times of the layers in a latency table, and the causes of these times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ..formats import SparseRecord
from ..formats.array_types import Floats, Ints
from ..models import MAX_WORK, Layer

if TYPE_CHECKING:
    from ..models.works import LayerWork

MAX_S = 1e9
"""Longest time, thirty years: a longer one has a wrong unit."""

Seconds = Annotated[float, Field(gt=0, le=MAX_S)]
SecondsOrNone = Annotated[float, Field(ge=0, le=MAX_S)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(ge=1e-3, le=1e3)]

USES = ("tile_padding_s", "batch_padding_s", "memory_bound_s")
"""Causes of a layer's time beside its MACs; only the model of an NPU states them."""

LayerRole = Literal["backbone", "head", "check", "resume"]
"""A layer of the backbone, or a part of an exit: bridge and head; exit check; start of the stage behind the exit."""


class LayerUse(SparseRecord):
    """The time of a layer with a product and the memory-only layers after it, and the causes of that time."""

    variant: Annotated[int, Field(ge=0)] = 0
    name: str
    stage: Annotated[int, Field(ge=1)]  # a stage's last layer ends at its exit
    role: LayerRole = "backbone"
    macs: Annotated[int | None, Field(ge=0, le=MAX_WORK)] = None  # of one sample
    time_s: list[Seconds]  # for b = 1..b_max
    # parts of time_s in which units of the array are idle; the rest makes MACs
    tile_padding_s: list[SecondsOrNone] | None = None  # the layer does not fill its last tiles
    batch_padding_s: list[SecondsOrNone] | None = None  # the grid B_R x B_P has places without a sample
    memory_bound_s: list[SecondsOrNone] | None = None  # waits for off-chip memory
    energy_j: list[NotNegative] | None = None  # of the batch, without static power

    def check(self, b_max: int) -> None:
        """Refuse, as a ``ValueError``, lists without a value for each batch size."""
        lists = [getattr(self, name) for name in ("time_s", *USES, "energy_j")]
        if any(column is not None and len(column) != b_max for column in lists):
            raise ValueError(f"layers: expected {b_max} values each, one for each batch size")

    @property
    def exit(self) -> int:
        """The exit that causes it: a head or check is of its stage's exit, a resume of the exit before; else 0."""
        return {"backbone": 0, "resume": self.stage - 1}.get(self.role, self.stage)


class Segments(NamedTuple):
    """The segments that run between two decisions of a scheduler: stages, or layers.

    Shapes: ``stage`` (S,), counted from 1; others (V, S, b_max + 1), 0 at b = 0; the four causes sum to ``time_s``.
    """

    stage: Ints
    time_s: Floats
    useful_s: Floats | None = None
    tile_padding_s: Floats | None = None
    batch_padding_s: Floats | None = None
    memory_bound_s: Floats | None = None
    energy_j: Floats | None = None

    @property
    def causes(self) -> list[Floats]:
        """The four causes, or none."""
        parts = (self.useful_s, self.tile_padding_s, self.batch_padding_s, self.memory_bound_s)
        return [part for part in parts if part is not None]


def layer_groups(layers: Sequence[Layer | LayerWork]) -> Iterator[list[int]]:
    """Indices of the layers that are one :class:`LayerUse` together."""
    group: list[int] = []
    for index, layer in enumerate(layers):
        first = layers[group[0]] if group else layer
        if group and (layer.gemm is not None or (layer.stage, layer.in_head) != (first.stage, first.in_head)):
            yield group
            group = []
        group.append(index)
    yield group


def scaled(factor: float, times_s: Any) -> Any:
    """A time, or lists of times in lists, multiplied by a factor; what is not stated stays so."""
    return [scaled(factor, part) for part in times_s] if isinstance(times_s, list) else times_s and factor * times_s


def from_zero(times_s: Floats) -> Floats:
    """Times with a zero for b = 0 before them."""
    padded = np.zeros((*times_s.shape[:-1], times_s.shape[-1] + 1))
    padded[..., 1:] = times_s
    return padded
