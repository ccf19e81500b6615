"""The hardware on which the times of a latency table hold: NPUs, and cores on one memory."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ..formats import SparseRecord
from ..formats.array_types import Floats
from .layer_use import Share, from_zero


class Cores(SparseRecord):
    """Cores on one memory: kinds with times of their own, and how they slow each other (docs/metrics.md, Cores)."""

    names: Annotated[list[str], Field(min_length=1)]  # of the kinds
    of: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=64)]  # kind of each core
    contention: Share  # of a core's transfers that waits for transfers of another core at that time
    moving: list[list[list[Share]]]  # share of the time in which words move, by kind, stage and b = 1..b_max

    def check(self, stages: int, b_max: int) -> None:
        """Refuse, as a ``ValueError``, lists that do not fit each other or the table."""
        if sorted(set(self.of)) != list(range(len(self.names))):
            raise ValueError(f"cores: of: expected every kind from 0 to {len(self.names) - 1}")
        if [[len(row) for row in kind] for kind in self.moving] != [[b_max] * stages] * len(self.names):
            raise ValueError(
                f"cores: moving: expected {len(self.names)} kinds of {stages} stages, each with {b_max} shares, one "
                "for each batch size"
            )

    def moving_array(self) -> Floats:
        """Shares of the time in which words move. Shapes: returns (kinds, stages, b_max + 1)."""
        return from_zero(np.array(self.moving))


class BuiltNpu(SparseRecord):
    """The NPU on which a table's times hold, whatever else it runs."""

    board: str
    tile: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=3, max_length=5)]  # T_R, T_P, T_C, V, W
    stacking: bool = True
    clock_mhz: Annotated[float, Field(gt=0)]
    bandwidth_gb_s: Annotated[float, Field(gt=0)]
    word_bits: Annotated[int, Field(ge=1)]

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.tile))
        fixed = "" if self.stacking else " with k = 1 only"
        words = f"{self.word_bits}-bit words, {self.clock_mhz:g} MHz, {self.bandwidth_gb_s:g} GB/s"
        return f"<{sizes}>{fixed} on {self.board} ({words})"
