"""Turns ONNX nodes into the layers of a network file: which multiply, which move data, which cost nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
"""Most layers that one memory pass reads; a longer pass is split. A single node with more inputs is not."""

MULTIPLYING = frozenset({"conv", "convtranspose", "gemm", "linear"})
"""Operators of a network file that multiply."""

KINDS = {
    "products": "multiply",
    "traffic": "only move data",
    "fused": "combine a product with what was there before, as it is written",
    "free": "ride along with a product or pass, or only rearrange",
}
"""What a node can become, and how the network file's sources describe it."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Tells where a tensor's values come from.

    Attributes
    ----------
    reads : dict of str to int
        Words that it takes from each layer.
    order : object
        Equal for tensors whose values stand in the same order.
    unwritten : str
        The tensor that a memory pass must still write before this one can be read. It is ``""`` if no pass
        is needed, because the values are those of one layer, unchanged or changed one by one.
    """

    reads: dict[str, int]
    order: object
    unwritten: str = ""


def walk(graph: Graph, path: Path) -> Walk:
    """Turn a graph into layers.

    Parameters
    ----------
    graph : Graph
        Nodes with known shapes.
    path : Path
        The file, for faults.

    Returns
    -------
    Walk
        The layers of the network, and what became of each node.

    Raises
    ------
    InputError
        With a line for each node whose attributes are not understood.
    """
    needed = _written(graph)
    for _ in range(2):  # the second walk knows which tensors must be written, and writes them where they are made
        made = Walk(graph, needed)
        faults = []
        for node in graph.nodes:
            try:
                made.step(node)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # odd attributes
                faults.append(f'{path}: node "{node.label}" ({node.op}): is not understood: {error}')
                for name in node.outputs:
                    made.tensors[name] = _Tensor({"input": graph.words(name)}, name)
        if faults:
            raise InputError(faults)
        made.finish()
        needed |= set(made.passes)
    return made


def _arranges(node: Node, graph: Graph) -> bool:
    """Whether a node only rearranges values, at places that are known without a run."""
    return node.op in ARRANGING or (node.op == "Gather" and node.inputs[1] in graph.constants)


def _written(graph: Graph) -> set[str]:
    """Tensors that must be written, as a product, pool, concatenation or the user reads them, perhaps rearranged."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.op in PRODUCTS | POOLS | JOINING:
            needed |= set(node.inputs)
        elif _arranges(node, graph) and needed & set(node.outputs):
            needed.add(node.inputs[0])
    return needed


