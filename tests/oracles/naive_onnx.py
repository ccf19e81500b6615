"""Products and MACs of an ONNX graph, from output shapes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
from onnx import inliner, shape_inference

MULTIPLY = {"Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul"}
WEIGHTS = {"QLinearConv": 3, "QLinearMatMul": 3}


def count_products(model: onnx.ModelProto) -> tuple[int, int]:
    """Number of nodes that multiply, and their multiply-accumulates.

    Every output value of a product is a sum: its length, times the number of values.
    """
    if model.functions:
        model = inliner.inline_local_functions(model)
    known = shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in [*known.input, *known.value_info, *known.output]
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in known.initializer}
    products = [node for node in known.node if _multiplies(node)]
    return len(products), sum(node_macs(node, shapes) for node in products)


def _multiplies(node: onnx.NodeProto) -> bool:
    return node.op_type.removeprefix("QLinear").removesuffix("Integer") in MULTIPLY


def node_macs(node: onnx.NodeProto, shapes: Mapping[str, Sequence[int]]) -> int:
    """Multiply-accumulates of a node, 0 if it does not multiply."""
    if not _multiplies(node):
        return 0
    left, out = shapes[node.input[0]], shapes[node.output[0]]
    right = shapes[node.input[WEIGHTS.get(node.op_type, 1)]]
    assert all([*left, *right, *out]), f"{node.output[0]}: no shape"
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type == "ConvTranspose":
        return math.prod(left) * math.prod(right[1:])  # the other way round: each input value is spread
    if "Conv" in node.op_type:
        return math.prod(out) * math.prod(right[1:])
    if node.op_type == "Einsum":
        inputs, _, result = attributes["equation"].decode().replace(" ", "").partition("->")
        sizes = dict(zip(inputs.replace(",", ""), [*left, *right], strict=True))
        assert result or len(sizes) == 3
        return math.prod(sizes.values())
    return math.prod(out) * (left[0] if attributes.get("transA") else left[-1])
