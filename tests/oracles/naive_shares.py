"""Random ONNX graphs with layers that keep rows and layers that do not, and their shares run in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from fluidb.models.schema import NetworkFile
from fluidb.tables.partition import BlockRows, PartitionTable
from onnx import helper, numpy_helper

Array = Any
OPSETS = [helper.make_opsetid("", 20)]


class RandomGraph:
    """A graph that grows part by part; each part reads the map before it and makes the next one.

    Attributes
    ----------
    axis : dict of str to int
        The axis of each tensor along which the rows of its map stand, as a person sees them.
    keeps : bool
        Whether all parts so far go row by row.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        side = self.pick(4, 6, 8, 9)
        shape = 1, self.pick(2, 4, side), side, self.pick(side, 4, 6)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.sizes: dict[str, tuple[int, ...]] = {"x": shape}
        self.axis = {"x": 2}
        self.parts: list[str] = []
        self.keeps = True

    # ---- nodes

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(values)
        self.constants[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    def weights(self, *sizes: int) -> str:
        return self.constant(self.rng.normal(size=sizes) / np.sqrt(max(1.0, float(np.prod(sizes[1:])))))

    def add(self, op: str, inputs: Sequence[str], rows: int | None = None, results: int = 1, **attributes: Any) -> str:
        """Add a node; the rows of its output stand where its first input has them, unless told otherwise."""
        names = [f"t{len(self.sizes)}_{i}" for i in range(results)]
        node = helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes)
        tensors = {name: self.sizes[name] for name in inputs if name in self.sizes}
        types = {name: helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, sizes) for name, sizes in tensors.items()}
        data = {name: numpy_helper.from_array(self.constants[name], name) for name in inputs if name in self.constants}
        types |= {name: helper.make_tensor_type_proto(item.data_type, item.dims) for name, item in data.items()}
        schema = onnx.defs.get_schema(op, 20, "")
        found = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=OPSETS)
        for name in names:
            self.sizes[name] = tuple(dim.dim_value for dim in found[name].tensor_type.shape.dim)
            assert min(self.sizes[name], default=1) > 0
            self.axis[name] = self.axis.get(inputs[0], 2) if rows is None else rows
        self.nodes.append(node)
        return names[0]

    def reshape(self, name: str, *sizes: int) -> str:
        return self.add("Reshape", [name, self.constant(np.array(sizes, np.int64))])

    def transpose(self, name: str, *perm: int) -> str:
        return self.add("Transpose", [name], rows=perm.index(self.axis[name]), perm=perm)

    def slice(self, name: str, axis: int, first: int, end: int, step: int = 1) -> str:
        return self.add("Slice", [name, *(self.constant(np.array([n], np.int64)) for n in (first, end, axis, step))])

    # ---- parts that go row by row

    def conv(self, at: str, out: int | None = None) -> str:
        _, channels, height, width = self.sizes[at]
        if min(height, width) < 5:
            return self.same(at, out or self.pick(2, 4))
        kernel, stride = self.pick(1, 2, 3, 3, 5), self.pick(1, 1, 2)
        dilation, groups = self.pick(1, 1, 2), self.pick(1, 1, channels)
        pad, below = (int(self.rng.integers(dilation * (kernel - 1) + 1)) for _ in range(2))
        if min(height, width) + pad + below - dilation * (kernel - 1) < 1 + stride:
            return self.same(at, out or self.pick(2, 4))
        out = groups * (out or self.pick(1, 2)) if groups > 1 else out or self.pick(2, 4, height)
        tensors = [at, self.weights(out, channels // groups, kernel, kernel), *self.pick([], [self.weights(out)])]
        return self.add("Conv", tensors, rows=2, pads=[pad, pad, below, below], strides=[stride] * 2,
                        dilations=[dilation] * 2, group=groups)  # fmt: skip

    def same(self, at: str, out: int, stride: int = 1) -> str:
        tensors = [at, self.weights(out, self.sizes[at][1], 3, 3)]
        return self.add("Conv", tensors, rows=2, pads=[1] * 4, strides=[stride] * 2)

    def pool(self, at: str) -> str:
        if min(self.sizes[at][2:]) < 5:
            return self.pointwise(at)
        kernel = self.pick(2, 3)
        return self.add(self.pick("MaxPool", "AveragePool"), [at], rows=2, kernel_shape=[kernel] * 2,
                        strides=[self.pick(1, 2)] * 2, ceil_mode=self.pick(0, 1))  # fmt: skip

    def pointwise(self, at: str) -> str:
        sizes = self.sizes[at]
        match self.pick(0, 1, 2, 3):
            case 0:
                return self.add(self.pick("Relu", "Sigmoid", "Neg"), [at])
            case 1:
                return self.add("Add", [at, self.weights(*sizes)])
            case 2:
                return self.add("Mul", [at, self.weights(1, sizes[1], 1, 1)])
            case _:
                scale = [self.weights(sizes[1]) for _ in range(3)]
                return self.add("BatchNormalization", [at, *scale, self.constant(self.rng.uniform(0.5, 2, sizes[1]))])

    def residual(self, at: str) -> str:
        stride, out = self.pick(1, 2) if min(self.sizes[at][2:]) > 3 else 1, self.pick(2, 4)
        inner = self.add("Relu", [self.same(at, 3)])
        inner, side = self.same(inner, out, stride), at
        if stride > 1 or out != self.sizes[at][1] or self.axis[at] == 3:
            side = self.add("Conv", [at, self.weights(out, self.sizes[at][1], 1, 1)], rows=2, strides=[stride] * 2)
        return self.add("Add", self.pick([inner, side], [side, inner]), rows=2)

    def parallel(self, at: str) -> str:
        arms = [self.same(at, self.pick(1, 2)) for _ in range(2)] + self.pick([], [at])
        arms[0] = self.add("Relu", arms[:1])
        return self.add("Concat", arms, axis=1)

    def shuffle(self, at: str) -> str:
        _, channels, height, width = self.sizes[at]
        groups = 2 if channels % 2 == 0 else channels
        split = self.reshape(at, 1, groups, channels // groups, height, width)
        turned = self.add("Transpose", [split], perm=[0, 2, 1, 3, 4])
        return self.reshape(turned, *self.sizes[at])

    def split(self, at: str) -> str:
        channels = self.sizes[at][1]
        if channels < 2:
            return self.pointwise(at)
        sizes = np.array([channels // 2, channels - channels // 2], np.int64)
        first = self.add("Split", [at, self.constant(sizes)], results=2, axis=1)
        second = first[:-1] + "1"
        first = self.pick(first, self.same(first, self.sizes[first][1])) if self.axis[at] == 2 else first
        return self.add("Concat", self.pick([first, second], [second, first]), axis=1)

    def columns(self, at: str) -> str:
        """Columns or channels in another order, or a part of the channels."""
        axis = self.pick(1, 5 - self.axis[at])
        size = self.sizes[at][axis]
        match self.pick(0, 1, 2, 3):
            case 0:
                return self.slice(at, axis, -1, -size - 1, -1)
            case 1:
                return self.slice(at, 1, 0, -(-self.sizes[at][1] // 2))
            case 2 if size > 1:
                return self.add("Concat", [self.slice(at, axis, 1, size), self.slice(at, axis, 0, 1)], axis=axis)
            case _:
                return self.add("Gather", [at, self.constant(self.rng.permutation(size))], axis=axis)

    def lrn(self, at: str) -> str:
        return self.add("LRN", [at], size=3, alpha=0.5)

    def last(self, at: str) -> str:
        """Channels last: a normalisation over them, a product with each position, or both."""
        channels = self.sizes[at][1]
        turned = self.transpose(at, 0, 2, 3, 1)
        if self.pick(0, 1):
            turned = self.add("LayerNormalization", [turned, self.weights(channels)], axis=-1)
        if self.pick(0, 1) and self.axis[at] == 2:
            turned = self.add("MatMul", [turned, self.weights(channels, self.pick(channels, 3))])
        return self.transpose(turned, 0, 3, 1, 2)

    def there_and_back(self, at: str) -> str:
        turned = self.transpose(at, 0, 1, 3, 2)
        return self.transpose(self.pick(turned, self.add("Relu", [turned])), 0, 1, 3, 2)

    def excite(self, at: str) -> str:
        _, channels, *_ = self.sizes[at]
        squeezed, inner = max(1, channels // 2), self.pick("Conv", "Gemm")
        if self.pick(0, 1):
            mean = self.add("GlobalAveragePool", [at])
        else:
            mean = self.add("ReduceMean", [at, self.constant(np.array([2, 3]))], keepdims=1)
        if inner == "Conv":
            down = self.add("Relu", [self.add("Conv", [mean, self.weights(squeezed, channels, 1, 1)])])
            up = self.add("Conv", [down, self.weights(channels, squeezed, 1, 1)])
        else:
            flat = self.reshape(mean, 1, channels)
            down = self.add("Relu", [self.add("Gemm", [flat, self.weights(channels, squeezed)])])
            up = self.reshape(self.add("Gemm", [down, self.weights(squeezed, channels)]), 1, channels, 1, 1)
        return self.add("Mul", [at, self.add("Sigmoid", [up])])

    def gated_residual(self, at: str) -> str:
        inner = self.excite(self.same(at, self.sizes[at][1]))
        if self.axis[at] == 3:
            return inner
        return self.add("Add", [self.same(inner, self.sizes[at][1]), at])

    # ---- parts that do not

    def transposed(self, at: str) -> str:
        return self.transpose(at, 0, 1, 3, 2)

    def flipped(self, at: str) -> str:
        axis = self.axis[at]
        return self.slice(at, axis, -1, -self.sizes[at][axis] - 1, -1)

    def rolled(self, at: str) -> str:
        axis = self.axis[at]
        size = self.sizes[at][axis]
        by = int(self.rng.integers(1, size))
        return self.add("Concat", [self.slice(at, axis, by, size), self.slice(at, axis, 0, by)], axis=axis)

    def reshaped(self, at: str) -> str:
        sizes = self.sizes[at]
        _, channels, height, width = sizes
        match self.pick(0, 1, 2):
            case 0:
                turned = self.add("Transpose", [self.reshape(at, 1, channels, height * width)], perm=[0, 2, 1])
                return self.reshape(turned, *sizes)
            case 1 if height % 2 == width % 2 == 0:
                split = self.reshape(at, 1, channels, 2, height // 2, 2, width // 2)
                return self.reshape(self.add("Transpose", [split], perm=[0, 1, 4, 3, 2, 5]), *sizes)
            case _:
                turned = self.add("Transpose", [self.reshape(at, 1, height, width, channels)], perm=[0, 3, 2, 1])
                return self.reshape(turned, *sizes)

    def repeated(self, at: str) -> str:
        axis = self.axis[at]
        size = self.sizes[at][axis]
        if size % 2:
            return self.flipped(at)
        half = self.slice(at, axis, 0, size // 2)
        return self.add("Concat", [half, half], axis=axis)

    def looked_up(self, at: str) -> str:
        axis = self.axis[at]
        return self.add("Gather", [at, self.constant(np.arange(self.sizes[at][axis])[::-1])], axis=axis)

    def crossed(self, at: str) -> str:
        """A map and itself, turned."""
        inner = self.same(at, 3)
        sizes = self.sizes[inner]
        other = self.flipped(inner) if sizes[2] != sizes[3] else self.transpose(inner, 0, 1, 3, 2)
        pair = self.pick([self.same(inner, 3), other], [inner, other])
        return self.add("Add", pair, rows=2) if self.pick(0, 1) else self.add("Concat", pair, rows=2, axis=1)

    def over_rows(self, at: str) -> str:
        axis = self.axis[at]
        match self.pick(0, 1, 2):
            case 0:
                return self.add("Softmax", [at], axis=axis)
            case 1:
                mean = self.add("ReduceMean", [at, self.constant(np.array([axis]))], keepdims=1)
                return self.add("Sub", [at, mean])
            case _:
                scale = [self.weights(self.sizes[at][1]) for _ in range(2)]
                return self.add("InstanceNormalization", [at, *scale])

    def quantised(self, at: str) -> str:
        names = [f"t{len(self.sizes)}_{kind}" for kind in ("y", "scale", "zero")]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [at], names, name=f"n{len(self.nodes)}"))
        self.sizes |= {names[0]: self.sizes[at]}
        self.axis[names[0]] = self.axis[at]
        node = helper.make_node("DequantizeLinear", names, [f"{names[0]}_back"], name=f"n{len(self.nodes)}")
        self.nodes.append(node)
        self.sizes[node.output[0]], self.axis[node.output[0]] = self.sizes[at], self.axis[at]
        return str(node.output[0])

    # ---- the whole

    def grown(self, part: str, at: str) -> str:
        """The map that another part makes."""
        self.parts.append(part)
        return str(getattr(self, part)(at))

    def answer(self, at: str) -> str:
        """A head: perhaps a convolution, then a linear layer of all values, or of the average."""
        at = self.pick(at, self.same(at, 3))
        flat = self.reshape(self.pick(at, self.add("GlobalAveragePool", [at])), 1, -1)
        return self.add("Gemm", [flat, self.weights(self.sizes[flat][1], 3)])

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The graph with these outputs."""
        return _model(self, self.nodes, ["x"], outputs)


KEEPING = (
    "conv", "conv", "conv", "pool", "pointwise", "residual", "parallel", "shuffle", "split", "columns", "lrn", "last",
    "there_and_back", "excite", "gated_residual",
)  # fmt: skip
"""Parts that go row by row."""

LOSING = ("transposed", "flipped", "rolled", "reshaped", "repeated", "looked_up", "crossed", "over_rows", "quantised")
"""Parts that do not, at least where another layer with windows or weights follows."""


def draw_graph(seed: int) -> tuple[RandomGraph, list[str]]:
    """A random graph and its outputs; half of the graphs have parts that do not go row by row."""
    graph = RandomGraph(seed)
    losing, at = graph.pick(0, 0, 0, 1, 1, 2), "x"
    count = int(graph.rng.integers(2, 6))
    at = graph.grown("conv", at) if graph.pick(0, 1, 1) else at
    places = set(graph.rng.integers(count, size=losing).tolist())
    outputs = []
    for number in range(count):
        if number in places:
            part = graph.pick(*LOSING)
            graph.keeps = False
            at = graph.grown(part, at)
            if graph.pick(0, 0, 0, 1):
                continue
        at = graph.grown(graph.pick(*KEEPING), at)
        if number == 1 and graph.parts[0] == "conv" and graph.pick(0, 1):
            outputs.append(graph.answer(at))
    at = graph.grown("conv", at) if outputs or graph.pick(0, 1) else at
    outputs.append(graph.answer(at))
    return graph, outputs


def _model(
    graph: RandomGraph, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    used = {name for node in nodes for name in node.input}
    made = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, graph.sizes[name]) for name in inputs],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, graph.sizes[name]) for name in outputs],
        [numpy_helper.from_array(values, name) for name, values in graph.constants.items() if name in used],
    )
    return helper.make_model(made, opset_imports=OPSETS, ir_version=8)


def run(graph: RandomGraph, given: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
    """What ONNX Runtime computes for these tensors from given ones, by the nodes between them."""
    if set(outputs) <= given.keys():
        return {name: given[name] for name in outputs}
    needed, nodes = set(outputs) - given.keys(), []
    for node in reversed(graph.nodes):
        if needed & set(node.output):
            needed |= set(node.input) - given.keys()
            nodes.append(node)
    inputs = sorted({name for node in nodes for name in node.input} & given.keys())
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    raw = _model(graph, nodes[::-1], inputs, [name for name in outputs if name not in given]).SerializeToString()
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {name: given[name] for name in inputs})
    return {**given, **dict(zip([name for name in outputs if name not in given], found, strict=True))}


def run_shares(graph: RandomGraph, file: NetworkFile, table: PartitionTable, image: Array) -> dict[str, Array]:
    """The output of every block, put together from what each device computes of its own rows of the block's input.

    All other rows of the input hold numbers that have nothing to do with it.
    """
    nodes = {node.name: node for node in graph.nodes}
    sources = _sources(file)
    tensors = {"input": ["x"]} | {name: [node.output[0]] for name, node in nodes.items()}
    for layer, names in sources.items():  # a view is what its readers read
        for place, name in enumerate(names):
            if ".view" in name:
                tensors.setdefault(name, []).append(nodes[layer].input[place])

    def plain(layer: str) -> str:
        return layer.rpartition("/")[2]

    made = {"x": image}
    for block in table.blocks:
        busy = [k for k, (first, end) in enumerate(block.shares) if end > first]
        known: dict[int, dict[str, Array]] = {k: {} for k in busy}
        for k in busy:
            for name in tensors[plain(block.source)]:
                rows = _rows(graph.axis[name], *block.needed[k])
                known[k][name] = graph.rng.normal(scale=1e3, size=made[name].shape).astype(np.float32)
                known[k][name][rows] = made[name][rows]
        for gate in block.gates:
            inside, maps = [plain(layer) for layer in gate.layers], {}
            for layer in inside:
                name = nodes[layer].input[0]
                if sources[layer][0] not in inside:
                    computed = _computed(block, sources[layer][0])
                    if computed is None:  # of the block's input each device has rows, and none is missing
                        maps[name] = run(graph, made, [name])[name]
                    else:
                        maps[name] = _joined(
                            {k: run(graph, known[k], [name])[name] for k in busy}, computed, graph.axis[name]
                        )
            results = [nodes[layer].output[0] for layer in inside]
            found = run(graph, known[busy[0]] | maps, results)
            for k in busy:
                known[k] |= {name: found[name] for name in results}
        targets = tensors[plain(block.name)]
        parts = {k: run(graph, known[k], targets) for k in busy}
        for name in targets:
            made[name] = _joined({k: parts[k][name] for k in busy}, block.shares, graph.axis[name])
    return made


def _sources(file: NetworkFile) -> dict[str, list[str]]:
    """What each layer reads, heads included."""
    found = {}
    for layers in (file.layers, *(exit_.layers or [] for exit_ in file.exits)):
        before = "input"
        for op in layers:
            found[op.name], before = op.inputs or [before], op.name
    return found


def _rows(axis: int, first: int, end: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(first, end))


def _computed(block: BlockRows, layer: str) -> Sequence[tuple[int, int]] | None:
    """The rows of a layer that each device computes; none if the block does not compute the layer."""
    return next((item.rows for item in block.layers if item.name.rpartition("/")[2] == layer), None)


def _joined(parts: Mapping[int, Array], ranges: Sequence[tuple[int, int]], axis: int) -> Array:
    """A map from the rows of devices, each of which adds those that none before it has."""
    whole, done = np.full_like(next(iter(parts.values())), np.nan), 0
    for k, (first, end) in enumerate(ranges):
        if k in parts:
            rows = _rows(axis, max(first, done), end)
            assert first <= done
            whole[rows], done = parts[k][rows], max(done, end)
    return whole