class Walk:
    """Goes through the nodes once, in order, and adds layers.

    Attributes
    ----------
    source : Shape
        The sample; with several inputs, all of them side by side.
    layers : dict of str to dict
        The layers of a network file by name, in execution order.
    outputs : dict of str to str
        The layer that holds each output of the graph.
    layer_of : dict of str to str
        The layer that holds the values of each node and tensor.
    aside : set of str
        Layers that depend on no product and not on the first input: masks, positions.
    kinds : dict of str to Counter
        Operators by what they became: keys of ``KINDS``.
    """

    def __init__(self, graph: Graph, needed: set[str]) -> None:
        self.graph = graph
        used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
        inputs = [name for name in graph.inputs if name in used]
        self.source = Shape(1, 1, sum(map(graph.words, inputs)))
        self.layers: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, str] = {}
        self.layer_of: dict[str, str] = {}
        self.aside: set[str] = set()
        self.kinds: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
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
        """Add a layer and return its name."""
        name = self.names.give(label.strip("/").replace("/", "."))
        self.layers[name] = {"name": name, "op": content["op"], "from": list(sources), **content}
        self.shapes[name] = shape
        if content["op"] not in MULTIPLYING and set(sources) <= self.aside:
            self.aside.add(name)
        return name

    def enter(self, inputs: Sequence[str]) -> None:
        """Add the sample: the only input, or all of them side by side."""
        if len(inputs) == 1:
            self.source = self.natural(inputs[0])
        self.shapes["input"] = self.source
        for index, name in enumerate(inputs):
            layer = "input"
            if len(inputs) > 1:
                shape = self.natural(name)
                layer = self.emit(name, {"op": "view", "shape": list(shape)}, ["input"], shape)
                if index:
                    self.aside.add(layer)
            self.hold([name], layer)

    def natural(self, tensor: str) -> Shape:
        """A tensor as a map: with two axes of positions the channels come first, with one or none they come last."""
        *others, first, second, third = (1, 1, 1, *self.graph.sizes[tensor])
        if len(self.graph.sizes[tensor]) > 3:
            return Shape(math.prod(others) * second, third, first)
        return Shape(first * second, 1, third)

    def part(self, tensor: str, layer: str, order: object) -> _Tensor:
        """A tensor whose values are those of a layer, or some of them."""
        return _Tensor({layer: min(self.graph.words(tensor), self.shapes[layer].words)}, order)

    def hold(self, tensors: Iterable[str], layer: str) -> None:
        """Note that a layer holds these tensors."""
        self.tensors |= {name: self.part(name, layer, name) for name in tensors if name}

    def look(self, tensor: str) -> _Tensor:
        """A tensor. If a memory pass has written it by now, it is held by a layer like any other."""
        seen = self.tensors[tensor]
        return self.part(tensor, self.passes[seen.unwritten], seen.order) if seen.unwritten in self.passes else seen

    def layer(self, tensor: str) -> str:
        """Return the layer that holds a tensor's values, perhaps among others; write its memory pass if that is due."""
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
        """Add a layer that reads words and writes a map."""
        return self.emit(label, self.memory(reads, shape), list(reads), shape)

    def memory(self, reads: dict[str, int], shape: Shape) -> dict[str, Any]:
        """A memory layer. It states how many words it reads, unless it reads all of its inputs."""
        words = sum(reads.values())
        content: dict[str, Any] = {"op": "memory"}
        if words != sum(self.shapes[name].words for name in reads):
            content["reads"] = words
        return content | {"shape": list(shape)}

    def count(self, kind: str, node: Node) -> None:
        """Note what a node became."""
        self.kinds[kind][node.op] += 1

    def shaped(self, tensor: str, shape: Shape) -> str:
        """The layer that holds a tensor as a map of this shape."""
        name = self.layer(tensor)
        if name == "input" and self.source.words == shape.words and not self.layers:
            self.source = self.shapes[name] = shape  # the first layer that reads the sample decides its form
        if self.shapes[name] == shape:
            return name
        if self.shapes[name].words < shape.words:  # repeated, as Expand does
            return self.traffic(f"{name}.copy", {name: self.shapes[name].words}, shape)
        part = name if self.shapes[name].words == shape.words else tensor  # the halves of a layer are two views
        if (part, shape) not in self.views:
            view = {"op": "view", "shape": list(shape)}
            self.views[part, shape] = self.emit(f"{name}.view", view, [name], shape)
        return self.views[part, shape]

    # ---- nodes

    def step(self, node: Node) -> None:
        """Add what one node costs."""
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

    def multiply(self, node: Node, found: Product) -> None:
        """Add a product."""
        self.count("products", node)
        first = found.operands[0]
        sources = [self.shaped(first, found.source)] if found.source else [self.layer(name) for name in found.operands]
        self.hold(node.outputs, self.emit(node.label, found.layer, sources, found.shape))

    def linear(self, found: Product) -> Product:
        """A product of one activation by weights becomes a ``linear`` layer, if the shapes allow that."""
        first, *others = found.operands
        rows, inner, columns, groups = (found.layer[key] for key in ("rows", "inner", "columns", "groups"))
        if others or groups > 1 or self.graph.words(first) != rows * inner:
            return found
        at = self.shapes[self.layer(first)]
        source = at if at.channels == inner else Shape(rows, 1, inner)
        shape = Shape(source.height, source.width, columns)
        return Product(found.operands, {"op": "linear", "out": columns}, shape, source)

    def attend(self, node: Node) -> None:
        """Add Attention of opset 23: the scores, their softmax, and the product with the values."""
        self.count("products", node)
        sizes = self.graph.sizes
        query, out = sizes[node.inputs[0]], sizes[node.outputs[0]]
        heads = query[1] if len(query) == 4 else node.attributes["q_num_heads"]
        groups, tokens = query[0] * heads, query[-2]
        given = [*node.inputs, *[""] * 6]
        inner = query[3] if len(query) == 4 else query[2] // heads
        columns = out[3] if len(out) == 4 else out[2] // heads
        seen = sizes[given[1]][-2] + (sizes[given[4]][-2] if given[4] else 0)  # keys of this run and of earlier tokens
        score = raw_product((given[0], given[1]), tokens, inner, seen, groups)
        keys = [self.layer(name) for name in (given[1], given[4]) if name and name not in self.graph.constants]
        values = [self.layer(name) for name in (given[2], given[5]) if name and name not in self.graph.constants]
        scores = self.emit(f"{node.label}.scores", score.layer, [self.layer(given[0]), *keys], score.shape)
        memory = {"op": "memory", "shape": list(score.shape)}
        soft = self.emit(f"{node.label}.softmax", memory, [scores], score.shape)
        weigh = raw_product(score.operands, tokens, seen, columns, groups)
        result = self.emit(node.label, weigh.layer, [soft, *values], weigh.shape)
        self.hold(node.outputs[:1], result)
        for name, held in zip(node.outputs[1:], (keys, values, [scores]), strict=False):
            if name:
                self.tensors[name] = _Tensor({held[0]: self.graph.words(name)}, name)

    def pool(self, node: Node) -> None:
        """Add a pool. A pool over one or two axes of one map keeps its name; any other becomes traffic."""
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
            content |= {"ceil": bool(node.attributes.get("ceil_mode"))}
            del content["dilation"]  # a pool of a network file has none
            try:
                lower(Pool.model_validate({"name": "pool", **content, "shape": list(shape)}), [source], 1)
            except ValueError:  # ONNX counts padding in another way here
                content = self.memory({self.layer(tensor): source.words}, shape)
        self.count("traffic", node)
        self.hold(node.outputs, self.emit(node.label, content, [self.shaped(tensor, source)], shape))

    def same_layer(self, tensors: list[str]) -> bool:
        """Whether all tensors are parts of one layer, as the two halves of a rotation are."""
        seen = [self.look(name) for name in tensors]
        return not any(item.unwritten for item in seen) and len({name for item in seen for name in item.reads}) == 1

    def join(self, node: Node, active: list[str]) -> None:
        """Add a concatenation: maps are written in place, for free. With constants or repeated maps it is a copy."""
        layers = {name: self.layer(name) for name in active}
        words = {name: self.graph.words(name) for name in node.inputs}
        if len(layers) < len(words) or any(words[name] > self.shapes[layers[name]].words for name in layers):
            reads: Counter[str] = Counter()
            for name in active:
                reads[layers[name]] += min(words[name], self.shapes[layers[name]].words)
            reads[layers[active[0]]] += sum(words[name] for name in words if name not in layers)
            self.count("traffic", node)
            self.hold(node.outputs, self.traffic(node.label, reads, self.natural(node.outputs[0])))
            return
        self.count("free", node)
        axis, first = node.attributes["axis"], self.shapes[layers[active[0]]]
        shapes = {name: Shape(first.height, first.width, self.graph.sizes[name][axis]) for name in layers}
        along = all(self.shapes[layers[name]] == shapes[name] and shapes[name].words == words[name] for name in layers)
        names = [  # if not along the channels, each map is read as one long row
            layers[name] if along else self.shaped(name, Shape(1, 1, words[name])) for name in node.inputs
        ]
        joined = Shape(*self.shapes[names[0]][:2], sum(self.shapes[name].channels for name in names))
        self.hold(node.outputs, self.emit(node.label, {"op": "concat"}, names, joined))

    def arrange(self, node: Node, tensor: str) -> None:
        """Rearrange values or take a part of them. This is free: the next layer reads them from where they are."""
        self.count("free", node)
        seen = self.look(tensor)
        words = [self.graph.words(name) for name in (tensor, *filter(None, node.outputs))]
        if node.op in KEEPING and len(set(words)) > 1:
            raise ValueError(f"it makes {words[1]} values of {words[0]}: the file is made for another size of input")
        for name in filter(None, node.outputs):
            reads = {layer: min(words, self.graph.words(name)) for layer, words in seen.reads.items()}
            self.tensors[name] = _Tensor(reads if not seen.unwritten else seen.reads, name, seen.unwritten)

    def combine(self, node: Node, active: list[str]) -> None:
        """Decide whether a node is free, is fused into the product before it, or belongs to a memory pass."""
        if len({layer for name in active for layer in self.look(name).reads}) > MAX_PASS:
            for name in active:
                self.layer(name)
        seen = [self.look(name) for name in active]
        layers = {name for item in seen for name in item.reads}
        simple = node.op in ELEMENTWISE
        if simple and self.same_layer(active) and len({item.order for item in seen}) == 1:
            self.count("free", node)
            self.tensors |= dict.fromkeys(filter(None, node.outputs), seen[0])
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
            capped[next(iter(capped))] += words  # the rows of the table that are looked up
        self.count("traffic", node)
        first, *others = filter(None, node.outputs)
        self.label_of[first] = node.label
        self.tensors |= {name: _Tensor(capped, name, first) for name in (first, *others)}

    def is_product(self, seen: _Tensor, words: int) -> bool:
        """Whether a tensor is the whole result of a product, and as large as the output."""
        name = next(iter(seen.reads))
        gemm = not seen.unwritten and name in self.layers and self.layers[name]["op"] in MULTIPLYING
        return gemm and self.shapes[name].words == words == seen.reads[name]

    def fuse(self, node: Node, active: list[str], products: list[str]) -> None:
        """Fuse a node into a product. `finish` undoes this if another layer reads the product without the node."""
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
        self.hold(node.outputs, layer)

    # ---- the end

    def finish(self) -> None:
        """Write the outputs, check what was fused, and note which layer holds each tensor."""
        self.outputs = {name: self.layer(name) for name in self.graph.outputs if name not in self.graph.constants}
        uses = Counter(source for item in self.layers.values() for source in item["from"])
        uses.update(self.outputs.values())
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
                    self.layer_of[name] = self.layer_of[node.label] = next(iter(held.reads))

    def only_use(self, name: str, uses: Counter[str]) -> bool:
        """Whether a layer is a product, perhaps behind views, that nothing else reads."""
        while uses[name] == 1 and name != "input":
            layer = self.layers[name]
            if layer["op"] in MULTIPLYING:
                return True
            if layer["op"] != "view" or name in self.fusable:
                return False
            (name,) = layer["from"]
        return False
