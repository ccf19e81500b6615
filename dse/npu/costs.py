"""Cost of each layer on a design as its FBCB configures it, and the causes of its time."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats, Ints
from ...platforms import ENERGY_KEYS
from ...tables.files import FBCB_FILE
from . import kernels, layer_choice, schedule
from .board_use import BoardUse, board_use
from .choices import Batching, Overlap
from .design import DesignTable
from .fbcb import FbcbTable
from .layouts import LayerKind, arrange
from .logic import Entries
from .objectives import dynamic_energy
from .side_by_side import touched_samples
from .tiles import stacked
from .workload import distinct


class Cause(StrEnum):
    """Causes of a layer's time, in the order in which it is attributed (docs/model.md, Where time goes)."""

    COMPUTE = "compute"  # multipliers do MACs
    # some multipliers are idle, because ...
    BATCH_PADDING = "batch_padding"  # a place of the grid B_R x B_P holds no sample
    P_PADDING = "P_padding"  # the last tile along P is not full
    C_PADDING = "C_padding"  # the last tile along C is not full
    STACKING = "stacking"  # stacking halves an odd number
    SHORT_BLOCKS = "short_blocks"  # rows of a block do not fill the last step, or are fewer than sums in flight
    # the NPU waits for off-chip memory
    MEMORY = "memory"
    FEW_ROWS = "few_rows"  # it would not, if each reading of the weights served T_R rows
    PARTIAL_BEATS = "partial_beats"  # it would not, if all beats were full
    UNALIGNED_BEATS = "unaligned_beats"  # it would not, if no beat lay in two lines of an aligned bus
    FIRST_LOAD = "first_load"  # before the first product
    LAST_STORE = "last_store"  # after the last one
    BUFFERS = "buffers"  # loads and products wait for one another in turn, or the memory turns to writing

    @property
    def label(self) -> str:
        """The cause as it is printed."""
        return self.value.replace("_", " ")


PADDING = (Cause.P_PADDING, Cause.C_PADDING, Cause.STACKING, Cause.SHORT_BLOCKS)
"""Multipliers that are idle because a layer does not fill its tiles."""

WAITING = (
    Cause.MEMORY, Cause.FEW_ROWS, Cause.PARTIAL_BEATS, Cause.UNALIGNED_BEATS, Cause.FIRST_LOAD, Cause.LAST_STORE,
    Cause.BUFFERS,
)  # fmt: skip
"""Multipliers that are idle because of the off-chip memory."""


class LayerCosts(NamedTuple):
    """Cost of each layer and batch on a design, memory-only layers included, in execution order."""

    time_s: Floats  # (L, b_max)
    parts_s: dict[Cause, Floats]  # each (L, b_max), not negative; they sum to the time
    words: Floats  # (L, b_max), moved off chip
    block_rows: Ints | None  # (L, b_max), 0 for a memory-only layer; none if ideal
    beats: Floats  # (2, L, b_max), of the NPU and of the bus; 0 for a memory-only layer, or if ideal
    energy_j: Floats | None  # (L, b_max), without static power; none if the board states no energies


class Configured(NamedTuple):
    """The G products of a network as a control block configures them."""

    sizes: schedule.LayerSizes  # arrays of a row for each product
    tile: Floats  # (4, G, b_max), after stacking
    blocks: Ints  # (G, b_max), of rows; 1 where they are not chosen
    layouts: Ints  # (G, b_max, 4), b, B_R, B_P, passes


def configured(design: DesignTable, fbcb: FbcbTable) -> Configured:
    """Each product of a design's network as its FBCB configures it."""
    options = design.options
    work, rows = distinct(design.network, pooled=options.pooled, room=options.resident_words(design.platform))
    codes, blocks, B_R = fbcb.unpack()
    layouts = [
        [(b, down, *arrange(options.batching, b, down, LayerKind(kind))) for b, down in enumerate(row, 1)]
        for row, kind in zip(B_R.tolist(), work.kinds[rows], strict=True)
    ]
    tile = stacked(design.tile.array)[:, codes, 0]
    if tile.min() < 1:
        raise InputError(f"{FBCB_FILE}: k does not fit {design.tile}; make it again with `{FbcbTable.made_by}`")
    sizes = schedule.LayerSizes(*(values[rows] for values in work.sizes))
    return Configured(sizes, tile, blocks, np.array(layouts))


def samples_side_by_side(design: DesignTable, fbcb: FbcbTable) -> int:
    """Most samples that lie side by side in a tile of columns of a design, by the FBCBs of all its networks."""
    if design.together:
        return design.together.samples
    run = configured(design, fbcb)
    return touched_samples(run.sizes.gemm, run.tile.transpose(1, 2, 0), run.layouts)


def board_use_of(design: DesignTable, fbcb: FbcbTable) -> BoardUse | None:
    """What a design takes of its board; ``None`` if nothing but DSPs and bits of memory is counted."""
    if not design.options.placed:
        return None
    entries = Entries(design.together.control_bits, 1) if design.together else fbcb.entries
    return board_use(design.platform, design.tile, samples_side_by_side(design, fbcb), entries)


