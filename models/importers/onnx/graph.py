"""An ONNX file, which may be damaged or hostile, as a list of nodes whose shapes are all known."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ....formats import InputError
from .operators import KNOWN, SHAPES

MAX_BYTES = 2**31 - 1
"""A protobuf message holds no more; larger models keep their weights in other files, which are not read."""

MAX_NODES = 50_000
MAX_OUTPUTS = 256
MAX_FOLDED = 2**12
"""Most values of a constant that is computed; arithmetic of shapes takes a few, weights keep only their shape."""

_OWN = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the graph.

    Attributes
    ----------
    label : str
        Its name, or its first output's, for faults and for layers.
    op : str
        What it does, e.g. ``Conv``.
    inputs, outputs : tuple of str
        Its tensors; ``""`` where an optional one is left out.
    attributes : dict
        As plain Python values.
    """

    label: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(slots=True)
class Graph:
    """What one run of the model computes.

    Attributes
    ----------
    inputs, outputs : list of str
        Tensors that come from outside, and that leave.
    nodes : list of Node
        In an order in which they can run, without those whose results are constants.
    sizes : dict of str to tuple of int
        Shape of every tensor, constants included.
    constants : set of str
        Tensors that no input reaches.
    folded : int
        How many nodes give constants.
    unused : int
        How many nodes no output needs; they are left out.
    producer : str
        What wrote the file.
    """

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    folded: int = 0
    unused: int = 0
    producer: str = ""

    def words(self, tensor: str) -> int:
        """Values of a tensor."""
        return math.prod(self.sizes[tensor])


def read_graph(path: Path, dims: Mapping[str, int]) -> Graph:
    """Read a model and give every tensor its shape.

    Parameters
    ----------
    path : Path
        The file.
    dims : mapping of str to int
        Sizes of dimensions that the file leaves open, by name, or as ``input.axis``.

    Returns
    -------
    Graph
        Its nodes with known shapes.

    Raises
    ------
    InputError
        With a line for everything that is damaged, open, unknown or out of the model's folder.
    """
    model = _parse(path)
    try:
        _check_texts(model, path)
    except UnicodeDecodeError:  # another way in which the parser reports it
        raise InputError(f"{path}: expected an ONNX model, found names that are no UTF-8") from None
    _check_external(model, path)
    model = _inline(model, path)
    _check_known(model.graph, path)
    return _Reader(model, path, dims).read()


def _brief(text: str) -> str:
    """A name or message from the file, as long as a line can bear."""
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:97] + "..."


def _label(node: onnx.NodeProto) -> str:
    return _brief(node.name or next(filter(None, node.output), "") or node.op_type)


def _parse(path: Path) -> onnx.ModelProto:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: could not be read ({error.strerror})") from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: expected at most 2 GiB, found more; save the weights as external data")
    try:
        model = onnx.load_model_from_string(raw)
    except Exception as error:  # noqa: BLE001  protobuf has two implementations, which raise what they like
        raise InputError(f"{path}: expected an ONNX model, found bytes that are none ({_brief(str(error))})") from None
    if not model.graph.node:
        raise InputError(f"{path}: expected an ONNX model with a graph, found no nodes")
    return model


def _messages(message: Message) -> Iterator[Message]:
    """A message and those in it, at any depth: weights, attributes, subgraphs, functions."""
    yield message
    for field_, value in message.ListFields():
        if field_.type == FieldDescriptor.TYPE_MESSAGE:
            for item in [value] if isinstance(value, Message) else value:
                yield from _messages(item)


def _check_texts(model: onnx.ModelProto, path: Path) -> None:
    """Refuse names that are no UTF-8: the parser does not check them, and may return bytes."""
    for message in _messages(model):
        for field_, value in message.ListFields():
            if field_.type == FieldDescriptor.TYPE_STRING:
                for text in [value] if isinstance(value, str | bytes) else value:
                    if not isinstance(text, str):
                        raise InputError(f"{path}: expected an ONNX model, found names that are no UTF-8")


def _check_external(model: onnx.ModelProto, path: Path) -> None:
    """Refuse weights outside the model's folder: they are not read here, but other tools would read them."""
    folder, faults = path.parent.resolve(), []
    tensors = [item for item in _messages(model) if isinstance(item, onnx.TensorProto)]
    for tensor in tensors:
        for entry in tensor.external_data if tensor.data_location == onnx.TensorProto.EXTERNAL else ():
            if entry.key != "location":
                continue
            place = Path(entry.value)
            try:
                inside = not place.is_absolute() and (folder / place).resolve().is_relative_to(folder)
            except (OSError, ValueError, RuntimeError):  # a name that cannot be one, links that go round
                inside = False
            if not inside:
                faults.append(
                    f'{path}: weights "{_brief(tensor.name)}": expected external data in the folder of the model, '
                    f'found "{_brief(entry.value)}"'
                )
    if faults:
        raise InputError(faults)


def _opset(model: onnx.ModelProto) -> int:
    return max((item.version for item in model.opset_import if item.domain in _OWN), default=0)


