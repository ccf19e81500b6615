"""The decisions that a device's times imply, as a file: pad or split at every exit, and the ideal batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from ..formats import Strict, Table
from ..formats.array_types import Bools
from ..platforms.device import MAX_BATCH

DECISIONS_FILE = "decisions.json"

Counts = Annotated[list[Annotated[int, Field(ge=1, le=MAX_BATCH)]], Field(min_length=2, max_length=2)]
"""The first and the last of consecutive counts of terminated samples."""


class PointRow(Strict):
    """Decision points with the same decisions by Equation (1).

    ``split`` has, for b = 1..b_max places, the counts of terminated samples with which splitting pays, as ranges.  With
    all other counts from 1 to b - 1 the batch is padded; with 0 it goes on, with b it stops.
    """

    variants: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]  # of the latency table, from 0
    after_exits: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]  # the last if its stage repeats
    split: list[list[Counts]]

    def map(self) -> Bools:
        """True where splitting pays, by places 0..b_max and terminated samples 0..b_max; never if none or all have."""
        sizes = len(self.split) + 1
        pays = np.zeros((sizes, sizes), dtype=np.bool_)
        for places, ranges in enumerate(self.split, 1):
            for first, last in ranges:
                pays[places, first : last + 1] = True
        return pays


class WidthRow(Strict):
    """The smallest batch that fills the device in a variant of the network (Algorithm 1), and its throughput."""

    width: Annotated[float, Field(gt=0)] | None  # if the table has widths
    ideal_batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]  # has at least 95 % of the largest throughput
    samples_per_s: Annotated[float, Field(gt=0)]  # with that batch, from the input to the end


class DecisionTable(Table):
    """The decisions of a latency table as a file, ``fluidb.decisions/1`` (``docs/file-formats.md``)."""

    schema_name: ClassVar[str] = "fluidb.decisions/1"
    made_by: ClassVar[str] = "fluidb latency"

    network: str
    platform: str
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    points: list[PointRow]
    variants: Annotated[list[WidthRow], Field(min_length=1)]

    @property
    def width_names(self) -> list[str]:
        """Names of the variants' widths."""
        return ["any" if row.width is None else f"{row.width:g}" for row in self.variants]

    @model_validator(mode="after")
    def _every_batch(self) -> Self:
        if any(len(row.split) != self.b_max for row in self.points):
            raise ValueError(f"points: expected {self.b_max} lists of ranges each, one for each batch size")
        return self


def spans(numbers: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Ascending numbers, or their names, as text: consecutive ones by the first and the last.

    Examples
    --------
    >>> spans([1, 2, 3, 5]), spans([0, 1, 3], ["256", "128", "64", "32"])
    ('1 to 3, 5', '256 to 128, 32')
    """
    texts = []
    for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [str(number) if names is None else names[number] for _, number in pairs]
        texts.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}")
    return ", ".join(texts)
