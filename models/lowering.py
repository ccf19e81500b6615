"""Lowering: the output shape of each operator, and the matrix product that it becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from .network import MAX_WORK, Gemm, Kernel, Layer, Shape
from .schema import (
    Conv,
    ConvTranspose,
    Flatten,
    GlobalPool,
    Join,
    Linear,
    MatMul,
    MemoryPass,
    Op,
    Pool,
    Product,
    Recurrent,
    View,
)


def windows(size: int, kernel: int, stride: int, pads: Sequence[int], *, ceil: bool = False) -> int:
    """Number of window positions along one axis. A last partial window must start inside the input."""
    before, after = pads
    span = size + before + after - kernel
    if span < 0:
        raise ValueError(f"window of {kernel} does not fit into {size} with padding {before} and {after}")
    count = (math.ceil(span / stride) if ceil else span // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= size + before else count


def _sides(pad: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Padding before and after, of rows and of columns."""
    return pad[0::2], pad[1::2]


class InputOrder(NamedTuple):
    """How a product reads its inputs, as :class:`Layer` says it."""

    line: int = 0
    stride: int = 1
    step: int = 0
    window: Kernel = Kernel(1, 1)


Lowered = tuple[Shape, Gemm | None, int]
"""The output of an operator, its product, and the words that it moves if it has no product."""


def _reach(op: Conv | ConvTranspose, source: Shape) -> list[int]:
    """Rows and columns that a dilated kernel spans."""
    if source.channels % op.groups or op.out % op.groups:
        raise ValueError(f"groups {op.groups} must divide input channels {source.channels} and out {op.out}")
    return [dilation * (kernel - 1) + 1 for kernel, dilation in zip(op.kernel, op.dilation, strict=True)]


