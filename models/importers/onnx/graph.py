"""Reader of ONNX files, which may be damaged or hostile: a list of nodes whose shapes are all known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ....formats import InputError, did_you_mean, read_bytes
from ...foreign import export_of
from ...lowering import windows
from .decisions import Decided, write_out
from .labels import brief as _brief
from .labels import label as _label
from .operators import KNOWN, SHAPES, WINDOWS

MAX_BYTES = 2**30
"""Largest file; reading it takes twice as much memory. Larger models keep their weights in files that are not read."""

MAX_NODES = 50_000
MAX_OUTPUTS = 256
MAX_FOLDED = 2**12
"""Largest constant that is computed: shapes are made of few values, and of weights only the shape counts."""

_OWN = ("", "ai.onnx")
_VALUES = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the graph."""

    label: str  # its name, or the name of its first output, for faults and layers
    op: str  # e.g. Conv
    inputs: tuple[str, ...]  # "" stands for an optional tensor that is left out
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(slots=True)
class Graph:
    """The computation of one run of the model."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)  # in execution order, without nodes that compute constants
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of every tensor, constants included
    constants: set[str] = field(default_factory=set)  # tensors that depend on no input
    data: dict[str, onnx.TensorProto] = field(default_factory=dict)  # values of small constants
    folded: int = 0  # nodes that compute constants
    unused: int = 0  # nodes that no output needs
    producer: str = ""  # tool that wrote the file
    decided: Decided | None = None  # exits that the model decides about

    def words(self, tensor: str) -> int:
        """Values of a tensor."""
        return math.prod(self.sizes[tensor])

    def numbers(self, node: Node, place: int, missing: Sequence[int] | None = None) -> Sequence[int] | None:
        """Whole numbers that a node takes as an input, such as axes; ``None`` if they are not known."""
        if len(node.inputs) <= place or not node.inputs[place]:
            return missing
        tensor = self.data.get(node.inputs[place])
        return None if tensor is None else [int(value) for value in numpy_helper.to_array(tensor).ravel()]


def read_graph(path: Path, dims: Mapping[str, int]) -> Graph:
    """Read a model and find the shape of every tensor; ``dims`` gives open sizes by name, or as ``input.axis``."""
    model = load_model(path)
    for tensor in tensors_of(model):
        if math.prod(tensor.dims) > MAX_FOLDED:
            for part in _VALUES:
                tensor.ClearField(part)  # or they would be copied with the model
    model = inline_functions(model, path)
    model, decided = write_out(model, path)
    _check_known(model.graph, path)
    graph = _GraphReader(model, path, dims).read()
    graph.decided = decided
    return graph


def load_model(path: Path) -> onnx.ModelProto:
    """Read a model as it is in its file."""
    raw = read_bytes(path, MAX_BYTES, "; save the weights as external data")
    foreign = export_of(path)
    try:
        model = onnx.load_model_from_string(raw)
    except Exception as error:  # noqa: BLE001  protobuf has two implementations, which raise different exceptions
        content = foreign or f"bytes that are none ({_brief(str(error))})"
        raise InputError(f"{path}: expected an ONNX model, found {content}") from None
    if not model.graph.node:
        raise InputError(f"{path}: expected an ONNX model with a graph, found {foreign or 'no nodes'}")
    try:
        tensors = tensors_of(model)
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected an ONNX model, found names that are no UTF-8") from None
    _check_external(tensors, path)
    return model


def tensors_of(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """All tensors with values of a model, at any depth."""
    return [message for message in _messages(model) if isinstance(message, onnx.TensorProto)]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _pool_sizes(attributes: Mapping[str, Any], sizes: tuple[int, ...]) -> list[int]:
    """Sizes of a pool's output as runtimes compute them.

    The onnx package follows the formula of the model's opset, which before opset 22 counts windows that start in the
    padding behind the map; no runtime does so.
    """
    count = len(sizes) - 2
    strides = attributes.get("strides", [1] * count)
    auto = attributes.get("auto_pad", b"NOTSET")
    if auto.startswith(b"SAME"):
        return [*sizes[:2], *(math.ceil(size / stride) for size, stride in zip(sizes[2:], strides, strict=True))]
    dilations = attributes.get("dilations", [1] * count)
    pads = attributes.get("pads", [0] * 2 * count) if auto == b"NOTSET" else [0] * 2 * count
    reach = [apart * (taps - 1) + 1 for apart, taps in zip(dilations, attributes["kernel_shape"], strict=True)]
    sides = zip(pads[:count], pads[count:], strict=True)
    counted = partial(windows, ceil=bool(attributes.get("ceil_mode")))
    return [*sizes[:2], *map(counted, sizes[2:], reach, strides, sides)]


def _messages(message: Message) -> Iterator[Message]:
    """A message and all messages in it, at any depth: weights, attributes, subgraphs, functions."""
    yield message
    for field_, value in message.ListFields():
        values = [value] if isinstance(value, Message | str | bytes) or not isinstance(value, Iterable) else value
        for part in values:
            if field_.type == FieldDescriptor.TYPE_MESSAGE:
                yield from _messages(part)
            elif field_.type == FieldDescriptor.TYPE_STRING and isinstance(part, bytes):
                part.decode()


def _check_external(tensors: Iterable[onnx.TensorProto], path: Path) -> None:
    """Refuse weights outside the model's folder: fluidb does not read them, but other tools would."""
    folder, faults = path.parent.resolve(), []
    for tensor in tensors:
        for entry in tensor.external_data if tensor.data_location == onnx.TensorProto.EXTERNAL else ():
            place = Path(entry.value)
            try:
                inside = not place.is_absolute() and (folder / place).resolve().is_relative_to(folder)
            except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links that form a circle
                inside = False
            if entry.key == "location" and not inside:
                faults.append(
                    f'{path}: weights "{_brief(tensor.name)}": expected external data in the folder of the model, '
                    f'found "{_brief(entry.value)}"'
                )
    if faults:
        raise InputError(faults)