def layer_costs(design: DesignTable, fbcb: FbcbTable) -> LayerCosts:
    """Cost of each layer and batch on a design, as its FBCB configures it."""
    options, platform, network = design.options, design.platform, design.network
    cycles, words, parts, run, on_chip = _gemm_parts(design, configured(design, fbcb))
    batch = np.arange(1, options.b_max + 1)
    moved = np.outer([layer.memory_words for layer in network.layers], batch) * options.memory_layers
    waiting = moved / design.words_per_cycle  # a memory-only layer does nothing else
    has_gemm = np.array([layer.product(pooled=options.pooled) is not None for layer in network.layers])

    def spread(products: Floats, rest: Floats) -> Floats:
        table = rest.astype(np.float64)
        table[has_gemm] = products
        return table

    parts_s = {
        cause: spread(part, waiting * (cause is Cause.MEMORY)) / platform.clock_hz
        for cause, part in zip(Cause, parts, strict=True)
    }
    words, block_rows, energy_j = spread(words, moved), None, None
    beats, none = np.zeros((2, *moved.shape)), np.zeros_like(moved)
    if options.overlap is Overlap.TILES:
        block_rows = spread(run.block_rows, none).astype(np.int64)
        rate = design.port.ready / design.port.cycles
        beats[:] = spread(run.beats * rate, none), spread(run.lines * rate, none)
    if platform.states(ENERGY_KEYS):
        macs = np.array([layer.gemm.macs if layer.gemm else 0 for layer in network.layers])
        accesses = 2 * (words + spread(on_chip, none))
        energy_j = dynamic_energy(platform, np.outer(macs, batch), words, accesses)
    return LayerCosts(spread(cycles, waiting) / platform.clock_hz, parts_s, words, block_rows, beats, energy_j)


def _gemm_parts(design: DesignTable, chosen: Configured) -> tuple[Any, Any, list[Any], Any, Any]:
    """Cycles and words of products, cycles by :class:`Cause`, how they run, and words on chip only."""
    options = design.options
    literal, rate, units = options.batching is Batching.EQ1, design.words_per_cycle, design.tile.macs
    gemm, tile, layout = chosen.sizes.gemm.T[:, :, None], chosen.tile, np.moveaxis(chosen.layouts, -1, 0)
    (R, P, C, groups), (T_R, T_P, T_C, V), (b, B_R, B_P, passes) = gemm, tile, layout
    fetched = chosen.sizes.fetched[:, None]
    rows = groups * passes * B_R * R
    inner, columns = kernels.inner_tiles(P, T_P, B_P, literal), kernels.column_tiles(C, T_C, B_P, literal)
    # each step counts more multipliers as busy: first with a MAC, then also at an empty place of the grid, and so on
    made = groups * b * R * P * C / units
    grid = rows * B_P * P * C / units
    inner_filled = rows * inner * T_P * (C if literal else B_P * C) / units
    filled = rows * inner * T_P * columns * T_C / units
    compute = rows * inner * columns / V
    # as if every reading of the weights served the T_R rows that the buffers hold
    most = B_R * R / T_R
    if options.overlap is Overlap.PAPER:
        cycles, words = kernels.gemm_cost(gemm, tile, layout, rate, literal, fetched)
        read = groups * passes * kernels.weight_words(R, P, C, T_R, B_R)
        spared, stayed = fetched * (read - groups * passes * P * C * most), (1 - fetched) * read
        nothing: Any = 0.0
        run, busy, beats, lines, begun, ended = None, compute, words / rate, nothing, nothing, nothing
    else:
        run = _run(design, chosen)
        cycles, busy, beats, lines, words = run.cycles, run.busy, run.beats, run.lines, run.words
        spared = np.maximum(run.weights * (1 - most / run.blocks), 0.0)
        stayed = run.weights * (1 - fetched) / np.where(fetched, fetched, np.inf)
        begun, ended = busy + run.first, busy + run.first + run.last
    amortised = np.maximum(busy, (words - spared) / rate)
    steps = [made, grid, inner_filled, filled, compute, busy, amortised, np.maximum(busy, words / rate)]
    for least in (beats, lines, begun, ended, cycles):
        steps.append(np.maximum(steps[-1], least))
    parts = [made, *(np.maximum(step - before, 0.0) for before, step in pairwise(steps))]
    # a resident weight is read where it stays, then written and read as others: three accesses
    on_chip = groups * b * kernels.partial_words(R, P, C, T_P) + 1.5 * stayed
    return cycles, words, parts, run, on_chip


class _Run(NamedTuple):
    """What :func:`.layer_choice.run_layers` returns of each product and batch, (G, b_max) each; times in cycles."""

    cycles: Floats
    busy: Floats
    beats: Floats  # of the NPU
    lines: Floats  # of the bus
    first: Floats
    last: Floats
    words: Floats
    weights: Floats
    blocks: Floats
    block_rows: Floats


def _run(design: DesignTable, chosen: Configured) -> _Run:
    """Run each product and batch."""
    shape = chosen.blocks.shape
    mode = layer_choice.IDEAL if design.options.overlap is Overlap.IDEAL else layer_choice.AS_BUILT
    tiles = np.ascontiguousarray(chosen.tile.reshape(4, -1).T)
    engine = schedule.engine_times(design.port, float(design.tile.T_P), 0, design.words_per_cycle)
    layers = schedule.LayerSizes(*(np.repeat(values, shape[1], axis=0) for values in chosen.sizes))
    layouts = chosen.layouts.reshape(-1, 4)
    figures = layer_choice.run_layers(layers, tiles, layouts, chosen.blocks.ravel(), engine, mode)
    return _Run(*np.moveaxis(figures.reshape(*shape, -1), -1, 0))
