"""Products and pools of ONNX as layers of a network file."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ...network import Shape
from .einsum import terms_of
from .graph import Graph, Node
from .order import ONE, Rows, map_of, own_rows


@dataclass(frozen=True, slots=True)
class NodeProduct:
    """A product, as a layer of a network file."""

    operands: tuple[str, ...]  # tensors that are activations, the left one first
    layer: dict[str, Any]  # without its name and inputs
    shape: Shape  # of its output
    source: Shape | None = None  # shape that its input must have; None if any will do
    read: Rows | None = None  # rows of its input
    made: Rows | None = None  # rows of its output


def raw_product(operands: tuple[str, ...], rows: int, inner: int, columns: int, groups: int) -> NodeProduct:
    """``groups`` products of rows x inner by inner x columns, one after the other."""
    layer: dict[str, Any] = {"op": "gemm", "rows": rows, "inner": inner, "columns": columns, "groups": groups}
    return NodeProduct(operands, layer | {"per_sample": len(operands) > 1}, Shape(rows, 1, groups * columns))


def matrix_product(node: Node, graph: Graph) -> NodeProduct:
    """The product of a Gemm, MatMul or Einsum, or one of their quantised forms."""
    left, right = node.inputs[0], node.inputs[3 if node.op == "QLinearMatMul" else 1]
    if node.op == "Einsum":
        (first, second), out = terms_of(node.attributes["equation"], [graph.sizes[name] for name in node.inputs])
        terms = first, second, out
    elif node.op == "Gemm":
        transposed = [node.attributes.get(key) for key in ("transA", "transB")]
        terms = "ka" if transposed[0] else "ak", "bk" if transposed[1] else "kb", "ab"
    else:
        terms = _matmul(len(graph.sizes[left]), len(graph.sizes[right]))
    return _contract(graph, left, right, *terms)


def _matmul(left: int, right: int) -> tuple[str, str, str]:
    """Write numpy.matmul as an Einsum. Capital letters are the dimensions that are broadcast; the last one is Z."""
    batch = [chr(ord("Z") - index) for index in range(max(left, right, 2) - 2)][::-1]
    a = "k" if left == 1 else "".join(batch[len(batch) - left + 2 :]) + "ak"
    b = "k" if right == 1 else "".join(batch[len(batch) - right + 2 :]) + "kb"
    return a, b, "".join(batch) + "ab"


def _contract(graph: Graph, left: str, right: str, a: str, b: str, out: str) -> NodeProduct:
    """The product that an Einsum of two operands computes. Dimensions of size 1 are left out: they are broadcast."""
    if left in graph.constants:
        left, right, a, b = right, left, b, a
    of_left = {letter: size for letter, size in zip(a, graph.sizes[left], strict=True) if size > 1}
    of_right = {letter: size for letter, size in zip(b, graph.sizes[right], strict=True) if size > 1}
    both = of_left.keys() & of_right.keys()

    def count(sizes: dict[str, int], chosen: set[str]) -> int:
        return math.prod(sizes[letter] for letter in chosen)

    own = "".join(letter for letter in of_left if letter not in both)
    product = raw_product(
        (left,) if right in graph.constants else (left, right),
        rows=count(of_left, set(own)),
        inner=count(of_left, both - set(out)),
        columns=count(of_right, of_right.keys() - both),
        groups=count(of_right, both & set(out)),
    )
    of_out = {letter: size for letter in out if (size := max(of_left.get(letter, 1), of_right.get(letter, 1))) > 1}
    return replace(product, read=_rows_of(own, of_left), made=_rows_of(own, of_out))


def _rows_of(letters: str, sizes: dict[str, int]) -> Rows | None:
    """The rows that dimensions make together; none if others stand between them."""
    if not letters:
        return ONE
    place = "".join(sizes).find(letters)
    behind = list(sizes.values())[place + len(letters) :]
    return None if place < 0 else Rows(math.prod(sizes[letter] for letter in letters), math.prod(behind))


def window(node: Node, kernel: tuple[int, ...], source: tuple[int, ...], out: tuple[int, ...]) -> dict[str, Any]:
    """Kernel, stride, padding and dilation for rows and columns; over a single axis, columns are 1 wide."""
    count = len(kernel)
    stride = node.attributes.get("strides", [1] * count)
    dilation = node.attributes.get("dilations", [1] * count)
    pads = node.attributes.get("pads", [0] * 2 * count)
    auto = node.attributes.get("auto_pad", b"NOTSET").decode()
    if auto.startswith("SAME"):
        total = [
            max(0, (made - 1) * step + apart * (taps - 1) + 1 - read)
            for made, step, apart, taps, read in zip(out, stride, dilation, kernel, source, strict=True)
        ]
        less, more = [size // 2 for size in total], [size - size // 2 for size in total]
        pads = less + more if auto == "SAME_UPPER" else more + less
    elif auto == "VALID":
        pads = [0] * 2 * count
    fill = [1] * (2 - count)
    before, after = (list(side) + [0] * len(fill) for side in (pads[:count], pads[count:]))
    sizes = {"kernel": kernel, "stride": stride, "dilation": dilation}
    return {key: [*value, *fill] for key, value in sizes.items()} | {"pad": before + after}


def is_average(node: Node, graph: Graph) -> bool:
    """Tell if a reduction is the average over all positions of a map."""
    sizes = graph.sizes[node.inputs[0]]
    if node.op != "ReduceMean" or map_of(sizes) is None:
        return False
    axes = node.attributes.get("axes") or graph.numbers(node, 1) or ()
    return {axis % len(sizes) for axis in axes} == {*range(2, len(sizes))}


def pooling(node: Node, graph: Graph) -> dict[str, Any] | None:
    """A pool as an operator of a network file."""
    sizes, out = graph.sizes[node.inputs[0]], graph.sizes[node.outputs[0]]
    if map_of(sizes) is None or any(node.outputs[1:]):
        return None
    if node.op in {"GlobalAveragePool", "ReduceMean"}:
        return {"op": "globalavgpool"}
    names = {"MaxPool": "maxpool", "AveragePool": "avgpool"}
    if node.op not in names or set(node.attributes.get("dilations", [1])) != {1}:
        return None
    content = window(node, tuple(node.attributes["kernel_shape"]), sizes[2:], out[2:])
    del content["dilation"]
    return {"op": names[node.op], **content, "ceil": bool(node.attributes.get("ceil_mode"))}


def convolution(node: Node, graph: Graph) -> NodeProduct:
    """The convolution of a Conv or ConvTranspose, or of a quantised form."""
    image, weights = node.inputs[0], node.inputs[3 if node.op == "QLinearConv" else 1]
    sizes, filters, out = graph.sizes[image], graph.sizes[weights], graph.sizes[node.outputs[0]]
    transposed = node.op == "ConvTranspose"
    groups = node.attributes.get("group", 1)
    kernel, channels = filters[2:], out[1]
    operands = (image,) if weights in graph.constants else (image, weights)
    source = map_of(sizes)
    if source is None or len(operands) > 1:
        taps = math.prod(kernel)
        rows = math.prod((sizes if transposed else out)[2:]) * sizes[0]
        inner = sizes[1] // groups if transposed else taps * filters[1]
        columns = taps * filters[1] if transposed else channels // groups
        product = raw_product(operands, rows, inner, columns, groups)
        shape = Shape(math.prod(out[2:]) * out[0], 1, channels)
        if shape.words != product.shape.words:  # a transposed convolution adds overlapping values
            return product
        return NodeProduct(operands, product.layer | {"shape": list(shape)}, shape)
    mapped = map_of(out)
    assert mapped is not None  # as many axes as the input, and as many maps
    content = {"op": "convtranspose" if transposed else "conv", "out": channels, "groups": groups}
    content |= (_upward if transposed else window)(node, kernel, sizes[2:], out[2:])
    content["shape"] = list(mapped)
    return NodeProduct(operands, content, mapped, source, own_rows(sizes, source), own_rows(out, mapped))


def _upward(node: Node, kernel: tuple[int, ...], source: tuple[int, ...], out: tuple[int, ...]) -> dict[str, Any]:
    """Window of a transposed convolution; the size of its output determines padding and extra rows."""
    content = window(node, kernel, source, out)
    steps = zip(source, content["stride"], content["dilation"], kernel, out, strict=False)
    cut = [(n - 1) * s + d * (k - 1) + 1 - wanted for n, s, d, k, wanted in steps] + [0] * (2 - len(kernel))
    pad = [max(0, size) // 2 for size in cut] + [max(0, size) - max(0, size) // 2 for size in cut]
    return content | {"pad": pad, "extra": [max(0, -size) for size in cut]}