def _opset(model: onnx.ModelProto) -> int:
    return max((opset.version for opset in model.opset_import if opset.domain in _OWN), default=0)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and the nodes of the graphs in them, e.g. of the branches of an If."""
    return (message for node in nodes for message in _messages(node) if isinstance(message, onnx.NodeProto))


def inline_functions(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model without functions of its own, which become the nodes they stand for."""
    newest, opset = onnx.defs.onnx_opset_version(), _opset(model)
    if not 1 <= opset <= newest:
        raise InputError(
            f"{path}: expected operators of opset 1 to {newest}, which the installed onnx {onnx.__version__} knows, "
            f"found {opset}"
        )
    if not model.functions:
        return model
    left = {(function.domain, function.name): list(_nodes(function.node)) for function in model.functions}
    counts: dict[tuple[str, str], int] = {}  # nodes of each function, before any is written out

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        return sum(counts.get((node.domain, node.op_type), 1) for node in nodes)

    while left:
        ready = [key for key, nodes in left.items() if not any((node.domain, node.op_type) in left for node in nodes)]
        if not ready:
            raise InputError(f'{path}: function "{_brief(".".join(next(iter(left))))}": calls itself')
        counts |= {key: count(left.pop(key)) for key in ready}
    if count(_nodes(model.graph.node)) > MAX_NODES:
        raise InputError(f"{path}: expected at most {MAX_NODES} nodes, found functions that come to more")
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # noqa: BLE001  whatever its C++ says
        raise InputError(f"{path}: functions could not be inlined ({_brief(str(error))})") from None


def _check_known(graph: onnx.GraphProto, path: Path) -> None:
    """Refuse nodes that are not understood, and too many of them."""
    for what, entries, most in (("nodes", graph.node, MAX_NODES), ("outputs", graph.output, MAX_OUTPUTS)):
        if len(entries) > most:
            raise InputError(f"{path}: expected at most {most} {what}, found {len(entries)}")
    faults = []
    for node in graph.node:
        if node.domain not in _OWN or node.op_type not in KNOWN:
            op = node.op_type if node.domain in _OWN else f"{node.domain}.{node.op_type}"
            faults.append(f'{path}: node "{_label(node)}": {_brief(op)} is not understood')
    if faults:
        raise InputError(faults)


