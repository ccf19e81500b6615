"""Networks as an engine of fixed shape sees them: the window, the map and the words of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..formats import AnyPath
from .loader import build_network, head_of, lower_all
from .network import Gemm, Shape
from .schema import Conv, ConvTranspose, Join, NetworkFile, Op


class LayerWork(NamedTuple):
    """What a layer multiplies and moves for one sample."""

    name: str
    stage: int
    in_head: bool
    gemm: Gemm | None  # none if it only moves words
    window: tuple[int, int]  # rows and columns of a window over the input map
    strided: bool  # whether windows are further apart than a pixel
    line: int  # pixels of a line of the map, of which gemm.R are a whole number; of a map 1 wide its height
    words: int  # that it moves: inputs, outputs and weights
    added: bool  # an addition, which some engines fuse into the layer before it


def layer_works(file: NetworkFile, path: AnyPath) -> list[LayerWork]:
    """The layers of a network that take time on an engine, in execution order, additions among them.

    Parameters
    ----------
    file : NetworkFile
        The content of a network's file.
    path : str or Path
        The file, for faults.

    Returns
    -------
    list of LayerWork
        The layers of a stage, then those of the head at its end.

    Raises
    ------
    InputError
        If the file has faults; every fault has a line.
    """
    build_network(file, path)  # refuses what is wrong
    shapes, _, _ = lower_all(file.layers, file.input.shape, "")
    works: list[LayerWork] = []
    begin = 0
    order = {op.name: i for i, op in enumerate(file.layers)}
    ends = [order[item.after] + 1 for item in file.exits]
    every = list(_works(file.layers, file.input.shape, [1 + sum(end <= i for end in ends) for i in range(len(order))]))
    for stage, item in enumerate(file.exits, 1):
        works += [work for work in every if work.stage == stage]
        source = shapes[item.after]
        head = head_of(item, source)
        works += _works(head, source, [stage] * len(head), in_head=True)
        begin = stage
    return works + [work for work in every if work.stage > begin]


def _works(ops: Sequence[Op], source: Shape, stages: Sequence[int], *, in_head: bool = False) -> Iterator[LayerWork]:
    """The works of a chain."""
    shapes, layers, _ = lower_all(ops, source, "", stages, in_head=in_head)
    lowered = {layer.name: layer for layer in layers}
    before = "input"
    for op, stage in zip(ops, stages, strict=True):
        maps = [shapes[name] for name in op.inputs or [before]]
        before, shape = op.name, shapes[op.name]
        name = f"exit{stage}/{op.name}" if in_head else op.name
        window, strided, pixels, gemm = (1, 1), False, shape, None
        added = isinstance(op, Join) and op.op == "add"
        moved = sum(item.words for item in maps) + shape.words
        if name in lowered:
            gemm = lowered[name].gemm
            if gemm is None:
                moved = lowered[name].memory_words
            elif isinstance(op, Conv):
                window, strided = (op.kernel[0], op.kernel[1]), op.stride != [1, 1]
            elif isinstance(op, ConvTranspose):
                pixels = maps[0]
            if gemm is not None and not lowered[name].per_sample:
                moved += gemm.P * gemm.C * gemm.groups
        elif not added:
            continue
        line = pixels.width if pixels.width > 1 else pixels.height
        if gemm is not None and gemm.R % line:
            line = gemm.R  # a product that is stated as such has no map
        yield LayerWork(name, stage, in_head, gemm, window, strided, line, moved, added)
