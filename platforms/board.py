"""The kind ``npu``: a board. A search finds an NPU that fits its resources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator

from ..formats import InputError, SparseRecord, validate
from .cycle import Cycle
from .host import Host
from .platform import Platform

Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(ge=1e-6, le=1e6)]

ENERGY_KEYS = ("mac_pj", "on_chip_pj_per_word", "off_chip_pj_per_word")
"""Keys that a board's file must have to estimate energy; ``static_w`` is optional."""

LUT_KEYS = ("luts", "luts_fixed", "luts_per_adder")
"""Keys that it must have to estimate the look-up tables of an NPU."""


DSP_BITS = 27, 18
"""Factors with a sign that a DSP multiplies in one piece (AMD UG579, DSP48E2; in Zynq-7 the first has 25 bits)."""

PORT_LATENCY_CYCLES = 40
"""Assumed if a board's file states none: about what DDR behind an interconnect takes at 150 to 200 MHz."""


ONE_PIXEL = [1]
"""Of a board whose file states no pixels: its designs work on one row at a time, as the paper's engine."""

MOST_PORT_WORDS = 64
"""Words of a beat, at most, where a board's file states none: look-up tables that choose among words grow with them."""


class Board(Platform, SparseRecord):
    """A board, as its TOML file describes it (``docs/your-own.md``).

    Attributes
    ----------
    dsps : int
        DSPs; see ``macs_per_dsp``.
    macs_per_dsp : int
        Multiply-accumulates that a DSP does in a cycle of the NPU: more where its clock is a multiple. Of words that
        an FPGA's DSP cannot multiply in one piece, each takes several DSPs.
    on_chip_mbit : float
        On-chip buffer memory in Mb of 2**20 bits, as data sheets count.
    flip_flops, luts : int, optional
        Registers and look-up tables; a design uses a share of them; ``None`` on an ASIC, which has none.
    luts_per_lut6 : float
        Its look-up tables that do the work of one of six inputs, in which designs are counted; 1 where they have six.
    block_rams, ultra_rams : int, optional
        Blocks of 36 Kb and of 288 Kb that the on-chip memory of an FPGA is made of.
    clock_mhz : float
        Clock of the NPU.
    cycle : Cycle, optional
        A fit of the cycle by the sizes of an NPU: a design fits the board only if its cycle is as short as the clock's.
    bandwidth_gb_s : float
        Effective off-chip bandwidth in 1e9 bytes per second.
    word_bits : int
        Width of activations and weights.
    pixels : list of int
        Output pixels (rows) that a design may work on side by side, each a power of two; by default one only.
    port_words : int, optional
        Words of a beat of the port to the off-chip memory, a power of two; else the smallest one that carries the
        bandwidth, up to 64, as where it is too narrow.
    port_latency_cycles : float
        Cycles of the NPU from asking for a beat to its arrival.
    port_turn_cycles : float
        Cycles that the memory takes to turn to writing, and back, in which it moves nothing.
    mac_pj, on_chip_pj_per_word, off_chip_pj_per_word : float, optional
        Energy of a MAC, of a word that is read or written in a buffer, and of such a word off chip.
    static_w : float, optional
        Power that the board draws even when it is idle.
    luts_fixed, luts_per_adder : float, optional
        Look-up tables of an NPU: a fixed part, and a part for each adder in its trees.
    host : Host, optional
        Fixed times of the host for each request.
    """

    kind: ClassVar[str] = "board"
    table_made_by: ClassVar[str] = "search an NPU for it with `fluidb dse NETWORK {} -o DIR`, then `fluidb latency DIR`"
    listed_as: ClassVar[str] = "platforms"
    headers: ClassVar[tuple[str, ...]] = ("board", "DSPs", "on-chip Mb", "MHz", "GB/s", "")
    sparse: ClassVar[set[str] | None] = {"pixels", "host", "cycle", "luts_per_lut6", "port_turn_cycles"}

    schema_: Literal["fluidb.platform/1"] = Field("fluidb.platform/1", alias="schema")
    dsps: Annotated[int, Field(ge=1, le=10**6)]
    macs_per_dsp: Annotated[int, Field(ge=1, le=64)] = 1
    on_chip_mbit: Amount
    flip_flops: Count | None = None
    luts: Count | None = None
    luts_per_lut6: Annotated[float, Field(ge=1, le=16)] = 1.0
    block_rams: Annotated[int, Field(ge=0, le=10**6)] | None = None
    ultra_rams: Annotated[int, Field(ge=0, le=10**6)] | None = None
    clock_mhz: Amount
    cycle: Cycle | None = None
    bandwidth_gb_s: Amount
    word_bits: Annotated[int, Field(ge=1, le=64)]
    pixels: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)] = ONE_PIXEL
    port_words: Annotated[int, Field(ge=1, le=4096)] | None = None
    port_latency_cycles: Annotated[float, Field(ge=0, le=1e6)] = PORT_LATENCY_CYCLES
    port_turn_cycles: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    mac_pj: Amount | None = None
    on_chip_pj_per_word: Amount | None = None
    off_chip_pj_per_word: Amount | None = None
    static_w: Amount | None = None
    luts_fixed: Amount | None = None
    luts_per_adder: Amount | None = None
    host: Host | None = None
    sources: dict[str, str] = {}
    _aligned: bool = PrivateAttr(True)

    @field_validator("pixels")
    @classmethod
    def _powers_of_two(cls, value: list[int]) -> list[int]:
        if any(V & (V - 1) for V in value) or any(after <= V for V, after in pairwise(value)):
            raise ValueError(f"expected powers of two in ascending order, e.g. [1, 2, 4], found {value}")
        return value

    @field_validator("port_words")
    @classmethod
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError(f"expected a power of two, e.g. 16, found {value}")
        return value

    @property
    def row(self) -> tuple[str, ...]:
        """Its main numbers as text."""
        numbers = (f"{value:g}" for value in (self.on_chip_mbit, self.clock_mhz, self.bandwidth_gb_s))
        return self.name, str(self.dsps), *numbers, self.title

    @property
    def summary(self) -> str:
        """Its main numbers in one line."""
        sizes = f"{self.dsps:,} DSPs, {self.on_chip_mbit:g} Mb"
        return f"{sizes}, {self.clock_mhz:g} MHz, {self.bandwidth_gb_s:g} GB/s"

    @property
    def dsps_per_mac(self) -> int:
        """DSPs that multiply two words: one for each pair of pieces; each piece beside the sign's has a bit less.

        The multipliers of an ASIC, which states neither look-up tables nor block RAMs, are as wide as its words.
        """
        if (self.luts, self.flip_flops, self.block_rams) == (None, None, None):
            return 1
        first, second = (max(1, -(-(self.word_bits - 1) // (bits - 1))) for bits in DSP_BITS)
        return first * second

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of a cycle that its DSPs can do."""
        return self.dsps * self.macs_per_dsp // self.dsps_per_mac

    def dsps_of(self, macs: Any) -> Any:
        """DSPs that do a number of multiply-accumulates in a cycle; an integer, or an array of integers."""
        return -(-macs * self.dsps_per_mac // self.macs_per_dsp)

    def in_int8(self) -> Board:
        """The board with words of 8 bits in place of 16: a DSP multiplies two pairs of them in place of one.

        The pairs share a factor, as pairs of neighbouring columns do (Xilinx WP486).  Energies and look-up tables are
        left out, because they are of words of 16 bits.
        """
        if self.word_bits != 16:
            raise InputError(
                f"{self.name}: int8: expected word_bits = 16, found {self.word_bits}; state what the board has"
            )
        left_out = dict.fromkeys((*ENERGY_KEYS, *LUT_KEYS[1:]))
        sources = {key: text for key, text in self.sources.items() if key not in left_out}
        sources |= dict.fromkeys(("word_bits", "macs_per_dsp"), "given by the user: int8")
        return self.model_copy(
            update={"word_bits": 8, "macs_per_dsp": 2 * self.macs_per_dsp, "sources": sources, **left_out}
        )

    @property
    def aligned(self) -> bool:
        """Whether beats of the bus lie at multiples of their words, as behind ``npu_axi.v``: so on every board."""
        return self._aligned

    def without_bus(self) -> Board:
        """The board, as no file states it, with a port that takes any address, as the testbench of the bare NPU has."""
        board = self.model_copy()
        board._aligned = False  # noqa: SLF001  (its own copy)
        return board

    def with_pixels(self, pixels: list[int]) -> Board:
        """The board with other output pixels side by side: powers of two in ascending order, given by the user."""
        data = self.model_dump(by_alias=True) | {"pixels": pixels}
        data["sources"] = self.sources | {"pixels": "given by the user"}
        return validate(type(self), data, Path(self.name))

    @property
    def on_chip_bits(self) -> int:
        """On-chip buffer capacity in bits."""
        return int(self.on_chip_mbit * 2**20)

    @property
    def clock_hz(self) -> float:
        """Cycles per second."""
        return self.clock_mhz * 1e6

    @property
    def words_per_cycle(self) -> float:
        """Off-chip words that are moved in one clock cycle."""
        return self.bandwidth_gb_s * 1e9 * 8 / (self.word_bits * self.clock_hz)

    @property
    def usual_port_words(self) -> int:
        """Words of a beat where a design states none: as the file states, or what carries the bandwidth."""
        if self.port_words and self.port_words >= self.words_per_cycle:
            return self.port_words
        return min(1 << max(ceil(log2(self.words_per_cycle)), 0), MOST_PORT_WORDS)

    @property
    def other_ports(self) -> list[int]:
        """Words of the other ports that a design may take, the powers of two up to the stated port, the largest first.

        They do not depend on the clock or the bandwidth unless these make the stated port too narrow.
        """
        usual = self.usual_port_words
        most = usual if usual == self.port_words else MOST_PORT_WORDS
        return [words for power in reversed(range(most.bit_length())) if (words := 1 << power) != usual]

    def states(self, keys: Sequence[str]) -> bool:
        """True if its file has all of these optional keys."""
        return all(getattr(self, key) is not None for key in keys)

    def require(self, keys: Sequence[str], wanted_by: str) -> list[float]:
        """Values of optional keys that a caller needs; the fault names all that are missing, and what wanted them."""
        values = {key: getattr(self, key) for key in keys}
        missing = [key for key in keys if values[key] is None]
        if missing:
            raise InputError(
                f"{self.name}: {wanted_by} needs {', '.join(missing)}, which the board's file does not state "
                f"for words of {self.word_bits} bits; add them (`fluidb docs your-own`)"
            )
        return list(values.values())
