"""Lowering: what each operator does to a shape, and the matrix product it becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .network import Gemm, Layer, Shape
from .schema import Conv, Flatten, GlobalPool, Join, Linear, Op, Pool

MAX_WORK = 2**43
"""Most MACs, or words of a map, of one layer: with any batch size, cycles stay exact (docs/model.md, Arithmetic)."""


def _windows(size: int, kernel: int, stride: int, pad: int, *, ceil: bool = False) -> int:
    """Window positions along one axis; a last partial window must start inside the input."""
    span = size + 2 * pad - kernel
    if span < 0:
        raise ValueError(f"window of {kernel} does not fit into {size} with padding {pad}")
    count = (math.ceil(span / stride) if ceil else span // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= size + pad else count


def _conv(op: Conv, source: Shape) -> tuple[Shape, Gemm]:
    if source.channels % op.groups or op.out % op.groups:
        raise ValueError(f"groups {op.groups} must divide input channels {source.channels} and out {op.out}")
    reach = [dilation * (kernel - 1) + 1 for kernel, dilation in zip(op.kernel, op.dilation, strict=True)]
    shape = Shape(
        _windows(source.height, reach[0], op.stride[0], op.pad[0]),
        _windows(source.width, reach[1], op.stride[1], op.pad[1]),
        op.out,
    )
    window = op.kernel[0] * op.kernel[1] * (source.channels // op.groups)
    return shape, Gemm(shape.positions, window, op.out // op.groups, op.groups)


def _pool(op: Pool, source: Shape) -> Shape:
    height, width = (
        _windows(size, kernel, stride, pad, ceil=op.ceil)
        for size, kernel, stride, pad in zip(source[:2], op.kernel, op.stride, op.pad, strict=True)
    )
    return Shape(height, width, source.channels)


def _join(op: Join, sources: Sequence[Shape]) -> Shape:
    if len(sources) < 2:
        raise ValueError(f'{op.op} needs at least two inputs: from = ["...", "..."]')
    if op.op == "add":
        if len(set(sources)) > 1:
            raise ValueError(f"add needs equal shapes, found {' and '.join(map(str, sources))}")
        return sources[0]
    if len({shape[:2] for shape in sources}) > 1:
        raise ValueError(f"concat needs equal height and width, found {' and '.join(map(str, sources))}")
    return Shape(sources[0].height, sources[0].width, sum(shape.channels for shape in sources))


def lower(op: Op, sources: Sequence[Shape], stage: int, prefix: str = "") -> tuple[Shape, Layer | None]:
    """What one operator gives and what it costs.

    Parameters
    ----------
    op : Op
        The operator as written.
    sources : sequence of Shape
        Shapes of its inputs, at least one.
    stage : int
        1-based stage it runs in.
    prefix : str
        Put before its name: the exit of a head's layer.

    Returns
    -------
    shape : Shape
        Its output.
    layer : Layer or None
        The layer on the NPU; ``None`` if it moves and computes nothing
        (a residual addition is fused into the convolution before it, a
        concatenation is written in place).

    Raises
    ------
    ValueError
        If the shapes do not fit; the message names no file.
    """
    source = sources[0]
    if len(sources) != 1 and not isinstance(op, Join):
        raise ValueError(f"{op.op} takes one input, found {len(sources)}")
    gemm, words = None, 0
    match op:
        case Conv():
            shape, gemm = _conv(op, source)
        case Linear():
            shape = Shape(source.height, source.width, op.out)
            gemm = Gemm(source.positions, source.channels, op.out)
        case Join():
            shape = _join(op, sources)
        case Flatten():
            shape = Shape(1, 1, source.words)
        case Pool() | GlobalPool():
            shape = _pool(op, source) if isinstance(op, Pool) else Shape(1, 1, source.channels)
            words = source.words + shape.words  # reads the map, writes the map
    if max(shape.words, words, gemm.macs if gemm else 0) > MAX_WORK:
        raise ValueError(f"expected at most {MAX_WORK:.2g} MACs or words, found more; check kernel, out and input")
    if op.shape is not None and shape != tuple(op.shape):
        raise ValueError(f"shape says {'x'.join(map(str, op.shape))}, but its inputs give {shape}")
    if gemm is None and words == 0:
        return shape, None
    return shape, Layer(prefix + op.name, stage, gemm, words, shape)
