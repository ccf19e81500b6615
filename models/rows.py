"""Networks as rows of maps: the places to cut a network, and the rows of a map that a share needs (EdgeSP)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import AnyPath, InputError
from .loader import build_network, head_of
from .lowering import lower_all
from .network import Exit, Shape
from .schema import Conv, Flatten, GlobalPool, Join, Linear, MemoryPass, NetworkFile, Op, Pool, Recurrent, View


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

    def needs(self, first: NDArray[np.int64], end: NDArray[np.int64], height: int) -> Ranges:
        """The rows of an input of this height that output rows need, of many ranges at once."""
        lowest = np.clip(first * self.stride - self.pad, 0, height)
        return lowest, np.minimum(height, (end - 1) * self.stride - self.pad + self.reach)


class WholeLayer(NamedTuple):
    """A layer that needs a whole map: one device runs it."""

    name: str
    flops: int  # EdgeSP, Equation 2
    weights: int  # words


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
    """Units one behind the other, and the layers behind them that need a whole map, in execution order."""

    units: tuple[RowUnit, ...]  # empty if the first layer needs a whole map
    tail: tuple[WholeLayer, ...]


class RowNetwork(NamedTuple):
    """A network that can be cut into rows."""

    name: str
    exits: tuple[Exit, ...]  # in order of depth; the last is the end
    trunk: Chain  # the backbone
    ends: tuple[int, ...]  # units of the trunk that have run when each exit is reached
    branches: tuple[Chain, ...]  # layers of each exit but the last beside the backbone

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chain that ends at each exit: its branch, or the trunk at the last."""
        return (*self.branches, self.trunk)

    def branch_units(self, number: int) -> tuple[RowUnit, ...]:
        """The units that an exit has beside the trunk; the last has none."""
        return self.branches[number].units if number < len(self.branches) else ()


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


def _whole_layer(op: Op, source: Shape) -> WholeLayer | None:
    """The layer as one that a single device runs; ``None`` if it should run in rows."""
    if isinstance(op, Linear | Conv) and source.positions == 1:
        weights = (source.channels // getattr(op, "groups", 1) + 1) * op.out
        return WholeLayer(op.name, 2 * weights, weights)
    if isinstance(op, Recurrent):
        weights = op.directions * op.gates * op.hidden * (source.channels + op.hidden + 1)
        return WholeLayer(op.name, 2 * source.positions * weights, weights)
    if isinstance(op, GlobalPool):
        return WholeLayer(op.name, source.words, 0)
    return WholeLayer(op.name, 0, 0) if isinstance(op, Flatten | View | MemoryPass | Join) else None


class _Layers:
    """Layers in execution order, and which of them run in rows."""

    def __init__(self, ops: Sequence[Op], source: Shape, where: str) -> None:
        self.ops, self.source, self.where = ops, source, where
        self.shapes, _, _ = lower_all(ops, source, where)
        self.order = {"input": -1} | {op.name: i for i, op in enumerate(ops)}
        before = ["input", *(op.name for op in ops)]
        self.names = [tuple(op.inputs or [before[i]]) for i, op in enumerate(ops)]
        self.maps: list[list[str]] = []  # the inputs of each layer that are computed in rows
        self.rows: dict[str, RowLayer] = {}
        for op, read in zip(ops, self.names, strict=True):
            self.maps.append([name for name in read if name == "input" or name in self.rows])
            layer = _row_layer(op, self.shapes, read, self.maps[-1])
            if layer is not None:
                self.rows[op.name] = layer
        self.stop = 1 + max((self.order[name] for name in self.rows), default=-1)  # behind the last of them
        self.wholes = self._wholes()

    def _wholes(self) -> dict[str, WholeLayer]:
        """The layers that one device runs, or the fault of a layer that should run in rows and cannot."""
        wholes: dict[str, WholeLayer] = {}
        for i, op in enumerate(self.ops):
            if op.name in self.rows:
                continue
            whole, place, behind = _whole_layer(op, self.shapes[self.names[i][0]]), i, op
            if whole is not None:
                wholes[op.name] = whole
                if i >= self.stop or not self.maps[i] or isinstance(op, GlobalPool):
                    continue
                behind = next(later for later in self.ops[i:] if later.name in self.rows)
            while others := [name for name in self.names[place] if name not in self.maps[place]]:
                tall = [name for name in others if self.shapes[name].height > 1]
                if self.maps[place] and not tall:
                    break
                place = self.order[(tall or others)[0]]
            raise InputError(_uncut(self.where, self.ops[place], behind))
        return wholes

    def cuts(self) -> list[int]:
        """Places where the layers can be cut: no later layer reads anything before them."""
        earliest = [min(self.order[name] for name in read) for read in self.names]
        cuts = [i for i in range(self.stop) if self.ops[i].name in self.rows and min(earliest[i + 1 :], default=i) >= i]
        if self.stop and (not cuts or cuts[-1] != self.stop - 1):
            after, last = self.ops[self.stop], self.ops[self.stop - 1]
            raise InputError(
                f'{self.where}: cannot be cut into rows before "{after.name}" ({after.op}), because layers behind it '
                f'read more than "{last.name}"'
            )
        return cuts

    def average(self) -> None:
        """Let every device sum its rows of the maps that are averaged inside a unit."""
        for i, op in enumerate(self.ops[: self.stop]):
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
        cuts = self.cuts()
        self.average()
        read = {name for op, names in zip(self.ops, self.names, strict=True) if op.name in self.rows for name in names}
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


def _chain(ops: Sequence[Op], source: Shape, where: str) -> Chain:
    """Divide layers into units and a tail."""
    layers = _Layers(ops, source, where)
    units = tuple(layers.units())
    return Chain(units, tuple(layers.wholes[op.name] for op in ops[layers.stop :]))


def _uncut(where: str, op: Op, behind: Op) -> str:
    """Why layers cannot be cut into rows at one of them, with a layer behind it that works on rows."""
    fault = f'{where}: cannot be cut into rows at "{op.name}" ({op.op})'
    if behind is op:
        return f"{fault}: it is not known which rows of its input its rows need"
    return (
        f'{fault}, whose rows may need its whole input, because "{behind.name}" ({behind.op}) behind it works on rows'
    )


def cut_into_rows(file: NetworkFile, path: AnyPath) -> RowNetwork:
    """Cut a network into units as small as it allows: a layer, or a residual block; ``path`` is for faults."""
    network = build_network(file, path)
    trunk = _chain(file.layers, file.input.shape, f"{path}: layers")
    if not trunk.units:
        first = file.layers[0]
        raise InputError(
            f'{path}: layers: cannot be cut into rows: "{first.name}" ({first.op}), the first, needs a whole map'
        )
    places = {unit.name: number for number, unit in enumerate(trunk.units, 1)}
    faults = [
        f'{path}: exits[{i}].after: expected a place where the network can be cut, found "{exit_.after}"; '
        f"these are {', '.join(places)}"
        for i, exit_ in enumerate(file.exits)
        if exit_.after not in places
    ]
    if faults:
        raise InputError(faults)
    shapes = {unit.name: unit.shape for unit in trunk.units}
    branches = [
        _chain(head_of(exit_, shapes[exit_.after]), shapes[exit_.after], f"{path}: exits[{i}].layers")
        for i, exit_ in enumerate(file.exits)
    ]
    ends = [places[exit_.after] for exit_ in file.exits]
    return RowNetwork(file.name, tuple(network.exits), trunk, (*ends, len(trunk.units)), tuple(branches))


Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]
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
