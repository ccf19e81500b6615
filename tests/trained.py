"""Trained networks in ONNX files, for what is quantised."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.helper import make_node as node


def saved(folder: Path, nodes, outputs, size, weights, version: int = 17) -> Path:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", *size])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder / "net.onnx"


def alexnet_cifar10(folder: Path, narrower: int = 1) -> Path:
    """The layers of the shipped table with exits behind its first two pools; weights are random (He), by a seed.

    Each has the given number of times fewer channels.
    """
    rng, weights, nodes, source, channels = np.random.default_rng(7), {}, [], "x", 3

    def head(number: int, source: str, inner: int) -> None:
        weights[f"f{number}.w"] = rng.normal(0, inner**-0.5, (10, inner)).astype(np.float32)
        weights[f"f{number}.b"] = rng.normal(0, 0.3, 10).astype(np.float32)
        nodes.append(node("Flatten", [source], [f"flat{number}"]))
        nodes.append(node("Gemm", [f"flat{number}", f"f{number}.w", f"f{number}.b"], [f"fc{number}"], transB=1))
        nodes.append(node("Softmax", [f"fc{number}"], [f"e{number}"], axis=1))

    for number, (most, pooled) in enumerate([(64, 1), (192, 1), (384, 0), (256, 0), (256, 1)], 1):
        out = most // narrower
        spread = (2 / (9 * channels)) ** 0.5
        weights[f"c{number}.w"] = rng.normal(0, spread, (out, channels, 3, 3)).astype(np.float32)
        weights[f"c{number}.b"] = rng.normal(0, 0.1, out).astype(np.float32)
        names = [source, f"c{number}.w", f"c{number}.b"]
        nodes.append(node("Conv", names, [f"conv{number}"], name=f"conv{number}", pads=[1] * 4))
        nodes.append(node("Relu", [f"conv{number}"], [f"r{number}"]))
        source, channels = f"r{number}", out
        if pooled:
            nodes.append(node("MaxPool", [source], [f"p{number}"], kernel_shape=[2, 2], strides=[2, 2]))
            source = f"p{number}"
        if number < 3:
            nodes.append(node("GlobalAveragePool", [source], [f"g{number}"]))
            head(number, f"g{number}", out)
    head(3, source, 4 * 4 * channels)
    return saved(folder, nodes, ["e1", "e2", "e3"], (3, 32, 32), weights)


class _Convs:
    """Nodes of convolutions with random weights, by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng, self.nodes = np.random.default_rng(seed), []
        self.weights: dict[str, object] = {"zero": np.float32(0), "six": np.float32(6)}

    def conv(self, name: str, source: str, shape: tuple[int, ...], act: str = "Clip", **more: object) -> str:
        """With a bias, then ReLU6 or a rectifier, if any."""
        inner = shape[1] * shape[2] * shape[3]
        self.weights[f"{name}.w"] = self.rng.normal(0, (8 / inner) ** 0.5, shape).astype(np.float32)
        self.weights[f"{name}.b"] = self.rng.normal(0, 0.5, shape[0]).astype(np.float32)
        more = {"pads": [shape[2] // 2, shape[3] // 2] * 2} | more
        self.nodes.append(node("Conv", [source, f"{name}.w", f"{name}.b"], [name], name=name, **more))
        if act:
            bounds = ["zero", "six"] if act == "Clip" else []
            self.nodes.append(node(act, [name, *bounds], [f"{name}.act"]))
        return f"{name}.act" if act else name

    def head(self, number: int, source: str, channels: int) -> None:
        """An exit: the mean over the positions, and a product."""
        self.weights[f"m{number}"] = self.rng.normal(0, 1, (channels, 5)).astype(np.float32)
        self.nodes.append(node("GlobalAveragePool", [source], [f"g{number}"]))
        self.nodes.append(node("Flatten", [f"g{number}"], [f"flat{number}"]))
        self.nodes.append(node("MatMul", [f"flat{number}", f"m{number}"], [f"e{number}"]))


def residual_blocks(folder: Path) -> Path:
    """A block of ResNet whose shortcut is a convolution, an exit, a block of MobileNetV2, another sum; no pools."""
    made = _Convs(11)
    conv, nodes = made.conv, made.nodes
    stem = conv("stem", "x", (4, 3, 3, 3), "Relu")
    two = conv("two", conv("one", stem, (3, 4, 1, 1), "Relu"), (3, 3, 3, 3), "Relu", strides=[2, 2])
    wide, down = conv("wide", two, (6, 3, 1, 1), ""), conv("down", stem, (6, 4, 1, 1), "", strides=[2, 2])
    nodes += [node("Add", [wide, down], ["first"], name="first"), node("Relu", ["first"], ["first.act"])]
    conv("e1", "first.act", (5, 6, 5, 5), "", pads=[0] * 4)
    deep = conv("deep", conv("expand", "first.act", (9, 6, 1, 1)), (9, 1, 3, 3), group=9)
    nodes.append(node("Add", ["first.act", conv("project", deep, (6, 9, 1, 1), "")], ["second"], name="second"))
    nodes.append(node("Add", [conv("last", "second", (6, 6, 3, 3), ""), "second"], ["third"], name="third"))
    conv("e2", "third", (5, 6, 5, 5), "", pads=[0] * 4)
    return saved(folder, nodes, ["e1", "e2"], (3, 10, 9), made.weights)


def blocks(folder: Path) -> Path:
    """A block of MobileNetV2, an exit, a block as of Inception-v3; weights are random, by a seed."""
    made = _Convs(9)
    rng, weights, nodes, conv, head = made.rng, made.weights, made.nodes, made.conv, made.head

    def joined(name: str, *sources: str) -> str:
        nodes.append(node("Concat", list(sources), [name], name=name, axis=1))
        return name

    stem = conv("stem", "x", (4, 3, 3, 3), strides=[2, 2])
    deep = conv("deep", conv("wide", stem, (8, 4, 1, 1)), (8, 1, 3, 3), group=8)
    nodes.append(node("Add", [stem, conv("thin", deep, (4, 8, 1, 1), "")], ["sum"]))
    head(1, "sum", 4)
    # branches, two of them part once more, and a pool before the last one
    nodes.append(node("MaxPool", ["sum"], ["pool"], kernel_shape=[3, 3], pads=[1] * 4))
    three = conv("three", conv("before", "sum", (3, 4, 1, 1), "Relu"), (2, 3, 3, 3), "Relu")
    fork = joined("fork", conv("across", three, (2, 2, 1, 3), "Relu"), conv("down", three, (3, 2, 3, 1), "Relu"))
    all_ = joined(
        "all", conv("one", "sum", (3, 4, 1, 1), "Relu"), "pool", fork, conv("end", "pool", (2, 4, 1, 1), "Relu")
    )
    # the whole is read twice, a part of it alone
    more = joined("more", conv("twice", all_, (3, 14, 3, 3), "Relu"), conv("again", all_, (2, 14, 1, 1), "Relu"))
    nodes.append(node("Conv", [fork, "alone.w"], ["alone"], name="alone"))
    weights["alone.w"] = rng.normal(0, 0.5, (2, 5, 1, 1)).astype(np.float32)
    head(2, joined("most", more, "alone"), 7)
    return saved(folder, nodes, ["e1", "e2"], (3, 10, 9), weights)


def pools(folder: Path) -> Path:
    """A stem with a pool, a block as of Inception-v3 with pools in its branches, two exits; weights by a seed."""
    made = _Convs(4)
    nodes, conv, head = made.nodes, partial(made.conv, act="Relu"), made.head

    def pool(name: str, source: str, kind: str, kernel: int, stride: int, **more: object) -> str:
        more |= {"count_include_pad": 1} if kind == "AveragePool" else {}
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        nodes.append(node(kind, [source], [name], name=name, **shape, **more))
        return name

    first = pool("first", conv("stem", "x", (4, 3, 3, 3)), "MaxPool", 3, 2, pads=[1] * 4)
    mean = pool("mean", first, "AveragePool", 3, 1, pads=[1] * 4)
    most = pool("most", first, "MaxPool", 3, 1, pads=[1] * 4)
    branches = [conv("one", first, (3, 4, 1, 1)), conv("behind", mean, (2, 4, 1, 1)), most]
    nodes.append(node("Concat", branches, ["all"], name="all", axis=1))
    head(1, "all", 9)
    part = pool("part", "all", "MaxPool", 2, 2, ceil_mode=1)
    wide = conv("wide", pool("few", part, "AveragePool", 2, 1), (6, 9, 1, 1))
    head(2, conv("deep", wide, (6, 1, 3, 3), group=6), 6)
    return saved(folder, nodes, ["e1", "e2"], (3, 13, 11), made.weights)
