"""Networks as rows of maps: the places to cut a network, and the rows of a map that a share needs (EdgeSP)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..formats import AnyPath, InputError
from ..formats.array_types import Ints
from .loader import build_network, head_of
from .lowering import lower_all
from .network import Exit, Layer, Shape
from .schema import (
    Conv,
    ConvTranspose,
    GlobalPool,
    Join,
    Linear,
    MatMul,
    MemoryPass,
    NetworkFile,
    Op,
    Pool,
    Product,
    Recurrent,
    View,
    inputs_of,
)


class RowLayer(NamedTuple):
    """A layer each of whose output rows needs only some rows of its inputs."""

    name: str
    sources: tuple[str, ...]  # the layers that it reads; "input" is the input of the network or of the head
    reach: int  # rows that its window spans
    stride: int  # rows between two windows
    pad: int  # rows of padding above the map
    shape: Shape  # of its output
    row_flops: int  # floating-point operations of one output row (EdgeSP, Equation 2), and of its sum if averaged
    weights: int  # words
    averaged: bool = False  # a gate reads the average of all rows, so that each must be computed

    @property
    def has_product(self) -> bool:
        """True if it multiplies by weights: such layers have a fixed cost on a device."""
        return self.weights > 0

    def needs(self, first: Ints, end: Ints, height: int) -> Ranges:
        """The rows of an input of this height that output rows need, of many ranges at once."""
        lowest = np.clip(first * self.stride - self.pad, 0, height)
        return lowest, np.minimum(height, (end - 1) * self.stride - self.pad + self.reach)


class WholeLayer(NamedTuple):
    """A layer that needs a whole map: one device runs it."""

    name: str
    flops: int  # EdgeSP, Equation 2
    weights: int  # words
    read_words: int  # of maps; none if it moves nothing
    made_words: int  # of its map


class Gate(NamedTuple):
    """Layers inside a unit that read averages of whole maps, as in squeeze-and-excite: one device runs them."""

    place: int  # layers of the unit that have run before
    layers: tuple[WholeLayer, ...]
    read_words: int  # that every device sends: the sums of its rows
    made_words: int  # that every device receives, as its rows read them


class RowUnit(NamedTuple):
    """Layers between two places where a network can be cut: one map enters, one leaves."""

    source: Shape  # the map that enters
    entry: str  # the name by which layers read it
    layers: tuple[RowLayer, ...]  # in execution order; the output of the last one leaves
    gates: tuple[Gate, ...] = ()  # in execution order

    @property
    def name(self) -> str:
        """Name of its last layer, after which the network can be cut."""
        return self.layers[-1].name

    @property
    def shape(self) -> Shape:
        """The map that leaves."""
        return self.layers[-1].shape

    @property
    def flops(self) -> int:
        """Floating-point operations of its layers with weights (EdgeSP, Equation 2)."""
        return sum(layer.row_flops * layer.shape.height for layer in self.layers if layer.has_product)


class Chain(NamedTuple):
    """Units one behind the other, and the layers behind them that run on whole maps, in execution order."""

    units: tuple[RowUnit, ...]  # empty if the first layer needs a whole map
    tail: tuple[WholeLayer, ...]
    uncut: str = ""  # why layers that could go row by row are in the tail


class WholeRun(NamedTuple):
    """Layers on whole maps that one device runs without a pause."""

    in_branch: bool  # in the branch of an exit, not in the backbone
    layers: tuple[WholeLayer, ...]
    gathered: Shape | None  # the map that the device must receive first; none if it has made it


class RowNetwork(NamedTuple):
    """A network with all, a part or nothing of it cut into rows."""

    name: str
    source: Shape  # the input
    exits: tuple[Exit, ...]  # in order of depth; the last is the end
    trunk: Chain  # the backbone
    ends: tuple[int, ...]  # units of the trunk that have run when each exit is reached
    tail_ends: tuple[int, ...]  # layers of its tail that have run then
    branches: tuple[Chain, ...]  # layers of each exit but the last beside the backbone

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chain that ends at each exit: its branch, or the trunk at the last."""
        return (*self.branches, self.trunk)

    def branch_units(self, number: int) -> tuple[RowUnit, ...]:
        """The units that an exit has beside the trunk; the last has none."""
        return self.branches[number].units if number < len(self.branches) else ()

    @property
    def uncut(self) -> list[str]:
        """Which layers one device runs because they cannot be cut into rows, and why."""
        named = [("" if chain is self.trunk else f"exit{n}/", chain) for n, chain in enumerate(self.chains, 1)]
        return [f"{name}{chain.tail[0].name} and all behind: {chain.uncut}" for name, chain in named if chain.uncut]

    def last_map(self, number: int) -> Shape:
        """The map before an exit that is behind the last row; the input if nothing is cut into rows."""
        units = self.branch_units(number) or self.trunk.units[: self.ends[number]]
        return units[-1].shape if units else self.source

    def sent_words(self, number: int) -> int:
        """Words of the map at an exit, which stages behind it read."""
        if self.tail_ends[number]:
            return self.trunk.tail[self.tail_ends[number] - 1].made_words
        return self.trunk.units[self.ends[number] - 1].shape.words

    def wholes(self, number: int) -> list[WholeRun]:
        """What runs on whole maps before an exit and behind the exit before it: of the backbone, of the branch."""
        begin, end = (0, *self.tail_ends)[number : number + 2]
        shape = self.last_map(number)
        runs = [WholeRun(False, self.trunk.tail[begin:end], None if begin else shape)]
        if number < len(self.branches):
            runs.append(WholeRun(True, self.branches[number].tail, None if end else shape))
        return [run for run in runs if run.layers]