def _conv(op: Conv, source: Shape) -> Lowered:
    height, width = map(windows, source[:2], _reach(op, source), op.stride, _sides(op.pad))
    shape = Shape(height, width, op.out)
    window = op.kernel[0] * op.kernel[1] * (source.channels // op.groups)
    return shape, Gemm(shape.positions, window, op.out // op.groups, op.groups), 0


def _input_order(op: Conv | Pool, source: Shape, shape: Shape) -> InputOrder:
    """How the :class:`Layer` of a window reads its inputs."""
    step, window = source.width, Kernel(op.kernel[0], op.kernel[1])
    if shape.positions == 1:  # a window over the whole map is read as a fully connected layer reads it
        whole = tuple(op.kernel) == source[:2] and not any(op.pad)
        return InputOrder() if whole else InputOrder(1, 1, step, window)
    if tuple(op.stride) == (1, 1) and shape.width == source.width:  # a window moves by a row, over the map's edge too
        return InputOrder() if window == (1, 1) else InputOrder(0, 1, step, window)
    return InputOrder(shape.width, op.stride[1], step, window)


def _conv_transpose(op: ConvTranspose, source: Shape) -> Lowered:
    """Every input position is multiplied by all weights of the window; overlapping products are added when written."""
    sizes = zip(source[:2], _reach(op, source), op.stride, _sides(op.pad), op.extra, strict=True)
    height, width = ((size - 1) * stride + reach - sum(pads) + extra for size, reach, stride, pads, extra in sizes)
    if min(height, width) < 1:
        raise ValueError(f"padding {op.pad} leaves nothing of the output")
    window = op.kernel[0] * op.kernel[1] * (op.out // op.groups)
    gemm = Gemm(source.positions, source.channels // op.groups, window, op.groups)
    return Shape(height, width, op.out), gemm, 0


def _linear(op: Linear, source: Shape) -> Lowered:
    shape = Shape(source.height, source.width, op.out)
    return shape, Gemm(source.positions, source.channels, op.out), 0


def _matmul(op: MatMul, *sources: Shape) -> Lowered:
    if len(sources) != 2:
        raise ValueError(f"matmul takes two inputs, found {len(sources)}")
    left, right = sources
    for shape in sources:
        if shape.channels % op.heads:
            raise ValueError(f"heads {op.heads} must divide the channels of both inputs, found {left} and {right}")
    inner, columns = left.channels // op.heads, right.channels // op.heads
    if op.transposed:
        if inner != columns:
            raise ValueError(f"transposed matmul needs equal channels, found {left} and {right}")
        columns = right.positions
    elif inner != right.positions:
        raise ValueError(
            f"matmul needs as many channels for each of {op.heads} heads as its second input has positions, "
            f"found {left} and {right}"
        )
    shape = Shape(left.height, left.width, op.heads * columns)
    return shape, Gemm(left.positions, inner, columns, op.heads), 0


def _product(op: Product, *_: Shape) -> Lowered:
    gemm = Gemm(op.rows, op.inner, op.columns, op.groups)
    shape = Shape(op.rows, 1, op.groups * op.columns)
    if op.shape is None:
        return shape, gemm, 0
    if math.prod(op.shape) != shape.words:
        raise ValueError(f"shape says {'x'.join(map(str, op.shape))}, but the product has {shape.words} values")
    return Shape(*op.shape), gemm, 0


def _recurrent(op: Recurrent, source: Shape, *_: Shape) -> Lowered:
    """Every step is a product of its own: its state is known only after the step before it."""
    steps, rest = divmod(source.positions, op.sequences)
    if rest:
        raise ValueError(f"sequences {op.sequences} must divide the positions of the input, {source.positions}")
    shape = Shape(source.height, source.width, op.directions * op.hidden)
    gemm = Gemm(op.sequences, source.channels + op.hidden, op.gates * op.hidden, steps * op.directions)
    return shape, gemm, 0


def _memory(op: MemoryPass, *sources: Shape) -> Lowered:
    shape = Shape(*op.shape) if op.shape else sources[0]
    return shape, None, (sum(source.words for source in sources) if op.reads is None else op.reads) + shape.words


def _view(op: View, source: Shape) -> Lowered:
    shape = Shape(*op.shape)
    if shape.words > source.words:
        raise ValueError(f"expected a view of at most the {source.words} values of the input, found {shape}")
    return shape, None, 0


def _pool(op: Pool | GlobalPool, source: Shape) -> Lowered:
    """A pool reads its input and writes its output."""
    height, width = 1, 1
    if isinstance(op, Pool):
        height, width = map(partial(windows, ceil=op.ceil), source[:2], op.kernel, op.stride, _sides(op.pad))
    shape = Shape(height, width, source.channels)
    return shape, None, source.words + shape.words


def _pool_product(op: Pool | GlobalPool, source: Shape, shape: Shape) -> tuple[Gemm, InputOrder]:
    """The product as which an NPU pools, and how it reads its inputs."""
    if isinstance(op, GlobalPool) or (tuple(op.kernel) == source[:2] and shape.positions == 1 and not any(op.pad[:2])):
        # each channel is a row, whose inputs follow one another
        return Gemm(source.channels, source.positions, 1), InputOrder(1, 0)
    return Gemm(shape.positions, op.kernel[0] * op.kernel[1], 1, source.channels), _input_order(op, source, shape)


def _flatten(_: Flatten, source: Shape) -> Lowered:
    return Shape(1, 1, source.words), None, 0


def _join(op: Join, *sources: Shape) -> Lowered:
    """Additions and the like are fused into the product before them, and concatenations are written in place."""
    if len(sources) < 2:
        raise ValueError(f'{op.op} needs at least two inputs: from = ["...", "..."]')
    if op.op == "fuse":
        return sources[0], None, 0
    if op.op == "add":
        if len(set(sources)) > 1:
            raise ValueError(f"add needs equal shapes, found {' and '.join(map(str, sources))}")
        return sources[0], None, 0
    if len({shape[:2] for shape in sources}) > 1:
        raise ValueError(f"concat needs equal height and width, found {' and '.join(map(str, sources))}")
    return Shape(sources[0].height, sources[0].width, sum(shape.channels for shape in sources)), None, 0


_LOWER: dict[type[Any], Callable[..., Lowered]] = {
    Conv: _conv,
    ConvTranspose: _conv_transpose,
    Flatten: _flatten,
    GlobalPool: _pool,
    Join: _join,
    Linear: _linear,
    MatMul: _matmul,
    MemoryPass: _memory,
    Pool: _pool,
    Product: _product,
    Recurrent: _recurrent,
    View: _view,
}


def lower(op: Op, sources: Sequence[Shape], stage: int, *, in_head: bool = False) -> tuple[Shape, Layer | None]:
    """The output of one operator, and its cost."""
    if len(sources) != 1 and not isinstance(op, Join | MatMul | MemoryPass | Product | Recurrent):
        raise ValueError(f"{op.op} takes one input, found {len(sources)}")
    shape, gemm, words = _LOWER[type(op)](op, *sources)
    pool, read = None, InputOrder()
    if isinstance(op, Pool | GlobalPool):
        pool, read = _pool_product(op, sources[0], shape)
    elif isinstance(op, Conv):
        read = _input_order(op, sources[0], shape)
    if max(shape.words, words, *(product.macs for product in (gemm, pool) if product)) > MAX_WORK:
        raise ValueError(f"expected at most {MAX_WORK:.2g} MACs or words, found more; check kernel, out and input")
    if op.shape is not None and shape != tuple(op.shape):
        raise ValueError(f"shape says {'x'.join(map(str, op.shape))}, but its inputs give {shape}")
    if gemm is None and words == 0:
        return shape, None
    return shape, Layer(
        name=f"exit{stage}/{op.name}" if in_head else op.name,
        stage=stage,
        role=("bridge" if op.bridge else "head") if in_head else "backbone",
        gemm=gemm,
        pool=pool,
        per_sample=isinstance(op, MatMul) or (isinstance(op, Product) and op.per_sample),
        **read._asdict(),
        memory_words=words,
        shape=shape,
    )


def lower_all(
    ops: Sequence[Op], source: Shape, where: str, stages: Iterable[int] | None = None, *, in_head: bool = False
) -> tuple[dict[str, Shape], list[Layer], list[str]]:
    """Lower a chain of operators in execution order."""
    shapes, layers, faults = {"input": source}, [], []
    before: Shape | None = source
    named = {"input"}  # the layers so far, also layers that have a fault and therefore no shape
    for index, (op, stage) in enumerate(zip(ops, stages or repeat(1), strict=False)):
        label = f'{where}[{index}] ("{op.name}")'
        if op.name in named:
            faults.append(f'{label}: expected a new name, found "{op.name}" again')
            continue
        named.add(op.name)
        unknown = [name for name in op.inputs or () if name not in named]
        faults += [f'{label}.from: expected an earlier layer, found "{name}"' for name in unknown]
        sources = [before] if op.inputs is None else [shapes.get(name) for name in op.inputs]
        known = [shape for shape in sources if shape]
        before = None  # after a fault the following layers have no known shape; one fault is enough
        if len(known) < len(sources):
            continue
        try:
            before, layer = lower(op, known, stage, in_head=in_head)
        except ValueError as error:
            faults.append(f"{label}: {error}")
            continue
        shapes[op.name] = before
        layers += [layer] if layer else []
    return shapes, layers, faults
