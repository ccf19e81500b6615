"""From ONNX nodes to the layers of a network file: which multiply, which move data, which cost nothing of their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....formats import InputError
from ...lowering import lower
from ...network import Shape
from ...schema import Pool
from ..names import LayerNames
from .graph import Graph, Node
from .operators import ARRANGING, ELEMENTWISE, JOINING, KEEPING, MOVING, POOLS, PRODUCTS
from .products import Product, convolution, map_of, matrix_product, raw_product, window

MAX_PASS = 64
"""Most layers that one memory pass reads, unless a single node has more inputs; then the pass is split."""

MULTIPLYING = frozenset({"conv", "convtranspose", "gemm", "linear"})
"""Layers that a product makes."""

KINDS = {
    "products": "multiply",
    "traffic": "only move data",
    "fused": "combine a product with what was there before, as it is written",
    "free": "ride along with a product or pass, or only rearrange",
}
"""What a node can become, and how the network file's sources describe it."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Where a tensor's values come from.

    Attributes
    ----------
    reads : dict of str to int
        Words it takes of each layer.
    order : object
        Equal for tensors whose values stand in the same order.
    unwritten : str
        The tensor that a memory pass still has to write before this one can be read; ``""`` if no pass
        is needed, because the values are those of one layer, unchanged or changed one by one.
    """

    reads: dict[str, int]
    order: object
    unwritten: str = ""


@dataclass(slots=True)
class Walk:
    """The layers of a graph, and where its nodes and tensors went.

    Attributes
    ----------
    source : Shape
        The sample, all inputs side by side.
    layers : dict of str to dict
        The layers of a network file by name, in execution order.
    outputs : dict of str to str
        The layer that holds each output of the graph.
    layer_of : dict of str to str
        The layer behind each node and tensor.
    aside : set of str
        Layers that no product and not the first input reach: masks, positions.
    kinds : dict of str to Counter
        Operators by what they became: keys of ``KINDS``.
    """

    source: Shape
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    layer_of: dict[str, str] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    kinds: dict[str, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in KINDS})


def walk(graph: Graph, path: Path) -> Walk:
    """Lower a graph.

    Parameters
    ----------
    graph : Graph
        Nodes with known shapes.
    path : Path
        The file, for faults.

    Returns
    -------
    Walk
        Layers, and what became of each node.

    Raises
    ------
    InputError
        With a line for each node whose attributes are not understood.
    """
    needed = _written(graph)
    for _ in range(2):  # a tensor that the first walk had to write late is written by the second where it is made
        walker = _Walker(graph, needed)
        faults = []
        for node in graph.nodes:
            try:
                walker.step(node)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # of odd attributes
                faults.append(f'{path}: node "{node.label}" ({node.op}): is not understood: {error}')
                for name in node.outputs:
                    walker.tensors[name] = _Tensor({"input": graph.words(name)}, name)
        if faults:
            raise InputError(faults)
        made = walker.finish()
        needed |= set(walker.passes)
    return made


def _arranges(node: Node, graph: Graph) -> bool:
    """Whether its output is input values at places that are known beforehand."""
    return node.op in ARRANGING or (node.op == "Gather" and node.inputs[1] in graph.constants)


def _written(graph: Graph) -> set[str]:
    """Tensors that a product, a pool, a concatenation or the user reads, directly or rearranged."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.op in PRODUCTS | POOLS | JOINING:
            needed |= set(node.inputs)
        elif _arranges(node, graph) and needed & set(node.outputs):
            needed.add(node.inputs[0])
    return needed


