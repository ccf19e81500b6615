"""Where the rows of layers stand in tensors: what shows that a network can be cut into rows (EdgeSP)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...network import Shape
from .graph import Graph, Node
from .operators import ELEMENTWISE, JOINING, RESHAPING, SCALES


class Rows(NamedTuple):
    """Value i of a tensor depends on row ``i // apart % count`` alone of every map of that height behind it."""

    count: int  # type: ignore[assignment]  # a tuple's method of that name is not used
    apart: int


ONE = Rows(1, 1)
"""Of maps of one row, which every share needs whole."""

AS_GIVEN = Rows(0, 0)
"""The sample as its file has it: the rows are where the first layer that reads it looks for them."""

MEETING = (ELEMENTWISE | JOINING | {"Gemm"}) - {"BatchNormalization", "DequantizeLinear", "QuantizeLinear"}
"""Operators whose inputs meet row by row; the later inputs of all others are small, or may be read anywhere."""


def map_of(sizes: tuple[int, ...]) -> Shape | None:
    """The map of one sample over one or two axes (channels first in the file); ``None`` for any other tensor."""
    if len(sizes) not in (3, 4) or sizes[0] != 1:
        return None
    return Shape(sizes[2], sizes[3] if len(sizes) == 4 else 1, sizes[1])


def own_rows(sizes: tuple[int, ...], shape: Shape) -> Rows:
    """The rows of a tensor that has the form of its map: channels first, or channels last as in a sequence."""
    if shape.height == 1:
        return ONE
    natural = len(sizes) > 3 and (shape.width, shape.channels) == (sizes[-1], sizes[1])
    first = map_of(sizes) == shape or natural
    return Rows(shape.height, shape.width * (1 if first else shape.channels))


def agreed(forms: Iterable[Rows | None]) -> Rows | None:
    """The rows of tensors that are combined; none if they do not meet row by row."""
    different = set(forms) - {ONE}
    if not different:
        return ONE
    return different.pop() if len(different) == 1 else None


def rows_behind(node: Node, graph: Graph, output: str, tensor: str, rows: Rows | None) -> Rows | None:
    """The rows of an output, so far as it depends on one input; none if this is not shown to go row by row."""
    before, after = graph.sizes[tensor], graph.sizes[output]
    if rows is None or rows == ONE or node.op in RESHAPING:
        return rows
    if (
        node.op == SCALES
        or node.attributes.get("training_mode")
        or (node.op not in MEETING and tensor != node.inputs[0])
    ):
        return None
    if node.op in ELEMENTWISE and before == after:
        return rows
    moves = _moves(node, graph, len(before), len(after))
    return None if moves is None or rows == AS_GIVEN else moved(rows, before, after, moves)


def moved(rows: Rows, before: Sequence[int], after: Sequence[int], moves: Callable[[int], int | None]) -> Rows | None:
    """The rows when whole axes move; ``moves`` gives the new place of an axis, or none if its values mix."""
    apart = 1
    for axis in reversed(range(len(before))):
        if rows.apart % apart == 0 and apart * before[axis] % (rows.count * rows.apart) == 0:
            place = moves(axis)
            if place is None or not 0 <= place < len(after) or after[place] != before[axis]:
                return None
            return Rows(rows.count, rows.apart // apart * math.prod(after[place + 1 :]))
        apart *= before[axis]
    return None


def _moves(node: Node, graph: Graph, rank: int, new_rank: int) -> Callable[[int], int | None] | None:
    """The new place of every axis whose places do not mix; none if it is not known."""
    if node.op == "Transpose":
        order = [*node.attributes.get("perm", reversed(range(rank)))]
        return order.index
    mixed = _mixed(node, graph, rank)
    if mixed is None:
        return None
    if node.op == "Gather":
        return lambda axis: None if axis in mixed else axis if axis < min(mixed) else axis + new_rank - rank
    if new_rank < rank:  # a reduction that drops its axes
        return lambda axis: None if axis in mixed else axis - sum(other < axis for other in mixed)
    return lambda axis: None if axis in mixed else axis + new_rank - rank


def _mixed(node: Node, graph: Graph, rank: int) -> set[int] | None:
    """The axes along which a node moves values or combines them; none if it is not known."""
    get = node.attributes.get
    axes: Sequence[int] | None
    match node.op:
        case op if op in ELEMENTWISE or op in {"Expand", "Gemm", "Tile"}:  # repeats show in the sizes
            axes = ()
        case "Gather" if node.inputs[1] not in graph.constants:
            axes = None
        case "Concat" | "Gather" | "Split":
            axes = [get("axis", 0)]
        case "LRN":
            axes = [1]
        case "LayerNormalization" | "RMSNormalization":
            axes = range(get("axis", -1) % rank, rank)
        case "LpNormalization":
            axes = [get("axis", -1)]
        case "Slice":
            axes = _sliced(node, graph)
        case op if op.startswith("Reduce"):
            axes = get("axes") or graph.numbers(node, 1) or None  # without axes it is over all
        case _:
            axes = None
    return None if axes is None else {axis % rank for axis in axes}


def _sliced(node: Node, graph: Graph) -> list[int] | None:
    """The axes that a slice does not take whole, in their order."""
    before, after = graph.sizes[node.inputs[0]], graph.sizes[node.outputs[0]]
    if len(node.inputs) == 1:
        return [axis for axis, size in enumerate(before) if size != after[axis]]
    count = math.prod(graph.sizes[node.inputs[1]])
    axes = graph.numbers(node, 3, range(count))
    steps = graph.numbers(node, 4, [1] * count)
    if axes is None or steps is None:
        return None
    return [axis for axis, step in zip(axes, steps, strict=True) if step != 1 or before[axis] != after[axis]]
