"""Numbers of the engine, each stated here only: the cost model, networks of integers, jobs and the RTL agree on them.

Templates of ``hardware/rtl`` name them in capitals, and :func:`fluidb.dse.hardware.templates.filled` puts them in.
"""

from typing import Any, NamedTuple

WORD_BITS = 16
"""Bits of a word: of an input, a weight, an output."""

SUM_BITS = 48
"""Bits of a sum, as a DSP's adder has; a shift is smaller."""

NUMBER_BITS = 32
"""Bits of an address, in words, and of every other number of a job."""

SIZE_BITS = 16
"""Bits that count columns of a group, rows of a block, and rows and columns of a map."""

MOST = 2**SIZE_BITS - 1
"""The largest of these counts."""

START = 2
"""Cycles from the last word of a tile to its first product, beside the latency."""

ADD_START = 1
"""Cycles from the first word of a residual map to the store that adds to it, beside the latency."""

IN_FLIGHT = 3
"""Cycles from reading a partial sum to writing it: a tile takes at least as many, with rows side by side too."""

ROW_CYCLES = 8
"""Cycles from a row of inputs to the sums of its products, beside the levels of the tree of adders."""

DRAIN = 13
"""Cycles from the last product to the first word stored, beside the levels of the tree of adders."""

WRITE_DELAY = 10
"""Cycles from a beat of a store, once it is accepted, to its words."""

FLIGHT_BITS = 7
"""Bits that count the beats that are accepted and whose words have not come."""

AHEAD_BITS = 6
"""Bits that number the beats of a residual map that wait for the store that adds to them."""

AHEAD = 2**AHEAD_BITS
"""Beats of a residual map that are read before as many are stored."""

MOVE_BITS = 4
"""Bits of the places by which the terms of an addition, and their sum, are shifted."""

RESET_CYCLES = 1024
"""Cycles after which a reset forgets the beats that the memory has not answered, as the memory may be reset, too."""

BEAT_BITS = 5 + 4 * NUMBER_BITS
"""What the engine notes of each of these beats, beside a bit for each of its words."""

RECORD_WORDS = 64
"""Numbers of a record, which describes a layer at a batch size in memory; a wider port reads a whole beat for each."""

CODE_BITS, BLOCKS_BITS, ROWS_BITS = 8, 8, 16
"""Bits in a record for the entry that it belongs to: the code of k, the code of the blocks of rows, B_R."""

PREPARE = 12
"""Cycles in which the engine finds the first two tiles of a layer, and the place of a beat's row in each."""

LAYER_START = 6
"""Cycles from ``start``, or the end of a layer, to the first load, beside those that depend on port and batch."""


class Port(NamedTuple):
    """Ports of designs, or the port of one: beats of ``words``, in ``ready`` of ``cycles`` cycles."""

    words: Any
    ready: Any
    cycles: Any
    latency: float  # cycles from asking for a beat to its arrival
    aligned: float = 1.0  # 1 if a beat of the bus lies at multiples of its words, 0 if anywhere: the NPU without a bus
    turn: float = 0.0  # cycles that the memory takes to turn to writing, and back
