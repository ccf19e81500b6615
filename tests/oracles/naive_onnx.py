"""Products and MACs of an ONNX graph, from output shapes alone."""

from __future__ import annotations

import math

import onnx
from onnx import inliner, shape_inference

MULTIPLY = {"Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul"}
WEIGHTS = {"QLinearConv": 3, "QLinearMatMul": 3}


def count_products(model: onnx.ModelProto) -> tuple[int, int]:
    """How many nodes multiply, and the multiply-accumulates of all of them.

    Every output value of a product is a sum: how long it is, times how many there are.
    """
    if model.functions:
        model = inliner.inline_local_functions(model)
    known = shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in [*known.input, *known.value_info, *known.output]
    }
    shapes |= {item.name: list(item.dims) for item in known.initializer}
    count = macs = 0
    for node in known.node:
        if node.op_type.removeprefix("QLinear").removesuffix("Integer") not in MULTIPLY:
            continue
        left, out = shapes[node.input[0]], shapes[node.output[0]]
        right = shapes[node.input[WEIGHTS.get(node.op_type, 1)]]
        assert all([*left, *right, *out]), f"{node.output[0]}: no shape"
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        count += 1
        if node.op_type == "ConvTranspose":
            macs += math.prod(left) * math.prod(right[1:])  # the other way round: each input value is spread
        elif "Conv" in node.op_type:
            macs += math.prod(out) * math.prod(right[1:])
        elif node.op_type == "Einsum":
            inputs, _, result = attributes["equation"].decode().replace(" ", "").partition("->")
            sizes = dict(zip(inputs.replace(",", ""), [*left, *right], strict=True))
            macs += math.prod(sizes.values())
            assert result or len(sizes) == 3
        else:
            macs += math.prod(out) * (left[0] if attributes.get("transA") else left[-1])
    return count, macs