def _inline(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model without functions of its own, which become the nodes they stand for."""
    newest, opset = onnx.defs.onnx_opset_version(), _opset(model)
    if not 1 <= opset <= newest:
        raise InputError(
            f"{path}: expected operators of opset 1 to {newest}, which the installed onnx {onnx.__version__} knows, "
            f"found {opset}"
        )
    if not model.functions:
        return model
    left = {(item.domain, item.name): item.node for item in model.functions}
    counts: dict[tuple[str, str], int] = {}  # how many nodes each function comes to, before any is written out

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        return sum(counts.get((node.domain, node.op_type), 1) for node in nodes)

    while left:
        ready = [key for key, nodes in left.items() if not any((node.domain, node.op_type) in left for node in nodes)]
        if not ready:
            raise InputError(f'{path}: function "{_brief(".".join(next(iter(left))))}": calls itself')
        counts |= {key: count(left.pop(key)) for key in ready}
    if count(model.graph.node) > MAX_NODES:
        raise InputError(f"{path}: expected at most {MAX_NODES} nodes, found functions that come to more")
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # noqa: BLE001  whatever its C++ says
        raise InputError(f"{path}: functions could not be inlined ({_brief(str(error))})") from None


def _check_known(graph: onnx.GraphProto, path: Path) -> None:
    """List every node that is not understood."""
    for what, items, most in (("nodes", graph.node, MAX_NODES), ("outputs", graph.output, MAX_OUTPUTS)):
        if len(items) > most:
            raise InputError(f"{path}: expected at most {most} {what}, found {len(items)}")
    faults = []
    for node in graph.node:
        if node.domain not in _OWN:
            faults.append(f'{path}: node "{_label(node)}": {_brief(f"{node.domain}.{node.op_type}")} is not understood')
        elif node.op_type not in KNOWN:
            faults.append(f'{path}: node "{_label(node)}": {_brief(node.op_type)} is not understood')
    if faults:
        raise InputError(faults)


class _Reader:
    """Goes through the nodes once, in order, and finds their shapes and the constants that shapes are computed from."""

    def __init__(self, model: onnx.ModelProto, path: Path, dims: Mapping[str, int]) -> None:
        self.model, self.path, self.dims = model, path, dims
        self.opsets = [onnx.helper.make_opsetid("", _opset(model))]
        self.types: dict[str, onnx.TypeProto] = {}
        self.data: dict[str, onnx.TensorProto] = {}
        self.unsized: set[str] = set()
        self.graph = Graph(producer=_brief(f"{model.producer_name} {model.producer_version}".strip()))

    def read(self) -> Graph:
        self._weights()
        self._inputs()
        for node in self.model.graph.node:
            node.domain = ""  # "ai.onnx" means the same, and not all of the package knows
            try:
                self._node(node)
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001  C++ inference, protobuf and numpy, of a file that may be damaged
                raise self._fault(node, f"its shape does not come out ({_brief(str(error))})") from None
        self.graph.outputs = [item.name for item in self.model.graph.output]
        for name in self.graph.outputs:
            if name not in self.types:
                why = (
                    "its shape depends on values that only a run gives" if name in self.unsized else "no node makes it"
                )
                raise InputError(f'{self.path}: output "{_brief(name)}": {why}')
        self._check_batch()
        self._drop_unused()
        return self.graph

    def _fault(self, node: onnx.NodeProto, message: str) -> InputError:
        return InputError(f'{self.path}: node "{_label(node)}" ({node.op_type}): {message}')

    def _weights(self) -> None:
        graph = self.model.graph
        for tensor in graph.initializer:
            self._constant(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            values = sparse.values
            self.types[values.name] = onnx.helper.make_tensor_type_proto(values.data_type, sparse.dims)
            self.graph.sizes[values.name] = tuple(sparse.dims)
            self.graph.constants.add(values.name)

    def _constant(self, name: str, tensor: onnx.TensorProto) -> None:
        if any(size < 0 for size in tensor.dims):
            raise InputError(f'{self.path}: weights "{_brief(name)}": expected sizes from 0, found a negative one')
        self.types[name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        self.graph.sizes[name] = tuple(tensor.dims)
        self.graph.constants.add(name)
        if math.prod(tensor.dims) <= MAX_FOLDED and tensor.data_location != onnx.TensorProto.EXTERNAL:
            self.data[name] = onnx.TensorProto()
            self.data[name].CopyFrom(tensor)
            self.data[name].name = name

    def _inputs(self) -> None:
        """Give every open dimension its size; a missing size is a fault, and so is a size of no open dimension."""
        faults, asked = [], set()
        for item in self.model.graph.input:
            if item.name in self.types:
                continue  # weights, which old files list here too
            label = f'{self.path}: input "{_brief(item.name)}"'
            if not item.type.HasField("tensor_type") or not item.type.tensor_type.HasField("shape"):
                faults.append(f"{label}: expected a tensor with a shape, found none")
                continue
            sizes = []
            for axis, dim in enumerate(item.type.tensor_type.shape.dim):
                place = f"{item.name}.{axis}"
                asked |= {place, dim.dim_param} - {""}
                size = self.dims.get(place) or self.dims.get(dim.dim_param) or dim.dim_value
                if size < 1:
                    name = dim.dim_param or place
                    faults.append(f"{label}: dimension {axis} is open; give its size: --dim {_brief(name)}=1")
                sizes.append(size)
            self.types[item.name] = onnx.helper.make_tensor_type_proto(item.type.tensor_type.elem_type, sizes)
            self.graph.sizes[item.name] = tuple(sizes)
            self.graph.inputs.append(item.name)
        for name in self.dims.keys() - asked:
            near = difflib.get_close_matches(name, asked, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(map(_brief, asked)))}"
            faults.append(f"{self.path}: --dim {name}: no input has such a dimension; {hint}")
        if faults:
            raise InputError(sorted(faults))

    def _node(self, node: onnx.NodeProto) -> None:
        for name in filter(None, node.input):
            if name in self.unsized:
                raise self._fault(node, f'the shape of "{_brief(name)}" depends on values that only a run gives')
            if name not in self.types:
                raise self._fault(node, f'expected inputs that stand before it, found "{_brief(name)}"')
        again = [name for name in node.output if name in self.types]
        if again:
            raise self._fault(node, f'expected new outputs, found "{_brief(again[0])}" again')
        types = self._infer(node)
        for name in filter(None, node.output):
            kind = types[name].tensor_type if name in types else onnx.TypeProto.Tensor()
            if not kind.HasField("shape") or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
                self.unsized.add(name)  # a fault once something reads it
                continue
            self.types[name] = types[name]
            self.graph.sizes[name] = tuple(dim.dim_value for dim in kind.shape.dim)
        outputs = [name for name in node.output if name in self.types]
        constant = all(name in self.graph.constants for name in node.input if name)
        if constant or node.op_type in {"Shape", "Size"}:
            self.graph.constants |= set(outputs)
            self.graph.folded += 1
            self._fold(node, outputs)
            return
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        results = tuple(name if name in self.types else "" for name in node.output)
        self.graph.nodes.append(Node(_label(node), node.op_type, tuple(node.input), results, attributes))
        if 0 in (math.prod(self.graph.sizes[name]) for name in outputs):
            raise self._fault(node, "expected outputs with values, found an empty one")

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Shapes of a node's outputs, by the onnx package."""
        schema = onnx.defs.get_schema(node.op_type, self.opsets[0].version, "")
        types = {name: self.types[name] for name in node.input if name}
        data = {name: self.data[name] for name in types if name in self.data}
        return shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self.opsets)

    def _fold(self, node: onnx.NodeProto, outputs: list[str]) -> None:
        """Compute a small constant; of any other, as of weights, only the shape is known."""
        words = sum(math.prod(self.graph.sizes[name]) for name in outputs)
        if node.op_type not in SHAPES or words > MAX_FOLDED:
            return
        results: Sequence[Any]
        if node.op_type in {"Shape", "Size"}:  # of a tensor that is not known itself
            sizes = self.graph.sizes[node.input[0]]
            bounds = {item.name: item.i for item in node.attribute}
            part = sizes[bounds.get("start", 0) : bounds.get("end")]
            results = [np.array(part if node.op_type == "Shape" else math.prod(sizes), dtype=np.int64)]
        elif all(name in self.data for name in node.input if name):
            values = {name: numpy_helper.to_array(self.data[name]) for name in node.input if name}
            alone = onnx.helper.make_function("fluidb", "constant", list(values), outputs, [node], self.opsets)
            with np.errstate(all="ignore"):
                results = list(ReferenceEvaluator(alone).run(None, values, {}))
        else:
            return
        for name, result in zip(filter(None, node.output), results, strict=True):
            self.data[name] = numpy_helper.from_array(np.asarray(result), name)

    def _drop_unused(self) -> None:
        needed, live = set(self.graph.outputs), []
        for node in reversed(self.graph.nodes):
            if needed & set(filter(None, node.outputs)):
                needed |= set(node.inputs)
                live.append(node)
        self.graph.unused = len(self.graph.nodes) - len(live)
        self.graph.nodes = live[::-1]
        if not live:
            raise InputError(f"{self.path}: expected outputs that depend on inputs, found constants only")

    def _check_batch(self) -> None:
        """Refuse a model for a fixed batch: a network file describes one sample, and would count all as one."""
        ends = [*self.graph.inputs, *self.graph.outputs]
        batches = {self.graph.sizes[name][0] if self.graph.sizes[name] else 0 for name in ends}
        first = self.graph.inputs[0] if self.graph.inputs else ""
        if len(batches) == 1 and min(batches) > 1 and f"{first}.0" not in self.dims:
            (batch,) = batches
            raise InputError(
                f'{self.path}: input "{_brief(first)}": expected one sample, found a batch of {batch}; '
                f"take one with --dim {_brief(first)}.0=1, or all as one with --dim {_brief(first)}.0={batch}"
            )
