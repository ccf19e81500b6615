"""ONNX files as they are read: whole, in one folder, without functions, with a size for every input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import helper, inliner, numpy_helper

from ....formats import InputError, did_you_mean, read_bytes
from ...foreign import export_of
from .foreign import OWN
from .inference import MAX_FOLDED, Sizer
from .labels import SizeFault, brief, refusing

MAX_BYTES = 2**30
"""Largest file; reading it takes twice as much memory. Larger models keep their weights in files that are not read."""

MAX_NODES = 50_000

_VALUES = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def drop_values(model: onnx.ModelProto) -> None:
    """Remove the values of large weights, which would be copied with the model."""
    for tensor in tensors_of(model):
        if math.prod(tensor.dims) > MAX_FOLDED:
            for part in _VALUES:
                tensor.ClearField(part)


def load_model(path: Path) -> onnx.ModelProto:
    """Read a model as it is in its file."""
    raw = read_bytes(path, MAX_BYTES, "; save the weights as external data")
    foreign = export_of(path)
    with refusing(lambda why: InputError(f"{path}: expected an ONNX model, found {foreign or f'other bytes ({why})'}")):
        model = onnx.load_model_from_string(raw)
    if not model.graph.node:
        raise InputError(f"{path}: expected an ONNX model with a graph, found {foreign or 'no nodes'}")
    try:
        tensors = tensors_of(model)
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected an ONNX model, found names that are not UTF-8") from None
    _check_external(tensors, path)
    return model


def tensors_of(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """All tensors with values of a model, at any depth."""
    return [message for message in _messages(model) if isinstance(message, onnx.TensorProto)]


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
                    f'{path}: weights "{brief(tensor.name)}": expected external data in the folder of the model, '
                    f'found "{brief(entry.value)}"'
                )
    if faults:
        raise InputError(faults)


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators; 0 if it is not stated."""
    return max((opset.version for opset in model.opset_import if opset.domain in OWN), default=0)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and the nodes of the graphs in them, e.g. of the branches of an If."""
    return (message for node in nodes for message in _messages(node) if isinstance(message, onnx.NodeProto))


def inline_functions(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model without functions of its own, which become the nodes they stand for."""
    newest, opset = onnx.defs.onnx_opset_version(), opset_of(model)
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
            raise InputError(f'{path}: function "{brief(".".join(next(iter(left))))}": calls itself')
        counts |= {key: count(left.pop(key)) for key in ready}
    if count(_nodes(model.graph.node)) > MAX_NODES:
        raise InputError(f"{path}: expected at most {MAX_NODES} nodes, found more in its functions")
    with refusing(lambda why: InputError(f"{path}: functions could not be inlined ({why})")):
        return inliner.inline_local_functions(model)


def set_values(model: onnx.ModelProto, values: Mapping[str, float], path: Path) -> None:
    """Make constants of inputs whose value the user states."""
    inputs = {input_.name: input_ for input_ in model.graph.input}
    faults = []
    for name, value in values.items():
        if name not in inputs:
            hint = did_you_mean(name, sorted(inputs), f"its inputs are {', '.join(map(brief, inputs))}")
            faults.append(f'values: expected an input of {path}, found "{name}"; {hint}')
            continue
        kind = inputs[name].type.tensor_type
        sizes = [dim.dim_value or 1 for dim in kind.shape.dim]
        if not kind.HasField("shape") or math.prod(sizes) != 1:
            faults.append(f'values: expected an input of {path} with one value, found "{name}" with more')
            continue
        try:
            array = np.full(sizes, value).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        except (KeyError, TypeError, ValueError, OverflowError):
            faults.append(f'values: expected an input of {path} that holds a number, found "{name}"')
            continue
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    if faults:
        raise InputError(faults)


@dataclass(slots=True)
class Start:
    """The inputs of a run."""

    path: Path
    dims: Mapping[str, int]  # sizes that the user states
    inputs: list[str] = field(default_factory=list)
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    changed: bool = False  # the user changed a size that the file fixes

    def sizer(self, model: onnx.ModelProto) -> Sizer:
        """Sizes of the weights of a model, and of these inputs."""
        sizer = Sizer(opset_of(model))
        try:
            for tensor in [*model.graph.initializer, *model.graph.sparse_initializer]:
                sizer.weigh(tensor)
        except SizeFault as error:
            raise InputError(f"{self.path}: {error}") from None
        for name, type_ in self.types.items():
            sizer.give(name, type_)
            if 0 in sizer.sizes[name]:  # e.g. a cache before the first token
                sizer.constants.add(name)
        return sizer


def sized_inputs(model: onnx.ModelProto, dims: Mapping[str, int], path: Path) -> Start:
    """Give every open dimension its size; a missing size is a fault, and so is a size of no open dimension."""
    start, faults, asked = Start(path, dims), [], set()
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer} | {part.values.name for part in graph.sparse_initializer}
    for input_ in graph.input:
        if input_.name in weights:
            continue  # weights, which old files list here too
        label = f'{path}: input "{brief(input_.name)}"'
        if not input_.type.HasField("tensor_type") or not input_.type.tensor_type.HasField("shape"):
            faults.append(f"{label}: expected a tensor with a shape, found none")
            continue
        sizes = []
        for axis, dim in enumerate(input_.type.tensor_type.shape.dim):
            place = f"{input_.name}.{axis}"
            asked |= {place, dim.dim_param} - {""}
            stated = dims.get(place, dims.get(dim.dim_param))
            size = dim.dim_value if stated is None else stated
            if size < (stated is None):
                name = dim.dim_param or place
                faults.append(f"{label}: dimension {axis} is open; give its size, e.g. --dim {brief(name)}=1")
            start.changed |= dim.HasField("dim_value") and size != dim.dim_value
            sizes.append(size)
        start.types[input_.name] = helper.make_tensor_type_proto(input_.type.tensor_type.elem_type, sizes)
        if 0 not in sizes:
            start.inputs.append(input_.name)
    for name in sorted(dims.keys() - asked):
        hint = did_you_mean(name, sorted(asked), f"known: {', '.join(sorted(map(brief, asked)))}")
        faults.append(f'dims: no input of {path} has a dimension "{name}"; {hint}')
    if start.types and not start.inputs and not faults:
        faults.append(f"{path}: expected an input with values, found only inputs of size 0")
    if faults:
        raise InputError(faults)
    return start
