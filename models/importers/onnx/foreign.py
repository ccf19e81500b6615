"""Operators of other domains: what quantisers write, and what a user says about the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, numpy_helper

from ....formats import InputError, did_you_mean
from ..read_as import TREATMENTS
from .bodies import BODIES, graphs_of
from .inference import Sizer
from .labels import attributes_of, brief, label
from .operators import KNOWN, OURS, QUANTISERS, SEQUENCES

OWN = ("", "ai.onnx")

_PLAIN = (KNOWN - QUANTISERS - OURS) | SEQUENCES
_QUANTISING = ("qonnx.", "finn.", "brevitas.", "onnx.brevitas")
_LAST = "channels_last"
_LEARNING = "ai.onnx.ml"
_SAME = frozenset(["Binarizer", "Imputer", "LabelEncoder", "Scaler", "ZipMap"])
_LINEAR = frozenset(["LinearClassifier", "LinearRegressor"])
_POOLS = {"QuantAvgPool2d": "AveragePool", "TruncAvgPool2d": "AveragePool", "MaxPoolNHWC": "MaxPool"}
_PRODUCTS = {"XnorPopcountMatMul": "MatMul"}
_CHANNELS_LAST = frozenset(["AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "MaxPool"])


def kind_of(node: onnx.NodeProto) -> str:
    """The operator with its domain, as a fault and ``--treat`` name it."""
    return node.op_type if node.domain in OWN else f"{node.domain}.{node.op_type}"


def is_known(node: onnx.NodeProto) -> bool:
    """Tell if an operator is understood without an option."""
    op = node.op_type
    if node.domain in OWN:
        return op in _PLAIN or op in BODIES
    if node.domain == _LEARNING:
        return op in _SAME | _LINEAR | {"ArrayFeatureExtractor", "Normalizer"}
    if not node.domain.startswith(_QUANTISING):
        return False
    return op in (_CHANNELS_LAST if _LAST in node.domain else QUANTISERS | _POOLS.keys() | _PRODUCTS.keys())


def check_known(nodes: Iterable[onnx.NodeProto], treat: Mapping[str, str], path: Path) -> None:
    """Refuse operators that are not understood, a line for each, and words about operators that are not there."""
    unknown: dict[str, list[str]] = {}
    loops = set()
    left = [*nodes][::-1]
    while left:
        node = left.pop()
        if not is_known(node):
            unknown.setdefault(kind_of(node), []).append(label(node))
        elif node.op_type in BODIES:
            loops.add(kind_of(node))
            if kind_of(node) not in treat:
                left += [part for graph in graphs_of(node) for part in graph.node][::-1]
    faults = []
    for kind, labels in unknown.items():
        if kind not in treat:
            where = f'node "{labels[0]}"' if len(labels) == 1 else f'{len(labels)} nodes, first "{labels[0]}"'
            faults.append(
                f"{path}: {where}: {brief(kind)} is not understood; say what it costs with "
                f"--treat {brief(kind)}={'|'.join(TREATMENTS)}"
            )
    for kind in sorted(treat.keys() - unknown.keys() - loops):
        hint = did_you_mean(kind, sorted(unknown), f"there: {', '.join(map(brief, unknown)) or 'none'}")
        faults.append(f'treat: expected an operator of {path} that is not understood, found "{kind}"; {hint}')
    if faults:
        raise InputError(faults)


class Widths:
    """Bits of the words that quantisers state."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, node: onnx.NodeProto, sizer: Sizer) -> None:
        """Note the width that a quantiser gives its first input."""
        places = {"Quant": [3], "IntQuant": [3], "Trunc": [4], "FloatQuant": [2, 3]}.get(node.op_type)
        if node.op_type == "BipolarQuant":
            bits = "1 bit"
        elif places and len(node.input) > places[-1] and all(node.input[place] in sizer.data for place in places):
            values = [numpy_helper.to_array(sizer.data[node.input[place]]).ravel() for place in places]
            sizes = [float(value[0]) for value in values if value.size]
            whole = sum(sizes) + (node.op_type == "FloatQuant")  # exponent, mantissa and sign
            bits = f"{whole:g} bits"
        else:
            bits = "a width that is not stated"
        self.counts["weights" if node.input[0] in sizer.constants else "activations", bits] += 1

    @property
    def text(self) -> str:
        """The widths, for people."""
        parts = [f"{count} of {what} to {bits}" for (what, bits), count in sorted(self.counts.items())]
        return f"tensors that the file rounds: {', '.join(parts)}; words are as wide as the board's word_bits"


