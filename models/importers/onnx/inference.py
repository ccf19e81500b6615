"""Sizes of tensors, node by node, and the small constants that sizes depend on.

Element types do not change sizes, and neither do attributes that ONNX does not define.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ...lowering import windows
from .einsum import einsum_sizes
from .labels import SizeFault, attributes_of, brief, refusing
from .operators import DATA_SIZED, OF_SIZES, SAME_SIZES, SHAPES, WINDOWS

MAX_FOLDED = 2**12
"""Largest constant that is computed: shapes are made of few values, and of weights only the shape counts."""

_RUN = "depends on values that only a run gives"
_TYPE_NAMES = {number: f"tensor({name.lower()})" for name, number in onnx.TensorProto.DataType.items()}
_PREFERRED = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.UINT8, onnx.TensorProto.BOOL)
"""Types that stand for another one, which the installed onnx does not allow; the first that is allowed."""


class Sizer:
    """The sizes of all tensors so far."""

    def __init__(self, opset: int) -> None:
        self.opsets = [helper.make_opsetid("", opset)]
        self.types: dict[str, onnx.TypeProto] = {}  # of tensors whose shape is known
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.unsized: dict[str, str] = {}  # tensors whose shape is not known, and why
        self.constants: set[str] = set()  # tensors that depend on no input, or on the sizes of inputs alone
        self.data: dict[str, onnx.TensorProto] = {}  # values of small constants
        self.ignored: Counter[tuple[str, Any]] = Counter()  # attributes that ONNX does not define, with their values

    def weigh(self, tensor: onnx.TensorProto | onnx.SparseTensorProto) -> None:
        """Add a constant of the file."""
        values = tensor.values if isinstance(tensor, onnx.SparseTensorProto) else tensor
        name = values.name
        if any(size < 0 for size in tensor.dims):
            raise SizeFault(f'weights "{brief(name)}": expected sizes from 0, found a negative one')
        self.give(name, helper.make_tensor_type_proto(values.data_type, tensor.dims))
        self.constants.add(name)
        outside = values.data_location == onnx.TensorProto.EXTERNAL
        if values is tensor and math.prod(tensor.dims) <= MAX_FOLDED and not outside and _is_filled(tensor):
            self.data[name] = tensor

    def constant(self, name: str, values: Any) -> str:
        """Add a constant and return its name."""
        self.weigh(numpy_helper.from_array(np.asarray(values), name))
        return name

    def along(self, op: str, name: str, made: str, axis: int) -> onnx.NodeProto:
        """A node with one axis, which is an input since opset 13."""
        if self.opsets[0].version < 13:
            return helper.make_node(op, [name], [made], axes=[axis])
        return helper.make_node(op, [name, self.constant(f"{made}/axes", [axis])], [made])

    def sizes_of(self, name: str) -> tuple[int, ...]:
        """The sizes of a tensor that a node reads."""
        if name not in self.sizes:
            raise SizeFault(f"the shape of its input {self.unsized.get(name, 'is not known')}")
        return self.sizes[name]

    def give(self, name: str, type_: onnx.TypeProto) -> None:
        """State the shape of a tensor."""
        self.types[name] = type_
        self.sizes[name] = tuple(dim.dim_value for dim in type_.tensor_type.shape.dim)

    def add(self, node: onnx.NodeProto) -> bool:
        """Find the sizes of a node's outputs; true if they are constants."""
        for name in filter(None, node.input):
            if name in self.unsized:
                raise SizeFault(f'the shape of "{brief(name)}" {self.unsized[name]}')
            if name not in self.types:
                raise SizeFault(f'expected inputs that earlier nodes make, found "{brief(name)}"')
        again = [name for name in node.output if name in self.types]
        if again:
            raise SizeFault(f'expected new outputs, found "{brief(again[0])}" again')
        types = self._infer(node)
        for name in filter(None, node.output):
            if name in types and is_sized(types[name]):
                self.give(name, types[name])
            else:
                self.unsized[name] = self._reason(node)  # a fault once something reads it
        if not all(name in self.constants for name in node.input if name) and node.op_type not in OF_SIZES:
            return False
        outputs = [name for name in node.output if name in self.types]
        self.constants.update(outputs)
        self._fold(node, outputs)
        return True

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Shapes of a node's outputs, by the onnx package."""
        if node.op_type in SAME_SIZES:
            return {node.output[0]: self.types[node.input[0]]}
        if node.op_type in {"Diagonal", "Einsum"}:
            kind = self.types[node.input[0]].tensor_type.elem_type
            sizes = einsum_sizes(node, [self.sizes[name] for name in node.input])
            return {node.output[0]: helper.make_tensor_type_proto(kind, sizes)}
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets[0].version, "")
        except onnx.defs.SchemaError:
            raise SizeFault(f"opset {self.opsets[0].version} has no such operator") from None
        self._drop_unknown(node, schema)
        types = {name: self.types[name] for name in node.input if name}
        data = {name: self.data[name] for name in types if name in self.data}
        infer = partial(shape_inference.infer_node_outputs, schema, node, opset_imports=self.opsets)
        inferred: dict[str, onnx.TypeProto]
        try:
            inferred = infer(types, data)
        except Exception:  # noqa: BLE001  whatever its C++ says: perhaps the types, which do not matter here
            with refusing(lambda why: SizeFault(f"its shape cannot be computed ({why})")):
                inferred = infer(*_allowed(node, schema, types, data))
        if node.op_type in WINDOWS:
            sizes = pool_sizes(attributes_of(node), self.sizes[node.input[0]])
            for type_ in inferred.values():
                type_.CopyFrom(helper.make_tensor_type_proto(type_.tensor_type.elem_type, sizes))
        return inferred

    def _drop_unknown(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
        """Remove attributes that the operator does not have."""
        for attribute in [entry for entry in node.attribute if entry.name not in schema.attributes]:
            value = helper.get_attribute_value(attribute)
            self.ignored[attribute.name, value if isinstance(value, int) else None] += 1
            node.attribute.remove(attribute)

    def _reason(self, node: onnx.NodeProto) -> str:
        """Why a shape is not known."""
        if node.op_type in DATA_SIZED and not all(name in self.data for name in node.input if name):
            return _RUN
        return f"is not known: onnx {onnx.__version__} finds none for {node.op_type} of opset {self.opsets[0].version}"

    def _fold(self, node: onnx.NodeProto, outputs: list[str]) -> None:
        """Compute a small constant; of other constants, such as weights, only the shape is kept."""
        words = sum(math.prod(self.sizes[name]) for name in outputs)
        values = {name: numpy_helper.to_array(self.data[name]) for name in node.input if name in self.data}
        if node.op_type in OF_SIZES:  # needs the shape of its input only: any values will do
            values = {name: np.broadcast_to(np.float32(0), self.sizes[name]) for name in node.input}
        tensors = [attribute.t for attribute in node.attribute if attribute.HasField("t")]
        if any(tensor.external_data for tensor in tensors):
            return  # in another file, which is never read
        if node.op_type not in SHAPES or words > MAX_FOLDED or any(name and name not in values for name in node.input):
            return
        alone = helper.make_function("fluidb", "constant", list(values), [*filter(None, node.output)], [node],
                                     self.opsets)  # fmt: skip
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(alone).run(None, values, {})
        for name, result in zip(filter(None, node.output), results, strict=True):
            tensor = numpy_helper.from_array(np.asarray(result), name)
            if name in self.unsized and result.size <= MAX_FOLDED:  # a shape that depends on values, which are known
                del self.unsized[name]
                self.give(name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
                self.constants.add(name)
            if name in self.types:
                self.data[name] = tensor


def _is_filled(tensor: onnx.TensorProto) -> bool:
    """Tell if a constant holds values, and not its sizes only."""
    return math.prod(tensor.dims) == 0 or len(tensor.ListFields()) > 2 + bool(tensor.dims)


def is_sized(type_: onnx.TypeProto) -> bool:
    """Tell if all sizes of a tensor are known."""
    kind = type_.tensor_type
    return kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)


def _allowed(
    node: onnx.NodeProto,
    schema: onnx.defs.OpSchema,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
) -> tuple[dict[str, onnx.TypeProto], dict[str, onnx.TensorProto]]:
    """The same tensors in types that an operator allows: inputs of one type have one type, the first allowed one."""
    chosen: dict[str, int] = {}
    given, values = dict(types), dict(data)
    for place, name in enumerate(node.input):
        if not name or not schema.inputs:
            continue
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        kind = types[name].tensor_type.elem_type
        allowed = formal.types
        if formal.type_str in chosen:
            kind = chosen[formal.type_str]
        elif _TYPE_NAMES.get(kind) not in allowed:
            kind = next((other for other in _PREFERRED if _TYPE_NAMES[other] in allowed), kind)
        chosen[formal.type_str] = kind
        given[name] = helper.make_tensor_type_proto(kind, [dim.dim_value for dim in types[name].tensor_type.shape.dim])
        if name in data and data[name].data_type != kind:
            try:
                array = numpy_helper.to_array(data[name]).astype(helper.tensor_dtype_to_np_dtype(kind))
            except (TypeError, ValueError):  # damaged, or no numbers
                del values[name]
                continue
            values[name] = numpy_helper.from_array(array, name)
    return given, values


def pool_sizes(attributes: Mapping[str, Any], sizes: tuple[int, ...]) -> list[int]:
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