class _GraphReader:
    """One pass over the nodes, in order, that finds their shapes and the constants that shapes depend on."""

    def __init__(self, model: onnx.ModelProto, path: Path, dims: Mapping[str, int]) -> None:
        self.model, self.path, self.dims = model, path, dims
        self.opsets = [onnx.helper.make_opsetid("", _opset(model))]
        self.types: dict[str, onnx.TypeProto] = {}
        self.unsized: set[str] = set()
        self.graph = Graph(producer=_brief(f"{model.producer_name} {model.producer_version}".strip()))
        self.data = self.graph.data

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
        self.graph.outputs = [output.name for output in self.model.graph.output]
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
        for tensor in [*self.model.graph.initializer, *self.model.graph.sparse_initializer]:
            values = tensor.values if isinstance(tensor, onnx.SparseTensorProto) else tensor
            name, words = values.name, math.prod(tensor.dims)
            if any(size < 0 for size in tensor.dims):
                raise InputError(f'{self.path}: weights "{_brief(name)}": expected sizes from 0, found a negative one')
            self._size(name, onnx.helper.make_tensor_type_proto(values.data_type, tensor.dims))
            self.graph.constants.add(name)
            if values is tensor and words <= MAX_FOLDED and tensor.data_location != onnx.TensorProto.EXTERNAL:
                self.data[name] = tensor

    def _size(self, name: str, type_: onnx.TypeProto) -> None:
        self.types[name] = type_
        self.graph.sizes[name] = tuple(dim.dim_value for dim in type_.tensor_type.shape.dim)

    def _inputs(self) -> None:
        """Give every open dimension its size; a missing size is a fault, and so is a size of no open dimension."""
        faults, asked = [], set()
        for input_ in self.model.graph.input:
            if input_.name in self.types:
                continue  # weights, which old files list here too
            label = f'{self.path}: input "{_brief(input_.name)}"'
            if not input_.type.HasField("tensor_type") or not input_.type.tensor_type.HasField("shape"):
                faults.append(f"{label}: expected a tensor with a shape, found none")
                continue
            sizes = []
            for axis, dim in enumerate(input_.type.tensor_type.shape.dim):
                place = f"{input_.name}.{axis}"
                asked |= {place, dim.dim_param} - {""}
                size = self.dims.get(place) or self.dims.get(dim.dim_param) or dim.dim_value
                if size < 1:
                    name = dim.dim_param or place
                    faults.append(f"{label}: dimension {axis} is open; give its size, e.g. --dim {_brief(name)}=1")
                sizes.append(size)
            self._size(input_.name, onnx.helper.make_tensor_type_proto(input_.type.tensor_type.elem_type, sizes))
            self.graph.inputs.append(input_.name)
        for name in sorted(self.dims.keys() - asked):
            hint = did_you_mean(name, sorted(asked), f"known: {', '.join(sorted(map(_brief, asked)))}")
            faults.append(f'dims: no input of {self.path} has a dimension "{name}"; {hint}')
        if faults:
            raise InputError(faults)

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
            self._size(name, types[name])
        outputs = [name for name in node.output if name in self.types]
        constant = all(name in self.graph.constants for name in node.input if name)
        if constant or node.op_type in {"Shape", "Size"}:
            self.graph.constants |= set(outputs)
            self.graph.folded += 1
            self._fold(node, outputs)
            return
        attributes = _attributes(node)
        results = tuple(name if name in self.types else "" for name in node.output)
        op = "Identity" if node.op_type == "Pad" and self._pads_nothing(node, attributes) else node.op_type
        self.graph.nodes.append(Node(_label(node), op, tuple(node.input), results, attributes))
        if 0 in (math.prod(self.graph.sizes[name]) for name in outputs):
            raise self._fault(node, "expected outputs with values, found an empty one")

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Shapes of a node's outputs, by the onnx package."""
        schema = onnx.defs.get_schema(node.op_type, self.opsets[0].version, "")
        types = {name: self.types[name] for name in node.input if name}
        data = {name: self.data[name] for name in types if name in self.data}
        inferred: dict[str, onnx.TypeProto] = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=self.opsets
        )
        if node.op_type in WINDOWS:
            sizes = _pool_sizes(_attributes(node), self.graph.sizes[node.input[0]])
            for type_ in inferred.values():
                type_.CopyFrom(onnx.helper.make_tensor_type_proto(type_.tensor_type.elem_type, sizes))
        return inferred

    def _pads_nothing(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> bool:
        """Tell if a Pad changes nothing. Its sizes are an input, or an attribute before opset 11."""
        if len(node.input) == 1:
            return not any(attributes["pads"])
        return node.input[1] in self.data and not numpy_helper.to_array(self.data[node.input[1]]).any()

    def _fold(self, node: onnx.NodeProto, outputs: list[str]) -> None:
        """Compute a small constant; of other constants, such as weights, only the shape is kept."""
        words = sum(math.prod(self.graph.sizes[name]) for name in outputs)
        values = {name: numpy_helper.to_array(self.data[name]) for name in node.input if name in self.data}
        if node.op_type in {"Shape", "Size"}:  # needs the shape of its input only: any values will do
            values = {name: np.broadcast_to(np.float32(0), self.graph.sizes[name]) for name in node.input}
        if any(isinstance(message, onnx.TensorProto) and message.external_data for message in _messages(node)):
            return  # in another file, which is never read
        if node.op_type not in SHAPES or words > MAX_FOLDED or any(name and name not in values for name in node.input):
            return
        alone = onnx.helper.make_function("fluidb", "constant", list(values), outputs, [node], self.opsets)
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(alone).run(None, values, {})
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
        """Refuse a model for a fixed batch: a network file describes one sample, and would count the batch as one."""
        ends = [*self.graph.inputs, *self.graph.outputs]
        batches = {self.graph.sizes[name][0] if self.graph.sizes[name] else 0 for name in ends}
        first = self.graph.inputs[0] if self.graph.inputs else ""
        if len(batches) == 1 and min(batches) > 1 and f"{first}.0" not in self.dims:
            (batch,) = batches
            raise InputError(
                f'{self.path}: input "{_brief(first)}": expected one sample, found a batch of {batch}; '
                f"take one with --dim {_brief(first)}.0=1, or all as one with --dim {_brief(first)}.0={batch}"
            )
