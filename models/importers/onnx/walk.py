"""Layers of a network file from ONNX nodes, which multiply, move data or cost nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ....formats import InputError
from ...network import Shape
from .graph import Graph, Node
from .labels import SizeFault
from .operators import (
    ARRANGING,
    CONVOLUTIONS,
    ELEMENTWISE,
    GATHERS,
    JOINING,
    KEEPING,
    MOVING,
    POOLS,
    PRODUCTS,
    RECURRENT,
    SCALES,
)
from .order import ONE, Rows, map_of, own_rows
from .products import NodeProduct, convolution, is_average, matrix_product, pooling, raw_product
from .tensors import MULTIPLYING, HeldTensor, LayersOfTensors

MAX_PASS = 64
"""Most layers that one memory pass reads; a longer pass is split. A single node with more inputs is not."""

KINDS = {
    "products": "multiply",
    "traffic": "only move data",
    "fused": "combine a product with other tensors while it is written",
    "free": "cost nothing: they work on one value at a time, or only rearrange values",
}
"""Classes of nodes, and how the network file's sources describe them."""


def walk(graph: Graph, path: Path) -> Walk:
    """Turn a graph into layers; each node whose attributes are not understood is a fault."""
    needed = _written(graph)
    for _ in range(2):  # the second walk knows which tensors must be written, and writes them where they are made
        made = Walk(graph, needed)
        faults: dict[tuple[str, str], list[str]] = {}  # labels of nodes by operator and fault
        for node in graph.nodes:
            try:
                made.step(node)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # odd attributes
                why = f"is not understood: {error}" if isinstance(error, SizeFault) else "its attributes do not fit it"
                faults.setdefault((node.title, why), []).append(node.label)
                made.settle()
                for name in node.outputs:
                    made.tensors[name] = HeldTensor({"input": graph.words(name)}, name)
        if faults:
            raise InputError(_fault(path, op, why, labels) for (op, why), labels in faults.items())
        made.finish()
        needed |= set(made.passes)
    return made


def _fault(path: Path, op: str, why: str, labels: Sequence[str]) -> str:
    """One line for all nodes that have the same fault."""
    return f'{path}: node "{labels[0]}" ({op}){f" and {len(labels) - 1} more" if labels[1:] else ""}: {why}'


def _arranges(node: Node, graph: Graph) -> bool:
    """Tell if a node only rearranges values, at places that are known without a run."""
    return node.op in ARRANGING or (node.op in GATHERS and node.inputs[1] in graph.constants)


def _goes_value_by_value(node: Node, graph: Graph) -> bool:
    """Tell if each value of the output depends on constants and on the value in the same place of the first input."""
    first, *others = node.inputs
    return (
        node.op in ELEMENTWISE
        and first not in graph.constants
        and all(name in graph.constants for name in filter(None, others))
        and graph.sizes[first] == graph.sizes[node.outputs[0]]
    )


def _written(graph: Graph) -> set[str]:
    """Tensors that must be written: outputs, and what a product, pool or concatenation reads.

    If values are then only changed one by one, e.g. quantised, the values before are written: others may read them too.
    """
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.op in PRODUCTS | POOLS | JOINING or (needed & set(node.outputs) and is_average(node, graph)):
            needed |= set(node.inputs)
        elif needed & set(node.outputs) and (_arranges(node, graph) or _goes_value_by_value(node, graph)):
            needed.add(node.inputs[0])
    return needed - {""}