def _row_layer(op: Op, shapes: Mapping[str, Shape], names: Sequence[str], maps: Sequence[str]) -> RowLayer | None:
    """The layer as rows of the ``maps`` among its inputs; ``None`` if it is not known to go row by row."""
    if not maps:
        return None
    shape, source = shapes[op.name], shapes[maps[0]]
    reach, stride, pads, row_flops, weights = 1, 1, (0, 0), 0, 0
    if isinstance(op, Conv):
        reach, stride, pads = op.dilation[0] * (op.kernel[0] - 1) + 1, op.stride[0], (op.pad[0], op.pad[2])
        weights = (op.kernel[0] * op.kernel[1] * (source.channels // op.groups) + 1) * op.out
        row_flops = 2 * shape.width * weights  # Equation 2
    elif isinstance(op, Pool):
        reach, stride, pads = op.kernel[0], op.stride[0], (op.pad[0], op.pad[2])
        row_flops = shape.width * shape.channels * op.kernel[0] * op.kernel[1]
    elif isinstance(op, Linear) and source.positions > 1:
        weights = (source.channels + 1) * op.out
        row_flops = 2 * shape.width * weights
    elif isinstance(op, Join) or (isinstance(op, MemoryPass | View) and op.rowwise):
        heights = {shapes[name].height for name in maps}
        others = {shapes[name].height for name in names if name not in maps}
        if heights != {shape.height} or not others <= {1}:
            return None
    else:
        return None
    if max(pads) >= reach:  # some windows would lie in the padding and need no row at all
        return None
    return RowLayer(op.name, tuple(maps), reach, stride, pads[0], shape, row_flops, weights)


def _whole_layer(op: Op, sources: Sequence[Shape], shape: Shape, layer: Layer | None) -> WholeLayer:
    """The layer as one that a single device runs, by Equation 2; ``layer`` is its cost."""
    flops, weights, read = 0, 0, sum(source.words for source in sources)
    if layer is None:
        read = 0
    elif isinstance(op, Recurrent):  # every step has a bias for each gate
        weights = op.directions * op.gates * op.hidden * (sources[0].channels + op.hidden + 1)
        flops = 2 * sources[0].positions * weights
    elif layer.per_sample and layer.gemm:
        flops = 2 * layer.gemm.macs
    elif layer.gemm:
        _, inner, columns, groups = layer.gemm
        biases = op.out if isinstance(op, ConvTranspose) else columns * groups
        weights, flops = inner * columns * groups + biases, 2 * (layer.gemm.macs + shape.words)
    elif isinstance(op, GlobalPool | Pool):
        flops = sources[0].words if isinstance(op, GlobalPool) else shape.words * op.kernel[0] * op.kernel[1]
    return WholeLayer(op.name, flops, weights, read, shape.words)


class _Layers:
    """Layers in execution order, and which of them run in rows: those before ``stop``, except in gates."""

    def __init__(self, ops: Sequence[Op], source: Shape, *, whole: bool) -> None:
        self.ops, self.source = ops, source
        self.shapes, lowered, _ = lower_all(ops, source, "")
        self.order = {"input": -1} | {op.name: i for i, op in enumerate(ops)}
        self.names = inputs_of(ops)
        self.maps: list[list[str]] = []  # the inputs of each layer that are computed in rows
        self.rows: dict[str, RowLayer] = {}
        for op, read in zip(ops, self.names, strict=True):
            self.maps.append([name for name in read if name == "input" or name in self.rows])
            layer = None if whole else _row_layer(op, self.shapes, read, self.maps[-1])
            if layer is not None:
                self.rows[op.name] = layer
        self.uncut = ""
        self.cuts = [] if whole else self._cuts()
        self.stop = self.cuts[-1] + 1 if self.cuts else 0
        costs = {layer.name: layer for layer in lowered}
        self.wholes = {
            op.name: _whole_layer(op, [self.shapes[name] for name in read], self.shapes[op.name], costs.get(op.name))
            for i, (op, read) in enumerate(zip(ops, self.names, strict=True))
            if i >= self.stop or op.name not in self.rows
        }

    def _cuts(self) -> list[int]:
        """Places where the layers can be cut: all before are rows or gates, and no later layer reads anything there."""
        last = max((self.order[name] for name in self.rows), default=-1)
        limit = last + 1
        for i, op in enumerate(self.ops):
            ends = i < limit and self.maps[i] and not isinstance(op, GlobalPool)
            if op.name not in self.rows and (ends or self._is_cut_elsewhere(i)):
                limit, self.uncut = min(i, limit), self._why(i)
                break
        earliest = [min(self.order[name] for name in read) for read in self.names]
        cuts = [i for i in range(limit) if self.ops[i].name in self.rows and min(earliest[i + 1 :], default=i) >= i]
        if not self.uncut and last not in {-1, *cuts}:
            self.uncut = f'layers behind "{self.ops[last].name}" ({self.ops[last].op}) read more than its map'
        if not cuts and not self.uncut and self.ops:
            self.uncut = f'the first layer, "{self.ops[0].name}" ({self.ops[0].op}), needs a whole map'
        return cuts

    def _is_cut_elsewhere(self, place: int) -> bool:
        """Whether a layer is of a kind that goes row by row in most networks, or would be worth it."""
        op, source = self.ops[place], self.shapes[self.names[place][0]]
        kinds = Pool | ConvTranspose | MatMul | Product
        return isinstance(op, kinds) or (isinstance(op, Conv | Linear) and source.positions > 1)

    def _why(self, place: int) -> str:
        """Why layers cannot be cut into rows at one of them."""
        while others := [name for name in self.names[place] if name not in self.maps[place]]:
            tall = [name for name in others if self.shapes[name].height > 1]
            if self.maps[place] and not tall:
                break
            place = self.order[(tall or others)[0]]
        op = self.ops[place]
        if isinstance(op, Conv | ConvTranspose | Pool):
            return f'it is not known which rows of its input the rows of "{op.name}" ({op.op}) need'
        return f'rows of "{op.name}" ({op.op}) may need its whole input'

    def average(self) -> None:
        """Let every device sum its rows of the maps that are averaged inside a unit."""
        for i, op in enumerate(self.ops[: self.stop]):  # gates; the tail begins behind
            if op.name not in self.wholes:
                continue
            for name in self.maps[i]:
                self.wholes[op.name] = self.wholes[op.name]._replace(flops=0)
                if name in self.rows:
                    shape = self.shapes[name]
                    row_flops = self.rows[name].row_flops + shape.words // shape.height
                    self.rows[name] = self.rows[name]._replace(averaged=True, row_flops=row_flops)

    def units(self) -> Iterator[RowUnit]:
        """The layers between two cuts."""
        cuts = self.cuts
        self.average()
        pairs = zip(self.ops[: self.stop], self.names, strict=False)
        read = {name for op, names in pairs if op.name in self.rows for name in names}
        entry, shape = "input", self.source
        for begin, end in zip([0, *(cut + 1 for cut in cuts)], cuts, strict=False):
            layers, gates = list[RowLayer](), list[Gate]()
            for i, op in enumerate(self.ops[begin : end + 1], begin):
                if op.name in self.rows:
                    layers.append(self.rows[op.name])
                    continue
                if not gates or gates[-1].place < len(layers):
                    gates.append(Gate(len(layers), (), 0, 0))
                gate = gates[-1]
                gates[-1] = Gate(
                    gate.place,
                    (*gate.layers, self.wholes[op.name]),
                    gate.read_words + sum(self.shapes[name].channels for name in self.maps[i]),
                    gate.made_words + self.shapes[op.name].words * (op.name in read),
                )
            unit = RowUnit(shape, entry, tuple(layers), tuple(gates))
            yield unit
            entry, shape = unit.name, unit.shape


def _chain(ops: Sequence[Op], source: Shape, *, whole: bool = False) -> Chain:
    """Divide layers into units and a tail; all are the tail if their input is whole on one device."""
    layers = _Layers(ops, source, whole=whole)
    units = tuple(layers.units())
    return Chain(units, tuple(layers.wholes[op.name] for op in ops[layers.stop :]), layers.uncut)


def cut_into_rows(file: NetworkFile, path: AnyPath) -> RowNetwork:
    """Cut a network into units as small as it allows: a layer, or a residual block; ``path`` is for faults.

    What cannot be cut, and all behind it, is the tail, which one device runs.
    """
    network, source = build_network(file, path), file.input.shape
    trunk = _chain(file.layers, source)
    places = {unit.name: (number, 0) for number, unit in enumerate(trunk.units, 1)}
    places |= {layer.name: (len(trunk.units), number) for number, layer in enumerate(trunk.tail, 1)}
    known = ", ".join(unit.name for unit in trunk.units) + " and all behind" * bool(trunk.tail)
    faults = [
        f'{path}: exits[{i}].after: expected a place where the network can be cut, found "{exit_.after}"; '
        f"these are {known}"
        for i, exit_ in enumerate(file.exits)
        if exit_.after not in places
    ]
    if faults:
        raise InputError(faults)
    reached = [*(places[exit_.after] for exit_ in file.exits), (len(trunk.units), len(trunk.tail))]
    ends, tail_ends = zip(*reached, strict=True)
    shapes, branches = lower_all(file.layers, source, "")[0], []
    for exit_, done in zip(file.exits, tail_ends, strict=False):
        shape = shapes[exit_.after]
        branches.append(_chain(head_of(exit_, shape), shape, whole=done > 0))
    return RowNetwork(file.name, source, tuple(network.exits), trunk, ends, tail_ends, tuple(branches))


Ranges = tuple[Ints, Ints]
"""First rows, and the rows behind the last ones, of many ranges."""


def block_rows(
    layers: Sequence[RowLayer], entry: str, source: Shape, output: Ranges | None = None
) -> dict[str, Ranges]:
    """The rows of every map that a share of a block's output needs (EdgeSP, Section 3.2)."""
    rows = np.arange(layers[-1].shape.height + 1)
    needs = {layers[-1].name: output or (rows, rows)}
    last = len(needs[layers[-1].name][0]) - 1  # rows of the block's output; these layers may be its first part only
    heights = {entry: source.height} | {layer.name: layer.shape.height for layer in layers}
    for layer in reversed(layers):
        if layer.averaged:  # devices that follow each other leave no row out
            height = layer.shape.height
            first, end = needs.get(layer.name, (np.arange(last + 1) * height // last,) * 2)
            first, end = np.append(0, first[1:]), np.append(np.maximum(end, first)[:-1], height)
            needs[layer.name] = first, end
        if layer.name not in needs:
            continue  # no layer reads it
        for name in layer.sources:
            first, end = layer.needs(*needs[layer.name], heights[name])
            if name in needs:
                first, end = np.minimum(first, needs[name][0]), np.maximum(end, needs[name][1])
            needs[name] = first, end
    return needs