class _Walker:
    def __init__(self, graph: Graph, needed: set[str]) -> None:
        self.graph = graph
        used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
        inputs = [name for name in graph.inputs if name in used]
        self.made = Walk(Shape(1, 1, sum(map(graph.words, inputs))))
        self.layers = self.made.layers
        self.names = LayerNames()
        self.shapes: dict[str, Shape] = {}
        self.tensors: dict[str, _Tensor] = {}
        self.needed = needed
        self.passes: dict[str, str] = {}  # layers by the tensor they write
        self.views: dict[tuple[str, Shape], str] = {}
        self.fusable: dict[str, tuple[Node, dict[str, int], list[str]]] = {}
        self.label_of: dict[str, str] = {}  # nodes by the tensor that they end a pass with
        self.enter(inputs)

    # ---- layers

    def emit(self, label: str, content: dict[str, Any], sources: Sequence[str], shape: Shape) -> str:
        """Add a layer; its name."""
        name = self.names.give(label.strip("/").replace("/", "."))
        self.layers[name] = {"name": name, "op": content["op"], "from": list(sources), **content}
        self.shapes[name] = shape
        if content["op"] not in MULTIPLYING and set(sources) <= self.made.aside:
            self.made.aside.add(name)
        return name

    def enter(self, inputs: Sequence[str]) -> None:
        """The sample: the only input, or all of them side by side."""
        self.shapes["input"] = self.made.source
        for index, name in enumerate(inputs):
            layer = "input"
            if len(inputs) > 1:
                shape = self.natural(name)
                layer = self.emit(name, {"op": "view", "shape": list(shape)}, ["input"], shape)
                if index:
                    self.made.aside.add(layer)
            self.root(name, layer)
        if len(inputs) == 1:
            self.made.source = self.shapes["input"] = self.natural(inputs[0])

    def natural(self, tensor: str) -> Shape:
        """A tensor as a map: channels first with two axes of positions, last with one or none."""
        *others, first, second, third = (1, 1, 1, *self.graph.sizes[tensor])
        if len(self.graph.sizes[tensor]) > 3:
            return Shape(math.prod(others) * second, third, first)
        return Shape(first * second, 1, third)

    def root(self, tensor: str, layer: str) -> None:
        """A tensor that a layer holds."""
        self.tensors[tensor] = _Tensor({layer: min(self.graph.words(tensor), self.shapes[layer].words)}, tensor)

    def look(self, tensor: str) -> _Tensor:
        """A tensor; what a pass has written is a layer like any other."""
        seen = self.tensors[tensor]
        if seen.unwritten in self.passes:
            layer = self.passes[seen.unwritten]
            return _Tensor({layer: min(self.graph.words(tensor), self.shapes[layer].words)}, seen.order)
        return seen

    def layer(self, tensor: str) -> str:
        """The layer that holds a tensor's values, perhaps among others; a memory pass still due is added now."""
        seen = self.look(tensor)
        if not seen.unwritten:
            (name,) = seen.reads
            return name
        ended = seen.unwritten
        reads = self.tensors[ended].reads
        shape = next((self.shapes[name] for name in reads if self.shapes[name].words == self.graph.words(ended)), None)
        self.passes[ended] = self.traffic(self.label_of[ended], reads, shape or self.natural(ended))
        return self.passes[ended]

    def traffic(self, label: str, reads: dict[str, int], shape: Shape) -> str:
        """A layer that reads words and writes a map."""
        return self.emit(label, self.memory(reads, shape), list(reads), shape)

    def memory(self, reads: dict[str, int], shape: Shape) -> dict[str, Any]:
        """A memory layer; it states the words it reads if these are not all of its inputs."""
        words = sum(reads.values())
        content: dict[str, Any] = {"op": "memory"}
        if words != sum(self.shapes[name].words for name in reads):
            content["reads"] = words
        return content | {"shape": list(shape)}

    def count(self, kind: str, node: Node) -> None:
        self.made.kinds[kind][node.op] += 1

    def shaped(self, tensor: str, shape: Shape) -> str:
        """The layer that holds a tensor as a map of this shape."""
        name = self.layer(tensor)
        if name == "input" and self.made.source.words == shape.words and not self.layers:
            self.made.source = self.shapes[name] = shape  # the first reader decides the form of the sample
        if self.shapes[name] == shape:
            return name
        if self.shapes[name].words < shape.words:  # repeated, as Expand does
            return self.emit(f"{name}.copy", self.memory({name: self.shapes[name].words}, shape), [name], shape)
        part = name if self.shapes[name].words == shape.words else tensor  # the halves of a layer are two views
        if (part, shape) not in self.views:
            view = {"op": "view", "shape": list(shape)}
            self.views[part, shape] = self.emit(f"{name}.view", view, [name], shape)
        return self.views[part, shape]

    # ---- nodes

    def step(self, node: Node) -> None:
        active = [name for name in dict.fromkeys(node.inputs) if name and name not in self.graph.constants]
        if node.op in {"Conv", "ConvInteger", "ConvTranspose", "QLinearConv"}:
            self.multiply(node, convolution(node, self.graph))
        elif node.op == "Attention":
            self.attend(node)
        elif node.op in PRODUCTS:
            self.multiply(node, self.linear(matrix_product(node, self.graph)))
        elif node.op in POOLS:
            self.pool(node)
        elif node.op in JOINING and not (len(active) == len(node.inputs) and self.same_layer(active)):
            self.join(node, active)
        elif _arranges(node, self.graph) or node.op in JOINING:
            self.arrange(node, active[0])
        else:
            assert node.op in ELEMENTWISE | MOVING
            self.combine(node, active)
        for name in node.outputs:
            if name in self.needed and self.tensors[name].unwritten:
                self.layer(name)

    def result(self, node: Node, layer: str) -> None:
        for name in filter(None, node.outputs):
            self.root(name, layer)

    def multiply(self, node: Node, found: Product) -> None:
        self.count("products", node)
        first = found.operands[0]
        sources = [self.shaped(first, found.source)] if found.source else [self.layer(name) for name in found.operands]
        self.result(node, self.emit(node.label, found.layer, sources, found.shape))

    def linear(self, found: Product) -> Product:
        """A product of one activation by weights as ``linear``, where it has the form of one."""
        first, *others = found.operands
        rows, inner, columns = (found.layer.get(key, 0) for key in ("rows", "inner", "columns"))
        if others or "groups" in found.layer or self.graph.words(first) != rows * inner:
            return found
        at = self.shapes[self.layer(first)]
        source = at if at.channels == inner else Shape(rows, 1, inner)
        shape = Shape(source.height, source.width, columns)
        return Product(found.operands, {"op": "linear", "out": columns}, shape, source)

    def attend(self, node: Node) -> None:
        """Attention of opset 23: scores, softmax, and the values that they weigh."""
        self.count("products", node)
        sizes = self.graph.sizes
        query, out = sizes[node.inputs[0]], sizes[node.outputs[0]]
        heads = query[1] if len(query) == 4 else node.attributes["q_num_heads"]
        groups, tokens = query[0] * heads, query[-2]
        given = [*node.inputs, *[""] * 6]
        inner = query[3] if len(query) == 4 else query[2] // heads
        columns = out[3] if len(out) == 4 else out[2] // heads
        seen = sizes[given[1]][-2] + (sizes[given[4]][-2] if given[4] else 0)  # keys, and those of tokens before
        score = raw_product((given[0], given[1]), tokens, inner, seen, groups)
        keys = [self.layer(name) for name in (given[1], given[4]) if name and name not in self.graph.constants]
        values = [self.layer(name) for name in (given[2], given[5]) if name and name not in self.graph.constants]
        scores = self.emit(f"{node.label}.scores", score.layer, [self.layer(given[0]), *keys], score.shape)
        memory = {"op": "memory", "shape": list(score.shape)}
        soft = self.emit(f"{node.label}.softmax", memory, [scores], score.shape)
        weigh = raw_product(score.operands, tokens, seen, columns, groups)
        result = self.emit(node.label, weigh.layer, [soft, *values], weigh.shape)
        self.root(node.outputs[0], result)
        for name, held in zip(node.outputs[1:], (keys, values, [scores]), strict=False):
            if name:
                self.tensors[name] = _Tensor({held[0]: self.graph.words(name)}, name)

    def pool(self, node: Node) -> None:
        """A pool over one or two axes of one map as such, any other as the traffic it is."""
        tensor = node.inputs[0]
        source, shape = map_of(self.graph.sizes[tensor]), map_of(self.graph.sizes[node.outputs[0]])
        alone = not any(node.outputs[1:]) and set(node.attributes.get("dilations", [1])) == {1}
        if not (source and shape and alone):
            self.combine(node, [tensor])
            return
        if node.op == "GlobalAveragePool":
            content: dict[str, Any] = {"op": "globalavgpool"}
        else:
            sizes, out = self.graph.sizes[tensor][2:], self.graph.sizes[node.outputs[0]][2:]
            content = {"op": "maxpool" if node.op == "MaxPool" else "avgpool"}
            content |= window(node, tuple(node.attributes["kernel_shape"]), sizes, out)
            content = {"stride": [1, 1]} | content | ({"ceil": True} if node.attributes.get("ceil_mode") else {})
            try:
                lower(Pool.model_validate({"name": "pool", **content, "shape": list(shape)}), [source], 1)
            except ValueError:  # padding counted in another way
                content = self.memory({self.layer(tensor): source.words}, shape)
        self.count("traffic", node)
        self.result(node, self.emit(node.label, content, [self.shaped(tensor, source)], shape))

    def same_layer(self, tensors: list[str]) -> bool:
        """Whether all of them are parts of one layer, as the halves of a rotation are."""
        seen = [self.look(name) for name in tensors]
        return not any(item.unwritten for item in seen) and len({name for item in seen for name in item.reads}) == 1

    def join(self, node: Node, active: list[str]) -> None:
        """Maps side by side, each written where it belongs; with constants among them, a copy."""
        layers = {name: self.layer(name) for name in active}
        words = {name: self.graph.words(name) for name in node.inputs}
        if len(layers) < len(words) or any(words[name] > self.shapes[layers[name]].words for name in layers):
            reads: Counter[str] = Counter()
            for name in active:
                reads[layers[name]] += min(words[name], self.shapes[layers[name]].words)
            reads[layers[active[0]]] += sum(words[name] for name in words if name not in layers)
            self.count("traffic", node)
            self.result(node, self.traffic(node.label, reads, self.natural(node.outputs[0])))
            return
        self.count("free", node)
        axis, first = node.attributes["axis"], self.shapes[layers[active[0]]]
        names = [layers[name] for name in node.inputs]
        for name in node.inputs:
            shape = Shape(first.height, first.width, self.graph.sizes[name][axis])
            if self.shapes[layers[name]] != shape or shape.words != words[name]:  # not along the channels: one by one
                names = [self.shaped(name, Shape(1, 1, words[name])) for name in node.inputs]
                break
        joined = Shape(*self.shapes[names[0]][:2], sum(self.shapes[name].channels for name in names))
        self.result(node, self.emit(node.label, {"op": "concat"}, names, joined))

    def arrange(self, node: Node, tensor: str) -> None:
        """The same values in another order, or a part of them: free, the next reader fetches them there."""
        self.count("free", node)
        seen = self.look(tensor)
        words = [self.graph.words(name) for name in (tensor, *filter(None, node.outputs))]
        if node.op in KEEPING and len(set(words)) > 1:
            raise ValueError(
                f"it makes {words[1]} values of {words[0]}: the file is made for another size of its input"
            )
        for name in filter(None, node.outputs):
            reads = {layer: min(words, self.graph.words(name)) for layer, words in seen.reads.items()}
            self.tensors[name] = _Tensor(reads if not seen.unwritten else seen.reads, name, seen.unwritten)

    def combine(self, node: Node, active: list[str]) -> None:
        """A node that is free, fused into the product before it, or a part of a memory pass."""
        seen = [self.look(name) for name in active]
        layers = {name for item in seen for name in item.reads}
        if len(layers) > MAX_PASS:
            for name in active:
                self.layer(name)
            seen = [self.look(name) for name in active]
            layers = {name for item in seen for name in item.reads}
        simple = node.op in ELEMENTWISE
        waiting = any(item.unwritten for item in seen)
        if simple and not waiting and len(layers) == 1 and len({item.order for item in seen}) == 1:
            self.count("free", node)
            for name in filter(None, node.outputs):
                self.tensors[name] = seen[0]
            return
        words = self.graph.words(node.outputs[0])
        products = [name for name, item in zip(active, seen, strict=True) if self.is_product(item, words)]
        if simple and len(layers) > 1 and products:
            self.fuse(node, active, products)
            return
        reads: Counter[str] = Counter()
        for item in seen:
            reads.update(item.reads)
        capped = {name: min(reads[name], self.shapes[name].words) for name in reads}
        if node.op == "Gather":
            capped[next(iter(capped))] += words  # of the table, as many as are looked up
        self.count("traffic", node)
        first = next(filter(None, node.outputs))
        self.label_of[first] = node.label
        for name in filter(None, node.outputs):
            self.tensors[name] = _Tensor(capped, name, first)

    def is_product(self, seen: _Tensor, words: int) -> bool:
        """Whether a tensor is all that a product gives, and fills the output."""
        if seen.unwritten:
            return False
        (name,) = seen.reads
        gemm = name in self.layers and self.layers[name]["op"] in MULTIPLYING
        return gemm and self.shapes[name].words == words == seen.reads[name]

    def fuse(self, node: Node, active: list[str], products: list[str]) -> None:
        """Combine with a product as it is written; `finish` checks that nothing else reads the product alone."""
        words = self.graph.words(node.outputs[0])
        layers = {name: self.layer(name) for name in active}
        shape = self.shapes[layers[products[0]]]
        ordered = sorted(active, key=lambda name: name != products[0])
        whole = [name for name in ordered if self.shapes[layers[name]].words == words]
        sources = list(dict.fromkeys(self.shaped(name, shape) for name in whole))
        reads = {layer: words for name in active for layer, words in self.look(name).reads.items()}
        content = {"op": "add"} if len(sources) > 1 else {"op": "view", "shape": list(shape)}
        layer = self.emit(node.label, content, sources, shape)
        self.fusable[layer] = (node, reads, sources)
        self.result(node, layer)

    # ---- the end

    def finish(self) -> Walk:
        self.made.outputs = {name: self.layer(name) for name in self.graph.outputs if name not in self.graph.constants}
        uses = Counter(source for item in self.layers.values() for source in item["from"])
        uses.update(self.made.outputs.values())
        for layer, (node, reads, sources) in self.fusable.items():
            if any(self.only_use(name, uses) for name in sources):
                self.count("fused", node)
                continue
            content = self.memory(reads, self.shapes[layer])
            self.layers[layer] = {"name": layer, **content, "from": list(reads)}
            self.count("traffic", node)
        for node in self.graph.nodes:
            for name in filter(None, node.outputs):
                held = self.look(name)
                if not held.unwritten:
                    self.made.layer_of[name] = self.made.layer_of[node.label] = next(iter(held.reads))
        return self.made

    def only_use(self, name: str, uses: Counter[str]) -> bool:
        """Whether a layer, perhaps seen through views, is a product that nothing else reads."""
        while uses[name] == 1 and name != "input":
            layer = self.layers[name]
            if layer["op"] in MULTIPLYING:
                return True
            if layer["op"] != "view" or name in self.fusable:
                return False
            (name,) = layer["from"]
        return False