class Walk(LayersOfTensors):
    """One pass over the nodes, in order, that adds layers."""

    def __init__(self, graph: Graph, needed: set[str]) -> None:
        used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
        super().__init__(graph, [name for name in graph.inputs if name in used])
        self.needed = needed
        self.outputs: dict[str, str] = {}  # layer of each output of the graph
        self.layer_of: dict[str, str] = {}  # layer of each node and tensor
        self.scales: set[str] = set()  # tensors that hold the range of others and cost nothing
        self.kinds: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}  # operators by their class
        self.fusable: dict[str, tuple[Node, dict[str, int], list[str], Rows | None]] = {}

    def count(self, kind: str, node: Node) -> None:
        """Note the class of a node."""
        self.kinds[kind][node.title] += 1

    def step(self, node: Node) -> None:
        """Add the layers of one node."""
        self.at = f'node "{node.label}" ({node.title})'
        active = [name for name in dict.fromkeys(node.inputs) if name and name not in self.graph.constants]
        scaled = [name for name in active if name not in self.scales]
        if node.op == SCALES:
            self.scales.update(node.outputs[1:])
        elif not scaled and (node.op in ELEMENTWISE or _arranges(node, self.graph)):
            self.scales.update(node.outputs)
        active = scaled or active
        if node.op == "Attention":
            self.attend(node)
        elif node.op in RECURRENT:
            self.recur(node)
        elif node.op in CONVOLUTIONS:
            self.multiply(node, convolution(node, self.graph), active)
        elif node.op in PRODUCTS:
            self.multiply(node, self.linear(matrix_product(node, self.graph)), active)
        elif node.op in POOLS or (node.outputs[0] in self.needed and is_average(node, self.graph)):
            self.pool(node)
        elif node.op in JOINING and not (len(active) == len(node.inputs) and self.same_layer(active)):
            self.join(node, active)
        elif _arranges(node, self.graph) or node.op in JOINING:
            self.arrange(node, active)
        else:
            assert node.op in ELEMENTWISE | MOVING
            self.combine(node, active)
        for name in self.needed.intersection(node.outputs):
            if self.tensors[name].unwritten:
                self.layer(name)

    def multiply(self, node: Node, product: NodeProduct, active: Sequence[str]) -> None:
        """Add a product. Other activations, such as the third input of Gemm, are added while it is written."""
        self.count("products", node)
        first = product.operands[0]
        if product.source:
            sources = [self.shaped(first, product.source, product.read)]
        else:
            sources = [self.layer(name) for name in product.operands]
        layer = self.emit(node.label, product.layer, sources, product.shape)
        rows = product.made or own_rows(self.graph.sizes[node.outputs[0]], product.shape)
        added = [self.beside(node, name, rows) for name in active if name not in product.operands]
        self.hold(node.outputs, self.fused(node.label, [layer, *added]) if added else layer, rows=[rows])

    def beside(self, node: Node, tensor: str, rows: Rows | None) -> str:
        """The layer that holds a tensor which a product with these rows is combined with, row by row."""
        layer = self.layer(tensor)
        (own,) = self.rows_behind(node, node.outputs[0], [tensor])
        met = own == ONE or (own == rows and rows is not None)
        return layer if met else self.turned(layer)

    def linear(self, product: NodeProduct) -> NodeProduct:
        """Make a product of one activation by weights a ``linear`` layer, if the shapes allow that."""
        first, *others = product.operands
        rows, inner, columns, groups = (product.layer[key] for key in ("rows", "inner", "columns", "groups"))
        if others or groups > 1 or self.graph.words(first) != rows * inner or not (product.read and product.made):
            return product
        at = self.shapes[self.layer(first)]
        height, width = at[:2] if at.positions == rows else (rows, 1)
        source = Shape(height, width, inner)
        shape = Shape(source.height, source.width, columns)
        read, made = (Rows(source.height, source.width * form.apart) for form in (product.read, product.made))
        return NodeProduct(product.operands, {"op": "linear", "out": columns}, shape, source, read, made)

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
        keys, values, masks = (
            [self.layer(given[place]) for place in places if given[place] not in {"", *self.graph.constants}]
            for places in ((1, 4), (2, 5), (3,))
        )
        score = raw_product((given[0], given[1]), tokens, inner, seen, groups)
        scores = self.emit(f"{node.label}.scores", score.layer, [self.layer(given[0]), *keys], score.shape)
        masked = self.fused(f"{node.label}.mask", [scores, *masks]) if masks else scores
        soft = self.traffic(f"{node.label}.softmax", {masked: score.shape.words}, score.shape)
        weigh = raw_product(score.operands, tokens, seen, columns, groups)
        made = self.emit(node.label, weigh.layer, [soft, *values], weigh.shape)
        self.hold(node.outputs[:1], made, rows=[Rows(tokens, out[-1])])
        for name, held in zip(node.outputs[1:], (keys, values, [scores]), strict=False):
            self.hold([name], held[0], rows=[None])

    def recur(self, node: Node) -> None:
        """Add an LSTM, GRU or RNN; states to begin with are read beside its input."""
        self.count("products", node)
        first, states = node.inputs[0], [name for name in node.inputs[5:7] if name not in {"", *self.graph.constants}]
        sizes, (directions, _, hidden) = self.graph.sizes[first], self.graph.sizes[node.inputs[2]]
        side = sizes[0 if node.attributes.get("layout") else 1]
        content = {"op": "recurrent", "hidden": hidden, "gates": RECURRENT[node.op], "directions": directions}
        source = Shape(sizes[0] * sizes[1], 1, sizes[2])
        sources = [self.shaped(first, source, None), *map(self.layer, states)]
        shape = Shape(source.height, 1, directions * hidden)
        layer = self.emit(node.label, content | {"sequences": side}, [*dict.fromkeys(sources)], shape)
        self.hold(node.outputs, layer, rows=[None])

    def pool(self, node: Node) -> None:
        """Add a pool; one that a network file has no operator for is plain traffic."""
        tensor, out = node.inputs[0], node.outputs[0]
        sizes = self.graph.sizes[tensor]
        form = map_of(sizes) or self.natural(tensor)
        source = self.shaped(tensor, form, own_rows(sizes, form))
        shape = map_of(self.graph.sizes[out]) or self.natural(out)
        content = pooling(node, self.graph) or self.memory({source: self.shapes[source].words}, shape)
        self.count("traffic", node)
        layer = self.emit(node.label, content, [source], shape)
        for name in filter(None, node.outputs):
            self.hold([name], layer, rows=self.own_rows(name, layer))

    def join(self, node: Node, active: list[str]) -> None:
        """Add a concatenation: maps are written in place, for free. With constants or repeated maps it is a copy."""
        layers = {name: self.layer(name) for name in active}
        words = {name: self.graph.words(name) for name in node.inputs}
        if len(layers) < len(words) or any(words[name] > self.shapes[layers[name]].words for name in layers):
            reads = self.reads(active)
            reads[layers[active[0]]] += sum(words[name] for name in words if name not in layers)
            self.count("traffic", node)
            copy = self.traffic(node.label, reads, self.natural(node.outputs[0]))
            self.hold(node.outputs, copy, rows=self.own_rows(node.outputs[0], copy))
            return
        self.count("free", node)
        self.settle()
        axis, first = node.attributes["axis"], self.shapes[layers[active[0]]]
        shapes = {name: Shape(first.height, first.width, self.graph.sizes[name][axis]) for name in layers}
        along = all(self.shapes[layers[name]] == shapes[name] and shapes[name].words == words[name] for name in layers)
        (rows,) = self.rows_behind(node, node.outputs[0], active)
        if rows and rows.count == first.height > 1 and not any(words[name] % first.positions for name in layers):
            shapes = {name: Shape(*first[:2], words[name] // first.positions) for name in layers}
            names = [self.shaped(name, shapes[name], self.look(name).rows[0]) for name in node.inputs]
        elif along:
            names = [layers[name] if rows else self.turned(layers[name]) for name in node.inputs]
        else:  # each map is read as one long row
            names, rows = [self.shaped(name, Shape(1, 1, words[name]), None) for name in node.inputs], ONE
        joined = Shape(*self.shapes[names[0]][:2], sum(self.shapes[name].channels for name in names))
        self.hold(node.outputs, self.emit(node.label, {"op": "concat"}, names, joined), rows=[rows])

    def arrange(self, node: Node, active: Sequence[str]) -> None:
        """Rearrange values or take a part of them, for free: the next layer reads them from their places."""
        self.count("free", node)
        tensor = active[0]
        seen, words = self.look(tensor), self.graph.words(tensor)
        for name in filter(None, node.outputs):
            if node.op in KEEPING and self.graph.words(name) != words:
                raise SizeFault(
                    f"it makes {self.graph.words(name)} values of {words}: the file was exported for another "
                    "size of its input"
                )
            rows = self.rows_behind(node, name, active)
            if seen.unwritten:
                self.tensors[name] = HeldTensor(seen.reads, name, seen.unwritten, rows)
            else:
                self.hold([name], self.layer(tensor), rows=rows)

    def combine(self, node: Node, active: list[str]) -> None:
        """Decide whether a node is free, is fused into the product before it, or belongs to a memory pass."""
        if len(self.reads(active)) > MAX_PASS or node.op in GATHERS:
            for name in active:
                self.layer(name)
        layers = [*self.reads(active)]
        orders = {self.look(name).order for name in active}
        simple = node.op in ELEMENTWISE
        if simple and self.same_layer(active) and len(orders) == 1:
            self.count("free", node)
            for name in filter(None, node.outputs):
                self.hold([name], layers[0], *orders, rows=self.rows_behind(node, name, active))
            return
        words = self.graph.words(node.outputs[0])
        products = [name for name in active if self.is_product(self.look(name), words)]
        if simple and len(layers) > 1 and products:
            first = products[0]
            (rows,) = self.rows_behind(node, node.outputs[0], [first])
            sources = [self.layer(first), *(self.beside(node, name, rows) for name in active if name != first)]
            layer = self.fused(node.label, [*dict.fromkeys(sources)])
            (met,) = self.rows_behind(node, node.outputs[0], active)
            self.fusable[layer] = (node, self.reads(active), [self.layer(name) for name in products], met)
            self.hold(node.outputs, layer, rows=[rows])
            return
        self.count("free" if self.scales.issuperset(node.outputs[-1:]) else "traffic", node)
        reads = self.looked_up(node) if node.op in GATHERS else self.reads(active)
        first, *others = filter(None, node.outputs)
        self.label_of[first] = node.label
        for name in (first, *others):
            self.tensors[name] = HeldTensor(reads, name, first, self.rows_behind(node, name, active))

    def looked_up(self, node: Node) -> dict[str, int]:
        """Words that a gather reads at places that only a run knows: the places, and at most the values it returns."""
        data, places = node.inputs[:2]
        reads, taken = self.reads([places]), self.graph.words(node.outputs[0])
        layer = next(iter(reads)) if data in self.graph.constants else self.layer(data)
        most = taken if data in self.graph.constants else self.shapes[layer].words
        return reads | {layer: reads.get(layer, 0) + min(taken, most)}

    def is_product(self, seen: HeldTensor, words: int) -> bool:
        """Tell if a tensor is the whole result of a product, and as large as the output."""
        name = next(iter(seen.reads))
        gemm = not seen.unwritten and name in self.layers and self.layers[name]["op"] in MULTIPLYING
        return gemm and self.shapes[name].words == words == seen.reads[name]

    # ---- the end

    def finish(self) -> None:
        """Write the outputs, check what was fused, and note which layer holds each tensor."""
        self.outputs = {name: self.alone(name) for name in self.graph.outputs if name not in self.graph.constants}
        uses = Counter(source for content in self.layers.values() for source in content["from"])
        uses.update(self.outputs.values())
        for layer, (node, reads, products, rows) in self.fusable.items():
            if any(uses[name] == 1 for name in products):
                self.count("fused", node)
                continue
            content = self.memory(reads, self.shapes[layer], rows)  # another layer reads the product without the node
            self.layers[layer] = {"name": layer, **content, "from": list(reads)}
            self.count("traffic", node)
        for node in self.graph.nodes:
            for name in filter(None, node.outputs):
                held = self.look(name)
                if not held.unwritten:
                    self.layer_of[name] = self.layer_of[node.label] = next(iter(held.reads))
