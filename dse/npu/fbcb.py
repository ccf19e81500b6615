"""The Fluid Batching Control Block, which the hardware reads (Fluid Batching, Section III-A, Fig. 5).

An entry for each layer and batch size, at address ``layer * B_max + (b - 1)``: ``k`` in 2 bits above ``B_R - 1`` in
ceil(log2 B_max) bits.  The control unit derives ``B_P``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...formats import Form, Strict, Table
from .choices import MAX_DESIGN_BATCH
from .space import K_CODES

K_BITS = 2
K_NAMES = ("1", "2", "1/2")
"""k by stacking code."""


def batch_bits(b_max: int) -> int:
    """Bits of a B_R entry: ceil(log2 B_max)."""
    return (b_max - 1).bit_length()


def entry_bits(b_max: int) -> int:
    """Bits of a whole entry."""
    return batch_bits(b_max) + K_BITS


class FbcbRow(Strict):
    """Entries of one layer."""

    layer: str
    # for b = 1..b_max, binary, most significant digit first
    entries: list[Annotated[str, Form("[01]+", "binary digits").validator]]


class FbcbTable(Table):
    """The FBCB as a file, ``fluidb.fbcb/1`` (``docs/file-formats.md``)."""

    schema_name: ClassVar[str] = "fluidb.fbcb/1"
    made_by: ClassVar[str] = "fluidb dse"

    b_max: Annotated[int, Field(ge=1, le=MAX_DESIGN_BATCH)]
    bits: int  # of an entry
    rows: list[FbcbRow]  # one for each GEMM, in execution order

    @model_validator(mode="after")
    def _entries_are_whole(self) -> Self:
        if self.bits != entry_bits(self.b_max):
            raise ValueError(f"bits: expected {entry_bits(self.b_max)} for b_max {self.b_max}, found {self.bits}")
        for row in self.rows:
            if len(row.entries) != self.b_max or any(len(entry) != self.bits for entry in row.entries):
                raise ValueError(f'rows ("{row.layer}"): expected {self.b_max} entries of {self.bits} bits')
            for b, entry in enumerate(row.entries, 1):
                code, rows = decode(entry)
                if code >= K_CODES or rows > b:
                    raise ValueError(f'rows ("{row.layer}"): entry {b}: expected k < {K_CODES} and B_R <= {b}')
        return self

    @property
    def register_bits(self) -> int:
        """Flip-flops that hold the whole table."""
        return len(self.rows) * self.b_max * self.bits

    def unpack(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stacking codes and B_R as written by :func:`encode`."""
        table = np.array([[decode(entry) for entry in row.entries] for row in self.rows], dtype=np.int64)
        return np.ascontiguousarray(table[..., 0]), np.ascontiguousarray(table[..., 1])


def encode(layers: list[str], codes: NDArray[np.int64], B_R: NDArray[np.int64]) -> FbcbTable:
    """Pack a configuration into entries, bit for bit as the paper does. Shapes: ``codes, B_R`` (L, b_max)."""
    b_max = codes.shape[1]
    words = (codes << batch_bits(b_max)) | (B_R - 1)
    rows = [
        FbcbRow(layer=layer, entries=[f"{word:0{entry_bits(b_max)}b}" for word in row])
        for layer, row in zip(layers, words.tolist(), strict=True)
    ]
    return FbcbTable(b_max=b_max, bits=entry_bits(b_max), rows=rows)


def decode(entry: str) -> tuple[int, int]:
    """Stacking code and B_R of one entry."""
    return int(entry[:K_BITS], 2), int(entry[K_BITS:] or "0", 2) + 1
