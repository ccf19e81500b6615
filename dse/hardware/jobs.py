"""Jobs of the engine: what a host sends so that it runs one layer at one batch size (docs/hardware.md, The engine)."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...formats import InputError
from ..engine import MOST, MOVE_BITS, NUMBER_BITS, SUM_BITS, WORD_BITS
from ..integers.window import Window
from ..npu.beats import beats_of_layer
from ..npu.tiles import Tile

LAYOUT = (
    ("k T_P T_C runs B_P", "T_P, T_C: of the stacked tile"),
    ("columns down filled", "B_P * C, B_R * R, rows that the last sample column holds"),
    ("x_base y_base x_column y_column x_run y_run", ""),
    ("slot_rows", "rows from one sample to the next of those side by side: V times an odd number"),
)
"""Words of a job that the NPU derives from the Fluid Batching Engine's layout, and the RTL's comments on them."""

OF_LAYER = (
    ("shift low high", "bounds of the outputs"),
    ("addition", "of a residual map, an addition_t"),
    ("distance", "from the address of an output to that of the word which is added to it"),
    ("product_bounds", "before that: the lower one below the upper one"),
    ("maximum", "outputs are the largest product, not the sum: of words from 0 on, by 1, in the only column"),
    ("R P C groups", ""),
    ("steps", "tiles along P"),
    ("share", "beats of a store between two loads, at most"),
    ("rows rows_quotient rows_remainder", "of a block; divided by R"),
    ("tile_quotient tile_remainder tile_words", "T_C divided by C; words of the remainder's outputs"),
    ("x_sample x_group x_tile x_block x_step", ""),
    ("", "Inputs of a line of rows are `stride_x` words apart: of a line of the map, or of a whole sample if all are."),
    ("along_P", "the inputs of each row follow one another along P"),
    ("line line_words of_beat beat_words", "rows and words of a line and of a beat"),
    ("x_line x_wrap", "words from a line to the next, from the first line of a sample to beyond the last"),
    ("block_at block_in_line x_lines", "rest of a block: rows, their words, whole lines"),
    ("", "Places on the map of a row and of the window, in words and lines; beyond the map inputs are 0."),
    ("stride_x stride_y span_x span_y block_x block_y", ""),
    ("dilation_x dilation_y kernel_x kernel_y step_x step_y x_window x_channel", ""),
    ("pad_x pad_y width height", ""),
    ("w_base w_group w_step", ""),
    ("y_sample y_channel y_group y_tile y_block", ""),
)
"""Words of a job that are in memory for each layer and batch size: sizes of the layer, and quotients of sizes."""

LAYOUT_FIELDS, FIELDS = (
    tuple(name for names, _ in rows for name in names.split()) for rows in (LAYOUT, (*LAYOUT, *OF_LAYER))
)
"""Names of the words that the NPU derives; of all words in their order, as ``engine_pkg::job_t`` has them."""


class Addition(NamedTuple):
    """A residual map that the store adds to the outputs of a product."""

    left: tuple[int, int]  # places by which the product and the map move to the left
    shift: int  # sums are divided by 2**shift, rounded to the nearest, halves up
    # bounds of the product
    low: int
    high: int
    distance: int = 0  # words from the address of an output to the word that is added to it

    def packed(self) -> int:
        """The number of a job, ``engine_pkg::addition_t``: only the difference of the places counts."""
        least = min(*self.left, self.shift)
        product, other, right = self.left[0] - least, self.left[1] - least, self.shift - least
        moved = max(product, other)
        if min(product, other) > 0 or max(moved, right) >> MOVE_BITS:
            raise InputError(
                f"addition: expected maps whose scales differ by at most 2**{2**MOVE_BITS - 1}, found shifts of "
                f"{product} and {other} to the left, then {right} to the right"
            )
        return 1 | right << 1 | moved << (1 + MOVE_BITS) | (other > 0) << (1 + 2 * MOVE_BITS)


class Job(NamedTuple):
    """A layer at a batch size, as the control block configures it."""

    window: Window  # its inputs, for one group
    # output channels of a group, and groups
    C: int
    groups: int
    layout: tuple[int, int, int, int]  # b, B_R, B_P and passes
    code: int  # of the stacking k: 0, 1, 2 for 1, 2, 1/2
    tile: Tile  # the design after stacking
    rows: int  # rows of a block
    shift: int  # outputs are sums divided by 2**shift, rounded to the nearest, halves up
    # bounds of outputs, of 16 bits
    low: int
    high: int
    # words from a sample of the inputs, a sample or a channel of the outputs to the next, if others lie between them; 0
    # if none do
    x_sample: int = 0
    y_sample: int = 0
    y_channel: int = 0
    # words from a channel of the inputs to the next, with ``x_sample``; 0 if they follow one another
    x_channel: int = 0
    shared: bool = False  # whether all groups have one copy of the weights
    maximum: bool = False  # whether an output is the largest product, as in a maximum pool
    addition: Addition | None = None  # what is added to the product before the outputs are kept within their bounds

    @property
    def gemm(self) -> tuple[int, int, int, int]:
        """R, P, C and groups."""
        return self.window.R, self.window.P, self.C, self.groups


def descriptor(job: Job, words: int, x: int, weights: int, y: int) -> list[int]:
    """The words of a job: every product and quotient that the engine would have to compute, in the order of ``FIELDS``.

    ``words`` are of a beat of the port; addresses in words are of inputs [sample][group][channel][height][width], of
    weights [group][P][C], of one group if they are shared, and of outputs [sample][group][C][R].
    """
    (R, P, C, groups), (b, B_R, B_P, passes), window = job.gemm, job.layout, job.window
    (height, width), (lines, line), (stride_y, stride_x) = window.size, window.outputs, window.stride
    for what, size, most in (
        ("columns", C, MOST), ("height", height, MOST), ("width", width, MOST), ("rows", job.rows, MOST),
        ("shift", job.shift, SUM_BITS - 1),
    ):  # fmt: skip
        if size > most:
            raise InputError(f"job: {what}: expected at most {most:,}, found {size:,}; the engine counts no further")
    _, T_P, T_C, V, _ = job.tile
    samples, y_channel = b // passes, job.y_channel or R
    x_sample, y_sample = job.x_sample or groups * window.words, job.y_sample or groups * C * y_channel
    x_channel, of_beat = job.x_channel or height * width, max(words // stride_x, 1)
    kernel_y, kernel_x = (n * d for n, d in zip(window.kernel, window.dilation, strict=True))
    add = job.addition
    low, high = (add.low, add.high) if add else (job.low, job.high)
    # T_P inner rows further: channels, rows and columns of the window
    channels, within = divmod(T_P, window.kernel[0] * window.kernel[1])
    step_y, step_x = (n * d for n, d in zip(divmod(within, window.kernel[1]), window.dilation, strict=True))
    # a tile of columns further: samples, and columns of one; a block further: samples, lines, and rows in a line
    turn, left = divmod(T_C, C)
    down, rest = divmod(job.rows, R)
    block_lines, at = divmod(rest, line)
    gemm, tile = tuple(map(float, job.gemm)), tuple(map(float, job.tile[:4]))
    _, share, _ = beats_of_layer(gemm, window.source, tile, job.layout, float(job.rows), words, 1.0)
    values = {
        "k": job.code, "shift": job.shift, "low": job.low, "high": job.high, "maximum": job.maximum,
        "addition": add.packed() if add else 0, "distance": add.distance if add else 0,
        "product_bounds": high << WORD_BITS | low & (1 << WORD_BITS) - 1,
        "R": R, "P": P, "C": C, "groups": groups, "runs": passes,
        "T_P": T_P, "T_C": T_C, "steps": math.ceil(P / T_P), "share": share,
        "B_P": B_P, "columns": B_P * C, "down": B_R * R, "filled": (samples - B_R * (B_P - 1)) * R,
        "rows": job.rows, "rows_quotient": down, "rows_remainder": rest,
        "tile_quotient": turn, "tile_remainder": left, "tile_words": left * y_channel,
        "slot_rows": (-(-job.rows // V) | 1) * V,
        "x_base": x if window.along_P else x - window.pad[0] * width - window.pad[1],
        "x_sample": x_sample, "x_column": B_R * x_sample, "x_run": samples * x_sample,
        "x_group": window.channels * x_channel,
        "x_tile": turn * B_R * x_sample, "x_block": down * x_sample,
        "x_step": T_P if window.along_P else channels * x_channel + step_y * width + step_x,
        "along_P": window.along_P, "of_beat": of_beat, "beat_words": of_beat * stride_x,
        "stride_x": stride_x, "stride_y": stride_y, "span_x": line * stride_x, "span_y": lines * stride_y,
        "block_x": at * stride_x, "block_y": block_lines * stride_y,
        "dilation_x": window.dilation[1], "dilation_y": window.dilation[0], "kernel_x": kernel_x, "kernel_y": kernel_y,
        "step_x": step_x, "step_y": step_y,
        "x_window": window.dilation[0] * width - kernel_x, "x_channel": x_channel - kernel_y * width,
        "pad_x": window.pad[1], "pad_y": window.pad[0], "width": width, "height": height,
        "w_base": weights, "w_group": 0 if job.shared else P * C, "w_step": T_P * C,
        "y_base": y, "y_sample": y_sample, "y_column": B_R * y_sample, "y_run": samples * y_sample,
        "y_channel": y_channel, "y_group": C * y_channel, "y_tile": turn * B_R * y_sample, "y_block": down * y_sample,
    }  # fmt: skip
    if window.joined:  # the whole sample is one line
        values |= {"line": R, "line_words": R, "x_line": 0, "x_wrap": 0}
        values |= {"block_at": rest, "block_in_line": rest, "x_lines": 0}
    else:
        step = job.x_channel if window.in_rows and job.x_channel else stride_y * width  # a row may be a channel
        values |= {"line": line, "line_words": line * stride_x, "x_line": step, "x_wrap": lines * step}
        values |= {"block_at": at, "block_in_line": at * stride_x, "x_lines": block_lines * step}
    mask = 2**NUMBER_BITS - 1  # an address before the memory wraps
    return [int(values[name]) & mask for name in FIELDS]
