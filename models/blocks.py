"""A network as blocks, the units of other people's tables of times: inverted residuals, and single layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..formats import AnyPath
from .loader import build_network, head_of
from .lowering import lower_all
from .network import Shape
from .schema import Conv, Flatten, GlobalPool, Join, Linear, MemoryPass, NetworkFile, Op, Pool, Product, View, inputs_of


class Residual(NamedTuple):
    """What an inverted residual is, beside its maps: a depthwise convolution between two of 1 x 1."""

    middle: int  # channels of the depthwise convolution
    kernel: int
    stride: int
    skips: bool  # its input is added to its output
    squeezes: bool  # squeeze and excitation stand behind the depthwise convolution


class TimedBlock(NamedTuple):
    """Layers that run as one."""

    layers: list[str]
    stage: int
    source: Shape
    output: Shape
    residual: Residual | None = None  # none if it is a single layer
    pools: bool = False  # it is a single layer that multiplies nothing


def blocks_of(file: NetworkFile, path: AnyPath) -> list[TimedBlock]:
    """The blocks of a network, of each stage with the head at its end; refuses a file with faults."""
    build_network(file, path)
    shapes, _, _ = lower_all(file.layers, file.input.shape, "")
    blocks: list[TimedBlock] = []
    begin = 0
    names = [op.name for op in file.layers]
    for stage, exit_ in enumerate(file.exits, 1):
        end = names.index(exit_.after) + 1
        blocks += _Chain(file.layers, file.input.shape, stage).blocks(begin, end)
        head = head_of(exit_, shapes[exit_.after])
        blocks += _Chain(head, shapes[exit_.after], stage).blocks(0, len(head))
        begin = end
    return blocks + _Chain(file.layers, file.input.shape, len(file.exits) + 1).blocks(begin, len(names))


class _Chain:
    """Layers in their order, with the maps that they read and write."""

    def __init__(self, ops: Sequence[Op], source: Shape, stage: int) -> None:
        self.ops, self.stage = ops, stage
        self.shapes = lower_all(ops, source, "")[0]
        self.inputs = inputs_of(ops)

    def blocks(self, begin: int, end: int) -> list[TimedBlock]:
        """The blocks of the layers from one place to another."""
        blocks: list[TimedBlock] = []
        while begin < end:
            block = self._residual(begin, end)
            if block is not None:
                blocks.append(block)
                begin += len(block.layers)
                continue
            if not isinstance(self.ops[begin], Flatten | Join | View):  # these move nothing
                op = self.ops[begin]
                pools = isinstance(op, GlobalPool | MemoryPass | Pool)
                blocks.append(TimedBlock([op.name], self.stage, self.source(begin), self.shapes[op.name], pools=pools))
            begin += 1
        return blocks

    def source(self, place: int) -> Shape:
        """The first map that a layer reads."""
        return self.shapes[self.inputs[place][0]]

    def _residual(self, begin: int, end: int) -> TimedBlock | None:
        """The inverted residual that begins with a layer; none if the layer begins another block."""
        depth = begin + (self._widens(begin) and begin + 1 < end)
        conv = self.ops[depth]
        if not isinstance(conv, Conv) or not 1 < conv.groups == conv.out == self.source(depth).channels:
            return None
        if depth > begin and self.inputs[depth] != [self.ops[begin].name]:
            return None
        place = depth + 1
        squeezes = place < end and self.shapes[conv.name].positions > 1 == self.shapes[self.ops[place].name].positions
        while squeezes and place < end and self.shapes[self.ops[place].name].positions == 1:
            place += 1  # the pool, and two products of one position each
        while place < end and not isinstance(self.ops[place], Conv | Linear | Product):
            place += 1  # what scales the map by the values found
        if place >= end or not self._widens(place):
            return None
        project = self.ops[place].name
        adds = place + 1 < end and self._adds(place + 1, project)
        names = [op.name for op in self.ops[begin : place + 1 + adds]]
        kinds = Residual(conv.out, conv.kernel[0], conv.stride[0], adds, squeezes)
        return TimedBlock(names, self.stage, self.source(begin), self.shapes[project], kinds)

    def _widens(self, place: int) -> bool:
        """Whether a layer is a product at every position of a map."""
        op = self.ops[place]
        one = isinstance(op, Conv) and op.kernel == [1, 1] == op.stride and op.groups == 1
        return one or (isinstance(op, Linear) and self.shapes[op.name].positions > 1)

    def _adds(self, place: int, other: str) -> bool:
        op = self.ops[place]
        return isinstance(op, Join) and op.op != "concat" and other in self.inputs[place]
