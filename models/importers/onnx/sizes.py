"""Sizes of tensors that depend on the batch: each stage computes them anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

BATCH = "batch"
"""Name of the batch dimension in the stages."""

SIZES = "Shape"
"""The operator that returns the sizes of a tensor; they do not depend on its values."""


def batch_axis(kind: onnx.TypeProto) -> int | None:
    """The axis of the batch: the one with its name, else the first if its size is open, else none."""
    if not kind.tensor_type.HasField("shape"):
        return 0
    dims = kind.tensor_type.shape.dim
    named = [axis for axis, dim in enumerate(dims) if dim.dim_param == BATCH]
    if named:
        return named[0]
    return 0 if dims and not dims[0].HasField("dim_value") else None


def known_sizes(node: onnx.NodeProto, kind: onnx.TypeProto | None) -> list[int | None] | None:
    """Result of a Shape node, with None for the batch; no list if the size of another axis is open."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    ends = {attribute.name: attribute.i for attribute in node.attribute}
    chosen = list(dims)[ends.get("start", 0) : ends.get("end", len(dims))]
    if not chosen or not all(dim.HasField("dim_value") or dim.dim_param == BATCH for dim in chosen):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in chosen]


def size_nodes(node: onnx.NodeProto, sizes: Sequence[int | None], other: str, axis: int) -> list[onnx.NodeProto]:
    """Nodes that replace a Shape whose tensor is gone; they read the batch from axis ``axis`` of tensor ``other``."""
    result = node.output[0]
    nodes, pieces = [], []
    for place, size in enumerate(sizes):
        piece = f"{result}/{place}"
        constant = numpy_helper.from_array(np.array([axis if size is None else size]))
        nodes.append(helper.make_node("Constant", [], [piece], value=constant))
        if size is None:
            nodes.append(helper.make_node(SIZES, [other], [f"{piece}/all"]))
            nodes.append(helper.make_node("Gather", [f"{piece}/all", piece], [f"{piece}/batch"], axis=0))
            piece += "/batch"
        pieces.append(piece)
    return [*nodes, helper.make_node("Concat", pieces, [result], axis=0)]
