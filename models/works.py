"""Networks as an engine of fixed shape sees them: the window, the map and the words of every layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..formats import AnyPath
from .loader import build_network, head_of
from .lowering import lower_all
from .network import Gemm, Shape
from .schema import Conv, ConvTranspose, GlobalPool, Join, NetworkFile, Op, Pool, inputs_of


class LayerWork(NamedTuple):
    """What a layer multiplies and moves for one sample."""

    name: str
    stage: int
    in_head: bool
    gemm: Gemm | None  # none if it only moves words
    window: tuple[int, int]  # rows and columns of a window over the input map
    stride: tuple[int, int]  # rows and columns between windows
    line: int  # pixels of a line of the map, a divisor of gemm.R; of a map 1 wide its height
    words: int  # of inputs and outputs that it moves
    weights: int = 0  # words of these
    added: bool = False  # whether it adds maps


def layer_works(file: NetworkFile, path: AnyPath, *, additions: bool = False, pools: bool = False) -> list[LayerWork]:
    """The layers of a network that take time on an engine, in execution order, additions among them.

    The layers of a stage stand before the layers of the head at its end.  An addition or pool that is fused is part of
    the layer that makes its last input, if nothing else reads that: the layer reads the other input, and writes the
    fused output in place of its own.
    """
    build_network(file, path)  # refuses what is wrong
    shapes, _, _ = lower_all(file.layers, file.input.shape, "")
    works: list[LayerWork] = []
    begin = 0
    order = {op.name: i for i, op in enumerate(file.layers)}
    ends = [order[exit_.after] + 1 for exit_ in file.exits]
    stages = [1 + sum(end <= i for end in ends) for i in range(len(order))]
    exits = [exit_.after for exit_ in file.exits]
    fused = (Join,) * additions + (Pool, GlobalPool) * pools
    every = _works(file.layers, file.input.shape, stages, fused, exits)
    for stage, exit_ in enumerate(file.exits, 1):
        works += [work for work in every if work.stage == stage]
        source = shapes[exit_.after]
        head = head_of(exit_, source)
        works += _works(head, source, [stage] * len(head), fused, in_head=True)
        begin = stage
    return works + [work for work in every if work.stage > begin]


def _works(
    ops: Sequence[Op], source: Shape, stages: Sequence[int], fused: tuple[type, ...], read: Iterable[str] = (), *,
    in_head: bool = False,
) -> list[LayerWork]:  # fmt: skip
    """The works of a chain; layers outside of it read the maps ``read``."""
    shapes, layers, _ = lower_all(ops, source, "", stages, in_head=in_head)
    lowered = {layer.name: layer for layer in layers}
    inputs = inputs_of(ops)
    readers = Counter([*read, *(name for names in inputs for name in names)])
    order = {"input": 0} | {op.name: i for i, op in enumerate(ops, 1)}
    works: list[LayerWork] = []
    maker: dict[str, int] = {}  # the work that makes a map, for maps of products and of what is fused into them
    for op, stage, names in zip(ops, stages, inputs, strict=True):
        maps, shape = [shapes[name] for name in names], shapes[op.name]
        name = f"exit{stage}/{op.name}" if in_head else op.name
        added = isinstance(op, Join) and op.op == "add"
        last = max(names, key=lambda each: order[each])
        if isinstance(op, fused) and (added or not isinstance(op, Join)) and last in maker and readers[last] == 1:
            at = maker[op.name] = maker[last]
            moved = sum(map_.words for map_ in maps) - 2 * shapes[last].words + shape.words
            works[at] = works[at]._replace(words=works[at].words + moved)
            continue
        window, stride, pixels, gemm = (1, 1), (1, 1), shape, None
        moved = sum(map_.words for map_ in maps) + shape.words
        if name in lowered:
            gemm = lowered[name].gemm
            if gemm is None:
                moved = lowered[name].memory_words
            elif isinstance(op, Conv):
                window, stride = (op.kernel[0], op.kernel[1]), (op.stride[0], op.stride[1])
            elif isinstance(op, ConvTranspose):
                pixels = maps[0]
        elif not added:
            continue
        line = pixels.width if pixels.width > 1 else pixels.height
        if gemm is not None and gemm.R % line:
            line = gemm.R  # a product that is stated as such has no map
        weights = gemm.P * gemm.C * gemm.groups if gemm is not None and not lowered[name].per_sample else 0
        if gemm is not None:
            maker[op.name] = len(works)
        works.append(LayerWork(name, stage, in_head, gemm, window, stride, line, moved, weights, added))
    return works
