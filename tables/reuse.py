"""SubNets of a latency table, and the weights of theirs that stay on chip (SUSHI)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..formats import SparseRecord
from .layer_use import NotNegative, SecondsOrNone


class SubNetEntry(SparseRecord):
    """A network that shares its weights with others, and its accuracy if that is known."""

    name: str
    accuracy: Annotated[float | None, Field(ge=0, le=1)] = None


class Reuse(SparseRecord):
    """Weights of SubNets that each state keeps on chip, and the traffic that this saves (SUSHI).

    Vectors are the kernels and channels [K_1, C_1, K_2, C_2, ...] of every layer of the SuperNet: S of a SubNet, G of
    the weights that a state keeps (SUSHI, Fig. 6).  Lists of lists have a list for each state, with a value for each
    SubNet.
    """

    refill_s: list[SecondsOrNone]  # by state: to load the weights that it keeps
    refill_bytes: list[NotNegative]
    overlap: list[list[NotNegative]] | None = None  # inner products of G and S
    content: list[NotNegative] | None = None  # inner product of each G with itself; stated beside overlap
    hit_ratio: list[list[Annotated[float, Field(ge=0, le=1)]]] | None = None  # ||min(S, G)|| / ||S|| (Appendix A.4)
    off_chip_bytes: list[list[NotNegative]] | None = None  # that a request moves between chip and memory
    joules_per_byte: Annotated[float | None, Field(gt=0, le=1)] = None  # of off_chip_bytes

    def check(self, states: int, subnets: int) -> None:
        """Refuse, as a ``ValueError``, lists that do not fit the numbers of states and SubNets."""
        for name in ("refill_s", "refill_bytes", "content"):
            if (values := getattr(self, name)) is not None and len(values) != states:
                raise ValueError(f"reuse: {name}: expected {states} values, one for each state, found {len(values)}")
        for name in ("overlap", "hit_ratio", "off_chip_bytes"):
            if (rows := getattr(self, name)) is not None and [len(row) for row in rows] != [subnets] * states:
                raise ValueError(f"reuse: {name}: expected a list for each of {states} states, of {subnets} SubNets")
        if (self.overlap is None) != (self.content is None):
            raise ValueError("reuse: expected overlap and content, or neither")
        if self.joules_per_byte is not None and self.off_chip_bytes is None:
            raise ValueError("reuse: expected off_chip_bytes beside joules_per_byte, found none")
