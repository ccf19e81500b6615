"""Jobs of the engine: what a host sends so that it runs one layer at one batch size (docs/hardware.md, The engine)."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...formats import InputError
from ..engine import MOST, SUM_BITS
from ..integers.window import Window
from ..npu import schedule
from ..npu.tiles import Tile

RTL = Path(__file__).parent / "rtl"
ENGINE = RTL / "engine"
ENGINE_PACKAGE_FILE = "engine_pkg.sv"


@cache
def fields() -> tuple[str, ...]:
    """Names of the words of a job in their order: those of ``job_t`` in the engine's package."""
    package = (ENGINE / f"{ENGINE_PACKAGE_FILE}.in").read_text(encoding="utf-8")
    (members,) = re.findall(r"typedef struct packed \{((?:(?!typedef).)*)\} job_t;", package, re.DOTALL)
    return tuple(name for row in re.findall(r"logic \[31:0\] ([^;]*);", members) for name in row.split(", "))


class Job(NamedTuple):
    """A layer at a batch size, as the control block configures it.

    Attributes
    ----------
    window : Window
        Its inputs, for one group.
    C, groups : int
        Output channels of a group, and groups.
    layout : tuple of int
        b, B_R, B_P and passes.
    code : int
        Of the stacking k: 0, 1, 2 for 1, 2, 1/2.
    tile : Tile
        The design after stacking.
    rows : int
        Rows of a block.
    shift : int
        Outputs are sums divided by 2**shift, rounded to the nearest, halves up.
    relu : bool
        Whether negative outputs become 0.
    gap : int
        Words left free behind the outputs of a sample, as for a further channel of the next layer's map.
    """

    window: Window
    C: int
    groups: int
    layout: tuple[int, int, int, int]
    code: int
    tile: Tile
    rows: int
    shift: int
    relu: bool
    gap: int = 0

    @property
    def gemm(self) -> tuple[int, int, int, int]:
        """R, P, C and groups."""
        return self.window.R, self.window.P, self.C, self.groups


def descriptor(job: Job, words: int, x: int, weights: int, y: int) -> list[int]:
    """The words of a job: every product and quotient that the engine would have to compute.

    Parameters
    ----------
    job : Job
        The layer.
    words : int
        Words of a beat of the port.
    x, weights, y : int
        Addresses in words: of inputs [sample][group][channel][height][width], of weights
        [group][P][C] and of outputs [sample][group][C][R], with the job's gap behind each sample.

    Returns
    -------
    list of int
        Numbers of 32 bits, in the order of :func:`fields`.

    Raises
    ------
    InputError
        If the engine's counters do not hold a size.
    """
    (R, P, C, groups), (b, B_R, B_P, passes), window = job.gemm, job.layout, job.window
    (height, width), (lines, line), (stride_y, stride_x) = window.size, window.outputs, window.stride
    for what, size, most in (
        ("columns", C, MOST), ("height", height, MOST), ("width", width, MOST), ("rows", job.rows, MOST),
        ("shift", job.shift, SUM_BITS - 1),
    ):  # fmt: skip
        if size > most:
            raise InputError(f"job: {what}: expected at most {most:,}, found {size:,}; the engine counts no further")
    _, T_P, T_C, V = job.tile
    x_sample, y_sample, samples = groups * window.words, groups * C * R + job.gap, b // passes
    of_beat = max(words // stride_x, 1)
    kernel_y, kernel_x = (n * d for n, d in zip(window.kernel, window.dilation, strict=True))
    # T_P inner rows further: so many channels, rows and columns of the window
    channels, within = divmod(T_P, window.kernel[0] * window.kernel[1])
    step_y, step_x = (n * d for n, d in zip(divmod(within, window.kernel[1]), window.dilation, strict=True))
    # a tile of columns further: so many samples, and columns of one; a block: samples, lines, and rows in a line
    turn, left = divmod(T_C, C)
    down, rest = divmod(job.rows, R)
    block_lines, at = divmod(rest, line)
    gemm, tile = tuple(map(float, job.gemm)), tuple(map(float, job.tile))
    _, share, _ = schedule.beats_of_layer(gemm, window.source, tile, job.layout, float(job.rows), words, 1.0)
    found = {
        "k": job.code, "shift": job.shift, "relu": job.relu,
        "R": R, "P": P, "C": C, "groups": groups, "runs": passes,
        "T_P": T_P, "T_C": T_C, "steps": math.ceil(P / T_P), "share": share,
        "B_P": B_P, "columns": B_P * C, "down": B_R * R, "filled": (samples - B_R * (B_P - 1)) * R,
        "rows": job.rows, "rows_quotient": down, "rows_remainder": rest,
        "tile_quotient": turn, "tile_remainder": left, "tile_words": left * R, "slot_rows": (-(-job.rows // V) | 1) * V,
        "x_base": x if window.along_P else x - window.pad[0] * width - window.pad[1],
        "x_sample": x_sample, "x_column": B_R * x_sample, "x_group": window.words, "x_run": samples * x_sample,
        "x_tile": turn * B_R * x_sample, "x_block": down * x_sample,
        "x_step": T_P if window.along_P else (channels * height + step_y) * width + step_x,
        "along_P": window.along_P, "of_beat": of_beat, "beat_words": of_beat * stride_x,
        "stride_x": stride_x, "stride_y": stride_y, "span_x": line * stride_x, "span_y": lines * stride_y,
        "block_x": at * stride_x, "block_y": block_lines * stride_y,
        "dilation_x": window.dilation[1], "dilation_y": window.dilation[0], "kernel_x": kernel_x, "kernel_y": kernel_y,
        "step_x": step_x, "step_y": step_y,
        "x_window": window.dilation[0] * width - kernel_x, "x_channel": (height - kernel_y) * width,
        "pad_x": window.pad[1], "pad_y": window.pad[0], "width": width, "height": height,
        "w_base": weights, "w_group": P * C, "w_step": T_P * C,
        "y_base": y, "y_sample": y_sample, "y_column": B_R * y_sample, "y_group": C * R, "y_run": samples * y_sample,
        "y_tile": turn * B_R * y_sample, "y_block": down * y_sample,
    }  # fmt: skip
    if window.joined:  # the whole sample is one line
        found |= {"line": R, "line_words": R, "x_line": 0, "x_wrap": 0}
        found |= {"block_at": rest, "block_in_line": rest, "x_lines": 0}
    else:
        step = stride_y * width
        found |= {"line": line, "line_words": line * stride_x, "x_line": step, "x_wrap": lines * step}
        found |= {"block_at": at, "block_in_line": at * stride_x, "x_lines": block_lines * step}
    return [int(found[name]) & 0xFFFFFFFF for name in fields()]
