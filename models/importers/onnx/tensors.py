"""Layers that are made of a graph, and which of them hold the values of each tensor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...network import Shape
from ..names import LayerNames
from .graph import Graph, Node
from .order import AS_GIVEN, Rows, agreed, own_rows, rows_behind

MULTIPLYING = frozenset({"conv", "convtranspose", "gemm", "linear", "recurrent"})
"""Operators of a network file that multiply."""


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """Origin of a tensor's values."""

    reads: dict[str, int]  # words from each layer
    order: object  # equal for tensors whose values stand in the same order
    # tensor that a memory pass must write before this one can be read; "" if one layer holds the values, perhaps
    # changed one by one
    unwritten: str = ""
    # where the rows of these layers stand; of the sample, for each axis that may be its rows until a layer reads it
    rows: tuple[Rows | None, ...] = (None,)


class LayersOfTensors:
    """The layers so far, and the tensors that they hold."""

    def __init__(self, graph: Graph, inputs: Sequence[str]) -> None:
        self.graph = graph
        self.source = Shape(1, 1, sum(map(graph.words, inputs)))  # the sample; several inputs stand side by side
        self.layers: dict[str, dict[str, Any]] = {}  # of the network file, by name, in execution order
        self.open = len(inputs) == 1  # no layer has read the sample yet
        self.aside: set[str] = set()  # layers that depend on no product and not on the first input: masks, positions
        self.names = LayerNames()
        self.shapes: dict[str, Shape] = {}
        self.tensors: dict[str, HeldTensor] = {}
        self.passes: dict[str, str] = {}  # layers by the tensor they write
        self.views: dict[tuple[str, Shape, bool], str] = {}
        self.label_of: dict[str, str] = {}  # nodes by the tensor that they end a pass with
        self.node_of: dict[str, str] = {}  # node of each layer, as faults name it
        self.at = "inputs"
        self.enter(inputs)

    # ---- layers

    def emit(self, label: str, content: dict[str, Any], sources: Sequence[str], shape: Shape) -> str:
        """Add a layer and return its name."""
        self.settle()
        name = self.names.give(label.strip("/").replace("/", "."))
        self.layers[name] = {"name": name, "op": content["op"], "from": list(sources), **content}
        self.shapes[name] = shape
        self.node_of[name] = self.at
        if content["op"] not in MULTIPLYING and set(sources) <= self.aside:
            self.aside.add(name)
        return name

    def traffic(self, label: str, reads: dict[str, int], shape: Shape, rows: Rows | None = None) -> str:
        """Add a layer that reads words and writes a map."""
        return self.emit(label, self.memory(reads, shape, rows), list(reads), shape)

    def memory(self, reads: dict[str, int], shape: Shape, rows: Rows | None = None) -> dict[str, Any]:
        """A memory layer. It states the number of words read, unless it reads its inputs whole."""
        words = sum(reads.values())
        content: dict[str, Any] = {"op": "memory"}
        if rows is not None and rows.count == shape.height > 1:
            content["rowwise"] = True
        if words != sum(self.shapes[name].words for name in reads):
            content["reads"] = words
        return content | {"shape": list(shape)}

    def fused(self, label: str, layers: Sequence[str]) -> str:
        """Add a layer that combines the first layer, as it is written, with the others, element by element."""
        shape = self.shapes[layers[0]]
        equal = all(self.shapes[name] == shape for name in layers)
        return self.emit(label, {"op": "add" if equal else "fuse"}, layers, shape)

    def turned(self, layer: str) -> str:
        """Add a view of a layer with its values in other places, one for each reader: exits stand before it."""
        shape = self.shapes[layer]
        return self.emit(f"{layer}.view", {"op": "view", "shape": list(shape)}, [layer], shape)

    def enter(self, inputs: Sequence[str]) -> None:
        """Add the sample: the only input, or all of them side by side."""
        if len(inputs) == 1:
            self.source = self.natural(inputs[0])
        self.shapes["input"] = self.source
        for index, name in enumerate(inputs):
            layer, sizes = "input", self.graph.sizes[name]
            rows = [own_rows(sizes, self.natural(name))]
            if self.open:  # of an image, never the last axis: the other way round it would be turned
                axes = range(len(sizes) - (len(sizes) > 3))
                rows += [Rows(sizes[axis], math.prod(sizes[axis + 1 :])) for axis in axes] + [AS_GIVEN]
            else:
                shape = self.natural(name)
                layer = self.emit(name, {"op": "view", "shape": list(shape)}, ["input"], shape)
                if index:
                    self.aside.add(layer)
            self.hold([name], layer, rows=rows)

    def settle(self, place: int = 0, given: Rows | None = None) -> None:
        """Decide which rows the sample has: those at one of the places where they may be."""
        if self.open:
            self.open = False
            for name, seen in self.tensors.items():
                rows = seen.rows[place]
                self.tensors[name] = replace(seen, rows=(given if rows == AS_GIVEN else rows,))

    # ---- tensors

    def natural(self, tensor: str) -> Shape:
        """A tensor as a map: with two axes of positions or more the channels come first, else they come last."""
        sizes = self.graph.sizes[tensor]
        if len(sizes) > 3:
            return Shape(sizes[0] * math.prod(sizes[2:-1]), sizes[-1], sizes[1])
        *positions, channels = (1, *sizes)
        return Shape(math.prod(positions), 1, channels)

    def hold(self, tensors: Iterable[str], layer: str, order: object = None, *, rows: Iterable[Rows | None]) -> None:
        """Note that a layer holds these tensors: as all of its values, a part of them, or a repetition."""
        for name in filter(None, tensors):
            words = min(self.graph.words(name), self.shapes[layer].words)
            self.tensors[name] = HeldTensor({layer: words}, order or name, rows=tuple(rows))

    def own_rows(self, tensor: str, layer: str) -> list[Rows | None]:
        """The rows of a tensor in the form of a layer that wrote it."""
        return [own_rows(self.graph.sizes[tensor], self.shapes[layer])]

    def rows_behind(self, node: Node, output: str, tensors: Iterable[str]) -> tuple[Rows | None, ...]:
        """The rows of an output that depends on these tensors."""
        forms = [
            [rows_behind(node, self.graph, output, name, rows) for rows in self.look(name).rows] for name in tensors
        ]
        return tuple(map(agreed, zip(*forms, strict=True)))

    def look(self, tensor: str) -> HeldTensor:
        """A tensor. If a memory pass has written it by now, it is held by a layer like any other."""
        seen = self.tensors[tensor]
        if seen.unwritten in self.passes:
            layer = self.passes[seen.unwritten]
            if "rowwise" in self.layers[layer]:
                rows: Iterable[Rows | None] = seen.rows
            else:
                rows = self.own_rows(tensor, layer) if tensor == seen.unwritten else [None]
            self.hold([tensor], layer, seen.order, rows=rows)
        return self.tensors[tensor]

    def reads(self, tensors: Iterable[str]) -> dict[str, int]:
        """Words that tensors take from each layer; shared words count once. A gather takes more."""
        words: Counter[str] = Counter()
        most: dict[str, int] = {}
        for name in tensors:
            for layer, count in self.look(name).reads.items():
                words[layer] += count
                most[layer] = max(most.get(layer, self.shapes[layer].words), count)
        return {layer: min(count, most[layer]) for layer, count in words.items()}

    def layer(self, tensor: str) -> str:
        """Return the layer that holds a tensor's values, perhaps among others; add its memory pass if it has none."""
        seen = self.look(tensor)
        if not seen.unwritten:
            (name,) = seen.reads
            return name
        self.settle()
        ended = seen.unwritten
        reads, (rows,) = self.tensors[ended].reads, self.tensors[ended].rows
        shape = next((self.shapes[name] for name in reads if self.shapes[name].words == self.graph.words(ended)), None)
        self.passes[ended] = self.traffic(self.label_of[ended], reads, shape or self.natural(ended), rows)
        return self.passes[ended]

    def shaped(self, tensor: str, shape: Shape, rows: Rows | None) -> str:
        """The layer that holds a tensor's values and no others, as a map of this shape; rows stand anywhere if none."""
        name = self.layer(tensor)
        forms = self.tensors[tensor].rows
        if self.open and self.source.words == shape.words:
            place = next((forms.index(form) for form in (rows, AS_GIVEN) if form in forms), None)
            if place is not None:
                self.source = self.shapes[name] = shape  # the first layer that reads the sample decides its form
                self.settle(place, rows)
        if self.shapes[name] == shape:
            met = rows is None or shape.height == 1 or self.tensors[tensor].rows[0] == rows
            return name if met else self.turned(name)
        if self.shapes[name].words < shape.words:  # repeated, as Expand does
            return self.traffic(f"{name}.copy", {name: self.shapes[name].words}, shape)
        part = name if self.shapes[name].words == shape.words else tensor  # the halves of a layer are two views
        rowwise = rows == self.tensors[tensor].rows[0] and shape.height == self.shapes[name].height > 1
        if (part, shape, rowwise) not in self.views:
            view = {"op": "view", "shape": list(shape)} | ({"rowwise": True} if rowwise else {})
            self.views[part, shape, rowwise] = self.emit(f"{name}.view", view, [name], shape)
        return self.views[part, shape, rowwise]

    def alone(self, tensor: str) -> str:
        """The layer that holds a tensor's values and no others, in the form in which they were written."""
        at = self.shapes[self.layer(tensor)]
        return self.shaped(tensor, at if at.words == self.graph.words(tensor) else self.natural(tensor), None)

    def same_layer(self, tensors: list[str]) -> bool:
        """Tell if all tensors are parts of one layer, as the two halves of a rotation are."""
        seen = [self.look(name) for name in tensors]
        return (
            not any(tensor.unwritten for tensor in seen)
            and len({name for tensor in seen for name in tensor.reads}) == 1
        )