def plain_nodes(node: onnx.NodeProto, sizer: Sizer) -> list[onnx.NodeProto]:
    """An understood operator of another domain as nodes of ONNX. Channels that come last are turned to the front."""
    if node.domain == _LEARNING:
        return _learning_nodes(node, sizer)
    name = {**_POOLS, **_PRODUCTS}.get(node.op_type, node.op_type)
    last = _LAST in node.domain or node.op_type == "MaxPoolNHWC"
    attributes = attributes_of(node)
    if node.op_type in {"QuantAvgPool2d", "TruncAvgPool2d"}:
        last = attributes.get("data_layout", b"NCHW") == b"NHWC"
        kernel, stride = ([attributes[key]] * 2 for key in ("kernel", "stride"))
        attributes = {"kernel_shape": kernel, "strides": stride}
    inputs, outputs = [*node.input], [*node.output]
    if name in {*_POOLS.values()}:
        inputs = inputs[:1]
    rank = len(sizer.sizes.get(node.input[0], ()))
    if not last or rank < 3:
        return [helper.make_node(name, inputs, outputs, name=node.name, **attributes)]
    front, back = f"{outputs[0]}/first", f"{outputs[0]}/made"
    to_front, to_back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    nodes = []
    if name == "Conv" and _weights_last(sizer, inputs, attributes):
        nodes.append(helper.make_node("Transpose", inputs[1:2], [f"{outputs[0]}/weights"], perm=to_front))
        inputs[1] = f"{outputs[0]}/weights"
    return [
        *nodes,
        helper.make_node("Transpose", inputs[:1], [front], perm=to_front),
        helper.make_node(name, [front, *inputs[1:]], [back], name=node.name, **attributes),
        helper.make_node("Transpose", [back], outputs[:1], perm=to_back),
    ]


def _weights_last(sizer: Sizer, inputs: Sequence[str], attributes: Mapping[str, Any]) -> bool:
    """Whether weights have their channels last, too, as QONNX turns them; other tools leave them."""
    channels, sizes = sizer.sizes[inputs[0]][-1], sizer.sizes[inputs[1]]
    last = sizes[-1] * attributes.get("group", 1) == channels
    return last and [*sizes[1:-1]] == [*attributes.get("kernel_shape", sizes[1:-1])]


def _learning_nodes(node: onnx.NodeProto, sizer: Sizer) -> list[onnx.NodeProto]:
    """An operator of scikit-learn's models as nodes of ONNX."""
    first, made = node.input[0], node.output[0]
    if node.op_type in _SAME:
        return [helper.make_node("Identity", [first], [made], name=node.name)]
    if node.op_type == "Normalizer":
        return [helper.make_node("LpNormalization", [first], [made], name=node.name, axis=-1)]
    if node.op_type == "ArrayFeatureExtractor":
        return [helper.make_node("Gather", node.input, [made], name=node.name, axis=-1)]
    features = sizer.sizes[first][-1]
    columns = len(attributes_of(node)["coefficients"]) // features
    weights = f"{made}/coefficients"
    sizer.weigh(onnx.TensorProto(name=weights, data_type=onnx.TensorProto.FLOAT, dims=[features, columns]))
    scores = node.output[1] if node.op_type == "LinearClassifier" else made
    nodes = [helper.make_node("MatMul", [first, weights], [scores], name=node.name)]
    if node.op_type == "LinearClassifier" and made:
        nodes.append(helper.make_node("ArgMax", [scores], [made], axis=-1, keepdims=0))
    return nodes
