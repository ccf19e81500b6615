"""The Fluid Batching Control Block, which the hardware reads (Fluid Batching, Section III-A, Fig. 5).

An entry for each layer and batch size, at address ``layer * B_max + (b - 1)``: ``k`` in 2 bits, above the code of the
blocks of rows in ``block_bits``, above ``B_R - 1`` in ceil(log2 B_max) bits.  The control unit derives ``B_P``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from ...formats import Form, Strict, Table
from ...formats.array_types import Ints
from .choices import MAX_DESIGN_BATCH
from .logic import Entries
from .tiles import K_CODES

K_BITS = 2
MAX_BLOCK_BITS = 6
"""Room for 2**32 blocks."""

K_NAMES = ("1", "2", "1/2")
"""k by stacking code."""


def batch_bits(b_max: int) -> int:
    """Bits of a B_R entry: ceil(log2 B_max)."""
    return (b_max - 1).bit_length()


def entry_bits(b_max: int, block_bits: int = 0) -> int:
    """Bits of a whole entry."""
    return batch_bits(b_max) + block_bits + K_BITS


def blocks_of(code: int) -> int:
    """Blocks of rows by their code: 1, 2, 3, 4, 6, 8, 12, ... for 0, 1, 2, ...

    Examples
    --------
    >>> [blocks_of(code) for code in range(8)]
    [1, 2, 3, 4, 6, 8, 12, 16]
    """
    return (2 + (code - 1) % 2) << ((code - 1) // 2) if code else 1


class FbcbRow(Strict):
    """Entries of one layer."""

    layer: str
    # for b = 1..b_max, binary, most significant digit first
    entries: list[Annotated[str, Form("[01]+", "binary digits").validator]]


class FbcbTable(Table):
    """The FBCB as a file, ``fluidb.fbcb/2`` (``docs/file-formats.md``)."""

    schema_name: ClassVar[str] = "fluidb.fbcb/2"
    made_by: ClassVar[str] = "fluidb dse"

    b_max: Annotated[int, Field(ge=1, le=MAX_DESIGN_BATCH)]
    block_bits: Annotated[int, Field(ge=0, le=MAX_BLOCK_BITS)] = 0  # of an entry; 0 if blocks are not chosen
    bits: int  # of an entry
    rows: list[FbcbRow]  # one for each GEMM, in execution order

    @model_validator(mode="after")
    def _entries_are_whole(self) -> Self:
        bits = entry_bits(self.b_max, self.block_bits)
        if self.bits != bits:
            raise ValueError(
                f"bits: expected {bits} for b_max {self.b_max} and block_bits {self.block_bits}, found {self.bits}"
            )
        for row in self.rows:
            if len(row.entries) != self.b_max or any(len(entry) != self.bits for entry in row.entries):
                raise ValueError(f'rows ("{row.layer}"): expected {self.b_max} entries of {self.bits} bits')
            for b, entry in enumerate(row.entries, 1):
                code, _, rows = decode(entry, self.block_bits)
                if code >= K_CODES or rows > b:
                    raise ValueError(f'rows ("{row.layer}"): entry {b}: expected k < {K_CODES} and B_R <= {b}')
        return self

    @property
    def entries(self) -> Entries:
        """Its entries."""
        return Entries(len(self.rows) * self.b_max, self.bits)

    @property
    def register_bits(self) -> int:
        """Flip-flops that hold the whole table."""
        return self.entries.number * self.entries.bits

    def unpack(self) -> tuple[Ints, Ints, Ints]:
        """Stacking codes, blocks and B_R as written by :func:`encode`."""
        entries = [[decode(entry, self.block_bits) for entry in row.entries] for row in self.rows]
        codes, blocks, B_R = np.moveaxis(np.array(entries, dtype=np.int64), -1, 0)
        return np.ascontiguousarray(codes), np.ascontiguousarray(blocks), np.ascontiguousarray(B_R)


def encode(layers: list[str], codes: Ints, blocks: Ints | None, B_R: Ints) -> FbcbTable:
    """Pack a configuration into entries; without ``blocks`` bit for bit as the paper does. Shapes: (L, b_max) each."""
    b_max, low = codes.shape[1], batch_bits(codes.shape[1])
    words, block_bits = B_R - 1, 0
    if blocks is not None:
        known = [blocks_of(code) for code in range(2**MAX_BLOCK_BITS)]
        block_codes = np.searchsorted(known, blocks)
        block_bits = int(block_codes.max()).bit_length()
        words = words | (block_codes << low)
    words = words | (codes << (low + block_bits))
    bits = entry_bits(b_max, block_bits)
    rows = [
        FbcbRow(layer=layer, entries=[f"{word:0{bits}b}" for word in row])
        for layer, row in zip(layers, words.tolist(), strict=True)
    ]
    return FbcbTable(b_max=b_max, block_bits=block_bits, bits=bits, rows=rows)


def decode(entry: str, block_bits: int = 0) -> tuple[int, int, int]:
    """Stacking code, blocks of rows and B_R of one entry."""
    low = K_BITS + block_bits
    return int(entry[:K_BITS], 2), blocks_of(int(entry[K_BITS:low] or "0", 2)), int(entry[low:] or "0", 2) + 1
