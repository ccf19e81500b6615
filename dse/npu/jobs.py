"""Jobs of the engine: what a host sends so that it runs one layer at one batch size (docs/npu.md, The engine)."""

from __future__ import annotations

import math
from typing import NamedTuple

from . import schedule
from .space import Tile

WORDS = 69
"""Words of 32 bits of a job: ``job_t`` in ``rtl/engine/engine_pkg.sv.in``."""


class Window(NamedTuple):
    """How a layer reads the map of one group of its inputs, [channel][height][width] in memory.

    Pairs are of rows and columns. Whatever lies beyond the map is 0.
    """

    channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    outputs: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)  # above and to the left
    dilation: tuple[int, int] = (1, 1)

    @classmethod
    def of_product(cls, R: int, P: int) -> Window:
        """That of a bare product, whose inputs are [P][R]."""
        return cls(P, (1, R), (1, 1), (1, R))

    @property
    def R(self) -> int:
        """Rows of the product: output positions."""
        return self.outputs[0] * self.outputs[1]

    @property
    def P(self) -> int:
        """Inner dimension of the product."""
        return self.channels * self.kernel[0] * self.kernel[1]

    @property
    def words(self) -> int:
        """Words of the map."""
        return self.channels * self.size[0] * self.size[1]

    @property
    def along_P(self) -> bool:
        """True if the only row takes the whole map in order."""
        whole = self.kernel == self.size and not any(self.pad)
        return self.R == 1 and whole and all(n == 1 or d == 1 for n, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def joined(self) -> bool:
        """True if the inputs of all rows follow one another, from one line of the map to the next."""
        return self.along_P or (self.R > 1 and self.stride == (1, 1) and self.outputs[1] == self.size[1])

    @property
    def source(self) -> tuple[int, int]:
        """Line and stride of the layer, as :class:`fluidb.models.Layer` has them."""
        return (0, 1) if self.joined else (self.outputs[1], self.stride[1])


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
        [group][P][C] and of outputs [sample][group][C][R].

    Returns
    -------
    list of int
        :data:`WORDS` numbers of 32 bits.
    """
    (R, P, C, groups), (b, B_R, B_P, passes), window = job.gemm, job.layout, job.window
    _, T_P, T_C = job.tile
    x_sample, y_sample, samples = groups * window.words, groups * C * R, b // passes
    turn, left = divmod(T_C, C)
    down, rest = divmod(job.rows, R)
    gemm, tile = tuple(map(float, job.gemm)), tuple(map(float, job.tile))
    share, _ = schedule.beats_of_layer(gemm, window.source, tile, job.layout, float(job.rows), words, 1.0)[1:]

    (height, width), (stride_y, stride_x), (dilation_y, dilation_x) = window.size, window.stride, window.dilation
    kernel_y, kernel_x = window.kernel[0] * dilation_y, window.kernel[1] * dilation_x
    # T_P inner rows further: so many channels, rows and columns of the window
    channels, within = divmod(T_P, window.kernel[0] * window.kernel[1])
    step_y, step_x = (n * d for n, d in zip(divmod(within, window.kernel[1]), window.dilation, strict=True))
    # a block further: so many lines, and rows in a line
    lines, at = divmod(rest, window.outputs[1])
    of_beat = max(words // stride_x, 1)
    if window.joined:
        in_memory = [R, R, of_beat, of_beat, 0, 0, rest, rest, 0]
    else:
        line, step = window.outputs[1], stride_y * width
        in_memory = [line, line * stride_x, of_beat, of_beat * stride_x, step, window.outputs[0] * step]
        in_memory += [at, at * stride_x, lines * step]

    x_step = T_P
    if not window.along_P:
        x_step = channels * height * width + step_y * width + step_x
        x -= window.pad[0] * width + window.pad[1]
    found = [job.code, job.shift, int(job.relu), R, P, C, groups, passes, T_P, T_C, math.ceil(P / T_P), int(share)]
    found += [B_P, B_P * C, B_R * R, (samples - B_R * (B_P - 1)) * R, job.rows, down, rest]
    found += [turn, left, left * R, job.rows | 1]
    found += [x, x_sample, B_R * x_sample, window.words, samples * x_sample]
    found += [turn * B_R * x_sample, down * x_sample, x_step]
    found += [int(window.along_P), *in_memory]
    found += [stride_x, stride_y, window.outputs[1] * stride_x, window.outputs[0] * stride_y]
    found += [at * stride_x, lines * stride_y, dilation_x, dilation_y, kernel_x, kernel_y, step_x, step_y]
    found += [dilation_y * width - kernel_x, (height - kernel_y) * width]
    found += [window.pad[1], window.pad[0], width, height]
    found += [weights, P * C, T_P * C]
    found += [y, y_sample, B_R * y_sample, C * R, samples * y_sample, turn * B_R * y_sample, down * y_sample]
    return [int(word) & 0xFFFFFFFF for word in found]
